// The command line of gpulens and the commands of this folder. Each Run… returns the exit code.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace gpulens {

struct DoctorOptions {
  std::string config_file;
  bool json = false;
};

// Reports the findings of the agent that runs on this machine, or those of this process when none answers. 0
// fine, 1 limited (no permission, or a warning), 2 a fault or a bad configuration. What is absent and was not
// asked for by the configuration never counts.
int RunDoctor(const DoctorOptions& options);

// Each returns the exit code: 0 good, 2 bad configuration. `file` as for the agent.
int RunConfigCheck(const std::string& file);
int RunConfigPrint(const std::string& file);
int RunConfigSchema(const std::string& format);  // yaml, json or md
// Writes a short configuration into a new file; "-" is standard output, empty the file that the agent reads
// by default. 1: it is there already, or cannot be written.
int RunConfigInit(const std::string& file);

struct ExplainOptions {
  std::vector<std::string> words;  // "79", "xid 79", "gpu.power.draw", "gpu_temperature", "vllm"
  bool json = false;
};

// 0 printed, 2 a word that no table has.
int RunExplain(const ExplainOptions& options);

struct MetricsOptions {
  std::string name;              // empty: all; a native or Prometheus name, or one of `names`
  std::string format = "table";  // table, md, json
  std::string names;             // whose; empty: native
  bool json = false;             // the same as the format json
  bool rules = false;            // the rules by which readings are believed, instead
};

// 0 printed, 2 no such metric or names.
int RunMetrics(const MetricsOptions& options);

// The description of a metric by its native, Prometheus or other name. Empty
// for an unknown name; `nearest` is then the native or Prometheus name that is most like it, or empty.
std::string MetricPage(const std::string& name, std::string& nearest);

// All metrics of `names`, in lines of at most `width` columns; 0: one metric a line, of any length.
std::string MetricsTable(const std::string& names, size_t width);

// The rules by which readings are rejected, in lines of at most `width` columns; 0: the table of
// docs/quality.md.
std::string MetricRules(size_t width);

// The page docs/metrics.md.
std::string MetricsMarkdown();

// 0 done, 1 failed while running, 2 wrong use or configuration; doctor's own codes are in its help.
int RunCommandLine(int argc, char** argv);

}  // namespace gpulens

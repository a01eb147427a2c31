// The command line of gpulens and the commands of this folder. Each Run… returns the exit code.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/loader.h"

namespace CLI {
class App;
}

namespace gpulens {

// Explains "79", "xid 79", "gpu.power.draw", "gpu_temperature" or "vllm". Returns 0 when printed, 2 for an
// unknown word.
int RunExplain(const std::vector<std::string>& words, bool json);

// Describes a metric by its native, Prometheus or other name. Empty for an unknown name; `nearest` is then
// the nearest native or Prometheus name, or empty.
std::string MetricPage(const std::string& name, std::string& nearest);

// All metrics of `names`, in lines of at most `width` columns; 0: one metric a line, of any length.
std::string MetricsTable(const std::string& names, size_t width);

// The rules by which readings are rejected, in lines of at most `width` columns; 0: the table of
// docs/quality.md.
std::string MetricRules(size_t width);

// The page docs/metrics.md.
std::string MetricsMarkdown();

// Runs a command. Returns 0 when done, 1 for a failure, 2 for wrong use or configuration; doctor and check
// have codes of their own.
int RunCommandLine(int argc, char** argv);

// Returns the path of the agent's control socket by this configuration. Empty or "none": there is none.
std::string ControlSocketOf(const Config& config);

struct AgentQuestion {
  std::string who;      // "gpulens gpu", for complaints
  std::string command;  // one line
  std::string socket;   // empty: as configured
  std::string config_file;
};

// Prints the answer, split at each ';' into lines, on stdout, or an error on stderr. Returns the exit code: 0
// done, 1 not done, 2 wrong configuration.
int QueryAndPrint(const AgentQuestion& question);

// Returns the state of the agent's NVML reader process; empty when no agent answers.
std::string QueryDriverStatus(const Config& config);

// Whether the word after `reader` names a library.
bool IsDriverProcess(std::string_view library) noexcept;

// Runs with the `arguments` after `reader`. Ends the process without clean-up: threads may hang in a library.
[[noreturn]] void RunReaderProcess(std::span<const std::string_view> arguments);

struct SimOptions {
  std::string replay_file, config_file;
  bool replays = false;  // run an agent with the recording
};

// Adds `sim`. A replay only sets `replays`; the caller then runs the agent. `options` outlives the app.
void AddSim(CLI::App& app, SimOptions& options, int& code);

}  // namespace gpulens

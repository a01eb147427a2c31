// Options and commands of older tools, as `collect` and its aliases accept them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "config/loader.h"
#include "plugins/plugin.h"

namespace CLI {
class App;
}

namespace gpulens {

// Completes a key that was given without its group: "bearer_token" is "transport.bearer_token".
std::string PlacedOption(std::span<const OptionSpec> options, std::string_view key);

// One `-o KEY=VALUE` under the sink's own names. Translates otel_endpoint of the sink otlp to endpoint, a
// time without a unit to seconds, verify_ssl to the opposite of tls.insecure_skip_verify, and file_path,
// which may be a folder, to the path of metrics.jsonl in it.
struct SinkOption {
  std::string key, value;  // "endpoint", "tls.insecure_skip_verify"
  bool known = false;      // the sink has it
  bool older = false;      // the name of an older tool for this sink
};
SinkOption SinkOptionOf(const SinkSpec& sink, std::string_view given, std::string_view value);

// The default path of the sink `file`.
inline constexpr std::string_view kMetricsFile = "metrics.jsonl";

// Splits each "KEY=VALUE" of -o. kInvalidArgument: one has no "=".
Result<std::vector<std::pair<std::string, std::string>>> SplitPairs(const std::vector<std::string>& pairs);

// Finds the option `key` of a table, also within groups: "tls.ca_file". Null when there is none.
const OptionSpec* FindOption(std::span<const OptionSpec> options, std::string_view key);

// Options that the l9gpu project has before its commands: `-d`, `--detach` and `--config FILE`.
struct LeadingOptions {
  std::vector<std::string> arguments;  // without the program's name
  bool detach = false;
};
// Removes them from the arguments; the file is moved behind the command.
LeadingOptions TakeLeadingOptions(int argc, char** argv);

// Continues in a background process with its own session. Returns false in the original process, which ends.
bool Detach();

// An option of older tools that has no effect here, and why.
struct IgnoredOption {
  const char* option;
  bool flag;
  const char* why;
};

// Adds options that `gpulens <command_name>` accepts and reports to have no effect. The name and the options
// outlive `command`.
void AddIgnoredOptions(CLI::App& command, std::string_view command_name,
                       std::span<const IgnoredOption> options);

// Translates log levels of Python ("WARNING") into ours ("warn").
std::string OlderLogLevels(std::string text);

// The options metric_resource_attributes.KEY and log_resource_attributes.KEY of any sink: attributes of the
// one resource that metrics and logs share.
class OlderResource {
 public:
  // Returns false for other options. kInvalidArgument: it has no key, different values for metrics and logs,
  // or a comma, which separates attributes.
  Result<bool> Take(std::string_view given, std::string_view value);
  // Adds the attributes that were taken.
  void AddTo(std::vector<FlagValue>& flags) const;

 private:
  std::vector<std::pair<std::string, std::string>> taken_;
};

}  // namespace gpulens

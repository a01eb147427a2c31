// What older tools call the options of sinks, as `-o KEY=VALUE` of `collect` and of its other names.
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

// The key of an option that may be given without the group that it is in: "bearer_token" is
// "transport.bearer_token".
std::string PlacedOption(std::span<const OptionSpec> options, std::string_view key);

// One `-o KEY=VALUE` under the sink's own names: otel_endpoint of the sink otlp is its endpoint, a time
// without a unit is seconds, verify_ssl is tls.insecure_skip_verify the other way round, and file_path may be
// a folder, in which metrics.jsonl is written.
struct SinkOption {
  std::string key, value;  // "endpoint", "tls.insecure_skip_verify"
  bool known = false;      // the sink has it
  bool older = false;      // a name that only older tools have, and only for this sink
};
SinkOption SinkOptionOf(const SinkSpec& sink, std::string_view given, std::string_view value);

// The default path of the sink `file`.
inline constexpr std::string_view kMetricsFile = "metrics.jsonl";

// The option `key` of a table, through groups: "tls.ca_file"; null when there is none.
const OptionSpec* FindOption(std::span<const OptionSpec> options, std::string_view key);

// The replacement for a command of older tools; empty for any other word.
std::string InsteadOfCommand(std::string_view word);

// What the l9gpu project has before its commands: `-d`, `--detach` and `--config FILE`. They are taken out,
// and the file is put behind the command.
struct LeadingOptions {
  std::vector<std::string> arguments;  // without the program's name
  bool detach = false;
};
LeadingOptions TakeLeadingOptions(int argc, char** argv);

// Goes on in the background, in a session of its own. False in the process that was started: it is done.
bool Detach();

// An option of older tools that has no meaning here, and why.
struct IgnoredOption {
  const char* option;
  bool flag;
  const char* why;
};

// Adds options that are accepted and reported to have no effect by `gpulens <command_name>`. Both outlive
// `command`.
void AddIgnoredOptions(CLI::App& command, std::string_view command_name,
                       std::span<const IgnoredOption> options);

// Levels of a log in their words, those of Python ("WARNING"), as ours ("warn").
std::string OlderLogLevels(std::string text);

// metric_resource_attributes.KEY and log_resource_attributes.KEY, which any sink may be given: attributes of
// the one resource that metrics and logs have here.
class OlderResource {
 public:
  // False: this is another option. kInvalidArgument: it has no key, or one value for metrics and another for
  // logs, or a comma, which divides attributes.
  Result<bool> Take(std::string_view given, std::string_view value);
  // What was taken, for the loader.
  void AddTo(std::vector<FlagValue>& flags) const;

 private:
  std::vector<std::pair<std::string, std::string>> taken_;
};

}  // namespace gpulens

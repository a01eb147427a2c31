#include "agent/run/config_file.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "agent/run/plan.h"
#include "base/files.h"

extern char** environ;

namespace gpulens {
namespace {

constexpr const char* kSystemFile = "/etc/gpulens/gpulens.yaml";
constexpr size_t kFileLimit = 1 << 20;

std::vector<EnvironmentVariable> Environment() {
  std::vector<EnvironmentVariable> out;
  for (char** entry = environ; *entry; ++entry) {
    std::string_view text = *entry;
    size_t equals = text.find('=');
    if (equals != text.npos)
      out.push_back({std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))});
  }
  return out;
}

}  // namespace

std::string FindConfigFile(const std::string& named) {
  if (!named.empty()) return named;
  const char* variable = ::getenv("GPULENS_CONFIG");
  if (variable && *variable) return variable;
  return ::access(kSystemFile, R_OK) == 0 ? kSystemFile : "";
}

LoadOutcome LoadConfig(const Schema& schema, const std::string& file, const std::vector<FlagValue>& flags) {
  ConfigSources sources;
  sources.environment = Environment();
  sources.flags = flags;
  sources.expand = true;
  std::vector<std::string> files;
  sources.read = [&files](const std::string& path) {
    files.push_back(path);
    return ReadValueFile(path);
  };
  if (!file.empty()) {
    files.push_back(file);
    Result<std::string> text = ReadFile(file, kFileLimit);
    if (!text) {
      LoadOutcome outcome = Load(schema, sources);
      Diagnostic problem;
      problem.file = file;
      problem.message = "cannot be read: " + text.error().detail;
      outcome.errors = {problem};
      outcome.error_count = 1;
      outcome.error_files = file;
      outcome.files = std::move(files);
      return outcome;
    }
    sources.file_name = file;
    sources.file_text = std::move(*text);
  }
  LoadOutcome outcome = Load(schema, sources);
  outcome.files = std::move(files);
  return outcome;
}

CommandConfig LoadCommandConfig(const std::string& file, std::string (LoadOutcome::*report)() const,
                                const std::vector<FlagValue>& flags) {
  CommandConfig out{MakeSchema(), {}};
  out.loaded = LoadConfig(*out.schema, FindConfigFile(file), flags);
  const std::string text = report ? (out.loaded.*report)() : "";
  if (!text.empty()) ::dprintf(STDERR_FILENO, "%s", text.c_str());
  return out;
}

std::string StateDir(const std::string& configured) {
  if (!configured.empty()) return configured;
  // systemd lists several folders with colons between.
  if (const char* given = ::getenv("STATE_DIRECTORY"); given && *given) {
    std::string first(given);
    return first.substr(0, first.find(':'));
  }
  if (::geteuid() == 0) return "/var/lib/gpulens";
  if (const char* state = ::getenv("XDG_STATE_HOME"); state && *state == '/')
    return std::string(state) + "/gpulens";
  if (const char* home = ::getenv("HOME"); home && *home == '/')
    return std::string(home) + "/.local/state/gpulens";
  return {};
}

std::string DemoStateDir(const std::string& state_dir) {
  return state_dir.empty() ? "" : state_dir + "/demo";
}

void ReportOfStateFolder(const std::string& folder) {
  if (folder.empty())
    return Log(LogLevel::kWarn, "agent", "no_state_folder",
               "no state folder: queues, events and learned values are not kept; set state_dir.");
  const FileAnswer answer = InspectFolder(folder);
  if (answer.problem.empty()) return;
  Log(LogLevel::kWarn, "agent", "state_folder",
      "the state folder " + folder + " cannot be used (" + answer.problem +
          "): queues, events and learned values are not kept. " + answer.hint);
}

LogOptions LogOptionsFor(const Config& log) {
  LogOptions options;
  const std::string& format = log.Text("format");
  bool journal = format == "journal" || (format == "auto" && ::getenv("JOURNAL_STREAM") != nullptr);
  options.format = format == "json" ? LogFormat::kJson : journal ? LogFormat::kJournal : LogFormat::kText;
  options.utc = ::isatty(STDERR_FILENO) == 0;
  return options;
}

}  // namespace gpulens

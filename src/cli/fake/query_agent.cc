#include "cli/fake/query_agent.h"

#include <unistd.h>

#include <cstdio>

#include "agent/control/control_command.h"
#include "agent/control/control_socket.h"
#include "agent/run/config_file.h"
#include "agent/run/plan.h"
#include "base/parse.h"
#include "base/text.h"
#include "cli/table/text_table.h"

namespace gpulens {
namespace {

// Longer than the agent itself waits for the end of a reader process.
constexpr Duration kTimeout = std::chrono::seconds(30);

}  // namespace

std::string ControlSocketOf(const Config& config) {
  const std::string& path = config.Group("control").Text("socket");
  return path.empty() ? DefaultControlSocket() : path;
}

int QueryAndPrint(const AgentQuestion& question) {
  std::string path = question.socket;
  if (path.empty()) {
    std::unique_ptr<Schema> schema = MakeSchema();
    LoadOutcome loaded = LoadConfig(*schema, FindConfigFile(question.config_file), {});
    std::string report = loaded.Errors();
    if (!report.empty()) ::dprintf(STDERR_FILENO, "%s", report.c_str());
    if (!loaded.ok()) return 2;
    path = ControlSocketOf(loaded.config);
  }
  if (path.empty() || path == "none") {
    WriteNote(question.who + ": there is no control socket; set one with --socket");
    return 1;
  }
  Result<std::string> answer = QueryAgent(path, question.command, kTimeout);
  if (!answer) {
    bool away = answer.error().code == Code::kUnavailable;
    WriteNote(question.who + ": " + answer.error().detail +
              (away ? "; is the agent running, as this user or as root?" : ""));
    return 1;
  }
  std::string text;
  AppendPrintable(text, *answer);
  if (text.starts_with("ok ")) {
    std::string_view rest = std::string_view(text).substr(3);
    while (!rest.empty()) {
      std::string_view line = TakeUntil(rest, ';');
      std::printf("%.*s\n", static_cast<int>(line.size()), line.data());
    }
    return 0;
  }
  WriteNote(question.who + ": " + (text.starts_with("error ") ? text.substr(6) : text));
  return 1;
}

}  // namespace gpulens

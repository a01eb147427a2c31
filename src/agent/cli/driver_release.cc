#include "agent/cli/driver_release.h"

#include <unistd.h>

#include <cstdio>

#include "agent/control/control_command.h"
#include "agent/control/control_socket.h"
#include "agent/run/config_file.h"
#include "agent/run/plan.h"
#include "base/text.h"

namespace gpulens {
namespace {

// Longer than the agent itself waits for the end of a driver process.
constexpr Duration kPatience = std::chrono::seconds(30);
constexpr Duration kStatusPatience = std::chrono::seconds(2);

std::string SocketOf(const Config& config) {
  const std::string& path = config.Group("control").Text("socket");
  return path.empty() ? DefaultControlSocket() : path;
}

}  // namespace

int RunDriverOrder(const DriverOrder& order) {
  std::string command = "nvml " + order.verb + (order.length.empty() ? "" : " " + order.length);
  if (Result<ControlCommand> good = ParseControlCommand(command); !good) {
    ::dprintf(STDERR_FILENO, "gpulens driver: %s\n", good.error().detail.c_str());
    return 2;
  }
  std::string path = order.socket;
  if (path.empty()) {
    std::unique_ptr<Schema> schema = MakeSchema();
    LoadOutcome loaded = LoadConfig(*schema, FindConfigFile(order.config_file), {});
    std::string report = loaded.Report();
    if (!report.empty()) ::dprintf(STDERR_FILENO, "%s", report.c_str());
    if (!loaded.ok()) return 2;
    path = SocketOf(loaded.config);
  }
  Result<std::string> answer = AskAgent(path, command, kPatience);
  if (!answer) {
    bool away = answer.error().code == Code::kUnavailable;
    ::dprintf(STDERR_FILENO, "gpulens driver: %s%s\n", answer.error().detail.c_str(),
              away ? "; does the agent run, and as this user or root?" : "");
    return 1;
  }
  std::string text;
  AppendPrintable(text, *answer);
  if (text.starts_with("ok ")) {
    std::printf("%s\n", text.substr(3).c_str());
    return 0;
  }
  ::dprintf(STDERR_FILENO, "gpulens driver: %s\n",
            text.starts_with("error ") ? text.substr(6).c_str() : text.c_str());
  return 1;
}

std::string AskDriverStatus(const Config& config) {
  std::string path = SocketOf(config);
  if (path.empty() || path == "none") return {};
  Result<std::string> answer = AskAgent(path, "nvml status", kStatusPatience);
  std::string text;
  if (answer && answer->starts_with("ok ")) AppendPrintable(text, std::string_view(*answer).substr(3));
  return text;
}

}  // namespace gpulens

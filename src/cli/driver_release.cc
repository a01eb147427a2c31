#include "cli/driver_release.h"

#include <unistd.h>

#include <cstdio>

#include "agent/control/control_command.h"
#include "agent/control/control_socket.h"
#include "base/text.h"
#include "cli/fake/query_agent.h"
#include "cli/table/text_table.h"

namespace gpulens {
namespace {

constexpr Duration kStatusTimeout = std::chrono::seconds(2);

}  // namespace

int RunDriverOrder(const DriverOrder& order) {
  std::string command = "nvml " + order.verb + (order.length.empty() ? "" : " " + order.length);
  if (Result<ControlCommand> good = ParseControlCommand(command); !good) {
    WriteNote("gpulens gpu: " + good.error().detail);
    return 2;
  }
  return QueryAndPrint({"gpulens gpu", command, order.socket, order.config_file});
}

std::string QueryDriverStatus(const Config& config) {
  std::string path = ControlSocketOf(config);
  if (path.empty() || path == "none") return {};
  Result<std::string> answer = QueryAgent(path, "nvml status", kStatusTimeout);
  std::string text;
  if (answer && answer->starts_with("ok ")) AppendPrintable(text, std::string_view(*answer).substr(3));
  return text;
}

}  // namespace gpulens

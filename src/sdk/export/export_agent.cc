// OTLP to the agent of this machine.
#include <gpulens/export.h>

#include <unistd.h>

#include "base/parse.h"
#include "sdk/export/exporter_seat.h"
#include "sdk/export/otlp_plan.h"
#include "sdk/export/push_job.h"
#include "sdk/export/transport.h"

namespace gpulens {
namespace {

using namespace sdk;
using std::chrono::seconds;

constexpr std::string_view kOfTheMachine = "/run/gpulens/otlp.sock";

std::string OfTheUser() {
  const std::string folder = ProcessEnvironment("XDG_RUNTIME_DIR");
  return folder.starts_with('/') ? folder + "/gpulens/otlp.sock" : std::string();
}

// Current path of the agent's socket; it may change when an agent starts later.
std::string FindSocket() {
  std::string user = OfTheUser();
  if (!user.empty() && ::access(kOfTheMachine.data(), F_OK) != 0 && ::access(user.c_str(), F_OK) == 0)
    return user;
  return std::string(kOfTheMachine);
}

// HTTP/1.1 requires a Host header.
HttpUrl AgentUrl() {
  HttpUrl url;
  url.host = "localhost";
  url.port = 80;
  url.target = "/v1/metrics";
  return url;
}

class AgentTransport final : public PlainTransport {
 public:
  explicit AgentTransport(std::string socket)
      : PlainTransport(AgentUrl(), "User-Agent: gpulens-sdk\r\n"), socket_(std::move(socket)) {}

  Delivered Send(std::shared_ptr<const std::string> request, Duration timeout) override {
    return SendTo(socket_.empty() ? FindSocket() : socket_, *request, timeout);
  }
  std::string address() const override { return "unix:" + (socket_.empty() ? FindSocket() : socket_); }

 private:
  const std::string socket_;  // empty: looked for
};

}  // namespace

Exporter ExportToAgent(const AgentOptions& options, Registry& registry) {
  if (Disabled(&ProcessEnvironment))
    return Exporter(ExporterSeat::Empty({Code::kUnavailable, "OTEL_SDK_DISABLED switches it off"}));
  const Duration interval = options.interval > Duration(0)
                                ? options.interval
                                : TimeIn(&ProcessEnvironment, "OTEL_METRIC_EXPORT_INTERVAL", seconds(10));
  std::string socket = options.socket.empty() ? ProcessEnvironment("GPULENS_SOCKET") : options.socket;
  if (socket.starts_with("unix:")) socket.erase(0, 5);
  return Exporter(ExporterSeat::Take([socket, interval, &registry]() -> std::shared_ptr<ExportJob> {
    PushJob::Options push{.registry = &registry,
                          .interval = interval,
                          .timeout = seconds(5),
                          .resource = ProcessResource(),
                          .peer = "agent at " + (socket.empty() ? FindSocket() : socket)};
    return std::make_shared<PushJob>(std::move(push), std::make_unique<AgentTransport>(socket));
  }));
}

}  // namespace gpulens

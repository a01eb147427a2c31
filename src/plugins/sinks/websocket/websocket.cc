// ws://…:9092: the zernel telemetry API's stream.
//
// Clients get the frame of the latest tick, which the hub has: a snapshot that is written only says when.

#include <algorithm>

#include "base/result.h"
#include "plugins/sinks/websocket/push_stream.h"

namespace gpulens {
namespace {

// A client that does not answer our goodbye is not waited for longer than this.
constexpr Duration kGoodbye = std::chrono::seconds(1);

class WebSocketSink final : public Sink {
 public:
  WebSocketSink(std::unique_ptr<PushStream> stream, const Clock& clock)
      : stream_(std::move(stream)), clock_(clock) {}
  Status Write(const Snapshot&) override {
    stream_->Ticked();
    return Ok();
  }
  Status Flush(Instant deadline) override {
    stream_->Close(std::clamp<Duration>(deadline - clock_.Now(), Duration(0), kGoodbye));
    return Ok();
  }

 private:
  const std::unique_ptr<PushStream> stream_;
  const Clock& clock_;
};

Result<std::unique_ptr<Sink>> Create(const Config& config, Env& env) {
  if (!env.io || !env.latest)
    return Status{Code::kInvalidArgument, "the websocket sink needs the agent's I/O loop"};
  PushStream::Options options;
  options.listen = config.Texts("listen");
  options.interval = config.Time("push_interval");
  if (config.Has("allowed_origins")) options.allowed_origins = config.Texts("allowed_origins");
  ASSIGN_OR_RETURN(auto stream, PushStream::Open(options, env));
  return std::unique_ptr<Sink>(std::make_unique<WebSocketSink>(std::move(stream), *env.clock));
}

constexpr OptionSpec kOptions[] = {
    {.key = "listen",
     .type = OptionType::kTexts,
     .fallback = R"(["127.0.0.1:9092", "[::1]:9092"])",
     .help = "Where the WebSocket stream is served."},
    {.key = "push_interval",
     .type = OptionType::kTime,
     .fallback = "1s",
     .help = "How often a frame is sent to each client, with the tick that has just closed.",
     .min = 0.01,
     .max = 86400},
    {.key = "allowed_origins",
     .type = OptionType::kTexts,
     .fallback = "[]",
     .help = "Web pages elsewhere that may connect, as https://grafana.example.org; * allows all."},
};

}  // namespace

extern const SinkSpec websocket_sink;
const SinkSpec websocket_sink{
    .name = "websocket",
    .help = "A WebSocket stream that sends the latest state at every push interval.",
    .on_by_default = true,
    .options = kOptions,
    .create = &Create,
    .root_key = "websocket"};

}  // namespace gpulens

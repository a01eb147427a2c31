// Common parts of receivers: the HTTP server, options, and the receiver of an OtlpIngest with its
// transports.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "base/result.h"
#include "ingest/otlp_ingest.h"
#include "net/http/http_server.h"
#include "net/server/server.h"
#include "plugins/config.h"
#include "plugins/listening.h"
#include "plugins/plugin.h"
#include "plugins/receiver.h"

namespace gpulens {

// The HTTP server of a receiver: addresses, limits, TLS and passwords, and an orderly shutdown.
class ReceiverHttp {
 public:
  struct Options {
    PluginListen at;
    size_t max_request = 16u << 20;
    size_t max_arriving = 32u << 20;  // bytes of incomplete requests
    size_t connections = 512;
    size_t transport = 0;  // index in OtlpIngest::Options
  };

  // Serves once it returns. `env` has an I/O loop; it and `handler` outlive the object.
  static Result<std::unique_ptr<ReceiverHttp>> Open(const Options& options, Env& env, HttpHandler& handler);

  // Accepts no more connections and requests; those in flight are answered until `deadline`. Not on the
  // loop; returns at once.
  void Close(Duration timeout);
  // True when every connection is gone.
  bool AwaitClosed(Duration timeout) { return closed_->Await(timeout); }
  std::vector<Endpoint> addresses() const { return server_->addresses(); }

 private:
  ReceiverHttp(const Options& options, Env& env, HttpHandler& handler);

  std::vector<std::shared_ptr<SharedSocket>> sockets_;
  const std::shared_ptr<CloseEvent> closed_ = std::make_shared<CloseEvent>();
  std::unique_ptr<HttpServer> server_;
};

// Adds Retry-After in whole seconds; none for 0.
void AddRetryAfter(HttpResponse& response, Duration after);

inline constexpr OptionSpec kIngestBatchOptions[] = {
    IntOption("items", "1000", "Most points, records or spans in one request to the sinks.", 1, 1'000'000),
    TimeOption("wait", "0s", "How long a request and its answer may wait for others to be batched with it.",
               0, 10),
};

inline constexpr OptionSpec kIngestMemoryOptions[] = {
    NumberOption("limit", OptionType::kDouble, "0.8", "The share of limits.memory that the agent may use.", 0,
                 1),
    NumberOption("spike", OptionType::kDouble, "0.25",
                 "The share of it that is kept free for bursts; senders must retry later before it is used.",
                 0, 1),
};

inline constexpr std::array<OptionSpec, 6> kIngestOptions = {{
    BoolOption("insecure", false, "Accept other machines without TLS and passwords; for closed networks."),
    SizeOption("max_request", "16MiB", "The largest request, compressed and uncompressed.", 1024, 64 << 20),
    IntOption("max_connections", "512", "Most open connections; more are refused and counted.", 1, 65536),
    TextsOption("drop", R"(["go_*", "python_*", "*_created"])",
                "Metrics to leave out and count; * matches any text."),
    GroupOption("batch", "How requests are merged and split.", kIngestBatchOptions),
    GroupOption("memory_limiter", "When senders must retry later.", kIngestMemoryOptions),
}};

// `config` is of a receiver that has kIngestOptions. `transports` are static.
OtlpIngest::Options ReadIngestOptions(const Config& config, const ReceiverContext& context,
                                      std::vector<std::string_view> transports);
// The same for its HTTP side, whose addresses are `http.listen`.
ReceiverHttp::Options ReadHttpOptions(std::string_view receiver, const Config& config,
                                      const ReceiverContext& context);

// A receiver of an OtlpIngest and its transports. A transport, such as OtlpHttp, has Options, Open(options,
// env, ingest), Close(timeout) and AwaitClosed(timeout).
template <class... Transports>
class IngestReceiver final : public Receiver {
 public:
  IngestReceiver(OtlpIngest::Options options, const ReceiverContext& context)
      : clock_(*context.env.clock), ingest_(std::move(options), context) {}
  // Answers use a transport until the last sink has answered.
  ~IngestReceiver() override { ingest_.Finish(); }

  template <class Transport>
  Status Open(const typename Transport::Options& options, Env& env) {
    ASSIGN_OR_RETURN(std::get<std::unique_ptr<Transport>>(transports_),
                     Transport::Open(options, env, ingest_));
    return Ok();
  }

  // Stops accepting first, then processes and answers what was accepted.
  void Stop(Instant deadline) override {
    const auto left = [&] { return std::max<Duration>(deadline - clock_.Now(), Duration(0)); };
    ForEachTransport([&](auto& transport) { transport.Close(left()); });
    ingest_.Finish();
    ForEachTransport([&](auto& transport) { transport.AwaitClosed(left()); });
  }

  void ReadStats(ReceiverStats& out) const override { ingest_.ReadStats(out); }

 private:
  // Calls `act` for each opened transport.
  template <class Do>
  void ForEachTransport(Do act) {
    std::apply([&](auto&... transport) { ((transport ? void(act(*transport)) : void()), ...); }, transports_);
  }

  const Clock& clock_;
  OtlpIngest ingest_;
  std::tuple<std::unique_ptr<Transports>...> transports_;
};

}  // namespace gpulens

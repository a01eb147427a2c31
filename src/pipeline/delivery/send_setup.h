// Network sinks: their spec, common options, and the conversion of a configuration to the setup of a sender.
//
// A network sink encodes into a request log (LogWriter), from which a sender delivers. Sinks that differ only
// in their destination share one encoder and one log.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "core/received_otlp.h"
#include "delivery/record.h"
#include "delivery/request_log.h"
#include "delivery/request_sender.h"
#include "net/message/address.h"
#include "plugins/config.h"
#include "plugins/plugin.h"
#include "plugins/remote_access.h"

namespace gpulens {

// Appends the requests of an encoder to a log. Used by the sink's thread.
class LogWriter {
 public:
  explicit LogWriter(std::shared_ptr<RequestLog> log) : log_(std::move(log)) { log_->AddWriter(); }
  ~LogWriter() { log_->RemoveWriter(); }
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Copies `body`. `key`: index of the request within its snapshot; requests of a key stay in order. A
  // request above the bound of the log counts as dropped, without an error.
  Status Append(uint8_t kind, std::string_view body, uint32_t items, uint32_t key = 0);
  const std::shared_ptr<RequestLog>& log() const noexcept { return log_; }

 private:
  const std::shared_ptr<RequestLog> log_;
  std::string record_;
};

// Description of a receiver by its sink. Becomes a SendSetup, with the options below.
struct SendPlan {
  std::string name;                        // of the sink
  std::vector<std::string_view> signals;   // names in metrics; static storage
  std::vector<SendRoute> routes;           // by Envelope::kind
  std::vector<std::vector<HttpUrl>> urls;  // by endpoint and signal
  std::function<SendOutcome(const HttpReply& reply, size_t route)> validate;
  std::function<SendOutcome(const GrpcReply& reply, size_t route)> classify_call = {};
  size_t answer_bytes = 64u << 10;  // of an answer, at most
  std::string_view keep = {};       // as HttpResponseParser::Limits has it
  // As in SendSetup, with the envelope removed. Without it a body is sent unchanged.
  std::function<Status(const Envelope& envelope, std::string&& body, uint32_t items, SendParts& parts)>
      prepare = {};
  std::function<Status(SendPart& part)> rework = {};
  std::string format = {};
};

// Part of the SinkSpec of a sink that sends over a network. Static storage.
struct NetworkSink {
  // Options of the destination, in addition to kDestinationOptions: sinks that differ only in these share an
  // encoder.
  std::span<const std::string_view> destination = {};
  // Creates the encoder of the agent's own data. Its Flush does not wait for the delivery.
  Result<std::unique_ptr<Sink>> (*encoder)(const Config& config, Env& env,
                                           std::unique_ptr<LogWriter> log) = nullptr;
  Result<SendPlan> (*plan)(const std::string& name, const Config& config) = nullptr;
  // Compression that it prefers for received data: an index of kOtlpPackings. Null: it sends none.
  size_t (*packing)(const Config& config) = nullptr;
  // Received signals that it sends: a bit for each OtlpSignal.
  uint32_t (*takes)(const Config& config) = nullptr;
  // Whether it sends remote-write data by remote write.
  bool remote_write = false;
  // Signals to encode by the options of `destination`: "metrics logs". May be null.
  std::string (*signals)(const Config& config) = nullptr;
};

// The option `endpoints`, or `one` if it is empty.
std::vector<std::string> EndpointsOf(const Config& config, const std::string& one);
// kInvalidArgument for options that contradict each other.
Result<std::shared_ptr<const SendSetup>> MakeSendSetup(SendPlan plan, const Config& config);
// The configuration without the options of the destination.
Config EncoderConfig(const Config& config, const NetworkSink& network);
// Whether the sink sends data of this source; without the option `sources`, only its own.
bool SendsSource(const Config& config, RecordSource source);
// For PickEndpoint: by the URL of the first signal.
uint64_t EndpointHash(const std::vector<HttpUrl>& urls);
// Bounds of the queue on disk; in memory see MemoryBytes.
ReaderBounds BoundsOf(const Config& config);
// A log for the sink, in its own folder, or `folder`, where it has none; empty: in memory.
RequestLogOptions LogOptionsOf(const Config& config, const std::string& folder);
// How much may wait in memory where so much may wait on disk.
uint64_t MemoryBytes(uint64_t disk_bytes) noexcept;

// The options that every network sink has for what waits and how it is sent. Static storage.

inline constexpr std::string_view kQueueStorages[] = {"disk", "memory"};
inline constexpr std::string_view kBalances[] = {"failover", "hash"};

inline constexpr std::string_view kRetriedStatuses[] = {
    "401", "403", "404", "408", "409", "425", "500", "501", "505", "507", "520", "521", "522", "523", "524"};

inline constexpr OptionSpec kQueueOptions[] = {
    {.key = "storage",
     .fallback = "disk",
     .help =
         "Where undelivered data waits. Memory holds an eighth as much, and loses it when the agent ends.",
     .allowed = kQueueStorages},
    TextOption("dir", {}, "Folder of the queue; default: queue/ and the sink's name in the state folder."),
    SizeOption("max_bytes", "256MiB", "Size of the queue; then the oldest data is dropped and counted.",
               8 << 20),
    TimeOption("max_age", "0s", "Drop and count older data; 0s: never.", 0),
    TextOption("fsync", "interval", "When the queue is synced to disk.", kSyncPolicies),
};

inline constexpr OptionSpec kRetryOptions[] = {
    TimeOption("initial", "1s", "The longest wait before the first retry.", 0.01),
    TimeOption("max", "60s", "The longest wait before any retry.", 0.01),
    TextsOption("statuses", {}, "Further HTTP statuses to retry, in addition to 429, 502, 503 and 504.",
                kRetriedStatuses),
};

// Options of every network sink.
inline constexpr auto kSendOptions = JoinOptions(
    std::to_array<OptionSpec>({
        TextsOption("sources", R"(["own", "otlp", "remote_write"])",
                    "Data to send: `own`, and receivers by name."),
        TextsOption("endpoints", {}, "Several receivers instead of one."),
        TextOption("balance", "failover",
                   "With several receivers: the first that works, or one for each resource (hash).",
                   kBalances),
        IntOption("in_flight", "1", "Concurrent requests for each receiver; each series stays in order.", 1,
                  32),
        GroupOption("queue", "The queue of undelivered data.", kQueueOptions),
        GroupOption("retry", "Retries after a failure.", kRetryOptions),
    }),
    kRemoteOptions);

}  // namespace gpulens

// What a network sink is made of beside its encoder, and how its configuration becomes a sender's setup.
//
// A network sink encodes into a request log (LogWriter); a sender takes the requests out of it again and
// delivers them. Sinks that differ only in where and how they send share one encoder and one log.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "core/received_otlp.h"
#include "delivery/envelope.h"
#include "delivery/request_log.h"
#include "delivery/request_sender.h"
#include "net/message/address.h"
#include "plugins/plugin.h"

namespace gpulens {

// Where the encoder of a sink puts its requests. Used by the sink's thread.
class LogWriter {
 public:
  explicit LogWriter(std::shared_ptr<RequestLog> log) : log_(std::move(log)) { log_->AddWriter(); }
  ~LogWriter() { log_->RemoveWriter(); }
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Copies `body`. `key`: of the requests of one snapshot, whose series stay in order by it. What is larger
  // than the whole log is counted as lost there, and no error.
  Status Append(uint8_t kind, std::string_view body, uint32_t items, uint32_t key = 0);
  const std::shared_ptr<RequestLog>& log() const noexcept { return log_; }

 private:
  const std::shared_ptr<RequestLog> log_;
  std::string record_;
};

// What a sink says of its receiver. Becomes a SendSetup with the options of send_options.h.
struct SendPlan {
  std::string name;                        // of the sink
  std::vector<std::string_view> signals;   // as metrics name them; static storage
  std::vector<SendRoute> routes;           // by Envelope::kind
  std::vector<std::vector<HttpUrl>> urls;  // by endpoint and signal
  std::function<SendOutcome(const HttpReply& reply, size_t route)> validate;
  std::function<SendOutcome(const GrpcReply& reply, size_t route)> classify_call = {};
  size_t answer_bytes = 64u << 10;  // of an answer, at most
  std::string_view keep = {};       // as HttpResponseParser::Limits has it
  // As in SendSetup; the envelope is off already. Without it a body is sent as it is.
  std::function<Status(const Envelope& envelope, std::string&& body, uint32_t items, SendParts& parts)>
      prepare = {};
  std::function<Status(SendPart& part)> rework = {};
  std::string format = {};
};

// Of a SinkSpec whose sink sends over a network. Static storage.
struct NetworkSink {
  // Options that say where and how it sends, beside those of kDestinationOptions: sinks of a kind that differ
  // in these alone are encoded once.
  std::span<const std::string_view> destination = {};
  // Makes what writes the agent's own data. Its Flush does not wait for the delivery.
  Result<std::unique_ptr<Sink>> (*encoder)(const Config& config, Env& env,
                                           std::unique_ptr<LogWriter> log) = nullptr;
  Result<SendPlan> (*plan)(const std::string& name, const Config& config) = nullptr;
  // How it would have received data packed: an index of kOtlpPackings. Null: it sends none.
  size_t (*packing)(const Config& config) = nullptr;
  // Which signals it sends of what is received: a bit for each OtlpSignal.
  uint32_t (*takes)(const Config& config) = nullptr;
  // It sends what came by remote write as it came.
  bool remote_write = false;
  // What the options of `destination` say of what is encoded: "metrics logs". May be null.
  std::string (*signals)(const Config& config) = nullptr;
};

// The endpoints that a sink's configuration names: `endpoints`, else the one it is given.
std::vector<std::string> EndpointsOf(const Config& config, const std::string& one);
// kInvalidArgument for options that contradict each other.
Result<std::shared_ptr<const SendSetup>> MakeSendSetup(SendPlan plan, const Config& config);
// The configuration without what says where and how is sent.
Config EncoderConfig(const Config& config, const NetworkSink& network);
// Whether the sink sends data of this source; without the option `sources`, only its own.
bool SendsSource(const Config& config, RecordSource source);
// For PickEndpoint: by the URL of the first signal.
uint64_t EndpointHash(const std::vector<HttpUrl>& urls);
// Of what waits on disk; in memory less may wait, see MemoryBytes.
ReaderBounds BoundsOf(const Config& config);
// A log for the sink, in its own folder, or `folder`, where it has none; empty: in memory.
RequestLogOptions LogOptionsOf(const Config& config, const std::string& folder);
// How much may wait in memory where so much may wait on disk.
uint64_t MemoryBytes(uint64_t disk_bytes) noexcept;

}  // namespace gpulens

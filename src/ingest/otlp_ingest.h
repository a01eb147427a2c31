// Ingestion of received requests: a thread that decodes, checks, enriches, merges or splits them, hands them
// to the sinks, and answers each once it is on disk or delivered. Independent of HTTP, gRPC and the original
// wire format.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "ingest/received_identity.h"
#include "net/message/address.h"
#include "plugins/receiver.h"
#include "wire/otlp/otlp_batch.h"
#include "wire/packing.h"

namespace gpulens {

// Limits memory like the Collector's memory_limiter: above `share` less `spike` of the limit, senders must
// retry later. Not thread-safe.
class MemoryLimiter {
 public:
  struct Options {
    uint64_t limit = 0;  // bytes; 0: none
    double share = 0.8, spike = 0.25;
  };
  // Returns the memory that the program uses; 0: unknown, nothing is refused.
  using Used = std::function<uint64_t()>;

  MemoryLimiter(Options options, const Clock& clock, Used used);

  // False while the program uses too much. Measures at most ten times a second.
  bool HasRoom();
  uint64_t soft_limit() const noexcept { return soft_; }

 private:
  const uint64_t soft_;
  const Clock& clock_;
  const Used used_;
  int64_t looked_ns_ = -1, trimmed_ns_ = -1;
  bool room_ = true;
};

// Counts of a decoder, for the answer of its transport.
struct DecodedParts {
  uint64_t samples = 0, histograms = 0, exemplars = 0;
};

// Outcome of a request.
struct OtlpAnswer {
  enum Kind : uint8_t {
    kAccepted,     // perhaps with rejected items
    kMalformed,    // must not be retried
    kTooLarge,     // the same
    kOverloaded,   // retry after retry_after
    kUnavailable,  // the same
  } kind = kAccepted;
  std::string message = {};
  uint64_t rejected = 0;
  Duration retry_after = {};
  DecodedParts parts = {};
};

struct OtlpCall;

// Decodes requests to OTLP. Called by the ingest thread only.
class IngestDecoder {
 public:
  struct Decoded {
    std::string_view request;  // protobuf, in the body or in memory of the decoder, until its next call
    uint64_t rejected = 0;     // items that could not be converted
    std::string why;           // reason; empty: that of the check of the other items
    DecodedParts parts;
  };
  // kExhausted when it is larger than `most` bytes in any form; else an error for malformed bytes.
  virtual Status Decode(const OtlpCall& call, size_t most, Decoded& out) = 0;

 protected:
  ~IngestDecoder() = default;
};

struct OtlpCall {
  OtlpSignal signal = OtlpSignal::kMetrics;
  IngestDecoder* decoder = nullptr;  // outlives the ingest thread; null: the body is protobuf
  uint32_t format = 0;               // format of the body, for the decoder
  bool relayed = false;              // the sender relays data of others (e.g. a Collector)
  size_t transport = 0;              // index in OtlpIngest::Options::transports
  Endpoint peer;
  std::string body;
  // Called once, from any thread.
  std::function<void(const OtlpAnswer& answer)> answer;
};

// State shared by the ingest thread, the sinks' threads and the transports; callbacks may outlive all of
// them.
struct OtlpInFlight {
  void CountAnswer(size_t transport, OtlpSignal signal, std::string_view code);

  mutable std::mutex mutex;  // guards what follows
  std::condition_variable completed;
  size_t count = 0;     // requests that sinks have not answered
  bool ending = false;  // do not wait for sinks
  std::vector<ReceiverStats::Transport> transports;
};

class OtlpIngest {
 public:
  struct Options {
    RecordSource source = RecordSource::kOtlp;
    std::vector<std::string_view> transports;  // "otlp/http"; static storage
    std::vector<std::string> unwanted;         // names of metrics, with wildcards
    size_t max_request = 16u << 20;            // unpacked
    size_t max_waiting = 32u << 20;            // bytes of waiting requests
    OtlpBatch::Limits batch;
    Duration batch_wait{};                       // how long a request may wait for others
    Duration timeout = std::chrono::seconds(5);  // for a sink that is busy
    ReceivedIdentity::Options identity;
    MemoryLimiter::Options memory;
  };

  // Starts the thread. The arguments outlive it.
  OtlpIngest(Options options, const ReceiverContext& context);
  ~OtlpIngest();  // Finish

  // Accepts a request, from any thread. Refuses it immediately when there is no space.
  void Take(OtlpCall call);
  // Processes waiting requests and ends the thread. Call once.
  void Finish();
  void ReadStats(ReceiverStats& out) const;
  // For transports, to count their answers.
  const std::shared_ptr<OtlpInFlight>& in_flight() const noexcept { return in_flight_; }
  const OtlpForward& forward() const noexcept { return forward_; }

 private:
  struct Open;
  using Opens = std::vector<std::shared_ptr<Open>>;
  struct Queue;

  void Run();
  void Process(OtlpCall call);
  void Refuse(const OtlpCall& call, OtlpAnswer answer, uint64_t items);
  void Send(Queue& queue, std::string bytes, uint32_t items);
  void FlushOlder(Duration age);
  Status Begin();
  bool AwaitRoom();

  const Options options_;
  const NameFilter unwanted_;
  const Clock& clock_;
  OtlpForward& forward_;
  ReceivedObserver* const observer_;
  const IdentityTable table_;
  // Used by the thread only.
  ReceivedIdentity identity_;
  OtlpScan scan_;
  IngestDecoder::Decoded decoded_;
  OtlpPacker packer_;
  std::array<std::unique_ptr<Queue>, kOtlpSignals> queues_;

  const std::shared_ptr<OtlpInFlight> in_flight_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  MemoryLimiter memory_;
  std::deque<OtlpCall> waiting_;
  size_t waiting_bytes_ = 0;
  bool ending_ = false;

  std::thread thread_;
};

}  // namespace gpulens

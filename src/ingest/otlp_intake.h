// The thread that takes requests in: makes OTLP of them, checks, enriches, merges or splits them, hands them
// to the sinks, and answers each once all of it is on disk or delivered. Knows nothing of HTTP or gRPC, and
// nothing of what was OTLP before it was decoded.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ingest/memory_limiter.h"
#include "ingest/received_identity.h"
#include "net/message/address.h"
#include "plugins/receiver.h"
#include "wire/otlp/otlp_batch.h"
#include "wire/packing.h"

namespace gpulens {

// What a decoder counted in a request; its transport's answer may tell it.
struct DecodedParts {
  uint64_t samples = 0, histograms = 0, exemplars = 0;
};

// What a request came to.
struct OtlpAnswer {
  enum Kind : uint8_t {
    kAccepted,     // with what of it was not
    kMalformed,    // never acceptable
    kTooLarge,     // the same
    kOverloaded,   // come again after retry_after
    kUnavailable,  // the same
  } kind = kAccepted;
  std::string message = {};
  uint64_t rejected = 0;
  Duration retry_after = {};
  DecodedParts parts = {};
};

struct OtlpCall;

// Makes OTLP of what a sender sent. Called by the intake's thread alone.
class IntakeDecoder {
 public:
  struct Decoded {
    std::string_view request;  // protobuf; of the call's body or of the decoder's memory, until its next call
    uint64_t rejected = 0;     // items that are not in it, since they cannot be passed on
    std::string why;           // of those; empty: what the check of the rest finds is told
    DecodedParts parts;
  };
  // kExhausted: larger than `most` bytes in any form; else what is wrong with the bytes.
  virtual Status Decode(const OtlpCall& call, size_t most, Decoded& out) = 0;

 protected:
  ~IntakeDecoder() = default;
};

struct OtlpCall {
  OtlpSignal signal = OtlpSignal::kMetrics;
  IntakeDecoder* decoder = nullptr;  // outlives the intake's thread; null: the body is protobuf
  uint32_t format = 0;               // what the decoder has to know of the body
  bool relayed = false;              // its sender tells what others measured, by default
  size_t way = 0;                    // of OtlpIntake::Options::ways
  Endpoint peer;
  std::string body;
  // Called once, from any thread.
  std::function<void(const OtlpAnswer& answer)> answer;
};

// What the intake, the sinks' threads and the transports share; callbacks may outlive all three.
struct OtlpInFlight {
  void CountAnswer(size_t way, OtlpSignal signal, std::string_view code);

  mutable std::mutex mutex;  // guards what follows
  std::condition_variable landed;
  size_t flying = 0;    // requests that sinks have and have not answered
  bool ending = false;  // no sink is waited for any more
  std::vector<ReceiverStats::Way> ways;
};

class OtlpIntake {
 public:
  struct Options {
    RecordSource source = RecordSource::kOtlp;
    std::vector<std::string_view> ways;  // "otlp/http"; static storage
    std::vector<std::string> unwanted;   // names of metrics, with stars
    size_t max_request = 16u << 20;      // unpacked
    size_t max_waiting = 32u << 20;      // bytes of requests that wait for this thread
    OtlpBatch::Limits batch;
    Duration batch_wait{};                       // how long an answer may be kept back for more to come
    Duration timeout = std::chrono::seconds(5);  // for a sink that is busy
    ReceivedIdentity::Options identity;
    MemoryLimiter::Options memory;
  };

  // Starts the thread. What is referred to outlives it.
  OtlpIntake(Options options, const ReceiverContext& context);
  ~OtlpIntake();  // Finish

  // Any thread. Refuses at once, with an answer, what there is no room for.
  void Take(OtlpCall call);
  // Takes no more, does what waits, and ends the thread. Call once.
  void Finish();
  void ReadStats(ReceiverStats& out) const;
  // Where transports count their answers.
  const std::shared_ptr<OtlpInFlight>& flight() const noexcept { return flight_; }
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
  const IdentityTable table_;
  // The thread's own.
  ReceivedIdentity identity_;
  OtlpScan scan_;
  IntakeDecoder::Decoded decoded_;
  OtlpPacker packer_;
  std::array<std::unique_ptr<Queue>, kOtlpSignals> queues_;

  const std::shared_ptr<OtlpInFlight> flight_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  MemoryLimiter memory_;
  std::deque<OtlpCall> waiting_;
  size_t waiting_bytes_ = 0;
  bool ending_ = false;

  std::thread thread_;
};

}  // namespace gpulens

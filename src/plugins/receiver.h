// The contract of receivers: plugins that take in what others send and hand it to the sinks.
//
// What is received goes to sinks as bytes. It is accepted, and its sender hears so, once it is in the request
// log on disk, or delivered; until then the sender keeps it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "core/received_otlp.h"
#include "plugins/plugin.h"

namespace gpulens {

// The way from receivers to sinks. Thread-safe.
class OtlpForward {
 public:
  using Done = std::function<void(Status)>;
  virtual ~OtlpForward() = default;
  // Whether any sink takes what is received.
  virtual bool wanted() const = 0;
  // How a request is to be packed: an index of kOtlpPackings.
  virtual size_t packing() const = 0;
  // Whether all that comes by remote write leaves by it alone, so that it may hold what OTLP cannot.
  virtual bool carries_histograms() const { return false; }
  // `done` is called once, from any thread, also from inside: ok when the request is on disk for every sink,
  // or was delivered; kExhausted when there is no room now, or the disk cannot keep it and no receiver took
  // it; kInvalidArgument when no sink sends this signal.
  virtual void Forward(const ReceivedOtlp& received, Done done) = 0;
};

// What became of what came in. A plain value.
struct ReceiverStats {
  struct OfSignal {
    uint64_t accepted = 0;  // points, records, spans: kept for every sink
    uint64_t refused = 0;   // their sender was told to come again, or that they are too much
    uint64_t rejected = 0;  // cannot be passed on; the rest of their request was accepted
    uint64_t filtered = 0;  // not wanted
    std::map<std::string, uint64_t, std::less<>> requests;  // by the status of the answer
  };
  struct Way {
    std::string_view name;  // "otlp/http"; static storage
    std::array<OfSignal, kOtlpSignals> signals;
    uint64_t received_bytes = 0;  // as they came, packed
  };
  std::vector<Way> ways;
};

class Receiver {
 public:
  virtual ~Receiver() = default;
  // Takes no more; what is under way is forwarded and answered until `deadline`. Call once, not on the I/O
  // loop.
  virtual void Stop(Instant deadline) = 0;
  // Fills `out`, whose memory is used again. Any thread.
  virtual void ReadStats(ReceiverStats& out) const = 0;
};

// Who describes entities: the enrichers, all together. Thread-safe; empty functions: nobody does.
struct EntityDescriber {
  std::function<AttributeSet(const Entity&)> describe;
  std::function<uint64_t()> generation;  // moves when an answer may have changed
};

// All that a receiver may use. What is referred to outlives it.
struct ReceiverContext {
  Env& env;
  OtlpForward& forward;
  AttributeSet stated;        // of everything that leaves, as the configuration states it
  std::string host_name;      // of this machine
  uint64_t memory_limit = 0;  // of the whole program; 0: none
  EntityDescriber describer;  // of pods, containers, GPUs
};

struct ReceiverSpec {
  std::string_view name, help;
  bool on_by_default = false;
  std::span<const OptionSpec> options = {};
  // Serves when it returns.
  Result<std::unique_ptr<Receiver>> (*create)(const Config& config, const ReceiverContext& context) = nullptr;
  ConfigCheck check = nullptr;
};

}  // namespace gpulens

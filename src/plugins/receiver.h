// Interface of receivers: plugins that accept data of other programs and forward it to the sinks.
//
// Received data goes to sinks as encoded OTLP. It is acknowledged once it is in the request log on disk, or
// delivered; until then its sender keeps it.
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

// Forwards from receivers to sinks. Thread-safe.
class OtlpForward {
 public:
  using Done = std::function<void(Status)>;
  virtual ~OtlpForward() = default;
  // Whether any sink accepts received data.
  virtual bool has_sink() const = 0;
  // Compression of requests: an index of kOtlpPackings.
  virtual size_t packing() const = 0;
  // Whether remote-write data leaves by remote write only, so that it may have histograms that OTLP cannot
  // hold.
  virtual bool carries_histograms() const { return false; }
  // `done` is called once, from any thread, also before Forward returns: ok when the request is on disk for
  // every sink, or was delivered; kExhausted without space, or when neither disk nor a receiver accepted it;
  // kInvalidArgument when no sink sends this signal.
  virtual void Forward(const ReceivedOtlp& received, Done done) = 0;
};

// Sees received data that is accepted, before it is forwarded. Thread-safe; receivers wait for it.
class ReceivedObserver {
 public:
  virtual ~ReceivedObserver() = default;
  // `request` is an Export…ServiceRequest as protobuf, plain, as its sender sent it or as it was converted.
  // It can be read, but may have items that are rejected or filtered.
  virtual void Observe(OtlpSignal signal, std::string_view request) = 0;
};

// Counters of a receiver. A plain value.
struct ReceiverStats {
  struct OfSignal {
    uint64_t accepted = 0;                                  // points, records, spans that every sink has
    uint64_t refused = 0;                                   // too large, or to be sent again later
    uint64_t rejected = 0;                                  // invalid parts of accepted requests
    uint64_t filtered = 0;                                  // left out by `drop`
    std::map<std::string, uint64_t, std::less<>> requests;  // by the status of the answer
  };
  struct Transport {
    std::string_view name;  // "otlp/http"; static storage
    std::array<OfSignal, kOtlpSignals> signals;
    uint64_t received_bytes = 0;  // compressed
  };
  std::vector<Transport> transports;
};

class Receiver {
 public:
  virtual ~Receiver() = default;
  // Stops receiving; requests in progress are forwarded and answered until `deadline`. Call once, not on the
  // I/O loop.
  virtual void Stop(Instant deadline) = 0;
  // Fills `out`, reusing its memory. Any thread.
  virtual void ReadStats(ReceiverStats& out) const = 0;
};

// The merged enrichers. Thread-safe; the functions may be empty.
struct EntityDescriber {
  std::function<AttributeSet(const Entity&)> describe;
  std::function<uint64_t()> generation;  // changes when a result may have changed
};

// Services for a receiver, which outlive it.
struct ReceiverContext {
  Env& env;
  OtlpForward& forward;
  AttributeSet stated;        // configured attributes of all exported data
  std::string host_name;      // of this machine
  uint64_t memory_limit = 0;  // of the program; 0: none
  EntityDescriber describer;  // of pods, containers, GPUs
};

struct ReceiverSpec {
  std::string_view name, help;
  bool on_by_default = false;
  std::span<const OptionSpec> options = {};
  // Returns after it has started to serve.
  Result<std::unique_ptr<Receiver>> (*create)(const Config& config, const ReceiverContext& context) = nullptr;
  ConfigCheck check = nullptr;
};

}  // namespace gpulens

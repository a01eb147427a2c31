// Plugin interfaces, and the specs by which plugins are registered.
//
// A plugin is one folder with one `extern const …Spec`, and one line in src/plugins/KIND.def. From the spec
// follow its configuration key, its command, its page in the catalogue and its self-metrics.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "core/frame.h"
#include "core/frame_writer.h"
#include "plugins/config.h"
#include "plugins/rights.h"

namespace gpulens {
namespace collectives {
class BatchQueue;
}

class Authenticator;
class EventQueue;
class HttpClient;
class IoLoop;
class PageRegistry;
class Workers;
struct AgentStats;
class LatestSnapshot;
struct NetworkSink;

inline constexpr size_t kCodes = 8;  // values of Code: errors are counted by it

// Services of the program for plugins. Outlives every plugin. The types document their thread-safety; null
// members are not available in this program (no network in `collect` of a local source).
struct Env {
  const Clock* clock = &RealClock();
  std::string root = "/";                            // where /proc and /sys are found
  std::string state_dir;                             // writable; empty: nothing is stored
  bool demo = false;                                 // GPU series are simulated and marked so
  IoLoop* io = nullptr;                              // for waiting
  HttpClient* http = nullptr;                        // for Fetch
  Workers* workers = nullptr;                        // for work too long for the I/O loop
  const LatestSnapshot* latest = nullptr;            // for pull sinks
  PageRegistry* pages = nullptr;                     // for pull sinks
  Authenticator* authenticator = nullptr;            // for sinks that listen
  EventQueue* events = nullptr;                      // for reporting events; null: none are exported
  AgentStats* stats = nullptr;                       // null outside `gpulens agent`
  class GpuPodTable* gpu_pods = nullptr;             // pods by GPU; null: not shown
  class ReaderControl* nvml = nullptr;               // commands for the NVML reader; null: none
  const class SimulatedOwners* simulated = nullptr;  // of simulated GPUs; null: they have none
  class ReceivedObserver* received = nullptr;        // sees received data; null: none does
  class JobPages* job_pages = nullptr;  // pages that libraries inside jobs write; null: none are read
  collectives::BatchQueue* collectives = nullptr;  // of other agents; null: none are received
};

// Waits for data. `Fetch` runs on the I/O loop, does not block it, and calls `done` exactly once, from any
// thread, by `deadline`. Default: nothing to wait for.
class Fetcher {
 public:
  virtual ~Fetcher() = default;
  virtual bool fetches() const noexcept { return false; }
  virtual void Fetch(Instant deadline, std::function<void(Status)> done) {
    static_cast<void>(deadline);
    done(Ok());
  }
};

// Turns readings into values of its series. `Collect` runs on a worker, one run at a time, after a successful
// Fetch, and never waits. Values that were set before an error are published; the others turn stale.
class Collector : public Fetcher {
 public:
  virtual Status Collect(FrameWriter& out) = 0;
  // Whether the last run only started its reader process: its status is not ok, and no error.
  virtual bool starting() const noexcept { return false; }
};

// Derives values from one snapshot and nothing else. Runs on a worker, one tick at a time.
class Analyzer {
 public:
  virtual ~Analyzer() = default;
  virtual Status Analyze(const Snapshot& snapshot, FrameWriter& out) = 0;
};

// Describes entities, not single series. Fetch updates the results; the other functions return them, to any
// thread, also during a Fetch. `generation` changes when a result changed.
class Enricher : public Fetcher {
 public:
  bool fetches() const noexcept override { return true; }
  virtual uint64_t generation() const noexcept = 0;
  // Further attributes of an entity, by its attributes, facts and parents; empty for an unknown one. The
  // entity's own attributes take precedence. Its parents are not described in addition, so that a process of
  // one pod does not inherit the pod that holds its GPU.
  virtual AttributeSet Describe(const Entity& entity) const {
    return static_cast<void>(entity), AttributeSet();
  }
  // Attributes of the machine; the configured resource takes precedence.
  virtual AttributeSet Resource() const { return {}; }
  // Number of entities it could not resolve (access denied, unknown IDs).
  virtual uint64_t missing() const { return 0; }
};

// A target that a discovery found: one more element of the list `targets`. A plain value.
struct FoundTarget {
  std::string name;  // the agent makes it unique
  std::string url;
  std::map<std::string, std::string> options;  // as in the file; "transport.timeout" of a group
  std::map<std::string, std::string> attributes;

  friend bool operator==(const FoundTarget&, const FoundTarget&) = default;
};

// Finds targets of collectors. Fetch updates them, on workers if it reads files; Targets is called on the I/O
// loop after a Fetch, never during one, and returns the complete current set. A failed Fetch keeps the
// previous set.
class Discovery : public Fetcher {
 public:
  bool fetches() const noexcept override { return true; }
  virtual std::vector<FoundTarget> Targets() const = 0;
};

// Exports snapshots and events. `Write` and `Flush` are called by the sink's own thread (threaded), or by the
// worker that closes the tick (not threaded; then Write is quick and never waits).
class Sink {
 public:
  virtual ~Sink() = default;
  virtual Status Write(const Snapshot& snapshot) = 0;
  virtual Status Write(const Events& events) { return static_cast<void>(events), Ok(); }
  virtual Status EndStream() { return Ok(); }  // before the Flush when the agent ends, not at a reload
  virtual Status Flush(Instant deadline) { return static_cast<void>(deadline), Ok(); }
};

// A result of `gpulens doctor` about something a plugin needs.
struct Finding {
  // kWarning: it works, but not as it should.
  enum Kind : uint8_t { kFound, kNotHere, kNoPermission, kBroken, kWarning } kind = kFound;
  std::string subject;  // "nvidia"
  std::string what;     // "8 × H100, driver 570.86.10"
  std::string why;      // reason of a problem
  std::string remedy;   // command line, or empty
};

// Adds what the plugin needs with this configuration; its env has `root`, `state_dir` and `demo` alone. What
// is in the state folder, sockets that listen, and the queue of a sink need none. Starts nothing, makes
// nothing.
using RightsHook = void (*)(const Config& config, const Env& env, Rights& out);

struct CollectorSpec {
  std::string_view name, help;
  Duration period{};  // default of `interval`
  Duration ttl{};     // default of `ttl`: how long a value is exported without a newer one
  std::span<const OptionSpec> options = {};
  std::span<const MetricDesc* const> metrics = {};
  // One instance for each element of the root list NAME, with these options; else one, configured by
  // collectors.NAME.
  bool per_target = false;
  bool scraped = false;  // exports pages of other programs: native names take precedence
  Result<std::unique_ptr<Collector>> (*create)(const Config& config, Env& env) = nullptr;
  // Checks, without side effects, whether the collector can work here. With per_target, `config` is the
  // complete configuration.
  std::vector<Finding> (*probe)(const Config& config, Env& env) = nullptr;
  ConfigCheck check = nullptr;  // with per_target, for one target
  RightsHook rights = nullptr;
  bool on_by_default = true;
};

struct AnalyzerSpec {
  std::string_view name, help;
  std::span<const OptionSpec> options = {};
  std::span<const MetricDesc* const> metrics = {};
  Result<std::unique_ptr<Analyzer>> (*create)(const Config& config, Env& env) = nullptr;
  ConfigCheck check = nullptr;
};

struct DiscoverySpec {
  std::string_view name, help;
  bool on_by_default = false;
  Duration period{};                         // between two Fetches
  std::span<const OptionSpec> options = {};  // an option `refresh` replaces the period
  Result<std::unique_ptr<Discovery>> (*create)(const Config& config, Env& env) = nullptr;
  std::vector<Finding> (*probe)(const Config& config, Env& env) = nullptr;  // without side effects
  ConfigCheck check = nullptr;
};

struct EnricherSpec {
  std::string_view name, help;
  bool on_by_default = true;
  Duration period{};                           // between two Fetches
  Duration timeout = std::chrono::seconds(1);  // of one Fetch
  std::span<const OptionSpec> options = {};    // an option `interval` replaces the period
  // kUnavailable when its source is not on this machine; it is tried again later.
  Result<std::unique_ptr<Enricher>> (*create)(const Config& config, Env& env) = nullptr;
  std::vector<Finding> (*probe)(const Config& config, Env& env) = nullptr;
  RightsHook rights = nullptr;
};

struct SinkSpec {
  std::string_view name, help;
  bool threaded = false;  // has a thread and a queue of two snapshots
  bool on_by_default = false;
  std::span<const OptionSpec> options = {};
  Result<std::unique_ptr<Sink>> (*create)(const Config& config, Env& env) = nullptr;
  ConfigCheck check = nullptr;
  bool several = false;                  // may be configured several times: "otlp/b"
  bool sends_new_readings = false;       // Write skips readings already sent; see SnapshotSelector
  bool takes_received = false;           // exports received data, or discards it
  const NetworkSink* network = nullptr;  // of a sink that sends over a network, instead of `create`
  // The group of the root options that configures it, instead of sinks.NAME; it is on while it listens.
  std::string_view root_key = {};
  RightsHook rights = nullptr;
};

}  // namespace gpulens

// Plugin interfaces, and the specs by which plugins are registered.
//
// A plugin is one folder with one `extern const …Spec`, and one line in src/agent/*.def. From the spec follow
// its configuration key, its command, its page in the catalogue and its self-metrics.
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

namespace gpulens {

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

// All that a plugin may touch. Outlives every plugin. What a member points to says itself from which threads
// it may be used; null members do not exist in this program (no network in `collect` of a local source).
struct Env {
  const Clock* clock = &RealClock();
  std::string root = "/";                  // where /proc and /sys are found
  std::string state_dir;                   // may be written; empty: nothing is kept
  bool demo = false;                       // GPU series are simulated and marked so
  IoLoop* io = nullptr;                    // waiting happens here
  HttpClient* http = nullptr;              // for Fetch
  Workers* workers = nullptr;              // for what takes longer than the I/O loop may
  const LatestSnapshot* latest = nullptr;  // for pull sinks
  PageRegistry* pages = nullptr;           // for pull sinks
  Authenticator* authenticator = nullptr;  // for sinks with a listener of their own
  EventQueue* events = nullptr;            // where to report what happened; null: nobody listens
  AgentStats* stats = nullptr;             // null outside `gpulens agent`
  class GpuPodTable* gpu_pods = nullptr;   // which pods hold which GPUs; null: they are not shown
  class DriverControl* nvml = nullptr;     // what is asked of the NVML driver; null: nothing ever is
};

// Waiting. `Fetch` runs on the I/O loop, must not block it, and calls `done` exactly once, from any
// thread, at the latest at `deadline`. Default: nothing to wait for.
class Fetcher {
 public:
  virtual ~Fetcher() = default;
  virtual bool fetches() const noexcept { return false; }
  virtual void Fetch(Instant deadline, std::function<void(Status)> done);
};

// Turns readings into values of its series. `Collect` runs on a worker, one run at a time, and
// never waits; it is called after a Fetch that was ok. A Status that is not ok still publishes what
// was set: the rest turns stale.
class Collector : public Fetcher {
 public:
  virtual Status Collect(FrameWriter& out) = 0;
  // Whether the last run only began what it reads (a reader process): it is not ok, and no error.
  virtual bool starting() const noexcept { return false; }
};

// Derives numbers from one tick; reads nothing else. Runs on a worker, one tick at a time.
class Analyzer {
 public:
  virtual ~Analyzer() = default;
  virtual Status Analyze(const Snapshot& snapshot, FrameWriter& out) = 0;
};

// Describes entities, never single series. Fetch looks; what it found is told by the others, which are called
// by any thread, also during a Fetch. `generation` moves when an answer changed.
class Enricher : public Fetcher {
 public:
  bool fetches() const noexcept override { return true; }
  virtual uint64_t generation() const noexcept = 0;
  // What is known of this thing now, by its attributes, its facts and its parents; empty for one it knows
  // nothing of. It is laid under the entity's own attributes. The parents are not described for it besides,
  // so that a process of one pod does not inherit the pod that holds its GPU.
  virtual AttributeSet Describe(const Entity& entity) const {
    return static_cast<void>(entity), AttributeSet();
  }
  // What is known of the whole machine; it is laid under the configured resource.
  virtual AttributeSet Resource() const { return {}; }
  // How much of what it should tell it cannot: sources that do not let it in, names that nobody explains.
  virtual uint64_t missing() const { return 0; }
};

// A target that a discovery found: one more element of the list `targets`. A plain value.
struct FoundTarget {
  std::string name;  // wanted; the agent makes it unique
  std::string url;
  std::map<std::string, std::string> options;  // further ones, as in the file; "transport.timeout" of a group
  std::map<std::string, std::string> attributes;

  friend bool operator==(const FoundTarget&, const FoundTarget&) = default;
};

// Finds targets of collectors. Fetch looks, on workers where it reads files; Targets is called on the I/O
// loop after a Fetch, never during one, and tells the whole set that stands now. A Fetch that failed
// leaves the old set standing.
class Discovery : public Fetcher {
 public:
  bool fetches() const noexcept override { return true; }
  virtual std::vector<FoundTarget> Targets() const = 0;
};

// Takes snapshots, and events if it wants them. `Write` and `Flush` are called by the sink's own thread
// (threaded) or by the closing worker (not threaded; then Write must be quick and never wait).
class Sink {
 public:
  virtual ~Sink() = default;
  virtual Status Write(const Snapshot& snapshot) = 0;
  virtual Status Write(const Events& events) { return static_cast<void>(events), Ok(); }
  virtual Status EndStream() { return Ok(); }  // before the Flush when the agent ends, not at a reload
  virtual Status Flush(Instant deadline) { return static_cast<void>(deadline), Ok(); }
};

// What `gpulens doctor` says of one thing a plugin needs.
struct Finding {
  // kWarning: it works, but not as it should.
  enum Kind : uint8_t { kFound, kNotHere, kNoPermission, kBroken, kWarning } kind = kFound;
  std::string subject;  // "nvidia"
  std::string what;     // "8 × H100, driver 570.86.10"
  std::string why;      // for problems
  std::string remedy;   // a line one can paste, or empty
};

struct CollectorSpec {
  std::string_view name, help;
  Duration period{};  // default of `interval`
  Duration ttl{};     // default of `ttl`: how long a value not read again is shown
  std::span<const OptionSpec> options = {};
  std::span<const MetricDesc* const> metrics = {};
  // One instance for each element of the configuration's list `targets`, whose options `options` are. Else
  // one instance, configured by the group collectors.NAME.
  bool per_target = false;
  bool scraped = false;  // passes on somebody else's page: native names win over its own
  Result<std::unique_ptr<Collector>> (*create)(const Config& config, Env& env) = nullptr;
  // Looks, without side effects, whether what the collector needs is here. With per_target, `config` is the
  // whole configuration.
  std::vector<Finding> (*probe)(const Config& config, Env& env) = nullptr;
  ConfigCheck check = nullptr;  // with per_target, of one target
};

struct AnalyzerSpec {
  std::string_view name, help;
  std::span<const OptionSpec> options = {};
  std::span<const MetricDesc* const> metrics = {};
  Result<std::unique_ptr<Analyzer>> (*create)(const Config& config, Env& env) = nullptr;
};

struct DiscoverySpec {
  std::string_view name, help;
  bool on_by_default = false;
  Duration period{};                         // how often it looks
  std::span<const OptionSpec> options = {};  // `refresh`, when it is there, replaces the period
  Result<std::unique_ptr<Discovery>> (*create)(const Config& config, Env& env) = nullptr;
  std::vector<Finding> (*probe)(const Config& config, Env& env) = nullptr;  // looks without side effects
};

struct EnricherSpec {
  std::string_view name, help;
  bool on_by_default = true;
  Duration period{};                           // how often it looks
  Duration timeout = std::chrono::seconds(1);  // of one look
  std::span<const OptionSpec> options = {};    // `interval`, when it is there, replaces the period
  // kUnavailable: what it would ask is not on this machine; it is tried again later.
  Result<std::unique_ptr<Enricher>> (*create)(const Config& config, Env& env) = nullptr;
  std::vector<Finding> (*probe)(const Config& config, Env& env) = nullptr;
};

struct SinkSpec {
  std::string_view name, help;
  bool threaded = false;  // gets its own thread and a lane of depth 2
  bool on_by_default = false;
  std::span<const OptionSpec> options = {};
  Result<std::unique_ptr<Sink>> (*create)(const Config& config, Env& env) = nullptr;
  ConfigCheck check = nullptr;
  bool several = false;                  // there may be more of it, under names: "otlp/b"
  bool sends_new_readings = false;       // Write skips readings it has sent; see SnapshotSelector
  bool takes_received = false;           // passes on what receivers take in, or drops it
  const NetworkSink* network = nullptr;  // of a sink that sends over a network; then there is no `create`
};

}  // namespace gpulens

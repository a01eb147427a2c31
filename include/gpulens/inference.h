// A store of inference calls: one record per call, in an SQLite file whose table is that of openjarvis'
// telemetry.db, so that an old file opens as it is and old programs go on reading ours; or in PostgreSQL or
// ClickHouse.
//
//   auto store = gpulens::InferenceStore::Open("telemetry.db");
//   if (!store) return store.error();
//   auto call = store->Begin({.model = "llama-3.1-8b", .engine = "mine"});
//   while (call.Wait([&] { return engine.Next(); })) call.AddTokens(1);
//   call.Finish({.prompt_tokens = 512});
//
// Opening may fail and says so. Recording never fails and never waits: a thread writes what was given, a
// flush interval later at most; what does not fit into its queue is dropped and counted. A record that cannot
// be kept is set aside alone, in the table `telemetry_poison`.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/energy.h>
#include <gpulens/inference_record.h>
#include <gpulens/stats.h>
#include <gpulens/status.h>
#include <gpulens/time.h>

namespace gpulens {

// ---- asking
enum class GroupBy : uint8_t { kAll, kModel, kEngine, kAgent, kBatch, kMinute, kHour, kDay };

// Which records, and how they are grouped. Both times are included. Empty texts: any.
struct Query {
  std::optional<std::chrono::system_clock::time_point> since = {}, until = {};
  GroupBy by = GroupBy::kAll;
  std::string model = {}, engine = {}, agent = {}, batch_id = {};
  bool warmup = false;                                 // also calls that only warmed up
  std::optional<int64_t> token_counting_version = {};  // nullopt: any
  size_t limit = 0;           // groups of Summarize (the largest), records of Each; 0: all
  bool newest_first = false;  // of Each
};

// Means over calls of what is a ratio or a percentile of each: what openjarvis calls averages. A long call
// weighs as much as a short one, so the ratios of InferenceSummary tell more.
struct CallMeans {
  double itl_median_seconds = kNotMeasured, itl_p95_seconds = kNotMeasured;
  double tokens_per_second = kNotMeasured, tokens_per_joule = kNotMeasured;
  double joules_per_output_token = kNotMeasured, tokens_per_second_per_watt = kNotMeasured;
};

// Distributions are over the calls that measured it, which `n` counts; ratios are sums over the calls that
// have both sides.
struct InferenceSummary {
  std::string key;  // of the group; "" of kAll. A time as seconds since 1970, of its beginning
  uint64_t calls = 0, errors = 0, cancelled = 0;
  uint64_t prompt_tokens = 0, prompt_tokens_evaluated = 0, cached_prompt_tokens = 0, completion_tokens = 0,
           total_tokens = 0;
  Distribution latency_seconds, ttft_seconds, energy_joules, cost_usd;
  Distribution itl_seconds;  // of the calls' means
  Distribution gpu_utilization_ratio;
  double prefill_energy_joules = kNotMeasured, decode_energy_joules = kNotMeasured;  // sums
  double joules_per_output_token = kNotMeasured, output_tokens_per_second = kNotMeasured;
  // Over the energy that was measured; of a call without, over its mean watts times its seconds.
  double output_tokens_per_second_per_watt = kNotMeasured;
  // Prompt and completion: what all calls with known energy drew, over their tokens, be it none.
  double joules_per_token = kNotMeasured;
  CallMeans call_means = {};
};

// ---- the store
// From here on stores take clickhouses://…, ClickHouse over TLS. A program that names it links OpenSSL;
// others link none and refuse such a URL. Thread-safe. (PostgreSQL's library has TLS of its own.)
void UseTlsForStores() noexcept;

struct StoreOptions {
  EnergyMonitor* energy = nullptr;  // asked for the share of each call that Begin begins; outlives the store
  size_t queue_records = 16'384;    // that wait for the writer; some 200 bytes each
  Duration flush_interval = std::chrono::seconds(1);
  size_t flush_records = 1024;  // that are written without waiting for the interval
  Duration retention{};         // older records are deleted; zero: nothing is
  bool read_only = false;       // nothing is ever written, not even to a foreign file
};

struct StoreHealth {
  uint64_t stored = 0, queued = 0;
  uint64_t dropped = 0;   // given and lost: the queue was full, or the store closed
  uint64_t rejected = 0;  // set aside, with the reason, in a table of their own
  uint64_t crashed = 0;   // earlier writers that ended without closing, found when this store was opened
  Status last_error;      // of writing; it is tried again
};

namespace internal {
class InferenceCore;
}
class InferenceStore;

// One call, recorded when it ends: by Finish, else as cancelled, and while an exception flies as an error.
// Used by one thread at a time; may outlive its store: then its record is dropped and counted.
class [[nodiscard]] InferenceCall {
 public:
  InferenceCall(InferenceCall&& other) noexcept;
  InferenceCall& operator=(InferenceCall&& other) noexcept;
  ~InferenceCall();

  // Runs what waits for the engine. Once used, only what runs in here is the engine's time; the rest between
  // two tokens is the consumer's.
  template <class F>
  decltype(auto) Wait(F&& engine) {
    struct Scope {
      InferenceCall& call;
      ~Scope() { call.Leave(); }
    };
    Enter();
    Scope scope{*this};
    return std::forward<F>(engine)();
  }
  // The halves of Wait, for those who cannot pass a function. Not nested.
  void Enter() noexcept;
  void Leave() noexcept;

  // So many tokens have arrived at once. The first give the TTFT; a gap before n tokens counts as n gaps of
  // an n-th of it, so that chunks of any size give the time per token.
  void AddTokens(int64_t tokens) noexcept;
  // Why it fails when it is not finished.
  void SetError(std::string_view type) noexcept;
  // What `known` says wins over what was measured here; what it leaves out is taken from here and from Begin.
  void Finish(const InferenceRecord& known = {}) noexcept;
  bool finished() const noexcept { return state_ == nullptr; }

 private:
  friend class InferenceStore;
  struct State;
  explicit InferenceCall(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;  // null: it has ended
};

// Movable; any thread. After a fork the child's first record opens the file anew; what waited in the queue is
// the parent's to write.
class InferenceStore {
 public:
  // `path_or_url`: a file ("~/" is the home folder); postgresql://USER:PASSWORD@HOST/DATABASE, for which
  // libpq.so.5 is opened; or clickhouse://USER:PASSWORD@HOST:8123/DATABASE?table=NAME, its HTTP interface. A
  // new file is readable by its owner alone; folders keep their permissions. kInvalidArgument: an option that
  // cannot be, or a URL of something else; kDataLoss: it is no such database; kUnavailable: no libpq, or no
  // server that answers; kPermissionDenied: one that does not let us in; else why it cannot be opened.
  static Result<InferenceStore> Open(std::string_view path_or_url, const StoreOptions& options = {});
  InferenceStore(InferenceStore&&) noexcept;
  InferenceStore& operator=(InferenceStore&&) noexcept;
  // Writes what waits, for 5 s at most.
  ~InferenceStore();

  void Record(const InferenceRecord& record) noexcept;
  // `known` is kept for the record.
  InferenceCall Begin(const InferenceRecord& known) noexcept;

  // Waits until what was given before is stored or set aside.
  Status Flush(Duration timeout = std::chrono::seconds(5));
  // Once; what is recorded afterwards is dropped and counted.
  Status Close(Duration timeout = std::chrono::seconds(5));
  StoreHealth health() const;
  // Of a server the URL without password and parameters.
  const std::string& path() const noexcept;

  // These flush first, then read what is stored, by other programs, too. Groups in the order of calls, most
  // first; of times in their order.
  Result<std::vector<InferenceSummary>> Summarize(const Query& query = {}) const;
  // Oldest first. False from `on_record`: enough.
  Status Each(const Query& query, const std::function<bool(const InferenceRecord&)>& on_record) const;
  Result<uint64_t> Count() const;
  // Deletes all records; how many there were.
  Result<uint64_t> Clear();
  // Gives the space of deleted records back. Others wait meanwhile.
  Status Vacuum();
  // kDataLoss, with what SQLite finds wrong in the file. kInvalidArgument: the store is a server.
  Status Check() const;

  // For bindings; no part of the interface.
  internal::InferenceCore& core() const noexcept { return *core_; }

 private:
  explicit InferenceStore(std::shared_ptr<internal::InferenceCore> core) noexcept;
  std::shared_ptr<internal::InferenceCore> core_;
};

}  // namespace gpulens

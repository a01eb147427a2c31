// A store of inference calls: one record per call in an SQLite file, PostgreSQL or ClickHouse. The table of
// the file is that of openjarvis' telemetry.db: its files open here, and its programs read ours.
//
//   auto store = gpulens::InferenceStore::Open("telemetry.db");
//   if (!store) return store.error();
//   auto call = store->Begin({.model = "llama-3.1-8b", .engine = "mine"});
//   while (call.Wait([&] { return engine.Next(); })) call.AddTokens(1);
//   call.Finish({.prompt_tokens = 512});
//
// Open returns an error. Recording does not fail, and waits only with WhenFull::kBlock: a thread writes
// queued records, at most a flush interval later. A dropped record is counted, the first one is logged on
// stderr, and Flush and Close return their number. A record that the database rejects goes to the table
// `telemetry_poison`.
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
#include <gpulens/when_full.h>

namespace gpulens {

// ---- queries
enum class GroupBy : uint8_t { kAll, kModel, kEngine, kAgent, kBatch, kMinute, kHour, kDay };

// Selects records and groups them. Both times are inclusive. An empty text matches any.
struct Query {
  std::optional<std::chrono::system_clock::time_point> since = {}, until = {};
  GroupBy by = GroupBy::kAll;
  std::string model = {}, engine = {}, agent = {}, batch_id = {};
  bool warmup = false;                                 // include warm-up calls
  std::optional<int64_t> token_counting_version = {};  // nullopt: any
  size_t limit = 0;           // groups of Summarize (the largest), records of Each; 0: all
  bool newest_first = false;  // of Each
};

// Means over calls of ratios and percentiles of each call, which openjarvis calls averages. Long and short
// calls have equal weight; the ratios of InferenceSummary weigh calls by their size.
struct CallMeans {
  double itl_median_seconds = kNotMeasured, itl_p95_seconds = kNotMeasured;
  double tokens_per_second = kNotMeasured, tokens_per_joule = kNotMeasured;
  double joules_per_output_token = kNotMeasured, tokens_per_second_per_watt = kNotMeasured;
};

// Summary of a group of calls. Distributions cover the calls that measured the value, `n` of them; ratios
// divide sums over the calls that have both values.
struct InferenceSummary {
  std::string key;  // of the group, "" for kAll; of a time group its start in seconds since 1970
  uint64_t calls = 0, errors = 0, cancelled = 0;
  uint64_t prompt_tokens = 0, prompt_tokens_evaluated = 0, cached_prompt_tokens = 0, completion_tokens = 0,
           total_tokens = 0;
  Distribution latency_seconds, ttft_seconds, energy_joules, cost_usd;
  Distribution itl_seconds;  // of the calls' means
  Distribution gpu_utilization_ratio;
  double prefill_energy_joules = kNotMeasured, decode_energy_joules = kNotMeasured;  // sums
  double joules_per_output_token = kNotMeasured, output_tokens_per_second = kNotMeasured;
  // Tokens over measured energy; for calls without, over their mean watts times their seconds.
  double output_tokens_per_second_per_watt = kNotMeasured;
  // Energy of all calls that measured it over their prompt and completion tokens, including calls with 0
  // tokens.
  double joules_per_token = kNotMeasured;
  CallMeans call_means = {};
};

// ---- the store
// Makes stores accept clickhouses://…, ClickHouse over TLS. A program that calls it links OpenSSL; others do
// not, and reject such a URL. Thread-safe. (PostgreSQL's library has its own TLS.)
void UseTlsForStores() noexcept;

struct StoreOptions {
  EnergyMonitor* energy = nullptr;  // measures the share of each call of Begin; outlives the store
  size_t queue_records = 16'384;    // capacity of the queue; some 200 bytes each
  Duration flush_interval = std::chrono::seconds(1);
  size_t flush_records = 1024;  // queued records that are written before the interval ends
  Duration retention{};         // older records are deleted; zero: none are
  bool read_only = false;       // never write to the database
  // kDropNewest never holds up the program that records. kBlock waits for room in the queue, and drops a
  // record only when nothing could be written for 10 s (the disk is full, the server is away): then, until
  // something is written again, records are dropped without waiting.
  WhenFull when_full = WhenFull::kDropNewest;
};

struct StoreHealth {
  uint64_t stored = 0, queued = 0;
  uint64_t dropped = 0;   // records lost: the queue was full, or the store closed
  uint64_t rejected = 0;  // records kept with a reason in the table telemetry_poison
  uint64_t crashed = 0;   // earlier writers that ended without closing, found at Open
  Status last_error;      // of writing, which is retried
};

namespace internal {
class InferenceCore;
}
class InferenceStore;

// One call, recorded when it ends: by Finish, otherwise as cancelled, or as an error during an exception.
// Used by one thread at a time. May outlive its store; its record is then dropped and counted.
class [[nodiscard]] InferenceCall {
 public:
  InferenceCall(InferenceCall&& other) noexcept;
  InferenceCall& operator=(InferenceCall&& other) noexcept;
  ~InferenceCall();

  // Calls `engine` and returns its result. Once Wait was used, only the time within it counts as the
  // engine's; other time between tokens is the consumer's.
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
  // The halves of Wait, for callers that cannot pass a function. Not nested.
  void Enter() noexcept;
  void Leave() noexcept;

  // Records that `tokens` arrived at once. The first ones give the TTFT; a gap before n tokens counts as n
  // gaps of an n-th of it, so that chunks of any size give the time per token.
  void AddTokens(int64_t tokens) noexcept;
  // Sets the error type of a call that ends without Finish.
  void SetError(std::string_view type) noexcept;
  // Records the call. Values of `known` replace measured ones and those of Begin.
  void Finish(const InferenceRecord& known = {}) noexcept;
  bool finished() const noexcept { return state_ == nullptr; }

 private:
  friend class InferenceStore;
  struct State;
  explicit InferenceCall(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;  // null: it has ended
};

// Movable, thread-safe. After a fork the child's first record reopens the file; the parent writes the records
// that were queued.
class InferenceStore {
 public:
  // Opens a file ("~/" is the home folder); postgresql://USER:PASSWORD@HOST/DATABASE, which needs libpq.so.5;
  // or clickhouse://USER:PASSWORD@HOST:8123/DATABASE?table=NAME, its HTTP interface. A new file is readable
  // by its owner only; folders keep their permissions. kInvalidArgument: an invalid option or another URL;
  // kDataLoss: another kind of file or table; kUnavailable: no libpq, or the server does not respond;
  // kPermissionDenied: the server refuses access; other codes are the system's.
  static Result<InferenceStore> Open(std::string_view path_or_url, const StoreOptions& options = {});
  InferenceStore(InferenceStore&&) noexcept;
  InferenceStore& operator=(InferenceStore&&) noexcept;
  // Writes queued records, for at most 5 s.
  ~InferenceStore();

  // Returns whether the record was queued; false: it was dropped.
  bool Record(const InferenceRecord& record) noexcept;
  // Begins a call; `known` becomes part of its record.
  InferenceCall Begin(const InferenceRecord& known) noexcept;

  // Waits until all earlier records are stored or rejected. kExhausted: they are, but records were dropped
  // since the last Flush; `detail` has their number.
  Status Flush(Duration timeout = std::chrono::seconds(5));
  // Flushes, with the same result, and closes, once; later records are dropped and counted.
  Status Close(Duration timeout = std::chrono::seconds(5));
  StoreHealth health() const;
  // Path of the file, or URL of the server without password and parameters.
  const std::string& path() const noexcept;

  // Each of these flushes first, then reads all stored records, also those of other programs.
  // Returns the groups by number of calls, largest first; groups of times in their order.
  Result<std::vector<InferenceSummary>> Summarize(const Query& query = {}) const;
  // Calls `on_record` with each record, oldest first, until it returns false.
  Status Each(const Query& query, const std::function<bool(const InferenceRecord&)>& on_record) const;
  Result<uint64_t> Count() const;
  // Deletes all records and returns their number.
  Result<uint64_t> Clear();
  // Frees the space of deleted records. Blocks other users of the file meanwhile.
  Status Vacuum();
  // Checks the file. kDataLoss: with the defects that SQLite finds. kInvalidArgument: the store is a server.
  Status Check() const;

  // For bindings; not part of the interface.
  internal::InferenceCore& core() const noexcept { return *core_; }

 private:
  explicit InferenceStore(std::shared_ptr<internal::InferenceCore> core) noexcept;
  std::shared_ptr<internal::InferenceCore> core_;
};

}  // namespace gpulens

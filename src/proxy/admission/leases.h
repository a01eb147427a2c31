// Leases: how several replicas share a budget. Each takes slices of it from an engine, Redis, Valkey or
// PostgreSQL, and spends them without a round trip; all slices together are within the limit.
//
// Amounts at the engine are microdollars: scripts of Redis compute in doubles, which hold 2^53 exactly. A
// lease is whole microdollars, and a report rounds what was spent up, so the sum of all replicas stays within
// the limit.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "proxy/admission/budgets.h"

namespace gpulens::proxy {

// One call to an engine: reports what was spent, gives back, takes. Repeating a call changes nothing.
struct LeaseCall {
  std::string budget;      // name
  int64_t limit = 0;       // microdollars, as all amounts here
  int64_t window_ms = 0;   // begin of the calendar window that the caller sees; the engine's only moves
                           // forwards, and not beyond the engine's own clock
  int64_t rolling_ms = 0;  // length of a rolling window; else 0
  std::string replica;
  int64_t fence = 0;     // of this start of the replica, from NewFence
  int64_t sequence = 0;  // rises by one with each call of a budget; the engine ignores what it has seen
  int64_t spent = 0;     // all that this start of the replica has spent
  int64_t give_back = 0;
  int64_t want = 0, least = 0;  // grants want, or with less than 5 % of the limit left only least; or nothing
  int64_t ttl_ms = 0;
  bool close = false;  // the last report of a start: its lease ends; ignored where the start is not known
};

struct LeaseReply {
  int64_t granted = 0;                       // by this call
  int64_t amount = 0;                        // leased to this start of the replica and not reported as spent
  int64_t limit = 0, spent = 0, leased = 0;  // of the budget; leased: to all replicas
  int64_t window_ms = 0, now_ms = 0;         // by the engine's clock
  bool operator==(const LeaseReply&) const = default;
};

// What an engine keeps of a budget and of each start of a replica.
struct EngineBudget {
  int64_t limit = 0, spent = 0, leased = 0, window_ms = 0;
  bool operator==(const EngineBudget&) const = default;
};
struct EngineHolder {
  int64_t amount = 0, spent = 0, sequence = 0, expires_ms = 0;
  int64_t lapsed = 0;  // was leased when a window ended and the holder was gone: counted as spent there
  bool operator==(const EngineHolder&) const = default;
};
using EngineHolders = std::map<std::pair<std::string, int64_t>, EngineHolder>;  // by replica and fence

// Whether the call begins a new window; then all holders matter, else that of the call alone.
bool BeginsWindow(const LeaseCall& call, const EngineBudget& budget, int64_t now_ms) noexcept;
// What every engine does with a call, here as a function: PostgreSQL's transaction uses it, and Redis's
// script is compared with it. A lease that has expired still counts, until a report of its holder or the end
// of the window: a dead replica may have spent it.
LeaseReply ApplyLeaseCall(const LeaseCall& call, int64_t now_ms, EngineBudget& budget,
                          EngineHolders& holders);

// Not thread-safe: used by the keeper's thread. Calls block, for a bounded time.
class BudgetEngine {
 public:
  virtual ~BudgetEngine() = default;
  // A number above all earlier ones.
  virtual Result<int64_t> NewFence() = 0;
  virtual Result<LeaseReply> Exchange(const LeaseCall& call) = 0;
};
// "redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]", "rediss://" (TLS), "redis+unix:/PATH",
// "postgresql://…". Connects with the first call. `tenant_tag`: of Redis's keys, which share a slot of a
// cluster. kInvalidArgument never has the password.
Result<std::unique_ptr<BudgetEngine>> OpenBudgetEngine(const std::string& url,
                                                       const std::string& tenant_tag = "all");

struct LeaseOptions {
  std::string replica;                      // stable: the same after a restart
  Duration ttl = std::chrono::seconds(60);  // of a lease, at the engine
  Duration report_every = std::chrono::seconds(1);
  Duration idle = std::chrono::seconds(10);  // a lease without use is given back
  Duration retry = std::chrono::seconds(1);  // after a failure, and when a budget is used up
  bool open_when_down = false;               // admit while the engine is away, and count; else refuse
  // Keeps the fence of this start, before anything is leased to it: its lease counts as spent after a crash
  // until ReportEnded. On the keeper's thread. Fails: nothing is leased, and it is called again.
  std::function<Status(int64_t fence)> on_fence = nullptr;
};

// Keeps the leases of shared budgets: reports each second, takes ahead, gives back. A slice is what the last
// 10 s spent, twice, or what a waiting request needs. When the engine does not answer, what is leased is
// spent, then Budgets refuses or, with open_when_down, counts.
class LeaseKeeper {
 public:
  // `engine` and `budgets` must outlive it.
  LeaseKeeper(BudgetEngine& engine, Budgets& budgets, const LeaseOptions& options);
  // Stop.
  ~LeaseKeeper();
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  // Starts its thread. Without it, tests call Step.
  Status Start();
  // Joins the thread, reports and gives back. Requests that still run are reported by ReportEnded, later.
  void Stop();

  // Does what is due. `all`: looks at all budgets, as each second, not only at those with a demand.
  void Step(Instant now, bool all);

  // Calls `done` once: when the engine has answered what was missing at the time of this call, or did not
  // answer. On the keeper's thread; at once after Stop. Any thread. The caller then tries again.
  void WhenLeased(std::function<void()> done);

  // What an earlier start of this replica has spent in all, from the ledger: its lease, which counted as
  // spent until now, ends. Before Start, or on its thread. Repeating it changes nothing.
  Status ReportEnded(const BudgetSpec& budget, int64_t fence, int64_t spent_pico, Instant now);

  // Of this start; 0 until the engine has answered. Any thread.
  int64_t fence() const noexcept { return fence_.load(std::memory_order_relaxed); }

  struct Counts {
    uint64_t calls = 0, failures = 0, granted_micros = 0, given_back_micros = 0;
  };
  Counts counts() const;

 private:
  struct Holding {
    Ref<Budget> budget;
    int64_t sequence = 0;
    int64_t reported_micros = 0;
    std::deque<std::pair<int64_t, int64_t>> history;  // boot time, pico spent
    LeaseCall pending;                                // sequence 0: none; sent again until it is answered
    int64_t pending_since_boot_ns = 0;
    int64_t called_at_boot_ns = 0;
    int64_t low_water_pico = 0;
  };
  void Run();
  // Whether there is something to send.
  bool Prepare(const Budgets::LeaseState& state, Holding& holding, Instant now, bool stopping);
  Status Send(const BudgetWindow& window, Holding& holding);
  Status SendAll(std::vector<Budgets::LeaseState> states, Instant now, bool stopping);
  void Answer();

  BudgetEngine& engine_;
  Budgets& budgets_;
  const LeaseOptions options_;
  std::unordered_map<const Budget*, Holding> holdings_;
  std::atomic<int64_t> fence_{0};
  int64_t down_until_boot_ns_ = 0;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool stopping_ = false, demanded_ = false, stopped_ = false;
  std::vector<std::function<void()>> waiting_;
  Counts counts_;
  std::thread thread_;
};

}  // namespace gpulens::proxy

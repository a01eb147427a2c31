// Budgets: what keys, tenants and projects may spend, reserved before a request and settled after it.
//
// Money is in integer picodollars. A request reserves what it may cost in all of its budgets, or in none;
// while it runs, the reservation is held; its settlement replaces the estimate by the charge. So requests
// that run at once cannot pass a limit together.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/ref.h"
#include "pricing/money.h"

namespace gpulens::proxy {

using pricing::kPicoPerMicro;
using pricing::kPicoPerUsd;
inline constexpr int64_t kMostLimitPico = 9'000'000 * kPicoPerUsd;

// When a budget begins again. Calendar windows are those of UTC or of a fixed offset from it, not of a named
// zone: all replicas must agree on them, also where a machine has another release of the zones, or none.
struct BudgetWindow {
  enum class Kind : uint8_t { kForever, kHour, kDay, kWeek, kMonth, kRolling };
  Kind kind = Kind::kMonth;
  int32_t offset_minutes = 0;  // of a calendar window: of its local time from UTC, +840 at most
  int64_t length_ns = 0;       // of a rolling one, which begins with its first request

  // The begin of the calendar window that contains a time; weeks begin on Monday. 0 for kForever; the time
  // itself for kRolling.
  int64_t StartOf(int64_t unix_ns) const noexcept;
  // The end of the window that begins at `start_unix_ns`; INT64_MAX for kForever.
  int64_t EndOf(int64_t start_unix_ns) const noexcept;
  bool operator==(const BudgetWindow&) const = default;
};
// "hour", "day", "week", "month", each also with an offset ("day+05:30"), "forever", or the length of a
// rolling window: "30m", "5h", "7d", 366 days at most.
Result<BudgetWindow> ParseBudgetWindow(std::string_view text);
std::string BudgetWindowText(const BudgetWindow& window);

enum class BudgetMode : uint8_t {
  kHard,  // the upper bound of a request is reserved: the limit holds
  kSoft,  // the expected cost is reserved: running requests may pass the limit by max_overshoot_pico
};

struct BudgetSpec {
  std::string name;  // unique: of metrics, records and the engine
  // Which requests count: patterns with `*`; empty: any. A key that lists the name in its line counts always;
  // with `listed_only` no other does.
  std::vector<std::string> tenants, projects, keys, providers, models;
  bool listed_only = false;
  int64_t limit_pico = 0;  // 0 to kMostLimitPico
  BudgetWindow window;
  BudgetMode mode = BudgetMode::kSoft;
  std::optional<int64_t> max_overshoot_pico;  // soft; none: not bounded
  bool shared = false;                        // leased from an engine by several replicas (leases.h)
  bool operator==(const BudgetSpec&) const = default;
};
// kInvalidArgument with what is wrong.
Status CheckBudgetSpec(const BudgetSpec& spec);

// What a request may cost, at prices of its dispatch.
struct CostEstimate {
  int64_t expected_pico = 0;
  // No request of this kind costs more. A hard budget, and a soft one with max_overshoot_pico, needs it.
  std::optional<int64_t> most_pico;
};

// A budget in force. Made and changed by Budgets alone.
class Budget : public RefCounted<Budget> {
 public:
  const std::string& name() const noexcept { return name_; }

 private:
  friend class Budgets;
  __extension__ using Wide = __int128;  // sums of what callers estimate
  explicit Budget(std::string name) : name_(std::move(name)) {}

  const std::string name_;
  // Guarded by Budgets::mutex_.
  BudgetSpec spec_;
  int64_t spent_ = 0;   // in the window; of a shared budget in all windows since the start
  Wide held_ = 0;       // expected costs of open reservations
  Wide held_most_ = 0;  // their upper bounds
  int64_t window_start_ns_ = 0;
  bool window_begun_ = false;
  uint64_t refused_ = 0, overshoots_ = 0, past_bound_ = 0;
  int64_t overshoot_pico_ = 0, opened_pico_ = 0;
  // Of a shared budget: until which spent_ its leases reach, and until when.
  int64_t lease_pico_ = 0;
  int64_t lease_until_boot_ns_ = 0;
  int64_t low_water_pico_ = 0;    // with less left a lease is requested ahead
  int64_t missing_pico_ = 0;      // what the largest waiting request lacks
  int64_t missing_sum_pico_ = 0;  // what all of them need
  bool wants_lease_ = false;
  int64_t used_up_until_boot_ns_ = 0;  // the engine had nothing left
  int64_t engine_window_end_ns_ = INT64_MAX;
  int64_t last_use_boot_ns_ = 0;
};

enum class BudgetAnswer : uint8_t {
  kAdmitted,
  kLimit,       // no room until the window ends
  kNoBound,     // needs an upper bound of the cost
  kLease,       // no lease that suffices is here; one was requested
  kEngineDown,  // the same, and the engine does not answer
};

class Budgets;

// What one request holds in its budgets. Move-only; destruction without Settle releases it, so that every way
// out of a request does. Any thread, one at a time. The Budgets must outlive it.
class Reservation {
 public:
  static constexpr size_t kMostBudgets = 8;

  Reservation() noexcept = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { Release(); }

  // Whether something is held.
  explicit operator bool() const noexcept { return budgets_ != nullptr; }
  // What a budget of this request counts as held: the bound where one of them is hard, else what is expected.
  int64_t reserved_pico() const noexcept { return hard_ ? most_ : expected_; }
  int64_t most_pico() const noexcept { return most_; }
  // Replaces the reservation by the charge, 0 or more, in the windows that are open at `now`. False, and
  // nothing happens, when nothing is held any more: a request is charged once.
  bool Settle(int64_t actual_pico, Instant now) noexcept;
  void Release() noexcept;

 private:
  friend class Budgets;
  Budgets* budgets_ = nullptr;
  size_t count_ = 0;
  int64_t expected_ = 0, most_ = 0;
  bool hard_ = false;
  std::array<Ref<Budget>, kMostBudgets> of_;
};

// For metrics, pages and the store. A plain value.
struct BudgetView {
  std::string name;
  int64_t limit_pico = 0, spent_pico = 0, held_pico = 0, held_most_pico = 0;
  int64_t window_start_unix_ns = 0;
  int64_t lease_left_pico = 0;  // shared: leased and not spent
  uint64_t refused = 0;
  uint64_t overshoots = 0;  // settlements that ended above the limit, and by how much in all
  int64_t overshoot_pico = 0;
  uint64_t past_bound = 0;  // charges above the upper bound of their request: the bound is wrong
  int64_t opened_pico = 0;  // admitted without a lease while the engine was away
};

// All budgets of a process. Thread-safe: one short lock, taken once by an admission and once by its end.
class Budgets {
 public:
  Budgets() = default;
  Budgets(const Budgets&) = delete;
  Budgets& operator=(const Budgets&) = delete;

  // The budget of spec.name, made or changed to `spec`; what it has spent and holds stays. `spec` is valid.
  Ref<Budget> Define(const BudgetSpec& spec);
  // Forgets budgets that only this object and open reservations know.
  void DropUnused();

  // Sets what was spent before this process started, as a view of an earlier one or the ledger had it: adds
  // to what was spent since, if the window is still the same. Before the first Admit.
  void Restore(std::string_view name, int64_t spent_pico, int64_t window_start_unix_ns);

  struct Admitted {
    BudgetAnswer answer = BudgetAnswer::kAdmitted;
    Reservation reservation;
    Ref<Budget> blocked;        // by which, if not admitted
    int64_t until_unix_ns = 0;  // kLimit: the end of its window; INT64_MAX: never
  };
  // Reserves in all of `of`, which has no budget twice and at most kMostBudgets, or in none. Windows never go
  // back: a clock that does is waited for.
  Admitted Admit(std::span<const Ref<Budget>> of, const CostEstimate& cost, Instant now);

  std::vector<BudgetView> View(Instant now) const;
  std::optional<BudgetView> View(std::string_view name, Instant now) const;
  // Held by all open reservations: 0 when no request runs.
  int64_t held_pico() const;

  // What follows is for the keeper of leases (leases.h).

  // Called, without a lock, when a shared budget may need a lease. Before the first Admit.
  void OnDemand(std::function<void()> wake) { wake_ = std::move(wake); }
  // While the engine is away and `open`, requests are admitted without a lease, and counted.
  void SetEngineDown(bool down, bool open) noexcept;
  bool engine_down() const noexcept { return engine_down_.load(std::memory_order_relaxed); }

  struct LeaseState {
    Ref<Budget> budget;
    int64_t limit_pico = 0;
    BudgetWindow window;
    int64_t spent_pico = 0, held_pico = 0, lease_pico = 0, missing_pico = 0, missing_sum_pico = 0;
    int64_t until_boot_ns = 0, last_use_boot_ns = 0;
  };
  // Of all shared budgets, or of those that want a lease; marks their demands as seen.
  std::vector<LeaseState> LeaseStates(bool all);
  // Takes at most `most_pico` that is neither spent nor held out of the lease, whole microdollars. Returns
  // it.
  int64_t TakeBack(Budget& budget, int64_t most_pico);
  struct LeaseGrant {
    int64_t lease_pico = 0;  // may be spent up to this sum since the start
    int64_t until_boot_ns = 0;
    int64_t low_water_pico = 0;
    bool used_up = false;  // what was requested was not there
    int64_t used_up_until_boot_ns = 0;
    int64_t window_start_unix_ns = 0, window_end_unix_ns = INT64_MAX;
  };
  void SetLease(Budget& budget, const LeaseGrant& grant);

 private:
  friend class Reservation;
  BudgetAnswer Fits(Budget& budget, const CostEstimate& cost, Instant now, bool& opened) noexcept;
  BudgetAnswer FitsLease(Budget& budget, int64_t need, Instant now, bool& opened) noexcept;
  static void Roll(Budget& budget, int64_t unix_ns, bool use) noexcept;
  static BudgetView ViewOf(Budget& budget, Instant now);
  void End(Reservation& reservation, std::optional<int64_t> actual, Instant now) noexcept;

  mutable std::mutex mutex_;
  std::map<std::string, Ref<Budget>, std::less<>> budgets_;
  std::function<void()> wake_;
  std::atomic<bool> engine_down_{false}, open_{false};
  std::atomic<bool> demanded_{false};
};

}  // namespace gpulens::proxy

#include "proxy/admission/budgets.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/parse.h"
#include "base/text.h"

namespace gpulens::proxy {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kMinuteNs = 60 * kSecondNs;
constexpr int64_t kHourNs = 60 * kMinuteNs;
constexpr int64_t kDayNs = 24 * kHourNs;
constexpr int64_t kLongestWindowNs = 366 * kDayNs;
constexpr int32_t kMostOffsetMinutes = 14 * 60;
constexpr size_t kMostNameBytes = 128;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

struct NamedWindow {
  std::string_view name;
  BudgetWindow::Kind kind;
};
constexpr NamedWindow kWindows[] = {{"forever", BudgetWindow::Kind::kForever},
                                    {"hour", BudgetWindow::Kind::kHour},
                                    {"day", BudgetWindow::Kind::kDay},
                                    {"week", BudgetWindow::Kind::kWeek},
                                    {"month", BudgetWindow::Kind::kMonth}};

int64_t FloorTo(int64_t value, int64_t unit) noexcept {
  const int64_t rest = value % unit;
  return value - (rest < 0 ? rest + unit : rest);
}

int64_t AddSaturated(int64_t a, int64_t b) noexcept {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b > 0 ? kNever : std::numeric_limits<int64_t>::min();
}

// "+05:30": minutes.
std::optional<int32_t> ParseOffset(std::string_view text) noexcept {
  if (text.size() != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':') return std::nullopt;
  const auto hours = ParseInt<uint16_t>(text.substr(1, 2)), minutes = ParseInt<uint16_t>(text.substr(4, 2));
  if (!hours || !minutes || *minutes > 59) return std::nullopt;
  const int32_t offset = *hours * 60 + *minutes;
  if (offset > kMostOffsetMinutes) return std::nullopt;
  return text[0] == '+' ? offset : -offset;
}

std::chrono::year_month_day MonthOf(int64_t local_ns) noexcept {
  using namespace std::chrono;
  const year_month_day date{sys_days(days(FloorTo(local_ns, kDayNs) / kDayNs))};
  return date.year() / date.month() / day(1);
}

int64_t NsOf(std::chrono::year_month_day date) noexcept {
  return std::chrono::sys_days(date).time_since_epoch().count() * kDayNs;
}

}  // namespace

int64_t BudgetWindow::StartOf(int64_t unix_ns) const noexcept {
  const int64_t offset = offset_minutes * kMinuteNs, local = unix_ns + offset;
  switch (kind) {
    case Kind::kForever: return 0;
    case Kind::kRolling: return unix_ns;
    case Kind::kHour: return FloorTo(local, kHourNs) - offset;
    case Kind::kDay: return FloorTo(local, kDayNs) - offset;
    // 1970-01-01 was a Thursday.
    case Kind::kWeek: return FloorTo(local + 3 * kDayNs, 7 * kDayNs) - 3 * kDayNs - offset;
    case Kind::kMonth: return NsOf(MonthOf(local)) - offset;
  }
  return 0;
}

int64_t BudgetWindow::EndOf(int64_t start) const noexcept {
  const int64_t offset = offset_minutes * kMinuteNs;
  switch (kind) {
    case Kind::kForever: return kNever;
    case Kind::kRolling: return AddSaturated(start, length_ns);
    case Kind::kHour: return start + kHourNs;
    case Kind::kDay: return start + kDayNs;
    case Kind::kWeek: return start + 7 * kDayNs;
    case Kind::kMonth: return NsOf(MonthOf(start + offset) + std::chrono::months(1)) - offset;
  }
  return kNever;
}

Result<BudgetWindow> ParseBudgetWindow(std::string_view text) {
  BudgetWindow window;
  for (const NamedWindow& named : kWindows) {
    if (!text.starts_with(named.name)) continue;
    window.kind = named.kind;
    const std::string_view rest = text.substr(named.name.size());
    if (rest.empty()) return window;
    const auto offset = ParseOffset(rest);
    if (!offset || named.kind == BudgetWindow::Kind::kForever) break;
    window.offset_minutes = *offset;
    return window;
  }
  if (text.size() >= 2) {
    const char unit = text.back();
    const int64_t unit_ns = unit == 'm' ? kMinuteNs : unit == 'h' ? kHourNs : unit == 'd' ? kDayNs : 0;
    const auto count = ParseInt<int32_t>(text.substr(0, text.size() - 1));
    if (unit_ns && count && *count > 0 && *count <= kLongestWindowNs / unit_ns)
      return BudgetWindow{.kind = BudgetWindow::Kind::kRolling, .length_ns = *count * unit_ns};
  }
  return Status{
      Code::kInvalidArgument,
      "\"" + Printable(text.substr(0, 64)) +
          "\" is no window: hour, day, week or month, also as day+05:30, forever, or a length as 30m, 5h "
          "or 7d"};
}

std::string BudgetWindowText(const BudgetWindow& window) {
  if (window.kind == BudgetWindow::Kind::kRolling) {
    if (window.length_ns % kDayNs == 0) return std::to_string(window.length_ns / kDayNs) + "d";
    if (window.length_ns % kHourNs == 0) return std::to_string(window.length_ns / kHourNs) + "h";
    return std::to_string(window.length_ns / kMinuteNs) + "m";
  }
  std::string out;
  for (const NamedWindow& named : kWindows) {
    if (named.kind == window.kind) out = named.name;
  }
  if (window.offset_minutes == 0) return out;
  const int32_t minutes = std::abs(window.offset_minutes);
  const auto two = [](int32_t value) { return (value < 10 ? "0" : "") + std::to_string(value); };
  return out + (window.offset_minutes < 0 ? '-' : '+') + two(minutes / 60) + ":" + two(minutes % 60);
}

Status CheckBudgetSpec(const BudgetSpec& spec) {
  const auto wrong = [&](const std::string& what) {
    return Status{Code::kInvalidArgument,
                  "budget \"" + Printable(spec.name.substr(0, kMostNameBytes)) + "\": " + what};
  };
  if (spec.name.empty() || spec.name.size() > kMostNameBytes || !IsUtf8(spec.name))
    return wrong("its name must have 1 to 128 bytes of UTF-8");
  for (const char c : spec.name) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '{' || c == '}' || c == '\x7f')
      return wrong("its name may have no blank, control character or brace");
  }
  if (spec.limit_pico < 0 || spec.limit_pico > kMostLimitPico)
    return wrong("its limit must be 0 to 9,000,000 USD");
  if (spec.max_overshoot_pico && (*spec.max_overshoot_pico < 0 || *spec.max_overshoot_pico > kMostLimitPico))
    return wrong("max_overshoot must be 0 to 9,000,000 USD");
  if (spec.max_overshoot_pico && spec.mode == BudgetMode::kHard)
    return wrong("a hard budget has no max_overshoot; set mode: soft");
  if (spec.window.kind == BudgetWindow::Kind::kRolling &&
      (spec.window.length_ns < kMinuteNs || spec.window.length_ns > kLongestWindowNs))
    return wrong("a rolling window must have 1 minute to 366 days");
  return Ok();
}

Reservation::Reservation(Reservation&& other) noexcept
    : budgets_(std::exchange(other.budgets_, nullptr)),
      count_(std::exchange(other.count_, 0)),
      expected_(other.expected_),
      most_(other.most_),
      hard_(other.hard_),
      of_(std::move(other.of_)) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  Release();
  budgets_ = std::exchange(other.budgets_, nullptr);
  count_ = std::exchange(other.count_, 0);
  expected_ = other.expected_;
  most_ = other.most_;
  hard_ = other.hard_;
  of_ = std::move(other.of_);
  return *this;
}

bool Reservation::Settle(int64_t actual_pico, Instant now) noexcept {
  if (!budgets_) return false;
  budgets_->End(*this, std::max<int64_t>(actual_pico, 0), now);
  return true;
}

void Reservation::Release() noexcept {
  if (budgets_) budgets_->End(*this, std::nullopt, {});
}

Ref<Budget> Budgets::Define(const BudgetSpec& spec) {
  const std::lock_guard lock(mutex_);
  Ref<Budget>& budget = budgets_[spec.name];
  if (!budget) budget = Ref<Budget>(new Budget(spec.name));
  // What was spent counts in the window that the new rule has open.
  if (budget->spec_.window != spec.window) budget->window_begun_ = false;
  budget->spec_ = spec;
  return budget;
}

void Budgets::DropUnused() {
  const std::lock_guard lock(mutex_);
  std::erase_if(budgets_, [](const auto& entry) { return entry.second.unique(); });
}

void Budgets::Restore(std::string_view name, int64_t spent_pico, int64_t window_start_unix_ns) {
  const std::lock_guard lock(mutex_);
  const auto found = budgets_.find(name);
  if (found == budgets_.end() || found->second->spec_.shared) return;
  Budget& budget = *found->second;
  budget.spent_ = AddSaturated(budget.spent_, std::max<int64_t>(spent_pico, 0));
  budget.window_start_ns_ = window_start_unix_ns;
  budget.window_begun_ = true;
}

// Forwards only. A clock that goes back stays in the window that was open: the spent money was spent.
void Budgets::Roll(Budget& budget, int64_t unix_ns, bool use) noexcept {
  if (!budget.window_begun_) {
    if (!use && budget.spec_.window.kind == BudgetWindow::Kind::kRolling) return;
    budget.window_start_ns_ = budget.spec_.window.StartOf(unix_ns);
    budget.window_begun_ = true;
    return;
  }
  if (unix_ns < budget.spec_.window.EndOf(budget.window_start_ns_)) return;
  budget.spent_ = 0;
  budget.window_begun_ = use || budget.spec_.window.kind != BudgetWindow::Kind::kRolling;
  budget.window_start_ns_ = budget.window_begun_ ? budget.spec_.window.StartOf(unix_ns) : 0;
}

BudgetAnswer Budgets::FitsLease(Budget& budget, int64_t need, Instant now, bool& opened) noexcept {
  const bool valid = now.boot_ns < budget.lease_until_boot_ns_;
  const bool hard = budget.spec_.mode == BudgetMode::kHard;
  const Budget::Wide held = hard ? budget.held_most_ : budget.held_;
  const Budget::Wide left = valid ? Budget::Wide{budget.lease_pico_} - budget.spent_ - held : 0;
  if (need <= left && left > 0) {
    if (left - need < budget.low_water_pico_ && now.boot_ns >= budget.used_up_until_boot_ns_)
      budget.wants_lease_ = true;
    return BudgetAnswer::kAdmitted;
  }
  if (engine_down_.load(std::memory_order_relaxed)) {
    opened = open_.load(std::memory_order_relaxed);
    if (!opened) ++budget.refused_;
    return opened ? BudgetAnswer::kAdmitted : BudgetAnswer::kEngineDown;
  }
  if (now.boot_ns < budget.used_up_until_boot_ns_) {
    ++budget.refused_;
    return BudgetAnswer::kLimit;
  }
  // Of an overdrawn lease the debt, too: the engine knows it as spent, so it needs no lease.
  const Budget::Wide lacks = std::max<Budget::Wide>(need - std::max<Budget::Wide>(left, -held), 1);
  budget.missing_pico_ = static_cast<int64_t>(
      std::min<Budget::Wide>(std::max<Budget::Wide>(budget.missing_pico_, lacks), kMostLimitPico));
  budget.missing_sum_pico_ = std::min(AddSaturated(budget.missing_sum_pico_, need), kMostLimitPico);
  budget.wants_lease_ = true;
  return BudgetAnswer::kLease;
}

BudgetAnswer Budgets::Fits(Budget& budget, const CostEstimate& cost, Instant now, bool& opened) noexcept {
  const BudgetSpec& spec = budget.spec_;
  const bool bounded = spec.mode == BudgetMode::kHard || spec.max_overshoot_pico;
  if (bounded && !cost.most_pico) return BudgetAnswer::kNoBound;
  const int64_t need = spec.mode == BudgetMode::kHard ? *cost.most_pico : cost.expected_pico;
  const Budget::Wide held = spec.mode == BudgetMode::kHard ? budget.held_most_ : budget.held_;
  budget.last_use_boot_ns_ = now.boot_ns;
  if (spec.shared) {
    // The bound of an overshoot is that of this process: what the leases of all have is within the limit.
    if (spec.max_overshoot_pico &&
        budget.held_most_ - budget.held_ + *cost.most_pico - cost.expected_pico > *spec.max_overshoot_pico) {
      ++budget.refused_;
      return BudgetAnswer::kLimit;
    }
    return FitsLease(budget, need, now, opened);
  }
  Roll(budget, now.unix_ns, true);
  const Budget::Wide left = Budget::Wide{spec.limit_pico} - budget.spent_ - held;
  bool fits = need <= left && left > 0;
  if (fits && spec.max_overshoot_pico) {
    fits = *cost.most_pico <=
           Budget::Wide{spec.limit_pico} + *spec.max_overshoot_pico - budget.spent_ - budget.held_most_;
  }
  if (!fits) ++budget.refused_;
  return fits ? BudgetAnswer::kAdmitted : BudgetAnswer::kLimit;
}

Budgets::Admitted Budgets::Admit(std::span<const Ref<Budget>> of, const CostEstimate& estimate, Instant now) {
  CHECK(of.size() <= Reservation::kMostBudgets);
  CostEstimate cost{std::max<int64_t>(estimate.expected_pico, 0), estimate.most_pico};
  if (cost.most_pico) cost.most_pico = std::max(*cost.most_pico, cost.expected_pico);
  Admitted out;
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    uint32_t opened = 0;
    for (size_t i = 0; i < of.size(); ++i) {
      bool opens = false;
      out.answer = Fits(*of[i], cost, now, opens);
      opened |= uint32_t{opens} << i;
      wake = wake || of[i]->wants_lease_;
      if (out.answer == BudgetAnswer::kAdmitted) continue;
      out.blocked = of[i];
      out.until_unix_ns = of[i]->spec_.shared ? of[i]->engine_window_end_ns_
                                              : of[i]->spec_.window.EndOf(of[i]->window_start_ns_);
      break;
    }
    if (out.answer == BudgetAnswer::kAdmitted) {
      Reservation& held = out.reservation;
      held.budgets_ = this;
      held.count_ = of.size();
      held.expected_ = cost.expected_pico;
      held.most_ = cost.most_pico.value_or(cost.expected_pico);
      for (size_t i = 0; i < of.size(); ++i) {
        held.of_[i] = of[i];
        held.hard_ |= of[i]->spec_.mode == BudgetMode::kHard;
        of[i]->held_ += held.expected_;
        of[i]->held_most_ += held.most_;
        if (opened >> i & 1) of[i]->opened_pico_ = AddSaturated(of[i]->opened_pico_, held.expected_);
      }
    }
  }
  if (wake && wake_ && !demanded_.exchange(true, std::memory_order_acq_rel)) wake_();
  return out;
}

void Budgets::End(Reservation& reservation, std::optional<int64_t> actual, Instant now) noexcept {
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < reservation.count_; ++i) {
      Budget& budget = *reservation.of_[i];
      budget.held_ -= reservation.expected_;
      budget.held_most_ -= reservation.most_;
      if (!actual) continue;
      if (!budget.spec_.shared) Roll(budget, now.unix_ns, true);
      budget.spent_ = AddSaturated(budget.spent_, *actual);
      if (*actual > reservation.most_) ++budget.past_bound_;
      const int64_t limit = budget.spec_.shared ? budget.lease_pico_ : budget.spec_.limit_pico;
      if (*actual > 0 && budget.spent_ > limit) {
        ++budget.overshoots_;
        budget.overshoot_pico_ =
            AddSaturated(budget.overshoot_pico_, std::min(*actual, budget.spent_ - limit));
      }
    }
  }
  // Outside of the lock: the last holder of a budget deletes it.
  for (size_t i = 0; i < reservation.count_; ++i) reservation.of_[i] = {};
  reservation.count_ = 0;
  reservation.budgets_ = nullptr;
}

BudgetView Budgets::ViewOf(Budget& budget, Instant now) {
  if (!budget.spec_.shared) Roll(budget, now.unix_ns, false);
  BudgetView view;
  view.name = budget.name_;
  view.limit_pico = budget.spec_.limit_pico;
  view.spent_pico = budget.spent_;
  view.held_pico = static_cast<int64_t>(std::min<Budget::Wide>(budget.held_, kNever));
  view.held_most_pico = static_cast<int64_t>(std::min<Budget::Wide>(budget.held_most_, kNever));
  view.window_start_unix_ns = budget.window_start_ns_;
  view.lease_left_pico = budget.spec_.shared ? std::max<int64_t>(budget.lease_pico_ - budget.spent_, 0) : 0;
  view.refused = budget.refused_;
  view.overshoots = budget.overshoots_;
  view.overshoot_pico = budget.overshoot_pico_;
  view.past_bound = budget.past_bound_;
  view.opened_pico = budget.opened_pico_;
  return view;
}

std::vector<BudgetView> Budgets::View(Instant now) const {
  const std::lock_guard lock(mutex_);
  std::vector<BudgetView> out;
  out.reserve(budgets_.size());
  for (const auto& [name, budget] : budgets_) out.push_back(ViewOf(*budget, now));
  return out;
}

std::optional<BudgetView> Budgets::View(std::string_view name, Instant now) const {
  const std::lock_guard lock(mutex_);
  const auto found = budgets_.find(name);
  if (found == budgets_.end()) return std::nullopt;
  return ViewOf(*found->second, now);
}

int64_t Budgets::held_pico() const {
  const std::lock_guard lock(mutex_);
  Budget::Wide sum = 0;
  for (const auto& [name, budget] : budgets_) sum += budget->held_most_;
  return static_cast<int64_t>(std::min<Budget::Wide>(sum, kNever));
}

void Budgets::SetEngineDown(bool down, bool open) noexcept {
  open_.store(open, std::memory_order_relaxed);
  engine_down_.store(down, std::memory_order_relaxed);
}

std::vector<Budgets::LeaseState> Budgets::LeaseStates(bool all) {
  demanded_.store(false, std::memory_order_release);
  const std::lock_guard lock(mutex_);
  std::vector<LeaseState> out;
  for (const auto& [name, budget] : budgets_) {
    if (!budget->spec_.shared || (!all && !budget->wants_lease_)) continue;
    budget->wants_lease_ = false;
    const bool hard = budget->spec_.mode == BudgetMode::kHard;
    out.push_back({budget, budget->spec_.limit_pico, budget->spec_.window, budget->spent_,
                   static_cast<int64_t>(hard ? budget->held_most_ : budget->held_), budget->lease_pico_,
                   budget->missing_pico_, budget->missing_sum_pico_, budget->lease_until_boot_ns_,
                   budget->last_use_boot_ns_});
  }
  return out;
}

int64_t Budgets::TakeBack(Budget& budget, int64_t most_pico) {
  const std::lock_guard lock(mutex_);
  const bool hard = budget.spec_.mode == BudgetMode::kHard;
  const Budget::Wide free =
      Budget::Wide{budget.lease_pico_} - budget.spent_ - (hard ? budget.held_most_ : budget.held_);
  const Budget::Wide taken = std::min<Budget::Wide>(free, most_pico) / kPicoPerMicro * kPicoPerMicro;
  if (taken <= 0) return 0;
  budget.lease_pico_ -= static_cast<int64_t>(taken);
  return static_cast<int64_t>(taken);
}

void Budgets::SetLease(Budget& budget, const LeaseGrant& grant) {
  const std::lock_guard lock(mutex_);
  budget.lease_pico_ = grant.lease_pico;
  budget.lease_until_boot_ns_ = grant.until_boot_ns;
  budget.low_water_pico_ = grant.low_water_pico;
  budget.used_up_until_boot_ns_ = grant.used_up ? grant.used_up_until_boot_ns : 0;
  budget.window_start_ns_ = grant.window_start_unix_ns;
  budget.engine_window_end_ns_ = grant.window_end_unix_ns;
  budget.missing_pico_ = 0;
  budget.missing_sum_pico_ = 0;
}

}  // namespace gpulens::proxy

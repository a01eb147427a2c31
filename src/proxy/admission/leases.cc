#include "proxy/admission/leases.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/log.h"
#include "base/result.h"
#include "base/threads.h"

namespace gpulens::proxy {
namespace {

constexpr int64_t kMsOfLease = 1'000'000;
constexpr int64_t kRecentNs = 10'000'000'000;
constexpr int64_t kAheadNs = 20'000'000;  // between two calls for one budget of which no request waits
constexpr int64_t kNoEnd = std::numeric_limits<int64_t>::max();
// Holders that are of no use any more are forgotten after this long, when a window begins.
constexpr int64_t kForgetMs = int64_t{7} * 24 * 3600 * 1000;

int64_t MicrosUp(int64_t pico) noexcept {
  return pico <= 0 ? 0 : pico / kPicoPerMicro + (pico % kPicoPerMicro != 0 ? 1 : 0);
}

int64_t TimesSaturated(int64_t value, int64_t factor) noexcept {
  int64_t product = 0;
  return __builtin_mul_overflow(value, factor, &product) ? kNoEnd : product;
}

}  // namespace

bool BeginsWindow(const LeaseCall& call, const EngineBudget& budget, int64_t now_ms) noexcept {
  if (call.rolling_ms > 0) return budget.window_ms == 0 || now_ms >= budget.window_ms + call.rolling_ms;
  return call.window_ms > budget.window_ms && call.window_ms <= now_ms;
}

LeaseReply ApplyLeaseCall(const LeaseCall& call, int64_t now_ms, EngineBudget& budget,
                          EngineHolders& holders) {
  budget.limit = call.limit;
  if (BeginsWindow(call, budget, now_ms)) {
    for (auto at = holders.begin(); at != holders.end();) {
      EngineHolder& holder = at->second;
      if (holder.expires_ms <= now_ms) {
        budget.leased -= holder.amount;
        holder.lapsed += holder.amount;
        holder.amount = 0;
      }
      const bool own = at->first == std::pair(call.replica, call.fence);
      at = !own && holder.amount == 0 && holder.expires_ms + kForgetMs <= now_ms ? holders.erase(at)
                                                                                 : std::next(at);
    }
    budget.spent = 0;
    budget.window_ms = call.rolling_ms > 0 ? now_ms : call.window_ms;
  }
  LeaseReply reply;
  EngineHolder none;
  const auto known = holders.find({call.replica, call.fence});
  // What a start of which nothing is known has spent may be of a window that is forgotten.
  const bool ignored = call.close && known == holders.end();
  EngineHolder& holder = ignored ? none : holders[{call.replica, call.fence}];
  if (!ignored && (call.close || call.sequence > holder.sequence)) {
    const int64_t spent = std::max<int64_t>(call.spent - holder.spent, 0);
    holder.spent += spent;
    const int64_t of_lease = std::min(spent, holder.amount);
    const int64_t of_lapsed = std::min(spent - of_lease, holder.lapsed);
    holder.amount -= of_lease;
    holder.lapsed -= of_lapsed;
    budget.leased -= of_lease;
    budget.spent += spent - of_lapsed;
    const int64_t back = call.close ? holder.amount : std::min(call.give_back, holder.amount);
    holder.amount -= back;
    budget.leased -= back;
    if (!call.close) {
      const int64_t left = std::max<int64_t>(budget.limit - budget.spent - budget.leased, 0);
      const int64_t want = left * 20 < budget.limit ? call.least : call.want;
      reply.granted = left >= want ? want : left >= call.least ? left : 0;
      holder.amount += reply.granted;
      budget.leased += reply.granted;
      holder.sequence = call.sequence;
    }
  }
  holder.expires_ms = call.close ? now_ms : now_ms + call.ttl_ms;
  reply.amount = holder.amount;
  reply.limit = budget.limit;
  reply.spent = budget.spent;
  reply.leased = budget.leased;
  reply.window_ms = budget.window_ms;
  reply.now_ms = now_ms;
  return reply;
}

LeaseKeeper::LeaseKeeper(BudgetEngine& engine, Budgets& budgets, const LeaseOptions& options)
    : engine_(engine), budgets_(budgets), options_(options) {
  budgets_.OnDemand([this] {
    const std::lock_guard lock(mutex_);
    demanded_ = true;
    changed_.notify_one();
  });
}

LeaseKeeper::~LeaseKeeper() {
  Stop();
  budgets_.OnDemand({});
}

Status LeaseKeeper::Start() {
  return StartThread(thread_, [this] { Run(); });
}

void LeaseKeeper::Run() {
  int64_t looked_at_ns = 0;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    demanded_ = false;
    lock.unlock();
    const Instant now = RealClock().Now();
    const bool all = now.boot_ns - looked_at_ns >= options_.report_every.count();
    if (all) looked_at_ns = now.boot_ns;
    Step(now, all);
    lock.lock();
    changed_.wait_for(lock, options_.report_every, [this] { return stopping_ || demanded_; });
  }
}

void LeaseKeeper::Stop() {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    stopping_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  // One try: an engine that is away knows the leases as spent. Twice, where a call from before a failure is
  // first.
  const bool twice = std::any_of(holdings_.begin(), holdings_.end(),
                                 [](const auto& entry) { return entry.second.pending.sequence != 0; });
  Status sent;
  for (int i = 0; i <= int{twice} && sent && fence() != 0; ++i)
    sent = SendAll(budgets_.LeaseStates(true), RealClock().Now(), true);
  if (!sent) Log(LogLevel::kWarn, "proxy", "lease_not_returned", sent.detail);
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  Answer();
}

void LeaseKeeper::WhenLeased(std::function<void()> done) {
  {
    const std::lock_guard lock(mutex_);
    if (!stopped_) {
      waiting_.push_back(std::move(done));
      demanded_ = true;
      changed_.notify_one();
      return;
    }
  }
  done();
}

void LeaseKeeper::Answer() {
  std::vector<std::function<void()>> answered;
  {
    const std::lock_guard lock(mutex_);
    answered.swap(waiting_);
  }
  for (const auto& done : answered) done();
}

LeaseKeeper::Counts LeaseKeeper::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void LeaseKeeper::Step(Instant now, bool all) {
  // Demands that come from here on are for the next step; so are those who wait for them.
  std::vector<std::function<void()>> answered;
  {
    const std::lock_guard lock(mutex_);
    answered.swap(waiting_);
  }
  std::vector<Budgets::LeaseState> states = budgets_.LeaseStates(all || budgets_.engine_down());
  if (now.boot_ns >= down_until_boot_ns_) {
    const Status sent = states.empty() ? Ok() : SendAll(std::move(states), now, false);
    if (!sent) {
      down_until_boot_ns_ = now.boot_ns + options_.retry.count();
      if (!budgets_.engine_down()) Log(LogLevel::kError, "proxy", "budget_engine_down", sent.detail);
    } else if (budgets_.engine_down()) {
      Log(LogLevel::kInfo, "proxy", "budget_engine_up", "the engine of budgets answers again");
    }
    budgets_.SetEngineDown(!sent, options_.open_when_down);
  }
  for (const auto& done : answered) done();
}

Status LeaseKeeper::SendAll(std::vector<Budgets::LeaseState> states, Instant now, bool stopping) {
  if (fence() == 0) {
    ASSIGN_OR_RETURN(const int64_t fence, engine_.NewFence());
    if (options_.on_fence) RETURN_IF_ERROR(options_.on_fence(fence));
    fence_.store(fence, std::memory_order_relaxed);
  }
  for (const Budgets::LeaseState& state : states) {
    Holding& holding = holdings_[state.budget.get()];
    holding.budget = state.budget;
    if (Prepare(state, holding, now, stopping)) RETURN_IF_ERROR(Send(state.window, holding));
  }
  return Ok();
}

bool LeaseKeeper::Prepare(const Budgets::LeaseState& state, Holding& holding, Instant now, bool stopping) {
  if (holding.pending.sequence != 0) return true;
  auto& history = holding.history;
  if (history.empty() || now.boot_ns - history.back().first >= options_.report_every.count())
    history.emplace_back(now.boot_ns, state.spent_pico);
  while (history.size() > 1 && history[1].first <= now.boot_ns - kRecentNs) history.pop_front();
  const int64_t recent = state.spent_pico - history.front().second;
  const bool known = history.front().first <= now.boot_ns - kRecentNs;
  const int64_t slice = std::max({TimesSaturated(recent, 2), state.missing_pico, state.missing_sum_pico});
  holding.low_water_pico = slice / 2;
  const int64_t free = state.lease_pico - state.spent_pico - state.held_pico;
  const int64_t since_call = now.boot_ns - holding.called_at_boot_ns;

  LeaseCall call;
  if (state.missing_pico > 0 || (free < slice / 2 && since_call >= kAheadNs)) {
    call.least = MicrosUp(state.missing_pico);
    call.want = std::max(MicrosUp(slice - std::max<int64_t>(free, 0)), call.least);
  } else if (stopping || (free > 0 && now.boot_ns - state.last_use_boot_ns >= options_.idle.count())) {
    call.give_back = budgets_.TakeBack(*state.budget, free) / kPicoPerMicro;
  } else if (known && free > TimesSaturated(slice, 2)) {
    call.give_back = budgets_.TakeBack(*state.budget, free - slice) / kPicoPerMicro;
  }
  call.spent = std::max(MicrosUp(state.spent_pico), holding.reported_micros);
  call.close = stopping && state.held_pico == 0;
  const bool report = call.spent > holding.reported_micros && since_call >= options_.report_every.count();
  const bool holds = state.lease_pico > state.spent_pico;
  const bool renew = holds && since_call >= options_.ttl.count() / 2;
  if (call.want == 0 && call.give_back == 0 && !report && !renew && !(stopping && holding.sequence != 0))
    return false;

  call.budget = state.budget->name();
  call.limit = state.limit_pico / kPicoPerMicro;
  if (state.window.kind == BudgetWindow::Kind::kRolling) {
    call.rolling_ms = state.window.length_ns / kMsOfLease;
  } else {
    call.window_ms = state.window.StartOf(now.unix_ns) / kMsOfLease;
  }
  call.replica = options_.replica;
  call.fence = fence();
  call.sequence = ++holding.sequence;
  call.ttl_ms = options_.ttl.count() / kMsOfLease;
  holding.pending = std::move(call);
  holding.pending_since_boot_ns = now.boot_ns;
  return true;
}

Status LeaseKeeper::Send(const BudgetWindow& window, Holding& holding) {
  const LeaseCall& call = holding.pending;
  const auto reply = engine_.Exchange(call);
  {
    const std::lock_guard lock(mutex_);
    ++counts_.calls;
    if (!reply) ++counts_.failures;
    if (reply) counts_.granted_micros += static_cast<uint64_t>(reply->granted);
    if (reply) counts_.given_back_micros += static_cast<uint64_t>(call.give_back);
  }
  if (!reply) return reply.error();
  holding.called_at_boot_ns = holding.pending_since_boot_ns;
  holding.reported_micros = call.spent;
  Budgets::LeaseGrant grant;
  grant.lease_pico = TimesSaturated(call.spent + reply->amount, kPicoPerMicro);
  grant.window_start_unix_ns = TimesSaturated(reply->window_ms, kMsOfLease);
  grant.window_end_unix_ns = window.EndOf(grant.window_start_unix_ns);
  // The engine takes a lease away when it has expired and a window ends after that: until the later of both
  // times it may be spent, also while the engine is away.
  int64_t valid_ns = TimesSaturated(call.ttl_ms, kMsOfLease);
  if (grant.window_end_unix_ns == kNoEnd) {
    valid_ns = kNoEnd / 2;
  } else {
    valid_ns = std::max(valid_ns, grant.window_end_unix_ns - TimesSaturated(reply->now_ms, kMsOfLease));
  }
  grant.until_boot_ns = holding.pending_since_boot_ns + std::min(valid_ns, kNoEnd / 2);
  grant.used_up = call.least > 0 && reply->granted < call.least;
  grant.used_up_until_boot_ns = holding.pending_since_boot_ns + options_.retry.count();
  grant.low_water_pico = holding.low_water_pico;
  holding.pending = {};
  budgets_.SetLease(*holding.budget, grant);
  return Ok();
}

Status LeaseKeeper::ReportEnded(const BudgetSpec& budget, int64_t fence, int64_t spent_pico, Instant now) {
  LeaseCall call;
  call.budget = budget.name;
  call.limit = budget.limit_pico / kPicoPerMicro;
  if (budget.window.kind == BudgetWindow::Kind::kRolling)
    call.rolling_ms = budget.window.length_ns / kMsOfLease;
  else call.window_ms = budget.window.StartOf(now.unix_ns) / kMsOfLease;
  call.replica = options_.replica;
  call.fence = fence;
  call.spent = MicrosUp(spent_pico);
  call.close = true;
  return engine_.Exchange(call).status();
}

}  // namespace gpulens::proxy

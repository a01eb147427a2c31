#include "ledger/window_split.h"

#include <algorithm>
#include <cmath>

#include "ledger/apportion.h"

namespace gpulens::ledger {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
// An allocation without a process is starting for so long.
constexpr int64_t kStarting = 300 * kSecondNs;
// Three processes that ended within this time, and none is there: a crash loop.
constexpr int64_t kCrashLoop = 600 * kSecondNs;
// Performance states whose power is learnt; NVIDIA has 16.
constexpr size_t kMostPerformanceStates = 32;

bool SameLayout(const KeptReading& a, const KeptReading& b) {
  return a.mig == b.mig && std::equal(a.slices.begin(), a.slices.end(), b.slices.begin(), b.slices.end(),
                                      [](const KeptSlice& x, const KeptSlice& y) {
                                        return x.slice == y.slice && x.compute_slices == y.compute_slices;
                                      });
}

}  // namespace

void MergeShares(std::vector<Share>& shares) {
  std::sort(shares.begin(), shares.end(), [](const Share& a, const Share& b) { return a.key < b.key; });
  size_t count = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    const Share& share = shares[i];
    if (share.empty()) continue;
    if (count > 0 && shares[count - 1].key == share.key) {
      Share& sum = shares[count - 1];
      sum.energy_uj += share.energy_uj;
      sum.time_ns += share.time_ns;
      sum.had_ns += share.had_ns;
      sum.used_ns += share.used_ns;
      sum.unmetered_ns += share.unmetered_ns;
      sum.tokens += share.tokens;
    } else {
      shares[count++] = share;
    }
  }
  shares.resize(count);
}

void WindowSplit::Split(const GpuTimeline& gpu, uint32_t number, int64_t start, int64_t end,
                        const EngineOpen& engine_open, GpuFold& fold, std::vector<Share>& shares,
                        std::vector<ProcessShare>& processes) {
  number_ = number, engine_open_ = &engine_open, fold_ = &fold;
  shares_ = &shares, processes_ = &processes;
  empty_ = true, empty_state_ = -1, empty_energy_ = empty_ns_ = 0;
  const int64_t longest_gap = options_.longest_gap.count();
  for (size_t i = std::max<size_t>(1, gpu.After(start)); i < gpu.readings.size(); ++i) {
    const KeptReading& before = gpu.readings[i - 1];
    const KeptReading& now = gpu.readings[i];
    if (before.at >= end) break;
    Piece piece{&before, &now, std::max(start, before.at), std::min(end, now.at), 0, gpu.Metered(i), false};
    piece.first = piece.begin == before.read_at;
    if (piece.metered) piece.energy = gpu.EnergyAt(i, piece.end) - gpu.EnergyAt(i, piece.begin);
    const int64_t ns = piece.end - piece.begin;
    if (gpu.Unobserved(i, longest_gap)) {
      empty_ = false;
      AccountKey key;
      key.gpu = number;
      key.energy_state = EnergyState::kUnobserved, key.compute_state = ComputeState::kUnobserved;
      shares.push_back({key, piece.energy, ns, ns, ns, piece.metered ? 0 : ns});
      // What happened meanwhile is not known: it may have been used.
      if (now.at - before.read_at > options_.hold_time.count()) {
        for (Hold& hold : fold.holds) hold.idle = false;
      }
    } else {
      SplitPiece(piece);
      Learn(piece);
    }
  }
  // At least half of the window, so that the power is a mean that counters have resolved.
  if (empty_ && empty_energy_ > 0 && empty_ns_ >= options_.window.count() / 2) {
    const int64_t power = MulDiv(empty_energy_, kSecondNs, empty_ns_);
    const auto lower = [&](int64_t& learnt) { learnt = learnt < 0 ? power : std::min(learnt, power); };
    lower(fold.idle_uw);
    if (empty_state_ >= 0) {
      auto at = std::find_if(fold.idle_uw_of.begin(), fold.idle_uw_of.end(),
                             [&](const auto& row) { return row.first == empty_state_; });
      if (at == fold.idle_uw_of.end() && fold.idle_uw_of.size() < kMostPerformanceStates)
        at = fold.idle_uw_of.insert(at, {empty_state_, -1});
      if (at != fold.idle_uw_of.end()) lower(at->second);
    }
  }
}

void WindowSplit::Learn(const Piece& piece) {
  const KeptReading& now = *piece.now;
  if (!piece.metered || !now.available || !now.users_known || !now.users.empty() || now.use_ppm > 0)
    empty_ = false;
  if (empty_ns_ > 0 && empty_state_ != now.performance_state) empty_ = false;
  empty_state_ = now.performance_state;
  empty_energy_ += piece.energy;
  empty_ns_ += piece.end - piece.begin;
}

int64_t WindowSplit::IdlePower(int performance_state) const {
  for (const auto& [state, power] : fold_->idle_uw_of) {
    if (state == performance_state && power >= 0) return power;
  }
  if (fold_->idle_uw >= 0) return fold_->idle_uw;
  const double watts = options_.idle_watts.value_or(0);
  return watts > 0 && watts < 100'000 ? std::llround(watts * 1e6) : 0;
}

WindowSplit::Part& WindowSplit::NextPart() {
  if (part_count_ == parts_.size()) parts_.emplace_back();
  Part& part = parts_[part_count_++];
  std::vector<const KeptUser*> users = std::move(part.users);
  users.clear();
  part = Part();
  part.users = std::move(users);
  return part;
}

void WindowSplit::FindParts(const KeptReading& now) {
  part_count_ = 0;
  const auto add_users = [&](Part& part, auto&& belongs) {
    if (!now.users_known) return;
    for (const KeptUser& user : now.users) {
      if (belongs(user)) part.users.push_back(&user);
    }
  };
  if (!now.mig) {
    Part& part = NextPart();
    part.use_ppm = now.use_ppm;
    part.allocated = now.allocated;
    add_users(part, [](const KeptUser&) { return true; });
    return;
  }
  int64_t size = 0;
  for (const KeptSlice& slice : now.slices) {
    Part& part = NextPart();
    part.slice = slice.slice;
    part.size = slice.compute_slices;
    part.use_ppm = slice.use_ppm;
    part.allocated = slice.allocated;
    add_users(part, [&](const KeptUser& user) { return user.slice == slice.slice; });
    size += slice.compute_slices;
  }
  // What no instance has, and users whose instance is not known.
  Part& rest = NextPart();
  rest.size = std::max<int64_t>(0, now.compute_slices - size);
  add_users(rest, [&](const KeptUser& user) {
    return std::none_of(now.slices.begin(), now.slices.end(),
                        [&](const KeptSlice& slice) { return slice.slice == user.slice; });
  });
  if (rest.size == 0 && rest.users.empty() && part_count_ > 1) --part_count_;
}

// Whether something ran in the part.
void WindowSplit::Classify(Part& part, const KeptReading& now) {
  int64_t sum = 0;
  bool known = false;
  for (const KeptUser* user : part.users) {
    if (user->use_ppm == kUnknownPpm) continue;
    known = true;
    sum += user->use_ppm;
  }
  if (part.use_ppm == kUnknownPpm && known) part.use_ppm = static_cast<int>(std::min(kPpm, sum));
  // The rest of a GPU with MIG has nothing that could run without a user.
  const bool rest = now.mig && part.slice == 0 && part.users.empty();
  part.unknown = part.use_ppm == kUnknownPpm && !rest && !(now.users_known && part.users.empty());
  part.ran = part.use_ppm > 0 || sum > 0;
}

bool WindowSplit::Busy(const Part& part) const {
  return part.use_ppm != kUnknownPpm && part.use_ppm >= options_.idle_below * static_cast<double>(kPpm) &&
         part.use_ppm > 0;
}

void WindowSplit::SplitPiece(const Piece& piece) {
  const KeptReading& now = *piece.now;
  if (piece.first && !piece.before->from_state && !SameLayout(*piece.before, now)) fold_->holds.clear();
  FindParts(now);
  for (size_t i = 0; i < part_count_; ++i) Classify(parts_[i], now);
  DivideEnergy(piece);
  for (size_t i = 0; i < part_count_; ++i) SplitPart(piece, parts_[i]);
}

// Time and base power of a GPU with MIG are divided by the size of the parts; what is drawn above the base by
// the use of the parts that run.
void WindowSplit::DivideEnergy(const Piece& piece) {
  const int64_t ns = piece.end - piece.begin;
  const __int128 idle = static_cast<__int128>(IdlePower(piece.now->performance_state)) * ns / kSecondNs;
  const int64_t base = idle < piece.energy ? static_cast<int64_t>(idle) : piece.energy;
  if (part_count_ == 1) {
    parts_[0].ns = ns, parts_[0].base = base, parts_[0].dynamic = piece.energy - base;
    run_method_ = piece.now->mig ? Method::kMigSlice : Method::kWhole;
    return;
  }
  weights_.resize(part_count_), results_.resize(part_count_);
  const auto divide = [&](int64_t whole, int64_t Part::* out) {
    Apportion(whole, weights_, results_);
    for (size_t i = 0; i < part_count_; ++i) parts_[i].*out = results_[i];
  };
  for (size_t i = 0; i < part_count_; ++i) weights_[i] = parts_[i].size;
  divide(ns, &Part::ns);
  divide(base, &Part::base);
  // The parts that ran; none: those with a holder; none: all.
  const auto runs = [](const Part& part) { return part.ran || part.unknown; };
  const auto held = [](const Part& part) { return !part.users.empty() || part.allocated != kNoOwner; };
  const std::span<const Part> parts(parts_.data(), part_count_);
  const bool any_runs = std::any_of(parts.begin(), parts.end(), runs);
  const bool any_held = std::any_of(parts.begin(), parts.end(), held);
  const bool by_use = any_runs && std::none_of(parts.begin(), parts.end(), [&](const Part& part) {
                        return runs(part) && part.use_ppm == kUnknownPpm;
                      });
  for (size_t i = 0; i < part_count_; ++i) {
    const Part& part = parts[i];
    const bool takes = any_runs ? runs(part) : !any_held || held(part);
    const int64_t size = std::max<int64_t>(1, part.size);
    weights_[i] = !takes ? 0 : by_use ? size * part.use_ppm : size;
  }
  run_method_ = by_use ? Method::kUtilization : Method::kMigSlice;
  divide(piece.energy - base, &Part::dynamic);
}

Hold& WindowSplit::HoldOf(uint32_t slice) {
  for (Hold& hold : fold_->holds) {
    if (hold.slice == slice) return hold;
  }
  Hold& hold = fold_->holds.emplace_back();
  hold.slice = slice;
  return hold;
}

// Follows allocations and processes that came and went.
void WindowSplit::Remember(const Piece& piece, const Part& part, Hold& hold) {
  if (hold.allocated != part.allocated) {
    hold.allocated = part.allocated;
    hold.allocated_since = piece.begin;
    hold.ended.fill(kNever);
  }
  if (!piece.first || !piece.before->users_known || !piece.now->users_known) return;
  for (const KeptUser& user : piece.before->users) {
    const bool here = !piece.now->mig || user.slice == part.slice;
    if (!here) continue;
    const bool stays = std::any_of(part.users.begin(), part.users.end(), [&](const KeptUser* now) {
      return now->pid == user.pid && now->start_ticks == user.start_ticks;
    });
    if (stays) continue;
    hold.ended = {piece.now->at, hold.ended[0], hold.ended[1]};
  }
}

Cause WindowSplit::IdleCause(const KeptUser& user, const Piece& piece) const {
  if (const auto found = signals_.find(user.pid); found != signals_.end()) {
    const auto& list = found->second;
    auto at = std::upper_bound(list.begin(), list.end(), piece.end,
                               [](int64_t t, const auto& signal) { return t < signal.first; });
    if (at != list.begin() && (--at)->first > piece.begin - kSignalLife && at->second != Cause::kNone)
      return at->second;
  }
  const Owner& owner = owners_.At(user.owner);
  if (!owner.engine.empty() && (*engine_open_)(owner.engine) == Open::kNone) return Cause::kNoRequests;
  return Cause::kUnknown;
}

// The holders of a part and their shares: of what is reserved, and of what runs.
void WindowSplit::FindHolders(const Piece& piece, const Part& part) {
  holders_.clear(), reserved_.clear(), run_.clear();
  const bool mig = piece.now->mig;
  reserved_method_ = mig ? Method::kMigSlice : Method::kWhole;
  if (!mig) run_method_ = Method::kWhole;
  if (part.users.empty()) {
    if (part.allocated == kNoOwner) return;
    holders_.push_back({part.allocated, nullptr, Cause::kUnknown});
    reserved_.push_back(1), run_.push_back(1);
    return;
  }
  bool memory = true, any_memory = false, any_use = false;
  for (const KeptUser* user : part.users) {
    holders_.push_back({user->owner, user, IdleCause(*user, piece)});
    memory = memory && user->memory >= 0;
    any_memory = any_memory || user->memory > 0;
    any_use = any_use || user->use_ppm > 0;
  }
  memory = memory && any_memory;
  for (const KeptUser* user : part.users) {
    reserved_.push_back(memory ? user->memory : 1);
    // Drivers have no sample of a process that did not run.
    run_.push_back(any_use ? std::max(0, user->use_ppm) : 1);
  }
  if (part.users.size() == 1) return;
  reserved_method_ = memory ? Method::kMemory : Method::kEqual;
  run_method_ = any_use ? Method::kUtilization : Method::kEqual;
}

// The states of the part's time, the first rule that holds (docs/ledger.md).
void WindowSplit::FindStates(const Piece& piece, const Part& part, Hold& hold, bool busy) {
  const KeptReading& now = *piece.now;
  const int64_t length = piece.end - piece.begin;
  states_.clear();
  const auto all = [&](ComputeState state, Cause cause) { states_.push_back({state, cause, 1}); };
  // Before a moment one state, from it on another.
  const auto until = [&](int64_t moment, StatePart before, StatePart after) {
    before.weight = std::clamp<int64_t>(moment - piece.begin, 0, length);
    after.weight = length - before.weight;
    if (before.weight > 0) states_.push_back(before);
    if (after.weight > 0) states_.push_back(after);
  };

  const bool used = !part.users.empty() || !now.users_known;
  const bool idle = used && !holders_.empty() && part.use_ppm != kUnknownPpm && !busy;
  if (!idle) hold.idle = false;
  if (idle && !hold.idle) hold.idle = true, hold.idle_since = piece.begin;

  if (!now.available) {
    const Cause cause = now.unavailable_cause;
    return all(ComputeState::kUnavailable, cause == Cause::kMaintenance ? cause : Cause::kHardware);
  }
  if (busy) {
    const bool known_cause =
        now.throttle_cause == Cause::kThrottlePower || now.throttle_cause == Cause::kThrottleThermal;
    const int throttled = known_cause ? now.throttled_ppm : 0;
    if (throttled < kPpm) states_.push_back({ComputeState::kUseful, Cause::kNone, kPpm - throttled});
    if (throttled > 0) states_.push_back({ComputeState::kActiveWasted, now.throttle_cause, throttled});
    return;
  }
  if (holders_.empty())
    return all(part.unknown ? ComputeState::kUnobserved : ComputeState::kUnallocated, Cause::kNone);
  if (part.users.empty() && now.users_known) {
    if (hold.ended[2] > piece.begin - kCrashLoop)
      return all(ComputeState::kAllocatedUnheld, Cause::kCrashLoop);
    return until(hold.allocated_since + kStarting, {ComputeState::kAllocatedUnheld, Cause::kStarting, 0},
                 {ComputeState::kAllocatedUnheld, Cause::kForgotten, 0});
  }
  // Held, and whether it is used cannot be read.
  if (part.use_ppm == kUnknownPpm) return all(ComputeState::kUnobserved, Cause::kNone);
  // A pause shorter than the hold time belongs to the use; each holder has its own cause after it.
  until(hold.idle_since + options_.hold_time.count(), {ComputeState::kUseful, Cause::kNone, 0},
        {ComputeState::kHeldIdle, Cause::kUnknown, 0});
}

void WindowSplit::SplitPart(const Piece& piece, Part& part) {
  const Method run_method_of_parts = run_method_;
  FindHolders(piece, part);
  Hold& hold = HoldOf(part.slice);
  Remember(piece, part, hold);
  const bool busy = Busy(part);
  FindStates(piece, part, hold, busy);

  AccountKey key;
  key.gpu = number_, key.slice = part.slice;
  const int64_t unmetered = piece.metered ? 0 : part.ns;
  const bool runs = part.ran || part.unknown;
  const Holder none;
  if (holders_.empty()) {
    key.energy_state = runs ? EnergyState::kUnattributed : EnergyState::kIdle;
    Add(key, none, {part.base + part.dynamic, part.ns, part.ns, part.ns, unmetered});
    run_method_ = run_method_of_parts;
    return;
  }
  key.energy_state = EnergyState::kHeld, key.method = reserved_method_;
  AccountKey run_key = key;
  run_key.energy_state = EnergyState::kActive, run_key.method = run_method_;
  const bool known_runners = runs && !part.users.empty();
  // Base power, and all of a part in which nothing ran: held.
  const auto divide = [&](int64_t whole, const std::vector<int64_t>& weights, std::vector<int64_t>& out) {
    out.resize(weights.size());
    Apportion(whole, weights, out);
  };
  divide(part.base + (runs ? 0 : part.dynamic), reserved_, energy_parts_);
  const bool time_by_run = busy && known_runners;
  divide(part.ns, time_by_run ? run_ : reserved_, time_parts_);
  for (size_t i = 0; i < holders_.size(); ++i) {
    const int64_t time = time_by_run ? 0 : time_parts_[i];
    Add(key, holders_[i], {energy_parts_[i], time, 0, 0, piece.metered ? 0 : time});
    if (time_by_run) Add(run_key, holders_[i], {0, time_parts_[i], 0, 0, piece.metered ? 0 : time_parts_[i]});
    if (holders_[i].user != nullptr) AddProcess(*holders_[i].user, reserved_method_, energy_parts_[i]);
  }
  if (runs && known_runners) {
    divide(part.dynamic, run_, energy_parts_);
    for (size_t i = 0; i < holders_.size(); ++i) {
      Add(run_key, holders_[i], {energy_parts_[i], 0, 0, 0, 0});
      AddProcess(*holders_[i].user, run_method_, energy_parts_[i]);
    }
  } else if (runs) {
    AccountKey unknown = key;
    unknown.energy_state = EnergyState::kUnattributed, unknown.method = Method::kWhole;
    Add(unknown, none, {part.dynamic, 0, 0, 0, 0});
  }
  AddMoney(part, key, known_runners);
  run_method_ = run_method_of_parts;
}

// The time as a bill divides it: to who has the part, and to who used it.
void WindowSplit::AddMoney(const Part& part, AccountKey key, bool known_runners) {
  const auto has_it = [&](const Holder& holder) {
    if (part.allocated == kNoOwner || holder.owner == part.allocated) return true;
    const Owner& a = owners_.At(part.allocated);
    const Owner& b = owners_.At(holder.owner);
    if (!a.pod.empty()) return a.pod == b.pod && a.name_space == b.name_space;
    return !a.job.empty() && a.job == b.job;
  };
  weights_.clear();
  int64_t having = 0;
  for (size_t i = 0; i < holders_.size(); ++i) {
    const bool has = has_it(holders_[i]);
    having += has;
    weights_.push_back(has ? reserved_[i] : 0);
  }
  if (having == 0) {
    Add(key, {part.allocated, nullptr, Cause::kUnknown}, {0, 0, part.ns, 0, 0});
  } else {
    // Those that have it may hold no memory.
    if (std::all_of(weights_.begin(), weights_.end(), [](int64_t weight) { return weight == 0; })) {
      for (size_t i = 0; i < holders_.size(); ++i) weights_[i] = has_it(holders_[i]);
    }
    results_.resize(weights_.size());
    Apportion(part.ns, weights_, results_);
    for (size_t i = 0; i < holders_.size(); ++i) Add(key, holders_[i], {0, 0, results_[i], 0, 0});
  }
  const int64_t used = known_runners && part.use_ppm > 0 ? MulDiv(part.ns, part.use_ppm, kPpm) : 0;
  if (used > 0) {
    results_.resize(run_.size());
    Apportion(used, run_, results_);
    AccountKey run_key = key;
    run_key.energy_state = EnergyState::kActive, run_key.method = run_method_;
    for (size_t i = 0; i < holders_.size(); ++i) Add(run_key, holders_[i], {0, 0, 0, results_[i], 0});
  }
  key.method = Method::kWhole;
  Add(key, {kNoOwner, nullptr, holders_.front().idle_cause}, {0, 0, 0, part.ns - used, 0});
}

// One share for each state.
void WindowSplit::Add(AccountKey key, const Holder& holder, const Quantities& all) {
  if ((all.energy | all.time | all.had | all.used | all.unmetered) == 0) return;
  key.owner = holder.owner;
  const auto push = [&](const StatePart& state, const Quantities& q) {
    AccountKey to = key;
    to.compute_state = state.state;
    to.cause = state.state == ComputeState::kHeldIdle ? holder.idle_cause : state.cause;
    shares_->push_back({to, q.energy, q.time, q.had, q.used, q.unmetered});
  };
  if (states_.size() == 1) return push(states_[0], all);
  // At most two states: what the first has not, the second has.
  const int64_t total = states_[0].weight + states_[1].weight;
  const auto of = [&](int64_t whole) { return MulDiv(whole, states_[0].weight, total); };
  const Quantities first{of(all.energy), of(all.time), of(all.had), of(all.used), of(all.unmetered)};
  push(states_[0], first);
  push(states_[1], {all.energy - first.energy, all.time - first.time, all.had - first.had,
                    all.used - first.used, all.unmetered - first.unmetered});
}

void WindowSplit::AddProcess(const KeptUser& user, Method method, int64_t energy) {
  if (energy == 0 || user.pid <= 0) return;
  processes_->push_back({number_, user.pid, user.start_ticks, method, energy});
}

}  // namespace gpulens::ledger

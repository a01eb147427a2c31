// Analyzer of the health of each GPU, of any vendor: a score with reasons and confidence over a window that
// survives restarts. docs/fleet-health.md has the formulas.

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "catalog/gpu.h"
#include "catalog/limits.h"
#include "core/frame_writer.h"
#include "plugins/analyzers/fleet_health/gpu_inputs.h"
#include "plugins/analyzers/fleet_health/health_score.h"
#include "plugins/analyzers/fleet_health/health_window.h"
#include "plugins/event_queue.h"
#include "plugins/plugin.h"

namespace gpulens {

// Health of one GPU: its window, series and state. Used inside the analyzer's run. Does not allocate once its
// series are declared, except for an event.
class GpuHealth {
 public:
  GpuHealth(std::string key, Duration window) : key_(std::move(key)), window_(window) {}

  const std::string& key() const noexcept { return key_; }
  HealthWindow& window() noexcept { return window_; }
  const HealthWindow& window() const noexcept { return window_; }
  std::optional<HealthState> state() const noexcept { return state_; }
  // Sets the state that was saved.
  void Restore(HealthState state) noexcept { state_ = state; }
  // Boot time of its last tick.
  int64_t seen_ns() const noexcept { return seen_ns_; }
  void SeenAt(int64_t now_ns) noexcept { seen_ns_ = now_ns; }

  // `queue` may be null.
  void Update(const GpuNow& gpu, Instant now, FrameWriter& out, EventQueue* queue);
  // The GPU is no longer listed, while others are.
  void Missing(const GpuNow& gpu, Instant now, FrameWriter& out, EventQueue* queue);
  // Ends its series when the GPU left; its window stays.
  void Gone(SeriesTable& table);

 private:
  // Power, temperature, memory in use, clocks: readings of every working GPU.
  static constexpr size_t kVitalInputs = 5;

  void Follow(const EntityRef& entity, SeriesTable& table);
  void Put(Series& series, const MetricDesc& desc, std::optional<double> value, FrameWriter& out);
  // Returns what is wrong with the GPU now. `known`: whether its state is known at all.
  ConditionSet Conditions(const GpuNow& gpu, const HealthInputs& inputs, int64_t now_ns,
                          bool& known) noexcept;
  void ValidateReadings(const GpuNow& gpu, bool answers, int64_t now_ns, ConditionSet& found) noexcept;
  void ValidateBoard(const GpuNow& gpu, int64_t now_ns, ConditionSet& found) noexcept;
  void WriteConditions(const ConditionSet& conditions, FrameWriter& out);
  std::optional<bool> Downtrained(const GpuNow& gpu, int64_t now_ns) noexcept;
  size_t Offered(const GpuNow& gpu, const HealthScore& score) noexcept;
  void WriteInputs(const HealthInputs& inputs, FrameWriter& out);
  void WritePenalties(const HealthScore& score, size_t offered, FrameWriter& out);
  // Writes state and score; without a `score` only the conditions are known.
  void WriteState(const HealthScore& score, const ConditionSet& conditions, Instant now, FrameWriter& out,
                  EventQueue* queue);
  // Returns whether the state stays although a better one would fit.
  bool UpdateState(const HealthResult& result, Instant now, FrameWriter& out, EventQueue* queue);
  void Report(const HealthResult& result, Instant now, EventQueue* queue) const;

  std::string key_;
  HealthWindow window_;
  int64_t seen_ns_ = 0;
  LastingCondition slow_link_;  // a low link generation under load
  // Conditions that count once they have lasted.
  LastingCondition silent_, missing_, fabric_pending_, fabric_failed_, fabric_degraded_, power_brake_,
      slowdown_, hot_;
  RecentGrowth replays_, link_errors_;
  double failing_ = 0;                          // the share of recent ticks in which a vital reading failed
  int64_t validated_ns_ = 0;                    // time of the last validation
  double most_links_ = 0;                       // up at the same time since this process runs
  std::array<bool, kVitalInputs> ever_read_{};  // by index in the table of vital readings
  int64_t better_since_ns_ = 0;                 // since when a better state fits; 0: not now
  std::array<bool, kHealthReasons> ever_live_{};
  std::optional<HealthState> state_;
  double shown_score_ = 1;          // the last one that was written
  bool reports_its_state_ = false;  // its collector has gpu.state, so its absence counts

  EntityRef entity_;
  Series xid_rate_, corrected_rate_, uncorrected_, rows_available_, downtrained_, ramp_, score_, confidence_;
  std::array<Series, kHealthReasons> penalties_;
  std::array<Series, kHealthConditions> conditions_;
  std::array<Series, kHealthStates> states_;
};

namespace {

constexpr int64_t kSecond = 1'000'000'000, kSlowLinkDelay = limits::kSlowLinkSeconds * kSecond;
// How long each of these must hold before it counts: longer than a round of readings, a start of the driver
// process, and what a load causes in passing. Registration with the fabric takes minutes after a boot.
constexpr int64_t kSilentDelay = 10 * kSecond, kNeverReadDelay = 60 * kSecond, kMissingDelay = 30 * kSecond,
                  kFabricDelay = 300 * kSecond, kThrottleDelay = 10 * kSecond, kHeatDelay = 60 * kSecond;
// The share of readings that may fail, the time over which it is taken in nanoseconds, and the most that one
// reading counts for in it.
constexpr double kMostFailing = 0.4, kMeanOver = 60e9, kMostWeight = 0.1;
// A better state must last that long, so that a GPU at a threshold does not change its state all the time.
constexpr int64_t kBetterDelay = 30'000'000'000;

std::optional<bool> Flag(std::optional<double> value) noexcept {
  if (!value) return std::nullopt;
  return *value != 0;
}

std::optional<bool> IsBusy(const GpuNow& gpu) noexcept {
  if (auto busy = gpu[GpuInput::kBusy]) return *busy > limits::kBusyAbove;
  // In MIG mode the GPU as a whole has no utilization; its clocks are used.
  if (auto idle = gpu[GpuInput::kClockIdle]) return *idle == 0;
  return std::nullopt;
}

SpareRows RowsOf(const GpuNow& gpu) noexcept {
  SpareRows rows;
  rows.failed = Flag(gpu[GpuInput::kRemapFailed]);
  rows.low = gpu[GpuInput::kBanksLow];
  rows.none = gpu[GpuInput::kBanksNone];
  if (!gpu[GpuInput::kBanksMax]) return rows;
  rows.with_spare = 0;
  for (GpuInput banks :
       {GpuInput::kBanksMax, GpuInput::kBanksHigh, GpuInput::kBanksPartial, GpuInput::kBanksLow}) {
    *rows.with_spare += gpu[banks].value_or(0);
  }
  return rows;
}

bool IsSet(const GpuNow& gpu, GpuInput input) noexcept { return gpu[input].value_or(0) != 0; }

// Whether a reading is at or above its limit; false when one of them is unknown.
bool Reaches(const GpuNow& gpu, GpuInput reading, GpuInput limit) noexcept {
  return gpu[reading] && gpu[limit] && *gpu[reading] >= *gpu[limit];
}

bool IsTooHot(const GpuNow& gpu) noexcept {
  if (gpu[GpuInput::kMargin] && *gpu[GpuInput::kMargin] <= gpu[GpuInput::kMarginLimit].value_or(0))
    return true;
  return Reaches(gpu, GpuInput::kEdge, GpuInput::kEdgeLimit) ||
         Reaches(gpu, GpuInput::kHotspot, GpuInput::kHotspotLimit) ||
         Reaches(gpu, GpuInput::kMemoryHeat, GpuInput::kMemoryHeatLimit);
}

std::optional<double> DieTemperature(const GpuNow& gpu) noexcept {
  return gpu[GpuInput::kEdge] ? gpu[GpuInput::kEdge] : gpu[GpuInput::kHotspot];
}

}  // namespace

void GpuHealth::Gone(SeriesTable& table) {
  if (!entity_) return;
  table.Retire(entity_);
  entity_ = {};
  xid_rate_ = corrected_rate_ = uncorrected_ = rows_available_ = downtrained_ = ramp_ = score_ =
      confidence_ = {};
  penalties_ = {};
  conditions_ = {};
  states_ = {};
  slow_link_.Reset();
  reports_its_state_ = false;
}

void GpuHealth::Follow(const EntityRef& entity, SeriesTable& table) {
  if (entity_ == entity) return;
  // The same attributes in another object are the same series.
  if (entity_ && entity_->attributes == entity->attributes) return;
  Gone(table);
  entity_ = entity;
}

void GpuHealth::Put(Series& series, const MetricDesc& desc, std::optional<double> value, FrameWriter& out) {
  if (!value) return;
  out.DeclareAndSet(series, desc, entity_, {}, *value);
}

std::optional<bool> GpuHealth::Downtrained(const GpuNow& gpu, int64_t now_ns) noexcept {
  auto width = gpu[GpuInput::kLinkWidth], widest = gpu[GpuInput::kLinkWidthMax];
  auto gen = gpu[GpuInput::kLinkGen], highest = gpu[GpuInput::kLinkGenMax];
  bool width_known = width && widest, gen_known = gen && highest;
  if (!width_known && !gen_known) return std::nullopt;
  bool slow = gen_known && *gen < *highest;
  std::optional<bool> busy = IsBusy(gpu);
  bool lasts = slow_link_.For(kSlowLinkDelay, slow && busy.value_or(false), now_ns);
  if (width_known && *width < *widest) return true;
  if (slow && !busy)
    return std::nullopt;  // An idle GPU lets its link slow down; whether it is idle is unknown.
  return lasts;
}

void GpuHealth::ValidateReadings(const GpuNow& gpu, bool answers, int64_t now_ns,
                                 ConditionSet& found) noexcept {
  const bool read[kVitalInputs] = {gpu[GpuInput::kPower].has_value(),
                                   gpu[GpuInput::kPowerInstant].has_value(), DieTemperature(gpu).has_value(),
                                   gpu[GpuInput::kMemoryUsed].has_value(), gpu[GpuInput::kClock].has_value()};
  bool any = gpu[GpuInput::kBusy].has_value(), ever = false, lacks = false;
  for (size_t i = 0; i < kVitalInputs; ++i) {
    any = any || read[i];
    ever = ever || ever_read_[i];
    lacks = lacks || (ever_read_[i] && !read[i]);
    ever_read_[i] = ever_read_[i] || read[i];
  }
  // Listed, but its state is no longer reported while that of others is: it answers nothing at all.
  bool mute = reports_its_state_ && !gpu[GpuInput::kStateOk] && gpu.others_answer;
  int64_t delay = ever && !mute ? kSilentDelay : kNeverReadDelay;
  auto put = [&](HealthCondition condition, bool holds) { found[static_cast<size_t>(condition)] = holds; };
  put(HealthCondition::kNoReadings, silent_.For(delay, (answers || mute) && !any, now_ns));
  put(HealthCondition::kReadingsMissing, missing_.For(kMissingDelay, answers && any && lacks, now_ns));
  if (!answers || !any) return;
  // An exponential mean over about a minute, and over ten readings where these are far apart.
  double passed = static_cast<double>(now_ns - validated_ns_) / kMeanOver;
  failing_ += ((lacks ? 1 : 0) - failing_) * std::min(passed, kMostWeight);
  validated_ns_ = now_ns;
  put(HealthCondition::kReadingsFail, failing_ > kMostFailing);
}

// Conditions of fabric, links, power and temperature.
void GpuHealth::ValidateBoard(const GpuNow& gpu, int64_t now_ns, ConditionSet& found) noexcept {
  auto put = [&](HealthCondition condition, bool holds) { found[static_cast<size_t>(condition)] = holds; };
  bool waits = IsSet(gpu, GpuInput::kFabricNotStarted) || IsSet(gpu, GpuInput::kFabricInProgress);
  bool failed = IsSet(gpu, GpuInput::kFabricCompleted) && IsSet(gpu, GpuInput::kFabricStatus);
  put(HealthCondition::kFabricPending, fabric_pending_.For(kFabricDelay, waits, now_ns));
  put(HealthCondition::kFabricFailed, fabric_failed_.For(kThrottleDelay, failed, now_ns));
  put(HealthCondition::kFabricDegraded,
      fabric_degraded_.For(kThrottleDelay, IsSet(gpu, GpuInput::kFabricDegraded), now_ns));
  put(HealthCondition::kPowerBrake,
      power_brake_.For(kThrottleDelay, IsSet(gpu, GpuInput::kPowerBrake), now_ns));
  put(HealthCondition::kThermalSlowdown,
      slowdown_.For(kThrottleDelay, IsSet(gpu, GpuInput::kThermalSlowdown), now_ns));
  put(HealthCondition::kTooHot, hot_.For(kHeatDelay, IsTooHot(gpu), now_ns));
  put(HealthCondition::kInforomCorrupt, gpu[GpuInput::kInforomValid].value_or(1) == 0);
  if (auto replays = gpu[GpuInput::kReplays]) replays_.Read(now_ns, *replays);
  if (auto errors = gpu[GpuInput::kLinkErrors]) link_errors_.Read(now_ns, *errors);
  put(HealthCondition::kPcieReplays, replays_.grown() > limits::kMostPcieReplays);
  put(HealthCondition::kLinkErrors, link_errors_.grown() > limits::kMostLinkErrors);
  // Boards in use without a bridge have links that are down by design: only the difference is a fault.
  // Splitting a GPU into MIG instances takes its links down.
  auto active = gpu[GpuInput::kLinksActive];
  if (!active || gpu.mig) return;
  most_links_ = std::max({most_links_, *active, gpu.links_of_its_kind});
  put(HealthCondition::kLinksDown, *active < most_links_);
}

ConditionSet GpuHealth::Conditions(const GpuNow& gpu, const HealthInputs& inputs, int64_t now_ns,
                                   bool& known) noexcept {
  ConditionSet found{};
  auto put = [&](HealthCondition condition, bool holds) { found[static_cast<size_t>(condition)] = holds; };
  auto ok = gpu[GpuInput::kStateOk];
  // A GPU without permission to read it is not faulty.
  bool forbidden = IsSet(gpu, GpuInput::kStateNoPermission), away = ok && *ok == 0 && !forbidden;
  bool answers = ok && *ok != 0;
  reports_its_state_ = reports_its_state_ || ok;
  // Any state that is neither "ok" nor one of these counts as lost.
  constexpr std::pair<GpuInput, HealthCondition> kStates[] = {
      {GpuInput::kStateHung, HealthCondition::kHung},
      {GpuInput::kStateReset, HealthCondition::kResetRequired},
      {GpuInput::kStateFailed, HealthCondition::kCannotOpen},
      {GpuInput::kStateLeftOut, HealthCondition::kLeftOut},
      {GpuInput::kStateUnread, HealthCondition::kUnread},
  };
  bool named = false;
  for (auto [input, condition] : kStates) {
    put(condition, away && IsSet(gpu, input));
    named = named || IsSet(gpu, input);
  }
  put(HealthCondition::kLost, away && !named);
  ValidateReadings(gpu, answers, now_ns, found);
  ValidateBoard(gpu, now_ns, found);
  put(HealthCondition::kDriverFails, gpu.driver_failures > DriverFailures::kMost);
  put(HealthCondition::kRecoveryAction, gpu[GpuInput::kRecoveryNone].value_or(1) == 0);
  put(HealthCondition::kXidReset, IsSet(gpu, GpuInput::kXidsReset));
  put(HealthCondition::kXidDiagnose, IsSet(gpu, GpuInput::kXidsDiagnose));
  put(HealthCondition::kMemoryUnrepairable, IsSet(gpu, GpuInput::kUnrepairable));
  put(HealthCondition::kRowRemap, inputs.rows.failed.value_or(false) || inputs.rows.none.value_or(0) > 0);
  put(HealthCondition::kSramThreshold, IsSet(gpu, GpuInput::kSramExceeded));
  put(HealthCondition::kPcieDowntrained, inputs.pcie_downtrained.value_or(false));
  put(HealthCondition::kRemapPending, IsSet(gpu, GpuInput::kRemapPending));
  // Counters of events, and counters that are read once a minute, do not show that a GPU still answers.
  bool any = gpu[GpuInput::kPower] || gpu[GpuInput::kPowerInstant] || DieTemperature(gpu) ||
             gpu[GpuInput::kMemoryUsed] || gpu[GpuInput::kClock] || gpu[GpuInput::kBusy];
  bool counts = gpu[GpuInput::kUncorrected] || gpu[GpuInput::kCorrected] || gpu[GpuInput::kLinkWidth];
  bool unseen = forbidden || (reports_its_state_ && !ok);
  known = away || (!unseen && (any || (counts && !ok))) || std::ranges::find(found, true) != found.end();
  return found;
}

// Inputs that this board has: link and temperature always, XIDs of NVIDIA, others once they were seen.
size_t GpuHealth::Offered(const GpuNow& gpu, const HealthScore& score) noexcept {
  for (size_t i = 0; i < kHealthReasons; ++i) ever_live_[i] = ever_live_[i] || score.penalty[i];
  auto offers = [&](HealthReason reason) { ever_live_[static_cast<size_t>(reason)] = true; };
  offers(HealthReason::kPcieDowntrained);
  offers(HealthReason::kThermalRamp);
  if (gpu[GpuInput::kVendorNvidia]) offers(HealthReason::kXidRate);
  return static_cast<size_t>(std::ranges::count(ever_live_, true));
}

void GpuHealth::Update(const GpuNow& gpu, Instant now, FrameWriter& out, EventQueue* queue) {
  seen_ns_ = now.boot_ns;
  Follow(gpu.entity, out.table());
  window_.Observe(now.boot_ns, {DieTemperature(gpu), gpu[GpuInput::kCorrected], gpu[GpuInput::kXids]});
  HealthInputs inputs;
  inputs.pcie_downtrained = Downtrained(gpu, now.boot_ns);
  inputs.corrected_per_hour = window_.CorrectedPerHour();
  inputs.uncorrected = gpu[GpuInput::kUncorrected];
  inputs.xids_per_hour = window_.XidsPerHour();
  inputs.ramp_per_minute = window_.RampPerMinute();
  inputs.rows = RowsOf(gpu);
  HealthScore score = ScoreOf(inputs);
  bool known = false;
  ConditionSet conditions = Conditions(gpu, inputs, now.boot_ns, known);
  WriteInputs(inputs, out);
  size_t offered = Offered(gpu, score);
  if (!known) {
    Put(confidence_, kGpuHealthConfidence, 0, out);
    return;
  }
  WritePenalties(score, offered, out);
  WriteConditions(conditions, out);
  WriteState(score, conditions, now, out, queue);
}

void GpuHealth::Missing(const GpuNow& gpu, Instant now, FrameWriter& out, EventQueue* queue) {
  Follow(gpu.entity, out.table());
  ConditionSet conditions{};
  conditions[static_cast<size_t>(HealthCondition::kMissing)] = true;
  Put(confidence_, kGpuHealthConfidence, 0, out);
  WriteConditions(conditions, out);
  WriteState({}, conditions, now, out, queue);
}

void GpuHealth::WriteInputs(const HealthInputs& inputs, FrameWriter& out) {
  Put(xid_rate_, kGpuXidErrorRate, inputs.xids_per_hour, out);
  Put(corrected_rate_, kGpuEccSbeRate, inputs.corrected_per_hour, out);
  Put(uncorrected_, kGpuEccDbeTotal, inputs.uncorrected, out);
  Put(rows_available_, kGpuRowRemapAvailable, inputs.rows.with_spare, out);
  if (inputs.pcie_downtrained)
    Put(downtrained_, kGpuPcieLinkDowntraining, *inputs.pcie_downtrained ? 1 : 0, out);
  Put(ramp_, kGpuThermalRampRate, inputs.ramp_per_minute, out);
}

void GpuHealth::WriteState(const HealthScore& score, const ConditionSet& conditions, Instant now,
                           FrameWriter& out, EventQueue* queue) {
  bool waits = UpdateState(CheckHealth(score, conditions), now, out, queue);
  std::optional<double> limited = LimitedScore(score, conditions);
  if (!limited) return;
  // State and score improve together, so that "failed" never has a good score. The state of an earlier
  // process has no score.
  if (waits) limited = std::min({*limited, shown_score_, HighestScore(*state_)});
  shown_score_ = *limited;
  Put(score_, kGpuHealthScore, limited, out);
}

void GpuHealth::WritePenalties(const HealthScore& score, size_t offered, FrameWriter& out) {
  Put(confidence_, kGpuHealthConfidence, static_cast<double>(score.live) / static_cast<double>(offered), out);
  for (size_t i = 0; i < kHealthReasons; ++i) {
    if (!score.penalty[i]) continue;
    out.DeclareAndSet(penalties_[i], kGpuHealthPenalty, entity_,
                      {{"gpu.health.reason", kHealthWeights[i].name}}, *score.penalty[i]);
  }
}

// A condition has a series from the first time it holds.
void GpuHealth::WriteConditions(const ConditionSet& conditions, FrameWriter& out) {
  for (size_t i = 0; i < kHealthConditions; ++i) {
    if (!conditions[i] && !conditions_[i]) continue;
    out.DeclareAndSet(conditions_[i], kGpuHealthCondition, entity_,
                      {{"gpu.health.reason", kHealthConditionRows[i].name}}, conditions[i] ? 1 : 0);
  }
}

bool GpuHealth::UpdateState(const HealthResult& result, Instant now, FrameWriter& out, EventQueue* queue) {
  bool better = state_ && result.state < *state_;
  if (!better) better_since_ns_ = 0;
  else if (better_since_ns_ == 0) better_since_ns_ = now.boot_ns;
  bool waits = better && now.boot_ns - better_since_ns_ < kBetterDelay;
  if (!waits && state_ != result.state) {
    // A first state of ok is not an event.
    if (state_ || result.state != HealthState::kOk) Report(result, now, queue);
    state_ = result.state;
    better_since_ns_ = 0;
  }
  for (size_t i = 0; i < kHealthStates; ++i) {
    HealthState each = static_cast<HealthState>(i);
    out.DeclareAndSet(states_[i], kGpuHealthState, entity_, {{"gpu.health.state", HealthStateName(each)}},
                      each == *state_ ? 1 : 0);
  }
  return waits;
}

void GpuHealth::Report(const HealthResult& result, Instant now, EventQueue* queue) const {
  if (!queue) return;
  Event event;
  event.at = now;
  event.name = "gpu.health.change";
  event.entity = entity_;
  std::string_view before = state_ ? HealthStateName(*state_) : std::string_view("unknown");
  event.attributes = result.reason.empty()
                         ? AttributeSet({{"gpu.health.state", HealthStateName(result.state)}})
                         : AttributeSet({{"gpu.health.state", HealthStateName(result.state)},
                                         {"gpu.health.reason", result.reason}});
  event.body = "GPU health was " + std::string(before) + ", is " + std::string(HealthStateName(result.state));
  if (!result.reason.empty()) event.body += ": " + std::string(result.reason);
  queue->Report(std::move(event));
}

namespace {

constexpr std::string_view kFileName = "/fleet_health.state";
constexpr int64_t kSaveEvery = 60'000'000'000;

constexpr OptionSpec kOptions[] = {
    TimeOption("window", "5m", "Time over which rates and the heating of a GPU are computed", 60, 86400),
};
using Options = OptionsOf<kOptions>;

class FleetHealth final : public Analyzer {
 public:
  FleetHealth(Duration window, Env& env)
      : window_(window),
        env_(env),
        path_(env.state_dir.empty() ? "" : env.state_dir + std::string(kFileName)) {
    Load();
  }
  ~FleetHealth() override {
    if (!gpus_.empty()) Save(env_.clock->Now());
  }

  Status Analyze(const Snapshot& snapshot, FrameWriter& out) override {
    inputs_.Gather(snapshot);
    Instant now = snapshot.closed_at;
    auto& gpus = inputs_.gpus();
    // When all are gone at once, no collector reads GPUs, and none is missing.
    bool any = std::ranges::any_of(gpus, [](const GpuNow& gpu) { return gpu.here; });
    for (const GpuNow& gpu : gpus) {
      GpuHealth& health = Of(gpu.key);
      bool recent = now.boot_ns - health.seen_ns() <= window_.count();
      if (gpu.here) health.Update(gpu, now, out, env_.events);
      else if (any && recent && !gpu.nameless && !HasNamelessSuccessor(gpu))
        health.Missing(gpu, now, out, env_.events);
      else health.Gone(out.table());
    }
    ForgetTheGone(now);
    if (!inputs_.gpus().empty()) WriteWindow(out);
    if (saved_ns_ == 0) saved_ns_ = now.boot_ns;
    if (now.boot_ns - saved_ns_ >= kSaveEvery && !gpus_.empty()) Save(now);
    return Ok();
  }

 private:
  GpuHealth& Of(const std::string& key) {
    for (GpuHealth& health : gpus_) {
      if (health.key() == key) return health;
    }
    return gpus_.emplace_back(key, window_);
  }

  // A GPU that cannot be opened has neither model nor uuid: it is the one that had its index.
  bool HasNamelessSuccessor(const GpuNow& gone) const {
    auto& gpus = inputs_.gpus();
    return std::ranges::any_of(
        gpus, [&](const GpuNow& other) { return other.here && other.nameless && other.index == gone.index; });
  }

  // Removes GPUs that were not seen for a window, and at once those with an index only.
  void ForgetTheGone(Instant now) {
    auto& known = inputs_.gpus();
    for (size_t i = known.size(); i-- > 0;) {
      if (known[i].here) continue;
      bool recent = now.boot_ns - Of(known[i].key).seen_ns() <= window_.count();
      if (recent && !known[i].nameless) continue;
      inputs_.Remove(i);
    }
    std::erase_if(gpus_, [&](const GpuHealth& health) {
      bool watched = std::ranges::any_of(known, [&](const GpuNow& g) { return g.key == health.key(); });
      return !watched && now.boot_ns - health.seen_ns() > window_.count();
    });
  }

  void WriteWindow(FrameWriter& out) {
    if (!host_) {
      host_ = MakeRef<Entity>("host", env_.demo ? AttributeSet({{"simulated", true}}) : AttributeSet());
      length_ = out.table().Declare(kGpuHealthWindow, host_);
    }
    out.Set(length_, static_cast<double>(window_.count()) * 1e-9);
  }

  void Load() {
    if (path_.empty()) return;
    Result<std::string> text = ReadFile(path_, kHealthFileLimit);
    if (!text && text.error().code == Code::kUnavailable) return;
    Status status = text.status();
    if (text) {
      Result<std::vector<SavedGpu>> saved = DecodeHealthFile(*text);
      if (saved) return Restore(*saved);
      status = saved.error();
    }
    Log(LogLevel::kWarn, "fleet_health", "state", path_ + ": " + status.detail + "; the window starts empty");
  }

  void Restore(const std::vector<SavedGpu>& saved) {
    Instant now = env_.clock->Now();
    for (const SavedGpu& gpu : saved) {
      GpuHealth& health = gpus_.emplace_back(gpu.key, window_);
      health.SeenAt(now.boot_ns);
      if (gpu.state) health.Restore(*gpu.state);
      health.window().Restore(gpu.corrected, gpu.xids);
      for (HealthMoment moment : gpu.moments) {
        int64_t age = now.unix_ns - moment.at_ns;
        // After a clock change moments could be in the future.
        if (age < 0 || age > 2 * window_.count()) continue;
        moment.at_ns = now.boot_ns - age;
        health.window().Restore(moment);
      }
    }
  }

  void Save(Instant now) {
    saved_ns_ = now.boot_ns;
    if (path_.empty()) return;
    std::vector<SavedGpu> saved;
    for (const GpuHealth& health : gpus_) {
      SavedGpu gpu{health.key(), health.state(), health.window().corrected(), health.window().xids(), {}};
      for (size_t i = 0; i < health.window().size(); ++i) {
        HealthMoment moment = health.window()[i];
        moment.at_ns = now.unix_ns - (now.boot_ns - moment.at_ns);
        if (moment.at_ns > 0) gpu.moments.push_back(moment);
      }
      saved.push_back(std::move(gpu));
    }
    Status status = MakeFoldersAbove(path_);
    // Not synced: the tick waits for this.
    if (status) status = WriteFileAtomically(path_, EncodeHealthFile(saved), {.sync = false});
    if (!status && !save_failed_) Log(LogLevel::kWarn, "fleet_health", "state", status.detail);
    save_failed_ = !status;
  }

  const Duration window_;
  Env& env_;
  const std::string path_;  // empty: nothing is kept
  GpuInputs inputs_;
  std::vector<GpuHealth> gpus_;
  EntityRef host_;
  Series length_;
  int64_t saved_ns_ = 0;
  bool save_failed_ = false;
};

Result<std::unique_ptr<Analyzer>> Create(const Config& config, Env& env) {
  return std::unique_ptr<Analyzer>(std::make_unique<FleetHealth>(Options(config).Time("window"), env));
}

constexpr const MetricDesc* kMetrics[] = {
    &kGpuXidErrorRate,  &kGpuEccSbeRate,           &kGpuEccDbeTotal,     &kGpuRowRemapAvailable,
    &kGpuHealthScore,   &kGpuPcieLinkDowntraining, &kGpuThermalRampRate, &kGpuHealthConfidence,
    &kGpuHealthPenalty, &kGpuHealthState,          &kGpuHealthWindow,    &kGpuHealthCondition,
};

}  // namespace

extern const AnalyzerSpec fleet_health_analyzer;
const AnalyzerSpec fleet_health_analyzer{.name = "fleet_health",
                                         .help = "A health score of each GPU, with reasons and confidence.",
                                         .options = kOptions,
                                         .metrics = kMetrics,
                                         .create = &Create};

}  // namespace gpulens

#include "analyzers/fleet_health/gpu_health.h"

#include <algorithm>

#include "catalog/gpu/score.h"
#include "pipeline/events/event_desk.h"

namespace gpulens {
namespace {

// Link generation and load are read up to ten seconds apart, and a link takes a moment to speed up.
constexpr int64_t kSlowLinkPatience = 30'000'000'000;
// A better word must last that long, so that a GPU at a threshold does not change its word all the time.
constexpr int64_t kBetterPatience = 30'000'000'000;
constexpr double kBusyAbove = 0.05;

std::optional<bool> Flag(std::optional<double> value) noexcept {
  if (!value) return std::nullopt;
  return *value != 0;
}

std::optional<bool> IsBusy(const GpuNow& gpu) noexcept {
  if (auto busy = gpu[GpuInput::kBusy]) return *busy > kBusyAbove;
  // In MIG mode the GPU as a whole has no utilization; its clocks tell.
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

SelfReport ReportOf(const GpuNow& gpu) noexcept {
  SelfReport self;
  // A GPU that we may not read is not ill.
  bool forbidden = gpu[GpuInput::kStateNoPermission].value_or(0) != 0;
  if (!forbidden) {
    self.answers = Flag(gpu[GpuInput::kStateOk]);
    self.hung = Flag(gpu[GpuInput::kStateHung]);
  }
  if (auto none = gpu[GpuInput::kRecoveryNone]) self.wants_recovery = *none == 0;
  self.sram_exceeded = Flag(gpu[GpuInput::kSramExceeded]);
  self.unrepairable = Flag(gpu[GpuInput::kUnrepairable]);
  self.remap_pending = Flag(gpu[GpuInput::kRemapPending]);
  return self;
}

}  // namespace

void GpuHealth::Gone(SeriesTable& table) {
  if (!entity_) return;
  table.Retire(entity_);
  entity_ = {};
  xid_rate_ = corrected_rate_ = uncorrected_ = rows_available_ = downtrained_ = ramp_ = score_ =
      confidence_ = {};
  penalties_ = {};
  states_ = {};
  slow_since_ns_ = 0;
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
  if (!series) series = out.table().Declare(desc, entity_);
  out.Set(series, *value);
}

std::optional<bool> GpuHealth::Downtrained(const GpuNow& gpu, int64_t now_ns) noexcept {
  auto width = gpu[GpuInput::kLinkWidth], widest = gpu[GpuInput::kLinkWidthMax];
  auto gen = gpu[GpuInput::kLinkGen], highest = gpu[GpuInput::kLinkGenMax];
  bool width_known = width && widest, gen_known = gen && highest;
  if (!width_known && !gen_known) return std::nullopt;
  bool slow = gen_known && *gen < *highest;
  std::optional<bool> busy = IsBusy(gpu);
  if (!slow || !busy.value_or(false)) slow_since_ns_ = 0;
  else if (slow_since_ns_ == 0) slow_since_ns_ = now_ns;
  if (width_known && *width < *widest) return true;
  if (slow && !busy) return std::nullopt;  // An idle GPU lets its link slow down; nobody knows whether it is.
  return slow_since_ns_ != 0 && now_ns - slow_since_ns_ >= kSlowLinkPatience;
}

// Inputs that this board offers: link and temperature every one, XIDs NVIDIA's, the rest once it was there.
size_t GpuHealth::Offered(const GpuNow& gpu, const HealthScore& score) noexcept {
  for (size_t i = 0; i < kHealthReasons; ++i) ever_live_[i] = ever_live_[i] || score.penalty[i];
  auto offers = [&](HealthReason reason) { ever_live_[static_cast<size_t>(reason)] = true; };
  offers(HealthReason::kPcieDowntrained);
  offers(HealthReason::kThermalRamp);
  if (gpu[GpuInput::kVendorNvidia]) offers(HealthReason::kXidRate);
  return static_cast<size_t>(std::count(ever_live_.begin(), ever_live_.end(), true));
}

void GpuHealth::Update(const GpuNow& gpu, Instant now, FrameWriter& out, EventDesk* desk) {
  seen_ns_ = now.boot_ns;
  Follow(gpu.entity, out.table());
  auto temperature = gpu[GpuInput::kEdge] ? gpu[GpuInput::kEdge] : gpu[GpuInput::kHotspot];
  window_.Observe(now.boot_ns, {temperature, gpu[GpuInput::kCorrected], gpu[GpuInput::kXids]});
  HealthInputs inputs;
  inputs.pcie_downtrained = Downtrained(gpu, now.boot_ns);
  inputs.corrected_per_hour = window_.CorrectedPerHour();
  inputs.uncorrected = gpu[GpuInput::kUncorrected];
  inputs.xids_per_hour = window_.XidsPerHour();
  inputs.ramp_per_minute = window_.RampPerMinute();
  inputs.rows = RowsOf(gpu);
  HealthScore score = ScoreOf(inputs);
  Write(inputs, score, Offered(gpu, score), out);
  if (auto verdict = JudgeHealth(inputs, score, ReportOf(gpu))) UpdateState(*verdict, now, out, desk);
}

void GpuHealth::Write(const HealthInputs& inputs, const HealthScore& score, size_t offered,
                      FrameWriter& out) {
  Put(xid_rate_, kGpuXidErrorRate, inputs.xids_per_hour, out);
  Put(corrected_rate_, kGpuEccSbeRate, inputs.corrected_per_hour, out);
  Put(uncorrected_, kGpuEccDbeTotal, inputs.uncorrected, out);
  Put(rows_available_, kGpuRowRemapAvailable, inputs.rows.with_spare, out);
  if (inputs.pcie_downtrained) {
    Put(downtrained_, kGpuPcieLinkDowntraining, *inputs.pcie_downtrained ? 1 : 0, out);
  }
  Put(ramp_, kGpuThermalRampRate, inputs.ramp_per_minute, out);
  Put(score_, kGpuHealthScore, score.score, out);
  Put(confidence_, kGpuHealthConfidence, static_cast<double>(score.live) / static_cast<double>(offered), out);
  for (size_t i = 0; i < kHealthReasons; ++i) {
    if (!score.penalty[i]) continue;
    if (!penalties_[i]) {
      penalties_[i] =
          out.table().Declare(kGpuHealthPenalty, entity_, {{"gpu.health.reason", kHealthWeights[i].name}});
    }
    out.Set(penalties_[i], *score.penalty[i]);
  }
}

void GpuHealth::UpdateState(const HealthVerdict& verdict, Instant now, FrameWriter& out, EventDesk* desk) {
  bool better = state_ && verdict.state < *state_;
  if (!better) better_since_ns_ = 0;
  else if (better_since_ns_ == 0) better_since_ns_ = now.boot_ns;
  bool waits = better && now.boot_ns - better_since_ns_ < kBetterPatience;
  if (!waits && state_ != verdict.state) {
    // A GPU that is well when it is first seen is no news.
    if (state_ || verdict.state != HealthState::kOk) Report(verdict, now, desk);
    state_ = verdict.state;
    better_since_ns_ = 0;
  }
  for (size_t i = 0; i < kHealthStates; ++i) {
    HealthState each = static_cast<HealthState>(i);
    if (!states_[i]) {
      states_[i] =
          out.table().Declare(kGpuHealthState, entity_, {{"gpu.health.state", HealthStateName(each)}});
    }
    out.Set(states_[i], each == *state_ ? 1 : 0);
  }
}

void GpuHealth::Report(const HealthVerdict& verdict, Instant now, EventDesk* desk) const {
  if (!desk) return;
  Event event;
  event.at = now;
  event.name = "gpu.health.change";
  event.entity = entity_;
  std::string_view before = state_ ? HealthStateName(*state_) : std::string_view("unknown");
  event.attributes = verdict.reason.empty()
                         ? AttributeSet({{"gpu.health.state", HealthStateName(verdict.state)}})
                         : AttributeSet({{"gpu.health.state", HealthStateName(verdict.state)},
                                         {"gpu.health.reason", verdict.reason}});
  event.body =
      "GPU health was " + std::string(before) + ", is " + std::string(HealthStateName(verdict.state));
  if (!verdict.reason.empty()) event.body += ": " + std::string(verdict.reason);
  desk->Report(std::move(event));
}

}  // namespace gpulens

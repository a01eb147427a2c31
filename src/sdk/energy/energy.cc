#include <gpulens/energy.h>

#include <algorithm>
#include <utility>

#include "sdk/energy/monitor.h"

namespace gpulens {
namespace {

using internal::kLongestWait;
using sdk::NsOf;
using std::chrono::steady_clock;

constexpr Duration kLeastInterval = std::chrono::milliseconds(1), kMostInterval = std::chrono::seconds(1);

EnergyOptions Sane(EnergyOptions options) {
  options.interval = std::clamp(options.interval, kLeastInterval, kMostInterval);
  options.history = std::max(options.history, options.interval);
  std::erase(options.sources, nullptr);
  return options;
}

EnergyResult Invalid(EnergyValidity validity, std::string reason, Duration duration) {
  EnergyResult out;
  out.validity = validity;
  out.reason = std::move(reason);
  out.duration = duration;
  return out;
}

}  // namespace

// ---- EnergyWindow

EnergyWindow::EnergyWindow(EnergyWindow&& other) noexcept
    : monitor_(std::move(other.monitor_)),
      live_(std::exchange(other.live_, nullptr)),
      slot_(std::exchange(other.slot_, nullptr)),
      begin_(other.begin_),
      end_(other.end_) {}

EnergyWindow& EnergyWindow::operator=(EnergyWindow&& other) noexcept {
  if (this == &other) return *this;
  LetGo();
  monitor_ = std::move(other.monitor_);
  live_ = std::exchange(other.live_, nullptr);
  slot_ = std::exchange(other.slot_, nullptr);
  begin_ = other.begin_;
  end_ = other.end_;
  return *this;
}

EnergyWindow::~EnergyWindow() { LetGo(); }

void EnergyWindow::LetGo() noexcept {
  End();
  // Across a fork the slot is the parent's.
  if (slot_ && !live_->sampler->orphaned()) live_->engine().pool().Release(slot_);
  slot_ = nullptr;
  live_ = nullptr;
  monitor_.reset();
}

void EnergyWindow::End() noexcept {
  if (end_ != TimePoint{}) return;
  end_ = steady_clock::now();
  if (slot_) slot_->End(NsOf(end_));
}

void EnergyWindow::AddTokens(int64_t tokens) noexcept {
  if (slot_) slot_->AddTokens(tokens);
}

void EnergyWindow::Mark(std::string_view phase) noexcept {
  if (slot_) slot_->Mark(phase, NsOf(steady_clock::now()));
}

EnergyResult EnergyWindow::Inert() const {
  const Duration duration = (end_ == TimePoint{} ? steady_clock::now() : end_) - begin_;
  if (!live_) return Invalid(EnergyValidity::kNoDevice, "the window was moved from", {});
  EnergyResult out = Invalid(EnergyValidity::kSourceFailed, "", duration);
  if (live_->sampler->orphaned()) out.reason = "the window was open across a fork()";
  else if (live_->status.ok())
    out.reason = "more than 16,384 windows were open, or had ended since the last reading";
  else sdk::DeviceLedger::Explain(live_->status, out);
  return out;
}

EnergyResult EnergyWindow::Estimate() const {
  if (!slot_ || live_->sampler->orphaned()) return Inert();
  return live_->engine().ResultOf(*slot_, 0);
}

EnergyResult EnergyWindow::phase(std::string_view name) const {
  if (!slot_ || live_->sampler->orphaned()) return Inert();
  const uint8_t phase = slot_->PhaseOf(name);
  if (phase == 0) return Invalid(EnergyValidity::kGap, "no phase '" + std::string(name) + "' was marked", {});
  return live_->engine().ResultOf(*slot_, phase);
}

EnergyResult EnergyWindow::result(Duration wait) {
  End();
  if (!slot_ || live_->sampler->orphaned()) return Inert();
  sdk::Engine& engine = live_->engine();
  const int64_t end_ns = slot_->end_ns();
  wait = std::clamp(wait, Duration(0), kLongestWait);
  live_->sampler->ReadUntil(engine.Now() + wait.count(),
                            [&] { return engine.SettledAt(*live_->ledger, end_ns); });
  return engine.ResultOf(*slot_, 0);
}

// ---- EnergyMonitor

EnergyMonitor::EnergyMonitor(EnergyOptions options)
    : state_(std::make_shared<internal::MonitorState>(Sane(std::move(options)))) {}

Status EnergyMonitor::status() const { return state_->live().status; }

EnergyVendor EnergyMonitor::vendor() const noexcept { return state_->live().ledger->selection().vendor; }

std::vector<EnergyDevice> EnergyMonitor::devices() const {
  const internal::LiveMonitor& live = state_->live();
  return live.engine().DevicesOf(*live.ledger);
}

EnergyWindow EnergyMonitor::Begin(bool shares) noexcept {
  EnergyWindow out;
  internal::LiveMonitor& live = state_->live();
  out.monitor_ = state_;
  out.live_ = &live;
  out.begin_ = steady_clock::now();
  if (live.status.ok()) out.slot_ = live.engine().pool().Begin(live.ledger, shares, NsOf(out.begin_));
  return out;
}

EnergyWindow EnergyMonitor::Window() noexcept { return Begin(false); }
EnergyWindow EnergyMonitor::Request() noexcept { return Begin(true); }

EnergyResult EnergyMonitor::Between(TimePoint from, TimePoint to) const {
  const internal::LiveMonitor& live = state_->live();
  if (live.status.ok()) return live.engine().Between(*live.ledger, NsOf(from), NsOf(to));
  EnergyResult out;
  out.duration = to - from;
  sdk::DeviceLedger::Explain(live.status, out);
  return out;
}

std::vector<EnergySample> EnergyMonitor::History(TimePoint from, TimePoint to) const {
  const internal::LiveMonitor& live = state_->live();
  return live.engine().History(*live.ledger, NsOf(from), NsOf(to));
}

double EnergyMonitor::unattributed_joules() const {
  const internal::LiveMonitor& live = state_->live();
  return live.status.ok() ? live.engine().Unattributed(*live.ledger) : kNotMeasured;
}

}  // namespace gpulens

#include <gpulens/energy_own.h>

#include <algorithm>
#include <utility>

#include "sdk/energy/monitor.h"

namespace gpulens {
namespace {

using internal::kLongestWait;
using sdk::NsOf;
using std::chrono::steady_clock;

// For a last look at who uses the devices: two calls of a driver for each.
constexpr Duration kLastLook = std::chrono::milliseconds(200);

}  // namespace

std::string_view EnergyAttributionName(EnergyAttribution attribution) noexcept {
  switch (attribution) {
    case EnergyAttribution::kNone: return "none";
    case EnergyAttribution::kExclusive: return "exclusive";
    case EnergyAttribution::kSharedByUtilization: return "shared_by_utilization";
    case EnergyAttribution::kCpuTime: return "cpu_time";
    case EnergyAttribution::kSharedEqually: return "shared_equally";
    case EnergyAttribution::kWholeBoard: return "whole_board";
  }
  return "none";
}

OwnEnergyWindow::OwnEnergyWindow(EnergyMonitor monitor, TimePoint begin)
    : monitor_(std::move(monitor.state_)), live_(&monitor_->live()), begin_(begin) {
  if (!live_->status.ok()) return;
  account_ = live_->engine().AddOwn(*live_->ledger, NsOf(begin));
  live_->sampler->Wake();
}

OwnEnergyWindow::OwnEnergyWindow(OwnEnergyWindow&& other) noexcept
    : monitor_(std::move(other.monitor_)),
      live_(std::exchange(other.live_, nullptr)),
      account_(std::exchange(other.account_, nullptr)),
      begin_(other.begin_),
      end_(other.end_) {}

OwnEnergyWindow& OwnEnergyWindow::operator=(OwnEnergyWindow&& other) noexcept {
  if (this == &other) return *this;
  LetGo();
  monitor_ = std::move(other.monitor_);
  live_ = std::exchange(other.live_, nullptr);
  account_ = std::exchange(other.account_, nullptr);
  begin_ = other.begin_;
  end_ = other.end_;
  return *this;
}

OwnEnergyWindow::~OwnEnergyWindow() { LetGo(); }

void OwnEnergyWindow::LetGo() noexcept {
  // Across a fork the account is the parent's.
  if (account_ && !live_->sampler->orphaned()) live_->engine().RemoveOwn(account_);
  account_ = nullptr;
  live_ = nullptr;
  monitor_.reset();
}

void OwnEnergyWindow::End() noexcept {
  if (end_ != TimePoint{}) return;
  end_ = steady_clock::now();
  if (account_ && !live_->sampler->orphaned()) live_->engine().EndOwn(*account_, NsOf(end_));
}

bool OwnEnergyWindow::Inert(OwnEnergy& out) const {
  if (account_ && !live_->sampler->orphaned()) return false;
  EnergyResult& to = out.energy;
  to.duration = (end_ == TimePoint{} ? steady_clock::now() : end_) - begin_;
  to.validity = EnergyValidity::kNoDevice;
  if (!live_) {
    to.reason = "the window was moved from";
  } else if (live_->sampler->orphaned()) {
    to.validity = EnergyValidity::kSourceFailed;
    to.reason = "the window was open across a fork()";
  } else {
    sdk::DeviceLedger::Explain(live_->status, to);
  }
  return true;
}

OwnEnergy OwnEnergyWindow::Estimate() const {
  OwnEnergy out;
  return Inert(out) ? out : live_->engine().OwnResult(*account_);
}

OwnEnergy OwnEnergyWindow::result(Duration wait) {
  End();
  OwnEnergy out;
  if (Inert(out)) return out;
  sdk::Engine& engine = live_->engine();
  const int64_t now_ns = engine.Now();
  wait = std::clamp(wait, Duration(0), kLongestWait);
  live_->sampler->ReadUntil(now_ns + kLastLook.count(), [&] { return engine.OwnIsClosed(*account_); });
  live_->sampler->ReadUntil(now_ns + wait.count(), [&] { return engine.OwnIsSettled(*account_); });
  return engine.OwnResult(*account_);
}

}  // namespace gpulens

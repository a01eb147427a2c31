#include "sdk/energy/monitor.h"

#include <algorithm>

#include "sdk/energy/sources/system_sources.h"

namespace gpulens::internal {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(3);

}  // namespace

LiveMonitor::LiveMonitor(const EnergyOptions& options, Duration timeout)
    : sampler(options.sources.empty() ? sdk::Sampler::OfProcess(&sdk::SystemSources)
                                      : std::make_shared<sdk::Sampler>(options.sources)) {
  sdk::Engine& all = engine();
  const int64_t deadline_ns = all.Now() + timeout.count();
  if (sampler->status().ok()) sampler->ReadUntil(deadline_ns, [&] { return all.opened(); });
  ledger = all.AddRegistry(options);
  status = sampler->status().ok() ? ledger->selection().status : sampler->status();
  if (status.ok()) sampler->ReadUntil(deadline_ns, [&] { return all.HasRead(*ledger); });
  if (status.code == Code::kTimeout) {
    const std::string stuck = all.Stuck();
    if (!stuck.empty()) status.detail += ": " + stuck;
  }
}

LiveMonitor::~LiveMonitor() {
  if (!sampler->orphaned()) engine().RemoveLedger(ledger);
}

MonitorState::MonitorState(EnergyOptions options) : options_(std::move(options)) {
  all_.push_back(std::make_unique<LiveMonitor>(options_, kTimeout));
  live_.store(all_.back().get(), std::memory_order_release);
}

bool MonitorState::Good(const LiveMonitor& live) noexcept {
  const bool opened_since = live.status.code == Code::kTimeout && live.engine().opened();
  return !live.sampler->orphaned() && !opened_since;
}

LiveMonitor& MonitorState::live() {
  LiveMonitor* now = live_.load(std::memory_order_acquire);
  if (Good(*now)) [[likely]]
    return *now;
  std::lock_guard lock(mutex_);
  now = live_.load(std::memory_order_acquire);
  if (!Good(*now)) {
    const bool forked = now->sampler->orphaned();
    all_.push_back(std::make_unique<LiveMonitor>(options_, forked ? kTimeout : Duration(0)));
    now = all_.back().get();
    live_.store(now, std::memory_order_release);
  }
  return *now;
}

}  // namespace gpulens::internal

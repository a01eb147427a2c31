#include <gpulens/energy.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <gpulens/energy_own.h>

#include "sdk/energy/sampler.h"
#include "sdk/energy/sources/system_sources.h"

namespace gpulens::internal {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(3);
// Longest time that a caller waits for a result.
constexpr Duration kLongestWait = std::chrono::hours(1);

}  // namespace

// A monitor in one process.
struct LiveMonitor {
  // Waits at most `timeout` until the devices are opened and read.
  LiveMonitor(const EnergyOptions& options, Duration timeout);
  ~LiveMonitor();
  LiveMonitor(const LiveMonitor&) = delete;
  LiveMonitor& operator=(const LiveMonitor&) = delete;

  sdk::EnergyEngine& engine() const noexcept { return sampler->engine(); }

  std::shared_ptr<sdk::EnergySampler> sampler;
  sdk::DeviceLedger* ledger = nullptr;
  Status status;
};

// The monitors of this process and its parents. Thread-safe.
class MonitorState {
 public:
  explicit MonitorState(EnergyOptions options);

  // Returns the monitor of this process. The first call after a fork creates a new one and waits for its
  // readings, as does a call after the devices were opened too late for the first one.
  LiveMonitor& live();
  const EnergyOptions& options() const noexcept { return options_; }

 private:
  static bool Good(const LiveMonitor& live) noexcept;

  const EnergyOptions options_;
  std::atomic<LiveMonitor*> live_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<LiveMonitor>> all_;  // windows opened before a fork refer to earlier ones
};

// Waits for a program's devices at the edges of a window.
struct WindowSync {
  std::function<void()> call;
  std::string failure;  // of the last edge where it threw

  void At(const char* edge) noexcept {
    std::string text;
    try {
      call();
      return;
    } catch (const std::exception& error) {
      text = error.what();
    } catch (...) {
      text = "it threw something that is no std::exception";
    }
    failure = std::string("sync failed at the ") + edge +
              ", so work queued before may be counted after it: " + text;
  }
};

LiveMonitor::LiveMonitor(const EnergyOptions& options, Duration timeout)
    : sampler(options.sources.empty() ? sdk::EnergySampler::OfProcess(&sdk::SystemSources)
                                      : std::make_shared<sdk::EnergySampler>(options.sources)) {
  sdk::EnergyEngine& all = engine();
  const int64_t deadline_ns = all.Now() + timeout.count();
  if (sampler->status().ok()) sampler->ReadUntil(deadline_ns, [&] { return all.opened(); });
  ledger = all.AddLedger(options);
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

// Names by enumerator.
constexpr std::string_view kVendorNames[] = {"none", "nvidia", "amd", "apple", "cpu_rapl"};
constexpr std::string_view kMethodNames[] = {"none", "counter", "power_integral"};
constexpr std::string_view kValidityNames[] = {
    "valid", "running", "no_device", "permission_denied", "source_failed", "counter_reset", "gap"};
constexpr std::string_view kAttributionNames[] = {"none",     "exclusive",      "shared_by_utilization",
                                                  "cpu_time", "shared_equally", "whole_board"};

template <size_t kCount, class Enum>
std::string_view NameOf(const std::string_view (&names)[kCount], Enum value) noexcept {
  const auto number = static_cast<size_t>(value);
  return number < kCount ? names[number] : names[0];
}

EnergyResult Invalid(EnergyValidity validity, std::string reason, Duration duration) {
  EnergyResult out;
  out.validity = validity;
  out.reason = std::move(reason);
  out.duration = duration;
  return out;
}

// Returns the result of a window without measurements, which ended at `end` or is open if that is 0.
EnergyResult InertResult(const internal::LiveMonitor* live, TimePoint begin, TimePoint end) {
  const Duration duration = (end == TimePoint{} ? steady_clock::now() : end) - begin;
  if (!live) return Invalid(EnergyValidity::kNoDevice, "the window was moved from", {});
  EnergyResult out = Invalid(EnergyValidity::kSourceFailed, "", duration);
  if (live->sampler->orphaned()) out.reason = "the window was open across a fork()";
  else if (live->status.ok())
    out.reason = "more than 16,384 windows were open, or had ended since the last reading";
  else sdk::DeviceLedger::Explain(live->status, out);
  return out;
}

// For a last scan of the devices' processes: two driver calls for each device.
constexpr Duration kLastScan = std::chrono::milliseconds(200);

}  // namespace

// ---- names

std::string_view EnergyVendorName(EnergyVendor vendor) noexcept { return NameOf(kVendorNames, vendor); }
std::string_view EnergyMethodName(EnergyMethod method) noexcept { return NameOf(kMethodNames, method); }
std::string_view EnergyValidityName(EnergyValidity validity) noexcept {
  return NameOf(kValidityNames, validity);
}
std::string_view EnergyAttributionName(EnergyAttribution attribution) noexcept {
  return NameOf(kAttributionNames, attribution);
}

std::string ToString(const EnergyResult& result) {
  if (std::isnan(result.energy_joules))
    return "no energy (" + std::string(EnergyValidityName(result.validity)) + ": " + result.reason + ")";
  const bool gpu = result.vendor != EnergyVendor::kCpuRapl;
  char text[256];
  const double seconds = std::chrono::duration<double>(result.duration).count();
  int size = std::snprintf(text, sizeof text, "%.1f J ± %.1f J (%s, %.3f s, %u %s%s", result.energy_joules,
                           result.uncertainty_joules, EnergyMethodName(result.method).data(), seconds,
                           result.devices, gpu ? "GPU" : "CPU zone", result.devices == 1 ? "" : "s");
  std::string out(text, static_cast<size_t>(size));
  if (result.device_energy_joules > result.energy_joules + 0.05) {
    size = std::snprintf(text, sizeof text, ", of %.1f J on the device%s", result.device_energy_joules,
                         result.devices == 1 ? "" : "s");
    out.append(text, static_cast<size_t>(size));
  }
  if (result.validity == EnergyValidity::kRunning) out += ", running";
  return out + ")";
}

// ---- EnergyWindow

EnergyWindow::EnergyWindow(EnergyWindow&& other) noexcept
    : monitor_(std::move(other.monitor_)),
      live_(std::exchange(other.live_, nullptr)),
      slot_(std::exchange(other.slot_, nullptr)),
      sync_(std::move(other.sync_)),
      begin_(other.begin_),
      end_(other.end_) {}

EnergyWindow& EnergyWindow::operator=(EnergyWindow&& other) noexcept {
  if (this == &other) return *this;
  LetGo();
  monitor_ = std::move(other.monitor_);
  live_ = std::exchange(other.live_, nullptr);
  slot_ = std::exchange(other.slot_, nullptr);
  sync_ = std::move(other.sync_);
  begin_ = other.begin_;
  end_ = other.end_;
  return *this;
}

EnergyWindow::~EnergyWindow() { LetGo(); }

void EnergyWindow::LetGo() noexcept {
  EndNow();
  // After a fork the slot is the parent's.
  if (slot_ && !live_->sampler->orphaned()) live_->engine().pool().Release(slot_);
  slot_ = nullptr;
  live_ = nullptr;
  monitor_.reset();
  sync_.reset();
}

void EnergyWindow::End() noexcept {
  if (end_ != TimePoint{}) return;
  if (sync_) sync_->At("end");
  if (sync_) sync_->call = nullptr;  // it may refer to what holds the window
  EndNow();
}

void EnergyWindow::EndNow() noexcept {
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

EnergyResult EnergyWindow::Complete(EnergyResult result) const {
  if (monitor_) result.carbon_grams_per_kwh = monitor_->options().carbon_grams_per_kwh;
  if (sync_ && !sync_->failure.empty()) result.reason += (result.reason.empty() ? "" : "; ") + sync_->failure;
  return result;
}

EnergyResult EnergyWindow::Inert() const { return Complete(InertResult(live_, begin_, end_)); }

EnergyResult EnergyWindow::Estimate() const {
  if (!slot_ || live_->sampler->orphaned()) return Inert();
  return Complete(live_->engine().ResultOf(*slot_, 0));
}

EnergyResult EnergyWindow::phase(std::string_view name) const {
  if (!slot_ || live_->sampler->orphaned()) return Inert();
  const uint8_t phase = slot_->PhaseOf(name);
  if (phase == 0) return Invalid(EnergyValidity::kGap, "no phase '" + std::string(name) + "' was marked", {});
  return Complete(live_->engine().ResultOf(*slot_, phase));
}

EnergyResult EnergyWindow::result(Duration wait) {
  End();
  if (!slot_ || live_->sampler->orphaned()) return Inert();
  sdk::EnergyEngine& engine = live_->engine();
  const int64_t end_ns = slot_->end_ns();
  wait = std::clamp(wait, Duration(0), kLongestWait);
  live_->sampler->ReadUntil(engine.Now() + wait.count(),
                            [&] { return engine.Locked([&] { return live_->ledger->SettledAt(end_ns); }); });
  return Complete(engine.ResultOf(*slot_, 0));
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

EnergyWindow EnergyMonitor::Begin(bool shares, Sync sync) noexcept {
  EnergyWindow out;
  if (sync) {
    out.sync_ = std::make_shared<internal::WindowSync>();
    out.sync_->call = std::move(sync);
    out.sync_->At("begin");
  }
  internal::LiveMonitor& live = state_->live();
  out.monitor_ = state_;
  out.live_ = &live;
  out.begin_ = steady_clock::now();
  if (live.status.ok()) out.slot_ = live.engine().pool().Begin(live.ledger, shares, NsOf(out.begin_));
  return out;
}

EnergyWindow EnergyMonitor::Window(Sync sync) noexcept { return Begin(false, std::move(sync)); }
EnergyWindow EnergyMonitor::Request(Sync sync) noexcept { return Begin(true, std::move(sync)); }

EnergyResult EnergyMonitor::Between(TimePoint from, TimePoint to) const {
  const internal::LiveMonitor& live = state_->live();
  EnergyResult out;
  if (live.status.ok()) {
    out = live.engine().Locked([&] { return live.ledger->Between(NsOf(from), NsOf(to)); });
  } else {
    out.duration = to - from;
    sdk::DeviceLedger::Explain(live.status, out);
  }
  out.carbon_grams_per_kwh = state_->options().carbon_grams_per_kwh;
  return out;
}

std::vector<EnergySample> EnergyMonitor::History(TimePoint from, TimePoint to) const {
  const internal::LiveMonitor& live = state_->live();
  return live.engine().Locked([&] { return live.ledger->History(NsOf(from), NsOf(to)); });
}

double EnergyMonitor::unattributed_joules() const {
  const internal::LiveMonitor& live = state_->live();
  if (!live.status.ok()) return kNotMeasured;
  return live.engine().Locked([&] { return live.ledger->unattributed_joules(); });
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
  // After a fork the account is the parent's.
  if (account_ && !live_->sampler->orphaned()) live_->engine().RemoveOwn(account_);
  account_ = nullptr;
  live_ = nullptr;
  monitor_.reset();
}

void OwnEnergyWindow::End() noexcept {
  if (end_ != TimePoint{}) return;
  end_ = steady_clock::now();
  if (account_ && !live_->sampler->orphaned()) live_->engine().Locked([&] { account_->End(NsOf(end_)); });
}

bool OwnEnergyWindow::Inert(OwnEnergy& out) const {
  if (account_ && !live_->sampler->orphaned()) return false;
  out.energy = InertResult(live_, begin_, end_);
  return true;
}

OwnEnergy OwnEnergyWindow::Estimate() const {
  OwnEnergy out;
  if (Inert(out)) return out;
  const sdk::EnergyEngine& engine = live_->engine();
  out = engine.Locked([&] { return account_->Result(engine.Now()); });
  out.energy.carbon_grams_per_kwh = monitor_->options().carbon_grams_per_kwh;
  return out;
}

OwnEnergy OwnEnergyWindow::result(Duration wait) {
  End();
  OwnEnergy out;
  if (Inert(out)) return out;
  sdk::EnergyEngine& engine = live_->engine();
  const int64_t now_ns = engine.Now();
  wait = std::clamp(wait, Duration(0), kLongestWait);
  live_->sampler->ReadUntil(now_ns + kLastScan.count(),
                            [&] { return engine.Locked([&] { return account_->Closed(); }); });
  live_->sampler->ReadUntil(now_ns + wait.count(),
                            [&] { return engine.Locked([&] { return account_->Settled(); }); });
  out = engine.Locked([&] { return account_->Result(engine.Now()); });
  out.energy.carbon_grams_per_kwh = monitor_->options().carbon_grams_per_kwh;
  return out;
}

}  // namespace gpulens

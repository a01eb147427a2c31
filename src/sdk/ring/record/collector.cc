// TelemetryCollector and KernelRecorder: records for runtimes that are not ours.
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <gpulens/kernel_telemetry.h>

#include "sdk/ring/record/directory.h"
#include "sdk/ring/record/record.h"

namespace gpulens {
namespace internal {

// Times are taken under the lock, so that they never go back.
class RecordedKernel final : public ring::KernelSource {
 public:
  explicit RecordedKernel(std::string id) : record_(std::move(id)) {}

  template <class Change>
  void Record(bool starts, const Change& change) {
    std::lock_guard lock(mutex_);
    const TimePoint now = std::chrono::steady_clock::now();
    if (starts && record_.state() == KernelState::kCreated) record_.SetState(KernelState::kActive, now);
    change(record_, now);
  }
  // Without a look at the clock.
  template <class Change>
  void RecordTimeless(const Change& change) {
    std::lock_guard lock(mutex_);
    change(record_);
  }

  KernelTelemetry Copy() const override {
    std::lock_guard lock(mutex_);
    return record_.Copy(std::chrono::steady_clock::now(), std::chrono::system_clock::now());
  }
  void AddTo(ring::KernelTotals& totals) const override {
    std::lock_guard lock(mutex_);
    record_.AddTo(totals);
  }
  void Reset() override {
    std::lock_guard lock(mutex_);
    record_.Reset(std::chrono::steady_clock::now());
  }
  bool Ended() const override {
    std::lock_guard lock(mutex_);
    return record_.state() == KernelState::kTerminated;
  }

  // Guarded by the lock:
  bool says_processed = false;        // by Done or Processed
  std::optional<TimePoint> begun_at;  // with the message that it works on

 private:
  mutable std::mutex mutex_;
  ring::KernelRecord record_;
};

}  // namespace internal

using ring::KernelRecord;

namespace {

double Seconds(Duration span) noexcept { return std::chrono::duration<double>(span).count(); }

}  // namespace

void KernelRecorder::SetState(KernelState state) const noexcept {
  if (to_) to_->Record(false, [&](KernelRecord& to, TimePoint now) { to.SetState(state, now); });
}

void KernelRecorder::SetQueueLimit(uint64_t limit) const noexcept {
  if (to_) to_->RecordTimeless([&](KernelRecord& to) { to.SetQueueLimit(limit); });
}

void KernelRecorder::SetQueueDepth(uint64_t depth) const noexcept {
  if (to_) to_->RecordTimeless([&](KernelRecord& to) { to.SetDepth(depth); });
}

TimePoint KernelRecorder::Receive(uint64_t depth) const noexcept {
  TimePoint at{};
  if (to_) {
    to_->Record(true, [&](KernelRecord& to, TimePoint now) {
      to.Received(now, depth);
      at = now;
    });
  }
  return at;
}

void KernelRecorder::Begin(uint64_t depth, TimePoint received) const noexcept {
  if (!to_) return;
  to_->Record(true, [&](KernelRecord& to, TimePoint now) {
    to_->begun_at = now;
    to.SetDepth(depth);
    to.Took(Seconds(now - received));
  });
}

void KernelRecorder::Done(bool sent) const noexcept {
  if (!to_) return;
  to_->Record(true, [&](KernelRecord& to, TimePoint now) {
    to_->says_processed = true;
    if (to_->begun_at) to.Processed(now, Seconds(now - *to_->begun_at));
    to_->begun_at.reset();
    if (sent) to.Sent(now);
  });
}

void KernelRecorder::Take(uint64_t depth, double wait_seconds) const noexcept {
  if (!to_) return;
  to_->RecordTimeless([&](KernelRecord& to) {
    to.SetDepth(depth);
    to.Took(wait_seconds);
  });
}

void KernelRecorder::Processed(double service_seconds, bool sent) const noexcept {
  if (!to_) return;
  to_->Record(true, [&](KernelRecord& to, TimePoint now) {
    to_->says_processed = true;
    to.Processed(now, service_seconds);
    if (sent) to.Sent(now);
  });
}

void KernelRecorder::Send() const noexcept {
  if (!to_) return;
  to_->Record(true, [&](KernelRecord& to, TimePoint now) {
    if (!to_->says_processed && to.open()) to.Processed(now, kNotMeasured);
    to.Sent(now);
  });
}

void KernelRecorder::Error(std::string_view what, double service_seconds) const noexcept {
  if (!to_) return;
  to_->Record(true, [&](KernelRecord& to, TimePoint now) {
    if (to_->begun_at) service_seconds = Seconds(now - *to_->begun_at);
    to_->begun_at.reset();
    to.Error(now, what, service_seconds);
  });
}

void KernelRecorder::Drop(DropReason reason, uint64_t count) const noexcept {
  if (to_ && static_cast<size_t>(reason) < kDropReasons)
    to_->RecordTimeless([&](KernelRecord& to) { to.Drop(reason, count); });
}

void KernelRecorder::AddCpu(double seconds) const noexcept {
  if (to_ && seconds >= 0) to_->RecordTimeless([&](KernelRecord& to) { to.AddCpu(seconds); });
}

std::optional<KernelTelemetry> KernelRecorder::Telemetry() const {
  return to_ ? std::optional(to_->Copy()) : std::nullopt;
}

TelemetryCollector::TelemetryCollector(bool enabled, Registry* exported)
    : directory_(enabled ? std::make_unique<internal::KernelDirectory>(exported) : nullptr) {}
TelemetryCollector::~TelemetryCollector() = default;
TelemetryCollector::TelemetryCollector(TelemetryCollector&&) noexcept = default;

KernelRecorder TelemetryCollector::Kernel(std::string_view id) {
  if (!directory_) return {};
  return KernelRecorder(std::static_pointer_cast<internal::RecordedKernel>(directory_->FindOrAdd(
      id, [](std::string name) { return std::make_shared<internal::RecordedKernel>(std::move(name)); })));
}

KernelRecorder TelemetryCollector::Find(std::string_view id) const {
  if (!directory_) return {};
  return KernelRecorder(std::static_pointer_cast<internal::RecordedKernel>(directory_->Find(id)));
}

std::optional<KernelTelemetry> TelemetryCollector::Telemetry(std::string_view id) const {
  return directory_ ? directory_->Copy(id) : std::nullopt;
}
std::vector<KernelTelemetry> TelemetryCollector::AllTelemetry() const {
  return directory_ ? directory_->CopyAll() : std::vector<KernelTelemetry>();
}
KernelSummary TelemetryCollector::Summary() const {
  return directory_ ? directory_->Summary() : KernelSummary();
}
void TelemetryCollector::Reset(std::string_view id) noexcept {
  if (directory_) directory_->Reset(id);
}

}  // namespace gpulens

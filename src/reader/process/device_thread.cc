#include "reader/process/device_thread.h"

#include <sys/socket.h>

#include <algorithm>
#include <vector>

#include "base/threads.h"

namespace gpulens::driver {
namespace {

// Only touched pages cost memory; libraries keep buffers of many KiB on the stack.
constexpr size_t kStackBytes = 512 * 1024;
constexpr Duration kLongestRetry = std::chrono::seconds(30);
// The agent reads once in an interval, or has not been given time to: soon after, and not at once.
constexpr Duration kRoomPause = std::chrono::milliseconds(20);

class DeviceThread {
 public:
  DeviceThread(std::shared_ptr<DriverShared> shared, std::shared_ptr<VendorLibrary> library,
               std::unique_ptr<DeviceReader> reader, uint32_t index, Duration interval)
      : shared_(std::move(shared)),
        library_(std::move(library)),
        reader_(std::move(reader)),
        index_(index),
        interval_(interval) {}

  const std::shared_ptr<DriverShared>& shared() const noexcept { return shared_; }

  void Run() {
    Duration retry = interval_;
    int64_t next = 0;
    do {
      int64_t now = RealClock().Now().boot_ns;
      if (!attached_) Attach();
      if (attached_) {
        attached_ = reader_->Round(now, *shared_);
        retry = interval_;
      }
      CountCalls();
      now = RealClock().Now().boot_ns;
      if (attached_) {
        next = NextTick(now, interval_);
      } else {
        next = now + retry.count();
        retry = std::min(std::max(retry * 2, interval_), std::max(kLongestRetry, interval_));
      }
    } while (shared_->SleepUntil(next));
  }

 private:
  void Attach() {
    DeviceReader::Attached attached = reader_->Attach();
    attached_ = attached.state == DeviceState::kOk;
    std::vector<Fact> facts;
    for (const auto& [key, value] : reader_->facts()) facts.push_back({key, value});
    DeviceReport head;
    head.device = index_;
    head.state = attached.state;
    head.code = attached.code;
    shared_->Deliver(encoder_.Encode(head, facts));
  }

  void CountCalls() {
    shared_->calls.fetch_add(reader_->calls() - counted_, std::memory_order_relaxed);
    counted_ = reader_->calls();
  }

  std::shared_ptr<DriverShared> shared_;
  std::shared_ptr<VendorLibrary> library_;
  std::unique_ptr<DeviceReader> reader_;
  const uint32_t index_;
  const Duration interval_;
  MessageEncoder encoder_;
  uint64_t counted_ = 0;
  bool attached_ = false;
};

}  // namespace

bool DriverShared::TrySend(std::span<const std::byte> message) noexcept {
  ssize_t sent = ::send(socket_, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent == static_cast<ssize_t>(message.size());
}

bool DriverShared::Send(std::span<const std::byte> message) noexcept {
  if (TrySend(message)) return true;
  dropped.fetch_add(1, std::memory_order_relaxed);
  return false;
}

bool DriverShared::Deliver(std::span<const std::byte> message) {
  while (!TrySend(message)) {
    if (SleepUntil((RealClock().Now() + kRoomPause).boot_ns)) continue;
    dropped.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  return true;
}

bool DriverShared::SleepUntil(int64_t boot_ns) {
  std::unique_lock lock(mutex_);
  auto wait = Duration(boot_ns - RealClock().Now().boot_ns);
  if (wait > Duration(0)) changed_.wait_for(lock, wait, [this] { return stopping_; });
  return !stopping_;
}

void DriverShared::Stop(Duration timeout) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, timeout, [this] { return running_ == 0; });
}

void DriverShared::Started() {
  std::lock_guard lock(mutex_);
  ++running_;
}

void DriverShared::Ended() {
  std::lock_guard lock(mutex_);
  --running_;
  changed_.notify_all();
}

Status StartDeviceThread(std::shared_ptr<DriverShared> shared, std::shared_ptr<VendorLibrary> library,
                         std::unique_ptr<DeviceReader> reader, uint32_t index, Duration interval) {
  auto thread =
      std::make_shared<DeviceThread>(shared, std::move(library), std::move(reader), index, interval);
  shared->Started();
  auto run = [thread = std::move(thread), shared]() mutable {
    thread->Run();
    thread.reset();
    shared->Ended();
  };
  Status started = StartDetachedThread(std::move(run), kStackBytes);
  if (!started) shared->Ended();
  return started;
}

int64_t NextTick(int64_t boot_ns, Duration interval) noexcept {
  return (boot_ns / interval.count() + 1) * interval.count();
}

}  // namespace gpulens::driver

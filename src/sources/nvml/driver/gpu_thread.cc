#include "sources/nvml/driver/gpu_thread.h"
#include "sources/nvml/driver/parts/parts_reader.h"
#include "sources/nvml/message_encoder.h"

#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <vector>

namespace gpulens::nvml {
namespace {

// Only touched pages cost memory; the library itself keeps some buffers of many KiB on the stack.
constexpr size_t kStackBytes = 256 * 1024;
constexpr Duration kLongestRetry = std::chrono::seconds(30);

class GpuThread {
 public:
  GpuThread(std::shared_ptr<DriverShared> shared, std::shared_ptr<const NvmlLibrary> library, CallSlot& slot,
            GpuThreadOptions options)
      : shared_(std::move(shared)),
        library_(std::move(library)),
        options_(std::move(options)),
        reader_(*library_, options_.index, slot, RealClock(), options_.reader),
        parts_(*library_, options_.index, slot, RealClock(),
               {.interval = options_.interval,
                .medium = options_.reader.periods[static_cast<size_t>(Tier::kMedium)],
                .slow = options_.reader.periods[static_cast<size_t>(Tier::kSlow)]}),
        send_([this](std::span<const std::byte> message) { shared_->Send(message); }) {}

  const std::shared_ptr<DriverShared>& shared() const noexcept { return shared_; }

  void Run() {
    Duration retry = options_.interval;
    int64_t next = 0;
    do {
      int64_t now = RealClock().Now().boot_ns;
      if (!attached_) Attach();
      if (attached_) {
        attached_ = Round(now);
        retry = options_.interval;
      }
      CountCalls();
      now = RealClock().Now().boot_ns;
      if (attached_) {
        next = NextTick(now, options_.interval);
      } else {
        next = now + retry.count();
        retry = std::min(std::max(retry * 2, options_.interval), std::max(kLongestRetry, options_.interval));
      }
    } while (shared_->SleepUntil(next));
  }

 private:
  void Attach() {
    int code = reader_.Attach();
    attached_ = code == kSuccess;
    std::vector<Fact> facts;
    for (const auto& [key, value] : reader_.identity().facts) facts.push_back({key, value});
    shared_->Send(encoder_.Encode(options_.index, code, facts));
    if (!attached_) return;
    PartsReader::Mig mig = PartsReader::Mig::kNone;
    for (const Fact& fact : facts) {
      if (fact.key == "mig_mode")
        mig = fact.value == "enabled" ? PartsReader::Mig::kOn : PartsReader::Mig::kOff;
    }
    parts_.Attach(reader_.identity().device, mig);
    if (options_.events)
      options_.events->Register(parts_.caller(), options_.index, reader_.identity().device);
  }

  bool Round(int64_t now) {
    parts_.Scan(now, options_.events && options_.events->TakeRescan(options_.index), send_);
    reader_.SplitProcesses(parts_.mig_devices());
    bool good = reader_.Read(now);
    // What was lost may not be due again for a minute.
    if (!reader_.readings().empty() && !shared_->Send(encoder_.Encode(reader_.readings())))
      reader_.ReadAgain();
    if (reader_.has_processes()) {
      shared_->Send(encoder_.Encode(options_.index, reader_.processes_boot_ns(), reader_.processes()));
    }
    if (good) parts_.Read(now, send_);
    if (parts_.tells_pcie()) reader_.SkipBlocking();
    if (good && reader_.ReadBlocking() && !reader_.readings().empty()) {
      shared_->Send(encoder_.Encode(reader_.readings()));
    }
    return good;
  }

  void CountCalls() {
    uint64_t calls = reader_.calls() + parts_.caller().calls();
    shared_->calls.fetch_add(calls - counted_, std::memory_order_relaxed);
    counted_ = calls;
  }

  std::shared_ptr<DriverShared> shared_;
  std::shared_ptr<const NvmlLibrary> library_;
  GpuThreadOptions options_;
  GpuReader reader_;
  PartsReader parts_;
  const PartsReader::Send send_;
  MessageEncoder encoder_;
  uint64_t counted_ = 0;
  bool attached_ = false;
};

void* RunThread(void* argument) {
  std::unique_ptr<GpuThread> thread(static_cast<GpuThread*>(argument));
  std::shared_ptr<DriverShared> shared = thread->shared();
  thread->Run();
  thread.reset();
  shared->Ended();
  return nullptr;
}

}  // namespace

bool DriverShared::Send(std::span<const std::byte> message) noexcept {
  ssize_t sent = ::send(socket_, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(message.size())) return true;
  dropped.fetch_add(1, std::memory_order_relaxed);
  return false;
}

bool DriverShared::SleepUntil(int64_t boot_ns) {
  std::unique_lock lock(mutex_);
  auto wait = Duration(boot_ns - RealClock().Now().boot_ns);
  if (wait > Duration(0)) changed_.wait_for(lock, wait, [this] { return stopping_; });
  return !stopping_;
}

void DriverShared::Stop(Duration patience) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, patience, [this] { return running_ == 0; });
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

bool StartGpuThread(std::shared_ptr<DriverShared> shared, std::shared_ptr<const NvmlLibrary> library,
                    CallSlot& slot, GpuThreadOptions options) {
  auto thread = std::make_unique<GpuThread>(shared, std::move(library), slot, std::move(options));
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStackBytes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  shared->Started();
  pthread_t id;
  bool made = ::pthread_create(&id, &attributes, RunThread, thread.get()) == 0;
  ::pthread_attr_destroy(&attributes);
  if (made) {
    thread.release();
  } else {
    shared->Ended();
  }
  return made;
}

int64_t NextTick(int64_t boot_ns, Duration interval) noexcept {
  return (boot_ns / interval.count() + 1) * interval.count();
}

}  // namespace gpulens::nvml

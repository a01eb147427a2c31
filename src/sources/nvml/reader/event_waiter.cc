#include "sources/nvml/reader/event_waiter.h"

#include "base/threads.h"
#include "sources/nvml/reader/nvml_abi.h"

namespace gpulens::nvml {
namespace {

constexpr auto kWaitMs = static_cast<unsigned>(kEventWait / std::chrono::milliseconds(1));
constexpr Duration kRest = std::chrono::seconds(1);
// Of a storm so many are sent in a second; the library keeps the others, or counts on with fewer. More would
// take the room of the readings on their way to the agent.
constexpr int kMostEventsPerSecond = 100;
constexpr size_t kStackBytes = 256 * 1024;

struct EventThread {
  std::shared_ptr<reader::AgentChannel> shared;
  std::shared_ptr<const NvmlLibrary> library;
  std::shared_ptr<EventWaiter> hub;
  CallSlot& slot;

  void Run() {
    Caller caller(*library, slot, RealClock());
    MessageEncoder encoder;
    int64_t resume_ns = 0, second_ns = 0;
    int sent = 0;
    while (shared->SleepUntil(resume_ns)) {
      resume_ns = 0;
      DeviceEvent event;
      auto outcome = hub->has_devices() ? hub->Wait(caller, kWaitMs, event) : EventWaiter::Outcome::kBroken;
      if (outcome == EventWaiter::Outcome::kBroken) resume_ns = (RealClock().Now() + kRest).boot_ns;
      // The agent may have gone meanwhile, and its socket with it. The library reports an event once, and
      // keeps those that follow while this one waits for room.
      if (outcome != EventWaiter::Outcome::kEvent || !shared->SleepUntil(0)) continue;
      shared->Deliver(EncodeEvents(encoder, event.entity, std::span(&event, 1)));
      if (const int64_t now = RealClock().Now().boot_ns; now - second_ns >= kRest.count()) {
        second_ns = now;
        sent = 0;
      }
      if (++sent >= kMostEventsPerSecond) resume_ns = second_ns + kRest.count();
    }
  }
};

}  // namespace

bool EventWaiter::Open(Caller& caller) {
  const Symbols& fn = caller.fn();
  if (types_ == 0 || !fn.RegisterEvents || !fn.SupportedEvents || (!fn.EventWait && !fn.EventWaitV1))
    return false;
  return caller.Do(fn.EventSetCreate, &set_) == kSuccess;
}

void EventWaiter::Register(Caller& caller, unsigned index, Device device) {
  if (!set_ || index >= kMaxGpus) return;
  {
    std::lock_guard lock(mutex_);
    if (devices_[index] == device) return;
  }
  unsigned long long supported = 0;
  const Symbols& fn = caller.fn();
  if (caller.Do(fn.SupportedEvents, device, &supported) != kSuccess) return;
  supported &= types_;
  if (supported == 0) return;
  // Known before it is registered: the first event may come at once.
  {
    std::lock_guard lock(mutex_);
    devices_[index] = device;
  }
  if (caller.Do(fn.RegisterEvents, device, supported, set_) == kSuccess) {
    registered_.fetch_add(1, std::memory_order_release);
    return;
  }
  std::lock_guard lock(mutex_);
  devices_[index] = nullptr;
}

uint32_t EventWaiter::IndexOf(Device device) {
  std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < kMaxGpus; ++i) {
    if (device && devices_[i] == device) return i;
  }
  return kMaxGpus;
}

EventWaiter::Outcome EventWaiter::Wait(Caller& caller, unsigned timeout_ms, DeviceEvent& out) {
  EventData data{.device = nullptr,
                 .type = 0,
                 .data = 0,
                 .gpu_instance = GpuProcess::kNoInstance,
                 .compute_instance = GpuProcess::kNoInstance};
  const Symbols& fn = caller.fn();
  int code;
  if (fn.EventWait) {
    code = caller.Do(fn.EventWait, set_, &data, timeout_ms);
  } else {
    EventDataV1 old{};
    code = caller.Do(fn.EventWaitV1, set_, &old, timeout_ms);
    data.device = old.device, data.type = old.type, data.data = old.data;
  }
  if (code == kTimeoutError) return Outcome::kNothing;
  if (code != kSuccess) return Outcome::kBroken;
  uint32_t index = IndexOf(data.device);
  if (index == kMaxGpus) return Outcome::kNothing;
  if (data.type & kEventMigConfig) rescan_[index].store(true, std::memory_order_relaxed);
  out = {.entity = index,
         .gpu_instance = data.gpu_instance,
         .type = data.type,
         .data = data.data,
         .boot_ns = RealClock().Now().boot_ns};
  return Outcome::kEvent;
}

Status StartEventThread(std::shared_ptr<reader::AgentChannel> shared,
                        std::shared_ptr<const NvmlLibrary> library, std::shared_ptr<EventWaiter> hub,
                        CallSlot& slot) {
  auto thread =
      std::make_shared<EventThread>(EventThread{std::move(shared), std::move(library), std::move(hub), slot});
  return StartDetachedThread([thread] { thread->Run(); }, kStackBytes);
}

}  // namespace gpulens::nvml

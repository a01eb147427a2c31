// libgpulens-cuda.so: the CUDA driver loads it where CUDA_INJECTION64_PATH names it, and calls
// InitializeInjection in cuInit. It subscribes to the launch and synchronisation calls of the driver (CUPTI's
// callbacks, on the job's threads) and to the records of kernels (CUPTI's buffers, on CUPTI's own thread),
// adds both up in the job page, and has no thread. See docs/cuda.md for what is measured.
//
// GPULENS_CUDA=LEVEL[,hes][,flush=MS]: LEVEL is count, time (the default) or profile; hes turns on the
// hardware's event system where the GPU has one (Blackwell), which CUPTI cannot turn off again in that
// process; flush is the longest time that records wait in CUPTI (default 1000).
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#ifndef GPULENS_VERSION  // in the static library of the unit tests
#define GPULENS_VERSION ""
#endif

#include "inject/cuda/cupti_calls.h"
#include "inject/cuda/hooked_calls.h"
#include "inject/cuda/kernel_names.h"
#include "inject/cuda/launch_times.h"
#include "job_page/dynamic_loader.h"
#include "job_page/job_page.h"
#include "job_page/job_page_writer.h"

namespace gpulens::inject {
namespace {

using job_page::CountLoss;
using job_page::CudaDevice;
using job_page::Level;
using job_page::Loss;
using job_page::Page;

struct Options {
  Level level = Level::kTime;
  bool hardware_times = false;
  uint32_t flush_ms = 1000;
};

Options ReadOptions(const char* text) noexcept {
  Options options;
  while (text && *text) {
    const char* comma = ::strchr(text, ',');
    const size_t length = comma ? static_cast<size_t>(comma - text) : ::strlen(text);
    const auto is = [&](const char* word) {
      return length == ::strlen(word) && ::strncmp(text, word, length) == 0;
    };
    if (is("off")) options.level = Level::kOff;
    if (is("count")) options.level = Level::kCount;
    if (is("time")) options.level = Level::kTime;
    if (is("profile")) options.level = Level::kProfile;
    if (is("hes")) options.hardware_times = true;
    if (length > 6 && length < 12 && ::strncmp(text, "flush=", 6) == 0) {
      uint32_t ms = 0;
      for (size_t i = 6; i < length && text[i] >= '0' && text[i] <= '9'; ++i)
        ms = ms * 10 + static_cast<uint32_t>(text[i] - '0');
      if (ms > 0) options.flush_ms = ms < 10 ? 10 : ms;
    }
    text = comma ? comma + 1 : nullptr;
  }
  return options;
}

uint64_t RealTime() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

constexpr uint32_t kFullBuffersMs = 50;

// All of it is set by InitializeInjection before CUPTI calls anything of ours, but the atomics.
struct State {
  cupti::Calls cupti{};
  cupti::Subscriber subscriber = nullptr;
  bool several = false;    // CUPTI's calls for several subscribers
  bool real_time = false;  // CUPTI's timestamps are CLOCK_REALTIME
  uint64_t flush_ns = 0;
  int (*create_thread)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) = nullptr;
  int (*bus_id)(char* text, int size, int device) = nullptr;  // cuDeviceGetPCIBusId

  std::atomic<uint32_t> level{0};     // that is in force
  std::atomic<uint32_t> handled{0};   // the wanted level that led to it
  std::atomic<uint32_t> changing{0};  // 1 while a thread changes it
  std::atomic<uint32_t> ended{0};     // the process exits: buffers are returned unread
  std::atomic<uint32_t> flushed{0};   // the flush at the end is done
  std::atomic<uint64_t> delivered_ns{0}, flushing{0};
  // Device of a context: uid << 8 | device + 1, by uid % size.
  std::atomic<uint64_t> contexts[256]{};
  std::atomic<uint32_t> described[job_page::kDevices]{};
};
constinit State state;
constinit job_page::OwnPage own;
constinit LaunchTimes launches;
constinit BufferPool buffers;

// Of CUPTI's clock; 0: it failed.
uint64_t CuptiTime() noexcept {
  uint64_t now = 0;
  const cupti::Result result =
      state.several ? state.cupti.GetTimestampV2(state.subscriber, &now) : state.cupti.GetTimestamp(&now);
  return result == cupti::kSuccess ? now : 0;
}
uint64_t Now() noexcept { return state.real_time ? RealTime() : CuptiTime(); }

// CUPTI's clock is that of the records. Where it is CLOCK_REALTIME, which is its default on Linux, reading
// that directly saves the call.
bool UsesRealTime() noexcept {
  for (int i = 0; i < 3; ++i) {
    const uint64_t before = RealTime(), now = CuptiTime();
    if (now < before || now > RealTime()) return false;
  }
  return true;
}

CudaDevice* DeviceAt(Page& page, uint32_t device) noexcept {
  if (device < job_page::kDevices) return &page.devices[device];
  CountLoss(page, Loss::kNoDevice);
  return nullptr;
}

CudaDevice* DeviceOf(Page& page, const cupti::CallbackData& call) noexcept {
  auto& slot = state.contexts[call.context_uid % 256];
  const uint64_t held = slot.load(std::memory_order_relaxed);
  if (held != 0 && held >> 8 == call.context_uid)
    return DeviceAt(page, static_cast<uint32_t>(held & 255) - 1);
  uint32_t device = 0;
  if (!call.context || state.cupti.GetDeviceId(call.context, &device) != cupti::kSuccess || device > 254) {
    CountLoss(page, Loss::kNoDevice);
    return nullptr;
  }
  slot.store(uint64_t{call.context_uid} << 8 | (device + 1), std::memory_order_relaxed);
  if (device < job_page::kDevices && state.bus_id && state.described[device].exchange(1) == 0) {
    char text[32] = {};
    if (state.bus_id(text, sizeof text, static_cast<int>(device)) == 0) {
      for (char& letter : text)
        letter = letter >= 'A' && letter <= 'F' ? static_cast<char>(letter + 32) : letter;
      job_page::CopyText(page.devices[device].device_id, text);
    }
  }
  return DeviceAt(page, device);
}

void ReportTrouble(Page& page, const char* what, cupti::Result result) noexcept {
  char text[sizeof page.header.trouble];
  ::snprintf(text, sizeof text, "%s: CUPTI error %d", what, result);
  job_page::SetTrouble(page, text);
}

cupti::Result SetKind(uint32_t kind, bool enable) noexcept {
  if (state.several)
    return enable ? state.cupti.EnableV2(state.subscriber, kind, nullptr)
                  : state.cupti.DisableV2(state.subscriber, kind, nullptr);
  return enable ? state.cupti.Enable(kind) : state.cupti.Disable(kind);
}

// Brings what is measured to what the page wants, unless another thread is about it. Synchronisation calls
// are always hooked: in them a change of the level is noticed while nothing else is measured.
void FollowLevel(Page& page) noexcept {
  if (state.changing.exchange(1, std::memory_order_acquire) != 0) return;
  const uint32_t wanted = page.header.wanted_level.load(std::memory_order_relaxed);
  const uint32_t before = state.level.load(std::memory_order_relaxed);
  Level level = static_cast<Level>(wanted);
  if (wanted >= static_cast<uint32_t>(Level::kLink))
    level = level == Level::kProfile ? Level::kProfile : Level::kTime;
  if (state.ended.load(std::memory_order_relaxed) != 0) level = Level::kOff;
  const bool times = level >= Level::kTime, counts = level >= Level::kCount;
  if (times) {
    // Whole graphs cost less than each of their kernels; names need the kernels. Where several subscribe, the
    // first one decides for all, and it is not for us to take their kernels away.
    if (!state.several) SetKind(cupti::kGraphTrace, level != Level::kProfile);
    const cupti::Result result = SetKind(cupti::kConcurrentKernel, true);
    if (result != cupti::kSuccess) {
      ReportTrouble(page, "kernels cannot be timed", result);
      level = Level::kCount;
    }
  }
  if (level < Level::kTime && before >= static_cast<uint32_t>(Level::kTime)) {
    SetKind(cupti::kConcurrentKernel, false);
    if (!state.several) SetKind(cupti::kGraphTrace, false);
  }
  for (const HookedCall& call : kHookedCalls) {
    if (call.kind == CallKind::kSync) continue;
    const cupti::Result result =
        state.cupti.EnableCallback(counts, state.subscriber, cupti::kDriverApi, call.id);
    // Old calls are not in every driver.
    if (result != cupti::kSuccess && counts && call.id == 307) {
      ReportTrouble(page, "launches cannot be counted", result);
      level = Level::kOff;
    }
  }
  state.level.store(static_cast<uint32_t>(level), std::memory_order_relaxed);
  state.handled.store(wanted, std::memory_order_relaxed);
  page.header.actual_level.store(static_cast<uint32_t>(level), std::memory_order_relaxed);
  state.changing.store(0, std::memory_order_release);
}

// On a thread of the job: has CUPTI return records that waited too long, at a low rate of launches, at which
// it would keep them until a buffer is full.
void FlushIfDue(uint64_t now, uint64_t most_wait_ns) noexcept {
  if (now - state.delivered_ns.load(std::memory_order_relaxed) < most_wait_ns) return;
  if (state.level.load(std::memory_order_relaxed) < static_cast<uint32_t>(Level::kTime)) return;
  if (state.flushing.exchange(1, std::memory_order_acquire) != 0) return;
  state.delivered_ns.store(now, std::memory_order_relaxed);
  state.cupti.FlushAll(0);
  state.flushing.store(0, std::memory_order_release);
}

void OnCall(void* /*user*/, int domain, uint32_t id, const void* data) noexcept {
  Page* page = own.page();
  if (!page || domain != cupti::kDriverApi || id >= kCallIds) return;
  const CallKind kind = kCallTable.kinds[id];
  if (kind == CallKind::kNone) return;
  const auto& call = *static_cast<const cupti::CallbackData*>(data);
  const int before = errno;
  if (call.site == cupti::kEnter) {
    if (page->header.wanted_level.load(std::memory_order_relaxed) !=
        state.handled.load(std::memory_order_relaxed))
      FollowLevel(*page);
    const uint64_t now = Now();
    *call.correlation_data = now;
    if (kind != CallKind::kSync &&
        state.level.load(std::memory_order_relaxed) >= static_cast<uint32_t>(Level::kTime))
      launches.Put(call.correlation, now);
    errno = before;
    return;
  }
  const uint64_t begin = *call.correlation_data;
  const uint64_t now = Now();
  *call.correlation_data = 0;
  const uint32_t level = state.level.load(std::memory_order_relaxed);
  // Not from our enter, or the clock was set.
  const bool timed = begin != 0 && begin <= now && now - begin < 3'600'000'000'000;
  const uint64_t boot = own.Now();
  // Else CUPTI's thread does it, in OnRecords.
  if (level < static_cast<uint32_t>(Level::kTime)) own.HandOverIfDue(boot);
  if (level == 0 || begin == 0) {
    errno = before;
    return;
  }
  if (call.result && *static_cast<const int*>(call.result) != 0) {
    CountLoss(*page, Loss::kError);
  } else if (CudaDevice* device = DeviceOf(*page, call)) {
    if (kind == CallKind::kSync) {
      if (timed) device->sync_wait.Add(now - begin);
    } else {
      const auto type = static_cast<size_t>(LaunchOf(kind));
      device->launches[type].fetch_add(1, std::memory_order_relaxed);
      if (timed) device->enqueue[type].Add(now - begin);
    }
  }
  // Once in a while, since all threads write it.
  if (boot - page->header.last_event_boot_ns.load(std::memory_order_relaxed) > 10'000'000)
    page->header.last_event_boot_ns.store(boot, std::memory_order_relaxed);
  FlushIfDue(now, kind == CallKind::kSync ? state.flush_ns : 3 * state.flush_ns);
  errno = before;
}

void OnKernel(Page& page, const cupti::KernelRecord& kernel) noexcept {
  CudaDevice* device = DeviceAt(page, kernel.device);
  if (!device) return;
  if (kernel.start_ns == 0 || kernel.end_ns < kernel.start_ns) return CountLoss(page, Loss::kError);
  const uint64_t ns = kernel.end_ns - kernel.start_ns;
  const bool in_graph = kernel.graph != 0 || kernel.graph_node != 0;
  (in_graph ? device->graph_kernel : device->kernel).Add(ns);
  device->busy_ns.fetch_add(ns, std::memory_order_relaxed);
  uint64_t delay = 0;
  // Of a graph only the first kernel finds the launch.
  switch (launches.Take(kernel.correlation, kernel.start_ns, delay)) {
    case LaunchTimes::Answer::kFound: device->queue_delay.Add(delay); break;
    case LaunchTimes::Answer::kOverwritten:
      if (!in_graph) CountLoss(page, Loss::kStaleTimer);
      break;
    case LaunchTimes::Answer::kUnknown:
      break;  // launched before kernels were timed, or by a call that is not hooked
  }
  if (state.level.load(std::memory_order_relaxed) == static_cast<uint32_t>(Level::kProfile))
    AddKernel(page.kernels, kernel.name, static_cast<int32_t>(kernel.device), ns);
}

void OnGraph(Page& page, const cupti::GraphRecord& graph) noexcept {
  CudaDevice* device = DeviceAt(page, graph.device);
  if (!device) return;
  if (graph.start_ns == 0 || graph.end_ns < graph.start_ns) return CountLoss(page, Loss::kError);
  device->graph.Add(graph.end_ns - graph.start_ns);
  device->busy_ns.fetch_add(graph.end_ns - graph.start_ns, std::memory_order_relaxed);
  uint64_t delay = 0;
  if (launches.Take(graph.correlation, graph.start_ns, delay) == LaunchTimes::Answer::kFound)
    device->queue_delay.Add(delay);
}

void OnRecords(uint8_t* buffer, size_t valid) noexcept {
  Page* page = own.page();
  if (page && state.ended.load(std::memory_order_relaxed) == 0) {
    void* record = nullptr;
    // The smallest record has 16 bytes; the bound is against a library that goes on for ever.
    for (size_t left = valid / 16; left > 0; --left) {
      const cupti::Result result = state.several
                                       ? state.cupti.GetNextRecordV2(state.subscriber, buffer, valid, &record)
                                       : state.cupti.GetNextRecord(buffer, valid, &record);
      if (result != cupti::kSuccess || !record) break;
      const auto* at = static_cast<const uint8_t*>(record);
      const size_t room = at >= buffer && at < buffer + valid ? static_cast<size_t>(buffer + valid - at) : 0;
      if (room < sizeof(cupti::GraphRecord)) continue;
      const uint32_t kind = *static_cast<const uint32_t*>(record);
      if (kind == cupti::kConcurrentKernel && room >= cupti::kSmallestKernelRecord)
        OnKernel(*page, *static_cast<const cupti::KernelRecord*>(record));
      else if (kind == cupti::kGraphTrace) OnGraph(*page, *static_cast<const cupti::GraphRecord*>(record));
    }
    size_t dropped = 0;
    const cupti::Result result = !state.several ? state.cupti.GetDropped(nullptr, 0, &dropped)
                                 : state.cupti.GetDroppedV2
                                     ? state.cupti.GetDroppedV2(state.subscriber, nullptr, 0, &dropped)
                                     : 1;
    if (result == cupti::kSuccess && dropped > 0) CountLoss(*page, Loss::kDropped, dropped);
    state.delivered_ns.store(Now(), std::memory_order_relaxed);
    own.HandOverIfDue(own.Now());
  }
  buffers.Return(buffer);
}

void OnRequested(uint8_t** buffer, size_t* size, size_t* records) noexcept {
  *records = 0;  // as many as there is room for
  *buffer = buffers.Take();
  *size = *buffer ? BufferPool::kSize : 0;
}
void OnRequestedV2(uint8_t** buffer, size_t* size, size_t* records, void* /*info*/) noexcept {
  OnRequested(buffer, size, records);
}
void OnCompleted(cupti::Context /*context*/, uint32_t /*stream*/, uint8_t* buffer, size_t /*size*/,
                 size_t valid) noexcept {
  OnRecords(buffer, valid);
}
void OnCompletedV2(uint8_t* buffer, size_t /*size*/, size_t valid, void* /*info*/) noexcept {
  OnRecords(buffer, valid);
}

void* FlushAtEnd(void* /*unused*/) noexcept {
  state.cupti.FlushAll(1);
  state.flushed.store(1, std::memory_order_release);
  return nullptr;
}

// Before CUPTI and the driver end, since they were loaded before this was registered. A flush that hangs, as
// with a GPU that does, is left to its own thread.
void AtExit() {
  Page* page = own.page();
  if (!page) return;  // a forked child
  if (state.level.load(std::memory_order_relaxed) >= static_cast<uint32_t>(Level::kTime) &&
      state.create_thread) {
    constexpr long kAllSignals = -1;
    long before = 0;
    ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &kAllSignals, &before, sizeof before);
    pthread_t thread;
    const bool created = state.create_thread(&thread, nullptr, FlushAtEnd, nullptr) == 0;
    ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof before);
    const timespec pause{0, 500'000};
    for (int i = 0; created && i < 2000 && state.flushed.load(std::memory_order_acquire) == 0; ++i)
      ::nanosleep(&pause, nullptr);
  }
  state.ended.store(1, std::memory_order_relaxed);
  own.RemoveFile();
}

cupti::Result SubscribeFor(bool several, char (&other)[cupti::kOldNameSize]) noexcept {
  state.several = several;
  if (!state.cupti.SubscribeV2 || (!several && state.cupti.SeveralSubscribers()))
    return state.cupti.Subscribe(&state.subscriber, OnCall, nullptr);
  cupti::SubscriberParameters parameters{};
  parameters.size = several ? sizeof parameters : cupti::kSizeWithoutSeveral;
  parameters.name = "gpulens";
  parameters.old_name = other;
  parameters.old_name_size = sizeof other;
  parameters.several = several;
  return state.cupti.SubscribeV2(&state.subscriber, OnCall, nullptr, &parameters);
}

bool RegisterBuffers() noexcept {
  return (state.several ? state.cupti.RegisterCallbacksV2(state.subscriber, OnRequestedV2, OnCompletedV2)
                        : state.cupti.RegisterCallbacks(OnRequested, OnCompleted)) == cupti::kSuccess;
}

// Where nothing can be measured, the page has the reason.
void Start(Page& page, const Options& options) noexcept {
  char text[sizeof page.header.trouble];
  if (const char* tool = cupti::OtherTool()) {
    ::snprintf(text, sizeof text, "%s is in this process, and CUPTI serves one of both", tool);
    return job_page::SetTrouble(page, text);
  }
  if (const char* trouble = cupti::Load(state.cupti)) return job_page::SetTrouble(page, trouble);
  uint32_t version = 0;
  state.cupti.GetVersion(&version);
  ::snprintf(text, sizeof text, "CUPTI %u", version);
  job_page::CopyText(page.header.library_version, text);
  if (!launches.Open() || !buffers.Open()) return job_page::SetTrouble(page, "no memory");

  char other[cupti::kOldNameSize] = {};
  cupti::Result result = cupti::kSuccess;
  if (state.cupti.SeveralSubscribers()) {
    // A driver older than this CUPTI may allow one alone.
    result = SubscribeFor(true, other);
    if (result == cupti::kSuccess && !RegisterBuffers())
      state.cupti.Unsubscribe(state.subscriber), state.several = false;
  }
  if (!state.several && result == cupti::kSuccess) {
    result = SubscribeFor(false, other);
    if (result == cupti::kSuccess && !RegisterBuffers()) {
      state.cupti.Unsubscribe(state.subscriber);
      return job_page::SetTrouble(page, "CUPTI takes no buffers: another program in this process uses it");
    }
  }
  if (result == cupti::kSubscriberExists) {
    other[sizeof other - 1] = '\0';
    ::snprintf(text, sizeof text, "another program uses CUPTI in this process: %s",
               other[0] ? other : "not named");
    return job_page::SetTrouble(page, text);
  }
  if (result != cupti::kSuccess) return ReportTrouble(page, "cuptiSubscribe", result);

  if (options.hardware_times) {
    result = state.cupti.EnableHardwareTrace ? state.cupti.EnableHardwareTrace(1) : 1;
    if (result != cupti::kSuccess)
      ReportTrouble(page, "no hardware event system here, kernels are timed as usual", result);
  }
  state.real_time = UsesRealTime();
  state.flush_ns = uint64_t{options.flush_ms} * 1'000'000;
  state.delivered_ns.store(Now(), std::memory_order_relaxed);
  state.create_thread =
      reinterpret_cast<decltype(state.create_thread)>(::dlsym(RTLD_DEFAULT, "pthread_create"));
  if (void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD))
    state.bus_id = reinterpret_cast<decltype(state.bus_id)>(::dlsym(driver, "cuDeviceGetPCIBusId"));

  // With a period CUPTI returns full buffers then alone: at a million kernels a second all are full after
  // 0.07 s.
  if (state.cupti.FlushPeriod)
    state.cupti.FlushPeriod(options.flush_ms < kFullBuffersMs ? options.flush_ms : kFullBuffersMs);
  for (const HookedCall& call : kHookedCalls) {
    if (call.kind == CallKind::kSync)
      state.cupti.EnableCallback(1, state.subscriber, cupti::kDriverApi, call.id);
  }
  ::atexit(AtExit);
  FollowLevel(page);
}

}  // namespace
}  // namespace gpulens::inject

// Called by the driver, once. It does not matter to it what is returned.
extern "C" [[gnu::visibility("default")]] int InitializeInjection() {
  using namespace gpulens;
  using namespace gpulens::inject;
  static std::atomic<uint32_t> called{0};
  if (called.exchange(1) != 0 || job_page::SwitchedOff()) return 1;
  const Options options = ReadOptions(::secure_getenv("GPULENS_CUDA"));
  if (job_page::Page* page = own.Open({job_page::Writer::kCudaInjection, GPULENS_VERSION, options.level}))
    Start(*page, options);
  return 1;
}

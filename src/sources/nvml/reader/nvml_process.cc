#include "sources/nvml/reader/nvml_process.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/parse.h"
#include "base/result.h"
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
    NvmlCaller caller(*library, slot, RealClock());
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

reader::DeviceState StateOf(int code) noexcept {
  switch (code) {
    case kSuccess: return reader::DeviceState::kOk;
    case kNoPermission: return reader::DeviceState::kNoPermission;
    case kGpuIsLost:
    case kGpuNotFound: return reader::DeviceState::kLost;
    case kResetRequired: return reader::DeviceState::kResetRequired;
    default: return reader::DeviceState::kFailed;
  }
}

using reader::ReaderFault;

std::string Version(int cuda) { return std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10); }

// What is wrong and what to do about it.
reader::VendorLibrary::Opened Failed(int code, const std::string& text) {
  reader::VendorLibrary::Opened out;
  out.code = code;
  switch (code) {
    case kNoPermission:
      out.fault = ReaderFault::kNoPermission;
      out.detail = "no permission to read the GPUs (" + text +
                   "): run as root, or allow /dev/nvidiactl and /dev/nvidia*";
      break;
    case kDriverNotLoaded:
      out.fault = ReaderFault::kDriverNotLoaded;
      out.detail =
          "the NVIDIA kernel driver is not loaded: modprobe nvidia, or look for its reason in the kernel log";
      break;
    case kLibraryNotFound:
      out.fault = ReaderFault::kLibraryNotFound;
      out.detail = text;
      break;
    case kVersionMismatch:
      out.fault = ReaderFault::kVersionMismatch;
      out.detail =
          "the NVIDIA kernel driver and libnvidia-ml have different versions: reload the driver or reboot";
      break;
    default:
      out.fault = ReaderFault::kLibraryError;
      out.detail = "the NVIDIA library failed with code " + std::to_string(code) + ": " + text;
  }
  return out;
}

int CountGpus(NvmlCaller& caller, unsigned& count) {
  const NvmlSymbols& fn = caller.fn();
  return caller.DoEither(fn.DeviceCount, fn.DeviceCountV1, &count);
}

struct DriverVersion {
  unsigned major = 0, minor = 0;  // 0: unknown
};

DriverVersion ReadDriverVersion(std::string_view text) {
  unsigned major = ParseInt<unsigned>(TakeUntil(text, '.')).value_or(0);
  return {major, ParseInt<unsigned>(TakeUntil(text, '.')).value_or(0)};
}

}  // namespace

bool EventWaiter::Open(NvmlCaller& caller) {
  const NvmlSymbols& fn = caller.fn();
  if (types_ == 0 || !fn.RegisterEvents || !fn.SupportedEvents || (!fn.EventWait && !fn.EventWaitV1))
    return false;
  return caller.Do(fn.EventSetCreate, &set_) == kSuccess;
}

void EventWaiter::Register(NvmlCaller& caller, unsigned index, Device device) {
  if (!set_ || index >= kMaxGpus) return;
  {
    std::lock_guard lock(mutex_);
    if (devices_[index] == device) return;
  }
  unsigned long long supported = 0;
  const NvmlSymbols& fn = caller.fn();
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

EventWaiter::Outcome EventWaiter::Wait(NvmlCaller& caller, unsigned timeout_ms, DeviceEvent& out) {
  EventData data{.device = nullptr,
                 .type = 0,
                 .data = 0,
                 .gpu_instance = GpuProcess::kNoInstance,
                 .compute_instance = GpuProcess::kNoInstance};
  const NvmlSymbols& fn = caller.fn();
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

GpuDevice::GpuDevice(const NvmlLibrary& library, CallSlot& slot, const Clock& clock, Options options)
    : index_(options.index),
      events_(std::move(options.events)),
      reader_(library, index_, slot, clock, options.reader),
      parts_(library, index_, slot, clock,
             {.interval = options.reader.periods[static_cast<size_t>(FieldTier::kFast)],
              .medium = options.reader.periods[static_cast<size_t>(FieldTier::kMedium)],
              .slow = options.reader.periods[static_cast<size_t>(FieldTier::kSlow)],
              .details = options.reader.details}) {}

reader::DeviceReader::Attached GpuDevice::Attach() {
  int code = reader_.Attach();
  if (code != kSuccess) return {StateOf(code), code};
  SlicesReader::Mig mig = SlicesReader::Mig::kNone;
  for (const auto& [key, value] : facts()) {
    if (key == "mig_mode") mig = value == "enabled" ? SlicesReader::Mig::kOn : SlicesReader::Mig::kOff;
  }
  parts_.Attach(reader_.identity().device, mig);
  if (events_) events_->Register(parts_.caller(), index_, reader_.identity().device);
  return {};
}

bool GpuDevice::Round(int64_t boot_ns, reader::MessageOutbox& out) {
  parts_.Scan(boot_ns, events_ && events_->TakeRescan(index_), out);
  reader_.SplitProcesses(parts_.mig_devices());
  bool good = reader_.Read(boot_ns);
  // What was lost may not be due again for a minute.
  if (!reader_.readings().empty() && !out.Send(encoder_.Encode(reader_.readings()))) reader_.ReadAgain();
  if (reader_.has_processes())
    out.Send(EncodeProcesses(encoder_, index_, reader_.processes_boot_ns(), reader_.processes()));
  if (good) parts_.Read(boot_ns, out);
  if (parts_.reports_pcie()) reader_.SkipBlocking();
  // Not requested before it is known whether another source has them: each source has its own way to be
  // wrong.
  if (good && !parts_.will_report_pcie() && reader_.ReadBlocking() && !reader_.readings().empty())
    out.Send(encoder_.Encode(reader_.readings()));
  return good;
}

uint64_t GpuDevice::calls() const noexcept { return reader_.calls() + parts_.calls(); }

reader::VendorLibrary::Opened NvmlVendorLibrary::Open(CallSlot& slot) {
  reader::CallGate gate(slot, RealClock());
  gate.Begin(static_cast<reader::CallNumber>(Call::kLoadLibrary));
  Result<NvmlLibrary> library = options_.lookup
                                    ? NvmlLibrary::FromLookup(options_.lookup, "simulated library")
                                    : NvmlLibrary::Open(options_.library_path);
  gate.End();
  Opened out;
  if (!library) {
    bool denied = library.error().code == gpulens::Code::kPermissionDenied;
    out = Failed(denied ? kNoPermission : kLibraryNotFound, library.error().detail);
    out.path = options_.library_path;
    return out;
  }
  library_ = std::make_shared<const NvmlLibrary>(*std::move(library));
  NvmlCaller caller(*library_, slot, RealClock());
  const NvmlSymbols& fn = caller.fn();
  int code = caller.DoEither(fn.Init, fn.InitV1);
  char driver[80] = "", nvml[80] = "";
  int cuda = 0;
  unsigned count = 0;
  if (code == kSuccess) {
    caller.Do(fn.DriverVersion, driver, unsigned{sizeof driver});
    caller.Do(fn.NvmlVersion, nvml, unsigned{sizeof nvml});
    bool has_cuda = caller.Do(fn.CudaVersion, &cuda) == kSuccess && cuda > 0;
    if (has_cuda) out.runtime_version = Version(cuda);
    code = CountGpus(caller, count);
  }
  if (code != kSuccess) {
    out = Failed(code, std::string(ReturnText(code)));
    out.path = options_.library_path;
    return out;
  }
  driver[sizeof driver - 1] = nvml[sizeof nvml - 1] = '\0';
  out.path = library_->path();
  out.library_version = nvml;
  out.driver_version = driver;
  out.devices = std::min(count, kMaxGpus);
  DriverVersion version = ReadDriverVersion(driver);
  // 535.43 to 535.97 put a further number into each element of a _v3 list.
  avoid_process_v3_ = version.major == 535 && version.minor < 98;
  if (version.major != 0) driver_major_ = version.major;
  return out;
}

void NvmlVendorLibrary::Watch(std::shared_ptr<reader::AgentChannel> shared, CallSlot& slot) {
  NvmlCaller caller(*library_, slot, RealClock());
  auto hub = std::make_shared<EventWaiter>(options_.event_types);
  if (hub->Open(caller) && StartEventThread(std::move(shared), library_, hub, slot).ok()) events_ = hub;
}

std::optional<uint32_t> NvmlVendorLibrary::Recount(CallSlot& slot) {
  NvmlCaller caller(*library_, slot, RealClock());
  unsigned count = 0;
  if (CountGpus(caller, count) != kSuccess) return std::nullopt;
  return count;
}

std::unique_ptr<reader::DeviceReader> NvmlVendorLibrary::MakeReader(
    uint32_t index, CallSlot& slot, const Clock& clock, const reader::TierClock::Periods& periods) {
  GpuDevice::Options options{.index = index, .reader = {}, .events = events_};
  options.reader.periods = periods;
  options.reader.details = options_.details;
  options.reader.avoid_process_v3 = avoid_process_v3_;
  options.reader.driver_major = driver_major_;
  return std::make_unique<GpuDevice>(*library_, slot, clock, std::move(options));
}

Result<ReaderProcessOptions> ParseReaderArguments(std::span<const std::string_view> arguments) {
  ReaderProcessOptions out;
  std::string usual_folder = std::move(out.device_folder);
  auto more = [&](std::string_view key, std::string_view value) {
    std::optional<uint64_t> mask = ParseInt<uint64_t>(value, 16);
    if (!mask) return false;
    if (key == "--events") out.event_types = *mask;
    if (key == "--details") out.details = static_cast<uint32_t>(*mask);
    return key == "--events" || (key == "--details" && (*mask & ~uint64_t{kDetailsAll}) == 0);
  };
  ASSIGN_OR_RETURN(reader::ReaderProcessOptions common, reader::ParseReaderArguments(arguments, more));
  static_cast<reader::ReaderProcessOptions&>(out) = std::move(common);
  if (out.device_folder.empty()) out.device_folder = std::move(usual_folder);
  return out;
}

int RunNvmlReader(const ReaderProcessOptions& options) {
  return reader::RunReader(options, std::make_shared<NvmlVendorLibrary>(options));
}

}  // namespace gpulens::nvml

#include "sdk/energy/sources/system_sources.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "base/result.h"
#include "sdk/energy/sources/visible_devices.h"
#include "sources/nvml/nvml_fields.h"

namespace gpulens::sdk {
namespace {

constexpr unsigned kMostMig = 16;
// As NVML's documentation of nvmlDeviceGetPowerUsage states it.
constexpr double kAccuracy = 0.05;
constexpr int64_t kSlowestNs = 990'000'000;
constexpr unsigned kMostProcesses = 64;

Status NvmlStatus(int code, std::string_view call) {
  std::string text = std::string(call) + ": " + std::string(nvml::ReturnText(code));
  if (code == nvml::kNoPermission) return {gpulens::Code::kPermissionDenied, std::move(text)};
  const bool absent = code == nvml::kDriverNotLoaded || code == nvml::kLibraryNotFound ||
                      code == nvml::kNotSupported || code == nvml::kNotFound;
  return {absent ? gpulens::Code::kUnavailable : gpulens::Code::kIo, std::move(text)};
}

bool NvmlHasNone(int code) noexcept {
  return code == nvml::kNotSupported || code == nvml::kFunctionNotFound || code == nvml::kInvalidArgument;
}

// The library keeps samples of the last seconds and reports the newest of each process.
constexpr Duration kShareWindow = std::chrono::seconds(1);

struct GpuUse {
  double memory_bytes = 0, utilization_ratio = kNotMeasured;
};

}  // namespace

NvmlEnergy::NvmlEnergy(nvml::SymbolLookup lookup, const Clock& clock, std::string root)
    : lookup_(lookup), clock_(clock), family_(std::move(root)) {}
NvmlEnergy::~NvmlEnergy() = default;

std::string NvmlEnergy::Doing() const {
  const auto view = slot_.Read();
  return view.call == reader::kNoCall ? std::string() : std::string(nvml::CallName(view.call));
}

Status NvmlEnergy::OpenLibrary() {
  ASSIGN_OR_RETURN(nvml::NvmlLibrary library, lookup_ ? nvml::NvmlLibrary::FromLookup(lookup_, "linked in")
                                                      : nvml::NvmlLibrary::Open(""));
  opened_ = std::make_unique<Opened>(std::move(library), slot_, clock_);
  nvml::NvmlCaller& caller = opened_->caller;
  const nvml::NvmlSymbols& fn = caller.fn();
  const int code = fn.Init ? caller.Do(fn.Init) : caller.Do(fn.InitV1);
  return code == nvml::kSuccess ? Ok() : NvmlStatus(code, "nvmlInit");
}

Result<std::vector<EnergyDevice>> NvmlEnergy::Open() {
  gpus_.clear();
  RETURN_IF_ERROR(OpenLibrary());
  nvml::NvmlCaller& caller = opened_->caller;
  const nvml::NvmlSymbols& fn = caller.fn();
  unsigned count = 0;
  const int code = fn.DeviceCount ? caller.Do(fn.DeviceCount, &count) : caller.Do(fn.DeviceCountV1, &count);
  if (code != nvml::kSuccess) return NvmlStatus(code, "nvmlDeviceGetCount");
  std::vector<EnergyDevice> devices;
  std::vector<VisibleName> names;
  Status denied;
  for (unsigned i = 0; i < std::min(count, nvml::kMaxGpus); ++i) {
    EnergyDevice device;
    VisibleName name;
    // A lost GPU keeps its number, since later entries of the variable count it.
    gpus_.emplace_back();
    if (Status status = Attach(i, device, name.parts); !status.ok()) {
      device.id = "gpu" + std::to_string(i);
      if (status.code == gpulens::Code::kPermissionDenied) denied = std::move(status);
    }
    name.uuid = device.id;
    devices.push_back(std::move(device));
    names.push_back(std::move(name));
  }
  const std::vector<size_t> visible = VisibleDevices(Variable("CUDA_VISIBLE_DEVICES"), names);
  bool any = false;
  for (size_t i = 0; i < devices.size(); ++i) {
    devices[i].usable &= gpus_[i].handle != nullptr && std::ranges::find(visible, i) != visible.end();
    any |= gpus_[i].handle != nullptr;
  }
  if (!any && !denied.ok()) return denied;
  return devices;
}

std::string NvmlEnergy::Uuid(nvml::Device device) {
  std::array<char, 96> text{};
  const int code =
      opened_->caller.Do(opened_->caller.fn().Uuid, device, text.data(), static_cast<unsigned>(text.size()));
  return code == nvml::kSuccess ? std::string(text.data(), ::strnlen(text.data(), text.size()))
                                : std::string();
}

Status NvmlEnergy::Attach(unsigned index, EnergyDevice& out, std::vector<std::string>& parts) {
  nvml::NvmlCaller& caller = opened_->caller;
  const nvml::NvmlSymbols& fn = caller.fn();
  nvml::Device handle = nullptr;
  const int code = fn.HandleByIndex ? caller.Do(fn.HandleByIndex, index, &handle)
                                    : caller.Do(fn.HandleByIndexV1, index, &handle);
  if (code != nvml::kSuccess) return NvmlStatus(code, "nvmlDeviceGetHandleByIndex");
  out.id = Uuid(handle);
  if (out.id.empty()) out.id = "gpu" + std::to_string(index);
  std::array<char, 96> text{};
  if (caller.Do(fn.Name, handle, text.data(), static_cast<unsigned>(text.size())) == nvml::kSuccess)
    out.name.assign(text.data(), ::strnlen(text.data(), text.size()));
  out.most_watts = MostWatts(handle);
  out.counter_step_joules = 1e-3;
  out.counter_lag = kLagUnknown;  // written every 20 to 100 ms, by the board
  out.accuracy_ratio = kAccuracy;
  Gpu& gpu = gpus_[index];
  gpu.handle = handle;
  parts = MigUuids(gpu);
  // Boards that report neither (Jetson) are read by another source.
  EnergyReading reading;
  out.usable = !(NvmlHasNone(ReadCounter(gpu, reading)) && NvmlHasNone(ReadPower(gpu, reading)));
  return Ok();
}

std::vector<std::string> NvmlEnergy::MigUuids(Gpu& gpu) {
  nvml::NvmlCaller& caller = opened_->caller;
  const nvml::NvmlSymbols& fn = caller.fn();
  std::vector<std::string> out;
  unsigned count = 0;
  if (caller.Do(fn.MaxMigDevices, gpu.handle, &count) != nvml::kSuccess) return out;
  for (unsigned i = 0; i < std::min(count, kMostMig); ++i) {
    nvml::Device part = nullptr;
    if (caller.Do(fn.MigDeviceHandle, gpu.handle, i, &part) != nvml::kSuccess) continue;
    gpu.parts.push_back(part);
    if (std::string uuid = Uuid(part); !uuid.empty()) out.push_back(std::move(uuid));
  }
  return out;
}

double NvmlEnergy::MostWatts(nvml::Device device) {
  nvml::NvmlCaller& caller = opened_->caller;
  const nvml::NvmlSymbols& fn = caller.fn();
  nvml::FieldValue limit{};
  limit.field_id = nvml::kFiPowerMaxLimit;
  unsigned milliwatts = 0;
  if (caller.Do(fn.FieldValues, device, 1, &limit) == nvml::kSuccess && limit.code == nvml::kSuccess)
    milliwatts = limit.value.uint_value;
  if (milliwatts == 0 && caller.Do(fn.EnforcedPowerLimit, device, &milliwatts) != nvml::kSuccess)
    return kNotMeasured;
  return milliwatts > 0 ? milliwatts * 1e-3 * kPeakOverLimit : kNotMeasured;
}

int NvmlEnergy::ReadCounter(Gpu& gpu, EnergyReading& out) {
  if (!gpu.counter) return nvml::kNotSupported;
  unsigned long long millijoules = 0;
  nvml::NvmlCaller& caller = opened_->caller;
  const int code = caller.Do(caller.fn().TotalEnergy, gpu.handle, &millijoules);
  // Some boards answer all ones, or 0 for ever.
  if (code == nvml::kSuccess && millijoules != ~0ULL && millijoules != 0)
    out.joules = static_cast<double>(millijoules) * 1e-3;
  if (NvmlHasNone(code)) gpu.counter = false;
  return code;
}

// Reads the instantaneous power; since Ampere nvmlDeviceGetPowerUsage is the mean of a second.
int NvmlEnergy::ReadPower(Gpu& gpu, EnergyReading& out) {
  nvml::NvmlCaller& caller = opened_->caller;
  if (gpu.instant) {
    nvml::FieldValue field{};
    field.field_id = nvml::kFiPowerInstant;
    const int code = caller.Do(caller.fn().FieldValues, gpu.handle, 1, &field);
    if (code == nvml::kSuccess && field.code == nvml::kSuccess) {
      out.watts = field.value.uint_value * 1e-3;
      return code;
    }
    if (code != nvml::kSuccess && !NvmlHasNone(code)) return code;
    gpu.instant = !NvmlHasNone(code) && !NvmlHasNone(field.code);
  }
  if (!gpu.power) return nvml::kNotSupported;
  unsigned milliwatts = 0;
  const int code = caller.Do(caller.fn().PowerUsage, gpu.handle, &milliwatts);
  if (code == nvml::kSuccess) out.watts = milliwatts * 1e-3;
  if (NvmlHasNone(code)) gpu.power = false;
  return code;
}

void NvmlEnergy::ReadSlow(Gpu& gpu, EnergyReading& out) {
  nvml::NvmlCaller& caller = opened_->caller;
  const nvml::NvmlSymbols& fn = caller.fn();
  const int64_t now_ns = clock_.Now().boot_ns;
  if (gpu.queried_ns == 0 || now_ns - gpu.queried_ns >= kSlowNs) {
    gpu.queried_ns = now_ns;
    gpu.slow = {};
    nvml::Utilization use{};
    if (caller.Do(fn.UtilizationRates, gpu.handle, &use) == nvml::kSuccess)
      gpu.slow.utilization_ratio = use.gpu / 100.0;
    nvml::MemoryV2 memory{};
    memory.version = nvml::kMemoryV2;
    nvml::Memory old{};
    if (caller.Do(fn.MemoryInfoV2, gpu.handle, &memory) == nvml::kSuccess)
      gpu.slow.memory_used_bytes = static_cast<double>(memory.used);
    else if (caller.Do(fn.MemoryInfo, gpu.handle, &old) == nvml::kSuccess)
      gpu.slow.memory_used_bytes = static_cast<double>(old.used);
    unsigned celsius = 0;
    if (caller.Do(fn.Temperature, gpu.handle, 0U, &celsius) == nvml::kSuccess)
      gpu.slow.temperature_celsius = celsius;
  }
  if (gpu.counted_ns == 0 || now_ns - gpu.counted_ns >= kSlowestNs) {
    gpu.counted_ns = now_ns;
    gpu.processes = CountProcesses(gpu);
  }
  out.processes = gpu.processes;
  out.utilization_ratio = gpu.slow.utilization_ratio;
  out.memory_used_bytes = gpu.slow.memory_used_bytes;
  out.temperature_celsius = gpu.slow.temperature_celsius;
}

double NvmlEnergy::CountProcesses(const Gpu& gpu) {
  nvml::NvmlCaller& caller = opened_->caller;
  const nvml::NvmlSymbols& fn = caller.fn();
  std::array<nvml::ProcessInfoV2, kMostProcesses> list{};
  unsigned count = kMostProcesses;
  const int code =
      fn.ComputeProcessesV3
          ? caller.Do(fn.ComputeProcessesV3, gpu.handle, &count, static_cast<void*>(list.data()))
          : caller.Do(fn.ComputeProcessesV2, gpu.handle, &count, static_cast<void*>(list.data()));
  return code == nvml::kSuccess || code == nvml::kInsufficientSize ? count : kNotMeasured;
}

Status NvmlEnergy::Read(size_t device, EnergyReading& out) {
  if (device >= gpus_.size()) return {gpulens::Code::kUnavailable, "NVML could not be opened again"};
  Gpu& gpu = gpus_[device];
  if (!gpu.handle) return {gpulens::Code::kUnavailable, "the GPU could not be opened"};
  const int counter = ReadCounter(gpu, out);
  const int power = ReadPower(gpu, out);
  if (counter != nvml::kSuccess && power != nvml::kSuccess)
    return NvmlStatus(gpu.counter ? counter : power,
                      gpu.counter ? "nvmlDeviceGetTotalEnergyConsumption" : "nvmlDeviceGetPowerUsage");
  ReadSlow(gpu, out);
  return Ok();
}

// Reads all lists that are supported, of the GPU or of each of its MIG devices. With only some of them,
// processes would seem to have ended.
Status NvmlEnergy::ReadLists(Gpu& gpu, std::vector<nvml::GpuProcess>& out) {
  bool any = false;
  std::vector<nvml::Device> of = gpu.parts;
  if (of.empty()) of.push_back(gpu.handle);
  for (size_t list = 0; list < nvml::kProcessLists; ++list) {
    for (const nvml::Device device : of) {
      if (gpu.no_list[list]) break;
      nvml::ProcessLister& lister = opened_->lister;
      const int code = lister.Read(device, static_cast<nvml::ProcessType>(list));
      gpu.no_list[list] = code == nvml::kNotSupported || code == nvml::kFunctionNotFound;
      if (code == nvml::kSuccess) {
        any = true;
        out.insert(out.end(), lister.found().begin(), lister.found().end());
      } else if (!gpu.no_list[list]) {
        return {code == nvml::kNoPermission ? gpulens::Code::kPermissionDenied : gpulens::Code::kIo,
                "NVML's list of processes: " + std::string(nvml::ReturnText(code))};
      }
    }
  }
  if (!any) return {gpulens::Code::kUnavailable, "NVML does not report the processes of this GPU"};
  return {};
}

Status NvmlEnergy::Processes(size_t device, EnergyProcesses& out) {
  if (device >= gpus_.size()) return {gpulens::Code::kUnavailable, "NVML could not be opened again"};
  Gpu& gpu = gpus_[device];
  if (!gpu.handle) return {gpulens::Code::kUnavailable, "the GPU could not be opened"};
  if (!family_.sees_host())
    return {gpulens::Code::kUnavailable,
            "NVML reports process ids of the host, which this container does not see (mount the agent's "
            "energy.sock, or "
            "share the host's pids)"};
  std::vector<nvml::GpuProcess> list;
  if (Status status = ReadLists(gpu, list); !status.ok()) return status;
  std::map<uint32_t, GpuUse> by_pid;
  for (const nvml::GpuProcess& one : list) {
    const bool first = by_pid.find(one.pid) == by_pid.end();
    GpuUse& use = by_pid[one.pid];
    const double bytes = one.memory_used == nvml::GpuProcess::kUnknownMemory
                             ? kNotMeasured
                             : static_cast<double>(one.memory_used);
    // A process that computes and draws is in two lists, each with all of its memory.
    if (first || one.gpu_instance == nvml::GpuProcess::kNoInstance) use.memory_bytes = bytes;
    else use.memory_bytes += bytes;
  }
  if (!gpu.shares) {
    gpu.shares = std::make_unique<nvml::ShareReader>(opened_->caller);
    gpu.shares->Reset(gpu.handle);
  }
  if (gpu.parts.empty() && by_pid.size() > 1 && gpu.shares->Read(clock_.Now().unix_ns, kShareWindow)) {
    for (auto& [pid, use] : by_pid) use.utilization_ratio = 0;
    for (const nvml::ProcessShare& share : gpu.shares->shares()) {
      const auto found = by_pid.find(share.pid);
      if (found != by_pid.end())
        found->second.utilization_ratio = share.sm <= 100 ? share.sm / 100.0 : kNotMeasured;
    }
  }
  const std::string run = OwnRunId();
  for (const auto& [pid, use] : by_pid) {
    out.list.push_back({.pid = pid,
                        .own = family_.Has(pid, static_cast<uint32_t>(::getpid()), run),
                        .utilization_ratio = use.utilization_ratio,
                        .memory_used_bytes = use.memory_bytes});
  }
  return {};
}

}  // namespace gpulens::sdk

// Who uses a GPU, by NVML's lists, and how much each of them keeps it busy.
#include <unistd.h>

#include <map>

#include "sdk/energy/sources/nvml_energy.h"

namespace gpulens::sdk {
namespace {

// The library keeps samples of the last seconds and tells each process's newest.
constexpr Duration kShareWindow = std::chrono::seconds(1);

struct Use {
  double memory_bytes = 0, utilization_ratio = kNotMeasured;
};

}  // namespace

// Every list that there is, of the GPU or of each of its MIG devices: part of them would look like processes
// that have ended.
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
  std::map<uint32_t, Use> by_pid;
  for (const nvml::GpuProcess& one : list) {
    const bool first = by_pid.find(one.pid) == by_pid.end();
    Use& use = by_pid[one.pid];
    const double bytes = one.memory_used == nvml::GpuProcess::kUnknownMemory
                             ? kNotMeasured
                             : static_cast<double>(one.memory_used);
    // One that computes and draws is in two lists, with all of its memory in each.
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

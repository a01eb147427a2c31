#include "agent/check/check_table.h"

#include <algorithm>
#include <array>

#include "base/parse.h"
#include "catalog/gpu/errors.h"
#include "catalog/gpu/health.h"
#include "catalog/gpu/links.h"
#include "catalog/gpu/readings.h"
#include "catalog/gpu/score.h"

namespace gpulens {
namespace {

constexpr double kMib = 1 << 20;
constexpr double kBusyAbove = 0.05;
// XIDs that an application brings on itself, or that ask for nothing now: a warning. Those of l9gpu's
// check-syslogs.
constexpr int kMildXids[] = {13, 31, 43, 45, 63, 68, 92, 109};

constexpr std::string_view kType = "gpu.ecc.error_type", kCount = "gpu.ecc.count_type",
                           kLink = "gpu.interconnect.type", kLinkError = "gpu.interconnect.error_type",
                           kCause = "gpu.throttle.cause";

constexpr CheckInput kStates[] = {{&kGpuState}};
constexpr CheckInput kProcesses[] = {{&kGpuProcesses}};
constexpr CheckInput kGraphicsClock[] = {{&kGpuClockFrequency, "gpu.clock.type", "graphics"}, {&kGpuUtilization}};
constexpr CheckInput kMemoryClock[] = {{&kGpuClockFrequency, "gpu.clock.type", "memory"}, {&kGpuUtilization}};
constexpr CheckInput kTemperature[] = {{&kGpuTemperature, "gpu.temperature.sensor", "edge"}};
constexpr CheckInput kUsed[] = {{&kGpuMemoryUsed}};
constexpr CheckInput kRetired[] = {{&kGpuRetiredPages, kType, "correctable"},
                                   {&kGpuRetiredPages, kType, "uncorrectable"},
                                   {&kGpuRetiredPagesPending}};
constexpr CheckInput kUncorrected[] = {{&kGpuEccErrors, kCount, "volatile", kType, "uncorrectable"}};
constexpr CheckInput kCorrected[] = {{&kGpuEccErrors, kCount, "volatile", kType, "correctable"}};
constexpr CheckInput kInfo[] = {{&kGpuInfo}};
constexpr CheckInput kRemap[] = {{&kGpuRowRemapResetPending}, {&kGpuRowRemapFailed}};
constexpr CheckInput kRemapPending[] = {{&kGpuRowRemapResetPending}};
constexpr CheckInput kRemapFailed[] = {{&kGpuRowRemapFailed}};
constexpr CheckInput kLinkErrors[] = {{&kGpuInterconnectErrors, kLink, "nvlink", kLinkError, "crc_data"},
                                      {&kGpuInterconnectErrors, kLink, "nvlink", kLinkError, "crc_flit"},
                                      {&kGpuInterconnectErrors, kLink, "nvlink", kLinkError, "recovery"},
                                      {&kGpuInterconnectErrors, kLink, "nvlink", kLinkError, "replay"}};
constexpr CheckInput kLinksDown[] = {{&kGpuInterconnectLinks, kLink, "nvlink", "gpu.interconnect.state", "inactive"}};
constexpr CheckInput kXids[] = {{&kGpuXidErrors}, {&kGpuXidCodeErrors}};
constexpr CheckInput kWidth[] = {{&kGpuPcieLinkWidthMax}, {&kGpuPcieLinkWidthCurrent}};
constexpr CheckInput kGeneration[] = {{&kGpuPcieLinkGenMax}, {&kGpuPcieLinkGenCurrent}, {&kGpuUtilization}};
constexpr CheckInput kReplays[] = {{&kGpuPcieReplayCount}};
constexpr CheckInput kPower[] = {{&kGpuPowerUtilization}};
constexpr CheckInput kThrottle[] = {{&kGpuThrottleReason, kCause, "temp_hardware"},
                                    {&kGpuThrottleReason, kCause, "power_brake"},
                                    {&kGpuThrottleReason, kCause, "temp_software"}};
constexpr CheckInput kScore[] = {{&kGpuHealthScore}};

// Values of all GPUs by `value_of`, which gives nothing where an input is missing.
template <class ValueOf, class CodeOfValue>
CheckResult ForEachGpu(const CheckSpec& check, const CheckData& data, const CheckSettings& settings, ValueOf value_of,
                       CodeOfValue code_of) {
  std::vector<CheckValue> values;
  std::vector<std::string> missing;
  for (size_t gpu = 0; gpu < data.gpus.size(); ++gpu) {
    std::optional<double> value = value_of(gpu);
    if (value) values.push_back({data.gpus[gpu].label, *value, code_of(gpu, *value)});
    else missing.push_back(data.gpus[gpu].label);
  }
  return Conclude(check, data, settings, std::move(values), missing);
}

std::string StateOf(const CheckData& data, size_t gpu) {
  for (const CheckReading* reading : data.Of(gpu, kGpuState)) {
    auto at = reading->attributes.find("gpu.state");
    if (reading->value == 1 && at != reading->attributes.end()) return at->second;
  }
  return "";
}

CheckResult GpuNum(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
  CheckResult result;
  double answering = 0, wanted = settings.critical.value_or(static_cast<double>(data.gpus.size()));
  bool known = false;
  for (size_t gpu = 0; gpu < data.gpus.size(); ++gpu) {
    std::string state = StateOf(data, gpu);
    known = known || !state.empty();
    answering += state == "ok";
  }
  if (!known) {
    result.text = "no GPU reports " + std::string(check.inputs[0].metric->name);
    return result;
  }
  result.critical = wanted;
  result.code = answering == wanted ? CheckCode::kOk : CheckCode::kCritical;
  result.text = CheckNumber(answering) + " of " + CheckNumber(wanted) + " GPUs answer";
  return result;
}

CheckResult State(const CheckSpec& check, const CheckData& data, const CheckSettings&) {
  CheckResult result;
  result.code = CheckCode::kOk;
  std::string faults;
  for (size_t gpu = 0; gpu < data.gpus.size(); ++gpu) {
    std::string state = StateOf(data, gpu);
    CheckCode code = state == "ok"                                ? CheckCode::kOk
                     : state.empty() || state == "no_permission" ? CheckCode::kUnknown
                                                                  : CheckCode::kCritical;
    result.code = Worse(result.code, code);
    if (code == CheckCode::kOk) continue;
    faults += (faults.empty() ? "GPU " : "; GPU ") + data.gpus[gpu].label +
              (state.empty() ? " does not report " + std::string(check.inputs[0].metric->name) : " is " + state);
  }
  result.text = faults.empty() ? "all GPUs answer" : faults;
  return result;
}

// A clock is only to be high under load.
CheckResult Clock(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
  return ForEachGpu(
      check, data, settings,
      [&](size_t gpu) {
        return data.Sum(gpu, check.inputs[1]) ? data.Sum(gpu, check.inputs[0]) : std::nullopt;
      },
      [&](size_t gpu, double value) {
        bool busy = data.Sum(gpu, check.inputs[1]).value_or(0) > kBusyAbove;
        return busy ? CodeOf(check, settings, value) : CheckCode::kOk;
      });
}

CheckResult RetiredPages(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
  return ForEachGpu(
      check, data, settings,
      [&](size_t gpu) -> std::optional<double> {
        auto single = data.Sum(gpu, check.inputs[0]), twofold = data.Sum(gpu, check.inputs[1]);
        if (!single || !twofold || !data.Sum(gpu, check.inputs[2])) return std::nullopt;
        return std::max(*single, *twofold);
      },
      [&](size_t gpu, double value) {
        bool pending = data.Sum(gpu, check.inputs[2]).value_or(0) > 0;
        return pending ? CheckCode::kCritical : CodeOf(check, settings, value);
      });
}

CheckResult Vbios(const CheckSpec&, const CheckData& data, const CheckSettings& settings) {
  CheckResult result;
  std::string expected = settings.expect;
  std::vector<std::string> missing, others;
  for (size_t gpu = 0; gpu < data.gpus.size(); ++gpu) {
    std::string version;
    for (const CheckReading* reading : data.Of(gpu, kGpuInfo)) {
      auto at = reading->attributes.find("gpu.vbios.version");
      if (at != reading->attributes.end()) version = at->second;
    }
    if (version.empty()) missing.push_back(data.gpus[gpu].label);
    else if (expected.empty()) expected = version;
    else if (version != expected) others.push_back(data.gpus[gpu].label + " has " + version);
  }
  if (!others.empty()) {
    result.code = CheckCode::kCritical;
    result.text = GpuList(others) + ", expected " + expected;
  } else if (!missing.empty()) {
    result.text = GpuList(missing) + " report no VBIOS version";
  } else {
    result.code = CheckCode::kOk;
    result.text = "all GPUs have " + expected;
  }
  return result;
}

CheckCode XidCode(const CheckData& data, size_t gpu, double total) {
  double mild = 0;
  for (const CheckReading* reading : data.Of(gpu, kGpuXidCodeErrors)) {
    auto at = reading->attributes.find("gpu.xid.code");
    auto code = at == reading->attributes.end() ? std::nullopt : ParseInt<int>(at->second);
    if (code && std::find(std::begin(kMildXids), std::end(kMildXids), *code) != std::end(kMildXids)) {
      mild += reading->value;
    }
  }
  // What no code explains is not called mild.
  return mild >= total ? CheckCode::kWarning : CheckCode::kCritical;
}

CheckResult Xid(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
  CheckResult result = ForEachGpu(
      check, data, settings, [&](size_t gpu) { return data.Sum(gpu, check.inputs[0]); },
      [&](size_t gpu, double value) {
        return CodeOf(check, settings, value) == CheckCode::kOk ? CheckCode::kOk : XidCode(data, gpu, value);
      });
  if (result.code == CheckCode::kOk && !data.watched) {
    result.code = CheckCode::kUnknown;
    result.text = "no agent has watched; a look of a second sees no XID";
  }
  return result;
}

// How many lanes or generations are missing.
std::optional<double> Lacking(const CheckSpec& check, const CheckData& data, size_t gpu) {
  auto most = data.Sum(gpu, check.inputs[0]), now = data.Sum(gpu, check.inputs[1]);
  if (!most || !now) return std::nullopt;
  return std::max(0.0, *most - *now);
}

CheckResult Width(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
  return ForEachGpu(
      check, data, settings, [&](size_t gpu) { return Lacking(check, data, gpu); },
      [&](size_t, double value) { return CodeOf(check, settings, value); });
}

CheckResult Generation(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
  return ForEachGpu(
      check, data, settings,
      [&](size_t gpu) -> std::optional<double> {
        auto lacking = Lacking(check, data, gpu), busy = data.Sum(gpu, check.inputs[2]);
        if (!lacking || *lacking == 0) return lacking;
        if (!busy) return std::nullopt;
        // An idle GPU lets its link slow down.
        return *busy > kBusyAbove ? *lacking : 0;
      },
      [&](size_t, double value) { return CodeOf(check, settings, value); });
}

CheckResult Throttle(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
  return ForEachGpu(
      check, data, settings,
      [&](size_t gpu) -> std::optional<double> {
        auto hot = data.Sum(gpu, check.inputs[0]), brake = data.Sum(gpu, check.inputs[1]),
             warm = data.Sum(gpu, check.inputs[2]);
        if (!hot || !brake || !warm) return std::nullopt;
        return *hot + *brake > 0 ? 2 : *warm > 0 ? 1 : 0;
      },
      [&](size_t, double value) { return CodeOf(check, settings, value); });
}

// The thirteen of check-nvidia-smi under their names there, then its neighbours, then ours.
constexpr CheckSpec kChecks[] = {
    {"gpu_num", "as many GPUs answer as are known, or as --critical says", kStates, {}, {}, "", 1, CheckSide::kBelow, &GpuNum},
    {"running_procs", "no process is on a GPU", kProcesses, {}, 0, "processes"},
    {"running_procs_and_kill", "as running_procs, looked at three times; gpulens kills nothing", kProcesses, {}, 0, "processes", 1, CheckSide::kAbove, nullptr, true},
    {"clock_freq", "graphics clock under load", kGraphicsClock, {}, 1155, "MHz", 1, CheckSide::kBelow, &Clock},
    {"clock_freq_memory", "memory clock under load", kMemoryClock, {}, 1593, "MHz", 1, CheckSide::kBelow, &Clock},
    {"gpu_temperature", "temperature of the die", kTemperature, 85, 90, "°C"},
    {"gpu_mem_usage", "memory in use", kUsed, {}, 15, "MiB", kMib},
    {"gpu_retired_pages", "pages taken out of use (before Ampere), of either kind; none waits for a reboot", kRetired, {}, 10, "pages", 1, CheckSide::kAbove, &RetiredPages},
    {"ecc_uncorrected_volatile_total", "uncorrected memory errors since the driver was loaded", kUncorrected, {}, 0, "errors"},
    {"ecc_corrected_volatile_total", "corrected memory errors since the driver was loaded", kCorrected, {}, 50'000'000, "errors"},
    {"vbios_mismatch", "all GPUs have one VBIOS, or that of --expect", kInfo, {}, {}, "", 1, CheckSide::kAbove, &Vbios},
    {"row_remap", "no row replacement waits or has failed", kRemap, {}, 0, "rows"},
    {"row_remap_pending", "no row replacement waits for a reset", kRemapPending, {}, 0, "rows"},
    {"row_remap_failed", "no row replacement has failed", kRemapFailed, {}, 0, "rows"},
    {"nvlink_errors", "CRC, recovery and replay errors of all NVLinks", kLinkErrors, {}, 0, "errors"},
    {"nvlink_status", "NVLinks that are down", kLinksDown, {}, 0, "links"},
    {"xid", "XID errors since the agent first saw the GPU; application codes warn", kXids, {}, 0, "errors", 1, CheckSide::kAbove, &Xid},
    {"pcie_width", "PCIe lanes fewer than GPU and slot can use", kWidth, {}, 0, "lanes", 1, CheckSide::kAbove, &Width},
    {"pcie_gen", "PCIe generations below what GPU and slot can use, under load", kGeneration, {}, 0, "generations", 1, CheckSide::kAbove, &Generation},
    {"pcie_replays", "PCIe replays since the driver was loaded", kReplays, 100, 10'000, "replays"},
    {"gpu_power", "power as a share of its limit", kPower, 1.05, 1.2, ""},
    {"gpu_throttle", "clocks held down: 1 software thermal, 2 hardware thermal or power brake", kThrottle, 0, 1, "", 1, CheckSide::kAbove, &Throttle},
    {"gpu_state", "every GPU answers: not lost, hung, or waiting for a reset", kStates, {}, {}, "", 1, CheckSide::kAbove, &State},
    {"gpu_health", "score of the fleet health analyzer", kScore, 0.8, 0.5, "", 1, CheckSide::kBelow},
};

}  // namespace

std::span<const CheckSpec> AllChecks() noexcept { return kChecks; }

const CheckSpec* FindCheck(std::string_view name) noexcept {
  for (const CheckSpec& check : kChecks) {
    if (check.name == name) return &check;
  }
  return nullptr;
}

std::span<const MetricDesc* const> AllCheckMetrics() {
  static const std::vector<const MetricDesc*> metrics = [] {
    // A GPU that has nothing else is known by its state.
    std::vector<const MetricDesc*> all = {&kGpuState, &kGpuInfo};
    for (const CheckSpec& check : kChecks) {
      for (const CheckInput& input : check.inputs) {
        if (std::find(all.begin(), all.end(), input.metric) == all.end()) all.push_back(input.metric);
      }
    }
    return all;
  }();
  return metrics;
}

}  // namespace gpulens

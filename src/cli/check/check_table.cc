#include "cli/check/check_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "catalog/gpu.h"
#include "cli/common/output.h"
#include "wire/json/json_object.h"

namespace gpulens {

namespace {

// From best to worst, by CheckCode.
constexpr int kBadness[] = {0, 2, 3, 1};
constexpr std::string_view kCodeNames[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};

bool Beyond(CheckSide side, double value, double limit) noexcept {
  return side == CheckSide::kAbove ? value > limit : value < limit;
}

std::string WithUnit(const CheckSpec& check, double value) {
  return CheckNumber(value) + (check.unit.empty() ? "" : " " + std::string(check.unit));
}

std::string InputNames(const CheckSpec& check) {
  std::string names;
  for (const CheckInput& input : check.inputs) {
    const std::string name(input.metric->name);
    if (names.find(name) == std::string::npos) names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

// "GPU 2 at 96 °C, limit 90; GPU 3 at 91 °C, limit 90"
std::string Faults(const CheckSpec& check, const CheckResult& result) {
  std::string text;
  for (const CheckValue& value : result.values) {
    if (value.code == CheckCode::kOk) continue;
    std::optional<double> limit = value.code == CheckCode::kCritical ? result.critical : result.warning;
    text += (text.empty() ? "GPU " : "; GPU ") + value.gpu + " at " + WithUnit(check, value.value);
    if (limit) text += ", limit " + CheckNumber(*limit);
  }
  return text;
}

std::string Fine(const CheckSpec& check, const CheckResult& result) {
  auto less = [](const CheckValue& a, const CheckValue& b) { return a.value < b.value; };
  auto [low, high] = std::minmax_element(result.values.begin(), result.values.end(), less);
  const bool above = check.side == CheckSide::kAbove;
  return Plural(result.values.size(), "GPU", "GPUs") + (above ? ", highest " : ", lowest ") +
         WithUnit(check, above ? high->value : low->value);
}

CheckResult EvaluateSum(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
  std::vector<CheckValue> values;
  std::vector<std::string> missing;
  for (size_t gpu = 0; gpu < data.gpus.size(); ++gpu) {
    std::optional<double> sum;
    bool whole = true;
    for (const CheckInput& input : check.inputs) {
      std::optional<double> part = data.Sum(gpu, input);
      if (!part) whole = false;
      else sum = sum.value_or(0) + *part;
    }
    // A known fault stays a fault when another input is missing.
    double value = sum.value_or(0) / check.per;
    CheckCode code = sum ? CodeOf(check, settings, value) : CheckCode::kOk;
    if (whole || code != CheckCode::kOk) values.push_back({data.gpus[gpu].label, value, code});
    if (!whole) missing.push_back(MissingLabel(check, data, gpu));
  }
  return Conclude(check, data, settings, std::move(values), missing);
}

// A label from outside: blanks and quotes would end it.
std::string PerfLabel(const std::string& gpu) {
  std::string label = "gpu" + gpu;
  for (char& c : label) {
    bool plain =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
    if (!plain) c = '_';
  }
  return label;
}

std::string Limit(const CheckSpec& check, std::optional<double> value) {
  const char* sign = check.side == CheckSide::kAbove ? ">" : "<";
  return value ? sign + CheckNumber(*value) : std::string("-");
}

}  // namespace

std::string_view CheckCodeName(CheckCode code) noexcept { return kCodeNames[static_cast<size_t>(code)]; }

CheckCode Worse(CheckCode a, CheckCode b) noexcept {
  return kBadness[static_cast<size_t>(a)] >= kBadness[static_cast<size_t>(b)] ? a : b;
}

std::string CheckNumber(double value) {
  char text[32];
  if (value == std::trunc(value) && std::abs(value) < 1e15)
    return std::to_string(static_cast<int64_t>(value));
  // Six digits cover every sensor and hide rounding errors.
  auto [end, error] = std::to_chars(text, text + sizeof text, value, std::chars_format::general, 6);
  return std::string(text, end);
}

std::string GpuList(const std::vector<std::string>& labels) {
  std::string text = "GPU ";
  for (size_t i = 0; i < labels.size(); ++i) {
    if (i > 0) text += i + 1 == labels.size() ? " and " : ", ";
    text += labels[i];
  }
  return text;
}

std::string MissingLabel(const CheckSpec& check, const CheckData& data, size_t gpu) {
  bool stale =
      std::ranges::any_of(check.inputs, [&](const CheckInput& input) { return data.IsStale(gpu, input); });
  return data.gpus[gpu].label + (stale ? " (stale)" : "");
}

CheckCode CodeOf(const CheckSpec& check, const CheckSettings& settings, double value) noexcept {
  auto critical = settings.critical ? settings.critical : check.critical;
  auto warning = settings.warning ? settings.warning : check.warning;
  if (critical && Beyond(check.side, value, *critical)) return CheckCode::kCritical;
  if (warning && Beyond(check.side, value, *warning)) return CheckCode::kWarning;
  return CheckCode::kOk;
}

CheckResult Conclude(const CheckSpec& check, const CheckData&, const CheckSettings& settings,
                     std::vector<CheckValue> values, const std::vector<std::string>& missing) {
  CheckResult result;
  result.values = std::move(values);
  result.critical = settings.critical ? settings.critical : check.critical;
  result.warning = settings.warning ? settings.warning : check.warning;
  result.code = missing.empty() && !result.values.empty() ? CheckCode::kOk : CheckCode::kUnknown;
  for (const CheckValue& value : result.values) result.code = Worse(result.code, value.code);
  std::string absent = missing.empty() ? ""
                                       : GpuList(missing) + (missing.size() == 1 ? " does" : " do") +
                                             " not report " + InputNames(check);
  if (result.code == CheckCode::kOk) result.text = Fine(check, result);
  else if (result.code == CheckCode::kUnknown) result.text = absent;
  else result.text = Faults(check, result) + (absent.empty() ? "" : "; " + absent);
  return result;
}

bool IsUnreported(const CheckSpec& check, const CheckData& data) {
  auto fits = [&](const CheckReading& reading) {
    return std::ranges::any_of(check.inputs, [&](const CheckInput& input) { return Fits(reading, input); });
  };
  return std::ranges::none_of(data.readings, fits) && std::ranges::none_of(data.host, fits);
}

CheckResult Evaluate(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
  if (data.gpus.empty()) {
    CheckResult result;
    result.text = "no GPU is known";
    return result;
  }
  return (check.evaluate ? check.evaluate : &EvaluateSum)(check, data, settings);
}

namespace {

constexpr double kMib = 1 << 20;
constexpr std::string_view kType = "gpu.ecc.error_type", kCount = "gpu.ecc.count_type",
                           kCause = "gpu.throttle.cause", kClock = "gpu.clock.type",
                           kSensor = "gpu.temperature.sensor", kLimit = "gpu.temperature.limit_type";

// The state, then readings that prove that a GPU in state "ok" can be read.
constexpr CheckInput kStates[] = {{&kGpuState},        {&kGpuHealthCondition}, {&kGpuPowerDraw},
                                  {&kGpuPowerInstant}, {&kGpuTemperature},     {&kGpuUtilization},
                                  {&kGpuMemoryUsed},   {&kGpuClockFrequency}};
constexpr CheckInput kAnswering[] = {{&kGpuState}};
constexpr CheckInput kProcesses[] = {{&kGpuProcesses}};
constexpr CheckInput kGraphicsClock[] = {
    {&kGpuClockFrequency, kClock, "graphics"}, {&kGpuUtilization}, {&kGpuClockMax, kClock, "graphics"}};
constexpr CheckInput kMemoryClock[] = {
    {&kGpuClockFrequency, kClock, "memory"}, {&kGpuUtilization}, {&kGpuClockMax, kClock, "memory"}};
// The sensor, and the limits that the board states for it, in order of preference.
constexpr CheckInput kDieTemperature[] = {{&kGpuTemperature, kSensor, "edge"},
                                          {&kGpuTemperature, kSensor, "hotspot"},
                                          {&kGpuTemperatureLimit, kSensor, "hotspot", kLimit, "slowdown"}};
constexpr CheckInput kMemoryTemperature[] = {
    {&kGpuTemperature, kSensor, "memory"},
    {&kGpuTemperatureLimit, kSensor, "memory", kLimit, "max_operating"},
    {&kGpuTemperatureLimit, kSensor, "memory", kLimit, "slowdown"}};
constexpr CheckInput kMargin[] = {{&kGpuTemperatureMargin},
                                  {&kGpuTemperatureMarginLimit, kSensor, "edge", kLimit, "slowdown"}};
constexpr CheckInput kUsed[] = {{&kGpuMemoryUsed}};
constexpr CheckInput kRetired[] = {{&kGpuRetiredPages, kType, "correctable"},
                                   {&kGpuRetiredPages, kType, "uncorrectable"},
                                   {&kGpuRetiredPagesPending}};
constexpr CheckInput kUncorrected[] = {{&kGpuEccErrors, kCount, "volatile", kType, "uncorrectable"}};
constexpr CheckInput kCorrected[] = {{&kGpuEccErrors, kCount, "volatile", kType, "correctable"}};
constexpr CheckInput kEccMode[] = {{&kGpuEccMode}};
constexpr CheckInput kSram[] = {{&kGpuEccSramThresholdExceeded}};
constexpr CheckInput kUnrepairable[] = {{&kGpuMemoryUnrepairable}};
constexpr CheckInput kInfo[] = {{&kGpuInfo}};
constexpr CheckInput kRemap[] = {{&kGpuRowRemapResetPending}, {&kGpuRowRemapFailed}};
constexpr CheckInput kRemapPending[] = {{&kGpuRowRemapResetPending}};
constexpr CheckInput kRemapFailed[] = {{&kGpuRowRemapFailed}};
constexpr CheckInput kLinkErrors[] = {{&kGpuInterconnectErrors}};
constexpr CheckInput kLinksDown[] = {{&kGpuInterconnectLinks, "gpu.interconnect.state", "inactive"}};
constexpr CheckInput kFabric[] = {{&kGpuFabricState}, {&kGpuFabricStatus}, {&kGpuFabricDegraded}};
constexpr CheckInput kInforom[] = {{&kGpuInforomValid}};
constexpr CheckInput kRecovery[] = {{&kGpuRecoveryAction}};
constexpr CheckInput kPersistence[] = {{&kGpuPersistenceEnabled}};
constexpr CheckInput kXids[] = {{&kGpuXidErrors}, {&kGpuXidRecent}, {&kGpuXidCodeErrors}};
constexpr CheckInput kWidth[] = {{&kGpuPcieLinkWidthMax}, {&kGpuPcieLinkWidthCurrent}};
constexpr CheckInput kGeneration[] = {{&kGpuPcieLinkGenMax}, {&kGpuPcieLinkGenCurrent}, {&kGpuUtilization}};
constexpr CheckInput kReplays[] = {{&kGpuPcieReplayCount}};
constexpr CheckInput kAer[] = {{&kGpuPcieAerErrors, "gpu.pcie.aer.severity", "fatal"},
                               {&kGpuPcieAerErrors, "gpu.pcie.aer.severity", "nonfatal"}};
constexpr CheckInput kPower[] = {{&kGpuPowerUtilization}};
constexpr CheckInput kThrottle[] = {{&kGpuThrottleReason, kCause, "temp_hardware"},
                                    {&kGpuThrottleReason, kCause, "power_brake"},
                                    {&kGpuThrottleReason, kCause, "temp_software"}};
constexpr CheckInput kPowerSource[] = {{&kGpuPowerSource}};
constexpr CheckInput kMismatch[] = {{&kGpuDriverMismatch}};
constexpr CheckInput kSxids[] = {{&kNvswitchSxidErrors, "nvswitch.sxid.severity", "fatal"},
                                 {&kNvswitchSxidErrors, "nvswitch.sxid.severity", "non_fatal"}};
constexpr CheckInput kHealth[] = {{&kGpuHealthScore}, {&kGpuHealthState}, {&kGpuHealthCondition}};

// A check of counters that must not exceed `critical`. Like StateCheck, skipped in a group of checks when no
// GPU reports them.
constexpr CheckSpec CountCheck(std::string_view name, std::string_view help,
                               std::span<const CheckInput> inputs, std::string_view unit, double critical = 0,
                               CheckEvaluator* evaluate = nullptr) {
  return {.name = name,
          .help = help,
          .inputs = inputs,
          .critical = critical,
          .unit = unit,
          .evaluate = evaluate,
          .optional = true};
}
constexpr CheckSpec StateCheck(std::string_view name, std::string_view help,
                               std::span<const CheckInput> inputs, CheckEvaluator* evaluate) {
  return {.name = name, .help = help, .inputs = inputs, .evaluate = evaluate, .optional = true};
}

// The thirteen checks of check-nvidia-smi under their names there, then those of related tools, then ours. A
// unit is what the number counts: "links down" instead of "links".
constexpr CheckSpec kChecks[] = {
    {.name = "gpu_num",
     .help = "all known or expected GPUs answer, or at least as many as --critical",
     .inputs = kAnswering,
     .side = CheckSide::kBelow,
     .evaluate = &CheckGpuNum},
    {.name = "running_procs",
     .help = "no process is on a GPU",
     .inputs = kProcesses,
     .critical = 0,
     .unit = "processes",
     .for_idle_nodes = true},
    {.name = "running_procs_and_kill",
     .help = "as running_procs, checked three times; gpulens kills no process",
     .inputs = kProcesses,
     .critical = 0,
     .unit = "processes",
     .repeats = true,
     .for_idle_nodes = true},
    {.name = "clock_freq",
     .help = "graphics clock under load, at least 58 % of the board's highest, or --critical MHz",
     .inputs = kGraphicsClock,
     .unit = "MHz",
     .side = CheckSide::kBelow,
     .evaluate = &CheckClock,
     .optional = true},
    {.name = "clock_freq_memory",
     .help = "memory clock under load, at least 58 % of the board's highest, or --critical MHz",
     .inputs = kMemoryClock,
     .unit = "MHz",
     .side = CheckSide::kBelow,
     .evaluate = &CheckClock,
     .optional = true},
    {.name = "gpu_temperature",
     .help = "temperature of the die; where only a hot spot is measured, 5 below and at its slowdown limit",
     .inputs = kDieTemperature,
     .warning = 85,
     .critical = 90,
     .unit = "°C",
     .evaluate = &CheckDieTemperature},
    {.name = "gpu_memory_temperature",
     .help =
         "temperature of the device memory; by default 5 below and at the limit that the board states, or 95",
     .inputs = kMemoryTemperature,
     .unit = "°C",
     .evaluate = &CheckMemoryTemperature,
     .optional = true},
    {.name = "gpu_temperature_margin",
     .help = "degrees left until the hardware slows the GPU down",
     .inputs = kMargin,
     .warning = 5,
     .critical = 0,
     .unit = "degrees left",
     .side = CheckSide::kBelow,
     .evaluate = &CheckMargin,
     .optional = true},
    {.name = "gpu_mem_usage",
     .help = "memory in use",
     .inputs = kUsed,
     .critical = 15,
     .unit = "MiB",
     .per = kMib,
     .for_idle_nodes = true},
    CountCheck("gpu_retired_pages", "retired pages of either kind (before Ampere); none waits for a reboot",
               kRetired, "pages", 10, &CheckRetiredPages),
    CountCheck("ecc_uncorrected_volatile_total", "uncorrected memory errors since the driver was loaded",
               kUncorrected, "errors"),
    CountCheck("ecc_corrected_volatile_total", "corrected memory errors since the driver was loaded",
               kCorrected, "errors", 50'000'000),
    {.name = "vbios_mismatch",
     .help = "all GPUs have the same VBIOS version, or that of --expect",
     .inputs = kInfo,
     .evaluate = &CheckVbios},
    CountCheck("row_remap", "no row replacement waits or has failed", kRemap, "faults"),
    CountCheck("row_remap_pending", "no row replacement waits for a reset", kRemapPending, "faults"),
    CountCheck("row_remap_failed", "no row replacement has failed", kRemapFailed, "faults"),
    CountCheck("nvlink_errors",
               "errors of all NVLink and XGMI links; symbol and effective errors of NVLink 5 alone warn",
               kLinkErrors, "errors", 0, &CheckLinkErrors),
    CountCheck("nvlink_status", "NVLink and XGMI links that are down", kLinksDown, "links down"),
    StateCheck("nvlink_fabric", "the GPU is registered with the NVLink fabric, which is not degraded",
               kFabric, &CheckFabric),
    CountCheck("xid", "XID errors of the last 24 h that were not cleared; those of applications warn", kXids,
               "errors", 0, &CheckXid),
    {.name = "pcie_width",
     .help = "PCIe lanes fewer than GPU and slot can use",
     .inputs = kWidth,
     .critical = 0,
     .unit = "lanes missing",
     .evaluate = &CheckWidth},
    {.name = "pcie_gen",
     .help = "PCIe generations below what GPU and slot can use, under load",
     .inputs = kGeneration,
     .critical = 0,
     .unit = "generations missing",
     .evaluate = &CheckGeneration},
    {.name = "pcie_replays",
     .help = "PCIe replays since the driver was loaded",
     .inputs = kReplays,
     .warning = 100,
     .critical = 10'000,
     .unit = "replays",
     .optional = true},
    CountCheck("pcie_aer", "PCIe errors of the GPU's port that could not be corrected", kAer, "errors"),
    {.name = "gpu_power",
     .help = "power as a share of its limit",
     .inputs = kPower,
     .warning = 1.05,
     .critical = 1.2,
     .unit = "of the power limit",
     .optional = true},
    {.name = "gpu_throttle",
     .help = "clocks held down: 1 software thermal, 2 hardware thermal or power brake",
     .inputs = kThrottle,
     .warning = 0,
     .critical = 1,
     .unit = "(0 not held down, 1 by software for heat, 2 by hardware)",
     .evaluate = &CheckThrottle,
     .optional = true},
    StateCheck("ecc_mode", "ECC is on, and stays as it is after the next reset", kEccMode, &CheckEccMode),
    CountCheck("sram_threshold", "SRAM errors are below the maker's threshold for replacing the board", kSram,
               "faults"),
    CountCheck("memory_repair", "memory errors can still be repaired", kUnrepairable, "faults"),
    {.name = "inforom",
     .help = "the checksums of the board's InfoROM are right",
     .inputs = kInforom,
     .critical = 1,
     .unit = "(1 right, 0 wrong)",
     .side = CheckSide::kBelow,
     .optional = true},
    {.name = "persistence",
     .help = "the driver stays loaded without clients",
     .inputs = kPersistence,
     .warning = 1,
     .unit = "(1 on, 0 off)",
     .side = CheckSide::kBelow,
     .optional = true},
    StateCheck("recovery_action", "the driver needs no reset, reboot or drain", kRecovery, &CheckRecovery),
    StateCheck("gpu_power_source", "the board is powered from the mains, by a supply that is large enough",
               kPowerSource, &CheckPowerSource),
    StateCheck("driver_mismatch", "the library on disk is of the same version as the loaded driver",
               kMismatch, &CheckMismatch),
    StateCheck("nvswitch_sxid",
               "SXid errors of NVSwitches since the agent started; those that are not fatal warn", kSxids,
               &CheckSxid),
    {.name = "gpu_state",
     .help = "every GPU answers and can be read: not lost, hung, or waiting for a reset",
     .inputs = kStates,
     .evaluate = &CheckState},
    {.name = "gpu_health",
     .help = "word, reasons and score of the fleet health analyzer",
     .inputs = kHealth,
     .warning = 0.8,
     .critical = 0.5,
     .unit = "of 1",
     .side = CheckSide::kBelow,
     .evaluate = &CheckHealth},
};

}  // namespace

std::span<const CheckSpec> AllChecks() noexcept { return kChecks; }

const CheckSpec* FindCheck(std::string_view name) noexcept {
  const CheckSpec* found = std::ranges::find(kChecks, name, &CheckSpec::name);
  return found == std::end(kChecks) ? nullptr : found;
}

std::vector<const CheckSpec*> FindCheckGroup(std::string_view name) {
  std::vector<const CheckSpec*> group;
  if (name != "all" && name != "in-use") return group;
  for (const CheckSpec& check : kChecks) {
    if (name == "all" || !check.for_idle_nodes) group.push_back(&check);
  }
  return group;
}

std::span<const MetricDesc* const> AllCheckMetrics() {
  static const std::vector<const MetricDesc*> metrics = [] {
    // A GPU without other readings has a state.
    std::vector<const MetricDesc*> all = {&kGpuState, &kGpuInfo, &kGpuDevicesExpected};
    for (const CheckSpec& check : kChecks) {
      for (const CheckInput& input : check.inputs) {
        if (std::ranges::find(all, input.metric) == all.end()) all.push_back(input.metric);
      }
    }
    return all;
  }();
  return metrics;
}

CheckCode WorstOf(const std::vector<CheckOutcome>& outcomes) noexcept {
  if (outcomes.empty()) return CheckCode::kUnknown;
  CheckCode worst = CheckCode::kOk;
  for (const CheckOutcome& outcome : outcomes) worst = Worse(worst, outcome.result.code);
  return worst;
}

std::string CheckText(const std::vector<CheckOutcome>& outcomes, bool simulated) {
  std::string out;
  for (const CheckOutcome& outcome : outcomes) {
    const CheckResult& result = outcome.result;
    out += std::string(CheckCodeName(result.code)) + " - " + std::string(outcome.check->name) + ": ";
    if (simulated) out += "SIMULATED, ";
    // A bar separates the numbers from the text.
    std::string text = result.text;
    std::ranges::replace(text, '|', '/');
    AppendPrintable(out, text);
    const char* before = " | ";
    // As Nagios writes ranges, "10:" is a fault below 10.
    std::string_view range = outcome.check->side == CheckSide::kBelow ? ":" : "";
    auto limit = [&](std::optional<double> value) {
      return value ? CheckNumber(*value) + std::string(range) : "";
    };
    for (const CheckValue& value : result.values) {
      out += before + PerfLabel(value.gpu) + "=" + CheckNumber(value.value) + ";" + limit(result.warning) +
             ";" + limit(result.critical);
      before = " ";
    }
    out += '\n';
  }
  return out;
}

std::string CheckJson(const std::vector<CheckOutcome>& outcomes, const std::string& source, bool simulated) {
  auto add_code = [](JsonObject& object, CheckCode code) {
    object.Whole("code", static_cast<int>(code));
    object.Text("status", CheckCodeName(code));
  };
  return JsonDocumentText("gpulens.check/1", [&](JsonObject& root) {
    root.Text("source", source);
    if (simulated) root.Flag("simulated", true);
    add_code(root, WorstOf(outcomes));
    auto add_gpu = [](std::string& out, const CheckValue& value) {
      JsonObject gpu(out);
      gpu.Text("gpu", value.gpu);
      gpu.Raw("value", CheckNumber(value.value));
      gpu.Whole("code", static_cast<int>(value.code));
    };
    auto add_check = [&](std::string& out, const CheckOutcome& outcome) {
      const CheckResult& result = outcome.result;
      JsonObject check(out);
      check.Text("name", outcome.check->name);
      add_code(check, result.code);
      check.Text("text", result.text);
      if (outcome.disabled) check.Flag("disabled", true);
      if (result.warning) check.Raw("warning", CheckNumber(*result.warning));
      if (result.critical) check.Raw("critical", CheckNumber(*result.critical));
      check.List("gpus", result.values, add_gpu);
    };
    root.List("checks", outcomes, add_check, "\n", "\n");
  });
}

std::string CheckList() {
  std::string out = Padded("CHECK", 34) + Padded("WARNING", 9) + Padded("CRITICAL", 10) + "WHAT\n";
  for (const CheckSpec& check : AllChecks()) {
    out += Padded(check.name, 34) + Padded(Limit(check, check.warning), 9) +
           Padded(Limit(check, check.critical), 10) + std::string(check.help) + "\n";
  }
  return out;
}

std::string CheckPage(const CheckSpec& check) {
  const std::string name(check.name), unit = check.unit.empty() ? "" : " " + std::string(check.unit);
  std::string out = name + ": " + std::string(check.help) + "\n";
  out += "  warning     " + Limit(check, check.warning) + (check.warning ? unit : "") + "\n";
  out += "  critical    " + Limit(check, check.critical) + (check.critical ? unit : "") + "\n";
  out += "  reads      ";
  for (const CheckInput& input : check.inputs) out += " " + std::string(input.metric->name);
  out += "\n  run         gpulens check " + name;
  if (check.warning || check.critical)
    out += "\n  thresholds  gpulens check " + name + " --warning X --critical Y";
  return out + "\n  switch off  check: {disable: [" + name + "]}\n";
}

}  // namespace gpulens

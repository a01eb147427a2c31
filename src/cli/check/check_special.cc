#include <algorithm>
#include <iterator>

#include "base/parse.h"
#include "catalog/gpu.h"
#include "cli/check/check_table.h"
#include "cli/common/output.h"

namespace gpulens {

namespace {

constexpr double kBusyAbove = 0.05;
// Least share of the highest clock, from l9gpu's thresholds for an H100.
constexpr double kLeastShareOfClock = 0.58;
// XIDs that applications cause or that need no action now, as in l9gpu's check-syslogs; they only warn.
constexpr int kMildXids[] = {13, 31, 43, 45, 63, 68, 92, 109};

std::string StateOf(const CheckData& data, size_t gpu) { return WordOf(data, gpu, kGpuState, "gpu.state"); }

// Returns the attribute `key` of each series of a state set that is 1.
std::vector<std::string_view> WordsOf(const CheckData& data, size_t gpu, const MetricDesc& metric,
                                      std::string_view key) {
  std::vector<std::string_view> words;
  for (const CheckReading* reading : data.Of(gpu, metric)) {
    if (reading->value == 1 && !reading->Attribute(key).empty()) words.push_back(reading->Attribute(key));
  }
  return words;
}

CheckWord NotReported(const MetricDesc& metric) {
  return {CheckCode::kUnknown, "does not report " + std::string(metric.name)};
}

bool HasCondition(const CheckData& data, size_t gpu, std::string_view name) {
  return std::ranges::count(WordsOf(data, gpu, kGpuHealthCondition, "gpu.health.reason"), name) > 0;
}

// A GPU in state "ok" also needs a reading to pass.
CheckWord ValidateState(const CheckSpec& check, const CheckData& data, size_t gpu) {
  std::string state = StateOf(data, gpu);
  if (HasCondition(data, gpu, "no_readings"))
    return {CheckCode::kCritical, "is listed, but none of its readings can be read"};
  if (state.empty()) return NotReported(*check.inputs[0].metric);
  if (state == "no_permission") return {CheckCode::kUnknown, "cannot be read: no permission"};
  if (state != "ok") return {CheckCode::kCritical, "is " + state};
  if (HasCondition(data, gpu, "driver_fails"))
    return {CheckCode::kCritical, "answers only between failures of the reader process"};
  bool readable = std::any_of(check.inputs.begin() + 2, check.inputs.end(),
                              [&](const CheckInput& input) { return !data.Of(gpu, *input.metric).empty(); });
  if (!readable)
    return {CheckCode::kUnknown, "answers, but power, temperature, load, memory and clocks are not read"};
  return {CheckCode::kOk, ""};
}

CheckCode XidCode(const CheckData& data, size_t gpu, double total) {
  double mild = 0;
  for (const CheckReading* reading : data.Of(gpu, kGpuXidCodeErrors)) {
    const auto code = ParseInt<int>(reading->Attribute("gpu.xid.code"));
    if (code && std::ranges::count(kMildXids, *code) > 0) mild += reading->value;
  }
  // Errors without a code are not mild.
  return mild >= total ? CheckCode::kWarning : CheckCode::kCritical;
}

// The code by the actions that the uncleared XIDs require.
CheckCode CodeOfRecent(const CheckData& data, size_t gpu) {
  CheckCode code = CheckCode::kOk;
  for (const CheckReading* reading : data.Of(gpu, kGpuXidRecent)) {
    const std::string_view action = reading->Attribute("gpu.xid.action");
    if (reading->value <= 0 || action.empty()) continue;
    bool mild = action == "none" || action == "restart_app";
    code = Worse(code, mild ? CheckCode::kWarning : CheckCode::kCritical);
  }
  return code;
}

// Returns how many PCIe lanes or generations are missing.
std::optional<double> Lacking(const CheckSpec& check, const CheckData& data, size_t gpu) {
  auto most = data.Sum(gpu, check.inputs[0]), now = data.Sum(gpu, check.inputs[1]);
  if (!most || !now) return std::nullopt;
  return std::max(0.0, *most - *now);
}

CheckCode CodeOfWord(const std::string& word) noexcept {
  if (word == "ok") return CheckCode::kOk;
  return word == "failed" ? CheckCode::kCritical : CheckCode::kWarning;
}

// Limits for boards that state none: the ratings of HBM stacks and of hot spots of AMD's boards.
constexpr double kMemoryLimit = 95, kHotspotLimit = 105;
// The warning comes this many degrees below the limit of the board.
constexpr double kDegreesBefore = 5;

CheckCode CodeAtLimit(double value, double limit) noexcept {
  if (value >= limit) return CheckCode::kCritical;
  return value >= limit - kDegreesBefore ? CheckCode::kWarning : CheckCode::kOk;
}

// Returns the sum of the link errors of these kinds; absent when one kind is missing. Skips C2C links, which
// do not connect GPUs.
std::optional<double> SumOf(const CheckData& data, size_t gpu, std::span<const std::string_view> kinds) {
  double sum = 0;
  for (std::string_view kind : kinds) {
    std::optional<double> part;
    for (const CheckReading* reading : data.Of(gpu, kGpuInterconnectErrors)) {
      if (reading->Attribute("gpu.interconnect.type") == "c2c" ||
          reading->Attribute("gpu.interconnect.error_type") != kind)
        continue;
      part = part.value_or(0) + reading->value;
    }
    if (!part) return std::nullopt;
    sum += *part;
  }
  return sum;
}

// Kinds of errors of links before NVLink 5, of NVLink 5, and of its symbols, which error correction repairs.
constexpr std::string_view kOlderKinds[] = {"crc_data", "crc_flit", "recovery", "replay"};
constexpr std::string_view kNewerKinds[] = {"malformed", "overrun",   "receive", "remote",
                                            "general",   "integrity", "discard"};
constexpr std::string_view kSymbolKinds[] = {"effective", "symbol"};

}  // namespace

std::string WordOf(const CheckData& data, size_t gpu, const MetricDesc& metric, std::string_view key) {
  const std::vector<std::string_view> words = WordsOf(data, gpu, metric, key);
  return words.empty() ? "" : std::string(words.front());
}

CheckResult ConcludeWords(const CheckData& data, std::string_view fine,
                          const std::function<CheckWord(size_t gpu)>& word_of) {
  CheckResult result;
  result.code = CheckCode::kOk;
  for (size_t gpu = 0; gpu < data.gpus.size(); ++gpu) {
    CheckWord word = word_of(gpu);
    result.code = Worse(result.code, word.code);
    if (word.code == CheckCode::kOk) continue;
    result.text += (result.text.empty() ? "GPU " : "; GPU ") + data.gpus[gpu].label + " " + word.text;
  }
  if (result.text.empty()) result.text = fine;
  return result;
}

CheckResult CheckGpuNum(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
  CheckResult result;
  double known_gpus = std::max(static_cast<double>(data.gpus.size()), data.expected);
  double answering = 0, wanted = settings.critical.value_or(known_gpus);
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
  result.code = answering >= wanted ? CheckCode::kOk : CheckCode::kCritical;
  result.text = CheckNumber(answering) + " of " + CheckNumber(wanted) + " GPUs answer";
  return result;
}

CheckResult CheckState(const CheckSpec& check, const CheckData& data, const CheckSettings&) {
  CheckResult result =
      ConcludeWords(data, "all GPUs answer", [&](size_t gpu) { return ValidateState(check, data, gpu); });
  AddMissingGpus(data, result);
  return result;
}

void AddMissingGpus(const CheckData& data, CheckResult& result) {
  double here = 0;
  for (size_t gpu = 0; gpu < data.gpus.size(); ++gpu) here += !StateOf(data, gpu).empty();
  // Without any state no GPU was read, so their number is unknown.
  if (here == 0 || here >= data.expected) return;
  if (result.code == CheckCode::kOk) result.text.clear();
  result.code = CheckCode::kCritical;
  result.text += (result.text.empty() ? "" : "; ") + CheckNumber(here) + " of " + CheckNumber(data.expected) +
                 " GPUs are here";
}

// Clocks are only checked under load, and by default against the highest clock of the board.
CheckResult CheckClock(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
  return ForEachGpu(
      check, data, settings,
      [&](size_t gpu) -> std::optional<double> {
        bool limit = settings.critical || settings.warning || data.Sum(gpu, check.inputs[2]);
        if (!limit || !data.Sum(gpu, check.inputs[1])) return std::nullopt;
        return data.Sum(gpu, check.inputs[0]);
      },
      [&](size_t gpu, double value) {
        if (data.Sum(gpu, check.inputs[1]).value_or(0) <= kBusyAbove) return CheckCode::kOk;
        if (settings.critical || settings.warning) return CodeOf(check, settings, value);
        bool low = value < kLeastShareOfClock * data.Sum(gpu, check.inputs[2]).value_or(0);
        return low ? CheckCode::kCritical : CheckCode::kOk;
      });
}

CheckResult CheckRetiredPages(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
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

CheckResult CheckVbios(const CheckSpec&, const CheckData& data, const CheckSettings& settings) {
  CheckResult result;
  std::string expected = settings.expect;
  std::vector<std::string> missing, others;
  for (size_t gpu = 0; gpu < data.gpus.size(); ++gpu) {
    std::string version;
    for (const CheckReading* reading : data.Of(gpu, kGpuInfo)) {
      if (auto own = reading->Attribute("gpu.vbios.version"); !own.empty()) version = own;
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

// An agent reports the uncleared XIDs; other sources only count since their start.
CheckResult CheckXid(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
  auto recent = [&](size_t gpu) { return data.Sum(gpu, check.inputs[1]); };
  CheckResult result = ForEachGpu(
      check, data, settings,
      [&](size_t gpu) { return recent(gpu) ? recent(gpu) : data.Sum(gpu, check.inputs[0]); },
      [&](size_t gpu, double value) {
        if (CodeOf(check, settings, value) == CheckCode::kOk) return CheckCode::kOk;
        return recent(gpu) ? CodeOfRecent(data, gpu) : XidCode(data, gpu, value);
      });
  if (result.code == CheckCode::kOk && !data.watched) {
    result.code = CheckCode::kUnknown;
    result.text = "needs a running agent: a reading of one second cannot see XID errors";
  } else if (result.code == CheckCode::kWarning || result.code == CheckCode::kCritical) {
    result.text += "; explained by gpulens events; cleared by gpulens events clear";
  }
  return result;
}

CheckResult CheckWidth(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
  return ForEachGpu(check, data, settings, [&](size_t gpu) { return Lacking(check, data, gpu); });
}

CheckResult CheckGeneration(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
  return ForEachGpu(check, data, settings, [&](size_t gpu) -> std::optional<double> {
    auto lacking = Lacking(check, data, gpu), busy = data.Sum(gpu, check.inputs[2]);
    if (!lacking || *lacking == 0) return lacking;
    if (!busy) return std::nullopt;
    // An idle GPU lets its link slow down.
    return *busy > kBusyAbove ? *lacking : 0;
  });
}

CheckResult CheckThrottle(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
  return ForEachGpu(check, data, settings, [&](size_t gpu) -> std::optional<double> {
    auto hot = data.Sum(gpu, check.inputs[0]), brake = data.Sum(gpu, check.inputs[1]),
         warm = data.Sum(gpu, check.inputs[2]);
    if (!hot || !brake || !warm) return std::nullopt;
    return *hot + *brake > 0 ? 2 : *warm > 0 ? 1 : 0;
  });
}

CheckResult CheckDieTemperature(const CheckSpec& check, const CheckData& data,
                                const CheckSettings& settings) {
  auto edge = [&](size_t gpu) { return data.Sum(gpu, check.inputs[0]); };
  return ForEachGpu(
      check, data, settings,
      [&](size_t gpu) { return edge(gpu) ? edge(gpu) : data.Sum(gpu, check.inputs[1]); },
      [&](size_t gpu, double value) {
        bool limits = settings.warning || settings.critical;
        if (edge(gpu) || limits) return CodeOf(check, settings, value);
        return CodeAtLimit(value, data.Sum(gpu, check.inputs[2]).value_or(kHotspotLimit));
      });
}

CheckResult CheckMemoryTemperature(const CheckSpec& check, const CheckData& data,
                                   const CheckSettings& settings) {
  return ForEachGpu(
      check, data, settings, [&](size_t gpu) { return data.Sum(gpu, check.inputs[0]); },
      [&](size_t gpu, double value) {
        if (settings.warning || settings.critical) return CodeOf(check, settings, value);
        auto limit = data.Sum(gpu, check.inputs[1]);
        if (!limit) limit = data.Sum(gpu, check.inputs[2]);
        return CodeAtLimit(value, limit.value_or(kMemoryLimit));
      });
}

CheckResult CheckMargin(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
  return ForEachGpu(check, data, settings, [&](size_t gpu) -> std::optional<double> {
    auto margin = data.Sum(gpu, check.inputs[0]);
    if (!margin) return std::nullopt;
    return *margin - data.Sum(gpu, check.inputs[1]).value_or(0);
  });
}

CheckResult CheckLinkErrors(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
  auto hard = [&](size_t gpu) -> std::optional<double> {
    auto older = SumOf(data, gpu, kOlderKinds), newer = SumOf(data, gpu, kNewerKinds);
    if (!older && !newer) return std::nullopt;
    return older.value_or(0) + newer.value_or(0);
  };
  auto symbols = [&](size_t gpu) { return SumOf(data, gpu, kSymbolKinds).value_or(0); };
  return ForEachGpu(
      check, data, settings,
      [&](size_t gpu) -> std::optional<double> {
        auto errors = hard(gpu);
        return errors && *errors == 0 ? symbols(gpu) : errors;
      },
      [&](size_t gpu, double value) {
        CheckCode code = CodeOf(check, settings, value);
        return code != CheckCode::kOk && hard(gpu).value_or(0) == 0 ? CheckCode::kWarning : code;
      });
}

CheckResult CheckFabric(const CheckSpec& check, const CheckData& data, const CheckSettings&) {
  return ConcludeWords(data, "no GPU has trouble with the NVLink fabric", [&](size_t gpu) -> CheckWord {
    std::string state = WordOf(data, gpu, kGpuFabricState, "gpu.fabric.state");
    if (state.empty()) return NotReported(kGpuFabricState);
    const std::string conditions =
        Joined(WordsOf(data, gpu, kGpuFabricDegraded, "gpu.fabric.condition"), ", ");
    if (!conditions.empty()) return {CheckCode::kCritical, "has a degraded fabric: " + conditions};
    if (state == "not_supported") return {CheckCode::kOk, ""};
    if (state != "completed") return {CheckCode::kCritical, "is not registered with the fabric: " + state};
    auto status = data.Sum(gpu, check.inputs[1]);
    if (status.value_or(0) != 0)
      return {CheckCode::kCritical,
              "could not be registered with the fabric: status " + CheckNumber(*status)};
    return {CheckCode::kOk, ""};
  });
}

CheckResult CheckEccMode(const CheckSpec&, const CheckData& data, const CheckSettings&) {
  return ConcludeWords(data, "ECC is on everywhere and stays on", [&](size_t gpu) -> CheckWord {
    std::optional<double> now, next;
    for (const CheckReading* reading : data.Of(gpu, kGpuEccMode)) {
      const std::string_view type = reading->Attribute("gpu.ecc.mode_type");
      if (!type.empty()) (type == "pending" ? next : now) = reading->value;
    }
    if (!now) return NotReported(kGpuEccMode);
    if (*now == 0) return {CheckCode::kWarning, "has ECC switched off"};
    if (next && *next != *now)
      return {CheckCode::kWarning, "will have another ECC mode after its next reset"};
    return {CheckCode::kOk, ""};
  });
}

CheckResult CheckRecovery(const CheckSpec&, const CheckData& data, const CheckSettings&) {
  return ConcludeWords(data, "the driver needs no action", [&](size_t gpu) -> CheckWord {
    std::string action = WordOf(data, gpu, kGpuRecoveryAction, "gpu.recovery.action");
    if (action.empty()) return NotReported(kGpuRecoveryAction);
    if (action == "none") return {CheckCode::kOk, ""};
    return {CheckCode::kCritical, "needs " + action + " (reported by the driver)"};
  });
}

CheckResult CheckPowerSource(const CheckSpec&, const CheckData& data, const CheckSettings&) {
  return ConcludeWords(data, "every GPU is powered from the mains", [&](size_t gpu) -> CheckWord {
    std::string source = WordOf(data, gpu, kGpuPowerSource, "gpu.power.source");
    if (source.empty()) return NotReported(kGpuPowerSource);
    if (source == "ac") return {CheckCode::kOk, ""};
    if (source == "undersized") return {CheckCode::kCritical, "has a power supply that is too small"};
    return {CheckCode::kWarning, "is powered by " + source};
  });
}

CheckResult CheckMismatch(const CheckSpec& check, const CheckData& data, const CheckSettings&) {
  CheckResult result;
  result.text = "no source reports whether driver and library have the same version";
  for (const CheckReading& reading : data.host) {
    if (reading.stale || !Fits(reading, check.inputs[0])) continue;
    bool differ = reading.value != 0;
    result.code = differ ? CheckCode::kCritical : CheckCode::kOk;
    result.text = differ ? "the library on disk and the loaded driver have different versions: reboot, or "
                           "reload the driver"
                         : "driver and library have the same version";
  }
  return result;
}

CheckResult CheckSxid(const CheckSpec& check, const CheckData& data, const CheckSettings&) {
  CheckResult result;
  double counts[2] = {};
  bool known = false;
  for (const CheckReading& reading : data.host) {
    for (size_t i = 0; i < std::size(counts); ++i) {
      if (reading.stale || !Fits(reading, check.inputs[i])) continue;
      counts[i] += reading.value;
      known = true;
    }
  }
  if (!known || !data.watched) {
    result.text = known ? "needs a running agent: a reading of one second cannot see SXid errors"
                        : "no NVSwitch reports " + std::string(kNvswitchSxidErrors.name);
    return result;
  }
  result.code = counts[0] > 0 ? CheckCode::kCritical : counts[1] > 0 ? CheckCode::kWarning : CheckCode::kOk;
  result.text = CheckNumber(counts[0]) + " fatal SXid errors and " + CheckNumber(counts[1]) +
                " others since the agent started";
  if (result.code != CheckCode::kOk) result.text += "; list them: gpulens events --name nvswitch.sxid";
  return result;
}

// A GPU without a health state is not healthy, whatever its score.
CheckResult CheckHealth(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
  auto word_of = [&](size_t gpu) { return WordOf(data, gpu, kGpuHealthState, "gpu.health.state"); };
  CheckResult result = ForEachGpu(
      check, data, settings,
      [&](size_t gpu) { return word_of(gpu).empty() ? std::nullopt : data.Sum(gpu, check.inputs[0]); },
      [&](size_t gpu, double value) {
        return Worse(CodeOf(check, settings, value), CodeOfWord(word_of(gpu)));
      });
  std::string words;
  for (size_t gpu = 0; gpu < data.gpus.size(); ++gpu) {
    const std::string word = word_of(gpu);
    const std::string reasons = Joined(WordsOf(data, gpu, kGpuHealthCondition, "gpu.health.reason"), ", ");
    if (word == "ok" && reasons.empty()) continue;
    words += (words.empty() ? "GPU " : "; GPU ") + data.gpus[gpu].label + " is " +
             (word.empty() ? "unknown" : word);
    if (!reasons.empty()) words += ": " + reasons;
  }
  bool faults = result.code == CheckCode::kWarning || result.code == CheckCode::kCritical;
  if (faults && !words.empty()) result.text += " (" + words + ")";
  AddMissingGpus(data, result);
  return result;
}

}  // namespace gpulens

// Evaluators of checks that judge a board by what it reports: its own limits, its links, its fabric, and the
// word of the fleet health analyzer.

#include <algorithm>
#include <iterator>

#include "catalog/gpu.h"
#include "cli/check/check_special.h"

namespace gpulens {
namespace {

// Where the board states no limit: what stacks of HBM are rated for, and hot spots of AMD's boards.
constexpr double kMemoryLimit = 95, kHotspotLimit = 105;
// A limit that the board states is a limit to stay below: the warning comes so many degrees before it.
constexpr double kDegreesBefore = 5;

CheckCode CodeAtLimit(double value, double limit) noexcept {
  if (value >= limit) return CheckCode::kCritical;
  return value >= limit - kDegreesBefore ? CheckCode::kWarning : CheckCode::kOk;
}

// The sum of the fresh series of the metric with one of these values of `key`; absent when one of them is
// missing. C2C links are no links between GPUs.
std::optional<double> SumOf(const CheckData& data, size_t gpu, std::span<const std::string_view> kinds) {
  double sum = 0;
  for (std::string_view kind : kinds) {
    std::optional<double> part;
    for (const CheckReading* reading : data.Of(gpu, kGpuInterconnectErrors)) {
      auto type = reading->attributes.find("gpu.interconnect.type");
      auto error = reading->attributes.find("gpu.interconnect.error_type");
      bool c2c = type != reading->attributes.end() && type->second == "c2c";
      if (c2c || error == reading->attributes.end() || error->second != kind) continue;
      part = part.value_or(0) + reading->value;
    }
    if (!part) return std::nullopt;
    sum += *part;
  }
  return sum;
}

// Of links before NVLink 5, of NVLink 5, and those of its symbols, which error correction repairs.
constexpr std::string_view kOlderKinds[] = {"crc_data", "crc_flit", "recovery", "replay"};
constexpr std::string_view kNewerKinds[] = {"malformed", "overrun",   "receive", "remote",
                                            "general",   "integrity", "discard"};
constexpr std::string_view kSymbolKinds[] = {"effective", "symbol"};

}  // namespace

CheckResult CheckDieTemperature(const CheckSpec& check, const CheckData& data,
                                const CheckSettings& settings) {
  auto edge = [&](size_t gpu) { return data.Sum(gpu, check.inputs[0]); };
  return ForEachGpu(
      check, data, settings,
      [&](size_t gpu) { return edge(gpu) ? edge(gpu) : data.Sum(gpu, check.inputs[1]); },
      [&](size_t gpu, double value) {
        bool asked = settings.warning || settings.critical;
        if (edge(gpu) || asked) return CodeOf(check, settings, value);
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
  return ForEachGpu(
      check, data, settings,
      [&](size_t gpu) -> std::optional<double> {
        auto margin = data.Sum(gpu, check.inputs[0]);
        if (!margin) return std::nullopt;
        return *margin - data.Sum(gpu, check.inputs[1]).value_or(0);
      },
      [&](size_t, double value) { return CodeOf(check, settings, value); });
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
    if (state.empty()) return {CheckCode::kUnknown, "does not report " + std::string(kGpuFabricState.name)};
    std::string conditions;
    for (const CheckReading* reading : data.Of(gpu, kGpuFabricDegraded)) {
      auto at = reading->attributes.find("gpu.fabric.condition");
      if (reading->value == 1 && at != reading->attributes.end())
        conditions += (conditions.empty() ? "" : ", ") + at->second;
    }
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
      auto at = reading->attributes.find("gpu.ecc.mode_type");
      if (at == reading->attributes.end()) continue;
      (at->second == "pending" ? next : now) = reading->value;
    }
    if (!now) return {CheckCode::kUnknown, "does not report " + std::string(kGpuEccMode.name)};
    if (*now == 0) return {CheckCode::kWarning, "has ECC switched off"};
    if (next && *next != *now)
      return {CheckCode::kWarning, "will have another ECC mode after its next reset"};
    return {CheckCode::kOk, ""};
  });
}

CheckResult CheckRecovery(const CheckSpec&, const CheckData& data, const CheckSettings&) {
  return ConcludeWords(data, "the driver needs no action", [&](size_t gpu) -> CheckWord {
    std::string action = WordOf(data, gpu, kGpuRecoveryAction, "gpu.recovery.action");
    if (action.empty())
      return {CheckCode::kUnknown, "does not report " + std::string(kGpuRecoveryAction.name)};
    if (action == "none") return {CheckCode::kOk, ""};
    return {CheckCode::kCritical, "needs " + action + " (reported by the driver)"};
  });
}

CheckResult CheckPowerSource(const CheckSpec&, const CheckData& data, const CheckSettings&) {
  return ConcludeWords(data, "every GPU is powered from the mains", [&](size_t gpu) -> CheckWord {
    std::string source = WordOf(data, gpu, kGpuPowerSource, "gpu.power.source");
    if (source.empty()) return {CheckCode::kUnknown, "does not report " + std::string(kGpuPowerSource.name)};
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

namespace {

// What is wrong with the GPU, by name: "gpu_lost, xid_reset".
std::string ReasonsOf(const CheckData& data, size_t gpu) {
  std::string reasons;
  for (const CheckReading* reading : data.Of(gpu, kGpuHealthCondition)) {
    auto at = reading->attributes.find("gpu.health.reason");
    if (reading->value == 1 && at != reading->attributes.end())
      reasons += (reasons.empty() ? "" : ", ") + at->second;
  }
  return reasons;
}

CheckCode CodeOfWord(const std::string& word) noexcept {
  if (word == "ok") return CheckCode::kOk;
  return word == "failed" ? CheckCode::kCritical : CheckCode::kWarning;
}

}  // namespace

// The word counts beside the score: a GPU without a word is not called healthy, whatever its score.
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
    std::string word = word_of(gpu), reasons = ReasonsOf(data, gpu);
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

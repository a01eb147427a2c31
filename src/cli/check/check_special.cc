#include "cli/check/check_special.h"

#include <algorithm>

#include "base/parse.h"
#include "catalog/gpu.h"

namespace gpulens {
namespace {

constexpr double kBusyAbove = 0.05;
// Of the highest clock: what l9gpu's thresholds for an H100 are of its clocks.
constexpr double kLeastShareOfClock = 0.58;
// XIDs that an application brings on itself, or that ask for nothing now: a warning. Those of l9gpu's
// check-syslogs.
constexpr int kMildXids[] = {13, 31, 43, 45, 63, 68, 92, 109};

std::string StateOf(const CheckData& data, size_t gpu) { return WordOf(data, gpu, kGpuState, "gpu.state"); }

bool HasCondition(const CheckData& data, size_t gpu, std::string_view name) {
  for (const CheckReading* reading : data.Of(gpu, kGpuHealthCondition)) {
    auto at = reading->attributes.find("gpu.health.reason");
    if (reading->value == 1 && at != reading->attributes.end() && at->second == name) return true;
  }
  return false;
}

// "ok" is the driver's answer. A GPU of which nothing else can be read is not called fine.
CheckWord ValidateState(const CheckSpec& check, const CheckData& data, size_t gpu) {
  std::string state = StateOf(data, gpu);
  if (HasCondition(data, gpu, "no_readings"))
    return {CheckCode::kCritical, "is listed, but none of its readings can be read"};
  if (state.empty())
    return {CheckCode::kUnknown, "does not report " + std::string(check.inputs[0].metric->name)};
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

}  // namespace

std::string WordOf(const CheckData& data, size_t gpu, const MetricDesc& metric, std::string_view key) {
  for (const CheckReading* reading : data.Of(gpu, metric)) {
    auto at = reading->attributes.find(key);
    if (reading->value == 1 && at != reading->attributes.end()) return at->second;
  }
  return "";
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
  // Where no GPU has a state, none was read, which is no word about how many there are.
  if (here == 0 || here >= data.expected) return;
  if (result.code == CheckCode::kOk) result.text.clear();
  result.code = CheckCode::kCritical;
  result.text += (result.text.empty() ? "" : "; ") + CheckNumber(here) + " of " + CheckNumber(data.expected) +
                 " GPUs are here";
}

// A clock is only to be high under load. How high is another question on every model.
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

namespace {

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

// By what the XIDs that nobody has dealt with ask for.
CheckCode CodeOfRecent(const CheckData& data, size_t gpu) {
  CheckCode code = CheckCode::kOk;
  for (const CheckReading* reading : data.Of(gpu, kGpuXidRecent)) {
    auto at = reading->attributes.find("gpu.xid.action");
    if (reading->value <= 0 || at == reading->attributes.end()) continue;
    bool mild = at->second == "none" || at->second == "restart_app";
    code = Worse(code, mild ? CheckCode::kWarning : CheckCode::kCritical);
  }
  return code;
}

}  // namespace
// An agent tells which XIDs still matter; the page of another program has only a count since its start.
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

namespace {

// How many lanes or generations are missing.
std::optional<double> Lacking(const CheckSpec& check, const CheckData& data, size_t gpu) {
  auto most = data.Sum(gpu, check.inputs[0]), now = data.Sum(gpu, check.inputs[1]);
  if (!most || !now) return std::nullopt;
  return std::max(0.0, *most - *now);
}

}  // namespace
CheckResult CheckWidth(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
  return ForEachGpu(
      check, data, settings, [&](size_t gpu) { return Lacking(check, data, gpu); },
      [&](size_t, double value) { return CodeOf(check, settings, value); });
}

CheckResult CheckGeneration(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
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

CheckResult CheckThrottle(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
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

}  // namespace gpulens

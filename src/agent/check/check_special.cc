#include "agent/check/check_special.h"

#include <algorithm>

#include "base/parse.h"
#include "catalog/gpu/errors.h"
#include "catalog/gpu/health.h"

namespace gpulens {
namespace {

constexpr double kBusyAbove = 0.05;
// XIDs that an application brings on itself, or that ask for nothing now: a warning. Those of l9gpu's
// check-syslogs.
constexpr int kMildXids[] = {13, 31, 43, 45, 63, 68, 92, 109};

// Values of all GPUs by `value_of`, which gives nothing where an input is missing.
template <class ValueOf, class CodeOfValue>
CheckResult ForEachGpu(const CheckSpec& check, const CheckData& data, const CheckSettings& settings,
                       ValueOf value_of, CodeOfValue code_of) {
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

}  // namespace
CheckResult CheckGpuNum(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
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

CheckResult CheckState(const CheckSpec& check, const CheckData& data, const CheckSettings&) {
  CheckResult result;
  result.code = CheckCode::kOk;
  std::string faults;
  for (size_t gpu = 0; gpu < data.gpus.size(); ++gpu) {
    std::string state = StateOf(data, gpu);
    CheckCode code = state == "ok"                               ? CheckCode::kOk
                     : state.empty() || state == "no_permission" ? CheckCode::kUnknown
                                                                 : CheckCode::kCritical;
    result.code = Worse(result.code, code);
    if (code == CheckCode::kOk) continue;
    faults +=
        (faults.empty() ? "GPU " : "; GPU ") + data.gpus[gpu].label +
        (state.empty() ? " does not report " + std::string(check.inputs[0].metric->name) : " is " + state);
  }
  result.text = faults.empty() ? "all GPUs answer" : faults;
  return result;
}

namespace {

// A clock is only to be high under load.

}  // namespace
CheckResult CheckClock(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
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

}  // namespace
CheckResult CheckXid(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
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

// The table of all checks: inputs, thresholds, evaluators and output. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/check/check_data.h"

namespace gpulens {

// Exit codes of Nagios. From best to worst: OK, UNKNOWN, WARNING, CRITICAL.
enum class CheckCode : uint8_t { kOk = 0, kWarning = 1, kCritical = 2, kUnknown = 3 };
std::string_view CheckCodeName(CheckCode code) noexcept;  // "CRITICAL"
CheckCode Worse(CheckCode a, CheckCode b) noexcept;

// The user's settings; absent: the check's default.
struct CheckSettings {
  std::optional<double> warning, critical;
  std::string expect;  // the required text; empty: all GPUs have the same
};

struct CheckValue {
  std::string gpu;
  double value = 0;
  CheckCode code = CheckCode::kOk;
};

struct CheckResult {
  CheckCode code = CheckCode::kUnknown;
  std::string text;                // a sentence without the name of the check
  std::vector<CheckValue> values;  // what was compared, by GPU
  std::optional<double> warning, critical;
};

enum class CheckSide : uint8_t { kAbove, kBelow };  // on which side of a threshold the fault is

struct CheckSpec;
using CheckEvaluator = CheckResult(const CheckSpec& check, const CheckData& data,
                                   const CheckSettings& settings);

struct CheckSpec {
  std::string_view name, help;
  std::span<const CheckInput> inputs;
  std::optional<double> warning = {}, critical = {};
  std::string_view unit = {};  // as it is shown: "°C"
  double per = 1;              // of the metric's unit in one of `unit`
  CheckSide side = CheckSide::kAbove;
  // Null: the sum over the inputs of each GPU against the thresholds.
  CheckEvaluator* evaluate = nullptr;
  bool repeats = false;  // a fault is checked three times, three seconds apart
  // Not every board has the inputs: skipped in a group of checks when no GPU reports any of them.
  bool optional = false;
  bool for_idle_nodes = false;  // fails on a node with jobs: not in the group in-use
};

// Returns the checks of a group: "all", or "in-use" for those that fit nodes with jobs. Empty for other
// names.
std::vector<const CheckSpec*> FindCheckGroup(std::string_view name);
// Whether no source reports any input of the check, fresh or stale.
bool IsUnreported(const CheckSpec& check, const CheckData& data);

std::span<const CheckSpec> AllChecks() noexcept;
const CheckSpec* FindCheck(std::string_view name) noexcept;
// Returns every metric that a check reads, and those that identify GPUs.
std::span<const MetricDesc* const> AllCheckMetrics();

// Runs a check. Missing input gives kUnknown with the reason, never kOk.
CheckResult Evaluate(const CheckSpec& check, const CheckData& data, const CheckSettings& settings);

// Functions for evaluators follow.
// "GPU 2", "GPU 0 and 3", "GPU 0, 1, 2".
std::string GpuList(const std::vector<std::string>& labels);
// Returns the result for the values found and for the GPUs without one (`missing`, by label).
CheckResult Conclude(const CheckSpec& check, const CheckData& data, const CheckSettings& settings,
                     std::vector<CheckValue> values, const std::vector<std::string>& missing);
// Returns the code of a value against the thresholds in force.
CheckCode CodeOf(const CheckSpec& check, const CheckSettings& settings, double value) noexcept;
std::string CheckNumber(double value);
// "2", or "2 (stale)" when the GPU has a stale value of an input.
std::string MissingLabel(const CheckSpec& check, const CheckData& data, size_t gpu);

// Evaluators that do more than compare a sum with thresholds. Each reads the inputs in the order of its row.
CheckEvaluator CheckGpuNum, CheckState, CheckClock, CheckRetiredPages, CheckVbios, CheckXid, CheckWidth,
    CheckGeneration, CheckThrottle, CheckDieTemperature, CheckMemoryTemperature, CheckMargin, CheckLinkErrors,
    CheckFabric, CheckEccMode, CheckRecovery, CheckPowerSource, CheckMismatch, CheckSxid, CheckHealth;

// Evaluates all GPUs by `value_of`, which returns nothing when an input is missing.
template <class ValueOf, class CodeOfValue>
CheckResult ForEachGpu(const CheckSpec& check, const CheckData& data, const CheckSettings& settings,
                       ValueOf value_of, CodeOfValue code_of) {
  std::vector<CheckValue> values;
  std::vector<std::string> missing;
  for (size_t gpu = 0; gpu < data.gpus.size(); ++gpu) {
    std::optional<double> value = value_of(gpu);
    if (value) values.push_back({data.gpus[gpu].label, *value, code_of(gpu, *value)});
    else missing.push_back(MissingLabel(check, data, gpu));
  }
  return Conclude(check, data, settings, std::move(values), missing);
}
// Does so with the thresholds in force.
template <class ValueOf>
CheckResult ForEachGpu(const CheckSpec& check, const CheckData& data, const CheckSettings& settings,
                       ValueOf value_of) {
  return ForEachGpu(check, data, settings, value_of,
                    [&](size_t, double value) { return CodeOf(check, settings, value); });
}

// The result for one GPU that has no number.
struct CheckWord {
  CheckCode code = CheckCode::kUnknown;
  std::string text;  // "is lost"; empty when kOk
};
// Evaluates all GPUs by `word_of`; `fine` is the text when all are OK.
CheckResult ConcludeWords(const CheckData& data, std::string_view fine,
                          const std::function<CheckWord(size_t gpu)>& word_of);
// Makes the result critical when fewer GPUs than expected have a state.
void AddMissingGpus(const CheckData& data, CheckResult& result);
// Returns the attribute `key` of the series of a state set that is 1; empty when there is none.
std::string WordOf(const CheckData& data, size_t gpu, const MetricDesc& metric, std::string_view key);

// The result of a check that the user requested.
struct CheckOutcome {
  const CheckSpec* check = nullptr;
  bool disabled = false;  // always OK
  CheckResult result;
};

// Returns the worst code; kUnknown for no outcome.
CheckCode WorstOf(const std::vector<CheckOutcome>& outcomes) noexcept;
// One line per check: "CRITICAL - gpu_temperature: GPU 2 at 96 °C, limit 90 | gpu0=64;85;90 gpu2=96;85;90".
std::string CheckText(const std::vector<CheckOutcome>& outcomes, bool simulated);
std::string CheckJson(const std::vector<CheckOutcome>& outcomes, const std::string& source, bool simulated);
// The table of checks, for --list.
std::string CheckList();
// Describes one check: its inputs, its thresholds, and how to change them.
std::string CheckPage(const CheckSpec& check);

}  // namespace gpulens

// The checks that need more than a sum against thresholds: evaluators of rows of the table. Each reads the
// inputs of its row in their order there.
#pragma once

#include <functional>

#include "cli/check/check_table.h"

namespace gpulens {

CheckResult CheckGpuNum(const CheckSpec& check, const CheckData& data, const CheckSettings& settings);
CheckResult CheckState(const CheckSpec& check, const CheckData& data, const CheckSettings& settings);
CheckResult CheckClock(const CheckSpec& check, const CheckData& data, const CheckSettings& settings);
CheckResult CheckRetiredPages(const CheckSpec& check, const CheckData& data, const CheckSettings& settings);
CheckResult CheckVbios(const CheckSpec& check, const CheckData& data, const CheckSettings& settings);
CheckResult CheckXid(const CheckSpec& check, const CheckData& data, const CheckSettings& settings);
CheckResult CheckWidth(const CheckSpec& check, const CheckData& data, const CheckSettings& settings);
CheckResult CheckGeneration(const CheckSpec& check, const CheckData& data, const CheckSettings& settings);
CheckResult CheckThrottle(const CheckSpec& check, const CheckData& data, const CheckSettings& settings);
CheckResult CheckDieTemperature(const CheckSpec& check, const CheckData& data, const CheckSettings& settings);
CheckResult CheckMemoryTemperature(const CheckSpec& check, const CheckData& data,
                                   const CheckSettings& settings);
CheckResult CheckMargin(const CheckSpec& check, const CheckData& data, const CheckSettings& settings);
CheckResult CheckLinkErrors(const CheckSpec& check, const CheckData& data, const CheckSettings& settings);
CheckResult CheckFabric(const CheckSpec& check, const CheckData& data, const CheckSettings& settings);
CheckResult CheckEccMode(const CheckSpec& check, const CheckData& data, const CheckSettings& settings);
CheckResult CheckRecovery(const CheckSpec& check, const CheckData& data, const CheckSettings& settings);
CheckResult CheckPowerSource(const CheckSpec& check, const CheckData& data, const CheckSettings& settings);
CheckResult CheckMismatch(const CheckSpec& check, const CheckData& data, const CheckSettings& settings);
CheckResult CheckSxid(const CheckSpec& check, const CheckData& data, const CheckSettings& settings);
CheckResult CheckHealth(const CheckSpec& check, const CheckData& data, const CheckSettings& settings);

// For the evaluators. Values of all GPUs by `value_of`, which gives nothing where an input is missing.
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

// The verdict on one GPU that is no number.
struct CheckWord {
  CheckCode code = CheckCode::kUnknown;
  std::string text;  // "is lost"; empty: it is fine
};
// The verdict where each GPU has a word and no number; `fine` is said when all are.
CheckResult ConcludeWords(const CheckData& data, std::string_view fine,
                          const std::function<CheckWord(size_t gpu)>& word_of);
// Makes the result critical where the machine should have more GPUs than have a state.
void AddMissingGpus(const CheckData& data, CheckResult& result);
// The attribute `key` of the series of a state set that is 1; empty when there is none.
std::string WordOf(const CheckData& data, size_t gpu, const MetricDesc& metric, std::string_view key);

}  // namespace gpulens

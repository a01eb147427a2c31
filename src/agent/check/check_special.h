// The checks that need more than a sum against thresholds: evaluators of rows of the table. Each reads the
// inputs of its row in their order there.
#pragma once

#include "agent/check/check_table.h"

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

}  // namespace gpulens

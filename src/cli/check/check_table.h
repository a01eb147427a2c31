// Every check there is, as one table: what it reads, its thresholds, and how it judges. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/check/check_data.h"

namespace gpulens {

// As Nagios has them. From best to worst: OK, UNKNOWN, WARNING, CRITICAL.
enum class CheckCode : uint8_t { kOk = 0, kWarning = 1, kCritical = 2, kUnknown = 3 };
std::string_view CheckCodeName(CheckCode code) noexcept;  // "CRITICAL"
CheckCode Worse(CheckCode a, CheckCode b) noexcept;

// What the user asked for; absent: the check's default.
struct CheckSettings {
  std::optional<double> warning, critical;
  std::string expect;  // a text that must be found; empty: what the GPUs agree on
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

struct CheckSpec {
  std::string_view name, help;
  std::span<const CheckInput> inputs;
  std::optional<double> warning = {}, critical = {};
  std::string_view unit = {};  // as it is shown: "°C"
  double per = 1;              // of the metric's unit in one of `unit`
  CheckSide side = CheckSide::kAbove;
  // Null: the sum over the inputs of each GPU against the thresholds.
  CheckResult (*evaluate)(const CheckSpec& check, const CheckData& data,
                          const CheckSettings& settings) = nullptr;
  bool repeats = false;  // a fault is looked at three times, three seconds apart
  // Not every board has what it reads: in a group of checks it is skipped where no GPU reports any of it.
  bool optional = false;
  bool for_idle_nodes = false;  // fails on a node that works: not in the group in-use
};

// A name that stands for several checks: "all", or "in-use" for those that fit nodes with jobs. Empty for
// another.
std::vector<const CheckSpec*> FindCheckGroup(std::string_view name);
// Whether nothing reports any input of the check, fresh or old.
bool NobodyReports(const CheckSpec& check, const CheckData& data);

std::span<const CheckSpec> AllChecks() noexcept;
const CheckSpec* FindCheck(std::string_view name) noexcept;
// Every metric that some check reads, and those by which GPUs are known.
std::span<const MetricDesc* const> AllCheckMetrics();

// Missing input is kUnknown with the reason, never kOk.
CheckResult Evaluate(const CheckSpec& check, const CheckData& data, const CheckSettings& settings);

// For the evaluators.
// "GPU 2", "GPU 0 and 3", "GPU 0, 1, 2".
std::string GpuList(const std::vector<std::string>& labels);
// The verdict on values that were found, and on GPUs without one (`missing`, by label).
CheckResult Conclude(const CheckSpec& check, const CheckData& data, const CheckSettings& settings,
                     std::vector<CheckValue> values, const std::vector<std::string>& missing);
// The code of a value against the thresholds in force.
CheckCode CodeOf(const CheckSpec& check, const CheckSettings& settings, double value) noexcept;
std::string CheckNumber(double value);
// "2", or "2 (stale)" when the GPU has an old value of an input.
std::string MissingLabel(const CheckSpec& check, const CheckData& data, size_t gpu);

}  // namespace gpulens

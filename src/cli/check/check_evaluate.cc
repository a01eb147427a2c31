// How values become a verdict and a sentence, for every check alike.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "cli/check/check_table.h"

namespace gpulens {
namespace {

int Badness(CheckCode code) noexcept {
  switch (code) {
    case CheckCode::kOk: return 0;
    case CheckCode::kUnknown: return 1;
    case CheckCode::kWarning: return 2;
    case CheckCode::kCritical: return 3;
  }
  return 1;
}

bool Beyond(CheckSide side, double value, double limit) noexcept {
  return side == CheckSide::kAbove ? value > limit : value < limit;
}

std::string WithUnit(const CheckSpec& check, double value) {
  return CheckNumber(value) + (check.unit.empty() ? "" : " " + std::string(check.unit));
}

std::string InputNames(const CheckSpec& check) {
  std::string names;
  for (const CheckInput& input : check.inputs) {
    std::string name(input.metric->name);
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
  size_t count = result.values.size();
  std::string text = std::to_string(count) + (count == 1 ? " GPU" : " GPUs");
  bool above = check.side == CheckSide::kAbove;
  return text + (above ? ", highest " : ", lowest ") + WithUnit(check, above ? high->value : low->value);
}

}  // namespace

std::string_view CheckCodeName(CheckCode code) noexcept {
  switch (code) {
    case CheckCode::kOk: return "OK";
    case CheckCode::kWarning: return "WARNING";
    case CheckCode::kCritical: return "CRITICAL";
    case CheckCode::kUnknown: return "UNKNOWN";
  }
  return "UNKNOWN";
}

CheckCode Worse(CheckCode a, CheckCode b) noexcept { return Badness(a) >= Badness(b) ? a : b; }

std::string CheckNumber(double value) {
  char text[32];
  if (value == std::trunc(value) && std::abs(value) < 1e15)
    return std::to_string(static_cast<int64_t>(value));
  // Six figures: what a sensor has, and no noise of a division.
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
  bool stale = std::any_of(check.inputs.begin(), check.inputs.end(),
                           [&](const CheckInput& input) { return data.IsStale(gpu, input); });
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

namespace {

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
    // What is known to be a fault stays one when another part is missing.
    double value = sum.value_or(0) / check.per;
    CheckCode code = sum ? CodeOf(check, settings, value) : CheckCode::kOk;
    if (whole || code != CheckCode::kOk) values.push_back({data.gpus[gpu].label, value, code});
    if (!whole) missing.push_back(MissingLabel(check, data, gpu));
  }
  return Conclude(check, data, settings, std::move(values), missing);
}

}  // namespace

bool NobodyReports(const CheckSpec& check, const CheckData& data) {
  auto fits = [&](const CheckReading& reading) {
    return std::any_of(check.inputs.begin(), check.inputs.end(),
                       [&](const CheckInput& input) { return Fits(reading, input); });
  };
  return std::none_of(data.readings.begin(), data.readings.end(), fits) &&
         std::none_of(data.host.begin(), data.host.end(), fits);
}

CheckResult Evaluate(const CheckSpec& check, const CheckData& data, const CheckSettings& settings) {
  if (data.gpus.empty()) {
    CheckResult result;
    result.text = "no GPU is known";
    return result;
  }
  return (check.evaluate ? check.evaluate : &EvaluateSum)(check, data, settings);
}

}  // namespace gpulens

#include "store/experiments/run_rows.h"

#include <algorithm>

#include "wire/json/json_text.h"

namespace gpulens::experiments {

double RunRow::duration_seconds(int64_t now_ns) const noexcept {
  if (!ended_ns && status != kRunning) return kNotMeasured;
  return static_cast<double>(std::max<int64_t>(0, ended_ns.value_or(now_ns) - started_ns)) / 1e9;
}

std::string ValueText(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* yes = std::get_if<bool>(&value)) return *yes ? "true" : "false";
  std::string out;
  if (const auto* whole = std::get_if<int64_t>(&value)) {
    AppendJsonInt(out, *whole);
    return out;
  }
  const double number = std::get<double>(value);
  if (number != number) return "nan";
  if (number == std::numeric_limits<double>::infinity()) return "inf";
  if (number == -std::numeric_limits<double>::infinity()) return "-inf";
  AppendJsonNumber(out, number);
  return out;
}

}  // namespace gpulens::experiments

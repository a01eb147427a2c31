// Numbers as people read them.
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/parse.h"
#include "cli/exp/exp_text.h"

namespace gpulens {
namespace {

std::string Printed(const char* form, double value) {
  char text[64];
  std::snprintf(text, sizeof text, form, value);
  return text;
}

}  // namespace

std::string DurationText(double seconds) {
  if (!(seconds >= 0) || seconds > 1e15) return "–";
  if (seconds < 1) return Printed("%.2fs", std::floor(seconds * 100) / 100);
  if (seconds < 60) return Printed("%.1fs", std::floor(seconds * 10) / 10);
  const auto whole = static_cast<int64_t>(seconds);
  const int64_t days = whole / 86'400, hours = whole / 3600 % 24, minutes = whole / 60 % 60;
  if (days > 0) return std::to_string(days) + "d " + std::to_string(hours) + "h";
  if (hours > 0) return std::to_string(hours) + "h " + std::to_string(minutes) + "m";
  return std::to_string(minutes) + "m " + std::to_string(whole % 60) + "s";
}

std::string MetricText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (value == std::floor(value) && std::abs(value) < 1e15) return Printed("%.0f", value);
  return Printed("%.6g", value);
}

std::string EnergyText(double joules) {
  if (std::isnan(joules)) return "–";
  if (std::abs(joules) >= 3.6e5) return Printed("%.4g kWh", joules / 3.6e6);
  if (std::abs(joules) >= 1e4) return Printed("%.4g kJ", joules / 1e3);
  return Printed("%.4g J", joules);
}

std::string ChangeText(double before, double after) {
  if (!std::isfinite(before) || !std::isfinite(after) || before == 0) return {};
  return Printed("%+.1f %%", (after - before) / std::abs(before) * 100);
}

}  // namespace gpulens

#include "plugins/sinks/stdout/human_units.h"

#include <charconv>
#include <cmath>

namespace gpulens {
namespace {

constexpr double kKi = 1024.0;

// So many that three figures are seen.
int DecimalsFor(double shown) noexcept {
  if (shown >= 100) return 0;
  return shown >= 10 ? 1 : 2;
}

HumanScale Figures(double factor, std::string_view unit, double largest) noexcept {
  return {factor, unit, DecimalsFor(largest * factor)};
}

HumanScale BytesScale(double largest) noexcept {
  if (largest >= kKi * kKi * kKi) return {1 / (kKi * kKi * kKi), "GiB", 1};
  if (largest >= kKi * kKi) return {1 / (kKi * kKi), "MiB", 1};
  if (largest >= kKi) return {1 / kKi, "KiB", 1};
  return {1, "B", 0};
}

HumanScale RateScale(double largest) noexcept {
  if (largest >= 1e9) return {1e-9, "GB/s", 1};
  if (largest >= 1e6) return {1e-6, "MB/s", 1};
  if (largest >= 1e3) return {1e-3, "kB/s", 1};
  return {1, "B/s", 0};
}

HumanScale TimeScale(double largest) noexcept {
  if (largest == 0 || largest >= 1) return Figures(1, "s", largest);
  if (largest >= 1e-3) return Figures(1e3, "ms", largest);
  return Figures(1e6, "µs", largest);
}

HumanScale EnergyScale(double largest) noexcept {
  if (largest >= 3.6e6) return Figures(1 / 3.6e6, "kWh", largest);
  if (largest >= 1e4) return Figures(1e-3, "kJ", largest);
  return Figures(1, "J", largest);
}

bool IsCount(const MetricDesc& desc) noexcept {
  return desc.unit.empty() || (desc.unit.starts_with('{') && desc.unit.ends_with('}'));
}

}  // namespace

HumanScale HumanScaleFor(const MetricDesc& desc, double largest) noexcept {
  std::string_view unit = desc.unit;
  if (unit == "By") return BytesScale(largest);
  if (unit == "By/s") return RateScale(largest);
  if (unit == "s") return TimeScale(largest);
  if (unit == "J") return EnergyScale(largest);
  if (unit == "W" && largest >= 1e4) return Figures(1e-3, "kW", largest);
  if (unit == "W") return {1, "W", largest >= 10 ? 0 : 1};
  if (unit == "1" && desc.kind != Kind::kCounter && largest <= 1.5)
    return {100, "%", largest < 0.0995 ? 1 : 0};
  if (unit == "{percent}" || unit == "%") return {1, "%", largest < 9.95 ? 1 : 0};
  if (unit == "Cel") return {1, "°C", 0};
  if (unit == "MHz") return {1, "MHz", 0};
  if (IsCount(desc) && desc.number == Number::kInt)
    return largest >= 1e7 ? Figures(1e-6, "M", largest) : HumanScale{};
  return Figures(1, IsCount(desc) || unit == "1" ? std::string_view() : unit, largest);
}

std::string HumanNumber(double value, const HumanScale& scale) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[400];
  double shown = value * scale.factor;
  if (std::isinf(shown)) shown = value;
  auto end =
      std::to_chars(text, text + sizeof text, std::abs(shown), std::chars_format::fixed, scale.decimals).ptr;
  std::string_view digits(text, static_cast<size_t>(end - text));
  size_t whole = std::min(digits.find('.'), digits.size());
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && i < whole && (whole - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  bool zero = digits.find_first_not_of("0.") == digits.npos;
  return shown < 0 && !zero ? "-" + out : out;
}

size_t DisplayWidth(std::string_view text) noexcept {
  size_t width = 0;
  for (char c : text) width += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return width;
}

}  // namespace gpulens

#include "cli/plot/plot_axis.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace gpulens {
namespace {

// The least and greatest of all that is drawn, with some room; never empty.
void Fit(Axis& axis, double low, double high) {
  if (!(low <= high)) low = axis.log ? 1 : 0, high = axis.log ? 10 : 1;
  if (low == high) {
    const double room = low == 0 ? 1 : std::abs(low) * 0.1;
    low = axis.log ? low / 2 : low - room, high = axis.log ? high * 2 : high + room;
  }
  if (axis.log) low = std::clamp(low, 1e-307, 1e307), high = std::clamp(high, low * 1.001, 1e308);
  // Differences that a double does not have.
  if (!std::isfinite(high - low)) low = std::max(low, -1e300), high = std::min(high, 1e300);
  axis.low = low, axis.high = high;
}

}  // namespace

double Axis::At(double value) const noexcept {
  value = std::clamp(value, low, high);  // what Fit has cut off, and rounding
  const double a = log ? std::log10(low) : low, b = log ? std::log10(high) : high;
  return from + ((log ? std::log10(value) : value) - a) / (b - a) * (to - from);
}

std::vector<double> Axis::Ticks(int most) const {
  if (!log) return AxisTicks(low, high, most);
  std::vector<double> out;
  const double decades = std::log10(high) - std::log10(low);
  // Less than two decades have no room between their powers of ten.
  const int step = std::max(1, static_cast<int>(std::ceil(decades / most)));
  for (int exponent = static_cast<int>(std::floor(std::log10(low))); exponent <= std::log10(high) + 1;
       exponent += step) {
    for (double digit : {1.0, 2.0, 5.0}) {
      if (digit > 1 && decades > 3) continue;
      const double value = digit * std::pow(10, exponent);
      if (value >= low * 0.999999 && value <= high * 1.000001) out.push_back(value);
    }
  }
  return out;
}

bool Drawn(double x, double y, bool log) noexcept {
  return std::isfinite(x) && std::isfinite(y) && (!log || y > 0);
}

std::string TickText(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", std::abs(value) < 1e-300 ? 0 : value);
  return text;
}

PlotAxes AxesOf(const std::vector<PlotLine>& lines, bool log_y) {
  double low_x = INFINITY, high_x = -INFINITY, low_y = INFINITY, high_y = -INFINITY;
  for (const PlotLine& line : lines) {
    for (const auto& [x, y] : line.points) {
      if (!Drawn(x, y, log_y)) continue;
      low_x = std::min(low_x, x), high_x = std::max(high_x, x);
      low_y = std::min(low_y, y), high_y = std::max(high_y, y);
    }
  }
  PlotAxes axes;
  axes.y.log = log_y;
  Fit(axes.x, low_x, high_x), Fit(axes.y, low_y, high_y);
  return axes;
}

std::vector<double> AxisTicks(double low, double high, int most) {
  std::vector<double> out;
  if (!(low < high) || most < 1 || !std::isfinite(high - low)) return out;
  const double raw = (high - low) / most;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = power;
  for (double factor : {1.0, 2.0, 5.0, 10.0}) {
    step = factor * power;
    if (step >= raw) break;
  }
  const double first = std::ceil(low / step - 1e-9);
  // Where the steps are smaller than what a double tells apart there is no tick but one.
  for (double i = first; i * step <= high + step * 1e-9 && out.size() < 100; ++i) {
    if (!out.empty() && i * step <= out.back()) break;
    out.push_back(i * step);
  }
  return out;
}

}  // namespace gpulens

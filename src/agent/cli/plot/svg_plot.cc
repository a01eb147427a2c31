#include "agent/cli/plot/svg_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>

#include "base/text.h"

namespace gpulens {
namespace {

// Colours that people with each kind of colour blindness tell apart (Okabe and Ito), dark enough on white.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#e69f00", "#56b4e9", "#7f7f7f", "#b58900"};
constexpr size_t kColourCount = std::size(kColours);
constexpr size_t kMostNames = 16;
constexpr double kLeft = 76, kRight = 20, kTop = 44, kBottom = 52, kNameLine = 18;
// Names are cut to this many characters in the legend.
constexpr size_t kMostName = 60;

std::string Number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::string TickText(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", std::abs(value) < 1e-300 ? 0 : value);
  return text;
}

// Text of people inside of an element.
std::string Escaped(std::string_view text) {
  std::string safe, out;
  AppendPrintable(safe, text);
  size_t shown = 0;
  for (size_t i = 0; i < safe.size();) {
    if (++shown > kMostName) return out + "…";
    const size_t length = std::max<size_t>(1, Utf8Length(std::string_view(safe).substr(i)));
    const std::string_view one = std::string_view(safe).substr(i, length);
    if (one == "&") out += "&amp;";
    else if (one == "<") out += "&lt;";
    else if (one == ">") out += "&gt;";
    else out += one;
    i += length;
  }
  return out;
}

// From values to pixels.
struct Axis {
  double low = 0, high = 1, from = 0, to = 1;  // pixels
  bool log = false;

  double At(double value) const noexcept {
    value = std::clamp(value, low, high);  // what Fit has cut off, and rounding
    const double a = log ? std::log10(low) : low, b = log ? std::log10(high) : high;
    return from + ((log ? std::log10(value) : value) - a) / (b - a) * (to - from);
  }
  std::vector<double> Ticks(int most) const {
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
};

bool Drawn(double x, double y, bool log) noexcept {
  return std::isfinite(x) && std::isfinite(y) && (!log || y > 0);
}

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

// The points of a line in pixels: runs without a gap, thinned to what can be seen.
std::string PathOf(const PlotLine& line, const Axis& x, const Axis& y) {
  struct Pixel {
    double first, low, high, last;
  };
  std::string path;
  bool open = false;
  double column = std::numeric_limits<double>::quiet_NaN();
  Pixel seen{};
  auto move_to = [&](double at_x, double at_y) {
    path += (open ? "L" : "M") + Number(at_x) + " " + Number(at_y);
    open = true;
  };
  auto flush = [&] {
    if (std::isnan(column)) return;
    move_to(column, seen.first);
    if (seen.low != seen.high) move_to(column, seen.low), move_to(column, seen.high);
    if (seen.last != seen.high) move_to(column, seen.last);
    column = std::numeric_limits<double>::quiet_NaN();
  };
  const bool thin = line.points.size() > 4 * static_cast<size_t>(x.to - x.from);
  for (const auto& [value_x, value_y] : line.points) {
    if (!Drawn(value_x, value_y, y.log)) {
      flush();
      // A point that stands alone is a dot: a path of no length with round ends.
      if (open) path += "h0";
      open = false;
      continue;
    }
    const double at_x = thin ? std::floor(x.At(value_x)) : x.At(value_x), at_y = y.At(value_y);
    if (!thin || at_x != column) {
      flush();
      column = at_x;
      seen = {at_y, at_y, at_y, at_y};
      if (!thin) flush();
      continue;
    }
    seen.low = std::min(seen.low, at_y), seen.high = std::max(seen.high, at_y), seen.last = at_y;
  }
  flush();
  return open ? path + "h0" : path;
}

void DrawAxes(std::string& out, const Axis& x, const Axis& y, const PlotOptions& options) {
  auto text = [&](double at_x, double at_y, const char* anchor, const std::string& what,
                  const char* more = "") {
    out += "<text x=\"" + Number(at_x) + "\" y=\"" + Number(at_y) + "\" text-anchor=\"" + anchor + "\"" +
           more + ">" + what + "</text>\n";
  };
  auto rule = [&](double x1, double y1, double x2, double y2) {
    out += "<line class=\"grid\" x1=\"" + Number(x1) + "\" y1=\"" + Number(y1) + "\" x2=\"" + Number(x2) +
           "\" y2=\"" + Number(y2) + "\"/>\n";
  };
  for (double tick : y.Ticks(8)) {
    rule(x.from, y.At(tick), x.to, y.At(tick));
    text(x.from - 8, y.At(tick) + 4, "end", TickText(tick));
  }
  for (double tick : x.Ticks(10)) {
    rule(x.At(tick), y.from, x.At(tick), y.to);
    text(x.At(tick), y.from + 18, "middle", TickText(tick));
  }
  const double middle = (y.from + y.to) / 2;
  text((x.from + x.to) / 2, y.from + 40, "middle", Escaped(options.x_name));
  const std::string turned = " transform=\"rotate(-90 16 " + Number(middle) + ")\"";
  text(16, middle, "middle", Escaped(options.y_name) + (options.log_y ? " (log)" : ""), turned.c_str());
  text(x.from, 24, "start", Escaped(options.title), " class=\"title\"");
}

}  // namespace

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

std::string PlotSvg(const std::vector<PlotLine>& lines, const PlotOptions& options) {
  double low_x = INFINITY, high_x = -INFINITY, low_y = INFINITY, high_y = -INFINITY;
  for (const PlotLine& line : lines) {
    for (const auto& [x, y] : line.points) {
      if (!Drawn(x, y, options.log_y)) continue;
      low_x = std::min(low_x, x), high_x = std::max(high_x, x);
      low_y = std::min(low_y, y), high_y = std::max(high_y, y);
    }
  }
  const size_t names = std::min(lines.size(), kMostNames);
  const double legend = kNameLine * static_cast<double>(names) + 8;
  Axis x, y;
  y.log = options.log_y;
  Fit(x, low_x, high_x), Fit(y, low_y, high_y);
  x.from = kLeft, x.to = options.width - kRight;
  y.from = options.height - kBottom, y.to = kTop;
  const double height = options.height + legend;
  std::string out =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + std::to_string(options.width) + " " +
      Number(height) + "\" width=\"" + std::to_string(options.width) + "\" height=\"" + Number(height) +
      "\" role=\"img\">\n<title>" + Escaped(options.title) +
      "</title>\n<style>"
      "svg{background:#fff;font:13px "
      "system-ui,sans-serif}text{fill:#333}.title{font-size:16px;font-weight:600}"
      ".grid{stroke:#ddd}path{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}"
      "@media(prefers-color-scheme:dark){svg{background:#16181c}text{fill:#ccc}.grid{stroke:#333}}"
      "</style>\n";
  DrawAxes(out, x, y, options);
  for (size_t i = 0; i < lines.size(); ++i)
    out += std::string("<path stroke=\"") + kColours[i % kColourCount] + "\" d=\"" + PathOf(lines[i], x, y) +
           "\"/>\n";
  for (size_t i = 0; i < names; ++i) {
    const double at = options.height + kNameLine * static_cast<double>(i) + 4;
    const bool rest = i + 1 == kMostNames && lines.size() > kMostNames;
    const std::string name =
        rest ? "… and " + std::to_string(lines.size() - i) + " more" : Escaped(lines[i].name);
    if (!rest)
      out += "<line stroke=\"" + std::string(kColours[i % kColourCount]) + "\" stroke-width=\"3\" x1=\"" +
             Number(kLeft) + "\" x2=\"" + Number(kLeft + 24) + "\" y1=\"" + Number(at) + "\" y2=\"" +
             Number(at) + "\"/>\n";
    out += "<text x=\"" + Number(kLeft + 32) + "\" y=\"" + Number(at + 4) + "\">" + name + "</text>\n";
  }
  return out + "</svg>\n";
}

}  // namespace gpulens

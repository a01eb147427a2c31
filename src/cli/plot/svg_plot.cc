#include "cli/plot/svg_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/text.h"
#include "cli/plot/plot_axis.h"

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

std::string PlotSvg(const std::vector<PlotLine>& lines, const PlotOptions& options) {
  const size_t names = std::min(lines.size(), kMostNames);
  const double legend = kNameLine * static_cast<double>(names) + 8;
  auto [x, y] = AxesOf(lines, options.log_y);
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

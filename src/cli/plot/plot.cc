#include "cli/plot/plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/text.h"
#include "cli/common/output.h"

namespace gpulens {

namespace {

// The range of all drawn values with a margin; never empty.
void Fit(PlotAxis& axis, double low, double high) {
  if (!(low <= high)) low = axis.log ? 1 : 0, high = axis.log ? 10 : 1;
  if (low == high) {
    const double room = low == 0 ? 1 : std::abs(low) * 0.1;
    low = axis.log ? low / 2 : low - room, high = axis.log ? high * 2 : high + room;
  }
  if (axis.log) low = std::clamp(low, 1e-307, 1e307), high = std::clamp(high, low * 1.001, 1e308);
  // A range beyond that of a double.
  if (!std::isfinite(high - low))
    low = std::clamp(low, -1e300, 9e299), high = std::clamp(high, low + 1e299, 1e300);
  axis.low = low, axis.high = high;
}

// Colours that are distinct with any kind of colour blindness (Okabe and Ito), dark enough on white.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#e69f00", "#56b4e9", "#7f7f7f", "#b58900"};
constexpr size_t kColourCount = std::size(kColours);
constexpr size_t kMostNames = 16;
constexpr double kLeft = 76, kRight = 20, kTop = 44, kBottom = 52, kNameLine = 18;
// Names are cut to this many characters in the legend.
constexpr size_t kMostName = 60;

std::string Number(double value) { return Printed("%.2f", value); }

// Escapes text inside an element.
std::string Escaped(std::string_view text) {
  const std::string safe = Printable(text);
  const std::string_view shown = FirstCharacters(safe, kMostName);
  std::string out;
  for (char c : shown) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else out += c;
  }
  return shown.size() < safe.size() ? out + "…" : out;
}

// The points of a line in pixels: runs without a gap, thinned to what can be seen.
std::string PathOf(const PlotLine& line, const PlotAxis& x, const PlotAxis& y) {
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
      // A single point is a dot: a path of no length with round ends.
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

void DrawAxes(std::string& out, const PlotAxis& x, const PlotAxis& y, const PlotOptions& options) {
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

constexpr int kLeastColumns = 30, kMostColumns = 400, kLeastRows = 4, kMostRows = 100;
// Width of the labels at the left.
constexpr int kLabel = 12;

// A grid of dots: two by four in each braille character, or one in ASCII.
class Canvas {
 public:
  Canvas(int columns, int rows, bool ascii)
      : across_(ascii ? 1 : 2), down_(ascii ? 1 : 4), columns_(columns), ascii_(ascii) {
    cells_.resize(static_cast<size_t>(columns * rows));
  }
  int across() const noexcept { return across_; }
  int down() const noexcept { return down_; }

  void Dot(int x, int y) {
    // The dots of a braille character, from the left and from the top.
    constexpr uint8_t kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    uint8_t& cell = cells_[static_cast<size_t>(y / down_ * columns_ + x / across_)];
    cell |= ascii_ ? 1 : kBits[y % 4][x % 2];
  }
  void Segment(int x1, int y1, int x2, int y2) {
    const int steps = std::max({std::abs(x2 - x1), std::abs(y2 - y1), 1});
    for (int i = 0; i <= steps; ++i) {
      const double part = static_cast<double>(i) / steps;
      Dot(static_cast<int>(std::lround(x1 + (x2 - x1) * part)),
          static_cast<int>(std::lround(y1 + (y2 - y1) * part)));
    }
  }
  std::string Row(int row) const {
    std::string out;
    for (int x = 0; x < columns_; ++x) {
      const uint8_t cell = cells_[static_cast<size_t>(row * columns_ + x)];
      if (cell == 0) out += ' ';
      else if (ascii_) out += '*';
      else AppendBraille(out, cell);
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out;
  }

 private:
  // U+2800 and the bits, as UTF-8.
  static void AppendBraille(std::string& out, uint8_t bits) {
    out += '\xe2';
    out += static_cast<char>(0xa0 | bits >> 6);
    out += static_cast<char>(0x80 | (bits & 0x3f));
  }
  int across_, down_, columns_;
  bool ascii_;
  std::vector<uint8_t> cells_;
};

void Draw(Canvas& canvas, const PlotLine& line, const PlotAxis& x, const PlotAxis& y) {
  bool open = false;
  int last_x = 0, last_y = 0;
  for (const auto& [value_x, value_y] : line.points) {
    if (!Drawn(value_x, value_y, y.log)) {
      open = false;
      continue;
    }
    const int at_x = static_cast<int>(std::lround(x.At(value_x)));
    const int at_y = static_cast<int>(std::lround(y.At(value_y)));
    if (open) canvas.Segment(last_x, last_y, at_x, at_y);
    else canvas.Dot(at_x, at_y);
    last_x = at_x, last_y = at_y, open = true;
  }
}

std::string Label(const std::string& text) { return RightAligned(text.substr(0, kLabel), kLabel); }

// At most `most` characters.
std::string Cut(std::string_view text, size_t most) {
  return std::string(FirstCharacters(Printable(text), most));
}

void Panel(std::string& out, const PlotLine& line, PlotAxis x, PlotAxis y, const TextPlotOptions& options) {
  const int width = options.columns - kLabel - 2;
  Canvas canvas(width, options.rows, options.ascii);
  x.from = 0, x.to = width * canvas.across() - 1;
  y.from = options.rows * canvas.down() - 1, y.to = 0;
  Draw(canvas, line, x, y);
  // The ends, and round values between them.
  std::vector<std::string> labels(static_cast<size_t>(options.rows));
  labels.front() = TickText(y.high), labels.back() = TickText(y.low);
  for (double tick : y.Ticks(options.rows / 3)) {
    const auto row = static_cast<size_t>(std::lround(y.At(tick)) / canvas.down());
    if (row > 1 && row + 2 < labels.size() && labels[row].empty()) labels[row] = TickText(tick);
  }
  for (int row = 0; row < options.rows; ++row) {
    const std::string& label = labels[static_cast<size_t>(row)];
    const char* rule = label.empty() ? (options.ascii ? " |" : " │") : (options.ascii ? " +" : " ┤");
    out += Label(label) + rule + canvas.Row(row) + "\n";
  }
}

}  // namespace

double PlotAxis::At(double value) const noexcept {
  value = std::clamp(value, low, high);  // because of Fit and rounding
  const double a = log ? std::log10(low) : low, b = log ? std::log10(high) : high;
  return from + ((log ? std::log10(value) : value) - a) / (b - a) * (to - from);
}

std::vector<double> PlotAxis::Ticks(int most) const {
  if (!log) return AxisTicks(low, high, most);
  std::vector<double> out;
  const double decades = std::log10(high) - std::log10(low);
  // Fewer than two decades need ticks between the powers of ten.
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

std::string TickText(double value) { return Printed("%.6g", std::abs(value) < 1e-300 ? 0 : value); }

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
  // Only one tick where the steps are below the resolution of a double.
  for (double i = first; i * step <= high + step * 1e-9 && out.size() < 100; ++i) {
    if (!out.empty() && i * step <= out.back()) break;
    out.push_back(i * step);
  }
  return out;
}

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

std::string PlotText(const std::vector<PlotLine>& lines, const TextPlotOptions& given) {
  TextPlotOptions options = given;
  options.columns = std::clamp(options.columns, kLeastColumns, kMostColumns);
  options.rows = std::clamp(options.rows, kLeastRows, kMostRows);
  const auto most = static_cast<size_t>(options.columns);
  const PlotAxes all = AxesOf(lines, options.log_y);
  std::string out;
  for (const PlotLine& line : lines) {
    const auto drawn = std::ranges::count_if(
        line.points, [&](const auto& point) { return Drawn(point.first, point.second, options.log_y); });
    const size_t gaps = line.points.size() - static_cast<size_t>(drawn);
    std::string head = line.name + ", " + std::to_string(line.points.size()) + " points";
    if (gaps > 0) head += ", " + std::to_string(gaps) + (options.log_y ? " not drawn" : " not finite");
    if (options.log_y) head += ", logarithmic";
    if (&line == &lines.front() && !options.title.empty()) head = options.title + ": " + head;
    out += Cut(head, most) + "\n";
    Panel(out, line, all.x, options.same_y ? all.y : AxesOf({line}, options.log_y).y, options);
  }
  const std::string low = TickText(all.x.low), high = TickText(all.x.high);
  const std::string name =
      Cut(options.x_name, most - kLabel - 2 - std::min(most / 2, low.size() + high.size() + 4));
  out += std::string(kLabel, ' ') + (options.ascii ? " +" : " └");
  for (int i = 0; i < options.columns - kLabel - 2; ++i) out += options.ascii ? "-" : "─";
  const size_t room = most - kLabel - 2;
  const size_t used = std::min(room, low.size() + name.size() + high.size());
  const size_t before = (room - used) / 2;
  return out + "\n" + std::string(kLabel + 2, ' ') + low + std::string(before, ' ') + name +
         std::string(room - used - before, ' ') + high + "\n";
}

}  // namespace gpulens

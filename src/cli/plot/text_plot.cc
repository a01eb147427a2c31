#include "cli/plot/text_plot.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace gpulens {
namespace {

constexpr int kLeastColumns = 30, kMostColumns = 400, kLeastRows = 4, kMostRows = 100;
// Of the names of values, at the left.
constexpr int kLabel = 12;

// Dots: with braille two across and four down in each character, in ASCII one.
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

void Draw(Canvas& canvas, const PlotLine& line, const Axis& x, const Axis& y) {
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

std::string Label(const std::string& text) {
  return std::string(kLabel - std::min<size_t>(text.size(), kLabel), ' ') + text.substr(0, kLabel);
}

// At most `most` characters.
std::string Cut(std::string_view text, size_t most) {
  std::string safe, out;
  AppendPrintable(safe, text);
  for (size_t i = 0, shown = 0; i < safe.size() && shown < most; ++shown) {
    const size_t length = std::max<size_t>(1, Utf8Length(std::string_view(safe).substr(i)));
    out += safe.substr(i, length);
    i += length;
  }
  return out;
}

void Panel(std::string& out, const PlotLine& line, Axis x, Axis y, const TextPlotOptions& options) {
  const int width = options.columns - kLabel - 2;
  Canvas canvas(width, options.rows, options.ascii);
  x.from = 0, x.to = width * canvas.across() - 1;
  y.from = options.rows * canvas.down() - 1, y.to = 0;
  Draw(canvas, line, x, y);
  // The ends, and what is round between them.
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

std::string PlotText(const std::vector<PlotLine>& lines, const TextPlotOptions& given) {
  TextPlotOptions options = given;
  options.columns = std::clamp(options.columns, kLeastColumns, kMostColumns);
  options.rows = std::clamp(options.rows, kLeastRows, kMostRows);
  const auto most = static_cast<size_t>(options.columns);
  const PlotAxes all = AxesOf(lines, options.log_y);
  std::string out;
  for (const PlotLine& line : lines) {
    const auto drawn = std::count_if(line.points.begin(), line.points.end(), [&](const auto& point) {
      return Drawn(point.first, point.second, options.log_y);
    });
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

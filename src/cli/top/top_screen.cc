#include "cli/top/top_screen.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>

#include "base/stable_sort.h"
#include "base/text.h"
#include "cli/common/output.h"

namespace gpulens {

namespace {

struct Range {
  uint32_t from, to;
};
// East Asian wide and emoji, as terminals draw them (Unicode 15, EastAsianWidth W and F).
constexpr Range kWide[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x2329, 0x232a},   {0x23e9, 0x23ec},   {0x2614, 0x2615},
    {0x2648, 0x2653},   {0x26a1, 0x26a1},   {0x26ce, 0x26ce},   {0x2705, 0x2705},   {0x2728, 0x2728},
    {0x274c, 0x274e},   {0x2753, 0x2757},   {0x2795, 0x2797},   {0x2b1b, 0x2b1c},   {0x2b50, 0x2b55},
    {0x2e80, 0x303e},   {0x3041, 0xa4cf},   {0xa960, 0xa97c},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},
    {0xfe10, 0xfe19},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x16fe0, 0x18aff},
    {0x1b000, 0x1b2ff}, {0x1f004, 0x1f004}, {0x1f0cf, 0x1f0cf}, {0x1f18e, 0x1f19a}, {0x1f200, 0x1f320},
    {0x1f32d, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f7e0, 0x1f7eb}, {0x1f90c, 0x1faff}, {0x20000, 0x3fffd}};
constexpr Range kNoWidth[] = {{0x300, 0x36f},   {0x483, 0x489},    {0x591, 0x5bd},   {0x610, 0x61a},
                              {0x64b, 0x65f},   {0x900, 0x902},    {0x93a, 0x93c},   {0x941, 0x948},
                              {0xe31, 0xe31},   {0xe34, 0xe3a},    {0xe47, 0xe4e},   {0x1ab0, 0x1aff},
                              {0x1dc0, 0x1dff}, {0x200b, 0x200f},  {0x20d0, 0x20ff}, {0xfe00, 0xfe0f},
                              {0xfe20, 0xfe2f}, {0xe0100, 0xe01ef}};

bool IsIn(std::span<const Range> ranges, uint32_t point) noexcept {
  return std::ranges::any_of(ranges,
                             [&](const Range& range) { return point >= range.from && point <= range.to; });
}

// Takes a character off the front of `text`; invalid bytes count as one each.
uint32_t TakePoint(std::string_view& text) noexcept {
  const size_t length = Utf8Length(text);
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  uint32_t point = byte(0);
  if (length == 2) point = (point & 0x1f) << 6 | (byte(1) & 0x3f);
  if (length == 3) point = (point & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
  if (length == 4)
    point = (point & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f);
  text.remove_prefix(std::max<size_t>(length, 1));
  return point;
}

size_t PointWidth(uint32_t point) noexcept {
  if (point < 0x300) return 1;
  return IsIn(kNoWidth, point) ? 0 : IsIn(kWide, point) ? 2 : 1;
}

// Symbols, in UTF-8 and in ASCII.
struct Symbols {
  std::string_view good, look, act, stale, none, rule, times, up, down, select, more;
  std::array<std::string_view, 8> bars;
};
constexpr Symbols kUtf8{"●", "▲", "✖", "~", "–", "─",
                        "×", "↑", "↓", "▸", "…", {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}};
constexpr Symbols kAscii{"*", "!", "x", "~", "-", "-",
                         "x", "^", "v", ">", "~", {".", ".", ":", "-", "=", "+", "*", "#"}};

class Screen {
 public:
  Screen(const TopTyped& typed, const TopSize& size)
      : typed_(typed),
        size_(size),
        s_(size.ascii ? kAscii : kUtf8),
        columns_(std::max<size_t>(size.columns, 20)) {}

  std::vector<TopLine> Node(const TopNode& node);
  std::vector<TopLine> Nodes(std::span<const TopNode* const> nodes);

 private:
  // A cell of a table.
  struct Cell {
    TopStyle style = TopStyle::kPlain;
    std::string text;
  };
  struct Column {
    std::string head;
    size_t width = 0;  // of the widest cell, where all are shown
    int rank = 0;      // the highest go first when there is no room
    bool left = false, grows = false;
  };
  using Row = std::vector<Cell>;
  struct Table {
    std::vector<Column> columns;
    std::vector<Row> rows;
    std::vector<TopLevel> levels;
  };

  std::string Text(std::string_view text, size_t columns) const {
    return TerminalText(text, columns, size_.ascii);
  }
  Cell Value(const TopValue& value, const char* format, double scale = 1) const {
    if (!value.known()) return {TopStyle::kDim, std::string(s_.none)};
    return {value.stale_ms > 0 ? TopStyle::kDim : TopStyle::kPlain, Printed(format, value.value * scale)};
  }
  Cell Percent(const TopValue& value) const { return Value(value, "%.0f", 100); }
  Cell Degrees(const TopValue& value) const {
    if (!typed_.decimal || !value.known()) return Value(value, "%.0f");
    return Value({value.value * 1.8 + 32, value.stale_ms}, "%.0f");
  }
  Cell Whole(const TopValue& value) const {
    if (!value.known() || std::abs(value.value) > 9e15) return Value(value, "%.3g");
    return {value.stale_ms > 0 ? TopStyle::kDim : TopStyle::kPlain,
            CountText(static_cast<int64_t>(std::llround(value.value)))};
  }
  double MemoryScale() const { return typed_.decimal ? 1e-9 : 1.0 / (1 << 30); }
  std::string_view MemoryUnit() const { return typed_.decimal ? "GB" : "GiB"; }
  // "71.2/79.6"
  Cell Pair(const TopValue& value, const TopValue& of, const char* format, double scale) const {
    Cell cell = Value(value, format, scale);
    if (!value.known() && !of.known()) return cell;
    cell.text += "/" + Value(of, format, scale).text;
    return cell;
  }
  std::string Rate(const TopValue& value) const;
  std::string Energy(const TopValue& value) const;
  std::string Trend(const std::vector<double>& values, double top, size_t columns) const;
  std::string Clock(int64_t unix_ms) const;
  std::string Span(int64_t ms) const;
  std::vector<size_t> RowsOf(const TopNode& node, TopSection section) const {
    TopTyped list = typed_;
    list.section = section;
    return TopRows(node, list);
  }
  std::string_view Mark(TopLevel level) const {
    return level == TopLevel::kGood   ? s_.good
           : level == TopLevel::kLook ? s_.look
           : level == TopLevel::kAct  ? s_.act
                                      : s_.none;
  }
  static TopStyle StyleOf(TopLevel level) {
    return level == TopLevel::kGood   ? TopStyle::kGood
           : level == TopLevel::kLook ? TopStyle::kLook
           : level == TopLevel::kAct  ? TopStyle::kAct
                                      : TopStyle::kDim;
  }

  void Rule(std::string_view title, std::string_view more = {});
  void Note(std::string_view text, TopStyle style = TopStyle::kDim) {
    lines_.push_back({{style, "  " + Text(text, columns_ - 2)}});
  }
  void Lines(std::string_view text, TopStyle style = TopStyle::kPlain);
  // At most `most` lines, the head among them; the selected row is among those shown.
  void AddTable(Table table, size_t most, bool selectable);
  Table Gpus(const TopNode& node) const;
  Table Engines(const TopNode& node) const;
  Table Jobs(const TopNode& node) const;
  Table Events(const TopNode& node) const;
  Table Processes(const TopGpu& gpu) const;
  void Title(const TopNode& node);
  void Away(const TopNode& node);
  void Host(const TopNode& node);
  void Detail(const TopNode& node, size_t room);
  void Chart(const TopChart& chart, size_t from, size_t width, size_t height, std::vector<TopLine>& to) const;
  void Self(const TopNode& node);
  void Help();
  void All(const TopNode& node);
  void One(const TopNode& node);
  std::vector<TopLine> Finished();
  size_t Room() const {
    const size_t used = lines_.size() + 1;
    return size_.rows == 0 ? SIZE_MAX / 2 : size_.rows > used ? size_.rows - used : 0;
  }
  const TopTyped& typed_;
  const TopSize& size_;
  const Symbols& s_;
  const size_t columns_;
  std::vector<TopLine> lines_;
};

std::string Screen::Rate(const TopValue& value) const {
  if (!value.known()) return std::string(s_.none);
  if (value.value >= 0.995e9) return Printed("%.1f GB/s", value.value / 1e9);
  if (value.value >= 0.995e6) return Printed("%.1f MB/s", value.value / 1e6);
  return Printed("%.0f kB/s", value.value / 1e3);
}

std::string Screen::Energy(const TopValue& value) const {
  if (!value.known()) return std::string(s_.none);
  if (value.value >= 3.6e6) return Printed("%.1f kWh", value.value / 3.6e6);
  if (value.value >= 1e4) return Printed("%.0f kJ", value.value / 1e3);
  return CountText(std::llround(value.value)) + " J";
}

std::string Screen::Trend(const std::vector<double>& values, double top, size_t columns) const {
  std::string out;
  for (size_t i = 0; i < columns; ++i) {
    if (i + values.size() < columns) {
      out += ' ';
      continue;
    }
    const double value = values[i + values.size() - columns];
    if (std::isnan(value) || !(top > 0)) {
      out += ' ';
      continue;
    }
    const double share = std::clamp(value / top, 0.0, 1.0);
    out += s_.bars[std::min<size_t>(7, static_cast<size_t>(share * 8))];
  }
  return out;
}

std::string Screen::Clock(int64_t unix_ms) const {
  const int64_t second = ((unix_ms / 1000 + size_.utc_offset_s) % 86400 + 86400) % 86400;
  char text[16];
  std::snprintf(text, sizeof text, "%02d:%02d:%02d", static_cast<int>(second / 3600),
                static_cast<int>(second / 60 % 60), static_cast<int>(second % 60));
  return text;
}

std::string Screen::Span(int64_t ms) const {
  const int64_t s = std::max<int64_t>(0, ms / 1000);
  if (s < 60) return std::to_string(s) + " s";
  if (s < 3600) return std::to_string(s / 60) + " m " + std::to_string(s % 60) + " s";
  if (s < 86400) return std::to_string(s / 3600) + " h " + std::to_string(s / 60 % 60) + " m";
  return std::to_string(s / 86400) + " d " + std::to_string(s / 3600 % 24) + " h";
}

void Screen::Rule(std::string_view title, std::string_view more) {
  std::string text = std::string(s_.rule) + std::string(s_.rule) + " " + std::string(title);
  if (!more.empty()) text += "   " + std::string(more);
  text = Text(text, columns_ - 1) + " ";
  size_t used = TerminalWidth(text);
  for (; used < columns_; ++used) text += s_.rule;
  lines_.push_back({{TopStyle::kDim, std::move(text)}});
}

// Breaks words; a line begins with two blanks.
void Screen::Lines(std::string_view text, TopStyle style) {
  std::string wrapped;
  wrapped += "  ";
  AppendWrapped(wrapped, Text(text, SIZE_MAX / 2), 2, 2, columns_);
  for (std::string_view rest = wrapped; !rest.empty();) {
    const size_t end = rest.find('\n');
    lines_.push_back({{style, Text(rest.substr(0, end), columns_)}});
    rest = end == rest.npos ? std::string_view() : rest.substr(end + 1);
  }
}

void Screen::AddTable(Table table, size_t most, bool selectable) {
  std::vector<Column>& columns = table.columns;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].grows) continue;
    columns[i].width = std::max(columns[i].width, TerminalWidth(columns[i].head));
    for (const Row& row : table.rows)
      columns[i].width = std::max(columns[i].width, TerminalWidth(row[i].text));
  }
  // The mark and the blank of a selected row come first.
  const size_t kFront = 2;
  std::vector<size_t> shown(columns.size());
  for (size_t i = 0; i < shown.size(); ++i) shown[i] = i;
  auto needed = [&] {
    size_t sum = kFront;
    for (size_t i : shown) sum += columns[i].width + 1;
    return sum;
  };
  while (shown.size() > 1 && needed() > columns_) {
    auto last = std::ranges::max_element(shown, {}, [&](size_t i) { return std::pair(columns[i].rank, i); });
    shown.erase(last);
  }
  // What is left goes to the columns that grow, the first of them up to three times its width.
  size_t left = columns_ > needed() ? columns_ - needed() : 0;
  size_t growing =
      static_cast<size_t>(std::ranges::count_if(shown, [&](size_t i) { return columns[i].grows; }));
  for (size_t i : shown) {
    if (!columns[i].grows) continue;
    // The last may be as wide as it is; between columns long blanks are hard to follow.
    const size_t more =
        i == shown.back() ? left : std::min(growing > 1 ? left / 2 : left, columns[i].width * 2);
    columns[i].width += more;
    left -= more;
    --growing;
  }
  auto put = [&](TopLine& line, const Column& column, const Cell& cell, bool last) {
    std::string text = Text(cell.text, column.width);
    const size_t pad = column.width - TerminalWidth(text);
    std::string blank(1, ' ');
    if (!column.left) blank.append(pad, ' ');
    line.push_back({TopStyle::kPlain, std::move(blank)});
    if (column.left && !last) text.append(pad, ' ');
    line.push_back({cell.style, std::move(text)});
  };
  TopLine head{{TopStyle::kPlain, "  "}};
  for (size_t i : shown) put(head, columns[i], {TopStyle::kDim, columns[i].head}, i == shown.back());
  lines_.push_back(std::move(head));
  if (most < 2) return;
  size_t rows = std::min(table.rows.size(), most - 1), first = 0;
  if (selectable && typed_.selected >= rows)
    first = std::min(typed_.selected, table.rows.size() - 1) + 1 - rows;
  for (size_t r = first; r < first + rows; ++r) {
    const bool selected =
        selectable && r == std::min(typed_.selected, table.rows.size() - 1) && size_.rows != 0;
    TopLine line{{TopStyle::kStrong, std::string(selected ? s_.select : " ")},
                 {StyleOf(table.levels[r]), std::string(Mark(table.levels[r]))}};
    for (size_t i : shown) {
      Cell cell = table.rows[r][i];
      // The trend takes the room that there is.
      if (selected && cell.style == TopStyle::kPlain) cell.style = TopStyle::kStrong;
      put(line, columns[i], cell, i == shown.back());
    }
    lines_.push_back(std::move(line));
  }
}

Screen::Table Screen::Gpus(const TopNode& node) const {
  Table table;
  const size_t trend = std::min<size_t>(30, std::max<size_t>(9, columns_ / 6 - 4));
  table.columns = {{"GPU", 3, 0},
                   {"BUSY %", 4 + 1 + trend, 0, true},
                   {"SM %", 4, 9},
                   {"TENS %", 6, 10},
                   {"MEM " + std::string(MemoryUnit()), 9, 1},
                   {"POWER W", 7, 2},
                   {typed_.decimal ? "F" : "C", 3, 3},
                   {"HBM", 3, 12},
                   {"MHz", 5, 13},
                   {"LINK GB/s", 4, 6},
                   {"PCIE", 4, 14},
                   {"J/TOKEN", 5, 7},
                   {"ENERGY", 8, 11},
                   {"HEALTH", 3, 15},
                   {"HELD DOWN BY", 0, 8, true},
                   {"RUNS", 10, 5, true, true}};
  if (!size_.ascii) table.columns[6].head = typed_.decimal ? "°F" : "°C";
  // On a narrow screen the trend goes before what runs.
  if (columns_ < 72) table.columns[1].width = 4;
  for (size_t i : RowsOf(node, TopSection::kGpus)) {
    const TopGpu& gpu = node.gpus[i];
    Cell busy = Percent(gpu.busy);
    busy.text = std::string(4 - std::min<size_t>(4, TerminalWidth(busy.text)), ' ') + busy.text;
    if (columns_ >= 72) busy.text += " " + Trend(gpu.busy_trend, 1, trend);
    std::string pcie(s_.none);
    if (gpu.pcie_gen.known() && gpu.pcie_width.known())
      pcie = Printed("%.0f", gpu.pcie_gen.value) + " x" + Printed("%.0f", gpu.pcie_width.value);
    const bool narrow = gpu.pcie_width.known() && gpu.pcie_width.value < gpu.pcie_width_max.value;
    Cell held{TopStyle::kPlain, std::string(s_.none)};
    if (!gpu.throttle_cause.empty()) {
      held = {TopStyle::kLook, gpu.throttle_cause};
      if (gpu.throttled.known() && gpu.throttled.value > 0)
        held.text += " " + Printed("%.0f %%", gpu.throttled.value * 100);
    } else {
      held.style = TopStyle::kDim;
    }
    // The age of old values, what is wrong, and who runs there.
    Cell runs{TopStyle::kPlain, gpu.runs};
    int64_t oldest = 0;
    for (const TopValue* value : {&gpu.busy, &gpu.memory_used, &gpu.power})
      oldest = std::max(oldest, value->stale_ms);
    if (!gpu.trouble.empty()) {
      runs.style = StyleOf(gpu.level);
      runs.text = gpu.trouble + (gpu.runs.empty() ? "" : "  " + gpu.runs);
    } else if (runs.text.empty()) {
      runs = {TopStyle::kDim, std::string(s_.none)};
    }
    if (oldest > 0) runs.text = "~" + Span(oldest) + "  " + runs.text;
    table.rows.push_back({{TopStyle::kPlain, gpu.index},
                          busy,
                          Percent(gpu.sm),
                          Percent(gpu.tensor),
                          Pair(gpu.memory_used, gpu.memory_total, "%.1f", MemoryScale()),
                          Pair(gpu.power, gpu.power_limit, "%.0f", 1),
                          Degrees(gpu.core),
                          Degrees(gpu.hbm),
                          Whole(gpu.clock),
                          Value(gpu.links, "%.0f", 1e-9),
                          {narrow                 ? TopStyle::kLook
                           : gpu.pcie_gen.known() ? TopStyle::kPlain
                                                  : TopStyle::kDim,
                           pcie},
                          Value(gpu.joules_per_token, "%.2f"),
                          {gpu.energy.known() ? TopStyle::kPlain : TopStyle::kDim, Energy(gpu.energy)},
                          Percent(gpu.health),
                          held,
                          runs});
    table.levels.push_back(gpu.level);
  }
  return table;
}

Screen::Table Screen::Engines(const TopNode& node) const {
  Table table;
  table.columns = {{"ENGINE", 14, 0, true}, {"MODEL", 12, 4, true, true},
                   {"RUN", 4, 0},           {"WAIT", 4, 1},
                   {"KV %", 4, 2},          {"TOK/S", 6, 3},
                   {"TTFT ms", 7, 5},       {"ITL ms", 6, 6},
                   {"HITS %", 4, 8},        {"E2E s", 6, 9},
                   {"STATE", 4, 7, true}};
  for (size_t i : RowsOf(node, TopSection::kEngines)) {
    const TopEngine& engine = node.engines[i];
    std::string name = engine.engine.empty() || engine.engine == engine.name
                           ? engine.name
                           : engine.engine + " " + engine.name;
    const size_t slash = engine.model.rfind('/');
    table.rows.push_back(
        {{TopStyle::kPlain, Text(name, std::max<size_t>(16, columns_ / 4))},
         {TopStyle::kPlain, engine.model.empty()         ? std::string(s_.none)
                            : slash == std::string::npos ? engine.model
                                                         : engine.model.substr(slash + 1)},
         Whole(engine.running),
         Whole(engine.waiting),
         Percent(engine.kv),
         Whole(engine.tokens),
         Value(engine.ttft, "%.0f", 1e3),
         Value(engine.itl, "%.1f", 1e3),
         Percent(engine.prefix_hits),
         Value(engine.latency, "%.2f"),
         {engine.level == TopLevel::kGood ? TopStyle::kPlain : StyleOf(engine.level), engine.state}});
    table.levels.push_back(engine.level);
  }
  return table;
}

Screen::Table Screen::Jobs(const TopNode& node) const {
  Table table;
  table.columns = {{"WHO", 20, 0, true, true}, {"GPUS", 8, 1, true},
                   {"BUSY %", 4, 2},           {"MEM " + std::string(MemoryUnit()), 6, 4},
                   {"POWER W", 6, 3},          {"ENERGY", 9, 5},
                   {"COST USD", 8, 6}};
  for (size_t i : RowsOf(node, TopSection::kJobs)) {
    const TopJob& job = node.jobs[i];
    std::string gpus = Joined(job.gpus, ",");
    if (job.gpus.size() > 6) gpus = std::to_string(job.gpus.size()) + " GPUs";
    table.rows.push_back({{TopStyle::kPlain, job.who},
                          {TopStyle::kPlain, gpus},
                          Percent(job.busy),
                          Value(job.memory, "%.1f", MemoryScale()),
                          Whole(job.power),
                          {job.energy.known() ? TopStyle::kPlain : TopStyle::kDim, Energy(job.energy)},
                          Value(job.cost, job.cost.value < 1 ? "%.6f" : "%.2f")});
    table.levels.push_back(job.level);
  }
  return table;
}

Screen::Table Screen::Events(const TopNode& node) const {
  Table table;
  table.columns = {
      {"TIME", 8, 0, true}, {"GPU", 3, 1, true}, {"WHAT", 20, 0, true, true}, {"WHO", 4, 2, true}};
  for (size_t i : RowsOf(node, TopSection::kEvents)) {
    const TopEvent& event = node.events[i];
    table.rows.push_back({{TopStyle::kPlain, Clock(event.at_ms)},
                          {TopStyle::kPlain, event.gpu.empty() ? std::string(s_.none) : event.gpu},
                          {TopStyle::kPlain, event.text},
                          {TopStyle::kPlain, Text(event.who, 24)}});
    table.levels.push_back(event.level);
    if (table.rows.size() >= 1000) break;
  }
  return table;
}

Screen::Table Screen::Processes(const TopGpu& gpu) const {
  Table table;
  table.columns = {{"PID", 7, 0},        {"PROCESS", 12, 0, true, true},
                   {"USER", 6, 3, true}, {"MEM " + std::string(MemoryUnit()), 6, 1},
                   {"BUSY %", 4, 2},     {"WHERE", 10, 4, true, true}};
  std::vector<const TopProcess*> processes;
  for (const TopProcess& process : gpu.processes) processes.push_back(&process);
  SortStably(processes, [](const TopProcess* a, const TopProcess* b) {
    return (a->memory.known() ? a->memory.value : -1) > (b->memory.known() ? b->memory.value : -1);
  });
  for (const TopProcess* process : processes) {
    table.rows.push_back(
        {{TopStyle::kPlain, process->pid},
         {TopStyle::kPlain, process->name},
         {TopStyle::kPlain, process->user.empty() ? std::string(s_.none) : process->user},
         Value(process->memory, "%.1f", MemoryScale()),
         Percent(process->busy),
         {TopStyle::kPlain, process->where.empty() ? std::string(s_.none) : process->where}});
    table.levels.push_back(TopLevel::kGood);
  }
  return table;
}

// "8 × H100 80GB HBM3", or all models.
std::string ModelsOf(const TopNode& node, std::string_view times) {
  std::vector<std::pair<std::string, size_t>> models;
  for (const TopGpu& gpu : node.gpus) {
    std::string_view model = gpu.model;
    for (std::string_view vendor : {"NVIDIA ", "AMD "}) {
      if (model.starts_with(vendor)) model.remove_prefix(vendor.size());
    }
    auto at = std::ranges::find(models, model, [](const auto& one) { return std::string_view(one.first); });
    if (at == models.end()) models.emplace_back(model, 1);
    else ++at->second;
  }
  std::string out;
  for (const auto& [model, count] : models) {
    if (!out.empty()) out += ", ";
    out += std::to_string(count) + " " + std::string(times) + " " + (model.empty() ? "GPU" : model);
  }
  return out;
}

struct Faults {
  size_t act = 0, look = 0, unknown = 0;
  bool any = false;  // there is a GPU or an engine
};

Faults FaultsOf(const TopNode& node) {
  Faults faults;
  faults.any = !node.gpus.empty() || !node.engines.empty();
  for (const TopGpu& gpu : node.gpus) {
    faults.act += gpu.level == TopLevel::kAct;
    faults.look += gpu.level == TopLevel::kLook;
    faults.unknown += gpu.level == TopLevel::kUnknown;
  }
  for (const TopEngine& engine : node.engines) {
    faults.act += engine.level == TopLevel::kAct;
    faults.look += engine.level == TopLevel::kLook;
  }
  return faults;
}

void Screen::Title(const TopNode& node) {
  const auto [act, look, unknown, any] = FaultsOf(node);
  std::string right;
  if (typed_.paused_ms >= 0) right = "PAUSED " + Span(typed_.paused_ms);
  else if (node.at_ms > 0) right = Printed("%g s  ", node.interval_s) + Clock(node.at_ms);
  TopLine line{{TopStyle::kStrong, "gpulens top"}};
  size_t room = columns_ - std::min(columns_, 11 + 2 + TerminalWidth(right));
  // The parts from the left, as many as fit; what is made up is always reported.
  std::vector<TopRun> parts;
  parts.push_back({TopStyle::kPlain, Text(node.name, 40)});
  if (node.simulated) parts.push_back({TopStyle::kLook, "SIMULATED"});
  if (node.away_since_ms > 0) parts.push_back({TopStyle::kAct, std::string(s_.act) + " away"});
  if (act > 0) parts.push_back({TopStyle::kAct, std::string(s_.act) + " " + Plural(act, "fault", "faults")});
  if (look > 0)
    parts.push_back({TopStyle::kLook, std::string(s_.look) + " " + Plural(look, "warning", "warnings")});
  if (unknown > 0)
    parts.push_back(
        {TopStyle::kLook, std::string(s_.none) + " " + Plural(unknown, "GPU", "GPUs") + " not known"});
  if (act + look + unknown == 0 && any && node.at_ms > 0 && node.away_since_ms == 0)
    parts.push_back({TopStyle::kGood, std::string(s_.good) + " fine"});
  if (node.direct) parts.push_back({TopStyle::kPlain, "no agent: read by this process"});
  if (const std::string models = ModelsOf(node, s_.times); !models.empty())
    parts.push_back({TopStyle::kPlain, models});
  if (!node.driver.empty()) parts.push_back({TopStyle::kDim, "driver " + Text(node.driver, 20)});
  for (TopRun& part : parts) {
    part.text = Text(part.text, columns_);
    const bool must = part.text == "SIMULATED";
    if (TerminalWidth(part.text) + 2 > room && !must) {
      if (&part != &parts.front()) continue;
      const size_t kept = node.simulated ? 11 : 0;
      part.text = Text(part.text, room > kept + 4 ? room - kept - 2 : 4);
    }
    room -= std::min(room, TerminalWidth(part.text) + 2);
    line.push_back({TopStyle::kPlain, "  "});
    line.push_back(std::move(part));
  }
  size_t used = 0;
  for (const TopRun& run : line) used += TerminalWidth(run.text);
  if (used + 1 + TerminalWidth(right) <= columns_) {
    line.push_back({TopStyle::kPlain, std::string(columns_ - used - TerminalWidth(right), ' ')});
    line.push_back({typed_.paused_ms >= 0 ? TopStyle::kLook : TopStyle::kDim, right});
  }
  lines_.push_back(std::move(line));
}

void Screen::Away(const TopNode& node) {
  if (node.away_since_ms == 0) return;
  std::string text = std::string(s_.act) + " no data for " + Span(size_.now_ms - node.away_since_ms) +
                     ", trying again: " + node.away_why;
  lines_.push_back({{TopStyle::kAct, Text(text, columns_)}});
}

void Screen::Host(const TopNode& node) {
  const TopHost& host = node.host;
  std::vector<std::string> parts;
  if (host.cpu.known())
    parts.push_back("cpu " + Percent(host.cpu).text + " %" +
                    (columns_ >= 72 ? " " + Trend(host.cpu_trend, 1, columns_ >= 140 ? 22 : 8) : ""));
  if (host.memory_total.known())
    parts.push_back("mem " +
                    Pair(host.memory_used, host.memory_total,
                         host.memory_total.value > 128e9 ? "%.0f" : "%.1f", MemoryScale())
                        .text +
                    " " + std::string(MemoryUnit()));
  if (host.net_in.known() || host.net_out.known())
    parts.push_back("net " + std::string(s_.down) + Rate(host.net_in) + " " + std::string(s_.up) +
                    Rate(host.net_out));
  if (host.disk_read.known() || host.disk_write.known())
    parts.push_back("disk r " + Rate(host.disk_read) + " w " + Rate(host.disk_write));
  if (host.rdma_in.known() && columns_ >= 120)
    parts.push_back("rdma " + std::string(s_.down) + Rate(host.rdma_in) + " " + std::string(s_.up) +
                    Rate(host.rdma_out));
  if (host.swap.known() && host.swap.value > 0)
    parts.push_back("swap " + Value(host.swap, "%.1f", MemoryScale()).text + " " + std::string(MemoryUnit()));
  if (host.pressure_cpu.known() || host.pressure_io.known())
    parts.push_back("pressure cpu " + Percent(host.pressure_cpu).text + " % mem " +
                    Percent(host.pressure_memory).text + " % io " + Percent(host.pressure_io).text + " %");
  std::string text;
  for (const std::string& part : parts) {
    if (TerminalWidth(text) + (text.empty() ? 0 : 3) + TerminalWidth(part) > columns_) break;
    text += (text.empty() ? "" : "   ") + part;
  }
  if (text.empty()) text = node.at_ms == 0 ? "waiting for the first values" : "nothing is known of the host";
  lines_.push_back({{TopStyle::kPlain, Text(text, columns_)}});
}

void Screen::Chart(const TopChart& chart, size_t from, size_t width, size_t height,
                   std::vector<TopLine>& to) const {
  double top = chart.top;
  for (double value : chart.values) {
    if (chart.top <= 0 && !std::isnan(value)) top = std::max(top, value * chart.scale);
  }
  if (!(top > 0)) top = 1;
  const size_t axis = 7, plot = width > axis + 4 ? width - axis - 1 : 4;
  auto add = [&](size_t line, TopStyle style, std::string text) {
    if (to.size() <= line) to.resize(line + 1);
    size_t used = 0;
    for (const TopRun& run : to[line]) used += TerminalWidth(run.text);
    if (used < from) to[line].push_back({TopStyle::kPlain, std::string(from - used, ' ')});
    to[line].push_back({style, std::move(text)});
  };
  add(0, TopStyle::kStrong, Text(std::string(axis + 1, ' ') + chart.title + " " + chart.unit, width));
  for (size_t row = 0; row < height; ++row) {
    std::string label(axis, ' ');
    if (row == 0) label = RightAligned(Printed("%.4g", top), axis - 1) + " ";
    if (row == height - 1) label = RightAligned("0", axis - 1) + " ";
    std::string line = label + (size_.ascii ? "|" : "┤");
    for (size_t column = 0; column < plot; ++column) {
      const size_t count = chart.values.size();
      // The newest value is at the right.
      const size_t at = count * column / plot;
      const double value = count == 0 ? kNotMeasured : chart.values[std::min(at, count - 1)];
      if (std::isnan(value)) {
        line += ' ';
        continue;
      }
      const double level = std::clamp(value * chart.scale / top, 0.0, 1.0) * static_cast<double>(height);
      const double above = level - static_cast<double>(height - 1 - row);
      if (above >= 1) line += s_.bars[7];
      else if (above > 0) line += s_.bars[std::min<size_t>(7, static_cast<size_t>(above * 8))];
      else line += row == height - 1 ? s_.bars[0] : std::string_view(" ");
    }
    add(row + 1, TopStyle::kPlain, std::move(line));
  }
  const std::string ago = "-" + std::to_string(typed_.window_s / 60) + " min";
  std::string foot = std::string(axis + 1, ' ') + ago;
  if (foot.size() + 4 < width) foot += std::string(width - foot.size() - 4, ' ') + "now";
  add(height + 1, TopStyle::kDim, Text(foot, width));
}

void Screen::Detail(const TopNode& node, size_t room) {
  const std::vector<size_t> rows = RowsOf(node, TopSection::kGpus);
  if (rows.empty()) {
    Rule("2 GPU");
    return Note("No GPU to show.");
  }
  const TopGpu& gpu = node.gpus[rows[std::min(typed_.selected, rows.size() - 1)]];
  Rule("2 GPU " + gpu.index + "   last " + std::to_string(typed_.window_s / 60) + " min",
       columns_ >= 72 ? "Tab: next charts   Esc: back" : "");
  const size_t side = columns_ >= 110 ? 2 : 1, width = side == 2 ? columns_ / 2 - 1 : columns_;
  // Below the charts: facts, and a few processes. A chart has a title, a foot, and at least four lines.
  const size_t below = 5 + std::min<size_t>(gpu.processes.size(), 6);
  const size_t free = room == SIZE_MAX / 2 ? 16 : room > below + 6 ? room - below : 6;
  const size_t bands =
      std::clamp<size_t>(free / 10, 1, std::max<size_t>(1, (node.charts.size() + side - 1) / side));
  const size_t height = std::min<size_t>(free / bands - 2, 12);
  if (node.charts.empty())
    Note(node.away_since_ms > 0 ? "no charts while the node is away" : "reading the history");
  for (size_t band = 0; band < bands && !node.charts.empty(); ++band) {
    std::vector<TopLine> charts;
    for (size_t i = 0; i < side && band * side + i < node.charts.size(); ++i)
      Chart(node.charts[(typed_.chart + band * side + i) % node.charts.size()], i * (width + 2), width,
            height, charts);
    for (TopLine& line : charts) lines_.push_back(std::move(line));
  }
  std::string facts = gpu.uuid.empty() ? "" : "uuid " + gpu.uuid;
  auto fact = [&](std::string_view name, const std::string& text) {
    if (!text.empty()) facts.append(facts.empty() ? "" : ", ").append(name).append(" ").append(text);
  };
  fact("model", gpu.model);
  fact("pci", gpu.pci);
  fact("numa", gpu.numa);
  fact("state", gpu.driver_state.empty() ? std::string(s_.none) : gpu.driver_state);
  if (!gpu.trouble.empty()) fact("trouble:", gpu.trouble);
  if (gpu.clock.known())
    fact("clock",
         Whole(gpu.clock).text + (gpu.clock_max.known() ? " of " + Whole(gpu.clock_max).text : "") + " MHz");
  if (gpu.pcie_gen.known())
    fact("pcie", "gen " + Whole(gpu.pcie_gen).text + " x" + Whole(gpu.pcie_width).text + ", can be gen " +
                     Whole(gpu.pcie_gen_max).text + " x" + Whole(gpu.pcie_width_max).text);
  fact("ecc",
       Whole(gpu.ecc_corrected).text + " corrected " + Whole(gpu.ecc_uncorrected).text + " uncorrected");
  if (gpu.rows_remapped.known()) fact("rows remapped", Whole(gpu.rows_remapped).text);
  if (gpu.fan.known()) fact("fan", Percent(gpu.fan).text + " %");
  if (gpu.energy.known()) fact("energy", Energy(gpu.energy));
  Lines(facts);
  if (gpu.processes.empty()) return Note("no process has a context on this GPU, or none may be seen");
  AddTable(Processes(gpu), Room() < 2 ? 2 : Room(), false);
}

void Screen::Self(const TopNode& node) {
  const TopSelf& self = node.self;
  Rule("6 gpulens itself", node.version.empty() ? "" : "version " + node.version);
  std::string text = "read by " + node.address;
  if (!node.why_direct.empty()) text += " (" + node.why_direct + ")";
  auto fact = [&](std::string_view name, const std::string& value) {
    text.append(", ").append(name).append(" ").append(value);
  };
  fact("memory", Value(self.memory, "%.1f MB", 1e-6).text);
  fact("cpu", Value(self.cpu, "%.1f", 100).text + " % of a core");
  fact("series",
       Whole(self.series).text + (self.series_limit.known() ? " of " + Whole(self.series_limit).text : ""));
  fact("refused", Whole(self.refused).text);
  fact("rejected readings", Whole(self.rejected).text);
  fact("tick", Value(self.tick_duration, "%.2f ms", 1e3).text);
  if (node.history_s > 0) fact("history", Span(static_cast<int64_t>(node.history_s * 1000)));
  Lines(text);
  std::string up, down;
  for (const TopSelf::Part& part : self.collectors) (part.up ? up : down) += " " + part.name;
  if (!up.empty()) Lines("collectors that read:" + up);
  if (!down.empty()) Lines("not here, or not readable:" + down + "   why: gpulens doctor", TopStyle::kDim);
  up.clear();
  down.clear();
  for (const TopSelf::Part& part : self.sinks) (part.up ? up : down) += " " + part.name;
  if (!up.empty()) Lines("sinks that deliver:" + up);
  if (!down.empty()) Lines("sinks that do not deliver:" + down, TopStyle::kLook);
}

constexpr std::string_view kHelp[][2] = {
    {"up down j k", "select a row"},
    {"Enter", "the GPU in detail; a node of several"},
    {"Esc", "back"},
    {"1 2 3 4 5 6", "one section alone: GPUs, GPU in detail, engines, jobs and pods, events, gpulens itself"},
    {"Tab", "next charts"},
    {"s", "sort the GPUs: index, busy, memory, power, temperature"},
    {"/", "show rows with a text; Enter ends it, Esc removes it"},
    {"t", "window of the charts: 1 m, 5 m, 1 h"},
    {"u", "GiB and degrees Celsius, or GB and Fahrenheit"},
    {"p", "pause"},
    {"y", "copy the selected row (OSC 52)"},
    {"w", "write the data as JSON to a file"},
    {"q", "quit"},
};

void Screen::Help() {
  Rule("keys");
  for (const auto& [key, what] : kHelp) {
    const std::string text = Text(what, columns_ > 18 ? columns_ - 16 : 4);
    lines_.push_back({{TopStyle::kTyped, Padded("  " + std::string(key), 15, 1)}, {TopStyle::kPlain, text}});
  }
  Rule("symbols");
  Lines(std::string(s_.good) + " good   " + std::string(s_.look) + " look   " + std::string(s_.act) +
        " act   " + std::string(s_.none) +
        " not known   ~4 s: a value of that age   a gap in a trend: not read");
}

void Screen::All(const TopNode& node) {
  const size_t room = Room();
  Table tables[] = {Gpus(node), Engines(node), Jobs(node), Events(node)};
  // Lines around the rows of each: a rule, and a head.
  const size_t around[] = {1, 2, 2, 2};
  size_t least[4], want[4], given[4] = {};
  for (size_t i = 0; i < 4; ++i) {
    const size_t rows = tables[i].rows.size();
    want[i] = rows == 0 ? (i == 0 ? 2 : 1) : around[i] + rows;
    least[i] = rows == 0 ? want[i] : around[i] + 1;
  }
  // GPUs come first, then the others from above; what is left is shared in turn.
  size_t left = room;
  for (size_t i = 0; i < 4; ++i) {
    given[i] = i == 0 ? std::min(want[0], std::max(least[0], room > 8 ? room - 6 : room)) : least[i];
    if (given[i] > left) given[i] = 0;
    left -= given[i];
  }
  for (bool more = true; more && left > 0;) {
    more = false;
    for (size_t i = 0; i < 4 && left > 0; ++i) {
      if (given[i] == 0 || given[i] >= want[i]) continue;
      ++given[i], --left;
      more = true;
    }
  }
  const bool filtered = !typed_.filter.empty();
  auto count = [&](size_t i, std::string_view one, std::string_view many) {
    const size_t rows = tables[i].rows.size(), shown = given[i] > around[i] ? given[i] - around[i] : 0;
    std::string text = Plural(rows, one, many);
    if (shown < rows) text += ", " + std::to_string(shown) + " shown";
    return text;
  };
  if (given[0] > 0 && tables[0].rows.empty()) {
    if (filtered && !node.gpus.empty()) Note("No GPU has \"" + typed_.filter + "\". Esc removes the filter.");
    else if (node.at_ms == 0) Note("");
    else
      Note("No GPU is read here: gpulens doctor. What it looks like: gpulens top --demo", TopStyle::kPlain);
  } else if (given[0] > 0) {
    AddTable(std::move(tables[0]), given[0], true);
  }
  if (given[1] > 0 && tables[1].rows.empty())
    Rule("no engine found", columns_ >= 72 ? "set targets, or see gpulens doctor" : "");
  else if (given[1] > 0) {
    Rule(count(1, "engine", "engines"), columns_ >= 72 ? "TTFT, ITL: p95 of the last 60 s" : "");
    AddTable(std::move(tables[1]), given[1] - 1, false);
  }
  if (given[2] > 0 && tables[2].rows.empty()) Rule("no job or pod has a GPU");
  else if (given[2] > 0) {
    Rule(count(2, "job or pod", "jobs and pods"),
         columns_ >= 72 ? "energy and cost since the agent started" : "");
    AddTable(std::move(tables[2]), given[2] - 1, false);
  }
  if (given[3] > 0 && tables[3].rows.empty())
    Rule(node.events_known ? "no event in the last hour" : "events are not known");
  else if (given[3] > 0) {
    Rule(count(3, "event", "events"), columns_ >= 72 ? "of the last hour" : "");
    AddTable(std::move(tables[3]), given[3] - 1, false);
  }
  if (size_.rows == 0 || left >= 5) Self(node);
}

void Screen::One(const TopNode& node) {
  const size_t room = Room();
  const std::string filter = typed_.filter.empty() ? "none" : typed_.filter;
  Table table;
  std::string empty;
  switch (typed_.section) {
    case TopSection::kGpus:
      Rule("1 GPUs", "sort: " + std::string(TopSortName(typed_.sort)) + "   filter: " + filter);
      table = Gpus(node);
      empty = "No GPU is read here: gpulens doctor. What it looks like: gpulens top --demo";
      break;
    case TopSection::kEngines:
      Rule("3 engines", "filter: " + filter);
      table = Engines(node);
      empty = "No engine found. Engines on this machine are found by themselves; others: set targets";
      break;
    case TopSection::kJobs:
      Rule("4 jobs and pods", "energy and cost since the agent started");
      table = Jobs(node);
      empty = "No job or pod has a GPU, or none may be seen: gpulens doctor";
      break;
    case TopSection::kEvents:
      Rule("5 events", "of the last hour   filter: " + filter);
      table = Events(node);
      empty = node.events_known ? "No event in the last hour."
                                : "Events are not known: the node does not report them.";
      break;
    case TopSection::kGpu: return Detail(node, room);
    case TopSection::kSelf: return Self(node);
    case TopSection::kAll: return;
  }
  if (table.rows.empty())
    return Note(typed_.filter.empty() ? empty
                                      : "No row has \"" + typed_.filter + "\". Esc removes the filter.");
  AddTable(std::move(table), room > 1 ? room - 1 : 1, true);
}

std::vector<TopLine> Screen::Finished() {
  if (size_.rows == 0) return std::move(lines_);
  if (lines_.size() > size_.rows - 1) lines_.resize(size_.rows - 1);
  lines_.resize(size_.rows - 1);
  if (typed_.filtering) {
    lines_.push_back({{TopStyle::kTyped, "/"}, {TopStyle::kPlain, Text(typed_.filter, columns_ - 2)}});
  } else if (!typed_.message.empty()) {
    lines_.push_back({{TopStyle::kLook, Text(typed_.message, columns_)}});
  } else {
    TopLine line;
    size_t used = 0;
    const std::pair<std::string, std::string_view> keys[] = {
        {std::string(s_.up) + std::string(s_.down), "select"},
        {"Enter", "detail"},
        {"1-6", "section"},
        {"q", "quit"},
        {"?", "help"},
        {"s", "sort"},
        {"/", "filter"},
        {"p", "pause"},
        {"Tab", "charts"},
        {"t", "1m 5m 1h"},
        {"u", "units"},
        {"y", "copy"},
        {"w", "write JSON"}};
    for (const auto& [key, what] : keys) {
      const size_t width = TerminalWidth(key) + 1 + what.size() + (used == 0 ? 0 : 2);
      if (used + width > columns_) break;
      line.push_back({TopStyle::kTyped, (used == 0 ? "" : "  ") + key});
      line.push_back({TopStyle::kDim, " " + std::string(what)});
      used += width;
    }
    lines_.push_back(std::move(line));
  }
  return std::move(lines_);
}

std::vector<TopLine> Screen::Node(const TopNode& node) {
  Title(node);
  Away(node);
  if (typed_.help) Help();
  else {
    Host(node);
    if (typed_.section == TopSection::kAll) All(node);
    else One(node);
  }
  if (node.away_since_ms > 0) {
    // What is shown was true before.
    for (size_t i = 2; i < lines_.size(); ++i) {
      for (TopRun& run : lines_[i]) run.style = TopStyle::kDim;
    }
  }
  return Finished();
}

std::vector<TopLine> Screen::Nodes(std::span<const TopNode* const> nodes) {
  size_t away = 0, act = 0, look = 0;
  for (const TopNode* node : nodes) {
    const Faults faults = FaultsOf(*node);
    away += node->away_since_ms > 0;
    act += faults.act, look += faults.look;
  }
  std::string right = Clock(size_.now_ms);
  if (typed_.paused_ms >= 0) right = "PAUSED " + Span(typed_.paused_ms);
  std::string left = Plural(nodes.size(), "node", "nodes");
  if (away > 0) left += "  " + std::string(s_.act) + " " + std::to_string(away) + " away";
  if (act > 0) left += "  " + std::string(s_.act) + " " + Plural(act, "fault", "faults");
  if (look > 0) left += "  " + std::string(s_.look) + " " + Plural(look, "warning", "warnings");
  left = Text(left, columns_ - 14 - TerminalWidth(right));
  lines_.push_back(
      {{TopStyle::kStrong, "gpulens top"},
       {TopStyle::kPlain,
        "  " + left + std::string(columns_ - 13 - TerminalWidth(left) - TerminalWidth(right), ' ')},
       {TopStyle::kDim, right}});
  if (typed_.help) {
    Help();
    return Finished();
  }
  Table table;
  table.columns = {{"NODE", 16, 0, true},
                   {"GPUS", 4, 1},
                   {"BUSY %", 4, 0},
                   {"", 9, 5, true},
                   {"MEM " + std::string(MemoryUnit()), 9, 3},
                   {"POWER W", 6, 2},
                   {"C MAX", 3, 4},
                   {"TOK/S", 6, 6},
                   {"STATE", 20, 0, true, true}};
  for (const TopNode* node : nodes) {
    TopValue busy, used, total, power, hottest, tokens;
    double known = 0;
    auto add = [](TopValue& to, const TopValue& value) {
      if (!value.known()) return;
      to.value = to.known() ? to.value + value.value : value.value;
      to.stale_ms = std::max(to.stale_ms, value.stale_ms);
    };
    std::vector<double> trend;
    for (const TopGpu& gpu : node->gpus) {
      add(busy, gpu.busy);
      known += gpu.busy.known();
      add(used, gpu.memory_used);
      add(total, gpu.memory_total);
      add(power, gpu.power);
      if (gpu.core.known() && !(hottest.value > gpu.core.value)) hottest = gpu.core;
      for (size_t i = 0; i < std::min<size_t>(9, gpu.busy_trend.size()); ++i) {
        if (trend.size() <= i) trend.push_back(kNotMeasured);
        const double value = gpu.busy_trend[gpu.busy_trend.size() - 1 - i];
        if (!std::isnan(value)) trend[i] = std::isnan(trend[i]) ? value : trend[i] + value;
      }
    }
    std::ranges::reverse(trend);
    if (busy.known()) busy.value /= known;
    // A router counts the tokens of the engines behind it again.
    for (const TopEngine& engine : node->engines)
      if (engine.layer != "router" && engine.layer != "gateway") add(tokens, engine.tokens);
    const auto [acts, looks, unknown, any] = FaultsOf(*node);
    TopLevel level = acts > 0              ? TopLevel::kAct
                     : looks > 0           ? TopLevel::kLook
                     : unknown > 0 || !any ? TopLevel::kUnknown
                                           : TopLevel::kGood;
    Cell state{StyleOf(level), level == TopLevel::kGood ? "fine" : any ? "" : "nothing to show"};
    auto put = [&](size_t count, std::string_view text) {
      if (count > 0) state.text.append(state.text.empty() ? "" : ", ").append(text);
    };
    put(acts, Plural(acts, "fault", "faults"));
    put(looks, Plural(looks, "warning", "warnings"));
    put(unknown, Plural(unknown, "GPU", "GPUs") + " not known");
    if (node->away_since_ms > 0) {
      level = TopLevel::kAct;
      state = {TopStyle::kAct,
               "away for " + Span(size_.now_ms - node->away_since_ms) + ": " + node->away_why};
    } else if (node->at_ms == 0) {
      level = TopLevel::kUnknown;
      state = {TopStyle::kDim, "waiting for the first values"};
    } else if (node->simulated) {
      state.text = "SIMULATED, " + state.text;
    }
    const bool old = node->away_since_ms > 0;
    auto shown = [&](Cell cell) {
      if (old) cell.style = TopStyle::kDim;
      return cell;
    };
    table.rows.push_back({{TopStyle::kPlain, Text(node->name.empty() ? node->address : node->name, 32)},
                          shown({TopStyle::kPlain, node->at_ms == 0 ? std::string(s_.none)
                                                                    : std::to_string(node->gpus.size())}),
                          shown(Percent(busy)),
                          shown({TopStyle::kPlain, Trend(trend, known > 0 ? known : 1, 9)}),
                          shown(Pair(used, total, "%.0f", MemoryScale())),
                          shown(Whole(power)),
                          shown(Degrees(hottest)),
                          shown(Whole(tokens)),
                          state});
    table.levels.push_back(level);
  }
  AddTable(std::move(table), Room() > 1 ? Room() : 2, true);
  return Finished();
}

bool Contains(std::string_view text, std::string_view part) {
  auto lower = [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); };
  return !std::ranges::search(text, part, {}, lower, lower).empty() || part.empty();
}

}  // namespace

size_t TerminalWidth(std::string_view text) noexcept {
  size_t width = 0;
  while (!text.empty()) width += PointWidth(TakePoint(text));
  return width;
}

std::string TerminalText(std::string_view text, size_t columns, bool ascii) {
  std::string clean = Printable(text);
  if (ascii) {
    std::string plain;
    for (std::string_view rest = clean; !rest.empty();) {
      const uint32_t point = TakePoint(rest);
      if (point == 0x2026) plain += '~';
      else if (point == 0x2013) plain += '-';
      else if (point == 0xd7) plain += 'x';
      else if (point < 0x80) plain += static_cast<char>(point);
      else plain.append(std::max<size_t>(PointWidth(point), 1), '?');
    }
    clean = std::move(plain);
  }
  if (TerminalWidth(clean) <= columns) return clean;
  if (columns == 0) return {};
  std::string out;
  size_t width = 0;
  for (std::string_view rest = clean; !rest.empty();) {
    const std::string_view before = rest;
    const size_t next = PointWidth(TakePoint(rest));
    if (width + next > columns - 1) break;
    width += next;
    out += before.substr(0, before.size() - rest.size());
  }
  out += ascii ? "~" : "…";
  return out;
}

std::string_view TopSortName(TopSort sort) noexcept {
  constexpr std::string_view kNames[kTopSorts] = {"index", "busy", "memory", "power", "temperature"};
  return kNames[static_cast<size_t>(sort)];
}

std::vector<size_t> TopRows(const TopNode& node, const TopTyped& typed) {
  std::vector<size_t> rows;
  auto take = [&](size_t count, auto fits) {
    for (size_t i = 0; i < count; ++i) {
      if (typed.filter.empty() || fits(i)) rows.push_back(i);
    }
  };
  auto has = [&](std::initializer_list<std::string_view> texts) {
    return std::ranges::any_of(texts, [&](std::string_view text) { return Contains(text, typed.filter); });
  };
  switch (typed.section) {
    case TopSection::kEngines:
      take(node.engines.size(), [&](size_t i) {
        const TopEngine& engine = node.engines[i];
        return has({engine.name, engine.engine, engine.model, engine.state});
      });
      // Those that serve models, then gateways, routers and caches.
      SortStably(rows, [&](size_t a, size_t b) {
        const bool x = node.engines[a].layer == "engine", y = node.engines[b].layer == "engine";
        return x && !y;
      });
      return rows;
    case TopSection::kJobs:
      take(node.jobs.size(), [&](size_t i) { return has({node.jobs[i].who, node.jobs[i].kind}); });
      return rows;
    case TopSection::kEvents:
      take(node.events.size(), [&](size_t i) {
        const TopEvent& event = node.events[i];
        return has({event.name, event.text, event.who, event.gpu});
      });
      return rows;
    case TopSection::kSelf: return rows;
    case TopSection::kAll:
    case TopSection::kGpus:
    case TopSection::kGpu: break;
  }
  take(node.gpus.size(), [&](size_t i) {
    const TopGpu& gpu = node.gpus[i];
    return has({gpu.index, gpu.uuid, gpu.model, gpu.runs, gpu.trouble});
  });
  auto number = [&](size_t i) {
    const TopGpu& gpu = node.gpus[i];
    const TopValue& value = typed.sort == TopSort::kBusy     ? gpu.busy
                            : typed.sort == TopSort::kMemory ? gpu.memory_used
                            : typed.sort == TopSort::kPower  ? gpu.power
                                                             : gpu.core;
    return value.known() ? -value.value : std::numeric_limits<double>::max();
  };
  SortStably(rows, [&](size_t a, size_t b) {
    if (typed.sort != TopSort::kIndex) return number(a) < number(b);
    const std::string &x = node.gpus[a].index, &y = node.gpus[b].index;
    return x.size() != y.size() ? x.size() < y.size() : x < y;
  });
  return rows;
}

std::vector<TopLine> TopScreen(const TopNode& node, const TopTyped& typed, const TopSize& size) {
  return Screen(typed, size).Node(node);
}

std::vector<TopLine> TopNodesScreen(std::span<const TopNode* const> nodes, const TopTyped& typed,
                                    const TopSize& size) {
  return Screen(typed, size).Nodes(nodes);
}

std::string TopPlainText(const std::vector<TopLine>& lines) {
  std::string out;
  for (const TopLine& line : lines) {
    std::string text;
    for (const TopRun& run : line) text += run.text;
    while (text.ends_with(' ')) text.pop_back();
    out += text + "\n";
  }
  return out;
}

}  // namespace gpulens

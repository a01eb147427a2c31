#include "sources/hl_smi/hl_smi_parse.h"

#include <algorithm>
#include <cmath>

#include "base/parse.h"
#include "base/raw_sentinel.h"
#include "base/text.h"

namespace gpulens::hl_smi {
namespace {

constexpr size_t kMostLine = 16u << 10;

struct Unit {
  std::string_view name;
  double times;
};
// The first is meant where no unit is written.
constexpr Unit kBytes[] = {{"MiB", 1048576}, {"KiB", 1024}, {"GiB", 1073741824}, {"B", 1}, {"MB", 1e6}};
constexpr Unit kWatts[] = {{"W", 1}, {"mW", 1e-3}};
constexpr Unit kCelsius[] = {{"C", 1}};
constexpr Unit kPercent[] = {{"%", 0.01}};
constexpr Unit kMegahertz[] = {{"MHz", 1}, {"GHz", 1000}};
constexpr Unit kPlain[] = {{"", 1}};

struct NumberColumn {
  std::string_view name;
  std::span<const Unit> units;
  std::optional<double> Card::* field;
};
constexpr NumberColumn kNumbers[] = {
    {"memory.total", kBytes, &Card::memory_total_bytes},
    {"memory.used", kBytes, &Card::memory_used_bytes},
    {"memory.free", kBytes, &Card::memory_free_bytes},
    {"power.draw", kWatts, &Card::power_draw_watts},
    {"power.max", kWatts, &Card::power_max_watts},
    {"temperature.aip", kCelsius, &Card::temperature_celsius},
    {"utilization.aip", kPercent, &Card::utilization},
    {"ecc.errors.uncorrected.volatile.total", kPlain, &Card::ecc_volatile},
    {"ecc.errors.uncorrected.aggregate.total", kPlain, &Card::ecc_aggregate},
    {"clocks.current.soc", kMegahertz, &Card::clock_soc_mhz},
    {"clocks.limit.soc", kMegahertz, &Card::clock_soc_limit_mhz},
    {"clocks.limit.tpc", kMegahertz, &Card::clock_tpc_limit_mhz},
    {"rows.replaced", kPlain, &Card::rows_replaced},
    {"rows.pending", kPlain, &Card::rows_pending},
};

struct TextColumn {
  std::string_view name;
  std::string Card::* field;
};
constexpr TextColumn kTexts[] = {
    {"uuid", &Card::uuid},
    {"name", &Card::name},
    {"serial", &Card::serial},
    {"bus_id", &Card::bus_id},
    {"driver_version", &Card::driver_version},
};

struct PlaceColumn {
  std::string_view name;
  std::optional<int> Card::* field;
};
constexpr PlaceColumn kPlaces[] = {{"index", &Card::index}, {"module_id", &Card::module_id}};

// What one column of the table is to us; all null: nothing.
struct Column {
  const NumberColumn* number = nullptr;
  const TextColumn* text = nullptr;
  const PlaceColumn* place = nullptr;
  std::string_view unit;  // from the header
  explicit operator bool() const noexcept { return number || text || place; }
};

std::string_view Cell(std::string_view& rest) {
  std::string_view cell = Trim(TakeUntil(rest, ','));
  if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"')
    cell = Trim(cell.substr(1, cell.size() - 2));
  return cell;
}

bool IsUnknown(std::string_view cell) {
  constexpr std::string_view kWords[] = {
      "", "-", "N/A", "NA", "n/a", "[N/A]", "Not Supported", "[Not Supported]", "unknown", "Unknown"};
  return std::find(std::begin(kWords), std::end(kWords), cell) != std::end(kWords);
}

// "memory.used [MiB]" is a name and a unit.
Column ColumnOf(std::string_view header) {
  Column column;
  size_t bracket = header.find('[');
  std::string_view name = Trim(header.substr(0, bracket));
  if (bracket != std::string_view::npos) {
    std::string_view unit = header.substr(bracket + 1);
    column.unit = Trim(TakeUntil(unit, ']'));
  }
  for (const auto& known : kNumbers) {
    if (known.name == name) column.number = &known;
  }
  for (const auto& known : kTexts) {
    if (known.name == name) column.text = &known;
  }
  for (const auto& known : kPlaces) {
    if (known.name == name) column.place = &known;
  }
  return column;
}

// A number with or without a unit behind it. Nothing: another unit, or no number.
std::optional<double> NumberOf(std::string_view cell, const Column& column) {
  size_t digits = cell.find_first_not_of("0123456789.");
  std::string_view unit = digits == std::string_view::npos ? std::string_view{} : Trim(cell.substr(digits));
  auto number = ParseDouble(cell.substr(0, digits));
  if (!number || !std::isfinite(*number)) return std::nullopt;
  // The tool prints what the driver gave it.
  constexpr double kAllBits16 = 65535, kAllBits32 = 4294967295;
  bool bytes = column.number->units.data() == kBytes;
  if (IsSentinel(*number) || *number == kAllBits32 || (!bytes && *number == kAllBits16)) return kSaysNothing;
  if (unit.empty()) unit = column.unit;
  const std::span<const Unit> units = column.number->units;
  if (unit.empty()) return *number * units.front().times;
  for (const Unit& known : units) {
    if (known.name == unit) return *number * known.times;
  }
  return std::nullopt;
}

bool SetCell(Card& card, const Column& column, std::string_view cell) {
  if (!column || IsUnknown(cell)) return true;
  if (column.text) {
    if (cell.size() > kMostText || !IsUtf8(cell)) return false;
    card.*(column.text->field) = cell;
    return true;
  }
  if (column.place) {
    auto number = ParseInt<uint16_t>(cell);
    if (number) card.*(column.place->field) = *number;
    return number.has_value();
  }
  auto number = NumberOf(cell, column);
  if (number) card.*(column.number->field) = *number;
  return number.has_value();
}

// The next line that is not blank; false at the end.
bool NextLine(std::string_view& rest, std::string_view& line) {
  while (!rest.empty()) {
    line = TakeUntil(rest, '\n');
    if (!Trim(line).empty()) return true;
  }
  return false;
}

std::vector<Column> ReadHeader(std::string_view line) {
  std::vector<Column> columns;
  size_t cells = static_cast<size_t>(std::count(line.begin(), line.end(), ',')) + 1;
  while (columns.size() < std::min(cells, kMostColumns)) {
    Column column = ColumnOf(Cell(line));
    bool twice = std::any_of(columns.begin(), columns.end(), [&](const Column& other) {
      return column && other.number == column.number && other.text == column.text &&
             other.place == column.place;
    });
    columns.push_back(twice ? Column{} : column);
  }
  return columns;
}

// The number behind the last "name:" of a line, wherever it stands in it.
std::optional<uint64_t> CountAfter(std::string_view line, std::string_view name) {
  size_t at = line.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = Trim(line.substr(at + name.size()));
  if (rest.empty() || rest.front() != ':') return std::nullopt;
  rest = Trim(rest.substr(1));
  return ParseInt<uint64_t>(rest.substr(0, rest.find_first_not_of("0123456789")));
}

// The small number behind a word: "port 7", "AIP 3 ".
std::optional<int> PlaceAfter(std::string_view line, std::string_view word) {
  size_t at = line.find(word);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = Trim(line.substr(at + word.size()));
  auto number = ParseInt<uint16_t>(rest.substr(0, rest.find_first_not_of("0123456789")));
  if (!number) return std::nullopt;
  return *number;
}

template <class... Names>
std::optional<uint64_t> FirstCount(std::string_view line, Names... names) {
  std::optional<uint64_t> found;
  (void)((found = CountAfter(line, names)).has_value() || ...);
  return found;
}

std::string KeyOf(const Card& card) {
  for (const std::string* text : {&card.uuid, &card.serial, &card.bus_id}) {
    if (!text->empty()) return *text;
  }
  return card.index ? std::to_string(*card.index) : std::string();
}

}  // namespace

Result<Cards> ParseCards(std::string_view csv) {
  csv = csv.substr(0, kMostOutput);
  std::string_view line;
  std::vector<Column> columns;
  // What some versions say before the table.
  while (NextLine(csv, line)) {
    if (line.size() > kMostLine) break;
    columns = ReadHeader(line);
    if (std::any_of(columns.begin(), columns.end(), [](const Column& column) { return bool(column); })) break;
    columns.clear();
  }
  if (columns.empty()) return Status{Code::kDataLoss, "hl-smi printed no table of cards"};
  Cards cards;
  while (NextLine(csv, line)) {
    Card card;
    size_t bad = 0;
    size_t cells = static_cast<size_t>(std::count(line.begin(), line.end(), ',')) + 1;
    bool cut = line.size() > kMostLine || cards.list.size() == kMostCards || cells != columns.size();
    std::string_view rest = line;
    for (size_t i = 0; !cut && i < cells; ++i) bad += !SetCell(card, columns[i], Cell(rest));
    card.key = KeyOf(card);
    bool known = std::any_of(cards.list.begin(), cards.list.end(),
                             [&](const Card& other) { return other.key == card.key; });
    if (cut || card.key.empty() || known) {
      ++cards.bad_rows;
      continue;
    }
    cards.bad_cells += bad;
    cards.list.push_back(std::move(card));
  }
  return cards;
}

std::vector<Port> ParsePorts(std::string_view text) {
  text = text.substr(0, kMostOutput);
  std::vector<Port> ports;
  std::optional<int> card;
  Port* current = nullptr;
  std::string_view line;
  while (NextLine(text, line)) {
    if (line.size() > kMostLine) continue;
    if (auto number = PlaceAfter(line, "AIP")) {
      card = number;
      current = nullptr;
    }
    auto place = PlaceAfter(line, "port ");
    if (!place) place = PlaceAfter(line, "Port ");
    if (place) {
      auto same = std::find_if(ports.begin(), ports.end(),
                               [&](const Port& port) { return port.card == card && port.port == *place; });
      current = nullptr;
      bool full = ports.size() >= kMostPorts * kMostCards || *place >= static_cast<int>(kMostPorts);
      if (same != ports.end() || full) continue;
      ports.push_back({card, *place, {}, {}});
      current = &ports.back();
    }
    if (!current) continue;
    if (auto count = FirstCount(line, "OctetsReceivedOK", "RX Bytes", "rx_bytes")) current->received = count;
    if (auto count = FirstCount(line, "OctetsTransmittedOK", "TX Bytes", "tx_bytes")) {
      current->transmitted = count;
    }
  }
  std::erase_if(ports, [](const Port& port) { return !port.received && !port.transmitted; });
  return ports;
}

}  // namespace gpulens::hl_smi

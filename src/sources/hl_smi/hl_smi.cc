#include "sources/hl_smi/hl_smi.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <variant>

#include "base/files.h"
#include "base/parse.h"
#include "base/raw_sentinel.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens::hl_smi {
namespace {

constexpr size_t kMostLine = 16u << 10;

struct CellUnit {
  std::string_view name;
  double times;
};
// The first is meant where no unit is written.
constexpr CellUnit kBytes[] = {{"MiB", 1048576}, {"KiB", 1024}, {"GiB", 1073741824}, {"B", 1}, {"MB", 1e6}};
constexpr CellUnit kWatts[] = {{"W", 1}, {"mW", 1e-3}};
constexpr CellUnit kCelsius[] = {{"C", 1}};
constexpr CellUnit kPercent[] = {{"%", 0.01}};
constexpr CellUnit kMegahertz[] = {{"MHz", 1}, {"GHz", 1000}};
constexpr CellUnit kPlain[] = {{"", 1}};

struct ColumnRow {
  std::string_view name;
  std::variant<std::optional<double> GaudiCard::*, std::string GaudiCard::*, std::optional<int> GaudiCard::*>
      field;
  std::span<const CellUnit> units = {};  // of a number
};
constexpr ColumnRow kColumns[] = {
    {"index", &GaudiCard::index},
    {"module_id", &GaudiCard::module_id},
    {"uuid", &GaudiCard::uuid},
    {"name", &GaudiCard::name},
    {"serial", &GaudiCard::serial},
    {"bus_id", &GaudiCard::bus_id},
    {"driver_version", &GaudiCard::driver_version},
    {"memory.total", &GaudiCard::memory_total_bytes, kBytes},
    {"memory.used", &GaudiCard::memory_used_bytes, kBytes},
    {"memory.free", &GaudiCard::memory_free_bytes, kBytes},
    {"power.draw", &GaudiCard::power_draw_watts, kWatts},
    {"power.max", &GaudiCard::power_max_watts, kWatts},
    {"temperature.aip", &GaudiCard::temperature_celsius, kCelsius},
    {"utilization.aip", &GaudiCard::utilization, kPercent},
    {"ecc.errors.uncorrected.volatile.total", &GaudiCard::ecc_volatile, kPlain},
    {"ecc.errors.uncorrected.aggregate.total", &GaudiCard::ecc_aggregate, kPlain},
    {"clocks.current.soc", &GaudiCard::clock_soc_mhz, kMegahertz},
    {"clocks.limit.soc", &GaudiCard::clock_soc_limit_mhz, kMegahertz},
    {"rows.replaced", &GaudiCard::rows_replaced, kPlain},
    {"rows.pending", &GaudiCard::rows_pending, kPlain},
};

// A column of the table; null `row`: unknown.
struct CardColumn {
  const ColumnRow* row = nullptr;
  std::string_view unit;  // from the header
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
  return std::ranges::find(kWords, cell) != std::end(kWords);
}

// "memory.used [MiB]" is a name and a unit.
CardColumn ColumnOf(std::string_view header) {
  CardColumn column;
  size_t bracket = header.find('[');
  std::string_view name = Trim(header.substr(0, bracket));
  if (bracket != std::string_view::npos) {
    std::string_view unit = header.substr(bracket + 1);
    column.unit = Trim(TakeUntil(unit, ']'));
  }
  for (const ColumnRow& row : kColumns) {
    if (row.name == name) column.row = &row;
  }
  return column;
}

// A number with or without a unit behind it; none for another unit.
std::optional<double> NumberOf(std::string_view cell, const CardColumn& column) {
  size_t digits = cell.find_first_not_of("0123456789.");
  std::string_view unit = digits == std::string_view::npos ? std::string_view{} : Trim(cell.substr(digits));
  auto number = ParseDouble(cell.substr(0, digits));
  if (!number || !std::isfinite(*number)) return std::nullopt;
  // The tool prints the driver's sentinels.
  constexpr double kAllBits16 = 65535, kAllBits32 = 4294967295;
  bool bytes = column.row->units.data() == kBytes;
  if (IsSentinel(*number) || *number == kAllBits32 || (!bytes && *number == kAllBits16)) return kSentinel;
  if (unit.empty()) unit = column.unit;
  const std::span<const CellUnit> units = column.row->units;
  if (unit.empty()) return *number * units.front().times;
  for (const CellUnit& known : units) {
    if (known.name == unit) return *number * known.times;
  }
  return std::nullopt;
}

bool SetCell(GaudiCard& card, const CardColumn& column, std::string_view cell) {
  if (!column.row || IsUnknown(cell)) return true;
  if (auto* text = std::get_if<std::string GaudiCard::*>(&column.row->field)) {
    if (cell.size() > kMostText || !IsUtf8(cell)) return false;
    card.*(*text) = cell;
    return true;
  }
  auto set = [&](auto& field, auto number) {
    if (number) field = *number;
    return number.has_value();
  };
  if (auto* place = std::get_if<std::optional<int> GaudiCard::*>(&column.row->field))
    return set(card.*(*place), ParseInt<uint16_t>(cell));
  return set(card.*std::get<std::optional<double> GaudiCard::*>(column.row->field), NumberOf(cell, column));
}

// The next line that is not blank; false at the end.
bool NextLine(std::string_view& rest, std::string_view& line) {
  while (!rest.empty()) {
    line = TakeUntil(rest, '\n');
    if (!Trim(line).empty()) return true;
  }
  return false;
}

std::vector<CardColumn> ReadHeader(std::string_view line) {
  std::vector<CardColumn> columns;
  size_t cells = static_cast<size_t>(std::count(line.begin(), line.end(), ',')) + 1;
  while (columns.size() < std::min(cells, kMostColumns)) {
    CardColumn column = ColumnOf(Cell(line));
    bool twice = std::ranges::find(columns, column.row, &CardColumn::row) != columns.end();
    columns.push_back(twice ? CardColumn{} : column);
  }
  return columns;
}

// The number after "name:" anywhere in a line.
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
  return ParseInt<uint16_t>(rest.substr(0, rest.find_first_not_of("0123456789")));
}

template <class... Names>
std::optional<uint64_t> FirstCount(std::string_view line, Names... names) {
  std::optional<uint64_t> found;
  (void)((found = CountAfter(line, names)).has_value() || ...);
  return found;
}

std::string KeyOf(const GaudiCard& card) {
  for (const std::string* text : {&card.uuid, &card.serial, &card.bus_id}) {
    if (!text->empty()) return *text;
  }
  return card.index ? std::to_string(*card.index) : std::string();
}

// All known fields of hl-smi, and those that every version has.
constexpr std::string_view kFullFields =
    "index,module_id,uuid,name,serial,bus_id,driver_version,memory.total,memory.used,memory.free,power.draw,"
    "power.max,temperature.aip,utilization.aip,ecc.errors.uncorrected.volatile.total,"
    "ecc.errors.uncorrected.aggregate.total,clocks.current.soc,clocks.limit.soc,clocks.limit.tpc";
constexpr std::string_view kLeastFields =
    "index,uuid,name,bus_id,driver_version,memory.total,memory.used,power.draw,temperature.aip,utilization."
    "aip";
constexpr std::string_view kRowFields = "bus_id,uuid,rows.replaced,rows.pending";
// A query that was refused is tried again after so many requests: hl-smi may have been replaced.
constexpr int kRefusedWait = 60;

std::vector<std::string> QueryArguments(std::string_view fields) {
  return {"-Q", std::string(fields), "-f", "csv"};
}

CardReading* Find(std::vector<CardReading>& cards, const GaudiCard& like) {
  for (CardReading& known : cards) {
    bool same_bus = !like.bus_id.empty() && known.card.bus_id == like.bus_id;
    bool same_uuid = !like.uuid.empty() && known.card.uuid == like.uuid;
    if (same_bus || same_uuid) return &known;
  }
  return nullptr;
}

}  // namespace

Result<GaudiCards> ParseCards(std::string_view csv) {
  csv = csv.substr(0, kMostOutput);
  std::string_view line;
  std::vector<CardColumn> columns;
  // Some versions print other lines before the table.
  while (NextLine(csv, line)) {
    if (line.size() > kMostLine) break;
    columns = ReadHeader(line);
    if (std::ranges::any_of(columns, [](const CardColumn& column) { return column.row != nullptr; })) break;
    columns.clear();
  }
  if (columns.empty()) return Status{Code::kDataLoss, "hl-smi printed no table of cards"};
  GaudiCards cards;
  while (NextLine(csv, line)) {
    GaudiCard card;
    size_t bad = 0;
    size_t cells = static_cast<size_t>(std::count(line.begin(), line.end(), ',')) + 1;
    bool cut = line.size() > kMostLine || cards.list.size() == kMostCards || cells != columns.size();
    std::string_view rest = line;
    for (size_t i = 0; !cut && i < cells; ++i) bad += !SetCell(card, columns[i], Cell(rest));
    card.key = KeyOf(card);
    bool known = std::ranges::find(cards.list, card.key, &GaudiCard::key) != cards.list.end();
    if (cut || card.key.empty() || known) {
      ++cards.bad_rows;
      continue;
    }
    cards.bad_cells += bad;
    cards.list.push_back(std::move(card));
  }
  return cards;
}

std::vector<GaudiPort> ParsePorts(std::string_view text) {
  text = text.substr(0, kMostOutput);
  std::vector<GaudiPort> ports;
  std::optional<int> card;
  GaudiPort* current = nullptr;
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
      auto same = std::find_if(ports.begin(), ports.end(), [&](const GaudiPort& port) {
        return port.card == card && port.port == *place;
      });
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
  std::erase_if(ports, [](const GaudiPort& port) { return !port.received && !port.transmitted; });
  return ports;
}

ProgramRule RuleOfHlSmi(std::string program) {
  ProgramRule rule{.path = std::move(program), .arguments = {"-Q", "-f", "csv", "-n", "stats", "-i"}};
  for (std::string_view fields : {kFullFields, kLeastFields, kRowFields}) rule.arguments.emplace_back(fields);
  // A card is named by its address, as hl-smi printed it: "0000:19:00.0".
  for (char digit : std::string_view("0123456789abcdefABCDEF")) rule.prefixes.emplace_back(1, digit);
  rule.variables = {"HABANA_", "LD_LIBRARY_PATH", "HOME"};
  rule.devices = {"/dev/accel"};  // since Linux 6.2; before, /dev/hl0 and /dev/hl_controlD0
  static_cast<void>(ForEachName("/dev", [&](std::string_view name) {
    if (name.starts_with("hl")) rule.devices.push_back("/dev/" + std::string(name));
    return true;
  }));
  return rule;
}

HlSmiSource::HlSmiSource(Options options, const Clock& clock)
    : options_(std::move(options)), clock_(clock), background_([this](Instant deadline) { Read(deadline); }) {
  full_.fields = kFullFields;
  rows_.fields = kRowFields;
  static_cast<void>(background_.Start());
}

void HlSmiSource::Read(Instant deadline) {
  reading_.longest_call = {};
  ReapStuck();
  if (!stuck_.empty()) {
    reading_.status = {Code::kTimeout, "hl-smi (pid " + std::to_string(stuck_.front().pid()) +
                                           ") is stuck in the kernel; it is not started again"};
    return;
  }
  if (!ReadCards(deadline)) return;
  ReadRows(deadline);
  if (options_.ports) ReadPorts(deadline);
}

void HlSmiSource::ReapStuck() {
  std::erase_if(stuck_, [](ChildProcess& child) { return child.TryWait() || !child.running(); });
  reading_.stuck = stuck_.size();
}

Result<std::string> HlSmiSource::Call(std::vector<std::string> arguments, Instant deadline) {
  Instant begun = clock_.Now();
  Duration left = std::min(options_.call_timeout, deadline - begun);
  if (background_.stopping()) return Status{Code::kUnavailable, "the source ends"};
  if (left.count() <= 0) return Status{Code::kTimeout, "no time is left in this run"};
  if (!stuck_.empty()) return Status{Code::kTimeout, "hl-smi is stuck in the kernel"};
  RunResult run = RunBounded(
      {options_.program, std::move(arguments), left, kMostOutput, background_.stop_fd(), {}}, clock_);
  ++reading_.calls;
  reading_.calls_killed += run.status.code == Code::kTimeout || run.status.code == Code::kExhausted;
  reading_.longest_call = std::max(reading_.longest_call, clock_.Now() - begun);
  if (run.stuck.running()) stuck_.push_back(std::move(run.stuck));
  reading_.stuck = stuck_.size();
  if (run.status) return std::move(run.output);
  run.status.detail = options_.program + " " + run.status.detail;
  return std::move(run.status);
}

bool HlSmiSource::ReadCards(Instant deadline) {
  if (full_.refused && --full_.wait <= 0) full_.refused = false;
  auto query = [&](std::string_view fields) -> Result<GaudiCards> {
    ASSIGN_OR_RETURN(std::string text, Call(QueryArguments(fields), deadline));
    return ParseCards(text);
  };
  Result<GaudiCards> cards = query(full_.refused ? kLeastFields : std::string_view(full_.fields));
  bool unknown_field = !cards && (cards.error().code == Code::kIo || cards.error().code == Code::kDataLoss);
  if (unknown_field && !full_.refused) {
    Result<GaudiCards> fewer = query(kLeastFields);
    if (fewer) {
      full_.refused = true;
      full_.wait = kRefusedWait;
      cards = std::move(fewer);
    }
  }
  reading_.status = cards ? Ok() : cards.error();
  if (!cards) return false;
  reading_.at = clock_.Now();
  reading_.bad_rows = cards->bad_rows;
  reading_.bad_cells = cards->bad_cells;
  std::vector<CardReading> next;
  for (GaudiCard& card : cards->list) {
    CardReading* before = Find(reading_.cards, card);
    CardReading now;
    if (before) {
      now.ports = std::move(before->ports);
      now.ports_before = std::move(before->ports_before);
    }
    now.card = std::move(card);
    next.push_back(std::move(now));
  }
  reading_.cards = std::move(next);
  return true;
}

// Fields that only some versions have: queried separately, so that a refusal loses nothing else.
void HlSmiSource::ReadRows(Instant deadline) {
  if (rows_.refused && --rows_.wait > 0) return;
  rows_.refused = false;
  auto text = Call(QueryArguments(rows_.fields), deadline);
  Result<GaudiCards> cards = text ? ParseCards(*text) : Result<GaudiCards>(text.error());
  if (!cards) {
    // A timeout does not mean that hl-smi lacks the fields.
    rows_.refused = cards.error().code == Code::kIo || cards.error().code == Code::kDataLoss;
    rows_.wait = kRefusedWait;
    return;
  }
  for (const GaudiCard& card : cards->list) {
    CardReading* known = Find(reading_.cards, card);
    if (!known) continue;
    known->card.rows_replaced = card.rows_replaced;
    known->card.rows_pending = card.rows_pending;
  }
}

void HlSmiSource::ReadPorts(Instant deadline) {
  auto read = [&](CardReading& card) {
    if (card.card.bus_id.empty()) return;
    auto text = Call({"-n", "stats", "-i", card.card.bus_id}, deadline);
    if (!text) return;
    std::vector<GaudiPort> ports = ParsePorts(*text);
    if (ports.empty()) return;
    card.ports_before = std::move(card.ports);
    card.ports = {std::move(ports), clock_.Now()};
  };
  bool first = false;
  for (CardReading& card : reading_.cards) {
    first = first || card.ports.ports.empty();
    read(card);
  }
  bool any = std::any_of(reading_.cards.begin(), reading_.cards.end(),
                         [](const CardReading& card) { return !card.ports.ports.empty(); });
  // A rate needs two readings: the first run takes both.
  if (!first || !any || (deadline - clock_.Now()) < options_.port_span * 2) return;
  background_.Pause(options_.port_span);
  for (CardReading& card : reading_.cards) {
    bool once = card.ports_before.ports.empty() && !card.ports.ports.empty();
    if (once && !background_.stopping()) read(card);
  }
}

}  // namespace gpulens::hl_smi

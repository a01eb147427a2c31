// Reads price files: price_table.h describes them.
#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "base/hash.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "pricing/money.h"
#include "pricing/price_table_impl.h"

namespace gpulens::pricing {
namespace {

using price_table_internal::kAnyName;
using price_table_internal::kEveryDay;
using price_table_internal::kLongSet;
using price_table_internal::kMinutesPerDay;
using price_table_internal::kMostNameBytes;
using price_table_internal::kMostPrice;
using price_table_internal::kPriceSets;
using price_table_internal::ListedPrices;
using price_table_internal::Model;
using price_table_internal::NameHash;
using price_table_internal::PriceStep;
using price_table_internal::StepsOf;
using price_table_internal::Tables;

constexpr size_t kMostPriceFileBytes = size_t{16} << 20;
constexpr size_t kMostPriceRows = 100'000;
constexpr size_t kMostPriceCells = 128;
constexpr size_t kMostPriceLineBytes = 8192;
constexpr size_t kMostPriceFiles = 64;
// They are searched one by one.
constexpr size_t kMostRowsOfModel = 1000;
constexpr size_t kMostSteps = 32;
constexpr size_t kMostHours = 4;
constexpr int64_t kNanos = 1'000'000'000;
constexpr int64_t kMostTokens = 1'000'000'000'000;

// The classes that have a column, and its name.
struct PriceColumn {
  std::string_view name;
  LlmClass of;
};
constexpr PriceColumn kPriceColumns[] = {
    {"input", LlmClass::kInput},
    {"cached_input", LlmClass::kInputCached},
    {"cache_write", LlmClass::kInputWrite5m},
    {"cache_write_long", LlmClass::kInputWriteLong},
    {"audio_input", LlmClass::kInputAudio},
    {"audio_cached_input", LlmClass::kInputAudioCached},
    {"image_input", LlmClass::kInputImage},
    {"video_input", LlmClass::kInputVideo},
    {"tool_input", LlmClass::kInputTool},
    {"output", LlmClass::kOutput},
    {"reasoning_output", LlmClass::kOutputReasoning},
    {"audio_output", LlmClass::kOutputAudio},
    {"image_output", LlmClass::kOutputImage},
    {"web_search", LlmClass::kWebSearches},
    {"web_fetch", LlmClass::kWebFetches},
    {"request", LlmClass::kRequests},
};

// Of the sets of listed prices.
constexpr std::string_view kSetPrefixes[kPriceSets] = {"", "batch_", "flex_", "priority_", "fast_", "long_"};

enum class ColumnKind : uint8_t {
  kIgnored,
  kProvider,
  kModel,
  kMode,
  kUnit,
  kPrice,
  kMultiplier,
  kLongAbove,
  kTiers,
  kValidFrom,
  kValidTo,
  kHours,
  kWeekdays,
  kCheck,
  kMaxInput,
  kMaxOutput,
};
struct Column {
  ColumnKind kind = ColumnKind::kIgnored;
  size_t set = 0;
  LlmClass of = LlmClass::kInput;
  std::string name;
};
struct NamedColumn {
  std::string_view name;
  ColumnKind kind;
};
constexpr NamedColumn kNamedColumns[] = {
    {"provider", ColumnKind::kProvider},
    {"model", ColumnKind::kModel},
    {"mode", ColumnKind::kMode},
    {"unit", ColumnKind::kUnit},
    {"long_above", ColumnKind::kLongAbove},
    {"tiers", ColumnKind::kTiers},
    {"valid_from", ColumnKind::kValidFrom},
    {"effective_from", ColumnKind::kValidFrom},
    {"valid_to", ColumnKind::kValidTo},
    {"hours", ColumnKind::kHours},
    {"weekdays", ColumnKind::kWeekdays},
    {"check", ColumnKind::kCheck},
    {"max_input", ColumnKind::kMaxInput},
    {"max_output", ColumnKind::kMaxOutput},
    {"retires", ColumnKind::kIgnored},
    {"source", ColumnKind::kIgnored},
    {"note", ColumnKind::kIgnored},
};

constexpr std::string_view kUnitNames[] = {"token", "second", "character",   "image",
                                           "page",  "query",  "video_second"};
constexpr std::string_view kDayNames[] = {"mon", "tue", "wed", "thu", "fri", "sat", "sun"};

bool IsAbsent(std::string_view cell) noexcept { return cell.empty() || cell == "-"; }

// A row as it is written.
struct RawRow {
  std::string provider, model;
  ListedPrices listed;
  PriceRow row;
};

// What changes prices outside of peak hours.
struct PeakNote {
  uint8_t weekdays = kEveryDay;
  std::vector<PriceRow::Minutes> hours;
  std::vector<std::pair<LlmClass, int64_t>> otherwise;
};

// "01:00", up to "24:00", as minutes of the day.
std::optional<uint16_t> ParseMinute(std::string_view text) noexcept {
  if (text.size() != 5 || text[2] != ':') return std::nullopt;
  const auto hour = ParseInt<unsigned>(text.substr(0, 2)), minute = ParseInt<unsigned>(text.substr(3));
  if (!hour || !minute || *minute > 59 || *hour * 60 + *minute > kMinutesPerDay) return std::nullopt;
  return static_cast<uint16_t>(*hour * 60 + *minute);
}

bool ParseHours(std::string_view text, std::vector<PriceRow::Minutes>& hours) {
  size_t count = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("/,"), text.size());
    const std::string_view one = text.substr(0, end);
    if (end + 1 == text.size()) return false;
    text.remove_prefix(std::min(end + 1, text.size()));
    if (++count > kMostHours || one.size() != 11 || one[5] != '-') return false;
    const auto from = ParseMinute(one.substr(0, 5)), to = ParseMinute(one.substr(6));
    if (!from || !to || *from == *to || *from == kMinutesPerDay) return false;
    if (*from < *to) {
      hours.push_back({*from, *to});
    } else {
      hours.push_back({*from, static_cast<uint16_t>(kMinutesPerDay)});
      if (*to > 0) hours.push_back({0, *to});
    }
  }
  return !hours.empty();
}

std::optional<size_t> ParseDay(std::string_view text) noexcept {
  for (size_t i = 0; i < std::size(kDayNames); ++i) {
    if (EqualsIgnoringCase(text, kDayNames[i])) return i;
  }
  return std::nullopt;
}

// "mon-fri", "sat,sun", "fri-mon" as a set of days; 0 for another text.
uint8_t ParseWeekdays(std::string_view text) noexcept {
  unsigned days = 0;
  while (!text.empty()) {
    std::string_view part = TakeUntil(text, ',');
    const bool range = part.find('-') != std::string_view::npos;
    const auto first = ParseDay(TakeUntil(part, '-'));
    const auto last = range ? ParseDay(part) : first;
    if (!first || !last) return 0;
    for (size_t day = *first;; day = (day + 1) % 7) {
      days |= 1u << day;
      if (day == *last) break;
    }
  }
  return static_cast<uint8_t>(days);
}

std::optional<int64_t> ParseMoment(std::string_view text) noexcept {
  std::string whole(text.substr(0, 64));
  if (whole.size() == 10) whole += "T00:00:00Z";
  const auto ns = ParseRfc3339(whole);
  if (!ns || *ns % kNanos != 0) return std::nullopt;
  return *ns / kNanos;
}

const PriceColumn* FindPriceColumn(std::string_view name) noexcept {
  for (const PriceColumn& column : kPriceColumns) {
    if (column.name == name) return &column;
  }
  return nullptr;
}

// "~peak [WEEKDAYS] HOURSZ; else input=1,output=2".
std::optional<PeakNote> ParsePeak(std::string_view text) {
  PeakNote note;
  constexpr std::string_view kPeak = "~peak ", kElse = "Z; else ";
  if (!text.starts_with(kPeak)) return std::nullopt;
  text.remove_prefix(kPeak.size());
  if (!text.empty() && (text.front() < '0' || text.front() > '9')) {
    note.weekdays = ParseWeekdays(TakeUntil(text, ' '));
    if (note.weekdays == 0) return std::nullopt;
  }
  const size_t end = text.find(kElse);
  if (end == std::string_view::npos || !ParseHours(text.substr(0, end), note.hours)) return std::nullopt;
  text.remove_prefix(end + kElse.size());
  while (!text.empty()) {
    std::string_view part = TakeUntil(text, ',');
    const PriceColumn* column = FindPriceColumn(TakeUntil(part, '='));
    const auto price = ParseInt<int64_t>(part);
    if (!column || !price || *price < 0 || *price > kMostPrice) return std::nullopt;
    note.otherwise.emplace_back(column->of, *price);
  }
  if (note.otherwise.empty()) return std::nullopt;
  return note;
}

// Reads files into Tables.
class PriceLoader {
 public:
  explicit PriceLoader(std::span<const std::string> providers) : providers_(providers) {}

  Status Read(const PriceFile& file) {
    file_ = &file;
    line_ = 0;
    rows_of_file_ = 0;
    columns_.clear();
    if (file.text.size() > kMostPriceFileBytes) return Wrong("the file is longer than 16 MiB");
    if (file.text.find('\0') != std::string::npos || !IsUtf8(file.text))
      return Wrong("the file is not text in UTF-8");
    PriceTable::Source source;
    source.name = file.name;
    Sha256 sha;
    sha.Add(file.text);
    const Sha256::Digest digest = sha.FinishBytes();
    for (size_t i = 0; i < sizeof source.id; ++i) source.id = source.id << 8 | digest[i];
    tables_->sources.push_back(std::move(source));
    std::string_view rest = file.text;
    if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);
    while (!rest.empty()) {
      ++line_;
      std::string_view line = TakeUntil(rest, '\n');
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (Trim(line).empty() || line.front() == '#') continue;
      if (line.size() > kMostPriceLineBytes) return Wrong("the line is longer than 8192 bytes");
      cells_.clear();
      for (bool more = true; more;) {
        if (cells_.size() == kMostPriceCells) return Wrong("the line has more than 128 cells");
        more = line.find('\t') != std::string_view::npos;
        cells_.push_back(Trim(TakeUntil(line, '\t')));
      }
      if (columns_.empty()) {
        RETURN_IF_ERROR(ReadHeader());
      } else {
        if (++rows_of_file_ > kMostPriceRows) return Wrong("the file has more than 100000 rows");
        RETURN_IF_ERROR(ReadRow());
      }
    }
    if (columns_.empty()) return Wrong("the file has no line with the names of its columns");
    return Ok();
  }

  Result<std::shared_ptr<const Tables>> Finish() {
    RETURN_IF_ERROR(SortRows());
    size_t slots = 16;
    while (slots < 2 * tables_->models.size()) slots *= 2;
    tables_->slots.assign(slots, 0);
    for (size_t i = 0; i < tables_->models.size(); ++i) {
      size_t at = NameHash(tables_->models[i].provider, tables_->models[i].name) & (slots - 1);
      while (tables_->slots[at] != 0) at = (at + 1) & (slots - 1);
      tables_->slots[at] = static_cast<uint32_t>(i + 1);
    }
    tables_->prices.shrink_to_fit();
    tables_->steps.shrink_to_fit();
    return std::shared_ptr<const Tables>(std::move(tables_));
  }

 private:
  struct Loaded {
    std::string provider, model;
    PriceRow row;
  };

  Status Wrong(const std::string& what) const {
    return {Code::kInvalidArgument, file_->name + (line_ ? ":" + std::to_string(line_) : "") + ": " + what};
  }
  Status WrongCell(const Column& column, std::string_view cell, const std::string& what) const {
    return Wrong("column " + column.name + ": " + what + ": \"" + Printable(cell.substr(0, 100)) + "\"");
  }

  Result<Column> ColumnOf(std::string_view name) const {
    Column column;
    column.name = Printable(name.substr(0, 100));
    for (const NamedColumn& named : kNamedColumns) {
      if (named.name == name) {
        column.kind = named.kind;
        return column;
      }
    }
    if (name.starts_with("x_")) return column;
    for (size_t set = 0; set < kPriceSets; ++set) {
      if (!name.starts_with(kSetPrefixes[set])) continue;
      const std::string_view rest = name.substr(kSetPrefixes[set].size());
      const PriceColumn* price = FindPriceColumn(rest);
      if (!price && rest != "multiplier") continue;
      column.kind = price ? ColumnKind::kPrice : ColumnKind::kMultiplier;
      column.set = set;
      if (price) column.of = price->of;
      return column;
    }
    std::vector<std::string> names;
    for (const NamedColumn& named : kNamedColumns) names.emplace_back(named.name);
    for (const std::string_view prefix : kSetPrefixes) {
      for (const PriceColumn& price : kPriceColumns) names.push_back(std::string(prefix).append(price.name));
      names.push_back(std::string(prefix) + "multiplier");
    }
    const std::vector<std::string_view> views(names.begin(), names.end());
    const std::string_view nearest = NearestWord(name, views);
    return Wrong("column " + column.name + ": no column has this name" +
                 (nearest.empty() ? "" : "; did you mean " + std::string(nearest) + "?") +
                 " Columns that are not to be read begin with x_");
  }

  Status ReadHeader() {
    for (std::string_view cell : cells_) {
      if (cell.empty()) return Wrong("a column has no name");
      ASSIGN_OR_RETURN(Column column, ColumnOf(cell));
      for (const Column& other : columns_) {
        const bool same = other.kind == column.kind && other.kind != ColumnKind::kIgnored &&
                          other.set == column.set && other.of == column.of;
        if (same || other.name == column.name)
          return Wrong("column " + column.name + ": the file has " + other.name + " already");
      }
      columns_.push_back(std::move(column));
    }
    const auto has = [&](ColumnKind kind) {
      return std::any_of(columns_.begin(), columns_.end(), [&](const Column& c) { return c.kind == kind; });
    };
    if (!has(ColumnKind::kProvider) || !has(ColumnKind::kModel))
      return Wrong("the first line must name the columns, among them provider and model, separated by tabs");
    return Ok();
  }

  Status ReadName(const Column& column, std::string_view cell, std::string& name) const {
    if (IsAbsent(cell)) return Wrong("column " + column.name + ": the row has none");
    if (cell.size() > kMostNameBytes) return WrongCell(column, cell, "longer than 200 bytes");
    if (Printable(cell) != cell) return WrongCell(column, cell, "has characters that cannot be printed");
    name = cell;
    return Ok();
  }

  Result<int64_t> ReadInteger(const Column& column, std::string_view cell, int64_t most,
                              const char* what) const {
    const auto value = ParseInt<int64_t>(cell);
    if (!value || *value < 0 || *value > most || cell.front() == '-') return WrongCell(column, cell, what);
    return *value;
  }

  Status ReadTiers(const Column& column, std::string_view cell, RawRow& raw) const {
    constexpr const char* kForm =
        "not from:input:output:cached;… with ascending `from`, the first of them 0, and whole prices";
    std::string_view rest = cell;
    while (!rest.empty()) {
      std::string_view part = TakeUntil(rest, ';');
      if (std::count(part.begin(), part.end(), ':') != 3) return WrongCell(column, cell, kForm);
      ListedPrices::Step step;
      const auto from = ParseInt<int64_t>(TakeUntil(part, ':'));
      if (!from || *from < 0 || *from > kMostTokens) return WrongCell(column, cell, kForm);
      if (raw.listed.tiers.empty() ? *from != 0 : *from <= raw.listed.tiers.back().from)
        return WrongCell(column, cell, kForm);
      step.from = *from;
      for (int64_t* price : {&step.input, &step.output, &step.cached_input}) {
        const std::string_view text = TakeUntil(part, ':');
        if (text.empty()) continue;
        const auto value = ParseInt<int64_t>(text);
        if (!value || *value < 0 || *value > kMostPrice) return WrongCell(column, cell, kForm);
        *price = *value;
      }
      if (raw.listed.tiers.size() == kMostSteps) return WrongCell(column, cell, "more than 32 steps");
      raw.listed.tiers.push_back(step);
    }
    return Ok();
  }

  static void SetHours(PriceRow& row, uint8_t weekdays, const std::vector<PriceRow::Minutes>& hours) {
    row.weekdays = weekdays;
    row.hour_count = static_cast<uint8_t>(hours.size());
    std::copy(hours.begin(), hours.end(), row.hours.begin());
  }

  Status ReadCell(const Column& column, std::string_view cell, RawRow& raw, std::optional<PeakNote>& peak) {
    if (column.kind == ColumnKind::kProvider) return ReadName(column, cell, raw.provider);
    if (column.kind == ColumnKind::kModel) return ReadName(column, cell, raw.model);
    if (IsAbsent(cell)) return Ok();
    PriceRow& row = raw.row;
    switch (column.kind) {
      case ColumnKind::kMode:
        if (cell.size() > kMostNameBytes) return WrongCell(column, cell, "longer than 200 bytes");
        raw.listed.mode = cell;
        break;
      case ColumnKind::kUnit: {
        const auto* found = std::find(std::begin(kUnitNames), std::end(kUnitNames), cell);
        if (found == std::end(kUnitNames))
          return WrongCell(column, cell, "not token, second, character, image, page, query or video_second");
        raw.listed.unit = static_cast<PriceUnit>(found - std::begin(kUnitNames));
        break;
      }
      case ColumnKind::kPrice: {
        ASSIGN_OR_RETURN(raw.listed.sets[column.set][static_cast<size_t>(column.of)],
                         ReadInteger(column, cell, kMostPrice,
                                     "not a whole number of micro-dollars per 1,000,000 units, up to 10^15"));
        break;
      }
      case ColumnKind::kMultiplier:
        raw.listed.multipliers[column.set] = ParseRatio(cell);
        if (!raw.listed.multipliers[column.set])
          return WrongCell(column, cell, "not a fraction such as 11/10 or 1.1 with up to 9 digits");
        break;
      case ColumnKind::kLongAbove: {
        ASSIGN_OR_RETURN(raw.listed.long_above,
                         ReadInteger(column, cell, kMostTokens, "not a number of tokens"));
        break;
      }
      case ColumnKind::kTiers: return ReadTiers(column, cell, raw);
      case ColumnKind::kValidFrom:
      case ColumnKind::kValidTo: {
        const auto at = ParseMoment(cell);
        if (!at)
          return WrongCell(column, cell,
                           "no day such as 2026-11-23 and no time such as 2026-11-23T14:00:00Z");
        (column.kind == ColumnKind::kValidFrom ? row.from_s : row.to_s) = *at;
        break;
      }
      case ColumnKind::kHours: {
        std::vector<PriceRow::Minutes> hours;
        if (!ParseHours(cell, hours))
          return WrongCell(column, cell, "not up to four hours of UTC such as 01:00-04:00/06:00-10:00");
        SetHours(row, row.weekdays, hours);
        break;
      }
      case ColumnKind::kWeekdays:
        row.weekdays = ParseWeekdays(cell);
        if (row.weekdays == 0) return WrongCell(column, cell, "not weekdays such as mon-fri or sat,sun");
        break;
      case ColumnKind::kCheck:
        row.disputed = cell.front() == '!';
        if (cell.front() != '~') break;
        peak = ParsePeak(cell);
        if (!peak)
          return WrongCell(column, cell, "not \"~peak [mon-fri] HH:MM-HH:MM/…Z; else input=…,output=…\"");
        break;
      case ColumnKind::kMaxInput:
      case ColumnKind::kMaxOutput: {
        ASSIGN_OR_RETURN((column.kind == ColumnKind::kMaxInput ? row.max_input : row.max_output),
                         ReadInteger(column, cell, kMostTokens, "not a number of tokens"));
        break;
      }
      case ColumnKind::kProvider:
      case ColumnKind::kModel:
      case ColumnKind::kIgnored: break;
    }
    return Ok();
  }

  Status ReadRow() {
    if (cells_.size() != columns_.size())
      return Wrong("the row has " + std::to_string(cells_.size()) + " cells, and the file has " +
                   std::to_string(columns_.size()) + " columns");
    RawRow raw;
    for (auto& set : raw.listed.sets) set.fill(kUnpriced);
    raw.listed.mode = "chat";
    raw.row.from_s = std::numeric_limits<int64_t>::min();
    raw.row.to_s = std::numeric_limits<int64_t>::max();
    raw.row.file = static_cast<uint16_t>(tables_->sources.size() - 1);
    raw.row.id = {.file = tables_->sources.back().id, .line = static_cast<uint32_t>(line_)};
    std::optional<PeakNote> peak;
    for (size_t i = 0; i < cells_.size(); ++i) RETURN_IF_ERROR(ReadCell(columns_[i], cells_[i], raw, peak));
    RETURN_IF_ERROR(CheckRow(raw, peak));
    if (raw.listed.unit == PriceUnit::kSecond && raw.listed.mode == "video_generation")
      raw.listed.unit = PriceUnit::kUncounted;
    raw.row.unit = raw.listed.unit;
    const bool used = providers_.empty() || raw.provider == kAnyName ||
                      std::find(providers_.begin(), providers_.end(), raw.provider) != providers_.end();
    if (used) {
      ++tables_->sources.back().rows;
      tables_->sources.back().disputed += raw.row.disputed ? 1 : 0;
    }
    if (peak) {
      RawRow otherwise = raw;
      for (const auto& [of, price] : peak->otherwise)
        otherwise.listed.sets[0][static_cast<size_t>(of)] = price;
      RETURN_IF_ERROR(AddRow(std::move(otherwise), used));
      SetHours(raw.row, peak->weekdays, peak->hours);
    }
    return AddRow(std::move(raw), used);
  }

  Status CheckRow(const RawRow& raw, const std::optional<PeakNote>& peak) const {
    if (raw.row.from_s >= raw.row.to_s) return Wrong("column valid_to: not after valid_from");
    const auto& listed = raw.listed.sets[0];
    const auto given = [&](size_t set, LlmClass of) {
      return raw.listed.sets[set][static_cast<size_t>(of)] != kUnpriced;
    };
    const bool long_prices = raw.listed.multipliers[kLongSet].has_value() ||
                             std::any_of(raw.listed.sets[kLongSet].begin(), raw.listed.sets[kLongSet].end(),
                                         [](int64_t price) { return price != kUnpriced; });
    if (!raw.listed.tiers.empty() && (raw.listed.long_above || long_prices || given(0, LlmClass::kInput) ||
                                      given(0, LlmClass::kInputCached) || given(0, LlmClass::kOutput)))
      return Wrong("column tiers: the row has input, cached_input, output or long_… besides");
    if (long_prices && !raw.listed.long_above)
      return Wrong("column long_above: the row has long_… prices and lacks it");
    if (raw.listed.long_above && !raw.listed.multipliers[kLongSet]) {
      for (LlmClass of : {LlmClass::kInput, LlmClass::kOutput}) {
        if (listed[static_cast<size_t>(of)] > 0 && !given(kLongSet, of))
          return Wrong("column long_" + std::string(of == LlmClass::kInput ? "input" : "output") +
                       ": the row has long_above and lacks it");
      }
    }
    if (peak && (raw.row.hour_count > 0 || raw.row.weekdays != kEveryDay))
      return Wrong("column check: the row has hours or weekdays besides");
    return Ok();
  }

  Status AddRow(RawRow raw, bool used) {
    PriceRow& row = raw.row;
    for (size_t tier = 0; tier < kPriceTiers; ++tier) {
      const auto steps = StepsOf(raw.listed, static_cast<PriceTier>(tier));
      if (!steps)
        return Wrong("a price of the row, or one that follows from its multipliers, is above 10^15");
      if (!used) continue;
      row.first_step[tier] = static_cast<uint32_t>(tables_->steps.size());
      row.step_count[tier] = static_cast<uint16_t>(steps->size());
      for (const PriceStep& step : *steps) {
        const auto [known, added] =
            known_prices_.try_emplace(step.prices, static_cast<uint32_t>(tables_->prices.size()));
        if (added) tables_->prices.push_back(step.prices);
        tables_->steps.push_back({.above = step.above, .prices = known->second});
      }
    }
    if (used)
      loaded_.push_back({.provider = std::move(raw.provider), .model = std::move(raw.model), .row = row});
    return Ok();
  }

  static int Specificity(const PriceRow& row) noexcept {
    return (row.hour_count > 0 ? 1 : 0) + (row.weekdays != kEveryDay ? 1 : 0);
  }

  Status SortRows() {
    const auto key = [](const Loaded& one) {
      return std::make_tuple(std::string_view(one.provider), std::string_view(one.model), -int{one.row.file},
                             -Specificity(one.row), ~one.row.from_s, one.row.id.line);
    };
    std::sort(loaded_.begin(), loaded_.end(),
              [&](const Loaded& a, const Loaded& b) { return key(a) < key(b); });
    for (const Loaded& one : loaded_) {
      std::vector<Model>& models = tables_->models;
      if (models.empty() || models.back().provider != one.provider || models.back().name != one.model) {
        models.push_back({.provider = one.provider,
                          .name = one.model,
                          .first = static_cast<uint32_t>(tables_->rows.size()),
                          .count = 0});
      }
      if (++models.back().count > kMostRowsOfModel) {
        return {Code::kInvalidArgument,
                RowPlace(one.row) + one.provider + " " + one.model + " has more than 1000 rows"};
      }
      RETURN_IF_ERROR(CheckUnique(models.back(), one.row));
      tables_->rows.push_back(one.row);
    }
    return Ok();
  }

  std::string RowPlace(const PriceRow& row) const {
    return tables_->sources[row.file].name + ":" + std::to_string(row.id.line) + ": ";
  }

  // Rows of equal precedence are next to each other.
  Status CheckUnique(const Model& model, const PriceRow& row) const {
    const auto same_hours = [](const PriceRow& a, const PriceRow& b) {
      return a.weekdays == b.weekdays && a.hour_count == b.hour_count &&
             std::equal(
                 a.hours.begin(), a.hours.begin() + a.hour_count, b.hours.begin(),
                 [](PriceRow::Minutes x, PriceRow::Minutes y) { return x.from == y.from && x.to == y.to; });
    };
    for (size_t i = tables_->rows.size(); i > model.first; --i) {
      const PriceRow& other = tables_->rows[i - 1];
      if (other.file != row.file || Specificity(other) != Specificity(row) || other.from_s != row.from_s)
        break;
      if (!same_hours(other, row)) continue;
      return {Code::kInvalidArgument, RowPlace(row) + model.provider + " " + model.name +
                                          " has a row with the same valid_from, hours and weekdays at line " +
                                          std::to_string(other.id.line)};
    }
    return Ok();
  }

  std::span<const std::string> providers_;
  std::unique_ptr<Tables> tables_ = std::make_unique<Tables>();
  std::map<ClassPrices, uint32_t> known_prices_;
  std::vector<Loaded> loaded_;
  // Of the file that is being read.
  const PriceFile* file_ = nullptr;
  size_t line_ = 0, rows_of_file_ = 0;
  std::vector<Column> columns_;
  std::vector<std::string_view> cells_;
};

}  // namespace

Result<PriceTable> PriceTable::Load(std::span<const PriceFile> files,
                                    std::span<const std::string> providers) {
  if (files.size() > kMostPriceFiles) return Status{Code::kInvalidArgument, "more than 64 price files"};
  PriceLoader loader(providers);
  for (const PriceFile& file : files) RETURN_IF_ERROR(loader.Read(file));
  PriceTable table;
  ASSIGN_OR_RETURN(table.tables_, loader.Finish());
  return table;
}

}  // namespace gpulens::pricing

#include "ledger/rates.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>

#include "base/parse.h"
#include "base/rfc3339.h"
#include "base/stable_sort.h"
#include "base/text.h"

namespace gpulens::ledger {
namespace {

constexpr int64_t kAlways = std::numeric_limits<int64_t>::min();
constexpr size_t kMostCells = 64;
constexpr size_t kMostLineBytes = 4096;
constexpr int64_t kMostDecimal = 9'000'000'000'000'000'000;
constexpr int64_t kMostMgPerKwh = 10'000'000;
constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int64_t kSecondsPerHour = 3600;

struct BuiltInPrice {
  std::string_view provider, instance_type;
  int64_t gpus;
  std::string_view usd_per_hour, region, date, source;
};

constexpr BuiltInPrice kBuiltInPrices[] = {
#define PRICE(provider, instance_type, gpus, usd_per_hour, region, date, source) \
  {provider, instance_type, gpus, usd_per_hour, region, date, source},
#include "ledger/gpu_prices.def"
#undef PRICE
};

bool IsUnknown(std::string_view cell) noexcept {
  return cell.empty() || cell == "-" || EqualsIgnoringCase(cell, "unknown");
}

bool IsWordByte(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         static_cast<unsigned char>(c) >= 0x80;
}

// Removes the first word, of letters and digits, from `rest`. Empty: there is none.
std::string_view TakeWord(std::string_view& rest) noexcept {
  size_t begin = 0;
  while (begin < rest.size() && !IsWordByte(rest[begin])) ++begin;
  size_t end = begin;
  while (end < rest.size() && IsWordByte(rest[end])) ++end;
  std::string_view word = rest.substr(begin, end - begin);
  rest.remove_prefix(end);
  return word;
}

std::string WordsOf(std::string_view text, size_t& count) {
  std::string words;
  count = 0;
  for (std::string_view word = TakeWord(text); !word.empty(); word = TakeWord(text), ++count) {
    if (count) words += ' ';
    for (char c : word) words += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return words;
}

bool HasWord(std::string_view text, std::string_view word) noexcept {
  for (std::string_view one = TakeWord(text); !one.empty(); one = TakeWord(text)) {
    if (EqualsIgnoringCase(one, word)) return true;
  }
  return false;
}

bool HasWordsOf(std::string_view product, std::string_view model) noexcept {
  for (std::string_view word = TakeWord(product); !word.empty(); word = TakeWord(product)) {
    if (!HasWord(model, word)) return false;
  }
  return true;
}

// Reads tables of text: the first line names the columns.
class TableReader {
 public:
  TableReader(const RateFile& file) : name_(file.name), rest_(file.text) {  // NOLINT(*-explicit-*)
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
  }

  Status Wrong(const std::string& what) const {
    return {Code::kInvalidArgument, name_ + ":" + std::to_string(line_) + ": " + what};
  }
  std::string Where() const { return name_ + ":" + std::to_string(line_); }

  Status ReadHeader() {
    if (rest_.size() > kMostFileBytes) return Wrong("the file is longer than 4 MiB");
    if (rest_.find('\0') != std::string_view::npos || !IsUtf8(rest_))
      return Wrong("the file is not text in UTF-8");
    const auto first = Next();
    if (!first) return first.error();
    if (!*first) return Wrong("the file has no line with the names of its columns");
    header_.assign(cells_.begin(), cells_.begin() + static_cast<std::ptrdiff_t>(count_));
    for (size_t i = 0; i < header_.size(); ++i) {
      for (size_t j = i + 1; j < header_.size(); ++j) {
        if (!header_[i].empty() && EqualsIgnoringCase(header_[i], header_[j]))
          return Wrong("two columns are named \"" + Printable(header_[i]) + "\"");
      }
    }
    return Ok();
  }

  // The position of a column; none if the file lacks it.
  std::optional<size_t> Column(std::string_view name) const {
    for (size_t i = 0; i < header_.size(); ++i) {
      if (EqualsIgnoringCase(header_[i], name)) return i;
    }
    return std::nullopt;
  }
  std::string_view Cell(std::optional<size_t> column) const {
    return column ? std::string_view(cells_[*column]) : std::string_view();
  }

  // False at the end. The cells are valid until the next call.
  Result<bool> Next() {
    while (!rest_.empty()) {
      ++line_;
      std::string_view line = TakeUntil(rest_, '\n');
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (Trim(line).empty() || line.front() == '#') continue;
      if (line.size() > kMostLineBytes) return Wrong("the line is longer than 4096 bytes");
      if (header_.empty() && line.find('\t') != std::string_view::npos) separator_ = '\t';
      if (++rows_ > kMostFileRows) return Wrong("the file has more than 100000 rows");
      Status split = Split(line);
      if (!split) return split;
      if (!header_.empty() && count_ != header_.size()) {
        return Wrong("the row has " + std::to_string(count_) + " cells, and the file has " +
                     std::to_string(header_.size()) + " columns");
      }
      return true;
    }
    return false;
  }

 private:
  Status Split(std::string_view line) {
    count_ = 0;
    for (bool more = true; more;) {
      if (count_ == kMostCells) return Wrong("the line has more than 64 cells");
      std::string& cell = cells_[count_++];
      cell.clear();
      if (separator_ == ',' && line.starts_with('"')) {
        size_t at = 1;
        for (;; ++at) {
          if (at >= line.size()) return Wrong("a quotation mark is not closed");
          if (line[at] != '"') {
            cell += line[at];
          } else if (line.substr(at + 1).starts_with('"')) {
            cell += line[at++];
          } else {
            break;
          }
        }
        line.remove_prefix(at + 1);
        if (!line.empty() && line.front() != ',') return Wrong("text follows a quoted cell");
        more = !line.empty();
        if (more) line.remove_prefix(1);
      } else {
        more = line.find(separator_) != std::string_view::npos;
        cell = Trim(TakeUntil(line, separator_));
      }
    }
    return Ok();
  }

  const std::string& name_;
  std::string_view rest_;
  size_t line_ = 0, rows_ = 0;
  char separator_ = ',';
  std::vector<std::string> header_;
  std::array<std::string, kMostCells> cells_;
  size_t count_ = 0;
};

}  // namespace

std::optional<int64_t> ParseDecimal(std::string_view text, int decimals) noexcept {
  if (text.empty() || text == "." || text.size() > 64) return std::nullopt;
  __int128 value = 0;
  int after = -1;  // digits after the point; -1: before it
  for (char c : text) {
    if (c == '.') {
      if (after >= 0) return std::nullopt;
      after = 0;
      continue;
    }
    if (c < '0' || c > '9') return std::nullopt;
    if (after >= decimals) {
      if (c != '0') return std::nullopt;
      continue;
    }
    value = value * 10 + (c - '0');
    if (value > kMostDecimal) return std::nullopt;
    if (after >= 0) ++after;
  }
  for (int i = std::max(after, 0); i < decimals; ++i) {
    value *= 10;
    if (value > kMostDecimal) return std::nullopt;
  }
  return static_cast<int64_t>(value);
}

std::string DecimalText(int64_t value, int decimals) {
  const bool negative = value < 0;
  std::string digits =
      std::to_string(negative ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value));
  const auto places = static_cast<size_t>(decimals);
  if (digits.size() <= places) digits.insert(0, places + 1 - digits.size(), '0');
  digits.insert(digits.size() - places, 1, '.');
  digits.resize(digits.find_last_not_of('0') + 1);
  if (digits.ends_with('.')) digits.pop_back();
  return negative ? "-" + digits : digits;
}

struct RateTable::Row {
  std::string provider, instance_type, product, region;
  int64_t from_unix_s = kAlways;
  int64_t pico = 0;  // of a GPU hour
  std::string origin = {};
};

Result<std::vector<RateTable::Row>> RateTable::ReadPrices(const RateFile& file) {
  TableReader reader(file);
  Status header = reader.ReadHeader();
  if (!header) return header;
  const auto usd = reader.Column("usd_per_hour"), instance = reader.Column("instance_type");
  const auto product = reader.Column("gpu_product"), count = reader.Column("gpu_count");
  const auto provider = reader.Column("provider"), region = reader.Column("region");
  const auto date = reader.Column("date");
  if (!usd || (!instance && !product)) {
    return reader.Wrong(
        "the first line must name the columns usd_per_hour, and instance_type or gpu_product; gpu_count, "
        "provider, region and date may be there");
  }
  std::vector<Row> rows;
  const auto known = [&](std::optional<size_t> column) {
    std::string_view cell = reader.Cell(column);
    return IsUnknown(cell) ? std::string() : std::string(cell);
  };
  for (;;) {
    const auto more = reader.Next();
    if (!more) return more.error();
    if (!*more) break;
    Row row{.provider = known(provider),
            .instance_type = known(instance),
            .product = known(product),
            .region = known(region)};
    if (EqualsIgnoringCase(row.region, "all")) row.region.clear();
    if (row.instance_type.empty() && row.product.empty())
      return reader.Wrong("the row has neither an instance_type nor a gpu_product");
    const std::string price = known(usd), gpus = known(count), day = known(date);
    const auto pico = ParseDecimal(price, kPicoDecimals);
    if (!price.empty() && !pico)
      return reader.Wrong("usd_per_hour is no decimal number below 9 million with at most 12 decimals: \"" +
                          Printable(price) + "\"");
    const auto milli = count ? ParseDecimal(gpus, kMilliDecimals) : 1000;
    if (!gpus.empty() &&
        (!milli || *milli == 0 || (*milli > 1000 && *milli % 1000 != 0) || *milli > 1'024'000))
      return reader.Wrong("gpu_count is neither a whole number up to 1024 nor a part of one GPU: \"" +
                          Printable(gpus) + "\"");
    if (!day.empty()) {
      const auto at = day.size() == 10 ? ParseRfc3339(day + "T00:00:00Z") : std::nullopt;
      if (!at) return reader.Wrong("date is no day such as 2026-11-09: \"" + Printable(day) + "\"");
      row.from_unix_s = *at / kNsPerSecond;
    }
    if (price.empty() || (count && gpus.empty())) continue;
    const int64_t whole = std::max<int64_t>(*milli / 1000, 1);
    row.pico = *pico / whole;
    row.origin = reader.Where() + ": ";
    for (const std::string* part : {&row.provider, &row.instance_type, &row.product}) {
      if (!part->empty()) row.origin += Printable(*part) + " ";
    }
    row.origin += price + " USD/h";
    if (whole > 1) row.origin += " / " + std::to_string(whole) + " GPUs";
    if (!row.region.empty()) row.origin += ", " + Printable(row.region);
    if (!day.empty()) row.origin += ", from " + day;
    rows.push_back(std::move(row));
  }
  // The same key with two prices is a mistake of the file, which only its author can resolve.
  std::vector<const Row*> sorted;
  sorted.reserve(rows.size());
  for (const Row& row : rows) sorted.push_back(&row);
  const auto key = [](const Row* row) {
    return std::tie(row->provider, row->instance_type, row->product, row->region, row->from_unix_s);
  };
  SortStably(sorted, [&](const Row* a, const Row* b) { return key(a) < key(b); });
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (key(sorted[i - 1]) == key(sorted[i]) && sorted[i - 1]->pico != sorted[i]->pico) {
      return Status{Code::kInvalidArgument, sorted[i]->origin + ": contradicts " + sorted[i - 1]->origin};
    }
  }
  return rows;
}

std::vector<RateTable::Row> RateTable::BuiltInPrices() {
  std::vector<Row> rows;
  for (const BuiltInPrice& price : kBuiltInPrices) {
    Row row{.provider = std::string(price.provider),
            .instance_type = std::string(price.instance_type),
            .product = {},
            .region = std::string(price.region)};
    row.pico = ParseDecimal(price.usd_per_hour, kPicoDecimals).value_or(0) / price.gpus;
    row.origin = "built-in list: " + row.provider + " " + row.instance_type + " " +
                 std::string(price.usd_per_hour) + " USD/h";
    if (price.gpus > 1) row.origin += " / " + std::to_string(price.gpus) + " GPUs";
    row.origin +=
        ", " + row.region + ", read " + std::string(price.date) + " (" + std::string(price.source) + ")";
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<std::vector<RateTable::Hour>> RateTable::ReadHours(const RateFile& file) {
  TableReader reader(file);
  Status header = reader.ReadHeader();
  if (!header) return header;
  const auto time = reader.Column("time"), grams = reader.Column("g_per_kwh");
  if (!time || !grams) return reader.Wrong("the first line must name the columns time and g_per_kwh");
  struct Read {
    Hour hour;
    std::string where;
  };
  std::vector<Read> read;
  for (;;) {
    const auto more = reader.Next();
    if (!more) return more.error();
    if (!*more) break;
    std::string text(reader.Cell(time));
    if (text.size() > 10 && text[10] == ' ') text[10] = 'T';
    const auto at = ParseRfc3339(text);
    if (!at)
      return reader.Wrong(
          "time is not an hour with Z or an offset, such as 2026-11-09T14:00:00Z or "
          "2026-11-09T15:00:00+01:00: \"" +
          Printable(text) + "\"");
    Read one{.hour = {.unix_s = *at / kNsPerSecond, .mg_per_kwh = std::nullopt}, .where = reader.Where()};
    if (*at % (60 * kNsPerSecond) != 0)
      return reader.Wrong("an hour begins at a whole minute: \"" + Printable(text) + "\"");
    const std::string_view cell = reader.Cell(grams);
    if (!IsUnknown(cell)) {
      one.hour.mg_per_kwh = ParseDecimal(cell, kMilliDecimals);
      if (!one.hour.mg_per_kwh || *one.hour.mg_per_kwh > kMostMgPerKwh)
        return reader.Wrong("g_per_kwh is no decimal number up to 10000 with at most 3 decimals: \"" +
                            Printable(cell) + "\"");
    }
    read.push_back(std::move(one));
  }
  SortStably(read, [](const Read& a, const Read& b) { return a.hour.unix_s < b.hour.unix_s; });
  std::vector<Hour> hours;
  hours.reserve(read.size());
  for (const Read& one : read) {
    if (!hours.empty() && one.hour.unix_s < hours.back().unix_s + kSecondsPerHour) {
      return Status{Code::kInvalidArgument, one.where + ": the hour overlaps another one of the file"};
    }
    hours.push_back(one.hour);
  }
  return hours;
}

void RateTable::AddRows(int rank, const std::string& list, std::vector<Row> rows,
                        const RateOptions& options) {
  const auto agrees = [](const std::string& of_row, const std::string& wanted) {
    return of_row.empty() || wanted.empty() || EqualsIgnoringCase(of_row, wanted);
  };
  // Those of this instance type come first, and those by product count where there are none.
  std::vector<Row*> chosen, elsewhere;
  for (const bool by_type : {true, false}) {
    if (!chosen.empty() || !elsewhere.empty()) break;
    for (Row& row : rows) {
      if (by_type ? row.instance_type.empty() || !EqualsIgnoringCase(row.instance_type, options.instance_type)
                  : !row.instance_type.empty())
        continue;
      if (!agrees(row.provider, options.provider)) continue;
      (agrees(row.region, options.region) ? chosen : elsewhere).push_back(&row);
    }
  }
  if (chosen.empty()) {
    if (!elsewhere.empty()) {
      no_price_ =
          list + " has a price for " + elsewhere.front()->region + ", not for the region " + options.region;
    }
    return;
  }
  // One product of an instance is any of its GPUs: their driver may name it otherwise.
  const bool one_product = std::ranges::all_of(chosen, [&](const Row* row) {
    return !row->instance_type.empty() && row->product == chosen.front()->product;
  });
  const auto key = [](const Row* row) { return std::tie(row->product, row->from_unix_s); };
  SortStably(chosen, [&](const Row* a, const Row* b) { return key(a) < key(b); });
  for (size_t begin = 0, end = 0; begin < chosen.size(); begin = end) {
    bool agree = true;
    for (end = begin; end < chosen.size() && key(chosen[end]) == key(chosen[begin]); ++end)
      agree = agree && chosen[end]->pico == chosen[begin]->pico;
    Row& row = *chosen[begin];
    if (!agree) {
      no_price_ = list + " has several prices (" + row.origin + "; " + chosen[begin + 1]->origin +
                  "): give the provider and the region";
      continue;
    }
    Price price{
        .rank = rank, .product = {}, .from_unix_s = row.from_unix_s, .pico = row.pico, .origin = row.origin};
    if (!one_product) price.product = WordsOf(row.product, price.words);
    prices_.push_back(std::move(price));
  }
}

Result<RateTable> RateTable::Make(RateOptions options) {
  RateTable table;
  if (options.pue_milli < 1000) {
    return Status{Code::kInvalidArgument, "the power usage effectiveness is below 1: " +
                                              DecimalText(options.pue_milli, kMilliDecimals)};
  }
  for (const auto& [model, pico] : options.pico_by_model) {
    Price price{.rank = 0, .product = {}, .pico = pico, .origin = "price_by_model: " + model};
    price.product = WordsOf(model, price.words);
    price.from_unix_s = kAlways;
    if (price.words == 0) return Status{Code::kInvalidArgument, "a price by model has no name of a model"};
    table.prices_.push_back(std::move(price));
  }
  if (options.pico_per_gpu_hour) {
    table.prices_.push_back({.rank = 1,
                             .product = {},
                             .from_unix_s = kAlways,
                             .pico = *options.pico_per_gpu_hour,
                             .origin = "price_per_gpu_hour"});
  }
  if (options.built_in_prices) {
    table.AddRows(3, "the built-in list", BuiltInPrices(), options);
  }
  if (options.price_file) {
    auto rows = ReadPrices(*options.price_file);
    if (!rows) return rows.error();
    table.AddRows(2, options.price_file->name, std::move(*rows), options);
  }
  SortStably(table.prices_, [](const Price& a, const Price& b) {
    return std::tie(a.rank, b.words, b.from_unix_s) < std::tie(b.rank, a.words, a.from_unix_s);
  });
  if (options.carbon_file) {
    auto hours = ReadHours(*options.carbon_file);
    if (!hours) return hours.error();
    table.hours_ = std::move(*hours);
  }
  if (!options.carbon_file) table.rates_.mg_per_kwh = options.mg_per_kwh;
  table.rates_.pico_per_kwh = options.pico_per_kwh;
  table.rates_.pue_milli = options.pue_milli;
  if (table.no_price_.empty()) {
    table.no_price_ = options.instance_type.empty()
                          ? "the instance type of this machine is not known"
                          : "no list has a price of the instance type " + Printable(options.instance_type);
  }
  return table;
}

const RateTable::Price* RateTable::PriceOf(std::string_view model, int64_t unix_ns) const noexcept {
  const int64_t unix_s = unix_ns / kNsPerSecond;
  for (const Price& price : prices_) {
    if (unix_s >= price.from_unix_s && HasWordsOf(price.product, model)) return &price;
  }
  return nullptr;
}

Rates RateTable::At(std::string_view model, int64_t unix_ns) const noexcept {
  Rates rates = rates_;
  if (const Price* price = PriceOf(model, unix_ns)) rates.pico_per_gpu_hour = price->pico;
  if (!hours_.empty()) {
    const int64_t unix_s = unix_ns / kNsPerSecond;
    const auto after = std::ranges::upper_bound(hours_, unix_s, {}, &Hour::unix_s);
    if (after != hours_.begin() && unix_s < std::prev(after)->unix_s + kSecondsPerHour)
      rates.mg_per_kwh = std::prev(after)->mg_per_kwh;
  }
  return rates;
}

std::string RateTable::PriceOrigin(std::string_view model, int64_t unix_ns) const {
  if (const Price* price = PriceOf(model, unix_ns)) return price->origin;
  for (const Price& price : prices_) {
    if (HasWordsOf(price.product, model)) return "not yet in force: " + price.origin;
  }
  return no_price_;
}

}  // namespace gpulens::ledger

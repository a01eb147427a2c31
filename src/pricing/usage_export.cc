#include "pricing/usage_export.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/json.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "pricing/price_table.h"

namespace gpulens::pricing {
namespace {

constexpr int64_t kDayOfUsage = 86'400;
constexpr size_t kMostUsageName = 256, kMostUsageCell = 4096, kMostUsageColumns = 256;
constexpr size_t kMostUsageDepth = 16;
constexpr Int128 kMostUsageUnits = Int128{1'000'000'000'000'000};
constexpr Int128 kMostUsagePico = kMostUsageUnits * kPicoPerUsd;
constexpr int64_t kMostUsageSecond = 7'258'118'400;  // the begin of 2200

// text x 10^scale as a whole number, half to even; `rounded` is set when that lost something. An exponent is
// allowed. False for another text and beyond `most`.
bool ParseScaled(std::string_view text, int scale, Int128 most, Int128& out, bool& rounded) noexcept {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  int exponent = 0;
  if (const size_t e = text.find_first_of("eE"); e != std::string_view::npos) {
    std::string_view power = text.substr(e + 1);
    if (power.starts_with('+')) power.remove_prefix(1);
    const auto parsed = ParseInt<int>(power);
    if (!parsed || *parsed > 400 || *parsed < -400) return false;
    exponent = *parsed;
    text = text.substr(0, e);
  }
  std::array<char, 64> digits;
  size_t count = 0, seen = 0;
  bool point = false;
  for (const char c : text) {
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9') return false;
    ++seen;
    if (point) --exponent;
    if (count == 0 && c == '0') continue;
    if (count == digits.size()) return false;
    digits[count++] = c;
  }
  if (seen == 0) return false;
  exponent += scale;
  const size_t kept = exponent >= 0 ? count : count - std::min<size_t>(count, static_cast<size_t>(-exponent));
  Int128 value = 0;
  for (size_t i = 0; i < kept; ++i) {
    value = value * 10 + (digits[i] - '0');
    if (value > most) return false;
  }
  for (; exponent > 0 && value != 0; --exponent) {
    value *= 10;
    if (value > most) return false;
  }
  const bool lost =
      std::any_of(digits.begin() + static_cast<std::ptrdiff_t>(kept),
                  digits.begin() + static_cast<std::ptrdiff_t>(count), [](char c) { return c != '0'; });
  if (lost) {
    rounded = true;
    // The cut digits as a fraction: they begin with a 5 only where none of their leading zeros are left out.
    const bool full = static_cast<size_t>(-exponent) == count - kept;
    const char first = full ? digits[kept] : '0';
    const bool more =
        std::any_of(digits.begin() + static_cast<std::ptrdiff_t>(kept) + 1,
                    digits.begin() + static_cast<std::ptrdiff_t>(count), [](char c) { return c != '0'; });
    if (first > '5' || (first == '5' && (more || value % 2 != 0))) ++value;
  }
  out = negative ? -value : value;
  return true;
}

std::optional<Int128> ParseUnits(std::string_view text) noexcept {
  Int128 units = 0;
  bool rounded = false;
  if (!ParseScaled(text, 0, kMostUsageUnits, units, rounded) || rounded || units < 0) return std::nullopt;
  return units;
}

constexpr int kUsdScale = 12, kCentScale = 10;

// "gpt-5-2025-08-07, input" is of the model gpt-5-2025-08-07; a line without a comma is one of its own.
std::string_view ModelOfLine(std::string_view line) noexcept {
  return Trim(line.substr(0, std::min(line.find(','), line.size())));
}

// Rows and what they cover, for both kinds of files.
class UsageRows {
 public:
  explicit UsageRows(UsageExport& out) : out_(out) {}

  void Cover(int64_t begin_s, int64_t end_s) {
    out_.begin_s = any_ ? std::min(out_.begin_s, begin_s) : begin_s;
    out_.end_s = any_ ? std::max(out_.end_s, end_s) : end_s;
    any_ = true;
  }
  Status Add(UsageRow row) {
    if (out_.rows.size() == kMostUsageRows) return {Code::kExhausted, "more than 500,000 rows"};
    out_.known = static_cast<uint8_t>(out_.known | row.amounts.known);
    out_.rows.push_back(std::move(row));
    return Ok();
  }

 private:
  UsageExport& out_;
  bool any_ = false;
};

// What one file counts of input: with its parts, or without them.
struct InputParts {
  std::optional<Int128> all, uncached;

  void AddTo(UsageAmounts& amounts) const {
    if (all) return amounts.Add(UsageMeasure::kInput, *all);
    if (!uncached) return;
    amounts.Add(UsageMeasure::kInput, *uncached + amounts[UsageMeasure::kCached] +
                                          amounts[UsageMeasure::kCacheWrite] +
                                          amounts[UsageMeasure::kCacheWriteLong]);
  }
};

class JsonUsageReader {
 public:
  JsonUsageReader(std::string_view text, UsageExport& out)
      : json_(text, kMostUsageDepth), out_(out), rows_(out) {}

  Status Read() {
    if (json_.Peek() == JsonScanner::kArray) json_.Array([&] { Page(); });
    else Page();
    if (const Status status = json_.Finish(); !status && what_.empty()) return At(json_.what(), status.code);
    if (!what_.empty()) return At(what_, code_);
    if (!data_) return {Code::kInvalidArgument, "neither a page of a usage or cost API nor a table"};
    if (format_ == Format::kUnknown) format_ = iso_ ? Format::kAnthropicUsage : Format::kOpenAiUsage;
    constexpr std::string_view kFormats[] = {"", "OpenAI usage", "OpenAI costs", "Anthropic usage",
                                             "Anthropic costs"};
    out_.format = kFormats[static_cast<size_t>(format_)];
    out_.provider = format_ <= Format::kOpenAiCosts ? "openai" : "anthropic";
    return Ok();
  }

 private:
  enum class Format : uint8_t { kUnknown, kOpenAiUsage, kOpenAiCosts, kAnthropicUsage, kAnthropicCosts };

  Status At(const std::string& what, Code code) const {
    return {code == Code::kExhausted ? code : Code::kInvalidArgument,
            "byte " + std::to_string(json_.at()) + ": " + what};
  }
  void Wrong(std::string what, Code code = Code::kInvalidArgument) {
    if (!what_.empty() || json_.failed()) return;
    what_ = std::move(what), code_ = code;
    json_.Fail("stopped");
  }

  void Page() {
    out_.whole = true;
    json_.Object([&](std::string_view key) {
      if (key == "data") {
        data_ = json_.Peek() == JsonScanner::kArray;
        json_.Array([&] { Bucket(); });
      } else if (key == "has_more") {
        out_.whole = !json_.Bool().value_or(false);
      }
    });
  }

  void Bucket() {
    std::optional<int64_t> begin, end;
    const size_t first = out_.rows.size();
    bool results = false;
    json_.Object([&](std::string_view key) {
      if (key == "start_time" || key == "end_time") {
        if (const auto second = json_.Unsigned())
          (key[0] == 's' ? begin : end) = static_cast<int64_t>(std::min<uint64_t>(*second, INT64_MAX));
      } else if (key == "starting_at" || key == "ending_at") {
        iso_ = true;
        if (const auto ns = ParseRfc3339(json_.Text())) (key[0] == 's' ? begin : end) = *ns / 1'000'000'000;
      } else if (key == "results" || key == "result") {
        results = true;
        json_.Array([&] { Item(); });
      }
    });
    if (json_.failed()) return;
    if (!begin || !end || *end <= *begin || *begin < 0 || *end > kMostUsageSecond)
      return Wrong("a bucket without a begin and an end that is later");
    if (!results) return Wrong("a bucket without results");
    rows_.Cover(*begin, *end);
    for (size_t i = first; i < out_.rows.size(); ++i)
      out_.rows[i].begin_s = *begin, out_.rows[i].end_s = *end;
  }

  void Units(UsageAmounts& amounts, UsageMeasure measure) {
    if (const auto units = Number()) amounts.Add(measure, *units);
  }
  // None for null.
  std::optional<Int128> Number() {
    if (json_.Peek() != JsonScanner::kNumber) {
      if (json_.Peek() != JsonScanner::kNull) Wrong("a count that is no number");
      else json_.Skip();
      return std::nullopt;
    }
    std::string_view text;
    if (!json_.Number(text)) return std::nullopt;
    const auto units = ParseUnits(text);
    if (!units) Wrong("a count that is no whole number from 0 to 10^15");
    return units;
  }
  void Money(UsageAmounts& amounts, int scale) {
    std::string text;
    if (json_.Peek() == JsonScanner::kString) {
      text = json_.Text();
    } else {
      std::string_view number;
      if (json_.Peek() != JsonScanner::kNumber || !json_.Number(number))
        return Wrong("an amount that is no number");
      text = number;
    }
    Int128 pico = 0;
    bool rounded = false;
    if (!ParseScaled(text, scale, kMostUsagePico, pico, rounded))
      return Wrong("an amount that is no number of dollars");
    out_.rounded += rounded ? 1 : 0;
    amounts.Add(UsageMeasure::kPico, pico);
  }
  void Currency() {
    const std::string_view text = json_.Text();
    if (!text.empty() && !EqualsIgnoringCase(text, "usd"))
      Wrong("an amount in " + Printable(text.substr(0, 16)) + ": only USD is compared");
  }
  void Is(Format format) {
    if (format_ == Format::kUnknown) format_ = format;
    else if (format_ != format) Wrong("results of two kinds in one file");
  }
  void Name(std::string& out) {
    const std::string_view text = json_.Text();
    if (text.size() > kMostUsageName) return Wrong("a name longer than 256 bytes");
    out = text;
  }

  void Item() {
    UsageRow row;
    InputParts input;
    bool batch = false, tier = false;
    std::string line;
    json_.Object([&](std::string_view key) {
      UsageAmounts& amounts = row.amounts;
      if (key == "object") {
        const std::string_view object = json_.Text();
        if (object == "organization.costs.result") return Is(Format::kOpenAiCosts);
        if (object == "organization.usage.completions.result" ||
            object == "organization.usage.embeddings.result")
          return Is(Format::kOpenAiUsage);
        return Wrong("results of the kind " + Printable(object.substr(0, 64)) +
                     " are not read: only completions, embeddings and costs are");
      }
      if (key == "model") return Name(row.model);
      if (key == "line_item") return Name(line);
      if (key == "service_tier" && json_.Peek() == JsonScanner::kString) return tier = true, Name(row.tier);
      if (key == "batch" && json_.Peek() != JsonScanner::kNull) {
        batch = json_.Bool().value_or(false);
        tier = true;
        return;
      }
      if (key == "num_model_requests") return Units(amounts, UsageMeasure::kRequests);
      if (key == "input_tokens") return static_cast<void>(input.all = Number());
      if (key == "uncached_input_tokens")
        return Is(Format::kAnthropicUsage), static_cast<void>(input.uncached = Number());
      if (key == "input_cached_tokens" || key == "cache_read_input_tokens")
        return Units(amounts, UsageMeasure::kCached);
      if (key == "input_cache_write_tokens") return Units(amounts, UsageMeasure::kCacheWrite);
      if (key == "output_tokens") return Units(amounts, UsageMeasure::kOutput);
      if (key == "cache_creation") {
        json_.Object([&](std::string_view part) {
          if (part == "ephemeral_5m_input_tokens") Units(amounts, UsageMeasure::kCacheWrite);
          else if (part == "ephemeral_1h_input_tokens") Units(amounts, UsageMeasure::kCacheWriteLong);
        });
        return;
      }
      if (key == "server_tool_use") {
        json_.Object([&](std::string_view part) {
          if (part == "web_search_requests") Units(amounts, UsageMeasure::kWebSearches);
        });
        return;
      }
      if (key == "currency") return Currency();
      if (key != "amount" || json_.Peek() == JsonScanner::kNull) return;
      if (json_.Peek() != JsonScanner::kObject)
        return Is(Format::kAnthropicCosts), Money(amounts, kCentScale);
      Is(Format::kOpenAiCosts);
      json_.Object([&](std::string_view part) {
        if (part == "value") Money(amounts, kUsdScale);
        else if (part == "currency") Currency();
      });
    });
    if (json_.failed()) return;
    if (row.model.empty()) row.model = ModelOfLine(line);
    if (batch) row.tier = "batch";
    if (tier) row.tier = UsageTier(row.tier);
    input.AddTo(row.amounts);
    if (row.amounts.known == 0) return Wrong("a result without a count or an amount");
    if (const Status status = rows_.Add(std::move(row)); !status) Wrong(status.detail, status.code);
  }

  JsonScanner json_;
  UsageExport& out_;
  UsageRows rows_;
  Format format_ = Format::kUnknown;
  bool iso_ = false, data_ = false;
  std::string what_;
  Code code_ = Code::kInvalidArgument;
};

enum TableColumn : uint8_t {
  kDateColumn,
  kEndColumn,
  kProviderColumn,
  kModelColumn,
  kTierColumn,
  kRequestsColumn,
  kInputColumn,
  kUncachedColumn,
  kCachedColumn,
  kCacheWriteColumn,
  kCacheWriteLongColumn,
  kOutputColumn,
  kWebSearchesColumn,
  kUsdColumn,
  kCentsColumn,
  kCurrencyColumn,
  kBatchColumn,
  kSpeedColumn,
  kLineColumn,
};
constexpr std::string_view kTableColumns[] = {
    "date",   "end",         "provider",         "model",  "tier",         "requests", "input", "uncached",
    "cached", "cache_write", "cache_write_long", "output", "web_searches", "usd",      "cents", "currency",
    "batch",  "speed",       "line_item"};
constexpr size_t kTableColumnCount = std::size(kTableColumns);

// Names that files have for them, the preferred one first.
struct ColumnName {
  TableColumn column;
  std::string_view name;
};
constexpr ColumnName kColumnNames[] = {
    {kDateColumn, "start_time"},
    {kDateColumn, "usage_date_utc"},
    {kDateColumn, "starting_at"},
    {kDateColumn, "usage_start_time"},
    {kDateColumn, "start_time_iso"},
    {kDateColumn, "date"},
    {kDateColumn, "day"},
    {kDateColumn, "usage_date"},
    {kDateColumn, "timestamp"},
    {kEndColumn, "end_time"},
    {kEndColumn, "ending_at"},
    {kEndColumn, "usage_end_time"},
    {kEndColumn, "end_time_iso"},
    {kProviderColumn, "provider"},
    {kModelColumn, "model_version"},
    {kModelColumn, "model"},
    {kModelColumn, "model_name"},
    {kModelColumn, "model_id"},
    {kTierColumn, "service_tier"},
    {kTierColumn, "usage_type"},
    {kTierColumn, "tier"},
    {kRequestsColumn, "num_model_requests"},
    {kRequestsColumn, "requests"},
    {kRequestsColumn, "num_requests"},
    {kRequestsColumn, "request_count"},
    {kInputColumn, "input_tokens"},
    {kInputColumn, "prompt_tokens"},
    {kInputColumn, "input"},
    {kUncachedColumn, "usage_input_tokens_no_cache"},
    {kUncachedColumn, "uncached_input_tokens"},
    {kUncachedColumn, "input_uncached_tokens"},
    {kCachedColumn, "input_cached_tokens"},
    {kCachedColumn, "usage_input_tokens_cache_read"},
    {kCachedColumn, "cache_read_input_tokens"},
    {kCachedColumn, "cached_input_tokens"},
    {kCachedColumn, "cached_tokens"},
    {kCacheWriteColumn, "usage_input_tokens_cache_write_5m"},
    {kCacheWriteColumn, "input_cache_write_tokens"},
    {kCacheWriteColumn, "usage_input_tokens_cache_write"},
    {kCacheWriteColumn, "cache_creation_input_tokens"},
    {kCacheWriteLongColumn, "usage_input_tokens_cache_write_1h"},
    {kOutputColumn, "output_tokens"},
    {kOutputColumn, "usage_output_tokens"},
    {kOutputColumn, "completion_tokens"},
    {kOutputColumn, "output"},
    {kWebSearchesColumn, "web_search_count"},
    {kWebSearchesColumn, "web_search_requests"},
    {kUsdColumn, "amount_value"},
    {kUsdColumn, "cost_usd"},
    {kUsdColumn, "amount_usd"},
    {kUsdColumn, "usd"},
    {kUsdColumn, "cost"},
    {kCurrencyColumn, "amount_currency"},
    {kCurrencyColumn, "currency"},
    {kBatchColumn, "batch"},
    {kSpeedColumn, "speed"},
    {kLineColumn, "line_item"},
};

std::string ColumnKey(std::string_view name) {
  std::string out;
  for (const char c : Trim(name)) {
    if (c >= 'A' && c <= 'Z') out += static_cast<char>(c - 'A' + 'a');
    else out += c == ' ' || c == '.' || c == '-' ? '_' : c;
  }
  return out;
}

// Cells of one table: RFC 4180, with any of three separators.
class TableCells {
 public:
  explicit TableCells(std::string_view text) : rest_(text) {
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
    const std::string_view head = rest_.substr(0, rest_.find('\n'));
    const auto has = [&](char c) { return head.find(c) != std::string_view::npos; };
    separator_ = has('\t') ? '\t' : has(',') ? ',' : has(';') ? ';' : ',';
  }

  size_t line() const noexcept { return line_; }
  const std::vector<std::string>& cells() const noexcept { return cells_; }

  // False at the end. Lines without text are passed.
  Result<bool> Next() {
    while (!rest_.empty()) {
      cells_.clear();
      line_ = next_line_;
      RETURN_IF_ERROR(Record());
      if (cells_.size() > 1 || !cells_[0].empty()) return true;
    }
    return false;
  }

 private:
  Status Record() {
    for (bool more = true; more;) {
      if (cells_.size() == kMostUsageColumns) return {Code::kInvalidArgument, "more than 256 cells"};
      std::string cell;
      const bool quoted = rest_.starts_with('"');
      if (quoted) RETURN_IF_ERROR(Quoted(cell));
      const std::array<char, 2> ends{separator_, '\n'};
      const size_t size =
          std::min(rest_.find_first_of(std::string_view(ends.data(), ends.size())), rest_.size());
      const std::string_view plain = Trim(rest_.substr(0, size));
      if (quoted && !plain.empty()) return {Code::kInvalidArgument, "text behind a quoted cell"};
      cell += plain;
      if (cell.size() > kMostUsageCell) return {Code::kInvalidArgument, "a cell longer than 4096 bytes"};
      cells_.push_back(std::move(cell));
      more = size < rest_.size() && rest_[size] == separator_;
      if (size < rest_.size() && rest_[size] == '\n') ++next_line_;
      rest_.remove_prefix(std::min(size + 1, rest_.size()));
      // A separator at the very end has an empty cell behind it.
      if (more && rest_.empty()) cells_.emplace_back(), more = false;
    }
    return Ok();
  }

  Status Quoted(std::string& cell) {
    rest_.remove_prefix(1);
    while (true) {
      const size_t at = rest_.find('"');
      if (at == std::string_view::npos || cell.size() > kMostUsageCell)
        return {Code::kInvalidArgument, "a quoted cell without an end"};
      const std::string_view part = rest_.substr(0, at);
      next_line_ += static_cast<size_t>(std::count(part.begin(), part.end(), '\n'));
      cell += part;
      rest_.remove_prefix(at + 1);
      if (!rest_.starts_with('"')) return Ok();
      cell += '"';
      rest_.remove_prefix(1);
    }
  }

  std::string_view rest_;
  char separator_ = ',';
  size_t line_ = 0, next_line_ = 1;
  std::vector<std::string> cells_;
};

class TableUsageReader {
 public:
  TableUsageReader(std::string_view text, const UsageExportOptions& options, UsageExport& out)
      : cells_(text), options_(options), out_(out), rows_(out) {}

  Status Read() {
    RETURN_IF_ERROR(ReadHeader());
    while (true) {
      Result<bool> any = cells_.Next();
      if (!any) return Wrong(any.error().detail);
      if (!*any) return Ok();
      RETURN_IF_ERROR(ReadRow());
    }
  }

  size_t line() const noexcept { return cells_.line(); }

 private:
  Status Wrong(const std::string& what, Code code = Code::kInvalidArgument) const {
    return {code, std::to_string(std::max<size_t>(1, cells_.line())) + ": " + what};
  }

  Status ReadHeader() {
    Result<bool> any = cells_.Next();
    if (!any) return Wrong(any.error().detail);
    if (!*any) return Wrong("the file is empty");
    std::vector<std::string> names;
    for (const std::string& cell : cells_.cells()) names.push_back(ColumnKey(cell));
    const auto at = [&](std::string_view name) -> std::optional<size_t> {
      const auto found = std::find(names.begin(), names.end(), name);
      if (found == names.end()) return std::nullopt;
      return static_cast<size_t>(found - names.begin());
    };
    for (const ColumnName& known : kColumnNames) {
      if (!at_[known.column]) at_[known.column] = at(known.name);
    }
    RETURN_IF_ERROR(ReadChoice(at));
    const bool openai = at("num_model_requests") || at("amount_value") || at("organization_id");
    const bool anthropic = at("usage_date_utc").has_value();
    const bool money = at_[kUsdColumn] || at_[kCentsColumn];
    out_.provider = openai ? "openai" : anthropic ? "anthropic" : "";
    out_.format = openai      ? (money ? "OpenAI costs (table)" : "OpenAI usage (table)")
                  : anthropic ? (money ? "Anthropic costs (table)" : "Anthropic usage (table)")
                              : "table";
    if (!at_[kDateColumn]) return Wrong("no column has the date; name it: --columns date=NAME");
    const auto measure = [&](TableColumn column) { return at_[column].has_value(); };
    if (!money &&
        !std::any_of(std::begin(kMeasures), std::end(kMeasures),
                     [&](const auto& one) { return measure(one.column); }) &&
        !measure(kInputColumn) && !measure(kUncachedColumn))
      return Wrong("no column has requests, tokens or an amount; name one: --columns usd=NAME");
    return Ok();
  }

  template <class At>
  Status ReadChoice(At&& at) {
    std::string_view rest = options_.columns;
    while (!rest.empty()) {
      std::string_view name = TakeUntil(rest, ',');
      const std::string_view column = Trim(TakeUntil(name, '='));
      const auto* found = std::find(std::begin(kTableColumns), std::end(kTableColumns), column);
      if (found == std::end(kTableColumns) || Trim(name).empty())
        return {Code::kInvalidArgument,
                "1: --columns " + Printable(column.substr(0, 64)) +
                    ": expected NAME=COLUMN, as date=usage_start_time, where NAME is one of " +
                    "date, end, provider, model, tier, requests, input, uncached, cached, "
                    "cache_write, cache_write_long, output, web_searches, usd, cents, currency"};
      std::optional<size_t>& to = at_[static_cast<size_t>(found - std::begin(kTableColumns))];
      to = std::nullopt;
      if (Trim(name) == "-") continue;
      to = at(ColumnKey(name));
      if (!to) return Wrong("there is no column \"" + Printable(Trim(name).substr(0, 64)) + "\"");
    }
    return Ok();
  }

  std::string_view Cell(TableColumn column) const noexcept {
    const std::optional<size_t> at = at_[column];
    return at && *at < cells_.cells().size() ? std::string_view(cells_.cells()[*at]) : std::string_view();
  }

  // A second, an RFC 3339 time, "2026-11-26 07:00:00 UTC", or a date: then `day` is set.
  std::optional<int64_t> TimeOf(std::string_view text, bool& day) const {
    if (const auto second = ParseUnits(text)) {
      if (*second > kMostUsageSecond) return std::nullopt;
      return static_cast<int64_t>(*second);
    }
    if (text.size() < 10 || text.size() > 40) return std::nullopt;
    std::string iso(text);
    if (iso[4] == '/' && iso[7] == '/') iso[4] = iso[7] = '-';
    day = iso.size() == 10;
    if (day) iso += "T00:00:00";
    if (iso[10] == ' ') iso[10] = 'T';
    if (iso.ends_with(" UTC")) iso.replace(iso.size() - 4, 4, "Z");
    int64_t zone = 0;
    if (iso.find_first_of("Z+", 19) == std::string::npos && iso.find('-', 19) == std::string::npos) {
      iso += "Z";
      zone = options_.zone_s;
      if (at_[kDateColumn] && day && out_.provider == "anthropic") zone = 0;  // usage_date_utc
    }
    const auto ns = ParseRfc3339(iso);
    if (!ns) return std::nullopt;
    return *ns / 1'000'000'000 - zone;
  }

  Status ReadTimes(UsageRow& row) const {
    bool day = false, end_day = false;
    const auto begin = TimeOf(Cell(kDateColumn), day);
    if (!begin || *begin < 0)
      return Wrong("\"" + Printable(Cell(kDateColumn).substr(0, 64)) +
                   "\" is no time: expected 2026-11-26, "
                   "2026-11-26T07:00:00Z or seconds since 1970");
    row.begin_s = *begin;
    row.end_s = *begin + (day ? kDayOfUsage : 0);
    if (Cell(kEndColumn).empty()) return Ok();
    const auto end = TimeOf(Cell(kEndColumn), end_day);
    if (!end || *end < *begin) return Wrong("the end is no time, or before the begin");
    row.end_s = *end;
    return Ok();
  }

  Status ReadMoney(UsageAmounts& amounts) {
    for (const auto& [column, scale] :
         {std::pair{kUsdColumn, kUsdScale}, std::pair{kCentsColumn, kCentScale}}) {
      std::string_view text = Cell(column);
      if (text.starts_with('$')) text.remove_prefix(1);
      if (text.empty()) continue;
      Int128 pico = 0;
      bool rounded = false;
      if (!ParseScaled(text, scale, kMostUsagePico, pico, rounded))
        return Wrong("\"" + Printable(text.substr(0, 64)) + "\" is no amount");
      const std::string_view currency = Cell(kCurrencyColumn);
      if (!currency.empty() && !EqualsIgnoringCase(currency, "usd"))
        return Wrong("an amount in " + Printable(currency.substr(0, 16)) + ": only USD is compared");
      out_.rounded += rounded ? 1 : 0;
      amounts.Add(UsageMeasure::kPico, pico);
    }
    return Ok();
  }

  Status ReadUnits(TableColumn column, std::optional<Int128>& out) const {
    if (Cell(column).empty()) return Ok();
    out = ParseUnits(Cell(column));
    if (!out)
      return Wrong(std::string(kTableColumns[column]) + ": \"" + Printable(Cell(column).substr(0, 64)) +
                   "\" is no whole number from 0 to 10^15");
    return Ok();
  }

  void ReadNames(UsageRow& row) const {
    row.provider = Cell(kProviderColumn);
    row.model = Cell(kModelColumn).empty() ? ModelOfLine(Cell(kLineColumn)) : Cell(kModelColumn);
    // Anthropic's table of costs has what was called here, not a tier.
    const std::string_view tier = Cell(kTierColumn) == "message" ? std::string_view() : Cell(kTierColumn);
    if (EqualsIgnoringCase(Cell(kBatchColumn), "true")) row.tier = "batch";
    else if (EqualsIgnoringCase(Cell(kSpeedColumn), "fast")) row.tier = "fast";
    else if (!tier.empty() || !Cell(kBatchColumn).empty()) row.tier = UsageTier(tier);
  }

  Status ReadRow() {
    UsageRow row;
    RETURN_IF_ERROR(ReadTimes(row));
    rows_.Cover(row.begin_s, row.end_s);
    ReadNames(row);
    for (const std::string* name : {&row.provider, &row.model, &row.tier}) {
      if (name->size() > kMostUsageName || !IsUtf8(*name))
        return Wrong("a name that is longer than 256 bytes, or no UTF-8");
    }
    for (const auto& [column, measure] : kMeasures) {
      std::optional<Int128> units;
      RETURN_IF_ERROR(ReadUnits(column, units));
      if (units) row.amounts.Add(measure, *units);
    }
    InputParts input;
    RETURN_IF_ERROR(ReadUnits(kInputColumn, input.all));
    RETURN_IF_ERROR(ReadUnits(kUncachedColumn, input.uncached));
    input.AddTo(row.amounts);
    RETURN_IF_ERROR(ReadMoney(row.amounts));
    if (row.amounts.known == 0) return Ok();  // a day without usage
    if (const Status status = rows_.Add(std::move(row)); !status) return Wrong(status.detail, status.code);
    return Ok();
  }

  struct MeasureColumn {
    TableColumn column;
    UsageMeasure measure;
  };
  static constexpr MeasureColumn kMeasures[] = {
      {kRequestsColumn, UsageMeasure::kRequests},     {kCachedColumn, UsageMeasure::kCached},
      {kCacheWriteColumn, UsageMeasure::kCacheWrite}, {kCacheWriteLongColumn, UsageMeasure::kCacheWriteLong},
      {kOutputColumn, UsageMeasure::kOutput},         {kWebSearchesColumn, UsageMeasure::kWebSearches}};

  TableCells cells_;
  const UsageExportOptions& options_;
  UsageExport& out_;
  UsageRows rows_;
  std::array<std::optional<size_t>, kTableColumnCount> at_;
};

}  // namespace

std::string_view UsageMeasureName(UsageMeasure measure) noexcept {
  constexpr std::string_view kNames[] = {"requests",         "input",  "cached",       "cache_write",
                                         "cache_write_long", "output", "web_searches", "usd"};
  static_assert(std::size(kNames) == kUsageMeasures);
  return kNames[static_cast<size_t>(measure)];
}

Result<UsageExport> ReadUsageExport(std::string_view text, const UsageExportOptions& options) {
  if (text.size() > kMostUsageBytes) return Status{Code::kExhausted, options.name + ": longer than 64 MiB"};
  UsageExport out;
  const std::string_view begin = Trim(text.substr(0, std::min<size_t>(text.size(), 4096)));
  const bool json = begin.starts_with('{') || begin.starts_with('[');
  const Status status =
      json ? JsonUsageReader(text, out).Read() : TableUsageReader(text, options, out).Read();
  if (!status) return Status{status.code, options.name + (json ? ": " : ":") + status.detail};
  return out;
}

std::string UsageTier(std::string_view name) {
  const auto tier = ServedTier(name);
  return std::string(tier ? PriceTierName(*tier) : name);
}

std::string UsageModelStem(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') out += static_cast<char>(c - 'A' + 'a');
    else out += c == ' ' || c == '.' || c == '_' || c == '@' ? '-' : c;
  }
  // -2026-04-23 and -20260423.
  const auto ends = [&](std::string_view form) {
    if (out.size() <= form.size()) return false;
    const std::string_view end = std::string_view(out).substr(out.size() - form.size());
    for (size_t i = 0; i < form.size(); ++i) {
      const bool digit = end[i] >= '0' && end[i] <= '9';
      if (form[i] == '-' ? end[i] != '-' : !digit) return false;
    }
    return true;
  };
  for (const std::string_view form : {std::string_view("-0000-00-00"), std::string_view("-00000000")}) {
    if (!ends(form)) continue;
    out.resize(out.size() - form.size());
    break;
  }
  return out;
}

bool ParseZone(std::string_view text, int64_t& zone_s) noexcept {
  if (text == "Z" || text == "UTC") return zone_s = 0, true;
  if (text.size() != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':') return false;
  const auto hours = ParseInt<unsigned>(text.substr(1, 2)), minutes = ParseInt<unsigned>(text.substr(4, 2));
  if (!hours || !minutes || *hours > 14 || *minutes > 59) return false;
  const int64_t seconds = *hours * int64_t{3600} + *minutes * int64_t{60};
  zone_s = text[0] == '+' ? seconds : -seconds;
  return true;
}

}  // namespace gpulens::pricing

#include "cli/cost/charge_report.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "cli/common/output.h"
#include "net/client/http_client.h"
#include "pricing/money.h"
#include "store/charges/charge_reader.h"
#include "store/ledger/wide_text.h"
#include "wire/json/json_object.h"

namespace gpulens {
namespace {

using ledger::RoundedText;
using ledger::WideText;

constexpr int kChargeDecimals = 12, kEnergyDecimals = 6;
constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr std::string_view kBudget = "budget", kByoc = "byoc";
// In hours of more requests than these the rest has no share: bounds memory to some hundred MiB.
constexpr size_t kMostInHour = 4'000'000;
constexpr size_t kMostKeyShown = 40;

// A column of a table, a member of JSON and a field of CSV.
int64_t UnitsOf(const std::array<int64_t, kLlmClasses>& units, bool (*which)(LlmClass)) {
  int64_t sum = 0;
  for (size_t i = 0; i < kLlmClasses; ++i) {
    if (which(static_cast<LlmClass>(i))) sum += units[i];
  }
  return sum;
}
bool IsCached(LlmClass of) noexcept {
  return of == LlmClass::kInputCached || of == LlmClass::kInputAudioCached;
}
bool IsPrompt(LlmClass of) noexcept { return IsInput(of); }
bool IsComputed(LlmClass of) noexcept { return IsInput(of) && !IsCached(of); }
bool IsGenerated(LlmClass of) noexcept { return IsOutput(of); }

// What a report is grouped or filtered by: a dimension, of which a request has one text or, of budgets,
// several.
struct Key {
  ChargeDimension dimension = ChargeDimension::kTenant;
  bool budget = false;
};

Result<Key> ParseKey(std::string_view word, std::string_view option) {
  Key key;
  if (word == kBudget) return Key{ChargeDimension::kBudgets, true};
  if (word != Name(ChargeDimension::kBudgets) && Parse(word, key.dimension)) return key;
  const std::vector<std::string_view> names = ChargeKeys();
  return Status{Code::kInvalidArgument, std::string(option) + " " + std::string(word) + ": expected " +
                                            Joined(names, ", ") + "." + DidYouMean(word, names)};
}

std::string TextOf(const ChargeRecord& record, ChargeDimension dimension) {
  switch (dimension) {
    case ChargeDimension::kTenant: return record.tenant;
    case ChargeDimension::kKey: return record.key;
    case ChargeDimension::kProvider: return record.provider;
    case ChargeDimension::kModel:
      return record.model_answered.empty() ? record.model_requested : record.model_answered;
    case ChargeDimension::kTier: return record.tier;
    case ChargeDimension::kProfile: return record.profile;
    case ChargeDimension::kRegion: return record.region;
    case ChargeDimension::kOperation: return record.operation;
    case ChargeDimension::kOutcome: return std::string(Name(record.outcome));
    case ChargeDimension::kCountedBy: return std::string(Name(record.counted_by));
    case ChargeDimension::kCurrency: return record.currency;
    case ChargeDimension::kDay: return ledger::DayText(record.settled_unix_ns / kNsPerSecond);
    case ChargeDimension::kBudgets: return BudgetsText(record.budgets);
  }
  return {};
}

struct Grouping {
  std::vector<Key> by;
  std::vector<std::pair<Key, std::string>> where;
  size_t budget = SIZE_MAX;  // its place in `by`

  bool Passes(const std::function<std::string(ChargeDimension)>& text_of) const {
    return std::ranges::all_of(where, [&](const auto& filter) {
      const std::string text = text_of(filter.first.dimension);
      if (!filter.first.budget) return text == filter.second;
      const std::vector<std::string> budgets = ParseBudgets(text);
      return filter.second.empty() ? budgets.empty()
                                   : std::ranges::find(budgets, filter.second) != budgets.end();
    });
  }
  // The rows that something with these texts, in the order of `by`, is in.
  std::vector<std::vector<std::string>> RowsOf(const std::vector<std::string>& texts) const {
    if (budget == SIZE_MAX) return {texts};
    std::vector<std::string> budgets = ParseBudgets(texts[budget]);
    if (budgets.empty()) budgets.emplace_back();
    std::vector<std::vector<std::string>> rows;
    for (std::string& name : budgets) {
      rows.push_back(texts);
      rows.back()[budget] = std::move(name);
    }
    return rows;
  }
};

Result<Grouping> GroupingOf(const CostOptions& options) {
  Grouping out;
  std::string_view rest = options.by;
  std::set<std::string_view> seen;
  while (!rest.empty()) {
    const std::string_view word = Trim(TakeUntil(rest, ','));
    ASSIGN_OR_RETURN(const Key key, ParseKey(word, "--by"));
    if (!seen.insert(word).second)
      return Status{Code::kInvalidArgument, "--by " + options.by + ": " + std::string(word) + " comes twice"};
    if (key.budget) out.budget = out.by.size();
    out.by.push_back(key);
  }
  for (const std::string& text : options.where) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos)
      return Status{Code::kInvalidArgument,
                    "--where " + text + ": expected KEY=VALUE, where KEY is one of --by's"};
    ASSIGN_OR_RETURN(const Key key, ParseKey(std::string_view(text).substr(0, equals), "--where"));
    out.where.emplace_back(key, text.substr(equals + 1));
  }
  return out;
}

void Add(ChargeSums& to, const ChargeSums& more) {
  to.requests += more.requests;
  to.list_pico += more.list_pico;
  to.charged_pico += more.charged_pico;
  to.reserved_unsettled_pico += more.reserved_unsettled_pico;
  for (size_t i = 0; i < kLlmClasses; ++i) to.units[i] += more.units[i];
}

// Providers and the engines that serve them. Engines of one provider are one pool; providers of the same
// engines share it.
class EnginePools {
 public:
  static Result<EnginePools> Of(const std::vector<std::string>& options) {
    EnginePools out;
    for (const std::string& text : options) {
      const size_t equals = text.find('=');
      if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
        return Status{
            Code::kInvalidArgument,
            "--engine " + text + ": expected PROVIDER=ENGINE, the names in proxy.yaml and in the ledger"};
      out.named_[text.substr(0, equals)].insert(text.substr(equals + 1));
    }
    std::map<std::string, const std::set<std::string>*> pool_of;
    for (const auto& [provider, engines] : out.named_) {
      for (const std::string& engine : engines) {
        const auto& known = pool_of.emplace(engine, &engines).first->second;
        if (*known != engines)
          return Status{Code::kInvalidArgument,
                        "--engine: " + engine +
                            " serves two providers, one of them with other engines, too; "
                            "their shares cannot be separated"};
      }
    }
    return out;
  }

  // The engine of a provider without --engine has the provider's name.
  std::set<std::string> EnginesOf(const std::string& provider) const {
    const auto found = named_.find(provider);
    return found == named_.end() ? std::set<std::string>{provider} : found->second;
  }

 private:
  std::map<std::string, std::set<std::string>> named_;
};

// One byoc request, until its hour is divided.
struct OwnRequest {
  ledger::RequestWork work;
  bool counted = false;                // its tokens are known
  std::vector<ChargeReportRow*> rows;  // that it is in
  bool passes = false;                 // the filters
};

class ShareReader {
 public:
  ShareReader(const Grouping& grouping, ChargeReport& report, EnginePools pools,
              std::map<std::vector<std::string>, ChargeReportRow>& rows)
      : grouping_(grouping), report_(report), pools_(std::move(pools)), rows_(rows) {}

  Status ReadLedger(ledger::LedgerFile& ledger) {
    report_.ledger = ledger.path();
    using ledger::Dimension;
    ASSIGN_OR_RETURN(const auto sums,
                     ledger.Sum({.since_unix = report_.range.since_unix,
                                 .until_unix = report_.range.until_unix,
                                 .by = {Dimension::kHour, Dimension::kEngine, Dimension::kClass}}));
    for (const ledger::SumRow& row : sums) {
      if (row.key[1].empty()) continue;
      const auto hour_ns = ParseRfc3339(row.key[0]);
      if (!hour_ns) return {Code::kDataLoss, ledger.path() + ": an hour is none: " + row.key[0]};
      EngineHour& hour = ledger_[row.key[1]][*hour_ns / kNsPerSecond];
      const EngineAmount amount{row.sums.cost_allocation_pico, row.sums.energy_uj};
      hour.time_ms += row.sums.time_ms, hour.priced_ms += row.sums.priced_ms;
      ledger::RequestClass of{};
      if (!ledger::Parse(row.key[2], of)) of = ledger::RequestClass::kNone;
      switch (of) {
        case ledger::RequestClass::kPrefill:
          hour.prefill.amount += amount, hour.prefill.tokens += row.sums.tokens;
          break;
        case ledger::RequestClass::kDecode:
          hour.decode.amount += amount, hour.decode.tokens += row.sums.tokens;
          break;
        case ledger::RequestClass::kHeld: hour.held += amount; break;
        case ledger::RequestClass::kNone: hour.unknown += amount; break;
      }
    }
    return Ok();
  }

  // Records come in the order of their hours.
  void Take(const ChargeRecord& record) {
    const int64_t hour = record.settled_unix_ns / kNsPerSecond / kHourSeconds * kHourSeconds;
    if (hour != hour_) DivideAll();
    hour_ = hour;
    Pool& pool = PoolOf(record.provider);
    if (pool.open.size() >= kMostInHour) {
      OwnRequest more = RequestOf(record);
      more.counted = false;
      AddShare(more, false, false, {});
      return;
    }
    pool.open.push_back(RequestOf(record));
  }

  void Finish() {
    DivideAll();
    for (auto& [engines, pool] : used_) {
      // Hours in which no request of the proxy ended.
      for (const auto& [hour, of] : HoursOf(engines)) {
        if (!pool.divided.contains(hour)) Add(pool, of, DivideHour(of, {}));
      }
      ChargedEngines& out = report_.engines.emplace_back(std::move(pool.sums));
      out.providers.assign(pool.providers.begin(), pool.providers.end());
      out.engines.assign(engines.begin(), engines.end());
    }
  }

 private:
  using Engines = std::set<std::string>;
  struct Pool {
    std::set<std::string> providers;
    ChargedEngines sums;
    std::vector<OwnRequest> open;
    std::set<int64_t> divided;  // hours
  };

  Pool& PoolOf(const std::string& provider) {
    Pool& pool = used_[pools_.EnginesOf(provider)];
    pool.providers.insert(provider);
    return pool;
  }

  std::map<int64_t, EngineHour> HoursOf(const Engines& engines) const {
    std::map<int64_t, EngineHour> out;
    for (const std::string& engine : engines) {
      const auto found = ledger_.find(engine);
      if (found == ledger_.end()) continue;
      for (const auto& [hour, of] : found->second) Merge(out[hour], of);
    }
    return out;
  }
  static void Merge(EngineHour& to, const EngineHour& of) {
    to.prefill.amount += of.prefill.amount, to.prefill.tokens += of.prefill.tokens;
    to.decode.amount += of.decode.amount, to.decode.tokens += of.decode.tokens;
    to.held += of.held, to.unknown += of.unknown;
    to.time_ms += of.time_ms, to.priced_ms += of.priced_ms;
  }

  OwnRequest RequestOf(const ChargeRecord& record) {
    OwnRequest out;
    out.work.prefill_tokens = UnitsOf(record.usage.units, IsComputed);
    out.work.generated_tokens = UnitsOf(record.usage.units, IsGenerated);
    out.work.open_ns = record.duration_ns;
    out.counted = record.counted_by != CountedBy::kUnsettled;
    out.passes = grouping_.Passes([&](ChargeDimension of) { return TextOf(record, of); });
    if (!out.passes) return out;
    std::vector<std::string> texts;
    for (const Key& key : grouping_.by) texts.push_back(TextOf(record, key.dimension));
    for (std::vector<std::string>& key : grouping_.RowsOf(texts)) out.rows.push_back(&rows_[std::move(key)]);
    return out;
  }

  void AddShare(const OwnRequest& request, bool cost, bool energy, const EngineAmount& amount) {
    if (!request.passes) return;
    ChargeShares share{.requests = 1, .without_cost = !cost, .without_energy = !energy};
    if (cost) share.amount.pico = amount.pico;
    if (energy) share.amount.energy_uj = amount.energy_uj;
    report_.total.shares += share;
    for (ChargeReportRow* row : request.rows) row->shares += share;
  }

  void Add(Pool& pool, const EngineHour& hour, const EngineParts& parts) {
    pool.sums.known = true;
    pool.sums.whole += hour.total();
    pool.sums.unpriced_ms += hour.time_ms - hour.priced_ms;
    for (const EngineAmount& part : parts.requests) pool.sums.requests += part;
    pool.sums.others += parts.others;
    pool.sums.held += parts.held;
    pool.sums.undivided += parts.undivided;
  }

  void DivideAll() {
    for (auto& [engines, pool] : used_) {
      if (pool.open.empty()) continue;
      EngineHour hour;
      bool there = false;
      for (const std::string& engine : engines) {
        const auto found = ledger_.find(engine);
        if (found == ledger_.end()) continue;
        const auto of = found->second.find(hour_);
        if (of == found->second.end()) continue;
        Merge(hour, of->second), there = true;
      }
      std::vector<ledger::RequestWork> works;
      for (const OwnRequest& request : pool.open) works.push_back(request.work);
      const EngineParts parts = DivideHour(hour, works);
      // Without a class of tokens the ledger does not know what the engine did for requests.
      const bool known = hour.prefill.tokens > 0 || hour.decode.tokens > 0;
      for (size_t i = 0; i < pool.open.size(); ++i) {
        const bool has = known && pool.open[i].counted;
        AddShare(pool.open[i], has && hour.priced_ms > 0, has, parts.requests[i]);
      }
      if (there) Add(pool, hour, parts), pool.divided.insert(hour_);
      pool.open.clear();
    }
  }

  const Grouping& grouping_;
  ChargeReport& report_;
  const EnginePools pools_;
  std::map<std::vector<std::string>, ChargeReportRow>& rows_;
  std::map<std::string, std::map<int64_t, EngineHour>> ledger_;  // by engine and hour
  std::map<Engines, Pool> used_;
  int64_t hour_ = INT64_MIN;
};

// The largest first; days in order.
void SortRows(std::vector<ChargeReportRow>& rows, const std::vector<Key>& by) {
  if (!by.empty() && by.front().dimension == ChargeDimension::kDay) return;
  std::ranges::sort(rows, [](const ChargeReportRow& a, const ChargeReportRow& b) {
    const auto size = [](const ChargeReportRow& row) {
      return std::tuple(row.sums.charged_pico, row.shares.amount.pico, row.sums.list_pico, row.sums.requests);
    };
    return size(a) != size(b) ? size(a) > size(b) : a.key < b.key;
  });
}

// The rows of the store, with their currency taken off.
Status ReadSums(ChargeStore& charges, const Grouping& grouping, const CostRange& range, ChargeReport& report,
                std::map<std::vector<std::string>, ChargeReportRow>& rows) {
  ChargeQuery query{.since_unix_ns = range.since_unix * kNsPerSecond,
                    .until_unix_ns = range.until_unix * kNsPerSecond};
  for (const Key& key : grouping.by) query.by.push_back(key.dimension);
  query.by.push_back(ChargeDimension::kCurrency);
  const bool by_budgets =
      std::ranges::any_of(grouping.where, [](const auto& one) { return one.first.budget; });
  const size_t budgets = query.by.size();
  // A filter by one of several budgets is not one of a text.
  if (by_budgets) query.by.push_back(ChargeDimension::kBudgets);
  for (const auto& [key, text] : grouping.where) {
    if (!key.budget) query.where.emplace_back(key.dimension, text);
  }
  ASSIGN_OR_RETURN(const std::vector<ChargeSumRow> sums, charges.Sum(query));
  std::optional<std::string> currency;
  for (const ChargeSumRow& row : sums) {
    if (by_budgets) {
      const bool in = std::ranges::all_of(grouping.where, [&](const auto& filter) {
        return !filter.first.budget || Grouping{.by = {}, .where = {filter}}.Passes(
                                           [&](ChargeDimension) { return row.key[budgets]; });
      });
      if (!in) continue;
    }
    const std::string& of = row.key[grouping.by.size()];
    if (currency && *currency != of)
      return {Code::kInvalidArgument,
              "the charges have several currencies, which are not added: choose one "
              "with --where currency=" +
                  (of.empty() ? *currency : of)};
    currency = of;
    Add(report.total.sums, row.sums);
    const std::vector<std::string> texts(row.key.begin(),
                                         row.key.begin() + static_cast<ptrdiff_t>(grouping.by.size()));
    for (std::vector<std::string>& key : grouping.RowsOf(texts)) Add(rows[std::move(key)].sums, row.sums);
  }
  report.currency = currency.value_or("");
  return Ok();
}

}  // namespace

std::optional<__int128> ChargeShares::pico() const noexcept {
  if (without_cost == requests) return std::nullopt;
  return amount.pico;
}
std::optional<__int128> ChargeShares::energy_uj() const noexcept {
  if (without_energy == requests) return std::nullopt;
  return amount.energy_uj;
}
ChargeShares& ChargeShares::operator+=(const ChargeShares& other) noexcept {
  requests += other.requests;
  without_cost += other.without_cost, without_energy += other.without_energy;
  amount += other.amount;
  return *this;
}

std::vector<std::string_view> ChargeKeys() {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < kChargeDimensions; ++i) {
    const auto dimension = static_cast<ChargeDimension>(i);
    names.push_back(dimension == ChargeDimension::kBudgets ? kBudget : Name(dimension));
  }
  return names;
}

Result<ChargeReport> ReadChargeReport(ChargeStore& charges, ledger::LedgerFile* ledger,
                                      const CostOptions& options, const CostRange& range) {
  ChargeReport report;
  report.range = range;
  report.energy = options.energy;
  ASSIGN_OR_RETURN(const Grouping grouping, GroupingOf(options));
  report.overlapping = grouping.budget != SIZE_MAX;
  for (const Key& key : grouping.by) report.by.emplace_back(key.budget ? kBudget : Name(key.dimension));
  ASSIGN_OR_RETURN(EnginePools pools, EnginePools::Of(options.engines));
  std::map<std::vector<std::string>, ChargeReportRow> rows;
  RETURN_IF_ERROR(ReadSums(charges, grouping, range, report, rows));
  ShareReader shares(grouping, report, std::move(pools), rows);
  if (ledger) RETURN_IF_ERROR(shares.ReadLedger(*ledger));
  // All of them, also those that --where leaves out: their tokens are not those of others.
  RETURN_IF_ERROR(ForEachCharge(charges,
                                {.since_unix_ns = range.since_unix * kNsPerSecond,
                                 .until_unix_ns = range.until_unix * kNsPerSecond,
                                 .where = {{ChargeDimension::kProfile, std::string(kByoc)}}},
                                [&](const ChargeRecord& record) {
                                  shares.Take(record);
                                  return Ok();
                                }));
  shares.Finish();
  for (auto& [key, row] : rows) {
    row.key = key;
    report.rows.push_back(std::move(row));
  }
  SortRows(report.rows, grouping.by);
  return report;
}

namespace {

std::string CurrencyOf(const ChargeReport& report) {
  return report.currency.empty() ? "USD" : report.currency;
}

std::string RangeText(const ChargeReport& report) {
  return ledger::TimeText(report.range.since_unix) + " to " + ledger::TimeText(report.range.until_unix);
}

// Cents; millionths where there is less than 10 USD.
int DecimalsOf(const ChargeReport& report) {
  const __int128 most = std::max(
      {report.total.sums.list_pico, report.total.sums.charged_pico, report.total.shares.amount.pico});
  return most >= __int128{10} * pricing::kPicoPerUsd ? 2 : 6;
}

struct MoneyColumn {
  std::string name;
  std::optional<__int128> (*of)(const ChargeReportRow&);
};

std::vector<MoneyColumn> MoneyColumns(const ChargeReport& report) {
  const std::string unit = CurrencyOf(report);
  std::vector<MoneyColumn> out;
  out.push_back({unit + " list",
                 [](const ChargeReportRow& row) { return std::optional<__int128>(row.sums.list_pico); }});
  out.push_back({unit + " charged",
                 [](const ChargeReportRow& row) { return std::optional<__int128>(row.sums.charged_pico); }});
  // The ledger's prices are in USD.
  if (report.total.shares.requests > 0)
    out.push_back({"USD share", [](const ChargeReportRow& row) {
                     return row.shares.requests == 0 ? std::optional<__int128>(0) : row.shares.pico();
                   }});
  return out;
}

// The lines below the table.
std::string NotesText(const ChargeReport& report, int decimals) {
  std::string out;
  const auto usd = [&](__int128 pico) { return RoundedText(pico, kChargeDecimals, decimals, true); };
  if (report.overlapping) {
    out += "A request is in the row of each of its budgets: the rows are more than the total.\n";
  } else {
    out += report.rows.size() == 1 ? "The row is the total, to the picodollar.\n"
                                   : "The " + CountText(static_cast<int64_t>(report.rows.size())) +
                                         " rows add up to the total, to the picodollar.\n";
  }
  if (report.total.sums.reserved_unsettled_pico > 0)
    out += "Unsettled: requests that the proxy could not finish may cost " +
           usd(report.total.sums.reserved_unsettled_pico) + " " + CurrencyOf(report) +
           " at most, which are not in the sums.\n";
  const ChargeShares& shares = report.total.shares;
  if (shares.requests > 0 && shares.without_cost > 0) {
    out += "Without a share: " + CountText(shares.without_cost) + " of " + CountText(shares.requests) +
           " byoc requests. ";
    if (report.ledger.empty()) out += "No ledger was read; --file names it.\n";
    else if (shares.without_energy < shares.without_cost)
      out += "Their GPUs had no price: analyzers.cost.price_per_gpu_hour, price_by_model or price_file.\n";
    else
      out +=
          "The ledger has no tokens of their engine in their hour, or their own are not known. --engine "
          "PROVIDER=ENGINE names the engine of a provider.\n";
  }
  for (const ChargedEngines& engines : report.engines) {
    if (!engines.known) continue;
    const auto part = [&](const char* name, const EngineAmount& of) {
      return std::string(name) + " " + usd(of.pico);
    };
    out += "Engine " + Joined(engines.engines, ", ") + " cost " + usd(engines.whole.pico) +
           " USD:" + part(" requests", engines.requests) + "," + part(" others", engines.others) + "," +
           part(" no request open", engines.held) + "," + part(" not divided", engines.undivided) + ".";
    if (engines.unpriced_ms > 0)
      out += " " + RoundedText(engines.unpriced_ms, 3, 0, true) + " s of its GPUs had no price.";
    out += "\n";
  }
  return out;
}

}  // namespace

std::string ChargeReportText(const ChargeReport& report, size_t width) {
  const int decimals = DecimalsOf(report);
  std::vector<std::string> head;
  for (std::string name : report.by) {
    std::ranges::transform(name, name.begin(),
                           [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
    head.push_back(std::move(name));
  }
  if (head.empty()) head.emplace_back("");
  const size_t keys = head.size();
  head.insert(head.end(), {"REQUESTS", "IN", "CACHED", "OUT"});
  const std::vector<MoneyColumn> money = MoneyColumns(report);
  for (const MoneyColumn& column : money) head.push_back(column.name);
  const bool energy = report.energy && report.total.shares.requests > 0;
  if (energy) head.emplace_back("J share");
  TextTable table(head);
  for (size_t i = keys; i < head.size(); ++i) table.AlignRight(i);
  std::vector<__int128> shown(money.size());
  const auto add = [&](std::vector<std::string> cells, const ChargeReportRow& row, bool line) {
    cells.push_back(CountText(row.sums.requests));
    for (auto* which : {IsPrompt, IsCached, IsGenerated})
      cells.push_back(CountText(UnitsOf(row.sums.units, which)));
    for (size_t i = 0; i < money.size(); ++i) {
      const std::optional<__int128> pico = money[i].of(row);
      cells.push_back(pico ? RoundedText(*pico, kChargeDecimals, decimals, true) : kNoValue);
      if (line && pico) shown[i] += pricing::MinorUnits(pricing::PicoSum(*pico), decimals);
    }
    if (energy) {
      const auto joules = row.shares.requests == 0 ? std::optional<__int128>(0) : row.shares.energy_uj();
      cells.push_back(joules ? RoundedText(*joules, kEnergyDecimals, 1, true) : kNoValue);
    }
    table.Add(std::move(cells));
  };
  for (const ChargeReportRow& row : report.rows) {
    std::vector<std::string> cells;
    for (const std::string& text : row.key)
      cells.push_back(text.empty() ? "(none)" : Shortened(text, kMostKeyShown));
    if (cells.empty()) cells.emplace_back("all");
    add(std::move(cells), row, true);
  }
  // What rounding each line has taken away or added.
  std::vector<std::string> rounding(head.size());
  rounding[0] = "rounding";
  bool rounded = false;
  for (size_t i = 0; i < money.size(); ++i) {
    const std::optional<__int128> total = money[i].of(report.total);
    const __int128 rest =
        total ? pricing::MinorUnits(pricing::PicoSum(*total), decimals) - shown[i] : __int128{0};
    rounding[keys + 4 + i] = RoundedText(rest, decimals, decimals, true);
    rounded = rounded || rest != 0;
  }
  if (rounded && !report.overlapping) table.Add(std::move(rounding));
  std::vector<std::string> last(keys);
  last[0] = "total";
  add(std::move(last), report.total, false);
  std::string out = "Charges in " + report.charges + ", " + RangeText(report) + "\n\n" + table.Text(width);
  if (const size_t left = width == 0 ? 0 : table.LeftOut(width); left > 0)
    out += "(" + Plural(left, "column does", "columns do") + " not fit; --csv and --json have all)\n";
  return out + "\n" + NotesText(report, decimals);
}

namespace {

// Calls `whole(name, integer)`, `decimal(name, text)` for each amount, and `none(name)` for what is not
// known.
template <class Whole, class Decimal, class None>
void EachChargeAmount(const ChargeReportRow& row, bool shares, Whole whole, Decimal decimal, None none) {
  whole("requests", row.sums.requests);
  for (size_t i = 0; i < kLlmClasses; ++i)
    whole(("units_" + std::string(LlmClassName(static_cast<LlmClass>(i)))).c_str(), row.sums.units[i]);
  const auto money = [&](const std::string& name, __int128 pico) {
    whole((name + "_pico").c_str(), pico);
    decimal((name + "_amount").c_str(), WideText(pico, kChargeDecimals));
  };
  money("list", row.sums.list_pico);
  money("charged", row.sums.charged_pico);
  money("unsettled_bound", row.sums.reserved_unsettled_pico);
  if (!shares) return;
  whole("byoc_requests", row.shares.requests);
  whole("byoc_without_cost", row.shares.without_cost);
  whole("byoc_without_energy", row.shares.without_energy);
  if (const auto pico = row.shares.pico()) money("share", *pico);
  else none("share_pico"), none("share_amount");
  if (const auto uj = row.shares.energy_uj()) whole("share_energy_uj", *uj);
  else none("share_energy_uj");
}

void AddAmounts(JsonObject& object, const ChargeReportRow& row, bool shares) {
  EachChargeAmount(
      row, shares, [&](const char* name, __int128 amount) { object.Raw(name, WideText(amount)); },
      [&](const char* name, const std::string& text) { object.Text(name, text); }, [](const char*) {});
}

}  // namespace

std::string ChargeReportJson(const ChargeReport& report) {
  return JsonDocumentText("gpulens.charge_report/1", [&](JsonObject& document) {
    document.Text("charges", report.charges);
    document.TextIfAny("ledger", report.ledger);
    document.Text("since", ledger::TimeText(report.range.since_unix));
    document.Text("until", ledger::TimeText(report.range.until_unix));
    document.Text("currency", CurrencyOf(report));
    document.Texts("by", report.by);
    document.Flag("overlapping", report.overlapping);
    const bool shares = report.total.shares.requests > 0;
    document.List("rows", report.rows, [&](std::string& out, const ChargeReportRow& row) {
      JsonObject object(out);
      {
        JsonObject key(object.Key("key"));
        for (size_t i = 0; i < row.key.size(); ++i) key.Text(report.by[i], row.key[i]);
      }
      AddAmounts(object, row, shares);
    });
    {
      JsonObject object(document.Key("total"));
      AddAmounts(object, report.total, shares);
    }
    document.List("engines", report.engines, [&](std::string& out, const ChargedEngines& of) {
      JsonObject object(out);
      object.Texts("providers", of.providers);
      object.Texts("engines", of.engines);
      object.Flag("known", of.known);
      if (!of.known) return;
      const std::pair<const char*, const EngineAmount&> parts[] = {{"whole", of.whole},
                                                                   {"requests", of.requests},
                                                                   {"others", of.others},
                                                                   {"held", of.held},
                                                                   {"undivided", of.undivided}};
      for (const auto& [name, amount] : parts) {
        object.Raw(std::string(name) + "_pico", WideText(amount.pico));
        object.Raw(std::string(name) + "_energy_uj", WideText(amount.energy_uj));
      }
      object.Raw("unpriced_ms", WideText(of.unpriced_ms));
    });
  });
}

std::string ChargeReportCsv(const ChargeReport& report) {
  const bool shares = report.total.shares.requests > 0;
  std::string out;
  for (const std::string& name : report.by) {
    AppendCsvField(out, name);
    out += ',';
  }
  out += "currency";
  const auto head = [&](const char* name, const auto&) { (out += ',') += name; };
  EachChargeAmount(report.total, shares, head, head, [&](const char* name) { (out += ',') += name; });
  out += '\n';
  for (const ChargeReportRow& row : report.rows) {
    for (const std::string& text : row.key) {
      AppendCsvField(out, text);
      out += ',';
    }
    AppendCsvField(out, CurrencyOf(report));
    EachChargeAmount(
        row, shares, [&](const char*, __int128 amount) { (out += ',') += WideText(amount); },
        [&](const char*, const std::string& text) { (out += ',') += text; },
        [&](const char*) { out += ','; });
    out += '\n';
  }
  return out;
}

Result<int> ReportCharges(const CostOptions& options) {
  ASSIGN_OR_RETURN(const CostRange range, RangeOf(options, RealClock().Now().unix_ns));
  LinkSecurePost();
  ASSIGN_OR_RETURN(const auto charges, OpenCharges(options.charges));
  // Only byoc requests need it.
  ASSIGN_OR_RETURN(const auto own,
                   charges->Sum({.since_unix_ns = range.since_unix * kNsPerSecond,
                                 .until_unix_ns = range.until_unix * kNsPerSecond,
                                 .where = {{ChargeDimension::kProfile, std::string(kByoc)}}}));
  std::unique_ptr<ledger::LedgerFile> ledger;
  if (!own.empty() && own.front().sums.requests > 0) {
    auto opened = OpenLedger(options);
    if (opened) ledger = *std::move(opened);
    else if (!options.file.empty()) return opened.error();
    else WriteNote("gpulens cost report: shares of byoc requests are not known: " + opened.error().detail);
  }
  ASSIGN_OR_RETURN(ChargeReport report, ReadChargeReport(*charges, ledger.get(), options, range));
  report.charges = UrlName(options.charges);
  if (options.json) return PrintText(ChargeReportJson(report));
  if (options.csv) return PrintText(ChargeReportCsv(report));
  if (report.total.sums.requests == 0) {
    WriteNote("gpulens cost report: no request was settled between " + ledger::TimeText(range.since_unix) +
              " and " + ledger::TimeText(range.until_unix) +
              (options.where.empty() ? "" : " that --where lets through"));
    return 0;
  }
  const size_t width = static_cast<size_t>(TerminalColumns(STDOUT_FILENO));
  return WriteOut(ChargeReportText(report, ::isatty(STDOUT_FILENO) == 1 ? width : 0)) ? 0 : 1;
}

}  // namespace gpulens

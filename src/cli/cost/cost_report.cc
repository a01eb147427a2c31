#include "cli/cost/cost_report.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/parse.h"
#include "base/result.h"
#include "cli/common/output.h"
#include "store/ledger/wide_text.h"
#include "wire/json/json_object.h"

namespace gpulens {
namespace {

using ledger::Dimension;
using ledger::RoundedText;
using ledger::SumRow;
using ledger::Totals;
using ledger::WideText;

constexpr int kPico = 12, kMicro = 6, kNano = 9;
constexpr size_t kMostKey = 40;  // characters of a name in the table: a UUID of NVIDIA

constexpr const char* kNoPrice =
    "Nothing has a price: set analyzers.cost.price_per_gpu_hour (USD), price_by_model or price_file.\n";

// Half to even. b > 0.
__int128 Divided(__int128 a, __int128 b) noexcept {
  __int128 quotient = a / b, rest = a % b;
  if (rest < 0) rest += b, --quotient;
  if (rest * 2 > b || (rest * 2 == b && quotient % 2 != 0)) ++quotient;
  return quotient;
}

std::string Share(__int128 part, __int128 whole) {
  return whole == 0 ? "" : " (" + RoundedText(Divided(part * 100'000, whole), 3, 1) + " %)";
}

// What the columns are of all rows.
struct Columns {
  explicit Columns(const Totals& total)
      : money(total.priced_ms != 0),
        electricity(total.electricity_pico != 0),
        carbon(total.carbon_known_uj != 0),
        tokens(total.tokens != 0),
        more_digits(total.time_ms < kSmallMs ? 2 : 0) {}

  std::string Hours(__int128 time_ms) const {
    return RoundedText(Divided(time_ms * 1'000, 3'600), 6, 2 + more_digits, true);
  }
  std::string Kwh(__int128 energy_uj) const {
    return RoundedText(Divided(energy_uj, 3'600), kNano, 3 + more_digits, true);
  }
  std::string Usd(__int128 pico) const { return RoundedText(pico, kPico, 2 + more_digits, true); }

  bool money, electricity, carbon, tokens;
  int more_digits;  // minutes of a GPU are not 0.00 hours

 private:
  static constexpr int64_t kSmallMs = 10 * 3'600'000;
};

// Calls `whole(name, integer)` and `decimal(name, text)` for each amount.
template <class Whole, class Decimal>
void EachAmount(const Totals& sums, const Columns& columns, Whole whole, Decimal decimal) {
  whole("time_ms", sums.time_ms);
  decimal("gpu_hours", GpuHours(sums.time_ms));
  whole("unmetered_ms", sums.unmetered_ms);
  whole("energy_uj", sums.energy_uj);
  decimal("energy_joules", WideText(sums.energy_uj, kMicro));
  decimal("energy_kwh", KilowattHours(sums.energy_uj));
  if (columns.money) {
    whole("priced_ms", sums.priced_ms);
    whole("cost_allocation_pico", sums.cost_allocation_pico);
    decimal("cost_allocation_usd", WideText(sums.cost_allocation_pico, kPico));
    whole("cost_usage_pico", sums.cost_usage_pico);
    decimal("cost_usage_usd", WideText(sums.cost_usage_pico, kPico));
  }
  if (columns.electricity) {
    whole("electricity_pico", sums.electricity_pico);
    decimal("electricity_usd", WideText(sums.electricity_pico, kPico));
  }
  if (columns.carbon) {
    whole("carbon_known_uj", sums.carbon_known_uj);
    whole("carbon_ng", sums.carbon_ng);
    decimal("carbon_grams", WideText(sums.carbon_ng, kNano));
  }
  if (columns.tokens) whole("tokens", sums.tokens);
}

void AppendAmountMembers(JsonObject& object, const Totals& sums, const Columns& columns) {
  EachAmount(
      sums, columns, [&](const char* name, __int128 amount) { object.Raw(name, WideText(amount)); },
      [&](const char* name, const std::string& text) { object.Text(name, text); });
}

void AppendAmountObject(std::string& out, const Totals& sums, const Columns& columns) {
  JsonObject object(out);
  AppendAmountMembers(object, sums, columns);
}

// "team-a/web-0", "job 17", "python3", …; empty: none.
std::string HolderOf(const std::vector<std::string>& owner) {
  const auto& [name_space, pod, job, process, engine, tenant] =
      std::tie(owner[0], owner[1], owner[2], owner[3], owner[4], owner[5]);
  if (!pod.empty()) return name_space.empty() ? pod : name_space + "/" + pod;
  if (!job.empty()) return "job " + job;
  if (!process.empty()) return process;
  return engine.empty() ? tenant : engine;
}

// Times in order; else the largest first.
void SortRows(std::vector<SumRow>& rows, const std::vector<Dimension>& by) {
  if (!by.empty() && (by.front() == Dimension::kDay || by.front() == Dimension::kHour)) return;
  const auto before = [](const SumRow& a, const SumRow& b) {
    const auto size = [](const SumRow& row) {
      return std::tuple(row.sums.cost_allocation_pico, row.sums.cost_usage_pico, row.sums.energy_uj,
                        row.sums.time_ms);
    };
    return size(a) != size(b) ? size(a) > size(b) : a.key < b.key;
  };
  std::ranges::sort(rows, before);
}

Result<std::vector<std::pair<Dimension, std::string>>> FiltersOf(const CostOptions& options) {
  std::vector<std::pair<Dimension, std::string>> filters;
  for (const std::string& text : options.where) {
    const size_t equals = text.find('=');
    Dimension dimension{};
    if (equals == std::string::npos || !ledger::Parse(std::string_view(text).substr(0, equals), dimension))
      return Status{Code::kInvalidArgument,
                    "--where " + text + ": expected KEY=VALUE, where KEY is one of --by's"};
    filters.emplace_back(dimension, text.substr(equals + 1));
  }
  return filters;
}

Result<std::vector<Dimension>> DimensionsOf(const std::string& text) {
  std::vector<Dimension> by;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view word = Trim(TakeUntil(rest, ','));
    Dimension dimension{};
    if (!ledger::Parse(word, dimension)) {
      std::vector<std::string_view> names;
      for (size_t i = 0; i < ledger::kDimensions; ++i) names.push_back(Name(static_cast<Dimension>(i)));
      return Status{Code::kInvalidArgument, "--by " + std::string(word) + ": expected " +
                                                Joined(names, ", ") + "." + DidYouMean(word, names)};
    }
    if (std::ranges::find(by, dimension) != by.end())
      return Status{Code::kInvalidArgument, "--by " + text + ": " + std::string(word) + " comes twice"};
    by.push_back(dimension);
  }
  return by;
}

}  // namespace

std::string GpuHours(__int128 time_ms) { return WideText(Divided(time_ms * 2'500, 9), kNano); }
std::string KilowattHours(__int128 energy_uj) { return WideText(Divided(energy_uj, 3'600), kNano); }

Result<CostReport> ReadReport(ledger::LedgerFile& ledger, const CostOptions& options,
                              const CostRange& range) {
  CostReport report;
  report.ledger = ledger.id();
  report.host = ledger.host();
  report.range = range;
  report.energy = options.energy, report.carbon = options.carbon, report.wasted = options.wasted;
  ledger::SumQuery query{.since_unix = range.since_unix, .until_unix = range.until_unix};
  ASSIGN_OR_RETURN(query.where, FiltersOf(options));
  if (!options.wasted) {
    ASSIGN_OR_RETURN(query.by, DimensionsOf(options.by));
    report.by = query.by;
    ASSIGN_OR_RETURN(report.rows, ledger.Sum(query));
    SortRows(report.rows, report.by);
  }
  // The parts of the total that have a name.
  query.by = {Dimension::kState,     Dimension::kCause, Dimension::kEnergyState, Dimension::kModel,
              Dimension::kNamespace, Dimension::kPod,   Dimension::kJob,         Dimension::kProcess,
              Dimension::kEngine,    Dimension::kTenant};
  ASSIGN_OR_RETURN(const std::vector<SumRow> parts, ledger.Sum(query));
  std::map<std::vector<std::string>, Totals> waste;
  const std::string_view unattributed = Name(ledger::EnergyState::kUnattributed);
  const std::string_view unobserved = Name(ledger::EnergyState::kUnobserved);
  for (const SumRow& part : parts) {
    report.total += part.sums;
    if (part.key[2] == unattributed) report.unattributed += part.sums;
    if (part.key[2] == unobserved) report.unobserved_energy += part.sums;
    if (part.key[0] == Name(ledger::ComputeState::kUnobserved)) report.unobserved += part.sums;
    if (std::all_of(part.key.begin() + 3, part.key.end(),
                    [](const std::string& text) { return text.empty(); }))
      report.without_owner += part.sums;
    const bool useful = part.key[0] == Name(ledger::ComputeState::kUseful);
    const std::string holder = useful ? "" : HolderOf({part.key.begin() + 4, part.key.end()});
    waste[{part.key[0], part.key[1], holder}] += part.sums;
  }
  if (options.wasted) {
    for (auto& [key, sums] : waste) report.waste.push_back({key, sums});
    SortRows(report.waste, {});
    return report;
  }
  Totals sum;
  for (const SumRow& row : report.rows) sum += row.sums;
  if (sum != report.total)
    return Status{Code::kDataLoss, "the rows do not add up to the total: the file is damaged"};
  return report;
}

namespace {

std::string RangeText(const CostReport& report) {
  return ledger::TimeText(report.range.since_unix) + " to " + ledger::TimeText(report.range.until_unix);
}

std::string KeyCell(const std::string& text) { return text.empty() ? "(none)" : Shortened(text, kMostKey); }

// The lines after the table: what the total consists of that no row names.
std::string IdentityText(const CostReport& report, const Columns& columns) {
  const Totals& total = report.total;
  std::string out;
  if (report.unattributed.energy_uj != 0) {
    out += "Unattributed: " + columns.Kwh(report.unattributed.energy_uj) + " kWh" +
           Share(report.unattributed.energy_uj, total.energy_uj) +
           ", drawn by processes that are not known.\n";
  }
  if (report.unobserved.time_ms != 0 || report.unobserved_energy.energy_uj != 0) {
    out += "Unobserved: " + columns.Hours(report.unobserved.time_ms) + " GPU h" +
           Share(report.unobserved.time_ms, total.time_ms) + " and " +
           columns.Kwh(report.unobserved_energy.energy_uj) + " kWh, while no agent read the GPUs.\n";
  }
  const Totals& ownerless = report.without_owner;
  if (ownerless.time_ms != 0) {
    out += "Without an owner: " + columns.Hours(ownerless.time_ms) + " GPU h" +
           Share(ownerless.time_ms, total.time_ms);
    if (columns.money)
      out += ", " + columns.Usd(ownerless.cost_allocation_pico) + " USD by allocation, " +
             columns.Usd(ownerless.cost_usage_pico) + " USD by use";
    out += ".\n";
  }
  if (total.unmetered_ms != 0) {
    out += "Unmetered: " + columns.Hours(total.unmetered_ms) + " GPU h" +
           Share(total.unmetered_ms, total.time_ms) + ", whose energy is not known and not in the sums.\n";
  }
  if (columns.money && total.priced_ms != total.time_ms) {
    out += "Unpriced: " + columns.Hours(total.time_ms - total.priced_ms) + " GPU h" +
           Share(total.time_ms - total.priced_ms, total.time_ms) +
           " had no price and are not in the money.\n";
  }
  if (report.carbon && columns.carbon && total.carbon_known_uj != total.energy_uj) {
    out += "Without a carbon intensity: " + columns.Kwh(total.energy_uj - total.carbon_known_uj) + " kWh" +
           Share(total.energy_uj - total.carbon_known_uj, total.energy_uj) + ", not in the carbon.\n";
  }
  if (!columns.money) out += kNoPrice;
  if (report.carbon && !columns.carbon) {
    out +=
        "Nothing has a carbon intensity: set analyzers.cost.co2_grams_per_kwh, carbon_zone or carbon_file.\n";
  }
  return out;
}

std::string TableText(const TextTable& table, size_t width) {
  std::string out = table.Text(width);
  if (const size_t left = width == 0 ? 0 : table.LeftOut(width); left > 0)
    out += "(" + Plural(left, "column does", "columns do") + " not fit; --csv and --json have all)\n";
  return out;
}

// Of one observed GPU hour: how much was allocated, of that held, and so on.
struct Ratios {
  __int128 observed = 0, allocated = 0, held = 0, active = 0, useful = 0;  // milliseconds
};

Ratios RatiosOf(const CostReport& report) {
  std::array<__int128, ledger::kComputeStates> by_state{};
  for (const SumRow& row : report.waste) {
    ledger::ComputeState state{};
    if (ledger::Parse(row.key[0], state)) by_state[static_cast<size_t>(state)] += row.sums.time_ms;
  }
  const auto of = [&](ledger::ComputeState state) { return by_state[static_cast<size_t>(state)]; };
  Ratios ratios;
  ratios.useful = of(ledger::ComputeState::kUseful);
  ratios.active = ratios.useful + of(ledger::ComputeState::kActiveWasted);
  ratios.held = ratios.active + of(ledger::ComputeState::kHeldIdle);
  ratios.allocated = ratios.held + of(ledger::ComputeState::kAllocatedUnheld);
  ratios.observed =
      ratios.allocated + of(ledger::ComputeState::kUnallocated) + of(ledger::ComputeState::kUnavailable);
  return ratios;
}

std::string WasteText(const CostReport& report, size_t width) {
  const Columns columns(report.total);
  std::vector<std::string> head = {"STATE", "CAUSE", "HOLDER", "GPU h", "SHARE"};
  if (columns.money) head.insert(head.begin() + 3, "USD");
  TextTable table(head);
  for (size_t i = 3; i < head.size(); ++i) table.AlignRight(i);
  const auto add = [&](const std::vector<std::string>& key, const Totals& sums) {
    std::vector<std::string> cells = key;
    if (columns.money) cells.push_back(columns.Usd(sums.cost_allocation_pico));
    cells.push_back(columns.Hours(sums.time_ms));
    cells.push_back(report.total.time_ms == 0
                        ? ""
                        : RoundedText(Divided(sums.time_ms * 100'000, report.total.time_ms), 3, 1) + " %");
    table.Add(std::move(cells));
  };
  for (const SumRow& row : report.waste) {
    // It has money by use alone, which is not shown here.
    if (row.sums.time_ms == 0 && row.sums.cost_allocation_pico == 0) continue;
    std::vector<std::string> key = row.key;
    std::ranges::replace(key, "", kNoValue);
    key[2] = Shortened(key[2], kMostKey);
    add(key, row.sums);
  }
  add({"total", "", ""}, report.total);
  const Ratios ratios = RatiosOf(report);
  const auto percent = [](__int128 part, __int128 whole) {
    return whole == 0 ? std::string(kNoValue) : RoundedText(Divided(part * 100'000, whole), 3, 1) + " %";
  };
  std::string out = "What the GPUs of " + report.host + " did, " + RangeText(report) + "\n\n";
  out += TableText(table, width);
  out += "\nEvery GPU hour is in one row. Of the observed time " +
         percent(ratios.allocated, ratios.observed) + " was allocated,\nof that " +
         percent(ratios.held, ratios.allocated) + " held, of that " + percent(ratios.active, ratios.held) +
         " active, of that " + percent(ratios.useful, ratios.active) +
         " useful: " + percent(ratios.useful, ratios.observed) + " effective.\n";
  return out + IdentityText(report, columns);
}

}  // namespace

std::string ReportText(const CostReport& report, size_t width) {
  if (report.wasted) return WasteText(report, width);
  const Columns columns(report.total);
  std::vector<std::string> head;
  for (Dimension dimension : report.by) {
    std::string name(Name(dimension));
    std::ranges::transform(name, name.begin(),
                           [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
    head.push_back(std::move(name));
  }
  if (head.empty()) head.emplace_back("");
  const size_t keys = head.size();
  head.insert(head.end(), {"GPU h", "kWh"});
  if (columns.money) head.insert(head.end(), {"USD allocated", "USD used"});
  if (report.energy) head.emplace_back("J");
  if (report.energy && columns.electricity) head.emplace_back("USD electricity");
  if (report.carbon && columns.carbon) head.emplace_back("g CO2e");
  TextTable table(head);
  for (size_t i = keys; i < head.size(); ++i) table.AlignRight(i);
  const auto add = [&](std::vector<std::string> cells, const Totals& sums) {
    cells.push_back(columns.Hours(sums.time_ms));
    cells.push_back(columns.Kwh(sums.energy_uj));
    if (columns.money)
      cells.push_back(columns.Usd(sums.cost_allocation_pico)),
          cells.push_back(columns.Usd(sums.cost_usage_pico));
    if (report.energy) cells.push_back(RoundedText(sums.energy_uj, kMicro, 1, true));
    if (report.energy && columns.electricity) cells.push_back(columns.Usd(sums.electricity_pico));
    if (report.carbon && columns.carbon) cells.push_back(RoundedText(sums.carbon_ng, kNano, 1, true));
    table.Add(std::move(cells));
  };
  for (const SumRow& row : report.rows) {
    std::vector<std::string> cells;
    for (const std::string& text : row.key) cells.push_back(KeyCell(text));
    if (cells.empty()) cells.emplace_back("all");
    add(std::move(cells), row.sums);
  }
  std::vector<std::string> last(keys);
  last[0] = "total";
  add(std::move(last), report.total);
  std::string out = "The ledger of " + report.host + ", " + RangeText(report) + "\n\n";
  out += TableText(table, width) + "\n";
  out += report.rows.size() == 1 ? "The row is the total, to the microjoule"
                                 : "The " + CountText(static_cast<int64_t>(report.rows.size())) +
                                       " rows add up to the total, to the microjoule";
  out += columns.money ? " and picodollar.\n" : ".\n";
  return out + IdentityText(report, columns);
}

std::string ReportJson(const CostReport& report) {
  const Columns columns(report.total);
  const auto times = [&](JsonObject& document) {
    document.Text("ledger", report.ledger);
    document.Text("host", report.host);
    document.Text("file", report.path);
    document.Text("since", ledger::TimeText(report.range.since_unix));
    document.Text("until", ledger::TimeText(report.range.until_unix));
  };
  const auto named = [&](JsonObject& document) {
    const Totals& total = report.total;
    AppendAmountObject(document.Key("total"), total, columns);
    AppendAmountObject(document.Key("unattributed"), report.unattributed, columns);
    AppendAmountObject(document.Key("unobserved"), report.unobserved, columns);
    AppendAmountObject(document.Key("without_owner"), report.without_owner, columns);
    document.Raw("unobserved_energy_uj", WideText(report.unobserved_energy.energy_uj));
    document.Raw("unpriced_ms", WideText(total.time_ms - total.priced_ms));
    document.Raw("carbon_unknown_uj", WideText(total.energy_uj - total.carbon_known_uj));
  };
  if (report.wasted) {
    return JsonDocumentText("gpulens.cost_waste/1", [&](JsonObject& document) {
      times(document);
      document.List("rows", report.waste, [&](std::string& out, const SumRow& row) {
        JsonObject object(out);
        object.Text("state", row.key[0]);
        object.TextIfAny("cause", row.key[1]);
        object.TextIfAny("holder", row.key[2]);
        AppendAmountMembers(object, row.sums, columns);
      });
      const Ratios ratios = RatiosOf(report);
      {
        JsonObject object(document.Key("time_ms"));
        object.Raw("observed", WideText(ratios.observed));
        object.Raw("allocated", WideText(ratios.allocated));
        object.Raw("held", WideText(ratios.held));
        object.Raw("active", WideText(ratios.active));
        object.Raw("useful", WideText(ratios.useful));
      }
      named(document);
    });
  }
  return JsonDocumentText("gpulens.cost_report/1", [&](JsonObject& document) {
    times(document);
    std::vector<std::string_view> names;
    for (Dimension dimension : report.by) names.push_back(Name(dimension));
    document.Texts("by", names);
    document.List("rows", report.rows, [&](std::string& out, const SumRow& row) {
      JsonObject object(out);
      {
        JsonObject key(object.Key("key"));
        for (size_t i = 0; i < row.key.size(); ++i) key.Text(names[i], row.key[i]);
      }
      AppendAmountMembers(object, row.sums, columns);
    });
    named(document);
  });
}

std::string ReportCsv(const CostReport& report) {
  const Columns columns(report.total);
  std::string out;
  const auto field = [&](std::string_view text, bool first) {
    if (!first) out += ',';
    AppendCsvField(out, text);
  };
  std::vector<std::string_view> names;
  for (Dimension dimension : report.by) names.push_back(Name(dimension));
  if (report.wasted) names = {"state", "cause", "holder"};
  bool first = true;
  for (std::string_view name : names) field(name, std::exchange(first, false));
  const auto head = [&](const char* name, const auto&) { field(name, std::exchange(first, false)); };
  EachAmount(report.total, columns, head, head);
  out += '\n';
  for (const SumRow& row : report.wasted ? report.waste : report.rows) {
    first = true;
    for (const std::string& text : row.key) field(text, std::exchange(first, false));
    // Numbers as they are: a minus does not begin a formula here.
    const auto number = [&](const std::string& text) {
      if (!std::exchange(first, false)) out += ',';
      out += text;
    };
    EachAmount(
        row.sums, columns, [&](const char*, __int128 amount) { number(WideText(amount)); },
        [&](const char*, const std::string& text) { number(text); });
    out += '\n';
  }
  return out;
}

}  // namespace gpulens

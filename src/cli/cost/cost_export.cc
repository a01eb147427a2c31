#include "cli/cost/cost_export.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>

#include "base/clock.h"
#include "base/result.h"
#include "base/rfc3339.h"
#include "cli/common/output.h"
#include "cli/cost/cost_report.h"
#include "store/ledger/statement.h"
#include "store/ledger/wide_text.h"
#include "wire/json/json_object.h"

namespace gpulens {
namespace {

using ledger::Account;
using ledger::Dimension;
using ledger::SumRow;
using ledger::TimeText;
using ledger::Totals;
using ledger::WideText;

constexpr int kPicoDecimals = 12, kMicroDecimals = 6, kNanoDecimals = 9;

// In the order of the specification, then ours. Columns that are always null: InvoiceId, as no invoice is
// issued, and CommitmentDiscountStatus, which rules of other columns refer to. Unit prices are left out: an
// entry may have had several.
enum Column : uint8_t {
  kBilledCost,
  kBillingAccountId,
  kBillingAccountName,
  kBillingAccountType,
  kBillingCurrency,
  kBillingPeriodEnd,
  kBillingPeriodStart,
  kChargeCategory,
  kChargeClass,
  kChargeDescription,
  kChargeFrequency,
  kChargePeriodEnd,
  kChargePeriodStart,
  kCommitmentDiscountStatus,
  kConsumedQuantity,
  kConsumedUnit,
  kContractedCost,
  kEffectiveCost,
  kInvoiceId,
  kInvoiceIssuerName,
  kListCost,
  kPricingCategory,
  kPricingQuantity,
  kPricingUnit,
  kProviderName,
  kPublisherName,
  kResourceId,
  kResourceName,
  kResourceType,
  kServiceCategory,
  kServiceName,
  kServiceSubcategory,
  kSkuId,
  kSkuMeter,
  kSubAccountId,
  kSubAccountName,
  kSubAccountType,
  kTags,
  kXCarbonGrams,
  kXCause,
  kXComputeState,
  kXEnergyJoules,
  kXEnergyState,
  kXMethod,
  kXMigSlice,
  kXPricedHours,
  kXRequestClass,
  kXTokens,
  kXUsageCost,
  kColumns
};
constexpr std::array<std::string_view, kColumns> kNames = {"BilledCost",
                                                           "BillingAccountId",
                                                           "BillingAccountName",
                                                           "BillingAccountType",
                                                           "BillingCurrency",
                                                           "BillingPeriodEnd",
                                                           "BillingPeriodStart",
                                                           "ChargeCategory",
                                                           "ChargeClass",
                                                           "ChargeDescription",
                                                           "ChargeFrequency",
                                                           "ChargePeriodEnd",
                                                           "ChargePeriodStart",
                                                           "CommitmentDiscountStatus",
                                                           "ConsumedQuantity",
                                                           "ConsumedUnit",
                                                           "ContractedCost",
                                                           "EffectiveCost",
                                                           "InvoiceId",
                                                           "InvoiceIssuerName",
                                                           "ListCost",
                                                           "PricingCategory",
                                                           "PricingQuantity",
                                                           "PricingUnit",
                                                           "ProviderName",
                                                           "PublisherName",
                                                           "ResourceId",
                                                           "ResourceName",
                                                           "ResourceType",
                                                           "ServiceCategory",
                                                           "ServiceName",
                                                           "ServiceSubcategory",
                                                           "SkuId",
                                                           "SkuMeter",
                                                           "SubAccountId",
                                                           "SubAccountName",
                                                           "SubAccountType",
                                                           "Tags",
                                                           "x_CarbonGrams",
                                                           "x_Cause",
                                                           "x_ComputeState",
                                                           "x_EnergyJoules",
                                                           "x_EnergyState",
                                                           "x_Method",
                                                           "x_MigSlice",
                                                           "x_PricedHours",
                                                           "x_RequestClass",
                                                           "x_Tokens",
                                                           "x_UsageCost"};

// Cells of a row; an empty one is null.
using Cells = std::array<std::string, kColumns>;

constexpr bool IsNumber(size_t column) noexcept {
  switch (column) {
    case kBilledCost:
    case kConsumedQuantity:
    case kContractedCost:
    case kEffectiveCost:
    case kListCost:
    case kPricingQuantity:
    case kXCarbonGrams:
    case kXEnergyJoules:
    case kXPricedHours:
    case kXTokens:
    case kXUsageCost: return true;
    default: return false;
  }
}

void AppendCells(std::string& out, const Cells& cells) {
  for (size_t i = 0; i < kColumns; ++i) {
    if (i > 0) out += ',';
    // A minus begins a formula in a text only.
    if (IsNumber(i)) out += cells[i];
    else AppendCsvField(out, cells[i]);
  }
  out += '\n';
}

// First moment of the month of a time, and of the one after.
std::pair<int64_t, int64_t> MonthOf(int64_t unix_seconds) {
  using namespace std::chrono;
  const year_month_day date(floor<days>(sys_seconds(seconds(unix_seconds))));
  const year_month month = date.year() / date.month();
  const auto begin = [](const year_month& of) {
    return sys_seconds(sys_days(of / day(1))).time_since_epoch().count();
  };
  return {begin(month), begin(month + months(1))};
}

std::string TagsOf(const ledger::Owner& owner) {
  std::string json;
  {
    JsonObject tags(json);
    tags.TextIfAny("engine", owner.engine);
    tags.TextIfAny("job", owner.job);
    tags.TextIfAny("model", owner.model);
    tags.TextIfAny("namespace", owner.name_space);
    tags.TextIfAny("pod", owner.pod);
    tags.TextIfAny("process", owner.process);
  }
  return json;
}

void SetCost(Cells& cells, __int128 pico) {
  cells[kBilledCost] = WideText(pico, kPicoDecimals);
  for (Column same : {kContractedCost, kEffectiveCost, kListCost}) cells[same] = cells[kBilledCost];
}

void SetQuantity(Cells& cells, std::string quantity, const char* unit) {
  cells[kPricingQuantity] = std::move(quantity);
  cells[kPricingUnit] = unit;
  cells[kConsumedQuantity] = cells[kPricingQuantity];
  cells[kConsumedUnit] = unit;
}

// What both charges of an entry have.
Cells CommonCells(const ledger::HourEntry& entry, std::string_view ledger, std::string_view host) {
  Cells cells;
  const Account& account = *entry.account;
  const auto [month, next_month] = MonthOf(entry.hour_unix);
  const int64_t hour = entry.for_hour_unix == 0 ? entry.hour_unix : entry.for_hour_unix;
  cells[kBillingAccountId] = ledger;
  cells[kBillingAccountName] = host;
  cells[kBillingAccountType] = "Ledger";
  cells[kBillingCurrency] = "USD";
  cells[kBillingPeriodStart] = TimeText(month);
  cells[kBillingPeriodEnd] = TimeText(next_month);
  cells[kChargeCategory] = "Usage";
  if (hour < month) cells[kChargeClass] = "Correction";
  cells[kChargeFrequency] = "Usage-Based";
  cells[kChargePeriodStart] = TimeText(hour);
  cells[kChargePeriodEnd] = TimeText(hour + kHourSeconds);
  for (Column name : {kInvoiceIssuerName, kProviderName, kPublisherName}) cells[name] = "gpulens";
  cells[kPricingCategory] = "Standard";
  cells[kResourceId] = account.gpu;
  cells[kResourceName] = account.gpu;
  cells[kResourceType] = "GPU";
  if (!account.owner.tenant.empty()) {
    cells[kSubAccountId] = account.owner.tenant;
    cells[kSubAccountName] = account.owner.tenant;
    cells[kSubAccountType] = "Tenant";
  }
  cells[kTags] = TagsOf(account.owner);
  cells[kXCause] = Name(account.cause);
  cells[kXComputeState] = Name(account.compute_state);
  cells[kXEnergyState] = Name(account.energy_state);
  cells[kXMethod] = Name(account.method);
  cells[kXMigSlice] = account.slice;
  cells[kXRequestClass] = Name(account.request_class);
  return cells;
}

struct Allocation {
  std::string name, host, name_space, pod, job, process;
  Totals sums;
  __int128 idle_pico = 0, active_ms = 0;
};

// NAME as OpenCost forms it; "__idle__" has no owner.
std::string AllocationName(const Allocation& allocation) {
  if (!allocation.pod.empty())
    return allocation.name_space.empty() ? allocation.pod : allocation.name_space + "/" + allocation.pod;
  if (!allocation.job.empty()) return "job/" + allocation.job;
  return allocation.process.empty() ? "__idle__" : "process/" + allocation.process;
}

void AppendAllocation(std::string& out, const Allocation& allocation, int64_t begin, int64_t end) {
  JsonObject object(out);
  object.Text("name", allocation.name);
  {
    JsonObject properties(object.Key("properties"));
    properties.Text("cluster", allocation.host);
    properties.Text("node", allocation.host);
    properties.TextIfAny("namespace", allocation.name_space);
    properties.TextIfAny("pod", allocation.pod);
    properties.TextIfAny("controller", allocation.job);
    if (!allocation.job.empty()) properties.Text("controllerKind", "job");
  }
  {
    JsonObject window(object.Key("window"));
    window.Text("start", TimeText(begin));
    window.Text("end", TimeText(end));
  }
  object.Text("start", TimeText(begin));
  object.Text("end", TimeText(end));
  const int64_t hours = (end - begin) / kHourSeconds;
  object.Whole("minutes", hours * 60);
  const Totals& sums = allocation.sums;
  object.Raw("gpuHours", GpuHours(sums.time_ms));
  object.Raw("gpuCount", GpuHours(sums.time_ms / hours));
  if (sums.time_ms != 0)
    object.Raw("gpuEfficiency", ledger::RoundedText(allocation.active_ms * 1'000'000 / sums.time_ms, 6, 6));
  if (sums.priced_ms != 0) {
    object.Raw("gpuCost", WideText(sums.cost_allocation_pico, kPicoDecimals));
    object.Raw("gpuCostIdle", WideText(allocation.idle_pico, kPicoDecimals));
  }
  if (sums.electricity_pico != 0) object.Raw("externalCost", WideText(sums.electricity_pico, kPicoDecimals));
  if (sums.priced_ms != 0 || sums.electricity_pico != 0)
    object.Raw("totalCost", WideText(sums.cost_allocation_pico + sums.electricity_pico, kPicoDecimals));
}

Status WriteFocus(ledger::LedgerFile& ledger, const CostRange& range, CostOutput& output) {
  RETURN_IF_ERROR(output.Write(FocusHead()));
  std::string rows;
  __int128 unpriced_ms = 0;
  const auto add = [&](const ledger::HourEntry& entry) -> Status {
    AppendFocusRows(rows, entry, ledger.id(), ledger.host());
    unpriced_ms += entry.amounts.time_ms - entry.amounts.priced_ms;
    if (rows.size() < 1 << 16) return Ok();
    const Status status = output.Write(rows);
    rows.clear();
    return status;
  };
  RETURN_IF_ERROR(ledger.ForEach(range.since_unix, range.until_unix, add));
  RETURN_IF_ERROR(output.Write(rows));
  if (unpriced_ms != 0) {
    WriteNote("gpulens cost export: " + GpuHours(unpriced_ms) +
              " GPU hours have no price. FOCUS has no unknown cost: theirs is 0, and x_PricedHours has "
              "those with one");
  }
  return Ok();
}

}  // namespace

std::string FocusHead() { return Joined(kNames, ",") + "\n"; }

void AppendFocusRows(std::string& out, const ledger::HourEntry& entry, std::string_view ledger,
                     std::string_view host) {
  const ledger::Amounts& amounts = entry.amounts;
  const Cells common = CommonCells(entry, ledger, host);
  Cells time = common;
  SetCost(time, amounts.cost_allocation_pico);
  SetQuantity(time, GpuHours(amounts.time_ms), "Hours");
  const bool idle = entry.account->owner.empty();
  time[kChargeDescription] = idle ? "GPU time without an owner" : "GPU time by allocation";
  time[kServiceCategory] = "Compute";
  time[kServiceName] = "GPU time";
  time[kServiceSubcategory] = "Other (Compute)";
  time[kSkuId] = "gpu-time";
  time[kSkuMeter] = "GPU Hours";
  if (amounts.carbon_known_uj != 0) time[kXCarbonGrams] = WideText(amounts.carbon_ng, kNanoDecimals);
  if (amounts.unmetered_ms == 0 || amounts.energy_uj != 0)
    time[kXEnergyJoules] = WideText(amounts.energy_uj, kMicroDecimals);
  time[kXPricedHours] = GpuHours(amounts.priced_ms);
  if (amounts.tokens != 0) time[kXTokens] = std::to_string(amounts.tokens);
  if (amounts.priced_ms != 0 || amounts.cost_usage_pico != 0)
    time[kXUsageCost] = WideText(amounts.cost_usage_pico, kPicoDecimals);
  AppendCells(out, time);
  if (amounts.electricity_pico == 0) return;
  Cells power = common;
  SetCost(power, amounts.electricity_pico);
  SetQuantity(power, KilowattHours(amounts.energy_uj), "kWh");
  power[kChargeDescription] = "Electricity of the GPU, with the power usage effectiveness in its price";
  power[kServiceCategory] = "Other";
  power[kServiceName] = "GPU electricity";
  power[kServiceSubcategory] = "Other (Other)";
  power[kSkuId] = "gpu-electricity";
  power[kSkuMeter] = "Electricity";
  AppendCells(out, power);
}

Result<std::string> OpenCostJson(ledger::LedgerFile& ledger, const CostRange& range) {
  const ledger::SumQuery query{.since_unix = range.since_unix,
                               .until_unix = range.until_unix,
                               .by = {Dimension::kDay, Dimension::kNamespace, Dimension::kPod,
                                      Dimension::kJob, Dimension::kProcess, Dimension::kState},
                               .where = {}};
  ASSIGN_OR_RETURN(const std::vector<SumRow> rows, ledger.Sum(query));
  std::map<std::string, std::map<std::string, Allocation>> days;
  for (const SumRow& row : rows) {
    Allocation one{{}, ledger.host(), row.key[1], row.key[2], row.key[3], row.key[4], {}};
    one.name = AllocationName(one);
    const auto at = days[row.key[0]].try_emplace(one.name, one).first;
    at->second.sums += row.sums;
    if (row.key[5] == Name(ledger::ComputeState::kHeldIdle))
      at->second.idle_pico += row.sums.cost_allocation_pico;
    if (row.key[5] == Name(ledger::ComputeState::kUseful) ||
        row.key[5] == Name(ledger::ComputeState::kActiveWasted))
      at->second.active_ms += row.sums.time_ms;
  }
  std::string out = "{\"code\":200,\"status\":\"success\",\"data\":[";
  bool first = true;
  for (const auto& [day, allocations] : days) {
    const int64_t midnight = ParseRfc3339(day + "T00:00:00Z").value_or(0) / 1'000'000'000;
    const int64_t begin = std::max(midnight, range.since_unix);
    const int64_t end = std::min(midnight + kDaySeconds, range.until_unix);
    out += std::exchange(first, false) ? "\n" : ",\n";
    JsonObject set(out);
    for (const auto& [name, allocation] : allocations)
      AppendAllocation(set.Key(name, "\n "), allocation, begin, end);
  }
  return out + "]}\n";
}

Result<int> ExportCost(const CostOptions& options) {
  if (options.focus.empty() && !options.opencost && !options.entries)
    return Status{Code::kInvalidArgument, "choose a format: --focus 1.2, --opencost or --entries"};
  ASSIGN_OR_RETURN(const CostRange range, RangeOf(options, RealClock().Now().unix_ns));
  ASSIGN_OR_RETURN(const auto ledger, OpenLedger(options));
  ASSIGN_OR_RETURN(CostOutput output, CostOutput::Open(options.output));
  if (options.opencost) {
    ASSIGN_OR_RETURN(const std::string json, OpenCostJson(*ledger, range));
    RETURN_IF_ERROR(output.Write(json));
  } else if (options.entries) {
    const auto add = [&](const ledger::HourEntry& entry) {
      return output.Write(EntryText(entry, range.since_unix) + "\n");
    };
    RETURN_IF_ERROR(ledger->ForEach(range.since_unix, range.until_unix, add));
  } else {
    RETURN_IF_ERROR(WriteFocus(*ledger, range, output));
  }
  RETURN_IF_ERROR(output.Close());
  return 0;
}

}  // namespace gpulens

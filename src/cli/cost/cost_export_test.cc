#include "cli/cost/cost_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/json.h"
#include "base/rfc3339.h"
#include "base/testing/temp_folder.h"
#include "store/ledger/ledger_testing.h"
#include "store/ledger/wide_text.h"

namespace gpulens {
namespace {

using ledger::kTestHour;
using ledger::TestEntries;
using ::testing::HasSubstr;

// Fields of lines of CSV, of which none has a newline in it.
std::vector<std::string> Fields(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') fields.back() += line[i++];
    else if (line[i] == '"') quoted = !quoted;
    else if (line[i] == ',' && !quoted) fields.emplace_back();
    else fields.back() += line[i];
  }
  return fields;
}

using FocusRow = std::map<std::string, std::string>;

std::vector<FocusRow> FocusRows(const std::vector<ledger::Entry>& entries) {
  std::string text = FocusHead();
  for (const ledger::Entry& entry : entries) {
    const int64_t hour = entry.window_unix_ms / 3'600'000 * 3600,
                  for_hour = entry.for_window_unix_ms / 3'600'000 * 3600;
    AppendFocusRows(text, {hour, for_hour, &entry.account, entry.amounts}, "0123", "node-1");
  }
  std::string_view rest = text;
  const std::vector<std::string> names = Fields(TakeUntil(rest, '\n'));
  std::vector<FocusRow> rows;
  while (!rest.empty()) {
    const std::vector<std::string> fields = Fields(TakeUntil(rest, '\n'));
    EXPECT_EQ(fields.size(), names.size());
    FocusRow& row = rows.emplace_back();
    for (size_t i = 0; i < names.size() && i < fields.size(); ++i) row[names[i]] = fields[i];
  }
  return rows;
}

constexpr std::string_view kMandatory[] = {
    "BilledCost",         "BillingAccountId", "BillingAccountName", "BillingCurrency",   "BillingPeriodEnd",
    "BillingPeriodStart", "ChargeCategory",   "ChargeClass",        "ChargeDescription", "ChargePeriodEnd",
    "ChargePeriodStart",  "ContractedCost",   "EffectiveCost",      "InvoiceIssuerName", "ListCost",
    "PricingQuantity",    "PricingUnit",      "ProviderName",       "PublisherName",     "ServiceCategory",
    "ServiceName"};

bool IsDecimal(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const std::string_view whole = TakeUntil(text, '.');
  const auto digits = [](std::string_view part) {
    return std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
  };
  return !whole.empty() && digits(whole) && digits(text);
}

TEST(Focus, MandatoryColumnsHaveValuesDecimalsNoExponentAndTimesAreInUtc) {
  std::vector<ledger::Entry> entries = TestEntries({.gpus = 2, .hours = 3});
  entries[0].amounts.cost_allocation_pico = 1;  // 1e-12 USD
  const std::vector<FocusRow> rows = FocusRows(entries);
  EXPECT_GT(rows.size(), entries.size()) << "electricity has rows of its own";
  for (const FocusRow& row : rows) {
    for (std::string_view name : kMandatory) {
      const auto cell = row.find(std::string(name));
      ASSERT_NE(cell, row.end()) << name;
      EXPECT_TRUE(name == "ChargeClass" || !cell->second.empty()) << name;
    }
    for (const char* name :
         {"BilledCost", "ListCost", "EffectiveCost", "ContractedCost", "PricingQuantity", "ConsumedQuantity"})
      EXPECT_TRUE(IsDecimal(row.at(name))) << name << row.at(name);
    for (const char* name :
         {"BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd"})
      EXPECT_TRUE(row.at(name).size() == 20 && ParseRfc3339(row.at(name))) << row.at(name);
    EXPECT_EQ(row.at("ChargeClass"), "");
    EXPECT_EQ(row.at("BillingPeriodStart"), "2026-11-01T00:00:00Z");
    EXPECT_EQ(row.at("BillingPeriodEnd"), "2026-12-01T00:00:00Z");
    EXPECT_EQ(row.at("SubAccountId").empty(), row.at("SubAccountType").empty());
    EXPECT_TRUE(JsonDocument::Parse(row.at("Tags"))) << row.at("Tags");
  }
  EXPECT_EQ(rows[0].at("BilledCost"), "0.000000000001");
}

TEST(Focus, CostsAreThoseOfTheLedgerToThePicodollar) {
  const std::vector<ledger::Entry> entries = TestEntries({.gpus = 1, .hours = 5});
  ledger::Totals total;
  for (const ledger::Entry& entry : entries) total += entry.amounts;
  __int128 billed = 0, used = 0, joules = 0;
  const auto scaled = [](const std::string& text, size_t decimals) {
    std::string digits = text;
    const size_t point = digits.find('.');
    const size_t there = point == std::string::npos ? 0 : digits.size() - point - 1;
    if (point != std::string::npos) digits.erase(point, 1);
    return *ledger::ParseWide(digits + std::string(decimals - there, '0'));
  };
  for (const FocusRow& row : FocusRows(entries)) {
    billed += scaled(row.at("BilledCost"), 12);
    if (!row.at("x_UsageCost").empty()) used += scaled(row.at("x_UsageCost"), 12);
    if (!row.at("x_EnergyJoules").empty()) joules += scaled(row.at("x_EnergyJoules"), 6);
  }
  EXPECT_TRUE(billed == total.cost_allocation_pico + total.electricity_pico);
  EXPECT_TRUE(used == total.cost_usage_pico);
  EXPECT_TRUE(joules == total.energy_uj);
}

TEST(Focus, OnlyAnAdjustmentOfAnEarlierMonthIsACorrection) {
  ledger::Entry entry = TestEntries({.gpus = 1, .accounts = 3, .hours = 1}).at(2);
  entry.window_unix_ms = 1'796'083'200'000;  // 2026-12-01T00:00:00Z
  entry.for_window_unix_ms = entry.window_unix_ms - 10'000;
  entry.amounts.electricity_pico = 0;
  FocusRow row = FocusRows({entry}).at(0);
  EXPECT_EQ(row.at("ChargeClass"), "Correction");
  EXPECT_EQ(row.at("ChargePeriodStart"), "2026-11-30T23:00:00Z");
  EXPECT_EQ(row.at("BillingPeriodStart"), "2026-12-01T00:00:00Z");
  entry.window_unix_ms += 3'600'000, entry.for_window_unix_ms += 3'600'000;
  row = FocusRows({entry}).at(0);
  EXPECT_EQ(row.at("ChargeClass"), "");
  EXPECT_EQ(row.at("ChargePeriodStart"), "2026-12-01T00:00:00Z");
}

TEST(Focus, WhatIsNotKnownIsEmpty) {
  ledger::Entry entry =
      TestEntries({.gpus = 1, .accounts = 1, .hours = 1, .priced = false, .carbon = false}).at(0);
  entry.amounts.energy_uj = 0, entry.amounts.unmetered_ms = entry.amounts.time_ms;
  const std::vector<FocusRow> rows = FocusRows({entry});
  ASSERT_EQ(rows.size(), 1u);
  for (const char* name : {"x_EnergyJoules", "x_CarbonGrams", "x_UsageCost", "x_Tokens", "SubAccountId"})
    EXPECT_EQ(rows[0].at(name), "") << name;
  EXPECT_EQ(rows[0].at("x_PricedHours"), "0");
}

TEST(OpenCost, AllocationsOfADayHaveTheLedgersTimeAndCost) {
  const testing::TempFolder folder;
  const auto file = *ledger::LedgerFile::Open({.path = folder.path() + "/ledger.db"});
  ASSERT_TRUE(file->Write(TestEntries({.gpus = 2, .hours = 30}), {}, {}));
  const auto text = OpenCostJson(*file, {kTestHour, kTestHour + 30 * 3600});
  ASSERT_TRUE(text) << text.error().detail;
  const auto json = JsonDocument::Parse(*text);
  ASSERT_TRUE(json) << *text;
  EXPECT_EQ(json->Integer("/code"), 200);
  ASSERT_EQ(json->Size("/data"), 2u);
  double cost = 0, hours = 0;
  for (size_t day = 0; day < 2; ++day) {
    const std::string set = "/data/" + std::to_string(day);
    const auto names = json->Names(set).value_or(std::vector<std::string>());
    for (const std::string& name : names) {
      std::string at = set + "/";
      for (char c : name) c == '/' ? at += "~1" : at += c;
      EXPECT_EQ(json->Text(at + "/name"), name);
      EXPECT_EQ(json->Number(at + "/minutes"), day == 0 ? 1440 : 360);
      cost += *json->Number(at + "/gpuCost");
      hours += *json->Number(at + "/gpuHours");
      const double efficiency = *json->Number(at + "/gpuEfficiency");
      EXPECT_TRUE(efficiency >= 0 && efficiency <= 1);
    }
  }
  const ledger::Totals total = file->Sum({})->front().sums;
  EXPECT_NEAR(cost, static_cast<double>(total.cost_allocation_pico) / 1e12, 1e-6);
  EXPECT_NEAR(hours, static_cast<double>(total.time_ms) / 3.6e6, 1e-6);
  EXPECT_EQ(json->Text("/data/1/__idle__/window/end"), "2026-11-27T06:00:00Z");
  EXPECT_EQ(json->Text("/data/0/team-1~1pod-0-10/properties/namespace"), "team-1");
  EXPECT_THAT(*text, HasSubstr("\"__idle__\""));
}

}  // namespace
}  // namespace gpulens

#include "cli/cost/charge_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/testing/temp_folder.h"
#include "store/charges/charge_file.h"
#include "store/charges/charge_testing.h"
#include "store/ledger/ledger_testing.h"

namespace gpulens {
namespace {

using ledger::RequestClass;
using ::testing::HasSubstr;
using ::testing::Not;

struct ChargeReportTest : ::testing::Test {
  void Write(const std::vector<ChargeRecord>& records) { ASSERT_TRUE(charges->Write(records).ok()); }
  void AddHour(int hour, RequestClass of, int64_t pico, int64_t energy_uj, int64_t tokens, bool priced = true,
               const char* engine = "lab") {
    ledger::Entry entry;
    entry.window_unix_ms = (ledger::kTestHour + hour * 3600) * 1000;
    entry.account.gpu = "GPU-0";
    entry.account.energy_state = ledger::EnergyState::kActive;
    entry.account.compute_state = ledger::ComputeState::kUseful;
    entry.account.request_class = of;
    entry.account.owner.engine = engine;
    entry.amounts.time_ms = 1000;
    entry.amounts.energy_uj = energy_uj;
    entry.amounts.tokens = tokens;
    if (priced) entry.amounts.priced_ms = 1000, entry.amounts.cost_allocation_pico = pico;
    entries.push_back(entry);
  }
  // The request number `i` of one's own engine, in an hour.
  static ChargeRecord Own(uint64_t i, int hour, int64_t prompt, int64_t generated) {
    ChargeRecord record = TestCharge(i);
    record.profile = "byoc", record.provider = "lab";
    record.settled_unix_ns = kTestDispatchNs + hour * 3'600'000'000'000 + static_cast<int64_t>(i);
    record.usage = {};
    record.usage[LlmClass::kInput] = prompt;
    record.usage[LlmClass::kInputCached] = 1'000'000;  // not computed
    record.usage[LlmClass::kOutput] = generated;
    record.list_pico = 50, record.charged_pico = 0;
    return record;
  }
  Result<ChargeReport> TryRead(CostOptions options, bool with_ledger = true) {
    options.since = "2026-11-26", options.until = "2026-12-01";
    EXPECT_TRUE(ledger->Write(entries, {}, {}));
    entries.clear();
    const auto range = RangeOf(options, 0);
    EXPECT_TRUE(range);
    return ReadChargeReport(*charges, with_ledger ? ledger.get() : nullptr, options, *range);
  }
  ChargeReport Read(CostOptions options, bool with_ledger = true) {
    auto report = TryRead(std::move(options), with_ledger);
    EXPECT_TRUE(report) << report.error().detail;
    return report ? *std::move(report) : ChargeReport();
  }
  static CostOptions By(std::string by, std::vector<std::string> where = {}) {
    CostOptions options;
    options.by = std::move(by), options.where = std::move(where);
    return options;
  }

  testing::TempFolder folder;
  const std::unique_ptr<ChargeFile> charges = *ChargeFile::Open({.path = folder.path() + "/charges.db"});
  const std::unique_ptr<ledger::LedgerFile> ledger =
      *ledger::LedgerFile::Open({.path = folder.path() + "/ledger.db"});
  std::vector<ledger::Entry> entries;
};

TEST_F(ChargeReportTest, RowsOfEachKeyAddUpToTheTotal) {
  std::vector<ChargeRecord> records;
  ChargeSums expected;
  for (uint64_t i = 0; i < 200; ++i) {
    records.push_back(TestCharge(i));
    ++expected.requests;
    expected.list_pico += records.back().list_pico, expected.charged_pico += records.back().charged_pico;
    for (size_t c = 0; c < kLlmClasses; ++c) expected.units[c] += records.back().usage.units[c];
  }
  Write(records);
  for (const char* by : {"tenant", "key", "provider,model", "day,tenant", "outcome", ""}) {
    const ChargeReport report = Read(By(by));
    EXPECT_EQ(report.total.sums, expected) << by;
    __int128 charged = 0;
    for (const ChargeReportRow& row : report.rows) charged += row.sums.charged_pico;
    EXPECT_TRUE(charged == expected.charged_pico) << by;
    EXPECT_THAT(ChargeReportText(report, 0), HasSubstr("the total, to the picodollar.")) << by;
    EXPECT_THAT(ChargeReportText(report, 0), Not(HasSubstr("share"))) << by;
  }
  EXPECT_EQ(Read(By("tenant", {"tenant=tenant-1", "provider=openai"})).rows.size(), 1u);
}

TEST_F(ChargeReportTest, ARequestIsInTheRowOfEachOfItsBudgets) {
  std::vector<ChargeRecord> records;
  for (uint64_t i = 0; i < 40; ++i) records.push_back(TestCharge(i));
  records[0].budgets.clear();
  Write(records);
  const ChargeReport report = Read(By("budget"));
  EXPECT_TRUE(report.overlapping);
  EXPECT_EQ(report.total.sums.requests, 40);
  int64_t of_rows = 0, team = 0, none = 0;
  for (const ChargeReportRow& row : report.rows) {
    of_rows += row.sums.requests;
    if (row.key[0] == "team-1") team = row.sums.requests;
    if (row.key[0].empty()) none = row.sums.requests;
  }
  EXPECT_EQ(of_rows, 39 * 2 + 1);
  EXPECT_EQ(team, 20);
  EXPECT_EQ(none, 1);
  EXPECT_THAT(ChargeReportText(report, 0), HasSubstr("in the row of each of its budgets"));
  EXPECT_EQ(Read(By("tenant", {"budget=team-1"})).total.sums.requests, 20);
}

TEST_F(ChargeReportTest, ALineRoundingMakesTheLinesAddUp) {
  std::vector<ChargeRecord> records;
  for (uint64_t i = 0; i < 3; ++i) {
    records.push_back(TestCharge(i));
    records.back().tenant = "t" + std::to_string(i);
    records.back().list_pico = records.back().charged_pico = 33'335'000'000'000;  // 33.335 USD
  }
  Write(records);
  const std::string text = ChargeReportText(Read(By("tenant")), 0);
  // 33.335 is 33.34 to the even cent; 3 x 33.34 is 100.02, and the total 100.005 is 100.00.
  EXPECT_THAT(text, HasSubstr("33.34"));
  EXPECT_THAT(text, HasSubstr("-0.02"));
  EXPECT_THAT(text, HasSubstr("100.00"));
  EXPECT_THAT(text, HasSubstr("rounding"));
}

TEST_F(ChargeReportTest, OwnEnginesCostIsDividedExactly) {
  std::vector<ChargeRecord> records;
  for (uint64_t i = 0; i < 30; ++i)
    records.push_back(
        Own(i, static_cast<int>(i) % 3, 10 + static_cast<int64_t>(i), static_cast<int64_t>(i * 7 % 11)));
  records.push_back(TestCharge(100));
  Write(records);
  for (int hour = 0; hour < 4; ++hour) {
    AddHour(hour, RequestClass::kPrefill, 1'000'000'007, 5'000'003, 1000);
    AddHour(hour, RequestClass::kDecode, 9'000'000'001, 7'000'001, 100);
    AddHour(hour, RequestClass::kHeld, 2'000'000'003, 11, 0);
    AddHour(hour, RequestClass::kNone, 17, 5, 0);
    AddHour(hour, RequestClass::kDecode, 1'234'567, 99, 10, true, "another");
  }
  for (const char* by : {"tenant", "key", "provider,day"}) {
    const ChargeReport report = Read(By(by));
    ASSERT_EQ(report.engines.size(), 1u);
    const ChargedEngines& engine = report.engines[0];
    EXPECT_TRUE(engine.whole.pico == 4 * (__int128{1'000'000'007} + 9'000'000'001 + 2'000'000'003 + 17));
    EngineAmount sum = engine.requests;
    ((sum += engine.others) += engine.held) += engine.undivided;
    EXPECT_EQ(sum, engine.whole);
    EXPECT_EQ(report.total.shares.requests, 30);
    EXPECT_EQ(report.total.shares.without_cost, 0);
    EXPECT_EQ(report.total.shares.amount, engine.requests);
    ChargeShares shares;
    for (const ChargeReportRow& row : report.rows) shares += row.shares;
    EXPECT_EQ(shares, report.total.shares) << by;
    EXPECT_TRUE(engine.requests.pico > 0 && engine.others.pico > 0);
  }
  // Tokens of requests that are left out are still theirs, and not those of others.
  const ChargeReport all = Read(By("tenant")), some = Read(By("tenant", {"tenant=tenant-1"}));
  ASSERT_EQ(some.rows.size(), 1u);
  EXPECT_EQ(some.engines[0].others, all.engines[0].others);
  const auto same = std::ranges::find(all.rows, some.rows[0].key, &ChargeReportRow::key);
  ASSERT_NE(same, all.rows.end());
  EXPECT_EQ(same->shares, some.rows[0].shares);
  const std::string text = ChargeReportText(all, 0);
  EXPECT_THAT(text, HasSubstr("USD share"));
  EXPECT_THAT(text, HasSubstr("Engine lab cost 0.048000 USD"));
}

TEST_F(ChargeReportTest, WhatTheLedgerDoesNotHaveIsUnknown) {
  Write({Own(0, 0, 10, 10), Own(1, 1, 10, 10), Own(2, 2, 10, 10)});
  AddHour(0, RequestClass::kDecode, 0, 500, 10, false);  // no price
  AddHour(1, RequestClass::kNone, 1000, 500, 0);         // no counters
  const ChargeReport report = Read(By("day"));
  EXPECT_EQ(report.total.shares.without_cost, 3);
  EXPECT_EQ(report.total.shares.without_energy, 2);
  EXPECT_EQ(report.total.shares.pico(), std::nullopt);
  EXPECT_TRUE(report.total.shares.energy_uj() == 500);
  const std::string text = ChargeReportText(report, 0);
  EXPECT_THAT(text, HasSubstr("–"));
  EXPECT_THAT(text, HasSubstr("Without a share: 3 of 3 byoc requests."));
  EXPECT_THAT(ChargeReportJson(report), Not(HasSubstr("\"share_pico\"")));
  EXPECT_THAT(ChargeReportJson(report), HasSubstr("\"share_energy_uj\":500"));
  const std::string csv = ChargeReportCsv(report);
  EXPECT_THAT(csv, HasSubstr("share_pico,share_amount,share_energy_uj"));
  EXPECT_THAT(csv, HasSubstr(",3,3,2,,,500\n"));
  const ChargeReport without = Read(By("day"), false);
  EXPECT_EQ(without.total.shares.without_energy, 3);
  EXPECT_THAT(ChargeReportText(without, 0), HasSubstr("No ledger was read"));
}

TEST_F(ChargeReportTest, AnEngineOfAnotherNameIsGiven) {
  Write({Own(0, 0, 0, 10)});
  AddHour(0, RequestClass::kDecode, 1000, 500, 10, true, "chat-a");
  AddHour(0, RequestClass::kDecode, 200, 50, 10, true, "chat-b");
  EXPECT_EQ(Read(By("tenant")).total.shares.without_cost, 1);
  CostOptions options = By("tenant");
  options.engines = {"lab=chat-a", "lab=chat-b"};
  const ChargeReport report = Read(options);
  EXPECT_EQ(report.total.shares.amount, (EngineAmount{600, 275})) << "half of the tokens are its own";
  options.engines = {"lab"};
  EXPECT_EQ(TryRead(options).status().code, Code::kInvalidArgument);
  options.engines = {"lab=chat-a", "other=chat-a", "other=chat-b"};
  EXPECT_EQ(TryRead(options).status().code, Code::kInvalidArgument);
}

TEST_F(ChargeReportTest, WrongKeysAndSeveralCurrenciesAreRefused) {
  std::vector<ChargeRecord> records = {TestCharge(0), TestCharge(1)};
  records[1].currency = "EUR";
  Write(records);
  EXPECT_THAT(TryRead(By("tenant")).status().detail, HasSubstr("--where currency=EUR"));
  const ChargeReport euro = Read(By("tenant", {"currency=EUR"}));
  EXPECT_EQ(euro.total.sums.requests, 1);
  EXPECT_THAT(ChargeReportText(euro, 0), HasSubstr("EUR charged"));
  EXPECT_THAT(TryRead(By("tennant")).status().detail, HasSubstr("Did you mean tenant?"));
  EXPECT_EQ(TryRead(By("tenant,tenant")).status().code, Code::kInvalidArgument);
  EXPECT_EQ(TryRead(By("tenant", {"tenant"})).status().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace gpulens

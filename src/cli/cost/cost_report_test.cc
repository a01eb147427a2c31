#include "cli/cost/cost_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/testing/temp_folder.h"
#include "store/ledger/ledger_testing.h"
#include "store/ledger/wide_text.h"

namespace gpulens {
namespace {

using ledger::kTestHour;
using ledger::TestEntries;
using ::testing::HasSubstr;
using ::testing::Not;

struct CostReportTest : ::testing::Test {
  void Write(const std::vector<ledger::Entry>& entries) { ASSERT_TRUE(file->Write(entries, {}, {})); }
  CostReport Read(CostOptions options = {}) {
    options.since = "2026-11-26", options.until = "2026-12-01";
    const auto range = RangeOf(options, 0);
    EXPECT_TRUE(range);
    auto report = ReadReport(*file, options, *range);
    EXPECT_TRUE(report) << report.error().detail;
    return report ? *std::move(report) : CostReport();
  }
  static CostOptions By(std::string by) {
    CostOptions options;
    options.by = std::move(by);
    return options;
  }

  testing::TempFolder folder;
  const std::unique_ptr<ledger::LedgerFile> file =
      *ledger::LedgerFile::Open({.path = folder.path() + "/ledger.db"});
};

TEST_F(CostReportTest, EveryGroupingAddsUpToTheTotalAndNamesWhatHasNoOwner) {
  Write(TestEntries({.gpus = 2, .hours = 30}));
  ledger::Totals total;
  for (const ledger::Entry& entry : TestEntries({.gpus = 2, .hours = 30})) total += entry.amounts;
  for (const char* by :
       {"tenant", "pod", "job", "model", "engine", "gpu", "cause", "day,tenant", "hour", ""}) {
    const CostReport report = Read(By(by));
    EXPECT_EQ(report.total, total) << by;
    ledger::Totals sum;
    for (const ledger::SumRow& row : report.rows) sum += row.sums;
    EXPECT_EQ(sum, total) << by;
    const std::string text = ReportText(report, 0);
    EXPECT_THAT(text, HasSubstr("total, to the microjoule and picodollar.")) << by;
    EXPECT_THAT(text, HasSubstr("Unattributed: "));
    EXPECT_THAT(text, HasSubstr("Unobserved: "));
    EXPECT_THAT(text, HasSubstr("Without an owner: "));
    EXPECT_THAT(text, Not(HasSubstr("Nothing has a price")));
  }
}

TEST_F(CostReportTest, JsonHasIntegersAndDecimalTextsThatAgree) {
  Write(TestEntries({.gpus = 1, .accounts = 6, .hours = 2}));
  const std::string text = ReportJson(Read(By("tenant,gpu")));
  const auto json = JsonDocument::Parse(text);
  ASSERT_TRUE(json) << text;
  EXPECT_EQ(json->Text("/schema"), "gpulens.cost_report/1");
  EXPECT_EQ(json->Text("/ledger"), file->id());
  EXPECT_EQ(json->Text("/by/1"), "gpu");
  EXPECT_EQ(json->Text("/rows/0/key/gpu"), "GPU-00000000");
  __int128 energy = 0, pico = 0;
  for (size_t i = 0; i < json->Size("/rows"); ++i) {
    const std::string row = "/rows/" + std::to_string(i);
    const int64_t uj = *json->Integer(row + "/energy_uj");
    energy += uj, pico += *json->Integer(row + "/cost_usage_pico");
    EXPECT_EQ(json->Text(row + "/energy_joules"), ledger::WideText(uj, 6));
    EXPECT_EQ(json->Text(row + "/cost_usage_usd"),
              ledger::WideText(*json->Integer(row + "/cost_usage_pico"), 12));
  }
  EXPECT_TRUE(energy == json->Integer("/total/energy_uj").value_or(-1));
  EXPECT_TRUE(pico == json->Integer("/total/cost_usage_pico").value_or(-1));
}

TEST_F(CostReportTest, WithoutAPriceThereIsNoMoneyButALineOnHowToSetIt) {
  Write(TestEntries({.gpus = 1, .accounts = 6, .hours = 2, .priced = false, .carbon = false}));
  CostOptions options;
  options.carbon = true;
  const CostReport report = Read(options);
  const std::string text = ReportText(report, 0);
  EXPECT_THAT(text, Not(HasSubstr("USD allocated")));
  EXPECT_THAT(text, HasSubstr("Nothing has a price: set analyzers.cost.price_per_gpu_hour"));
  EXPECT_THAT(text, HasSubstr("Nothing has a carbon intensity"));
  EXPECT_THAT(ReportJson(report), Not(HasSubstr("cost_allocation")));
  EXPECT_THAT(ReportJson(report), Not(HasSubstr("carbon_ng")));
  EXPECT_THAT(ReportCsv(report), Not(HasSubstr("usd")));
}

TEST_F(CostReportTest, PartsWithoutAPriceOrEnergyAreNamed) {
  ledger::Entry one = TestEntries({.gpus = 1, .accounts = 3, .hours = 1}).at(2);
  one.amounts = {};
  one.amounts.time_ms = 7'200'000, one.amounts.priced_ms = 3'600'000;
  one.amounts.cost_allocation_pico = 2'000'000'000'000, one.amounts.cost_usage_pico = 1'000'000'000'000;
  one.amounts.unmetered_ms = 1'800'000;
  Write({one});
  const std::string text = ReportText(Read(), 0);
  EXPECT_THAT(text, HasSubstr("Unpriced: 1.0000 GPU h (50.0 %)"));
  EXPECT_THAT(text, HasSubstr("Unmetered: 0.5000 GPU h (25.0 %)"));
  EXPECT_THAT(text, HasSubstr("tenant-2  2.0000  0.00000         2.0000    1.0000")) << text;
}

TEST_F(CostReportTest, WasteNamesWhoHeldIdleGpusAndAddsUpToAllTime) {
  Write(TestEntries({.gpus = 1, .hours = 3}));
  CostOptions options;
  options.wasted = true;
  const CostReport report = Read(options);
  ledger::Totals sum;
  bool held = false;
  for (const ledger::SumRow& row : report.waste) {
    sum += row.sums;
    held |= row.key == std::vector<std::string>{"held_idle", "no_requests", "team-1/pod-0-10"};
    EXPECT_TRUE(row.key[0] != "useful" || row.key[2].empty()) << "who was useful is in the other report";
  }
  EXPECT_TRUE(held);
  EXPECT_EQ(sum, report.total);
  const std::string text = ReportText(report, 0);
  EXPECT_THAT(text, HasSubstr("held_idle      no_requests     team-1/pod-0-10"));
  EXPECT_THAT(text, HasSubstr(" effective."));
  const auto json = JsonDocument::Parse(ReportJson(report));
  ASSERT_TRUE(json);
  EXPECT_EQ(json->Text("/schema"), "gpulens.cost_waste/1");
  EXPECT_GT(json->Integer("/time_ms/observed"), json->Integer("/time_ms/useful"));
}

TEST_F(CostReportTest, FiltersAndWrongKeys) {
  Write(TestEntries({.gpus = 2, .hours = 2}));
  CostOptions options = By("pod");
  options.where = {"tenant=tenant-1", "gpu=GPU-00000001"};
  const CostReport report = Read(options);
  ASSERT_FALSE(report.rows.empty());
  for (const ledger::SumRow& row : report.rows) EXPECT_THAT(row.key[0], HasSubstr("pod-1-"));
  const CostRange range{kTestHour, kTestHour + 7200};
  for (const auto& [by, where] : {std::pair("tenannt", "pod=x"), std::pair("pod,pod", "pod=x"),
                                  std::pair("pod", "colour=red"), std::pair("pod", "pod")}) {
    CostOptions wrong = By(by);
    wrong.where = {where};
    const auto refused = ReadReport(*file, wrong, range);
    ASSERT_FALSE(refused) << by << where;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  }
  EXPECT_THAT(ReadReport(*file, By("tenannt"), range).error().detail, HasSubstr("Did you mean tenant?"));
}

TEST_F(CostReportTest, TheTableKeepsToItsWidth) {
  Write(TestEntries({.gpus = 2, .hours = 2}));
  CostOptions options = By("pod,model,tenant");
  options.energy = options.carbon = true;
  const std::string text = ReportText(Read(options), 80);
  EXPECT_THAT(text, HasSubstr("not fit; --csv and --json have all"));
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view one = TakeUntil(rest, '\n');
    if (one.starts_with("pod-") || one.starts_with("POD")) {
      EXPECT_LE(one.size(), 80u) << one;
    }
  }
}

TEST_F(CostReportTest, CsvHasARowForEachKey) {
  ledger::Entry odd = TestEntries({.gpus = 1, .accounts = 3, .hours = 1}).at(2);
  odd.account.owner.tenant = "a,\"b\"";
  odd.amounts.cost_usage_pico = -5;
  Write({odd});
  const std::string csv = ReportCsv(Read());
  EXPECT_TRUE(
      csv.starts_with("tenant,time_ms,gpu_hours,unmetered_ms,energy_uj,energy_joules,energy_kwh,priced_ms,"))
      << csv;
  EXPECT_THAT(csv, HasSubstr("\n\"a,\"\"b\"\"\","));
  EXPECT_THAT(csv, HasSubstr(",-5,-0.000000000005,")) << "a number is no formula";
}

TEST(CostRange, TimesAndPeriods) {
  const int64_t now_ns = (kTestHour + 1800) * 1'000'000'000;
  const auto range = [&](CostOptions options) { return RangeOf(options, now_ns); };
  const auto of = [&](const char* since, const char* until, const char* period = "") {
    CostOptions options;
    options.since = since, options.until = until, options.period = period;
    return range(options);
  };
  EXPECT_EQ(of("", "")->until_unix, kTestHour + 3600) << "with the hour that is not over";
  EXPECT_EQ(of("", "")->since_unix, kTestHour - 30 * kDaySeconds);
  EXPECT_EQ(of("90m", "")->since_unix, kTestHour - 3600) << "the hour in which it lies";
  EXPECT_EQ(of("2026-11-26", "2026-11-27")->until_unix, kTestHour + kDaySeconds);
  EXPECT_EQ(of("2026-11-26T05:30:00Z", "2026-11-26T07:30:00Z")->since_unix, kTestHour + 5 * 3600);
  EXPECT_EQ(of("2026-11-26T05:30:00Z", "2026-11-26T07:30:00Z")->until_unix, kTestHour + 7 * 3600);
  EXPECT_EQ(of("", "", "2026-11-26")->until_unix, kTestHour + kDaySeconds);
  EXPECT_EQ(of("", "", "2026-11")->since_unix, kTestHour - 25 * kDaySeconds);
  EXPECT_EQ(of("", "", "2026-11")->until_unix, kTestHour + 5 * kDaySeconds);
  EXPECT_EQ(of("", "", "2024")->until_unix - of("", "", "2024")->since_unix, 366 * kDaySeconds);
  EXPECT_EQ(of("", "", "2026-12")->until_unix - of("", "", "2026-12")->since_unix, 31 * kDaySeconds);
  for (const auto& [since, until, period] :
       {std::tuple("yesterday", "", ""), std::tuple("", "2026-13-01", ""),
        std::tuple("2026-11-26", "2026-11-26", ""), std::tuple("2026-11-27", "2026-11-26", ""),
        std::tuple("", "", "2026-13"), std::tuple("", "", "26-11"), std::tuple("", "", "2026-11-31")}) {
    const auto refused = of(since, until, period);
    ASSERT_FALSE(refused) << since << until << period;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  }
}

TEST(CostReport, HoursAndKilowattHoursAreRoundedInTheNinthDecimal) {
  EXPECT_EQ(GpuHours(3'600'000), "1");
  EXPECT_EQ(GpuHours(1), "0.000000278");
  EXPECT_EQ(GpuHours(-1), "-0.000000278");
  EXPECT_EQ(KilowattHours(3'600'000'000'000), "1");
  EXPECT_EQ(KilowattHours(1'000'000), "0.000000278");
}

}  // namespace
}  // namespace gpulens

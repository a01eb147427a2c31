#include "proxy/proxy_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/parse.h"

namespace gpulens::proxy {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ProxyMetricsTest : public ::testing::Test {
 protected:
  ProxyMetricsTest() { state_.config = &config_; }

  std::string Page() const { return metrics_.Page(state_); }
  // Of a charge that cost something.
  static ChargeRecord Record() {
    ChargeRecord record;
    record.provider = "one";
    record.profile = "managed";
    record.counted_by = CountedBy::kUsage;
    record.usage[LlmClass::kInput] = 10;
    record.list_pico = record.charged_pico = 1'999'999;
    record.price_row = 2;
    return record;
  }

  ManualClock clock_;
  ProxyMetrics metrics_{clock_};
  ProxyConfig config_;
  ProxyState state_;
};

TEST_F(ProxyMetricsTest, EachFamilyHasItsTextsOnceAndSamplesOfItsType) {
  metrics_.CountHttp("POST", 200, std::chrono::milliseconds(7));
  metrics_.CountCharge(Record());
  state_.budgets = {{.name = "team", .limit_pico = 5'000'000}};
  state_.stores = {{"file", {}}};
  state_.budget_engine_up = true;
  const std::string page = Page();
  std::map<std::string, std::string, std::less<>> types;
  std::string_view rest = page, help;
  while (!rest.empty()) {
    std::string_view line = TakeUntil(rest, '\n');
    if (line.starts_with("# HELP ")) {
      line.remove_prefix(7);
      help = TakeUntil(line, ' ');
      EXPECT_TRUE(line.ends_with('.')) << line;
      continue;
    }
    if (line.starts_with("# TYPE ")) {
      line.remove_prefix(7);
      const std::string_view name = TakeUntil(line, ' ');
      EXPECT_EQ(name, help);
      EXPECT_TRUE(types.emplace(name, line).second) << name;
      EXPECT_EQ(name.ends_with("_total"), line == "counter") << name;
      continue;
    }
    const std::string_view name = line.substr(0, line.find_first_of("{ "));
    EXPECT_TRUE(name.starts_with(help)) << line;
    if (types.at(std::string(help)) != "histogram") {
      EXPECT_EQ(name, help);
    }
  }
  EXPECT_GT(types.size(), 40u);
}

TEST_F(ProxyMetricsTest, AHistogramIsCumulative) {
  for (int ms : {1, 7, 7, 900'000}) metrics_.CountHttp("POST", 200, std::chrono::milliseconds(ms));
  const std::string page = Page();
  EXPECT_THAT(page, HasSubstr("http_request_duration_ms_bucket{le=\"5\"} 1\n"
                              "http_request_duration_ms_bucket{le=\"10\"} 3\n"));
  EXPECT_THAT(page, HasSubstr("http_request_duration_ms_bucket{le=\"600000\"} 3\n"
                              "http_request_duration_ms_bucket{le=\"+Inf\"} 4\n"
                              "http_request_duration_ms_sum 900015\nhttp_request_duration_ms_count 4\n"));
}

TEST_F(ProxyMetricsTest, InventedMethodsAndStatusesMakeNoSeries) {
  for (int i = 0; i < 10'000; ++i)
    metrics_.CountHttp("M" + std::to_string(i), 1000 + i, std::chrono::milliseconds(1));
  const std::string page = Page();
  EXPECT_THAT(page, HasSubstr("http_requests_total{method=\"other\",status=\"0\"} 10000\n"));
  EXPECT_THAT(page, Not(HasSubstr("M1")));
}

TEST_F(ProxyMetricsTest, ChargesAreSummedBeforeTheyAreRounded) {
  ChargeRecord record = Record();
  for (int i = 0; i < 3; ++i) metrics_.CountCharge(record);
  record.outcome = ChargeOutcome::kCancelled;
  record.counted_by = CountedBy::kPartial;
  metrics_.CountCharge(record);
  const std::string page = Page();
  EXPECT_THAT(page, HasSubstr("zumik_inference_charged_micros_total 7\n"));  // 4 × 1.999999
  EXPECT_THAT(page, HasSubstr("gpulens_proxy_charged_micros_total{counted_by=\"partial\"} 1\n"
                              "gpulens_proxy_charged_micros_total{counted_by=\"usage\"} 5\n"));
  EXPECT_THAT(page, HasSubstr("gpulens_proxy_settled_total{provider=\"one\",outcome=\"cancelled\"} 1\n"
                              "gpulens_proxy_settled_total{provider=\"one\",outcome=\"complete\"} 3\n"));
}

TEST_F(ProxyMetricsTest, AChargeWithoutPriceIsCountedWhereSomethingWasUsed) {
  ChargeRecord record = Record();
  metrics_.CountCharge(record);
  record.price_row = -1;
  record.counted_by = CountedBy::kNothing;
  metrics_.CountCharge(record);
  EXPECT_THAT(Page(), Not(HasSubstr("gpulens_proxy_unpriced_total{")));
  config_.providers.resize(1);
  config_.providers[0].name = "one";
  EXPECT_THAT(Page(), HasSubstr("gpulens_proxy_unpriced_total{provider=\"one\",profile=\"managed\"} 0\n"))
      << "a count that begins with 1 is no increase";
  record.counted_by = CountedBy::kCalibrated;
  metrics_.CountCharge(record);
  EXPECT_THAT(Page(), HasSubstr("gpulens_proxy_unpriced_total{provider=\"one\",profile=\"managed\"} 1\n"));
}

TEST_F(ProxyMetricsTest, TheGapBetweenOutputsIsAMeanOfAnAnswer) {
  ChargeRecord record = Record();
  metrics_.CountCharge(record);
  EXPECT_THAT(Page(), Not(HasSubstr("gpulens_proxy_time_per_output_token_seconds_count{")))
      << "an answer with one output has no gap";
  record.itl_sum_ns = 300'000'000;
  record.itl_count = 10;
  metrics_.CountCharge(record);
  const std::string page = Page();
  EXPECT_THAT(
      page,
      HasSubstr("token_seconds_bucket{provider=\"one\",le=\"0.025\"} 0\n"
                "gpulens_proxy_time_per_output_token_seconds_bucket{provider=\"one\",le=\"0.05\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("gpulens_proxy_time_per_output_token_seconds_sum{provider=\"one\"} 0.03\n"));
}

TEST_F(ProxyMetricsTest, StateOfJournalStoresAndBudgets) {
  state_.journal.failing = true;
  state_.journal.refused = 3;
  state_.journal.write_failures = 2;
  state_.journal.sync_failures = 1;
  state_.journal.unrecorded_pico = static_cast<__int128>(5'000'000) * 1'000'000;
  state_.journal_limit_bytes = 1 << 30;
  state_.found.unsettled = 4;
  state_.found.unsettled_bound_pico = 12'000'000;
  state_.found.damaged = 1;
  state_.found.damaged_files = 1;
  ChargeFoldStats away;
  away.status = {Code::kUnavailable, "refused"};
  away.behind = 17;
  state_.stores = {{"file", {.stored = 9}}, {"server", away}};
  state_.budgets = {{.name = "a\"b",
                     .limit_pico = 9'000'000,
                     .spent_pico = 8'000'000,
                     .held_pico = 1'000'000,
                     .refused = 6}};
  const std::string page = Page();
  for (const std::string_view line :
       {"gpulens_proxy_journal_up 0\n", "gpulens_proxy_journal_refused_total 3\n",
        "gpulens_proxy_journal_failures_total 3\n", "gpulens_proxy_unrecorded_micros_total 5000000\n",
        "gpulens_proxy_journal_limit_bytes 1073741824\n", "gpulens_proxy_unsettled_at_start 4\n",
        "gpulens_proxy_unsettled_bound_micros 12\n", "gpulens_proxy_journal_damaged_at_start 2\n",
        "gpulens_proxy_store_up{store=\"file\"} 1\ngpulens_proxy_store_up{store=\"server\"} 0\n",
        "gpulens_proxy_store_behind{store=\"server\"} 17\n",
        "gpulens_proxy_store_rows_total{store=\"file\"} 9\n",
        "gpulens_proxy_budget_limit_micros{budget=\"a\\\"b\"} 9\n",
        "gpulens_proxy_budget_spent_micros{budget=\"a\\\"b\"} 8\n",
        "gpulens_proxy_budget_held_micros{budget=\"a\\\"b\"} 1\n",
        "gpulens_proxy_budget_refused_total{budget=\"a\\\"b\"} 6\n"})
    EXPECT_THAT(page, HasSubstr(line));
  EXPECT_THAT(page, Not(HasSubstr("\ngpulens_proxy_budget_engine_up "))) << "there is no engine";
  state_.budget_engine_up = false;
  EXPECT_THAT(Page(), HasSubstr("gpulens_proxy_budget_engine_up 0\n"));
}

TEST_F(ProxyMetricsTest, TheTargetOfAClusterIsThatOfTheConfiguration) {
  config_.providers.resize(3);
  config_.providers[0].cluster = config_.providers[1].cluster = "byc_1";
  config_.providers[0].target_ttft_ms = 500;
  config_.providers[1].target_ttft_ms = 400;
  EXPECT_THAT(Page(), HasSubstr("zumik_byoc_target_ttft_ms gauge\n"
                                "zumik_byoc_target_ttft_ms{cluster=\"byc_1\"} 400\n# HELP"))
      << "a cluster has one target, the strictest of its providers";
}

}  // namespace
}  // namespace gpulens::proxy

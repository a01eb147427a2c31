// The numbers of OpenJarvis' own tests, through the C++ interface: statistics, efficiency, a server's page
// and the store. Energy has a file of its own; python/tests/test_numeric_cases.py tests the same in Python.
// In our units, with NaN where nothing was measured and the original has a 0.
#include <gpulens/efficiency.h>

#include <cmath>
#include <numeric>
#include <thread>

#include <gpulens/inference.h>
#include <gpulens/stats.h>

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "src/compat/vllm_page.h"
#include "store/telemetry/schema.h"

namespace gpulens {
namespace {

std::vector<double> Steps(double first, double step, int n) {
  std::vector<double> out;
  for (int i = 0; i < n; ++i) out.push_back(first + step * i);
  return out;
}

struct NamedNumber {
  std::string name;
  double got, wanted;
  double within = 1e-9;  // of `wanted`
};
void Expect(const std::vector<NamedNumber>& cases) {
  for (const auto& [name, got, wanted, within] : cases) {
    if (std::isnan(wanted)) {
      EXPECT_TRUE(std::isnan(got)) << name << ": " << got;
    } else {
      EXPECT_NEAR(got, wanted, std::abs(wanted) * within) << name;
    }
  }
}

TEST(OpenJarvisCases, LatenciesBetweenTokens) {
  const auto itl = [](const std::vector<double>& ms) {
    std::vector<TimePoint> at;
    for (double one : ms) at.emplace_back(std::chrono::nanoseconds(std::llround(one * 1e6)));
    return InterTokenLatency(at);
  };
  const Distribution five = itl({0, 1, 3, 6, 10}), one = itl({0, 10}), even = itl(Steps(0, 5, 11));
  std::vector<double> arrivals = {0};
  for (int i = 1; i <= 10; ++i) arrivals.push_back(arrivals.back() + i);
  const Distribution ten = itl(arrivals);
  Expect({{"min", five.min, 1e-3},
          {"max", five.max, 4e-3},
          {"mean", five.mean, 2.5e-3},
          {"p50", five.p50, 2.5e-3},
          {"p90", five.p90, 3.7e-3},
          {"p95", five.p95, 3.85e-3},
          {"p99", five.p99, 3.97e-3},
          {"1 to 10, mean", ten.mean, 5.5e-3},
          {"1 to 10, p50", ten.p50, 5.5e-3},
          {"1 to 10, p90", ten.p90, 9.1e-3}});
  for (double all : {one.min, one.mean, one.p50, one.p90, one.p95, one.p99, one.max})
    EXPECT_DOUBLE_EQ(all, 0.01);
  for (double all : {even.min, even.mean, even.p50, even.p90, even.p95, even.p99, even.max})
    EXPECT_DOUBLE_EQ(all, 0.005);
  EXPECT_EQ(itl({}).n + itl({7}).n, 0u);
}

TEST(OpenJarvisCases, PercentilesAndSpread) {
  const Distribution fifty = Describe(Steps(10, 10, 5));
  Expect({{"1 to 100, p90", Percentile(Steps(1, 1, 100), 0.9), 90.1},
          {"two, p50", Percentile(std::vector<double>{10, 20}, 0.5), 15},
          {"one, p99", Percentile(std::vector<double>{42}, 0.99), 42},
          {"unsorted, p50", Describe(std::vector<double>{5, 3, 1, 4, 2}).p50, 3},
          {"mean", fifty.mean, 30},
          {"median", fifty.p50, 30},
          {"p90", fifty.p90, 46},
          {"p95", fifty.p95, 48},
          {"p99", fifty.p99, 49.6},
          {"std", fifty.std, 15.811, 1e-4}});
}

TEST(OpenJarvisCases, FlopsAndEfficiency) {
  const auto h100 = FindGpuSpec("NVIDIA H100 80GB HBM3"), a100 = FindGpuSpec("NVIDIA A100-SXM4-80GB"),
             ada = FindGpuSpec("NVIDIA GeForce RTX 4090");
  ASSERT_TRUE(h100 && a100 && ada);
  EXPECT_FALSE(FindGpuSpec("Some GPU"));
  Expect({{"qwen3:8b, 100 + 50", ForwardFlops(8e9, 150), 2.4e12},
          {"each token", ForwardFlops(8e9, 1), 16e9},
          {"llama-3.1-8b, 10 + 10", ForwardFlops(8e9, 20), 3.2e11},
          {"H100", Mfu(100e12, 1, 989e12), 0.101112, 1e-5},
          {"two H100", Mfu(100e12, 1, 989e12, 2), 0.050556, 1e-5},
          {"0 s", Mfu(100e12, 0, 989e12), kNotMeasured},
          {"unknown", Mfu(100e12, 1, kNotMeasured), kNotMeasured},
          {"7 B, flops", ForwardFlops(7e9, 100), 1.4e12},
          {"7 B, MFU", Mfu(ForwardFlops(7e9, 100), 1, 312e12), 0.0044872, 1e-5},
          {"7 B, MBU", Mbu(7e9 * 2, 100, 2039e9), 0.68661, 1e-5},
          {"two boards, MFU", Mfu(ForwardFlops(7e9, 100), 1, 312e12, 2), 0.0022436, 1e-5},
          {"two boards, MBU", Mbu(7e9 * 2, 100, 2039e9, 2), 0.343305, 1e-5},
          {"47 B, 13 B active", ForwardFlops(13e9, 50), 1.3e12},
          {"47 B, of 4,700 GB/s", Mbu(47e9 * 2, 50, 4700e9), 1},
          {"half a byte, of 350 GB/s", Mbu(7e9 * 0.5, 100, 350e9), 1},
          {"A100-SXM", a100->PeakFlops(Precision::kFp16), 312e12},
          {"its bandwidth", a100->memory_bandwidth_bytes_per_second, 2039e9},
          {"its TDP", a100->tdp_watts, 400},
          {"H100-SXM", h100->PeakFlops(Precision::kFp16), 990e12, 1e-3},
          {"RTX 4090", ada->PeakFlops(Precision::kFp16), 165e12, 3e-3}});
}

std::string Histogram(const std::string& name, const std::vector<std::pair<std::string, int>>& buckets) {
  std::string page = "# TYPE " + name + " histogram\n";
  for (const auto& [le, count] : buckets)
    page += name + "_bucket{le=\"" + le + "\"} " + std::to_string(count) + "\n";
  return page;
}

TEST(OpenJarvisCases, ReadsThePageOfVllm) {
  const std::string page =
      Histogram("vllm:time_to_first_token_seconds", {{"0.01", 5},
                                                     {"0.025", 15},
                                                     {"0.05", 40},
                                                     {"0.1", 80},
                                                     {"0.25", 95},
                                                     {"0.5", 100},
                                                     {"+Inf", 100}}) +
      Histogram("vllm:e2e_request_latency_seconds",
                {{"0.1", 10}, {"0.5", 50}, {"1.0", 80}, {"2.5", 95}, {"5.0", 100}, {"+Inf", 100}}) +
      "vllm:gpu_cache_usage_perc 0.42\nvllm:num_requests_waiting 3\n";
  const auto reported = ReadVllmPage(page, "text/plain; version=0.0.4");
  ASSERT_TRUE(reported.ok());
  Expect({{"TTFT p50", reported->ttft_p50_seconds, 0.0625},
          {"TTFT p95", reported->ttft_p95_seconds, 0.25},
          {"TTFT p99", reported->ttft_p99_seconds, 0.45},
          {"e2e p50", reported->e2e_p50_seconds, 0.5},
          {"e2e p95", reported->e2e_p95_seconds, 2.5},
          {"cache", reported->cache_usage_ratio, 0.42},
          {"queue", reported->requests_waiting, 3}});
}

TEST(OpenJarvisCases, SteadyState) {
  const auto first = [](const SteadyStateOptions& options, const std::vector<double>& values) {
    SteadyStateDetector detector(options);
    for (size_t i = 0; i < values.size(); ++i)
      if (detector.Record(values[i])) return i + 1;
    return size_t{0};
  };
  const SteadyStateOptions quick{.warmup = 2, .window = 3, .consecutive = 1, .cv_below = 0.05};
  EXPECT_EQ(first(quick, {50, 60, 100, 101, 100}), 5u);
  EXPECT_EQ(first({}, std::vector<double>(20, 7)), 12u);
  EXPECT_EQ(first({.warmup = 3, .window = 3, .consecutive = 2}, std::vector<double>(20, 7)), 7u);
  std::vector<double> restless;
  for (int i = 0; i < 100; ++i) restless.push_back(i % 2 == 0 ? 10 : 1000);
  EXPECT_EQ(first({.warmup = 2, .window = 3, .consecutive = 1, .cv_below = 0.01}, restless), 0u);
  SteadyStateDetector seven({.warmup = 3});
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(seven.Record(i));
  EXPECT_EQ(seven.recorded(), 7u) << "of which 3 warm up and 4 count";
}

// ---- the store
struct OpenJarvisStoreCases : ::testing::Test {
  testing::TempFolder folder;
  std::string path = folder.path() + "/telemetry.db";
  Result<InferenceStore> opened = InferenceStore::Open(path);

  std::vector<InferenceSummary> Of(const std::vector<InferenceRecord>& records, GroupBy by = GroupBy::kAll) {
    for (const InferenceRecord& one : records) opened->Record(one);
    auto reported = opened->Summarize({.by = by});
    EXPECT_TRUE(reported) << reported.error().detail;
    return *std::move(reported);
  }
};

InferenceRecord Call(std::string_view model, int64_t tokens, double joules) {
  InferenceRecord record{.model = model, .batch_id = "b"};
  record.latency_seconds = 1;
  if (tokens >= 0) record.completion_tokens = tokens;
  record.energy_joules = joules;
  return record;
}

TEST_F(OpenJarvisStoreCases, Batches) {
  const auto batch = [&](const std::vector<InferenceRecord>& records) {
    EXPECT_TRUE(opened->Clear());
    return Of(records, GroupBy::kBatch).at(0);
  };
  const InferenceSummary three =
      batch({Call("m", 50, kNotMeasured), Call("m", 30, kNotMeasured), Call("m", 20, kNotMeasured)});
  const InferenceSummary fives = batch({Call("m", 1, 5), Call("m", 1, 5), Call("m", 1, 5)});
  Expect({{"requests", static_cast<double>(three.calls), 3},
          {"tokens", static_cast<double>(three.total_tokens), 100},
          {"1 J and 2 J", batch({Call("m", 1, 1), Call("m", 1, 2)}).energy_joules.sum, 3},
          {"20 J, 200 tokens", batch({Call("m", 200, 20)}).joules_per_token, 0.1},
          {"3 times 5 J", fives.energy_joules.sum, 15},
          {"15 J, 3 requests", fives.energy_joules.mean, 5},
          {"1 J, 100 of 10", batch(std::vector<InferenceRecord>(100, Call("m", 10, 0.01))).joules_per_token,
           0.001}});
}

TEST_F(OpenJarvisStoreCases, Aggregates) {
  InferenceRecord one = Call("m1", 5, 10), two = Call("m2", 10, 30), three = Call("m1", -1, 20);
  one.prompt_tokens = 10, one.cost_usd = 0.001, one.gpu_utilization_ratio = 0.80;
  two.prompt_tokens = 20, two.cost_usd = 0.002, two.gpu_utilization_ratio = 0.60;
  three.gpu_utilization_ratio = 0.90;
  const InferenceSummary all = Of({one, two, three}).at(0);
  const std::vector<InferenceSummary> models = Of({}, GroupBy::kModel);
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0].key + " " + models[1].key, "m1 m2");
  Expect({{"tokens", static_cast<double>(all.total_tokens), 45},
          {"cost", all.cost_usd.sum, 0.003},
          {"GPU", all.gpu_utilization_ratio.mean * 100, 76.67, 1e-4},
          {"energy", all.energy_joules.sum, 60}});
}

// 100, 120 and 80 tokens in a second each; 10, 20 and 30 tokens for a joule each.
TEST_F(OpenJarvisStoreCases, RatiosOfCalls) {
  const InferenceSummary rates =
      Of({Call("m1", 100, kNotMeasured), Call("m1", 120, kNotMeasured), Call("m2", 80, kNotMeasured)}).at(0);
  Expect({{"throughput", rates.output_tokens_per_second, 100},
          {"of calls", rates.call_means.tokens_per_second, 100}});
  EXPECT_TRUE(opened->Clear());
  const InferenceSummary joules = Of({Call("m", 10, 1), Call("m", 20, 1), Call("m", 30, 1)}).at(0);
  Expect({{"tokens for a joule", joules.call_means.tokens_per_joule, 20},
          {"of the sums", 1 / joules.joules_per_output_token, 20}});
}

TEST_F(OpenJarvisStoreCases, DerivesValuesOfTheInstrumentedEngine) {
  const auto of = [&](int64_t tokens, double joules, double watts) {
    EXPECT_TRUE(opened->Clear());
    InferenceRecord call = Call("m", tokens, joules);
    call.power_watts = watts;
    return Of({call}).at(0);
  };
  const InferenceSummary ten = of(50, 10, kNotMeasured), power = of(50, kNotMeasured, 250),
                         none = of(0, 10, kNotMeasured);
  Expect({{"10 J, 50 tokens", ten.joules_per_output_token, 0.2},
          {"250 W", power.output_tokens_per_second_per_watt, power.output_tokens_per_second / 250},
          {"no tokens", none.joules_per_output_token, kNotMeasured}});
}

TEST_F(OpenJarvisStoreCases, TheFile) {
  ASSERT_TRUE(opened->Close().ok());
  auto two = InferenceStore::Open(path, {.flush_interval = std::chrono::hours(1), .flush_records = 2});
  ASSERT_TRUE(two);
  const auto stored = [&] {
    auto read = telemetry::OpenToRead(path);
    return read ? read->Number("SELECT count(*) FROM telemetry").value_or(-1) : -1;
  };
  two->Record(Call("m", 1, 1));
  EXPECT_EQ(stored(), 0) << "one of two waits";
  two->Record(Call("m", 1, 1));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (stored() < 2 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_EQ(stored(), 2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&two] {
      for (int i = 0; i < 32; ++i) two->Record(Call("m", 1, 1));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(two->Close().ok());
  EXPECT_TRUE(two->Close().ok()) << "twice";
  EXPECT_EQ(stored(), 2 + 8 * 32);
  const auto database = telemetry::OpenToWrite(path, nullptr);
  ASSERT_TRUE(database);
  EXPECT_EQ(*database->Number("PRAGMA synchronous"), 1);
  EXPECT_EQ(*database->Number("PRAGMA busy_timeout"), 5000);
  EXPECT_EQ(*database->Number("SELECT count(*) FROM pragma_journal_mode WHERE journal_mode='wal'"), 1);
}

}  // namespace
}  // namespace gpulens

#include "src/compat/vllm_page.h"

#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/files.h"

namespace gpulens {
namespace {

// A histogram's lines with these labels besides `le`.
std::string Histogram(std::string_view name, std::string_view labels,
                      std::vector<std::pair<std::string, int>> buckets) {
  std::string out;
  const std::string more = labels.empty() ? "" : std::string(labels) + ",";
  for (const auto& [bound, count] : buckets)
    out += std::string(name) + "_bucket{" + more + "le=\"" + bound + "\"} " + std::to_string(count) + "\n";
  return out + std::string(name) + "_sum{" + std::string(labels) + "} 1\n";
}

const std::vector<std::pair<std::string, int>> kTtft = {
    {"0.01", 5}, {"0.025", 15}, {"0.05", 40}, {"0.1", 80}, {"0.25", 95}, {"0.5", 100}, {"+Inf", 100}};
const std::vector<std::pair<std::string, int>> kE2e = {{"0.1", 10}, {"0.5", 50},  {"1.0", 80},
                                                       {"2.5", 95}, {"5.0", 100}, {"+Inf", 100}};
constexpr std::string_view kLabels = R"(model_name="llama",engine="0")";

std::string Page(std::string_view labels, bool typed) {
  std::string page;
  if (typed) page += "# TYPE vllm:time_to_first_token_seconds histogram\n";
  page += Histogram("vllm:time_to_first_token_seconds", labels, kTtft);
  if (typed) page += "# TYPE vllm:e2e_request_latency_seconds histogram\n";
  page += Histogram("vllm:e2e_request_latency_seconds", labels, kE2e);
  const std::string braces = labels.empty() ? "" : "{" + std::string(labels) + "}";
  if (typed) page += "# TYPE vllm:num_requests_waiting gauge\n";
  page += "vllm:num_requests_waiting" + braces + " 3\n";
  page += "vllm:gpu_cache_usage_perc" + braces + " 0.42\n";
  return page;
}

void ExpectKnown(const VllmReading& read) {
  EXPECT_NEAR(read.ttft_p50_seconds, 0.0625, 1e-12);
  EXPECT_NEAR(read.ttft_p95_seconds, 0.25, 1e-12);
  EXPECT_NEAR(read.ttft_p99_seconds, 0.45, 1e-12);
  EXPECT_NEAR(read.e2e_p50_seconds, 0.5, 1e-12);
  EXPECT_NEAR(read.e2e_p95_seconds, 2.5, 1e-12);
  EXPECT_EQ(read.cache_usage_ratio, 0.42);
  EXPECT_EQ(read.requests_waiting, 3);
}

TEST(VllmPage, ReadsPagesWithAndWithoutLabelsAndTypes) {
  for (const bool typed : {true, false}) {
    for (const std::string_view labels : {std::string_view(), kLabels}) {
      const auto read = ReadVllmPage(Page(labels, typed), "text/plain; version=0.0.4; charset=utf-8");
      ASSERT_TRUE(read.ok());
      ExpectKnown(*read);
    }
  }
}

TEST(VllmPage, AddsEnginesBeforeTheQuantile) {
  // Half of the requests at 0.01 s, half at 1 s: the median lies where the two meet, not in either.
  const std::string page =
      Histogram("vllm:time_to_first_token_seconds", R"(engine="0")",
                {{"0.01", 50}, {"1", 50}, {"+Inf", 50}}) +
      Histogram("vllm:time_to_first_token_seconds", R"(engine="1")", {{"0.01", 0}, {"1", 50}, {"+Inf", 50}}) +
      "vllm:num_requests_waiting{engine=\"0\"} 2\nvllm:num_requests_waiting{engine=\"1\"} 5\n"
      "vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.75\n";
  const auto read = ReadVllmPage(page, "");
  ASSERT_TRUE(read.ok());
  EXPECT_NEAR(read->ttft_p50_seconds, 0.01, 1e-12);
  EXPECT_NEAR(read->ttft_p95_seconds, 0.01 + 0.99 * 0.9, 1e-12);
  EXPECT_EQ(read->requests_waiting, 7);
  EXPECT_EQ(read->cache_usage_ratio, 0.5);
}

TEST(VllmPage, PrefersTheNewNameOfTheCache) {
  const auto read = ReadVllmPage("vllm:gpu_cache_usage_perc 0.1\nvllm:kv_cache_usage_perc 0.6\n", "");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->cache_usage_ratio, 0.6);
}

TEST(VllmPage, MissingFamiliesAreNotMeasured) {
  const auto read = ReadVllmPage("up 1\nvllm:num_requests_waiting NaN\nvllm:other 3\n", "");
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(std::isnan(read->ttft_p50_seconds) && std::isnan(read->e2e_p95_seconds));
  EXPECT_TRUE(std::isnan(read->cache_usage_ratio) && std::isnan(read->requests_waiting));
}

TEST(VllmPage, HasNoQuantilesBeforeTheFirstRequest) {
  const auto read =
      ReadVllmPage(Histogram("vllm:time_to_first_token_seconds", "", {{"0.01", 0}, {"+Inf", 0}}), "");
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(std::isnan(read->ttft_p50_seconds));
}

TEST(VllmPage, RejectsOtherData) {
  EXPECT_EQ(ReadVllmPage("<html>", "text/html").status().code, Code::kDataLoss);
  EXPECT_EQ(ReadVllmPage("{}", "application/json").status().code, Code::kDataLoss);
  EXPECT_EQ(ReadVllmPage(std::string((64 << 20) + 1, ' '), "").status().code, Code::kExhausted);
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("python/src/compat/testdata/vllm_page_corpus")) {
    const auto bytes = ReadFile(entry.path().string(), 1 << 20);
    ASSERT_TRUE(bytes.ok()) << entry.path();
    const auto read = ReadVllmPage(*bytes, "");
    ASSERT_TRUE(read.ok());
    EXPECT_FALSE(std::isinf(read->ttft_p99_seconds)) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 5);
}

}  // namespace
}  // namespace gpulens

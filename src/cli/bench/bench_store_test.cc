#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cmath>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/testing/temp_folder.h"
#include "cli/bench/bench_store.h"

namespace gpulens {

namespace {

using ::testing::HasSubstr;

LoadPlan PlanFor(const std::string& url) {
  LoadPlan plan;
  plan.url = *ParseHttpUrl(url);
  return plan;
}

TEST(BenchEnergy, DetectsLocalHost) {
  for (const char* host : {"localhost", "127.0.0.1", "127.8.9.1", "::1"})
    EXPECT_TRUE(IsLocalHost(host)) << host;
  for (const char* host : {"gpu7", "10.0.0.1", "localhost.example", ""})
    EXPECT_FALSE(IsLocalHost(host)) << host;
}

TEST(BenchEnergy, UnknownForRemoteServer) {
  BenchMeter meter(PlanFor("http://gpu7:8000/v1"), false);
  LoadSummary summary;
  summary.begin_ns = 1;
  summary.end_ns = 2;
  summary.completion_tokens = 5;
  const BenchEnergy energy = meter.Measure({}, summary);
  EXPECT_FALSE(energy.run.valid());
  EXPECT_TRUE(std::isnan(energy.joules_per_output_token));
  EXPECT_THAT(EnergyText(energy), HasSubstr("unknown (no_device): the server is on another machine"));
  const std::string json = JsonDocumentText("x", [&](JsonObject& root) { AddEnergy(root, energy); });
  const auto document = JsonDocument::Parse(json);
  ASSERT_TRUE(document) << json;
  EXPECT_THAT(json, HasSubstr("\"joules\":null"));
}

TEST(BenchEnergy, JoulesByTokensAndRequests) {
  BenchEnergy energy;
  energy.run.energy_joules = energy.run.device_energy_joules = 1'200;
  energy.run.uncertainty_joules = 4;
  energy.run.duration = std::chrono::seconds(3);
  energy.run.devices = 2;
  energy.run.vendor = EnergyVendor::kNvidia;
  energy.run.method = EnergyMethod::kCounter;
  energy.run.validity = EnergyValidity::kValid;
  energy.run.reason = "3 other processes use the GPUs\x1b";
  energy.joules_per_output_token = 0.512345;
  energy.joules_per_request = 60;
  const std::string text = EnergyText(energy);
  EXPECT_THAT(text, HasSubstr("energy       1200.0 J ± 4.0 J (counter, 3.000 s, 2 GPUs"));
  EXPECT_THAT(text, HasSubstr("by nvidia; 0.512 J/token out, 60 J/request\n"));
  EXPECT_THAT(text, HasSubstr("note         3 other processes use the GPUs\\x1b\n"));
  const std::string json = JsonDocumentText("x", [&](JsonObject& root) { AddEnergy(root, energy); });
  EXPECT_THAT(json, HasSubstr("\"joules_per_output_token\":0.512345"));
  EXPECT_THAT(json, HasSubstr("\"validity\":\"valid\""));
}

struct Kept {
  InferenceRecord record;
  std::string model, engine, batch_id, error_type;
};

struct BenchStoreTest : ::testing::Test {
  testing::TempFolder folder;
  std::string path = folder.path() + "/telemetry.db";
  LoadPlan plan;
  std::unique_ptr<BenchStore> store;

  void SetUp() override {
    plan.model = "llama", plan.warmup = 1;
    auto opened = BenchStore::Open(path, plan, "vllm", nullptr);
    ASSERT_TRUE(opened.ok()) << opened.error().detail;
    store = std::move(*opened);
  }

  // 9 tokens in; the first at 50 ms, each next after 10 ms, the end 2 ms after the last.
  static LoadRequest Answered(uint64_t number, uint64_t chunks) {
    LoadRequest request{.number = number, .due_ns = 1'000'000'000, .sent_ns = 1'001'000'000};
    request.first_ns = 1'050'000'000;
    request.last_ns = request.first_ns + static_cast<int64_t>(chunks - 1) * 10'000'000;
    request.done_ns = request.last_ns + 2'000'000;
    request.chunks = chunks, request.prompt_tokens = 9, request.completion_tokens = chunks;
    return request;
  }
  void End(const LoadRequest& request) const {
    store->OnSent(request);
    if (request.first_ns > 0) store->OnFirstToken(request);
    store->OnEnded(request, std::vector<double>(request.chunks > 0 ? request.chunks - 1 : 0, 0.01));
  }
  std::vector<Kept> Records() const {
    std::vector<Kept> out;
    auto reader = InferenceStore::Open(path, {.read_only = true});
    EXPECT_TRUE(reader.ok());
    const Status read = reader->Each({.warmup = true}, [&](const InferenceRecord& one) {
      out.push_back({one, std::string(one.model), std::string(one.engine), std::string(one.batch_id),
                     std::string(one.error_type)});
      return true;
    });
    EXPECT_TRUE(read.ok()) << read.detail;
    return out;
  }
};

TEST_F(BenchStoreTest, StoresMeasuredRequest) {
  const auto before = std::chrono::system_clock::now();
  End(Answered(0, 6));
  End(Answered(1, 6));
  const BenchStored stored = store->Close();
  EXPECT_TRUE(stored.status.ok()) << stored.status.detail;
  EXPECT_EQ(stored.stored, 1u) << "the warm-up is not measured";
  EXPECT_EQ(stored.lost, 0u);
  EXPECT_THAT(stored.batch_id, ::testing::StartsWith("bench-20"));
  const auto records = Records();
  ASSERT_EQ(records.size(), 1u);
  const InferenceRecord& one = records[0].record;
  EXPECT_EQ(records[0].model, "llama");
  EXPECT_EQ(records[0].engine, "vllm");
  EXPECT_EQ(records[0].batch_id, stored.batch_id);
  EXPECT_EQ(one.outcome, Outcome::kOk);
  EXPECT_TRUE(one.streaming);
  EXPECT_FALSE(one.warmup);
  EXPECT_EQ(one.prompt_tokens, 9);
  EXPECT_EQ(one.completion_tokens, 6);
  EXPECT_EQ(one.total_tokens, 15);
  EXPECT_EQ(one.cached_prompt_tokens, std::nullopt) << "not told";
  EXPECT_NEAR(one.ttft_seconds, 0.05, 1e-9) << "from when it was due";
  EXPECT_NEAR(one.latency_seconds, 0.102, 1e-9);
  EXPECT_EQ(one.itl_seconds.n, 5u);
  EXPECT_NEAR(one.itl_seconds.p50, 0.01, 1e-9);
  EXPECT_TRUE(std::isnan(one.energy_joules)) << "not measured";
  EXPECT_GE(one.time, before - std::chrono::milliseconds(103)) << "when it was due";
  EXPECT_LE(one.time, std::chrono::system_clock::now() - std::chrono::milliseconds(101));
}

// Events that bring several or an unknown number of tokens give no percentiles of times between tokens.
TEST_F(BenchStoreTest, StoresInterTokenTimes) {
  LoadRequest with_end_mark = Answered(1, 6), several = Answered(2, 6), uncounted = Answered(3, 6);
  with_end_mark.completion_tokens = 7;
  several.completion_tokens = 11;
  uncounted.completion_tokens = std::nullopt;
  for (const LoadRequest& request : {with_end_mark, several, uncounted}) End(request);
  EXPECT_EQ(store->Close().stored, 3u);
  const auto records = Records();
  ASSERT_EQ(records.size(), 3u);
  for (const Kept& kept : records) {
    const Distribution& itl = kept.record.itl_seconds;
    if (kept.record.completion_tokens == 7) {
      EXPECT_NEAR(itl.p99, 0.01, 1e-9);
    } else if (kept.record.completion_tokens == 11) {
      EXPECT_NEAR(itl.mean, 0.005, 1e-9);
      EXPECT_EQ(itl.n, 10u);
      EXPECT_TRUE(std::isnan(itl.p50) && std::isnan(itl.max));
    } else {
      EXPECT_EQ(kept.record.completion_tokens, std::nullopt) << "events are no tokens";
      EXPECT_EQ(itl.n, 0u);
    }
  }
}

TEST_F(BenchStoreTest, FailedRequestHasReasonAndNoTimes) {
  LoadRequest failed = Answered(1, 6), cut = Answered(2, 6);
  failed.outcome = LoadRequest::Outcome::kError, failed.error = "no end mark";
  cut.outcome = LoadRequest::Outcome::kCancelled;
  End(failed);
  End(cut);
  EXPECT_EQ(store->Close().stored, 2u);
  auto records = Records();
  ASSERT_EQ(records.size(), 2u);
  if (records[0].record.outcome != Outcome::kError) std::swap(records[0], records[1]);
  EXPECT_EQ(records[0].record.outcome, Outcome::kError);
  EXPECT_EQ(records[0].error_type, "no end mark");
  EXPECT_EQ(records[1].record.outcome, Outcome::kCancelled);
  for (const Kept& kept : records) {
    EXPECT_TRUE(std::isnan(kept.record.latency_seconds) && std::isnan(kept.record.ttft_seconds));
    EXPECT_EQ(kept.record.completion_tokens, std::nullopt);
    EXPECT_EQ(kept.record.itl_seconds.n, 0u);
  }
}

TEST_F(BenchStoreTest, OpenFailsForUnusableStore) {
  const auto folder_itself = BenchStore::Open(folder.path(), plan, "", nullptr);
  EXPECT_FALSE(folder_itself.ok());
  const auto foreign = BenchStore::Open("mysql://x/y", plan, "", nullptr);
  ASSERT_FALSE(foreign.ok());
  EXPECT_EQ(foreign.error().code, Code::kInvalidArgument);
}

}  // namespace

}  // namespace gpulens

#include "cli/top/top_model.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

std::string Series(int id, const std::string& name, const std::string& attributes,
                   const std::string& kind = "gauge", const std::string& source = "nvidia") {
  return R"({"id":)" + std::to_string(id) + R"(,"name":")" + name + R"(","unit":"1","kind":")" + kind +
         R"(","attributes":{)" + attributes + R"(},"source":")" + source + R"(","period_s":1})";
}

const std::string kGpu0 =
    R"("gpu.index":0,"gpu.uuid":"GPU-a","gpu.model":"H100","k8s.namespace.name":"prod","k8s.pod.name":"chat-0")";

NodeNow Page(int64_t at_ms, uint64_t tick, const std::string& values, bool with_series,
             const std::string& stale = "") {
  std::string text = R"({"schema":"gpulens.now/1","node":{"host.name":"n1"},"at":)" + std::to_string(at_ms) +
                     R"(,"tick":)" + std::to_string(tick) +
                     R"(,"interval_s":1,"layout":1,"read":{"nvidia":)" + std::to_string(at_ms) +
                     R"(,"targets/chat":)" + std::to_string(at_ms) + "}";
  if (with_series) {
    text +=
        R"(,"series":[)" + Series(0, "gpu.utilization", kGpu0 + R"(,"gpu.task.type":"compute")") + "," +
        Series(1, "gpu.memory.used", kGpu0) + "," + Series(2, "gpu.state", kGpu0 + R"(,"gpu.state":"ok")") +
        "," + Series(3, "gpu.state", kGpu0 + R"(,"gpu.state":"lost")") + "," +
        Series(4, "gpu.process.memory.used",
               kGpu0 + R"(,"process.pid":42,"process.executable.name":"vllm")") +
        "," +
        Series(5, "inference.tokens.generation",
               R"("target":"chat","inference.engine":"vllm","inference.layer":"engine")", "counter",
               "targets/chat") +
        "," + Series(6, "gpulens.scrape.up", R"("target":"chat")", "gauge", "self") + "," +
        Series(7, "gpu.utilization", kGpu0 + R"(,"gpu.task.type":"encoder")") + "," +
        Series(8, "gpu.memory.used", kGpu0 + R"(,"gpu.mig.instance_id":1)") + "," +
        Series(9, "gpu.efficiency.joules_per_token",
               R"("target":"chat","k8s.namespace.name":"prod","k8s.pod.name":"chat-0")", "gauge", "cost") +
        "]";
  }
  text += R"(,"v":[)" + values + R"(],"stale":[)" + stale + "]}";
  auto now = ParseNodeNow(text);
  EXPECT_TRUE(now) << now.error().detail;
  return now ? *std::move(now) : NodeNow();
}

TEST(TopModel, PutsValuesWhereTheyBelong) {
  TopModel model;
  model.Take(Page(10'000, 1, "0,0.5,1,100,2,1,3,0,4,60,5,1000,6,1,7,0.9,8,5,9,0.4", true));
  const TopNode& node = model.node();
  EXPECT_EQ(node.name, "n1");
  ASSERT_EQ(node.gpus.size(), 1u);
  EXPECT_EQ(node.gpus[0].busy.value, 0.5) << "of compute, not of the encoder";
  EXPECT_EQ(node.gpus[0].memory_used.value, 100) << "without the slice's";
  EXPECT_EQ(node.gpus[0].driver_state, "ok");
  EXPECT_EQ(node.gpus[0].runs, "prod/chat-0");
  ASSERT_EQ(node.gpus[0].processes.size(), 1u);
  EXPECT_EQ(node.gpus[0].processes[0].name, "vllm");
  EXPECT_EQ(node.gpus[0].processes[0].memory.value, 60);
  ASSERT_EQ(node.engines.size(), 1u);
  EXPECT_FALSE(node.engines[0].tokens.known()) << "a rate needs two readings";
  EXPECT_EQ(node.engines[0].state, "up");
  EXPECT_EQ(node.engines[0].joules_per_token.value, 0.4);
  EXPECT_EQ(node.gpus[0].joules_per_token.value, 0.4) << "of the engine in the GPU's pod";
  ASSERT_EQ(node.jobs.size(), 1u);
  EXPECT_EQ(node.jobs[0].gpus, (std::vector<std::string>{"0"}));
}

TEST(TopModel, RatesNeedTwoReadingsAndSurviveResets) {
  TopModel model;
  model.Take(Page(10'000, 1, "5,1000,6,1", true));
  model.Take(Page(12'000, 2, "5,1500,6,1", false));
  EXPECT_EQ(model.node().engines[0].tokens.value, 250);
  model.Take(Page(13'000, 3, "5,20,6,1", false));
  EXPECT_FALSE(model.node().engines[0].tokens.known()) << "the engine began again";
  model.Take(Page(14'000, 4, "5,120,6,1", false));
  EXPECT_EQ(model.node().engines[0].tokens.value, 100);
}

TEST(TopModel, AGpuThatIsLostHasNoValues) {
  TopModel model;
  model.Take(Page(10'000, 1, "0,0.5,1,100,2,1,3,0", true));
  model.Take(Page(11'000, 2, "0,0.5,2,1,3,0", false, "0,3000"));
  EXPECT_EQ(model.node().gpus[0].busy.stale_ms, 3000);
  EXPECT_TRUE(std::isnan(model.node().gpus[0].busy_trend.back())) << "nothing was read";
  model.Take(Page(12'000, 3, "2,0,3,1", false));
  const TopGpu& gpu = model.node().gpus[0];
  EXPECT_FALSE(gpu.busy.known());
  EXPECT_FALSE(gpu.memory_used.known());
  EXPECT_EQ(gpu.level, TopLevel::kAct);
  EXPECT_EQ(gpu.trouble, "lost");
}

TEST(TopModel, AValueThatIsOldHasItsAgeNow) {
  TopModel model;
  model.Take(Page(10'000, 1, "0,0.5,1,100,2,1,3,0", true));
  EXPECT_EQ(model.node().gpus[0].level, TopLevel::kGood);
  // The source hangs: its last reading is that of before.
  NodeNow now = Page(70'000, 2, "0,0.5,1,100,2,1,3,0", false, "0,1,1,1,2,1,3,1");
  for (auto& [source, at] : now.read) at = 10'000;
  model.Take(now);
  const TopGpu& gpu = model.node().gpus[0];
  EXPECT_EQ(gpu.busy.stale_ms, 60'001);
  EXPECT_EQ(gpu.level, TopLevel::kLook) << "the state ok is old, too";
  EXPECT_EQ(gpu.trouble, "no new reading");
  // One of several sources is late.
  model.Take(Page(71'000, 3, "0,0.5,1,100,2,1,3,0", false, "0,1"));
  EXPECT_EQ(model.node().gpus[0].level, TopLevel::kGood);
}

TEST(TopModel, AnEngineThatIsDownIsCounted) {
  TopModel model;
  model.Take(Page(10'000, 1, "6,1", true));
  model.Take(Page(20'000, 2, "6,0", false));
  model.Take(Page(60'000, 3, "6,0", false));
  EXPECT_EQ(model.node().engines[0].state, "down 40 s");
  EXPECT_EQ(model.node().engines[0].level, TopLevel::kLook);
}

TEST(TopModel, TrendsContinueTheHistory) {
  TopModel model;
  model.Take(Page(10'000, 1, "0,0.5", true));
  const auto history = ParseNodeHistory(
      R"({"schema":"gpulens.history/1","from":0,"to":10000,"series":[{"id":0,"name":"gpu.utilization","kind":"gauge",)"
      R"("attributes":{"gpu.uuid":"GPU-a","gpu.task.type":"compute"},"at":[7000,8000,9000],"value":[0.2,null,0.4]}]})");
  ASSERT_TRUE(history) << history.error().detail;
  model.TakeTrends(*history);
  const std::vector<double>& trend = model.node().gpus[0].busy_trend;
  ASSERT_EQ(trend.size(), TopModel::kTrend);
  EXPECT_EQ(trend[TopModel::kTrend - 1], 0.5);
  EXPECT_EQ(trend[TopModel::kTrend - 2], 0.4);
  EXPECT_TRUE(std::isnan(trend[TopModel::kTrend - 3])) << "a gap stays one";
  EXPECT_EQ(trend[TopModel::kTrend - 4], 0.2);
  EXPECT_TRUE(std::isnan(trend[TopModel::kTrend - 5]));
}

TEST(TopModel, AnEventNamesItsGpuOnce) {
  TopModel model;
  NodeEvent event;
  event.at_ms = 1000;
  event.name = "gpu.lost";
  event.severity = "error";
  event.body = "GPU 5 (GPU-a) no longer answers";
  event.attributes = AttributeSet({{"gpu.index", int64_t{5}}, {"gpu.uuid", "GPU-a"}});
  model.Take(std::vector<NodeEvent>{event});
  ASSERT_EQ(model.node().events.size(), 1u);
  EXPECT_EQ(model.node().events[0].text, "GPU 5 no longer answers");
  EXPECT_EQ(model.node().events[0].gpu, "5");
  EXPECT_EQ(model.node().events[0].level, TopLevel::kAct);
}

TEST(TopModel, TheSameTickCountsOnce) {
  TopModel model;
  model.Take(Page(10'000, 1, "0,0.5", true));
  model.Take(Page(10'000, 1, "0,0.5", false));
  EXPECT_EQ(model.node().gpus[0].busy_trend.size(), 1u);
}

TEST(TopModel, AnAgentThatWasStartedAgainBeginsAgain) {
  TopModel model;
  model.Take(Page(10'000, 7, "0,0.5,5,1000", true));
  model.Take(Page(12'000, 8, "0,0.5,5,1100", false));
  EXPECT_EQ(model.node().engines[0].tokens.value, 50);
  model.Take(Page(20'000, 1, "0,0.5,5,5000", true));
  EXPECT_FALSE(model.node().engines[0].tokens.known()) << "the number is that of another series";
  EXPECT_EQ(model.node().gpus[0].busy_trend.size(), 1u);
}

TEST(TopModel, ANodeThatIsAwayKeepsWhatItHad) {
  TopModel model;
  model.Take(Page(10'000, 1, "0,0.5", true));
  model.TakeFailure({Code::kUnavailable, "connection refused"}, 11'000);
  model.TakeFailure({Code::kUnavailable, "connection refused"}, 12'000);
  EXPECT_EQ(model.node().away_since_ms, 11'000) << "since the first failure";
  EXPECT_EQ(model.node().gpus.size(), 1u);
  model.Take(Page(13'000, 5, "0,0.5", false));
  EXPECT_EQ(model.node().away_since_ms, 0);
}

TEST(TopModel, AnotherAgentAfterAFailureHasItsOwnRates) {
  TopModel model;
  model.Take(Page(10'000, 1, "5,1000,6,1", true));
  model.Take(Page(11'000, 2, "5,1100,6,1", false));
  EXPECT_EQ(model.node().engines[0].tokens.value, 100);
  model.TakeFailure({Code::kUnavailable, "connection refused"}, 12'000);
  model.Take(Page(20'000, 9, "5,900000,6,1", true));
  EXPECT_FALSE(model.node().engines[0].tokens.known()) << "the number may be that of another series";
}

}  // namespace
}  // namespace gpulens

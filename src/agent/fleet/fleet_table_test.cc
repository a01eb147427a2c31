#include "agent/fleet/fleet_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "agent/fleet/fleet_request_testing.h"

namespace gpulens {
namespace {

using namespace std::chrono_literals;
using fleet_testing::Gpu;
using fleet_testing::Host;
using fleet_testing::Request;
using G = FleetGpuValue;
using E = FleetEngineValue;

class FleetTableTest : public ::testing::Test {
 protected:
  FleetTableTest() { table_.Configure({.nodes = 4}); }

  int64_t Now() const { return clock_.Now().unix_ns / 1'000'000; }
  void Send(Request& request) { table_.Observe(OtlpSignal::kMetrics, request.Take()); }
  void SendPower(const AttributeSet& resource, double watts = 500) {
    Request request(resource);
    Send(request.Add("gpu.power.draw", Gpu(0), watts, Now()));
  }
  size_t Count() {
    size_t count = 0;
    table_.Read([&](const auto& nodes, const auto&, int64_t) { count = nodes.size(); });
    return count;
  }
  uint64_t Refused() {
    uint64_t refused = 0;
    table_.Read([&](const auto&, const FleetTable::Totals& totals, int64_t) { refused = totals.refused; });
    return refused;
  }
  // A copy of the first node of this name and cluster; without a name when there is none.
  FleetNode Node(std::string_view name, std::string_view cluster = {}) {
    FleetNode found;
    table_.Read([&](const auto& nodes, const auto&, int64_t) {
      for (const FleetNode& node : nodes)
        if (node.name() == name && node.cluster == cluster) found = node;
    });
    return found;
  }

  ManualClock clock_;
  FleetTable table_{clock_};
};

TEST_F(FleetTableTest, KeepsTheLatestValuesOfBothWays) {
  Request otlp(AttributeSet({{"host.name", "n1"}, {"k8s.cluster.name", "c1"}, {"rack", "r7"}}));
  const AttributeSet owned = Gpu(3, {{"k8s.pod.name", "p"}, {"k8s.namespace.name", "ns"}});
  otlp.Add("gpu.power.draw", owned, 512.5, Now())
      .Add("gpu.utilization", Gpu(3, {{"gpu.task.type", "compute"}}), 0.75, Now())
      .Add("gpu.utilization", Gpu(3, {{"gpu.task.type", "encoder"}}), 0.1, Now())
      .Add("gpu.temperature", Gpu(3, {{"gpu.temperature.sensor", "edge"}}), 61, Now())
      .Add("gpu.temperature", Gpu(3, {{"gpu.temperature.sensor", "hotspot"}}), 74, Now())
      .Add("gpu.temperature", Gpu(3, {{"gpu.temperature.sensor", "memory"}}), 90, Now())
      .Add("gpu.state", owned.OverlaidOn(AttributeSet({{"gpu.state", "ok"}})), 1, Now())
      .Add("gpu.info", Gpu(3, {{"gpu.model", "H100"}}), 1, Now())
      .Add("gpulens.build.info", AttributeSet({{"version", "0.1.0"}}), 1, Now())
      .Add("gpulens.simulated", {}, 1, Now());
  Send(otlp);
  FleetNode node = Node("n1", "c1");
  ASSERT_EQ(node.gpus.size(), 1u);
  const FleetGpu& gpu = node.gpus[0];
  EXPECT_EQ(gpu.index, 3);
  EXPECT_EQ(gpu[G::kPower].value, 512.5);
  EXPECT_EQ(gpu[G::kBusy].value, 0.75);
  EXPECT_EQ(gpu[G::kTemperature].value, 74) << "the hottest place of the die";
  EXPECT_TRUE(std::isnan(gpu[G::kMemoryUsed].value)) << "what is not sent is unknown";
  EXPECT_EQ(gpu.model + " " + gpu.owner + " " + gpu.state, "H100 ns/p ok");
  EXPECT_EQ(node.rack + " " + node.version, "r7 0.1.0");
  EXPECT_TRUE(node.simulated);
  EXPECT_EQ(gpu.busy[static_cast<size_t>(node.step) % kFleetSteps], 75);

  // By remote write labels have underscores, and rack and cluster are labels.
  clock_.Advance(15s);
  Request relayed(AttributeSet({{"service.instance.id", "n1"}, {"service.name", "gpulens"}}));
  Send(relayed.Add("gpu_power_draw_watts",
                   AttributeSet({{"gpu_index", "3"}, {"gpu_uuid", "GPU-3"}, {"k8s_cluster_name", "c1"}}), 400,
                   Now()));
  node = Node("n1", "c1");
  ASSERT_EQ(node.gpus.size(), 1u) << "the same node, and the same GPU";
  EXPECT_EQ(node.gpus[0][G::kPower].value, 400);
  EXPECT_EQ(node.interval_ms, 15'000);
  EXPECT_EQ(Count(), 1u);
}

TEST_F(FleetTableTest, NodesOfOneNameAreDistinguished) {
  SendPower(AttributeSet({{"host.name", "n1"}, {"k8s.cluster.name", "a"}}), 100);
  SendPower(AttributeSet({{"host.name", "n1"}, {"k8s.cluster.name", "b"}}), 200);
  SendPower(AttributeSet({{"host.name", "n1"}, {"k8s.cluster.name", "b"}, {"service.instance.id", "x"}}),
            300);
  EXPECT_EQ(Count(), 3u);
  EXPECT_EQ(Node("n1", "a").gpus.at(0)[G::kPower].value, 100);
}

TEST_F(FleetTableTest, TwoMachinesThatSendAsOneAreNoticed) {
  for (int i = 0; i < 6; ++i) {
    const std::string uuid = "GPU-" + std::to_string(i % 2);
    Request request(Host("n1"));
    Send(request.Add("gpu.power.draw",
                     AttributeSet({{"gpu.index", int64_t{0}}, {"gpu.uuid", std::string_view(uuid)}}), 1,
                     Now()));
  }
  EXPECT_EQ(Node("n1").replaced, 5u);
  EXPECT_EQ(Node("n1").gpus.size(), 1u);
}

TEST_F(FleetTableTest, OlderSamplesAndEndsOfOldSeriesChangeNothing) {
  const int64_t now = Now();
  Request first(Host("n1"));
  Send(first.Add("gpu.power.draw", Gpu(0, {{"k8s.pod.name", "b"}}), 300, now)
           .Add("gpu.power.draw", Gpu(0, {{"k8s.pod.name", "a"}}), {}, now)
           .Add("gpu.power.draw", Gpu(0), 100, now - 60'000));
  EXPECT_EQ(Node("n1").gpus.at(0)[G::kPower].value, 300);
  Request second(Host("n1"));
  Send(second.Add("gpu.power.draw", Gpu(0), {}, now + 1000));
  EXPECT_TRUE(std::isnan(Node("n1").gpus.at(0)[G::kPower].value)) << "its series has ended";
}

TEST_F(FleetTableTest, AStateIsTheLatestThatHolds) {
  const auto state = [](std::string_view word) { return Gpu(0, {{"gpu.state", word}}); };
  Request first(Host("n1"));
  Send(first.Add("gpu.state", state("ok"), 1, Now()).Add("gpu.state", state("lost"), 0, Now()));
  EXPECT_EQ(Node("n1").gpus.at(0).state, "ok");
  clock_.Advance(15s);
  Request second(Host("n1"));
  Send(second.Add("gpu.state", state("lost"), 1, Now()).Add("gpu.state", state("ok"), 0, Now()));
  EXPECT_EQ(Node("n1").gpus.at(0).state, "lost");
  clock_.Advance(15s);
  Request third(Host("n1"));
  Send(third.Add("gpu.state", state("lost"), {}, Now()));
  EXPECT_EQ(Node("n1").gpus.at(0).state, "");
}

TEST_F(FleetTableTest, XidsAreNewOnlyWhenTheirCountRises) {
  for (double count : {7.0, 7.0, 8.0, 0.0}) {
    Request request(Host("n1"));
    Send(request.Add("gpu.xid.errors", Gpu(0), count, Now()));
    EXPECT_EQ(Node("n1").gpus.at(0).xid_rise_ms, count == 8 || count == 0 ? 1'700'000'000'000 + 30'000 : 0)
        << count;
    clock_.Advance(15s);
  }
}

TEST_F(FleetTableTest, EnginesHaveTheMeanOfTheirFirstTokens) {
  const AttributeSet engine({{"target", "chat"}, {"model.name", "llama"}, {"inference.engine", "vllm"}});
  const AttributeSet labels({{"target", "chat"}, {"model_name", "llama"}, {"inference_engine", "vllm"}});
  Request first(Host("n1"));
  Send(first.AddHistogram("inference.time_to_first_token", engine, 100, 50, Now())
           .Add("inference.requests.running", engine, 12, Now()));
  EXPECT_TRUE(std::isnan(Node("n1").engines.at(0)[E::kFirstToken].value)) << "of one sample nothing is known";
  clock_.Advance(15s);
  Request second(Host("n1"));
  Send(second.AddHistogram("inference.time_to_first_token", engine, 104, 60, Now()));
  EXPECT_NEAR(Node("n1").engines.at(0)[E::kFirstToken].value, 0.4, 1e-9);
  clock_.Advance(15s);
  Request third(Host("n1"));
  Send(third.Add("inference_time_to_first_token_seconds_count", labels, 62, Now())
           .Add("inference_time_to_first_token_seconds_sum", labels, 106, Now()));
  ASSERT_EQ(Node("n1").engines.size(), 1u);
  EXPECT_NEAR(Node("n1").engines.at(0)[E::kFirstToken].value, 1, 1e-9);
  clock_.Advance(15s);
  Request restarted(Host("n1"));
  Send(restarted.AddHistogram("inference.time_to_first_token", engine, 3, 2, Now()));
  EXPECT_NEAR(Node("n1").engines.at(0)[E::kFirstToken].value, 1, 1e-9) << "a reset says nothing";
}

TEST_F(FleetTableTest, BeyondTheLimitOnlyANodeThatIsAwayLeavesItsPlace) {
  for (const char* name : {"n1", "n2", "n3", "n4", "n5"}) SendPower(Host(name));
  EXPECT_EQ(Count(), 4u);
  EXPECT_EQ(Refused(), 1u);
  clock_.Advance(60s);
  for (const char* name : {"n2", "n3", "n4"}) SendPower(Host(name));
  clock_.Advance(90s);
  SendPower(Host("n5"));
  EXPECT_EQ(Count(), 4u);
  EXPECT_EQ(Node("n1").name(), "") << "away for 150 s, it left";
  EXPECT_EQ(Node("n5").name(), "n5");
  clock_.Advance(2h);
  SendPower(Host("n6"));
  EXPECT_EQ(Count(), 1u) << "the others are forgotten";
  table_.Configure({.nodes = 0});
  SendPower(Host("n6"));
  EXPECT_EQ(Count(), 0u);
}

TEST_F(FleetTableTest, GpusAndEnginesOfANodeAreBounded) {
  Request request(Host("n1"));
  for (int64_t i = 0; i < 100; ++i) {
    const std::string target = "t" + std::to_string(i);
    request.Add("gpu.power.draw", Gpu(99 - i), 1, Now())
        .Add("inference.requests.running", AttributeSet({{"target", std::string_view(target)}}), 1, Now());
  }
  Send(request);
  FleetNode node = Node("n1");
  EXPECT_EQ(node.gpus.size(), FleetTable::kMostGpus);
  EXPECT_EQ(node.engines.size(), FleetTable::kMostEngines);
  EXPECT_EQ(node.refused, 200u - FleetTable::kMostGpus - FleetTable::kMostEngines);
  EXPECT_TRUE(std::ranges::is_sorted(node.gpus, {}, &FleetGpu::index));
  // An engine that is gone leaves its place.
  clock_.Advance(120s);
  Request later(Host("n1"));
  Send(later.Add("inference.requests.running", AttributeSet({{"target", "new"}}), 5, Now()));
  node = Node("n1");
  EXPECT_EQ(std::ranges::count(node.engines, "new", &FleetEngine::target), 1);
}

TEST_F(FleetTableTest, LongTextsAreCutBetweenCharacters) {
  std::string name(FleetTable::kMostText - 1, 'x');
  name += "\xc3\xa9\xc3\xa9";
  SendPower(Host(name));
  EXPECT_EQ(Node(std::string(FleetTable::kMostText - 1, 'x')).gpus.size(), 1u);
}

TEST_F(FleetTableTest, TheHistoryHasGapsAndMovesOn) {
  SendPower(Host("n1"), 100);
  clock_.Advance(4 * std::chrono::milliseconds(kFleetStepMs));
  SendPower(Host("n1"), 200);
  FleetNode node = Node("n1");
  const auto at = [&](int64_t back) {
    return node.gpus.at(0).power[static_cast<size_t>(node.step - back) % kFleetSteps];
  };
  EXPECT_EQ(at(0), 200);
  EXPECT_EQ(at(1), FleetGpu::kNoPower);
  EXPECT_EQ(at(4), 100);
  clock_.Advance(10h);
  SendPower(Host("n1"), 300);
  node = Node("n1");
  EXPECT_EQ(at(0), 300);
  EXPECT_EQ(at(4), FleetGpu::kNoPower);
}

TEST_F(FleetTableTest, AClockThatIsAheadDoesNotHideLaterValues) {
  Request request(Host("n1"));
  Send(request.Add("gpu.power.draw", Gpu(0), 1, Now() + 3'600'000));
  EXPECT_EQ(Node("n1").ahead_ms, 3'600'000);
  EXPECT_EQ(Node("n1").newest_ms, Now());
  clock_.Advance(15s);
  SendPower(Host("n1"), 2);
  EXPECT_EQ(Node("n1").gpus.at(0)[G::kPower].value, 2);
  EXPECT_EQ(Node("n1").ahead_ms, 0);
}

TEST_F(FleetTableTest, AClockThatIsSetBackDoesNotHideLaterValues) {
  SendPower(Host("n1"), 1);
  SendPower(Host("n2"), 1);
  clock_.Advance(-1h);
  SendPower(Host("n1"), 2);
  EXPECT_EQ(Node("n1").gpus.at(0)[G::kPower].value, 2);
  EXPECT_EQ(Node("n1").seen_ms, Now());
  EXPECT_EQ(Count(), 1u) << "of n2 nothing has come since then";
}

TEST_F(FleetTableTest, OtherProgramsMakeNoNodes) {
  Request request(AttributeSet({{"host.name", "n1"}, {"service.name", "app"}}));
  Send(request.Add("http.server.requests", {}, 5, Now())
           .Add("target.info", {}, 1, Now())
           .Add("gpu.power.draw", AttributeSet({{"k8s.pod.name", "rolled-up"}}), 5, Now())
           .Add("gpu.memory.used", Gpu(0, {{"gpu.mig.instance_id", int64_t{1}}}), 5, Now()));
  EXPECT_EQ(Node("n1").gpus.size(), 0u);
  table_.Observe(OtlpSignal::kLogs, "\x0a\x01");
  table_.Observe(OtlpSignal::kMetrics, "\xff\xff");
}

}  // namespace
}  // namespace gpulens

#include "ingest/received_identity.h"

#include <gtest/gtest.h>

#include "catalog/gpu.h"
#include "core/frame_writer.h"
#include "core/series_table.h"

namespace gpulens {
namespace {

// Knows one pod by its UID, its container, its address and its GPU.
class OnePod {
 public:
  uint64_t generation() const noexcept { return generation_; }
  AttributeSet Describe(const Entity& entity) const {
    ++queries;
    const AttributeSet& by = entity.attributes;
    const bool known = (entity.type == "k8s.pod" &&
                        (by.Text("k8s.pod.uid") == "uid-1" || by.Text("k8s.pod.ip") == "10.0.0.7")) ||
                       (entity.type == "container" && by.Text("container.id") == "abc") ||
                       (entity.type == "gpu" && by.Text("gpu.uuid") == "GPU-3");
    if (!known) return {};
    return AttributeSet({{"k8s.pod.name", std::string_view(pod)}, {"k8s.namespace.name", "research"}});
  }
  void Rename(std::string name) {
    pod = std::move(name);
    ++generation_;
  }
  std::string pod = "trainer-0";
  mutable int queries = 0;

 private:
  uint64_t generation_ = 1;
};

class ReceivedIdentityTest : public ::testing::Test {
 protected:
  ReceivedIdentityTest() {
    // GPU 3 as a collector declares it: its pod is known by the UUID, not by the index.
    SeriesTable table;
    FrameWriter writer(table, std::chrono::seconds(10), "nvidia");
    const EntityRef gpu =
        MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", int64_t{3}}, {"gpu.uuid", "GPU-3"}}));
    const Series power = table.Declare(kGpuPowerDraw, gpu);
    writer.Begin(clock_.Now());
    writer.Set(power, 100);
    Ref<Snapshot> snapshot = MakeRef<Snapshot>();
    snapshot->frames.push_back({writer.Finish(), "nvidia"});
    hub_.Put(snapshot);
    identity_.Begin(*ParseListenAddress("127.0.0.1:5"));
  }
  static std::string Pod(const OtlpAddition* addition) {
    for (size_t i = 0; addition && i < addition->size(); ++i) {
      if (addition->key(i) != "k8s.pod.name") continue;
      const std::string_view field = addition->field(i);
      for (std::string_view name : {"trainer-0", "trainer-1"})
        if (field.find(name) != std::string_view::npos) return std::string(name);
    }
    return "";
  }

  ManualClock clock_;
  OnePod pods_;
  LatestSnapshot hub_;
  IdentityTable table_{{[this](const Entity& entity) { return pods_.Describe(entity); },
                        [this] { return pods_.generation(); }},
                       &hub_};
  ReceivedIdentity identity_{
      {AttributeSet({{"k8s.cluster.name", "c1"}}), "here", "machine-1"}, table_, clock_};
};

TEST_F(ReceivedIdentityTest, PodUidThenContainerThenPeer) {
  EXPECT_EQ(Pod(identity_.OfResource({.pod_uid = "uid-1"})), "trainer-0");
  EXPECT_EQ(Pod(identity_.OfResource({.pod_uid = "uid-2"})), "");
  EXPECT_EQ(Pod(identity_.OfResource({.container_id = "abc"})), "trainer-0");
  EXPECT_EQ(Pod(identity_.OfResource({})), "");
  identity_.Begin(*ParseListenAddress("10.0.0.7:4000"));
  EXPECT_EQ(Pod(identity_.OfResource({})), "trainer-0");
  EXPECT_EQ(Pod(identity_.OfResource({.pod_uid = "uid-2"})), "") << "it says that it is another pod";
  EXPECT_EQ(Pod(identity_.OfResource({.host_name = "elsewhere"})), "") << "it passes on another host's data";
  EXPECT_EQ(Pod(identity_.OfResource({.host_name = "trainer-0"})), "trainer-0")
      << "in a pod that is the host's name";
}

TEST_F(ReceivedIdentityTest, GpusByUuidEverywhereByIndexOnlyOnThisHost) {
  EXPECT_EQ(Pod(identity_.OfItem({}, {.gpu_index = 3})), "trainer-0");
  EXPECT_EQ(Pod(identity_.OfItem({}, {.gpu_index = 2})), "");
  EXPECT_EQ(Pod(identity_.OfItem({}, {.gpu_uuid = "GPU-3"})), "trainer-0");
  EXPECT_EQ(Pod(identity_.OfItem({.host_name = "here"}, {.gpu_index = 3})), "trainer-0");
  EXPECT_EQ(Pod(identity_.OfItem({.host_id = "machine-1"}, {.gpu_index = 3})), "trainer-0");
  EXPECT_EQ(Pod(identity_.OfItem({.k8s_node_name = "here"}, {.gpu_index = 3})), "trainer-0");
  EXPECT_EQ(Pod(identity_.OfItem({.host_name = "elsewhere"}, {.gpu_index = 3})), "");
  EXPECT_EQ(Pod(identity_.OfItem({.host_name = "here", .host_id = "machine-2"}, {.gpu_index = 3})), "");
  EXPECT_EQ(Pod(identity_.OfItem({.k8s_node_name = "node-9"}, {.gpu_index = 3})), "");
  EXPECT_EQ(Pod(identity_.OfItem({.host_name = "elsewhere"}, {.gpu_uuid = "GPU-3"})), "trainer-0");
  // Another machine without a name.
  identity_.Begin(*ParseListenAddress("10.9.9.9:4000"));
  EXPECT_EQ(Pod(identity_.OfItem({}, {.gpu_index = 3})), "");
}

// A Prometheus on this machine sends data of all machines.
TEST_F(ReceivedIdentityTest, RelayedDataIsOfThisHostOnlyIfMarked) {
  identity_.Begin(*ParseListenAddress("127.0.0.1:5"), true);
  EXPECT_EQ(Pod(identity_.OfItem({}, {.gpu_index = 3})), "");
  EXPECT_EQ(Pod(identity_.OfItem({.host_name = "here"}, {.gpu_index = 3})), "trainer-0");
  EXPECT_EQ(Pod(identity_.OfItem({}, {.gpu_uuid = "GPU-3"})), "trainer-0");
  EXPECT_EQ(Pod(identity_.OfResource({.pod_uid = "uid-1"})), "trainer-0");
  identity_.Begin(*ParseListenAddress("10.0.0.7:4000"), true);
  EXPECT_EQ(Pod(identity_.OfResource({})), "") << "the pod of the sender";
  identity_.Begin(*ParseListenAddress("127.0.0.1:5"));
  EXPECT_EQ(Pod(identity_.OfItem({}, {.gpu_index = 3})), "trainer-0");
}

TEST_F(ReceivedIdentityTest, StatedAttributesAreAddedToResourcesOnly) {
  const OtlpAddition* elsewhere = identity_.OfResource({.host_name = "elsewhere"});
  ASSERT_EQ(elsewhere->size(), 1u);
  EXPECT_EQ(elsewhere->key(0), "k8s.cluster.name");
  EXPECT_EQ(identity_.OfItem({}, {.gpu_index = 7})->size(), 0u);
}

TEST_F(ReceivedIdentityTest, TheMarkIsAResourceAttributeAndReplacesTheSenders) {
  IdentityTable empty({}, nullptr);
  ReceivedIdentity identity({{}, "here", "", AttributeSet({{"gpulens.receiver", "otlp"}})}, empty, clock_);
  identity.Begin({});
  const OtlpAddition* of_resource = identity.OfResource({});
  ASSERT_EQ(of_resource->size(), 1u);
  EXPECT_EQ(of_resource->key(0), "gpulens.receiver");
  EXPECT_TRUE(of_resource->replaces(0));
  EXPECT_TRUE(identity.OfItem({}, {})->empty());
}

TEST_F(ReceivedIdentityTest, AnswersAreKeptUntilTheyMayHaveChanged) {
  identity_.OfResource({.pod_uid = "uid-1"});
  const int queries = pods_.queries;
  identity_.Begin(*ParseListenAddress("127.0.0.1:5"));
  identity_.OfResource({.pod_uid = "uid-1"});
  EXPECT_EQ(pods_.queries, queries);
  pods_.Rename("trainer-1");
  identity_.Begin(*ParseListenAddress("127.0.0.1:5"));
  EXPECT_EQ(Pod(identity_.OfResource({.pod_uid = "uid-1"})), "trainer-1");
  const int again = pods_.queries;
  clock_.Advance(std::chrono::seconds(1));
  identity_.Begin(*ParseListenAddress("127.0.0.1:5"));
  identity_.OfResource({.pod_uid = "uid-1"});
  EXPECT_GT(pods_.queries, again);
}

TEST_F(ReceivedIdentityTest, WithoutASourceNoPodIsKnown) {
  const IdentityTable empty({}, nullptr);
  ReceivedIdentity identity({{}, "here", ""}, empty, clock_);
  identity.Begin(*ParseListenAddress("127.0.0.1:5"));
  EXPECT_TRUE(identity.OfResource({.pod_uid = "uid-1"})->empty());
  EXPECT_TRUE(identity.OfItem({}, {.gpu_index = 3})->empty());
}

}  // namespace
}  // namespace gpulens

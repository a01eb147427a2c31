#include "sources/kubelet/parse/api_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sources/kubelet/parse/container_id_testing.h"

#include <filesystem>

#include "base/files.h"
#include "base/rfc3339.h"
#include "sources/kubelet/parse/node_files.h"

namespace gpulens::kubelet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Rfc3339, ReadsTimesOfKubernetes) {
  EXPECT_EQ(ParseRfc3339("1970-01-01T00:00:01Z"), 1'000'000'000);
  EXPECT_EQ(ParseRfc3339("2026-06-26T10:14:31.5Z"), 1782468871'500'000'000);
  EXPECT_EQ(ParseRfc3339("2026-06-26T12:14:31+02:00"), 1782468871'000'000'000);
  for (std::string_view bad :
       {"", "2026-06-26", "2026-06-26T10:14:31", "2026-13-26T10:14:31Z", "2026-06-31T10:14:31Z",
        "1969-01-01T00:00:00Z", "9999-01-01T00:00:00Z", "2026-06-26T10:14:31.Z", "2026-06-26T25:14:31Z",
        "2026-06-26T10:14:31+2:00", "2026-06-26T10:14:31Zz"})
    EXPECT_EQ(ParseRfc3339(bad), std::nullopt) << bad;
}

TEST(ApiObjects, ReadsPods) {
  auto list =
      ParsePodList(R"({"kind":"PodList","metadata":{"resourceVersion":"42","continue":"more"},"items":[
    {"metadata":{"name":"serve-6cd8-x","namespace":"ml","uid":"u1","resourceVersion":"7",
      "creationTimestamp":"2026-06-26T10:12:51Z","labels":{"app":"serve","pod-template-hash":"6cd8"},
      "ownerReferences":[{"kind":"Other","name":"o"},{"kind":"ReplicaSet","name":"serve-6cd8","controller":true}]},
     "spec":{"nodeName":"n1","containers":[{"name":"main"}]},
     "status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"},
        {"type":"PodScheduled","status":"True","lastTransitionTime":"2026-06-26T10:12:53Z"}],
       "containerStatuses":[{"name":"main","restartCount":3,"ready":true,"containerID":"containerd://)" +
                   ContainerId('a') + R"("}]}},
    {"metadata":{"name":"nameless"}}]})");
  ASSERT_TRUE(list.ok()) << list.error().detail;
  EXPECT_EQ(list->resource_version, "42");
  EXPECT_EQ(list->next, "more");
  ASSERT_EQ(list->pods.size(), 1u);
  const Pod& pod = list->pods[0];
  EXPECT_EQ(pod.name_space + "/" + pod.name + "/" + pod.uid + "@" + pod.node, "ml/serve-6cd8-x/u1@n1");
  EXPECT_EQ(pod.deployment(), "serve");
  EXPECT_EQ(pod.phase, "Running");
  EXPECT_EQ(pod.scheduled_unix_ns - pod.created_unix_ns, 2'000'000'000);
  ASSERT_EQ(pod.containers.size(), 1u);
  EXPECT_EQ(pod.containers[0].id, ContainerId('a'));
  EXPECT_EQ(pod.containers[0].restarts, 3u);
}

TEST(ApiObjects, OnlyReplicaSetsOfDeploymentsNameOne) {
  Pod pod;
  pod.owner_kind = "ReplicaSet";
  pod.owner_name = "web-abc";
  EXPECT_EQ(pod.deployment(), "") << "a bare ReplicaSet: no hash";
  pod.labels["pod-template-hash"] = "abc";
  EXPECT_EQ(pod.deployment(), "web");
  pod.labels["pod-template-hash"] = "xyz";
  EXPECT_EQ(pod.deployment(), "") << "named after something else";
  pod.labels["pod-template-hash"] = "abc";
  pod.owner_name = "-abc";
  EXPECT_EQ(pod.deployment(), "");
  pod.owner_kind = "Job";
  pod.owner_name = "web-abc";
  EXPECT_EQ(pod.deployment(), "");
}

TEST(ApiObjects, ReadsEventsOfAWatch) {
  auto type = [](std::string_view line) {
    auto event = ParsePodEvent(line);
    EXPECT_TRUE(event.ok()) << line;
    return event ? event->type : PodEvent::Type::kError;
  };
  using Type = PodEvent::Type;
  std::string pod =
      R"("object":{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"8"},"status":{"phase":"Failed"}}})";
  EXPECT_EQ(type(R"({"type":"ADDED",)" + pod), Type::kChanged);
  EXPECT_EQ(type(R"({"type":"MODIFIED",)" + pod), Type::kChanged);
  EXPECT_EQ(type(R"({"type":"DELETED",)" + pod), Type::kDeleted);
  auto event = ParsePodEvent(R"({"type":"MODIFIED",)" + pod);
  EXPECT_EQ(event->resource_version, "8");
  EXPECT_TRUE(event->pod.ended());
  EXPECT_EQ(type(R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}})"), Type::kBookmark);
  EXPECT_EQ(
      type(R"({"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410,"reason":"Expired"}})"),
      Type::kExpired);
  event =
      ParsePodEvent(R"({"type":"ERROR","object":{"status":"Failure","message":"overloaded","code":500}})");
  EXPECT_EQ(event->type, Type::kError);
  EXPECT_EQ(event->why, "overloaded");
  EXPECT_FALSE(ParsePodEvent(R"({"type":"ADDED","object":{}})").ok());
  EXPECT_FALSE(ParsePodEvent("").ok());
}

TEST(ApiObjects, ReadsANodeByItsNewAndOldLabels) {
  auto node = ParseNode(R"({"metadata":{"name":"n1","labels":{"topology.kubernetes.io/zone":"eu-1a",
      "failure-domain.beta.kubernetes.io/zone":"old","failure-domain.beta.kubernetes.io/region":"eu-1"}},
      "spec":{"providerID":"aws:///eu-1a/i-1"}})");
  ASSERT_TRUE(node.ok());
  EXPECT_EQ(node->zone, "eu-1a");
  EXPECT_EQ(node->region, "eu-1");
  EXPECT_EQ(ParseNode("{}").error().code, Code::kDataLoss);
}

TEST(ApiObjects, ReadsResourceSlicesOfAllVersions) {
  auto list = ParseResourceSlices(R"({"items":[{"spec":{"devices":[
      {"name":"gpu-0","attributes":{"uuid":{"string":"GPU-1"},"index":{"int":0}}},
      {"name":"mig","basic":{"attributes":{"gpu.nvidia.com/uuid":{"string":"MIG-2"},"parentUUID":{"string":"GPU-1"}}}},
      {"name":"amd","attributes":{"pciAddr":{"string":"0000:03:00.0"}}},
      {"name":"nothing"}],"driver":"gpu.nvidia.com","pool":{"name":"n1"}}}]})");
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->devices.size(), 3u);
  EXPECT_EQ(list->devices[0].uuid, "GPU-1");
  EXPECT_EQ(list->devices[1].uuid, "MIG-2");
  EXPECT_EQ(list->devices[2].pci, "0000:03:00.0");
  for (const SliceDevice& device : list->devices)
    EXPECT_EQ(device.driver + "/" + device.pool, "gpu.nvidia.com/n1");
}

TEST(Checkpoint, ReadsBothForms) {
  auto entries = ParseCheckpoint(R"({"Data":{"PodDeviceEntries":[
      {"PodUID":"u1","ContainerName":"c","ResourceName":"nvidia.com/gpu","DeviceIDs":{"1":["GPU-b"],"0":["GPU-a"]},"AllocResp":"x"},
      {"PodUID":"u2","ContainerName":"c","ResourceName":"nvidia.com/gpu","DeviceIDs":["GPU-c"]},
      {"PodUID":"","DeviceIDs":["GPU-d"]},{"PodUID":"u3","DeviceIDs":{}}],"RegisteredDevices":{}},"Checksum":1})");
  ASSERT_TRUE(entries.ok()) << entries.error().detail;
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_THAT((*entries)[0].ids, ElementsAre("GPU-a", "GPU-b"));
  EXPECT_THAT((*entries)[1].ids, ElementsAre("GPU-c"));
  auto none = ParseCheckpoint(R"({"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":2})");
  EXPECT_TRUE(none.ok() && none->empty());
}

TEST(StatsSummary, ReadsNumbersAndOmitsMissingOnes) {
  auto summary = ParseStatsSummary(R"({"node":{"nodeName":"n1","cpu":{"usageNanoCores":5}},"pods":[
     {"podRef":{"name":"p","namespace":"ml","uid":"u"},"startTime":"1970-01-01T00:00:09Z",
      "network":{"rxBytes":10,"interfaces":[{"rxBytes":99}]},
      "containers":[{"name":"c","startTime":"1970-01-01T00:00:10Z","cpu":{"time":"1970-01-01T00:00:20Z","usageCoreNanoSeconds":7},
        "memory":{"workingSetBytes":3,"usageBytes":-1}},{"name":""}]},{"podRef":{}}]})");
  ASSERT_TRUE(summary.ok()) << summary.error().detail;
  EXPECT_EQ(summary->node, "n1");
  EXPECT_EQ(summary->node_usage.cpu_nanocores, 5u);
  ASSERT_EQ(summary->pods.size(), 1u);
  const PodStats& pod = summary->pods[0];
  EXPECT_EQ(pod.received_bytes, 10u);
  EXPECT_EQ(pod.sent_bytes, std::nullopt);
  EXPECT_EQ(pod.started_ns, 9'000'000'000);
  ASSERT_EQ(pod.containers.size(), 1u);
  EXPECT_EQ(pod.containers[0].usage.cpu_nanoseconds, 7u);
  EXPECT_EQ(pod.containers[0].usage.cpu_time_ns, 20'000'000'000);
  EXPECT_EQ(pod.containers[0].usage.memory_bytes, std::nullopt);
  EXPECT_EQ(pod.containers[0].usage.working_set_bytes, 3u);
}

TEST(StatsSummary, ReadsKillsOfContainers) {
  size_t bad = 0;
  auto events = ReadOomEvents(
      "# TYPE container_oom_events_total counter\n"
      "container_oom_events_total{container=\"c\",id=\"/kubepods/x\",namespace=\"ml\",pod=\"p\\\"q\"} 2 "
      "1700000000000\n"
      "container_oom_events_total{container=\"\",id=\"/kubepods\",namespace=\"\",pod=\"\"} 9\n"
      "container_oom_events_total{container=\"c\" 5\n"
      "container_oom_events_total{container=\"c\",pod=\"p\",namespace=\"ml\"} -1\n"
      "container_cpu_usage{container=\"c\",pod=\"p\",namespace=\"ml\"} 7\n",
      bad);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].pod, "p\"q");
  EXPECT_EQ(events[0].cgroup, "/kubepods/x");
  EXPECT_EQ(events[0].count, 2);
  EXPECT_EQ(bad, 2u);
}

TEST(KubeletText, RefusesBadInput) {
  size_t seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator("src/sources/kubelet/parse/testdata/bad")) {
    auto text = ReadFile(entry.path().string());
    ASSERT_TRUE(text.ok());
    ++seen;
    for (Status status :
         {ParsePodList(*text).status(), ParseCheckpoint(*text).status(), ParseStatsSummary(*text).status(),
          ParseNode(*text).status(), ParsePodEvent(*text).status()}) {
      EXPECT_FALSE(status.ok()) << entry.path();
      EXPECT_THAT(status.detail, HasSubstr(":")) << entry.path();
    }
  }
  EXPECT_GE(seen, 10u);
}

TEST(KubeletText, ReadsTheCaptures) {
  const std::string folder = "../shared/fixtures/kubelet/";
  auto pods = ReadFile(folder + "pods_1_35.json", 8 << 20);
  if (!pods) GTEST_SKIP() << "captures not here: " << folder;
  auto list = ParsePodList(*pods);
  ASSERT_TRUE(list.ok()) << list.error().detail;
  EXPECT_EQ(list->pods.size(), 24u);
  bool found = false;
  for (const Pod& pod : list->pods) {
    found = found ||
            (pod.deployment() == "e2e-hpa" && !pod.containers.empty() && pod.containers[0].id.size() == 64);
    EXPECT_FALSE(pod.phase.empty());
  }
  EXPECT_TRUE(found);
  auto summary = ParseStatsSummary(*ReadFile(folder + "stats_summary_1_35.json", 8 << 20));
  ASSERT_TRUE(summary.ok()) << summary.error().detail;
  EXPECT_EQ(summary->node, "datagen-1-35");
  EXPECT_EQ(summary->pods.size(), 17u);
  EXPECT_EQ(summary->pods[0].containers.at(0).usage.cpu_nanoseconds, 1877547000u);
  auto entries = ParseCheckpoint(*ReadFile(folder + "multus_kubelet_internal_checkpoint_numa.json"));
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(entries->size(), 1u);
  EXPECT_THAT(entries->front().ids, ElementsAre("0000:03:02.0", "0000:03:02.3"));
}

}  // namespace
}  // namespace gpulens::kubelet

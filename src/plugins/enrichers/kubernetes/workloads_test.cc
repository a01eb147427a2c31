#include "plugins/enrichers/kubernetes/kubernetes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/testing/temp_folder.h"

namespace gpulens::kubernetes {
namespace {

using gpulens::testing::TempFolder;
using kubelet::CheckpointEntry;
using kubelet::HolderPod;
using kubelet::LogContainer;
using kubelet::LogPod;
using kubelet::Pod;
using kubelet::SliceDevice;

std::string Id(char digit) { return std::string(64, digit); }

HolderPod Holding(const std::string& name, const std::string& resource, const std::vector<std::string>& ids,
                  const std::string& container = "main") {
  HolderPod pod{.name = name,
                .name_space = "ml",
                .uid = {},
                .containers = {{.name = container, .devices = {}, .claimed = {}}}};
  pod.containers[0].devices.push_back({resource, ids});
  return pod;
}
HolderPod Claiming(const std::string& name, const std::string& device,
                   const std::string& driver = "gpu.nvidia.com") {
  HolderPod pod{.name = name,
                .name_space = "ml",
                .uid = {},
                .containers = {{.name = "main", .devices = {}, .claimed = {}}}};
  pod.containers[0].claimed.push_back({driver, "n1", device});
  return pod;
}
Pod ApiPod(const std::string& name, const std::string& uid, const std::string& phase = "Running",
           char container = 0) {
  Pod pod;
  pod.name = name;
  pod.name_space = "ml";
  pod.uid = uid;
  pod.phase = phase;
  if (container) pod.containers.push_back({.name = "main", .id = Id(container), .restarts = {}, .ready = {}});
  return pod;
}

EntityRef Gpu(const std::string& uuid, int64_t index = 0,
              AttributeSet facts = AttributeSet({{"gpu.vendor", "nvidia"}})) {
  return MakeRef<const Entity>("gpu",
                               AttributeSet({{"gpu.index", index}, {"gpu.uuid", std::string_view(uuid)}}),
                               EntityRef{}, std::move(facts));
}
EntityRef Mig(const EntityRef& gpu, int64_t instance, const std::string& uuid) {
  return MakeRef<const Entity>(
      "mig", AttributeSet({{"gpu.mig.instance_id", instance}, {"gpu.mig.compute_instance_id", int64_t{0}}}),
      gpu, AttributeSet({{"gpu.mig.uuid", std::string_view(uuid)}}));
}

class WorkloadsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    sources.holders = &holders;
    sources.log_pods = &log_pods;
    sources.log_containers = &log_containers;
    sources.slices = &slices;
    std::filesystem::create_directories(folder.path() + "/proc/2");
    std::ofstream(folder.path() + "/proc/2/stat") << "2 (kthreadd) S 0 0";
    lookup = std::make_unique<EntityLookup>(folder.path());
  }
  void WithApi(const std::vector<Pod>& pods) {
    store.synced = true;
    for (const Pod& pod : pods) store.pods[pod.uid] = pod;
    sources.api = &store;
  }
  void WithCheckpoint(std::vector<CheckpointEntry> entries) {
    checkpoint = std::move(entries);
    sources.checkpoint = &checkpoint;
  }
  void Cgroup(int pid, const std::string& text) {
    std::filesystem::create_directories(folder.path() + "/proc/" + std::to_string(pid));
    std::ofstream(folder.path() + "/proc/" + std::to_string(pid) + "/cgroup") << text;
  }
  AttributeSet Query(const EntityRef& entity) {
    learned = false;
    return lookup->Describe(Join(sources, rules), *entity, learned);
  }
  // Returns "pod/container", or "" for none.
  std::string Who(const EntityRef& entity) {
    AttributeSet set = Query(entity);
    if (set.empty()) return "";
    if (set.Has("gpu.allocation")) return set.Text("gpu.allocation") + ":" + set.Text("k8s.pod.names");
    return set.Text("k8s.pod.name") + "/" + set.Text("k8s.container.name");
  }
  EntityRef Process(int64_t pid, const EntityRef& gpu) {
    return MakeRef<const Entity>("process", AttributeSet({{"process.pid", pid}}), gpu);
  }

  TempFolder folder;
  WorkloadSources sources;
  NamingRules rules{.labels = {"app", "ray.io/*"}, .node = "n1", .zone = "eu-1a", .region = "eu-1"};
  std::vector<HolderPod> holders;
  std::vector<CheckpointEntry> checkpoint;
  std::vector<LogPod> log_pods;
  std::vector<LogContainer> log_containers;
  std::vector<SliceDevice> slices;
  kubelet::PodWatch::Store store;
  std::unique_ptr<EntityLookup> lookup;
  bool learned = false;
};

TEST_F(WorkloadsTest, JoinsGpusByUuidNotByOrder) {
  holders = {Holding("b", "nvidia.com/gpu", {"GPU-3"}), Holding("a", "nvidia.com/gpu", {"GPU-1"})};
  EXPECT_EQ(Who(Gpu("GPU-3", 0)), "b/main");
  EXPECT_EQ(Who(Gpu("GPU-1", 7)), "a/main");
  EXPECT_EQ(Who(Gpu("GPU-0", 1)), "");
  EXPECT_EQ(Who(Gpu("GPU-3", 0, {})), "b/main") << "a page's GPU says no vendor";
}

TEST_F(WorkloadsTest, AcceptsOtherFormsOfIds) {
  auto facts =
      AttributeSet({{"gpu.vendor", "nvidia"}, {"gpu.minor", "3"}, {"gpu.pci.bus_id", "00000000:3B:00.0"}});
  holders = {Holding("gke", "nvidia.com/gpu", {"nvidia3"})};
  EXPECT_EQ(Who(Gpu("GPU-9", 0, facts)), "gke/main") << "by the number of /dev/nvidia3, not by its index";
  EXPECT_EQ(Who(Gpu("GPU-9", 3)), "") << "its minor number is not known";
  holders = {Holding("idx", "nvidia.com/gpu", {"2"})};
  EXPECT_EQ(Who(Gpu("GPU-9", 2)), "idx/main");
  auto amd = AttributeSet({{"gpu.vendor", "amd"}, {"gpu.pci.bus_id", "0000:03:00.0"}});
  EXPECT_EQ(Who(Gpu("x", 2, amd)), "") << "another vendor's index";
  holders = {Holding("amd", "amd.com/gpu", {"0000:03:00.0"})};
  EXPECT_EQ(Who(Gpu("x", 2, amd)), "amd/main");
  auto gaudi = AttributeSet({{"gpu.vendor", "gaudi"}, {"gpu.serial", "AM12"}});
  holders = {Holding("g1", "habana.ai/gaudi", {"AM12"}), Holding("g2", "habana.ai/gaudi", {"5"})};
  EXPECT_EQ(Who(Gpu("", 1, gaudi)), "g1/main");
  EXPECT_EQ(Who(Gpu("", 5, AttributeSet({{"gpu.vendor", "gaudi"}}))), "g2/main");
  holders = {Holding("net", "intel.com/sriov", {"0000:03:00.0"}),
             Holding("odd", "nvidia.com/gpu", {"weird id"}),
             Holding("intel", "gpu.intel.com/i915", {"card0-0"})};
  WorkloadTable table = Join(sources, rules);
  EXPECT_EQ(table.unknown_ids, 2u);
  EXPECT_EQ(table.by_device.size(), 1u);
  EXPECT_EQ(lookup->CountUnresolved(table), 0u) << "the address of a network card is no GPU that is missing";
}

// The shares of HAMi and of time-slicing, and resources that a cluster has renamed.
TEST_F(WorkloadsTest, AcceptsSharesAndRenamedResources) {
  const std::string uuid = "GPU-4d645b46-5aa0-8ed0-11aa-5f9fe6a1d8fc";
  const EntityRef gpu = Gpu(uuid);
  for (const std::string& id : {uuid + "-3", uuid + "-3-0-5", uuid + "::2"}) {
    for (const char* resource : {"nvidia.com/gpu", "example.com/gpu", "vgpu.example.com/shares"}) {
      holders = {Holding("a", resource, {id})};
      EXPECT_EQ(Who(gpu), "a/main") << resource << " " << id;
      EXPECT_EQ(lookup->CountUnresolved(Join(sources, rules)), 0u);
      EXPECT_EQ(Join(sources, rules).unknown_ids, 0u);
    }
  }
  holders = {Holding("a", "example.com/gpu", {uuid + "-0"}), Holding("b", "example.com/gpu", {uuid + "-1"})};
  EXPECT_EQ(Who(gpu), "shared:ml/a,ml/b");
  holders = {Holding("slice", "example.com/mig-small", {"MIG-a"})};
  EXPECT_EQ(Who(Mig(gpu, 1, "MIG-a")), "slice/main");
  auto amd = AttributeSet({{"gpu.vendor", "amd"}, {"gpu.pci.bus_id", "0000:03:00.0"}});
  holders = {Holding("amd", "example.com/gpu", {"0000:03:00.0"})};
  EXPECT_EQ(Who(Gpu("x", 2, amd)), "amd/main");
  EXPECT_EQ(lookup->CountUnresolved(Join(sources, rules)), 0u);
}

TEST_F(WorkloadsTest, CountsHeldDevicesThatAreNotLocalGpus) {
  const std::string uuid = "GPU-4d645b46-5aa0-8ed0-11aa-5f9fe6a1d8fc";
  EXPECT_EQ(Who(Gpu(uuid)), "");
  auto missing = [&](const std::string& resource, const std::string& id) {
    holders = {Holding("a", resource, {id})};
    WorkloadTable table = Join(sources, rules);
    return lookup->CountUnresolved(table) + table.unknown_ids;
  };
  EXPECT_EQ(missing("nvidia.com/gpu", uuid), 0u);
  EXPECT_EQ(missing("nvidia.com/gpu", "GPU-00000000-5aa0-8ed0-11aa-5f9fe6a1d8fc"), 1u) << "another GPU";
  EXPECT_EQ(missing("example.com/thing", "GPU-00000000-5aa0-8ed0-11aa-5f9fe6a1d8fc-1"), 1u);
  EXPECT_EQ(missing("nvidia.com/gpu", uuid + "-x"), 1u) << "no number behind the UUID";
  EXPECT_EQ(missing("nvidia.com/gpu", uuid + "3"), 1u);
  EXPECT_EQ(missing("example.com/gpu", "3"), 1u) << "a number of whose GPUs is not known";
  EXPECT_EQ(missing("example.com/gpu", "0000:04:00.0"), 1u);
  EXPECT_EQ(missing("example.com/gpu", "amdgpu_xcp_3"), 1u);
  EXPECT_EQ(missing("example.com/nic", "0000:04:00.0"), 0u);
  EXPECT_EQ(missing("example.com/nic", "eth3"), 0u);
  holders = {Holding("a", "example.com/nic", {"0000:04:00.0"}),
             Holding("b", "example.com/nic", {"0000:04:00.0"})};
  EXPECT_EQ(Join(sources, rules).conflicts, 0u) << "not a matter of GPUs";
}

TEST_F(WorkloadsTest, FunctionsOfOneSlotAreDifferentDevices) {
  auto at = [](std::string_view bus) {
    return Gpu("", 0, AttributeSet({{"gpu.vendor", "amd"}, {"gpu.pci.bus_id", bus}}));
  };
  holders = {Holding("a", "amd.com/gpu", {"0000:03:00.0"}), Holding("b", "amd.com/gpu", {"0000:03:00.1"})};
  EXPECT_EQ(Who(at("0000:03:00.0")), "a/main");
  EXPECT_EQ(Who(at("0000:03:00.1")), "b/main");
  EXPECT_EQ(Who(at("0000:03:00.2")), "");
  EXPECT_EQ(Who(at("00000000:03:00.1")), "b/main") << "a domain of eight digits";
  EXPECT_EQ(Who(at("0000:03:00")), "a/main") << "no function is the first one";
}

TEST_F(WorkloadsTest, ListsHolders) {
  const EntityRef whole = Gpu("GPU-1", 0), shared = Gpu("GPU-2", 1), cut = Gpu("GPU-3", 2),
                  replica = Gpu("GPU-4", 3);
  const EntityRef slice = Mig(cut, 1, "MIG-a");
  holders = {
      Holding("one", "nvidia.com/gpu", {"GPU-1"}),      Holding("a", "nvidia.com/gpu", {"GPU-2::0"}),
      Holding("b", "nvidia.com/gpu", {"GPU-2::1"}),     Holding("part", "nvidia.com/mig-1g", {"MIG-a"}),
      Holding("alone", "nvidia.com/gpu", {"GPU-4::5"}), Holding("away", "nvidia.com/gpu", {"GPU-9"})};
  for (const EntityRef& entity : {whole, shared, cut, slice, replica}) Query(entity);
  const WorkloadTable table = Join(sources, rules);
  std::set<std::string> lines;
  for (const AttributeSet& set : lookup->Holdings(table)) {
    EXPECT_EQ(set.Text("k8s.container.name"), "main");
    EXPECT_EQ(set.Text("k8s.namespace.name"), "ml");
    lines.insert(set.Text("gpu.uuid") + " " + set.Text("gpu.index") + " " + set.Text("gpu.mig.instance_id") +
                 " " + set.Text("k8s.pod.name") + " " + set.Text("gpu.allocation"));
  }
  EXPECT_EQ(lines, (std::set<std::string>{"GPU-1 0  one exclusive", "GPU-2 1  a shared", "GPU-2 1  b shared",
                                          "GPU-3 2 1 part mig", "GPU-4 3  alone shared"}));
  EXPECT_EQ(lookup->CountUnresolved(table), 1u) << "GPU-9";
}

TEST_F(WorkloadsTest, BoundsTheListOfHolders) {
  holders.clear();
  for (int i = 0; i < 5000; ++i)
    holders.push_back(Holding("p" + std::to_string(i), "nvidia.com/gpu", {"GPU-1::" + std::to_string(i)}));
  Query(Gpu("GPU-1"));
  EXPECT_EQ(lookup->Holdings(Join(sources, rules)).size(), EntityLookup::kMostHoldings);
}

TEST_F(WorkloadsTest, PartitionsOfAmdBoardsAreSeparate) {
  auto amd = AttributeSet({{"gpu.vendor", "amd"}, {"gpu.pci.bus_id", "0000:03:00.0"}});
  EntityRef board = Gpu("x", 0, amd);
  auto part = [&](int64_t id) {
    return MakeRef<const Entity>("gpu.partition", AttributeSet({{"gpu.partition.id", id}}), board);
  };
  holders = {Holding("first", "amd.com/gpu", {"0000:03:00.0"}),
             Holding("second", "amd.com/gpu", {"amdgpu_xcp_1"})};
  EXPECT_EQ(Who(part(0)), "first/main");
  EXPECT_EQ(Who(part(1)), "");
  EXPECT_EQ(Who(board), "");
  EXPECT_EQ(Join(sources, rules).unknown_ids, 1u) << "what the second holds is told of nobody";
  holders = {Holding("whole", "amd.com/gpu", {"0000:03:00.0"})};
  EXPECT_EQ(Who(part(1)), "whole/main") << "a board given out whole";
}

TEST_F(WorkloadsTest, MigSlicesAndTheirBoard) {
  EntityRef gpu = Gpu("GPU-1"), one = Mig(gpu, 1, "MIG-a"), two = Mig(gpu, 2, "MIG-b"),
            three = Mig(gpu, 3, "MIG-c");
  holders = {Holding("a", "nvidia.com/mig-1g.10gb", {"MIG-a"}),
             Holding("b", "nvidia.com/mig-1g.10gb", {"MIG-b"})};
  EXPECT_EQ(Who(gpu), "") << "nobody has told yet whose slices these are";
  EXPECT_EQ(Who(one), "a/main");
  EXPECT_TRUE(learned);
  EXPECT_EQ(Who(two), "b/main");
  EXPECT_EQ(Who(three), "") << "a slice does not inherit what holds of its board";
  EXPECT_EQ(Who(one), "a/main");
  EXPECT_FALSE(learned);
  EXPECT_EQ(Who(gpu), "shared:ml/a,ml/b");
  holders = {Holding("old", "nvidia.com/gpu", {"MIG-GPU-1/2/0"})};
  EXPECT_EQ(Who(two), "old/main");
  EXPECT_EQ(Who(one), "");
  AttributeSet board = Query(gpu);
  EXPECT_EQ(Who(gpu), "shared:ml/old") << "the only holder has no more than its slice";
  for (const char* key : {"k8s.pod.name", "k8s.namespace.name", "k8s.container.name", "k8s.pod.uid"})
    EXPECT_FALSE(board.Has(key)) << key;
  EXPECT_EQ(board.Text("k8s.node.name"), "n1");
  holders = {Holding("all", "nvidia.com/mig-3g.40gb", {"MIG-a", "MIG-b", "MIG-c"})};
  Query(three);
  EXPECT_EQ(Who(gpu), "shared:ml/all") << "all slices are not the board";
  EXPECT_EQ(Who(two), "all/main");
  holders.push_back(Holding("whole", "nvidia.com/gpu", {"GPU-1"}));
  EXPECT_EQ(Who(gpu), "shared:ml/all,ml/whole") << "nor is who says to hold it whole beside them";
  holders = {Holding("gke", "nvidia.com/gpu", {"nvidia0/gi3"})};
  EXPECT_EQ(Who(Mig(Gpu("GPU-1", 0, AttributeSet({{"gpu.vendor", "nvidia"}, {"gpu.minor", "0"}})), 3, "")),
            "gke/main");
}

TEST_F(WorkloadsTest, SharesOfAGpuAreShared) {
  holders = {Holding("b", "nvidia.com/gpu", {"GPU-1::1"}), Holding("a", "nvidia.com/gpu", {"GPU-1::0"})};
  AttributeSet set = Query(Gpu("GPU-1"));
  EXPECT_EQ(set.Text("gpu.allocation"), "shared");
  EXPECT_EQ(set.Text("k8s.pod.names"), "ml/a,ml/b");
  EXPECT_EQ(set.Text("k8s.namespace.name"), "ml") << "on what they agree";
  EXPECT_FALSE(set.Has("k8s.pod.name"));
  EXPECT_EQ(set.Text("k8s.node.name"), "n1");
  holders = {Holding("a", "nvidia.com/gpu", {"GPU-1::0", "GPU-1::1"})};
  EXPECT_EQ(Who(Gpu("GPU-1")), "a/main") << "both shares in one container";
  holders.clear();
  for (int i = 0; i < 40; ++i)
    holders.push_back(Holding("p" + std::to_string(i), "nvidia.com/gpu", {"GPU-1::" + std::to_string(i)}));
  EXPECT_THAT(Query(Gpu("GPU-1")).Text("k8s.pod.names"), ::testing::EndsWith(",+24"));
}

TEST_F(WorkloadsTest, ProcessesBelongToTheirOwnPod) {
  const std::string uid = "0e1d2c3b-4a59-6877-8695-a4b3c2d1e0f0";
  holders = {Holding("a", "nvidia.com/gpu", {"GPU-1"})};
  EntityRef gpu = Gpu("GPU-1");
  Cgroup(7, "0::/kubepods/pod" + uid + "/" + Id('b') + "\n");
  Cgroup(8, "0::/user.slice\n");
  log_pods = {{"ml", "b", uid}};
  log_containers = {{"ml", "b", "sidecar", Id('b')}};
  EXPECT_EQ(Who(Process(7, gpu)), "b/sidecar") << "not the holder of the GPU";
  EXPECT_EQ(Who(Process(8, gpu)), "") << "of no pod";
  EXPECT_EQ(Who(Process(9, gpu)), "") << "gone";
  log_containers.clear();
  EXPECT_EQ(Who(Process(7, gpu)), "b/") << "by the pod's uid alone";
  log_pods.clear();
  AttributeSet bare = Query(Process(7, gpu));
  EXPECT_EQ(bare.Text("k8s.pod.uid"), uid);
  EXPECT_EQ(bare.Text("container.id"), Id('b'));
  EXPECT_FALSE(bare.Has("k8s.pod.name"));
  WithApi({ApiPod("from-api", uid, "Running", 'b')});
  EXPECT_EQ(Who(Process(7, gpu)), "from-api/main");
  EntityRef named =
      MakeRef<const Entity>("process", AttributeSet({{"container.id", std::string_view(Id('b'))}}), gpu);
  EXPECT_EQ(Who(named), "from-api/main");
  EntityRef simulated = MakeRef<const Entity>("gpu", AttributeSet({{"simulated", true}}));
  EXPECT_EQ(Who(Process(7, simulated)), "") << "the number of no process here";
}

TEST_F(WorkloadsTest, OtherEntitiesOfAGpuFollowIt) {
  holders = {Holding("a", "nvidia.com/gpu", {"GPU-1"})};
  EXPECT_EQ(Who(MakeRef<const Entity>("link", AttributeSet({{"gpu.link", int64_t{1}}}), Gpu("GPU-1"))),
            "a/main");
  EXPECT_EQ(Who(MakeRef<const Entity>("host", AttributeSet())), "");
}

TEST_F(WorkloadsTest, TheApiServerAddsOwnersAndAllowedLabels) {
  Pod pod = ApiPod("serve-6cd8-x", "u1");
  pod.owner_kind = "ReplicaSet";
  pod.owner_name = "serve-6cd8";
  pod.labels = {{"app", "serve"}, {"pod-template-hash", "6cd8"}, {"ray.io/cluster", "r"}, {"secret", "s"}};
  WithApi({pod});
  holders = {Holding("serve-6cd8-x", "nvidia.com/gpu", {"GPU-1"})};
  AttributeSet set = Query(Gpu("GPU-1"));
  std::map<std::string, std::string> all;
  for (auto [key, value] : set) AppendValue(all[std::string(key)], value);
  EXPECT_EQ(all, (std::map<std::string, std::string>{{"k8s.pod.name", "serve-6cd8-x"},
                                                     {"k8s.namespace.name", "ml"},
                                                     {"k8s.pod.uid", "u1"},
                                                     {"k8s.container.name", "main"},
                                                     {"k8s.node.name", "n1"},
                                                     {"cloud.availability_zone", "eu-1a"},
                                                     {"cloud.region", "eu-1"},
                                                     {"k8s.deployment.name", "serve"},
                                                     {"k8s.replicaset.name", "serve-6cd8"},
                                                     {"k8s.owner.kind", "ReplicaSet"},
                                                     {"k8s.owner.name", "serve-6cd8"},
                                                     {"k8s.pod.label.app", "serve"},
                                                     {"k8s.pod.label.ray.io/cluster", "r"}}));
}

TEST_F(WorkloadsTest, UidsComeFromAnUnambiguousCheckpoint) {
  holders = {Holding("a", "nvidia.com/gpu", {"GPU-1"}), Holding("b", "nvidia.com/gpu", {"GPU-2"})};
  WithCheckpoint({{"u1", "main", "nvidia.com/gpu", {"GPU-1"}}, {"u2", "other", "nvidia.com/gpu", {"GPU-2"}}});
  EXPECT_EQ(Query(Gpu("GPU-1")).Text("k8s.pod.uid"), "u1");
  EXPECT_FALSE(Query(Gpu("GPU-2")).Has("k8s.pod.uid")) << "another container";
  log_pods = {{"ml", "b", "u7"}, {"ml", "b", "u8"}};
  EXPECT_FALSE(Query(Gpu("GPU-2")).Has("k8s.pod.uid")) << "two pods of this name have logs";
}

TEST_F(WorkloadsTest, IgnoresEndedPodsOfAnOldKubelet) {
  holders = {Holding("old", "nvidia.com/gpu", {"GPU-1"}), Holding("new", "nvidia.com/gpu", {"GPU-1"})};
  EXPECT_EQ(Who(Gpu("GPU-1")), "") << "both cannot hold it; nobody says which";
  EXPECT_EQ(Join(sources, rules).conflicts, 1u);
  log_pods = {{"ml", "old", "u1"}, {"ml", "new", "u2"}};
  WithCheckpoint({{"u2", "main", "nvidia.com/gpu", {"GPU-1"}}});
  EXPECT_EQ(Who(Gpu("GPU-1")), "new/main") << "the checkpoint knows who holds it";
  sources.checkpoint = nullptr;
  WithApi({ApiPod("old", "u1", "Succeeded"), ApiPod("new", "u2")});
  EXPECT_EQ(Who(Gpu("GPU-1")), "new/main") << "so does the API server";
  holders.pop_back();
  EXPECT_EQ(Who(Gpu("GPU-1")), "") << "one that has ended holds nothing";
}

TEST_F(WorkloadsTest, OldAnswersNeedConfirmation) {
  holders = {Holding("a", "nvidia.com/gpu", {"GPU-1"}), Holding("b", "nvidia.com/gpu", {"GPU-2"})};
  log_pods = {{"ml", "a", "u1"}, {"ml", "b", "u2"}};
  NoteUids(sources, holders);
  EXPECT_EQ(holders[0].uid, "u1");
  sources.holders_are_old = true;
  EXPECT_EQ(Who(Gpu("GPU-1")), "") << "nobody confirms it";
  WithCheckpoint({{"u1", "main", "nvidia.com/gpu", {"GPU-1"}}, {"u9", "main", "nvidia.com/gpu", {"GPU-2"}}});
  EXPECT_EQ(Who(Gpu("GPU-1")), "a/main");
  EXPECT_EQ(Who(Gpu("GPU-2")), "") << "another pod holds it now";
  WithApi({ApiPod("a", "u5"), ApiPod("b", "u2")});
  EXPECT_EQ(Who(Gpu("GPU-1")), "") << "another pod of the same name";
}

TEST_F(WorkloadsTest, ClaimsNeedTheirSlice) {
  holders = {Claiming("a", "gpu-0"), Claiming("b", "gpu-0"), Claiming("c", "gpu-1-mig"),
             Claiming("d", "gpu-9"), Claiming("e", "x", "compute-domain.nvidia.com")};
  EXPECT_EQ(Who(Gpu("GPU-1")), "");
  EXPECT_EQ(Join(sources, rules).unknown_claims, 4u);
  slices = {{"gpu.nvidia.com", "n1", "gpu-0", "GPU-1", ""},
            {"gpu.nvidia.com", "n2", "gpu-9", "GPU-1", ""},
            {"gpu.nvidia.com", "n1", "gpu-1-mig", "MIG-a", ""}};
  EXPECT_EQ(Who(Gpu("GPU-1")), "shared:ml/a,ml/b") << "one claim of two pods";
  EXPECT_EQ(Who(Mig(Gpu("GPU-2"), 1, "MIG-a")), "c/main");
  EXPECT_EQ(Join(sources, rules).unknown_claims, 1u) << "another node's pool";
  holders = {Claiming("amd", "gpu-1", "gpu.amd.com")};
  slices = {{"gpu.amd.com", "n1", "gpu-1", "", "0000:03:00.0"}};
  EXPECT_EQ(Who(Gpu("x", 0, AttributeSet({{"gpu.vendor", "amd"}, {"gpu.pci.bus_id", "0000:03:00.0"}}))),
            "amd/main");
}

TEST_F(WorkloadsTest, ReportsNothingWithoutData) {
  sources = {};
  EXPECT_EQ(Join(sources, rules), WorkloadTable());
  EXPECT_EQ(Who(Gpu("GPU-1")), "");
}

}  // namespace
}  // namespace gpulens::kubernetes

#include "sources/kubelet/parse/pod_resources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sources/kubelet/parse/container_id_testing.h"

#include <protozero/pbf_writer.hpp>

#include "sources/kubelet/parse/node_files.h"

namespace gpulens::kubelet {
namespace {

using protozero::pbf_writer;
using ::testing::ElementsAre;

std::string KeyOf(DeviceVendor vendor, std::string_view id) {
  auto parsed = ParseDeviceId(vendor, id);
  return parsed ? parsed->Key() + (parsed->replica ? " shared" : "") : "none";
}

TEST(DeviceId, KnowsTheFormsOfAllPlugins) {
  constexpr std::string_view kUuid = "GPU-4d645b46-5aa0-8ed0-11aa-5f9fe6a1d8fc";
  std::string gpu(kUuid);
  EXPECT_EQ(KeyOf(DeviceVendor::kNvidia, gpu), "nvidia:gpu:" + gpu);
  EXPECT_EQ(KeyOf(DeviceVendor::kNvidia, gpu + "::3"), "nvidia:gpu:" + gpu + " shared");
  EXPECT_EQ(KeyOf(DeviceVendor::kNvidia, "MIG-a-b"), "nvidia:mig:MIG-a-b");
  EXPECT_EQ(KeyOf(DeviceVendor::kNvidia, "MIG-a-b::1"), "nvidia:mig:MIG-a-b shared");
  EXPECT_EQ(KeyOf(DeviceVendor::kNvidia, "MIG-" + gpu + "/7/0"), "nvidia:place:" + gpu + "/7/0");
  EXPECT_EQ(KeyOf(DeviceVendor::kNvidia, "MIG-" + gpu), "nvidia:mig:MIG-" + gpu);
  EXPECT_EQ(KeyOf(DeviceVendor::kNvidia, gpu + "-3"), "nvidia:gpu:" + gpu + " shared") << "HAMi";
  EXPECT_EQ(KeyOf(DeviceVendor::kNvidia, gpu + "-12-0-7"), "nvidia:gpu:" + gpu + " shared");
  EXPECT_EQ(KeyOf(DeviceVendor::kNvidia, "MIG-" + gpu.substr(4) + "-1"),
            "nvidia:mig:MIG-" + gpu.substr(4) + " shared");
  EXPECT_EQ(KeyOf(DeviceVendor::kAmd, "0000:03:00.1"), "amd:pci:0000:03:00.1") << "the function is kept";
  EXPECT_EQ(KeyOf(DeviceVendor::kAmd, "00000000:03:00.1"), "amd:pci:0000:03:00.1");
  EXPECT_EQ(KeyOf(DeviceVendor::kNvidia, "nvidia0"), "nvidia:minor:0");
  EXPECT_EQ(KeyOf(DeviceVendor::kNvidia, "nvidia12/vgpu3"), "nvidia:minor:12 shared");
  EXPECT_EQ(KeyOf(DeviceVendor::kNvidia, "nvidia0/gi5"), "nvidia:minor:0/5");
  EXPECT_EQ(KeyOf(DeviceVendor::kNvidia, "nvidia0/gi5/vgpu0"), "nvidia:minor:0/5 shared");
  EXPECT_EQ(KeyOf(DeviceVendor::kNvidia, "7"), "nvidia:index:7");
  EXPECT_EQ(KeyOf(DeviceVendor::kAmd, "0000:03:00.0"), "amd:pci:0000:03:00.0");
  EXPECT_EQ(KeyOf(DeviceVendor::kAmd, "amdgpu_xcp_4"), "amd:partition:4");
  EXPECT_EQ(KeyOf(DeviceVendor::kGaudi, "5"), "gaudi:index:5");
  EXPECT_EQ(KeyOf(DeviceVendor::kGaudi, "AM12345"), "gaudi:serial:AM12345");
}

TEST(DeviceId, RefusesOtherForms) {
  for (std::string_view id :
       {"", "GPU-", "MIG-", "GPU-a b", "nvidia", "nvidiax", "nvidia0/gi", "nvidia0/x5", "GPU-a::", "GPU-a::x",
        "nvidia0/vgpu", "MIG-GPU-a/7", "MIG-GPU-a/7/x", "-1", "99999999999"})
    EXPECT_EQ(KeyOf(DeviceVendor::kNvidia, id), "none") << id;
  EXPECT_EQ(KeyOf(DeviceVendor::kAmd, "a:b"), "none");
  EXPECT_EQ(KeyOf(DeviceVendor::kIntel, "card0-0"), "none");
  EXPECT_EQ(KeyOf(DeviceVendor::kAmd, "amdgpu_xcp_"), "amd:serial:amdgpu_xcp_");
  EXPECT_EQ(KeyOf(DeviceVendor::kNvidia, std::string(200, 'a')), "none");
}

TEST(DeviceId, RefusesTextAfterAUuid) {
  const std::string gpu = "GPU-4d645b46-5aa0-8ed0-11aa-5f9fe6a1d8fc";
  for (const char* end : {"3", "-", "-x", "--3", "_3", ".3", "-99999999999"})
    EXPECT_EQ(KeyOf(DeviceVendor::kNvidia, gpu + end), "none") << end;
}

TEST(DeviceId, ReadsIdsOfRenamedResources) {
  auto key = [](std::string_view id) {
    auto parsed = ParseRenamedId(id);
    return parsed ? parsed->Key() : "none";
  };
  EXPECT_EQ(key("GPU-1::3"), "nvidia:gpu:GPU-1");
  EXPECT_EQ(key("MIG-1"), "nvidia:mig:MIG-1");
  EXPECT_EQ(key("nvidia3"), "nvidia:minor:3");
  EXPECT_EQ(key("amdgpu_xcp_2"), "amd:partition:2");
  EXPECT_EQ(key("0000:03:00.1"), "any:pci:0000:03:00.1");
  for (const char* other : {"", "3", "eth0", "AM12", "a:b", "GPU-", "cpu-3"})
    EXPECT_EQ(key(other), "none") << other;
  EXPECT_TRUE(NamesGpu("example.com/a100-GPU.shared"));
  EXPECT_TRUE(NamesGpu("gpu.example.com/x"));
  EXPECT_FALSE(NamesGpu("example.com/nic"));
  EXPECT_FALSE(NamesGpu(""));
}

TEST(PciAddress, KeepsTheFunction) {
  EXPECT_NE(ParsePciAddress("0000:3b:00.0"), ParsePciAddress("0000:3b:00.1"));
  EXPECT_EQ(ParsePciAddress("0000:3b:00"), ParsePciAddress("0000:3b:00.0"));
  EXPECT_EQ(ParsePciAddress("00000000:3B:00.1"), ParsePciAddress("0000:3b:00.1"));
  EXPECT_NE(ParsePciAddress("00010000:3b:00.1"), ParsePciAddress("0000:3b:00.1"));
  EXPECT_TRUE(ParsePciAddress("0000:3b:00.0")->SameSlot(*ParsePciAddress("0000:3b:00.7")));
  EXPECT_FALSE(ParsePciAddress("0000:3b:00.0")->SameSlot(*ParsePciAddress("0000:3b:01.0")));
  for (const char* bad : {"", "0000:3b:00.8", "0000:3b:00.", "0000:3b:20.0", "x"})
    EXPECT_FALSE(ParsePciAddress(bad)) << bad;
}

TEST(DeviceId, KnowsWhichResourcesAreGpus) {
  EXPECT_EQ(GpuVendorOf("nvidia.com/gpu"), DeviceVendor::kNvidia);
  EXPECT_EQ(GpuVendorOf("nvidia.com/mig-1g.10gb"), DeviceVendor::kNvidia);
  EXPECT_EQ(GpuVendorOf("nvidia.com/gpu.shared"), DeviceVendor::kNvidia);
  EXPECT_EQ(GpuVendorOf("amd.com/gpu"), DeviceVendor::kAmd);
  EXPECT_EQ(GpuVendorOf("amd.com/cpx_nps4"), DeviceVendor::kAmd);
  EXPECT_EQ(GpuVendorOf("habana.ai/gaudi"), DeviceVendor::kGaudi);
  EXPECT_EQ(GpuVendorOf("gpu.intel.com/xe"), DeviceVendor::kIntel);
  EXPECT_EQ(GpuVendorOf("gpu.intel.com/i915_monitoring"), std::nullopt);
  EXPECT_EQ(GpuVendorOf("intel.com/sriov_net_A"), std::nullopt);
  EXPECT_EQ(GpuVendorOf("nvidia.com/"), std::nullopt);
  EXPECT_EQ(GpuVendorOfDriver("gpu.nvidia.com"), DeviceVendor::kNvidia);
  EXPECT_EQ(GpuVendorOfDriver("compute-domain.nvidia.com"), std::nullopt);
}

const std::string kUid = "0e1d2c3b-4a59-6877-8695-a4b3c2d1e0f0",
                  kUnder = "0e1d2c3b_4a59_6877_8695_a4b3c2d1e0f0";

TEST(CgroupOwner, ReadsAllLayouts) {
  const CgroupOwner ours{kUid, ContainerId('a')};
  const std::string slice =
      "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + kUnder + ".slice/";
  for (const std::string& text : std::vector<std::string>{
           "0::" + slice + "cri-containerd-" + ContainerId('a') + ".scope\n",
           "0::/kubepods.slice/kubepods-pod" + kUnder + ".slice/cri-containerd-" + ContainerId('a') +
               ".scope\n",
           "0::" + slice + "crio-" + ContainerId('a') + ".scope\n",
           "0::" + slice + "crio-" + ContainerId('a') + ".scope/container\n",
           "0::" + slice + "docker-" + ContainerId('a') + ".scope\n",
           "0::/kubepods/burstable/pod" + kUid + "/" + ContainerId('a') + "\n",
           "0::/kubepods/pod" + kUid + "/" + ContainerId('a') + "/docker/" + ContainerId('b') + "\n",
           "0::/../../pod" + kUid + "/" + ContainerId('a') + "\n",
           "12:memory:/kubepods/besteffort/pod" + kUid + "/" + ContainerId('a') + "\n1:name=systemd:/init\n",
           "13:misc:/\n12:cpu,cpuacct:" + slice + "docker-" + ContainerId('a') + ".scope\n0::/x\n",
           "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + kUnder +
               ".slice/cri-containerd-" + ContainerId('a') + ".scope\n",
           "0::/docker/" + ContainerId('c') + "/kubelet/kubepods/burstable/pod" + kUid + "/" +
               ContainerId('a') + "\n",
           "0::/system.slice/docker-" + ContainerId('c') +
               ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + kUnder +
               ".slice/cri-containerd-" + ContainerId('a') + ".scope\n",
           "0::/system.slice/containerd.service/kubepods-burstable-pod" + kUnder +
               ".slice:cri-containerd:" + ContainerId('a') + "\n",
       })
    EXPECT_EQ(FindCgroupOwner(text), ours) << text;
}

TEST(CgroupOwner, KnowsStaticPodsAndContainersWithoutPods) {
  std::string hash(32, 'd');
  EXPECT_EQ(FindCgroupOwner("0::/kubepods/burstable/pod" + hash + "/" + ContainerId('a')),
            (CgroupOwner{hash, ContainerId('a')}));
  EXPECT_EQ(FindCgroupOwner("0::/system.slice/docker-" + ContainerId('a') + ".scope"),
            (CgroupOwner{"", ContainerId('a')}));
  EXPECT_EQ(FindCgroupOwner("0::/machine.slice/libpod-" + ContainerId('a') + ".scope/container"),
            (CgroupOwner{"", ContainerId('a')}));
  EXPECT_EQ(FindCgroupOwner("0::/docker/" + ContainerId('c') + "/kubepods/pod" + kUid),
            (CgroupOwner{kUid, ""}))
      << "the container around is the node's";
}

TEST(CgroupOwner, TakesNothingFromOtherPaths) {
  for (const std::string& text : std::vector<std::string>{
           "", "0::/\n", "0::/../..\n", "garbage", "0::/user.slice/user-1000.slice/session-3.scope\n",
           "0::/kubepods.slice/kubepods-podnot-a-uid.slice\n",
           "0::/system.slice/crio-conmon-" + ContainerId('a') + ".scope\n",
           "0::/pods/" + ContainerId('a').substr(1), "0::/x/" + ContainerId('g'),
           "0::/x/y" + ContainerId('a'), "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n"})
    EXPECT_EQ(FindCgroupOwner(text), CgroupOwner{}) << text;
}

TEST(CgroupOwner, ReadsNamesOfLogs) {
  const std::string folder_name = "kube-system_etcd-n1_" + kUid,
                    log_name = "p-0_ml_main-x-" + ContainerId('a') + ".log";
  auto folder = ParsePodLogFolder(folder_name);
  ASSERT_TRUE(folder);
  EXPECT_EQ(folder->name_space, "kube-system");
  EXPECT_EQ(folder->name, "etcd-n1");
  EXPECT_EQ(folder->uid, kUid);
  EXPECT_FALSE(ParsePodLogFolder("a_b"));
  EXPECT_FALSE(ParsePodLogFolder("_b_" + kUid));
  EXPECT_FALSE(ParsePodLogFolder("a_b_" + kUnder));
  auto log = ParseContainerLogName(log_name);
  ASSERT_TRUE(log);
  EXPECT_EQ(log->pod, "p-0");
  EXPECT_EQ(log->name_space, "ml");
  EXPECT_EQ(log->container, "main-x");
  EXPECT_EQ(log->id, ContainerId('a'));
  for (const std::string& bad : std::vector<std::string>{
           "", ".log", "p_n_-" + ContainerId('a') + ".log", "p_n_c" + ContainerId('a') + ".log",
           "p_n_c-" + ContainerId('a'), "p_n_c-" + ContainerId('z') + ".log"})
    EXPECT_FALSE(ParseContainerLogName(bad)) << bad;
  EXPECT_EQ(ContainerIdOf("containerd://" + ContainerId('a')), ContainerId('a'));
  EXPECT_EQ(ContainerIdOf(ContainerId('a')), "");
  EXPECT_EQ(ContainerIdOf("docker://x"), "");
}

// As the kubelet writes it.
std::string Message(const std::function<void(pbf_writer&)>& write) {
  std::string out;
  pbf_writer writer(out);
  write(writer);
  return out;
}

std::string DeviceMessage(const std::string& resource, const std::vector<std::string>& ids) {
  return Message([&](pbf_writer& w) {
    w.add_string(1, resource);
    for (const std::string& id : ids) w.add_string(2, id);
    w.add_message(3, Message([](pbf_writer& t) { t.add_message(1, std::string()); }));  // topology
  });
}

TEST(PodResources, ReadsDevicesAndClaims) {
  std::string claim = Message([](pbf_writer& w) {
    w.add_string(2, "claim");
    w.add_message(4, Message([](pbf_writer& d) {
                    d.add_string(2, "gpu.nvidia.com");
                    d.add_string(3, "n1");
                    d.add_string(4, "gpu-0");
                  }));
  });
  std::string container = Message([&](pbf_writer& w) {
    w.add_string(1, "main");
    w.add_message(2, DeviceMessage("nvidia.com/gpu", {"GPU-1"}));
    w.add_message(2, DeviceMessage("nvidia.com/gpu", {"GPU-2"}));
    w.add_int64(3, 7);  // a CPU, not packed
    w.add_message(5, claim);
  });
  std::string answer = Message([&](pbf_writer& w) {
    w.add_message(1, Message([&](pbf_writer& p) {
                    p.add_string(1, "train");
                    p.add_string(2, "ml");
                    p.add_message(3, container);
                    p.add_message(3, Message([](pbf_writer& c) { c.add_string(1, "sidecar"); }));
                  }));
    w.add_message(1, Message([](pbf_writer& p) { p.add_string(1, "no-devices"); }));
    w.add_string(9, "of a later version");
  });
  auto pods = ParsePodResources(answer);
  ASSERT_TRUE(pods.ok()) << pods.error().detail;
  ASSERT_EQ(pods->size(), 1u);
  EXPECT_EQ((*pods)[0].name_space + "/" + (*pods)[0].name, "ml/train");
  ASSERT_EQ((*pods)[0].containers.size(), 1u);
  const HolderContainer& main = (*pods)[0].containers[0];
  EXPECT_THAT(main.devices, ElementsAre(HeldDevices{"nvidia.com/gpu", {"GPU-1"}},
                                        HeldDevices{"nvidia.com/gpu", {"GPU-2"}}));
  EXPECT_THAT(main.claimed, ElementsAre(ClaimedDevice{"gpu.nvidia.com", "n1", "gpu-0"}));
  EXPECT_TRUE(ParsePodResources("").ok()) << "no pods is an answer";
}

TEST(PodResources, RefusesBadMessages) {
  auto code = [](const std::string& message) { return ParsePodResources(message).status().code; };
  auto pod_named = [](const std::string& name) {
    return Message(
        [&](pbf_writer& w) { w.add_message(1, Message([&](pbf_writer& p) { p.add_string(1, name); })); });
  };
  EXPECT_EQ(code("\x0a\x7fshort"), Code::kDataLoss);
  EXPECT_EQ(code("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), Code::kDataLoss);
  EXPECT_EQ(code(pod_named("\xff\xfe")), Code::kDataLoss);
  EXPECT_EQ(code(pod_named(std::string(2000, 'a'))), Code::kExhausted);
  std::string many;
  for (int i = 0; i < 70'000; ++i) many += std::string("\x0a\x00", 2);
  EXPECT_EQ(code(many), Code::kExhausted);
  EXPECT_EQ(code(std::string(kMostPodResourcesBytes + 1, '\0')), Code::kExhausted);
}

}  // namespace
}  // namespace gpulens::kubelet

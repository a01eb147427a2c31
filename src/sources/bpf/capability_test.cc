#include "sources/bpf/capability.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <span>
#include <vector>

#include "base/files.h"
#include "base/testing/temp_folder.h"

namespace gpulens::bpf {
namespace {

CapabilityProbe Good() {
  CapabilityProbe probe;
  probe.machine = [] {
    return MachineNames{.kernel = "6.18.44",
                        .architecture = "x86_64",
                        .cpu = "Intel(R) Xeon(R) Platinum 8480C",
                        .driver = "570.86.15",
                        .gpus = "NVIDIA H100 80GB HBM3"};
  };
  probe.lockdown = [] { return "[none] integrity confidentiality\n"; };
  probe.load = [] { return 0; };
  probe.btf = [] { return true; };
  probe.attach = [](Mechanism) { return 0; };
  probe.tracepoints = [] { return 0; };
  probe.other_users = [] { return true; };
  return probe;
}

TEST(CapabilityTest, AllWorks) {
  const Capabilities found = FindCapabilities(Good());
  EXPECT_TRUE(found.launches() && found.data_waits);
  EXPECT_EQ(found.mechanism, Mechanism::kSession);
  EXPECT_EQ(found.trouble(), "");
  EXPECT_EQ(found.rows.size(), 6u);
}

// One sentence for each thing that is missing, and the rest as it is.
TEST(CapabilityTest, NoRights) {
  CapabilityProbe probe = Good();
  probe.load = [] { return EPERM; };
  const Capabilities found = FindCapabilities(probe);
  EXPECT_FALSE(found.launches() || found.data_waits);
  EXPECT_EQ(found.trouble(), "no right to load programs: CAP_BPF and CAP_PERFMON are needed");
}

TEST(CapabilityTest, Lockdown) {
  for (int error : {0, EPERM}) {
    CapabilityProbe probe = Good();
    probe.load = [error] { return error; };
    probe.lockdown = [] { return "none integrity [confidentiality]\n"; };
    const Capabilities found = FindCapabilities(probe);
    EXPECT_FALSE(found.launches() || found.data_waits);
    EXPECT_EQ(found.trouble(), "the kernel is locked down (confidentiality): it refuses programs that trace");
  }
  CapabilityProbe probe = Good();
  probe.lockdown = [] { return "none [integrity] confidentiality\n"; };
  EXPECT_TRUE(FindCapabilities(probe).launches());
}

TEST(CapabilityTest, NoTypes) {
  CapabilityProbe probe = Good();
  probe.btf = [] { return false; };
  const Capabilities found = FindCapabilities(probe);
  EXPECT_FALSE(found.launches() || found.data_waits);
  EXPECT_NE(found.trouble().find("CONFIG_DEBUG_INFO_BTF"), std::string_view::npos);
}

TEST(CapabilityTest, NoUprobes) {
  CapabilityProbe probe = Good();
  probe.attach = [](Mechanism) { return ENOENT; };
  const Capabilities found = FindCapabilities(probe);
  EXPECT_FALSE(found.launches());
  EXPECT_TRUE(found.data_waits);  // needs none
  EXPECT_NE(found.trouble().find("CONFIG_UPROBES"), std::string_view::npos);
}

TEST(CapabilityTest, OlderKernelsCount) {
  CapabilityProbe probe = Good();
  const auto kernel = [&](const char* release) {
    probe.machine = [release] {
      MachineNames names;
      names.kernel = release;
      return names;
    };
  };
  kernel("6.8.0-1012-nvidia-64k");
  probe.attach = [](Mechanism one) { return one == Mechanism::kSession ? EINVAL : 0; };
  Capabilities found = FindCapabilities(probe);
  EXPECT_EQ(found.mechanism, Mechanism::kMulti);
  EXPECT_EQ(found.kernel, (KernelVersion{6, 8}));
  EXPECT_EQ(found.trouble(), "");
  probe.attach = [](Mechanism one) { return one == Mechanism::kPerfEvent ? 0 : EINVAL; };
  EXPECT_EQ(FindCapabilities(probe).mechanism, Mechanism::kPerfEvent);
  kernel("5.14.0-503.el9");
  EXPECT_EQ(FindCapabilities(probe).trouble(), "Linux is older than 5.15");
}

TEST(CapabilityTest, OtherUsers) {
  CapabilityProbe probe = Good();
  probe.other_users = [] { return false; };
  const Capabilities found = FindCapabilities(probe);
  EXPECT_TRUE(found.launches());
  EXPECT_NE(found.trouble().find("CAP_SYS_PTRACE"), std::string_view::npos);
}

TEST(CapabilityTest, AMachineThatARowNamesIsLeftAlone) {
  CapabilityProbe probe = Good();
  int tried = 0;
  probe.load = [&] { return ++tried, 0; };
  std::vector<MachineRefusal> rows(2);
  rows[0].driver = "570.8";  // another version: a number is whole
  rows[1].driver = "570.86", rows[1].cpu = "8480C", rows[1].why = "ticket 17";
  const Capabilities found = FindCapabilities(probe, rows);
  EXPECT_FALSE(found.launches() || found.data_waits);
  EXPECT_EQ(found.trouble(), "ticket 17");
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_EQ(found.rows[0].name, "machine");
  EXPECT_EQ(tried, 0);
  rows[1].gpu = "GB200";  // all conditions must be met
  EXPECT_TRUE(FindCapabilities(probe, rows).launches());
  EXPECT_EQ(tried, 1);
}

TEST(MachineRefusalTest, Conditions) {
  const MachineNames machine = Good().machine();
  const auto meets = [&](const MachineRefusal& row) {
    return FindMachineRefusal(machine, std::span(&row, 1)) != nullptr;
  };
  EXPECT_FALSE(meets({})) << "a row without a condition would refuse every machine";
  EXPECT_TRUE(meets({.driver = "570", .kernel = {}, .cpu = {}, .gpu = {}, .why = {}}));
  EXPECT_FALSE(meets({.driver = "57", .kernel = {}, .cpu = {}, .gpu = {}, .why = {}}));
  EXPECT_TRUE(meets({.driver = {}, .kernel = "6.18", .cpu = "x86_64", .gpu = "H100", .why = {}}));
  EXPECT_FALSE(meets({.driver = {}, .kernel = "6.1", .cpu = {}, .gpu = {}, .why = {}}));
  EXPECT_FALSE(meets({.driver = {}, .kernel = {}, .cpu = "aarch64", .gpu = {}, .why = {}}));
}

TEST(MachineNamesTest, AreReadFromProc) {
  const testing::TempFolder folder;
  MachineNames names = ReadMachineNames(folder.path());
  EXPECT_FALSE(names.kernel.empty() || names.architecture.empty());
  EXPECT_EQ(names.cpu + names.driver + names.gpus, "");
  for (const char* gpu : {"0008:01:00.0", "0009:01:00.0"})
    ASSERT_TRUE(MakeFoldersAbove(folder.path() + "/driver/nvidia/gpus/" + gpu + "/information"));
  folder.Write("cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n");
  folder.Write("driver/nvidia/version",
               "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  570.86.15  Release Build\n"
               "GCC version:  gcc version 12.2.0\n");
  for (const char* gpu : {"0008:01:00.0", "0009:01:00.0"})
    folder.Write(std::string("driver/nvidia/gpus/") + gpu + "/information",
                 "Model: \t\t NVIDIA GB200\nIRQ:   \t\t 17\n");
  names = ReadMachineNames(folder.path());
  EXPECT_EQ(names.cpu, "0x41 0xd4f");
  EXPECT_EQ(names.driver, "570.86.15");
  EXPECT_EQ(names.gpus, "NVIDIA GB200");
  folder.Write("cpuinfo", "processor\t: 0\nmodel name\t: AMD EPYC 9654\n");
  EXPECT_EQ(ReadMachineNames(folder.path()).cpu, "AMD EPYC 9654");
}

TEST(KernelVersionTest, Releases) {
  EXPECT_EQ(ParseKernelVersion("6.1.0-18-amd64"), (KernelVersion{6, 1}));
  EXPECT_EQ(ParseKernelVersion("5.15"), (KernelVersion{5, 15}));
  EXPECT_EQ(ParseKernelVersion("x"), KernelVersion{});
  EXPECT_EQ(ParseKernelVersion(""), KernelVersion{});
  EXPECT_EQ(ParseKernelVersion("6."), KernelVersion{});
}

}  // namespace
}  // namespace gpulens::bpf

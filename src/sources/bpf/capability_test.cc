#include "sources/bpf/capability.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace gpulens::bpf {
namespace {

CapabilityProbe Good() {
  CapabilityProbe probe;
  probe.release = [] { return "6.18.44"; };
  probe.architecture = [] { return "x86_64"; };
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
  probe.release = [] { return "6.8.0-1012-nvidia-64k"; };
  probe.attach = [](Mechanism one) { return one == Mechanism::kSession ? EINVAL : 0; };
  Capabilities found = FindCapabilities(probe);
  EXPECT_EQ(found.mechanism, Mechanism::kMulti);
  EXPECT_EQ(found.kernel, (KernelVersion{6, 8}));
  EXPECT_EQ(found.trouble(), "");
  probe.attach = [](Mechanism one) { return one == Mechanism::kPerfEvent ? 0 : EINVAL; };
  EXPECT_EQ(FindCapabilities(probe).mechanism, Mechanism::kPerfEvent);
  probe.release = [] { return "5.14.0-503.el9"; };
  EXPECT_EQ(FindCapabilities(probe).trouble(), "Linux is older than 5.15");
}

TEST(CapabilityTest, OtherUsers) {
  CapabilityProbe probe = Good();
  probe.other_users = [] { return false; };
  const Capabilities found = FindCapabilities(probe);
  EXPECT_TRUE(found.launches());
  EXPECT_NE(found.trouble().find("CAP_SYS_PTRACE"), std::string_view::npos);
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

#include "sources/kernel_log/parse/notice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/files.h"
#include "sources/kernel_log/parse/log_line.h"

namespace gpulens::kernel_log {
namespace {

using ::testing::Optional;

struct XidLine {
  std::string_view text;
  uint32_t code;
  std::string_view bus, process;
  int64_t pid;  // 0: unknown
};

// As drivers from R300 to R590 write them.
constexpr XidLine kXidLines[] = {
    {"NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.", 79,
     "0000:3b:00.0", "python3", 1234},
    {"NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", 79, "0000:3b:00.0", "", 0},
    {"NVRM: Xid (0000:03:00): 31, Ch 0000001c, engmask 00000101, intr 10000000", 31, "0000:03:00.0", "", 0},
    {"NVRM: Xid (0003:00): 13, 0001 00000000 000090c0 00001b0c 00000000 00000000", 13, "0000:03:00.0", "", 0},
    {"NVRM: Xid (PCI:0000:86:00): 31, pid=88, name=ray::IDLE, Ch 00000008, intr 10000000. MMU Fault: ENGINE",
     31, "0000:86:00.0", "ray::IDLE", 88},
    {"NVRM: Xid (PCI:0000:86:00): 45, pid='<unknown>', name=<unknown>, Ch 0000000b", 45, "0000:86:00.0", "",
     0},
    {"NVRM: Xid (PCI:0000:86:00): 45, pid=<unknown>, name=<unknown>, channel 0x00000002", 45, "0000:86:00.0",
     "", 0},
    {"NVRM: Xid (PCI:0000:0f:00 GPU-I:05): 13, pid=77, name=a, Graphics SM Warp Exception", 13,
     "0000:0f:00.0", "a", 77},
    {"NVRM: Xid (PCI:0000:0f:00 GPU-I:05 GPU-CI:00): 43, pid=77, name=my app, Ch 00000010", 43,
     "0000:0f:00.0", "my app", 77},
    {"NVRM: Xid (PCI:0000:0f:00): 43, pid=77, name=my prog, v2, Ch 00000010", 43, "0000:0f:00.0",
     "my prog, v2", 77},
    {"NVRM: Xid (PCI:0000:0f:00): 45, pid=77, name=a, b, channel 0x00000002", 45, "0000:0f:00.0", "a, b", 77},
    {"NVRM: Xid (PCI:0001:4e:00): 119, pid=9, name=nvidia-smi, Timeout after 6s of waiting for RPC response",
     119, "0001:4e:00.0", "nvidia-smi", 9},
    {"NVRM: Xid (PCI:0000:4e:00): 149, NETIR_LINK_EVT  Fatal XC0 i0 Link 08 (0x004505c6 0x00000000)", 149,
     "0000:4e:00.0", "", 0},
    {"NVRM: Xid (PCI:0018:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot "
     "Required)",
     154, "0018:01:00.0", "", 0},
    {"NVRM: Xid (PCI:0000:9d:00): 63, pid=, name=, Row Remapper: New row marked for remapping", 63,
     "0000:9d:00.0", "", 0},
    {"NVRM: Xid (PCI:0000:9d:00): 48, An uncorrectable double bit error (DBE) has been detected", 48,
     "0000:9d:00.0", "", 0},
};

TEST(Notice, XidsOfAllDrivers) {
  for (const XidLine& line : kXidLines) {
    auto notice = ParseMessage(line.text);
    ASSERT_TRUE(notice) << line.text;
    EXPECT_EQ(notice->kind, NoticeKind::kXid);
    EXPECT_THAT(notice->code, Optional(line.code)) << line.text;
    EXPECT_EQ(notice->pci->ToString(), line.bus) << line.text;
    EXPECT_EQ(notice->process, line.process) << line.text;
    EXPECT_EQ(notice->pid.value_or(0), line.pid) << line.text;
  }
}

TEST(Notice, TheDriversOwnOrder) {
  auto order = [](const char* words) {
    auto notice = ParseMessage(
        std::string("NVRM: Xid (PCI:0018:01:00): 154, GPU recovery action changed from ") + words);
    return notice ? std::string(notice->action) : "no notice";
  };
  EXPECT_EQ(order("0x0 (None) to 0x1 (GPU Reset Required)"), "reset_gpu");
  EXPECT_EQ(order("0x0 (None) to 0x1 (PF FLR)"), "reset_gpu") << "other words, the same number";
  EXPECT_EQ(order("0x0 (None) to 0x2 (OS Reboot)"), "reboot");
  EXPECT_EQ(order("0x0 (None) to 0x3 (Drain P2P)"), "drain");
  EXPECT_EQ(order("0x2 (Node Reboot Required) to 0x0 (None)"), "none");
  EXPECT_EQ(order("0x0 (None) to 0x7 (Something New)"), "contact_vendor");
  EXPECT_EQ(order("0x0 (None) to 0x (cut"), "") << "no order that could be read";
  EXPECT_EQ(order("0x0"), "");
}

TEST(Notice, LinksAndSubCodesOfNvlinkXids) {
  auto of = [](std::string_view text) {
    return ParseMessage("NVRM: Xid (PCI:0009:01:00): " + std::string(text)).value();
  };
  KernelNotice fatal = of("149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 14 (0x025001c6 0x00000000 0x00000000)");
  EXPECT_THAT(fatal.link, Optional(14u));
  EXPECT_THAT(fatal.sub_code, Optional(37u));
  EXPECT_EQ(fatal.grade, ErrorGrade::kFatal);
  KernelNotice mild = of("145, RLW_CTRL Nonfatal XC1 i0 Link 13 (0x00000004 0x00000001)");
  EXPECT_THAT(mild.link, Optional(13u));
  EXPECT_THAT(mild.sub_code, Optional(0u));
  EXPECT_EQ(mild.grade, ErrorGrade::kNonFatal);
  KernelNotice older =
      of("74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 6(0x0, 0x0, 0x10000)");
  EXPECT_THAT(older.link, Optional(6u));
  EXPECT_FALSE(older.sub_code);
  KernelNotice none = of("149, NETIR_LINK_EVT Fatal XC0 i0 Link -1 (0xzz");
  EXPECT_FALSE(none.link);
  EXPECT_FALSE(none.sub_code);
  EXPECT_FALSE(of("31, Ch 00000008 Link 3 (0x025001c6)").link) << "no link speaks here";
}

TEST(Notice, AnInjectedLineHasThePrefixTwice) {
  auto notice = ParseMessage("NVRM: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.");
  ASSERT_TRUE(notice);
  EXPECT_THAT(notice->code, Optional(79u));
}

TEST(Notice, TextsThatLookLikeAnXidAreIgnored) {
  for (std::string_view text :
       {"NVRM: Xid (PCI:0000:3b:00)", "NVRM: Xid (PCI:0000:3b:00): ", "NVRM: Xid (PCI:0000:3b:00): x, y",
        "NVRM: Xid (PCI:0000:3b:00): 0, zero is none", "NVRM: Xid (PCI:0000:3b:00): 4096, too large",
        "NVRM: Xid (PCI:0000:3b:00): 99999999999999999999, overflow", "NVRM: Xid (): 79, nowhere",
        "NVRM: Xid (PCI:zz:00): 79, no address", "NVRM: Xid (PCI:0000:3b:00 79, never closed",
        "NVRM: Xid (PCI:0000:3b:00): 79x, no number", "echo NVRM: Xid (PCI:0000:3b:00): 79, quoted",
        "NVRM: xid (PCI:0000:3b:00): 79, small", "NVRM: GPU at PCI:0000:3b:00: GPU-2a1e"}) {
    EXPECT_FALSE(ParseMessage(text)) << text;
  }
}

TEST(Notice, GpusThatAreGone) {
  for (std::string_view text : {"NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.",
                                "NVRM: GPU at 0000:3b:00.0 has fallen off the bus.",
                                "NVRM: The NVIDIA GPU 0000:3b:00.0\nNVRM: (PCI ID: 10de:2330) installed in "
                                "this system has\nNVRM: fallen off "
                                "the bus and is not responding to commands."}) {
    auto notice = ParseMessage(text);
    ASSERT_TRUE(notice) << text;
    EXPECT_EQ(notice->kind, NoticeKind::kGpuLost);
    EXPECT_EQ(notice->pci->ToString(), "0000:3b:00.0");
    EXPECT_EQ(notice->facts, "nvidia.fallen_off_bus");
  }
  EXPECT_FALSE(ParseMessage("NVRM: fallen off the bus and is not responding to commands.")) << "which one?";
}

TEST(Notice, Switches) {
  auto fatal =
      ParseMessage("nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 30 LTSSM Fault Up");
  ASSERT_TRUE(fatal);
  EXPECT_EQ(fatal->kind, NoticeKind::kSxid);
  EXPECT_EQ(fatal->grade, ErrorGrade::kFatal);
  EXPECT_THAT(fatal->code, Optional(20034u));
  EXPECT_THAT(fatal->link, Optional(30u));
  EXPECT_EQ(fatal->pci->ToString(), "0000:86:00.0");
  auto mild = ParseMessage(
      "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 24007, Non-fatal, Link 46 sourcetrack timeout error "
      "(First)");
  ASSERT_TRUE(mild);
  EXPECT_EQ(mild->grade, ErrorGrade::kNonFatal);
  // The lines that follow an error report no new one.
  EXPECT_FALSE(
      ParseMessage("nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 20034, Severity 1 Engine instance 30"));
  EXPECT_FALSE(ParseMessage("nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 20034, Data {0x00000001}"));
  EXPECT_FALSE(ParseMessage("nvidia-nvswitch2: open (major=510)"));
}

TEST(Notice, NvlinkFailures) {
  auto fatal = ParseMessage("NVRM: GPU 0000:3b:00.0: NVLink: fatal error detected on link 3(0x0, 0x1, 0x0)");
  ASSERT_TRUE(fatal);
  EXPECT_EQ(fatal->kind, NoticeKind::kLinkFailure);
  EXPECT_THAT(fatal->link, Optional(3u));
  EXPECT_EQ(fatal->pci->ToString(), "0000:3b:00.0");
  auto training = ParseMessage("NVRM: NVLink: Failed to train link 11 to remote PCI:0000:86:00");
  ASSERT_TRUE(training);
  EXPECT_EQ(training->type, "training");
  EXPECT_FALSE(training->pci) << "the remote end is not the GPU that speaks";
}

TEST(Notice, AmdErrorsByBlock) {
  struct {
    std::string_view text;
    ErrorGrade grade;
    std::string_view block;
    uint32_t count;
  } const kLines[] = {
      {"amdgpu 0000:c1:00.0: amdgpu: 3 correctable hardware errors detected in umc block, no user action is "
       "needed.",
       ErrorGrade::kCorrected, "umc", 3},
      {"amdgpu 0000:c1:00.0: amdgpu: socket: 0, die: 0 1 new uncorrectable hardware errors detected in gfx "
       "block",
       ErrorGrade::kFatal, "gfx", 1},
      {"amdgpu 0000:c1:00.0: amdgpu: {12}socket: 4 7 new correctable hardware errors detected in xgmi_wafl "
       "block",
       ErrorGrade::kCorrected, "xgmi_wafl", 7},
      {"amdgpu 0000:c1:00.0: amdgpu: socket: 0, die: 0, 2 new deferred hardware errors detected in umc block",
       ErrorGrade::kDeferred, "umc", 2},
  };
  for (const auto& line : kLines) {
    auto notice = ParseMessage(line.text);
    ASSERT_TRUE(notice) << line.text;
    EXPECT_EQ(notice->kind, NoticeKind::kRas);
    EXPECT_EQ(notice->grade, line.grade) << line.text;
    EXPECT_EQ(notice->type, line.block);
    EXPECT_THAT(notice->count, Optional(line.count));
    EXPECT_EQ(notice->driver, "amdgpu");
  }
  for (std::string_view text :
       {"amdgpu 0000:c1:00.0: amdgpu: no uncorrectable hardware errors detected in umc block",
        "amdgpu 0000:c1:00.0: amdgpu: 1048560 uncorrectable hardware errors detected in umc block",
        "amdgpu 0000:c1:00.0: amdgpu: {12}socket: 4 19 correctable hardware errors detected in total in umc "
        "block",
        "amdgpu 0000:c1:00.0: amdgpu: 0 correctable hardware errors detected in umc block",
        "amdgpu: 0 correctable hardware errors detected in umc block",
        "amdgpu 0000:c1:00.0: amdgpu: SMU is initialized successfully!"}) {
    EXPECT_FALSE(ParseMessage(text)) << text;
  }
}

TEST(Notice, AnOldAmdDriverNamesNoDevice) {
  auto notice = ParseMessage("amdgpu: 3 uncorrectable hardware errors detected in UMC block");
  ASSERT_TRUE(notice);
  EXPECT_EQ(notice->kind, NoticeKind::kRas);
  EXPECT_FALSE(notice->pci);
  EXPECT_EQ(notice->type, "UMC");
  EXPECT_THAT(notice->count, Optional(3u));
}

TEST(Notice, DriversAndLibrariesThatFailWithoutACode) {
  struct {
    std::string_view text, facts, bus, process;
    int64_t pid;  // 0: none
  } const kLines[] = {
      {"nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further "
       "processing",
       "nvidia.peermem_context", "", "", 0},
      {"pt_main_thread[2536443]: segfault at 7f797fe00000 ip 00007f7c7ac69996 sp 00007f7c12fd7c30 error 4 in "
       "libnccl.so.2[7f7c7ac00000+d3d3000]",
       "nccl.segfault", "", "pt_main_thread", 2536443},
      {"a[b][77]: segfault at 0 ip 0 sp 0 error 4 in libnccl.so.2[0+1]", "nccl.segfault", "", "a[b]", 77},
      {"amdgpu 0000:c1:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=14, emitted seq=16",
       "amdgpu.ring_timeout", "0000:c1:00.0", "", 0},
      {"[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, signaled seq=1, emitted seq=2",
       "amdgpu.ring_timeout", "", "", 0},
      {"amdgpu 0000:c1:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:3 pasid:32770, for "
       "process python3 pid 1234 thread python3 pid 1240)",
       "amdgpu.page_fault", "0000:c1:00.0", "python3", 1234},
      {"amdgpu 0000:c1:00.0: [mmhub0] page fault (src_id:0 ring:24 vmid:3 pasid:0)", "amdgpu.page_fault",
       "0000:c1:00.0", "", 0},
      {"NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x62:0x40:2393)", "nvidia.init_failed", "0000:3b:00.0",
       "", 0},
      {"NVRM: RmInitAdapter failed! (0x26:0xffff:1227)", "nvidia.init_failed", "", "", 0},
  };
  for (const auto& line : kLines) {
    auto notice = ParseMessage(line.text);
    ASSERT_TRUE(notice) << line.text;
    EXPECT_EQ(notice->kind, NoticeKind::kDriverFault) << line.text;
    EXPECT_EQ(notice->facts, line.facts) << line.text;
    EXPECT_EQ(notice->pci ? notice->pci->ToString() : "", line.bus) << line.text;
    EXPECT_EQ(notice->process, line.process) << line.text;
    EXPECT_EQ(notice->pid.value_or(0), line.pid) << line.text;
  }
  for (std::string_view text : {"python3[12]: segfault at 0 ip 0 sp 0 error 4 in libc.so.6[0+1]",
                                "python3: segfault at 0 ip 0 sp 0 error 4 in libnccl.so.2[0+1]",
                                "python3[-1]: segfault at 0 ip 0 sp 0 error 4 in libnccl.so.2[0+1]",
                                "nvidia-peermem nv_mem_client_init:500 registered",
                                "amdgpu 0000:c1:00.0: amdgpu: ring gfx uses VM inv",
                                "amdgpu somewhere: amdgpu: ring gfx_0.0.0 timeout, signaled seq=14",
                                "NVRM: rm_init_adapter failed"}) {
    EXPECT_FALSE(ParseMessage(text)) << text;
  }
}

TEST(NoticeReader, TheThreeLinesOfAGpuThatHasFallenOffTheBus) {
  constexpr std::string_view kFirst = "NVRM: The NVIDIA GPU 0000:3b:00.0",
                             kSecond = "NVRM: (PCI ID: 10de:2330) installed in this system has",
                             kThird = "NVRM: fallen off the bus and is not responding to commands.";
  NoticeReader reader;
  EXPECT_FALSE(reader.Read(kFirst));
  EXPECT_FALSE(reader.Read(kSecond));
  auto lost = reader.Read(kThird);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->kind, NoticeKind::kGpuLost);
  EXPECT_EQ(lost->pci->ToString(), "0000:3b:00.0");
  EXPECT_EQ(lost->facts, "nvidia.fallen_off_bus");
  EXPECT_FALSE(reader.Read(kThird)) << "which one is known once";
  // Lines in between are ignored; a last line that comes much later is about another GPU.
  EXPECT_FALSE(reader.Read(kFirst));
  EXPECT_TRUE(reader.Read("NVRM: Xid (PCI:0000:86:00): 31, Ch 00000008"));
  EXPECT_TRUE(reader.Read(kThird));
  EXPECT_FALSE(reader.Read(kFirst));
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(reader.Read("usb 1-1: new device"));
  EXPECT_FALSE(reader.Read(kThird));
  EXPECT_FALSE(reader.Read("NVRM: The NVIDIA GPU nowhere"));
  EXPECT_FALSE(reader.Read(kThird)) << "an address that is none";
}

TEST(Notice, AmdGpusThatAreTooHot) {
  struct {
    std::string_view text, what;
  } const kLines[] = {
      {"amdgpu 0000:c1:00.0: amdgpu: ERROR: GPU over temperature range(SW CTF) detected!", "trip"},
      {"amdgpu 0000:c1:00.0: amdgpu: ERROR: GPU HW Critical Temperature Fault(aka CTF) detected!",
       "shutdown"},
      {"amdgpu 0000:c1:00.0: ERROR: GPU over temperature range(SW CTF) detected!", "trip"},
  };
  for (const auto& line : kLines) {
    auto notice = ParseMessage(line.text);
    ASSERT_TRUE(notice) << line.text;
    EXPECT_EQ(notice->kind, NoticeKind::kGpuHot);
    EXPECT_EQ(notice->type, line.what);
    EXPECT_TRUE(notice->pci);
  }
  EXPECT_FALSE(ParseMessage("amdgpu 0000:c1:00.0: amdgpu: ERROR: GPU under temperature range detected!"));
}

TEST(Notice, ResetsAndPoison) {
  EXPECT_EQ(ParseMessage("amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!")->kind, NoticeKind::kGpuReset);
  EXPECT_EQ(ParseMessage("amdgpu 0000:c1:00.0: amdgpu: Poison is created")->grade, ErrorGrade::kDeferred);
  EXPECT_EQ(
      ParseMessage("amdgpu 0000:c1:00.0: amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) "
                   "detected!")
          ->facts,
      "amdgpu.ras.athub_fatal");
  auto gaudi = ParseMessage("habanalabs 0000:19:00.0: Going to reset device");
  ASSERT_TRUE(gaudi);
  EXPECT_EQ(gaudi->kind, NoticeKind::kGpuReset);
  EXPECT_EQ(gaudi->driver, "habanalabs");
}

TEST(Notice, PcieErrorReports) {
  auto corrected = ParseMessage(
      "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)");
  ASSERT_TRUE(corrected);
  EXPECT_EQ(corrected->kind, NoticeKind::kPcieError);
  EXPECT_EQ(corrected->grade, ErrorGrade::kCorrected);
  EXPECT_EQ(corrected->type, "physical");
  EXPECT_EQ(corrected->driver, "nvidia");
  auto nonfatal = ParseMessage(
      "pcieport 0000:00:03.1: AER: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, "
      "(Requester "
      "ID)");
  ASSERT_TRUE(nonfatal);
  EXPECT_EQ(nonfatal->grade, ErrorGrade::kNonFatal);
  EXPECT_EQ(nonfatal->type, "transaction");
  EXPECT_EQ(
      ParseMessage(
          "amdgpu 0000:c1:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Data Link Layer, ()")
          ->grade,
      ErrorGrade::kFatal);
  EXPECT_FALSE(ParseMessage("nvidia 0000:3b:00.0: PCIe Bus Error: severity=Odd, type=Physical Layer"));
  EXPECT_FALSE(ParseMessage("nvidia somewhere: PCIe Bus Error: severity=Corrected, type=Physical Layer"));
}

TEST(Notice, OomKills) {
  auto scope = ParseMessage(
      "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=c,mems_allowed=0-1,oom_memcg=/kubepods/"
      "pod1,"
      "task_memcg=/kubepods/pod1/c0,task=python3,pid=4242,uid=0");
  ASSERT_TRUE(scope);
  EXPECT_EQ(scope->kind, NoticeKind::kOomScope);
  EXPECT_EQ(scope->cgroup, "/kubepods/pod1/c0");
  EXPECT_THAT(scope->pid, Optional(4242));
  auto kill = ParseMessage(
      "Memory cgroup out of memory: Killed process 4242 (python3) total-vm:1024kB, anon-rss:512kB, UID:0");
  ASSERT_TRUE(kill);
  EXPECT_EQ(kill->kind, NoticeKind::kOomKill);
  EXPECT_EQ(kill->process, "python3");
  EXPECT_EQ(ParseMessage("Out of memory: Killed process 7 (a (b) c) total-vm:8kB, anon-rss:4kB")->process,
            "a (b) c");
  EXPECT_FALSE(ParseMessage("Out of memory: Kill process 7 (a) score 900 or sacrifice child"))
      << "not yet killed";
  EXPECT_FALSE(ParseMessage("python3 invoked oom-killer: gfp_mask=0x100cca"));
}

TEST(Notice, HardwareOfTheHost) {
  struct {
    std::string_view text, type;
    ErrorGrade grade;
  } const kLines[] = {
      {"mce: [Hardware Error]: CPU 1: Machine Check Exception: 5 Bank 3: be00000000800400", "mce",
       ErrorGrade::kFatal},
      {"[Hardware Error]: Corrected error, no action required.", "mce", ErrorGrade::kCorrected},
      {"{1}[Hardware Error]: event severity: recoverable", "mce", ErrorGrade::kRecoverable},
      {"mce: [Hardware Error]: Machine check events logged", "mce", ErrorGrade::kUnknown},
      {"EDAC MC0: 1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0", "edac", ErrorGrade::kCorrected},
      {"EDAC MC12: 2 UE memory scrubbing error on any memory", "edac", ErrorGrade::kRecoverable},
      {"nvme nvme0: I/O 12 QID 3 timeout, aborting", "nvme", ErrorGrade::kRecoverable},
      {"nvme nvme1: Disabling device after reset failure: -19", "nvme", ErrorGrade::kFatal},
      {"critical medium error, dev nvme0n1, sector 4711 op 0x0:(READ)", "nvme", ErrorGrade::kUnknown},
      {"thermal thermal_zone0: critical temperature reached, shutting down", "thermal", ErrorGrade::kFatal},
      {"mce: CPU3: Core temperature above threshold, cpu clock throttled (total events = 1)", "thermal",
       ErrorGrade::kRecoverable},
  };
  for (const auto& line : kLines) {
    auto notice = ParseMessage(line.text);
    ASSERT_TRUE(notice) << line.text;
    EXPECT_EQ(notice->kind, NoticeKind::kHardware);
    EXPECT_EQ(notice->type, line.type) << line.text;
    EXPECT_EQ(notice->grade, line.grade) << line.text;
  }
  EXPECT_FALSE(ParseMessage("EDAC MC0: Giving out device to module sb_edac.c"));
  EXPECT_FALSE(ParseMessage("[Hardware Error]:   section_type: PCIe error"));
  EXPECT_FALSE(ParseMessage("nvme nvme0: 16/0/0 default/read/poll queues"));
}

TEST(Notice, TextForPeopleHasNoControlBytes) {
  EXPECT_EQ(CleanText(" a\x1b[31mred\x07 \n"), "a\\x1b[31mred\\x07");
  EXPECT_LE(CleanText(std::string(100'000, '\x01')).size(), 1000u);
}

// The number of notices in a file, by kind.
std::map<NoticeKind, int> CountFile(const std::string& path) {
  std::map<NoticeKind, int> counts;
  auto text = ReadFile(path, 4 << 20);
  EXPECT_TRUE(text.ok()) << path;
  std::string_view rest = *text;
  std::string scratch;
  LogLine line;
  NoticeReader reader;
  while (!rest.empty()) {
    if (!ParseLogLine(TakeUntil(rest, '\n'), scratch, line)) continue;
    if (auto notice = reader.Read(line.text)) ++counts[notice->kind];
  }
  return counts;
}

// Each of these holds nothing that may be believed.
TEST(Notice, NamedBadInputs) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(
           GPULENS_SOURCE_DIR "/src/sources/kernel_log/parse/testdata/invalid")) {
    ++files;
    EXPECT_TRUE(CountFile(entry.path().string()).empty()) << entry.path();
  }
  EXPECT_GE(files, 8u);
}

TEST(Notice, AGoodFileOfEveryForm) {
  auto counts = CountFile(GPULENS_SOURCE_DIR "/src/sources/kernel_log/parse/testdata/forms.log");
  EXPECT_EQ(counts[NoticeKind::kXid], 9)
      << "kmsg, dmesg, dmesg -x, two syslogs, journalctl, <4>, journalctl -o json with text and with bytes";
  EXPECT_EQ(counts[NoticeKind::kGpuLost], 1) << "in three lines";
  EXPECT_EQ(counts[NoticeKind::kDriverFault], 1);
  EXPECT_EQ(counts[NoticeKind::kSxid], 1);
  EXPECT_EQ(counts[NoticeKind::kOomKill], 1);
}

TEST(Notice, Captures) {
  const std::string folder = "../shared/fixtures/kernel-logs/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "captures not here";
  // A healthy start of a machine with switches, complaints of peermem, and crashes in a library.
  EXPECT_TRUE(CountFile(folder + "gpud_kmsg_kmsg.1.log").empty());
  for (const char* name : {"gpud_kmsg_kmsg.2.peermem.log", "gpud_nccl_dmesg.decode.iso.log"}) {
    auto counts = CountFile(folder + name);
    EXPECT_EQ(counts.size(), 1u) << name;
    EXPECT_GE(counts[NoticeKind::kDriverFault], 2) << name;
  }
  std::string scratch;
  LogLine line;
  size_t records = 0;
  auto text = ReadFile(folder + "gpud_kmsg_kmsg.1.log");
  std::string_view rest = *text;
  while (!rest.empty()) records += ParseLogLine(TakeUntil(rest, '\n'), scratch, line);
  EXPECT_EQ(records, 47u) << "every one is a record of the kernel";
}

}  // namespace
}  // namespace gpulens::kernel_log

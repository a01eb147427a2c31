#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "agent/status/agent_watch.h"
#include "agent/status/status_report.h"
#include "base/testing/temp_folder.h"
#include "catalog/gpu.h"
#include "catalog/ledger.h"
#include "catalog/self.h"
#include "core/frame_writer.h"

namespace gpulens {
namespace {

using gpulens::testing::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(StatusReport, ReadsBackWhatItWrote) {
  StatusReport report;
  report.pid = 17;
  report.user = "gpulens";
  report.version = "0.1.0";
  report.state_dir = "/var/lib/gpulens";
  report.simulated = true;
  report.sinks = {"otlp", "otlp/b"};
  report.sandbox.mode = "enforce";
  report.sandbox.processes = {{"agent", 17, {{"files", true, "Landlock"}, {"core dumps", false, "\"\n"}}},
                              {"reader nvml", 18, {}}};
  report.findings = {{Finding::kBroken, "GPU 3", "is failed", "gpu_lost: \"gone\"\n", "gpulens events"},
                     {Finding::kWarning, "sink otlp", "waits", "", ""}};
  std::string json = StatusJson(report);
  EXPECT_EQ(json.find('\n'), json.npos) << "one line, for the control socket";
  auto read = ParseStatus(json);
  ASSERT_TRUE(read.ok()) << read.error().detail;
  EXPECT_EQ(read->pid, 17);
  EXPECT_EQ(read->user, "gpulens");
  EXPECT_EQ(read->state_dir, "/var/lib/gpulens");
  EXPECT_TRUE(read->simulated);
  EXPECT_THAT(read->sinks, ElementsAre("otlp", "otlp/b"));
  EXPECT_EQ(read->sandbox.mode, "enforce");
  ASSERT_THAT(read->sandbox.processes, SizeIs(2));
  EXPECT_EQ(read->sandbox.processes[1].name, "reader nvml");
  EXPECT_EQ(read->sandbox.processes[1].pid, 18);
  ASSERT_THAT(read->sandbox.processes[0].layers, SizeIs(2));
  EXPECT_TRUE(read->sandbox.processes[0].layers[0].on);
  EXPECT_FALSE(read->sandbox.processes[0].layers[1].on);
  EXPECT_EQ(read->sandbox.processes[0].layers[1].detail, "\"\n");
  ASSERT_THAT(read->findings, SizeIs(2));
  EXPECT_EQ(read->findings[0].kind, Finding::kBroken);
  EXPECT_EQ(read->findings[0].why, "gpu_lost: \"gone\"\n");
  EXPECT_EQ(read->findings[1].kind, Finding::kWarning);
}

TEST(StatusReport, RefusesOtherJson) {
  for (const char* bad : {"", "[]", "{}", "{\"schema\":\"gpulens.status/2\"}", "<html>", "{\"schema\":1}"})
    EXPECT_FALSE(ParseStatus(bad).ok()) << bad;
  auto odd = ParseStatus("{\"schema\":\"gpulens.status/1\",\"findings\":[{\"kind\":\"new\"},7]}");
  ASSERT_TRUE(odd.ok());
  ASSERT_THAT(odd->findings, SizeIs(2));
  EXPECT_EQ(odd->findings[0].kind, Finding::kWarning) << "a kind that we do not know is not called fine";
}

std::vector<Finding::Kind> KindsOf(const SandboxReport& report) {
  std::vector<Finding::Kind> kinds;
  for (const Finding& finding : SandboxFindings(report, "0.2.0")) {
    EXPECT_EQ(finding.subject, "sandbox");
    kinds.push_back(finding.kind);
  }
  return kinds;
}

TEST(SandboxFindings, AreNeverAFalseAllClear) {
  const std::vector<ConfinedProcess::Layer> all{{"system calls", true, ""}, {"no new privileges", true, ""}};
  const SandboxReport whole{"enforce", {{"agent", 1, all}, {"launcher", 2, all}}};
  EXPECT_THAT(KindsOf(whole), IsEmpty());
  EXPECT_THAT(KindsOf({}), ElementsAre(Finding::kWarning)) << "an older agent reports nothing";
  SandboxReport report = whole;
  report.mode = "log";
  EXPECT_THAT(KindsOf(report), ElementsAre(Finding::kWarning));
  report.mode = "off";
  EXPECT_THAT(KindsOf(report), ElementsAre(Finding::kWarning));
  report = whole;
  report.processes[0].layers.clear();
  EXPECT_THAT(KindsOf(report), ElementsAre(Finding::kWarning)) << "enforced, and nothing is in force";
  report = whole;
  report.processes[0].layers.push_back({"files", false, "this kernel has no Landlock"});
  EXPECT_THAT(KindsOf(report), ElementsAre(Finding::kNotHere));
  for (size_t layer : {0u, 1u}) {
    report = whole;
    report.processes[1].layers[layer].on = false;
    EXPECT_THAT(KindsOf(report), ElementsAre(Finding::kWarning)) << all[layer].name;
    report.processes[0].layers[0].on = false;  // a system that has no filter has none for anyone
    EXPECT_THAT(KindsOf(report), ElementsAre(Finding::kNotHere));
  }
  report = whole;
  report.processes[1].layers.clear();
  EXPECT_THAT(KindsOf(report), ElementsAre(Finding::kWarning)) << "a process that could not be read";
}

TEST(ReadSandbox, ReadsTheProcessesBelowThisOne) {
  TempFolder root;
  auto write = [&](int pid, const std::string& children, const std::string& command,
                   const std::string& status) {
    const std::string folder = "proc/" + std::to_string(pid);
    std::filesystem::create_directories(root.path() + "/" + folder + "/task/" + std::to_string(pid));
    root.Write(folder + "/task/" + std::to_string(pid) + "/children", children);
    root.Write(folder + "/cmdline", command);
    if (!status.empty()) root.Write(folder + "/status", status);
  };
  const std::string held =
      "Name:\tx\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n";
  write(::getpid(), "100 ", "", "");
  write(100, "101 102 103 ", std::string("gpulens\0agent\0", 14), held);
  write(101, "", std::string("/proc/self/exe\0reader\0nvml\0--x\0", 31), held);
  write(102, "", std::string("/usr/bin/journalctl\0-f\0", 23),
        "CapEff:\t000001fffeffffff\nNoNewPrivs:\t0\nSeccomp:\t0\n");
  write(103, "", "", "");
  const SandboxReport report =
      ReadSandbox(SandboxMode::kEnforce, {{"files", true, "Landlock"}}, 100, root.path());
  EXPECT_EQ(report.mode, "enforce");
  ASSERT_THAT(report.processes, SizeIs(5));
  EXPECT_EQ(report.processes[0].name, "agent");
  EXPECT_EQ(report.processes[0].layers.at(0).detail, "Landlock");
  EXPECT_EQ(report.processes[1].name, "launcher");
  EXPECT_EQ(report.processes[2].name, "reader nvml");
  EXPECT_EQ(report.processes[2].pid, 101);
  for (const ConfinedProcess::Layer& layer : report.processes[2].layers) EXPECT_TRUE(layer.on) << layer.name;
  EXPECT_THAT(report.processes[2].layers, SizeIs(3));
  EXPECT_EQ(report.processes[3].name, "journalctl");
  for (const ConfinedProcess::Layer& layer : report.processes[3].layers) EXPECT_FALSE(layer.on) << layer.name;
  EXPECT_THAT(report.processes[3].layers.at(1).detail, HasSubstr("CAP_CHOWN"));
  EXPECT_THAT(report.processes[4].layers, IsEmpty());
  for (const ConfinedProcess& process : ReadSandbox(SandboxMode::kLog, {}, 100, root.path()).processes) {
    for (const ConfinedProcess::Layer& layer : process.layers)
      EXPECT_FALSE(layer.on && layer.name == "system calls") << "what is only logged is not refused";
  }
}

CollectorState State(const char* name, bool up, Status last, bool worked = false) {
  return {name, name, up, true, worked || up, false, std::move(last), 5};
}

TEST(CollectorFindings, CombinesCollectorStateAndProbe) {
  // The probe of this process sees the kernel log; the collector was refused.
  auto findings = CollectorFindings({State("kernel_log", false, {Code::kPermissionDenied, "open /dev/kmsg"})},
                                    {{Finding::kFound, "kernel_log", "/dev/kmsg", "", ""}});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].kind, Finding::kNoPermission);
  EXPECT_EQ(findings[0].why, "open /dev/kmsg");
  findings =
      CollectorFindings({State("kernel_log", false, {Code::kPermissionDenied, "open /dev/kmsg"})},
                        {{Finding::kNoPermission, "kernel_log", "x", "y", "AmbientCapabilities=CAP_SYSLOG"}});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].remedy, HasSubstr("CAP_SYSLOG"));
  // Simulated GPUs, where the probe finds no real one.
  findings =
      CollectorFindings({State("nvidia", true, Ok())}, {{Finding::kNotHere, "nvidia", "no device", "", ""}});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].kind, Finding::kFound);
  EXPECT_EQ(findings[0].what, "5 series");
}

// The devices are there and the library cannot be opened: that is no "not here".
TEST(CollectorFindings, ReportsPresentButUnreadSource) {
  auto findings = CollectorFindings({State("nvidia", false, {Code::kUnavailable, "no library"})},
                                    {{Finding::kFound, "nvidia", "8 devices on the PCI bus", "", ""}});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].kind, Finding::kWarning);
  EXPECT_EQ(findings[0].what, "was found, but is not read");
  EXPECT_EQ(findings[0].why, "no library");
}

TEST(CollectorFindings, ReportsSourceThatStoppedWorking) {
  auto finding = [](Status last, bool worked) {
    return CollectorFindings({State("nvidia", false, std::move(last), worked)}, {}).at(0).kind;
  };
  EXPECT_EQ(finding({Code::kUnavailable, "no device"}, false), Finding::kNotHere);
  EXPECT_EQ(finding({Code::kUnavailable, "no device"}, true), Finding::kBroken);
  EXPECT_EQ(finding({Code::kTimeout, "hangs"}, false), Finding::kBroken);
  CollectorState target = State("scrape/a", false, {Code::kUnavailable, "refused"});
  target.one_of_many = true;
  EXPECT_EQ(CollectorFindings({target}, {}).at(0).kind, Finding::kWarning);
  target.up = true;
  EXPECT_THAT(CollectorFindings({target}, {}), IsEmpty());
}

// A tick with the series that a test sets.
class Tick {
 public:
  void Set(const MetricDesc& desc, const EntityRef& entity,
           std::initializer_list<AttributeSet::Attribute> extra, double value) {
    set_.push_back({table_.Declare(desc, entity, AttributeSet(extra)), value});
  }
  Ref<Snapshot> Make() {
    writer_.Begin(clock_.Now());
    for (auto& [series, value] : set_) writer_.Set(series, value);
    Ref<Snapshot> snapshot = MakeRef<Snapshot>();
    snapshot->frames.push_back({writer_.Finish(), "test"});
    snapshot->closed_at = clock_.Now();
    return snapshot;
  }
  ManualClock clock_;

 private:
  SeriesTable table_;
  FrameWriter writer_{table_, std::chrono::seconds(10)};
  std::vector<std::pair<Series, double>> set_;
};

EntityRef Gpu(int64_t index) { return MakeRef<const Entity>("gpu", AttributeSet({{"gpu.index", index}})); }

TEST(GpuFindings, ReportsUnhealthyGpus) {
  Tick tick;
  for (int64_t i : {0, 1, 2, 3}) tick.Set(kGpuInfo, Gpu(i), {{"gpu.vendor", std::string_view("nvidia")}}, 1);
  tick.Set(kGpuHealthState, Gpu(0), {{"gpu.health.state", std::string_view("ok")}}, 1);
  tick.Set(kGpuHealthState, Gpu(1), {{"gpu.health.state", std::string_view("failed")}}, 1);
  tick.Set(kGpuHealthCondition, Gpu(1), {{"gpu.health.reason", std::string_view("gpu_hung")}}, 1);
  tick.Set(kGpuHealthCondition, Gpu(1), {{"gpu.health.reason", std::string_view("power_brake")}}, 0);
  tick.Set(kGpuState, Gpu(2), {{"gpu.state", std::string_view("no_permission")}}, 1);
  auto findings = GpuFindings(*tick.Make());
  ASSERT_THAT(findings, SizeIs(3));
  EXPECT_EQ(findings[0].subject, "GPU 1");
  EXPECT_EQ(findings[0].kind, Finding::kBroken);
  EXPECT_EQ(findings[0].why, "gpu_hung: a driver call for the GPU does not return");
  EXPECT_EQ(findings[1].kind, Finding::kNoPermission);
  EXPECT_EQ(findings[2].kind, Finding::kWarning) << "of GPU 3 nothing is known";
}

// The analyzer is switched off: only the collector reports the state.
TEST(GpuFindings, UsesStateWithoutHealth) {
  Tick tick;
  for (int64_t i : {0, 1, 2}) {
    tick.Set(kGpuInfo, Gpu(i), {{"gpu.vendor", std::string_view("nvidia")}}, 1);
    constexpr std::string_view kWords[] = {"ok", "left_out", "unread"};
    tick.Set(kGpuState, Gpu(i), {{"gpu.state", kWords[i]}}, 1);
  }
  auto findings = GpuFindings(*tick.Make());
  ASSERT_THAT(findings, SizeIs(2));
  EXPECT_EQ(findings[0].subject, "GPU 1");
  EXPECT_EQ(findings[0].kind, Finding::kBroken);
  EXPECT_EQ(findings[0].what, "is left_out");
  EXPECT_EQ(findings[1].what, "is unread");
}

TEST(GpuFindings, ReportsMissingGpu) {
  Tick tick;
  tick.Set(kGpuInfo, Gpu(0), {{"gpu.vendor", std::string_view("nvidia")}}, 1);
  tick.Set(kGpuHealthState, Gpu(0), {{"gpu.health.state", std::string_view("ok")}}, 1);
  EXPECT_THAT(GpuFindings(*tick.Make()), IsEmpty());
  tick.Set(kGpuDevicesExpected, {}, {{"gpu.vendor", std::string_view("nvidia")}}, 2);
  auto findings = GpuFindings(*tick.Make());
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].what, HasSubstr("1 of 2"));
}

TEST(DeliveryFindings, ReportsWaitingAndLostData) {
  Tick tick;
  EntityRef sink = MakeRef<const Entity>("sink", AttributeSet({{"sink", std::string_view("otlp")}}));
  tick.Set(kSelfSinkUp, sink, {}, 1);
  tick.Set(kSelfSinkDiskQueueOldestAge, sink, {}, 119);
  EXPECT_THAT(DeliveryFindings(*tick.Make()), IsEmpty());
  Tick bad;
  bad.Set(kSelfSinkUp, sink, {}, 0);
  bad.Set(kSelfSinkDiskQueueOldestAge, sink, {}, 300);
  bad.Set(kSelfStoreWrites, {}, {{"result", std::string_view("error")}}, 2);
  EntityRef gone = MakeRef<const Entity>("sink", AttributeSet({{"sink", std::string_view("otlp/b")}}));
  bad.Set(kSelfSinkDiskQueueLeftoverSize, gone, {}, 3 << 20);
  auto findings = DeliveryFindings(*bad.Make());
  ASSERT_THAT(findings, SizeIs(4));
  EXPECT_THAT(findings[1].what, HasSubstr("300 s"));
  EXPECT_EQ(findings[2].subject, "sink otlp/b");
  EXPECT_THAT(findings[2].what, HasSubstr("3.0 MiB"));
  EXPECT_THAT(findings[2].remedy, HasSubstr("gpulens queue drop otlp/b"));
  EXPECT_EQ(findings[3].kind, Finding::kBroken);
}

TEST(DeliveryFindings, ReportsALedgerThatCannotBeWrittenOrIsWrong) {
  Tick good;
  good.Set(kSelfLedgerUp, {}, {}, 1);
  good.Set(kLedgerResidual, {}, {}, 0);
  EXPECT_THAT(DeliveryFindings(*good.Make()), IsEmpty());
  Tick bad;
  bad.Set(kSelfLedgerUp, {}, {}, 0);
  bad.Set(kLedgerResidual, {}, {}, -0.000001);
  auto findings = DeliveryFindings(*bad.Make());
  ASSERT_THAT(findings, SizeIs(2));
  EXPECT_THAT(findings[0].what, HasSubstr("cannot be written"));
  EXPECT_THAT(findings[1].what, HasSubstr("do not add up"));
}

TEST(StateFolderFindings, MadeOrRefused) {
  char name[] = "/tmp/gpulens-status-XXXXXX";
  std::string folder = ::mkdtemp(name);
  EXPECT_THAT(StateFolderFindings(folder + "/a/b"), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_directory(folder + "/a/b"));
  EXPECT_THAT(StateFolderFindings(""), SizeIs(1));
  std::filesystem::remove_all(folder);
  auto findings = StateFolderFindings("/proc/nope");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].kind, Finding::kBroken);
}

TEST(AgentWatch, CountsFailuresOfReaderProcess) {
  AgentWatch watch;
  Tick tick;
  tick.clock_.Advance(std::chrono::hours(1));
  EntityRef driver = MakeRef<const Entity>("reader", AttributeSet({{"reader", std::string_view("nvml")}}));
  tick.Set(kSelfDriverStarts, driver, {{"reason", std::string_view("crash")}}, 4);
  watch.Observe(*tick.Make());
  EXPECT_EQ(watch.Failures("nvml"), 0) << "those of before are not of now";
  Tick later;
  later.clock_.Advance(std::chrono::hours(1) + std::chrono::seconds(60));
  later.Set(kSelfDriverStarts, driver, {{"reason", std::string_view("crash")}}, 7);
  later.Set(kSelfDriverStarts, driver, {{"reason", std::string_view("first")}}, 1);
  watch.Observe(*later.Make());
  EXPECT_EQ(watch.Failures("nvml"), 3);
}

}  // namespace
}  // namespace gpulens

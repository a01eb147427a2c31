#include "plugins/collectors/probes/probe_host.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/files.h"
#include "base/testing/temp_folder.h"
#include "plugins/collectors/probes/bpf_backend.h"
#include "plugins/collectors/probes/probe_fake_testing.h"

namespace gpulens::probes {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr ProbePeer kRoot{.user = 0, .privileged = true};
constexpr ProbePeer kOwner{.user = 1000, .privileged = false};
constexpr ProbePeer kOther{.user = 1001, .privileged = false};

class ProbeHostTest : public ::testing::Test {
 protected:
  ProbeHostTest() { backend_.processes[42]; }

  ProbeHost& Host(ProbeHostOptions options = {}) {
    if (!host_) host_.emplace(backend_, std::move(options), std::vector{first_, second_});
    return *host_;
  }
  ProbeReply Do(RequestVerb verb, const ProbePeer& peer = kRoot, int64_t pid = 0, Duration length = {}) {
    ProbeRequest request;
    request.verb = verb;
    request.pid = pid;
    request.probes = verb == RequestVerb::kAttach ? kCudaProbe : 0;
    request.for_ns = length.count();
    return Host().Handle(request, peer, clock_.Now());
  }
  ProbeReply Attach(const ProbePeer& peer = kRoot, Duration length = {}) {
    Do(RequestVerb::kFrame);
    return Do(RequestVerb::kAttach, peer, 42, length);
  }
  // A quarter of a second later; the agent is there unless it is `silent`.
  void Step(bool silent = false) {
    clock_.Advance(milliseconds(250));
    if (!silent) Do(RequestVerb::kFrame);
    Host().Tick(clock_.Now());
  }
  // The change of the last note.
  std::string Last() {
    const std::vector<ProbeNote> notes = Host().NotesSince(0);
    return notes.empty() ? "" : notes.back().change + " " + notes.back().reason;
  }

  ManualClock clock_;
  testing::TempFolder folder_;
  const std::string first_ = folder_.path() + "/probes.off", second_ = folder_.path() + "/etc.off";
  FakeProbeBackend backend_;
  std::optional<ProbeHost> host_;
};

TEST_F(ProbeHostTest, AttachesForRootAndReports) {
  EXPECT_EQ(Attach().refusal, "");
  EXPECT_EQ(backend_.attached.at(42).thread_budget_ppm, 2000u);
  EXPECT_EQ(Last(), "attached ");
  backend_.processes[42].counts.launches[0] = 12;
  Step();
  const ProbeReply frame = Do(RequestVerb::kFrame);
  ASSERT_EQ(frame.status.targets.size(), 1u);
  ASSERT_EQ(frame.status.processes.size(), 1u);
  EXPECT_EQ(frame.status.processes[0].launches[0], 12u);
  EXPECT_EQ(frame.status.links, 1u);
}

TEST_F(ProbeHostTest, WithoutAnAgentNothingIsAttached) {
  const ProbeReply reply = Do(RequestVerb::kAttach, kRoot, 42);
  EXPECT_EQ(reply.refusal, "no_agent");
  EXPECT_TRUE(backend_.attached.empty());
  EXPECT_EQ(reply.status.refused.size(), 1u);
}

TEST_F(ProbeHostTest, ASilentAgentDetachesEverythingAfterThreeSeconds) {
  Attach();
  for (int i = 0; i < 12; ++i) Step(true);
  EXPECT_EQ(backend_.attached.size(), 1u) << "3 s of silence are allowed";
  Step(true);
  EXPECT_TRUE(backend_.attached.empty());
  EXPECT_EQ(Last(), "detached agent_silent");
}

TEST_F(ProbeHostTest, AttachesForATime) {
  Attach(kRoot, seconds(2));
  for (int i = 0; i < 7; ++i) Step();
  EXPECT_EQ(backend_.attached.size(), 1u);
  Step();
  EXPECT_TRUE(backend_.attached.empty());
  EXPECT_EQ(Last(), "detached expired");
}

TEST_F(ProbeHostTest, UsersMayAttachToTheirOwnProcessesWhereThatIsConfigured) {
  EXPECT_EQ(Attach(kOwner).refusal, "not_permitted");
  ProbeHostOptions options;
  options.owners_may_attach = true;
  Host().Reload(options, clock_.Now());
  EXPECT_EQ(Attach(kOther).refusal, "not_permitted");
  EXPECT_EQ(Attach(kOwner).refusal, "");
  EXPECT_EQ(Do(RequestVerb::kDetach, kOther, 42).refusal, "not_permitted");
  EXPECT_EQ(Do(RequestVerb::kStatus, kOther).status.targets.size(), 0u) << "of other users nothing is shown";
  EXPECT_EQ(Do(RequestVerb::kStatus, kOwner).status.targets.size(), 1u);
  EXPECT_EQ(Do(RequestVerb::kDetach, kOwner, 42).refusal, "");
  EXPECT_TRUE(backend_.attached.empty());
}

TEST_F(ProbeHostTest, OnlyThePrivilegedHoldProbesAndSwitch) {
  EXPECT_EQ(Do(RequestVerb::kFrame, kOther).refusal, "not_permitted");
  EXPECT_EQ(Do(RequestVerb::kAttach, kRoot, 42).refusal, "no_agent") << "a stranger is no agent";
  ProbeRequest request;
  request.verb = RequestVerb::kSwitch;
  request.switch_off = true;
  EXPECT_EQ(Host().Handle(request, kOther, clock_.Now()).refusal, "not_permitted");
  EXPECT_FALSE(MarkOf(first_).there());
}

TEST_F(ProbeHostTest, AFileSwitchesProbesOffWhateverItIs) {
  for (const std::string& file : {first_, second_}) {
    Attach();
    ASSERT_EQ(::mkfifo(file.c_str(), 0644), 0) << "reading this would block";
    Step();
    EXPECT_TRUE(backend_.attached.empty());
    EXPECT_EQ(Last(), "switched_off ");
    EXPECT_EQ(Attach().refusal, "switched_off");
    ::unlink(file.c_str());
    Step();
    EXPECT_EQ(Attach().refusal, "");
    Do(RequestVerb::kDetach);
  }
}

TEST_F(ProbeHostTest, TheSwitchIsAFileWithItsReasonAndOutlivesTheHost) {
  Attach();
  ProbeRequest request;
  request.verb = RequestVerb::kSwitch;
  request.switch_off = true;
  request.reason = "maintenance \x1b[31m";
  const ProbeReply reply = Host().Handle(request, kRoot, clock_.Now());
  EXPECT_EQ(reply.refusal, "");
  EXPECT_EQ(reply.status.links, 0u);
  EXPECT_TRUE(MarkOf(first_).there());
  host_.reset();
  const ProbeReply status = Do(RequestVerb::kStatus);
  EXPECT_TRUE(status.status.switched_off);
  EXPECT_EQ(status.status.switch_reason.find('\x1b'), std::string::npos);
  EXPECT_EQ(Attach().refusal, "switched_off");
  request.switch_off = false;
  EXPECT_EQ(Host().Handle(request, kRoot, clock_.Now()).refusal, "");
  EXPECT_EQ(Attach().refusal, "");
}

TEST_F(ProbeHostTest, AReloadDetachesEverything) {
  Attach();
  Host().Reload({}, clock_.Now());
  EXPECT_TRUE(backend_.attached.empty());
  EXPECT_EQ(backend_.opened, 2);
}

TEST_F(ProbeHostTest, ABudgetCanBeLoweredOnly) {
  Do(RequestVerb::kFrame);
  ProbeRequest request;
  request.verb = RequestVerb::kAttach;
  request.pid = 42;
  request.probes = kCudaProbe;
  request.budget_ppm = 5000;
  EXPECT_EQ(Host().Handle(request, kRoot, clock_.Now()).refusal, "budget");
  request.budget_ppm = 500;
  EXPECT_EQ(Host().Handle(request, kRoot, clock_.Now()).refusal, "");
  EXPECT_EQ(backend_.attached.at(42).thread_budget_ppm, 500u);
}

TEST_F(ProbeHostTest, ARefusalHasItsReasonSentenceAndRow) {
  backend_.processes[42].refusal = "single_step";
  backend_.processes[42].sentence = "the first instruction is single-stepped";
  backend_.processes[42].row = "single_step: https://…";
  const ProbeReply reply = Attach();
  EXPECT_EQ(reply.refusal, "single_step");
  EXPECT_EQ(reply.row, "single_step: https://…");
  EXPECT_EQ(Last(), "refused single_step");
  EXPECT_EQ(Do(RequestVerb::kAttach, kRoot, 43).refusal, "no_process");
}

TEST_F(ProbeHostTest, WhatTheMachineLacksRefusesWithItsReason) {
  for (const char* reason : {"no_rights", "no_btf", "no_uprobes", "lockdown"}) {
    host_.reset();
    backend_.ability = {.mechanism = {}, .reason = reason, .sentence = "a sentence"};
    const ProbeReply reply = Attach();
    EXPECT_EQ(reply.refusal, reason);
    EXPECT_EQ(reply.sentence, "a sentence");
    EXPECT_EQ(Do(RequestVerb::kStatus).status.reason, reason);
  }
}

TEST_F(ProbeHostTest, AStormIsAnEventAndTheTargetStaysUntilItsTimeIsOver) {
  Attach(kRoot, seconds(60));
  backend_.processes[42].reading.measuring = Measuring::kPaused;
  backend_.changes = {{.pid = 42, .change = "detached", .sentence = "2,000,000 calls a second"}};
  Step();
  EXPECT_EQ(Last(), "detached budget");
  const ProbeReply status = Do(RequestVerb::kStatus);
  ASSERT_EQ(status.status.detached.size(), 1u);
  EXPECT_EQ(status.status.detached[0].reason, "budget");
  EXPECT_EQ(status.status.targets.at(0).measuring, Measuring::kPaused);
}

TEST_F(ProbeHostTest, ATargetEndsWithItsProcess) {
  Attach();
  Step();
  backend_.processes[42].ended = true;
  Step();
  EXPECT_TRUE(backend_.attached.empty());
  EXPECT_EQ(Last(), "detached ended");
  EXPECT_TRUE(Do(RequestVerb::kFrame).status.processes.empty());
}

TEST_F(ProbeHostTest, TheConfigurationNamesTargets) {
  backend_.processes[43].program = "trainer";
  backend_.processes[44].cgroup = "/kubepods.slice/pod1";
  backend_.processes[45].cgroup = "/kubepods.slices";
  backend_.processes[46].user = 7;
  backend_.processes[47].program = "trainer";
  backend_.processes[47].refusal = "seccomp";
  ProbeHostOptions options;
  options.probes = kCudaProbe;
  options.executables = {"trainer"};
  options.cgroups = {"/kubepods.slice"};
  options.users = {"7"};
  Host(options).Tick(clock_.Now());
  EXPECT_TRUE(backend_.attached.empty()) << "without an agent";
  Step();
  std::set<int64_t> pids;
  for (const auto& [pid, order] : backend_.attached) pids.insert(pid);
  EXPECT_EQ(pids, (std::set<int64_t>{43, 44, 46}));
  for (int i = 0; i < 50; ++i) Step();
  const HostStatus status = Do(RequestVerb::kStatus).status;
  ASSERT_EQ(status.refused.size(), 1u);
  EXPECT_EQ(status.refused[0].count, 1u) << "a process is refused once, not each five seconds";
}

TEST_F(ProbeHostTest, NotesAreSentOnce) {
  Attach();
  ProbeRequest request;
  request.verb = RequestVerb::kFrame;
  const ProbeReply first = Host().Handle(request, kRoot, clock_.Now());
  ASSERT_EQ(first.status.notes.size(), 1u);
  request.seen_notes = first.status.notes[0].number;
  EXPECT_TRUE(Host().Handle(request, kRoot, clock_.Now()).status.notes.empty());
}

TEST_F(ProbeHostTest, WithoutItsConfigurationNothingIsAttached) {
  ProbeHostOptions nothing;
  nothing.thread_budget_ppm = nothing.host_budget_ppm = 0;
  Host(nothing);
  EXPECT_EQ(Attach().refusal, "configuration");
}

TEST(BpfBackendTest, AMachineOnTheListOfRefusalsIsLeftAlone) {
  BpfBackendOptions options;
  options.capabilities.machine = [] {
    bpf::MachineNames names;
    names.kernel = "6.8.0-45-generic", names.architecture = "aarch64", names.driver = "570.86.15";
    return names;
  };
  int tried = 0;
  options.capabilities.load = [&tried] { return ++tried, EPERM; };
  const std::unique_ptr<ProbeBackend> backend = MakeBpfBackend(options);
  const bpf::MachineRefusal row{.driver = "570", .kernel = "6.8", .cpu = "aarch64", .gpu = {}, .why = "17"};
  ProbeHostOptions host;
  host.deny = {row};
  ProbeHost denied(*backend, host, {});
  EXPECT_EQ(denied.ability().reason, "denied");
  EXPECT_EQ(denied.ability().sentence, "17");
  EXPECT_EQ(tried, 0);
  ProbeRequest request;
  request.verb = RequestVerb::kAttach;
  request.pid = ::getpid();
  request.probes = kCudaProbe;
  EXPECT_EQ(denied.Handle(request, kRoot, Instant{}).refusal, "denied");
  // A new configuration without the row: what is tried next is what decides.
  denied.Reload({}, Instant{});
  EXPECT_EQ(denied.ability().reason, "no_rights");
  EXPECT_EQ(tried, 1);
}

}  // namespace
}  // namespace gpulens::probes

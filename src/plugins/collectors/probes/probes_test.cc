// The collector and the process around the probe host, with a backend that has no kernel.
#include "plugins/collectors/probes/probes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/testing/temp_folder.h"
#include "catalog/cuda.h"
#include "catalog/events.h"
#include "plugins/collectors/probes/probe_client.h"
#include "plugins/collectors/probes/probe_fake_testing.h"
#include "plugins/collectors/probes/probe_process.h"
#include "plugins/event_queue.h"
#include "plugins/plugin.h"

namespace gpulens {
extern const CollectorSpec probes_collector;
}

namespace gpulens::probes {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

template <class Condition>
bool Wait(Condition&& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    ::poll(nullptr, 0, 10);
  }
  return false;
}

// A probe host in a process of its own, whose one target is the process of the test.
class ProbesTest : public ::testing::Test {
 protected:
  void TearDown() override { End(SIGKILL); }

  void Start(
      Ability ability = {
          .mechanism = "session", .reason = {}, .sentence = {}, .entry_cost_ns = 700, .pair_cost_ns = 1300}) {
    const pid_t target = ::getpid();
    host_ = ::fork();
    ASSERT_GE(host_, 0);
    if (host_ > 0) {
      ASSERT_TRUE(Wait([&] { return ProbeClient::Connect(socket_).ok(); }));
      return;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);  // it does not outlive a test that crashes
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    ::dup2(nowhere, 2);
    ProbeProcessOptions options;
    options.socket = socket_;
    options.sandbox = SandboxMode::kOff;
    options.switch_files = {folder_.path() + "/probes.off"};
    options.load = [] { return Result<ProbeHostOptions>(ProbeHostOptions()); };
    options.make_backend = [ability, target]() -> std::unique_ptr<ProbeBackend> {
      auto backend = std::make_unique<FakeProbeBackend>();
      backend->ability = ability;
      FakeProbeBackend::Process& process = backend->processes[target];
      process.user = ::getuid();
      process.counts.has_cuda = process.counts.has_data = true;
      process.counts.launches = {12, 0, 3};
      process.counts.enqueue[0].buckets[20] = process.counts.enqueue[0].count = 12;
      process.counts.enqueue[0].sum_ns = 24'000;
      process.counts.data_wait.buckets[60] = process.counts.data_wait.count = 2;
      return backend;
    };
    ::_exit(RunProbeProcess(options));
  }
  int End(int signal) {
    if (host_ <= 0) return -1;
    ::kill(host_, signal);
    int status = 0;
    ::waitpid(std::exchange(host_, -1), &status, 0);
    return status;
  }
  ProbeReply Do(RequestVerb verb) {
    ProbeRequest request;
    request.verb = verb;
    request.pid = verb == RequestVerb::kAttach ? ::getpid() : 0;
    request.probes = verb == RequestVerb::kAttach ? kAllProbes : 0;
    Result<ProbeClient> client = ProbeClient::Connect(socket_);
    if (!client) return {};
    Result<ProbeReply> reply = client->Send(request, seconds(5));
    EXPECT_TRUE(reply) << reply.error().detail;
    return reply ? *reply : ProbeReply();
  }

  Config Options() {
    Config targets, budget, config;
    for (const char* key : {"users", "cgroups", "executables"})
      targets.Set(key, std::vector<std::string>(), {});
    budget.Set("thread", std::string("0.2%"), {});
    budget.Set("host", std::string("1%"), {});
    config.Set("socket", socket_, {});
    config.Set("probes", std::vector<std::string>(), {});
    config.Set("targets", targets, {});
    config.Set("budget", budget, {});
    config.Set("deny", std::vector<Config>(), {});
    config.Set("owners_may_attach", false, {});
    config.Set("allow_seccomp_targets", false, {});
    config.Set("injection", true, {});
    return config;
  }
  std::unique_ptr<Collector> Make() {
    env_.events = &events_;
    auto made = probes_collector.create(Options(), env_);
    EXPECT_TRUE(made) << made.error().detail;
    return *std::move(made);
  }
  Status Run(Collector& collector) {
    writer_.Begin(RealClock().Now());
    const Status status = collector.Collect(writer_);
    frame_ = writer_.Finish();
    return status;
  }
  // The value of a series whose attributes contain the text; nothing: there is none.
  std::optional<double> Value(const MetricDesc& desc, std::string_view key, std::string_view text) {
    for (uint32_t slot = 0; slot < table_.slots(); ++slot) {
      const SeriesInfo& info = table_.InfoAt(slot);
      if (info.desc != &desc || info.attributes.Text(key) != text) continue;
      if (const auto fresh = writer_.SetInThisRun(slot)) return fresh->value;
      if (info.shape) return 0;
    }
    return std::nullopt;
  }

  testing::TempFolder folder_;
  const std::string socket_ = folder_.path() + "/probes.sock";
  pid_t host_ = -1;
  EventQueue events_;
  Env env_;
  SeriesTable table_;
  FrameWriter writer_{table_, seconds(10)};
  Ref<const Frame> frame_;
};

TEST_F(ProbesTest, ExportsTheCountsOfTheHostAndItsEvents) {
  Start();
  const auto collector = Make();
  ASSERT_TRUE(Wait([&] { return Run(*collector).ok(); }));
  EXPECT_EQ(Do(RequestVerb::kAttach).refusal, "");
  ASSERT_TRUE(Wait([&] {
    static_cast<void>(Run(*collector));
    return Value(kCudaLaunches, "cuda.launch.type", "kernel").has_value();
  }));
  EXPECT_EQ(Value(kCudaLaunches, "cuda.launch.type", "kernel"), 12);
  EXPECT_EQ(Value(kCudaLaunches, "cuda.launch.type", "graph"), 3);
  EXPECT_EQ(Value(kCudaLaunches, "cuda.source", "uprobe"), 12);
  EXPECT_TRUE(Value(kCudaLaunchEnqueueDuration, "cuda.launch.type", "kernel"));
  EXPECT_TRUE(Value(kDataloaderWaitDuration, "dataloader.source", "waker"));
  EXPECT_EQ(Value(kSelfProbeAttached, "probe", "cuda"), 1);
  const std::vector<Event> events = events_.Take();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].name, kEventProbeAttached.name);
  EXPECT_EQ(events[0].attributes.Text("process.pid"), std::to_string(::getpid()));
}

TEST_F(ProbesTest, AnEndOfTheHostIsAnError) {
  Start();
  const auto collector = Make();
  ASSERT_TRUE(Wait([&] { return Run(*collector).ok(); }));
  Do(RequestVerb::kAttach);
  ASSERT_TRUE(Wait([&] {
    static_cast<void>(Run(*collector));
    return Value(kCudaLaunches, "cuda.launch.type", "kernel").has_value();
  }));
  EXPECT_EQ(WEXITSTATUS(End(SIGTERM)), 0);
  ASSERT_TRUE(Wait([&] { return !Run(*collector).ok(); }));
}

TEST_F(ProbesTest, AHostWaitsForTheSocketOfOneThatEnds) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  socket_.copy(at.sun_path, sizeof at.sun_path - 1);
  const UniqueFd before(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(before.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  ASSERT_EQ(::listen(before.get(), 100), 0);
  Start();
  ::poll(nullptr, 0, 200);
  EXPECT_EQ(::waitpid(host_, nullptr, WNOHANG), 0) << "it ended";
  ASSERT_EQ(::shutdown(before.get(), SHUT_RDWR), 0);
  EXPECT_TRUE(Wait([&] { return Do(RequestVerb::kStatus).status.mechanism == "session"; }));
}

TEST_F(ProbesTest, WhatAMachineLacksIsOneFindingOfOneLine) {
  for (const char* reason : {"denied", "no_rights", "no_btf", "no_uprobes", "lockdown"}) {
    Start(
        {.mechanism = {}, .reason = reason, .sentence = "a sentence", .entry_cost_ns = 0, .pair_cost_ns = 0});
    const std::vector<Finding> findings = probes_collector.probe(Options(), env_);
    ASSERT_EQ(findings.size(), 1u);
    const Finding& finding = findings[0];
    EXPECT_EQ(finding.kind == Finding::kNoPermission, std::string_view(reason) == "no_rights");
    EXPECT_EQ(finding.what + finding.why, std::string(reason) + ": a sentence") << "one line of doctor";
    EXPECT_EQ(finding.remedy, "");
    const auto collector = Make();
    ASSERT_TRUE(Wait([&] { return Run(*collector).detail.starts_with(reason); }))
        << "and the collector's error";
    EXPECT_EQ(Do(RequestVerb::kAttach).refusal, reason);
    End(SIGTERM);
  }
  EXPECT_EQ(probes_collector.probe(Options(), env_).at(0).kind, Finding::kNotHere);
}

TEST_F(ProbesTest, BytesThatAreNoRequestEndTheConnectionAlone) {
  Start();
  for (const std::string& bytes : {std::string("\n"), std::string("{}\n"), std::string(5000, 'x')}) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    socket_.copy(at.sun_path, sizeof at.sun_path - 1);
    const UniqueFd raw(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(raw.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    ASSERT_EQ(::send(raw.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    pollfd end{raw.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&end, 1, 5000), 1);
    char byte = 0;
    EXPECT_LE(::recv(raw.get(), &byte, 1, 0), 0) << "there is no reply to it";
    EXPECT_EQ(Do(RequestVerb::kStatus).status.mechanism, "session");
  }
}

TEST_F(ProbesTest, SharesAreReadAsPercentOrParts) {
  EXPECT_EQ(ParseShare("0.2%").value_or(0), 2000u);
  EXPECT_EQ(ParseShare("0.2 %").value_or(0), 2000u);
  EXPECT_EQ(ParseShare("0.002").value_or(0), 2000u);
  for (const char* bad : {"", "%", "0", "-1%", "11%", "nan", "1e9%", "0.2%%"})
    EXPECT_FALSE(ParseShare(bad)) << bad;
}

}  // namespace
}  // namespace gpulens::probes

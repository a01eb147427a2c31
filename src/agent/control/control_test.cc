#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "agent/control/control_socket.h"
#include "base/files.h"
#include "base/threads.h"
#include "plugins/event_queue.h"

namespace gpulens {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::StartsWith;

TEST(ControlCommand, ParsesValidCommands) {
  auto release = ParseControlCommand("nvml release 1m30s");
  ASSERT_TRUE(release.ok());
  EXPECT_EQ(release->verb, ControlCommand::kRelease);
  EXPECT_EQ(release->length, Duration(seconds(90)));
  auto open = ParseControlCommand("  nvml   release \r");
  ASSERT_TRUE(open.ok());
  EXPECT_EQ(open->length, Duration(0));
  EXPECT_EQ(ParseControlCommand("nvml resume")->verb, ControlCommand::kResume);
  EXPECT_EQ(ParseControlCommand("nvml status")->verb, ControlCommand::kStatus);
  EXPECT_EQ(ParseControlCommand("agent status")->verb, ControlCommand::kAgentStatus);
  EXPECT_EQ(ParseControlCommand("xid clear")->verb, ControlCommand::kXidClear);
  EXPECT_EQ(ParseControlCommand("xid clear GPU-12ab")->words, "GPU-12ab");
  EXPECT_EQ(ParseControlCommand("get /api/now?a=b c")->words, "/api/now?a=b c");
}

TEST(ControlCommand, ErrorsNameTheExpectedCommands) {
  for (const char* bad : {"", "nvml", "amd release", "nvml explode", "nvml release soon", "nvml release -5s",
                          "nvml release 0s", "nvml release 25h", "nvml resume now", "nvml status 1", "agent",
                          "agent stop", "agent status now", "xid", "xid clear 3 4", "xid clear a/b"}) {
    auto command = ParseControlCommand(bad);
    ASSERT_FALSE(command.ok()) << bad;
    EXPECT_THAT(command.error().detail, HasSubstr("expected: agent status")) << bad;
  }
  EXPECT_FALSE(ParseControlCommand(std::string(1000, 'x')).ok());
}

TEST(ReaderControl, ReleaseEndsAfterItsDuration) {
  ReaderControl control;
  ManualClock clock;
  EXPECT_EQ(control.view().state, ReaderControl::State::kUnowned);
  EXPECT_FALSE(control.Query(clock.Now()).release);
  control.Answer(false, "");
  EXPECT_EQ(control.view().state, ReaderControl::State::kRunning);
  control.Release(clock.Now(), seconds(60));
  EXPECT_EQ(control.view().state, ReaderControl::State::kReleasing);
  EXPECT_TRUE(control.Query(clock.Now()).release);
  control.Answer(true, "");
  EXPECT_EQ(control.view().state, ReaderControl::State::kReleased);
  clock.Advance(seconds(60));
  EXPECT_FALSE(control.Query(clock.Now()).release);
  EXPECT_EQ(control.view().state, ReaderControl::State::kRunning);
  control.Release(clock.Now(), Duration(0));
  clock.Advance(std::chrono::hours(1000));
  EXPECT_TRUE(control.Query(clock.Now()).release) << "until it is resumed";
  control.Resume();
  EXPECT_FALSE(control.Query(clock.Now()).release);
  control.Leave();
  EXPECT_EQ(control.view().state, ReaderControl::State::kUnowned);
  // A changed configuration: the next collector begins before the old one ends.
  control.Join();
  control.Query(clock.Now());
  control.Join();
  control.Leave();
  EXPECT_EQ(control.view().state, ReaderControl::State::kRunning);
  control.Leave();
  EXPECT_EQ(control.view().state, ReaderControl::State::kUnowned);
}

class ControlSocketTest : public testing::Test {
 protected:
  ControlSocketTest()
      : folder_(testing::TempDir() + "control_" + std::to_string(::getpid()) + "_" +
                testing::UnitTest::GetInstance()->current_test_info()->name()),
        path_(folder_ + "/gpulens.sock") {
    std::filesystem::remove_all(folder_);
    loop_.Start();
    loop_.Call([&] { socket_ = std::make_unique<ControlSocket>(loop_, RealClock(), control_); });
  }
  ~ControlSocketTest() override {
    ending_ = true;
    if (collector_.joinable()) collector_.join();
    loop_.Call([&] { socket_.reset(); });
    loop_.Stop();
    std::filesystem::remove_all(folder_);
  }
  Status Open() {
    Status status;
    loop_.Call([&] { status = socket_->Open(path_); });
    return status;
  }
  // A collector that obeys.
  void Collect() {
    control_.Query(RealClock().Now());
    collector_ = std::thread([this] {
      while (!ending_) control_.Answer(control_.Query(RealClock().Now()).release, "");
    });
  }
  std::string Query(const std::string& command) {
    auto answer = QueryAgent(path_, command, seconds(20));
    return answer ? *answer : "failed: " + answer.error().detail;
  }

  const std::string folder_, path_;
  ReaderControl control_;
  IoLoop loop_;
  std::unique_ptr<ControlSocket> socket_;
  std::atomic<bool> ending_{false};
  std::thread collector_;
};

TEST_F(ControlSocketTest, ReleasesAndResumes) {
  ASSERT_TRUE(Open());
  Collect();
  EXPECT_EQ(Query("nvml status"), "ok running");
  EXPECT_EQ(Query("nvml release 60s"), "ok released for 60 s");
  EXPECT_EQ(control_.view().state, ReaderControl::State::kReleased) << "the answer came when it was so";
  EXPECT_THAT(Query("nvml status"), StartsWith("ok released for "));
  EXPECT_EQ(Query("nvml resume"), "ok running");
  EXPECT_EQ(Query("nvml release"), "ok released until it is resumed");
}

// A process that is stuck in the kernel does not end, which the status reports.
TEST_F(ControlSocketTest, ReportsReleaseThatDoesNotEnd) {
  ASSERT_TRUE(Open());
  control_.Query(RealClock().Now());
  control_.Release(RealClock().Now(), Duration(0));
  std::string status = Query("nvml status");
  EXPECT_THAT(status, StartsWith("ok releasing: "));
  auto finding = DriverFinding(std::string_view(status).substr(3));
  ASSERT_TRUE(finding.has_value());
  EXPECT_EQ(finding->kind, Finding::kNoPermission);
  EXPECT_THAT(finding->why, HasSubstr("has not ended yet"));
}

TEST_F(ControlSocketTest, ReportsTroubleOfRunningProcess) {
  ASSERT_TRUE(Open());
  control_.Query(RealClock().Now());
  control_.Answer(false, "nvmlEventSetWait_v2 has not returned for 12 s: no events are reported");
  std::string status = Query("nvml status");
  EXPECT_EQ(status, "ok running, but nvmlEventSetWait_v2 has not returned for 12 s: no events are reported");
  auto finding = DriverFinding(std::string_view(status).substr(3));
  ASSERT_TRUE(finding.has_value());
  EXPECT_EQ(finding->kind, Finding::kBroken);
  EXPECT_THAT(finding->why, StartsWith("nvmlEventSetWait_v2"));
  control_.Answer(false, "");
  EXPECT_EQ(Query("nvml status"), "ok running");
}

TEST(DriverFinding, EmptyForHealthyDriver) {
  EXPECT_FALSE(DriverFinding("running").has_value());
  EXPECT_FALSE(DriverFinding("").has_value()) << "nobody answers";
  auto released = DriverFinding("released for 60 s");
  ASSERT_TRUE(released.has_value());
  EXPECT_EQ(released->why, "its reader process is released for 60 s");
  EXPECT_EQ(released->remedy, "gpulens gpu resume");
}

TEST_F(ControlSocketTest, RefusesFaultsForRealGpus) {
  FaultFile faults;
  ASSERT_TRUE(faults.Open());
  loop_.Call([&] { socket_ = std::make_unique<ControlSocket>(loop_, RealClock(), control_, &faults); });
  ASSERT_TRUE(Open());
  Collect();
  EXPECT_THAT(Query("nvml fail gpu=3 mode=lost"), StartsWith("error this agent reads real GPUs"));
  EXPECT_THAT(Query("nvml faults"), StartsWith("error this agent reads real GPUs"));
  control_.Report(true, 8);
  EXPECT_EQ(Query("nvml faults"), "ok no faults");
  EXPECT_THAT(Query("nvml fail gpu=3 mode=lost"), StartsWith("ok #1 GPU 3 lost"));
  EXPECT_THAT(Query("nvml fail gpu=8 mode=lost"), HasSubstr("has GPUs 0 to 7"));
  EXPECT_THAT(Query("nvml fail"), StartsWith("error mode is missing"));
  // What the reader process finds there.
  auto text = ReadFile(faults.path());
  ASSERT_TRUE(text.ok()) << text.error().detail;
  auto script = nvml::ParseFaultScript(*text);
  ASSERT_TRUE(script.ok()) << *text;
  EXPECT_EQ(script->size(), 1u);
  EXPECT_EQ(Query("nvml heal"), "ok 1 fault was healed");
  EXPECT_EQ(Query("nvml faults"), "ok no faults");
  loop_.Call([&] { socket_.reset(); });
}

TEST_F(ControlSocketTest, CommandsForTheDemoReachIt) {
  ASSERT_TRUE(Open());
  EXPECT_THAT(Query("demo set engine=a load=1"), StartsWith("error this agent simulates no engines"));
  std::vector<std::string> received;
  loop_.Call([&] {
    socket_.reset();
    ControlHooks hooks{nullptr, {}, nullptr, {}, [&](std::string_view command) -> Result<std::string> {
                         received.emplace_back(command);
                         if (command.starts_with("stop"))
                           return Status{Code::kInvalidArgument, "no such engine"};
                         return std::string("done;and more");
                       }};
    socket_ = std::make_unique<ControlSocket>(loop_, RealClock(), control_, nullptr, std::move(hooks));
  });
  ASSERT_TRUE(Open());
  EXPECT_EQ(Query("demo set engine=a load=1"), "ok done;and more");
  EXPECT_EQ(Query("demo stop engine=b"), "error no such engine");
  EXPECT_THAT(Query("demo dance"), StartsWith("error "));
  EXPECT_THAT(received, ::testing::ElementsAre("set engine=a load=1", "stop engine=b"));
}

TEST_F(ControlSocketTest, ReportsStatusAndClearsXids) {
  Workers workers(1);
  EventQueue queue;
  ASSERT_TRUE(Open());
  EXPECT_THAT(Query("agent status"), StartsWith("error "));
  EXPECT_THAT(Query("xid clear"), StartsWith("error "));
  std::string long_text(100'000, 'x');
  loop_.Call([&] {
    socket_.reset();
    ControlHooks hooks{&workers, [&] { return long_text; }, &queue, {}, {}};
    socket_ = std::make_unique<ControlSocket>(loop_, RealClock(), control_, nullptr, std::move(hooks));
  });
  ASSERT_TRUE(Open());
  EXPECT_EQ(Query("agent status"), "ok " + long_text);
  EXPECT_THAT(Query("xid clear 3"), HasSubstr("GPU 3"));
  EXPECT_THAT(Query("xid clear"), HasSubstr("every GPU"));
  auto events = queue.Take();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].name, "gpu.xid.clear");
  EXPECT_EQ(events[0].attributes.Text("gpu.xid.clear.gpu"), "3");
  EXPECT_FALSE(events[1].attributes.Has("gpu.xid.clear.gpu"));
  loop_.Call([&] { socket_.reset(); });
  workers.Stop();
}

// A page of the API may be long; its newlines become blanks, since an answer is one line.
TEST_F(ControlSocketTest, AnswersGetFromAnotherThread) {
  Workers workers;
  std::string page = "{\"big\":\"" + std::string(3 << 20, 'x') + "\"}";
  loop_.Call([&] {
    ControlHooks hooks{nullptr, {}, nullptr, {}, {}};
    hooks.get = [&](std::string target, std::function<void(Result<std::string>)> done) {
      if (target == "/api/full") return false;
      return workers.Post([&page, target, done] {
        if (target == "/api/big") return done(page);
        if (target == "/api/lines") return done(std::string("[1,\n2]\n"));
        if (target == "/api/huge") return done(std::string(kMaxGetAnswer, 'x'));
        done(Status{Code::kInvalidArgument, "wrong: " + target.substr(0, 20)});
      });
    };
    socket_ = std::make_unique<ControlSocket>(loop_, RealClock(), control_, nullptr, std::move(hooks));
  });
  ASSERT_TRUE(Open());
  EXPECT_EQ(Query("get /api/big"), "ok " + page);
  EXPECT_EQ(Query("get  /api/lines "), "ok [1, 2]");
  EXPECT_THAT(Query("get /api/huge"), StartsWith("error exhausted the answer is longer"));
  EXPECT_EQ(Query("get /api/" + std::string(4000, 'p')),
            "error invalid_argument wrong: /api/ppppppppppppppp");
  EXPECT_THAT(Query("get /api/" + std::string(4096, 'p')), StartsWith("error the command is too long"));
  EXPECT_THAT(Query("get /api/full"), StartsWith("error timeout too many requests wait"));
  loop_.Call([&] { socket_.reset(); });
  workers.Stop();
}

TEST_F(ControlSocketTest, RefusesGetWithoutPages) {
  ASSERT_TRUE(Open());
  EXPECT_EQ(Query("get /api/now"), "error unavailable this agent has no such pages");
  EXPECT_THAT(Query("get"), StartsWith("error no such driver"));
}

TEST_F(ControlSocketTest, RefusesOtherUsers) {
  ASSERT_TRUE(Open());
  struct stat info{};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat(folder_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0755u);
}

TEST_F(ControlSocketTest, ReportsMissingCollector) {
  ASSERT_TRUE(Open());
  EXPECT_EQ(Query("nvml release"), "error no NVIDIA collector runs in this agent");
  EXPECT_THAT(Query("nvml dance"), StartsWith("error no such command"));
  EXPECT_THAT(Query(std::string(600, 'x')), StartsWith("error the command is too long"));
}

TEST_F(ControlSocketTest, LimitsSilentClients) {
  ASSERT_TRUE(Open());
  Collect();
  Endpoint at;
  at.family = Endpoint::Family::kUnix;
  at.path = path_;
  sockaddr_storage address{};
  socklen_t size = at.ToSockaddr(address);
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 4; ++i) {
    silent.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(silent.back().get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  }
  EXPECT_EQ(Query("nvml status"), "ok running");
  silent.clear();
  EXPECT_EQ(Query("nvml status"), "ok running");
}

TEST_F(ControlSocketTest, SecondAgentIsRefused) {
  ASSERT_TRUE(Open());
  loop_.Call([&] {
    ControlSocket second(loop_, RealClock(), control_);
    EXPECT_FALSE(second.Open(path_).ok());
  });
  EXPECT_THAT(Query("nvml status"), StartsWith("error no NVIDIA")) << "and leaves it alone";
}

TEST_F(ControlSocketTest, ReportsMissingAgent) {
  auto answer = QueryAgent(path_, "nvml status", seconds(1));
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
  Status status;
  loop_.Call([&] { status = socket_->Open("relative.sock"); });
  EXPECT_EQ(status.code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace gpulens

// The agent's side of a reader process of pages, with processes that behave in all ways. The process itself,
// with its limits and its confinement, is in tests/e2e/test_isolate.py.
#include "scrape/page_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "net/io_loop.h"
#include "wire/exposition/page_reply_testing.h"
#include "wire/packing.h"

namespace gpulens {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using StartReason = PageProcess::StartReason;

// A process that only holds the socket.
Result<ChildProcess> Start(const char* program, std::vector<std::string> arguments, int socket) {
  ChildProcess::Options options;
  options.program = program;
  options.arguments = std::move(arguments);
  if (socket >= 0) options.pass_fds = {{socket, socket}};
  return ChildProcess::Start(options);
}

class PageProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    loop_.Start();
    env_.clock = &clock_;
    env_.io = &loop_;
  }
  void TearDown() override {
    process_.reset();
    loop_.Call([] {});  // it closes its socket on the loop; without that a thread would read for ever
    loop_.Stop();
    for (std::thread& thread : threads_) thread.join();
  }

  void Make(PageProcess::Launch launch) {
    process_ = std::make_unique<PageProcess>(limits_, env_, std::move(launch));
    process_->KeepRunning();
  }
  // Serves the socket by a thread; the process next to it is what can be killed.
  PageProcess::Launch By(std::function<void(int socket)> serve) {
    return [this, serve = std::move(serve)](int socket) {
      const int own = ::fcntl(socket, F_DUPFD_CLOEXEC, 0);
      ::fcntl(own, F_SETFL, 0);
      threads_.emplace_back([own, serve] {
        serve(own);
        ::close(own);
      });
      return Start("/bin/sleep", {"1000"}, -1);
    };
  }
  PageProcess::Launch Serving() {
    return By([limits = limits_](int socket) { ServePages(socket, limits); });
  }

  Result<PageReading> Read(const std::string& body, bool gzip = false, Duration timeout = seconds(60)) {
    std::mutex mutex;
    std::condition_variable came;
    bool done = false;
    loop_.Call([&] {
      process_->Query({body, ExpositionFormat::kText004, gzip}, timeout, [&] {
        std::lock_guard lock(mutex);
        done = true;
        came.notify_all();
      });
    });
    std::unique_lock lock(mutex);
    EXPECT_TRUE(came.wait_for(lock, seconds(60), [&] { return done; }));
    return process_->Take(page_);
  }
  uint64_t Starts(StartReason reason) const { return process_->starts()[static_cast<size_t>(reason)]; }

  ExpositionLimits limits_;
  ManualClock clock_;
  IoLoop loop_;
  Env env_;
  DecodedPage page_;
  std::vector<std::thread> threads_;
  std::unique_ptr<PageProcess> process_;
};

TEST_F(PageProcessTest, ReadsPageAfterPage) {
  Make(Serving());
  for (int i = 0; i < 3; ++i) {
    const auto reading = Read("a{x=\"1\"} " + std::to_string(i) + "\n");
    ASSERT_TRUE(reading.ok()) << reading.error().detail;
    EXPECT_EQ(reading->fault, PageFault::kNone);
    ASSERT_EQ(page_.values().size(), 1U);
    EXPECT_EQ(page_.values()[0], i);
  }
  EXPECT_EQ(Starts(StartReason::kFirst), 1U);
}

TEST_F(PageProcessTest, PacksOfAnySizeArriveWhole) {
  Make(Serving());
  std::string body;
  for (int i = 0; i < 19'000; ++i)
    body += "some_longer_name_of_a_metric{instance=\"" + std::to_string(i) + "\",more=\"" +
            std::string(100, 'x') + "\"} 1\n";
  ASSERT_GT(body.size(), 2u << 20);
  ASSERT_TRUE(Read(body).ok());
  EXPECT_EQ(page_.report().samples, 19'000U);
  std::string packed;
  GzipCompressor().Compress(body, packed);
  ASSERT_TRUE(Read(packed, true).ok());
  EXPECT_EQ(page_.report().samples, 19'000U);
  EXPECT_TRUE(page_.appeared().empty());
  ASSERT_TRUE(Read("").ok());
  EXPECT_EQ(page_.vanished().size(), 19'000U);
}

TEST_F(PageProcessTest, FaultsOfAPageAreNoneOfTheProcess) {
  limits_.samples = 2;
  Make(Serving());
  EXPECT_EQ(Read("a 1\na 2\na 3\n")->fault, PageFault::kSamples);
  EXPECT_EQ(Read("\x1f\x8b", true)->fault, PageFault::kNotGzip);
  EXPECT_EQ(Read("a 1\n")->fault, PageFault::kNone);
  EXPECT_EQ(Starts(StartReason::kFirst), 1U);
}

TEST_F(PageProcessTest, OneThatIsSilentIsKilledAndReplaced) {
  int launched = 0;
  Make([&](int socket) {
    return launched++ == 0 ? Start("/bin/sleep", {"1000"}, socket) : Serving()(socket);
  });
  const int pid = process_->pid();
  const auto reading = Read("a 1\n", false, milliseconds(50));
  ASSERT_FALSE(reading.ok());
  EXPECT_EQ(reading.error().code, Code::kTimeout);
  EXPECT_EQ(process_->pid(), -1);
  process_->KeepRunning();  // the first failure is no reason to wait
  EXPECT_NE(process_->pid(), pid);
  EXPECT_EQ(Starts(StartReason::kHang), 1U);
  EXPECT_TRUE(Read("a 1\n").ok());
  // The kernel may take a while to end it.
  for (int i = 0; i < 1000 && ::kill(pid, 0) == 0; ++i) {
    process_->KeepRunning();
    ::poll(nullptr, 0, 10);
  }
  EXPECT_EQ(::kill(pid, 0), -1) << "it is reaped";
}

TEST_F(PageProcessTest, OneThatIsKilledIsReported) {
  Make([&](int socket) { return Start("/bin/sleep", {"1000"}, socket); });
  ::kill(process_->pid(), SIGKILL);
  const auto reading = Read("a 1\n");
  ASSERT_FALSE(reading.ok());
  EXPECT_EQ(reading.error().code, Code::kIo);
  EXPECT_THAT(reading.error().detail, HasSubstr("killed by signal 9"));
  process_->KeepRunning();
  EXPECT_EQ(Starts(StartReason::kKilled), 1U);
}

TEST_F(PageProcessTest, OneThatKeepsFailingWaitsLongerAndLonger) {
  Make([](int socket) { return Start("/bin/false", {}, socket); });
  EXPECT_THAT(Read("a 1\n").error().detail, HasSubstr("exited with 1"));
  process_->KeepRunning();
  EXPECT_EQ(Starts(StartReason::kExited), 1U);
  EXPECT_FALSE(Read("a 1\n").ok());
  process_->KeepRunning();
  EXPECT_EQ(process_->pid(), -1) << "the second failure waits";
  const auto waiting = Read("a 1\n");
  EXPECT_EQ(waiting.error().code, Code::kIo);
  EXPECT_THAT(waiting.error().detail, HasSubstr("waits before it starts the reader process again"));
  clock_.Advance(milliseconds(999));
  process_->KeepRunning();
  EXPECT_EQ(process_->pid(), -1);
  clock_.Advance(milliseconds(1));
  process_->KeepRunning();
  EXPECT_EQ(Starts(StartReason::kExited), 2U);
  EXPECT_FALSE(Read("a 1\n").ok());
  clock_.Advance(milliseconds(1500));
  process_->KeepRunning();
  EXPECT_EQ(Starts(StartReason::kExited), 2U) << "two seconds now";
}

TEST_F(PageProcessTest, OneThatCannotBeStartedIsTriedAgain) {
  int launched = 0;
  Make([&](int socket) -> Result<ChildProcess> {
    if (launched++ == 0) return Status{Code::kExhausted, "no process is left"};
    return Serving()(socket);
  });
  EXPECT_THAT(Read("a 1\n").error().detail, HasSubstr("cannot be started: no process is left"));
  clock_.Advance(seconds(1));
  process_->KeepRunning();
  EXPECT_TRUE(Read("a 1\n").ok());
}

// A process that is no longer ours may send anything.
TEST_F(PageProcessTest, GarbageEndsTheProcess) {
  const std::string too_long("\xff\xff\xff\xff\xff\xff\0\0", 8),
      wrong = std::string("\4\0\0\0\0\0\0\0", 8) + "what", more = std::string("\1\0\0\0\0\0\0\0", 8) + "what";
  for (const std::string& sent : {too_long, wrong, more}) {
    Make(By([sent](int socket) {
      char request[1000];
      for (int i = 0; i < 2; ++i) {
        if (::recv(socket, request, sizeof request, 0) <= 0) return;
      }
      ::send(socket, sent.data(), sent.size(), MSG_NOSIGNAL);
      ::recv(socket, request, sizeof request, 0);  // until the agent closes
    }));
    const auto reading = Read("a 1\n");
    ASSERT_FALSE(reading.ok());
    EXPECT_EQ(reading.error().code, Code::kDataLoss) << reading.error().detail;
    process_->KeepRunning();
    EXPECT_EQ(Starts(StartReason::kProtocol), 1U);
  }
}

TEST_F(PageProcessTest, AReplyWithoutARequestIsGarbage) {
  Make(By([](int socket) {
    const std::string early("\0\0\0\0\0\0\0\0early", 13);
    ::send(socket, early.data(), early.size(), MSG_NOSIGNAL);
    char end;
    ::recv(socket, &end, 1, MSG_WAITALL);
    ::recv(socket, &end, 1, MSG_WAITALL);
  }));
  const std::string body(8u << 20, '\n');
  EXPECT_FALSE(Read(body).ok());
}

TEST_F(PageProcessTest, AProcessThatGetsNoRequestEnds) {
  auto ends = MakeSocketPair();
  ASSERT_TRUE(ends.ok());
  ::fcntl(ends->theirs.get(), F_SETFL, 0);
  ASSERT_EQ(::send(ends->ours.get(), "what a request is not", 21, 0), 21);
  EXPECT_FALSE(ServePages(ends->theirs.get(), limits_));
  ends = MakeSocketPair();
  ::fcntl(ends->theirs.get(), F_SETFL, 0);
  ends->ours.reset();
  EXPECT_TRUE(ServePages(ends->theirs.get(), limits_)) << "the agent has gone";
}

TEST_F(PageProcessTest, ArgumentsAreNumbersAlone) {
  const std::vector<std::vector<std::string_view>> wrong = {
      {},      {"--socket-fd=x"}, {"--socket-fd=-1"}, {"--socket-fd=999"}, {"--socket-fd=0", "--exec=1"},
      {"page"}};
  for (const auto& arguments : wrong) EXPECT_EQ(RunPageReader(arguments), 2);
}

}  // namespace
}  // namespace gpulens

// The way to the agent, with an agent that does not read for a while.
#include "reader/process/device_reader.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/files.h"
#include "base/process.h"

namespace gpulens::reader {
namespace {

const std::vector<std::byte> kMany(1000, std::byte{'m'}), kOnce(10, std::byte{'1'});

class AgentChannelTest : public testing::Test {
 protected:
  void SetUp() override {
    auto pair = MakeSocketPair();
    ASSERT_TRUE(pair.ok());
    agent_ = std::move(pair->ours);
    driver_ = std::move(pair->theirs);
    shared_ = std::make_unique<AgentChannel>(driver_.get());
    while (shared_->Send(kMany)) {
    }
    ASSERT_EQ(shared_->dropped, 1U);
  }
  // The size of the next message; 0 when none comes in 10 s.
  size_t Next() {
    pollfd fd{.fd = agent_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&fd, 1, 10'000) <= 0) return 0;
    char buffer[2000];
    ssize_t size = ::recv(agent_.get(), buffer, sizeof buffer, 0);
    return size > 0 ? static_cast<size_t>(size) : 0;
  }

  // Until a thread of this process waits, or has ended.
  static void AwaitSleep(pid_t thread) {
    const std::string path = "/proc/self/task/" + std::to_string(thread) + "/stat";
    auto stat = ReadFile(path, 4096);
    while (stat.ok() && stat->find(") S ") == std::string::npos) stat = ReadFile(path, 4096);
  }

  UniqueFd agent_, driver_;
  std::unique_ptr<AgentChannel> shared_;
};

TEST_F(AgentChannelTest, DeliverWaitsForRoom) {
  std::promise<pid_t> began;
  std::thread thread([&] {
    began.set_value(::gettid());
    EXPECT_TRUE(shared_->Deliver(kOnce));
  });
  AwaitSleep(began.get_future().get());
  size_t size = Next();
  while (size == kMany.size()) size = Next();
  EXPECT_EQ(size, kOnce.size());
  thread.join();
  EXPECT_EQ(shared_->dropped, 1U) << "nothing was lost by waiting";
}

TEST_F(AgentChannelTest, TheEndOfTheDriverEndsTheWait) {
  std::thread thread([&] { EXPECT_FALSE(shared_->Deliver(kOnce)); });
  shared_->Stop(Duration(0));
  thread.join();
  EXPECT_EQ(shared_->dropped, 2U);
}

}  // namespace
}  // namespace gpulens::reader

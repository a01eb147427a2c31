#include "net/auth/password_thread.h"

#include <sys/resource.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

namespace gpulens {
namespace {

Endpoint At(const char* text) { return *ParseIp(text, 5000); }

class PasswordQueueTest : public ::testing::Test {
 protected:
  bool Push(const char* from, const std::string& name) {
    PasswordQueue::Job gone, job = [this, name](bool turn) { said_.push_back(name + (turn ? "" : " gone")); };
    const bool taken = queue_.Push(At(from), job, gone);
    if (gone) gone(false);
    return taken;
  }
  std::vector<std::string> All() {
    said_.clear();
    while (auto job = queue_.Pop()) (*job)(true);
    return said_;
  }
  PasswordQueue queue_{{.waiting = 6, .of_one_address = 4}};
  std::vector<std::string> said_;
};

TEST_F(PasswordQueueTest, AddressesTakeTurns) {
  for (const char* name : {"a1", "a2", "a3"}) EXPECT_TRUE(Push("10.0.0.1", name));
  EXPECT_TRUE(Push("10.0.0.2", "b1"));
  EXPECT_TRUE(Push("10.0.0.2", "b2"));
  EXPECT_TRUE(Push("10.0.0.3", "c1"));
  EXPECT_THAT(All(), ::testing::ElementsAre("a1", "b1", "c1", "a2", "b2", "a3"));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(PasswordQueueTest, AnAddressHasItsShareAndNoMore) {
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Push("127.0.0.1", "l"));
  EXPECT_FALSE(Push("127.9.9.9", "l")) << "all addresses of the loopback are one machine";
  EXPECT_FALSE(Push("::1", "l"));
  EXPECT_TRUE(Push("10.0.0.2", "other"));
  EXPECT_EQ(queue_.size(), 5u);
}

TEST_F(PasswordQueueTest, AnIpv6NetworkIsOneAddress) {
  for (const char* from : {"2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8::4"})
    EXPECT_TRUE(Push(from, "x"));
  EXPECT_FALSE(Push("2001:db8::5", "x"));
  EXPECT_TRUE(Push("2001:db8:0:1::5", "x"));
}

TEST_F(PasswordQueueTest, InAFullQueueTheGreediestGivesWay) {
  for (const char* name : {"a1", "a2", "a3", "a4"}) EXPECT_TRUE(Push("10.0.0.1", name));
  for (const char* name : {"b1", "b2"}) EXPECT_TRUE(Push("10.0.0.2", name));
  EXPECT_TRUE(Push("10.0.0.3", "c1"));
  EXPECT_THAT(said_, ::testing::ElementsAre("a4 gone"));
  EXPECT_TRUE(Push("10.0.0.3", "c2"));
  EXPECT_FALSE(Push("10.0.0.3", "c3")) << "nobody has more than it would have";
  EXPECT_THAT(All(), ::testing::ElementsAre("a1", "b1", "c1", "a2", "b2", "c2"));
}

TEST(PasswordThread, RunsAtALowPriorityAndOnlyWhenAsked) {
  PasswordThread thread;
  std::promise<int> nice;
  ASSERT_TRUE(thread.Post({}, [&](bool turn) {
    nice.set_value(turn ? ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid())) : -99);
  }));
  auto told = nice.get_future();
  ASSERT_EQ(told.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  const int before = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
  EXPECT_EQ(told.get(), std::max(10, before));
  thread.Stop();
  EXPECT_FALSE(thread.Post({}, [](bool) { FAIL(); }));
}

}  // namespace
}  // namespace gpulens

#include "base/threads.h"

#include <gtest/gtest.h>

#include <future>

#include "base/no_threads_testing.h"

namespace gpulens {
namespace {

TEST(StartThread, RunsIt) {
  int number = 0;
  std::thread thread;
  ASSERT_TRUE(StartThread(thread, [&] { number = 7; }).ok());
  thread.join();
  EXPECT_EQ(number, 7);
}

TEST(StartThread, SaysThatThereIsNoRoom) {
  NoThreads none;
  std::thread thread;
  Status status = StartThread(thread, [] {});
  EXPECT_EQ(status.code, Code::kExhausted);
  EXPECT_EQ(status.detail.substr(0, 16), "start a thread: ");
  EXPECT_FALSE(thread.joinable());
  EXPECT_EQ(StartDetachedThread([] {}).code, Code::kExhausted);
}

TEST(StartDetachedThread, RunsItOnItsStack) {
  std::promise<int> told;
  ASSERT_TRUE(StartDetachedThread([&] { told.set_value(7); }, size_t{256} << 10).ok());
  EXPECT_EQ(told.get_future().get(), 7);
  // A stack that no machine has.
  EXPECT_EQ(StartDetachedThread([] {}, size_t{1} << 48).code, Code::kExhausted);
}

}  // namespace
}  // namespace gpulens

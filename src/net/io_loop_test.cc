#include "net/io_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <thread>

#include "base/testing/allocations.h"
#include "net/testing/test_client.h"

namespace gpulens {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST(IoLoop, RunsTasksInOrderOnItsThread) {
  IoLoop loop;
  std::vector<int> order;
  loop.Call([&] { order.push_back(0); });  // not started: here
  loop.Start();
  EXPECT_FALSE(loop.InLoop());
  for (int i = 1; i < 4; ++i) {
    loop.Post([&order, &loop, i] {
      EXPECT_TRUE(loop.InLoop());
      order.push_back(i);
    });
  }
  loop.Call([&] {
    loop.Call([&] { order.push_back(4); });
    order.push_back(5);
  });
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  loop.Stop();
  loop.Call([&] { order.push_back(6); });
  EXPECT_EQ(order.back(), 6);
  loop.Post([&] { order.push_back(7); });
  EXPECT_EQ(order.back(), 6);
}

TEST(IoLoop, RunsOnTheCallersThread) {
  IoLoop loop;
  loop.After(1ms, [&] { loop.Stop(); });
  loop.Run();
  EXPECT_FALSE(loop.InLoop());
}

TEST(IoLoop, TimersFireInOrderAndCanBeForgotten) {
  IoLoop loop;
  loop.Start();
  std::promise<void> done;
  std::vector<int> fired;
  loop.Call([&] {
    loop.After(20ms, [&] {
      fired.push_back(2);
      done.set_value();
    });
    loop.After(1ms, [&] { fired.push_back(1); });
    IoLoop::TimerId forgotten = loop.After(2ms, [&] { fired.push_back(3); });
    EXPECT_NE(forgotten, 0u);
    loop.Cancel(forgotten);
    loop.Cancel(0);
  });
  ASSERT_EQ(done.get_future().wait_for(10s), std::future_status::ready);
  EXPECT_EQ(fired, (std::vector<int>{1, 2}));
  // From outside.
  std::promise<void> outside;
  IoLoop::TimerId late = loop.After(1h, [&] { FAIL(); });
  loop.After(0ms, [&] { outside.set_value(); });
  EXPECT_EQ(outside.get_future().wait_for(10s), std::future_status::ready);
  loop.Cancel(late);
}

TEST(IoLoop, ATimerThatComesAgainAndAgainAllocatesNothing) {
  if (!AllocationsAreCounted()) GTEST_SKIP() << "a sanitizer brings its own operator new";
  IoLoop loop;
  loop.Start();
  struct {
    IoLoop& loop;
    int left = 40;
    uint64_t warm = 0, cold = 0;
    std::promise<void> done{};
    void Arm() {
      IoLoop::TimerId other = loop.After(1h, [] { FAIL(); });
      loop.After(1us, [this] { Fire(); });
      loop.Cancel(other);
    }
    void Fire() {
      if (--left == 20) warm = ThreadAllocations();
      if (left > 0) return Arm();
      cold = ThreadAllocations();
      done.set_value();
    }
  } chain{loop};
  loop.Call([&] { chain.Arm(); });
  ASSERT_EQ(chain.done.get_future().wait_for(20s), std::future_status::ready);
  EXPECT_EQ(chain.cold, chain.warm);
}

TEST(IoLoop, AnObjectOfATimerThatWasForgottenServesAnother) {
  IoLoop loop;
  loop.Start();
  std::promise<void> done;
  std::vector<int> fired;
  loop.Call([&] {
    // Its wait is over and queued when it is forgotten; the next timer waits with the same object.
    IoLoop::TimerId first = loop.After(0ms, [&] { fired.push_back(1); });
    loop.Cancel(first);
    IoLoop::TimerId second = loop.After(5ms, [&] { fired.push_back(2); });
    loop.Cancel(first);
    EXPECT_NE(first, second);
    loop.After(20ms, [&] { done.set_value(); });
  });
  ASSERT_EQ(done.get_future().wait_for(20s), std::future_status::ready);
  loop.Call([&] { EXPECT_EQ(fired, (std::vector<int>{2})); });
}

TEST(IoLoop, SignalsComeEveryTime) {
  IoLoop loop;
  std::atomic<int> count{0};
  ASSERT_TRUE(loop.OnSignal(SIGHUP, [&] { ++count; }).ok());
  loop.Start();
  for (int i = 1; i <= 3; ++i) {
    ::raise(SIGHUP);
    EXPECT_TRUE(testing::Eventually([&] { return count == i; }));
  }
  EXPECT_EQ(loop.OnSignal(SIGKILL, [] {}).code, Code::kInvalidArgument);
}

TEST(IoLoop, LooksUpNames) {
  IoLoop loop;
  loop.Start();
  auto resolve = [&](const std::string& host) {
    std::promise<Result<std::vector<Endpoint>>> answer;
    loop.Resolve(host, 80, [&](Result<std::vector<Endpoint>> found) { answer.set_value(std::move(found)); });
    return answer.get_future().get();
  };
  EXPECT_EQ(resolve("127.0.0.1")->front().ToString(), "127.0.0.1:80");
  EXPECT_EQ(resolve("::1")->front().ToString(), "[::1]:80");
  auto bad = resolve("no-such-host.invalid");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code, Code::kUnavailable);
  EXPECT_THAT(bad.error().detail, HasSubstr("look up no-such-host.invalid"));
  auto local = resolve("localhost");
  EXPECT_TRUE(!local.ok() || local->front().IsLoopback());
}

}  // namespace
}  // namespace gpulens

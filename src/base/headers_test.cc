// The small headers: references, rings, numbers, clocks, descriptors, checks, results, workers.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/no_threads_testing.h"
#include "base/parse.h"
#include "base/ref.h"
#include "base/result.h"
#include "base/ring.h"
#include "base/terminate.h"
#include "base/threads.h"

namespace gpulens {
namespace {

struct Base : RefCounted<Base> {
  explicit Base(int* deaths = nullptr) : deaths_(deaths) {}
  ~Base() {
    if (deaths_) ++*deaths_;
  }
  int value = 0;
  int* deaths_;
};

TEST(Ref, TheLastHolderDestroys) {
  int deaths = 0;
  {
    Ref<Base> a = MakeRef<Base>(&deaths);
    EXPECT_TRUE(a.unique());
    Ref<Base> b = a;
    EXPECT_FALSE(a.unique());
    EXPECT_EQ(a, b);
    Ref<const Base> c = b;
    b = nullptr;
    EXPECT_FALSE(b);
    Ref<Base> d = std::move(a);
    EXPECT_FALSE(a);
    const Ref<Base>& same = d;
    d = same;
    EXPECT_EQ(deaths, 0);
    EXPECT_EQ(c.get(), d.get());
  }
  EXPECT_EQ(deaths, 1);
}

TEST(Ref, NullIsHarmless) {
  Ref<Base> null, other{nullptr};
  EXPECT_FALSE(null.unique());
  EXPECT_EQ(null, other);
  null = other;
  Ref<Base> raw(static_cast<Base*>(nullptr));
  EXPECT_FALSE(raw);
}

TEST(Ref, ACopiedObjectStartsWithoutHolders) {
  Ref<Base> a = MakeRef<Base>();
  a->value = 5;
  Ref<Base> held = a;
  Ref<Base> copy = MakeRef<Base>(*a);
  EXPECT_TRUE(copy.unique());
  EXPECT_EQ((*copy).value, 5);
  *copy = *a;
  EXPECT_TRUE(copy.unique());
  EXPECT_FALSE(a.unique());
}

// A pool writes into an object again as soon as unique() is true; tsan would show a race.
TEST(Ref, UniqueIsASynchronisationPoint) {
  Ref<Base> pooled = MakeRef<Base>();
  std::mutex mutex;
  Ref<Base> published;
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop.load()) {
      Ref<Base> mine;
      {
        std::lock_guard lock(mutex);
        mine = std::exchange(published, nullptr);
      }
      if (mine) {
        EXPECT_GE(mine->value, 0);
      }
    }
  });
  int written = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (!pooled.unique()) continue;
    pooled->value = ++written;
    std::lock_guard lock(mutex);
    published = pooled;
  }
  stop = true;
  reader.join();
  EXPECT_GT(written, 0);
}

TEST(Ring, KeepsOrderAndRefusesWhenFull) {
  Ring<int> ring(3);
  EXPECT_TRUE(ring.empty());
  EXPECT_EQ(ring.Pop(), std::nullopt);
  for (int i = 1; i <= 3; ++i) EXPECT_TRUE(ring.Push(int{i}));
  EXPECT_TRUE(ring.full());
  EXPECT_FALSE(ring.Push(4));
  EXPECT_EQ(ring[0], 1);
  EXPECT_EQ(ring[2], 3);
  EXPECT_EQ(ring.Pop(), 1);
  EXPECT_TRUE(ring.Push(4));
  EXPECT_EQ(ring[2], 4) << "round the end";
  EXPECT_EQ(ring.size(), 3u);
}

TEST(Ring, DropsTheOldest) {
  Ring<int> ring(2);
  EXPECT_FALSE(ring.PushDroppingOldest(1));
  EXPECT_FALSE(ring.PushDroppingOldest(2));
  EXPECT_TRUE(ring.PushDroppingOldest(3));
  EXPECT_EQ(ring.Pop(), 2);
  EXPECT_EQ(ring.Pop(), 3);
}

TEST(Ring, HoldsOneAtLeastAndMoves) {
  Ring<std::unique_ptr<int>> ring(0);
  EXPECT_EQ(ring.capacity(), 1u);
  EXPECT_TRUE(ring.Push(std::make_unique<int>(7)));
  auto refused = std::make_unique<int>(8);
  EXPECT_FALSE(ring.Push(std::move(refused)));
  EXPECT_TRUE(refused) << "untouched when full";
  EXPECT_EQ(**ring.Pop(), 7);
}

TEST(ParseInt, TakesTheWholeTextOnly) {
  EXPECT_EQ(ParseInt<int>("42"), 42);
  EXPECT_EQ(ParseInt<int>("-42"), -42);
  EXPECT_EQ(ParseInt<int>("ff", 16), 255);
  EXPECT_EQ(ParseInt<uint64_t>("18446744073709551615"), UINT64_MAX);
  for (std::string_view bad : {"", " 1", "1 ", "+1", "1x", "0x1", "1.0", "--1"}) {
    EXPECT_EQ(ParseInt<int>(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(ParseInt<uint8_t>("256"), std::nullopt);
  EXPECT_EQ(ParseInt<unsigned>("-1"), std::nullopt);
  EXPECT_EQ(ParseInt<uint64_t>("18446744073709551616"), std::nullopt);
}

TEST(ParseDouble, TakesTheWholeTextOnly) {
  EXPECT_EQ(ParseDouble("1.5e3"), 1500.0);
  EXPECT_EQ(ParseDouble("-.5"), -0.5);
  EXPECT_TRUE(std::isinf(*ParseDouble("inf")));
  EXPECT_TRUE(std::isnan(*ParseDouble("nan")));
  for (std::string_view bad : {"", "+1", "1,5", "0x1p3", "1e", "1e999", " 1", "1 "}) {
    EXPECT_EQ(ParseDouble(bad), std::nullopt) << bad;
  }
}

TEST(Trim, TakesBlanksOffBothEnds) {
  EXPECT_EQ(Trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(Trim(" \n"), "");
  EXPECT_EQ(Trim(""), "");
}

TEST(TakeUntil, WalksThroughText) {
  std::string_view rest = "a,,b";
  EXPECT_EQ(TakeUntil(rest, ','), "a");
  EXPECT_EQ(TakeUntil(rest, ','), "");
  EXPECT_EQ(TakeUntil(rest, ','), "b");
  EXPECT_EQ(rest, "");
  EXPECT_EQ(TakeUntil(rest, ','), "");
}

TEST(Clock, ManualClockMovesByAdvanceOnly) {
  ManualClock clock({100, 200});
  EXPECT_EQ(clock.Now(), (Instant{100, 200}));
  clock.Advance(Duration(5));
  EXPECT_EQ(clock.Now(), (Instant{105, 205}));
  EXPECT_EQ((Instant{105, 999}) - (Instant{100, 1}), Duration(5)) << "boot time alone";
}

TEST(Clock, TheRealOneGoesForward) {
  Instant a = RealClock().Now(), b = RealClock().Now();
  EXPECT_GE(b.boot_ns, a.boot_ns);
  EXPECT_GT(a.boot_ns, 0);
  EXPECT_GT(a.unix_ns, 1'600'000'000'000'000'000);
}

bool IsOpen(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFd, ClosesOnce) {
  int raw = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  int other = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  {
    UniqueFd fd(raw);
    EXPECT_TRUE(fd);
    UniqueFd moved = std::move(fd);
    EXPECT_FALSE(fd);
    EXPECT_EQ(moved.get(), raw);
    UniqueFd target(other);
    target = std::move(moved);
    EXPECT_FALSE(IsOpen(other)) << "what was assigned over is closed";
    EXPECT_TRUE(IsOpen(raw));
    UniqueFd& same = target;
    target = std::move(same);
    EXPECT_EQ(target.release(), raw);
    EXPECT_FALSE(target);
  }
  EXPECT_TRUE(IsOpen(raw));
  UniqueFd(raw).reset();
  EXPECT_FALSE(IsOpen(raw));
}

TEST(Check, NamesConditionAndPlace) {
  CHECK(1 + 1 == 2);
  EXPECT_DEATH(CHECK(1 + 1 == 3), "CHECK failed: 1 \\+ 1 == 3 at .*headers_test.cc:[0-9]+");
  std::string longest(2000, 'x');
  EXPECT_DEATH(CheckFailed(longest.c_str(), "f", 1), "CHECK failed: xxx");
  EXPECT_DEATH(
      {
        std::set_terminate(PrintStackAndAbort);
        []() noexcept { return std::vector<int>().at(7); }();
      },
      "terminated by vector::.*7.*; calls, for addr2line -e:( 0x[0-9a-f]+){3}");
}

Result<int> Positive(int value) {
  if (value <= 0) return Status{Code::kInvalidArgument, "not positive"};
  return value;
}
Result<int> Doubled(int value) {
  ASSIGN_OR_RETURN(int positive, Positive(value));
  RETURN_IF_ERROR(positive > 100 ? (Status{Code::kExhausted, "too much"}) : Ok());
  return positive * 2;
}

TEST(Result, CarriesAValueOrAStatus) {
  EXPECT_EQ(*Doubled(4), 8);
  EXPECT_EQ(Doubled(-1).error().detail, "not positive");
  EXPECT_EQ(Doubled(101).error().code, Code::kExhausted);
  EXPECT_EQ(Doubled(0).value_or(7), 7);
  EXPECT_TRUE(Doubled(4).status().ok());
  EXPECT_EQ(Doubled(0).status().code, Code::kInvalidArgument);
  for (int code = 0; code <= static_cast<int>(Code::kIo); ++code) {
    EXPECT_NE(CodeName(static_cast<Code>(code)), "unknown");
  }
  EXPECT_EQ(CodeName(static_cast<Code>(99)), "unknown");
}

// Counts down from the workers' side; waits from the test's.
class Latch {
 public:
  explicit Latch(int count) : count_(count) {}
  void Down() {
    std::lock_guard lock(mutex_);
    if (--count_ <= 0) zero_.notify_all();
  }
  bool Wait() {
    std::unique_lock lock(mutex_);
    return zero_.wait_for(lock, std::chrono::seconds(10), [this] { return count_ <= 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable zero_;
  int count_;
};

TEST(Workers, RunJobsInOrder) {
  std::vector<int> order;
  Latch done(100);
  Workers workers(1, 200);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(workers.Post([&, i] {
      order.push_back(i);
      done.Down();
    }));
  }
  ASSERT_TRUE(done.Wait());
  workers.Stop();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(Workers, RetriesThreadsThatCouldNotBeStarted) {
  Latch done(2);
  auto none = std::make_unique<NoThreads>();
  Workers workers(2, 10);
  EXPECT_EQ(workers.status().code, Code::kExhausted);
  EXPECT_TRUE(workers.Post([&] { done.Down(); })) << "it waits";
  none.reset();
  EXPECT_TRUE(workers.Post([&] { done.Down(); }));
  EXPECT_TRUE(workers.status().ok());
  EXPECT_TRUE(done.Wait());
}

TEST(Workers, AFullQueueRefusesAndStopDropsIt) {
  std::atomic<int> ran{0};
  Latch started(1), release(1);
  Workers workers(1, 2);
  ASSERT_TRUE(workers.Post([&] {
    started.Down();
    release.Wait();
    ++ran;
  }));
  ASSERT_TRUE(started.Wait());
  EXPECT_TRUE(workers.Post([&] { ++ran; }));
  EXPECT_TRUE(workers.Post([&] { ++ran; }));
  EXPECT_FALSE(workers.Post([&] { ++ran; }));
  std::thread stopper([&] { workers.Stop(); });
  while (workers.Post([&] { ++ran; })) std::this_thread::yield();
  release.Down();
  stopper.join();
  EXPECT_FALSE(workers.Post([&] { ++ran; }));
  EXPECT_GE(ran.load(), 1);
}

TEST(StartThread, RunsIt) {
  int number = 0;
  std::thread thread;
  ASSERT_TRUE(StartThread(thread, [&] { number = 7; }).ok());
  thread.join();
  EXPECT_EQ(number, 7);
}

TEST(StartThread, ReportsExhaustion) {
  NoThreads none;
  std::thread thread;
  Status status = StartThread(thread, [] {});
  EXPECT_EQ(status.code, Code::kExhausted);
  EXPECT_EQ(status.detail.substr(0, 16), "start a thread: ");
  EXPECT_FALSE(thread.joinable());
  EXPECT_EQ(StartDetachedThread([] {}).code, Code::kExhausted);
}

TEST(StartDetachedThread, RunsItOnItsStack) {
  std::promise<int> result;
  ASSERT_TRUE(StartDetachedThread([&] { result.set_value(7); }, size_t{256} << 10).ok());
  EXPECT_EQ(result.get_future().get(), 7);
  // A stack that no machine has.
  EXPECT_EQ(StartDetachedThread([] {}, size_t{1} << 48).code, Code::kExhausted);
}

}  // namespace

}  // namespace gpulens

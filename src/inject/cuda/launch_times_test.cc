#include "inject/cuda/launch_times.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "inject/cuda/kernel_names.h"

namespace gpulens::inject {
namespace {

using Answer = LaunchTimes::Answer;
constexpr uint32_t kRound = uint32_t{1} << LaunchTimes::kSlotBits;
constexpr uint64_t kNow = 1'790'000'000'123'456'789;

class LaunchTimesTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(times_.Open()); }
  LaunchTimes times_;
  uint64_t delay_ = 0;
};

TEST_F(LaunchTimesTest, FindsALaunchOnce) {
  times_.Put(7, kNow);
  EXPECT_EQ(times_.Take(7, kNow + 5000, delay_), Answer::kFound);
  EXPECT_EQ(delay_, 5000U);
  EXPECT_EQ(times_.Take(7, kNow + 6000, delay_), Answer::kUnknown);  // the second kernel of a graph
}

TEST_F(LaunchTimesTest, KnowsWhatWasOverwrittenFromWhatWasNeverSeen) {
  times_.Put(7, kNow);
  EXPECT_EQ(times_.Take(7 + kRound, kNow + 1, delay_), Answer::kUnknown);
  times_.Put(7 + kRound, kNow + 10);
  EXPECT_EQ(times_.Take(7, kNow + 20, delay_), Answer::kOverwritten);
  EXPECT_EQ(times_.Take(7 + kRound, kNow + 20, delay_), Answer::kFound);
  EXPECT_EQ(delay_, 10U);
}

TEST_F(LaunchTimesTest, CorrelationsThatWrapAround) {
  times_.Put(0xFFFFFFFF, kNow);
  EXPECT_EQ(times_.Take(0xFFFFFFFF, kNow + 3, delay_), Answer::kFound);
  times_.Put(0xFFFFFFFF, kNow);
  times_.Put(0xFFFFFFFF + kRound, kNow + 1);  // 131071
  EXPECT_EQ(times_.Take(0xFFFFFFFF, kNow + 3, delay_), Answer::kOverwritten);
}

TEST_F(LaunchTimesTest, TimesAcrossTheEndOfTheStoredBits) {
  constexpr uint64_t kEnd = uint64_t{1} << 49;
  times_.Put(1, kEnd - 100);
  EXPECT_EQ(times_.Take(1, kEnd + 100, delay_), Answer::kFound);
  EXPECT_EQ(delay_, 200U);
}

TEST_F(LaunchTimesTest, AStartBeforeTheLaunch) {
  times_.Put(1, kNow);
  EXPECT_EQ(times_.Take(1, kNow - 900'000, delay_), Answer::kFound);
  EXPECT_EQ(delay_, 0U);
  times_.Put(1, kNow);
  EXPECT_EQ(times_.Take(1, kNow - 2'000'000, delay_), Answer::kUnknown);  // the clock was set
}

TEST(BufferPool, GivesEachBufferOnce) {
  static BufferPool pool;
  ASSERT_TRUE(pool.Open());
  std::set<uint8_t*> taken;
  for (size_t i = 0; i < BufferPool::kBuffers; ++i) {
    uint8_t* buffer = pool.Take();
    ASSERT_NE(buffer, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer) % 8, 0U);
    buffer[0] = buffer[BufferPool::kSize - 1] = 1;
    EXPECT_TRUE(taken.insert(buffer).second);
  }
  EXPECT_EQ(pool.Take(), nullptr);
  uint8_t other = 0;
  pool.Return(&other);  // not of the pool
  EXPECT_EQ(pool.Take(), nullptr);
  pool.Return(*taken.begin());
  EXPECT_EQ(pool.Take(), *taken.begin());
}

TEST(BufferPool, Threads) {
  static BufferPool pool;
  ASSERT_TRUE(pool.Open());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int turn = 0; turn < 20000; ++turn) {
        uint8_t* buffer = pool.Take();
        ASSERT_NE(buffer, nullptr);
        ASSERT_EQ(buffer[8], 0);
        buffer[8] = 1;
        buffer[8] = 0;
        pool.Return(buffer);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

std::string NameOf(const job_page::Kernels& kernels, const job_page::Kernel& kernel) {
  return {kernels.names + kernel.name_at, kernel.name_end - kernel.name_at};
}

class KernelNames : public ::testing::Test {
 protected:
  std::vector<const job_page::Kernel*> Taken() const {
    std::vector<const job_page::Kernel*> taken;
    for (const auto& kernel : kernels_->kernels) {
      if (kernel.key != 0) taken.push_back(&kernel);
    }
    return taken;
  }
  std::unique_ptr<job_page::Kernels> kernels_ = std::make_unique<job_page::Kernels>();
};

TEST_F(KernelNames, ByNameAndDevice) {
  for (int i = 0; i < 3; ++i) AddKernel(*kernels_, "_Z4adamv", 0, 100);
  AddKernel(*kernels_, "_Z4adamv", 1, 50);
  AddKernel(*kernels_, "", 1, 7);
  AddKernel(*kernels_, nullptr, 1, 7);
  ASSERT_EQ(Taken().size(), 2U);
  uint64_t count = 0, ns = 0;
  for (const auto* kernel : Taken()) {
    EXPECT_EQ(NameOf(*kernels_, *kernel), "_Z4adamv");
    count += kernel->count, ns += kernel->total_ns;
    EXPECT_EQ(kernel->count, kernel->device == 0 ? 3U : 1U);
  }
  EXPECT_EQ(count, 4U);
  EXPECT_EQ(ns, 350U);
  EXPECT_EQ(kernels_->other_count, 2U);
  EXPECT_EQ(kernels_->other_ns, 14U);
}

TEST_F(KernelNames, LongNamesAreCut) {
  const std::string name(10000, 'x');
  AddKernel(*kernels_, name.c_str(), 0, 1);
  ASSERT_EQ(Taken().size(), 1U);
  EXPECT_EQ(NameOf(*kernels_, *Taken()[0]).size(), kLongestKernelName);
}

TEST_F(KernelNames, NothingIsLostWhenTheTableIsFull) {
  constexpr size_t kNames = 6000;
  for (int turn = 0; turn < 2; ++turn) {
    for (size_t i = 0; i < kNames; ++i) AddKernel(*kernels_, ("kernel_" + std::to_string(i)).c_str(), 0, 10);
  }
  uint64_t count = kernels_->other_count, ns = kernels_->other_ns;
  EXPECT_GT(count, 0U);
  EXPECT_GT(Taken().size(), job_page::kKernels * 9 / 10);
  for (const auto* kernel : Taken()) count += kernel->count, ns += kernel->total_ns;
  EXPECT_EQ(count, 2 * kNames);
  EXPECT_EQ(ns, 20 * kNames);
}

TEST_F(KernelNames, NothingIsLostWhenThereIsNoRoomForNames) {
  for (int i = 0; i < 600; ++i) {
    const std::string name = std::string(4000, 'y') + std::to_string(i);
    AddKernel(*kernels_, name.c_str(), 0, 1);
  }
  EXPECT_LE(kernels_->names_used, sizeof kernels_->names);
  uint64_t count = kernels_->other_count;
  EXPECT_GT(count, 0U);
  for (const auto* kernel : Taken()) count += kernel->count;
  EXPECT_EQ(count, 600U);
  AddKernel(*kernels_, "short", 0, 1);  // still fits
  EXPECT_EQ(kernels_->other_count, 600U - (Taken().size() - 1));
}

TEST_F(KernelNames, Threads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int turn = 0; turn < 20000; ++turn)
        AddKernel(*kernels_, ("name" + std::to_string(turn % 100)).c_str(), 0, 1);
    });
  }
  for (auto& thread : threads) thread.join();
  uint64_t count = 0;
  std::set<std::string> names;
  for (const auto* kernel : Taken()) {
    count += kernel->count;
    EXPECT_TRUE(names.insert(NameOf(*kernels_, *kernel)).second);
  }
  EXPECT_EQ(count, 80000U);
  EXPECT_EQ(names.size(), 100U);
}

}  // namespace
}  // namespace gpulens::inject

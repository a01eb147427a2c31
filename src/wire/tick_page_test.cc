#include "wire/tick_page.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace gpulens {
namespace {

class TickPageTest : public ::testing::Test {
 protected:
  static Snapshot Tick(uint64_t tick) {
    Snapshot snapshot;
    snapshot.tick = tick;
    return snapshot;
  }
  std::atomic<int> renders_ = 0;
  TickPage page_{[this](const Snapshot& snapshot, std::string& out) {
    ++renders_;
    EXPECT_TRUE(out.empty());
    out = "page of tick " + std::to_string(snapshot.tick) + std::string(1000, '.');
  }};
};

TEST_F(TickPageTest, IsMadeOncePerTick) {
  EXPECT_EQ(page_.Ready(Tick(1), false), nullptr);
  TickPage::Bytes first = page_.Make(Tick(1), false);
  EXPECT_EQ(first->substr(0, 14), "page of tick 1");
  EXPECT_EQ(page_.Make(Tick(1), false), first) << "the same bytes, not equal ones";
  EXPECT_EQ(page_.Ready(Tick(1), false), first);
  EXPECT_EQ(renders_, 1);
  EXPECT_EQ(page_.Ready(Tick(2), false), nullptr);
  EXPECT_EQ(page_.Make(Tick(2), false)->substr(0, 14), "page of tick 2");
  EXPECT_EQ(renders_, 2);
  EXPECT_EQ(first->substr(0, 14), "page of tick 1") << "who holds it keeps it";
}

TEST_F(TickPageTest, PackedBytesComeFromThePlainOnes) {
  EXPECT_EQ(page_.Ready(Tick(1), true), nullptr);
  TickPage::Bytes plain = page_.Make(Tick(1), false);
  EXPECT_EQ(page_.Ready(Tick(1), true), nullptr) << "nobody has asked for it yet";
  TickPage::Bytes packed = page_.Make(Tick(1), true);
  EXPECT_EQ(renders_, 1);
  std::string text;
  ASSERT_TRUE(Gunzip(*packed, 1 << 20, text).ok());
  EXPECT_EQ(text, *plain);
  EXPECT_EQ(page_.Ready(Tick(1), false), plain);
  page_.Make(Tick(2), true);
  EXPECT_NE(page_.Ready(Tick(2), false), nullptr) << "it was made on the way";
  EXPECT_EQ(renders_, 2);
}

TEST_F(TickPageTest, ManyAskingAtOnceMakeOnePage) {
  std::vector<std::thread> threads;
  std::vector<TickPage::Bytes> got(8);
  for (size_t i = 0; i < got.size(); ++i) {
    threads.emplace_back([&, i] { got[i] = page_.Make(Tick(7), i % 2 == 0); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(renders_, 1);
  for (size_t i = 2; i < got.size(); ++i) EXPECT_EQ(*got[i], *got[i % 2]);
}

}  // namespace
}  // namespace gpulens

#include "wire/exposition/tick_page.h"

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

TEST_F(TickPageTest, APageOfOneReaderIsGoneWhenItIsRead) {
  for (uint64_t tick = 1; tick <= 5; ++tick) {
    for (bool gzip : {false, true}) {
      std::weak_ptr<const std::string> gone;
      {
        TickPage page([](const Snapshot&, std::string& out) { out = "some page"; });
        page.Ready(Tick(tick), gzip);
        TickPage::Bytes bytes = page.Make(Tick(tick), gzip);
        gone = bytes;
        bytes.reset();
        EXPECT_TRUE(gone.expired());
      }
    }
    std::weak_ptr<const std::string> bytes = page_.Make(Tick(tick), false);
    EXPECT_TRUE(bytes.expired()) << "tick " << tick;
  }
  EXPECT_EQ(renders_, 5);
}

TEST_F(TickPageTest, APageOfManyReadersIsKeptFromTheirSecondTickOn) {
  for (uint64_t tick = 1; tick <= 4; ++tick) {
    for (int reader = 0; reader < 6; ++reader) {
      TickPage::Bytes bytes = page_.Ready(Tick(tick), false);
      EXPECT_EQ(bytes != nullptr, reader > 1 || (reader == 1 && tick > 1)) << tick << " " << reader;
      if (!bytes) bytes = page_.Make(Tick(tick), false);
      EXPECT_TRUE(bytes->starts_with("page of tick " + std::to_string(tick)));
    }
  }
  EXPECT_EQ(renders_, 5) << "twice in the first tick, in which the second reader was not foreseen";
}

TEST_F(TickPageTest, BytesOfAnOlderTickAreNotShownWhileNewOnesAreMade) {
  TickPage* made = nullptr;
  TickPage page([&made](const Snapshot& snapshot, std::string& out) {
    EXPECT_EQ(made->Ready(snapshot, false), nullptr) << "as the loop asks while a worker writes";
    out = std::to_string(snapshot.tick);
  });
  made = &page;
  TickPage::Bytes old = page.Make(Tick(1), false), fresh = page.Make(Tick(2), false);
  EXPECT_EQ(*old + *fresh, "12");
}

TEST_F(TickPageTest, WhenOnlyOneReaderIsLeftItsPageGoesAgain) {
  auto made = [this](uint64_t tick) {
    return std::weak_ptr<const std::string>(page_.Make(Tick(tick), false));
  };
  made(1), made(1);
  auto second = made(2);
  EXPECT_FALSE(second.expired()) << "the tick before had two";
  auto third = made(3);
  EXPECT_TRUE(second.expired()) << "a kept page goes before the next one is made";
  EXPECT_TRUE(third.expired());
  EXPECT_EQ(renders_, 4);
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
  EXPECT_EQ(page_.Ready(Tick(1), true), packed);
  page_.Make(Tick(2), true);
  EXPECT_NE(page_.Ready(Tick(2), false), nullptr) << "both were requested in the tick before";
  EXPECT_EQ(renders_, 2);
}

TEST_F(TickPageTest, FreesThePlainBytesOfAPackedPageWithoutReaders) {
  TickPage::Bytes packed = page_.Make(Tick(1), true);
  EXPECT_EQ(page_.Ready(Tick(1), false), nullptr);
  EXPECT_EQ(page_.Make(Tick(1), false)->substr(0, 14), "page of tick 1");
  EXPECT_EQ(page_.Ready(Tick(1), true), packed);
  EXPECT_EQ(renders_, 2);
}

TEST_F(TickPageTest, ConcurrentRequestsMakeOnePage) {
  for (bool mixed : {false, true}) {
    uint64_t tick = mixed ? 8 : 7;
    std::vector<std::thread> threads;
    std::vector<TickPage::Bytes> got(8);
    for (size_t i = 0; i < got.size(); ++i) {
      threads.emplace_back([&, i] { got[i] = page_.Make(Tick(tick), mixed && i % 2 == 0); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(renders_, mixed ? 2 : 1);
    for (size_t i = 2; i < got.size(); ++i) EXPECT_EQ(*got[i], *got[i % 2]);
  }
}

}  // namespace
}  // namespace gpulens

// The source against real processes: a simulated hl-smi that can hang, print without end, and fail.
#include "sources/hl_smi/hl_smi_source.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "base/files.h"
#include "base/process.h"

namespace gpulens::hl_smi {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const std::string kFake = GPULENS_SOURCE_DIR "/tests/fake_hl_smi/hl-smi";

class HlSmiSourceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/gpulens-hl-smi-XXXXXX";
    ASSERT_NE(::mkdtemp(folder), nullptr);
    folder_ = folder;
    ::setenv("FAKE_HL_SMI_STATE", (folder_ + "/state").c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("FAKE_HL_SMI_STATE");
    std::filesystem::remove_all(folder_);
  }
  void Mode(const std::string& mode) {
    ASSERT_TRUE(WriteFileAtomically(folder_ + "/state.mode", mode + "\n"));
  }
  static const Reading& Query(HlSmiSource& source, Duration max_age = seconds(60)) {
    std::mutex mutex;
    std::condition_variable came;
    bool done = false;
    source.Request(RealClock().Now() + max_age, [&] {
      std::lock_guard lock(mutex);
      done = true;
      came.notify_all();
    });
    std::unique_lock lock(mutex);
    EXPECT_TRUE(came.wait_for(lock, seconds(120), [&] { return done; }));
    return source.last();
  }
  static HlSmiSource::Options Quick(Duration call = seconds(20)) {
    return {kFake, call, milliseconds(20), true};
  }
  std::string folder_;
};

TEST_F(HlSmiSourceTest, ValuesChangeWithEveryReading) {
  HlSmiSource source(Quick(), RealClock());
  Reading first = Query(source);
  ASSERT_TRUE(first.status.ok()) << first.status.detail;
  ASSERT_EQ(first.cards.size(), 2u);
  EXPECT_EQ(first.cards[1].card.rows_replaced, 4);
  EXPECT_EQ(first.cards[0].ports.ports.size(), 3u);
  EXPECT_EQ(first.cards[0].ports_before.ports.size(), 3u) << "a rate is known at once";
  EXPECT_LT(first.cards[0].ports_before.ports[1].received, first.cards[0].ports.ports[1].received);
  Reading second = Query(source);
  EXPECT_LT(first.cards[0].card.memory_used_bytes, second.cards[0].card.memory_used_bytes);
  EXPECT_EQ(second.cards[0].ports_before.at, first.cards[0].ports.at);
}

TEST_F(HlSmiSourceTest, AnOlderHlSmiIsAskedForLess) {
  Mode("old");
  HlSmiSource source(Quick(), RealClock());
  Reading reading = Query(source);
  ASSERT_TRUE(reading.status.ok()) << reading.status.detail;
  EXPECT_EQ(reading.cards.size(), 2u);
  EXPECT_FALSE(reading.cards[0].card.rows_replaced) << "not told, so not 0";
  uint64_t calls = reading.calls;
  Reading second = Query(source);
  EXPECT_EQ(second.calls - calls, 1u + 2u) << "what it refused is not asked again: cards and two times ports";
}

TEST_F(HlSmiSourceTest, WhatHangsIsKilledAndNamed) {
  Mode("hang");
  HlSmiSource source(Quick(milliseconds(300)), RealClock());
  Reading reading = Query(source);
  EXPECT_EQ(reading.status.code, Code::kTimeout);
  EXPECT_NE(reading.status.detail.find("killed"), std::string::npos) << reading.status.detail;
  EXPECT_EQ(reading.calls, 1u) << "nothing else is started meanwhile";
  EXPECT_EQ(reading.calls_killed, 1u);
  EXPECT_EQ(reading.stuck, 0u);
}

TEST_F(HlSmiSourceTest, WhatPrintsWithoutEndFailsOrTalksNonsenseIsAnError) {
  HlSmiSource source(Quick(), RealClock());
  Mode("endless");
  EXPECT_EQ(Query(source).status.code, Code::kExhausted);
  Mode("garbage");
  EXPECT_EQ(Query(source).status.code, Code::kDataLoss);
  Mode("exit3");
  EXPECT_EQ(Query(source).status.code, Code::kIo);
  EXPECT_NE(source.last().status.detail.find("exited with 3: hl-smi: cannot open"), std::string::npos)
      << source.last().status.detail;
  Mode("none");
  EXPECT_TRUE(Query(source).status.ok());
  Mode("no_cards");
  EXPECT_TRUE(Query(source).status.ok());
  EXPECT_TRUE(source.last().cards.empty());
}

TEST_F(HlSmiSourceTest, EndsAtOnceWhileAProgramHangs) {
  Mode("hang");
  auto source = std::make_unique<HlSmiSource>(Quick(seconds(3600)), RealClock());
  bool called = false;
  source->Request(RealClock().Now() + seconds(3600), [&] { called = true; });
  source.reset();
  EXPECT_FALSE(called);
}

TEST(FindProgram, SaysWhyNot) {
  EXPECT_TRUE(FindProgram("sh").ok());
  EXPECT_TRUE(FindProgram("/bin/sh").ok());
  EXPECT_EQ(FindProgram("/nowhere/hl-smi").error().code, Code::kUnavailable);
  EXPECT_EQ(FindProgram("no-such-program-at-all").error().code, Code::kUnavailable);
  EXPECT_EQ(FindProgram(GPULENS_SOURCE_DIR "/README.md").error().code, Code::kPermissionDenied);
}

}  // namespace
}  // namespace gpulens::hl_smi

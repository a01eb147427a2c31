#include "proxy/loop_journal.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <vector>

#include "base/testing/temp_folder.h"

namespace gpulens::proxy {
namespace {

ChargeRecord RecordOf(uint8_t number) {
  ChargeRecord record;
  record.id[0] = number;
  record.key = "k";
  return record;
}

class LoopJournalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    JournalOptions options;
    options.folder = folder_.path() + "/journal";
    auto opened = Journal::Open(options);
    ASSERT_TRUE(opened.ok()) << opened.status().detail;
    journal = *std::move(opened);
    loop.Start();
  }
  void TearDown() override { journal = nullptr; }

  testing::TempFolder folder_;
  IoLoop loop;
  std::unique_ptr<Journal> journal;
};

TEST_F(LoopJournalTest, TheRecordsOfATurnAreOneWriteAndTheAnswersComeOnTheLoop) {
  std::optional<LoopJournal> records;
  std::vector<uint8_t> answered;
  loop.Call([&] {
    records.emplace(loop, *journal);
    for (uint8_t number = 0; number < 100; ++number) {
      records->Begin(RecordOf(number), [&, number](Kept kept) {
        EXPECT_EQ(kept, Kept::kOnDisk);
        EXPECT_TRUE(loop.InLoop());
        answered.push_back(number);
      });
    }
  });
  loop.Call([] {});  // the wake-up of that turn
  journal->Flush();
  EXPECT_EQ(journal->stats().batches, 1u);
  loop.Call([&] {
    ASSERT_EQ(answered.size(), 100u);
    for (uint8_t number = 0; number < 100; ++number) EXPECT_EQ(answered[number], number);
    records->Settle(RecordOf(1), nullptr);
    records.reset();
  });
  journal->Flush();
  EXPECT_EQ(journal->stats().open, 99u);
}

TEST_F(LoopJournalTest, WhatItHandedOverIsWrittenAfterItsEndWithoutAnAnswer) {
  std::atomic<bool> answered = false;
  loop.Call([&] {
    LoopJournal records(loop, *journal);
    records.Begin(RecordOf(1), [&](Kept) { answered = true; });
  });
  journal->Flush();
  loop.Call([] {});
  EXPECT_EQ(journal->stats().written, 1u);
  EXPECT_FALSE(answered);
}

}  // namespace
}  // namespace gpulens::proxy

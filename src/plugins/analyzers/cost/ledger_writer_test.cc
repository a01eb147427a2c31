#include "plugins/analyzers/cost/ledger_writer.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"
#include "base/testing/file_size_limit.h"
#include "base/testing/temp_folder.h"

namespace gpulens::cost {
namespace {

using ledger::Entry;
using ledger::LedgerFile;
using ledger::LedgerState;

constexpr int64_t kHour = 3'600'000;

Entry EntryOf(int64_t window_ms, const std::string& gpu, int64_t energy_uj, int64_t for_ms = 0) {
  Entry out;
  out.window_unix_ms = window_ms;
  out.for_window_unix_ms = for_ms;
  out.account.gpu = gpu;
  out.amounts.energy_uj = energy_uj;
  out.amounts.time_ms = 10'000;
  return out;
}
LedgerState StateAt(int64_t energy_uj) {
  LedgerState out;
  out.boot_id = "boot";
  out.gpus.resize(1);
  out.gpus[0].gpu = "GPU-0";
  out.gpus[0].energy_uj = energy_uj;
  return out;
}

TEST(CompactEntries, JoinsThoseOfAnHourAndAccountAsTheFileDoes) {
  std::vector<Entry> entries = {
      EntryOf(kHour + 10'000, "b", 1),        EntryOf(kHour, "a", 2),
      EntryOf(kHour + 20'000, "b", 3),        EntryOf(2 * kHour, "b", 4),
      EntryOf(2 * kHour, "b", -5, kHour + 5), EntryOf(kHour + 30'000, "b", 5, kHour + 1)};
  EXPECT_EQ(Compact(entries, 100), 0u);
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].account.gpu, "a");
  EXPECT_EQ(entries[1].amounts.energy_uj, 9) << "an adjustment within its hour is none";
  EXPECT_EQ(entries[1].amounts.time_ms, 30'000);
  EXPECT_EQ(entries[2].amounts.energy_uj, 4);
  EXPECT_EQ(entries[3].for_window_unix_ms, kHour);
}

TEST(CompactEntries, DropsTheOldestHoursWhole) {
  std::vector<Entry> entries;
  for (int64_t hour = 1; hour <= 5; ++hour) {
    for (const char* gpu : {"a", "b", "c"}) entries.push_back(EntryOf(hour * kHour, gpu, hour));
  }
  EXPECT_EQ(Compact(entries, 10), 6u) << "not half an hour";
  ASSERT_EQ(entries.size(), 9u);
  EXPECT_EQ(entries[0].window_unix_ms, 3 * kHour);
}

class LedgerWriterTest : public ::testing::Test {
 protected:
  LedgerFile::Options Options() { return {.path = path_}; }
  int64_t EnergyInFile() {
    auto file = LedgerFile::Open({.path = path_, .read_only = true});
    if (!file) return -1;
    auto sums = (*file)->Sum({});
    return sums && !sums->empty() ? static_cast<int64_t>((*sums)[0].sums.energy_uj) : 0;
  }
  gpulens::testing::TempFolder folder_;
  std::string path_ = folder_.path() + "/ledger.db";
  ManualClock clock_;
};

TEST_F(LedgerWriterTest, EntriesAndStateAreInTheFileAfterItsEnd) {
  {
    LedgerWriter writer(Options(), clock_);
    EXPECT_FALSE(writer.Start()) << "nothing was written yet";
    for (int i = 0; i < 10; ++i)
      writer.Add({EntryOf(kHour + i, "a", 5), EntryOf(kHour + i, "b", 1)}, StateAt(i));
  }
  EXPECT_EQ(EnergyInFile(), 60);
  LedgerWriter again(Options(), clock_);
  EXPECT_EQ(again.Start()->gpus[0].energy_uj, 9);
}

TEST_F(LedgerWriterTest, AddDoesNotWaitForTheFile) {
  LedgerWriter writer(Options(), clock_);
  writer.Start();
  writer.Add({EntryOf(kHour, "a", 5)}, StateAt(1));
  writer.WaitForAttempt();
  EXPECT_EQ(writer.counts().written, 1u);
  EXPECT_TRUE(writer.counts().up);
  EXPECT_EQ(writer.counts().waiting, 0u);
  EXPECT_EQ(writer.counts().failures, 0u);
}

TEST_F(LedgerWriterTest, WhileAnotherProgramWritesTheFileEntriesWait) {
  auto other = LedgerFile::Open(Options());
  ASSERT_TRUE(other.ok());
  {
    LedgerWriter writer(Options(), clock_);
    EXPECT_FALSE(writer.Start());
    writer.Add({EntryOf(kHour, "a", 5)}, StateAt(1));
    writer.WaitForAttempt();
    EXPECT_EQ(writer.counts().failures, 1u);
    EXPECT_EQ(writer.counts().waiting, 1u);
    EXPECT_EQ(writer.counts().written, 0u);
    EXPECT_FALSE(writer.counts().up);
    writer.Add({EntryOf(kHour, "a", 6)}, StateAt(2));
    other->reset();
  }
  EXPECT_EQ(EnergyInFile(), 11) << "the last attempt has them all";
}

TEST_F(LedgerWriterTest, WhereNothingCanBeWrittenItGoesOn) {
  ASSERT_TRUE(WriteFileAtomically(folder_.path() + "/no_folder", "", {.sync = false}).ok());
  path_ = folder_.path() + "/no_folder/ledger.db";
  LedgerWriter writer(Options(), clock_);
  EXPECT_FALSE(writer.Start());
  writer.Add({EntryOf(kHour, "a", 5)}, StateAt(1));
  writer.WaitForAttempt();
  EXPECT_EQ(writer.counts().failures, 1u);
  EXPECT_EQ(writer.counts().waiting, 1u);
}

TEST_F(LedgerWriterTest, AFullDiskKeepsTheEntriesForLater) {
  LedgerWriter writer(Options(), clock_);
  writer.Start();
  writer.Add({EntryOf(kHour, "a", 1)}, StateAt(1));
  writer.WaitForAttempt();
  {
    FileSizeLimit full(4096);
    std::vector<Entry> many;
    for (int i = 0; i < 2000; ++i) many.push_back(EntryOf(kHour, "gpu-" + std::to_string(i), 1));
    writer.Add(std::move(many), StateAt(2));
    writer.WaitForAttempt();
  }
  EXPECT_EQ(writer.counts().failures, 1u);
  EXPECT_EQ(writer.counts().waiting, 2000u);
}

TEST_F(LedgerWriterTest, WhatWaitsTooLongIsJoinedAndThenDroppedByHours) {
  auto other = LedgerFile::Open(Options());
  LedgerWriter writer(Options(), clock_);
  writer.Start();
  // The same accounts over and over: joined, none is dropped.
  for (int i = 0; i < 25; ++i) {
    std::vector<Entry> window;
    for (int gpu = 0; gpu < 1000; ++gpu)
      window.push_back(EntryOf(kHour + i, "gpu-" + std::to_string(gpu), 1));
    writer.Add(std::move(window), StateAt(i));
  }
  EXPECT_LE(writer.counts().waiting, LedgerWriter::kMostWaiting);
  EXPECT_EQ(writer.counts().dropped, 0u);
  // Ever other hours.
  for (int hour = 2; hour < 30; ++hour) {
    std::vector<Entry> window;
    for (int gpu = 0; gpu < 1000; ++gpu)
      window.push_back(EntryOf(hour * kHour, "gpu-" + std::to_string(gpu), 1));
    writer.Add(std::move(window), StateAt(hour));
  }
  EXPECT_LE(writer.counts().waiting, LedgerWriter::kMostWaiting);
  EXPECT_GT(writer.counts().dropped, 0u);
}

}  // namespace
}  // namespace gpulens::cost

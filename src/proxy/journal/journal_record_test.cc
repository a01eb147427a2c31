#include "proxy/journal/journal_record.h"

#include <gtest/gtest.h>

#include <random>

#include "store/charges/charge_testing.h"

namespace gpulens {
namespace {

TEST(JournalRecordTest, EveryMemberComesBack) {
  for (uint64_t number = 0; number < 100; ++number) {
    ChargeRecord record = TestCharge(number);
    record.usage.units[number % kLlmClasses] = INT64_MAX;
    record.list_pico = number % 2 == 0 ? INT64_MIN : INT64_MAX;
    record.outcome = static_cast<ChargeOutcome>(number % kChargeOutcomes);
    record.counted_by = static_cast<CountedBy>(number % kCountedBys);
    record.usage.inconsistent = number % 2 == 0;
    const std::string body = EncodeEntry(JournalKind::kSettle, record);
    const auto entry = DecodeEntry(body);
    ASSERT_TRUE(entry.ok()) << entry.status().detail;
    EXPECT_EQ(entry->kind, JournalKind::kSettle);
    EXPECT_EQ(entry->record, record);
    EXPECT_EQ(HeadOfEntry(body)->id, record.id);
    EXPECT_LT(body.size(), 512u) << "a row is small";
  }
  ChargeProgress progress;
  progress.id = TestCharge(1).id;
  progress.ttft_ns = 0;
  progress.model_answered = "m";
  progress.tier = "flex";
  progress.counted_by = CountedBy::kCalibrated;
  progress.usage[LlmClass::kRequests] = 3;
  progress.list_pico = -1;
  progress.charged_pico = 2;
  progress.price_version = "v";
  progress.price_row = 7;
  progress.events = 8;
  progress.answer_bytes = 9;
  const auto entry = DecodeEntry(EncodeEntry(progress));
  ASSERT_TRUE(entry.ok());
  EXPECT_EQ(entry->kind, JournalKind::kProgress);
  EXPECT_EQ(entry->progress, progress);
}

TEST(JournalRecordTest, CutOrLongerBodiesAreRefused) {
  const std::string whole = EncodeEntry(JournalKind::kBegin, TestCharge(3));
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(DecodeEntry(whole.substr(0, size)).ok()) << size;
  EXPECT_FALSE(DecodeEntry(whole + '\0').ok());
}

TEST(JournalRecordTest, BadBodiesHaveNames) {
  const std::string whole = EncodeEntry(JournalKind::kSettle, TestCharge(1));
  const auto with = [&](size_t at, char byte) {
    std::string body = whole;
    body[at] = byte;
    return DecodeEntry(body).status().code;
  };
  EXPECT_EQ(with(0, 0), Code::kDataLoss) << "no kind";
  EXPECT_EQ(with(0, 4), Code::kDataLoss) << "an unknown kind";
  EXPECT_EQ(with(1, 0), Code::kDataLoss) << "no version";
  EXPECT_EQ(with(1, 2), Code::kUnavailable) << "a newer version";
  // dispatch_unix_ns follows the id: nine bytes of a number.
  std::string longer = whole;
  longer[26] = static_cast<char>(longer[26] | 0x80);
  longer.insert(27, 1, '\0');
  EXPECT_EQ(DecodeEntry(longer).status().code, Code::kDataLoss) << "a number with an empty byte behind it";
  std::string endless = whole.substr(0, 18) + std::string(11, '\x80');
  EXPECT_EQ(DecodeEntry(endless).status().code, Code::kDataLoss) << "a number without an end";
}

// Whatever is decoded is encoded as it was.
TEST(JournalRecordTest, ChangedBytesAreRefusedOrMeanSomethingElse) {
  std::mt19937 random(3);
  const std::string whole = EncodeEntry(JournalKind::kSettle, TestCharge(6));
  int decoded = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string body = whole;
    for (auto changes = 1 + random() % 3; changes > 0; --changes)
      body[random() % body.size()] = static_cast<char>(random());
    const auto entry = DecodeEntry(body);
    if (!entry) continue;
    ++decoded;
    const std::string again = entry->kind == JournalKind::kProgress ? EncodeEntry(entry->progress)
                                                                    : EncodeEntry(entry->kind, entry->record);
    ASSERT_EQ(again, body);
  }
  EXPECT_GT(decoded, 100);
}

}  // namespace
}  // namespace gpulens

#include "proxy/journal/charge_fold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>

#include "base/files.h"
#include "base/testing/temp_folder.h"
#include "proxy/journal/idempotency.h"
#include "store/charges/charge_file.h"
#include "store/charges/charge_testing.h"

namespace gpulens {
namespace {

using testing::TempFolder;

// A store in memory, whose failures a test sets. Outlives its connections.
struct FakeStore {
  std::mutex mutex;
  std::map<RequestId, ChargeRecord> rows;
  std::vector<size_t> batches;
  int opened = 0;
  bool away = false;
  int fail_after_write = 0;   // so many writes are stored, but answered with an error
  std::set<RequestId> never;  // refused for what they contain
};

class FakeConnection final : public ChargeStore {
 public:
  explicit FakeConnection(FakeStore& store) : store_(store) {}

  Result<ChargeWriteCounts> Write(std::span<const ChargeRecord> records) override {
    std::lock_guard lock(store_.mutex);
    if (store_.away) return Status{Code::kUnavailable, "away"};
    for (const ChargeRecord& record : records)
      if (store_.never.contains(record.id)) return Status{Code::kInvalidArgument, "no \"such\" row"};
    ChargeWriteCounts counts;
    for (const ChargeRecord& record : records)
      ++(store_.rows.emplace(record.id, record).second ? counts.stored : counts.known);
    if (store_.fail_after_write > 0 && store_.fail_after_write-- > 0)
      return Status{Code::kTimeout, "no answer"};
    store_.batches.push_back(records.size());
    return counts;
  }
  Result<std::vector<ChargeSumRow>> Sum(const ChargeQuery&) override { return Not(); }
  Result<std::vector<__int128>> Spent(std::span<const SpentWindow>) override { return Not(); }
  Result<std::vector<ChargeRecord>> List(const ChargePlace&, size_t, const ChargeQuery&) override {
    return Not();
  }
  Result<std::optional<IdempotentCharge>> FindIdempotent(std::string_view, const IdempotencyHash&,
                                                         int64_t) override {
    return Not();
  }
  Result<std::vector<IdempotentCharge>> ListIdempotent(int64_t) override { return Not(); }

 private:
  static Status Not() { return {Code::kUnavailable, "not in this test"}; }
  FakeStore& store_;
};

class ChargeFoldTest : public ::testing::Test {
 protected:
  void Open(std::vector<std::string> stores, uint64_t segment_bytes = 16 << 20) {
    JournalOptions options;
    options.folder = folder_.path() + "/journal";
    options.stores = std::move(stores);
    options.sync = SyncPolicy::kNone;
    options.segment_bytes = segment_bytes;
    auto journal = Journal::Open(options);
    ASSERT_TRUE(journal.ok()) << journal.status().detail;
    journal_ = *std::move(journal);
  }
  std::unique_ptr<ChargeFold> Fold(size_t index, const std::string& name, FakeStore& store) {
    ChargeFold::Options options{.store = index, .name = name, .folder = folder_.path() + "/journal"};
    options.batch_time = std::chrono::milliseconds(5);
    options.backoff = {.initial = std::chrono::milliseconds(1), .cap = std::chrono::milliseconds(5)};
    auto fold = ChargeFold::Start(*journal_, options, [&store]() -> Result<std::unique_ptr<ChargeStore>> {
      std::lock_guard lock(store.mutex);
      ++store.opened;
      if (store.away) return Status{Code::kUnavailable, "no server"};
      return std::unique_ptr<ChargeStore>(std::make_unique<FakeConnection>(store));
    });
    EXPECT_TRUE(fold.ok());
    return *std::move(fold);
  }
  void Charge(uint64_t first, uint64_t count) {
    for (uint64_t number = first; number < first + count; ++number) {
      ChargeRecord begun = TestCharge(number);
      begun.attempts.clear();
      journal_->Begin(begun, {});
      journal_->Settle(TestCharge(number), {});
    }
    journal_->Flush();
  }

  TempFolder folder_;
  std::unique_ptr<Journal> journal_;
};

void ExpectRows(FakeStore& store, uint64_t count) {
  std::lock_guard lock(store.mutex);
  EXPECT_EQ(store.rows.size(), count);
  for (uint64_t number = 0; number < count; ++number) {
    const auto row = store.rows.find(TestCharge(number).id);
    ASSERT_NE(row, store.rows.end()) << number;
    EXPECT_EQ(row->second, TestCharge(number));
  }
}

constexpr Duration kLong = std::chrono::seconds(20);

TEST_F(ChargeFoldTest, EachOfSeveralStoresGetsEveryRowAtItsOwnPace) {
  Open({"a", "b"}, 8192);
  FakeStore a, b;
  b.away = true;
  auto to_a = Fold(0, "a", a), to_b = Fold(1, "b", b);
  Charge(0, 2500);
  ASSERT_TRUE(to_a->Drain(kLong));
  ExpectRows(a, 2500);
  EXPECT_LE(*std::ranges::max_element(a.batches), 1000u);
  EXPECT_GT(journal_->stats().segments, 50u) << "they are kept for b";
  EXPECT_GT(to_b->stats().behind, 4000u);
  EXPECT_EQ(to_b->stats().status.code, Code::kUnavailable);
  {
    std::lock_guard lock(b.mutex);
    b.away = false;
  }
  ASSERT_TRUE(to_b->Drain(kLong));
  ExpectRows(b, 2500);
  EXPECT_EQ(to_b->stats().stored, 2500u);
  Charge(2500, 100);
  journal_->Flush();
  ASSERT_TRUE(to_b->Drain(kLong));
  EXPECT_LT(journal_->stats().segments, 30u) << "and removed when nobody needs them";
}

TEST_F(ChargeFoldTest, AWriteWithoutAnAnswerIsRepeatedAndCountsOnce) {
  Open({"a"});
  FakeStore a;
  a.fail_after_write = 2;
  auto fold = Fold(0, "a", a);
  Charge(0, 30);
  ASSERT_TRUE(fold->Drain(kLong));
  ExpectRows(a, 30);
  const ChargeFoldStats stats = fold->stats();
  EXPECT_EQ(stats.failures, 2u);
  EXPECT_GT(stats.known, 0u);
  EXPECT_EQ(stats.stored + stats.known, 30u);
  EXPECT_GE(a.opened, 3) << "a connection that failed is not used again";
}

TEST_F(ChargeFoldTest, ARowThatIsRefusedForEverDoesNotStopTheOthers) {
  Open({"a"});
  FakeStore a;
  a.never = {TestCharge(3).id};
  auto fold = Fold(0, "a", a);
  Charge(0, 10);
  ASSERT_TRUE(fold->Drain(kLong));
  EXPECT_EQ(a.rows.size(), 9u);
  EXPECT_EQ(fold->stats().refused, 1u);
  const auto text = ReadFile(folder_.path() + "/journal/refused.a");
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, ::testing::HasSubstr(RequestIdText(TestCharge(3).id)));
  EXPECT_THAT(*text, ::testing::HasSubstr("no \\\"such\\\" row"));
}

TEST_F(ChargeFoldTest, GoesOnWhereItWasAfterARestart) {
  FakeStore a;
  for (uint64_t round = 0; round < 5; ++round) {
    Open({"a"}, 8192);
    auto fold = Fold(0, "a", a);
    Charge(round * 40, 40);
    if (round != 3) {
      ASSERT_TRUE(fold->Drain(kLong));
    }
    fold.reset();
    journal_.reset();
  }
  ExpectRows(a, 200);
}

TEST_F(ChargeFoldTest, AStoreThatIsNewGetsWhatTheJournalStillHas) {
  FakeStore a, b;
  Open({"a"});
  Charge(0, 20);
  journal_.reset();
  Open({"a", "b"});
  auto to_b = Fold(1, "b", b);
  ASSERT_TRUE(to_b->Drain(kLong));
  ExpectRows(b, 20);
}

TEST_F(ChargeFoldTest, AFileOfChargesIsAStore) {
  Open({"file"});
  const std::string path = folder_.path() + "/charges.db";
  auto fold = ChargeFold::Start(*journal_, {.name = "file", .folder = folder_.path() + "/journal"},
                                [&]() -> Result<std::unique_ptr<ChargeStore>> {
                                  auto file = ChargeFile::Open({.path = path});
                                  if (!file) return file.error();
                                  return std::unique_ptr<ChargeStore>(*std::move(file));
                                });
  ASSERT_TRUE(fold.ok());
  Charge(0, 100);
  ASSERT_TRUE((*fold)->Drain(kLong));
  auto reader = ChargeFile::Open({.path = path, .read_only = true});
  ASSERT_TRUE(reader.ok());
  auto rows = (*reader)->List({}, 1000);
  ASSERT_TRUE(rows.ok());
  ASSERT_EQ(rows->size(), 100u);
  for (uint64_t number = 0; number < 100; ++number) EXPECT_EQ((*rows)[number], TestCharge(number));
}

TEST(IdempotencyIndexTest, OneOfTwoRequestsIsNew) {
  using State = IdempotencyIndex::State;
  IdempotencyIndex index({.kept = std::chrono::hours(24), .most = 3});
  constexpr int64_t kNow = kTestDispatchNs, kDay = 86'400'000'000'000;
  const IdempotencyHash hash{1, 2, 3};
  const RequestId first = TestCharge(1).id, second = TestCharge(2).id;
  EXPECT_EQ(index.Claim("key", hash, first, kNow).state, State::kNew);
  const auto again = index.Claim("key", hash, second, kNow);
  EXPECT_EQ(again.state, State::kInFlight);
  EXPECT_EQ(again.id, first);
  EXPECT_EQ(index.Claim("other key", hash, second, kNow).state, State::kNew);
  index.Release("key", hash, second);  // not its own
  EXPECT_EQ(index.Claim("key", hash, second, kNow).state, State::kInFlight);
  index.Settled("key", hash, first, 200, kNow);
  index.Release("key", hash, first);  // too late
  const auto settled = index.Claim("key", hash, second, kNow + kDay);
  EXPECT_EQ(settled.state, State::kSettled);
  EXPECT_EQ(settled.status, 200);
  EXPECT_EQ(index.Claim("key", hash, second, kNow + kDay + 1).state, State::kNew) << "after a day";
  index.Release("key", hash, second);
  EXPECT_EQ(index.Claim("key", hash, first, kNow + kDay + 1).state, State::kNew);
}

TEST(IdempotencyIndexTest, IsRebuiltFromStoreAndJournalAndBounded) {
  using State = IdempotencyIndex::State;
  IdempotencyIndex index({.kept = std::chrono::hours(24), .most = 3});
  std::vector<IdempotentCharge> charges;
  for (uint8_t i = 0; i < 5; ++i) charges.push_back({"key", {i}, TestCharge(i).id, kTestDispatchNs + i, 200});
  charges.push_back({"key", {9}, TestCharge(9).id, kTestDispatchNs - 86'400'000'000'001, 200});
  index.Add(charges, kTestDispatchNs);
  EXPECT_EQ(index.forgotten_early(), 2u);
  index.Add(charges, kTestDispatchNs);  // the journal has those that the store has, too
  EXPECT_EQ(index.size(), 3u);
  EXPECT_EQ(index.Claim("key", {4}, {}, kTestDispatchNs).state, State::kSettled);
  EXPECT_EQ(index.Claim("key", {4}, {}, kTestDispatchNs).id, TestCharge(4).id);
  EXPECT_EQ(index.Claim("key", {0}, {}, kTestDispatchNs).state, State::kNew);
  EXPECT_EQ(index.Claim("key", {9}, {}, kTestDispatchNs).state, State::kNew) << "older than a day";
}

}  // namespace
}  // namespace gpulens

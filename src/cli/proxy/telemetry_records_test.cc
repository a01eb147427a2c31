#include "cli/proxy/telemetry_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "base/testing/temp_folder.h"
#include "store/charges/charge_testing.h"
#include "store/sqlite/sqlite.h"

namespace gpulens {
namespace {

using ::testing::HasSubstr;
using testing::TempFolder;

int64_t Number(const std::string& path, const std::string& sql) {
  auto database = sqlite::Database::Open({.path = path, .read_only = true});
  EXPECT_TRUE(database.ok()) << database.status().detail;
  const auto number = database->Number(sql);
  EXPECT_TRUE(number.ok()) << number.status().detail;
  return number.ok() ? *number : -1;
}

TEST(TelemetryRecordsTest, EveryRequestIsARowOfTheFile) {
  const TempFolder folder;
  const std::string path = folder.path() + "/telemetry.db";
  auto records = OpenTelemetryRecords({.place = path});
  ASSERT_TRUE(records.ok()) << records.status().detail;
  for (uint64_t i = 0; i < 100; ++i) (*records)->Add(TestCharge(i), i % 2 == 0);
  records->reset();
  EXPECT_EQ(Number(path, "SELECT count(*) FROM telemetry WHERE cost_usd>0 AND json_valid(metadata)"), 100);
  EXPECT_EQ(Number(path, "SELECT count(*) FROM telemetry WHERE is_streaming"), 50);
  EXPECT_EQ(Number(path, "SELECT count(*) FROM telemetry WHERE engine='claude' AND agent LIKE 'key-%'"), 50);
  EXPECT_EQ(Number(path, "SELECT count(*) FROM telemetry_poison"), 0);
}

TEST(TelemetryRecordsTest, AServerThatIsAwayHoldsUpNothingAndLossIsCounted) {
  // Nothing listens there.
  auto records = OpenTelemetryRecords({.place = "clickhouse://user:secret@127.0.0.1:1/d",
                                       .queue_records = 256,
                                       .flush_interval = std::chrono::milliseconds(10)});
  ASSERT_TRUE(records.ok()) << records.status().detail;
  for (uint64_t i = 0; i < 2000; ++i) (*records)->Add(TestCharge(i), true);
  proxy::RequestRecords::Counts counts;
  for (int i = 0; i < 1000; ++i) {
    counts = (*records)->counts();
    if (counts.failing) break;
    ::poll(nullptr, 0, 20);
  }
  EXPECT_TRUE(counts.failing);
  EXPECT_EQ(counts.stored, 0u);
  EXPECT_GT(counts.lost, 0u);
  EXPECT_EQ(counts.lost + counts.queued, 2000u);
}

TEST(TelemetryRecordsTest, AFileOfSomethingElseIsRefused) {
  const TempFolder folder;
  const std::string path = folder.Write("telemetry.db", std::string(5000, 'x'));
  EXPECT_EQ(OpenTelemetryRecords({.place = path}).status().code, Code::kDataLoss);
  EXPECT_EQ(OpenTelemetryRecords({.place = "mysql://u@h/d"}).status().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace gpulens

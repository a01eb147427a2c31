#include <gpulens/c.h>
#include <gpulens/inference.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "base/testing/temp_folder.h"
#include "store/sqlite/sqlite.h"

namespace gpulens {
namespace {

using ::testing::HasSubstr;

int Record(gpulens_store* store, std::string_view json) {
  return gpulens_store_record_json(store, json.data(), json.size());
}

struct CStore : ::testing::Test {
  testing::TempFolder folder;
  std::string path = folder.path() + "/telemetry.db";

  int64_t Query(const std::string& sql) const {
    auto database = sqlite::Database::Open({.path = path, .read_only = true});
    if (!database) return ADD_FAILURE() << database.error().detail, -1;
    auto number = database->Number(sql);
    return number ? *number : (ADD_FAILURE() << number.error().detail, -1);
  }
};

TEST_F(CStore, StoresRecords) {
  gpulens_store* store = nullptr;
  ASSERT_EQ(gpulens_store_open(path.c_str(), &store), GPULENS_OK) << gpulens_last_error();
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(Record(store, R"({"model_id": "llama", "prompt_tokens": 512, "completion_tokens": 0})"),
            GPULENS_OK);
  std::thread([&] { EXPECT_EQ(Record(store, R"({"model_id": "qwen", "ttft": 0.25})"), GPULENS_OK); }).join();
  EXPECT_EQ(gpulens_store_flush(store, 20), GPULENS_OK) << gpulens_last_error();
  EXPECT_EQ(Query("SELECT count(*) FROM telemetry"), 2);
  EXPECT_EQ(gpulens_store_close(store), GPULENS_OK) << gpulens_last_error();
  EXPECT_STREQ(gpulens_last_error(), "");
  auto reader = InferenceStore::Open(path, {.read_only = true});
  ASSERT_TRUE(reader.ok());
  const auto all = reader->Summarize();
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->front().prompt_tokens, 512u);
  EXPECT_EQ(all->front().ttft_seconds.n, 1u);
  EXPECT_EQ(all->front().latency_seconds.n, 0u) << "never told";
  EXPECT_EQ(Query("SELECT count(*) FROM telemetry WHERE abs(timestamp - unixepoch()) < 3600"), 2) << "now";
}

TEST_F(CStore, StoresNothingOfAnInvalidRecord) {
  gpulens_store* store = nullptr;
  ASSERT_EQ(gpulens_store_open(path.c_str(), &store), GPULENS_OK);
  for (const char* json : {"", "[]", "{\"latency\": 1}", "{\"model_id\": 1}", "{\"prompt_tokens\": -1}",
                           "{\"ttft\": 1e999}", "{\"ttft\": NaN}", "{} {}", "{"}) {
    EXPECT_EQ(Record(store, json), GPULENS_INVALID_ARGUMENT) << json;
    EXPECT_STRNE(gpulens_last_error(), "") << json;
  }
  EXPECT_EQ(Record(store, "{\"latency\": 1}"), GPULENS_INVALID_ARGUMENT);
  EXPECT_STREQ(gpulens_last_error(), "\"latency\" is not a column of a record");
  EXPECT_EQ(Record(store, "{}" + std::string(1 << 16, ' ')), GPULENS_INVALID_ARGUMENT);
  EXPECT_THAT(gpulens_last_error(), HasSubstr("at most 65536"));
  EXPECT_EQ(gpulens_store_record_json(store, nullptr, 7), GPULENS_INVALID_ARGUMENT);
  EXPECT_EQ(gpulens_store_flush(store, 20), GPULENS_OK);
  EXPECT_EQ(Query("SELECT (SELECT count(*) FROM telemetry) + (SELECT count(*) FROM telemetry_poison)"), 0);
  EXPECT_EQ(gpulens_store_close(store), GPULENS_OK);
}

TEST_F(CStore, FunctionsFailWithoutAStore) {
  gpulens_store* store = reinterpret_cast<gpulens_store*>(&folder);
  EXPECT_EQ(gpulens_store_open("mysql://x", &store), GPULENS_INVALID_ARGUMENT);
  EXPECT_EQ(store, nullptr);
  EXPECT_THAT(gpulens_last_error(), HasSubstr("mysql"));
  EXPECT_EQ(gpulens_store_open(nullptr, &store), GPULENS_INVALID_ARGUMENT);
  EXPECT_NE(gpulens_store_open((folder.path()).c_str(), &store), GPULENS_OK) << "a folder";
  EXPECT_EQ(gpulens_store_open(path.c_str(), nullptr), GPULENS_INVALID_ARGUMENT);
  EXPECT_EQ(gpulens_store_record_json(nullptr, "{}", 2), GPULENS_INVALID_ARGUMENT);
  EXPECT_EQ(gpulens_store_flush(nullptr, 1), GPULENS_INVALID_ARGUMENT);
  EXPECT_EQ(gpulens_store_close(nullptr), GPULENS_INVALID_ARGUMENT);
  EXPECT_STREQ(gpulens_last_error(), "there is no store");
}

TEST_F(CStore, AFullQueueDropsOrBlocks) {
  constexpr int kRecords = 3000;
  const gpulens_store_options small = {.size = sizeof small, .queue_records = 2, .when_full = 7};
  gpulens_store* store = nullptr;
  EXPECT_EQ(gpulens_store_open_with(path.c_str(), &small, &store), GPULENS_INVALID_ARGUMENT);
  for (const int32_t when_full : {GPULENS_WHEN_FULL_BLOCK, GPULENS_WHEN_FULL_DROP_NEWEST}) {
    const gpulens_store_options options = {
        .size = sizeof options, .queue_records = 2, .when_full = when_full};
    ASSERT_EQ(gpulens_store_open_with(path.c_str(), &options, &store), GPULENS_OK) << gpulens_last_error();
    const int64_t before = Query("SELECT count(*) FROM telemetry");
    int64_t kept = 0;
    for (int i = 0; i < kRecords; ++i) {
      const int code = Record(store, "{}");
      kept += code == GPULENS_OK;
      EXPECT_TRUE(code == GPULENS_OK || code == GPULENS_EXHAUSTED) << gpulens_last_error();
    }
    EXPECT_EQ(gpulens_store_flush(store, 20), kept == kRecords ? GPULENS_OK : GPULENS_EXHAUSTED);
    EXPECT_EQ(Query("SELECT count(*) FROM telemetry") - before, kept);
    EXPECT_TRUE(when_full == GPULENS_WHEN_FULL_DROP_NEWEST || kept == kRecords);
    static_cast<void>(gpulens_store_close(store));
  }
}

TEST_F(CStore, CloseReportsRejectedRecords) {
  gpulens_store* store = nullptr;
  ASSERT_EQ(gpulens_store_open(path.c_str(), &store), GPULENS_OK);
  auto database = sqlite::Database::Open({.path = path});
  ASSERT_TRUE(database.ok());
  ASSERT_TRUE(database
                  ->Run("CREATE TRIGGER no BEFORE INSERT ON telemetry WHEN new.model_id = 'bad' BEGIN "
                        "SELECT raise(ABORT, 'no bad ones'); END")
                  .ok());
  EXPECT_EQ(Record(store, R"({"model_id": "bad"})"), GPULENS_OK);
  EXPECT_EQ(Record(store, R"({"model_id": "good"})"), GPULENS_OK);
  EXPECT_EQ(gpulens_store_close(store), GPULENS_DATA_LOSS);
  EXPECT_THAT(gpulens_last_error(), HasSubstr("1 records were rejected"));
  EXPECT_EQ(Query("SELECT count(*) FROM telemetry"), 1);
}

}  // namespace
}  // namespace gpulens

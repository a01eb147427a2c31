// Records that `gpulens telemetry export` wrote are equal to the originals after gpulens_store_record_json
// has read them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/files.h"
#include "base/parse.h"
#include "base/testing/temp_folder.h"
#include "cli/telemetry/telemetry_command.h"
#include "sdk/inference/core.h"
#include "sdk/inference/record_json.h"
#include "store/telemetry/schema.h"

namespace gpulens {
namespace {

using telemetry::RecordColumn, telemetry::RecordNumbers, telemetry::TextColumn;

// A record with a value in every column, and numbers with all digits of a double.
telemetry::RecordRow Full() {
  static constexpr const char* kTexts[] = {
      "m\u00e9", "a \"quoted\" \\ one",   "a\n\t",  "counter", "nvidia", "b",
      "session", R"({"k":[1,"\u0000"]})", "timeout"};
  telemetry::RecordRow row;
  int64_t n = 0;
  for (const RecordColumn& column : telemetry::RecordColumns()) {
    ++n;
    if (const auto* real = std::get_if<double RecordNumbers::*>(&column.at))
      row.numbers.*(*real) = static_cast<double>(n) / 7;
    else if (const auto* whole = std::get_if<int64_t RecordNumbers::*>(&column.at))
      row.numbers.*(*whole) = n % 2 == 0 ? (int64_t{1} << 53) + n : 0;
    else if (const auto* text = std::get_if<TextColumn>(&column.at))
      row.text(*text) = kTexts[static_cast<size_t>(*text)];
  }
  row.numbers.timestamp = 1763690820.1234567;
  row.numbers.is_warmup = row.numbers.is_streaming = 1;
  row.numbers.outcome = static_cast<int64_t>(Outcome::kError);
  return row;
}

telemetry::RecordRow Least() {
  telemetry::RecordRow row;
  row.numbers.timestamp = 1.5;
  return row;
}

struct TelemetryExport : ::testing::Test {
  testing::TempFolder folder;
  std::string path = folder.path() + "/telemetry.db", copy = folder.path() + "/copy.db";

  void Keep(const std::vector<telemetry::RecordRow>& rows) const {
    auto store = InferenceStore::Open(path);
    ASSERT_TRUE(store.ok()) << store.error().detail;
    for (const telemetry::RecordRow& row : rows) store->core().Record(row);
    ASSERT_TRUE(store->Close().ok());
    ASSERT_EQ(store->health().stored, rows.size());
  }

  // Copies the records of `path` into `copy` by JSON lines.
  void Copy() const {
    TelemetryOptions options;
    options.db = path, options.format = "jsonl", options.output = folder.path() + "/rows.jsonl";
    ASSERT_TRUE(ExportTelemetry(options).ok());
    const auto lines = ReadFile(options.output);
    ASSERT_TRUE(lines.ok());
    auto store = InferenceStore::Open(copy);
    ASSERT_TRUE(store.ok());
    for (std::string_view rest = *lines; !rest.empty();) {
      const auto record = sdk::ReadRecordJson(TakeUntil(rest, '\n'));
      ASSERT_TRUE(record.ok()) << record.error().detail;
      store->core().Record(record->row());
    }
    ASSERT_TRUE(store->Close().ok());
  }

  // An answer with `main` the one and `copied` the other.
  int64_t Query(const std::string& sql) const {
    auto database = sqlite::Database::Open({.path = path});
    if (!database) return ADD_FAILURE() << database.error().detail, -1;
    EXPECT_TRUE(database->Run("ATTACH '" + copy + "' AS copied").ok());
    auto number = database->Number(sql);
    return number ? *number : (ADD_FAILURE() << number.error().detail, -1);
  }
};

TEST_F(TelemetryExport, ExportedRecordReadsBack) {
  Keep({Least(), Full()});  // by time, as they are exported
  Copy();
  EXPECT_EQ(Query("SELECT count(*) FROM copied.telemetry"), 2);
  EXPECT_EQ(
      Query("SELECT count(*) FROM (SELECT * FROM main.telemetry EXCEPT SELECT * FROM copied.telemetry)"), 0);
}

TEST_F(TelemetryExport, KeepsUnknownValues) {
  Keep({});
  {
    auto database = sqlite::Database::Open({.path = path});
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE(
        database
            ->Run("INSERT INTO telemetry(timestamp, model_id, prompt_tokens, ttft) VALUES(1, 'm', 7, 0.1)")
            .ok());
  }
  Copy();
  EXPECT_EQ(Query("SELECT measured FROM copied.telemetry"), 1 << 4 | 1 << 9) << "prompt tokens and the TTFT";
  EXPECT_EQ(Query("SELECT token_counting_version IS NULL FROM copied.telemetry"), 1);
  EXPECT_EQ(Query("SELECT count(*) FROM main.telemetry JOIN copied.telemetry USING(timestamp, model_id, "
                  "prompt_tokens, "
                  "ttft, completion_tokens, total_tokens, latency_seconds, metadata)"),
            1);
}

}  // namespace
}  // namespace gpulens

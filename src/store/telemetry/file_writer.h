// Writes rows into a file of inference records.
//
// Several programs, openjarvis included, may write into one file at once. Each Write is one transaction. A
// fork closes the file for a moment; the child abandons the writer and opens another.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "store/sqlite/sqlite.h"
#include "store/telemetry/rollup_tables.h"
#include "store/telemetry/rows.h"
#include "store/telemetry/schema.h"

namespace gpulens::telemetry {

struct FileOptions {
  std::string path;
  std::chrono::nanoseconds retention{};  // zero: rows are kept forever
  std::unique_ptr<RollupWriter> rollup;  // null: none
  std::chrono::nanoseconds longest = kLongestWrite;
};

class FileWriter final : public RecordDestination, private sqlite::Forkable {
 public:
  static Result<std::unique_ptr<FileWriter>> Open(FileOptions options);
  ~FileWriter() override;

  Result<WriteCounts> Write(std::span<const RecordRow> rows, uint64_t dropped) override;
  Status SetAside(std::string_view record, std::string_view reason) override;
  // Rolls up rows that other programs inserted, or all again after they changed or deleted one.
  Result<bool> Tidy() override;
  Status Close(uint64_t dropped) override;
  Result<uint64_t> Clear() override;
  Status Vacuum() override;

  // Writers that ended without closing, found at Open.
  uint64_t crashed() const noexcept { return crashed_; }

 private:
  FileWriter(FileOptions options, sqlite::Database database)
      : options_(std::move(options)), database_(std::move(database)) {}
  void CloseForFork() noexcept override;
  Status Reopen();
  Status Prepare();
  Status FindCrashed();
  Status Enter();
  Status Insert(const RecordRow& row, WriteCounts& kept);
  Status Reject(std::string_view record, std::string_view reason);
  Status Forget();
  Status Account(const WriteCounts& kept, uint64_t dropped, int64_t now_ns);

  FileOptions options_;
  sqlite::Database database_;
  sqlite::Statement insert_, reject_, account_, valid_json_;
  int64_t writer_id_ = 0;
  uint64_t crashed_ = 0;
  int64_t next_forget_ns_ = 0;
};

}  // namespace gpulens::telemetry

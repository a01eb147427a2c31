// Writes rows into a file of inference records.
//
// Several programs write into one file at once, openjarvis, too. What one Write took is one transaction. A
// fork closes the file for a moment; in the child the writer is left alone, and another one opened.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "store/sqlite/sqlite.h"
#include "store/telemetry/destination.h"

namespace gpulens::telemetry {

struct FileOptions {
  std::string path;
  std::chrono::nanoseconds retention{};  // zero: rows stay for ever
  std::unique_ptr<Rollup> rollup;        // null: none
};

class FileWriter final : public Destination, private sqlite::Forkable {
 public:
  static Result<std::unique_ptr<FileWriter>> Open(FileOptions options);
  ~FileWriter() override;

  Result<Kept> Write(std::span<const Row> rows, uint64_t dropped) override;
  Status SetAside(std::string_view record, std::string_view reason) override;
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
  Status Insert(const Row& row, Kept& kept);
  Status Reject(std::string_view record, std::string_view reason);
  Status Forget();
  Status Account(const Kept& kept, uint64_t dropped, int64_t now_ns);

  FileOptions options_;
  sqlite::Database database_;
  sqlite::Statement insert_, reject_, account_, valid_json_;
  int64_t writer_id_ = 0;
  uint64_t crashed_ = 0;
  int64_t next_forget_ns_ = 0;
};

}  // namespace gpulens::telemetry

// Implementation of InferenceStore, also used by bindings that have rows in the table's own units.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include <gpulens/inference.h>

#include "sdk/inference/recorder.h"
#include "store/sqlite/sqlite.h"
#include "store/telemetry/rows.h"

namespace gpulens::internal {

// Thread-safe. See InferenceStore for what its functions promise.
class InferenceCore {
 public:
  static Result<std::shared_ptr<InferenceCore>> Open(std::string_view path_or_url,
                                                     const StoreOptions& options);
  ~InferenceCore();
  InferenceCore(const InferenceCore&) = delete;
  InferenceCore& operator=(const InferenceCore&) = delete;

  // `settler` completes the row before it is written; taken unless the row is dropped.
  void Record(const telemetry::Row& row, std::unique_ptr<inference::Settler>* settler = nullptr) noexcept;
  void Record(const InferenceRecord& record) noexcept;
  // Counts what could not even be given.
  void Drop() noexcept { lost_.fetch_add(1, std::memory_order_relaxed); }
  // Something that is no record, with the reason, into `telemetry_poison`.
  void SetAside(std::string_view record, std::string_view reason) noexcept;

  Status Flush(Duration timeout);
  Status Close(Duration timeout);
  StoreHealth health();
  const std::string& path() const noexcept { return path_; }
  const StoreOptions& options() const noexcept { return options_; }

  // Flushes, then calls `read` with a read-only connection. `read` must not fork or call the store.
  // kInvalidArgument: the store is no file.
  Status Read(const std::function<Status(const sqlite::Database&)>& read);
  // Flushes and returns the URL of a server; "" for a file.
  Result<std::string> ServerToRead();
  Result<uint64_t> Clear();
  Status Vacuum();

 private:
  InferenceCore(std::string path, const StoreOptions& options, std::string url)
      : path_(std::move(path)), options_(options), url_(std::move(url)) {}
  Result<std::unique_ptr<telemetry::Destination>> OpenDestination();
  Result<std::unique_ptr<inference::Recorder>> Begin();
  // Null: there is none, and what is recorded is lost.
  inference::Recorder* Current() noexcept;

  const std::string path_;
  const StoreOptions options_;
  const std::string url_;  // with its password: for no eyes; "" of a file
  sqlite::ForkLocal<inference::Recorder> recorder_;
  std::atomic<bool> closed_ = false;
  std::atomic<uint64_t> lost_ = 0;  // without a recorder
  uint64_t crashed_ = 0;
};

}  // namespace gpulens::internal

// For tests of request logs: a temporary folder, a log with one reader that takes one record at a time,
// numbered records, and how to take all of them.
#pragma once

#include <gtest/gtest.h>

#include <unistd.h>
#include <algorithm>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/parse.h"
#include "base/testing/file_size_limit.h"
#include "delivery/request_log.h"

namespace gpulens::request_log_testing {

class TestFolder {
 public:
  TestFolder() {
    std::string pattern = ::testing::TempDir() + "/records_XXXXXX";
    root_ = ::mkdtemp(pattern.data());
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() { std::filesystem::remove_all(root_); }

  const std::string& root() const { return root_; }
  std::string path() const { return root_ + "/queue"; }
  std::string File(const std::string& name) const { return path() + "/" + name; }
  // Paths that end so, sorted: the segments with ".seg".
  std::vector<std::string> Ending(std::string_view end) const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path()))
      if (entry.path().string().ends_with(end)) found.push_back(entry.path().string());
    std::ranges::sort(found);
    return found;
  }
  std::vector<std::string> Segments() const { return Ending(".seg"); }

 private:
  std::string root_;
};

inline std::string Bytes(const std::string& path) { return ReadFile(path, 512 << 20).value_or("(none)"); }

// Writes in place, as a bad disk would.
inline void Change(const std::string& path, const std::string& bytes) {
  FILE* file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr) << path;
  std::fwrite(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
}
inline void Flip(const std::string& path, size_t at) {
  std::string bytes = Bytes(path);
  ASSERT_LT(at, bytes.size());
  bytes[at] = static_cast<char>(bytes[at] ^ 0x20);
  Change(path, bytes);
}

// A numbered record: "17:xxxxx…".
inline std::string Numbered(uint64_t number, size_t size = 0) {
  std::string text = std::to_string(number) + ":";
  if (text.size() < size) text.append(size - text.size(), static_cast<char>('a' + number % 26));
  return text;
}
// The number when the record is as it was made, else nothing.
inline std::optional<uint64_t> NumberOf(std::string_view bytes) {
  auto number = ParseInt<uint64_t>(bytes.substr(0, bytes.find(':')));
  if (!number || bytes != Numbered(*number, bytes.size())) return std::nullopt;
  return number;
}

// A log whose owner is its one reader.
class OneLog {
 public:
  struct Options : RequestLogOptions {
    Duration max_age{};
    Options() { memory_bytes = 0; }  // what the disk does not take is refused
  };
  struct Stats : LogReader::Stats {
    Status last;
  };

  // Not ok: why the folder cannot be used.
  static Result<std::unique_ptr<OneLog>> Open(Options options, const Clock& clock) {
    options.owner = "reader";
    if (options.folder.empty()) options.memory_bytes = options.max_bytes;
    auto log = RequestLog::Open(options, clock);
    if (!log->disk()) return log->disk();
    return std::make_unique<OneLog>(std::move(log), options);
  }
  OneLog(std::shared_ptr<RequestLog> log, const Options& options)
      : log_(std::move(log)), reader_(log_->Attach("reader", {options.max_bytes, options.max_age}, {})) {}

  Status Push(std::string_view bytes, uint32_t items) {
    auto kept = log_->Append(bytes, items);
    if (kept) kept_ = *kept;
    return kept ? Ok() : kept.error();
  }
  // The oldest record that is not removed; the same again until Pop, or until it was dropped.
  const LogRecord* Front() {
    if (front_ && !reader_->IsPending(front_->id)) Pop(front_->id, false);
    if (!front_) front_ = reader_->Next();
    return front_ ? &*front_ : nullptr;
  }
  void Pop(uint64_t id, bool delivered = true) {
    if (!front_ || front_->id != id) return;
    if (delivered) reader_->Done(id, true);
    else reader_->GiveUp(id);
    front_.reset();
  }
  Stats stats() const {
    Stats stats;
    static_cast<LogReader::Stats&>(stats) = reader_->stats();
    stats.last = log_->disk();
    return stats;
  }
  // Of the last Push.
  RequestLog::Kept kept() const { return kept_; }
  RequestLog& log() { return *log_; }
  LogReader& reader() { return *reader_; }

 private:
  std::shared_ptr<RequestLog> log_;
  std::shared_ptr<LogReader> reader_;
  std::optional<LogRecord> front_;
  RequestLog::Kept kept_ = RequestLog::Kept::kOnDisk;
};

// Takes up to `most` records. A record that is not as it was made is number 0, which no test pushes.
inline std::vector<uint64_t> Take(OneLog& queue, size_t most = SIZE_MAX) {
  std::vector<uint64_t> numbers;
  while (numbers.size() < most) {
    const LogRecord* record = queue.Front();
    if (!record) break;
    numbers.push_back(NumberOf(record->bytes).value_or(0));
    queue.Pop(record->id);
  }
  return numbers;
}

// The same of one of several readers; all it takes is delivered.
inline std::vector<uint64_t> Take(LogReader& reader, size_t most = SIZE_MAX) {
  std::vector<uint64_t> numbers;
  while (numbers.size() < most) {
    const auto record = reader.Next();
    if (!record) break;
    numbers.push_back(NumberOf(record->bytes).value_or(0));
    reader.Done(record->id, true);
  }
  return numbers;
}
// Records that are under way from now on.
inline std::vector<LogRecord> Begin(LogReader& reader, size_t count) {
  std::vector<LogRecord> records;
  while (records.size() < count) {
    auto record = reader.Next();
    if (!record) break;
    records.push_back(*std::move(record));
  }
  return records;
}

inline std::vector<uint64_t> Range(uint64_t first, uint64_t last) {
  std::vector<uint64_t> numbers;
  for (uint64_t n = first; n <= last; ++n) numbers.push_back(n);
  return numbers;
}

inline uint64_t Lost(const OneLog& queue, RecordDropReason reason) {
  return queue.stats().dropped_records[static_cast<size_t>(reason)];
}
inline uint64_t LostItems(const OneLog& queue, RecordDropReason reason) {
  return queue.stats().dropped_items[static_cast<size_t>(reason)];
}
inline uint64_t Lost(const LogReader& reader, RecordDropReason reason) {
  return reader.stats().dropped_records[static_cast<size_t>(reason)];
}
inline uint64_t AllLost(const LogReader& reader) {
  uint64_t sum = 0;
  for (uint64_t count : reader.stats().dropped_records) sum += count;
  return sum;
}
inline uint64_t AllLost(OneLog& queue) { return AllLost(queue.reader()); }

}  // namespace gpulens::request_log_testing

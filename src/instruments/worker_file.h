// File in which a process shares its counts with the other processes of its server: the process records in
// mapped memory, so that another one reads the counts at any time, also after kill -9.
//
// The file is a head and extents. An extent is appended, filled, and committed by the head's `end`; nothing
// that is committed moves or is used for another purpose, so a reader needs no lock and a crash at any point
// leaves the file readable. The process holds a lock (flock) on its file while it lives.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/registry.h>

#include "base/fd.h"
#include "instruments/window.h"

namespace gpulens::instruments {

inline constexpr uint64_t kWorkerMagic = 0x0131776c75706700;

// At 0 of the file.
struct WorkerHead {
  std::atomic<uint64_t> magic;  // set last
  uint64_t pid;
  int64_t started_unix_ns;
  std::atomic<uint64_t> end;  // bytes that are committed
};

enum class ExtentKind : uint32_t { kLog = 1, kCells = 2, kGauges = 3 };

struct ExtentHead {
  ExtentKind kind;
  uint32_t count;  // kCells: cells
  uint64_t bytes;  // of the extent, with this head
  // kCells: offset of the extent whose counts it has taken over; 0: none. kGauges: number of the first.
  uint64_t refers;
  std::atomic<uint64_t> used;  // kLog: bytes of whole records
};

// Where the cells of an extent begin: after its head and the window that is being moved.
inline constexpr size_t kCellsAt = 64 + WindowMove::kCells * sizeof(CounterCell);
inline constexpr size_t kGaugesAt = 64;
static_assert(sizeof(ExtentHead) <= 64);

// A gauge and the time at which it was set, of those that need it.
struct GaugeCell {
  std::atomic<double> value;
  std::atomic<uint64_t> set_ns;  // CLOCK_MONOTONIC, which processes of a machine share
};

// What the log has of an instrument.
struct WorkerFamily {
  InstrumentKind kind = InstrumentKind::kCounter;
  bool integer = false;
  WorkerMerge workers = WorkerMerge::kDefault;
  std::string name, unit, description;
  std::vector<double> bounds;
};

// Writes records as bytes of this machine, and reads them within bounds. Plain values.
class RecordWriter {
 public:
  template <class Number>
  void Put(Number n) {
    bytes_.append(reinterpret_cast<const char*>(&n), sizeof n);
  }
  void PutText(std::string_view text) {
    Put(static_cast<uint32_t>(text.size()));
    bytes_ += text;
  }
  template <class Number>
  void PutAll(const std::vector<Number>& all) {
    Put(static_cast<uint32_t>(all.size()));
    for (Number one : all) Put(one);
  }
  void PutFamily(const WorkerFamily& family);
  void PutAttributes(const std::vector<std::pair<std::string, std::string>>& attributes);
  const std::string& bytes() const noexcept { return bytes_; }

 private:
  std::string bytes_;
};

class RecordReader {
 public:
  explicit RecordReader(std::string_view bytes) noexcept : left_(bytes) {}
  // False, or 0 and "": the bytes ended, and so for all that follows.
  bool ok() const noexcept { return ok_; }
  bool at_end() const noexcept { return left_.empty() || !ok_; }
  template <class Number>
  Number Take() noexcept {
    Number n{};
    if (const std::string_view bytes = Bytes(sizeof n); ok_)
      bytes.copy(reinterpret_cast<char*>(&n), sizeof n);
    return n;
  }
  std::string TakeText() { return std::string(Bytes(Take<uint32_t>())); }
  template <class Number>
  std::vector<Number> TakeAll() {
    const uint32_t count = Take<uint32_t>();
    std::vector<Number> all;
    for (uint32_t i = 0; i < count && ok_; ++i) all.push_back(Take<Number>());
    return all;
  }
  WorkerFamily TakeFamily();
  std::vector<std::pair<std::string, std::string>> TakeAttributes();

 private:
  std::string_view Bytes(size_t count) noexcept {
    ok_ = ok_ && count <= left_.size();
    if (!ok_) return {};
    const std::string_view bytes = left_.substr(0, count);
    left_.remove_prefix(count);
    return bytes;
  }
  std::string_view left_;
  bool ok_ = true;
};

enum class WorkerRecord : uint8_t { kFamily = 1, kSeries = 2 };

// The file of this process. Thread-safe.
class WorkerFile {
 public:
  // Creates the file in an open folder. kExhausted where the file system is full.
  static Result<std::unique_ptr<WorkerFile>> Create(int folder);
  ~WorkerFile() = default;  // only before it has been used; mappings stay

  const std::string& name() const noexcept { return name_; }
  // Appends a record to the log. False: no room.
  bool Log(std::string_view record);
  // Adds at least `count` cells of one thread, which `fill` makes, at 0 before, and which replace those of
  // the extent `continues`, unless that is 0.
  struct Cells {
    CounterCell* at = nullptr;  // null: no room
    uint32_t count = 0;
    uint64_t extent = 0;
  };
  Cells AddCells(uint32_t count, uint64_t continues, const std::function<void(CounterCell* at)>& fill);
  // Replaces memory of whole pages, which begins with the head of an extent and is kept, by an extent. False:
  // no room, the memory is as before.
  bool Share(void* pages, size_t bytes);
  // In the child after a fork: unmaps and closes the parent's file. Unusable afterwards.
  void LeaveBehind() noexcept;

 private:
  WorkerFile() = default;
  // Maps an extent that is not committed, at any address or over the memory that it is a copy of.
  std::byte* Append(size_t bytes, void* at);

  UniqueFd fd_;
  std::string name_;
  std::mutex mutex_;  // guards what follows
  WorkerHead* head_ = nullptr;
  ExtentHead* log_ = nullptr;
  std::vector<std::pair<void*, size_t>> mapped_;  // but gauges
};

size_t PageBytes() noexcept;

}  // namespace gpulens::instruments

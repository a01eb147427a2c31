// What the ranks of this host do in each communicator: counts, durations and bandwidth by kind of operation,
// from job pages and from files of NCCL Inspector, and their series.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/frame_writer.h"
#include "job_page/job_page_reader.h"
#include "sources/nccl_files/inspector_line.h"

namespace gpulens {

// Bytes that an operation moves for its algorithm bandwidth: the message size, times the ranks for those in
// which each rank has a part of the result.
double AlgorithmBytes(job_page::Function function, uint64_t bytes, int32_t ranks) noexcept;
// Bus bandwidth by algorithm bandwidth; NaN where there is no rule.
double BusFactor(job_page::Function function, int32_t ranks) noexcept;
// "AllReduce", as NCCL Inspector writes it; "Other". Static storage.
std::string_view OperationName(job_page::Function function) noexcept;

// "0x7f8c496ae9f661", as NCCL Inspector and RAS write it.
std::string CommunicatorText(uint64_t hash);

// Not thread-safe.
class RankTable {
 public:
  struct Options {
    size_t communicators = 64;  // with series of their own; the others share those of `other`
    Duration forget_after = std::chrono::minutes(10);  // a rank of which nothing comes
  };
  explicit RankTable(const Options& options) : options_(options) {}

  // What identifies a rank, and what is known of it.
  struct Rank {
    uint64_t communicator = 0;
    int32_t rank = 0, ranks = 0;
    std::string name;  // of the communicator
    std::string device_id;
    EntityRef process;  // null: unknown
  };

  // Takes what a page has of a rank: its progress, and that the page is the source of this rank from now on.
  void TakeProgress(const Rank& rank, const job_page::CommunicatorCopy& copy, Instant now);
  // Takes an operation that a page has measured, or counted.
  void TakeRecord(const job_page::RecordCopy& record, const EntityRef& process, Instant now);
  // Takes an operation of a file. False: a page has this rank, and this operation too.
  bool TakeRecord(const nccl_files::InspectorRecord& record, Instant now);
  // The rank was much slower than its peers in an operation, or was not, since the last Write.
  void SetSlowest(uint64_t communicator, int32_t rank, const std::string& operation, bool slowest);
  // The process of the ranks ended: they are forgotten after the next Write.
  void EndOf(const EntityRef& process);

  void Write(FrameWriter& out);
  // The entity of a rank or, with -1, of a communicator, whether or not anything was taken of it. Its series
  // are the caller's.
  EntityRef EntityOf(uint64_t communicator, int32_t rank, const std::string& name);

 private:
  static constexpr size_t kBounds = 27;  // 1.024 µs doubled up to 68.7 s
  struct Operation {
    std::array<uint64_t, kBounds + 1> buckets{};  // of durations; the last: above
    uint64_t measured = 0;
    double seconds = 0;
    // Since the last Write.
    uint64_t recent = 0, recent_timed = 0, recent_bus = 0;
    double recent_bytes = 0, recent_seconds = 0, recent_moved = 0, recent_bus_moved = 0,
           recent_bus_seconds = 0;
    double only_bandwidth = 0, only_bus_bandwidth = 0;  // of the one operation
    uint64_t enqueued = 0, started = 0, done = 0, bytes = 0;
    bool has_progress = false, has_bytes = false;
    std::array<uint64_t, 3> last_progress{};  // of the page: by stage
    Instant recent_at;                        // of the Write that had the last operations
    int slowest = -1;                         // -1: not known
    Series duration, size, bandwidth, bus_bandwidth, enqueued_series, started_series, done_series,
        bytes_series, last_duration, slowest_series;
  };
  struct Entry {
    Rank who;
    EntityRef entity;
    bool by_page = false, ended = false;
    Instant seen;
    std::map<std::string, Operation> operations;  // by name
  };
  // A line without a communicator is of communicator 0.
  using Key = std::pair<uint64_t, int32_t>;

  Entry& EntryOf(const Rank& rank, Instant now);
  AttributeSet AttributesOf(uint64_t communicator, int32_t rank, const std::string& name);
  static void Add(Operation& operation, double seconds, int64_t bytes, double bandwidth,
                  double bus_bandwidth);
  void WriteOperation(FrameWriter& out, Entry& entry, const std::string& name, Operation& operation);

  const Options options_;
  std::map<Key, std::unique_ptr<Entry>> entries_;
  std::map<uint64_t, size_t> ranks_of_;    // entries by communicator, of those with series of their own
  std::map<std::string, uint64_t> other_;  // operations of the other communicators
  std::map<std::string, Series> other_series_;
  EntityRef other_entity_;
  Ref<const Shape> shape_;
};

}  // namespace gpulens

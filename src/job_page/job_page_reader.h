// The agent's side of a job page (job_page.h): copies what can be true of it.
//
// The writer is a program of any user. It may be wrong, hostile, or change any byte at any time, also during
// a Read. Nothing of it is mapped into the agent: bytes are copied by pread, so that a file that was cut
// raises no SIGBUS, and are checked in the copy only. A number that cannot be true (a time in the future, a
// count that falls or grows faster than a program can count, a duration longer than the page is old) is
// rejected and counted in PageCopy::rejected; the last good value stays. Text is printable UTF-8, or empty.
//
//   ASSIGN_OR_RETURN(JobPageReader reader, JobPageReader::FromDescriptor(std::move(fd)));
//   PageCopy copy;
//   RETURN_IF_ERROR(reader.Read(now, copy));
//   for (const RecordCopy& record : copy.records) …  // each record once
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/fd.h"
#include "job_page/job_page.h"

namespace gpulens::job_page {

// Totals since the page was opened. `count` is the sum of the buckets.
struct HistogramCopy {
  uint64_t count = 0, sum_ns = 0;
  std::array<uint64_t, kBuckets> buckets{};
};
// Upper bound of a bucket in nanoseconds; the last is infinite.
double BucketBound(size_t bucket) noexcept;

// What does not change while a slot has one generation.
struct CommunicatorIdentity {
  uint32_t slot = 0, generation = 0;
  uint64_t hash = 0;
  int32_t rank = 0, ranks = 1, nodes = 0;  // nodes 0: unknown
  int32_t device = -1;                     // ordinal in the process; -1: unknown
  uint64_t opened_boot_ns = 0;             // 0: unknown
  std::string name;                        // empty: unnamed
  std::string device_id;                   // "0000:1a:00.0", lower case, or empty
};

// `enqueued`, `started` and `done` are the highest sequence number + 1, 0: none; done <= started <= enqueued.
struct ProgressCopy {
  uint64_t enqueued = 0, started = 0, done = 0;
  uint64_t changed_boot_ns = 0;  // 0: never
  uint64_t operations = 0, bytes = 0;
};

struct CommunicatorCopy {
  std::shared_ptr<const CommunicatorIdentity> identity;  // never null
  bool closed = false;
  std::array<ProgressCopy, kFunctions> functions;
};

struct RecordCopy {
  std::shared_ptr<const CommunicatorIdentity> communicator;  // null: its slot was used again
  Function function = Function::kOther;
  Datatype datatype = Datatype::kUnknown;
  Algorithm algorithm = Algorithm::kUnknown;
  Protocol protocol = Protocol::kUnknown;
  Timing timing = Timing::kNone;
  bool graph_captured = false;
  uint16_t channels = 0;
  int32_t peer_or_root = -1;  // -1: none
  uint64_t sequence = 0, bytes = 0;
  uint64_t enqueued_boot_ns = 0;      // 0: unknown
  uint64_t start_ns = 0, end_ns = 0;  // by `timing`; 0 with Timing::kNone
  uint64_t ended_boot_ns = 0;         // 0: unknown
  uint64_t duration_ns() const noexcept { return end_ns - start_ns; }
};

// Steps of the network proxy with one peer.
struct LinkCopy {
  std::shared_ptr<const CommunicatorIdentity> communicator;  // never null
  int32_t peer = 0;
  uint64_t sent = 0, send_ns = 0;                                         // may begin with any number
  std::array<uint32_t, static_cast<size_t>(StepWait::kCount)> waiting{};  // now, by StepWait
};

struct CudaDeviceCopy {
  uint32_t device = 0;  // slot
  std::string device_id;
  std::array<uint64_t, 4> launches{};  // by Launch
  std::array<HistogramCopy, 4> enqueue;
  HistogramCopy queue_delay, kernel, sync_wait, graph, graph_kernel;
  uint64_t busy_ns = 0;
};

// Totals of one kernel on one device since the page was opened.
struct KernelCopy {
  std::string name;     // as the compiler mangled it, cut at 1,024 bytes
  int32_t device = -1;  // ordinal in the process; -1: unknown
  uint64_t count = 0, total_ns = 0;
};
struct KernelsCopy {
  std::vector<KernelCopy> kernels;
  uint64_t other_count = 0, other_ns = 0;  // of kernels for which there was no room
};

struct PhaseEdgeCopy {
  uint64_t boot_ns = 0;
  Phase phase = Phase::kUnknown;
};
struct PhasesCopy {
  Phase current = Phase::kUnknown;
  uint64_t since_boot_ns = 0;  // 0: unknown
  uint64_t transitions = 0;
  std::array<uint64_t, kPhases> total_ns{};  // of phases that ended
  std::vector<PhaseEdgeCopy> edges;          // new ones since the last Read, in order
};

struct DataLoadingCopy {
  HistogramCopy wait;
  uint64_t open_since_boot_ns = 0;  // 0: not waiting
  uint64_t batches = 0;
};

// One state of a page. Totals count since the page was opened; `records` and `edges` are new. Reuse one for
// many readers: its vectors keep their memory.
struct PageCopy {
  Writer writer = Writer::kNone;
  int32_t pid = 0;           // as the writer states it, in its namespace; do not identify a process by it
  uint32_t user = 0;         // as the writer states it
  uint64_t start_ticks = 0;  // as the writer states it; 0: unknown
  uint64_t opened_boot_ns = 0;
  std::string writer_version, library_version;
  std::string job;      // as the writer states it; empty: unknown
  std::string trouble;  // why it measures less than was wanted; empty: it does not
  Level wanted = Level::kOff, actual = Level::kOff;
  uint64_t last_event_boot_ns = 0;       // 0: none
  std::array<uint64_t, kLosses> lost{};  // by Loss, as the writer counts them
  uint64_t unread = 0;                   // records that were overwritten before they were read
  uint64_t rejected = 0;                 // numbers and records that cannot be true
  std::vector<CommunicatorCopy> communicators;
  std::vector<RecordCopy> records;
  std::vector<LinkCopy> links;
  std::array<HistogramCopy, kFunctions> collective_duration;
  std::vector<CudaDeviceCopy> devices;  // with anything in them
  std::optional<PhasesCopy> phases;     // absent: the job marks none
  std::optional<DataLoadingCopy> data_loading;
};

// Reads one page again and again. Not thread-safe; movable. Read keeps room of sizeof(Page) for each thread
// that calls it.
class JobPageReader {
 public:
  // Of a file in memory (memfd, tmpfs) alone: reading others may block. kInvalidArgument: it is something
  // else, or has not the size of a page.
  static Result<JobPageReader> FromDescriptor(UniqueFd fd);
  // Of a regular file that is no link. kUnavailable: it is not there. kPermissionDenied: it may not be opened
  // for reading; a file that may only be read is opened, but SetWantedLevel fails.
  static Result<JobPageReader> FromPath(const std::string& path);

  JobPageReader(JobPageReader&&) noexcept;
  JobPageReader& operator=(JobPageReader&&) noexcept;
  ~JobPageReader();

  // Replaces `out`. kUnavailable: the writer has not finished to make the page. kDataLoss: it is no page of
  // this layout, was cut, or its clock is ahead of `now` (a time namespace). After an error `out` has no
  // meaning.
  Status Read(Instant now, PageCopy& out);
  // Replaces `out` by the kernels by name; for every minute or so, as it may copy a megabyte. After a
  // successful Read of the same `now`. Counts are checked against the age of the page only.
  Status ReadKernels(KernelsCopy& out);
  // Requests how much the writer measures.
  Status SetWantedLevel(Level level);
  // Of a file by path: whether its process lives, which holds its lock.
  bool WriterHoldsLock() const noexcept;
  int fd() const noexcept { return fd_.get(); }
  // Whether its writer cannot cut the file.
  bool sealed() const noexcept { return sealed_; }

 private:
  struct State;
  JobPageReader(UniqueFd fd, bool sealed);

  UniqueFd fd_;
  bool sealed_ = false;
  std::unique_ptr<State> state_;
};

}  // namespace gpulens::job_page

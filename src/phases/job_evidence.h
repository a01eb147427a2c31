// What the pages of a job state about its phases: turns the growth between two reads into evidence. Pure. Not
// thread-safe.
//
//   evidence.Read(page, records, edges);   // each page of the process, read at `now`
//   evidence.Give(now, phases);            // then phases.Advance(now)
//
// Marks, open waits and collectives with times of the host are exact. Of waits that ended, and of kernels,
// the page has sums: they are given as amounts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "job_page/job_page_reader.h"
#include "phases/process_phases.h"

namespace gpulens::phases {

class JobEvidence {
 public:
  using Records = std::span<const job_page::RecordCopy>;
  using Edges = std::span<const job_page::PhaseEdgeCopy>;
  // A page of the process, and what is new in it since its last Read. At most one page of each writer counts.
  void Read(const job_page::PageCopy& page, Records records, Edges edges);
  // Gives what the pages have that were read since the last call. Pages that were opened before
  // `phases.settled_ns()` count from their first Read on.
  void Give(int64_t now_ns, ProcessPhases& phases);

  // The job marks its phases.
  bool marks() const noexcept { return marks_; }

 private:
  // Sums of one page that only grow.
  struct Sums {
    uint64_t wait_ns = 0, launches = 0, sync_ns = 0, kernels = 0;
    std::array<uint64_t, job_page::kDevices> busy_ns{};
  };
  struct PageState {
    bool known = false, read = false;
    int64_t opened_ns = 0;
    Sums now, before;
    int64_t open_since_ns = 0;     // of a wait; 0: none
    int64_t counted_ns = 0;        // of the open wait, already given
    int64_t counted_since_ns = 0;  // the begin of that wait
  };
  using Span = std::pair<int64_t, int64_t>;

  static Sums SumsOf(const job_page::PageCopy& page);
  void ReadCollectives(const job_page::PageCopy& page, Records records);
  int64_t MergeCollectives(int64_t from_ns, int64_t to_ns);
  static void GiveWaits(PageState& page, const Sums& growth, int64_t now_ns, ProcessPhases& phases);
  void GiveDevice(const Sums& growth, int64_t now_ns, ProcessPhases& phases);

  std::array<PageState, 4> pages_;  // by Writer
  std::vector<std::pair<Phase, int64_t>> marks_read_;
  std::vector<Span> collectives_;  // that ended, or are open: to INT64_MAX
  int64_t ended_ns_ = 0;           // sum of the durations of those that ended
  bool marks_ = false;
  bool kernel_times_ = false;  // the page of CUDA has them
};

}  // namespace gpulens::phases

// The job pages of this machine: libraries inside jobs hand theirs over at a Unix socket, or leave them as
// files in a folder until an agent listens (src/job_page/job_page.h). One object an agent, Env::job_pages,
// which several consumers share.
//
// It does nothing until there is a feed. Then a thread listens at the socket, scans the folders, reads each
// page often enough that its ring does not overflow, and removes files of processes that ended. With the last
// feed it ends.
//
//   std::unique_ptr<JobPages::Feed> feed = env.job_pages->Subscribe("nccl");
//   …
//   feed->Visit([&](const JobPageView& view) {
//     for (const job_page::RecordCopy& record : view.records) …   // each once for each feed
//     Use(view.page.communicators);                               // totals
//     if (view.ended) …                                           // the last visit of this page
//   });
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "job_page/job_page_reader.h"

namespace gpulens {

// Who wrote a page.
struct JobPageOwner {
  uint64_t id = 0;           // of this page in this agent, never used again
  int32_t pid = 0;           // as the agent sees it; 0: unknown (another pid namespace)
  uint64_t start_ticks = 0;  // of that process, field 22 of /proc/PID/stat; 0: unknown
  int64_t uid = -1;          // by the kernel; -1: unknown
  bool by_socket = false;    // else a file
  bool simulated = false;    // `pid` is of none of the machine's processes, but of Env::simulated
  std::string file;          // path of the file; empty for a socket
};

// One page, valid during a visit.
struct JobPageView {
  const JobPageOwner& owner;
  // Totals, communicators, level, losses. Its own records and edges are those of the last reading: use the
  // spans below.
  const job_page::PageCopy& page;
  std::span<const job_page::RecordCopy> records;   // new for this feed
  std::span<const job_page::PhaseEdgeCopy> edges;  // of phases, new for this feed
  uint64_t missed = 0;                             // records and edges that this feed took too late, in total
  Instant read_at;
  bool ended = false;  // its process ended, or its page cannot be read any more
};

// Thread-safe. Outlives its feeds.
class JobPages {
 public:
  struct Options {
    std::string socket;                // empty: none is opened
    std::vector<std::string> folders;  // with files named gpulens-job-…
    std::string root = "/";            // where proc/ is found
    size_t pages = 256;                // of all users; more are refused
    size_t pages_of_user = 128;
  };
  // `clock` outlives it. Makes nothing.
  explicit JobPages(const Clock& clock = RealClock());
  ~JobPages();
  JobPages(const JobPages&) = delete;
  JobPages& operator=(const JobPages&) = delete;

  // Before the first feed; later it holds for the next start of the thread.
  void Configure(Options options);

  class Feed {
   public:
    ~Feed();
    Feed(const Feed&) = delete;
    Feed& operator=(const Feed&) = delete;

    // Reads all pages, unless that was done a moment ago, and calls `visit` with each, in the order in which
    // they came. Visits of several feeds wait for each other, so be quick. Not from inside a visit.
    void Visit(const std::function<void(const JobPageView& view)>& visit);

   private:
    friend class JobPages;
    Feed(JobPages& pages, std::string name);
    JobPages& pages_;
    const std::string name_;
  };
  // Starts the thread with the first feed. `name` is for the log.
  std::unique_ptr<Feed> Subscribe(std::string_view name);

  // Requests how much the writer of a page measures. The writer may know better: PageCopy::actual.
  // kUnavailable: there is no such page any more.
  Status SetLevel(uint64_t id, job_page::Level level);

  // Takes a page of a simulated process and returns its id. The caller may write to it until EndSimulated.
  // Errors are those of JobPageReader::FromDescriptor.
  Result<uint64_t> AddSimulated(UniqueFd page, int32_t pid);
  void EndSimulated(uint64_t id);

  struct Counts {
    size_t pages = 0;
    uint64_t connections = 0, refused = 0;  // of the socket, since the start
    uint64_t unreadable = 0;                // pages that were no pages
    Status socket;                          // why there is no socket, or ok
  };
  Counts counts() const;

 private:
  friend class Feed;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpulens

// Follows the files of NCCL Inspector: those of its JSON mode, one a process, appended to, rotated or cut by
// others; and those of its Prometheus mode, one a GPU, written again and again.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/fd.h"
#include "sources/nccl_files/inspector_line.h"

namespace gpulens::nccl_files {

// What a process measured on a GPU since it wrote the page before.
struct InspectorPage {
  std::string_view path;
  std::string_view gpu_uuid;  // as in the name of the file, without "GPU-"
  std::string_view text;      // empty: the file is gone, or is too old: what it had is no longer so
};
// A page is too old after three times the time between the last two, and not before this. Inspector writes
// none in less than 30 s.
inline constexpr Duration kPageHold = std::chrono::seconds(90);
inline constexpr size_t kLongestPage = 1 << 20;

// Not thread-safe. Reads files: for workers.
class InspectorFiles {
 public:
  struct Options {
    // Each is a file, a folder, whose files *.log, *.json, *.jsonl and nccl_inspector_metrics_*.prom are
    // read, or a path whose last part has a star. Other files that end in .prom are not
    // read.
    std::vector<std::string> places;
    bool from_start =
        false;            // of JSON files that are there at the first Poll; others are read from their start
    size_t files = 1024;  // of each kind that are followed; more are counted
    size_t bytes_a_poll = 16u << 20;
  };
  explicit InspectorFiles(Options options);
  ~InspectorFiles();

  struct Counts {
    size_t files = 0;         // followed, of both kinds
    size_t not_followed = 0;  // beyond the limit, at the last Poll
    uint64_t records = 0;
    uint64_t invalid = 0;        // lines that are none of Inspector's, or too long; pages that are too long
    uint64_t overwritten = 0;    // operations that Inspector lost, as it counts them
    uint64_t cut = 0;            // files that became shorter
    uint64_t waiting = 0;        // bytes that the last Poll left for the next one
    int64_t newest_unix_ns = 0;  // modification of the newest file; 0: there is none
  };
  using TakeRecord = std::function<void(InspectorRecord&& record)>;
  using TakePage = std::function<void(const InspectorPage& page)>;
  // Calls `take` with each new record and `take_page` with each new page. A line that is not finished waits
  // for its end, and a page for a Poll that finds it as the Poll before did: Inspector empties the file and
  // writes it line by line. Files that end are kept open until they are read. kUnavailable: there is no file;
  // kPermissionDenied: some may not be read; what can be read is read nevertheless.
  Status Poll(Instant now, const TakeRecord& take, const TakePage& take_page);
  const Counts& counts() const noexcept { return counts_; }

 private:
  struct File;
  struct PageFile;
  Status Find(Instant now);
  Status Follow(const std::string& path, Instant now);
  void FollowPage(const std::string& path, std::string_view gpu_uuid, const struct stat& info, Instant now);
  void ReadFile(File& file, size_t& budget, const TakeRecord& take);
  void TakeLines(File& file, std::string_view bytes, const TakeRecord& take);
  Status ReadPages(Instant now, const TakePage& take);
  Status ReadPage(PageFile& file, Instant now, const TakePage& take);

  const Options options_;
  bool polled_ = false;
  std::vector<std::unique_ptr<File>> files_;
  std::vector<PageFile> pages_;
  size_t next_ = 0;  // the file that is read first, so that all get their turn
  std::string room_;
  Counts counts_;
};

// Inspector's files at a place as above; at most `most`.
Result<std::vector<std::string>> FilesOfPlace(const std::string& place, size_t most);

}  // namespace gpulens::nccl_files

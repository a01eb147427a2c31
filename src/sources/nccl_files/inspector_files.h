// Follows the files of NCCL Inspector: one a process, appended to, rotated or cut by others, many in a
// folder.
#pragma once

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

// Not thread-safe. Reads files: for workers.
class InspectorFiles {
 public:
  struct Options {
    // Each is a file, a folder, whose files *.log, *.json and *.jsonl are read, or a path whose last part has
    // a star.
    std::vector<std::string> places;
    bool from_start = false;  // of files that are there at the first Poll; others are read from their start
    size_t files = 1024;      // that are followed; more are counted
    size_t bytes_a_poll = 16u << 20;
  };
  explicit InspectorFiles(Options options);
  ~InspectorFiles();

  struct Counts {
    size_t files = 0;         // followed
    size_t not_followed = 0;  // beyond the limit, at the last Poll
    uint64_t records = 0;
    uint64_t invalid = 0;        // lines that are none of Inspector's, or too long
    uint64_t cut = 0;            // files that became shorter
    uint64_t waiting = 0;        // bytes that the last Poll left for the next one
    int64_t newest_unix_ns = 0;  // modification of the newest file; 0: there is none
  };
  // Calls `take` with each new record. A line that is not finished waits for its end. Files that end are kept
  // open until they are read. kUnavailable: there is no file; kPermissionDenied: some may not be read; what
  // can be read is read nevertheless.
  Status Poll(Instant now, const std::function<void(InspectorRecord&& record)>& take);
  const Counts& counts() const noexcept { return counts_; }

 private:
  struct File;
  Status Find(Instant now);
  Status Follow(const std::string& path, Instant now);
  void ReadFile(File& file, size_t& budget, const std::function<void(InspectorRecord&&)>& take);
  void TakeLines(File& file, std::string_view bytes, const std::function<void(InspectorRecord&&)>& take);

  const Options options_;
  bool polled_ = false;
  std::vector<std::unique_ptr<File>> files_;
  size_t next_ = 0;  // the file that is read first, so that all get their turn
  std::string room_;
  Counts counts_;
};

// The files below a place as above, with one of the ends in `ends`; at most `most`.
Result<std::vector<std::string>> FilesOfPlace(const std::string& place,
                                              std::initializer_list<std::string_view> ends, size_t most);

}  // namespace gpulens::nccl_files

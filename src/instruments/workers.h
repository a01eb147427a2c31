// The processes of one server, and the folder in which they share their counts.
//
// Each process has a file there (worker_file.h). Counts of ended ones are added to the file `ended`, and
// their files removed, when eight have accumulated and another process starts: disk and time are bounded by
// the running processes. `ended` is replaced as a whole, with the names that it includes, so each file counts
// once whenever a process is killed. Readers take no lock that another process could keep.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include <gpulens/registry.h>
#include <gpulens/status.h>

#include "base/fd.h"

namespace gpulens::instruments {

// Thread-safe. There is one, which is never destroyed.
class WorkersFolder {
 public:
  static WorkersFolder& Instance() noexcept;

  // Shares the counts of this process, and of its children. `path`: where the processes are those that have
  // the same; empty: a folder in memory, for the processes that share `family`, or, where that is empty, that
  // were forked from one program. Does nothing the second time. kPermissionDenied: it is another user's, or
  // others may write there; kExhausted: the file system is full.
  Status Open(const std::string& path, const std::string& family);
  bool open() const noexcept { return open_.load(std::memory_order_acquire); }
  // Where processes of the server may put further files.
  const std::string& path() const noexcept { return path_; }

  // Counts of all processes. Empty if it is not open.
  Result<std::vector<Sample>> Read() const;

  // What the processes forked from one program share, as a short text.
  static std::string FamilyOfForks();

 private:
  Status Prepare(const std::string& path, const std::string& family);
  void RemoveStale(const std::string& above, const std::string& own) const;
  void Fold() const;

  std::string path_;  // constant once open
  UniqueFd folder_;
  std::atomic<bool> open_{false};
};

}  // namespace gpulens::instruments

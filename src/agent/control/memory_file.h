// A file in memory without a name of its own: a process of the same user reads it through ours in /proc. For
// texts that the reader process follows while they change.
#pragma once

#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/fd.h"

namespace gpulens {

// Used by one thread.
class MemoryFile {
 public:
  // Creates it empty. An error of the kernel leaves path() empty.
  Status Open();
  // Constant during the lifetime of the object.
  const std::string& path() const noexcept { return path_; }
  // Puts a whole file in place of the old one under the same path: a reader never sees a part.
  Status Write(std::string_view text);

 private:
  UniqueFd file_;
  std::string path_;
};

}  // namespace gpulens

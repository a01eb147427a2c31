// A file in memory without a name of its own, which a reader process inherits. For texts that it follows
// while they change.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/fd.h"

namespace gpulens {

// Used by one thread.
class MemoryFile {
 public:
  // Creates it empty. An error of the kernel leaves fd() negative.
  Status Open();
  // Constant during the lifetime of the object; a process that inherits it reads /proc/self/fd/NUMBER with
  // ReadUnlockedFile.
  int fd() const noexcept { return file_.get(); }
  // Its path in this process.
  std::string path() const;
  // Replaces the text: a reader sees the old one or the new one. Waits a moment for who is reading.
  Status Write(std::string_view text);

 private:
  UniqueFd file_;
  size_t writes_ = 0;
};

}  // namespace gpulens

#include "base/fd.h"

#include <unistd.h>

namespace gpulens {

void UniqueFd::reset(int fd) noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

}  // namespace gpulens

#include "net/accept/shared_socket.h"

#include <fcntl.h>

#include <map>
#include <mutex>
#include <string>

#include "base/files.h"
#include "base/result.h"
#include "net/accept/listener.h"

namespace gpulens {

Result<std::shared_ptr<SharedSocket>> SharedSocket::Get(const Endpoint& at) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<SharedSocket>> known;
  const bool shared = at.family != Endpoint::Family::kUnix && at.port != 0;
  std::lock_guard lock(mutex);
  std::erase_if(known, [](const auto& item) { return item.second.expired(); });
  if (shared) {
    if (auto there = known.find(at.ToString()); there != known.end()) {
      if (auto socket = there->second.lock()) return socket;
    }
  }
  ASSIGN_OR_RETURN(UniqueFd fd, OpenListeningSocket(at));
  std::shared_ptr<SharedSocket> socket(new SharedSocket(std::move(fd), at));
  if (shared) known[at.ToString()] = socket;
  return socket;
}

Result<UniqueFd> SharedSocket::Copy() const {
  UniqueFd copy(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return ErrnoStatus("listen on " + at_.ToString(), errno);
  return copy;
}

}  // namespace gpulens

#include "delivery/queue_drop.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/fd.h"
#include "base/files.h"
#include "base/result.h"
#include "delivery/lock_holder.h"
#include "delivery/log_folder.h"
#include "delivery/position_file.h"
#include "delivery/queue_folders.h"
#include "delivery/request_log.h"

namespace gpulens {
namespace {

Status MarkOwnerGone(int folder, const QueuePlace& place) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  const UniqueFd mark(::openat(folder, kOwnerGoneName, kFlags, 0600));
  if (!mark) return ErrnoStatus("make " + place.folder + "/" + kOwnerGoneName, errno);
  return ::fsync(folder) == 0 ? Ok() : ErrnoStatus("sync " + place.folder, errno);
}

// The sink's place goes. Of the owner the mark comes first: without it a missing place means that all is
// still to be sent. And once more behind it: an agent that began meanwhile has removed the mark.
Status RemovePlace(int folder, const QueuePlace& place, const std::string& sink) {
  if (sink == place.owner) RETURN_IF_ERROR(MarkOwnerGone(folder, place));
  const std::string name = PositionNameOf(sink, place.owner);
  if (::unlinkat(folder, name.c_str(), 0) != 0 && errno != ENOENT)
    return ErrnoStatus("remove " + place.folder + "/" + name, errno);
  if (sink == place.owner) return MarkOwnerGone(folder, place);
  return ::fsync(folder) == 0 ? Ok() : ErrnoStatus("sync " + place.folder, errno);
}

// What root made here must stay usable for the agent, whose folder it is.
void GiveToOwnerOf(int folder) {
  struct stat owner{};
  if (::geteuid() != 0 || ::fstat(folder, &owner) != 0 || owner.st_uid == 0) return;
  static_cast<void>(ForEachName(folder, [&](std::string_view name) {
    const std::string file(name);
    struct stat info{};
    if ((name.starts_with(kPositionName) || name == kOwnerGoneName || name == kLockName) &&
        ::fstatat(folder, file.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) &&
        info.st_uid == 0 && info.st_nlink == 1)
      static_cast<void>(::fchownat(folder, file.c_str(), owner.st_uid, owner.st_gid, AT_SYMLINK_NOFOLLOW));
    return true;
  }));
}

}  // namespace

Result<QueueDrop> DropFromQueue(const QueuePlace& place, const std::string& sink, const Clock& clock) {
  QueueLook names;
  names.count = names.query_use = false;
  const QueueFolder before = LookAtQueue(place, names);
  const bool known = std::any_of(before.readers.begin(), before.readers.end(),
                                 [&](const QueueReader& one) { return one.sink == sink; });
  if (!known && before.readers.empty() && !before.problems.empty())
    return Status{Code::kUnavailable, place.folder + ": " + before.problems.front()};
  if (!known) return Status{Code::kUnavailable, place.folder + " has no data for " + sink};
  const UniqueFd folder(
      ::open(place.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | (place.follow ? 0 : O_NOFOLLOW)));
  if (!folder) return ErrnoStatus("open " + place.folder, errno);
  Status removed = RemovePlace(folder.get(), place, sink);
  GiveToOwnerOf(folder.get());
  RETURN_IF_ERROR(removed);
  QueueDrop dropped;
  if (const auto holder = LockHolder(folder.get())) {
    dropped.in_use = true;
    dropped.holder = *holder;
    return dropped;
  }
  RequestLogOptions options;
  options.folder = place.folder;
  options.owner = place.owner;
  const auto log = RequestLog::Open(options, clock);
  if (Status opened = log->disk(); !opened) {
    // Taken just now by a process that begins: it has not seen the reader, and frees the room itself.
    if (const auto holder = LockHolder(folder.get())) {
      dropped.in_use = true;
      dropped.holder = *holder;
      return dropped;
    }
    return Status{Code::kIo, "the space is not free yet: " + opened.detail};
  }
  log->Maintain();
  const bool wanted = std::any_of(before.readers.begin(), before.readers.end(),
                                  [&](const QueueReader& one) { return one.sink != sink; });
  if (!wanted) dropped.removed = log->RemoveIfDone();
  GiveToOwnerOf(folder.get());
  const QueueFolder after = LookAtQueue(place, names);
  dropped.freed_bytes = before.file_bytes - std::min(before.file_bytes, after.file_bytes);
  return dropped;
}

bool RemoveAbandoned(const QueuePlace& place, const Clock& clock) {
  QueueLook names;
  names.count = false;
  const QueueFolder seen = LookAtQueue(place, names);
  if (!seen.readers.empty() || !seen.problems.empty() || seen.in_use || seen.segments == 0) return false;
  RequestLogOptions options;
  options.folder = place.folder;
  options.owner = place.owner;
  const auto log = RequestLog::Open(options, clock);
  return log->disk() && log->RemoveIfDone();
}

}  // namespace gpulens

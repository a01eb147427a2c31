#include "store/sqlite/locks_apart.h"

#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/ref.h"

namespace gpulens::sqlite {
namespace {

// All that this copy of SQLite has open of one file.
struct LockedFile {
  int owner = -1;         // the open file description that holds its locks; -1: none was taken yet
  std::vector<int> used;  // descriptors by which it has locked
  std::vector<int> kept;  // closed ones that stay open
};
using FileId = std::pair<dev_t, ino_t>;

class LockTable {
 public:
  static LockTable& Instance() noexcept {
    static Immortal<LockTable> table;
    return *table;
  }

  int Open(const char* path, int flags, mode_t mode);
  int Close(int fd);
  int Lock(int fd, int command, struct flock* lock);
  size_t kept() noexcept;
  static void AfterForkInChild() noexcept;
  // Whether a file can be opened a second time and locked.
  static bool Possible() noexcept;

 private:
  static bool IdOf(int fd, FileId& id) noexcept;
  static int Reopened(int fd) noexcept;
  static bool Release(LockedFile& file) noexcept;
  void ReleaseUnused() noexcept;
  int KeptOf(const char* path, int flags) noexcept;

  std::mutex mutex_;
  std::map<FileId, LockedFile> files_;
};

bool LockTable::IdOf(int fd, FileId& id) noexcept {
  struct stat info = {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return false;
  id = {info.st_dev, info.st_ino};
  return true;
}

// Another open file description of the same file, for writing where that is allowed: a lock for writing needs
// it.
int LockTable::Reopened(int fd) noexcept {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const int own = ::open(path, O_RDWR | O_CLOEXEC);
  return own >= 0 ? own : ::open(path, O_RDONLY | O_CLOEXEC);
}

bool LockTable::Possible() noexcept {
  const int fd = ::memfd_create("gpulens", MFD_CLOEXEC);
  if (fd < 0) return false;
  const int again = Reopened(fd);
  struct flock all = {};
  all.l_type = F_WRLCK;
  all.l_whence = SEEK_SET;
  const bool locked = again >= 0 && ::fcntl(again, F_OFD_SETLK, &all) == 0;
  if (again >= 0) ::close(again);
  ::close(fd);
  return locked;
}

// Closes all descriptors of a file that is not in use, if it has no locks of others. The owner takes the lock
// of the whole file, so that no other is granted meanwhile: each close drops the process's POSIX locks (there
// are none then), and that of the owner drops this lock, too, but after them. A file that may only be read
// has no such lock: there is a moment in which another thread's lock for reading can be granted, and dropped.
bool LockTable::Release(LockedFile& file) noexcept {
  if (file.owner < 0) file.owner = Reopened(file.kept.front());
  struct flock all = {};
  all.l_type = F_WRLCK;
  all.l_whence = SEEK_SET;
  const bool alone = ::fcntl(file.owner, F_OFD_SETLK, &all) == 0;
  if (!alone && (errno != EBADF || ::fcntl(file.owner, F_OFD_GETLK, &all) != 0 || all.l_type != F_UNLCK))
    return false;
  for (const int fd : file.kept) ::close(fd);
  ::close(file.owner);
  return true;
}

// A child has its parent's descriptors, and no POSIX locks yet, so that it can close them. Those that SQLite
// has open in the child are left alone: see ForkGuard.
void LockTable::AfterForkInChild() noexcept {
  LockTable& table = Instance();
  if (!table.mutex_.try_lock()) return;  // held by a thread of the parent: the table may be half written
  for (auto& [id, file] : table.files_) {
    for (const int fd : file.kept) ::close(fd);
    if (file.owner >= 0) ::close(file.owner);
  }
  table.files_.clear();
  table.mutex_.unlock();
}

void LockTable::ReleaseUnused() noexcept {
  for (auto file = files_.begin(); file != files_.end();)
    file = file->second.used.empty() && Release(file->second) ? files_.erase(file) : std::next(file);
}

int LockTable::KeptOf(const char* path, int flags) noexcept {
  struct stat info = {};
  if ((flags & (O_EXCL | O_TRUNC)) != 0 || ::lstat(path, &info) != 0) return -1;
  const auto file = files_.find({info.st_dev, info.st_ino});
  if (file == files_.end()) return -1;
  auto& kept = file->second.kept;
  const auto fits = [flags](int fd) { return ((::fcntl(fd, F_GETFL) ^ flags) & O_ACCMODE) == 0; };
  const auto found = std::find_if(kept.begin(), kept.end(), fits);
  if (found == kept.end()) return -1;
  const int fd = *found;
  kept.erase(found);
  // SQLite has it open from now on, and closes it again.
  file->second.used.push_back(fd);
  return fd;
}

int LockTable::Open(const char* path, int flags, mode_t mode) {
  const std::lock_guard lock(mutex_);
  ReleaseUnused();
  const int fd = KeptOf(path, flags);
  return fd >= 0 ? fd : ::open(path, flags, mode);
}

int LockTable::Close(int fd) {
  const std::lock_guard lock(mutex_);
  ReleaseUnused();
  FileId id;
  if (!IdOf(fd, id)) return ::close(fd);
  LockedFile& file = files_[id];
  std::erase(file.used, fd);
  file.kept.push_back(fd);
  if (!file.used.empty()) return 0;
  // SQLite leaves it to the last close to drop some locks.
  struct flock all = {};
  all.l_type = F_UNLCK;
  all.l_whence = SEEK_SET;
  if (file.owner >= 0) ::fcntl(file.owner, F_OFD_SETLK, &all);
  if (Release(file)) files_.erase(id);
  return 0;
}

int LockTable::Lock(int fd, int command, struct flock* lock) {
  const std::lock_guard guard(mutex_);
  FileId id;
  if (!IdOf(fd, id)) return -1;
  LockedFile& file = files_[id];
  if (std::find(file.used.begin(), file.used.end(), fd) == file.used.end()) file.used.push_back(fd);
  if (file.owner < 0) file.owner = Reopened(fd);
  if (file.owner < 0) return -1;
  lock->l_pid = 0;  // these commands require it
  return ::fcntl(file.owner, command == F_GETLK ? F_OFD_GETLK : F_OFD_SETLK, lock);
}

size_t LockTable::kept() noexcept {
  const std::lock_guard lock(mutex_);
  size_t sum = 0;
  for (const auto& [id, file] : files_) sum += file.kept.size();
  return sum;
}

// What SQLite calls instead of open, close and fcntl: no exception may pass through it.
template <class F>
int Without(F&& call) noexcept try {
  return call(LockTable::Instance());
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return -1;
}
int OpenApart(const char* path, int flags, int mode) {
  return Without([&](LockTable& table) { return table.Open(path, flags, static_cast<mode_t>(mode)); });
}
int CloseApart(int fd) {
  return Without([fd](LockTable& table) { return table.Close(fd); });
}
int ControlApart(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (command != F_SETLK && command != F_GETLK) return ::fcntl(fd, command, argument);
  return Without(
      [&](LockTable& table) { return table.Lock(fd, command, static_cast<struct flock*>(argument)); });
}

template <class F>
sqlite3_syscall_ptr Call(F* function) noexcept {
  return reinterpret_cast<sqlite3_syscall_ptr>(function);
}

}  // namespace

Status HoldLocksApart() {
  sqlite3_vfs* const files = ::sqlite3_vfs_find("unix");
  if (!files || files->iVersion < 3 || !files->xSetSystemCall)
    return {Code::kUnavailable, "this SQLite does not let its system calls be replaced"};
  if (!LockTable::Instance().Possible())
    return {Code::kUnavailable, "the kernel has no locks of open file descriptions, or /proc is not here"};
  const std::pair<const char*, sqlite3_syscall_ptr> calls[] = {
      {"open", Call(&OpenApart)}, {"close", Call(&CloseApart)}, {"fcntl", Call(&ControlApart)}};
  for (const auto& [name, call] : calls)
    if (files->xSetSystemCall(files, name, call) != SQLITE_OK)
      return {Code::kUnavailable, std::string("this SQLite does not let ") + name + " be replaced"};
  CHECK(::pthread_atfork(nullptr, nullptr, &LockTable::AfterForkInChild) == 0);
  return Ok();
}

size_t KeptDescriptors() noexcept { return LockTable::Instance().kept(); }

}  // namespace gpulens::sqlite

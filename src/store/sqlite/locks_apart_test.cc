#include "store/sqlite/locks_apart.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "base/testing/temp_folder.h"
#include "store/sqlite/sqlite.h"

namespace gpulens::sqlite {
namespace {

// SQLite's bytes for readers, far behind the content.
constexpr off_t kReaders = 0x40000002, kReadersSize = 510;

struct flock Readers(short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = kReaders;
  lock.l_len = kReadersSize;
  return lock;
}

// Exit status of `body` in a child: what is tested holds for a process.
template <class F>
int InChild(const F& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Whether another process finds a lock on the readers' bytes.
bool LockedForOthers(const std::string& path) {
  return InChild([&path] {
           const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
           struct flock lock = Readers(F_WRLCK);
           return ::fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK ? 0 : 1;
         }) == 1;
}

// The other SQLite of the process is played by its lock.
int Play(const std::string& path) {
  if (!HoldLocksApart()) return 77;
  auto first = std::make_unique<Database>(*Database::Open({.path = path}));
  if (!first->Run("CREATE TABLE t(a)") || !LockedForOthers(path)) return 1;
  const int foreign = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ::close(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!LockedForOthers(path)) return 2;
  struct flock lock = Readers(F_RDLCK);
  if (::fcntl(foreign, F_SETLK, &lock) != 0) return 3;
  first.reset();
  if (!LockedForOthers(path) || KeptDescriptors() == 0) return 4;
  const size_t kept = KeptDescriptors();
  for (int i = 0; i < 5; ++i)
    if (!Database::Open({.path = path})) return 5;
  if (!LockedForOthers(path) || KeptDescriptors() > kept) return 6;
  lock = Readers(F_UNLCK);
  ::fcntl(foreign, F_SETLK, &lock);
  if (LockedForOthers(path)) return 7;
  if (!Database::Open({.path = path})) return 8;
  return KeptDescriptors() == 0 && !LockedForOthers(path) ? 0 : 9;
}

TEST(LocksApartTest, ACloseDropsNoLockOfTheOther) {
  const testing::TempFolder folder;
  const int status = InChild([&] { return Play(folder.path() + "/x.db"); });
  if (status == 77) GTEST_SKIP() << "no locks of open file descriptions here";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace gpulens::sqlite

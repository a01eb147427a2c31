#include "store/sqlite/sqlite.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "base/sanitizers.h"

namespace gpulens::sqlite {
namespace {

struct Holder final : Forkable {
  void CloseForFork() noexcept override { ++closed; }
  int closed = 0;
};

// The exit code of a child that does this.
template <class F>
int InChild(F&& act) {
  pid_t child = ::fork();
  if (child == 0) ::_exit(act());
  int status = -1;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ForkGate, HoldersCloseBeforeAForkAndAreUnknownToTheChild) {
  Holder holder;
  {
    ForkGuard use;
    AddForkable(&holder);
  }
  EXPECT_EQ(InChild([&] {
              // The child may use it, fork again, and does not close what its parent had.
              {
                ForkGuard use;
              }
              int inner = InChild([] { return UnsafeSinceFork() ? 1 : 0; });
              return inner == 0 && holder.closed == 1 && !UnsafeSinceFork() ? 0 : 1;
            }),
            0);
  EXPECT_EQ(holder.closed, 1);
  {
    ForkGuard use;
    RemoveForkable(&holder);
  }
  EXPECT_EQ(InChild([] { return 0; }), 0);
  EXPECT_EQ(holder.closed, 1);
}

TEST(ForkGate, AForkWaitsForThoseWhoAreInside) {
  if (kThreadSanitizer)
    GTEST_SKIP() << "the thread sanitizer takes a lock that the child makes anew for the parent's";
  std::atomic<bool> inside = false, left = false;
  std::thread user([&] {
    ForkGuard use;
    inside = true;
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    left = true;
  });
  while (!inside) std::this_thread::yield();
  EXPECT_EQ(InChild([&] { return left ? 0 : 1; }), 0);
  user.join();
}

}  // namespace
}  // namespace gpulens::sqlite

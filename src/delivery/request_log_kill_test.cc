// kill -9 at random moments: what was accepted arrives, in order, and at most the record on its way comes
// twice.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "base/fd.h"
#include "delivery/request_log_testing.h"

namespace gpulens {
namespace {

using namespace request_log_testing;

constexpr int kKills = 20;
constexpr int kTimeoutMs = 20'000;
constexpr uint64_t kNumbersARound = 1'000'000;

// What the child writes to its pipe; a write this small is atomic.
struct Word {
  char what = 0;  // 'A': Push returned ok; 'D': Front gave it, and it is delivered
  uint64_t number = 0;
};

void Report(int pipe, char what, uint64_t number) {
  Word word{what, number};
  if (::write(pipe, &word, sizeof word) != sizeof word) ::_exit(3);
}

size_t SizeOf(uint64_t number) { return number * 7919 % 9000; }

// One thread pushes for ever, the other delivers to the parent for ever. Never returns.
[[noreturn]] void RunChild(const OneLog::Options& options, int pipe, uint64_t first) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto queue = OneLog::Open(options, RealClock());
  if (!queue.ok()) ::_exit(2);
  std::thread taker([&] {
    while (true) {
      // Slower than what comes in, so that there is a backlog to take over.
      if ((*queue)->stats().records <= 20) {
        std::this_thread::yield();
        continue;
      }
      auto* record = (*queue)->Front();
      if (!record) continue;
      Report(pipe, 'D', NumberOf(record->bytes).value_or(0));
      (*queue)->Pop(record->id);
    }
  });
  for (uint64_t number = first;; ++number) {
    if (!(*queue)->Push(Numbered(number, SizeOf(number)), 1).ok()) ::_exit(4);
    Report(pipe, 'A', number);
  }
}

struct Received {
  std::vector<uint64_t> accepted;
  std::vector<uint64_t> delivered;
};

// Kills after `words` words. False when the child ended by itself or wrote nothing.
bool ListenAndKill(pid_t child, int pipe, int words, Received& received) {
  bool killed = false;
  while (true) {
    pollfd ready{pipe, POLLIN, 0};
    if (::poll(&ready, 1, kTimeoutMs) <= 0) break;
    Word word;
    ssize_t count = ::read(pipe, &word, sizeof word);
    if (count != sizeof word) break;
    (word.what == 'A' ? received.accepted : received.delivered).push_back(word.number);
    if (--words == 0) {
      killed = true;
      ::kill(child, SIGKILL);
    }
  }
  if (!killed) ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  return killed && WIFSIGNALED(status);
}

// In order, and twice only the one that was on its way when the child was killed.
void CheckDelivered(const std::vector<uint64_t>& all, const std::vector<size_t>& begins) {
  for (size_t i = 1; i < all.size(); ++i) {
    bool begin = std::ranges::find(begins, i) != begins.end();
    ASSERT_GT(all[i] + (begin ? 1 : 0), all[i - 1]) << "record " << i;
  }
}

TEST(OneLogKill, NothingThatWasAcceptedIsLost) {
  TestFolder folder;
  OneLog::Options options;
  options.folder = folder.path();
  options.segment_bytes = 64 << 10;
  std::mt19937_64 random(20);
  Received received;
  std::vector<size_t> begins;
  for (int round = 1; round <= kKills; ++round) {
    options.sync = round % 4 == 0 ? SyncPolicy::kAlways : SyncPolicy::kNone;
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    UniqueFd ours(ends[0]), theirs(ends[1]);
    begins.push_back(received.delivered.size());
    pid_t child = ::fork();
    if (child == 0) RunChild(options, theirs.get(), static_cast<uint64_t>(round) * kNumbersARound);
    theirs.reset();
    ASSERT_TRUE(ListenAndKill(child, ours.get(), 1 + static_cast<int>(random() % 300), received)) << round;
  }
  begins.push_back(received.delivered.size());
  ManualClock clock;
  auto queue = OneLog::Open(options, clock);
  ASSERT_TRUE(queue.ok()) << queue.error().detail;
  EXPECT_GT((*queue)->stats().records, 0u);
  for (uint64_t number : Take(**queue)) received.delivered.push_back(number);
  EXPECT_EQ(AllLost(**queue), 0u);
  CheckDelivered(received.delivered, begins);
  std::ranges::sort(received.delivered);
  for (uint64_t number : received.accepted)
    ASSERT_TRUE(std::binary_search(received.delivered.begin(), received.delivered.end(), number)) << number;
  EXPECT_GT(received.accepted.size(), 200u);
  EXPECT_GT(received.delivered.size(), received.accepted.size() / 2);
}

}  // namespace
}  // namespace gpulens

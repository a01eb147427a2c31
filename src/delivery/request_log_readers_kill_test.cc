// kill -9 at random moments of a log with two readers that end what is under way in any order: both get all
// that was accepted, and twice at most what was being marked as done.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <thread>

#include "base/fd.h"
#include "delivery/request_log_testing.h"

namespace gpulens {
namespace {

using namespace request_log_testing;

constexpr int kRounds = 16;
constexpr int kLongestSilenceMs = 20'000;
constexpr uint64_t kNumbersOfARound = 1'000'000;
constexpr std::array<const char*, 2> kNames = {"a", "b/c"};

// What the child writes to its pipe; a write this small is atomic.
struct ReaderWord {
  char what = 0;  // 'A': it was appended; 'G': the reader was given it; 'D': the reader delivered it
  char reader = 0;
  uint64_t number = 0;
};

void ReportOf(int pipe, char what, size_t reader, uint64_t number) {
  const ReaderWord word{what, static_cast<char>(reader), number};
  if (::write(pipe, &word, sizeof word) != sizeof word) ::_exit(3);
}

// Takes up to `most` at a time and ends them in any order, for ever.
[[noreturn]] void Deliver(LogReader& reader, size_t index, size_t most, int pipe) {
  std::mt19937_64 random(index + 1);
  while (true) {
    auto records = Begin(reader, 1 + random() % most);
    for (const LogRecord& record : records) ReportOf(pipe, 'G', index, NumberOf(record.bytes).value_or(0));
    std::shuffle(records.begin(), records.end(), random);
    for (const LogRecord& record : records) {
      ReportOf(pipe, 'D', index, NumberOf(record.bytes).value_or(0));
      reader.Done(record.id, true);
    }
    if (records.empty()) ::poll(nullptr, 0, 1);
    // The second is slower than what comes in, so that there is something to take over.
    if (index == 1) ::poll(nullptr, 0, 3);
  }
}

[[noreturn]] void RunBoth(const RequestLogOptions& options, int pipe, uint64_t first) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto log = RequestLog::Open(options, RealClock());
  if (!log->disk().ok()) ::_exit(2);
  std::vector<std::shared_ptr<LogReader>> readers;
  for (const char* name : kNames) readers.push_back(log->Attach(name, {}, {}));
  std::thread one([&] { Deliver(*readers[0], 0, 5, pipe); });
  std::thread other([&] { Deliver(*readers[1], 1, 64, pipe); });
  for (uint64_t number = first;; ++number) {
    const auto kept = log->Append(Numbered(number, number * 7919 % 5000), 1);
    if (!kept || *kept != RequestLog::Kept::kOnDisk) ::_exit(4);
    ReportOf(pipe, 'A', 0, number);
  }
}

class ReceivedFromBoth {
 public:
  // Kills after so many words; false when the child ended by itself or was silent.
  bool ListenAndKill(pid_t child, int pipe, int words) {
    bool killed = false;
    std::array<uint64_t, 2> last{};
    while (true) {
      pollfd ready{pipe, POLLIN, 0};
      ReaderWord word;
      if (::poll(&ready, 1, kLongestSilenceMs) <= 0 || ::read(pipe, &word, sizeof word) != sizeof word) break;
      const auto reader = static_cast<size_t>(word.reader);
      if (word.what == 'A') accepted_.push_back(word.number);
      if (word.what == 'D') ++delivered_[reader][word.number];
      if (word.what == 'G') {
        in_order_ &= word.number > last[reader];
        last[reader] = word.number;
      }
      if (--words != 0) continue;
      killed = true;
      ::kill(child, SIGKILL);
    }
    if (!killed) ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    return killed && WIFSIGNALED(status);
  }
  void TakeRest(LogReader& reader, size_t index) {
    for (uint64_t number : Take(reader)) ++delivered_[index][number];
  }
  void Check() const {
    EXPECT_TRUE(in_order_);
    EXPECT_GT(accepted_.size(), 100u);
    for (const auto& delivered : delivered_) {
      EXPECT_EQ(delivered.count(0), 0u) << "one that nobody made";
      uint64_t again = 0;
      for (const auto& [number, times] : delivered) again += times - 1u;
      EXPECT_LE(again, static_cast<uint64_t>(kRounds)) << "one at most for each kill";
      for (uint64_t number : accepted_) ASSERT_EQ(delivered.count(number), 1u) << number;
    }
  }

 private:
  std::vector<uint64_t> accepted_;
  std::array<std::map<uint64_t, unsigned>, 2> delivered_;
  bool in_order_ = true;
};

TEST(RequestLogReadersKill, BothGetAllThatWasAccepted) {
  TestFolder folder;
  RequestLogOptions options;
  options.folder = folder.path();
  options.owner = kNames[0];
  options.segment_bytes = 32 << 10;
  std::mt19937_64 random(16);
  ReceivedFromBoth received;
  for (uint64_t round = 1; round <= kRounds; ++round) {
    options.sync = round % 4 == 0 ? SyncPolicy::kAlways : SyncPolicy::kNone;
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const UniqueFd ours(ends[0]);
    UniqueFd theirs(ends[1]);
    const pid_t child = ::fork();
    if (child == 0) RunBoth(options, theirs.get(), round * kNumbersOfARound);
    theirs.reset();
    ASSERT_TRUE(received.ListenAndKill(child, ours.get(), 1 + static_cast<int>(random() % 400))) << round;
  }
  ManualClock clock;
  auto log = RequestLog::Open(options, clock);
  ASSERT_TRUE(log->disk().ok());
  for (size_t i = 0; i < kNames.size(); ++i) {
    auto reader = log->Attach(kNames[i], {}, {});
    received.TakeRest(*reader, i);
    EXPECT_EQ(AllLost(*reader), 0u);
  }
  received.Check();
}

}  // namespace
}  // namespace gpulens

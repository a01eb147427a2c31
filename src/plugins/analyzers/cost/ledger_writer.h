// Writes the ledger's entries and state to its file on a thread of its own, so that no tick waits for a disk.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/backoff.h"
#include "base/clock.h"
#include "ledger/ledger.h"
#include "store/ledger/ledger_file.h"

namespace gpulens::cost {

// Joins entries of one hour and account into one, as the file does, in order. Returns the number of entries
// that the oldest hours beyond `most` had, which are removed.
uint64_t Compact(std::vector<ledger::Entry>& entries, size_t most);

// While the file cannot be written (the disk is full, another program writes it) entries wait in memory and
// are tried again, at least once a minute. Beyond kMostWaiting, entries of an hour and account are joined;
// if there are still more, those of the oldest hours are dropped and counted. One user thread.
class LedgerWriter {
 public:
  static constexpr size_t kMostWaiting = 20'000;

  // `clock` outlives it, and is used in Add alone.
  LedgerWriter(ledger::LedgerFile::Options file, const Clock& clock);
  // Tries once more to write what waits.
  ~LedgerWriter();
  LedgerWriter(const LedgerWriter&) = delete;
  LedgerWriter& operator=(const LedgerWriter&) = delete;

  // Opens the file and returns its state; empty without one, or when the file cannot be read, which is
  // logged. Call once, first.
  std::optional<ledger::LedgerState> Start();
  // Queues a window's entries and the state after them. Does not wait.
  void Add(std::vector<ledger::Entry> entries, ledger::LedgerState state);

  struct Counts {
    uint64_t written = 0, dropped = 0, failures = 0;
    size_t waiting = 0;
    bool up = true;  // the last attempt succeeded
  };
  Counts counts() const;
  // Waits until all is written, or an attempt with what was added last has failed. For tests.
  void WaitForAttempt();

 private:
  void Run();
  void Attempt(std::unique_lock<std::mutex>& lock);
  Status Write(const std::vector<ledger::Entry>& entries, const ledger::LedgerState& state, Instant now);
  void Report(const Status& status);

  const ledger::LedgerFile::Options options_;
  const Clock& clock_;
  std::unique_ptr<ledger::LedgerFile> file_;  // of the user until the thread starts, then of the thread
  mutable std::mutex mutex_;                  // guards what follows
  std::condition_variable wake_, attempted_;
  std::vector<ledger::Entry> waiting_;
  std::optional<ledger::LedgerState> state_;  // set: there is something to write
  Instant now_;                               // of the last Add
  Counts counts_;
  uint64_t attempts_ = 0, without_last_ = 0;  // ended; and those that do not have what was added last
  bool stopping_ = false, writing_ = false, broken_ = false, logged_ = false;
  Backoff backoff_;
  std::thread thread_;
};

}  // namespace gpulens::cost

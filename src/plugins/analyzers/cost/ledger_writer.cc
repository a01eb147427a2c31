#include "plugins/analyzers/cost/ledger_writer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/log.h"
#include "base/result.h"
#include "base/threads.h"

namespace gpulens::cost {
namespace {

using ledger::Entry;
using ledger::LedgerFile;
using ledger::LedgerState;

constexpr std::string_view kName = "cost";
constexpr int64_t kHourMs = 3'600'000;

int64_t HourOf(int64_t unix_ms) noexcept { return unix_ms - unix_ms % kHourMs; }

// An adjustment of the same hour is none.
int64_t AdjustedHour(const Entry& entry) noexcept {
  if (entry.for_window_unix_ms == 0) return 0;
  const int64_t hour = HourOf(entry.for_window_unix_ms);
  return hour == HourOf(entry.window_unix_ms) ? 0 : hour;
}

}  // namespace

uint64_t Compact(std::vector<Entry>& entries, size_t most) {
  for (Entry& entry : entries) {
    entry.for_window_unix_ms = AdjustedHour(entry);
    entry.window_unix_ms = HourOf(entry.window_unix_ms);
  }
  auto same = [](const Entry& a, const Entry& b) {
    return a.window_unix_ms == b.window_unix_ms && a.for_window_unix_ms == b.for_window_unix_ms &&
           a.account == b.account;
  };
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    if (a.window_unix_ms != b.window_unix_ms) return a.window_unix_ms < b.window_unix_ms;
    if (a.for_window_unix_ms != b.for_window_unix_ms) return a.for_window_unix_ms < b.for_window_unix_ms;
    return a.account < b.account;
  });
  size_t kept = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (kept > 0 && same(entries[kept - 1], entries[i])) {
      entries[kept - 1].amounts += entries[i].amounts;
    } else if (kept++ != i) {
      entries[kept - 1] = std::move(entries[i]);
    }
  }
  entries.resize(kept);
  if (entries.size() <= most) return 0;
  // Whole hours, so that those which are kept are complete.
  auto end = entries.begin() + static_cast<std::ptrdiff_t>(entries.size() - most);
  const int64_t hour = std::prev(end)->window_unix_ms;
  while (end != entries.end() && end->window_unix_ms == hour) ++end;
  const auto dropped = static_cast<uint64_t>(end - entries.begin());
  entries.erase(entries.begin(), end);
  return dropped;
}

LedgerWriter::LedgerWriter(LedgerFile::Options file, const Clock& clock)
    : options_(std::move(file)),
      clock_(clock),
      backoff_({.initial = std::chrono::seconds(5), .jitter = 0}, 1) {}

LedgerWriter::~LedgerWriter() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  std::unique_lock lock(mutex_);
  if (state_) Attempt(lock);
  if (state_ && !waiting_.empty()) {
    Log(LogLevel::kError, kName, "ledger",
        options_.path + ": " + std::to_string(waiting_.size()) +
            " entries could not be written and are lost");
  }
}

std::optional<LedgerState> LedgerWriter::Start() {
  auto opened = LedgerFile::Open(options_);
  std::optional<LedgerState> state;
  Status status = opened.status();
  if (opened) {
    file_ = std::move(*opened);
    auto saved = file_->ReadState();
    status = saved.status();
    if (saved) state = std::move(*saved);
  }
  Report(status);
  return state;
}

void LedgerWriter::Report(const Status& status) {
  if (status) {
    if (std::exchange(broken_, false))
      Log(LogLevel::kInfo, kName, "ledger", options_.path + ": the ledger can be written again");
    return;
  }
  if (!std::exchange(broken_, true))
    Log(LogLevel::kWarn, kName, "ledger",
        options_.path + ": " + status.detail + "; entries wait in memory, and are tried again");
}

void LedgerWriter::Add(std::vector<Entry> entries, LedgerState state) {
  {
    std::lock_guard lock(mutex_);
    waiting_.insert(waiting_.end(), std::make_move_iterator(entries.begin()),
                    std::make_move_iterator(entries.end()));
    state_ = std::move(state);
    now_ = clock_.Now();
    without_last_ = attempts_ + (writing_ ? 1 : 0);
    if (waiting_.size() > kMostWaiting) {
      // Half of it, so that this is rare.
      const uint64_t dropped = Compact(waiting_, kMostWaiting / 2);
      counts_.dropped += dropped;
      if (dropped > 0 && !std::exchange(logged_, true))
        Log(LogLevel::kError, kName, "ledger",
            options_.path + ": could not be written for long; entries of the oldest hours are dropped");
    }
    if (!thread_.joinable()) {
      SignalsBlocked blocked;
      // Without a thread the entries wait: it is tried again with the next ones.
      static_cast<void>(StartThread(thread_, [this] { Run(); }));
    }
  }
  wake_.notify_all();
}

Status LedgerWriter::Write(const std::vector<Entry>& entries, const LedgerState& state, Instant now) {
  if (!file_) {
    ASSIGN_OR_RETURN(file_, LedgerFile::Open(options_));
  }
  return file_->Write(entries, state, now);
}

// One attempt, without the lock while it writes.
void LedgerWriter::Attempt(std::unique_lock<std::mutex>& lock) {
  std::vector<Entry> entries = std::exchange(waiting_, {});
  LedgerState state = *std::exchange(state_, std::nullopt);
  writing_ = true;
  const Instant now = now_;
  lock.unlock();
  const Status status = Write(entries, state, now);
  lock.lock();
  writing_ = false;
  ++attempts_;
  Report(status);
  if (status) {
    counts_.written += entries.size();
    backoff_.Reset();
    logged_ = false;
    return;
  }
  ++counts_.failures;
  entries.insert(entries.end(), std::make_move_iterator(waiting_.begin()),
                 std::make_move_iterator(waiting_.end()));
  waiting_ = std::move(entries);
  if (!state_) state_ = std::move(state);
}

void LedgerWriter::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    wake_.wait(lock, [this] { return stopping_ || state_; });
    if (stopping_) return;
    Attempt(lock);
    attempted_.notify_all();
    if (state_ && broken_) wake_.wait_for(lock, backoff_.Next(), [this] { return stopping_; });
  }
}

LedgerWriter::Counts LedgerWriter::counts() const {
  std::lock_guard lock(mutex_);
  Counts out = counts_;
  out.waiting = waiting_.size();
  out.up = !broken_;
  return out;
}

void LedgerWriter::WaitForAttempt() {
  std::unique_lock lock(mutex_);
  attempted_.wait_for(lock, std::chrono::seconds(20),
                      [&] { return (!state_ && !writing_) || attempts_ > without_last_; });
}

}  // namespace gpulens::cost

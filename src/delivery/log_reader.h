// One reader of a request log: see request_log.h.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "delivery/record.h"
#include "delivery/request_log.h"

namespace gpulens {

// One reader's view of a log; detaches when it is destroyed, and keeps the log alive. Thread-safe, but meant
// for one thread, and stats for any.
class LogReader {
 public:
  // So many records may be under way at a time.
  static constexpr size_t kMostUnderWay = 64;

  ~LogReader();
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  // The oldest record that was not given out yet. Nothing when there is none, when it cannot be read just
  // now, or when kMostUnderWay are under way.
  std::optional<LogRecord> Next();
  // Whether a record that is under way is still wanted: false once it was dropped to make room or is too old.
  bool Wanted(uint64_t id);
  // It was delivered, or refused for good.
  void Done(uint64_t id, bool delivered);
  // It is not for this reader's receiver: done, and neither delivered nor lost.
  void Skip(uint64_t id);
  // It was not delivered and is not tried again: lost, for the reason for which it was dropped, else
  // kNotKept.
  void GiveUp(uint64_t id);
  // What is under way is given out again.
  void Rewind();
  void SetBounds(const ReaderBounds& bounds);
  // When it detaches, it will not come back.
  void ForgetOnDetach();
  // Whether so much can be appended without anything being dropped, and leave a quarter of the bound free.
  bool HasRoom(uint64_t bytes) const;

  struct Stats {
    uint64_t records = 0, items = 0;  // not done
    uint64_t bytes = 0;               // of them, with their heads
    uint64_t held_bytes = 0;          // what counts against max_bytes: files not yet removed too
    uint64_t max_bytes = 0;
    std::optional<Duration> oldest_age;
    std::array<uint64_t, kRecordLosses> lost_records{};
    // Of those records whose items are still known: a damaged one may have taken the number with it.
    std::array<uint64_t, kRecordLosses> lost_items{};
  };
  Stats stats() const;
  // Whether Next may have something.
  bool ready() const;
  const std::string& name() const noexcept;
  const std::shared_ptr<RequestLog>& log() const noexcept { return log_; }

 private:
  friend class RequestLog;
  enum class Fate : uint8_t { kDelivered, kNot, kSkipped };
  void End(uint64_t id, Fate fate);
  LogReader(std::shared_ptr<RequestLog> log, RequestLog::Reader* reader);
  const std::shared_ptr<RequestLog> log_;
  RequestLog::Reader* const reader_;
};

}  // namespace gpulens

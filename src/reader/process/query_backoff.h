// When something is asked again that the library has not told.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/clock.h"
#include "reader/vendor.h"

namespace gpulens::driver {

// Used by one thread. Answers that something is not supported, or that an argument is not known, are as a
// rule for ever, but a library gives them for a moment, too, while a driver is being loaded or a GPU
// recovers. So what has worked before is asked again soon and then ever later, and what has never worked each
// hour. An error is asked for again after a second and then ever later, before its tier has its turn.
class QueryBackoff {
 public:
  static constexpr Duration kNeverWorked = std::chrono::hours(1), kWorked = std::chrono::seconds(5),
                            kFailed = std::chrono::seconds(1), kFailedLongest = std::chrono::seconds(60);

  void Take(ReadStatus status, int64_t boot_ns) noexcept {
    absent_ = status == ReadStatus::kNotSupported;
    failed_ = status == ReadStatus::kError;
    if (status == ReadStatus::kOk) worked_ = true;
    if (!absent_ && !failed_) {
      times_ = 0;
      return;
    }
    Duration first = failed_ ? kFailed : worked_ ? kWorked : kNeverWorked;
    Duration longest = failed_ ? kFailedLongest : kNeverWorked;
    next_ns_ = boot_ns + std::min<Duration>(first * (1 << times_), longest).count();
    times_ = std::min(times_ + 1, 10);
  }
  // It is not supported, and not to be asked for yet.
  bool Rests(int64_t boot_ns) const noexcept { return absent_ && boot_ns < next_ns_; }
  // The same, or it failed a moment ago: for what is asked whenever it is not waited for.
  bool Waits(int64_t boot_ns) const noexcept { return (absent_ || failed_) && boot_ns < next_ns_; }
  // It is to be asked for although its tier is not due.
  bool Due(int64_t boot_ns) const noexcept { return (absent_ || failed_) && boot_ns >= next_ns_; }
  bool absent() const noexcept { return absent_; }
  bool worked() const noexcept { return worked_; }  // Once at least.

 private:
  int64_t next_ns_ = 0;
  int times_ = 0;  // In a row.
  bool absent_ = false, failed_ = false, worked_ = false;
};

}  // namespace gpulens::driver

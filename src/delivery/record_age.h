// How old a record of a request log is.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace gpulens {

struct RecordStamp {
  int64_t unix_ns = 0;
  int64_t boot_ns = 0;
  bool this_boot = true;  // boot_ns counts from the same start of the machine as ours
};

// The age by the clock that never jumps. For a record of an earlier start of the machine only wall time can
// tell, and it is asked once, when the log is opened: a jump while we run changes no age. Never negative.
class RecordAges {
 public:
  explicit RecordAges(Instant opened) noexcept : opened_(opened) {}

  Duration Of(const RecordStamp& stamp, Instant now) const noexcept {
    if (stamp.this_boot) return Positive(now.boot_ns, stamp.boot_ns);
    return Positive(opened_.unix_ns, stamp.unix_ns) + Positive(now.boot_ns, opened_.boot_ns);
  }

 private:
  // Half of the range is 146 years; a stamp of nonsense must not overflow a sum.
  static Duration Positive(int64_t later, int64_t earlier) noexcept {
    int64_t difference = 0;
    if (later <= earlier) return Duration(0);
    if (__builtin_sub_overflow(later, earlier, &difference)) difference = INT64_MAX;
    return Duration(std::min(difference, INT64_MAX / 2));
  }

  Instant opened_;
};

}  // namespace gpulens

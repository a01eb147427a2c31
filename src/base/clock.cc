#include "base/clock.h"

#include <ctime>

namespace gpulens {
namespace {

int64_t Read(clockid_t id) noexcept {
  timespec t{};
  ::clock_gettime(id, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

class MachineClock final : public Clock {
 public:
  Instant Now() const noexcept override { return {Read(CLOCK_BOOTTIME), Read(CLOCK_REALTIME)}; }
};

}  // namespace

const Clock& RealClock() noexcept {
  static const MachineClock clock;
  return clock;
}

}  // namespace gpulens

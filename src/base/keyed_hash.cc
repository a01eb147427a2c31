#include "base/keyed_hash.h"

#include <sys/random.h>

#include <chrono>

namespace gpulens {

const HashKey& ProcessHashKey() noexcept {
  static const HashKey key = [] {
    HashKey made{};
    if (getrandom(&made, sizeof made, GRND_NONBLOCK) != sizeof made) {
      auto now = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
      made = {now * 0x9E3779B97F4A7C15, ~now * 0xD1B54A32D192ED03, now ^ 0x8CB92BA72F3D8DD7};
    }
    made.a |= 1, made.b |= 1, made.c |= 1;
    return made;
  }();
  return key;
}

}  // namespace gpulens

// What follows from an XID: consumed poison, a link that failed. NVML and the kernel log tell some of these
// by themselves, too; then they are told once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/frame.h"

namespace gpulens {

// Not thread-safe. Allocates only when something happens.
class EventFollow {
 public:
  // Reports of the same thing lie at most so far apart.
  static constexpr int64_t kWindowNs = 5'000'000'000;

  // The event that the code of an XID stands for; nothing for most codes.
  static std::optional<Event> Of(const Event& xid);

  // Whether this has been told of the device already. Remembers it. `derived`: it comes from Of. What a
  // source tells by itself of a link is told always, since it names the link.
  bool Reported(const Event& event, std::string_view device, bool derived);

 private:
  struct Known {
    std::string what, device;
    int64_t at_ns;
  };
  static constexpr size_t kMaxKnown = 256;
  std::vector<Known> known_;
};

}  // namespace gpulens

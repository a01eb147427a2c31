// A parcel: opaque bytes on the way to one receiver, why one may be lost on the way, and the bounds of the
// queue that keeps it until then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace gpulens {

struct Parcel {
  uint64_t id = 0;  // grows by one with each parcel that is accepted; never used twice in a folder
  std::string bytes;
  uint32_t items = 0;          // points or records inside, for counting
  int64_t queued_unix_ns = 0;  // wall time of the Push, for people
};

enum class ParcelLoss : uint8_t {
  kFull,      // the oldest had to go: the bound on bytes is reached
  kOld,       // waited longer than max_age
  kDamaged,   // its bytes on disk are not those that were written
  kTooLarge,  // larger than the whole queue may be; was never accepted
};
inline constexpr size_t kParcelLosses = 4;

// The value of the label `reason`. Static storage.
constexpr std::string_view ParcelLossName(ParcelLoss loss) noexcept {
  switch (loss) {
    case ParcelLoss::kFull: return "queue_full";
    case ParcelLoss::kOld: return "too_old";
    case ParcelLoss::kDamaged: return "damaged";
    case ParcelLoss::kTooLarge: return "too_large";
  }
  return "unknown";
}

// What a Push that returned ok survives. The end of the process, kill -9 too: always, where there is a
// folder.
enum class ParcelSync : uint8_t {
  kNone,      // a power cut or a crash of the kernel may take what the kernel had not written yet
  kInterval,  // … at most what was pushed in the last sync_interval
  kAlways,    // nothing: each Push and each Pop waits for the disk
};

struct ParcelQueueOptions {
  std::string folder;                        // empty: in memory, gone with the process
  uint64_t max_bytes = uint64_t{256} << 20;  // of all files of parcels with their headers
  Duration max_age{};                        // 0: any
  uint64_t segment_bytes = 4 << 20;          // a file; at most an eighth of max_bytes
  ParcelSync sync = ParcelSync::kInterval;
  Duration sync_interval = std::chrono::seconds(5);
  std::string boot_id;  // which start of the machine this is; empty: as the kernel says
};

}  // namespace gpulens

// State of a reader inside RequestLog. Included by the sources of RequestLog only.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "delivery/log_folder.h"
#include "delivery/request_log.h"

namespace gpulens {

inline constexpr uint64_t kNoId = std::numeric_limits<uint64_t>::max();
// A log that starts without its folder does not know the ids used there. It starts at the wall time in
// seconds times this number, and gaps of this size do not count as dropped records.
inline constexpr uint64_t kNumbersASecond = uint64_t{1} << 30;

struct RequestLog::Reader {
  struct InFlight {
    uint64_t id = 0, items = 0, bytes = 0;
    RecordStamp stamp;
    bool done = false;
    std::optional<RecordDropReason> dropped;  // counted only if it is not delivered
  };

  std::string name;
  bool attached = false, leaves = false;
  ReaderBounds bounds;
  std::function<void()> on_ready;
  std::optional<PositionFile> position;
  uint64_t low = 1;    // all ids below are done
  uint64_t ahead = 1;  // all ids below are done or in flight
  std::vector<InFlight> in_flight;
  // Done records of the position at the start: bit i is the record mask_from + 1 + i.
  uint64_t mask_from = 0, mask = 0;
  // Ids that were returned by Next while the folder was unusable, and are skipped.
  uint64_t jump_from = 0, jump_to = 0;

  DiskPlace place;
  std::optional<SegmentReader::Record> next;      // first on disk at or after `ahead`, if known
  uint64_t taken_segment = 0;                     // segment of `taken`
  LogTotals taken;                                // already returned by Next or passed
  LogTotals on_disk, in_memory;                   // not yet returned by Next
  uint64_t held_on_disk = 0, held_in_memory = 0;  // of files and memory from `low` on
  uint64_t segment_end = 0;                       // of the segment that holds `low`
  std::array<uint64_t, kRecordDropReasons> dropped_records{}, dropped_items{}, logged_records{},
      logged_items{};

  // Under state_mutex_.
  LogReader::Stats shown;
  std::optional<RecordStamp> oldest;
  bool ready = false;

  bool OnDisk() const noexcept { return next && next->head.id == ahead; }
  uint64_t held() const noexcept { return held_on_disk + held_in_memory; }
  bool IsInFlight(uint64_t id) const noexcept {
    return std::ranges::any_of(in_flight, [id](const InFlight& record) {
      return record.id == id && !record.done && !record.dropped;
    });
  }
  bool MarkedDone(uint64_t id) const noexcept {
    return mask != 0 && id > mask_from && id - mask_from <= 64 && ((mask >> (id - mask_from - 1)) & 1) != 0;
  }
  uint64_t MarkedIn(uint64_t from, uint64_t to) const noexcept {
    uint64_t count = 0;
    if (mask == 0) return 0;
    for (uint64_t id = std::max(from, mask_from + 1); id < std::min(to, mask_from + 65); ++id)
      count += MarkedDone(id);
    return count;
  }
  // For the 64 ids after `low`: ids that Next has passed and that are not in flight are done or dropped.
  uint64_t DoneMask() const noexcept {
    uint64_t bits = 0;
    if (ahead <= low + 1 && mask == 0) return bits;
    for (uint64_t i = 0; i < 64; ++i) {
      const uint64_t id = low + 1 + i;
      if (id < ahead ? !IsInFlight(id) : MarkedDone(id)) bits |= uint64_t{1} << i;
    }
    return bits;
  }
};

}  // namespace gpulens

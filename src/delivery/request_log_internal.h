// What a RequestLog knows of a reader. Included by the files that make up RequestLog alone.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "delivery/log_reader.h"
#include "delivery/position_file.h"
#include "delivery/request_log.h"

namespace gpulens {

inline constexpr uint64_t kNoId = std::numeric_limits<uint64_t>::max();
// A log that begins without its folder cannot know which ids were used there. It numbers from the seconds of
// wall time times this, and a gap as large is no loss.
inline constexpr uint64_t kNumbersASecond = uint64_t{1} << 30;

struct RequestLog::Reader {
  struct UnderWay {
    uint64_t id = 0, items = 0, bytes = 0;
    RecordStamp stamp;
    bool done = false;
    std::optional<RecordLoss> lost;  // dropped meanwhile; it counts only if it is not delivered
  };

  std::string name;
  bool attached = false, leaves = false;
  ReaderBounds bounds;
  std::function<void()> on_ready;
  std::optional<PositionFile> position;
  uint64_t low = 1;    // all ids below are done
  uint64_t ahead = 1;  // all ids below are done or under way
  std::vector<UnderWay> under_way;
  // Of the position that was taken up: bit i says that mask_from + 1 + i is done.
  uint64_t mask_from = 0, mask = 0;
  // Ids that were given out while the folder could not be used: not again.
  uint64_t jump_from = 0, jump_to = 0;

  DiskPlace place;
  std::optional<SegmentReader::Record> next;  // the first on disk from `ahead` on, where it is known
  uint64_t taken_segment = 0;                 // `taken` is what was given out of it
  LogTotals taken;
  LogTotals on_disk, in_memory;                   // not given out
  uint64_t held_on_disk = 0, held_in_memory = 0;  // of the files and the memory from `low` on
  uint64_t segment_end = 0;                       // of the segment that holds `low`
  std::array<uint64_t, kRecordLosses> lost_records{}, lost_items{}, logged_records{}, logged_items{};

  // Under state_mutex_.
  LogReader::Stats shown;
  std::optional<RecordStamp> oldest;
  bool ready = false;

  bool OnDisk() const noexcept { return next && next->head.id == ahead; }
  uint64_t held() const noexcept { return held_on_disk + held_in_memory; }
  bool IsUnderWay(uint64_t id) const noexcept {
    return std::any_of(under_way.begin(), under_way.end(),
                       [id](const UnderWay& one) { return one.id == id && !one.done && !one.lost; });
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
  // Of the 64 ids behind `low`: what was given out and is not under way is done, or lost and counted.
  uint64_t DoneMask() const noexcept {
    uint64_t bits = 0;
    if (ahead <= low + 1 && mask == 0) return bits;
    for (uint64_t i = 0; i < 64; ++i) {
      const uint64_t id = low + 1 + i;
      if (id < ahead ? !IsUnderWay(id) : MarkedDone(id)) bits |= uint64_t{1} << i;
    }
    return bits;
  }
};

}  // namespace gpulens

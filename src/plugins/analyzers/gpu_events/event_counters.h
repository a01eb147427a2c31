// Counters of events, and the XIDs of each GPU that still matter.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/events.h"
#include "core/frame_writer.h"
#include "plugins/analyzers/gpu_events/gpu_event_table.h"

namespace gpulens {

// Counts events by GPU and by name. Counters of a GPU start at 0 when it is first seen, so that rate() sees
// the first event, and go on when a lost GPU comes back. They are absent while no source watches. Not
// thread-safe. Write does not allocate while GPUs and codes stay.
class EventCounters {
 public:
  // Codes of a GPU with a series of their own; the rest is "other".
  static constexpr size_t kMaxCodes = 64;
  // Series of a GPU that is gone end after this time.
  static constexpr int64_t kKeepGoneNs = 15LL * 60 * 1'000'000'000;

  struct LastXid {
    int64_t unix_ns = 0, code = 0;
  };

  // Sets the last XIDs before this process, from the store, by UUID.
  void Remember(std::map<std::string, LastXid, std::less<>> last) { remembered_ = std::move(last); }

  // Counts a new event. `gpu`: its index in the table, or GpuEventTable::kNone.
  void Count(const Event& event, size_t gpu);

  struct Watched {
    bool xids = false, ras = false;
  };
  void Write(const GpuEventTable& table, Watched watched, Instant now, FrameWriter& out);

 private:
  static constexpr size_t kGrades = 3;
  struct CodeCount {
    int64_t code = 0;  // -1: all others
    uint64_t count = 0;
    Series series;
  };
  struct PerGpu {
    EntityRef entity;  // on which the series are; null: none
    uint64_t xids = 0;
    LastXid last;
    std::vector<CodeCount> codes;
    std::array<uint64_t, kGrades> ras{};
    Series xid_series, last_time, last_code;
    std::array<Series, kGrades> ras_series;
  };

  void CountXid(PerGpu& gpu, const Event& event);
  void Declare(PerGpu& gpu, const TrackedGpu& tracked, Watched watched, SeriesTable& table);
  static void Undeclare(PerGpu& gpu, SeriesTable& table);
  static void WriteGpu(PerGpu& gpu, Watched watched, FrameWriter& out);

  std::vector<PerGpu> gpus_;  // by index in the table
  std::array<uint64_t, std::size(kEvents)> events_{};
  std::array<Series, std::size(kEvents)> event_series_;
  std::map<std::string, LastXid, std::less<>> remembered_;
};

// The XIDs of the last hours of each GPU that no reset, boot or operator has cleared, counted by action. Not
// thread-safe. Write does not allocate while GPUs and actions stay.
class RecentXids {
 public:
  // XIDs kept for a GPU, the newest.
  static constexpr size_t kMaxPerGpu = 256;

  explicit RecentXids(Duration window) : window_ns_(window.count()) {}

  // `gpu`: its index in the table. `action`: as in gpu.xid.action; others count as "unknown".
  void Add(size_t gpu, int64_t at_boot_ns, std::string_view action);
  // Removes XIDs up to `before_boot_ns`. `gpu` may be GpuEventTable::kNone: of every GPU.
  void Clear(size_t gpu, int64_t before_boot_ns);
  // Removes those that a reset of the GPU settles.
  void ClearByReset(size_t gpu, int64_t before_boot_ns);

  // XIDs and what cleared them, from before this process; applied to a GPU when it is first seen.
  struct Past {
    enum Kind : uint8_t { kXid, kReset, kClear } kind = kXid;
    std::string gpu_uuid;  // empty: every GPU
    int64_t boot_ns = 0;   // on the clock of this boot
    std::string action;    // of an XID
  };
  void Remember(std::vector<Past> past);

  void Write(const GpuEventTable& table, bool watched, Instant now, FrameWriter& out);

 private:
  static constexpr size_t kActions = 8;
  struct Xid {
    int64_t at_ns = 0;
    uint8_t action = 0;
  };
  struct PerGpu {
    EntityRef entity;  // on which the series are; null: none
    std::vector<Xid> xids;
    std::array<Series, kActions> series;
    bool recalled = false;  // its past was applied
  };

  PerGpu& Of(size_t gpu);
  void Recall(size_t gpu, const std::string& uuid);
  void WriteGpu(PerGpu& gpu, Instant now, FrameWriter& out) const;

  const int64_t window_ns_;
  std::vector<PerGpu> gpus_;  // by index in the table
  std::vector<Past> past_;    // in order of time
};

}  // namespace gpulens

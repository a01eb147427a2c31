// What has happened so far, as counters: per GPU, per event name, and what became of events.
//
// Counters of a GPU begin at 0 as soon as it is seen, so that rate() sees the first event. They are absent
// while nobody watches: a 0 would say that nothing happened. They survive the GPU: one that is lost and comes
// back goes on counting.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "catalog/events.h"
#include "core/frame_writer.h"
#include "plugins/analyzers/gpu_events/gpu_event_table.h"

namespace gpulens {

// Not thread-safe. Write does not allocate while GPUs and codes stay.
class EventCounters {
 public:
  // Codes of one GPU with a series of their own; the rest is "other".
  static constexpr size_t kMaxCodes = 64;
  // A GPU that is gone leaves the page after this time.
  static constexpr int64_t kKeepGoneNs = 15LL * 60 * 1'000'000'000;

  struct LastXid {
    int64_t unix_ns = 0, code = 0;
  };

  // What the store knows from before this process, by UUID.
  void Remember(std::map<std::string, LastXid, std::less<>> last) { remembered_ = std::move(last); }

  // Counts a happening that is new. `gpu`: its place in the book, or GpuEventTable::kNone.
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
  void Declare(PerGpu& gpu, const KnownGpu& known, Watched watched, SeriesTable& table);
  static void Undeclare(PerGpu& gpu, SeriesTable& table);
  static void WriteGpu(PerGpu& gpu, Watched watched, FrameWriter& out);

  std::vector<PerGpu> gpus_;  // by place in the book
  std::array<uint64_t, std::size(kEvents)> events_{};
  std::array<Series, std::size(kEvents)> event_series_;
  std::map<std::string, LastXid, std::less<>> remembered_;
};

}  // namespace gpulens

// Fills the frames of one instance, run after run.
//
//   writer.Begin(now);
//   writer.Set(power, 512.3);
//   Ref<const Frame> frame = writer.Finish();
//
// Every value is judged by its family's rule before it is kept. A series not set in a run keeps its
// last good value as stale until the time to live ends, then it is absent. Used only inside its
// instance's run: not thread-safe. Set never allocates once a series has been set before; Finish
// does not allocate while the layout stays and readers let go of old frames.
#pragma once

#include <array>
#include <concepts>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/frame.h"
#include "core/series_table.h"
#include "core/validate.h"

namespace gpulens {

class FrameWriter {
 public:
  struct Counts {
    uint64_t accepted = 0;
    uint64_t stale = 0;                          // published with an age
    std::array<uint64_t, kVerdicts> rejected{};  // by Validation; kAccepted stays 0
    uint64_t invalid = 0;                        // written to an invalid or retired handle
  };

  // `ttl`: how long a value that is not read again may be shown. `source` names the instance.
  FrameWriter(SeriesTable& table, Duration ttl, std::string source = {}) noexcept
      : table_(table), ttl_(ttl), source_(std::move(source)) {}

  SeriesTable& table() noexcept { return table_; }
  const SeriesTable& table() const noexcept { return table_; }

  void Begin(Instant now) noexcept;
  // When the source read the values that are set from here on; default: the start of the run. Their
  // age counts from it; the frame's own time stays the start of the run.
  void ReadAt(Instant when) noexcept {
    read_at_ = when;
    dated_ = false;
  }
  // The source itself says of when the values are that are set until the next ReadAt: perhaps of long ago.
  // They are published with their age: stale from the time to live on, and absent as too old from
  // kOldestDated on, however often the source repeats them.
  void DatedAt(Instant when) noexcept {
    dated_at_ = when;
    dated_ = true;
  }
  static constexpr Duration kOldestDated = std::chrono::hours(1);
  // Of the values that are set now.
  Instant read_at() const noexcept { return dated_ ? dated_at_ : read_at_; }
  Instant begun_at() const noexcept { return begun_at_; }

  void Set(Series series, double value) noexcept;
  void SetInt(Series series, int64_t value) noexcept;
  void Set(Series series, std::integral auto value) noexcept { SetInt(series, static_cast<int64_t>(value)); }
  // The cells of a histogram or summary in the order of its Shape, to be written in place; empty for
  // an invalid handle. The caller vouches for them: no rule is applied.
  std::span<Cell> Cells(Series series) noexcept;
  // Counts a reading that the collector itself does not believe: a failed twin rule, a sentinel.
  // What was set in this run is withdrawn.
  void Reject(Series series, Validation why) noexcept;
  // What was rejected in this run, the first kRejectionsKept of it, in order. Valid until the next Begin.
  struct Rejection {
    Series series;
    Validation why = Validation::kAccepted;
    double value = 0;  // NaN: a value was there before it was rejected, or none was told
  };
  static constexpr size_t kRejectionsKept = 64;
  std::span<const Rejection> rejections() const noexcept { return {rejections_.data(), rejected_now_}; }
  // The source still says what it said last: keeps the value fresh without judging it again.
  void Keep(Series series) noexcept;
  // Nothing is known any more, and that is no fault: absent from this run on, until it is set again.
  void Clear(Series series) noexcept;
  // At most 1,000 a frame; further ones are dropped.
  void Attach(Series series, Exemplar exemplar);

  // Freezes and publishes. The frame stays valid as long as it is held.
  Ref<const Frame> Finish();

  // For rules that look at several series before Finish: the number a slot was given in this run (kept ones
  // included), with the boot time of its reading; nothing when it was rejected or has more than one cell.
  struct Fresh {
    double value = 0;
    int64_t at_ns = 0;
  };
  std::optional<Fresh> SetInThisRun(uint32_t slot) const noexcept;
  Series HandleOf(uint32_t slot) const noexcept {
    return slot < slots_.size() ? Series{slot, slots_[slot].generation} : Series{};
  }

  const Counts& counts() const noexcept { return counts_; }
  // The greatest age of a value in the last frame, in nanoseconds; 0 when all were just read.
  int64_t oldest_ns() const noexcept { return oldest_ns_; }

 private:
  struct Slot {
    uint32_t run = 0;         // in which it was last set
    uint32_t generation = 0;  // of the series the value belongs to
    int64_t ok_at_ns = 0;     // boot time of the last good reading; 0: none
    bool counted = false;     // a counter has its cell from this series, though it may be withdrawn
    bool dated = false;       // DatedAt was in force when it was last set
    Validation last = Validation::kAccepted;  // of the last reading
  };

  bool Admit(Series series) noexcept;
  void RejectValue(Series series, Validation why, double value) noexcept;
  Absence WhyAbsent(const Slot& slot) const noexcept;
  void Accept(uint32_t slot, const SeriesInfo& info, double value) noexcept;
  void Grow();
  void FillQuality(Frame& frame) noexcept;
  void FillAged(Frame& frame, uint32_t slot, int64_t age_ns, bool fresh) noexcept;
  void Stamp(Slot& slot) noexcept;
  Ref<Frame> TakeFrame();

  SeriesTable& table_;
  const Duration ttl_;
  const std::string source_;
  Instant begun_at_, read_at_, dated_at_;
  bool dated_ = false;
  uint32_t run_ = 0;
  std::vector<Cell> cells_;
  std::vector<Slot> slots_;
  std::unordered_map<uint32_t, ValidatorState> memories_;  // only of slots whose rule needs one
  std::vector<Exemplar> exemplars_;
  std::vector<Ref<Frame>> pool_;
  std::array<Rejection, kRejectionsKept> rejections_;
  size_t rejected_now_ = 0;
  Counts counts_;
  int64_t oldest_ns_ = 0;
};

}  // namespace gpulens

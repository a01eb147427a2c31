// Fills the frames of one instance, run after run.
//
//   writer.Begin(now);
//   writer.Set(power, 512.3);
//   Ref<const Frame> frame = writer.Finish();
//
// Values are validated by the rule of their family. A series that is not set in a run keeps its last good
// value, stale, until the time to live ends; then it is absent. Not thread-safe. Set does not allocate for a
// series that was set before, nor Finish while the layout stays and readers release old frames.
#pragma once

#include <array>
#include <concepts>
#include <initializer_list>
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
    uint64_t stale = 0;                             // published with an age
    std::array<uint64_t, kValidations> rejected{};  // by Validation; kAccepted stays 0
    uint64_t invalid = 0;                           // written to an invalid or retired handle
  };

  // `ttl`: how long a value may be exported after its reading. `source` names the instance.
  FrameWriter(SeriesTable& table, Duration ttl, std::string source = {}) noexcept
      : table_(table), ttl_(ttl), source_(std::move(source)) {}

  SeriesTable& table() noexcept { return table_; }
  const SeriesTable& table() const noexcept { return table_; }

  void Begin(Instant now) noexcept;
  // Sets the time of reading of the following values, from which their age counts; by default the start of
  // the run. The frame's own time stays the start of the run.
  void ReadAt(Instant when) noexcept {
    read_at_ = when;
    dated_ = false;
  }
  // Sets the source's own time of the values until the next ReadAt, possibly long ago. They are exported with
  // their age: stale from the time to live on, absent from kOldestDated on, even if the source repeats them.
  void DatedAt(Instant when) noexcept {
    dated_at_ = when;
    dated_ = true;
  }
  static constexpr Duration kOldestDated = std::chrono::hours(1);
  // The time of values that are set now.
  Instant read_at() const noexcept { return dated_ ? dated_at_ : read_at_; }
  Instant begun_at() const noexcept { return begun_at_; }

  void Set(Series series, double value) noexcept;
  void SetInt(Series series, int64_t value) noexcept;
  void Set(Series series, std::integral auto value) noexcept { SetInt(series, static_cast<int64_t>(value)); }
  // Sets a value of a series that is declared with its first value, so that numbers which a device lacks have
  // no series. `extra` is for the declaration.
  template <class Value>
  void DeclareAndSet(Series& series, const MetricDesc& desc, const EntityRef& entity,
                     std::initializer_list<AttributeSet::Attribute> extra, Value value) {
    if (!series) series = table_.Declare(desc, entity, AttributeSet(extra));
    Set(series, value);
  }
  // Sets raw / divisor, where `raw` is the number as the source gave it: a sentinel is rejected as one, so
  // that no collector has to check for it. An integer that is not divided is set as one.
  void SetRaw(Series series, int64_t raw, double divisor = 1) noexcept {
    if (RejectSentinel(series, raw)) return;
    if (divisor == 1) SetInt(series, raw);
    else Set(series, static_cast<double>(raw) / divisor);
  }
  void SetRaw(Series series, double raw, double divisor = 1) noexcept {
    if (!RejectSentinel(series, raw)) Set(series, raw / divisor);
  }
  // For values that are derived from `raw` otherwise than by a divisor: rejects a sentinel and returns true.
  bool RejectSentinel(Series series, int64_t raw) noexcept { return RejectIfSentinel(series, raw); }
  bool RejectSentinel(Series series, double raw) noexcept { return RejectIfSentinel(series, raw); }
  // The cells of a histogram or summary in the order of its Shape, to be written in place without validation;
  // empty for an invalid handle.
  std::span<Cell> Cells(Series series) noexcept;
  // Rejects a reading on behalf of the caller (a failed cross-check, a sentinel) and withdraws the value of
  // this run.
  void Reject(Series series, Validation why) noexcept;
  // The first kRejectionsKept rejections of this run, in order. Valid until the next Begin.
  struct Rejection {
    Series series;
    Validation why = Validation::kAccepted;
    double value = 0;  // NaN: unknown
  };
  static constexpr size_t kRejectionsKept = 64;
  std::span<const Rejection> rejections() const noexcept { return {rejections_.data(), rejected_now_}; }
  // The source repeats its last value: keeps it fresh without validation.
  void Keep(Series series) noexcept;
  // The value is unknown, without a fault: absent until it is set again.
  void Clear(Series series) noexcept;
  // At most 1,000 per frame; further ones are dropped.
  void Attach(Series series, Exemplar exemplar);

  // Freezes the layout and returns the frame.
  Ref<const Frame> Finish();

  // The value of a slot set or kept in this run, and the boot time of its reading, for rules over several
  // series; nothing when it was rejected or has more than one cell.
  struct Fresh {
    double value = 0;
    int64_t at_ns = 0;
  };
  std::optional<Fresh> SetInThisRun(uint32_t slot) const noexcept;
  Series HandleOf(uint32_t slot) const noexcept {
    return slot < slots_.size() ? Series{slot, slots_[slot].generation} : Series{};
  }

  const Counts& counts() const noexcept { return counts_; }
  // The greatest age of a value in the last frame, in nanoseconds.
  int64_t oldest_ns() const noexcept { return oldest_ns_; }

 private:
  struct Slot {
    uint32_t run = 0;                         // of the last Set
    uint32_t generation = 0;                  // of the series of the value
    int64_t ok_at_ns = 0;                     // boot time of the last good reading; 0: none
    bool counted = false;                     // a counter has a value of this series, possibly withdrawn
    bool dated = false;                       // DatedAt was in force at the last Set
    Validation last = Validation::kAccepted;  // of the last reading
  };

  template <class Raw>
  bool RejectIfSentinel(Series series, Raw raw) noexcept {
    if (!table_.Live(series) || !IsSentinel(*table_.InfoAt(series.slot).desc, raw)) return false;
    Reject(series, Validation::kSentinel);
    return true;
  }
  bool Admit(Series series) noexcept;
  void RejectValue(Series series, Validation why, double value) noexcept;
  Absence WhyAbsent(const Slot& slot) const noexcept;
  void Accept(uint32_t slot, const SeriesInfo& info, double value) noexcept;
  void Grow();
  void FillQuality(Frame& frame) noexcept;
  void FillAged(Frame& frame, uint32_t slot, int64_t age_ns, bool fresh) noexcept;
  void Stamp(Slot& slot) noexcept;

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
  RefPool<Frame> pool_{6};
  std::array<Rejection, kRejectionsKept> rejections_;
  size_t rejected_now_ = 0;
  Counts counts_;
  int64_t oldest_ns_ = 0;
};

// Sets the series of one entity, and declares them first if `declares`. Does not allocate for declared
// series.
class EntitySeries {
 public:
  using Attributes = std::initializer_list<AttributeSet::Attribute>;
  EntitySeries(FrameWriter& out, const EntityRef& entity, bool declares) noexcept
      : out_(out), entity_(entity), declares_(declares) {}

  void Declare(Series& series, const MetricDesc& desc, Attributes attributes = {}) const {
    if (declares_) series = out_.table().Declare(desc, entity_, AttributeSet(attributes));
  }
  void Set(Series& series, const MetricDesc& desc, auto value, Attributes attributes = {}) const {
    Declare(series, desc, attributes);
    out_.Set(series, value);
  }

 private:
  FrameWriter& out_;
  const EntityRef& entity_;
  const bool declares_;
};

}  // namespace gpulens

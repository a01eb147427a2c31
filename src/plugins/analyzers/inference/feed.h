// What one role, of one model of one engine, says over time: its label sets made one.
//
// The rules, for counters and for the buckets of histograms alike (for sums of buckets, never of quantiles):
//
// - The first reading of an engine is a base. Each later one adds what was counted since the one before.
// - A label set that grew adds its growth. All that came, went or fell between two readings are taken
//   together as one counter: it grew by the difference or, when it fell, began anew and has counted what it
//   shows. So
//     a new `finish_reason` that shows 3 beside others that stayed is 3 more (clients of Prometheus make a
//     label set when something first happens);
//     an engine that began anew has counted what it shows now;
//     a label set that only changed its name adds what it grew, not its whole life.
// - A new label set counts from 0 only when this instance of the collector read this engine before; else it,
//   too, is a base. One that says when it was created (`_created`) is believed instead. One that went and
//   comes back goes on from where it was.
// - Label sets that differ in tp_rank, pp_rank or moe_ep_rank are copies: the lowest rank counts.
// - Buckets are added at the bounds that all label sets have. When these change, the window begins anew.
// - A reading in which a label set is stale is passed over whole; the next one spans the gap, with its true
//   elapsed time. An absent one, or one that is not on the page, has gone.
//
// Memory: a row has 8 bytes for each bound, 16 for sum and count and 8 for its time; a feed keeps at most
// kRowsMax rows, one of all of them together and the bounds, and one row and 64 bytes for each label set. A
// histogram with 24 bounds: at most 5.4 KiB and 0.3 for each label set; read once in 15 s, with 5 rows in a
// window of 60 s and room for 8, 2.4 KiB.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "catalog/inference.h"
#include "core/histogram.h"
#include "plugins/analyzers/inference/native_table.h"

namespace gpulens::windows {

// How the numbers of a role are used.
enum class Use : uint8_t {
  kLevel,    // as they are
  kGrowth,   // a counter over the window
  kMoments,  // count and sum of a histogram over the window
  kBuckets,  // all of it
};

// What a feed can say after a reading.
enum class Known : uint8_t {
  kNothing,  // not offered, or nothing was told in this reading
  kOld,      // this reading was passed over
  kNow,
};

// One reading of a source that moved.
struct Reading {
  const Frame& frame;
  int64_t last_unix_ns = 0;  // of the reading before; 0: there is none
  bool follows = false;      // the same instance read this engine before
  Duration window{};
};

// Room for calculations, shared by all feeds. Keeps its capacity.
struct Scratch {
  std::vector<double> numbers, rows, step, before, after, tmp;
  std::vector<uint8_t> told;
  Buckets buckets;
};

// Used inside the analyzer's run. Read does not allocate while the label sets stay and the window is full.
class Feed {
 public:
  // Scrapes that come more often than that in a window share rows, so it is exact to a twentieth.
  static constexpr int64_t kRowsOfWindow = 20;
  static constexpr size_t kRowsMax = 22;

  // `since_ns`: when the engine was read before this feed was made; 0: never.
  Feed(const Pick& pick, Use use, int64_t since_ns);

  // Whether the series is one of a label set that the pick is about.
  static bool Takes(const Pick& pick, const SeriesInfo& info);
  // A new layout: Begin, Add for each series that it takes, End.
  void BeginPlan() noexcept;
  void Add(const SeriesInfo& info, uint32_t slot);
  void EndPlan();
  // The layout has no series for it.
  bool empty() const noexcept { return live_ == 0; }

  void Read(const Reading& reading, Scratch& scratch);

  Known known() const noexcept { return known_; }
  // kLevel: over the label sets, as the role combines them. Meaningful when known() is kNow.
  double level() const noexcept { return level_; }
  // The others: from when to when the window goes; equal before the second reading.
  int64_t from_ns() const noexcept { return rows_.empty() ? last_ns_ : rows_.from_ns(0); }
  int64_t to_ns() const noexcept { return last_ns_; }
  // kGrowth: how much it grew in the window. kMoments, kBuckets: how many were observed.
  double count() const noexcept { return observed_[Counts() - 1]; }
  double sum() const noexcept { return observed_.back(); }  // kMoments, kBuckets; NaN: not told
  std::optional<double> QuantileOf(double q) const { return Quantile(bounds_, observed_, q); }

  size_t memory_bytes() const noexcept;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  // A label set. `last` stands in lasts_, in the same order.
  struct Input {
    AttributeSet attributes;
    Ref<const Shape> shape;
    int64_t start_unix_ns = 0;
    int64_t read_start_unix_ns = 0;  // as it was when it was read last
    uint32_t slot = kNone;           // kNone: not in the layout
    bool start_known = false;
    bool counts = true;    // a copy of a lower rank does not, one that is only a witness neither
    bool witness = false;  // shows that the role is told by this key
    bool read = false;     // `last` is set
    bool present = false;  // was told in the last reading

    bool live() const noexcept { return slot != kNone; }
  };

  size_t Counts() const noexcept { return use_ == Use::kBuckets ? bounds_.size() + 1 : 1; }
  std::span<double> LastOf(size_t i) noexcept { return {lasts_.data() + i * rows_.width(), rows_.width()}; }
  Input& FindOrMake(const AttributeSet& attributes);
  void ForgetTheGone();
  void MarkCopies();
  void FollowBounds();
  Known Gather(const Frame& frame, Scratch& scratch);
  bool ReadRow(const Frame& frame, const Input& input, std::span<double> row, Scratch& scratch);
  bool ReadHistogram(const Frame& frame, const Input& input, std::span<double> row, Scratch& scratch);
  void Combined(Scratch& scratch) noexcept;
  void Step(const Reading& reading, Scratch& scratch);
  void Keep(const Reading& reading, std::span<const double> step);

  const Pick pick_;
  const Use use_;
  const Combine combine_;
  Known known_ = Known::kNothing;
  bool forgot_ = false;                                 // gone label sets that may come back
  size_t live_ = 0;                                     // that count, or are witnesses
  size_t planned_ = 0;                                  // label sets before the plan; those after it are new
  size_t cursor_ = 0;                                   // where the next label set is expected
  std::vector<std::pair<uint64_t, uint32_t>> by_hash_;  // while a plan is made, once one was not there
  double level_ = 0;
  int64_t last_ns_;
  std::vector<Input> inputs_;
  std::vector<double> lasts_;
  std::vector<double> bounds_;
  SlidingRows rows_;
  std::vector<double> observed_;
};

}  // namespace gpulens::windows

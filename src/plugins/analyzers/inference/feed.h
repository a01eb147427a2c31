// Time series of one metric of one model of an engine, combined over label sets. Rules for counters and
// buckets of histograms:
//
// - The first reading of an engine is a base. Each later one adds its growth.
// - A label set that grew adds its growth. All that appeared, vanished or fell between two readings count as
//   one counter: it grew by the difference or, when it fell, restarted and has counted its present number. So
//   a new `finish_reason` with 3, while others stayed, is 3 more (Prometheus clients create label sets on
//   first use); a restarted engine has counted its present numbers; a renamed label set adds its growth, not
//   its total.
// - A new label set counts from 0 only when this instance of the collector read this engine before, else it
//   is a base. Its `_created` takes precedence. One that comes back continues.
// - Label sets that differ in tp_rank, pp_rank or moe_ep_rank are copies: the lowest rank counts.
// - Buckets are added at the bounds that all label sets have. When these change, the window restarts.
// - A reading with a stale label set is skipped; the next one spans the gap with its true elapsed time. An
//   absent label set is gone.
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

// Use of a metric's values by a feed.
enum class FeedUse : uint8_t {
  kLevel,    // as they are
  kGrowth,   // a counter over the window
  kMoments,  // count and sum of a histogram over the window
  kBuckets,  // all of it
};

// The result of a reading.
enum class FeedResult : uint8_t {
  kNone,     // no series, or no value in this reading
  kSkipped,  // this reading was skipped
  kRead,
};

// One new reading of a source.
struct FeedReading {
  const Frame& frame;
  int64_t last_unix_ns = 0;  // of the reading before; 0: there is none
  bool follows = false;      // the same instance read this engine before
  Duration window{};
};

// Buffers for calculations, shared by all feeds.
struct FeedScratch {
  std::vector<double> numbers, rows, step, before, after, tmp;
  std::vector<uint8_t> present;
  Buckets buckets;
};

// Used inside the analyzer's run. Read does not allocate while the label sets stay and the window is full.
class Feed {
 public:
  // More frequent scrapes share rows, so a window is exact to a twentieth.
  static constexpr int64_t kRowsOfWindow = 20;
  static constexpr size_t kRowsMax = 22;

  // `since_ns`: when the engine was read before this feed was made; 0: never.
  Feed(const MetricPick& pick, FeedUse use, int64_t since_ns);

  // Whether the pick selects the series.
  static bool Takes(const MetricPick& pick, const SeriesInfo& info);
  // For a new layout: BeginPlan, Add for each selected series, EndPlan.
  void BeginPlan() noexcept;
  void Add(const SeriesInfo& info, uint32_t slot);
  void EndPlan();
  // Whether the layout has no series for it.
  bool empty() const noexcept { return live_ == 0; }

  void Read(const FeedReading& reading, FeedScratch& scratch);

  FeedResult result() const noexcept { return result_; }
  // kLevel: combined over the label sets. Valid when result() is kRead.
  double level() const noexcept { return level_; }
  // The others: start and end of the window; equal before the second reading.
  int64_t from_ns() const noexcept { return rows_.empty() ? last_ns_ : rows_.from_ns(0); }
  int64_t to_ns() const noexcept { return last_ns_; }
  // kGrowth: growth in the window. kMoments, kBuckets: number of observations.
  double count() const noexcept { return observed_[Counts() - 1]; }
  double sum() const noexcept { return observed_.back(); }  // kMoments, kBuckets; NaN: unknown
  std::optional<double> QuantileOf(double q) const { return Quantile(bounds_, observed_, q); }

  size_t memory_bytes() const noexcept;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  // A label set. Its last numbers are in lasts_, in the same order.
  struct Input {
    AttributeSet attributes;
    Ref<const Shape> shape;
    int64_t start_unix_ns = 0;
    int64_t read_start_unix_ns = 0;  // at the last reading
    uint32_t slot = kNone;           // kNone: not in the layout
    bool start_known = false;
    bool counts = true;    // not a copy of a lower rank, and not a witness
    bool witness = false;  // only shows that the metric exists with this key
    bool read = false;     // its last numbers are set
    bool present = false;  // had a value in the last reading

    bool live() const noexcept { return slot != kNone; }
  };

  size_t Counts() const noexcept { return use_ == FeedUse::kBuckets ? bounds_.size() + 1 : 1; }
  std::span<double> LastOf(size_t i) noexcept { return {lasts_.data() + i * rows_.width(), rows_.width()}; }
  Input& FindOrMake(const AttributeSet& attributes);
  void DropGone();
  void MarkCopies();
  void FollowBounds();
  FeedResult Gather(const Frame& frame, FeedScratch& scratch);
  bool ReadRow(const Frame& frame, const Input& input, std::span<double> row, FeedScratch& scratch);
  bool ReadHistogram(const Frame& frame, const Input& input, std::span<double> row, FeedScratch& scratch);
  void Combined(FeedScratch& scratch) noexcept;
  void Step(const FeedReading& reading, FeedScratch& scratch);
  void Keep(const FeedReading& reading, std::span<const double> step);

  const MetricPick pick_;
  const FeedUse use_;
  const Combine combine_;
  FeedResult result_ = FeedResult::kNone;
  bool dropped_ = false;                                // gone label sets that may come back
  size_t live_ = 0;                                     // that count, or are witnesses
  size_t planned_ = 0;                                  // label sets before the plan; those after it are new
  size_t cursor_ = 0;                                   // expected index of the next label set
  std::vector<std::pair<uint64_t, uint32_t>> by_hash_;  // while a plan is made, once one was not found
  double level_ = 0;
  int64_t last_ns_;
  std::vector<Input> inputs_;
  std::vector<double> lasts_;
  std::vector<double> bounds_;
  SlidingRows rows_;
  std::vector<double> observed_;
};

}  // namespace gpulens::windows

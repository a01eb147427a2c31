// The groups of one roll-up rule: what their members read in the current interval, and the frame of results
// that an ended interval gives.
//
// A gauge gives each interval the mean of its readings, each reading with the same weight. `sum` and `avg`
// are of these means, so that how often a member is read does not weigh. Counters and histograms give their
// increases, so that the `sum` of a group never falls.
//
// Used by Rollup only. Not thread-safe. Does not allocate while series stay the same.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/frame.h"
#include "core/histogram.h"
#include "core/series_table.h"
#include "pipeline/rollup/rollup_rule.h"

namespace gpulens {

// Why a series that a rule matches is sent as it is.
enum class RollupRefusal : uint8_t {
  kKind,      // a text, a state set, a summary: there is nothing to compute
  kFunction,  // none of the functions is defined for its kind
  kBounds,    // a histogram whose bounds are not those of its group
  kLimit,     // max_groups is reached, or 10,000 names
  kName,      // another series of the rule has the name and the attributes of its result
};
inline constexpr size_t kRollupRefusals = 5;
// "kind", "function", … Static storage.
std::string_view RollupRefusalName(RollupRefusal refusal) noexcept;

// One series in one group.
struct RollupMember {
  uint32_t slot = 0, rule = 0, group = 0;
  uint32_t first_number = 0;  // of a histogram: index of its last reading
  RollupForm form = RollupForm::kNone;
  bool int_cells = false;
  bool seen = false;          // it was read before, so an increase is known
  bool stale = false;         // one of the readings of this interval was
  bool has_increase = false;  // in this interval
  uint32_t readings = 0;      // in this interval
  Cell last{};                // reading of a counter
  double sum = 0;             // of the readings, or of the increases of a counter
  int64_t last_ns = 0;        // boot time of the last reading
  int64_t base_ns = 0;        // boot time of the last reading before this interval
  int64_t start_unix_ns = 0;  // of the counter, at its last reading
};

// Key of a group: the metric, and the attributes that the rule keeps.
struct RollupKey {
  std::string name, unit;
  Kind kind = Kind::kUnknown;
  Number number = Number::kDouble;
  AttributeSet attributes;
  bool operator==(const RollupKey&) const = default;
};

struct RollupGroup {
  // Of the current interval.
  struct Window {
    uint32_t count = 0;         // members that were read
    bool stale = false;         // a member is shown but was not read, or only as stale
    bool shown = false;         // a member has a value at the end
    bool has_increase = false;  // of a member whose reading before is known
    bool has_rate = false;
    double sum = 0;  // of the members' means
    double min = std::numeric_limits<double>::infinity();
    double max = -std::numeric_limits<double>::infinity();
    double last = 0;
    int64_t last_ns = std::numeric_limits<int64_t>::min();
    double increase = 0, rate = 0;
    int64_t int_increase = 0;
  };

  RollupForm form = RollupForm::kNone;
  bool int_cells = false, has_sum = false;
  uint32_t members = 0;  // series that belong to it
  uint32_t idle = 0;     // intervals that ended without a reading and without a member
  Window window;
  double total = 0;                   // of a counter, since the group began
  int64_t int_total = 0;              // the same where cells are integers
  std::vector<double> bounds;         // of a histogram: finite
  std::vector<double> rows, in_rows;  // counts by bound, count, sum: since the group began; in this interval
  std::vector<Series> series;         // by function of the rule; invalid where it is not defined
  std::vector<int64_t> known_ns;      // by function: boot time of the result that is shown; 0: none
  RollupKey key;

  // A reading of a gauge, finite, read at boot time `at_ns`.
  void AddReading(double value, int64_t at_ns) noexcept;
  void AddIncrease(double increase) noexcept;
  void AddIncrease(int64_t increase) noexcept;
  // Adds the readings of the member in this interval to the group. The member then begins another interval.
  void Take(RollupMember& member) noexcept;
};

class RollupGroups {
 public:
  // A group without members keeps the totals of its counters for so many intervals.
  static constexpr uint32_t kIdleIntervals = 5;

  // `source`: name of the frames.
  RollupGroups(RollupRule rule, std::string source);

  const RollupRule& rule() const noexcept { return rule_; }
  // Groups that exist, those without members included.
  size_t size() const noexcept { return index_.size(); }
  RollupGroup& operator[](uint32_t group) noexcept { return groups_[group]; }

  struct Joined {
    std::optional<uint32_t> group;
    RollupRefusal why = RollupRefusal::kKind;  // when there is none
  };
  // Adds a series that the rule matches. A new group counts from `start_unix_ns`.
  Joined Join(const SeriesInfo& series, int64_t start_unix_ns);
  void Leave(uint32_t group) noexcept { --groups_[group].members; }

  // Ends the interval: the results so far, read at `end`. A group whose members were not read keeps its
  // results, as stale, while a member is shown. All members were Taken.
  Ref<const Frame> Close(Instant end);

 private:
  struct KeyHash {
    size_t operator()(const RollupKey& key) const noexcept;
  };

  std::optional<RollupRefusal> Make(const SeriesInfo& series, RollupKey key, int64_t start_unix_ns,
                                    RollupGroup& group);
  const MetricDesc* DescOf(const MetricDesc& input, RollupFunction function);
  void Remove(uint32_t group);
  void Publish(RollupGroup& group, Frame& frame);
  bool Compute(const RollupGroup& group, RollupFunction function, const SeriesInfo& result);
  static void Show(int64_t known_ns, bool stale, uint32_t slot, Frame& frame);

  const RollupRule rule_;
  const std::string source_;
  const EntityRef entity_;
  SeriesTable table_;
  std::vector<RollupGroup> groups_;
  std::vector<uint32_t> free_;
  std::unordered_map<RollupKey, uint32_t, KeyHash> index_;
  std::vector<Cell> cells_;  // of the last results
  RefPool<Frame> pool_{4};   // one published, one being filled, two for slow sinks
  uint64_t run_ = 0;
};

}  // namespace gpulens

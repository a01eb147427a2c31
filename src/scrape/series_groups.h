// Groups of a page's series that became equal by the rules of its target, and their series.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/frame_writer.h"
#include "core/layout.h"
#include "scrape/series_rules.h"

namespace gpulens {

// Follows one ParsedPage. A series whose labels the rules do not change is not in a group, unless another
// one became equal to it. Not thread-safe. Read does not allocate.
//
// The sum of counters never falls: the count of a member that left or restarted is kept as long as the group
// has members. Groups of the value `other` stay without members, too, as its values come and go.
class SeriesGroups {
 public:
  struct Group {
    uint32_t family = 0;   // kNoFamily: it waits, and its family is not on the page
    uint32_t version = 0;  // changes with the group's identity, family or shape
    SeriesFold fold = SeriesFold::kSum;
    bool alive = false;
    bool waits = false;  // has no members, and keeps its count
    std::vector<PageLabel> labels;
    Ref<const Shape> shape;        // null: one number
    std::vector<uint32_t> series;  // of the page
    std::vector<double> sums;      // by cell; NaN: nothing was read yet
    // Internal to SeriesGroups:
    std::string key;
    std::vector<uint32_t> slots;  // of the page, cell by cell for each member
    std::vector<double> last;     // by index of slots
    std::vector<double> gone;     // by cell
  };

  static constexpr uint32_t kNoFamily = UINT32_MAX;
  // Maximum number of waiting groups; further ones end with their last member.
  static constexpr size_t kMostWaiting = 1000;

  SeriesGroups(const ParsedPage& page, const GovernedLabels& labels) : page_(page), labels_(labels) {}

  // After GovernedLabels::Follow.
  void Follow();
  // Whether the series is in a group, or left out.
  bool Holds(uint32_t series) const noexcept {
    return series < places_.size() && places_[series].group != kNone;
  }
  // Series of their own that joined a group in the last Follow.
  std::span<const uint32_t> taken() const noexcept { return taken_; }
  std::span<const Group> groups() const noexcept { return groups_; }
  const ParsedPage& page() const noexcept { return page_; }
  // Updates `sums` from the last page; once for each page that was read. Numbers that an incomplete page
  // lacks stay.
  const Group& Read(size_t group, bool complete);

  // Series combined into another one, and series that cannot be combined.
  size_t folded() const noexcept { return members_ - (live_ - waiting_); }
  size_t dropped() const noexcept { return dropped_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX, kLeftOut = UINT32_MAX - 1;
  struct Place {
    uint32_t group = kNone, member = 0;
  };

  void Enter(uint32_t series);
  void Leave(uint32_t series, bool keep_count);
  void TakeEqualSeries();
  Place& PlaceOf(uint32_t series);
  std::string KeyOf(uint32_t family);
  void MoveTo(Group& group, uint32_t family);
  void CountFamily(uint32_t family, int change);
  bool IsOther(const Group& group) const noexcept;
  bool HasFamily(const Group& group) const noexcept;
  void CheckWaiting();
  void EndEmptied();
  uint32_t Make(uint32_t family, SeriesFold fold, std::string key);
  bool Join(uint32_t series, uint32_t group);
  Ref<Shape> ShapeOf() const;
  static bool Narrow(Group& group, const Shape& other);
  void AddSlots(Group& group);
  void Update(Group& group, size_t member, bool complete);
  static bool Restarted(const Group& group, const double* last, const double* now) noexcept;

  const ParsedPage& page_;
  const GovernedLabels& labels_;
  std::vector<Group> groups_;
  std::vector<uint32_t> free_;
  std::unordered_map<std::string, uint32_t> by_key_;
  std::vector<Place> places_;                            // by series id of the page
  std::unordered_map<uint32_t, uint32_t> families_;      // by family: number of groups
  std::vector<uint32_t> taken_, emptied_, fresh_, all_;  // fresh_: families with a new group
  size_t members_ = 0, live_ = 0, waiting_ = 0, dropped_ = 0;
  std::vector<PageLabel> now_labels_;  // of the series being placed
  std::vector<PageCell> now_cells_;
  std::vector<double> now_;
};

// The series of a page's groups. Used inside its instance's run: not thread-safe. Write does not allocate.
class FoldedSeries {
 public:
  // Returns the row of a family, by its index on the page; null: none of its series is exported.
  using DescOf = std::function<const MetricDesc*(uint32_t family)>;
  using AttributesOf = std::function<AttributeSet(std::vector<PageLabel> labels)>;

  FoldedSeries(SeriesGroups& groups, EntityRef target) : groups_(groups), target_(std::move(target)) {}

  // After a Follow of the groups: first Retire, so that names are free, then Declare.
  void Retire(SeriesTable& table);
  void Declare(const DescOf& desc_of, const AttributesOf& attributes_of, SeriesTable& table);
  // After each Update of the page that read something.
  void Write(bool complete, FrameWriter& out);
  // Adds the series that are not exported.
  void Count(SeriesDrops& drops) const;

 private:
  struct Live {
    Series series;
    const MetricDesc* desc = nullptr;
    uint32_t version = 0;
    bool exported = false, written = false;
    SeriesDrop drop = SeriesDrop::kLimit;  // of an exported one without a series
  };

  void DeclareOne(size_t group, const AttributesOf& attributes_of, SeriesTable& table);

  SeriesGroups& groups_;
  const EntityRef target_;
  std::vector<Live> live_;  // by index of the groups
};

// Returns why the last Declare was refused, from the table's counts before it.
SeriesDrop WhyRefused(const SeriesTable& table, uint64_t limit, uint64_t duplicate) noexcept;

}  // namespace gpulens

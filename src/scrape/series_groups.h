// Series of a page that became equal, and the numbers that each such group has together.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/layout.h"
#include "scrape/governed_labels.h"

namespace gpulens {

// Follows one ScrapedPage. A series whose labels the rules leave alone is not in a group, unless another
// one became equal to it: those are passed on as they are and cost nothing here. All others are in groups,
// mostly of several. Not thread-safe. Read does not allocate.
//
// A group that counts never falls: what a member had counted when it left or began anew is kept for as long
// as the group has members. A member that comes brings all it has counted. The groups of the value `other`
// stay without members, too: what it stands for are values that come and go.
class SeriesGroups {
 public:
  struct Group {
    uint32_t family = 0;   // kNoFamily: it waits, and its family is not on the page
    uint32_t version = 0;  // changes when it is another group, of another family, or has another shape
    Fold fold = Fold::kSum;
    bool alive = false;
    bool waits = false;  // for members: it has none, and keeps what was counted
    std::vector<PageLabel> labels;
    Ref<const Shape> shape;        // null: one number
    std::vector<uint32_t> series;  // of the page
    std::vector<double> sums;      // by cell; not a number: nothing was read yet
    // What follows is the matter of SeriesGroups.
    std::string key;
    std::vector<uint32_t> slots;  // of the page, cell by cell for each member
    std::vector<double> last;     // beside slots
    std::vector<double> gone;     // by cell
  };

  static constexpr uint32_t kNoFamily = UINT32_MAX;
  // So many groups may wait; further ones end with their last member.
  static constexpr size_t kMostWaiting = 1000;

  SeriesGroups(const ScrapedPage& page, const GovernedLabels& labels) : page_(page), labels_(labels) {}

  // After GovernedLabels::Follow.
  void Follow();
  // Whether the series is none by itself: in a group, or left out.
  bool Holds(uint32_t series) const noexcept {
    return series < places_.size() && places_[series].group != kNone;
  }
  // Series that were there by themselves and are in a group since the last Follow.
  std::span<const uint32_t> taken() const noexcept { return taken_; }
  std::span<const Group> groups() const noexcept { return groups_; }
  const ScrapedPage& page() const noexcept { return page_; }
  // The numbers of the last page into `sums`; once for each page that was read. What is not on an
  // incomplete page is as it was.
  const Group& Read(size_t group, bool complete);

  // Series that are only told as a part of another one; and those that no rule can combine.
  size_t folded() const noexcept { return members_ - (live_ - waiting_); }
  size_t dropped() const noexcept { return dropped_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX, kLeftOut = UINT32_MAX - 1;
  struct Place {
    uint32_t group = kNone, member = 0;
  };

  void Enter(uint32_t series);
  void Leave(uint32_t series, bool keep_count);
  void TakeEqualOnes();
  Place& PlaceOf(uint32_t series);
  std::string KeyOf(uint32_t family);
  void MoveTo(Group& group, uint32_t family);
  void CountFamily(uint32_t family, int change);
  bool StandsForOthers(const Group& group) const noexcept;
  bool HasFamily(const Group& group) const noexcept;
  void CheckWaiting();
  void EndEmptied();
  uint32_t Make(uint32_t family, Fold fold, std::string key);
  bool Join(uint32_t series, uint32_t group);
  Ref<Shape> ShapeOf() const;
  static bool Narrow(Group& group, const Shape& other);
  void AddSlots(Group& group);
  void Update(Group& group, size_t member, bool complete);
  static bool Began(const Group& group, const double* last, const double* now) noexcept;

  const ScrapedPage& page_;
  const GovernedLabels& labels_;
  std::vector<Group> groups_;
  std::vector<uint32_t> free_;
  std::unordered_map<std::string, uint32_t> by_key_;
  std::vector<Place> places_;                            // by series id of the page
  std::unordered_map<uint32_t, uint32_t> families_;      // by family: groups
  std::vector<uint32_t> taken_, emptied_, fresh_, all_;  // fresh_: families with a new group
  size_t members_ = 0, live_ = 0, waiting_ = 0, dropped_ = 0;
  std::vector<PageLabel> now_labels_;  // of the series being placed
  std::vector<PageCell> now_cells_;
  std::vector<double> now_;
};

}  // namespace gpulens

// Decides by a rule where an item goes, and holds the parts that are made. Inside src/wire/split only: the
// splitters read encodings, this class knows none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "wire/split/split_rule.h"

namespace gpulens::split {

// Values of the attributes that a rule names are given from the outside in: a value that was given at a lower
// level (0 first) hides those of higher levels; of equal levels the last counts. Not thread-safe; memory is
// used again.
class SplitRouter {
 public:
  // Instead of a part's index.
  static constexpr uint32_t kNoPart = UINT32_MAX;
  enum class Choice : uint8_t { kUnknown, kLeaveOut, kKeep };

  explicit SplitRouter(SplitLimits limits);

  // `rule` and `out` must live until Finish. kInvalidArgument: the rule cannot be followed; kUnavailable: no
  // endpoint is usable.
  Status Begin(const SplitRule& rule, std::vector<SplitPart>& out);
  // Shortens `out` to the parts that were made; to none after a failure.
  void Finish(bool good);

  // Drops the values that were given at `level` and above.
  void DropFrom(uint8_t level) noexcept;
  // Whether a value of this attribute at `level` would count.
  bool Wants(std::string_view name, uint8_t level) const noexcept;
  // `text` must live until it is dropped, or until Route, unless it is to be copied.
  void Take(std::string_view name, std::string_view text, uint8_t level, bool copy = false);
  // A label of Prometheus: the rule's name may have other ASCII characters where the label has underscores. A
  // label that has exactly the rule's name hides those. Given at levels 0 and 1.
  void TakeLabel(std::string_view name, std::string_view text);
  // `last`: no further values follow, what was not given is absent.
  Choice Choose(bool last) const noexcept;

  // The part for the values that were given, with `items` more items. kNoPart when there are too many.
  uint32_t Route(uint64_t hash, uint32_t items);
  size_t parts() const noexcept { return count_; }
  SplitPart& part(uint32_t index) noexcept { return (*out_)[index]; }

  // Appends to a part's body. False when all parts together would be too large.
  bool Append(uint32_t part, std::string_view bytes);
  // Counts bytes that are appended otherwise.
  bool Spend(size_t bytes) noexcept;
  // Why Route, Append or Spend failed: kExhausted.
  Status Full() const;

 private:
  struct Slot {
    std::string_view name;
    const SplitRule::Match* match = nullptr;  // null: the attribute `by`
    uint8_t level = 0;
    bool given = false, fails = false;
    std::string_view text;
    std::string copy;
  };
  void Give(Slot& slot, std::string_view text, uint8_t level);
  bool IsPart(uint32_t index, const SplitPart& key, std::string_view value) const noexcept;
  uint32_t Add(const SplitPart& key, std::string_view value);

  const SplitLimits limits_;
  const SplitRule* rule_ = nullptr;
  std::vector<SplitPart>* out_ = nullptr;
  std::vector<SplitPart> spare_;  // parts of larger requests, for their memory
  std::vector<Slot> slots_;       // the first is that of `by`, if there is one
  std::vector<uint32_t> table_;   // open addressing: a part's index + 1
  uint32_t count_ = 0, last_ = 0;
  size_t spent_ = 0;
  bool many_parts_ = false;  // more than the limit
};

}  // namespace gpulens::split

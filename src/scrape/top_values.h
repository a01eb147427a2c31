// Which values of one label keep series of their own, family by family, when there may be only so many.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace gpulens {

// Series are told as they come and go; then Rank gives the free places to the largest of the new values.
// What is decided stays while a series of that value lives: a value that was folded is not taken out again
// when it grows, nor is one that has a place put back when it shrinks, since either would make a counter
// jump. A place is free again when the last series of its value is gone. Not thread-safe.
class TopValues {
 public:
  explicit TopValues(uint32_t keep) noexcept : keep_(keep) {}

  // `weight`: the series' number; not a number counts as nothing. Equal ones: the first to appear wins.
  void Appear(uint32_t series, uint32_t family, std::string_view value, double weight);
  void Vanish(uint32_t series);
  void Rank();
  // Whether the value of this series, if it has one, goes into "other".
  bool Folds(uint32_t series) const noexcept;
  // Values that have or had no place, of series that live.
  size_t folded() const noexcept;

 private:
  enum class State : uint8_t { kFree, kNew, kKept, kOther };
  struct Value {
    std::string key;  // family and text
    double weight = 0;
    uint32_t family = 0, series = 0;
    State state = State::kFree;
  };

  const uint32_t keep_;
  std::vector<Value> values_;
  std::vector<uint32_t> free_, new_;
  std::unordered_map<std::string, uint32_t> by_key_;
  std::unordered_map<uint32_t, uint32_t> kept_;  // by family: places taken
  std::vector<uint32_t> of_series_;              // by series id
};

}  // namespace gpulens

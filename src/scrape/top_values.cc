#include "scrape/top_values.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "scrape/series_rules.h"

namespace gpulens {
namespace {

constexpr uint32_t kNoValue = UINT32_MAX;

}  // namespace

void TopValues::Appear(uint32_t series, uint32_t family, std::string_view value, double weight) {
  std::string key(reinterpret_cast<const char*>(&family), sizeof family);
  key += value;
  auto [found, made] = by_key_.try_emplace(std::move(key), kNoValue);
  if (made) {
    if (free_.empty()) {
      found->second = static_cast<uint32_t>(values_.size());
      values_.emplace_back();
    } else {
      found->second = free_.back();
      free_.pop_back();
    }
    // A page's own "other" is one of the others, whatever its size.
    State state = value == kOtherValue ? State::kOther : State::kNew;
    values_[found->second] = {found->first, 0, family, 0, state};
    if (state == State::kNew) new_.push_back(found->second);
  }
  Value& at = values_[found->second];
  if (std::isfinite(weight)) at.weight += weight;
  ++at.series;
  if (of_series_.size() <= series) of_series_.resize(series + 1, kNoValue);
  of_series_[series] = found->second;
}

void TopValues::Vanish(uint32_t series) {
  if (series >= of_series_.size() || of_series_[series] == kNoValue) return;
  uint32_t id = of_series_[series];
  of_series_[series] = kNoValue;
  Value& value = values_[id];
  if (--value.series > 0) return;
  if (value.state == State::kKept && --kept_[value.family] == 0) kept_.erase(value.family);
  std::erase(new_, id);
  by_key_.erase(value.key);
  value = {};
  free_.push_back(id);
}

void TopValues::Rank() {
  if (new_.empty()) return;
  // Of equal weight, the one that was seen first has the smaller id while none was given back.
  std::sort(new_.begin(), new_.end(), [this](uint32_t a, uint32_t b) {
    return std::tie(values_[b].weight, a) < std::tie(values_[a].weight, b);
  });
  for (uint32_t id : new_) {
    uint32_t& taken = kept_[values_[id].family];
    values_[id].state = taken < keep_ ? State::kKept : State::kOther;
    if (taken < keep_) ++taken;
  }
  new_.clear();
}

bool TopValues::Folds(uint32_t series) const noexcept {
  return series < of_series_.size() && of_series_[series] != kNoValue &&
         values_[of_series_[series]].state == State::kOther;
}

size_t TopValues::folded() const noexcept {
  return static_cast<size_t>(
      std::count_if(values_.begin(), values_.end(), [](const Value& v) { return v.state == State::kOther; }));
}

}  // namespace gpulens

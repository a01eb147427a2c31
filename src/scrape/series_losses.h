// How many series of a page are not passed on as they are, and why.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpulens {

enum class SeriesLoss : uint8_t {
  kLimit,      // the target or the agent has as many as it may
  kDuplicate,  // the page says one thing twice, or another series has the same name
  kInvalid,    // a name that cannot be, or no number
  kApart,      // it would have to be combined, and cannot: a gauge by configuration, no bucket in common
};
inline constexpr size_t kSeriesLosses = 4;

constexpr std::string_view SeriesLossName(SeriesLoss loss) noexcept {
  constexpr std::string_view kNames[kSeriesLosses] = {"limit", "duplicate", "invalid", "not_combined"};
  return kNames[static_cast<size_t>(loss)];
}

struct SeriesLosses {
  size_t folded = 0;  // told as a part of another one
  bool folds = false;
  std::array<size_t, kSeriesLosses> dropped{};

  size_t& operator[](SeriesLoss loss) noexcept { return dropped[static_cast<size_t>(loss)]; }
};

}  // namespace gpulens

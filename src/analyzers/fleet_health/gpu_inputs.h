// What a tick says of each GPU, of whatever vendor: the readings that health is judged by, found by the names
// of the catalogue.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/series_finder.h"

namespace gpulens {

enum class GpuInput : uint8_t {
  kStateOk,
  kStateHung,
  kStateNoPermission,
  kVendorNvidia,
  kEdge,
  kHotspot,
  kBusy,
  kClockIdle,
  kLinkGen,
  kLinkGenMax,
  kLinkWidth,
  kLinkWidthMax,
  kCorrected,
  kUncorrected,
  kBanksMax,
  kBanksHigh,
  kBanksPartial,
  kBanksLow,
  kBanksNone,
  kRemapFailed,
  kRemapPending,
  kRecoveryNone,
  kSramExceeded,
  kUnrepairable,
  kXids,
};
inline constexpr size_t kGpuInputs = static_cast<size_t>(GpuInput::kXids) + 1;

struct GpuNow {
  // Who it is over restarts: its uuid; without one, its model and index.
  std::string key;
  // The collector's entity, taken anew when its attributes change.
  EntityRef entity;
  std::array<std::optional<double>, kGpuInputs> values;
  bool here = false;  // the last tick had something of it

  std::optional<double> operator[](GpuInput input) const noexcept {
    return values[static_cast<size_t>(input)];
  }
};

// Not thread-safe. Does not allocate while GPUs and layouts stay. Only values that were just read count: a
// stale one says nothing of now.
class GpuInputs {
 public:
  // More GPUs than that are not looked at.
  static constexpr size_t kMaxGpus = 256;

  GpuInputs();
  // Where two sources tell the same of one GPU, the first frame of the snapshot counts.
  void Gather(const Snapshot& snapshot);
  // Every GPU ever seen, in order of appearance; one that left is not `here`.
  const std::vector<GpuNow>& gpus() const noexcept { return gpus_; }
  // Forgets a GPU that is not here any more.
  void Forget(size_t index);

 private:
  struct Owners {
    std::array<const Frame*, kGpuInputs> of{};
  };
  struct Family {
    SeriesFinder finder;
    size_t first, count;  // rows of the table
  };

  GpuNow* Find(const SeriesInfo& info);
  void Take(const Family& family, const SeriesInfo& info, double value, const Frame& frame);

  std::vector<Family> families_;
  std::vector<GpuNow> gpus_;
  std::vector<Owners> owners_;  // beside gpus_
};

}  // namespace gpulens

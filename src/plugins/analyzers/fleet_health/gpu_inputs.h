// Finds in a tick the readings that the health of each GPU is judged by, whatever its vendor, by the names of
// the catalogue.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/series_finder.h"
#include "plugins/analyzers/fleet_health/driver_failures.h"

namespace gpulens {

enum class GpuInput : uint8_t {
  kStateOk,
  kStateHung,
  kStateReset,
  kStateNoPermission,
  kStateFailed,
  kStateLeftOut,
  kStateUnread,
  kVendorNvidia,
  kVendorAmd,
  kEdge,
  kHotspot,
  kMemoryHeat,
  kEdgeLimit,
  kHotspotLimit,
  kMemoryHeatLimit,
  kMargin,
  kMarginLimit,
  kPower,
  kPowerInstant,
  kMemoryUsed,
  kClock,
  kBusy,
  kClockIdle,
  kLinkGen,
  kLinkGenMax,
  kLinkWidth,
  kLinkWidthMax,
  kReplays,
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
  kFabricNotStarted,
  kFabricInProgress,
  kFabricCompleted,
  kFabricStatus,
  kFabricDegraded,
  kInforomValid,
  kPowerBrake,
  kThermalSlowdown,
  kLinksActive,
  kLinkErrors,
  kSramExceeded,
  kUnrepairable,
  kXids,
  kXidsReset,     // recent XIDs whose action is a reset or a reboot
  kXidsDiagnose,  // recent XIDs whose action is a drain, a look at the board, or the vendor
};
inline constexpr size_t kGpuInputs = static_cast<size_t>(GpuInput::kXidsDiagnose) + 1;

struct GpuNow {
  // Identifies it over restarts: its uuid; without one, its model and index.
  std::string key;
  std::string index;
  // It could not be opened, so that its number is all that is known of it.
  bool nameless = false;
  // The collector's entity, taken anew when its attributes change.
  EntityRef entity;
  std::array<std::optional<double>, kGpuInputs> values;
  std::string model;
  bool mig = false;              // split into MIG instances
  bool here = false;             // the last tick had something of it
  bool others_answer = false;    // another GPU has the state "ok"
  double driver_failures = 0;    // unplanned ends of its vendor's reader process within five minutes
  double links_of_its_kind = 0;  // the most links that are up on one GPU of this model in the machine

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
  // Where two sources have the same reading of one GPU, the first frame of the snapshot counts.
  void Gather(const Snapshot& snapshot);
  // Every GPU ever seen, in order of appearance; one that left is not `here`.
  const std::vector<GpuNow>& gpus() const noexcept { return gpus_; }
  // Forgets a GPU that is not here any more.
  void Forget(size_t index);

 private:
  // Whose series an input was taken from: only series of the same entity in the same frame are added up.
  struct Owner {
    const Frame* frame = nullptr;
    const Entity* entity = nullptr;
    bool operator==(const Owner&) const = default;
  };
  struct Owners {
    std::array<Owner, kGpuInputs> of{};
  };
  struct Family {
    SeriesFinder finder;
    size_t first, count;  // rows of the table
  };

  GpuNow* Find(const SeriesInfo& info);
  // Derives what follows from all readings of a tick together.
  void SettleGpus();
  void Take(const Family& family, const SeriesInfo& info, double value, const Frame& frame);

  std::vector<Family> families_;
  DriverFailures failures_;
  std::vector<GpuNow> gpus_;
  std::vector<Owners> owners_;  // beside gpus_
};

// The attribute when it is text, else empty; holds as long as the set.
std::string_view TextOf(const AttributeSet& attributes, std::string_view key);

}  // namespace gpulens

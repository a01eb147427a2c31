// The devices that are read, and the accounts of one monitor: its devices, the windows open on them, and
// their energy. Has no thread and no clock.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <gpulens/energy.h>

#include "energy/energy_curve.h"
#include "energy/share_ledger.h"
#include "sdk/energy/window_pool.h"

namespace gpulens::sdk {

// Times of this folder are nanoseconds of the steady clock.
inline int64_t NsOf(TimePoint at) noexcept { return at.time_since_epoch().count(); }
inline TimePoint TimeOf(int64_t ns) noexcept { return TimePoint(Duration(ns)); }

// One device: its energy curve, its last reading and its failures. Guarded by the engine's lock.
struct DeviceTrack {
  DeviceTrack(std::shared_ptr<EnergySource> from, size_t number_there, EnergyDevice what, size_t kept);

  // Takes a reading that was requested at `queried_ns` and returned at `at_ns`.
  void Take(const EnergyReading& reading, int64_t queried_ns, int64_t at_ns);
  void Fail(Status status, int64_t at_ns);

  const std::shared_ptr<EnergySource> source;
  // Index in the source's list; kGone: not in the last list.
  static constexpr size_t kGone = ~size_t{0};
  size_t number;
  const EnergyDevice device;
  energy::EnergyCurve curve;

  uint32_t users = 0;  // number of ledgers with this device
  EnergyReading latest;
  double watts = kNotMeasured;  // reported, or computed from the last two counts
  int64_t read_ns = 0;          // time of the last successful reading; 0: none
  uint32_t readings = 0;        // number of successful readings
  Status failure;               // of the last reading
  int64_t failing_since_ns = 0;
  bool reopened = false;  // the source was reopened since it failed
  int64_t back_ns = 0;    // when it answered again after that; 0: never

 private:
  double counted_joules_ = kNotMeasured;
  int64_t counted_ns_ = 0;
};

// Parts of results that windows, requests and runs have in common.
// Makes the result invalid because the device does not answer.
void ReportSilence(const DeviceTrack& track, int64_t now_ns, EnergyResult& out);
// Makes the result invalid for this flaw, with `more` appended to the reason, or valid for kNone.
void ReportFlaw(energy::EnergyFlaw flaw, const std::string& more, EnergyResult& out);
EnergyValidity ValidityOf(energy::EnergyFlaw flaw) noexcept;
// Returns a remark on a device that was lost and is back, otherwise "".
std::string Comeback(const DeviceTrack& track);
void FillTicks(const TickSums& sums, EnergyTicks& out);

// Devices of a monitor, as indexes of tracks.
struct DeviceSelection {
  Status status;  // an error: why there are no devices
  EnergyVendor vendor = EnergyVendor::kNone;
  std::vector<size_t> shared;     // their joules are the energy of windows and requests
  std::vector<size_t> auxiliary;  // processor and memory, reported in addition
};

// The accounts of one monitor. Guarded by the engine's lock, as are the tracks. A steady Settle and Tick do
// not allocate.
class DeviceLedger {
 public:
  DeviceLedger(std::deque<DeviceTrack>& tracks, DeviceSelection selection, const EnergyOptions& options);

  const DeviceSelection& selection() const noexcept { return selection_; }
  int64_t timeout_ns() const noexcept { return timeout_ns_; }

  // Takes over the engine's reference to the slot.
  void Admit(WindowSlot* slot);
  // Accounts for the time that the readings cover, and releases the engine's references to settled windows.
  void Settle(int64_t now_ns, WindowPool& pool);
  // Releases all windows.
  void Drop(WindowPool& pool);
  // Takes a sample after all devices were read, which ended at `at_ns`.
  void Tick(int64_t at_ns);

  // Whether no further reading changes the energy up to then.
  bool SettledAt(int64_t at_ns) const;
  // Result of a window, or of one of its phases; up to now while it is open.
  EnergyResult ResultOf(WindowSlot& slot, uint8_t phase, int64_t now_ns) const;
  EnergyResult Between(int64_t from_ns, int64_t to_ns) const;
  std::vector<EnergySample> History(int64_t from_ns, int64_t to_ns) const;
  double unattributed_joules() const noexcept { return ledger_.unattributed_joules(); }

  // Fills the result of a ledger without devices.
  static void Explain(const Status& status, EnergyResult& out);

 private:
  energy::EnergyCut At(int64_t at_ns) const;
  enum class EdgeSide : uint8_t { kBegin, kEnd };
  DeviceEdge EdgeOf(size_t track, int64_t at_ns, EdgeSide side) const;
  // Keeps the devices' curves at the edges of a window that are settled.
  void KeepEdges(WindowSlot& slot) const;
  // Adds a device with this energy, and returns the energy.
  double AddDevice(size_t track, const DeviceEdge& begin, const DeviceEdge& end, int64_t end_ns,
                   EnergyResult& out) const;
  void Fill(const energy::EnergyAccount::Both& both, EnergyResult& out) const;
  void Validate(energy::EnergyFlaw flaw, int64_t at_ns, int64_t now_ns, EnergyResult& out) const;
  void FillDevices(const WindowSlot& slot, int64_t end_ns, EnergyResult& out) const;
  bool IsSilent(const DeviceTrack& track, int64_t at_ns) const noexcept {
    return track.read_ns == 0 || at_ns - track.read_ns > timeout_ns_;
  }
  // Sum of all devices; NaN when one of them is unknown.
  energy::EnergySpan Whole(int64_t from_ns, int64_t to_ns) const;
  static void Narrow(const energy::EnergySpan& whole, bool part, EnergyResult& out);
  const DeviceTrack* Silent(int64_t at_ns) const;
  EnergySample SampleOf(int64_t at_ns) const;
  void AddSample(const EnergySample& sample, TickSums& sums) const noexcept;
  std::string Company() const;
  std::string Comebacks() const;

  std::deque<DeviceTrack>& tracks_;
  const DeviceSelection selection_;
  const bool shares_gpu_;
  const int64_t timeout_ns_;  // longest time after the last reading that a result may cover
  std::array<bool, energy::kParts> has_part_{};
  energy::ShareLedger ledger_;
  energy::CutAt cut_;
  std::vector<WindowSlot*> open_;
  std::vector<EnergySample> samples_;  // a ring
  size_t sample_count_ = 0, next_sample_ = 0;
  int64_t ticked_ns_ = 0;
};

}  // namespace gpulens::sdk

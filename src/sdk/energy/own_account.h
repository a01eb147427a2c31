// Account of the energy and utilization of the devices that the processes of one run use. Has no thread and
// no clock. Guarded by the engine's lock.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <gpulens/energy_own.h>

#include "energy/run_share.h"
#include "sdk/energy/device_ledger.h"
#include "sdk/energy/window_pool.h"

namespace gpulens::sdk {

class OwnAccount {
 public:
  // `timeout_ns`: longest time after the last reading that the result may cover.
  OwnAccount(const std::deque<DeviceTrack>& tracks, const DeviceSelection& selection, int64_t timeout_ns,
             int64_t begin_ns);

  void End(int64_t at_ns) noexcept { end_ns_ = std::min(end_ns_, at_ns); }
  bool ended() const noexcept { return end_ns_ != energy::kOpenEnd; }

  // Whether the processes of this track should be scanned: often while the run is young, and once after its
  // end.
  bool NeedsScan(size_t track, int64_t now_ns) const;
  // Takes a scan of a track. `status` is an error when the source does not report processes.
  void Observe(size_t track, int64_t at_ns, const Status& status, const EnergyProcesses& processes);
  // Takes a sample after the scans of a round, once each of our devices was scanned since the last sample.
  void Tick();
  void Settle();

  bool Closed() const;   // each device was scanned after the end
  bool Settled() const;  // no later reading changes the result
  OwnEnergy Result(int64_t now_ns) const;

 private:
  struct Part {
    size_t track;
    bool auxiliary;
    energy::RunShare share;
    int64_t first_seen_ns = 0;
    bool fresh = false;  // seen since the last tick
    double own = 0, memory_bytes = kNotMeasured, utilization_ratio = kNotMeasured;
    Status unreported = {};
  };
  struct Sum;

  energy::RunPart Of(const Part& part, int64_t end_ns) const;
  bool Unseen(const Part& part, int64_t end_ns) const noexcept;
  Sum Add(bool auxiliary, int64_t end_ns) const;
  void Validate(const Sum& sum, int64_t end_ns, int64_t now_ns, EnergyResult& out) const;
  void Fill(const Sum& sum, OwnEnergy& out) const;
  void FillParts(const Sum& sum, EnergyResult& out) const;
  std::string Remarks(const Sum& sum) const;
  const DeviceTrack& TrackOf(const Part& part) const { return tracks_[part.track]; }

  const std::deque<DeviceTrack>& tracks_;
  const EnergyVendor vendor_;
  const int64_t timeout_ns_, begin_ns_;
  int64_t end_ns_ = energy::kOpenEnd;
  std::vector<Part> parts_;
  TickSums ticks_;
};

}  // namespace gpulens::sdk

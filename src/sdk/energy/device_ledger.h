// Accounts for one monitor: its devices, the windows open on them, and their energy. Has no thread and no
// clock.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <gpulens/energy.h>

#include "energy/share_ledger.h"
#include "sdk/energy/track.h"
#include "sdk/energy/window_pool.h"

namespace gpulens::sdk {

// Devices of a monitor, as indexes of tracks.
struct Selection {
  Status status;  // not ok: why there is nothing
  EnergyVendor vendor = EnergyVendor::kNone;
  std::vector<size_t> shared;     // whose joules are the energy of windows and requests
  std::vector<size_t> auxiliary;  // processor and memory, reported in addition
};

// Guarded by the engine's lock, the tracks too. A steady Settle and Tick do not allocate.
class DeviceLedger {
 public:
  DeviceLedger(std::deque<Track>& tracks, Selection selection, const EnergyOptions& options);

  const Selection& selection() const noexcept { return selection_; }
  int64_t timeout_ns() const noexcept { return timeout_ns_; }

  // Takes over the engine's hold of the slot.
  void Admit(WindowSlot* slot);
  // Settles what the readings allow. Windows that are done leave: `release` takes the engine's hold of them.
  void Settle(int64_t now_ns, WindowPool& pool);
  // Lets go of all windows.
  void Drop(WindowPool& pool);
  // All devices were read; `at_ns` is the end of it.
  void Tick(int64_t at_ns);

  // Whether no further reading moves what was drawn up to then.
  bool SettledAt(int64_t at_ns) const;
  // Result of a window, or of one of its phases; up to now while it is open.
  EnergyResult ResultOf(WindowSlot& slot, uint8_t phase, int64_t now_ns) const;
  EnergyResult Between(int64_t from_ns, int64_t to_ns) const;
  std::vector<EnergySample> History(int64_t from_ns, int64_t to_ns) const;
  double unattributed_joules() const noexcept { return ledger_.unattributed_joules(); }

  // Fills the result of a ledger without devices.
  static void Explain(const Status& status, EnergyResult& out);

 private:
  energy::Cut At(int64_t at_ns) const;
  void Fill(const energy::Account::Both& both, EnergyResult& out) const;
  void Validate(energy::Flaw flaw, int64_t at_ns, int64_t now_ns, EnergyResult& out) const;
  // Sum of all devices; NaN when one of them is unknown.
  energy::Span Whole(int64_t from_ns, int64_t to_ns) const;
  static void Narrow(const energy::Span& whole, bool shares, EnergyResult& out);
  const Track* Silent(int64_t at_ns) const;
  EnergySample SampleOf(int64_t at_ns) const;
  std::string Company() const;
  std::string Comebacks() const;

  std::deque<Track>& tracks_;
  const Selection selection_;
  const bool shares_gpu_;
  const int64_t timeout_ns_;  // how far a result may reach beyond the last reading
  std::array<bool, energy::kParts> has_part_{};
  energy::ShareLedger ledger_;
  energy::CutAt cut_;
  std::vector<WindowSlot*> open_;
  std::vector<EnergySample> samples_;  // a ring
  size_t sample_count_ = 0, next_sample_ = 0;
  int64_t ticked_ns_ = 0;
};

}  // namespace gpulens::sdk

// The state of one sampler: sources, devices, ledgers of the monitors and their windows. One thread, the
// reader, opens and reads; all other calls are thread-safe and never wait for a device, since the lock is not
// held while a source is called. Starts no thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <gpulens/energy.h>

#include "base/clock.h"
#include "sdk/energy/device_ledger.h"
#include "sdk/energy/own_account.h"
#include "sdk/energy/track.h"
#include "sdk/energy/window_pool.h"

namespace gpulens::sdk {

using Sources = std::vector<std::shared_ptr<EnergySource>>;

// The clock of windows: std::chrono::steady_clock, in both members of Instant.
const Clock& SteadyClock() noexcept;

inline constexpr size_t kMostDevices = 256;
// A minute at 50 ms, and the readings that results request.
inline constexpr size_t kReadings = 2048;

class Engine {
 public:
  // The clock outlives it.
  Engine(Sources sources, const Clock& clock);

  // ---- the reader
  void Open();
  // Reads every device of a ledger. `whole`: this is a tick; else it closes windows.
  void Round(bool whole);

  // ---- any thread
  int64_t Now() const noexcept { return clock_.Now().boot_ns; }
  bool opened() const noexcept { return opened_.load(std::memory_order_acquire); }
  // Which source the reader is stuck in, and for how long; empty: none.
  std::string Stuck() const;
  // The shortest of all ledgers.
  Duration interval() const noexcept { return Duration(interval_ns_.load(std::memory_order_relaxed)); }
  bool idle() const noexcept { return users_.load(std::memory_order_relaxed) == 0; }

  // Whether more frequent readings would show a counter's update interval; not for ever.
  bool learning() const noexcept { return learning_.load(std::memory_order_relaxed); }

  // Adds a ledger for the devices that the options choose; without devices its selection has the reason.
  // RemoveLedger ends it, when none of its windows is held any more.
  DeviceLedger* AddLedger(const EnergyOptions& options);
  void RemoveLedger(DeviceLedger* ledger);
  std::vector<EnergyDevice> DevicesOf(const DeviceLedger& ledger) const;

  WindowPool& pool() noexcept { return pool_; }
  bool HasRead(
      const DeviceLedger& ledger) const;  // each of its devices once, well or not, auxiliary ones included
  EnergyResult ResultOf(WindowSlot& slot, uint8_t phase);

  // Accounts for the processes of a run on the ledger's devices from a time on; while there is an account,
  // processes are scanned. The ledger outlives it.
  OwnAccount* AddOwn(const DeviceLedger& ledger, int64_t begin_ns);
  void RemoveOwn(OwnAccount* account);

  // Calls `call` under the lock that guards ledgers and accounts.
  template <class F>
  auto Locked(F call) const {
    std::lock_guard lock(mutex_);
    return call();
  }

  // Around fork(): the child uses its copy for orphaned() only.
  void Lock() { mutex_.lock(); }
  void Unlock() { mutex_.unlock(); }

 private:
  Selection Choose(const EnergyOptions& options) const;
  Selection ChooseById(const EnergyOptions& options) const;
  void AddAuxiliary(Selection& selection) const;
  Status NothingFound() const;
  void ReadOne(Track& track);
  Result<std::vector<EnergyDevice>> OpenSource(EnergySource& source);
  void ReopenWhatFails();
  bool Failing(size_t source, int64_t now_ns) const;
  void TakeDevices(size_t source, std::vector<EnergyDevice> devices);
  void ScanProcesses();
  // Calls a source, whose exceptions become errors; Stuck() names it meanwhile.
  template <class F>
  Status CallSource(const EnergySource& source, F call);
  template <class F>
  Status CallDevice(const Track& track, F call);
  void TakeFresh();
  void FindInterval();

  const Clock& clock_;
  const Sources sources_;
  std::atomic<bool> opened_{false};
  std::atomic<int64_t> interval_ns_{50'000'000};
  std::atomic<uint32_t> users_{0};
  std::atomic<bool> learning_{false};
  // The source that the reader is in; null: in none.
  std::atomic<const EnergySource*> in_{nullptr};
  std::atomic<int64_t> in_since_ns_{0};

  mutable std::mutex mutex_;
  struct Opened {
    EnergyVendor vendor;
    std::string name;
    Status status;
    // While readings fail.
    int64_t next_try_ns = 0, pause_ns = 0;
  };
  std::vector<Opened> opened_sources_;
  std::deque<Track> tracks_;  // they stay where they are; the list grows in Open only
  struct Entry {
    std::unique_ptr<DeviceLedger> ledger;
    Duration interval;
  };
  std::vector<Entry> ledgers_;
  std::vector<std::unique_ptr<OwnAccount>> owns_;
  WindowPool pool_;
};

}  // namespace gpulens::sdk

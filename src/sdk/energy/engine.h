// State of one sampler: sources, devices, ledgers of the monitors and their windows. One thread, the reader,
// opens and reads; all other calls are thread-safe and never wait for a device, since the lock is not held
// while a source is called. Starts no thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gpulens/energy.h>

#include "base/clock.h"
#include "sdk/energy/device_ledger.h"
#include "sdk/energy/own_account.h"
#include "sdk/energy/sources/system_sources.h"
#include "sdk/energy/window_pool.h"

namespace gpulens::sdk {

using EnergySources = std::vector<std::shared_ptr<EnergySource>>;

inline constexpr size_t kMostDevices = 256;
// A minute at 50 ms, and the readings that results request.
inline constexpr size_t kReadings = 2048;

class EnergyEngine {
 public:
  // The clock must outlive it.
  EnergyEngine(EnergySources sources, const Clock& clock);

  // ---- the reader
  void Open();
  // Reads all devices of ledgers. `whole`: this is a tick; otherwise it closes windows.
  void Round(bool whole);

  // ---- any thread
  int64_t Now() const noexcept { return clock_.Now().boot_ns; }
  bool opened() const noexcept { return opened_.load(std::memory_order_acquire); }
  // Describes the source that the reader is stuck in, and for how long; empty if it is not stuck.
  std::string Stuck() const;
  // Shortest interval of all ledgers.
  Duration interval() const noexcept { return Duration(interval_ns_.load(std::memory_order_relaxed)); }
  bool idle() const noexcept { return users_.load(std::memory_order_relaxed) == 0; }

  // Whether frequent readings are still needed to find a counter's update interval.
  bool learning() const noexcept { return learning_.load(std::memory_order_relaxed); }

  // Adds a ledger for the devices that the options choose; without devices its selection has the reason. Call
  // RemoveLedger after the last of its windows was released.
  DeviceLedger* AddLedger(const EnergyOptions& options);
  void RemoveLedger(DeviceLedger* ledger);
  std::vector<EnergyDevice> DevicesOf(const DeviceLedger& ledger) const;

  WindowPool& pool() noexcept { return pool_; }
  // Whether each of its devices, auxiliary ones included, was read once, with or without success.
  bool HasRead(const DeviceLedger& ledger) const;
  EnergyResult ResultOf(WindowSlot& slot, uint8_t phase);

  // Adds an account of a run's processes on the ledger's devices from a time on. Processes are scanned while
  // there is an account. The ledger must outlive it.
  OwnAccount* AddOwn(const DeviceLedger& ledger, int64_t begin_ns);
  void RemoveOwn(OwnAccount* account);

  // Calls `call` under the lock that guards ledgers and accounts.
  template <class F>
  auto Locked(F call) const {
    std::lock_guard lock(mutex_);
    return call();
  }

  // Held during fork(). The child uses its copy for orphaned() only.
  void Lock() { mutex_.lock(); }
  void Unlock() { mutex_.unlock(); }

 private:
  DeviceSelection Choose(const EnergyOptions& options) const;
  DeviceSelection ChooseById(const EnergyOptions& options) const;
  void AddAuxiliary(DeviceSelection& selection) const;
  Status NothingFound() const;
  void ReadOne(DeviceTrack& track);
  Result<std::vector<EnergyDevice>> OpenSource(EnergySource& source);
  void ReopenWhatFails();
  bool Failing(size_t source, int64_t now_ns) const;
  void TakeDevices(size_t source, std::vector<EnergyDevice> devices);
  void ScanProcesses();
  // Calls a source and turns exceptions into errors; Stuck() names the source during the call.
  template <class F>
  Status CallSource(const EnergySource& source, F call);
  template <class F>
  Status CallDevice(const DeviceTrack& track, F call);
  void TakeFresh();
  void FindInterval();

  const Clock& clock_;
  const EnergySources sources_;
  std::atomic<bool> opened_{false};
  std::atomic<int64_t> interval_ns_{50'000'000};
  std::atomic<uint32_t> users_{0};
  std::atomic<bool> learning_{false};
  // The source that the reader is calling, or null.
  std::atomic<const EnergySource*> in_{nullptr};
  std::atomic<int64_t> in_since_ns_{0};

  mutable std::mutex mutex_;
  struct Opened {
    EnergyVendor vendor;
    std::string name;
    Status status;
    // Used while readings fail.
    int64_t next_try_ns = 0, pause_ns = 0;
  };
  std::vector<Opened> opened_sources_;
  std::deque<DeviceTrack> tracks_;  // addresses are stable; only Open adds to it
  struct Entry {
    std::unique_ptr<DeviceLedger> ledger;
    Duration interval;
  };
  std::vector<Entry> ledgers_;
  std::vector<std::unique_ptr<OwnAccount>> owns_;
  WindowPool pool_;
};

}  // namespace gpulens::sdk

// Energy of this process and its descendants in joules: their part of each device that they used.
//
//   gpulens::OwnEnergyWindow window(monitor);
//   …
//   const gpulens::OwnEnergy own = window.result();   // 812.4 J ± 9.1 J, own.attribution: exclusive
//
// The processes of each device are polled a few times a second. A device that none of ours uses does not
// count. One that only ours use counts completely, with its idle power. One that others use as well is shared
// by how busy each process keeps it or, where that is unknown, equally. Processors are shared by processor
// time. The parts of all processes add up to the energy of the device.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include <gpulens/energy.h>

namespace gpulens {

// How a part was separated from the whole device; of several methods the least exact one.
enum class EnergyAttribution : uint8_t {
  kNone,
  kExclusive,            // no other process used it
  kSharedByUtilization,  // by the share of the SMs' time of each process
  kCpuTime,              // by processor time
  kSharedEqually,        // in equal parts among processes
  kWholeBoard,           // the processes are unknown: all of the device
};
// "exclusive", "shared_by_utilization", "cpu_time", "shared_equally", "whole_board", "none". Static storage.
std::string_view EnergyAttributionName(EnergyAttribution attribution) noexcept;

struct OwnEnergy {
  // energy_joules: our part of the devices that we used; device_energy_joules: all energy of these devices
  // since we first used them; devices: their number. uncertainty_joules includes that of the readings and an
  // estimate of the error of polling processes. In the ticks, power is our part, memory that of our processes
  // where it is known, and utilization that of the devices, or ours where they are shared by it.
  EnergyResult energy;
  EnergyAttribution attribution = EnergyAttribution::kNone;
};

namespace sdk {
class OwnAccount;
}

// A window of this process and its descendants. Used by one thread at a time. Keeps the reading thread alive.
// Energy is separated by process only: overlapping windows of one process count the same joules.
class [[nodiscard]] OwnEnergyWindow {
 public:
  // `begin` may be before the monitor's first reading: the energy until then is estimated, with its bound.
  explicit OwnEnergyWindow(EnergyMonitor monitor, TimePoint begin = std::chrono::steady_clock::now());
  OwnEnergyWindow(OwnEnergyWindow&& other) noexcept;
  OwnEnergyWindow& operator=(OwnEnergyWindow&& other) noexcept;
  ~OwnEnergyWindow();

  void End() noexcept;  // takes the time, never waits
  // Energy so far, as kRunning while the window is open. Never waits.
  OwnEnergy Estimate() const;
  // Ends the window, polls the processes of the devices once more (200 ms at most), and waits at most `wait`
  // for a closing reading.
  OwnEnergy result(Duration wait = std::chrono::milliseconds(20));

 private:
  void LetGo() noexcept;
  bool Inert(OwnEnergy& out) const;
  std::shared_ptr<internal::MonitorState> monitor_;
  internal::LiveMonitor* live_ = nullptr;
  sdk::OwnAccount* account_ = nullptr;
  TimePoint begin_{}, end_{};
};

}  // namespace gpulens

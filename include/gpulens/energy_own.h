// Joules of this process and of those that descend from it: of each device that they used, their part of it.
//
//   gpulens::OwnEnergyWindow window(monitor);
//   …
//   const gpulens::OwnEnergy own = window.result();   // 812.4 J ± 9.1 J, own.attribution: exclusive
//
// A few times a second it is looked who uses each device. A device that none of ours uses is not ours; one
// that ours alone use is all ours, its idle power included; one that others use, too, is shared by how busy
// each process keeps it, else in equal parts. Processors are shared by processor time. What all processes of
// a device would be told adds up to what it drew.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include <gpulens/energy.h>

namespace gpulens {

// How a part was told from the whole device: of several ways the one that says least.
enum class EnergyAttribution : uint8_t {
  kNone,
  kExclusive,            // nobody else used it
  kSharedByUtilization,  // by the share of the SMs' time of each process
  kCpuTime,              // by processor time
  kSharedEqually,        // in equal parts among processes
  kWholeBoard,           // who uses it is not told: all of it, whoever used it
};
// "exclusive", "shared_by_utilization", "cpu_time", "shared_equally", "whole_board", "none". Static storage.
std::string_view EnergyAttributionName(EnergyAttribution attribution) noexcept;

struct OwnEnergy {
  // energy_joules: our part, of the devices that we used; device_energy_joules: what these drew since we
  // first did; devices: how many they are. uncertainty_joules: that of the readings, and as an estimate that
  // of who used what when. Of the ticks, power is our part, memory that of our processes where it is told,
  // and utilization that of the devices, or ours where they are shared by it.
  EnergyResult energy;
  EnergyAttribution attribution = EnergyAttribution::kNone;
};

namespace sdk {
class OwnAccount;
}

// Used by one thread at a time. Keeps the reading alive. Windows of several parts of one process that overlap
// have the same joules: it is told by processes.
class [[nodiscard]] OwnEnergyWindow {
 public:
  // `begin` may lie before the monitor's first reading: that stretch is then guessed, with its bound.
  explicit OwnEnergyWindow(EnergyMonitor monitor, TimePoint begin = std::chrono::steady_clock::now());
  OwnEnergyWindow(OwnEnergyWindow&& other) noexcept;
  OwnEnergyWindow& operator=(OwnEnergyWindow&& other) noexcept;
  ~OwnEnergyWindow();

  void End() noexcept;  // takes the time, never waits
  // Never waits; of a window that has not ended kRunning, up to now.
  OwnEnergy Estimate() const;
  // Ends it, looks once more who uses the devices (200 ms at most), and waits so long for a closing reading.
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

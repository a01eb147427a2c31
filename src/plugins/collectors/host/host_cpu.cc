// Processors, load, uptime and pressure.

#include <array>

#include "base/result.h"
#include "plugins/collectors/host/host_part.h"
#include "sources/host/devices.h"

namespace gpulens {
namespace {

using std::chrono::seconds;
using Since = HostSeries::Since;

constexpr size_t kModes = 8;
constexpr std::string_view kModeNames[kModes] = {"user",   "nice",      "system",  "idle",
                                                 "iowait", "interrupt", "softirq", "steal"};
using ModeTicks = std::array<std::optional<uint64_t>, kModes>;

// user and nice include the time of virtual machines.
ModeTicks TicksOf(const CpuModeTicks& t) noexcept {
  return {t.user, t.nice, t.system, t.idle, t.iowait, t.irq, t.softirq, t.steal};
}

// The time of all processors or of one, by mode.
class ModeTimes {
 public:
  ModeTimes() {
    series_.reserve(kModes);
    for (std::string_view mode : kModeNames)
      series_.emplace_back(kSystemCpuTime, AttributeSet({{"cpu.mode", mode}}), Since::kBoot);
  }

  HostSeries& series(size_t mode) noexcept { return series_[mode]; }
  // The kernel's sums over processors fall a little at times (iowait, idle); such a fall is not exported.
  uint64_t Hold(size_t mode, uint64_t ticks) noexcept {
    static const uint64_t second = ClockTicksPerSecond();
    bool step = ticks < held_[mode] && held_[mode] - ticks <= second;
    if (!step) held_[mode] = ticks;
    return held_[mode];
  }

 private:
  std::vector<HostSeries> series_;
  std::array<uint64_t, kModes> held_{};
};

// A part with series of each processor.
class PerCpuPart : public HostPart {
 protected:
  using HostPart::HostPart;
  EntityRef CpuEntity(uint32_t number) const {
    return EntityOf("cpu", {{"cpu.logical_number", int64_t{number}}});
  }
};

class CpuPart final : public PerCpuPart {
 public:
  CpuPart(HostContext& host, Pace pace) : PerCpuPart(host, std::move(pace)) {
    utilization_.reserve(kModes);
    for (std::string_view mode : kModeNames)
      utilization_.emplace_back(kSystemCpuUtilization, AttributeSet({{"cpu.mode", mode}}));
  }

 private:
  struct Cpu : HostDevice<uint32_t> {
    using HostDevice::HostDevice;
    ModeTimes times;
  };

  Status Read(FrameWriter& out) override {
    RETURN_IF_ERROR(host_.system.ReadCpuTimes(times_));
    NoteBoot(out.read_at());
    PutTotal(out);
    if (host_.options.per_cpu) PutEach(out);
    host_.online_cpus.clear();
    for (const CpuTimes::Cpu& cpu : times_.cpus) host_.online_cpus.push_back(cpu.number);
    if (!times_.cpus.empty()) Put(out, logical_, times_.cpus.size());
    Put(out, switches_, times_.context_switches);
    Put(out, interrupts_, times_.interrupts);
    Put(out, created_, times_.processes_created);
    // Of these two, ProcessPart counts all states by a walk over all processes.
    if (!host_.options.processes) {
      Put(out, running_, times_.processes_running);
      Put(out, blocked_, times_.processes_blocked);
    }
    return Ok();
  }

  void NoteBoot(Instant now) {
    uint64_t boot = times_.boot_unix_s.value_or(0);
    if (host_.boot_unix_ns != 0 || boot > static_cast<uint64_t>(now.unix_ns) / 1'000'000'000) return;
    host_.boot_unix_ns = static_cast<int64_t>(boot) * 1'000'000'000;
  }

  void PutModes(FrameWriter& out, const ModeTicks& ticks, ModeTimes& times, const EntityRef& on) {
    for (size_t i = 0; i < kModes; ++i) {
      if (ticks[i])
        Put(out, times.series(i), static_cast<double>(times.Hold(i, *ticks[i])) * second_per_tick_, on);
    }
  }

  void PutTotal(FrameWriter& out) {
    ModeTicks ticks = TicksOf(times_.total);
    PutModes(out, ticks, all_, host_.host);
    std::array<uint64_t, kModes> now{}, gain{};
    uint64_t sum = 0;
    bool fell = false;
    for (size_t i = 0; i < kModes; ++i) {
      now[i] = all_.Hold(i, ticks[i].value_or(0));
      fell = fell || now[i] < before_[i];
      gain[i] = now[i] - before_[i];
      sum += gain[i];
    }
    bool first = !std::exchange(has_before_, true);
    // Less than a tick has passed: the shares of the last run stay.
    if (!first && !fell && sum == 0) return PutShares(out, ticks);
    before_ = now;
    has_shares_ = !first && !fell;
    for (size_t i = 0; i < kModes && has_shares_; ++i)
      shares_[i] = static_cast<double>(gain[i]) / static_cast<double>(sum);
    PutShares(out, ticks);
  }

  void PutShares(FrameWriter& out, const ModeTicks& ticks) {
    for (size_t i = 0; i < kModes && has_shares_; ++i) {
      if (ticks[i]) Put(out, utilization_[i], shares_[i]);
    }
  }

  void PutEach(FrameWriter& out) {
    cpus_.Begin();
    for (const CpuTimes::Cpu& cpu : times_.cpus) {
      Cpu& known = cpus_.At(cpu.number, [&] { return CpuEntity(cpu.number); });
      PutModes(out, TicksOf(cpu.ticks), known.times, known.entity);
    }
    cpus_.End(out.table());
  }

  const double second_per_tick_ = 1.0 / static_cast<double>(ClockTicksPerSecond());
  CpuTimes times_;
  ModeTimes all_;
  std::vector<HostSeries> utilization_;
  std::array<uint64_t, kModes> before_{};
  std::array<double, kModes> shares_{};
  bool has_before_ = false, has_shares_ = false;
  DeviceList<Cpu> cpus_;
  HostSeries logical_{kSystemCpuLogicalCount};
  HostSeries switches_{kHostContextSwitches, {}, Since::kBoot};
  HostSeries interrupts_{kHostInterrupts, {}, Since::kBoot};
  HostSeries created_{kSystemProcessCreated, {}, Since::kBoot};
  HostSeries running_{kSystemProcessCount, AttributeSet({{"process.state", "running"}})};
  HostSeries blocked_{kSystemProcessCount, AttributeSet({{"process.state", "blocked"}})};
};

// Cores only come and go with logical processors, so the topology, two files for each, is read only then.
class TopologyPart final : public HostPart {
  using HostPart::HostPart;

  Status Read(FrameWriter& out) override {
    if (read_for_ != host_.online_cpus || read_for_.empty()) {
      RETURN_IF_ERROR(ReadCpuTopology(host_.files, topology_));
      read_for_ = host_.online_cpus;
    }
    Put(out, cores_, topology_.cores);
    return Ok();
  }

  std::vector<uint32_t> read_for_;
  CpuTopology topology_;
  HostSeries cores_{kSystemCpuPhysicalCount};
};

class FrequencyPart final : public PerCpuPart {
  using PerCpuPart::PerCpuPart;

  struct Cpu : HostDevice<uint32_t> {
    using HostDevice::HostDevice;
    HostSeries frequency{kSystemCpuFrequency};
  };

  Status Read(FrameWriter& out) override {
    Status status = ReadCpuFrequencies(host_.files, host_.online_cpus, hertz_);
    cpus_.Begin();
    for (size_t i = 0; i < hertz_.size(); ++i) {
      uint32_t number = host_.online_cpus[i];
      Cpu& cpu = cpus_.At(number, [&] { return CpuEntity(number); });
      Put(out, cpu.frequency, hertz_[i], cpu.entity);
    }
    cpus_.End(out.table());
    return status;
  }

  std::vector<std::optional<uint64_t>> hertz_;
  DeviceList<Cpu> cpus_;
};

class LoadPart final : public HostPart {
  using HostPart::HostPart;

  Status Read(FrameWriter& out) override {
    LoadAverage load;
    RETURN_IF_ERROR(host_.system.ReadLoadAverage(load));
    Put(out, one_, load.one_minute);
    Put(out, five_, load.five_minutes);
    Put(out, fifteen_, load.fifteen_minutes);
    return Ok();
  }

  HostSeries one_{kSystemCpuLoadAverage1m}, five_{kSystemCpuLoadAverage5m},
      fifteen_{kSystemCpuLoadAverage15m};
};

class UptimePart final : public HostPart {
  using HostPart::HostPart;

  Status Read(FrameWriter& out) override {
    SystemUptime uptime;
    RETURN_IF_ERROR(host_.system.ReadUptime(uptime));
    Put(out, uptime_, uptime.seconds);
    return Ok();
  }

  HostSeries uptime_{kSystemUptime};
};

constexpr size_t kWindows = 3;
constexpr std::string_view kWindowNames[kWindows] = {"10s", "60s", "300s"};

// The pressure of one resource.
class PressurePart final : public HostPart {
 public:
  PressurePart(HostContext& host, Pace pace, PressureResource resource, std::string_view name)
      : HostPart(host, std::move(pace)), resource_(resource), some_(name, "some"), full_(name, "full") {}

 private:
  struct Level {
    Level(std::string_view resource, std::string_view level)
        : time(kHostPressureTime,
               AttributeSet({{"host.pressure.resource", resource}, {"host.pressure.level", level}}),
               Since::kBoot) {
      for (std::string_view window : kWindowNames) {
        shares.emplace_back(kHostPressureShare, AttributeSet({{"host.pressure.resource", resource},
                                                              {"host.pressure.level", level},
                                                              {"host.pressure.window", window}}));
      }
    }
    HostSeries time;
    std::vector<HostSeries> shares;
  };

  Status Read(FrameWriter& out) override {
    PressureStall pressure;
    RETURN_IF_ERROR(host_.system.ReadPressure(resource_, pressure));
    PutLevel(out, some_, pressure.some);
    // All tasks of a machine cannot wait for its processors; the kernel prints a zero that means nothing.
    if (resource_ != PressureResource::kCpu) PutLevel(out, full_, pressure.full);
    return Ok();
  }

  void PutLevel(FrameWriter& out, Level& level, const std::optional<PressureStall::Level>& reading) {
    if (!reading) return;
    Put(out, level.time, static_cast<double>(reading->total_us) * 1e-6);
    if (!host_.options.pressure_shares) return;
    const double percents[kWindows] = {reading->percent_10s, reading->percent_60s, reading->percent_300s};
    for (size_t i = 0; i < kWindows; ++i) Put(out, level.shares[i], percents[i] * 0.01);
  }

  const PressureResource resource_;
  Level some_, full_;
};

}  // namespace

void AddCpuParts(HostContext& host, HostParts& parts) {
  AddPart<CpuPart>(host, parts, {.needs = "proc/stat", .essential = true});
  AddPart<TopologyPart>(host, parts, {.needs = "sys/devices/system/cpu/online", .every = seconds(60)});
  if (host.options.per_cpu)
    AddPart<FrequencyPart>(host, parts, {.needs = "sys/devices/system/cpu", .every = seconds(10)});
  AddPart<LoadPart>(host, parts, {.needs = "proc/loadavg"});
  AddPart<UptimePart>(host, parts, {.needs = "proc/uptime"});
  for (auto [resource, name] : {std::pair(PressureResource::kCpu, "cpu"),
                                {PressureResource::kMemory, "memory"},
                                {PressureResource::kIo, "io"},
                                {PressureResource::kIrq, "irq"}})
    AddPart<PressurePart>(host, parts, {.needs = std::string("proc/pressure/") + name}, resource, name);
}

}  // namespace gpulens

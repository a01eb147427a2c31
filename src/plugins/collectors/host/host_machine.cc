// Facts of the machine, its clock, sensors and energy, and counts of the whole kernel.

#include <algorithm>
#include <array>

#include "base/parse.h"
#include "base/result.h"
#include "plugins/collectors/host/host_part.h"
#include "sources/host/devices.h"
#include "sources/host/process.h"

namespace gpulens {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

// The energy of processor packages and of their memory.
class EnergyPart final : public HostPart {
  using HostPart::HostPart;

  struct Sum {
    uint64_t microjoules = 0;
    bool any = false, missing = false;
  };
  struct Package : HostDevice<uint32_t> {
    using HostDevice::HostDevice;
    HostSeries cpu{kHostCpuEnergy}, memory{kHostMemoryEnergy};
    Sum cpu_sum, memory_sum;
  };

  Status Read(FrameWriter& out) override {
    Status status = reader_.Read(zones_);
    packages_.Begin();
    for (const EnergyZone& zone : zones_) {
      bool is_package = zone.name.starts_with("package-");
      if (!is_package && zone.name != "dram") continue;
      auto number = is_package ? PackageNumber(zone.name) : PackageOf(zone.package);
      if (!number) continue;
      Package& package = packages_.At(
          *number, [&] { return EntityOf("cpu_package", {{"host.cpu.package", int64_t{*number}}}); });
      Add(is_package ? package.cpu_sum : package.memory_sum, zone);
    }
    packages_.End(out.table());
    for (Package& package : packages_.devices()) {
      PutSum(out, package.cpu, package.cpu_sum, package.entity);
      PutSum(out, package.memory, package.memory_sum, package.entity);
    }
    return status;
  }

  // "package-1"; a package of several dies has a zone for each: "package-1-die-0".
  static std::optional<uint32_t> PackageNumber(std::string_view name) noexcept {
    name.remove_prefix(std::string_view("package-").size());
    return ParseInt<uint32_t>(TakeUntil(name, '-'));
  }
  // Zones are numbered apart from packages: a zone of the whole platform takes a number, too.
  std::optional<uint32_t> PackageOf(uint32_t zone_number) const noexcept {
    for (const EnergyZone& zone : zones_) {
      if (zone.package == zone_number && zone.name.starts_with("package-")) return PackageNumber(zone.name);
    }
    return std::nullopt;
  }

  static void Add(Sum& sum, const EnergyZone& zone) noexcept {
    sum.any = true;
    sum.missing = sum.missing || !zone.energy_uj;
    sum.microjoules += zone.energy_uj.value_or(0);
  }
  // A sum without one of its zones would be a fall.
  void PutSum(FrameWriter& out, HostSeries& series, Sum& sum, const EntityRef& on) {
    if (sum.any && !sum.missing) Put(out, series, static_cast<double>(sum.microjoules) * 1e-6, on);
    sum = {};
  }

  EnergyReader reader_{host_.files};
  std::vector<EnergyZone> zones_;
  DeviceList<Package> packages_;
};

// Number of chips of the same driver listed before this one.
size_t Ordinal(const std::vector<TemperatureReading>& list, size_t index) noexcept {
  size_t ordinal = 0;
  std::string_view last = list[index].device;
  for (size_t i = index; i-- > 0;) {
    if (list[i].chip != list[index].chip || list[i].device == last) continue;
    ++ordinal;
    last = list[i].device;
  }
  return ordinal;
}

// "cpu0", "nvme0": a processor package or a drive; empty for every other sensor.
std::string MainSensor(const std::vector<TemperatureReading>& list, size_t index) {
  constexpr std::string_view kPackage = "Package id ";
  const TemperatureReading& sensor = list[index];
  if (sensor.chip == "coretemp" && sensor.sensor.starts_with(kPackage)) {
    auto number = ParseInt<uint32_t>(std::string_view(sensor.sensor).substr(kPackage.size()));
    return number ? "cpu" + std::to_string(*number) : std::string();
  }
  if (sensor.chip == "nvme" && sensor.sensor == "Composite") return sensor.device;
  bool amd = sensor.chip == "k10temp" || sensor.chip == "zenpower";
  // Tctl controls the fan and may be above the true temperature, Tdie, which some processors have.
  auto is_die = [&](const TemperatureReading& other) {
    return other.chip == sensor.chip && other.device == sensor.device && other.sensor == "Tdie";
  };
  bool best = is_die(sensor) || (sensor.sensor == "Tctl" && std::ranges::none_of(list, is_die));
  if ((amd && best) || sensor.chip == "cpu_thermal") return "cpu" + std::to_string(Ordinal(list, index));
  return {};
}

// "coretemp.0/core_1": any other one.
std::string OtherSensor(const std::vector<TemperatureReading>& list, size_t index) {
  const TemperatureReading& sensor = list[index];
  std::string name = sensor.chip + "." + std::to_string(Ordinal(list, index)) + "/" + sensor.sensor;
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == ' ') c = '_';
  }
  return name;
}

class TemperaturePart final : public HostPart {
  using HostPart::HostPart;

  // The key is chip, device, sensor; the entity is null for a sensor that is not exported.
  struct Sensor : HostDevice<std::array<std::string, 3>> {
    using HostDevice::HostDevice;
    HostSeries celsius{kHostTemperature};
  };

  Status Read(FrameWriter& out) override {
    Status status = reader_.Read(list_);
    if (!status && status.code != Code::kDataLoss) return status;
    sensors_.Begin();
    for (size_t i = 0; i < list_.size(); ++i) {
      const TemperatureReading& now = list_[i];
      Sensor* sensor = sensors_.Find([&](const Sensor& one) {
        return one.key[2] == now.sensor && one.key[1] == now.device && one.key[0] == now.chip;
      });
      if (!sensor) sensor = &sensors_.Add({{now.chip, now.device, now.sensor}, SensorEntity(i)});
      if (!sensor->entity || !now.millidegrees) continue;
      Put(out, sensor->celsius, static_cast<double>(*now.millidegrees) * 1e-3, sensor->entity);
    }
    sensors_.End(out.table());
    return status;
  }

  EntityRef SensorEntity(size_t index) const {
    std::string name = MainSensor(list_, index);
    bool all = host_.options.temperatures == HostOptions::Temperatures::kAll;
    if (name.empty() && all) name = OtherSensor(list_, index);
    if (name.empty()) return {};
    return EntityOf("sensor", {{"host.sensor", name}});
  }

  TemperatureReader reader_{host_.files};
  std::vector<TemperatureReading> list_;
  DeviceList<Sensor> sensors_;
};

class TimePart final : public HostPart {
  using HostPart::HostPart;

  Status Read(FrameWriter& out) override {
    TimeSync time;
    RETURN_IF_ERROR(host_.seams.time_sync(time));
    Put(out, synchronized_, time.synchronized ? 1 : 0);
    // Without a reference there is no offset.
    if (time.synchronized) Put(out, offset_, static_cast<double>(time.offset_ns) * 1e-9);
    return Ok();
  }

  HostSeries synchronized_{kHostTimeSynchronized}, offset_{kHostTimeOffset};
};

class FileHandlesPart final : public HostPart {
  using HostPart::HostPart;

  Status Read(FrameWriter& out) override {
    FileHandles handles;
    RETURN_IF_ERROR(host_.system.ReadFileHandles(handles));
    Put(out, used_, handles.used);
    // The kernel's greatest number means no limit.
    if (handles.limit < INT64_MAX) Put(out, limit_, handles.limit);
    return Ok();
  }

  HostSeries used_{kHostFileDescriptors, AttributeSet({{"host.file_descriptor.state", "used"}})};
  HostSeries limit_{kHostFileDescriptors, AttributeSet({{"host.file_descriptor.state", "limit"}})};
};

class EntropyPart final : public HostPart {
  using HostPart::HostPart;

  Status Read(FrameWriter& out) override {
    uint64_t bits = 0;
    RETURN_IF_ERROR(host_.system.ReadEntropy(bits));
    Put(out, entropy_, bits);
    return Ok();
  }

  HostSeries entropy_{kHostEntropy};
};

// Counts processes by a walk over all of them.
class ProcessPart final : public HostPart {
  using HostPart::HostPart;

  static HostSeries State(std::string_view state) {
    return HostSeries(kSystemProcessCount, AttributeSet({{"process.state", state}}));
  }

  Status Read(FrameWriter& out) override {
    ProcessCounts counts;
    RETURN_IF_ERROR(ReadProcessCounts(host_.files, host_.names, counts));
    Put(out, running_, counts.running);
    // Idle ones are kernel threads that sleep without counting as load.
    Put(out, sleeping_, counts.sleeping + counts.idle);
    Put(out, blocked_, counts.blocked);
    Put(out, stopped_, counts.stopped);
    Put(out, zombie_, counts.zombie);
    return Ok();
  }

  HostSeries running_ = State("running"), sleeping_ = State("sleeping"), blocked_ = State("blocked"),
             stopped_ = State("stopped"), zombie_ = State("zombie");
};

// Facts that do not change while the machine runs.
class InfoPart final : public HostPart {
  using HostPart::HostPart;

  Status Read(FrameWriter& out) override {
    MachineIdentity machine;
    RETURN_IF_ERROR(ReadMachineIdentity(host_.files, machine));
    info_ = HostSeries(kHostInfo, Facts(machine));
    Put(out, info_, 1);
    return Ok();
  }

  static AttributeSet Facts(const MachineIdentity& machine) {
    std::string model = machine.cpu.model;
    if (model.empty()) model = Joined(machine.cpu.implementer, machine.cpu.part);
    std::string made = Joined(machine.vendor, machine.product);
    std::vector<AttributeSet::Attribute> facts = {{"os.type", "linux"}};
    auto add = [&facts](std::string_view key, std::string_view value) {
      if (!value.empty()) facts.push_back({key, value});
    };
    add("host.arch", machine.architecture);
    add("os.version", machine.os_version);
    add("host.kernel.version", machine.kernel_release);
    add("host.cpu.model", model);
    add("host.machine", made);
    return AttributeSet(facts);
  }

  static std::string Joined(const std::string& a, const std::string& b) {
    return a.empty() || b.empty() ? a + b : a + " " + b;
  }

  HostSeries info_{kHostInfo};
};

}  // namespace

void AddMachineParts(HostContext& host, HostParts& parts) {
  AddPart<EnergyPart>(host, parts, {.needs = "sys/class/powercap"});
  if (host.options.temperatures != HostOptions::Temperatures::kNone)
    AddPart<TemperaturePart>(host, parts, {.needs = "sys/class/hwmon", .every = seconds(10)});
  AddPart<TimePart>(host, parts, {.needs = "", .every = seconds(60)});
  AddPart<FileHandlesPart>(host, parts, {.needs = "proc/sys/fs/file-nr", .every = seconds(60)});
  if (host.options.entropy)
    AddPart<EntropyPart>(host, parts,
                         {.needs = "proc/sys/kernel/random/entropy_avail", .every = seconds(60)});
  if (host.options.processes) AddPart<ProcessPart>(host, parts, {.needs = "proc", .every = seconds(10)});
  AddPart<InfoPart>(host, parts, {.needs = "proc/sys/kernel/osrelease", .every = hours(24 * 365)});
}

}  // namespace gpulens

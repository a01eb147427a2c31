#include "sources/host/hardware.h"

#include <algorithm>
#include <utility>

#include "base/result.h"
#include "sources/host/parse/cpu.h"
#include "sources/host/parse/identity.h"
#include "sources/host/parse/scan.h"

namespace gpulens {
namespace {

constexpr std::string_view kHwmonFolder = "sys/class/hwmon/";
constexpr std::string_view kTemperatureInput = "_input";

// The number in "node12" or "mc0".
std::optional<uint32_t> NumberAfter(std::string_view prefix, std::string_view name) noexcept {
  return name.starts_with(prefix) ? ParseInt<uint32_t>(name.substr(prefix.size())) : std::nullopt;
}

// Decimal digits of a number without an allocation.
class Digits {
 public:
  explicit Digits(uint32_t number) noexcept
      : size_(static_cast<size_t>(std::to_chars(text_, text_ + sizeof text_, number).ptr - text_)) {}
  operator std::string_view() const noexcept { return {text_, size_}; }

 private:
  char text_[10];
  size_t size_;
};

// A core counts once: at the first of the CPUs that share it.
bool IsFirstOfCore(HostFiles& files, std::string_view cpu, std::optional<bool>& first) {
  for (std::string_view list : {"/topology/core_cpus_list", "/topology/thread_siblings_list"}) {
    auto text = files.FindText(files.Path({"sys/devices/system/cpu/cpu", cpu, list}));
    if (!text) continue;
    size_t end = text->find_first_not_of("0123456789");
    first = text->substr(0, end) == cpu;
    return true;
  }
  return false;
}

void AssignText(std::string& out, std::optional<std::string_view> text) {
  if (!text) out.clear();
  else if (out != *text) out = CleanText(*text);
}

}  // namespace

Status ReadCpuTopology(HostFiles& files, CpuTopology& out) {
  constexpr const char* kOnline = "sys/devices/system/cpu/online";
  out = {};
  std::string_view text;
  RETURN_IF_ERROR(files.Read(kOnline, text));
  RETURN_IF_ERROR(ParseCpuList(kOnline, text, out.online));
  uint64_t cores = 0;
  std::vector<uint64_t> packages;
  for (uint32_t cpu : out.online) {
    Digits digits(cpu);
    std::optional<bool> first;
    if (!IsFirstOfCore(files, digits, first)) return Ok();
    cores += *first ? 1u : 0u;
    std::optional<uint64_t> package;
    const char* path = files.Path({"sys/devices/system/cpu/cpu", digits, "/topology/physical_package_id"});
    // Some virtual and Arm machines print -1 here.
    if (!files.FindNumber(path, package)) package.reset();
    if (package && std::find(packages.begin(), packages.end(), *package) == packages.end()) {
      packages.push_back(*package);
    }
  }
  out.cores = cores;
  if (!packages.empty()) out.packages = packages.size();
  return Ok();
}

Status ReadCpuFrequencies(HostFiles& files, const std::vector<uint32_t>& online,
                          std::vector<std::optional<uint64_t>>& hertz) {
  hertz.assign(online.size(), std::nullopt);
  Status first;
  bool any = false;
  for (size_t i = 0; i < online.size(); ++i) {
    const char* path =
        files.Path({"sys/devices/system/cpu/cpu", Digits(online[i]), "/cpufreq/scaling_cur_freq"});
    KeepFirst(first, files.FindNumber(path, hertz[i]));
    uint64_t value = 0;
    if (hertz[i]) hertz[i] = Scale(*hertz[i], 1000, value) ? std::optional(value) : std::nullopt;
    any = any || hertz[i].has_value();
  }
  if (first && !any) return {Code::kUnavailable, "no CPU reports its frequency (no cpufreq)"};
  return first;
}

Status ReadNumaNodes(HostFiles& files, NameList& names, std::vector<NumaNode>& out) {
  constexpr std::string_view kNodes = "sys/devices/system/node/";
  RETURN_IF_ERROR(files.List("sys/devices/system/node", "node", names, kMaxHostDevices));
  Status first;
  size_t count = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    auto number = NumberAfter("node", names[i]);
    if (!number) continue;
    NumaNode& node = SlotAt(out, count++);
    node = {};
    node.number = *number;
    std::string_view text;
    Status memory = files.Read(files.Path({kNodes, names[i], "/meminfo"}), text);
    if (memory) memory = ParseNodeMemory(text, node.memory);
    if (!memory) node.memory = {};
    KeepFirst(first, std::move(memory));
    Status allocations = files.Read(files.Path({kNodes, names[i], "/numastat"}), text);
    if (allocations) allocations = ParseNodeAllocations(text, node.allocations);
    if (!allocations) node.allocations = {};
    KeepFirst(first, std::move(allocations));
  }
  out.resize(count);
  return first;
}

Status ReadHugePages(HostFiles& files, NameList& names, std::vector<HugePages>& out) {
  constexpr std::string_view kFolder = "sys/kernel/mm/hugepages";
  constexpr std::string_view kPrefix = "hugepages-";
  RETURN_IF_ERROR(files.List(kFolder.data(), kPrefix, names, 64));
  Status first;
  size_t count = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    std::string_view size = names[i].substr(kPrefix.size());
    if (!size.ends_with("kB")) continue;
    auto kib = ParseInt<uint32_t>(size.substr(0, size.size() - 2));
    if (!kib) continue;
    HugePages& pages = SlotAt(out, count++);
    pages = {};
    pages.page_bytes = uint64_t{*kib} * 1024;
    const std::pair<std::string_view, std::optional<uint64_t>*> fields[] = {
        {"/nr_hugepages", &pages.total},
        {"/free_hugepages", &pages.free},
        {"/resv_hugepages", &pages.reserved},
        {"/surplus_hugepages", &pages.surplus}};
    for (const auto& [file, value] : fields) {
      KeepFirst(first, files.FindNumber(files.Path({kFolder, "/", names[i], file}), *value));
    }
  }
  out.resize(count);
  return first;
}

Status ReadMemoryControllers(HostFiles& files, NameList& names, std::vector<MemoryController>& out) {
  constexpr std::string_view kFolder = "sys/devices/system/edac/mc";
  RETURN_IF_ERROR(files.List(kFolder.data(), "mc", names, kMaxHostDevices));
  Status first;
  size_t count = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    auto number = NumberAfter("mc", names[i]);
    if (!number) continue;
    MemoryController& controller = SlotAt(out, count++);
    controller.number = *number;
    KeepFirst(first,
              files.FindNumber(files.Path({kFolder, "/", names[i], "/ce_count"}), controller.correctable));
    KeepFirst(first,
              files.FindNumber(files.Path({kFolder, "/", names[i], "/ue_count"}), controller.uncorrectable));
  }
  out.resize(count);
  return first;
}

Status TemperatureReader::ReadSensor(std::string_view chip, std::string_view file, Temperature& out) {
  std::string_view sensor = file.substr(0, file.size() - kTemperatureInput.size());
  AssignText(out.chip, files_.FindText(files_.Path({kHwmonFolder, chip, "/name"})));
  AssignText(out.device, files_.FindLinkName(files_.Path({kHwmonFolder, chip, "/device"})));
  auto label = files_.FindText(files_.Path({kHwmonFolder, chip, "/", sensor, "_label"}));
  AssignText(out.sensor, label && !label->empty() ? *label : sensor);
  if (out.sensor.empty()) out.sensor.assign(sensor);
  out.millidegrees.reset();
  const char* path = files_.Path({kHwmonFolder, chip, "/", file});
  auto text = files_.FindText(path);
  if (!text) return Ok();
  out.millidegrees = ParseInt<int64_t>(*text);
  return out.millidegrees ? Ok() : BadText(path, "not a temperature", *text);
}

Status TemperatureReader::Read(std::vector<Temperature>& out) {
  RETURN_IF_ERROR(files_.List("sys/class/hwmon", "hwmon", chips_, kMaxHostDevices));
  Status first;
  size_t count = 0;
  for (size_t c = 0; c < chips_.size(); ++c) {
    if (!files_.List(files_.Path({kHwmonFolder, chips_[c]}), "temp", sensors_)) continue;
    for (size_t s = 0; s < sensors_.size(); ++s) {
      if (!sensors_[s].ends_with(kTemperatureInput)) continue;
      if (count == kMaxHostDevices) return TooMany("sys/class/hwmon", "sensors", kMaxHostDevices);
      KeepFirst(first, ReadSensor(chips_[c], sensors_[s], SlotAt(out, count++)));
    }
  }
  out.resize(count);
  return first;
}

std::optional<uint64_t> EnergyGain(uint64_t before, uint64_t now, uint64_t range) noexcept {
  if (now >= before) return now - before;
  if (before > range) return std::nullopt;
  return range - before + now;
}

Status EnergyReader::ReadZone(std::string_view name, EnergyZone& zone) {
  constexpr std::string_view kFolder = "sys/class/powercap/";
  if (zone.zone != name) {
    zone = {};
    zone.zone.assign(name);
    std::string_view numbers = name.substr(name.find(':') + 1);
    auto package = ParseInt<uint32_t>(TakeUntil(numbers, ':'));
    if (!package) return BadText(kFolder, "not a zone", name);
    zone.package = *package;
    AssignText(zone.name, files_.FindText(files_.Path({kFolder, name, "/name"})));
    std::optional<uint64_t> range;
    RETURN_IF_ERROR(files_.FindNumber(files_.Path({kFolder, name, "/max_energy_range_uj"}), range));
    zone.range_uj = range.value_or(0);
  }
  const char* path = files_.Path({kFolder, name, "/energy_uj"});
  std::string_view text;
  uint64_t raw = 0;
  Status read = files_.Read(path, text);
  if (read) read = ParseScalar(path, text, raw);
  if (!read) {
    // The base is gone: what is counted in between cannot be known.
    zone.energy_uj.reset();
    zone.raw_uj.reset();
    return read;
  }
  auto gain = zone.raw_uj ? EnergyGain(*zone.raw_uj, raw, zone.range_uj) : std::nullopt;
  zone.energy_uj = gain ? *zone.energy_uj + *gain : raw;
  zone.raw_uj = raw;
  return Ok();
}

Status EnergyReader::ReadAgain(EnergyZone& zone) { return ReadZone(zone.zone, zone); }

Status EnergyReader::Read(std::vector<EnergyZone>& out) {
  // intel-rapl-mmio repeats the package zone over another interface; the colon keeps it out.
  RETURN_IF_ERROR(files_.List("sys/class/powercap", "intel-rapl:", names_, kMaxHostDevices));
  Status first;
  for (size_t i = 0; i < names_.size(); ++i) KeepFirst(first, ReadZone(names_[i], SlotAt(out, i)));
  out.resize(names_.size());
  if (first && out.empty()) return {Code::kUnavailable, "no RAPL zone in sys/class/powercap"};
  return first;
}

}  // namespace gpulens

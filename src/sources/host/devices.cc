#include "sources/host/devices.h"

#include <utility>

#include "base/result.h"
#include "sources/host/parse/devices.h"
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

// A core counts once: at the first of the CPUs that share it. Nothing: no topology.
std::optional<bool> IsFirstOfCore(HostFiles& files, std::string_view cpu) {
  for (std::string_view list : {"/topology/core_cpus_list", "/topology/thread_siblings_list"}) {
    auto text = files.FindText(files.Path({"sys/devices/system/cpu/cpu", cpu, list}));
    if (text) return text->substr(0, text->find_first_not_of("0123456789")) == cpu;
  }
  return std::nullopt;
}

// An unchanged text, the usual case, makes no new string.
void AssignText(std::string& out, std::optional<std::string_view> text) {
  if (!text) out.clear();
  else if (out != *text) out = CleanText(*text);
}

constexpr uint64_t kBytesPerMegabit = 125'000;

// The two that are worth reading every second come first.
constexpr size_t kDataFiles = 2;
constexpr UintKey<RdmaCounters> kCounterFiles[] = {
    {"counters/port_rcv_data", &RdmaCounters::receive_bytes, 4},
    {"counters/port_xmit_data", &RdmaCounters::transmit_bytes, 4},
    {"counters/port_rcv_packets", &RdmaCounters::receive_packets},
    {"counters/port_xmit_packets", &RdmaCounters::transmit_packets},
    {"counters/port_xmit_wait", &RdmaCounters::transmit_wait},
    {"counters/symbol_error", &RdmaCounters::symbol_errors},
    {"counters/link_error_recovery", &RdmaCounters::link_recoveries},
    {"counters/link_downed", &RdmaCounters::link_downed},
    {"counters/port_rcv_errors", &RdmaCounters::receive_errors},
    {"counters/port_rcv_remote_physical_errors", &RdmaCounters::remote_physical_errors},
    {"counters/port_xmit_discards", &RdmaCounters::transmit_discards},
    {"counters/port_xmit_constraint_errors", &RdmaCounters::transmit_constraint_errors},
    {"counters/port_rcv_constraint_errors", &RdmaCounters::receive_constraint_errors},
    {"counters/local_link_integrity_errors", &RdmaCounters::local_integrity_errors},
    {"counters/excessive_buffer_overrun_errors", &RdmaCounters::buffer_overruns},
    {"hw_counters/out_of_sequence", &RdmaCounters::out_of_sequence},
    {"hw_counters/packet_seq_err", &RdmaCounters::packet_sequence_errors},
    {"hw_counters/local_ack_timeout_err", &RdmaCounters::ack_timeouts},
    {"hw_counters/rnr_nak_retry_err", &RdmaCounters::rnr_nak_retries},
    {"hw_counters/rp_cnp_handled", &RdmaCounters::cnp_handled},
    {"hw_counters/np_ecn_marked_roce_packets", &RdmaCounters::ecn_marked},
};
// Drivers without port counters of InfiniBand (EFA) count plain bytes here.
constexpr UintKey<RdmaCounters> kByteFiles[] = {
    {"hw_counters/rx_bytes", &RdmaCounters::receive_bytes},
    {"hw_counters/tx_bytes", &RdmaCounters::transmit_bytes},
};

class PortReader {
 public:
  PortReader(HostFiles& files, RdmaPort& port, std::string_view port_name)
      : files_(files), port_(port), port_name_(port_name) {}

  Status Data() {
    Status first;
    for (size_t i = 0; i < kDataFiles; ++i) {
      KeepFirst(first, Counter(kCounterFiles[i]));
      if (!(port_.counters.*(kCounterFiles[i].member))) KeepFirst(first, Counter(kByteFiles[i]));
    }
    return first;
  }

  Status Rest() {
    Status first;
    for (const UintKey<RdmaCounters>& file : std::span(kCounterFiles).subspan(kDataFiles))
      KeepFirst(first, Counter(file));
    KeepFirst(first, Text("state", ParseRdmaState, port_.state));
    KeepFirst(first, Text("rate", ParseRdmaRate, port_.speed_bytes_per_s));
    auto layer = files_.FindText(PortPath("link_layer"));
    port_.link_layer = LinkLayer::kUnknown;
    if (layer == "InfiniBand") port_.link_layer = LinkLayer::kInfiniband;
    if (layer == "Ethernet") port_.link_layer = LinkLayer::kEthernet;
    AssignText(port_.firmware, files_.FindText(DevicePath("fw_ver")));
    AssignText(port_.node_guid, files_.FindText(DevicePath("node_guid")));
    // -1 on machines without NUMA.
    port_.numa_node = ParseInt<uint32_t>(files_.FindText(DevicePath("device/numa_node")).value_or(""));
    return first;
  }

 private:
  const char* DevicePath(std::string_view file) {
    return files_.Path({"sys/class/infiniband/", port_.device, "/", file});
  }
  const char* PortPath(std::string_view file) {
    return files_.Path({"sys/class/infiniband/", port_.device, "/ports/", port_name_, "/", file});
  }

  Status Counter(const UintKey<RdmaCounters>& row) {
    std::optional<uint64_t>& value = port_.counters.*(row.member);
    value.reset();
    const char* path = PortPath(row.key);
    auto text = files_.FindText(path);
    // The kernel prints "N/A (no PMA)" for a port without the counter.
    if (!text || text->starts_with("N/A")) return Ok();
    auto number = ParseInt<uint64_t>(*text);
    uint64_t scaled = 0;
    if (!number || !Scale(*number, row.factor, scaled)) return BadText(path, "not a counter", *text);
    value = scaled;
    return Ok();
  }

  template <class Parse>
  Status Text(std::string_view file, Parse parse, std::optional<uint64_t>& value) {
    value.reset();
    const char* path = PortPath(file);
    auto text = files_.FindText(path);
    if (!text) return Ok();
    uint64_t number = 0;
    RETURN_IF_ERROR(parse(path, *text, number));
    value = number;
    return Ok();
  }

  HostFiles& files_;
  RdmaPort& port_;
  std::string_view port_name_;
};

}  // namespace

Status ReadCpuTopology(HostFiles& files, CpuTopology& out) {
  constexpr const char* kOnline = "sys/devices/system/cpu/online";
  out = {};
  std::string_view text;
  RETURN_IF_ERROR(files.Read(kOnline, text));
  RETURN_IF_ERROR(ParseCpuList(kOnline, text, out.online));
  uint64_t cores = 0;
  for (uint32_t cpu : out.online) {
    std::optional<bool> first = IsFirstOfCore(files, Digits(cpu));
    if (!first) return Ok();
    cores += *first ? 1u : 0u;
  }
  out.cores = cores;
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
    auto read = [&](std::string_view file, auto parse, auto& out_of_file) {
      Status status = files.Read(files.Path({kNodes, names[i], file}), text);
      if (status) status = parse(text, out_of_file);
      if (!status) out_of_file = {};
      KeepFirst(first, std::move(status));
    };
    read("/meminfo", ParseNodeMemory, node.memory);
    read("/numastat", ParseNodeAllocations, node.allocations);
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
        {"/resv_hugepages", &pages.reserved}};
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
    for (const auto& [file, value] :
         {std::pair("/ce_count", &controller.correctable), std::pair("/ue_count", &controller.uncorrectable)})
      KeepFirst(first, files.FindNumber(files.Path({kFolder, "/", names[i], file}), *value));
  }
  out.resize(count);
  return first;
}

Status TemperatureReader::ReadSensor(std::string_view chip, std::string_view file, TemperatureReading& out) {
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

Status TemperatureReader::Read(std::vector<TemperatureReading>& out) {
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

Status NetInterfaceReader::Read(std::vector<NetInterface>& out) {
  RETURN_IF_ERROR(files_.List("sys/class/net", "", names_, kMaxHostDevices));
  Status first;
  size_t count = 0;
  for (size_t i = 0; i < names_.size(); ++i) {
    std::string_view name = names_[i];
    auto state = files_.FindText(files_.Path({"sys/class/net/", name, "/operstate"}));
    if (!state) continue;  // bonding_masters and its like are files among the interfaces.
    NetInterface& net = SlotAt(out, count++);
    net.name.assign(name);
    net.up.reset();
    if (!state->empty() && *state != "unknown") net.up = *state == "up";
    net.speed_bytes_per_s.reset();
    const char* path = files_.Path({"sys/class/net/", name, "/speed"});
    auto speed = files_.FindText(path);
    if (speed && *speed != "-1") {
      auto megabits = ParseInt<uint32_t>(*speed);
      if (!megabits) KeepFirst(first, BadText(path, "not a speed", *speed));
      // Drivers that do not know give -1, in 32 bits without sign or in 16, or 0.
      if (megabits && *megabits != 0 && *megabits != UINT32_MAX && *megabits != UINT16_MAX) {
        net.speed_bytes_per_s = *megabits * kBytesPerMegabit;
      }
    }
  }
  out.resize(count);
  return first;
}

Status RdmaReader::Read(RdmaDetail detail, std::vector<RdmaPort>& out) {
  RETURN_IF_ERROR(files_.List("sys/class/infiniband", "", devices_, kMaxHostDevices));
  Status first;
  size_t count = 0;
  for (size_t d = 0; d < devices_.size(); ++d) {
    if (!files_.List(files_.Path({"sys/class/infiniband/", devices_[d], "/ports"}), "", ports_, 256))
      continue;
    for (size_t p = 0; p < ports_.size(); ++p) {
      auto number = ParseInt<uint32_t>(ports_[p]);
      if (!number) continue;
      if (count == kMaxHostDevices) return TooMany("sys/class/infiniband", "ports", kMaxHostDevices);
      RdmaPort& port = SlotAt(out, count++);
      bool same = port.device == devices_[d] && port.port == *number;
      if (!same) {
        port = RdmaPort{};
        port.device.assign(devices_[d]);
        port.port = *number;
      }
      PortReader reader(files_, port, ports_[p]);
      KeepFirst(first, reader.Data());
      if (detail == RdmaDetail::kAll || !same) KeepFirst(first, reader.Rest());
    }
  }
  out.resize(count);
  return first;
}

}  // namespace gpulens

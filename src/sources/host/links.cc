#include "sources/host/links.h"

#include <utility>

#include "base/result.h"
#include "sources/host/parse/identity.h"
#include "sources/host/parse/network.h"
#include "sources/host/parse/scan.h"

namespace gpulens {
namespace {

constexpr uint64_t kBytesPerMegabit = 125'000;

struct CounterFile {
  std::string_view file;
  std::optional<uint64_t> RdmaCounters::* member;
  uint64_t factor = 1;
};
// The two that are worth reading every second come first.
constexpr size_t kDataFiles = 2;
constexpr CounterFile kCounterFiles[] = {
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
    {"counters/VL15_dropped", &RdmaCounters::vl15_dropped},
    {"hw_counters/out_of_sequence", &RdmaCounters::out_of_sequence},
    {"hw_counters/packet_seq_err", &RdmaCounters::packet_sequence_errors},
    {"hw_counters/local_ack_timeout_err", &RdmaCounters::ack_timeouts},
    {"hw_counters/rnr_nak_retry_err", &RdmaCounters::rnr_nak_retries},
    {"hw_counters/np_cnp_sent", &RdmaCounters::cnp_sent},
    {"hw_counters/rp_cnp_handled", &RdmaCounters::cnp_handled},
    {"hw_counters/np_ecn_marked_roce_packets", &RdmaCounters::ecn_marked},
    {"hw_counters/out_of_buffer", &RdmaCounters::out_of_buffer},
};
// Drivers without port counters of InfiniBand (EFA) count plain bytes here.
constexpr CounterFile kByteFiles[] = {
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
    for (const CounterFile& file : std::span(kCounterFiles).subspan(kDataFiles))
      KeepFirst(first, Counter(file));
    KeepFirst(first, Text("state", ParseRdmaState, port_.state));
    KeepFirst(first, Text("phys_state", ParseRdmaState, port_.physical_state));
    KeepFirst(first, Text("rate", ParseRdmaRate, port_.speed_bytes_per_s));
    auto layer = files_.FindText(PortPath("link_layer"));
    port_.link_layer = LinkLayer::kUnknown;
    if (layer == "InfiniBand") port_.link_layer = LinkLayer::kInfiniband;
    if (layer == "Ethernet") port_.link_layer = LinkLayer::kEthernet;
    DeviceText("fw_ver", port_.firmware);
    DeviceText("node_guid", port_.node_guid);
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

  Status Counter(const CounterFile& row) {
    std::optional<uint64_t>& value = port_.counters.*(row.member);
    value.reset();
    const char* path = PortPath(row.file);
    auto text = files_.FindText(path);
    // "N/A (no PMA)" is how the kernel says that a port has no such counter.
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

  void DeviceText(std::string_view file, std::string& out) {
    auto text = files_.FindText(DevicePath(file));
    if (text && out == *text) return;  // The usual case, without making a new string.
    out = text ? CleanText(*text) : std::string();
  }

  HostFiles& files_;
  RdmaPort& port_;
  std::string_view port_name_;
};

}  // namespace

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
    net.physical = files_.Exists(files_.Path({"sys/class/net/", name, "/device"}));
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

// Network interfaces, TCP and UDP, as the network namespace of the root's first process has them.
// InfiniBand and RoCE ports.

#include "base/result.h"
#include "plugins/collectors/host/host_part.h"
#include "sources/host/devices.h"

namespace gpulens {
namespace {

using std::chrono::seconds;

// A part with series of each interface.
class PerInterfacePart : public HostPart {
 protected:
  using HostPart::HostPart;
  EntityRef InterfaceEntity(std::string_view name) const {
    return EntityOf("network_interface", {{"network.interface.name", name}});
  }
};

// Counters begin when the interface appears, so their start is unknown.
class NetworkPart final : public PerInterfacePart {
  using PerInterfacePart::PerInterfacePart;

  struct Direction {
    explicit Direction(std::string_view direction)
        : bytes(kSystemNetworkIo, NetworkDirection(direction)),
          packets(kSystemNetworkPacketCount, NetworkDirection(direction)),
          dropped(kSystemNetworkPacketDropped, NetworkDirection(direction)),
          errors(kSystemNetworkErrors, NetworkDirection(direction)) {}
    HostSeries bytes, packets, dropped, errors;
    Counter32 wide_bytes, wide_packets;
    uint64_t last_bytes = 0, last_packets = 0;
  };
  struct Interface : HostDevice<std::string> {
    using HostDevice::HostDevice;
    Direction receive{"receive"}, transmit{"transmit"};
  };

  Status Read(FrameWriter& out) override {
    RETURN_IF_ERROR(host_.system.ReadNetDevices(list_));
    interfaces_.Begin();
    for (const NetDevice& now : list_) {
      if (MatchesAny(host_.options.network_exclude, now.name)) continue;
      Interface& known = interfaces_.At(now.name, [&] { return InterfaceEntity(now.name); });
      PutDirection(out, known.receive, now.receive, known.entity);
      PutDirection(out, known.transmit, now.transmit, known.entity);
    }
    interfaces_.End(out.table());
    return Ok();
  }

  void PutDirection(FrameWriter& out, Direction& direction, const NetDevice::Direction& now,
                    const EntityRef& on) {
    bool bytes_on = now.bytes >= direction.last_bytes, packets_on = now.packets >= direction.last_packets;
    Put(out, direction.bytes, direction.wide_bytes.Carry(now.bytes, packets_on), on);
    Put(out, direction.packets, direction.wide_packets.Carry(now.packets, bytes_on), on);
    Put(out, direction.dropped, now.dropped, on);
    Put(out, direction.errors, now.errors, on);
    direction.last_bytes = now.bytes;
    direction.last_packets = now.packets;
  }

  std::vector<NetDevice> list_;
  DeviceList<Interface> interfaces_;
};

// State and speed of the interfaces.
class LinkPart final : public PerInterfacePart {
  using PerInterfacePart::PerInterfacePart;

  struct Interface : HostDevice<std::string> {
    using HostDevice::HostDevice;
    HostSeries up{kHostNetworkUp}, speed{kHostNetworkSpeed};
  };

  Status Read(FrameWriter& out) override {
    Status status = reader_.Read(list_);
    // One bad file costs one value; after any other failure the list is an old one.
    if (!status && status.code != Code::kDataLoss) return status;
    interfaces_.Begin();
    for (const NetInterface& now : list_) {
      if (MatchesAny(host_.options.network_exclude, now.name)) continue;
      Interface& known = interfaces_.At(now.name, [&] { return InterfaceEntity(now.name); });
      if (now.up) Put(out, known.up, *now.up ? 1 : 0, known.entity);
      Put(out, known.speed, now.speed_bytes_per_s, known.entity);
    }
    interfaces_.End(out.table());
    return status;
  }

  NetInterfaceReader reader_{host_.files};
  std::vector<NetInterface> list_;
  DeviceList<Interface> interfaces_;
};

AttributeSet TcpState(std::string_view state) {
  return AttributeSet({{"network.transport", "tcp"}, {"network.connection.state", state}});
}

class ProtocolPart final : public HostPart {
  using HostPart::HostPart;

  Status Read(FrameWriter& out) override {
    RETURN_IF_ERROR(host_.system.ReadNetProtocols(protocols_));
    Put(out, retransmits_, protocols_.tcp_segments_retransmitted);
    Put(out, established_, protocols_.tcp_established);
    RETURN_IF_ERROR(host_.system.ReadSockets(sockets_));
    Put(out, time_wait_, sockets_.tcp_time_wait);
    // Listening, connecting and closing ones. Without IPv6 there is no second number.
    if (sockets_.tcp_in_use && protocols_.tcp_established) {
      uint64_t in_use = *sockets_.tcp_in_use + sockets_.tcp6_in_use.value_or(0);
      if (in_use >= *protocols_.tcp_established) Put(out, other_, in_use - *protocols_.tcp_established);
    }
    if (sockets_.udp_in_use) Put(out, udp_, *sockets_.udp_in_use + sockets_.udp6_in_use.value_or(0));
    return Ok();
  }

  NetProtocols protocols_;
  SocketCounts sockets_;
  HostSeries retransmits_{kHostNetworkTcpRetransmits};
  HostSeries established_{kSystemNetworkConnectionCount, TcpState("established")};
  HostSeries time_wait_{kSystemNetworkConnectionCount, TcpState("time_wait")};
  HostSeries other_{kSystemNetworkConnectionCount, TcpState("other")};
  HostSeries udp_{kSystemNetworkConnectionCount, AttributeSet({{"network.transport", "udp"}})};
};

constexpr uint64_t kActive = 4;

// A part with series of each port.
class PerPortPart : public HostPart {
 protected:
  using HostPart::HostPart;
  EntityRef PortEntity(const RdmaPort& port) const {
    return EntityOf("rdma_port", {{"host.rdma.device", port.device}, {"host.rdma.port", int64_t{port.port}}});
  }

  RdmaReader reader_{host_.files};
  std::vector<RdmaPort> list_;
};

// Bytes, which are read every second.
class RdmaDataPart final : public PerPortPart {
  using PerPortPart::PerPortPart;

  struct Port : HostDevice<std::pair<std::string, uint32_t>> {
    using HostDevice::HostDevice;
    HostSeries receive{kHostRdmaIo, NetworkDirection("receive")},
        transmit{kHostRdmaIo, NetworkDirection("transmit")};
  };

  Status Read(FrameWriter& out) override {
    Status status = reader_.Read(RdmaDetail::kData, list_);
    if (!status && status.code != Code::kDataLoss) return status;
    ports_.Begin();
    for (const RdmaPort& now : list_) {
      Port* port = ports_.Find(
          [&](const Port& one) { return one.key.second == now.port && one.key.first == now.device; });
      if (!port) port = &ports_.Add({{now.device, now.port}, PortEntity(now)});
      PutBytes(out, port->receive, now.counters.receive_bytes, port->entity);
      PutBytes(out, port->transmit, now.counters.transmit_bytes, port->entity);
    }
    ports_.End(out.table());
    return status;
  }

  // Old cards stop at 32 bits and stay there.
  void PutBytes(FrameWriter& out, HostSeries& series, std::optional<uint64_t> bytes, const EntityRef& on) {
    if (bytes == kRdmaSaturatedBytes) return Refuse(out, series, on, Validation::kStuck);
    Put(out, series, bytes, on);
  }

  DeviceList<Port> ports_;
};

constexpr uint64_t kBits4 = 15, kBits8 = 255, kBits16 = 65535, kWide = UINT64_MAX;

// `full`: where the counter of an old card stops.
struct ErrorRow {
  std::string_view type;
  std::optional<uint64_t> RdmaCounters::* member;
  uint64_t full;
  std::optional<uint64_t> RdmaCounters::* second = nullptr;  // added to it, where the port has it
};
constexpr ErrorRow kErrors[] = {
    {"symbol", &RdmaCounters::symbol_errors, kBits16},
    {"link_recovery", &RdmaCounters::link_recoveries, kBits8},
    {"link_downed", &RdmaCounters::link_downed, kBits8},
    {"receive", &RdmaCounters::receive_errors, kBits16},
    {"transmit_discard", &RdmaCounters::transmit_discards, kBits16},
    {"local_integrity", &RdmaCounters::local_integrity_errors, kBits4},
    {"buffer_overrun", &RdmaCounters::buffer_overruns, kBits4},
    {"remote_physical", &RdmaCounters::remote_physical_errors, kBits16},
    {"constraint", &RdmaCounters::transmit_constraint_errors, kBits8,
     &RdmaCounters::receive_constraint_errors},
    {"out_of_sequence", &RdmaCounters::out_of_sequence, kWide},
    {"packet_sequence", &RdmaCounters::packet_sequence_errors, kWide},
    {"ack_timeout", &RdmaCounters::ack_timeouts, kWide},
    {"rnr_nak_retry", &RdmaCounters::rnr_nak_retries, kWide},
    // Received from other ports; the marks it saw are those it sends.
    {"cnp", &RdmaCounters::cnp_handled, kWide},
    {"ecn_marked", &RdmaCounters::ecn_marked, kWide},
};
constexpr size_t kErrorRows = std::size(kErrors);

class RdmaDetailPart final : public PerPortPart {
  using PerPortPart::PerPortPart;

  struct Port : HostDevice<RdmaPort> {
    Port(const RdmaPort& now, EntityRef on)
        : HostDevice(now, std::move(on)), info(kHostRdmaPortInfo, Facts(now)) {
      errors.reserve(kErrorRows);
      for (const ErrorRow& row : kErrors)
        errors.emplace_back(kHostRdmaErrors, AttributeSet({{"host.rdma.error_type", row.type}}));
    }
    HostSeries info;
    HostSeries receive{kHostRdmaPackets, NetworkDirection("receive")};
    HostSeries transmit{kHostRdmaPackets, NetworkDirection("transmit")};
    HostSeries wait{kHostRdmaWait}, active{kHostRdmaPortActive}, speed{kHostRdmaPortSpeed};
    std::vector<HostSeries> errors;

    // Other firmware is another port: what is fixed about it changed.
    bool Is(const RdmaPort& now) const noexcept {
      return key.port == now.port && key.device == now.device && key.firmware == now.firmware &&
             key.link_layer == now.link_layer && key.node_guid == now.node_guid &&
             key.numa_node == now.numa_node;
    }
  };

  static AttributeSet Facts(const RdmaPort& port) {
    std::vector<AttributeSet::Attribute> facts;
    if (port.link_layer == LinkLayer::kInfiniband) facts.push_back({"host.rdma.link_layer", "infiniband"});
    if (port.link_layer == LinkLayer::kEthernet) facts.push_back({"host.rdma.link_layer", "ethernet"});
    if (!port.firmware.empty()) facts.push_back({"host.rdma.firmware.version", port.firmware});
    if (!port.node_guid.empty()) facts.push_back({"host.rdma.guid", port.node_guid});
    if (port.numa_node) facts.push_back({"gpu.numa_node", int64_t{*port.numa_node}});
    return AttributeSet(facts);
  }

  Status Read(FrameWriter& out) override {
    Status status = reader_.Read(RdmaDetail::kAll, list_);
    if (!status && status.code != Code::kDataLoss) return status;
    ports_.Begin();
    for (const RdmaPort& now : list_) ports_.Find([&](const Port& one) { return one.Is(now); });
    ports_.End(out.table());
    for (const RdmaPort& now : list_) {
      Port* port = ports_.Find([&](const Port& one) { return one.Is(now); });
      if (!port) port = &ports_.Add({now, PortEntity(now)});
      PutPort(out, *port, now);
    }
    return status;
  }

  void PutPort(FrameWriter& out, Port& port, const RdmaPort& now) {
    const EntityRef& on = port.entity;
    Put(out, port.info, 1, on);
    Put(out, port.receive, now.counters.receive_packets, on);
    Put(out, port.transmit, now.counters.transmit_packets, on);
    Put(out, port.wait, now.counters.transmit_wait, on);
    if (now.state) Put(out, port.active, *now.state == kActive ? 1 : 0, on);
    // A port that is down reports the slowest speed there is.
    if (now.state == kActive) Put(out, port.speed, now.speed_bytes_per_s, on);
    for (size_t i = 0; i < kErrorRows; ++i) PutError(out, port, i, now.counters);
  }

  void PutError(FrameWriter& out, Port& port, size_t i, const RdmaCounters& now) {
    const ErrorRow& row = kErrors[i];
    std::optional<uint64_t> value = now.*(row.member);
    uint64_t more = row.second ? (now.*(row.second)).value_or(0) : 0;
    if (value == row.full || more == row.full)
      return Refuse(out, port.errors[i], port.entity, Validation::kStuck);
    if (value) *value += more;
    Put(out, port.errors[i], value, port.entity);
  }

  DeviceList<Port> ports_;
};

}  // namespace

void AddNetworkParts(HostContext& host, HostParts& parts) {
  AddPart<NetworkPart>(host, parts, {.needs = std::string(host.files.net()) + "/dev"});
  AddPart<LinkPart>(host, parts, {.needs = "sys/class/net", .every = seconds(10)});
  AddPart<ProtocolPart>(host, parts,
                        {.needs = std::string(host.files.net()) + "/snmp", .every = seconds(10)});
}

void AddRdmaParts(HostContext& host, HostParts& parts) {
  AddPart<RdmaDataPart>(host, parts, {.needs = "sys/class/infiniband"});
  AddPart<RdmaDetailPart>(host, parts, {.needs = "sys/class/infiniband", .every = seconds(10)});
}

}  // namespace gpulens

// Network interfaces, TCP and UDP, as the network namespace of the root's first process has them.

#include "base/result.h"
#include "plugins/collectors/host/device_list.h"
#include "plugins/collectors/host/host_part.h"
#include "sources/host/links.h"

namespace gpulens {
namespace {

using std::chrono::seconds;

EntityRef InterfaceEntity(const HostContext& host, std::string_view name) {
  return MakeRef<const Entity>("network_interface", AttributeSet({{"network.interface.name", name}}),
                               host.host);
}

// Counters begin when the interface appears, which nobody tells, so their start is not known.
class NetworkPart final : public HostPart {
 public:
  explicit NetworkPart(HostContext& host)
      : HostPart(host, {.needs = std::string(host.files.net()) + "/dev"}) {}

 private:
  struct Way {
    explicit Way(std::string_view direction)
        : bytes(kSystemNetworkIo, NetworkDirection(direction)),
          packets(kSystemNetworkPacketCount, NetworkDirection(direction)),
          dropped(kSystemNetworkPacketDropped, NetworkDirection(direction)),
          errors(kSystemNetworkErrors, NetworkDirection(direction)) {}
    HostSeries bytes, packets, dropped, errors;
    Counter32 wide_bytes, wide_packets;
    uint64_t last_bytes = 0, last_packets = 0;
  };
  struct Interface {
    Interface(std::string device, EntityRef on) : name(std::move(device)), entity(std::move(on)) {}
    std::string name;
    EntityRef entity;
    Way receive{"receive"}, transmit{"transmit"};
    bool seen = false;
  };

  Status Read(FrameWriter& out) override {
    RETURN_IF_ERROR(host_.system.ReadNetDevices(list_));
    interfaces_.Begin();
    for (const NetDevice& now : list_) {
      if (MatchesAny(host_.options.network_exclude, now.name)) continue;
      Interface* known = interfaces_.Find([&](const Interface& one) { return one.name == now.name; });
      if (!known) known = &interfaces_.Add({now.name, InterfaceEntity(host_, now.name)});
      PutWay(out, known->receive, now.receive, known->entity);
      PutWay(out, known->transmit, now.transmit, known->entity);
    }
    interfaces_.End(out.table());
    return Ok();
  }

  void PutWay(FrameWriter& out, Way& way, const NetDevice::Direction& now, const EntityRef& on) {
    bool bytes_on = now.bytes >= way.last_bytes, packets_on = now.packets >= way.last_packets;
    Put(out, way.bytes, way.wide_bytes.Carry(now.bytes, packets_on), on);
    Put(out, way.packets, way.wide_packets.Carry(now.packets, bytes_on), on);
    Put(out, way.dropped, now.dropped, on);
    Put(out, way.errors, now.errors, on);
    way.last_bytes = now.bytes;
    way.last_packets = now.packets;
  }

  std::vector<NetDevice> list_;
  DeviceList<Interface> interfaces_;
};

// State and speed of the interfaces.
class LinkPart final : public HostPart {
 public:
  explicit LinkPart(HostContext& host)
      : HostPart(host, {.needs = "sys/class/net", .every = seconds(10)}), reader_(host.files) {}

 private:
  struct Interface {
    Interface(std::string device, EntityRef on) : name(std::move(device)), entity(std::move(on)) {}
    std::string name;
    EntityRef entity;
    HostSeries up{kHostNetworkUp}, speed{kHostNetworkSpeed};
    bool seen = false;
  };

  Status Read(FrameWriter& out) override {
    Status status = reader_.Read(list_);
    // One bad file costs one value; after any other failure the list is an old one.
    if (!status && status.code != Code::kDataLoss) return status;
    interfaces_.Begin();
    for (const NetInterface& now : list_) {
      if (MatchesAny(host_.options.network_exclude, now.name)) continue;
      Interface* known = interfaces_.Find([&](const Interface& one) { return one.name == now.name; });
      if (!known) known = &interfaces_.Add({now.name, InterfaceEntity(host_, now.name)});
      if (now.up) Put(out, known->up, *now.up ? 1 : 0, known->entity);
      Put(out, known->speed, now.speed_bytes_per_s, known->entity);
    }
    interfaces_.End(out.table());
    return status;
  }

  NetInterfaceReader reader_;
  std::vector<NetInterface> list_;
  DeviceList<Interface> interfaces_;
};

AttributeSet TcpState(std::string_view state) {
  return AttributeSet({{"network.transport", "tcp"}, {"network.connection.state", state}});
}

class ProtocolPart final : public HostPart {
 public:
  explicit ProtocolPart(HostContext& host)
      : HostPart(host, {.needs = std::string(host.files.net()) + "/snmp", .every = seconds(10)}) {}

 private:
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

}  // namespace

void AddNetworkParts(HostContext& host, HostParts& parts) {
  parts.push_back(std::make_unique<NetworkPart>(host));
  parts.push_back(std::make_unique<LinkPart>(host));
  parts.push_back(std::make_unique<ProtocolPart>(host));
}

}  // namespace gpulens

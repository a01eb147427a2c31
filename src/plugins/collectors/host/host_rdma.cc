// InfiniBand and RoCE ports.

#include <array>

#include "plugins/collectors/host/device_list.h"
#include "plugins/collectors/host/host_part.h"
#include "sources/host/links.h"

namespace gpulens {
namespace {

using std::chrono::seconds;

constexpr const char* kFolder = "sys/class/infiniband";
constexpr uint64_t kActive = 4;

EntityRef PortEntity(const HostContext& host, const RdmaPort& port) {
  return MakeRef<const Entity>(
      "rdma_port", AttributeSet({{"host.rdma.device", port.device}, {"host.rdma.port", int64_t{port.port}}}),
      host.host);
}

// Bytes, which are worth a look every second.
class RdmaDataPart final : public HostPart {
 public:
  explicit RdmaDataPart(HostContext& host) : HostPart(host, {.needs = kFolder}), reader_(host.files) {}

 private:
  struct Port {
    Port(const RdmaPort& now, EntityRef on) : device(now.device), port(now.port), entity(std::move(on)) {}
    std::string device;
    uint32_t port;
    EntityRef entity;
    HostSeries receive{kHostRdmaIo, NetworkDirection("receive")},
        transmit{kHostRdmaIo, NetworkDirection("transmit")};
    bool seen = false;
  };

  Status Read(FrameWriter& out) override {
    Status status = reader_.Read(RdmaDetail::kData, list_);
    if (!status && status.code != Code::kDataLoss) return status;
    ports_.Begin();
    for (const RdmaPort& now : list_) {
      Port* port =
          ports_.Find([&](const Port& one) { return one.port == now.port && one.device == now.device; });
      if (!port) port = &ports_.Add({now, PortEntity(host_, now)});
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

  RdmaReader reader_;
  std::vector<RdmaPort> list_;
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
    // What this port was told by others; what it tells others are the marks it saw.
    {"cnp", &RdmaCounters::cnp_handled, kWide},
    {"ecn_marked", &RdmaCounters::ecn_marked, kWide},
};
constexpr size_t kErrorRows = std::size(kErrors);

class RdmaDetailPart final : public HostPart {
 public:
  explicit RdmaDetailPart(HostContext& host)
      : HostPart(host, {.needs = kFolder, .every = seconds(10)}), reader_(host.files) {}

 private:
  struct Port {
    Port(const RdmaPort& now, EntityRef on)
        : known(now), entity(std::move(on)), info(kHostRdmaPortInfo, Facts(now)) {
      errors.reserve(kErrorRows);
      for (const ErrorRow& row : kErrors)
        errors.emplace_back(kHostRdmaErrors, AttributeSet({{"host.rdma.error_type", row.type}}));
    }
    RdmaPort known;
    EntityRef entity;
    HostSeries info;
    HostSeries receive{kHostRdmaPackets, NetworkDirection("receive")};
    HostSeries transmit{kHostRdmaPackets, NetworkDirection("transmit")};
    HostSeries wait{kHostRdmaWait}, active{kHostRdmaPortActive}, speed{kHostRdmaPortSpeed};
    std::vector<HostSeries> errors;
    bool seen = false;

    // Other firmware is another port: what is fixed about it changed.
    bool Is(const RdmaPort& now) const noexcept {
      return known.port == now.port && known.device == now.device && known.firmware == now.firmware &&
             known.link_layer == now.link_layer && known.node_guid == now.node_guid &&
             known.numa_node == now.numa_node;
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
      if (!port) port = &ports_.Add({now, PortEntity(host_, now)});
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
    // A port that is down tells the slowest speed there is.
    if (now.state == kActive) Put(out, port.speed, now.speed_bytes_per_s, on);
    for (size_t i = 0; i < kErrorRows; ++i) PutError(out, port, i, now.counters);
  }

  void PutError(FrameWriter& out, Port& port, size_t i, const RdmaCounters& now) {
    const ErrorRow& row = kErrors[i];
    std::optional<uint64_t> value = now.*(row.member);
    uint64_t more = row.second ? (now.*(row.second)).value_or(0) : 0;
    if (value == row.full || more == row.full) {
      return Refuse(out, port.errors[i], port.entity, Validation::kStuck);
    }
    if (value) *value += more;
    Put(out, port.errors[i], value, port.entity);
  }

  RdmaReader reader_;
  std::vector<RdmaPort> list_;
  DeviceList<Port> ports_;
};

}  // namespace

void AddRdmaParts(HostContext& host, HostParts& parts) {
  parts.push_back(std::make_unique<RdmaDataPart>(host));
  parts.push_back(std::make_unique<RdmaDetailPart>(host));
}

}  // namespace gpulens

// Network interfaces and RDMA ports as /sys describes them. Counters of interfaces are in
// system.h (one file for all of them); here is what each has of its own.
//
// Readers: not thread-safe; `files` must outlive them. A steady read allocates nothing. A device
// whose file makes no sense loses that value only; the first such Status is returned at the end, with
// all other values in place. kUnavailable: there is no such class of devices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "sources/host/files.h"

namespace gpulens {

struct NetInterface {
  std::string name;
  std::optional<bool> up;  // Absent when the driver does not say ("unknown": lo, some tunnels).
  std::optional<uint64_t> speed_bytes_per_s;  // Absent when down, virtual, or unknown (-1).
  bool physical = false;                      // A device stands behind it.
};
class NetInterfaceReader {
 public:
  explicit NetInterfaceReader(HostFiles& files) : files_(files) {}
  Status Read(std::vector<NetInterface>& out);

 private:
  HostFiles& files_;
  NameList names_;
};

enum class LinkLayer : uint8_t { kUnknown, kInfiniband, kEthernet };

// Counters since the port came up. Present are those that the driver has. Old cards saturate instead of
// wrapping: 32 bits for data (kRdmaSaturatedBytes), 4, 8 or 16 for errors.
struct RdmaCounters {
  std::optional<uint64_t> receive_bytes, transmit_bytes;  // The kernel's 4-byte words times 4.
  std::optional<uint64_t> receive_packets, transmit_packets;
  std::optional<uint64_t> transmit_wait;  // Ticks.
  std::optional<uint64_t> symbol_errors, link_recoveries, link_downed, receive_errors;
  std::optional<uint64_t> remote_physical_errors, transmit_discards;
  std::optional<uint64_t> transmit_constraint_errors, receive_constraint_errors;
  std::optional<uint64_t> local_integrity_errors, buffer_overruns, vl15_dropped;
  // Of the RoCE and mlx5 hw_counters.
  std::optional<uint64_t> out_of_sequence, packet_sequence_errors, ack_timeouts, rnr_nak_retries;
  std::optional<uint64_t> cnp_sent, cnp_handled, ecn_marked, out_of_buffer;
};
inline constexpr uint64_t kRdmaSaturatedBytes = 4ull * 0xFFFFFFFF;

struct RdmaPort {
  std::string device;  // "mlx5_0"
  uint32_t port = 0;
  std::optional<uint64_t> state;           // 1 down, 2 init, 3 armed, 4 active.
  std::optional<uint64_t> physical_state;  // 5 link up, 3 disabled, 2 polling.
  std::optional<uint64_t> speed_bytes_per_s;
  LinkLayer link_layer = LinkLayer::kUnknown;
  std::string firmware;  // Empty: not told.
  std::string node_guid;
  std::optional<uint32_t> numa_node;
  RdmaCounters counters;
};

enum class RdmaDetail : uint8_t {
  kData,  // Only bytes: two files per port. Other members keep their values for a port seen before.
  kAll,
};
class RdmaReader {
 public:
  explicit RdmaReader(HostFiles& files) : files_(files) {}
  Status Read(RdmaDetail detail, std::vector<RdmaPort>& out);

 private:
  HostFiles& files_;
  NameList devices_, ports_;
};

}  // namespace gpulens

// Network counters as the kernel prints them: /proc/net/{dev,snmp,netstat,sockstat,sockstat6} and the
// text values of an RDMA port. Pure functions over text; all of it is about one network namespace.
//
// Failures: kDataLoss, kExhausted; the output is then meaningless. Absent is what this kernel does not
// print. There is no walk over /proc/net/tcp: its cost grows with the number of connections.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens {

// One interface of /proc/net/dev. Some drivers count in 32 bits and wrap.
struct NetDevice {
  struct Direction {
    uint64_t bytes = 0, packets = 0, errors = 0, dropped = 0;
  };
  std::string name;
  Direction receive, transmit;
  uint64_t multicast = 0;
};
Status ParseNetDevices(std::string_view text, std::vector<NetDevice>& out);

// Counters of the protocols from /proc/net/snmp and /proc/net/netstat; both parsers write into the
// same struct, each its own members. tcp_established is a level: connections established or waiting for
// our close, IPv4 and IPv6 together; so are the other TCP members.
struct NetProtocols {
  // snmp
  std::optional<uint64_t> tcp_established;
  std::optional<uint64_t> tcp_active_opens, tcp_passive_opens, tcp_attempt_fails, tcp_resets;
  std::optional<uint64_t> tcp_segments_in, tcp_segments_out, tcp_segments_retransmitted, tcp_errors_in;
  std::optional<uint64_t> udp_datagrams_in, udp_datagrams_out, udp_no_port, udp_errors_in;
  std::optional<uint64_t> udp_receive_buffer_errors, udp_send_buffer_errors;  // IPv4 only.
  // netstat
  std::optional<uint64_t> tcp_listen_overflows, tcp_listen_drops, tcp_timeouts, tcp_syn_retransmits;
  std::optional<uint64_t> tcp_lost_retransmits, tcp_memory_pressures;
};
Status ParseSnmp(std::string_view text, NetProtocols& out);
Status ParseNetstat(std::string_view text, NetProtocols& out);

// Sockets in use, from /proc/net/sockstat (IPv4 and sums) and sockstat6. tcp_time_wait is of both
// protocols; tcp_in_use counts listening and connecting sockets too, not those in time-wait.
struct SocketCounts {
  std::optional<uint64_t> sockets;
  std::optional<uint64_t> tcp_in_use, tcp_orphaned, tcp_time_wait, tcp_allocated, tcp_memory_pages;
  std::optional<uint64_t> udp_in_use, udp_memory_pages;
  std::optional<uint64_t> tcp6_in_use, udp6_in_use;
};
Status ParseSockstat(std::string_view text, SocketCounts& out);   // Resets `out`.
Status ParseSockstat6(std::string_view text, SocketCounts& out);  // Adds to it.

// "400 Gb/sec (4X NDR)": bytes per second.
Status ParseRdmaRate(std::string_view file, std::string_view text, uint64_t& out);
// "4: ACTIVE", "5: LinkUp": the number.
Status ParseRdmaState(std::string_view file, std::string_view text, uint64_t& out);

}  // namespace gpulens

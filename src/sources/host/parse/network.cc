#include "sources/host/parse/network.h"

#include <cmath>

#include "base/result.h"
#include "sources/host/parse/scan.h"

namespace gpulens {
namespace {

constexpr UintKey<NetProtocols> kTcp[] = {
    {"ActiveOpens", &NetProtocols::tcp_active_opens},
    {"PassiveOpens", &NetProtocols::tcp_passive_opens},
    {"AttemptFails", &NetProtocols::tcp_attempt_fails},
    {"EstabResets", &NetProtocols::tcp_resets},
    {"CurrEstab", &NetProtocols::tcp_established},
    {"InSegs", &NetProtocols::tcp_segments_in},
    {"OutSegs", &NetProtocols::tcp_segments_out},
    {"RetransSegs", &NetProtocols::tcp_segments_retransmitted},
    {"InErrs", &NetProtocols::tcp_errors_in},
};
constexpr UintKey<NetProtocols> kUdp[] = {
    {"InDatagrams", &NetProtocols::udp_datagrams_in},
    {"NoPorts", &NetProtocols::udp_no_port},
    {"InErrors", &NetProtocols::udp_errors_in},
    {"OutDatagrams", &NetProtocols::udp_datagrams_out},
    {"RcvbufErrors", &NetProtocols::udp_receive_buffer_errors},
    {"SndbufErrors", &NetProtocols::udp_send_buffer_errors},
};
constexpr UintKey<NetProtocols> kTcpExt[] = {
    {"ListenOverflows", &NetProtocols::tcp_listen_overflows},
    {"ListenDrops", &NetProtocols::tcp_listen_drops},
    {"TCPTimeouts", &NetProtocols::tcp_timeouts},
    {"TCPSynRetrans", &NetProtocols::tcp_syn_retransmits},
    {"TCPLostRetransmit", &NetProtocols::tcp_lost_retransmits},
    {"TCPMemoryPressures", &NetProtocols::tcp_memory_pressures},
};

struct Protocol {
  std::string_view prefix;
  std::span<const UintKey<NetProtocols>> keys;
};
constexpr Protocol kSnmp[] = {{"Tcp:", kTcp}, {"Udp:", kUdp}};
constexpr Protocol kNetstat[] = {{"TcpExt:", kTcpExt}};

// Pairs of lines: names, then values in the same order. Values nobody asks for may be signed.
Status ParseTables(std::string_view file, std::string_view text, std::span<const Protocol> protocols,
                   NetProtocols& out) {
  LineScanner lines(file, text, 64);
  for (std::string_view names; lines.Next(names);) {
    std::string_view values;
    if (!lines.Next(values)) return BadText(file, "names without values", names);
    std::string_view prefix = NextField(names);
    if (!prefix.ends_with(':') || NextField(values) != prefix)
      return BadText(file, "not a pair of lines", values);
    const Protocol* protocol = nullptr;
    for (const Protocol& candidate : protocols) {
      if (candidate.prefix == prefix) protocol = &candidate;
    }
    if (protocol == nullptr) continue;
    while (true) {
      std::string_view name = NextField(names), value = NextField(values);
      if (name.empty() != value.empty()) return BadText(file, "more names than values or fewer", prefix);
      if (name.empty()) break;
      const auto* row = FindKey(protocol->keys, name);
      if (row == nullptr) continue;
      auto number = ParseInt<uint64_t>(value);
      if (!number) return BadText(file, "not a number", value);
      out.*(row->member) = *number;
    }
  }
  return lines.status();
}

// A protocol's keys come after its prefix; one table serves all prefixes.
struct SocketKey {
  std::string_view prefix;
  std::string_view key;
  std::optional<uint64_t> SocketCounts::* member;
};
constexpr SocketKey kSocketKeys[] = {
    {"sockets:", "used", &SocketCounts::sockets},    {"TCP:", "inuse", &SocketCounts::tcp_in_use},
    {"TCP:", "orphan", &SocketCounts::tcp_orphaned}, {"TCP:", "tw", &SocketCounts::tcp_time_wait},
    {"TCP:", "alloc", &SocketCounts::tcp_allocated}, {"TCP:", "mem", &SocketCounts::tcp_memory_pages},
    {"UDP:", "inuse", &SocketCounts::udp_in_use},    {"UDP:", "mem", &SocketCounts::udp_memory_pages},
    {"TCP6:", "inuse", &SocketCounts::tcp6_in_use},  {"UDP6:", "inuse", &SocketCounts::udp6_in_use},
};

Status ParseSockets(std::string_view file, std::string_view text, SocketCounts& out) {
  LineScanner lines(file, text, 64);
  for (std::string_view line; lines.Next(line);) {
    std::string_view rest = line;
    std::string_view prefix = NextField(rest);
    if (!prefix.ends_with(':')) return BadText(file, "no protocol", line);
    while (true) {
      std::string_view key = NextField(rest);
      if (key.empty()) break;
      uint64_t value = 0;
      if (!NextUint(rest, value)) return BadText(file, "not a count", line);
      for (const SocketKey& row : kSocketKeys) {
        if (row.prefix == prefix && row.key == key) out.*(row.member) = value;
      }
    }
  }
  return lines.status();
}

}  // namespace

Status ParseNetDevices(std::string_view text, std::vector<NetDevice>& out) {
  constexpr std::string_view kFile = "proc/net/dev";
  size_t count = 0;
  LineScanner lines(kFile, text, kMaxHostDevices + 2);
  std::string_view line;
  for (int header = 0; header < 2; ++header) {
    if (!lines.Next(line)) return lines.status() ? BadText(kFile, "no header") : lines.status();
    if (line.find('|') == std::string_view::npos) return BadText(kFile, "not the header", line);
  }
  while (lines.Next(line)) {
    std::string_view rest = line;
    // Old kernels print no blank after the colon. No interface name has a colon or a blank in it.
    std::string_view name = Trim(TakeUntil(rest, ':'));
    if (name.empty() || rest.empty()) return BadText(kFile, "not an interface", line);
    NetDevice& device = SlotAt(out, count++);
    device.name.assign(name);
    uint64_t unused = 0;
    NetDevice::Direction &in = device.receive, &to = device.transmit;
    for (uint64_t* number :
         {&in.bytes, &in.packets, &in.errors, &in.dropped, &unused, &unused, &unused, &device.multicast,
          &to.bytes, &to.packets, &to.errors, &to.dropped, &unused, &unused, &unused, &unused}) {
      if (!NextUint(rest, *number)) return BadText(kFile, "not sixteen counters", line);
    }
  }
  RETURN_IF_ERROR(lines.status());
  out.resize(count);
  return Ok();
}

Status ParseSnmp(std::string_view text, NetProtocols& out) {
  for (const Protocol& protocol : kSnmp) {
    for (const auto& row : protocol.keys) (out.*(row.member)).reset();
  }
  return ParseTables("proc/net/snmp", text, kSnmp, out);
}

Status ParseNetstat(std::string_view text, NetProtocols& out) {
  for (const auto& row : kTcpExt) (out.*(row.member)).reset();
  return ParseTables("proc/net/netstat", text, kNetstat, out);
}

Status ParseSockstat(std::string_view text, SocketCounts& out) {
  out = {};
  return ParseSockets("proc/net/sockstat", text, out);
}

Status ParseSockstat6(std::string_view text, SocketCounts& out) {
  return ParseSockets("proc/net/sockstat6", text, out);
}

Status ParseRdmaRate(std::string_view file, std::string_view text, uint64_t& out) {
  std::string_view rest = Trim(text);
  // Halves exist: "2.5 Gb/sec (1X SDR)".
  auto gigabits = ParseDecimal(NextField(rest));
  if (!gigabits || *gigabits > 1e6 || NextField(rest) != "Gb/sec") return BadText(file, "not a rate", text);
  out = static_cast<uint64_t>(std::llround(*gigabits * 125e6));
  return Ok();
}

Status ParseRdmaState(std::string_view file, std::string_view text, uint64_t& out) {
  std::string_view rest = Trim(text);
  auto number = ParseInt<uint64_t>(TakeUntil(rest, ':'));
  if (!number || rest.empty()) return BadText(file, "not a state", text);
  out = *number;
  return Ok();
}

}  // namespace gpulens

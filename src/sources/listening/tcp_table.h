// What the kernel's tables of a network namespace say: listening TCP sockets, and its own addresses. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "net/message/address.h"

namespace gpulens::listening {

struct Socket {
  Endpoint at;
  uint64_t inode = 0;
  uint32_t uid = 0;  // who made it
  friend bool operator==(const Socket&, const Socket&) = default;
};

// Appends the sockets in state LISTEN of a text like /proc/net/tcp or, for `ipv6`, /proc/net/tcp6; at most
// `limit` in `out`. Lines that make no sense are passed over; returns how many.
size_t AppendListening(std::string_view table, bool ipv6, size_t limit, std::vector<Socket>& out);

// The IPv4 addresses that are local by a text like /proc/net/fib_trie, without loopback, each once.
std::vector<Endpoint> LocalAddresses(std::string_view fib_trie);

}  // namespace gpulens::listening

// Processes, the listening TCP sockets of network namespaces, and their addresses, from /proc.
//
// Reads files and folders: for workers. A process that ends while it is read is left out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/message/address.h"

namespace gpulens::listening {

struct ListeningSocket {
  Endpoint at;
  uint64_t inode = 0;
  uint32_t uid = 0;  // who made it
  friend bool operator==(const ListeningSocket&, const ListeningSocket&) = default;
};

// Appends the sockets in state LISTEN of a text like /proc/net/tcp or, for `ipv6`, /proc/net/tcp6; at most
// `limit` in `out`. Skips malformed lines; returns how many. Pure.
size_t AppendListening(std::string_view table, bool ipv6, size_t limit, std::vector<ListeningSocket>& out);

// The IPv4 addresses that are local by a text like /proc/net/fib_trie, without loopback, each once. Pure.
std::vector<Endpoint> LocalAddresses(std::string_view fib_trie);

struct ListedProcess {
  int pid = 0;
  uint64_t started = 0;  // clock ticks after boot: distinguishes a reused pid
  uint32_t uid = 0;
  uint64_t net_ns = 0;            // 0: may not be seen
  std::string name;               // comm
  std::vector<std::string> args;  // empty for threads of the kernel
};

// Whether a process is returned, by name and arguments.
using ProcessFilter = std::function<bool(const std::string& name, const std::vector<std::string>& args)>;

// Reads at most 32,768 processes and returns at most `limit`. `root` contains proc/: "/".
std::vector<ListedProcess> ListProcesses(const std::string& root, const ProcessFilter& wants, size_t limit);

// The process that holds one of the sockets, for each of `inodes` with a visible holder.
struct SocketHolder {
  uint64_t inode = 0;
  int pid = 0;
};
// Scans `pids` only, or all processes when it is empty. `hidden` counts those with inaccessible descriptors.
std::vector<SocketHolder> FindHolders(const std::string& root, const std::vector<int>& pids,
                                      const std::vector<uint64_t>& inodes, size_t& hidden);

std::optional<ListedProcess> ReadProcess(const std::string& root, int pid);

// 0 when it may not be seen. `who` is "self" or a number.
uint64_t NetNamespace(const std::string& root, const std::string& who);

// The listening sockets of the namespace of `who`; at most 4096.
std::vector<ListeningSocket> ListListening(const std::string& root, const std::string& who);

// The IPv4 addresses in the namespace of `who`.
std::vector<Endpoint> ListAddresses(const std::string& root, const std::string& who);

}  // namespace gpulens::listening

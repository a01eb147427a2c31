// Processes as /proc shows them: what they are called, whose they are, and which sockets they hold.
//
// Reads files and folders: for workers. A process that ends while it is read is left out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sources/listening/tcp_table.h"

namespace gpulens::listening {

struct Process {
  int pid = 0;
  uint64_t started = 0;  // clock ticks after boot: tells a number that is used again
  uint32_t uid = 0;
  uint64_t net_ns = 0;            // 0: may not be seen
  std::string name;               // comm
  std::vector<std::string> args;  // empty for threads of the kernel
};

// Which of them are asked further: by name and arguments.
using Wants = std::function<bool(const std::string& name, const std::vector<std::string>& args)>;

// At most 32,768 are looked at and `limit` returned. `root` is where proc/ lies: "/".
std::vector<Process> ListProcesses(const std::string& root, const Wants& wants, size_t limit);

// The process that holds one of the sockets, for each of `inodes` that somebody holds whom we may see.
struct Holder {
  uint64_t inode = 0;
  int pid = 0;
};
// Looks at `pids` only, or at all processes when it is empty. `hidden` counts those whose descriptors may
// not be seen.
std::vector<Holder> FindHolders(const std::string& root, const std::vector<int>& pids,
                                const std::vector<uint64_t>& inodes, size_t& hidden);

std::optional<Process> ReadProcess(const std::string& root, int pid);

// 0 when it may not be seen. `who` is "self" or a number.
uint64_t NetNamespace(const std::string& root, const std::string& who);

// The listening sockets of the namespace of `who`; at most 4096.
std::vector<Socket> ListListening(const std::string& root, const std::string& who);

// The IPv4 addresses in the namespace of `who`.
std::vector<Endpoint> ListAddresses(const std::string& root, const std::string& who);

}  // namespace gpulens::listening

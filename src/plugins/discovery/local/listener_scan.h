// Lists the listening sockets of this machine that may serve the page of an LLM engine or of dcgm-exporter,
// and engines in other network namespaces. Reads /proc, so it belongs on a worker; connects to nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sources/listening/processes.h"

namespace gpulens::local_listeners {

inline constexpr size_t kMaxCandidates = 32;

// A socket that may be asked.
struct Candidate {
  std::string address;  // "127.0.0.1:8000": where to reach it
  uint16_t port = 0;
  uint64_t inode = 0;  // another one: another socket
  int pid = 0;         // 0: another user's, guessed by user and port
  std::string process;
  std::string kind;  // the engine that the process looks like, or the exporter of the port; empty: neither
};

// An engine in another network namespace.
struct Elsewhere {
  int pid = 0;
  uint64_t net_ns = 0;
  std::string process, engine;
  std::vector<uint16_t> ports;         // that it listens on and that may be its page's
  std::vector<std::string> addresses;  // of that namespace
};

struct Scan {
  std::vector<Candidate> candidates;  // in the order of addresses, each once
  std::vector<Elsewhere> elsewhere;
  size_t processes = 0;     // that look like engines
  std::vector<int> hidden;  // of these, whose descriptors may not be seen
};

// Remembers who holds which socket: a walk over all descriptors of a machine is made only for sockets that
// are new. Not thread-safe.
class Scanner {
 public:
  Scanner(std::string root, int own_pid) : root_(std::move(root)), own_pid_(own_pid) {}

  Scan Look(const std::vector<listening::Socket>& sockets);
  std::vector<listening::Socket> Listening() const { return listening::ListListening(root_, "self"); }

 private:
  struct Engines;
  void LearnHolders(const std::vector<listening::Socket>& sockets, Engines& engines);
  void AddElsewhere(const Engines& engines, Scan& scan) const;

  const std::string root_;
  const int own_pid_;
  std::map<uint64_t, int> holders_;  // inode to pid; 0: may not be seen
};

}  // namespace gpulens::local_listeners

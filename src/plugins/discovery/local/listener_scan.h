// Listening sockets of this machine that may serve the page of an LLM engine or of dcgm-exporter, and engines
// in other network namespaces; by which processes, ports and pages they are recognized. Reads /proc, so it
// belongs on a worker; connects to nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sources/listening/listening.h"

namespace gpulens::local_listeners {

// The engine that a process seems to be by its name and arguments, as the tables of engines call it ("vllm");
// may be empty. A guess that decides only whose page is requested: the page decides. Pure, as all functions
// up to KindOfPage.
std::string_view EngineOf(std::string_view name, const std::vector<std::string>& args);

// Whether the program is known to be no engine, at any port.
bool IsSomethingElse(std::string_view name);

// The ports that the arguments name for requests or metrics: --port 8000, --port=8000, -p 8000,
// --metrics-port, --listen 0.0.0.0:8000. Not those of inner traffic (--nccl-port, --master-port, gRPC …),
// where no HTTP may be spoken.
std::vector<uint16_t> NamedPorts(const std::vector<std::string>& args);

// Whether an engine of the tables listens there by default.
bool IsEnginePort(uint16_t port);
// The GPU exporter that listens there by default, as `kind` of a target calls it ("dcgm"); empty: none.
std::string_view ExporterAt(uint16_t port);
// The paths at which pages may be: that of `engine` first, then those of engines with that port, then
// /metrics; each once.
std::vector<std::string_view> PathsFor(std::string_view engine, uint16_t port);

// The `kind` of the target with this page: the engine whose families are on it, or "dcgm"; empty: neither.
// The longest prefix decides.
std::string_view KindOfPage(std::string_view page);

inline constexpr size_t kMaxCandidates = 32;

// A socket whose page may be requested.
struct Candidate {
  std::string address;  // "127.0.0.1:8000": where to reach it
  uint16_t port = 0;
  uint64_t inode = 0;  // identifies the socket
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

struct ScanResult {
  std::vector<Candidate> candidates;  // in the order of addresses, each once
  std::vector<Elsewhere> elsewhere;
  size_t processes = 0;     // that look like engines
  std::vector<int> hidden;  // of these, whose descriptors may not be seen
};

// Remembers the holders of sockets: a walk over all descriptors of a machine is made only for new sockets.
// Not thread-safe.
class Scanner {
 public:
  Scanner(std::string root, int own_pid) : root_(std::move(root)), own_pid_(own_pid) {}

  ScanResult Scan(const std::vector<listening::Socket>& sockets);
  std::vector<listening::Socket> Listening() const { return listening::ListListening(root_, "self"); }

 private:
  struct Engines;
  void LearnHolders(const std::vector<listening::Socket>& sockets, Engines& engines);
  void AddElsewhere(const Engines& engines, ScanResult& scan) const;

  const std::string root_;
  const int own_pid_;
  std::map<uint64_t, int> holders_;  // inode to pid; 0: may not be seen
};

}  // namespace gpulens::local_listeners

// Scan of the listening sockets of this machine for pages of LLM engines and dcgm-exporter, and of engines in
// other network namespaces, recognized by process, port and page. Reads /proc, so it belongs on a worker;
// connects to nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sources/listening/listening.h"

namespace gpulens::local_listeners {

// Returns the engine that a process seems to be by its name and arguments, as in the tables of engines
// ("vllm"); may be empty. Selects only which pages are requested; the page decides. Pure, like all functions
// up to KindOfPage.
std::string_view EngineOf(std::string_view name, const std::vector<std::string>& args);

// Whether the program is known not to be an engine, at any port.
bool IsSomethingElse(std::string_view name);

// Returns the ports that the arguments name for requests or metrics: --port 8000, --port=8000, -p 8000,
// --metrics-port, --listen 0.0.0.0:8000. Excludes ports of internal traffic (--nccl-port, --master-port,
// gRPC …), which may not be HTTP.
std::vector<uint16_t> NamedPorts(const std::vector<std::string>& args);

// Whether an engine of the tables listens there by default.
bool IsEnginePort(uint16_t port);
// Returns the `kind` of the GPU exporter that listens there by default ("dcgm"); empty: none.
std::string_view ExporterAt(uint16_t port);
// Returns the paths at which pages may be: that of `engine` first, then those of engines with that port, then
// /metrics; each once.
std::vector<std::string_view> PathsFor(std::string_view engine, uint16_t port);

// Returns the `kind` of the target with this page: the engine whose families are on it, or "dcgm"; empty:
// neither. The longest prefix decides.
std::string_view KindOfPage(std::string_view page);

inline constexpr size_t kMaxCandidates = 32;

// A socket whose page may be requested.
struct PageCandidate {
  std::string address;  // "127.0.0.1:8000": where to reach it
  uint16_t port = 0;
  uint64_t inode = 0;  // identifies the socket
  int pid = 0;         // 0: another user's, guessed by user and port
  std::string process;
  std::string kind;  // the engine that the process looks like, or the exporter of the port; empty: neither
};

// An engine in another network namespace.
struct RemoteEngine {
  int pid = 0;
  uint64_t net_ns = 0;
  std::string process, engine;
  std::vector<uint16_t> ports;         // that it listens on and that may be its page's
  std::vector<std::string> addresses;  // of that namespace
};

struct ScanResult {
  std::vector<PageCandidate> candidates;  // in the order of addresses, each once
  std::vector<RemoteEngine> elsewhere;
  size_t processes = 0;     // that look like engines
  std::vector<int> hidden;  // of these, whose descriptors may not be seen
};

// Remembers the holders of sockets, so that all descriptors of a machine are scanned for new sockets only.
// Not thread-safe.
class ListenerScanner {
 public:
  ListenerScanner(std::string root, int own_pid) : root_(std::move(root)), own_pid_(own_pid) {}

  ScanResult Scan(const std::vector<listening::ListeningSocket>& sockets);
  std::vector<listening::ListeningSocket> Listening() const {
    return listening::ListListening(root_, "self");
  }

 private:
  struct Engines;
  void LearnHolders(const std::vector<listening::ListeningSocket>& sockets, Engines& engines);
  void AddElsewhere(const Engines& engines, ScanResult& scan) const;

  const std::string root_;
  const int own_pid_;
  std::map<uint64_t, int> holders_;  // inode to pid; 0: may not be seen
};

}  // namespace gpulens::local_listeners

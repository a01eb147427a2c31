#include "plugins/discovery/local/listener_scan.h"

#include <algorithm>
#include <set>

#include "plugins/discovery/local/listener_marks.h"

namespace gpulens::local_listeners {
namespace {

using listening::Process;
using listening::Socket;

constexpr size_t kMaxProcesses = 256;
constexpr size_t kMaxElsewhere = 32;

bool IsAny(const Endpoint& at) noexcept {
  return std::all_of(at.ip.begin(), at.ip.end(), [](uint8_t byte) { return byte == 0; });
}

// Where this machine reaches what listens there.
Endpoint Reached(Endpoint at) {
  if (IsAny(at)) {
    if (at.family == Endpoint::Family::kIpv6) at.ip[15] = 1;
    else at.ip = {127, 0, 0, 1};
  }
  return at;
}

}  // namespace

struct Scanner::Engines {
  std::vector<Process> here, elsewhere;
  std::set<uint16_t> named;  // ports in anybody's arguments
  std::set<int> hidden;

  const Process* Find(int pid) const {
    auto found = std::find_if(here.begin(), here.end(), [&](const Process& p) { return p.pid == pid; });
    return found == here.end() ? nullptr : &*found;
  }
  // Whose descriptors may not be seen: by user and port.
  const Process* Guess(const Socket& socket) const {
    const Process* guess = nullptr;
    for (const Process& process : here) {
      if (!hidden.contains(process.pid) || process.uid != socket.uid) continue;
      auto ports = NamedPorts(process.args);
      if (std::find(ports.begin(), ports.end(), socket.at.port) != ports.end()) return &process;
      if (!guess && IsEnginePort(socket.at.port)) guess = &process;
    }
    return guess;
  }
  bool MayBePage(uint16_t port) const {
    return IsEnginePort(port) || !ExporterAt(port).empty() || named.contains(port);
  }
};

// First among processes that look like engines, then among all, each new socket once.
void Scanner::LearnHolders(const std::vector<Socket>& sockets, Engines& engines) {
  std::vector<uint64_t> wanted;
  std::set<uint64_t> present;
  for (const Socket& socket : sockets) {
    if (!engines.MayBePage(socket.at.port)) continue;
    present.insert(socket.inode);
    if (!holders_.contains(socket.inode)) wanted.push_back(socket.inode);
  }
  std::erase_if(holders_, [&](const auto& known) { return !present.contains(known.first); });
  std::vector<int> pids;
  for (const Process& process : engines.here) {
    size_t hidden = 0;
    // One alone tells whether it may be seen.
    auto held = listening::FindHolders(root_, {process.pid}, {present.begin(), present.end()}, hidden);
    if (hidden) engines.hidden.insert(process.pid);
    for (const auto& holder : held) holders_[holder.inode] = holder.pid;
  }
  std::erase_if(wanted, [&](uint64_t inode) { return holders_.contains(inode); });
  if (wanted.empty()) return;
  size_t hidden = 0;
  for (const auto& holder : listening::FindHolders(root_, {}, wanted, hidden)) {
    holders_[holder.inode] = holder.pid;
  }
  for (uint64_t inode : wanted) holders_.emplace(inode, 0);
}

void Scanner::AddElsewhere(const Engines& engines, Scan& scan) const {
  for (const Process& process : engines.elsewhere) {
    bool known = std::any_of(scan.elsewhere.begin(), scan.elsewhere.end(),
                             [&](const Elsewhere& e) { return e.net_ns == process.net_ns; });
    if (known || scan.elsewhere.size() == kMaxElsewhere) continue;
    Elsewhere one{process.pid,  process.net_ns,
                  process.name, std::string(LooksLike(process.name, process.args)),
                  {},           {}};
    std::string who = std::to_string(process.pid);
    for (const Socket& socket : listening::ListListening(root_, who)) {
      bool seen = std::find(one.ports.begin(), one.ports.end(), socket.at.port) != one.ports.end();
      if (!seen && engines.MayBePage(socket.at.port)) one.ports.push_back(socket.at.port);
    }
    // One that does not listen is a worker of another.
    if (one.ports.empty()) continue;
    for (const Endpoint& at : listening::ListAddresses(root_, who)) one.addresses.push_back(at.Host());
    scan.elsewhere.push_back(std::move(one));
  }
}

Scan Scanner::Look(const std::vector<Socket>& sockets) {
  Engines engines;
  const uint64_t own_ns = listening::NetNamespace(root_, "self");
  auto wants = [](const std::string& name, const std::vector<std::string>& args) {
    return !LooksLike(name, args).empty();
  };
  for (Process& process : listening::ListProcesses(root_, wants, kMaxProcesses)) {
    bool away = process.net_ns != 0 && own_ns != 0 && process.net_ns != own_ns;
    for (uint16_t port : NamedPorts(process.args)) engines.named.insert(port);
    (away ? engines.elsewhere : engines.here).push_back(std::move(process));
  }
  LearnHolders(sockets, engines);
  Scan scan;
  scan.processes = engines.here.size() + engines.elsewhere.size();
  scan.hidden.assign(engines.hidden.begin(), engines.hidden.end());
  AddElsewhere(engines, scan);

  std::map<std::string, Candidate> found;
  for (const Socket& socket : sockets) {
    auto holder = holders_.find(socket.inode);
    if (holder == holders_.end() || holder->second == own_pid_) continue;
    Endpoint at = Reached(socket.at);
    Candidate one{at.ToString(), at.port, socket.inode, holder->second, {}, {}};
    const Process* engine = holder->second ? engines.Find(holder->second) : engines.Guess(socket);
    if (engine) {
      one.pid = engine->pid;
      one.process = engine->name;
      one.kind = LooksLike(engine->name, engine->args);
    } else {
      // A port alone is little: only where this machine talks to itself. dcgm-exporter runs as another user
      // or behind a proxy of its container, an engine is asked only when its process may be seen.
      if (!(IsAny(socket.at) || at.IsLoopback())) continue;
      one.kind = ExporterAt(at.port);
      if (one.kind.empty() && (holder->second == 0 || !IsEnginePort(at.port))) continue;
      const auto process = listening::ReadProcess(root_, holder->second);
      if (process) one.process = process->name;
      if (one.kind.empty() && (!process || IsSomethingElse(process->name))) continue;
      one.pid = holder->second;
    }
    auto [entry, added] = found.emplace(one.address, one);
    if (!added && one.inode < entry->second.inode) entry->second = one;
  }
  // Both families of one port are one page.
  for (auto& [address, one] : found) {
    bool v6_twin = address == "[::1]:" + std::to_string(one.port) &&
                   found.contains("127.0.0.1:" + std::to_string(one.port));
    if (!v6_twin) scan.candidates.push_back(std::move(one));
  }
  // What looks like an engine is never left out for what does not.
  if (scan.candidates.size() > kMaxCandidates) {
    std::sort(scan.candidates.begin(), scan.candidates.end(), [](const Candidate& a, const Candidate& b) {
      if (a.kind.empty() != b.kind.empty()) return b.kind.empty();
      return a.address < b.address;
    });
    scan.candidates.resize(kMaxCandidates);
  }
  return scan;
}

}  // namespace gpulens::local_listeners

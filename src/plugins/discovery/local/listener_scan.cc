#include "plugins/discovery/local/listener_scan.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/parse.h"
#include "scrape/engine/engine_row.h"

namespace gpulens::local_listeners {
namespace {

constexpr std::string_view kDcgm = "dcgm", kDcgmPrefix = "DCGM_FI_";
constexpr uint16_t kDcgmExporterPort = 9400;

// Marks of engines in the first arguments: programs by the last part of their path, modules of Python by
// their whole name or its beginning with a dot. `then`, if set, must follow somewhere.
struct Mark {
  std::string_view program, engine, then = {};
};
constexpr Mark kMarks[] = {
    {"vllm", "vllm", "serve"},
    {"vllm.entrypoints", "vllm"},
    {"sglang", "sglang", "serve"},
    {"sglang.launch_server", "sglang"},
    {"sglang_router", "sglang-router"},
    {"sglang_router.launch_router", "sglang-router"},
    {"smg", "sglang-router"},
    {"vllm-router", "vllm-router"},
    {"vllm_router", "vllm-router"},
    {"vllm_router.launch_router", "vllm-router"},
    {"vllm_router.app", "vllm-production-stack"},
    {"lmdeploy", "lmdeploy", "api_server"},
    {"text-generation-launcher", "tgi"},
    {"text-generation-router", "tgi"},
    {"tritonserver", "triton"},
    {"trtllm-serve", "trtllm-serve"},
    {"tensorrt_llm.commands.serve", "trtllm-serve"},
    {"nim_llm", "nim"},
    {"llama-server", "llama.cpp"},
    {"llama_cpp.server", "llama.cpp"},
    {"litellm", "litellm"},
    {"dynamo.frontend", "dynamo-frontend"},
    {"dynamo.router", "dynamo-router"},
    {"dynamo.mocker", "dynamo-worker"},
    {"dynamo.vllm", "dynamo-worker"},
    {"dynamo.sglang", "dynamo-worker"},
    {"dynamo.trtllm", "dynamo-worker"},
    {"mooncake_master", "mooncake"},
    {"lmcache.server", "lmcache"},
    {"lmcache.v1", "lmcache"},
    {"lmcache_server", "lmcache"},
    {"xinference-local", "xinference"},
    {"xinference-supervisor", "xinference"},
    {"xinference-worker", "xinference"},
    {"ollama-exporter", "ollama"},
    {"ollama_exporter", "ollama"},
    {"ollama-metrics", "ollama"},
    {"extproc-server", "semantic-router"},
    {"epp", "epp"},
    {"llm-d-inference-sim", "vllm"},
    {"llm-d-inference-scheduler", "epp"},
};
// Titles that processes set at run time.
constexpr Mark kTitles[] = {
    {"VLLM::", "vllm"},
    {"sglang::", "sglang"},
    {"ray::ServeReplica", "ray-serve"},
    {"ray::ProxyActor", "ray-serve"},
    {"ray::ServeController", "ray-serve"},
};
// An interpreter, its options and a script come first.
constexpr size_t kFirstArguments = 8;

constexpr std::string_view kOtherPrograms[] = {
    "sshd",        "nginx",        "apache2",      "httpd",      "haproxy", "postgres",      "mysqld",
    "mariadbd",    "redis-server", "mongod",       "cupsd",      "systemd", "containerd",    "dockerd",
    "kubelet",     "kube-proxy",   "etcd",         "prometheus", "grafana", "node_exporter", "java",
    "code-server", "jupyter-lab",  "rpcbind",      "dnsmasq",    "named",   "smbd",          "master",
    "exim4",       "gpulens",      "docker-proxy", "slurmd"};

std::string_view LastPart(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool IsProgram(std::string_view argument, std::string_view program) {
  std::string_view last = LastPart(argument);
  if (last.ends_with(".py")) last.remove_suffix(3);
  return last == program || (program.find('.') != std::string_view::npos && last.starts_with(program) &&
                             last.size() > program.size() && last[program.size()] == '.');
}

// The value of an option is no program: --model vllm.
bool MayBeProgram(const std::vector<std::string>& args, size_t at) {
  if (args[at].empty() || args[at][0] == '-') return false;
  if (at < 2) return true;
  std::string_view before = args[at - 1];
  return before == "-m" || before == "-u" || !before.starts_with('-');
}

bool NamesInnerTraffic(std::string_view option) {
  constexpr std::string_view kInner[] = {"nccl", "dist",  "master", "rpc",   "bootstrap", "zmq",
                                         "init", "peer",  "nats",   "etcd",  "worker",    "kv",
                                         "side", "store", "torch",  "debug", "proxy-to"};
  return std::ranges::any_of(kInner, [&](std::string_view word) { return option.find(word) != option.npos; });
}

// The port of "8000", ":8000", "0.0.0.0:8000".
std::optional<uint16_t> PortOf(std::string_view value) {
  size_t colon = value.rfind(':');
  if (colon != std::string_view::npos) value = value.substr(colon + 1);
  auto port = ParseInt<uint16_t>(value);
  return port && *port != 0 ? port : std::nullopt;
}

using listening::ListedProcess;
using listening::ListeningSocket;

constexpr size_t kMaxProcesses = 256;
constexpr size_t kMaxElsewhere = 32;

bool IsAny(const Endpoint& at) noexcept {
  return std::ranges::all_of(at.ip, [](uint8_t byte) { return byte == 0; });
}

// Returns the address at which this machine reaches the listener.
Endpoint Reached(Endpoint at) {
  if (IsAny(at)) {
    if (at.family == Endpoint::Family::kIpv6) at.ip[15] = 1;
    else at.ip = {127, 0, 0, 1};
  }
  return at;
}

}  // namespace

std::string_view EngineOf(std::string_view name, const std::vector<std::string>& args) {
  for (const Mark& title : kTitles) {
    if (name.starts_with(title.program)) return title.engine;
    if (!args.empty() && args[0].starts_with(title.program)) return title.engine;
  }
  for (size_t i = 0; i < std::min(args.size(), kFirstArguments); ++i) {
    if (!MayBeProgram(args, i)) continue;
    for (const Mark& mark : kMarks) {
      if (!IsProgram(args[i], mark.program)) continue;
      bool then = mark.then.empty() || std::find(args.begin() + static_cast<ptrdiff_t>(i) + 1, args.end(),
                                                 mark.then) != args.end();
      if (then) return mark.engine;
    }
  }
  return {};
}

bool IsSomethingElse(std::string_view name) {
  return name.empty() || std::ranges::find(kOtherPrograms, name) != std::end(kOtherPrograms);
}

std::vector<uint16_t> NamedPorts(const std::vector<std::string>& args) {
  std::vector<uint16_t> out;
  for (size_t i = 1; i < args.size(); ++i) {
    std::string_view option = args[i];
    if (!option.starts_with('-')) continue;
    size_t equals = option.find('=');
    std::string_view value = equals != std::string_view::npos ? option.substr(equals + 1)
                             : i + 1 < args.size()            ? std::string_view(args[i + 1])
                                                              : std::string_view{};
    option = option.substr(0, equals);
    bool address = option.ends_with("listen") || option.ends_with("bind") || option.ends_with("address");
    bool port = option == "-p" || option.ends_with("port") || address;
    if (!port || NamesInnerTraffic(option)) continue;
    auto number = PortOf(value);
    if (number && std::ranges::find(out, *number) == out.end()) out.push_back(*number);
  }
  return out;
}

bool IsEnginePort(uint16_t port) {
  return std::ranges::any_of(engine_page::AllEngines(),
                             [&](const engine_page::Engine& engine) { return engine.port == port; });
}

std::string_view ExporterAt(uint16_t port) { return port == kDcgmExporterPort ? kDcgm : std::string_view{}; }

std::vector<std::string_view> PathsFor(std::string_view engine, uint16_t port) {
  std::vector<std::string_view> out;
  auto add = [&](std::string_view path) {
    if (!path.empty() && std::ranges::find(out, path) == out.end()) out.push_back(path);
  };
  if (const engine_page::Engine* known = engine_page::FindEngine(engine)) add(known->path);
  for (const engine_page::Engine& one : engine_page::AllEngines()) {
    if (engine.empty() && one.port == port) add(one.path);
  }
  // vLLM's port is NIM's as well, which has its page elsewhere.
  if (engine == "vllm") add("/v1/metrics");
  add("/metrics");
  return out;
}

std::string_view KindOfPage(std::string_view page) {
  std::string_view best;
  size_t longest = 0;
  while (!page.empty()) {
    std::string_view line = TakeUntil(page, '\n');
    if (!line.starts_with("# TYPE ")) continue;
    line.remove_prefix(7);
    std::string_view family = TakeUntil(line, ' ');
    if (family.starts_with(kDcgmPrefix) && kDcgmPrefix.size() > longest) {
      longest = kDcgmPrefix.size();
      best = kDcgm;
    }
    for (const engine_page::Engine& engine : engine_page::AllEngines()) {
      std::string_view prefixes = engine.recognised;
      while (!prefixes.empty()) {
        std::string_view prefix = TakeUntil(prefixes, ' ');
        if (prefix.empty() || prefix.size() <= longest || !family.starts_with(prefix)) continue;
        longest = prefix.size();
        best = engine.name;
      }
    }
  }
  return best;
}

struct ListenerScanner::Engines {
  std::vector<ListedProcess> here, elsewhere;
  std::set<uint16_t> named;  // ports in any arguments
  std::set<int> hidden;

  const ListedProcess* Find(int pid) const {
    auto found = std::ranges::find_if(here, [&](const ListedProcess& p) { return p.pid == pid; });
    return found == here.end() ? nullptr : &*found;
  }
  // Guesses by user and port a process whose descriptors may not be seen.
  const ListedProcess* Guess(const ListeningSocket& socket) const {
    const ListedProcess* guess = nullptr;
    for (const ListedProcess& process : here) {
      if (!hidden.contains(process.pid) || process.uid != socket.uid) continue;
      auto ports = NamedPorts(process.args);
      if (std::ranges::find(ports, socket.at.port) != ports.end()) return &process;
      if (!guess && IsEnginePort(socket.at.port)) guess = &process;
    }
    return guess;
  }
  bool MayBePage(uint16_t port) const {
    return IsEnginePort(port) || !ExporterAt(port).empty() || named.contains(port);
  }
};

// First among processes that look like engines, then among all, each new socket once.
void ListenerScanner::LearnHolders(const std::vector<ListeningSocket>& sockets, Engines& engines) {
  std::vector<uint64_t> wanted;
  std::set<uint64_t> present;
  for (const ListeningSocket& socket : sockets) {
    if (!engines.MayBePage(socket.at.port)) continue;
    present.insert(socket.inode);
    if (!holders_.contains(socket.inode)) wanted.push_back(socket.inode);
  }
  std::erase_if(holders_, [&](const auto& known) { return !present.contains(known.first); });
  std::vector<int> pids;
  for (const ListedProcess& process : engines.here) {
    size_t hidden = 0;
    // One process per call, to learn whether its descriptors may be seen.
    auto held = listening::FindHolders(root_, {process.pid}, {present.begin(), present.end()}, hidden);
    if (hidden) engines.hidden.insert(process.pid);
    for (const auto& holder : held) holders_[holder.inode] = holder.pid;
  }
  std::erase_if(wanted, [&](uint64_t inode) { return holders_.contains(inode); });
  if (wanted.empty()) return;
  size_t hidden = 0;
  for (const auto& holder : listening::FindHolders(root_, {}, wanted, hidden))
    holders_[holder.inode] = holder.pid;
  for (uint64_t inode : wanted) holders_.emplace(inode, 0);
}

void ListenerScanner::AddElsewhere(const Engines& engines, ScanResult& scan) const {
  for (const ListedProcess& process : engines.elsewhere) {
    bool known = std::ranges::any_of(scan.elsewhere,
                                     [&](const RemoteEngine& e) { return e.net_ns == process.net_ns; });
    if (known || scan.elsewhere.size() == kMaxElsewhere) continue;
    RemoteEngine one{
        process.pid, process.net_ns, process.name, std::string(EngineOf(process.name, process.args)), {}, {}};
    std::string who = std::to_string(process.pid);
    for (const ListeningSocket& socket : listening::ListListening(root_, who)) {
      bool seen = std::ranges::find(one.ports, socket.at.port) != one.ports.end();
      if (!seen && engines.MayBePage(socket.at.port)) one.ports.push_back(socket.at.port);
    }
    // One that does not listen is a worker of another.
    if (one.ports.empty()) continue;
    for (const Endpoint& at : listening::ListAddresses(root_, who)) one.addresses.push_back(at.Host());
    scan.elsewhere.push_back(std::move(one));
  }
}

ScanResult ListenerScanner::Scan(const std::vector<ListeningSocket>& sockets) {
  Engines engines;
  const uint64_t own_ns = listening::NetNamespace(root_, "self");
  auto wants = [](const std::string& name, const std::vector<std::string>& args) {
    return !EngineOf(name, args).empty();
  };
  for (ListedProcess& process : listening::ListProcesses(root_, wants, kMaxProcesses)) {
    bool away = process.net_ns != 0 && own_ns != 0 && process.net_ns != own_ns;
    for (uint16_t port : NamedPorts(process.args)) engines.named.insert(port);
    (away ? engines.elsewhere : engines.here).push_back(std::move(process));
  }
  LearnHolders(sockets, engines);
  ScanResult scan;
  scan.processes = engines.here.size() + engines.elsewhere.size();
  scan.hidden.assign(engines.hidden.begin(), engines.hidden.end());
  AddElsewhere(engines, scan);

  std::map<std::string, PageCandidate> found;
  for (const ListeningSocket& socket : sockets) {
    auto holder = holders_.find(socket.inode);
    if (holder == holders_.end() || holder->second == own_pid_) continue;
    Endpoint at = Reached(socket.at);
    PageCandidate one{at.ToString(), at.port, socket.inode, holder->second, {}, {}};
    const ListedProcess* engine = holder->second ? engines.Find(holder->second) : engines.Guess(socket);
    if (engine) {
      one.pid = engine->pid;
      one.process = engine->name;
      one.kind = EngineOf(engine->name, engine->args);
    } else {
      // By the port alone only local listeners qualify. dcgm-exporter runs as another user or behind a proxy
      // of its container; an engine's process must be visible.
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
  // IPv4 and IPv6 of one port are one page.
  for (auto& [address, one] : found) {
    bool v6_other = address == "[::1]:" + std::to_string(one.port) &&
                    found.contains("127.0.0.1:" + std::to_string(one.port));
    if (!v6_other) scan.candidates.push_back(std::move(one));
  }
  // Processes of engines come first at the limit.
  if (scan.candidates.size() > kMaxCandidates) {
    std::ranges::sort(scan.candidates, [](const PageCandidate& a, const PageCandidate& b) {
      if (a.kind.empty() != b.kind.empty()) return b.kind.empty();
      return a.address < b.address;
    });
    scan.candidates.resize(kMaxCandidates);
  }
  return scan;
}

}  // namespace gpulens::local_listeners

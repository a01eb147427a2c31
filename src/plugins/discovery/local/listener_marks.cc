#include "plugins/discovery/local/listener_marks.h"

#include <algorithm>
#include <optional>

#include "base/parse.h"
#include "scrape/engine/engine_row.h"

namespace gpulens::local_listeners {
namespace {

constexpr std::string_view kDcgm = "dcgm", kDcgmPrefix = "DCGM_FI_";
constexpr uint16_t kDcgmExporterPort = 9400;

// What is looked for in the first arguments: programs by the last part of their path, modules of Python by
// their whole name or its beginning with a dot. A second word has to follow somewhere, when there is one.
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
// What a process calls itself while it runs.
constexpr Mark kTitles[] = {
    {"VLLM::", "vllm"},
    {"sglang::", "sglang"},
    {"ray::ServeReplica", "ray-serve"},
    {"ray::ProxyActor", "ray-serve"},
    {"ray::ServeController", "ray-serve"},
};
// An interpreter, its options and a script come first.
constexpr size_t kFirstArguments = 8;

constexpr std::string_view kElse[] = {
    "sshd",        "nginx",        "apache2",      "httpd",      "haproxy", "postgres",      "mysqld",
    "mariadbd",    "redis-server", "mongod",       "cupsd",      "systemd", "containerd",    "dockerd",
    "kubelet",     "kube-proxy",   "etcd",         "prometheus", "grafana", "node_exporter", "java",
    "code-server", "jupyter-lab",  "rpcbind",      "dnsmasq",    "named",   "smbd",          "master",
    "exim4",       "gpulens",      "docker-proxy", "slurmd"};

std::string_view LastPart(std::string_view path) {
  size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool IsProgram(std::string_view argument, std::string_view program) {
  std::string_view last = LastPart(argument);
  if (last.ends_with(".py")) last.remove_suffix(3);
  return last == program || (program.find('.') != std::string_view::npos && last.starts_with(program) &&
                             last.size() > program.size() && last[program.size()] == '.');
}

// What an argument is the value of is no program: --model vllm.
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
  return std::any_of(std::begin(kInner), std::end(kInner),
                     [&](std::string_view word) { return option.find(word) != std::string_view::npos; });
}

// The port of "8000", ":8000", "0.0.0.0:8000".
std::optional<uint16_t> PortOf(std::string_view value) {
  size_t colon = value.rfind(':');
  if (colon != std::string_view::npos) value = value.substr(colon + 1);
  auto port = ParseInt<uint16_t>(value);
  return port && *port != 0 ? port : std::nullopt;
}

}  // namespace

std::string_view LooksLike(std::string_view name, const std::vector<std::string>& args) {
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
  return name.empty() || std::find(std::begin(kElse), std::end(kElse), name) != std::end(kElse);
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
    if (number && std::find(out.begin(), out.end(), *number) == out.end()) out.push_back(*number);
  }
  return out;
}

bool IsEnginePort(uint16_t port) {
  auto engines = engine_page::AllEngines();
  return std::any_of(engines.begin(), engines.end(),
                     [&](const engine_page::Engine& e) { return e.port == port; });
}

std::string_view ExporterAt(uint16_t port) { return port == kDcgmExporterPort ? kDcgm : std::string_view{}; }

std::vector<std::string_view> PathsFor(std::string_view engine, uint16_t port) {
  std::vector<std::string_view> out;
  auto add = [&](std::string_view path) {
    if (!path.empty() && std::find(out.begin(), out.end(), path) == out.end()) out.push_back(path);
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

}  // namespace gpulens::local_listeners

#include "agent/run/rights.h"

#include <linux/capability.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "agent/control/control_socket.h"
#include "agent/run/plan.h"
#include "base/files.h"
#include "base/parse.h"
#include "base/text.h"
#include "net/message/address.h"
#include "pipeline/delivery/delivery.h"
#include "scrape/page_process.h"

namespace gpulens {
namespace {

bool IsBelow(std::string_view path, std::string_view folder) noexcept {
  if (folder == "/") return path.starts_with('/');
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

// Absolute, without "." and "..". Empty: there is no current folder.
std::string Absolute(const std::string& path) {
  std::error_code failed;
  std::string out = std::filesystem::absolute(path, failed).lexically_normal().string();
  while (out.size() > 1 && out.ends_with('/')) out.pop_back();
  return failed ? std::string() : out;
}

// Folders of the kernel's, in which no plugin has files of its own.
bool IsOfKernel(std::string_view folder) noexcept {
  if (IsBelow(folder, "/dev/shm")) return false;
  return IsBelow(folder, "/dev") || IsBelow(folder, "/proc") || IsBelow(folder, "/sys");
}

std::string FolderOfFile(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Ports below it need a capability. In many containers it is 0.
int FirstFreePort() {
  const auto text = ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", 64);
  return text ? ParseInt<int>(Trim(*text)).value_or(1024) : 1024;
}

// Adds what the listeners in the group need: the option `listen` of itself and of its groups.
void AddListeners(const Config& group, Rights& out) {
  for (const Config::Entry& entry : group.entries()) {
    if (const auto* inner = std::get_if<Config>(&entry.value)) AddListeners(*inner, out);
    const auto* addresses = std::get_if<std::vector<std::string>>(&entry.value);
    if (entry.key != "listen" || !addresses) continue;
    for (const std::string& text : *addresses) {
      const auto at = ParseListenAddress(text);
      if (!at) continue;
      if (at->family == Endpoint::Family::kUnix) out.folders.push_back(FolderOfFile(at->path));
      else if (at->port != 0 && at->port < FirstFreePort()) out.capabilities.push_back(CAP_NET_BIND_SERVICE);
    }
  }
}

void AddControlSocket(const Config& config, Rights& out) {
  const std::string& configured = config.Group("control").Text("socket");
  const std::string path = configured.empty() ? DefaultControlSocket() : configured;
  if (!path.empty() && path != "none") out.folders.push_back(FolderOfFile(path));
}

// The socket, and files of processes that ended, which are removed.
void AddJobPages(const Config& config, Rights& out) {
  if (!ReadsJobPages(config)) return;
  const JobPages::Options options = JobPagesOptions(config);
  if (!options.socket.empty()) out.folders.push_back(FolderOfFile(options.socket));
  out.folders.insert(out.folders.end(), options.folders.begin(), options.folders.end());
}

template <class Setup>
void AddHook(const Setup& setup, const Env& env, Rights& out) {
  if (setup.spec->rights) setup.spec->rights(setup.config, env, out);
}

void AddPlugins(const Config& config, const Env& env, Rights& out) {
  const PipelinePlan plan = MakePlan(config, {env.demo, {}});
  for (const auto& setup : plan.instances) AddHook(setup, env, out);
  for (const auto& setup : plan.enrichers) AddHook(setup, env, out);
  for (const auto& setup : plan.sinks) {
    AddHook(setup, env, out);
    AddListeners(setup.config, out);
    if (!setup.spec->network) continue;
    const Config& queue = setup.config.Group("queue");
    const std::string& folder = queue.Text("dir");
    if (folder.empty() || queue.Text("storage") != "disk") continue;
    out.folders.push_back(folder);
    // What receivers take in waits next to it.
    if (!plan.receivers.empty() && setup.spec->takes_received)
      out.folders.push_back(FolderOfFile(folder) + "/" + std::string(Delivery::kReceivedLog));
  }
  for (const auto& setup : plan.receivers) AddListeners(setup.config, out);
}

// Of root, and of who was given them: docs/adr/0070-rights-by-configuration.md.
void AddCapabilities(Rights& out) {
  out.capabilities.push_back(CAP_DAC_READ_SEARCH);
  if (::geteuid() != 0) return;
  for (const std::string& folder : out.folders) {
    struct stat info{};
    if (::stat(folder.c_str(), &info) != 0 || info.st_uid == 0) continue;
    out.capabilities.push_back(CAP_DAC_OVERRIDE);
    return;
  }
}

template <class Value>
void Unite(std::vector<Value>& list) {
  std::ranges::sort(list);
  const auto again = std::ranges::unique(list);
  list.erase(again.begin(), again.end());
}

void Clean(Rights& rights) {
  for (std::string& folder : rights.folders) folder = Absolute(folder);
  std::erase_if(rights.folders,
                [](const std::string& folder) { return folder.empty() || IsOfKernel(folder); });
  Unite(rights.folders);
  // Sorted, a folder comes before what is below it, but not next to it: "/a", "/a-b", "/a/c".
  std::vector<std::string> kept;
  for (std::string& folder : rights.folders) {
    const auto holds = [&](const std::string& other) { return IsBelow(folder, other); };
    if (std::ranges::none_of(kept, holds)) kept.push_back(std::move(folder));
  }
  rights.folders = std::move(kept);
  for (std::string& device : rights.devices) device = Absolute(device);
  Unite(rights.devices);
  Unite(rights.capabilities);
  std::vector<ProgramRule> programs;
  for (ProgramRule& rule : rights.programs) {
    if (std::ranges::find(programs, rule) == programs.end()) programs.push_back(std::move(rule));
  }
  rights.programs = std::move(programs);
}

// ---- What is missing.

bool HasAll(const std::vector<std::string>& all, const std::vector<std::string>& some) {
  return std::ranges::all_of(
      some, [&](const std::string& one) { return std::ranges::find(all, one) != all.end(); });
}

bool Covers(const ProgramRule& granted, const ProgramRule& rule) {
  return granted.path == rule.path && HasAll(granted.arguments, rule.arguments) &&
         HasAll(granted.prefixes, rule.prefixes) && HasAll(granted.variables, rule.variables) &&
         HasAll(granted.devices, rule.devices) && granted.network >= rule.network &&
         granted.reads_processes >= rule.reads_processes;
}

bool CoversAny(const Rights& granted, const ProgramRule& rule) {
  return std::ranges::any_of(granted.programs, [&](const ProgramRule& one) { return Covers(one, rule); });
}

constexpr std::string_view kItself = "/proc/self/exe";

// "/usr/bin/sinfo"; "gpulens reader nvml --library=/opt/libnvidia-ml.so.1", without what every one has.
std::string NameOfProgram(const ProgramRule& rule) {
  if (rule.path != kItself) return rule.path;
  std::string out = "gpulens";
  for (const std::string& argument : rule.arguments) {
    const bool usual = argument == "--simulated" || argument.starts_with("--build-id=");
    if (!usual) out += " " + argument;
  }
  return out;
}

std::string NameOfKept(int capability) {
  if (capability == CAP_NET_BIND_SERVICE) return "CAP_NET_BIND_SERVICE to listen at a port below 1024";
  if (capability == CAP_SYSLOG) return "CAP_SYSLOG to read the kernel's log";
  if (capability == CAP_DAC_OVERRIDE) return "CAP_DAC_OVERRIDE to write a folder of another user";
  return "capability " + std::to_string(capability);
}

}  // namespace

Rights RightsOf(const Config& config, const Env& env) {
  Rights out;
  if (!env.state_dir.empty()) out.folders.push_back(env.state_dir);
  AddControlSocket(config, out);
  AddJobPages(config, out);
  for (const char* group : {"http", "websocket"}) AddListeners(config.Group(group), out);
  AddPlugins(config, env, out);
  // Of a target with `isolate`, which a discovery may find later. It has fewer rights than the agent.
  out.programs.push_back(PageReaderRule());
  AddCapabilities(out);
  Clean(out);
  return out;
}

std::string MissingRights(const Rights& granted, const Rights& present, const Rights& later) {
  std::string needs;
  const auto add = [&](const std::string& what) { needs += (needs.empty() ? "" : ", ") + what; };
  for (const std::string& folder : later.folders) {
    const auto holds = [&](const std::string& other) { return IsBelow(folder, other); };
    if (std::ranges::none_of(granted.folders, holds)) add("to write " + folder);
  }
  for (const std::string& device : later.devices) {
    if (std::ranges::find(granted.devices, device) == granted.devices.end()) add("to open " + device);
  }
  for (const ProgramRule& rule : later.programs) {
    if (!CoversAny(granted, rule) && !CoversAny(present, rule)) add("to start " + NameOfProgram(rule));
  }
  for (int capability : later.capabilities) {
    if (std::ranges::find(granted.capabilities, capability) == granted.capabilities.end())
      add(NameOfKept(capability));
  }
  if (needs.empty()) return {};
  return "it needs " + needs + ", which it may not since it started: restart the agent";
}

}  // namespace gpulens

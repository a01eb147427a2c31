#include "cli/commands.h"

#include <linux/capability.h>
#include <signal.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/control/control_socket.h"
#include "agent/run/config_file.h"
#include "agent/run/plan.h"
#include "base/check.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/parse.h"
#include "base/sandbox/launcher.h"
#include "base/sandbox/sandbox.h"
#include "base/text.h"
#include "cli/common/output.h"
#include "cli/help/help.h"
#include "scrape/page_process.h"
#include "sdk/energy/engine.h"
#include "sdk/energy/feed/feed_server.h"
#include "sdk/energy/sources/system_sources.h"
#include "sources/amdsmi/reader/amdsmi_library.h"
#include "sources/amdsmi/simulated/fake_world.h"
#include "sources/nvml/capture/recorder.h"
#include "sources/nvml/reader/nvml_process.h"
#include "sources/nvml/simulated/fake_world.h"

namespace gpulens {
namespace {

// Longer than the agent itself waits for the end of a reader process.
constexpr Duration kTimeout = std::chrono::seconds(30);
constexpr Duration kStatusTimeout = std::chrono::seconds(2);

// Removes the argument that begins with `key` and returns the rest of it.
std::string_view TakeValue(std::vector<std::string_view>& arguments, std::string_view key) {
  for (auto at = arguments.begin(); at != arguments.end(); ++at) {
    if (!at->starts_with(key)) continue;
    std::string_view value = at->substr(key.size());
    arguments.erase(at);
    return value;
  }
  return {};
}

// Reads energy for programs that query the agent; visible-device variables of this process do not apply to
// them.
int RunEnergyReader(std::string_view listening, bool simulated) {
  const auto fd = ParseInt<int>(listening);
  if (!fd || *fd < 3) return nvml::kReaderBadStart;
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"})
    ::unsetenv(name);
  sdk::FeedServer::Sources sources = {
      std::make_shared<sdk::NvmlEnergy>(simulated ? nvml::FakeNvmlLookup : nullptr, RealClock())};
  if (!simulated) sources.push_back(std::make_shared<sdk::AmdEnergy>(nullptr, RealClock()));
  sdk::FeedServer server(UniqueFd(*fd), std::move(sources), sdk::SteadyClock(),
                         {.mark = simulated ? " (simulated)" : ""});
  server.Run();
  return 0;
}

constexpr const char* kGpuFooter = R"(
  gpulens gpu release --for 5m && nvidia-smi --gpu-reset && gpulens gpu resume

Returns when the agent holds no GPU open.
Exit: 0 done · 1 no agent, or its reader process does not end · 2 wrong use)";

// `gpulens gpu release|resume|status`.
struct GpuOrder {
  std::string verb;    // release, resume, status
  std::string length;  // of a release; empty: until it is resumed
  std::string socket;  // empty: as configured
  std::string config_file;
};

// Returns the exit code: 0 done, 1 not done (no agent, the process does not end), 2 wrong use.
int RunGpuOrder(const GpuOrder& order) {
  std::string command = "nvml " + order.verb + (order.length.empty() ? "" : " " + order.length);
  if (Result<ControlCommand> good = ParseControlCommand(command); !good) {
    return FailCommand("gpu", good.error().detail, 2);
  }
  return QueryAndPrint({"gpulens gpu", command, order.socket, order.config_file});
}

}  // namespace

std::string ControlSocketOf(const Config& config) {
  const std::string& path = config.Group("control").Text("socket");
  return path.empty() ? DefaultControlSocket() : path;
}

int QueryAndPrint(const AgentQuestion& question) {
  std::string path = question.socket;
  if (path.empty()) {
    const CommandConfig loaded = LoadCommandConfig(question.config_file);
    if (!loaded.ok()) return 2;
    path = ControlSocketOf(loaded.config());
  }
  if (path.empty() || path == "none") {
    WriteNote(question.who + ": there is no control socket; set one with --socket");
    return 1;
  }
  Result<std::string> answer = QueryAgent(path, question.command, kTimeout);
  if (!answer) {
    bool away = answer.error().code == Code::kUnavailable;
    WriteNote(question.who + ": " + answer.error().detail +
              (away ? "; is the agent running, as this user or as root?" : ""));
    return 1;
  }
  const std::string text = Printable(*answer);
  if (text.starts_with("ok ")) {
    std::string_view rest = std::string_view(text).substr(3);
    while (!rest.empty()) {
      std::string_view line = TakeUntil(rest, ';');
      std::printf("%.*s\n", static_cast<int>(line.size()), line.data());
    }
    return 0;
  }
  WriteNote(question.who + ": " + (text.starts_with("error ") ? text.substr(6) : text));
  return 1;
}

std::string QueryDriverStatus(const Config& config) {
  std::string path = ControlSocketOf(config);
  if (path.empty() || path == "none") return {};
  Result<std::string> answer = QueryAgent(path, "nvml status", kStatusTimeout);
  return answer && answer->starts_with("ok ") ? Printable(std::string_view(*answer).substr(3)) : "";
}

namespace {

// A reader process of a vendor's library, and what it may do besides what all may.
struct VendorReader {
  std::string_view library;
  bool all_files = false;
  const char* writes = nullptr;
  int capability = -1;  // besides CAP_SYS_ADMIN, for what drivers report to an administrator only
};
constexpr VendorReader kVendorReaders[] = {
    {.library = "nvml"},
    // Lists the processes of a GPU by /proc/PID/fdinfo, which Landlock hides, and which of other users'
    // processes needs CAP_SYS_PTRACE.
    {.library = "amdsmi", .all_files = true, .capability = CAP_SYS_PTRACE},
    {.library = "energy", .writes = "/dev/shm"},  // locks of AMD SMI
};

// What a vendor's library opens: itself and what it needs, the kernel driver's files, device files.
constexpr std::string_view kLibraryFolders[] = {"/usr",
                                                "/lib",
                                                "/lib32",
                                                "/lib64",
                                                "/opt",
                                                "/nix",
                                                "/gnu",
                                                "/proc",
                                                "/sys",
                                                "/etc/ld.so.cache",
                                                "/etc/ld.so.preload",
                                                "/etc/localtime",
                                                "/etc/nvidia",
                                                "/etc/amd",
                                                "/etc/os-release",
                                                "/etc/passwd",
                                                "/etc/group",
                                                "/etc/nsswitch.conf"};
// Names in /dev, and in /run, begin with one of these.
constexpr std::string_view kDevices[] = {"nvidia", "dri", "kfd"};
constexpr std::string_view kRunFolders[] = {"nvidia"};  // of a driver in a container; nvidia-persistenced

void AddNamesIn(const std::string& folder, std::span<const std::string_view> starts,
                std::vector<std::string>& to) {
  static_cast<void>(ForEachName(folder, [&](std::string_view name) {
    if (std::ranges::any_of(starts, [&](std::string_view start) { return name.starts_with(start); }))
      to.push_back(folder + "/" + std::string(name));
    return true;
  }));
}

std::string FolderOf(std::string_view path) { return std::string(path.substr(0, path.rfind('/'))); }

// Confines this process before a library of a vendor is opened. `spool`: a file that is written.
void ConfineReaderProcess(const VendorReader& reader, std::string_view library_path, std::string_view spool) {
  SandboxPlan plan{.mode = ReaderSandboxMode(),
                   .filter = CallFilter::kReader,
                   .files = {},
                   .capabilities = {CAP_SYS_ADMIN}};
  if (reader.capability >= 0) plan.capabilities.push_back(reader.capability);
  if (!reader.all_files) {
    FileRights& files = plan.files.emplace();
    for (std::string_view folder : kLibraryFolders) files.read.emplace_back(folder);
    AddNamesIn("/run", kRunFolders, files.read);
    AddNamesIn("/dev", kDevices, files.devices);
    AllowHarmlessDevices(files);
    if (reader.writes) files.write.emplace_back(reader.writes);
    if (library_path.find('/') != std::string_view::npos) files.read.push_back(FolderOf(library_path));
    if (const char* folders = std::getenv("LD_LIBRARY_PATH")) {
      for (std::string_view rest = folders; !rest.empty();) files.read.emplace_back(TakeUntil(rest, ':'));
    }
    // Files that simulated libraries follow.
    for (const char* variable : {"GPULENS_FAKE_NVML", "GPULENS_FAKE_NVML_FAULTS", "GPULENS_FAKE_AMDSMI"}) {
      if (const char* path = std::getenv(variable)) files.read.push_back(FolderOf(path));
    }
    files.write.push_back("/proc/self");  // names of its threads
    if (!spool.empty()) files.write.push_back(FolderOf(spool));
  }
  static_cast<void>(EnterSandbox(plan));
}

const VendorReader* FindVendorReader(std::string_view library) noexcept {
  const auto* at = std::ranges::find(kVendorReaders, library, &VendorReader::library);
  return at == std::end(kVendorReaders) ? nullptr : at;
}

}  // namespace

bool IsDriverProcess(std::string_view library) noexcept {
  return FindVendorReader(library) != nullptr || library == "page";
}

void RunReaderProcess(std::span<const std::string_view> arguments) {
  ReleaseStartPages();  // Half of the mapped pages are relocations and start-up code.
  std::vector<std::string_view> rest(arguments.begin(), arguments.end());
  if (rest.empty()) ::_exit(nvml::kReaderBadStart);
  std::string_view library = rest.front();
  rest.erase(rest.begin());
  // Ctrl-C and the end of a terminal reach its whole group. This process ends when the agent closes the
  // socket.
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_IGN);
  if (library == "page") ::_exit(RunPageReader(rest));
  bool simulated = !rest.empty() && rest.front() == "--simulated";
  if (simulated) rest.erase(rest.begin());
  UseInheritedLauncher();
  const std::string_view spool = TakeValue(rest, "--record=");
  std::string_view gpus = TakeValue(rest, "--record-gpus="), library_path;
  for (std::string_view argument : rest) {
    if (argument.starts_with("--library=")) library_path = argument.substr(10);
  }
  const VendorReader* reader = FindVendorReader(library);
  CHECK(reader != nullptr);
  ConfineReaderProcess(*reader, library_path, spool);
  if (library == "energy") ::_exit(RunEnergyReader(TakeValue(rest, "--listen-fd="), simulated));
  if (library == "amdsmi")
    ::_exit(amdsmi::RunAmdsmiReader(rest, simulated ? amdsmi::FakeAmdsmiLookup : nullptr));
  CHECK(library == "nvml");
  auto options = nvml::ParseReaderArguments(rest);
  if (!options) ::_exit(nvml::kReaderBadStart);
  if (simulated) options->lookup = nvml::FakeNvmlLookup;
  if (!spool.empty()) {
    nvml::RecorderOptions recorder{.spool = std::string(spool),
                                   .library_path = options->library_path,
                                   .lookup = options->lookup,
                                   .clock = nullptr,
                                   .gpus = {}};
    while (!gpus.empty()) {
      if (auto gpu = ParseInt<unsigned>(TakeUntil(gpus, ','))) recorder.gpus.push_back(*gpu);
    }
    if (!nvml::StartRecorder(std::move(recorder)).ok()) ::_exit(nvml::kReaderBadStart);
    options->lookup = nvml::RecorderLookup;
  }
  ::_exit(nvml::RunNvmlReader(*options));
}

void AddGpu(CLI::App& app, int& code) {
  auto kept = std::make_shared<GpuOrder>();
  CLI::App* gpu = app.add_subcommand("gpu", "Release the GPUs of a running agent, and resume.");
  gpu->alias("driver")->group("Set up");
  gpu->require_subcommand(1);
  gpu->footer(kGpuFooter);
  auto add = [&](const char* verb, const char* help) {
    CLI::App* command = gpu->add_subcommand(verb, help);
    AddOption(*command, "--socket", kept->socket, "The agent's control socket", "PATH");
    AddConfigOption(*command, kept->config_file);
    command->callback([kept, &code, verb] {
      kept->verb = verb;
      code = RunGpuOrder(*kept);
    });
    return command;
  };
  add("release", "Close all GPUs: the agent ends its reader process.")
      ->add_option("--for", kept->length, "Resume after this time")
      ->type_name("D");
  add("resume", "Open the GPUs again.");
  add("status", "Report whether the GPUs are open or released.");
}

}  // namespace gpulens

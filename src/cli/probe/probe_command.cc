#include "cli/probe/probe_command.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "agent/plugin_tables.h"
#include "agent/run/config_file.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/sandbox/sandbox.h"
#include "cli/common/output.h"
#include "cli/help/help.h"
#include "config/value_parse.h"
#include "job_page/job_page.h"
#include "plugins/collectors/probes/bpf_backend.h"
#include "plugins/collectors/probes/probe_client.h"
#include "plugins/collectors/probes/probe_process.h"
#include "plugins/collectors/probes/probes.h"

namespace gpulens {
namespace {

using probes::ProbeClient;
using probes::ProbeReply;
using probes::ProbeRequest;
using probes::RequestVerb;

constexpr Duration kAnswerTime = std::chrono::seconds(10);
constexpr Duration kSwitchTime = std::chrono::seconds(2);
constexpr Duration kDetachTime = std::chrono::seconds(5);

struct ProbeOptions {
  std::string socket, config_file;
  std::string pid, probes = "cuda", length = "5m", budget, reason, word;
  bool json = false, watch = false;
};

// The group `collectors.probes`; the defaults for a file that cannot be read by this user.
Result<Config> ProbesGroup(const std::string& config_file) {
  const CommandConfig loaded = LoadCommandConfig(config_file);
  if (!loaded.ok()) return Status{Code::kInvalidArgument, "the configuration has errors"};
  return loaded.config().Group("collectors").Group("probes");
}

Result<std::string> SocketOf(const ProbeOptions& options) {
  if (!options.socket.empty()) return options.socket;
  ASSIGN_OR_RETURN(const Config group, ProbesGroup(options.config_file));
  return probes::ProbeSocketOf(group);
}

Result<ProbeReply> Request(const ProbeOptions& options, const ProbeRequest& request,
                           Duration timeout = kAnswerTime) {
  ASSIGN_OR_RETURN(const std::string path, SocketOf(options));
  ASSIGN_OR_RETURN(ProbeClient client, ProbeClient::Connect(path));
  return client.Send(request, timeout);
}

// Without a terminal lines are as long as they are.
size_t Width() {
  constexpr size_t kAnyWidth = 100'000;
  return ::isatty(STDOUT_FILENO) == 1 ? static_cast<size_t>(TerminalColumns(STDOUT_FILENO)) : kAnyWidth;
}

int Refused(const ProbeReply& reply) {
  WriteNote("gpulens probe: " + ProbeRefusalText(reply.refusal, reply.sentence, reply.row));
  return 1;
}

// 0: all.
Result<int64_t> PidOf(const std::string& text) {
  if (text.empty() || text == "all") return 0;
  const auto pid = ParseInt<int64_t>(text);
  if (!pid || *pid < 1 || *pid > 1 << 22)
    return Status{Code::kInvalidArgument, "\"" + Printable(text) + "\" is no number of a process"};
  return *pid;
}

Result<int> RunList(const ProbeOptions& options) {
  ProbeRequest request;
  request.verb = RequestVerb::kList;
  ASSIGN_OR_RETURN(request.pid, PidOf(options.pid));
  Result<ProbeReply> reply = Request(options, request);
  std::string note;
  if (!reply && reply.error().code != Code::kInvalidArgument) {
    // What this user may look into needs no probe host.
    note = reply.error().detail + "; this is what you may look into";
    Result<std::vector<probes::ListedTarget>> own = probes::ListProbeTargets("/proc", request.pid);
    if (!own) return own.error();
    reply = ProbeReply();
    reply->targets = *std::move(own);
  }
  if (!reply) return reply.error();
  if (!reply->refusal.empty()) return Refused(*reply);
  if (options.json) return PrintText(ProbeListJson(*reply));
  WriteText(ProbeListText(*reply, Width()));
  if (!note.empty()) WriteNote("▲ " + note);
  return 0;
}

Result<int> RunStatus(const ProbeOptions& options) {
  ProbeRequest request;
  request.verb = RequestVerb::kStatus;
  ASSIGN_OR_RETURN(const ProbeReply reply, Request(options, request));
  if (options.json) return PrintText(ProbeStatusJson(reply.status));
  return PrintText(TerminalLines(ProbeStatusText(reply.status, Width())));
}

// Prints a line a second until the target has no probes any more. Ctrl-C ends the command, not the probes.
int Watch(const ProbeOptions& options, int64_t pid) {
  ProbeRequest request;
  request.verb = RequestVerb::kStatus;
  uint64_t before = 0;
  for (bool first = true;; first = false) {
    const Result<ProbeReply> reply = Request(options, request);
    if (!reply) return FailCommand("probe", reply.status());
    const auto& targets = reply->status.targets;
    const auto target = std::ranges::find(targets, pid, &probes::AttachedTarget::pid);
    if (target == targets.end()) return PrintText("its probes are detached\n");
    uint64_t launches = 0;
    job_page::HistogramCopy enqueue;
    for (const probes::ProcessCounts& process : reply->status.processes) {
      if (process.root != pid) continue;
      for (const uint64_t one : process.launches) launches += one;
      for (const job_page::HistogramCopy& one : process.enqueue) {
        enqueue.count += one.count;
        for (size_t i = 0; i < enqueue.buckets.size(); ++i) enqueue.buckets[i] += one.buckets[i];
      }
    }
    if (!first) {
      std::printf("%s launches, %s/s, p50 %.3g us, p99 %.3g us, %s\n",
                  CountText(static_cast<int64_t>(launches)).c_str(),
                  CountText(static_cast<int64_t>(launches - std::min(before, launches))).c_str(),
                  ProbeQuantile(enqueue, 0.5) * 1e6, ProbeQuantile(enqueue, 0.99) * 1e6,
                  std::string(probes::MeasuringName(target->measuring)).c_str());
      std::fflush(stdout);
    }
    before = launches;
    ::poll(nullptr, 0, 1000);
  }
}

Result<int> RunAttach(const ProbeOptions& options) {
  ProbeRequest request;
  request.verb = RequestVerb::kAttach;
  ASSIGN_OR_RETURN(request.pid, PidOf(options.pid));
  if (request.pid == 0) return Status{Code::kInvalidArgument, "attach needs the number of a process"};
  ASSIGN_OR_RETURN(request.probes, probes::ParseProbes(options.probes));
  Duration length{};
  if (ParseTimeValue(options.length, length) || length <= Duration(0) || length > std::chrono::hours(24))
    return Status{Code::kInvalidArgument, "--for must be a time of at most 24h: 60s, 5m"};
  request.for_ns = length.count();
  if (!options.budget.empty()) {
    ASSIGN_OR_RETURN(request.budget_ppm, probes::ParseShare(options.budget));
  }
  ASSIGN_OR_RETURN(const ProbeReply reply, Request(options, request));
  if (!reply.refusal.empty()) return Refused(reply);
  std::string text = probes::ProbeNames(request.probes) + " probes are attached to process " +
                     std::to_string(request.pid) + " for " + options.length;
  if (reply.status.entry_cost_ns > 0)
    text += Printed(": a counted call costs %.0f ns,", reply.status.entry_cost_ns) +
            Printed(" a timed one %.0f ns", reply.status.pair_cost_ns);
  WriteText(text + "\n");
  if (!reply.sentence.empty()) WriteNote("▲ " + reply.sentence);
  return options.watch ? Watch(options, request.pid) : 0;
}

Result<int> RunDetach(const ProbeOptions& options) {
  ProbeRequest request;
  request.verb = RequestVerb::kDetach;
  ASSIGN_OR_RETURN(request.pid, PidOf(options.pid));
  ASSIGN_OR_RETURN(const ProbeReply reply, Request(options, request));
  if (!reply.refusal.empty()) return Refused(reply);
  WriteText("detached" + Printed(", %.2f s\n", reply.took_s));
  return 0;
}

// The file itself switches probes off, for libraries inside jobs, too; so it is written also where no probe
// host answers.
Result<int> RunSwitch(const ProbeOptions& options) {
  const bool off = options.word == "on";
  const int64_t begun_ns = RealClock().Now().boot_ns;
  ProbeRequest request;
  request.verb = RequestVerb::kSwitch;
  request.switch_off = off;
  request.reason = options.reason.substr(0, probes::kMostTextBytes / 2);
  Result<ProbeReply> reply = Request(options, request, kSwitchTime);
  if (reply && reply->refusal == "not_permitted") return Refused(*reply);
  if (!reply || !reply->refusal.empty()) {
    const std::string file = job_page::kSwitchFiles[0];
    if (off) {
      static_cast<void>(MakeFoldersAbove(file));
      RETURN_IF_ERROR(WriteFileAtomically(file, options.reason + "\n", {.mode = 0644, .sync = false}));
    } else if (::unlink(file.c_str()) != 0 && errno != ENOENT) {
      return ErrnoStatus("remove " + file, errno);
    }
    if (reply && !off) return Refused(*reply);
  }
  if (!off) {
    WriteText("probes may be attached again\n");
    return 0;
  }
  ProbeRequest status;
  status.verb = RequestVerb::kStatus;
  while (RealClock().Now().boot_ns - begun_ns < kDetachTime.count()) {
    const Result<ProbeReply> seen = Request(options, status, kSwitchTime);
    if (!seen && seen.error().code == Code::kUnavailable) {
      WriteText("probes are switched off; no probe host runs\n");
      return 0;
    }
    if (seen && seen->status.links == 0) {
      const double took = static_cast<double>(RealClock().Now().boot_ns - begun_ns) * 1e-9;
      WriteText(Printed("0 probes attached, %.2f s\n", took));
      return 0;
    }
    ::poll(nullptr, 0, 50);
  }
  return Status{Code::kTimeout, "probes are still attached: the probe host does not answer; kill it"};
}

int RunHost(const ProbeOptions& options, const std::vector<std::string>& switch_files) {
  Result<Config> group = ProbesGroup(options.config_file);
  if (!group) return 2;
  SetLogOptions({.level = LogLevel::kInfo, .format = LogFormat::kText, .utc = true});
  probes::ProbeProcessOptions process;
  process.socket = options.socket.empty() ? probes::ProbeSocketOf(*group) : options.socket;
  process.sandbox = ReaderSandboxMode();
  if (!switch_files.empty()) process.switch_files = switch_files;
  process.load = [file = options.config_file]() -> Result<probes::ProbeHostOptions> {
    ASSIGN_OR_RETURN(const Config read, ProbesGroup(file));
    return probes::ProbeHostOptionsOf(read);
  };
  process.make_backend = [] { return probes::MakeBpfBackend(); };
  return probes::RunProbeProcess(process);
}

constexpr const char* kProbeFooter = R"(
  gpulens probe list                   processes that use CUDA, and what can be probed
  gpulens probe attach 4242            count and time its launches for 5 minutes
  gpulens probe attach 4242 --probes cuda,dataload --for 60s --watch
  gpulens probe status
  gpulens probe kill-switch on --reason "measuring without us"

Probes are attached by `gpulens probe-host`, and counted by an agent with
collectors.probes.enabled. They cost at most the budget: docs/probes.md.
Exit: 0 done · 1 refused, or no probe host · 2 wrong use)";

constexpr const char* kHostFooter = R"(
It must have CAP_BPF and CAP_PERFMON, and for processes of other users
CAP_SYS_PTRACE. The package has a unit: systemctl enable --now gpulens-probes.
SIGHUP reads the configuration again.
Exit: 0 stopped by Ctrl-C or SIGTERM · 1 cannot listen, or was killed · 2 wrong
      configuration)";

}  // namespace

void AddProbe(CLI::App& app, int& code) {
  auto kept = std::make_shared<ProbeOptions>();
  CLI::App* probe = app.add_subcommand("probe", "Attach probes to processes that use CUDA, and detach.");
  probe->group("Set up");
  probe->require_subcommand(1);
  probe->footer(kProbeFooter);
  const auto add = [&](const char* verb, const char* help, Result<int> (*run)(const ProbeOptions&)) {
    CLI::App* command = probe->add_subcommand(verb, help);
    AddOption(*command, "--socket", kept->socket, "The probe host's socket", "PATH");
    AddConfigOption(*command, kept->config_file);
    command->callback([kept, &code, run] { code = ExitCode("probe", run(*kept)); });
    return command;
  };
  CLI::App* list = add("list", "List processes that use CUDA, and what can be probed, or why not.", &RunList);
  AddOption(*list, "--pid", kept->pid, "This process alone", "PID");
  list->add_flag("--json", kept->json, "JSON");
  CLI::App* attach = add("attach", "Attach probes to a process and what it forks.", &RunAttach);
  attach->add_option("PID", kept->pid, "Number of the process")->required();
  AddOption(*attach, "--probes", kept->probes,
            "cuda: launches and waits for the GPU; dataload: waits for data", "P")
      ->capture_default_str();
  AddOption(*attach, "--for", kept->length, "Detach after this time", "D")->capture_default_str();
  AddOption(*attach, "--budget", kept->budget, "Less than the configured share of a thread: 0.1%", "SHARE");
  attach->add_flag("--watch", kept->watch, "Print counts each second until it is detached");
  CLI::App* detach = add("detach", "Remove the probes of a process, or all.", &RunDetach);
  detach->add_option("PID", kept->pid, "Number of the process, or all")->required();
  CLI::App* status = add("status", "Show what is attached, what it counts and what it costs.", &RunStatus);
  status->add_flag("--json", kept->json, "JSON");
  CLI::App* kill =
      add("kill-switch", "on: remove all probes, and let none be attached until off.", &RunSwitch);
  kill->add_option("WORD", kept->word, "on or off")->required()->check(CLI::IsMember({"on", "off"}));
  AddOption(*kill, "--reason", kept->reason, "Why, for who finds probes switched off", "TEXT");
}

void AddProbeHost(CLI::App& app, int& code) {
  struct HostOptions {
    ProbeOptions probe;
    std::vector<std::string> switch_files;
  };
  auto kept = std::make_shared<HostOptions>();
  CLI::App* host = app.add_subcommand("probe-host", "Run the process that attaches probes; docs/probes.md.");
  host->group("Set up");
  AddOption(*host, "--socket", kept->probe.socket, "Where it listens (default: collectors.probes.socket)",
            "PATH");
  AddOption(*host, "--switch-file", kept->switch_files,
            "A file that switches probes off, instead of /run/gpulens/probes.off and /etc/gpulens/probes.off",
            "PATH");
  AddConfigOption(*host, kept->probe.config_file);
  host->footer(kHostFooter);
  host->callback([kept, &code] { code = RunHost(kept->probe, kept->switch_files); });
}

}  // namespace gpulens

#include "agent/cli/doctor_command.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "agent/cli/driver_release.h"
#include "agent/control/driver_finding.h"
#include "agent/found/discovery_runner.h"
#include "agent/plugin_tables.h"
#include "agent/run/config_file.h"
#include "agent/run/plan.h"
#include "base/fd.h"
#include "base/text.h"
#include "net/address.h"

namespace gpulens {
namespace {

constexpr std::string_view kKindNames[] = {"found", "not_here", "no_permission", "broken"};

// Whether something takes connections there: an agent, most likely. Loopback answers at once.
bool Listens(const std::string& address) {
  Result<Endpoint> endpoint = ParseListenAddress(address);
  if (!endpoint || !endpoint->IsLoopback()) return false;
  sockaddr_storage to;
  socklen_t length = endpoint->ToSockaddr(to);
  UniqueFd fd(::socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return fd && ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), length) == 0;
}

std::vector<Finding> LookEverywhere(const Config& config, Env& env) {
  std::vector<Finding> findings;
  for (const CollectorSpec* spec : AllCollectors()) {
    const Config& own = config.Group("collectors").Group(spec->name);
    if (!spec->probe || !own.Bool("enabled")) continue;
    for (Finding& finding : spec->probe(own, env)) findings.push_back(std::move(finding));
  }
  for (const DiscoverySpec* spec : AllDiscoveries()) {
    if (!spec->probe || !Wanted(*spec, config)) continue;
    const Config& own = config.Group("discovery").Group(spec->name);
    for (Finding& finding : spec->probe(own, env)) findings.push_back(std::move(finding));
  }
  for (const EnricherSpec* spec : AllEnrichers()) {
    const Config& own = config.Group("enrichers").Group(spec->name);
    if (!spec->probe || !own.Bool("enabled")) continue;
    for (Finding& finding : spec->probe(own, env)) findings.push_back(std::move(finding));
  }
  return findings;
}

std::string PaddedSubject(std::string_view text, size_t width) {
  std::string out(text);
  out.resize(std::max(out.size() + 1, width), ' ');
  return out;
}

size_t Count(const std::vector<Finding>& findings, Finding::Kind kind) {
  return static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.kind == kind; }));
}

std::string Plural(size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

void AppendProblems(std::string& out, const std::vector<Finding>& findings, Finding::Kind kind,
                    std::string_view mark) {
  for (const Finding& finding : findings) {
    if (finding.kind != kind) continue;
    out += "  " + std::string(mark) + " " + PaddedSubject(finding.subject, 11) + " " + finding.what + "\n";
    if (!finding.why.empty()) out += "      why  " + finding.why + "\n";
    if (!finding.remedy.empty()) out += "      do   " + finding.remedy + "\n";
  }
}

std::string Text(const std::vector<Finding>& findings, const std::string& agent_at) {
  size_t broken = Count(findings, Finding::kBroken), limited = Count(findings, Finding::kNoPermission);
  size_t found = Count(findings, Finding::kFound);
  bool gpu = std::any_of(findings.begin(), findings.end(),
                         [](const Finding& f) { return f.kind == Finding::kFound && f.subject == "nvidia"; });
  std::string out;
  if (broken) out = "✖ " + Plural(broken, "fault") + (limited ? ", " + Plural(limited, "limit") : "") + ".";
  else if (limited) out = "▲ " + Plural(limited, "limit") + ", nothing is broken.";
  else
    out = "● fine: " + Plural(found, "source") + (found == 1 ? " works" : " work") + ", nothing is broken.";
  out += gpu ? "\n" : " No GPU was found.\n";
  AppendProblems(out, findings, Finding::kBroken, "✖");
  AppendProblems(out, findings, Finding::kNoPermission, "▲");
  for (const Finding& finding : findings) {
    if (finding.kind == Finding::kFound)
      out += "  found      " + PaddedSubject(finding.subject, 11) + finding.what + "\n";
  }
  std::string away;
  for (const Finding& finding : findings) {
    if (finding.kind != Finding::kNotHere) continue;
    away += (away.empty() ? "" : "   ") + finding.subject + " (" +
            (finding.why.empty() ? finding.what : finding.why) + ")";
  }
  if (!away.empty()) out += "  not here   " + away + "\n";
  if (agent_at.empty())
    out += "  agent      not running.   do: gpulens agent      to see it with GPUs: gpulens agent --demo\n";
  else out += "  agent      something serves http://" + agent_at + "/\n";
  return out;
}

std::string Json(const std::vector<Finding>& findings, const std::string& agent_at) {
  std::string out = "{\"schema\":\"gpulens.doctor/1\",\"agent\":";
  if (agent_at.empty()) out += "null";
  else AppendJsonString(out, "http://" + agent_at + "/");
  out += ",\"findings\":[";
  for (const Finding& finding : findings) {
    if (out.back() != '[') out += ',';
    auto field = [&](std::string_view key, std::string_view value) {
      if (value.empty()) return;
      if (out.back() != '{') out += ',';
      AppendJsonString(out, key);
      out += ':';
      AppendJsonString(out, value);
    };
    out += "\n{";
    field("kind", kKindNames[finding.kind]);
    field("subject", finding.subject);
    field("what", finding.what);
    field("why", finding.why);
    field("do", finding.remedy);
    out += '}';
  }
  return out + "\n]}\n";
}

}  // namespace

int RunDoctor(const DoctorOptions& options) {
  std::unique_ptr<Schema> schema = MakeSchema();
  LoadOutcome loaded = LoadConfig(*schema, FindConfigFile(options.config_file), options.flags);
  std::string report = loaded.Report();
  if (!report.empty()) ::dprintf(STDERR_FILENO, "%s", report.c_str());
  if (!loaded.ok()) return 2;
  Env env;
  std::vector<Finding> findings = LookEverywhere(loaded.config, env);
  if (std::optional<Finding> driver = DriverFinding(AskDriverStatus(loaded.config)))
    findings.push_back(*std::move(driver));
  std::string agent_at;
  for (const std::string& address : loaded.config.Group("http").Texts("listen")) {
    if (agent_at.empty() && Listens(address)) agent_at = address;
  }
  std::fputs((options.json ? Json(findings, agent_at) : Text(findings, agent_at)).c_str(), stdout);
  if (Count(findings, Finding::kBroken)) return 2;
  return Count(findings, Finding::kNoPermission) ? 1 : 0;
}

}  // namespace gpulens

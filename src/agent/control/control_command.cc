#include "agent/control/control_command.h"

#include <unistd.h>
#include <cstdlib>
#include <string>

#include "base/parse.h"
#include "base/text.h"
#include "config/value_parse.h"

namespace gpulens {

namespace {

constexpr Duration kLongestRelease = std::chrono::hours(24);

Status Wrong(std::string_view what) {
  std::string text(what);
  return {
      Code::kInvalidArgument,
      text +
          "; expected: agent status, xid clear [GPU], nvml release [DURATION], nvml resume or nvml status"};
}

// An index or a UUID; empty: every GPU.
bool IsGpuName(std::string_view name) {
  if (name.size() > 64) return false;
  for (char c : name) {
    bool good = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
    if (!good) return false;
  }
  return true;
}

}  // namespace

Result<ControlCommand> ParseControlCommand(std::string_view line) {
  if (line.size() > kMaxControlLine) return Wrong("the command is too long");
  std::string_view rest = Trim(line);
  std::string_view driver = TakeUntil(rest, ' ');
  rest = Trim(rest);
  std::string_view verb = TakeUntil(rest, ' ');
  rest = Trim(rest);
  ControlCommand out;
  if (driver == "agent" && verb == "status" && rest.empty()) {
    out.verb = ControlCommand::kAgentStatus;
    return out;
  }
  if (driver == "xid" && verb == "clear") {
    if (!IsGpuName(rest)) return Wrong("expected the index or the UUID of a GPU");
    out.verb = ControlCommand::kXidClear;
    out.words = rest;
    return out;
  }
  if (driver != "nvml") return Wrong("no such driver");
  if (verb == "release") {
    out.verb = ControlCommand::kRelease;
    if (rest.empty()) return out;
    if (auto problem = ParseTimeValue(rest, out.length)) return Wrong("invalid duration");
    if (out.length <= Duration(0) || out.length > kLongestRelease)
      return Wrong("the duration must be more than 0 s and at most 24 h");
    return out;
  }
  if (verb == "fail" || verb == "heal") {
    out.verb = verb == "fail" ? ControlCommand::kFail : ControlCommand::kHeal;
    out.words = rest;
    return out;
  }
  if (!rest.empty()) return Wrong("unexpected text after the command");
  if (verb == "resume") out.verb = ControlCommand::kResume;
  else if (verb == "faults") out.verb = ControlCommand::kFaults;
  else if (verb != "status") return Wrong("no such command");
  return out;
}

std::string DefaultControlSocket() {
  if (::geteuid() == 0) return "/run/gpulens/gpulens.sock";
  // A service has a folder of its own, under the name that root looks for.
  const char* service = ::getenv("RUNTIME_DIRECTORY");
  if (service && *service == '/') return std::string(service) + "/gpulens.sock";
  const char* folder = ::getenv("XDG_RUNTIME_DIR");
  return folder && *folder == '/' ? std::string(folder) + "/gpulens/gpulens.sock" : std::string();
}

std::optional<Finding> DriverFinding(std::string_view status) {
  constexpr std::string_view kBut = "running, but ";
  Finding finding;
  finding.subject = "nvidia";
  // "releasing: …": the process has not ended yet; nothing is read meanwhile, either.
  if (status.starts_with("released") || status.starts_with("releasing")) {
    finding.kind = Finding::kNoPermission;
    finding.what = "the running agent reads no GPU";
    finding.why = "its reader process is " + std::string(status);
    finding.remedy = "gpulens gpu resume";
    return finding;
  }
  if (!status.starts_with(kBut)) return std::nullopt;
  finding.kind = Finding::kBroken;
  finding.what = "the running agent receives no XIDs or other GPU events";
  finding.why = status.substr(kBut.size());
  finding.remedy = "gpulens gpu release, then gpulens gpu resume: starts another process";
  return finding;
}

}  // namespace gpulens

#include "plugins/collectors/kernel_log/log_choice.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/fd.h"
#include "base/files.h"
#include "base/result.h"

namespace gpulens {
namespace {

using kernel_log::From;

constexpr std::string_view kStillWorks = "; XIDs reported by NVML and all metrics do not need it";
// Kernel messages alone come first; in the others lines of the kernel are picked out.
constexpr const char* kFiles[] = {"/var/log/kern.log", "/var/log/messages", "/var/log/syslog"};
constexpr const char* kJournals[] = {"/run/log/journal", "/var/log/journal"};
constexpr const char* kJournalctls[] = {"/usr/bin/journalctl", "/bin/journalctl"};

std::string Below(const Env& env, std::string_view path) {
  return (env.root == "/" ? "" : env.root) + std::string(path);
}

// The first of `paths` that may be opened for reading.
template <size_t kCount>
std::string FirstReadable(const Env& env, const char* const (&paths)[kCount]) {
  for (const char* path : paths) {
    std::string full = Below(env, path);
    if (::access(full.c_str(), R_OK) == 0) return full;
  }
  return {};
}

// journalctl of this machine reads the journal of this machine; below another root it would tell of the wrong
// one.
std::string Journalctl(const Env& env) {
  if (env.root != "/") return {};
  for (const char* path : kJournalctls) {
    if (::access(path, X_OK) == 0) return path;
  }
  return {};
}
bool JournalReadable(const Env& env) { return SystemJournalReadable(env.root == "/" ? "" : env.root); }

Status Refused(const Status& why) {
  std::string detail = "kernel log: " + why.detail;
  if (why.code == Code::kPermissionDenied) detail += " (needs root or CAP_SYSLOG)";
  return {why.code, detail + std::string(kStillWorks)};
}

Result<ChosenLog> Made(Result<std::unique_ptr<kernel_log::LogReader>> reader, std::string_view source,
                       std::string place) {
  if (!reader) return Refused(reader.error());
  return ChosenLog{*std::move(reader), source, std::move(place)};
}

Result<ChosenLog> Journal(const Env& env, From from) {
  std::string program = Journalctl(env);
  if (program.empty())
    return Status{Code::kUnavailable, "kernel log: no journalctl here" + std::string(kStillWorks)};
  if (!JournalReadable(env)) {
    return Status{
        Code::kPermissionDenied,
        "kernel log: no system.journal that may be read (needs root, or the group systemd-journal)" +
            std::string(kStillWorks)};
  }
  return Made(kernel_log::RunJournalctl(program, from, env.clock->Now()), "journald", program);
}

Result<ChosenLog> First(const Env& env, From from) {
  std::string device = Below(env, "/dev/kmsg");
  auto kmsg = Made(kernel_log::OpenKmsg(device, from), "kmsg", device);
  if (kmsg) return kmsg;
  if (!Journalctl(env).empty() && JournalReadable(env)) {
    auto journal = Journal(env, from);
    if (journal) return journal;
  }
  if (std::string file = FirstReadable(env, kFiles); !file.empty()) {
    auto followed = Made(kernel_log::FollowFile(file, from), "file", file);
    if (followed) return followed;
  }
  return kmsg.error();
}

}  // namespace

bool SystemJournalReadable(const std::string& root) {
  namespace fs = std::filesystem;
  std::error_code failed;
  for (const char* journal : kJournals) {
    // One folder for each machine id that ever wrote here.
    for (fs::directory_iterator folder(root + journal, failed), end; !failed && folder != end;
         folder.increment(failed)) {
      if (::access((folder->path() / "system.journal").c_str(), R_OK) == 0) return true;
    }
  }
  return false;
}

void CheckLog(const Config& config, ConfigFaults& faults) {
  if (config.Text("source") == "file" && config.Text("path").empty())
    faults.Refuse(config, "source", "source: file needs path");
}

Result<ChosenLog> ChooseLog(const Config& config, const Env& env) {
  RETURN_IF_ERROR(RefuseFaults(&CheckLog, config));
  From from = config.Text("since") == "boot" ? From::kBoot : From::kNow;
  const std::string& source = config.Text("source");
  const std::string& path = config.Text("path");
  if (source == "file") {
    return Made(kernel_log::FollowFile(path, from), "file", path);
  }
  if (source == "kmsg") {
    std::string device = path.empty() ? Below(env, "/dev/kmsg") : path;
    return Made(kernel_log::OpenKmsg(device, from), "kmsg", device);
  }
  if (source == "journald") return Journal(env, from);
  return First(env, from);
}

std::vector<Finding> ProbeLog(const Config& config, const Env& env) {
  Finding finding;
  finding.subject = "kernel log";
  const std::string& source = config.Text("source");
  std::string device = Below(env, "/dev/kmsg");
  UniqueFd kmsg;
  int error = 0;
  if (source == "auto" || source == "kmsg") {
    kmsg.reset(::open(device.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    error = errno;
  }
  std::string file = source == "file" ? config.Text("path") : FirstReadable(env, kFiles);
  bool journal = !Journalctl(env).empty() && JournalReadable(env);
  if (kmsg) {
    finding.what = device;
  } else if ((source == "auto" || source == "journald") && journal) {
    finding.what = "the journal, by journalctl";
  } else if ((source == "auto" || source == "file") && !file.empty() && ::access(file.c_str(), R_OK) == 0) {
    finding.what = file;
  } else {
    bool denied = error == EACCES || error == EPERM || (source == "journald" && !Journalctl(env).empty());
    finding.kind = denied ? Finding::kNoPermission : Finding::kNotHere;
    finding.what =
        "messages of the kernel: XIDs with their process, SXids, OOM kills, errors of PCIe and memory";
    if (!denied) finding.why = "no kernel log here";
    else finding.why = (source == "journald" ? "the journal" : device) + " may not be read";
    if (denied)
      finding.remedy =
          "systemctl edit gpulens: AmbientCapabilities=CAP_SYSLOG or SupplementaryGroups=systemd-journal";
  }
  return {finding};
}

}  // namespace gpulens

// Which of the places where the kernel's messages can be read is taken.
#pragma once

#include <memory>
#include <string>

#include "plugins/plugin.h"
#include "sources/kernel_log/log_reader.h"

namespace gpulens {

struct ChosenLog {
  std::unique_ptr<kernel_log::LogReader> reader;
  std::string_view source;  // as events name it: kmsg, journald, file
  std::string place;        // for people: "/dev/kmsg"
};

// What is wrong with collectors.kernel_log.
void CheckLog(const Config& config, ConfigFaults& faults);

// What `collectors.kernel_log.source` asks for; `auto` takes the first that can be read of /dev/kmsg, the
// journal, and the files of syslog daemons. The failure says what is missing and what works without it.
Result<ChosenLog> ChooseLog(const Config& config, const Env& env);

// The same as ChooseLog without a side effect: for `gpulens doctor`.
std::vector<Finding> ProbeLog(const Config& config, const Env& env);

// Whether the journal of the system may be read below `root` ("" is this machine). The folders themselves are
// open to everybody, the files only to root and the groups adm and systemd-journal: to others journalctl
// shows nothing, and says so to nobody who could see it.
bool SystemJournalReadable(const std::string& root);

}  // namespace gpulens

// `gpulens events` and `gpulens events explain CODE`.
#pragma once

#include <string>

namespace gpulens {

struct EventsOptions {
  std::string since = "24h";
  std::string gpu;   // an index, or the beginning of a UUID
  std::string name;  // of events; empty: all
  std::string format = "table";
  std::string state_dir;
  std::string config_file;
  size_t limit = 1000;
  bool readings = false;
};

// Asks the agent that runs where its store is. Returns the exit code: 0 shown (also when there is nothing to
// show), 1 the store cannot be read or is not found, 2 wrong use.
int RunEvents(const EventsOptions& options);

// `code`: "79", "xid 79", "sxid 20034", or a name of the table of messages. 2 for an unknown code.
int RunExplain(const std::string& code);

inline constexpr const char* kEventsFooter = R"(
  gpulens events                                  what happened in the last 24 hours
  gpulens events --since 7d --gpu 3               of one GPU, by index or UUID
  gpulens events --name gpu.xid --format json     one object per line
  gpulens events --format json --with-readings    with the 30 seconds before each
  gpulens events explain 79                       what a code means, what to do, who says so
  gpulens events clear --gpu 3                    its XIDs are dealt with: health and checks forget them

The agent writes them into its state folder; it need not run. Times are UTC.
Exit: 0 shown, or nothing happened · 1 the store cannot be read, or no agent is found · 2 wrong use)";

}  // namespace gpulens

// `gpulens events`, and descriptions of the codes in events.
#pragma once

#include <string>
#include <vector>

#include "store/incident_store.h"

namespace gpulens {

std::string IncidentTable(const std::vector<Incident>& incidents);
// One object per line; readings, if any, as "readings_before".
std::string IncidentJson(const std::vector<Incident>& incidents);
// RFC 4180 with a header line; formulas of spreadsheets are quoted.
std::string IncidentCsv(const std::vector<Incident>& incidents);
// The last values before an incident, for the table: "power.draw 612.3 W · temperature 71 Cel".
std::string ReadingsSummary(const Incident& incident);

struct EventsOptions {
  std::string since = "24h";
  std::string gpu;   // an index, or the beginning of a UUID
  std::string name;  // of events; empty: all
  std::string format = "table";
  bool json = false;  // the same as the format json
  std::string state_dir;
  std::string config_file;
  size_t limit = 1000;
  bool readings = false;
};

// Prints the events in the store of the running agent. Returns the exit code: 0 shown (also when there is
// nothing to show), 1 the store cannot be read or is not found, 2 wrong use.
int RunEvents(const EventsOptions& options);

// Describes a code: "79", "xid 79", "sxid 20034", or a name of the table of messages. Empty for an unknown
// one.
std::string CodePage(const std::string& code);

inline constexpr const char* kEventsFooter = R"(
  gpulens events                                  what happened in the last 24 hours
  gpulens events --since 7d --gpu 3               of one GPU, by index or UUID
  gpulens events --name gpu.xid --json            one object per line
  gpulens events --json --with-readings           with the 30 seconds before each
  gpulens explain 79                              what a code means and what to do
  gpulens events clear --gpu 3                    its XIDs are dealt with: health and checks ignore them

Reads the agent's state folder; the agent need not run. Times are UTC.
Exit: 0 shown, or nothing happened · 1 the store cannot be read, or no agent is found · 2 wrong use)";

}  // namespace gpulens

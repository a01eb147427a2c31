#include "cli/events/events_command.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <vector>

#include "agent/run/config_file.h"
#include "agent/run/plan.h"
#include "agent/status/query_status.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/text.h"
#include "catalog/codes/codes.h"
#include "catalog/events.h"
#include "cli/events/events_text.h"
#include "cli/table/text_table.h"
#include "config/value_parse.h"
#include "store/incident_store.h"

namespace gpulens {
namespace {

int Complain(const std::string& text, int code) {
  WriteNote("gpulens events: " + text);
  return code;
}

struct Place {
  std::string path;
  std::optional<StatusReport> agent;  // whose events these are, when it runs and answers
  std::string refusal;                // of an agent that runs and does not say
  std::string error;                  // of the configuration
  bool given = false;                 // named by the user
};

// Finds the file: where the running agent reports it, else where this user's agent writes, else where the
// service does.
Place FindStore(const EventsOptions& options) {
  Place place;
  std::string folder = options.state_dir;
  place.given = !folder.empty();
  if (folder.empty()) {
    std::unique_ptr<Schema> schema = MakeSchema();
    LoadOutcome loaded = LoadConfig(*schema, FindConfigFile(options.config_file), {});
    if (!loaded.ok()) {
      place.error = loaded.Errors();
      return place;
    }
    QueriedStatus asked = QueryRunningAgent(loaded.config);
    if (!asked.report && !asked.at.empty())
      place.refusal = asked.at + " does not report where its events are: " + asked.refusal;
    place.agent = std::move(asked.report);
    folder = StateDir(loaded.config.Text("state_dir"));
    place.given = !loaded.config.Text("state_dir").empty();
    constexpr const char* kService = "/var/lib/gpulens";
    std::string own = folder + "/" + std::string(kIncidentFile);
    // The folder of a service may be closed to us, so that nothing can be said of what is in it.
    bool service = ::access((std::string(kService) + "/" + std::string(kIncidentFile)).c_str(), F_OK) == 0 ||
                   (::access(kService, F_OK) == 0 && ::access(kService, X_OK) != 0);
    // An agent that runs knows best: --demo and its own options put its folder elsewhere than our file says.
    if (place.agent && !place.agent->state_dir.empty()) folder = place.agent->state_dir;
    else if (!place.given && ::access(own.c_str(), F_OK) != 0 && service) folder = kService;
  }
  place.path = folder + "/" + std::string(kIncidentFile);
  const std::string demo = DemoStateDir(folder) + "/" + std::string(kIncidentFile);
  if (!place.agent && ::access(place.path.c_str(), F_OK) != 0 && ::access(demo.c_str(), F_OK) == 0) {
    WriteNote("SIMULATED: no agent has stored events in " + folder +
              "; these are events of gpulens agent --demo.");
    place.path = demo;
  }
  return place;
}

// Why there is nothing to show, and whether that is an all-clear.
int ComplainOfStore(const Place& place, const Status& status) {
  std::string whose = place.agent
                          ? "the agent of user " + place.agent->user + " (pid " +
                                std::to_string(place.agent->pid) + ") runs; its events are in " + place.path
                          : "its events are in " + place.path;
  if (status.code == Code::kPermissionDenied)
    return Complain((place.agent ? whose : "another user's agent: " + whose) +
                        ", which this user may not read. do: sudo gpulens events",
                    1);
  // No file: no event was ever kept there. Only where the agent that runs says so is it known to be the
  // place.
  std::string path = place.path + " (it is created with the first event; use --state-dir for another folder)";
  if (place.agent || place.given) return Complain("no events were recorded: there is no " + path, 0);
  std::string agent = place.refusal.empty() ? "no agent answers" : place.refusal;
  return Complain("the events are unknown: " + agent + ", and there is no " + path, 1);
}

bool IsAbsent(const std::string& path) { return ::access(path.c_str(), F_OK) != 0 && errno == ENOENT; }

bool FillFilter(const EventsOptions& options, IncidentStore::Filter& filter, std::string& error) {
  Duration since{};
  if (ParseTimeValue(options.since, since) || since.count() < 0) {
    error = "--since " + options.since + ": expected a time such as 90m, 24h or 7d";
    return false;
  }
  filter.since_unix_ns = std::max<int64_t>(0, RealClock().Now().unix_ns - since.count());
  filter.limit = options.limit;
  filter.readings = options.readings;
  if (!options.name.empty() && !FindEvent(options.name)) {
    std::vector<std::string_view> names;
    for (const EventDesc* event : kEvents) names.push_back(event->name);
    std::string_view nearest = NearestWord(options.name, names);
    error = "--name " + options.name + ": no such event." +
            (nearest.empty() ? "" : " Did you mean " + std::string(nearest) + "?") +
            "   list them: gpulens metrics --format md";
    return false;
  }
  filter.name = options.name;
  if (auto index = ParseInt<int64_t>(options.gpu)) filter.gpu_index = *index;
  else filter.gpu_uuid = options.gpu;
  return true;
}

}  // namespace

int RunEvents(const EventsOptions& options) {
  IncidentStore::Filter filter;
  std::string error;
  if (!FillFilter(options, filter, error)) return Complain(error, 2);
  Place place = FindStore(options);
  if (!place.error.empty()) return Complain(place.error, 2);
  if (place.agent && place.agent->state_dir.empty())
    return Complain("the agent of user " + place.agent->user + " stores no events: it has no state_dir", 1);
  auto store = IncidentStore::Open({.path = place.path, .read_only = true});
  if (!store) {
    bool absent = store.error().code == Code::kUnavailable && IsAbsent(place.path);
    bool closed = store.error().code == Code::kPermissionDenied;
    return absent || closed ? ComplainOfStore(place, store.error()) : Complain(store.error().detail, 1);
  }
  auto found = (*store)->Find(filter);
  if (!found) return Complain(found.error().detail, 1);
  if (found->empty() && options.format != "csv")
    return Complain("no matching event in the last " + options.since + " (" + place.path + ")", 0);
  if (options.json || options.format == "json") return WriteOut(IncidentJson(*found)) ? 0 : 1;
  if (options.format == "csv") return WriteOut(IncidentCsv(*found)) ? 0 : 1;
  return WriteText(IncidentTable(*found)) ? 0 : 1;
}

std::string CodePage(const std::string& code) {
  std::string word;
  for (char c : code) word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::string_view number = word;
  const bool sxid_only = number.starts_with("sxid"), xid_only = number.starts_with("xid");
  if (sxid_only || xid_only) number.remove_prefix(sxid_only ? 4 : 3);
  number = Trim(number);
  std::string text;
  if (auto parsed = ParseInt<int64_t>(number)) {
    if (const CodeFacts* facts = sxid_only ? nullptr : FindXid(*parsed)) text += Explain("XID", *facts);
    if (const CodeFacts* facts = xid_only ? nullptr : FindSxid(*parsed)) text += Explain("SXid", *facts);
  } else if (const CodeFacts* facts = FindMessage(code)) {
    text = Explain("message", *facts);
  }
  return text;
}

}  // namespace gpulens

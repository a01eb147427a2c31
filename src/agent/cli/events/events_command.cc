#include "agent/cli/events/events_command.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <vector>

#include "agent/cli/events/events_text.h"
#include "agent/config/text/value_parse.h"
#include "agent/run/config_file.h"
#include "agent/run/plan.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/text.h"
#include "catalog/codes/codes.h"
#include "catalog/events.h"
#include "store/incident_store.h"

namespace gpulens {
namespace {

int Complain(const std::string& text, int code) {
  ::dprintf(STDERR_FILENO, "gpulens events: %s\n", text.c_str());
  return code;
}

// Where the file may be: where this user's agent writes, else where the service does.
std::string FindStore(const EventsOptions& options, std::string& error) {
  std::string folder = options.state_dir;
  if (folder.empty()) {
    std::unique_ptr<Schema> schema = MakeSchema();
    LoadOutcome loaded = LoadConfig(*schema, FindConfigFile(options.config_file), {});
    if (!loaded.ok()) {
      error = loaded.Report();
      return {};
    }
    folder = StateDir(loaded.config.Text("state_dir"));
    bool given = !loaded.config.Text("state_dir").empty();
    constexpr const char* kService = "/var/lib/gpulens";
    std::string own = folder + "/" + std::string(kIncidentFile);
    std::string service = std::string(kService) + "/" + std::string(kIncidentFile);
    if (!given && ::access(own.c_str(), F_OK) != 0 && ::access(service.c_str(), F_OK) == 0) folder = kService;
  }
  const std::string path = folder + "/" + std::string(kIncidentFile);
  const std::string demo = DemoStateDir(folder) + "/" + std::string(kIncidentFile);
  if (::access(path.c_str(), F_OK) == 0 || ::access(demo.c_str(), F_OK) != 0) return path;
  ::dprintf(STDERR_FILENO, "SIMULATED: no agent has kept events in %s; these are of gpulens agent --demo.\n",
            folder.c_str());
  return demo;
}

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
            "   all of them: gpulens metrics --format md";
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
  std::string path = FindStore(options, error);
  if (path.empty()) return Complain(error, 2);
  auto store = IncidentStore::Open({.path = path, .read_only = true});
  if (!store) {
    // No file: no event was ever kept there. That is no failure, but it may be the wrong place.
    bool absent = ::access(path.c_str(), F_OK) != 0 && store.error().code == Code::kUnavailable;
    if (absent)
      return Complain("nothing was recorded: there is no " + path +
                          " (it begins with the first event; --state-dir names another folder)",
                      0);
    return Complain(store.error().detail, 1);
  }
  auto found = (*store)->Find(filter);
  if (!found) return Complain(found.error().detail, 1);
  if (found->empty() && options.format != "csv")
    return Complain("nothing happened in the last " + options.since + " that fits (" + path + ")", 0);
  std::string text = options.format == "json"  ? IncidentJson(*found)
                     : options.format == "csv" ? IncidentCsv(*found)
                                               : IncidentTable(*found);
  bool written = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  return written ? 0 : 1;
}

int RunExplain(const std::string& code) {
  std::string word;
  for (char c : code) word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::string_view number = word;
  bool sxid_only = number.starts_with("sxid"), xid_only = number.starts_with("xid");
  if (sxid_only || xid_only) number.remove_prefix(sxid_only ? 4 : 3);
  number = Trim(number);
  std::string text;
  if (auto parsed = ParseInt<int64_t>(number)) {
    if (const CodeFacts* facts = sxid_only ? nullptr : FindXid(*parsed)) text += Explain("XID", *facts);
    if (const CodeFacts* facts = xid_only ? nullptr : FindSxid(*parsed)) text += Explain("SXid", *facts);
  } else if (const CodeFacts* facts = FindMessage(code)) {
    text = Explain("message", *facts);
  }
  if (text.empty())
    return Complain("explain " + code + ": unknown: no source that we know speaks of it. XIDs are 1 to " +
                        std::string(AllXids().back().code) + ", SXids " +
                        std::string(AllSxids().front().code) + " to " + std::string(AllSxids().back().code),
                    2);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace gpulens

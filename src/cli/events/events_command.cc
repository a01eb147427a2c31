#include "cli/events/events_command.h"

#include <unistd.h>
#include <algorithm>
#include <cctype>
#include <cerrno>

#include "agent/run/config_file.h"
#include "agent/run/plan.h"
#include "agent/status/status_report.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/text.h"
#include "catalog/codes/codes.h"
#include "catalog/events.h"
#include "cli/common/output.h"
#include "config/value_parse.h"
#include "wire/json/json_object.h"
#include "wire/json/json_text.h"

namespace gpulens {

namespace {

// Bytes of a message in a line of the table; JSON and CSV have all of it.
constexpr size_t kMessageInTable = 100;

// A text member of a flat JSON object that we wrote ourselves, only for display: `"key":value`.
std::string_view Member(std::string_view object, std::string_view key) {
  std::string mark = "\"" + std::string(key) + "\":";
  size_t at = object.find(mark);
  if (at == std::string_view::npos) return {};
  std::string_view value = object.substr(at + mark.size());
  if (value.starts_with('"')) {
    value.remove_prefix(1);
    return value.substr(0, value.find('"'));
  }
  return value.substr(0, value.find_first_of(",}"));
}

// Whether the event is from `agent --demo`.
bool IsSimulated(const Incident& incident) { return Member(incident.attributes, "simulated") == "true"; }

// Escapes control characters in stored JSON; they only occur in strings.
std::string SafeJson(std::string_view json) {
  std::string out, escaped;
  while (!json.empty()) {
    const std::string_view character = json.substr(0, std::max<size_t>(1, Utf8Length(json)));
    const auto byte = static_cast<unsigned char>(character.front());
    if (character.size() == 1 && byte >= 0x20 && byte < 0x7F) {
      out += character;
    } else {
      escaped.clear();
      AppendJsonString(escaped, character);
      out += std::string_view(escaped).substr(1, escaped.size() - 2);
    }
    json.remove_prefix(character.size());
  }
  return out;
}

struct StoreLocation {
  std::string path;
  std::optional<StatusReport> agent;  // whose events these are, when it runs and answers
  std::string refusal;                // of an agent that runs and does not report its folder
  std::string error;                  // of the configuration
  bool given = false;                 // named by the user
};

// Finds the file: where the running agent reports it, else where this user's agent writes, else where the
// service does.
StoreLocation FindStore(const EventsOptions& options) {
  StoreLocation location;
  std::string folder = options.state_dir;
  location.given = !folder.empty();
  if (folder.empty()) {
    const CommandConfig loaded = LoadCommandConfig(options.config_file, nullptr);
    if (!loaded.ok()) {
      location.error = loaded.loaded.Errors();
      return location;
    }
    QueriedStatus queried = QueryRunningAgent(loaded.config());
    if (!queried.report && !queried.at.empty())
      location.refusal = queried.at + " does not report where its events are: " + queried.refusal;
    location.agent = std::move(queried.report);
    folder = StateDir(loaded.config().Text("state_dir"));
    location.given = !loaded.config().Text("state_dir").empty();
    constexpr const char* kService = "/var/lib/gpulens";
    std::string own = folder + "/" + std::string(kIncidentFile);
    // The folder of a service may be closed to this user: its contents are then unknown.
    bool service = ::access((std::string(kService) + "/" + std::string(kIncidentFile)).c_str(), F_OK) == 0 ||
                   (::access(kService, F_OK) == 0 && ::access(kService, X_OK) != 0);
    // A running agent takes precedence: --demo and its options may put the folder elsewhere than our file.
    if (location.agent && !location.agent->state_dir.empty()) folder = location.agent->state_dir;
    else if (!location.given && ::access(own.c_str(), F_OK) != 0 && service) folder = kService;
  }
  location.path = folder + "/" + std::string(kIncidentFile);
  const std::string demo = DemoStateDir(folder) + "/" + std::string(kIncidentFile);
  if (!location.agent && ::access(location.path.c_str(), F_OK) != 0 && ::access(demo.c_str(), F_OK) == 0) {
    WriteNote("SIMULATED: no agent has stored events in " + folder +
              "; these are events of gpulens agent --demo.");
    location.path = demo;
  }
  return location;
}

// Reports why there is nothing to show. Returns 0 when no event was recorded, 1 when that is unknown.
int ComplainOfStore(const StoreLocation& location, const Status& status) {
  std::string whose = location.agent ? "the agent of user " + location.agent->user + " (pid " +
                                           std::to_string(location.agent->pid) +
                                           ") runs; its events are in " + location.path
                                     : "its events are in " + location.path;
  if (status.code == Code::kPermissionDenied)
    return FailCommand("events",
                       (location.agent ? whose : "another user's agent: " + whose) +
                           ", which this user may not read. do: sudo gpulens events",
                       1);
  // No event was ever stored there. Without an agent that reports it or --state-dir, the folder may be wrong.
  std::string path =
      location.path + " (it is created with the first event; use --state-dir for another folder)";
  if (location.agent || location.given)
    return FailCommand("events", "no events were recorded: there is no " + path, 0);
  std::string agent = location.refusal.empty() ? "no agent answers" : location.refusal;
  return FailCommand("events", "the events are unknown: " + agent + ", and there is no " + path, 1);
}

bool IsAbsent(const std::string& path) { return ::access(path.c_str(), F_OK) != 0 && errno == ENOENT; }

Result<IncidentStore::Filter> FilterOf(const EventsOptions& options) {
  IncidentStore::Filter filter;
  Duration since{};
  if (ParseTimeValue(options.since, since) || since.count() < 0)
    return Status{Code::kInvalidArgument,
                  "--since " + options.since + ": expected a time such as 90m, 24h or 7d"};
  filter.since_unix_ns = std::max<int64_t>(0, RealClock().Now().unix_ns - since.count());
  filter.limit = options.limit;
  filter.readings = options.readings;
  if (!options.name.empty() && !FindEvent(options.name)) {
    std::vector<std::string_view> names;
    for (const EventDesc* event : kEvents) names.push_back(event->name);
    return Status{Code::kInvalidArgument, "--name " + options.name + ": no such event." +
                                              DidYouMean(options.name, names) +
                                              "   list them: gpulens metrics --format md"};
  }
  filter.name = options.name;
  if (auto index = ParseInt<int64_t>(options.gpu)) filter.gpu_index = *index;
  else filter.gpu_uuid = options.gpu;
  return filter;
}

}  // namespace

std::string ReadingsSummary(const Incident& incident) {
  std::string_view json = incident.readings;
  size_t count = static_cast<size_t>(std::ranges::count(json, '['));
  // "columns":[ and "samples":[ are the two others.
  if (count <= 2) return "no readings";
  std::string_view columns = json.substr(0, json.find("],\"samples\""));
  std::string names;
  for (size_t at = columns.find("\"name\":\""); at != std::string_view::npos;
       at = columns.find("\"name\":\"", at)) {
    at += 8;
    std::string_view name = columns.substr(at, columns.find('"', at) - at);
    if (name.starts_with("gpu.")) name.remove_prefix(4);
    if (names.find(name) == std::string::npos) names += (names.empty() ? "" : " ") + std::string(name);
  }
  return std::to_string(count - 2) + " samples of " + names;
}

std::string IncidentTable(const std::vector<Incident>& incidents) {
  auto columns = [](std::string_view time, std::string_view severity, std::string_view gpu,
                    std::string_view name) {
    return Padded(time, 26, 1) + Padded(severity, 10, 1) + Padded(gpu, 5, 1) + Padded(name, 22, 1);
  };
  std::string out = columns("TIME", "SEVERITY", "GPU", "EVENT") + "WHAT\n";
  for (const Incident& incident : incidents) {
    std::string time;
    AppendRfc3339(time, incident.unix_ns);
    const std::string gpu = incident.gpu_index ? std::to_string(*incident.gpu_index) : kNoValue;
    out += columns(time, EventSeverityName(incident.severity), gpu, Printable(incident.name));
    std::string what = IsSimulated(incident) ? "SIMULATED  " : "";
    if (incident.name == kEventGpuXid.name) {
      what += "XID " + std::string(Member(incident.attributes, "gpu.xid.code")) + " " +
              std::string(Member(incident.attributes, "gpu.xid.class"));
      std::string_view action = Member(incident.attributes, "gpu.xid.action");
      what += action.empty() ? "" : ", do: " + std::string(action);
      std::string_view process = Member(incident.attributes, "process.executable.name");
      what += process.empty() ? "" : ", " + std::string(process);
      what += "  ";
    }
    std::string_view repeats = Member(incident.attributes, kEventRepeats);
    if (!repeats.empty()) what += "×" + std::string(repeats) + "  ";
    what += std::string_view(incident.body).substr(0, kMessageInTable);
    out += Printable(what) + "\n";
    if (!incident.readings.empty())
      out += "    before: " + TerminalLines(ReadingsSummary(incident)) + "  (--format json has them)\n";
  }
  return out;
}

std::string IncidentJson(const std::vector<Incident>& incidents) {
  std::string out;
  for (const Incident& incident : incidents) {
    out += JsonDocumentText("gpulens.event/1", [&](JsonObject& object) {
      object.Whole("id", incident.id);
      object.Time("ts", incident.unix_ns);
      object.Text("name", incident.name);
      object.Text("severity", EventSeverityName(incident.severity));
      object.Raw("gpu_index", incident.gpu_index ? std::to_string(*incident.gpu_index) : "null");
      if (incident.gpu_uuid.empty()) object.Raw("gpu_uuid", "null");
      else object.Text("gpu_uuid", incident.gpu_uuid);
      object.Text("body", incident.body);
      object.Raw("attributes", incident.attributes.empty() ? "{}" : SafeJson(incident.attributes));
      if (!incident.readings.empty()) object.Raw("readings_before", SafeJson(incident.readings));
    });
  }
  return out;
}

std::string IncidentCsv(const std::vector<Incident>& incidents) {
  std::string out = "time,severity,gpu_index,gpu_uuid,name,body,attributes,simulated\n";
  for (const Incident& incident : incidents) {
    std::string time;
    AppendRfc3339(time, incident.unix_ns);
    const std::string gpu = incident.gpu_index ? std::to_string(*incident.gpu_index) : "";
    for (std::string_view field :
         {std::string_view(time), EventSeverityName(incident.severity), std::string_view(gpu),
          std::string_view(incident.gpu_uuid), std::string_view(incident.name),
          std::string_view(incident.body), std::string_view(incident.attributes)}) {
      AppendCsvField(out, field, true);
      out += ',';
    }
    out += IsSimulated(incident) ? "\"true\"\n" : "\"false\"\n";
  }
  return out;
}

int RunEvents(const EventsOptions& options) {
  const auto filter = FilterOf(options);
  if (!filter) return FailCommand("events", filter.error());
  StoreLocation location = FindStore(options);
  if (!location.error.empty()) return FailCommand("events", location.error, 2);
  if (location.agent && location.agent->state_dir.empty())
    return FailCommand(
        "events", "the agent of user " + location.agent->user + " stores no events: it has no state_dir", 1);
  auto store = IncidentStore::Open({.path = location.path, .read_only = true});
  if (!store) {
    bool absent = store.error().code == Code::kUnavailable && IsAbsent(location.path);
    bool closed = store.error().code == Code::kPermissionDenied;
    return absent || closed ? ComplainOfStore(location, store.error())
                            : FailCommand("events", store.error().detail, 1);
  }
  auto found = (*store)->Find(*filter);
  if (!found) return FailCommand("events", found.error().detail, 1);
  if (found->empty() && options.format != "csv")
    return FailCommand("events",
                       "no matching event in the last " + options.since + " (" + location.path + ")", 0);
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

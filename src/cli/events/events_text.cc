#include "cli/events/events_text.h"

#include <algorithm>

#include "base/text.h"
#include "catalog/events.h"
#include "cli/table/text_table.h"
#include "wire/json/json_text.h"

namespace gpulens {
namespace {

// A table line holds so many bytes of a message; JSON and CSV have all of it.
constexpr size_t kMessageInTable = 100;

void AppendPadded(std::string& out, std::string_view text, size_t width) {
  out += text;
  out.append(text.size() < width ? width - text.size() : 1, ' ');
}

std::string Gpu(const Incident& incident) {
  return incident.gpu_index ? std::to_string(*incident.gpu_index) : std::string("–");
}

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

// Of `agent --demo`: nothing of it happened.
bool IsSimulated(const Incident& incident) { return Member(incident.attributes, "simulated") == "true"; }

void AppendCsv(std::string& out, std::string_view text) {
  out += out.empty() || out.back() == '\n' ? "" : ",";
  out += '"';
  // A spreadsheet computes what begins so.
  if (!text.empty() && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos) out += '\'';
  for (char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

// JSON that was kept, with what steers a terminal as escapes: outside of strings there is none of it.
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

}  // namespace

std::string ReadingsSummary(const Incident& incident) {
  std::string_view json = incident.readings;
  size_t count = static_cast<size_t>(std::count(json.begin(), json.end(), '['));
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
  std::string out;
  AppendPadded(out, "TIME", 26);
  AppendPadded(out, "SEVERITY", 10);
  AppendPadded(out, "GPU", 5);
  AppendPadded(out, "EVENT", 22);
  out += "WHAT\n";
  for (const Incident& incident : incidents) {
    std::string time;
    AppendRfc3339(time, incident.unix_ns);
    AppendPadded(out, time, 26);
    AppendPadded(out, EventSeverityName(incident.severity), 10);
    std::string gpu = Gpu(incident);
    AppendPadded(out, gpu, incident.gpu_index ? 5 : 7);  // the dash has three bytes
    std::string name, what = IsSimulated(incident) ? "SIMULATED  " : "", shown;
    AppendPrintable(name, incident.name);
    AppendPadded(out, name, 22);
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
    AppendPrintable(shown, what);
    out += shown + "\n";
    if (!incident.readings.empty())
      out += "    before: " + TerminalLines(ReadingsSummary(incident)) + "  (--format json has them)\n";
  }
  return out;
}

std::string IncidentJson(const std::vector<Incident>& incidents) {
  std::string out;
  for (const Incident& incident : incidents) {
    out += "{\"schema\":\"gpulens.event/1\",\"id\":" + std::to_string(incident.id) + ",\"ts\":\"";
    AppendRfc3339(out, incident.unix_ns);
    out += "\",\"name\":";
    AppendJsonString(out, incident.name);
    out += ",\"severity\":\"";
    out += EventSeverityName(incident.severity);
    out += "\",\"gpu_index\":" + (incident.gpu_index ? std::to_string(*incident.gpu_index) : "null");
    out += ",\"gpu_uuid\":";
    if (incident.gpu_uuid.empty()) out += "null";
    else AppendJsonString(out, incident.gpu_uuid);
    out += ",\"body\":";
    AppendJsonString(out, incident.body);
    out += ",\"attributes\":" + (incident.attributes.empty() ? "{}" : SafeJson(incident.attributes));
    if (!incident.readings.empty()) out += ",\"readings_before\":" + SafeJson(incident.readings);
    out += "}\n";
  }
  return out;
}

std::string IncidentCsv(const std::vector<Incident>& incidents) {
  std::string out = "time,severity,gpu_index,gpu_uuid,name,body,attributes,simulated\n";
  for (const Incident& incident : incidents) {
    std::string time;
    AppendRfc3339(time, incident.unix_ns);
    AppendCsv(out, time);
    AppendCsv(out, EventSeverityName(incident.severity));
    AppendCsv(out, incident.gpu_index ? std::to_string(*incident.gpu_index) : "");
    AppendCsv(out, incident.gpu_uuid);
    AppendCsv(out, incident.name);
    AppendCsv(out, incident.body);
    AppendCsv(out, incident.attributes);
    AppendCsv(out, IsSimulated(incident) ? "true" : "false");
    out += '\n';
  }
  return out;
}

}  // namespace gpulens

#include "agent/status/status_report.h"

#include <pwd.h>

#include <algorithm>
#include <array>

#include "base/json.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens {
namespace {

constexpr std::string_view kSchema = "gpulens.status/1";
constexpr std::string_view kKindNames[] = {"found", "absent", "no_permission", "broken", "warning"};
constexpr size_t kMostFindings = 1000;

void AppendField(std::string& out, std::string_view key, std::string_view value) {
  if (value.empty()) return;
  if (out.back() != '{') out += ',';
  AppendJsonString(out, key);
  out += ':';
  AppendJsonString(out, value);
}

}  // namespace

std::string_view FindingKindName(Finding::Kind kind) noexcept { return kKindNames[kind]; }

void AppendFindingJson(std::string& out, const Finding& finding) {
  out += '{';
  AppendField(out, "kind", FindingKindName(finding.kind));
  AppendField(out, "subject", finding.subject);
  AppendField(out, "what", finding.what);
  AppendField(out, "why", finding.why);
  AppendField(out, "do", finding.remedy);
  out += '}';
}

std::string StatusJson(const StatusReport& report) {
  std::string out = "{";
  AppendField(out, "schema", kSchema);
  out += ",\"pid\":" + std::to_string(report.pid);
  AppendField(out, "user", report.user);
  AppendField(out, "version", report.version);
  AppendField(out, "state_dir", report.state_dir);
  out += report.simulated ? ",\"simulated\":true" : ",\"simulated\":false";
  out += ",\"sinks\":[";
  for (const std::string& sink : report.sinks) {
    if (out.back() != '[') out += ',';
    AppendJsonString(out, sink);
  }
  out += "],\"findings\":[";
  for (const Finding& finding : report.findings) {
    if (out.back() != '[') out += ',';
    AppendFindingJson(out, finding);
  }
  return out + "]}";
}

Result<StatusReport> ParseStatus(std::string_view json) {
  ASSIGN_OR_RETURN(JsonDocument document, JsonDocument::Parse(json));
  if (document.Text("/schema") != kSchema) return Status{Code::kDataLoss, "not the status of an agent"};
  StatusReport report;
  report.pid = document.Integer("/pid").value_or(0);
  report.user = document.Text("/user").value_or("");
  report.version = document.Text("/version").value_or("");
  report.state_dir = document.Text("/state_dir").value_or("");
  report.simulated = document.Truth("/simulated").value_or(false);
  for (size_t i = 0, sinks = std::min(document.Size("/sinks"), kMostFindings); i < sinks; ++i)
    report.sinks.push_back(document.Text("/sinks/" + std::to_string(i)).value_or(""));
  size_t count = std::min(document.Size("/findings"), kMostFindings);
  for (size_t i = 0; i < count; ++i) {
    std::string at = "/findings/" + std::to_string(i) + "/";
    auto text = [&](const char* key) { return document.Text(at + key).value_or(""); };
    Finding finding;
    finding.subject = text("subject");
    finding.what = text("what");
    finding.why = text("why");
    finding.remedy = text("do");
    std::string kind = text("kind");
    // A kind of a newer agent is at least a warning.
    finding.kind = Finding::kWarning;
    for (size_t k = 0; k < std::size(kKindNames); ++k) {
      if (kKindNames[k] == kind) finding.kind = static_cast<Finding::Kind>(k);
    }
    report.findings.push_back(std::move(finding));
  }
  return report;
}

std::string UserName(uint32_t uid) {
  passwd entry{}, *found = nullptr;
  std::array<char, 4096> buffer;
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found) return found->pw_name;
  return std::to_string(uid);
}

}  // namespace gpulens

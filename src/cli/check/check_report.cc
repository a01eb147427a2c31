#include "cli/check/check_report.h"

#include <algorithm>

#include "base/text.h"

namespace gpulens {
namespace {

void AppendMember(std::string& out, std::string_view key, std::string_view json) {
  if (out.back() != '{') out += ',';
  AppendJsonString(out, key);
  out += ':';
  out += json;
}

std::string Quoted(std::string_view text) {
  std::string out;
  AppendJsonString(out, text);
  return out;
}

// A label that came from elsewhere: blanks and quotes would end it.
std::string PerfLabel(const std::string& gpu) {
  std::string label = "gpu" + gpu;
  for (char& c : label) {
    bool plain =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
    if (!plain) c = '_';
  }
  return label;
}

}  // namespace

CheckCode WorstOf(const std::vector<CheckOutcome>& outcomes) noexcept {
  if (outcomes.empty()) return CheckCode::kUnknown;
  CheckCode worst = CheckCode::kOk;
  for (const CheckOutcome& outcome : outcomes) worst = Worse(worst, outcome.result.code);
  return worst;
}

std::string CheckText(const std::vector<CheckOutcome>& outcomes, bool simulated) {
  std::string out;
  for (const CheckOutcome& outcome : outcomes) {
    const CheckResult& result = outcome.result;
    out += std::string(CheckCodeName(result.code)) + " - " + std::string(outcome.check->name) + ": ";
    if (simulated) out += "SIMULATED, ";
    // A bar begins the numbers.
    std::string text = result.text;
    std::replace(text.begin(), text.end(), '|', '/');
    AppendPrintable(out, text);
    const char* before = " | ";
    // As Nagios writes ranges, "10:" is a fault below 10.
    std::string_view range = outcome.check->side == CheckSide::kBelow ? ":" : "";
    auto limit = [&](std::optional<double> value) {
      return value ? CheckNumber(*value) + std::string(range) : "";
    };
    for (const CheckValue& value : result.values) {
      out += before + PerfLabel(value.gpu) + "=" + CheckNumber(value.value) + ";" + limit(result.warning) +
             ";" + limit(result.critical);
      before = " ";
    }
    out += '\n';
  }
  return out;
}

std::string CheckJson(const std::vector<CheckOutcome>& outcomes, const std::string& source, bool simulated) {
  std::string out = "{";
  AppendMember(out, "schema", Quoted("gpulens.check/1"));
  AppendMember(out, "source", Quoted(source));
  if (simulated) AppendMember(out, "simulated", "true");
  AppendMember(out, "code", std::to_string(static_cast<int>(WorstOf(outcomes))));
  AppendMember(out, "status", Quoted(CheckCodeName(WorstOf(outcomes))));
  out += ",\"checks\":[";
  for (const CheckOutcome& outcome : outcomes) {
    const CheckResult& result = outcome.result;
    out += out.back() == '[' ? "\n{" : ",\n{";
    AppendMember(out, "name", Quoted(outcome.check->name));
    AppendMember(out, "code", std::to_string(static_cast<int>(result.code)));
    AppendMember(out, "status", Quoted(CheckCodeName(result.code)));
    AppendMember(out, "text", Quoted(result.text));
    if (outcome.disabled) AppendMember(out, "disabled", "true");
    if (result.warning) AppendMember(out, "warning", CheckNumber(*result.warning));
    if (result.critical) AppendMember(out, "critical", CheckNumber(*result.critical));
    out += ",\"gpus\":[";
    for (const CheckValue& value : result.values) {
      out += out.back() == '[' ? "{" : ",{";
      AppendMember(out, "gpu", Quoted(value.gpu));
      AppendMember(out, "value", CheckNumber(value.value));
      AppendMember(out, "code", std::to_string(static_cast<int>(value.code)));
      out += '}';
    }
    out += "]}";
  }
  return out + "\n]}\n";
}

namespace {

std::string Limit(const CheckSpec& check, std::optional<double> value) {
  const char* sign = check.side == CheckSide::kAbove ? ">" : "<";
  return value ? sign + CheckNumber(*value) : std::string("-");
}

}  // namespace

std::string CheckList() {
  auto padded = [](std::string_view text, size_t width) {
    std::string out(text);
    out.resize(std::max(out.size() + 2, width), ' ');
    return out;
  };
  std::string out = padded("CHECK", 34) + padded("WARNING", 9) + padded("CRITICAL", 10) + "WHAT\n";
  for (const CheckSpec& check : AllChecks()) {
    out += padded(check.name, 34) + padded(Limit(check, check.warning), 9) +
           padded(Limit(check, check.critical), 10) + std::string(check.help) + "\n";
  }
  return out;
}

std::string CheckPage(const CheckSpec& check) {
  const std::string name(check.name), unit = check.unit.empty() ? "" : " " + std::string(check.unit);
  std::string out = name + ": " + std::string(check.help) + "\n";
  out += "  warning     " + Limit(check, check.warning) + (check.warning ? unit : "") + "\n";
  out += "  critical    " + Limit(check, check.critical) + (check.critical ? unit : "") + "\n";
  out += "  reads      ";
  for (const CheckInput& input : check.inputs) out += " " + std::string(input.metric->name);
  out += "\n  run         gpulens check " + name;
  if (check.warning || check.critical)
    out += "\n  thresholds  gpulens check " + name + " --warning X --critical Y";
  return out + "\n  switch off  check: {disable: [" + name + "]}\n";
}

}  // namespace gpulens

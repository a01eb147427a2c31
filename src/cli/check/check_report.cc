#include "cli/check/check_report.h"

#include <algorithm>

#include "base/text.h"
#include "cli/common/json_object.h"

namespace gpulens {
namespace {

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
  auto add_code = [](JsonObject& object, CheckCode code) {
    object.Whole("code", static_cast<int>(code));
    object.Text("status", CheckCodeName(code));
  };
  return JsonDocumentText("gpulens.check/1", [&](JsonObject& root) {
    root.Text("source", source);
    if (simulated) root.Flag("simulated", true);
    add_code(root, WorstOf(outcomes));
    auto add_gpu = [](std::string& out, const CheckValue& value) {
      JsonObject gpu(out);
      gpu.Text("gpu", value.gpu);
      gpu.Raw("value", CheckNumber(value.value));
      gpu.Whole("code", static_cast<int>(value.code));
    };
    auto add_check = [&](std::string& out, const CheckOutcome& outcome) {
      const CheckResult& result = outcome.result;
      JsonObject check(out);
      check.Text("name", outcome.check->name);
      add_code(check, result.code);
      check.Text("text", result.text);
      if (outcome.disabled) check.Flag("disabled", true);
      if (result.warning) check.Raw("warning", CheckNumber(*result.warning));
      if (result.critical) check.Raw("critical", CheckNumber(*result.critical));
      check.List("gpus", result.values, add_gpu);
    };
    root.List("checks", outcomes, add_check, "\n", "\n");
  });
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

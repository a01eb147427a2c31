#include "cli/why/why_page.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "cli/common/output.h"
#include "why/why.h"
#include "wire/json/json_object.h"

namespace gpulens {
namespace {

constexpr size_t kMostDepth = 16, kMostRows = 100'000;
constexpr double kMostMs = 9e15;

int64_t TimeOf(JsonScanner& json) {
  const double value = json.Double().value_or(0);
  return value > 0 && value < kMostMs ? static_cast<int64_t>(value) : 0;
}

WhyPage::Evidence ReadEvidence(JsonScanner& json) {
  WhyPage::Evidence out;
  json.Object([&](std::string_view key) {
    if (key == "name") out.name = json.Text();
    else if (key == "unit") out.unit = json.Text();
    else if (key == "is") out.is = json.Text();
    else if (key == "value") out.value = json.Double().value_or(kNotMeasured);
    else if (key == "attributes")
      json.Object([&](std::string_view name) { out.attributes.emplace_back(name, json.Text()); });
  });
  return out;
}

WhyPage::Finding ReadFinding(JsonScanner& json) {
  WhyPage::Finding out;
  json.Object([&](std::string_view key) {
    if (key == "rule") out.rule = json.Text();
    else if (key == "title") out.title = json.Text();
    else if (key == "sentence") out.sentence = json.Text();
    else if (key == "confidence") out.confidence = json.Text();
    else if (key == "do") out.advice = json.Text();
    else if (key == "source") out.source = json.Text();
    else if (key == "job") out.job = json.Text();
    else if (key == "since") out.since_ms = TimeOf(json);
    else if (key == "since_begin") out.since_begin = json.Bool().value_or(false);
    else if (key == "subject")
      json.Object([&](std::string_view name) {
        if (name == "text") out.subject = json.Text();
      });
    else if (key == "cost")
      json.Object([&](std::string_view name) {
        if (name == "share") out.cost = json.Double().value_or(kNotMeasured);
        else if (name == "at_most") out.at_most = json.Bool().value_or(false);
        else if (name == "formula") out.formula = json.Text();
      });
    else if (key == "evidence") json.Array([&] { out.evidence.push_back(ReadEvidence(json)); });
  });
  return out;
}

WhyPage::Row ReadRow(JsonScanner& json) {
  WhyPage::Row out;
  json.Object([&](std::string_view key) {
    if (key == "title") out.title = json.Text();
    else if (key == "subjects") out.subjects = json.Text();
    else if (key == "reason") out.reason = json.Text();
  });
  return out;
}

std::string ShareText(double share) {
  const double percent = share * 100;
  return Printed(percent > 0 && percent < 9.95 ? "%.1f %%" : "%.0f %%", percent);
}

std::string ValueText(const WhyPage::Evidence& evidence) {
  if (std::isnan(evidence.value)) return kNoValue;
  std::string_view unit = evidence.unit;
  if (unit == "1") return ShareText(evidence.value);
  std::string text = std::fabs(evidence.value) >= 100 ? CountText(std::llround(evidence.value))
                                                      : Printed("%.3g", evidence.value);
  if (unit == "Cel") return text + " °C";
  // "{request}" and "{bool}" are counted things; "{token}/s" is a rate of them.
  if (unit.starts_with('{')) {
    const size_t end = unit.find('}');
    return end == std::string_view::npos
               ? text
               : text.append(unit.substr(end + 1).empty() ? "" : " ").append(unit.substr(end + 1));
  }
  return text.append(" ").append(unit);
}

std::string SinceText(const WhyPage::Finding& finding, int64_t to_ms) {
  const int64_t seconds = std::max<int64_t>(to_ms - finding.since_ms, 0) / 1000;
  std::string text = seconds < 120
                         ? std::to_string(seconds) + " s"
                         : std::to_string(seconds / 60) + " m " + std::to_string(seconds % 60) + " s";
  return finding.since_begin ? text + " or longer" : text;
}

std::string CostText(const WhyPage::Finding& finding) {
  if (std::isnan(finding.cost)) return "unknown";
  return (finding.at_most ? "at most " : "") + ShareText(finding.cost) + " of useful time";
}

void AppendField(std::string& out, std::string_view name, std::string_view text) {
  out.append("  ").append(Padded(name, 10)).append(text) += '\n';
}

}  // namespace

Result<WhyPage> ParseWhyPage(std::string_view text) {
  WhyPage page;
  std::string schema;
  size_t rows = 0;
  JsonScanner json(text, kMostDepth);
  auto list = [&](auto& items, auto read) {
    json.Array([&] {
      if (++rows > kMostRows) return static_cast<void>(json.Fail("too many rows", Code::kExhausted));
      items.push_back(read(json));
    });
  };
  json.Object([&](std::string_view key) {
    if (key == "schema") schema = json.Text();
    else if (key == "from") page.from_ms = TimeOf(json);
    else if (key == "to") page.to_ms = TimeOf(json);
    else if (key == "simulated") page.simulated = json.Bool().value_or(false);
    else if (key == "wait_s")
      page.wait_seconds = static_cast<int>(std::clamp(json.Double().value_or(0), 0.0, 3600.0));
    else if (key == "findings") list(page.findings, ReadFinding);
    else if (key == "looked") list(page.looked, ReadRow);
    else if (key == "unknown") list(page.unknown, ReadRow);
  });
  if (Status status = json.Finish(); !status) return status;
  if (schema != "gpulens.why/1") return Status{Code::kDataLoss, "this is not the page /api/why"};
  return page;
}

std::string WhyText(const WhyPage& page, std::string_view where) {
  std::string out = page.findings.empty()
                        ? page.unknown.empty() ? "Nothing was found that holds work back"
                                               : "Nothing was found in what could be looked at"
                        : Plural(page.findings.size(), "thing holds work back", "things hold work back");
  out.append(", by ").append(where) += '\n';
  if (page.simulated) out += "SIMULATED: these GPUs and engines are made up.\n";
  for (const WhyPage::Finding& finding : page.findings) {
    out += '\n';
    std::string head = finding.subject;
    if (!finding.job.empty() && finding.subject != "job " + finding.job) head += ", " + finding.job;
    out.append(head).append(": ").append(finding.title) += '\n';
    out.append("  ").append(finding.sentence) += '\n';
    AppendField(out, "since", SinceText(finding, page.to_ms));
    AppendField(out, "costs", CostText(finding));
    if (!std::isnan(finding.cost)) AppendField(out, "", "= " + finding.formula);
    bool first = true;
    for (const WhyPage::Evidence& evidence : finding.evidence) {
      std::string series = evidence.name;
      if (!evidence.attributes.empty()) {
        series += '{';
        for (size_t i = 0; i < evidence.attributes.size(); ++i)
          series.append(i ? "," : "")
              .append(evidence.attributes[i].first)
              .append("=")
              .append(evidence.attributes[i].second);
        series += '}';
      }
      AppendField(out, first ? "shown by" : "", series + " " + ValueText(evidence) + ", " + evidence.is);
      first = false;
    }
    AppendField(out, "sure", finding.confidence);
    AppendField(out, "do", finding.advice);
    AppendField(out, "source", finding.source);
  }
  if (!page.looked.empty()) {
    out += "\nLooked at, and not found\n";
    for (const WhyPage::Row& row : page.looked)
      out.append("  ").append(Padded(row.title, 32)).append(row.subjects) += '\n';
  }
  if (!page.unknown.empty()) {
    out += "\nCould not be looked at\n";
    for (const WhyPage::Row& row : page.unknown) {
      out.append("  ").append(Padded(row.title, 32)).append(row.subjects);
      out.append(row.subjects.empty() ? "" : ": ").append(row.reason) += '\n';
    }
  }
  return out;
}

namespace {

// The series that a rule reads: "a or b" where one of them suffices, in brackets what it can do without.
std::string InputsText(const WhyRule& rule, std::string_view quote) {
  std::string out;
  for (const WhyRole& role : rule.roles) {
    std::vector<std::string> names;
    for (const WhyInput& input : role.any_of) {
      std::string name = std::string(quote) + std::string(input.metric->name) + std::string(quote);
      if (!input.key.empty()) name += " " + std::string(input.value);
      std::ranges::replace(name, '|', '/');
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    }
    out.append(out.empty() ? "" : ", ")
        .append(role.needed ? "" : "[")
        .append(Joined(names, " or "))
        .append(role.needed ? "" : "]");
  }
  return out;
}

}  // namespace

std::string WhyRulesText() {
  std::string out;
  for (const WhyRule& rule : WhyRules()) {
    out.append(out.empty() ? "" : "\n").append(Padded(rule.name, 18)).append(rule.title) += '\n';
    AppendField(out, "of each", WhyKindName(rule.kind));
    AppendField(out, "when", WhyConditionText(rule));
    AppendField(out, "reads", InputsText(rule, ""));
    AppendField(out, "costs", rule.cost);
    AppendField(out, "sure", WhyConfidenceName(rule.confidence));
    AppendField(out, "do", rule.advice);
    AppendField(out, "source", rule.source);
  }
  return out;
}

std::string WhyRulesMarkdown() {
  std::string out =
      "| rule | of each | when | sure | reads | costs | what to do | source "
      "|\n|---|---|---|---|---|---|---|---|\n";
  for (const WhyRule& rule : WhyRules()) {
    out.append("| `")
        .append(rule.name)
        .append("` ")
        .append(rule.title)
        .append(" | ")
        .append(WhyKindName(rule.kind));
    out.append(" | ").append(WhyConditionText(rule)).append(" | ").append(WhyConfidenceName(rule.confidence));
    out.append(" | ")
        .append(InputsText(rule, "`"))
        .append(" | ")
        .append(rule.cost)
        .append(" | ")
        .append(rule.advice);
    out.append(" | ").append(rule.source).append(" |\n");
  }
  return out;
}

std::string WhyRulesJson() {
  return JsonDocumentText("gpulens.why.rules/1", [](JsonObject& root) {
    root.List("rules", WhyRules(), [](std::string& out, const WhyRule& rule) {
      JsonObject row(out);
      row.Text("rule", rule.name);
      row.Text("title", rule.title);
      row.Text("kind", WhyKindName(rule.kind));
      row.Text("condition", WhyConditionText(rule));
      row.Number("threshold", rule.threshold);
      row.Whole("seconds", rule.seconds);
      row.Whole("least_seconds", rule.least_seconds);
      row.Text("confidence", WhyConfidenceName(rule.confidence));
      row.Text("cost", rule.cost);
      row.Text("do", rule.advice);
      row.Text("source", rule.source);
      row.List("inputs", rule.roles, [](std::string& to, const WhyRole& role) {
        JsonObject input(to);
        input.Flag("needed", role.needed);
        input.List("any_of", role.any_of, [](std::string& text, const WhyInput& one) {
          JsonObject series(text);
          series.Text("name", one.metric->name);
          series.Text("unit", one.metric->unit);
          if (!one.key.empty()) series.Text(one.key, one.value);
          if (!one.key2.empty()) series.Text(one.key2, one.value2);
        });
      });
    });
  });
}

}  // namespace gpulens

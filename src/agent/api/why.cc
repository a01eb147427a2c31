#include "agent/api/why.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/result.h"
#include "base/text.h"
#include "wire/json/json_object.h"

namespace gpulens {
namespace {

constexpr size_t kMostSamples = 2'000'000;
constexpr int64_t kLeastWindowMs = 60'000, kMostWindowMs = 3'600'000;

struct WhyRequest {
  WhyQuestion question;
  int64_t window_ms = 300'000;
};

Result<WhyRequest> ParseWhy(const ApiRequest& request) {
  WhyRequest out;
  for (const auto& [name, value] : request.parameters) {
    if (name == "window") {
      ASSIGN_OR_RETURN(out.window_ms, MillisecondsOf("window", value));
      if (out.window_ms < kLeastWindowMs || out.window_ms > kMostWindowMs)
        return Status{Code::kInvalidArgument, "window is 1m to 1h"};
      continue;
    }
    constexpr WhyKind kKinds[] = {WhyKind::kGpu, WhyKind::kProcess, WhyKind::kJob, WhyKind::kEngine};
    const auto kind = std::ranges::find(kKinds, name, WhyKindName);
    if (kind == std::end(kKinds))
      return Status{Code::kInvalidArgument,
                    "there is no parameter " + Printable(name) + "; gpu, pid, job, engine, window"};
    if (out.question.about) return Status{Code::kInvalidArgument, "one of gpu, pid, job and engine"};
    if (value.empty() || value.size() > 512)
      return Status{Code::kInvalidArgument, name + " is 1 to 512 bytes long"};
    out.question.about = WhySubject{*kind, value};
  }
  return out;
}

void WriteSubject(JsonObject& object, std::string_view key, const WhySubject& subject) {
  JsonObject inner(object.Key(key));
  inner.Text("kind", WhyKindName(subject.kind));
  inner.TextIfAny("name", subject.name);
  inner.Text("text", WhySubjectText(subject));
}

void WriteRule(JsonObject& object, const WhyRule& rule) {
  object.Text("rule", rule.name);
  object.Text("title", rule.title);
}

void WriteFinding(std::string& out, const WhyFinding& finding) {
  JsonObject object(out);
  WriteRule(object, *finding.rule);
  WriteSubject(object, "subject", finding.subject);
  object.Text("sentence", finding.sentence);
  object.Whole("since", finding.since_ms);
  object.Flag("since_begin", finding.since_begin);
  object.Text("confidence", WhyConfidenceName(finding.rule->confidence));
  {
    JsonObject cost(object.Key("cost"));
    if (!std::isnan(finding.cost.share)) {
      cost.Number("share", finding.cost.share);
      cost.Flag("at_most", finding.cost.at_most);
    }
    cost.Text("formula", finding.rule->cost);
  }
  object.List("evidence", finding.evidence, [](std::string& to, const WhyEvidence& evidence) {
    JsonObject row(to);
    row.Text("name", evidence.metric);
    row.Text("unit", evidence.unit);
    {
      JsonObject attributes(row.Key("attributes"));
      for (const auto& [key, value] : evidence.attributes) attributes.Text(key, value);
    }
    row.Number("value", evidence.value);
    row.Text("is", evidence.is);
    row.Whole("since", evidence.since_ms);
  });
  object.Text("condition", WhyConditionText(*finding.rule));
  object.Text("do", finding.rule->advice);
  object.Text("source", finding.rule->source);
  object.Texts("gpus", finding.gpus);
  object.Texts("engines", finding.engines);
  object.TextIfAny("job", finding.job);
}

}  // namespace

std::string WhyJson(const WhyReport& report, const WhyQuestion& question) {
  return JsonDocumentText("gpulens.why/1", [&](JsonObject& page) {
    page.Whole("from", report.from_ms);
    page.Whole("to", report.to_ms);
    page.Flag("simulated", report.simulated);
    if (question.about) WriteSubject(page, "about", *question.about);
    if (report.wait_seconds > 0) page.Whole("wait_s", report.wait_seconds);
    page.List("findings", report.findings, WriteFinding);
    page.List("looked", report.looked, [](std::string& out, const WhyLooked& looked) {
      JsonObject row(out);
      WriteRule(row, *looked.rule);
      row.Text("subjects", WhySubjectsText(looked.subjects));
    });
    page.List("unknown", report.unknown, [](std::string& out, const WhyUnknown& unknown) {
      JsonObject row(out);
      WriteRule(row, *unknown.rule);
      row.Text("subjects", WhySubjectsText(unknown.subjects));
      row.Text("reason", unknown.reason);
    });
  });
}

void AddWhyPage(Api& api, const NodeReadings& readings) {
  std::vector<SeriesSelector> selectors;
  for (std::string_view name : WhyMetrics()) selectors.push_back({std::string(name), {}});
  api.Add("/api/why", [readings, selectors](const ApiRequest& request) -> Result<std::string> {
    ASSIGN_OR_RETURN(WhyRequest why, ParseWhy(request));
    BeginHistory(readings);
    why.question.to_ms = readings.clock->Now().unix_ns / 1'000'000;
    why.question.window_seconds = static_cast<int>(why.window_ms / 1000);
    const int64_t from = why.question.to_ms - int64_t{WhyLookbackSeconds(why.question)} * 1000;
    ASSIGN_OR_RETURN(const std::vector<SeriesWindow> windows,
                     readings.history->Read(selectors, from, why.question.to_ms, kMostSamples));
    ASSIGN_OR_RETURN(const WhyReport report, ExplainWhy(windows, why.question));
    return WhyJson(report, why.question);
  });
}

}  // namespace gpulens

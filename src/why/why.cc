#include "why/why.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "base/parse.h"
#include "base/result.h"
#include "base/stable_sort.h"
#include "why/rule_case.h"

namespace gpulens {

using why_detail::GpuFacts;
using why_detail::NodeSeries;
using why_detail::RuleCase;
using why_detail::Verdict;

std::string_view WhyKindName(WhyKind kind) noexcept {
  switch (kind) {
    case WhyKind::kGpu: return "gpu";
    case WhyKind::kEngine: return "engine";
    case WhyKind::kHost: return "host";
    case WhyKind::kJob: return "job";
    case WhyKind::kProcess: break;
  }
  return "pid";
}

std::string_view WhyConfidenceName(WhyConfidence confidence) noexcept {
  switch (confidence) {
    case WhyConfidence::kLow: return "low";
    case WhyConfidence::kMedium: return "medium";
    case WhyConfidence::kHigh: break;
  }
  return "high";
}

int WhyLookbackSeconds(const WhyQuestion& question) noexcept {
  int seconds = std::clamp(question.window_seconds, 60, 3600);
  for (const WhyRule& rule : WhyRules()) seconds = std::max(seconds, rule.seconds);
  return seconds;
}

std::string WhySubjectText(const WhySubject& subject) {
  switch (subject.kind) {
    case WhyKind::kGpu: return "GPU " + subject.name;
    case WhyKind::kEngine: return "engine " + subject.name;
    case WhyKind::kJob: return "job " + subject.name;
    case WhyKind::kProcess: return "pid " + subject.name;
    case WhyKind::kHost: break;
  }
  return "host";
}

std::string WhySubjectsText(std::span<const WhySubject> subjects) {
  std::string out;
  for (size_t i = 0; i < subjects.size();) {
    const WhySubject& first = subjects[i];
    if (i > 0) out += ", ";
    if (i == 0 || subjects[i - 1].kind != first.kind) {
      out += WhySubjectText(first);
    } else {
      out += first.name;
    }
    size_t end = i + 1;
    auto number = [](const WhySubject& s) {
      return s.kind == WhyKind::kGpu ? ParseInt<int64_t>(s.name).value_or(-1) : -1;
    };
    while (end < subjects.size() && number(first) >= 0 && subjects[end].kind == first.kind &&
           number(subjects[end]) == number(first) + static_cast<int64_t>(end - i))
      ++end;
    if (end - i > 2) {
      out += "-" + subjects[end - 1].name;
      i = end;
    } else {
      ++i;
    }
  }
  return out;
}

namespace {

// The GPUs and engines that the question is about; kUnavailable: there is no such subject.
struct Scope {
  bool everything = false;
  std::vector<std::string> gpus, engines;

  bool Has(const WhySubject& subject) const {
    if (everything || subject.kind == WhyKind::kHost) return true;
    const std::vector<std::string>& names = subject.kind == WhyKind::kGpu ? gpus : engines;
    return std::find(names.begin(), names.end(), subject.name) != names.end();
  }
};

Result<Scope> ScopeOf(const NodeSeries& node, const std::optional<WhySubject>& about) {
  Scope scope;
  if (!about || about->kind == WhyKind::kHost) {
    scope.everything = !about;
    return scope;
  }
  std::vector<std::string> there;
  auto add = [&](std::string_view name) {
    if (!name.empty() && std::find(there.begin(), there.end(), name) == there.end()) there.emplace_back(name);
  };
  if (about->kind == WhyKind::kEngine) {
    for (const WhySubject& engine : node.engines()) {
      add(engine.name);
      if (engine.name == about->name) scope.engines = {engine.name};
    }
    if (!scope.engines.empty()) scope.gpus = node.GpusOf(about->name);
  }
  for (const WhySubject& gpu : node.gpus()) {
    const GpuFacts& facts = node.Gpu(gpu.name);
    bool is = false;
    if (about->kind == WhyKind::kGpu) {
      add(gpu.name);
      is = gpu.name == about->name;
    } else if (about->kind == WhyKind::kJob) {
      add(facts.job);
      is = !about->name.empty() && (facts.job == about->name || facts.slurm_id == about->name ||
                                    facts.job.ends_with("/" + about->name));
    } else if (about->kind == WhyKind::kProcess) {
      for (const std::string& pid : facts.pids) add(pid);
      is = std::find(facts.pids.begin(), facts.pids.end(), about->name) != facts.pids.end();
    }
    if (!is) continue;
    scope.gpus.push_back(gpu.name);
    for (std::string& engine : node.EnginesOn(facts))
      if (std::find(scope.engines.begin(), scope.engines.end(), engine) == scope.engines.end())
        scope.engines.push_back(std::move(engine));
  }
  if (scope.gpus.empty() && scope.engines.empty()) {
    std::string list;
    for (size_t i = 0; i < there.size() && i < 20; ++i) list.append(i ? ", " : "").append(there[i]);
    return Status{Code::kUnavailable,
                  "no " + WhySubjectText(*about) + " in the history" +
                      (list.empty() ? "; it has none of this kind" : "; there are: " + list)};
  }
  return scope;
}

// Certain causes with a known cost first, the largest first.
bool Worse(const WhyFinding& a, const WhyFinding& b) {
  const bool a_known = !std::isnan(a.cost.share), b_known = !std::isnan(b.cost.share);
  if (a_known != b_known) return a_known;
  if (a_known && a.cost.share != b.cost.share) return a.cost.share > b.cost.share;
  return a.rule->confidence > b.rule->confidence;
}

}  // namespace

Result<WhyReport> ExplainWhy(std::span<const SeriesWindow> windows, const WhyQuestion& question) {
  const int lookback = WhyLookbackSeconds(question);
  const NodeSeries node(windows, question.to_ms, lookback);
  ASSIGN_OR_RETURN(const Scope scope, ScopeOf(node, question.about));
  WhyReport report;
  report.to_ms = question.to_ms;
  report.from_ms = question.to_ms - int64_t{lookback} * 1000;
  report.simulated = node.simulated();
  const std::span<const WhyRule> rules = WhyRules();
  for (size_t r = 0; r < rules.size(); ++r) {
    const WhyRule& rule = rules[r];
    std::vector<WhySubject> subjects;
    if (rule.kind == WhyKind::kGpu) subjects = node.gpus();
    if (rule.kind == WhyKind::kEngine) subjects = node.engines();
    if (rule.kind == WhyKind::kHost && node.has_host()) subjects = {{WhyKind::kHost, {}}};
    if (subjects.empty()) {
      report.unknown.push_back({&rule,
                                {},
                                "no series of a" + std::string(rule.kind == WhyKind::kGpu      ? " GPU"
                                                               : rule.kind == WhyKind::kEngine ? "n engine"
                                                                                               : " host")});
      continue;
    }
    WhyLooked looked{&rule, {}};
    std::map<std::string, std::vector<WhySubject>> unknown;
    for (const WhySubject& subject : subjects) {
      if (!scope.Has(subject)) continue;
      const RuleCase rule_case(rule, node, subject);
      Verdict verdict{{}, rule_case.Missing(report.wait_seconds)};
      if (verdict.unknown.empty()) verdict = why_detail::EvaluatorOf(r)(rule_case);
      if (!verdict.unknown.empty()) {
        unknown[verdict.unknown].push_back(subject);
      } else if (!verdict.finding) {
        looked.subjects.push_back(subject);
      } else {
        WhyFinding& finding = *verdict.finding;
        finding.rule = &rule;
        finding.subject = subject;
        if (subject.kind == WhyKind::kGpu) {
          finding.gpus = {subject.name};
          finding.engines = node.EnginesOn(node.Gpu(subject.name));
        } else if (subject.kind == WhyKind::kEngine) {
          finding.engines = {subject.name};
          finding.gpus = node.GpusOf(subject.name);
        }
        if (!finding.gpus.empty()) finding.job = node.Gpu(finding.gpus[0]).job;
        report.findings.push_back(std::move(finding));
      }
    }
    if (!looked.subjects.empty()) report.looked.push_back(std::move(looked));
    for (auto& [reason, who] : unknown) report.unknown.push_back({&rule, std::move(who), reason});
  }
  SortStably(report.findings, Worse);
  return report;
}

}  // namespace gpulens

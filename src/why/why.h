// Answers "why is it slow?": a table of rules over the last minutes of a node's series. A pure function of
// samples; docs/why.md has the table.
//
// A rule looks at each GPU, engine or host. It finds its cause, or it does not, or it cannot know: a series
// is absent, stale or shorter than the rule needs. Gaps and restarts of counters are unknown time, which
// never makes a finding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "core/metric_desc.h"
#include "history/series_window.h"

namespace gpulens {

enum class WhyKind : uint8_t { kGpu, kEngine, kHost, kJob, kProcess };
// "gpu", "engine", "host", "job", "pid": the words of the command line and of JSON. Static storage.
std::string_view WhyKindName(WhyKind kind) noexcept;

// How often the cause is the reason when the rule finds it. kHigh: the hardware or the engine itself reports
// it. kMedium: it follows from readings. kLow: it is one explanation among others.
enum class WhyConfidence : uint8_t { kLow, kMedium, kHigh };
std::string_view WhyConfidenceName(WhyConfidence confidence) noexcept;

// One series that a rule reads, or several that are combined.
struct WhyInput {
  enum class Combine : uint8_t { kOne, kSum, kMax };
  const MetricDesc* metric;
  // Attributes that the series must have; '|' is between values of which one will do.
  std::string_view key = {}, value = {}, key2 = {}, value2 = {};
  Combine combine = Combine::kOne;  // how several series of the subject become one
  bool of_processes = false;        // series of processes: of those on the GPU, for the host of all
};
// The first of `any_of` that has values is read.
struct WhyRole {
  std::span<const WhyInput> any_of;
  bool needed = true;
  bool not_zero =
      false;  // one that is 0 all the time is passed over: a driver may have the series without counting
};

struct WhyRule {
  std::string_view name;   // "power_cap": stable
  std::string_view title;  // "Power limit"
  WhyKind kind;            // of what it looks at
  std::span<const WhyRole> roles;
  double threshold;
  int seconds;                 // the last so many are looked at
  int least_seconds;           // of which so many must be known
  std::string_view condition;  // {t}: the threshold, {p}: it as a percentage, {d}: the time
  WhyConfidence confidence;
  std::string_view cost;    // the formula of the share of useful time that is lost
  std::string_view advice;  // what to do
  std::string_view source;  // where the rule comes from
};
// In the order of the documentation. Static storage.
std::span<const WhyRule> WhyRules() noexcept;
// The condition with its numbers.
std::string WhyConditionText(const WhyRule& rule);
// The names of all metrics that an answer is made from, sorted.
std::vector<std::string_view> WhyMetrics();

struct WhySubject {
  WhyKind kind = WhyKind::kHost;
  std::string name;  // "2", "chat-a", "48213"; empty: the host
  friend auto operator<=>(const WhySubject&, const WhySubject&) = default;
};

struct WhyEvidence {
  std::string metric, unit;
  std::vector<std::pair<std::string, std::string>> attributes;
  double value = kNotMeasured;
  std::string is;        // what the value is: "mean of 60 s"
  int64_t since_ms = 0;  // begin of the time that the value is about
};

// Share of useful time that the cause takes, 0 to 1; kNotMeasured: not known.
struct WhyCost {
  double share = kNotMeasured;
  bool at_most = false;  // the true share may be less
};

struct WhyFinding {
  const WhyRule* rule = nullptr;
  WhySubject subject;
  std::string sentence;
  int64_t since_ms = 0;      // it has held since then, as far as the samples reach
  bool since_begin = false;  // it held already when the samples begin
  std::vector<WhyEvidence> evidence;
  WhyCost cost;
  // What it is about, for links: GPU indices; the job or pod and the engines on them.
  std::vector<std::string> gpus, engines;
  std::string job;
};

struct WhyLooked {
  const WhyRule* rule = nullptr;
  std::vector<WhySubject> subjects;  // that do not have the cause
};
struct WhyUnknown {
  const WhyRule* rule = nullptr;
  std::vector<WhySubject> subjects;
  std::string reason;
};

struct WhyReport {
  int64_t from_ms = 0, to_ms = 0;
  bool simulated = false;  // a series is
  int wait_seconds = 0;    // after so many more seconds of history every rule that needs more has it
  std::vector<WhyFinding> findings;  // worst first
  std::vector<WhyLooked> looked;     // in the order of the rules
  std::vector<WhyUnknown> unknown;
};

struct WhyQuestion {
  std::optional<WhySubject> about;  // absent: everything
  int64_t to_ms = 0;                // the moment that is explained
  int window_seconds = 300;         // for `since`, and for comparisons with earlier; 60 to 3600
};
// How far back from `to_ms` samples are needed.
int WhyLookbackSeconds(const WhyQuestion& question) noexcept;

// kUnavailable: there is no such GPU, engine, job or process; the text lists those that are there.
Result<WhyReport> ExplainWhy(std::span<const SeriesWindow> windows, const WhyQuestion& question);

// "GPU 0-3, 5"; "engine chat-a, code-b"; "the host".
std::string WhySubjectsText(std::span<const WhySubject> subjects);
// "GPU 2", "engine chat-a", "job 48213", "pid 4711", "host".
std::string WhySubjectText(const WhySubject& subject);

}  // namespace gpulens

// Runs as text for people, and as JSON. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/common/text_table.h"
#include "store/experiments/run_rows.h"

namespace gpulens {

// "0.25s", "12.3s", "1m 40s", "1h 42m", "2d 3h": what is over is cut, never rounded up. "–" for NaN.
std::string DurationText(double seconds);
// At most six digits: 0.0003125, 1.873, 124439808. Never "–": a NaN of a
// metric is "nan".
std::string MetricText(double value);
// "41.8 J", "1.8 kWh"; "–" for NaN.
std::string EnergyText(double joules);

// A run with all that belongs to it.
struct RunPage {
  experiments::RunRow run;
  std::vector<experiments::ParamRow> params;
  std::vector<experiments::TagRow> tags;
  std::vector<experiments::MetricRow> metrics;
  std::vector<experiments::ArtifactRow> artifacts;
  std::vector<experiments::ProcessRow> processes;
  std::vector<experiments::RunRow> children;
  std::string log;  // its path; empty: none is there
  bool old_file = false;
};

// A run in a list, with the metrics that its columns need.
struct ListedRun {
  experiments::RunRow run;
  std::vector<experiments::MetricRow> metrics;
};
std::string RunListText(const std::vector<ListedRun>& runs, int64_t now_ns);
std::string RunListJson(const std::vector<ListedRun>& runs, int64_t now_ns);
std::string RunPageText(const RunPage& page, int64_t now_ns);
std::string RunPageJson(const RunPage& page, int64_t now_ns);
// Only what differs. `all`: also what is the same.
std::string CompareText(const std::vector<RunPage>& pages, bool all, int64_t now_ns);
std::string CompareJson(const std::vector<RunPage>& pages, int64_t now_ns);
// The summary that `gpulens run` prints at the end.
std::string RunSummary(const experiments::RunRow& run, const std::vector<experiments::MetricRow>& metrics,
                       int64_t now_ns);

// "+12.5 %" from `before` to `after`; empty when there is no such number: from zero, or with a NaN.
std::string ChangeText(double before, double after);

}  // namespace gpulens

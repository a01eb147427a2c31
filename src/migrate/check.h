// Decides for each query whether it keeps working, and writes it with the names that are here. Pure;
// thread-safe.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/metric_desc.h"
#include "migrate/queries.h"
#include "migrate/tables.h"

namespace gpulens::migrate {

enum class Verdict : unsigned char {
  kKeeps,    // with the name sets of Needs
  kChanges,  // `replacement` is the query to use
  kMissing,  // at least one metric is not available
  kUnread,   // no PromQL, or the name of a metric is in a variable
  kOther,    // of other exporters only
};
inline constexpr size_t kVerdicts = 5;
// "keeps", "changes", "missing", "unread", "other".
std::string_view VerdictName(Verdict verdict) noexcept;

struct CheckedMetric {
  std::string name, becomes;  // empty: not available
  std::string note;
};

struct CheckedQuery {
  FoundQuery query;
  Verdict verdict = Verdict::kOther;
  std::vector<CheckedMetric> metrics;  // of the exporter, each once
  std::string replacement;             // kChanges
  std::string legend;              // kChanges: the legend or templates with other labels; empty: as they are
  std::vector<std::string> notes;  // what the reader has to look at
};

// What the configuration needs for all queries that keep working or are replaced.
struct Needs {
  std::set<std::string, std::less<>> names;     // name sets
  MetricLevel level = MetricLevel::kEssential;  // of native metrics

  // The names for `names:`, in an order that serves them.
  std::vector<std::string> Names() const;
  // Whether a level is necessary that is not the default one.
  bool NeedsLevel() const noexcept { return level == MetricLevel::kAll; }
};

// Adds to `needs` what the query needs.
CheckedQuery CheckQuery(const Exporter& exporter, FoundQuery query, Needs& needs);

// A row of the table of an exporter, name by name.
struct TableLine {
  std::string name;  // theirs
  std::string
      becomes;  // a query of ours, with the factor: "gpu_utilization_ratio * 100"; empty: not available
  std::string labels;  // "index → gpu_index"
  std::string note;
};
std::vector<TableLine> TableOf(const Exporter& exporter);

}  // namespace gpulens::migrate

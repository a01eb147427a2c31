// `gpulens metrics`: the catalogue, from the tables that the program itself uses.
#pragma once

#include <cstddef>
#include <string>

namespace gpulens {

struct MetricsOptions {
  std::string name;              // empty: all; a native or Prometheus name, or one of `names`
  std::string format = "table";  // table, md, json
  std::string names;             // whose; empty: native
  bool json = false;             // the same as the format json
  bool rules = false;            // the rules by which readings are believed, instead
};

// 0 printed, 2 no such metric or names.
int RunMetrics(const MetricsOptions& options);

// What is known of one metric, under whatever name it is asked for: native, Prometheus or another one. Empty
// for an unknown name; `nearest` is then the native or Prometheus name that is most like it, or empty.
std::string MetricPage(const std::string& name, std::string& nearest);

// All metrics of `names`, in lines of at most `width` columns; 0: one metric a line, of any length.
std::string MetricsTable(const std::string& names, size_t width);

// The rules by which readings are rejected, in lines of at most `width` columns; 0: the table of
// docs/quality.md.
std::string MetricRules(size_t width);

// The page docs/metrics.md.
std::string MetricsMarkdown();

}  // namespace gpulens

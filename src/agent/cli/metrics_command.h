// `gpulens metrics`: the catalogue, from the tables that the program itself uses.
#pragma once

#include <string>

namespace gpulens {

struct MetricsOptions {
  std::string name;              // empty: all; a native, Prometheus or dialect name
  std::string format = "table";  // table, md, json
  std::string dialect;           // empty: native
  bool rules = false;            // the rules by which readings are believed, instead
};

// 0 printed, 2 no such metric or dialect.
int RunMetrics(const MetricsOptions& options);

// The page docs/metrics.md.
std::string MetricsMarkdown();

}  // namespace gpulens

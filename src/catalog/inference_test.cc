#include "catalog/inference.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/parse.h"
#include "catalog/all.h"
#include "catalog/exported_name.h"

namespace gpulens {
namespace {

TEST(EngineMetrics, NamesAndMetricsAreUnique) {
  std::set<std::string_view> names;
  std::set<const MetricDesc*> metrics;
  for (const EngineMetric& row : AllEngineMetrics()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(metrics.insert(row.metric).second) << row.name;
    EXPECT_TRUE(row.metric->name.starts_with("inference."));
    EXPECT_EQ(FindEngineMetric(row.name), &row);
    EXPECT_EQ(EngineMetricOf(*row.metric), &row);
    EXPECT_EQ(FindMetric(row.metric->name), row.metric);
    // Histograms can only be added.
    if (row.metric->kind == Kind::kHistogram) {
      EXPECT_EQ(row.combine, Combine::kSum) << row.name;
    }
  }
  EXPECT_EQ(FindEngineMetric("Nothing"), nullptr);
  EXPECT_EQ(FindEngineMetric("TimeToFirstToken")->metric, &kInferenceTimeToFirstToken);
}

// Compares names, units, kinds, Prometheus names and combination with the table.
TEST(EngineMetricsCapture, AgreeWithTheTable) {
  auto text = ReadFile(GPULENS_SOURCE_DIR "/../shared/reference/roles.tsv");
  if (!text.ok()) GTEST_SKIP() << "captures not here: reference/roles.tsv";
  const std::map<std::string_view, Kind> kinds = {{"counter", Kind::kCounter},
                                                  {"histogram", Kind::kHistogram},
                                                  {"info", Kind::kInfo},
                                                  {"stateset", Kind::kStateSet}};
  std::string_view rest = *text;
  TakeUntil(rest, '\n');
  size_t rows = 0;
  while (!rest.empty()) {
    std::string_view line = TakeUntil(rest, '\n');
    std::vector<std::string_view> row;
    while (!line.empty()) row.push_back(TakeUntil(line, '\t'));
    ASSERT_EQ(row.size(), 11u);
    ++rows;
    const EngineMetric* found = FindEngineMetric(row[0]);
    ASSERT_NE(found, nullptr) << row[0];
    const MetricDesc& metric = *found->metric;
    EXPECT_EQ(metric.name, row[1]);
    bool unitless = metric.kind == Kind::kInfo || metric.kind == Kind::kStateSet;
    EXPECT_EQ(metric.unit, unitless ? "" : row[2]) << row[0];
    if (auto kind = kinds.find(row[3]); kind != kinds.end()) EXPECT_EQ(metric.kind, kind->second) << row[0];
    else EXPECT_TRUE(metric.kind == Kind::kGauge || metric.kind == Kind::kUpDownCounter) << row[0];
    EXPECT_TRUE(metric.help.ends_with('.')) << row[0];
    std::string named;
    AppendPrometheusName(named, metric);
    EXPECT_EQ(named, row[6]) << row[0];
    const std::map<std::string_view, Combine> combine = {{"sum", Combine::kSum},
                                                         {"mean", Combine::kMean},
                                                         {"max", Combine::kMax},
                                                         {"newest", Combine::kNewest}};
    EXPECT_EQ(found->combine, combine.at(row[10])) << row[0];
  }
  EXPECT_EQ(rows, AllEngineMetrics().size());
}

}  // namespace
}  // namespace gpulens

#include "catalog/roles.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/parse.h"
#include "catalog/all.h"
#include "catalog/inference_latency.h"
#include "catalog/prometheus_name.h"

namespace gpulens {
namespace {

TEST(Roles, EachIsOfItsOwnMetric) {
  std::set<std::string_view> names;
  std::set<const MetricDesc*> metrics;
  for (const Role& role : AllRoles()) {
    EXPECT_TRUE(names.insert(role.name).second) << role.name;
    EXPECT_TRUE(metrics.insert(role.metric).second) << role.name;
    EXPECT_TRUE(role.metric->name.starts_with("inference."));
    EXPECT_EQ(FindRole(role.name), &role);
    EXPECT_EQ(RoleOf(*role.metric), &role);
    EXPECT_EQ(FindMetric(role.metric->name), role.metric);
    // Histograms can only be added.
    if (role.metric->kind == Kind::kHistogram) {
      EXPECT_EQ(role.combine, Combine::kSum) << role.name;
    }
  }
  EXPECT_EQ(FindRole("Nothing"), nullptr);
  EXPECT_EQ(FindRole("TimeToFirstToken")->metric, &kInferenceTimeToFirstToken);
}

// Against the table of roles: names, units, kinds, spelling, what it is said to mean.
TEST(RolesCapture, AgreeWithTheTable) {
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
    const Role* role = FindRole(row[0]);
    ASSERT_NE(role, nullptr) << row[0];
    const MetricDesc& metric = *role->metric;
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
    EXPECT_EQ(role->combine, combine.at(row[10])) << row[0];
  }
  EXPECT_EQ(rows, AllRoles().size());
}

}  // namespace
}  // namespace gpulens

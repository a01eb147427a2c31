#include "migrate/queries.h"

#include <gtest/gtest.h>

#include <string>

#include "base/text.h"

namespace gpulens::migrate {
namespace {

FoundQueries InDashboard(std::string_view text) {
  FoundQueries found;
  const Status status = FindInDashboard(text, "f.json", found);
  EXPECT_TRUE(status.ok()) << status.detail;
  return found;
}

TEST(FindInDashboard, FindsPanelsRowsAndVariables) {
  const FoundQueries found = InDashboard(R"json({
    "annotations": {"list": [{"name": "resets", "expr": "changes(a[1m])"}]},
    "panels": [
      {"targets": [{"expr": "b", "legendFormat": "{{gpu}}"}, {"expr": ""}], "title": "Power"},
      {"type": "row", "title": "Row", "panels": [{"title": "Inner", "targets": [{"expr": "c"}]}]},
      {"datasource": {"type": "loki"}, "title": "Logs", "targets": [{"expr": "{app=\"x\"}"}]},
      {"libraryPanel": {"model": {"title": "Library", "targets": [{"expr": "d"}]}, "name": "l"}}
    ],
    "templating": {"list": [{"type": "query", "name": "gpu", "query": {"query": "label_values(e, gpu)"}, "definition": "label_values(e, gpu)"},
                            {"type": "custom", "name": "x", "query": "1,2"}, {"type": "query", "name": "y", "query": "label_values(f, y)"}]},
    "title": "GPUs"})json");
  ASSERT_EQ(found.queries.size(), 6u);
  EXPECT_EQ(found.other_sources, 1u);
  EXPECT_EQ(found.queries[0].place, "resets");
  EXPECT_EQ(found.queries[1].text, "b");
  EXPECT_EQ(found.queries[1].place, "Power");
  EXPECT_EQ(found.queries[1].title, "GPUs");
  EXPECT_EQ(found.queries[1].legend, "{{gpu}}");
  EXPECT_EQ(found.queries[2].place, "Inner");
  EXPECT_EQ(found.queries[3].place, "Library");
  EXPECT_EQ(found.queries[4].place, "variable $gpu");
  EXPECT_EQ(found.queries[5].text, "label_values(f, y)");
}

TEST(FindInDashboard, ReadsWhatTheApiExports) {
  const FoundQueries found = InDashboard(
      R"json({"meta": {}, "dashboard": {"title": "A", "panels": [{"title": "B", "targets": [{"expr": "x"}]}]}})json");
  ASSERT_EQ(found.queries.size(), 1u);
  EXPECT_EQ(found.queries[0].title, "A");
}

TEST(FindInDashboard, RefusesWhatIsNoJson) {
  FoundQueries found;
  EXPECT_EQ(FindInDashboard("", "f", found).code, Code::kDataLoss);
  EXPECT_EQ(FindInDashboard("{\"panels\": [{\"expr\": \"x\"}", "f", found).code, Code::kDataLoss);
  EXPECT_EQ(found.queries.size(), 1u) << "what was found before stays";
  EXPECT_EQ(FindInDashboard("{\"title\": \"\xff\"}", "f", found).code, Code::kDataLoss);
  EXPECT_EQ(FindInDashboard(std::string(100'000, '['), "f", found).code, Code::kExhausted);
  EXPECT_EQ(FindInDashboard(std::string(kMaxDashboardBytes + 1, ' '), "f", found).code, Code::kExhausted);
}

TEST(FindInRules, ReadsGroupsAndObjects) {
  FoundQueries found;
  ASSERT_TRUE(FindInRules("groups:\n- name: g\n  rules:\n  - {record: r, expr: sum(x)}\n", "f.yaml", found));
  ASSERT_TRUE(
      FindInRules("kind: ConfigMap\n---\nkind: PrometheusRule\nspec:\n  groups:\n  - name: h\n    rules:\n   "
                  " - alert: A\n      expr: |\n        y > 3\n"
                  "      annotations: {summary: 'GPU {{ $labels.gpu }}', other: no}\n",
                  "g.yaml", found));
  ASSERT_EQ(found.queries.size(), 2u);
  EXPECT_EQ(found.queries[0].place, "record r");
  EXPECT_EQ(found.queries[1].title, "h");
  EXPECT_EQ(found.queries[1].text, "y > 3\n");
  EXPECT_EQ(found.queries[1].legend, "summary: GPU {{ $labels.gpu }}");
}

TEST(FindInRules, RefusesWhatIsNoRule) {
  FoundQueries found;
  EXPECT_EQ(FindInRules("a: 1\n", "f", found).code, Code::kUnavailable);
  EXPECT_EQ(FindInRules("", "f", found).code, Code::kUnavailable);
  EXPECT_EQ(FindInRules("a: [", "f", found).code, Code::kInvalidArgument);
  EXPECT_EQ(FindInRules(std::string((4u << 20) + 1, ' '), "f", found).code, Code::kExhausted);
  EXPECT_FALSE(FindInRules("a: &a [*a, *a]\n", "f", found).ok());
}

TEST(FindInRules, BoundsWhatAliasesRepeat) {
  std::string rules = "groups:\n- rules: &r\n", text = "groups:\n- rules:\n  - {expr: &e \"";
  for (int i = 0; i < 300; ++i) rules += "  - {expr: x}\n";
  for (int i = 0; i < 99; ++i) rules += "- {rules: *r}\n";
  FoundQueries found;
  EXPECT_EQ(FindInRules(rules + "---\n" + rules, "f", found).code, Code::kExhausted) << "of all documents";
  EXPECT_EQ(found.queries.size(), kMaxQueries);
  text += std::string(1u << 20, 'x') + "\"}\n";
  for (int i = 0; i < 100; ++i) text += "  - {expr: *e}\n";
  found = {};
  EXPECT_EQ(FindInRules(text, "f", found).code, Code::kExhausted);
  EXPECT_LE(found.queries.size(), 16u);
}

// Each query of a dashboard has the title.
TEST(FindInDashboard, CutsLongTitles) {
  std::string title = "a";
  for (int i = 0; i < 1000; ++i) title += "é";
  FoundQueries found;
  ASSERT_TRUE(FindInDashboard("{\"title\":\"" + title + "\",\"panels\":[{\"expr\":\"x\"}]}", "f", found));
  ASSERT_EQ(found.queries.size(), 1u);
  EXPECT_EQ(found.queries[0].title.size(), 499u);
  EXPECT_TRUE(IsUtf8(found.queries[0].title));
}

}  // namespace
}  // namespace gpulens::migrate

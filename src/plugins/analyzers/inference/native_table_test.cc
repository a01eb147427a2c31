// Compares the table with itself, and with the reference tables where these are present.

#include "plugins/analyzers/inference/native_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/files.h"
#include "base/parse.h"
#include "catalog/all.h"
#include "catalog/inference.h"
#include "plugins/plugin.h"

namespace gpulens {

extern const AnalyzerSpec inference_analyzer;

namespace windows {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// Rows of a captured table; empty when it is not here.
Rows Captured(const std::string& name, size_t columns) {
  auto text = ReadFile(std::string(GPULENS_SOURCE_DIR "/../shared/reference/") + name);
  Rows rows;
  if (!text) return rows;
  std::string_view rest = *text;
  TakeUntil(rest, '\n');
  while (!rest.empty()) {
    std::string_view line = TakeUntil(rest, '\n');
    std::vector<std::string>& row = rows.emplace_back();
    while (!line.empty()) row.emplace_back(TakeUntil(line, '\t'));
    row.resize(columns);
  }
  return rows;
}

bool Makes(const NativeMetric& native, std::string_view metric, std::string_view key,
           std::string_view value) {
  if (native.metric->name != metric) return false;
  if (key.empty()) return true;
  if (key != "quantile") return native.key == key && native.value == value;
  return native.op == NativeOp::kQuantiles &&
         std::any_of(kWindowQuantiles.begin(), kWindowQuantiles.end(),
                     [&](const WindowQuantile& quantile) { return quantile.name == value; });
}

TEST(NativeTable, EveryRowIsMadeOfEngineMetrics) {
  std::set<const MetricDesc*> made;
  for (const NativeMetric& native : AllNatives()) {
    made.insert(native.metric);
    EXPECT_TRUE(native.metric->name.starts_with(native.engine)) << native.metric->name;
    ASSERT_NE(native.of.role, nullptr);
    for (const MetricPick* pick : {&native.of, &native.over, &native.fallback}) {
      if (!pick->role) continue;
      EXPECT_NE(EngineMetricOf(*pick->role), nullptr) << native.metric->name;
      if (pick->filter.key.empty()) continue;
      auto keys = pick->role->keys;
      EXPECT_NE(std::find(keys.begin(), keys.end(), pick->filter.key), keys.end()) << native.metric->name;
    }
    if (!native.key.empty()) {
      auto keys = native.metric->keys;
      EXPECT_NE(std::find(keys.begin(), keys.end(), native.key), keys.end()) << native.metric->name;
    }
  }
  auto listed = inference_analyzer.metrics;
  EXPECT_EQ(std::set<const MetricDesc*>(listed.begin(), listed.end()), made);
}

TEST(NativeTable, OperationsFitTheirMetrics) {
  for (const NativeMetric& native : AllNatives()) {
    bool histogram = native.of.role->kind == Kind::kHistogram;
    EXPECT_EQ(histogram, native.op == NativeOp::kQuantiles || native.op == NativeOp::kMean)
        << native.metric->name;
    if (native.op == NativeOp::kRate || native.op == NativeOp::kRatio ||
        native.op == NativeOp::kOnePlusRatio) {
      EXPECT_EQ(native.of.role->kind, Kind::kCounter) << native.metric->name;
    }
    EXPECT_EQ(native.op == NativeOp::kRatio || native.op == NativeOp::kOnePlusRatio ||
                  native.op == NativeOp::kTotal,
              native.over.role || native.fallback.role)
        << native.metric->name;
  }
}

TEST(NativeTable, RowsOfAnEngineAreAdjacent) {
  size_t rows = 0;
  for (std::string_view engine : {"vllm", "nim", "triton", "sglang", "tgi"}) rows += NativesOf(engine).size();
  EXPECT_EQ(rows, AllNatives().size());
  EXPECT_TRUE(NativesOf("llama.cpp").empty());
  EXPECT_TRUE(NativesOf("").empty());
}

TEST(NativeTableCapture, HasEveryNameUnitAndAttributeOfTheTable) {
  Rows rows = Captured("l9gpu_metric_names.tsv", 9);
  if (rows.empty()) GTEST_SKIP() << "captures not here: reference/l9gpu_metric_names.tsv";
  const std::set<std::string> schemas = {"VllmMetrics", "NimMetrics", "TritonMetrics", "SGLangMetrics",
                                         "TGIMetrics"};
  size_t seen = 0;
  for (const auto& row : rows) {
    if (!schemas.contains(row[0]) || row[8] != "metric") continue;
    ++seen;
    const MetricDesc* metric = FindMetric(row[2]);
    ASSERT_NE(metric, nullptr) << row[2];
    EXPECT_EQ(metric->unit, row[3]) << row[2];
    std::string_view rest = row[4];
    std::string key, value;
    if (rest.find('"') != std::string_view::npos) {
      TakeUntil(rest, '"');
      key = TakeUntil(rest, '"');
      TakeUntil(rest, '"');
      value = TakeUntil(rest, '"');
    }
    bool made = std::any_of(AllNatives().begin(), AllNatives().end(),
                            [&](const NativeMetric& native) { return Makes(native, row[2], key, value); });
    EXPECT_TRUE(made) << row[2] << " " << row[4];
  }
  EXPECT_EQ(seen, 76u);
}

std::string_view EngineOf(std::string_view engine) {
  return engine == "ray-serve" || engine == "triton-vllm" ? "vllm" : engine;
}

bool Uses(const NativeMetric& native, std::string_view op, const MetricDesc* role) {
  bool of = native.of.role == role, over = native.over.role == role, fallback = native.fallback.role == role;
  bool ratio = native.op == NativeOp::kRatio || native.op == NativeOp::kOnePlusRatio;
  if (op == "rate") return native.op == NativeOp::kRate && of;
  if (op == "q") return native.op == NativeOp::kQuantiles && of;
  if (op == "num") return (ratio || native.op == NativeOp::kMean) && of;
  if (op == "den") return (ratio && over) || native.op == NativeOp::kMean;
  if (op.starts_with("sum")) return native.op == NativeOp::kTotal && (of || over || fallback);
  if (op != "value") return false;
  return ((native.op == NativeOp::kLevel || native.op == NativeOp::kTotal) && of) ||
         (native.op == NativeOp::kRatio && fallback);
}

// Families that feed a name do so by their engine metric.
TEST(NativeTableCapture, FamiliesFeedByTheirMetric) {
  Rows rows = Captured("engine_families.tsv", 12);
  if (rows.empty()) GTEST_SKIP() << "captures not here: reference/engine_families.tsv";
  size_t seen = 0;
  for (const auto& row : rows) {
    if (row[0].starts_with('#') || row[9].empty() || row[9] == "-") continue;
    std::string_view role_text = row[7], all = row[9];
    const EngineMetric* role = FindEngineMetric(role_text.substr(0, role_text.find_first_of(":@")));
    ASSERT_NE(role, nullptr) << row[3];
    while (!all.empty()) {
      ++seen;
      std::string_view one = TakeUntil(all, ';');
      size_t colon = one.find(one.starts_with("sum(") ? "):" : ":");
      std::string_view op = one.substr(0, colon);
      std::string_view name = one.substr(one.find(':', colon) + 1);
      name = name.substr(0, name.find('{'));
      auto natives = NativesOf(EngineOf(row[0]));
      bool made = std::any_of(natives.begin(), natives.end(), [&](const NativeMetric& native) {
        return native.metric->name == name && Uses(native, op, role->metric);
      });
      EXPECT_TRUE(made) << row[0] << " " << row[3] << " " << one;
    }
  }
  EXPECT_GT(seen, 100u);
}

}  // namespace
}  // namespace windows
}  // namespace gpulens

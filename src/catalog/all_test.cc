#include "catalog/all.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>

#include "base/files.h"
#include "catalog/exported_name.h"
#include "catalog/gpu.h"
#include "catalog/host.h"
#include "catalog/inference.h"
#include "catalog/self.h"
#include "core/validate.h"

namespace gpulens {
namespace {

std::string PrometheusName(const MetricDesc& metric) {
  std::string out;
  AppendPrometheusName(out, metric);
  return out;
}

TEST(Catalogue, ListsEveryRowOnce) {
  constexpr std::string_view kDeclaration = "METRIC(";
  size_t declared = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(GPULENS_SOURCE_DIR "/src/catalog")) {
    if (file.path().extension() != ".def") continue;
    auto text = ReadFile(file.path().string());
    ASSERT_TRUE(text.ok());
    for (size_t at = text->find(kDeclaration); at != std::string::npos;
         at = text->find(kDeclaration, at + 1)) {
      ++declared;
    }
  }
  std::set<const MetricDesc*> listed(AllMetrics().begin(), AllMetrics().end());
  EXPECT_EQ(listed.size(), AllMetrics().size());
  EXPECT_EQ(listed.size(), declared);
}

TEST(Catalogue, NamesAndFamiliesAreUnique) {
  std::set<std::string_view> names;
  std::set<std::string> families;
  for (const MetricDesc* metric : AllMetrics()) {
    EXPECT_TRUE(names.insert(metric->name).second) << metric->name;
    EXPECT_TRUE(families.insert(PrometheusName(*metric)).second) << metric->name;
    EXPECT_EQ(FindMetric(metric->name), metric);
  }
  EXPECT_EQ(FindMetric("gpu.unknown"), nullptr);
}

TEST(Catalogue, NamesFollowTheRules) {
  for (const MetricDesc* metric : AllMetrics()) {
    EXPECT_EQ(metric->naming, Naming::kOtel);
    for (char c : metric->name) {
      EXPECT_TRUE((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_') << metric->name;
    }
    std::string_view area = metric->name.substr(0, metric->name.find('.'));
    constexpr std::array<std::string_view, 28> kAreas = {
        "k8s",      "container", "gpu",       "host",      "system",
        "nvidia",   "nvswitch",  "amd",       "gaudi",     "intel",
        "gpulens",  "process",   "target",    "inference", "vllm",
        "nim",      "triton",    "sglang",    "tgi",       "slurm",
        "training", "energy",    "cost",      "ledger",    "effective_compute",
        "cuda",     "nccl",      "dataloader"};
    EXPECT_NE(std::ranges::find(kAreas, area), kAreas.end()) << metric->name;
  }
}

TEST(Catalogue, HelpIsASentence) {
  for (const MetricDesc* metric : AllMetrics()) {
    ASSERT_GT(metric->help.size(), 10u) << metric->name;
    EXPECT_TRUE(metric->help.ends_with('.')) << metric->help;
    EXPECT_EQ(metric->help.find('\n'), std::string_view::npos);
  }
}

TEST(Catalogue, UnitsAreKnownAndFitTheKind) {
  const std::set<std::string_view> known = {
      "",          "1",         "By",          "By/s",      "s",         "W",       "J",
      "V",         "Cel",       "Hz",          "MHz",       "rpm",       "Cel/min", "{error}/h",
      "{frame}/s", "{token}/s", "{request}/s", "{block}/s", "{event}/s", "us",      "TFLOPS",
      "USD/h",     "USD/s",     "USD/{token}", "{token}/W", "J/{token}", "g/kWh",   "g/s"};
  for (const MetricDesc* metric : AllMetrics()) {
    bool counted = metric->unit.starts_with('{') && metric->unit.ends_with('}');
    EXPECT_TRUE(counted || known.contains(metric->unit)) << metric->name << " " << metric->unit;
    bool unitless = metric->kind == Kind::kInfo || metric->kind == Kind::kStateSet;
    EXPECT_EQ(metric->unit.empty(), unitless) << metric->name;
    if (metric->unit == "1" || metric->unit == "s" || metric->unit == "W" || metric->unit == "J") {
      EXPECT_EQ(metric->number, Number::kDouble) << metric->name;
    }
    // Estimates of an engine: an eighth of an exabyte is a fortnight of one GPU.
    if (metric->unit == "By" && metric != &kInferenceEstimatedBytes) {
      EXPECT_EQ(metric->number, metric->kind == Kind::kHistogram ? Number::kDouble : Number::kInt)
          << metric->name;
    }
    if (metric->unit == "{bool}") {
      EXPECT_EQ(metric->rule, &row::kZeroToOne) << metric->name;
    }
  }
  EXPECT_EQ(kSystemCpuLoadAverage1m.number, Number::kDouble);
  EXPECT_EQ(kGpuMemoryUsedPercent.number, Number::kDouble);
}

TEST(Catalogue, KeysAndTheirLabelsAreUnique) {
  for (const MetricDesc* metric : AllMetrics()) {
    std::set<std::string> labels;
    for (std::string_view key : metric->keys) {
      std::string label;
      AppendPrometheusLabel(label, key);
      EXPECT_TRUE(labels.insert(label).second) << metric->name << " " << key;
      EXPECT_FALSE(key.empty());
    }
    if (metric->kind == Kind::kStateSet) {
      EXPECT_NE(std::ranges::find(metric->keys, metric->name), metric->keys.end()) << metric->name;
    }
  }
}

TEST(Catalogue, RulesAreSane) {
  for (const MetricDesc* metric : AllMetrics()) {
    if (metric->kind == Kind::kHistogram) {
      EXPECT_EQ(metric->rule, nullptr) << metric->name;
      continue;
    }
    ASSERT_NE(metric->rule, nullptr) << metric->name;
    const Rule& rule = *metric->rule;
    EXPECT_LT(rule.low, rule.high) << metric->name;
    EXPECT_GT(rule.max_change_per_second, 0) << metric->name;
    EXPECT_FALSE(std::isnan(rule.low) || std::isnan(rule.high)) << metric->name;
    EXPECT_EQ(Validate(*metric, std::nan(""), 1, nullptr), Validation::kOutOfRange) << metric->name;
    if (metric->on_decrease == OnDecrease::kReject) {
      EXPECT_EQ(metric->kind, Kind::kCounter) << metric->name;
    }
    // The bounds themselves are accepted, unless a source uses one as a sentinel.
    if (std::isfinite(rule.low)) {
      EXPECT_EQ(Validate(*metric, rule.low, 1, nullptr), Validation::kAccepted);
    }
    if (std::isfinite(rule.high)) {
      EXPECT_EQ(Validate(*metric, rule.high, 1, nullptr), Validation::kAccepted);
    }
  }
}

TEST(Catalogue, SentinelsAndImpossibleValuesAreRejected) {
  EXPECT_EQ(Validate(kGpuTemperature, 65535, 1, nullptr), Validation::kSentinel);
  EXPECT_EQ(Validate(kGpuTemperature, 131, 1, nullptr), Validation::kOutOfRange);
  EXPECT_EQ(Validate(kGpuPowerState, 32, 1, nullptr), Validation::kSentinel);
  EXPECT_EQ(Validate(kGpuPowerState, 16, 1, nullptr), Validation::kOutOfRange);
  EXPECT_EQ(Validate(kGpuClockFrequency, 65535, 1, nullptr), Validation::kSentinel);
  EXPECT_EQ(Validate(kGpuMemoryUsed, -1, 1, nullptr), Validation::kSentinel);
  EXPECT_EQ(Validate(kGpuProcessMemoryUsed, 18446744073709551615.0, 1, nullptr), Validation::kSentinel);
  EXPECT_EQ(Validate(kGpuUtilization, 655.35, 1, nullptr), Validation::kOutOfRange);
  EXPECT_EQ(Validate(kGpuMemoryTotal, 0, 1, nullptr), Validation::kOutOfRange);
  EXPECT_EQ(Validate(kGpuEnergyConsumption, -5, 1, nullptr), Validation::kOutOfRange);
}

TEST(Catalogue, RowsHaveStabilityAndOptIn) {
  EXPECT_EQ(kGpuPowerDraw.stability, Stability::kStable);
  EXPECT_FALSE(kGpuPowerDraw.opt_in);
  EXPECT_TRUE(kHostEntropy.opt_in);
  EXPECT_EQ(kHostPressureTime.stability, Stability::kDevelopment);
}

TEST(Catalogue, KindsHaveNames) {
  std::set<std::string_view> names;
  for (uint8_t kind = 0; kind <= static_cast<uint8_t>(Kind::kUnknown); ++kind) {
    EXPECT_TRUE(names.insert(KindName(static_cast<Kind>(kind))).second);
  }
  EXPECT_EQ(KindName(Kind::kUpDownCounter), "updowncounter");
  EXPECT_EQ(KindName(static_cast<Kind>(99)), "unknown");
}

}  // namespace
}  // namespace gpulens

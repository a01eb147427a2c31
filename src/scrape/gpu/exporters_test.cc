// Every name that a version of an exporter is known to have is read or ignored with a reason; captures of
// real pages are read.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/files.h"
#include "base/parse.h"
#include "scrape/gpu/gpu_page_testing.h"

namespace gpulens::gpu_page {
namespace {

const std::string kCaptures = GPULENS_SOURCE_DIR "/../shared/";

bool Reads(const Exporter& exporter, std::string_view family) {
  return std::ranges::any_of(exporter.rows, [&](const PageRow& row) {
    return Matches(row.family, family) || Matches(row.renamed, family);
  });
}

std::string Capture(const std::string& path) {
  auto text = ReadFile(kCaptures + path, 4u << 20);
  return text ? *text : std::string();
}

TEST(ExporterTables, RowsAreComplete) {
  for (const Exporter* exporter : AllExporters()) {
    std::set<std::pair<std::string_view, std::string>> seen;
    for (const PageRow& row : exporter->rows) {
      ASSERT_TRUE(row.metric) << row.family;
      EXPECT_EQ(row.convert == RowConversion::kStates, row.metric->kind == Kind::kStateSet) << row.family;
      EXPECT_EQ(row.label.empty(), row.label_key.empty()) << row.family;
      EXPECT_EQ(row.number.empty(), row.family.find('#') == std::string_view::npos) << row.family;
      EXPECT_GT(row.per, 0) << row.family;
      // The attributes are the row's own, as the catalogue lists them.
      std::set<std::string_view> keys(row.metric->keys.begin(), row.metric->keys.end());
      for (std::string_view rest = row.attributes; !rest.empty();) {
        std::string_view one = TakeUntil(rest, ',');
        EXPECT_TRUE(keys.contains(TakeUntil(one, '='))) << row.family << ": " << row.attributes;
        EXPECT_FALSE(one.empty()) << row.family;
      }
      if (!row.number.empty()) {
        EXPECT_TRUE(keys.contains(row.number)) << row.family;
      }
      if (!row.label_key.empty()) {
        EXPECT_TRUE(keys.contains(row.label_key)) << row.family;
      }
      std::string what = std::string(row.metric->name) + std::string(row.attributes) + std::string(row.is);
      EXPECT_TRUE(seen.insert({row.family, what}).second) << row.family << " is there twice";
    }
    for (const IgnoredFamilies& ignored : exporter->ignored)
      EXPECT_FALSE(ignored.reason.empty()) << ignored.prefix;
  }
}

TEST(ExporterTables, PatternsMatchIntegersOnly) {
  std::string_view number;
  EXPECT_TRUE(Matches("A_L#_TOTAL", "A_L17_TOTAL", &number));
  EXPECT_EQ(number, "17");
  EXPECT_FALSE(Matches("A_L#_TOTAL", "A_L_TOTAL"));
  EXPECT_FALSE(Matches("A_L#_TOTAL", "A_Lx1_TOTAL"));
  EXPECT_FALSE(Matches("A_L#", "A_L99999999999999"));
  EXPECT_FALSE(Matches("", ""));
}

// Both names of every field of DCGM 4.6, and of the exporter's default list.
TEST(ExporterTables, EveryDcgmFieldIsReadOrHasAReasonNotToBe) {
  const Exporter& dcgm = *FindExporter("dcgm");
  std::string fields = Capture("fixtures/dcgm/dcgm_fields_4.6.0.tsv");
  std::string list = Capture("fixtures/dcgm/dcgm-exporter_default-counters.csv");
  if (fields.empty() || list.empty()) GTEST_SKIP() << "captures not here";
  size_t read = 0, names = 0;
  auto check = [&](std::string_view name) {
    if (!name.starts_with("DCGM_")) return;
    ++names;
    bool is_read = Reads(dcgm, name);
    read += is_read;
    EXPECT_TRUE(is_read || FindIgnored(dcgm, name)) << name;
  };
  for (std::string_view rest = fields; !rest.empty();) {
    std::string_view line = TakeUntil(rest, '\n');
    TakeUntil(line, '\t');
    std::string_view now = TakeUntil(line, '\t'), before = TakeUntil(line, '\t');
    check(now);
    check(before);
    if (!before.empty()) {
      EXPECT_EQ(Reads(dcgm, now), Reads(dcgm, before)) << now << " and " << before;
    }
  }
  for (std::string_view rest = list; !rest.empty();) {
    std::string_view line = Trim(TakeUntil(rest, '\n'));
    if (line.starts_with("# ")) line.remove_prefix(2);
    check(Trim(TakeUntil(line, ',')));
  }
  EXPECT_GT(names, 1000u);
  EXPECT_GT(read, 350u);
}

// The table reads the fields of the reference.
TEST(ExporterTables, MapsFieldsOfTheCatalogue) {
  const Exporter& dcgm = *FindExporter("dcgm");
  std::string catalogue = Capture("reference/catalogue_gpu.tsv");
  if (catalogue.empty()) GTEST_SKIP() << "captures not here: the catalogue";
  size_t checked = 0;
  for (std::string_view rest = catalogue; !rest.empty();) {
    std::string_view line = TakeUntil(rest, '\n');
    for (size_t at = line.find("DCGM_FI_"); at != std::string_view::npos;
         at = line.find("DCGM_FI_", at + 1)) {
      std::string_view name = line.substr(at);
      name = name.substr(0, name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"));
      if (name.ends_with("_")) continue;  // a group, in prose
      ++checked;
      EXPECT_TRUE(Reads(dcgm, name) || FindIgnored(dcgm, name)) << name;
    }
  }
  EXPECT_GT(checked, 150u);
}

TEST(ExporterTables, EveryAmdMetricIsReadOrHasAReasonNotToBe) {
  const Exporter& amd = *FindExporter("amd");
  std::string list = Capture("fixtures/amd/metrics-support-matrix.yaml");
  if (list.empty()) GTEST_SKIP() << "captures not here";
  size_t names = 0;
  for (std::string_view rest = list; !rest.empty();) {
    std::string_view line = Trim(TakeUntil(rest, '\n'));
    if (!line.starts_with("- name: ")) continue;
    std::string name;
    for (char c : line.substr(8)) name += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    ++names;
    EXPECT_TRUE(Reads(amd, name) || FindIgnored(amd, name)) << name;
  }
  EXPECT_GT(names, 80u);
}

// Every number of a captured page is on ours, in its native unit: each family looked at by hand once.
class CapturedPage : public ::testing::Test {
 protected:
  // False, and the test is skipped by its caller, when the capture is not here.
  bool Read(const std::string& path) {
    std::string body = Capture("fixtures/" + path);
    if (body.empty()) return false;
    fixture.Read(body);
    EXPECT_TRUE(fixture.last.ok()) << fixture.last.detail;
    EXPECT_EQ(fixture.series.unknown_families(), 0u) << path;
    EXPECT_EQ(fixture.table.refused(SeriesRefusal::kDuplicate), 0u);
    values = fixture.Values({"gpu.uuid", "gpu.model"});
    return true;
  }
  PageFixture fixture;
  std::map<std::string, double> values;
};

TEST_F(CapturedPage, DatadogT4) {
  if (!Read("dcgm/datadog_dcgm_metrics.txt")) GTEST_SKIP() << "captures not here";
  EXPECT_EQ(values["gpu.clock.frequency{gpu.clock.type=sm,gpu.index=0}"], 300);
  EXPECT_EQ(values["gpu.power.draw{gpu.index=0}"], 8.969);
  EXPECT_EQ(values["gpu.energy.consumption{gpu.index=0}"], 128996.013);
  EXPECT_EQ(values["gpu.temperature{gpu.index=0,gpu.temperature.sensor=edge}"], 25);
  // The capture has lines of three drivers, of which the first has the fewest.
  EXPECT_EQ(
      values["gpu.driver.info{gpu.driver.version=470.182.03,gpu.library.version=11.470.182.03,gpu.vendor="
             "nvidia}"],
      1);
}

TEST_F(CapturedPage, FourMigInstancesOfAnA100) {
  if (!Read("dcgm/mig_4_active_workloads.txt")) GTEST_SKIP() << "captures not here";
  EXPECT_EQ(values["gpu.clock.frequency{gpu.clock.type=sm,gpu.index=0}"], 1410);
  EXPECT_EQ(values["gpu.temperature{gpu.index=0,gpu.temperature.sensor=memory}"], 36);
  size_t instances = 0, boards = 0;
  for (const auto& [name, value] : values) {
    instances +=
        name.starts_with("gpu.gr_engine.active{") && name.find("gpu.mig.instance_id") != std::string::npos;
    boards += name.starts_with("gpu.power.draw{");
  }
  EXPECT_EQ(instances, 4u);
  EXPECT_EQ(boards, 1u) << "four lines, one board";
}

TEST_F(CapturedPage, BoardAndInstanceOnOnePage) {
  if (!Read("dcgm/cloud-native-docs_mig_and_gpu.txt")) GTEST_SKIP() << "captures not here";
  EXPECT_EQ(values["gpu.power.draw{gpu.index=0}"], 409.692);
  EXPECT_EQ(values["gpu.memory.used{gpu.index=0}"], 4845.0 * 1048576);
  EXPECT_EQ(
      values
          ["gpu.pcie.throughput{gpu.index=0,gpu.interconnect.direction=transmit,gpu.interconnect.source=dcgm_"
           "profiling,gpu.interconnect.type=pcie}"],
      33011804);
  EXPECT_FALSE(values.contains("gpu.gr_engine.active{gpu.index=0}")) << "the instance has it";
}

TEST_F(CapturedPage, OtherDcgmPages) {
  for (auto name : {"mig_active_1g5gb", "mig_disabled_empty", "mig_enabled_empty", "fraction_1_workload"}) {
    PageFixture fresh;
    std::string body = Capture(std::string("fixtures/dcgm/") + name + ".txt");
    if (body.empty()) GTEST_SKIP() << "captures not here";
    fresh.Read(body);
    EXPECT_TRUE(fresh.last.ok()) << name << ": " << fresh.last.detail;
    EXPECT_EQ(fresh.series.unknown_families(), 0u) << name;
    EXPECT_GT(fresh.Values().size(), 14u) << name;
    for (const auto& [series, value] : fresh.Values()) {
      bool ratio = series.find(".active{") != std::string::npos || series.starts_with("gpu.utilization{");
      if (ratio) {
        EXPECT_TRUE(value >= 0 && value <= 1) << series << " " << value;
      }
    }
  }
}

TEST_F(CapturedPage, SkipsBlanksOfTheReadme) {
  std::string body = Capture("fixtures/dcgm/dcgm-exporter_readme_k8s.txt");
  if (body.empty()) GTEST_SKIP() << "captures not here";
  fixture.Read(body);
  auto read = fixture.Values({"gpu.uuid", "gpu.model"});
  EXPECT_EQ(read["gpu.clock.frequency{gpu.clock.type=sm,gpu.index=0}"], 139);
  EXPECT_FALSE(read.contains("gpu.temperature{gpu.index=0,gpu.temperature.sensor=memory}"));
  EXPECT_EQ(fixture.writer.counts().rejected[static_cast<size_t>(Validation::kSentinel)], 1u);
}

TEST_F(CapturedPage, Amd2024AndToday) {
  if (!Read("amd/metrics_mini.txt")) GTEST_SKIP() << "captures not here";
  EXPECT_EQ(values["gpu.power.draw{}"], 41);
  EXPECT_EQ(values["gpu.memory.total{}"], 68702.0 * 1048576);
  EXPECT_EQ(values["gpu.utilization{gpu.task.type=compute}"], 0);
  EXPECT_EQ(values["gpu.devices{gpu.vendor=amd}"], 1);
  PageFixture today;
  today.Read(Capture("fixtures/amd/kaiwo_gpu_gfx_activity_mi300x.txt"));
  auto read = today.Values({"gpu.uuid", "gpu.model"});
  EXPECT_EQ(read["gpu.utilization{gpu.index=2,gpu.task.type=compute}"], 0);
  EXPECT_EQ(
      read["gpu.utilization{gpu.index=0,gpu.task.type=compute,k8s.container.name=workload,k8s.namespace.name="
           "default,k8s.pod.name=high-utilization-57ls6}"],
      1);
}

}  // namespace
}  // namespace gpulens::gpu_page

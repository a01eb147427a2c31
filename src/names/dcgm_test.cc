#include "names/dcgm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/files.h"
#include "names/naming_testing.h"

namespace gpulens {
namespace {

using naming_testing::Label;
using naming_testing::MakeNames;
using naming_testing::Series;
using naming_testing::Tick;
using naming_testing::Tsv;
using ::testing::ElementsAre;
using ::testing::Pair;

constexpr std::string_view kUuid = "GPU-7a2e92f2";

std::vector<NamedSeries> NameWith(const SeriesNamer& namer, const MetricDesc& desc, AttributeSet attributes) {
  std::vector<NamedSeries> out;
  namer(Series(desc, std::move(attributes)), out);
  return out;
}

SeriesNamer DcgmNamer() {
  std::vector<std::string> names = {"dcgm"};
  return MakeSeriesNamer(names);
}

TEST(Dcgm, HasTheLabelsOfTheExporterInItsOrder) {
  Tick tick;
  tick.Add(kGpuInfo, {{"gpu.index", int64_t{3}},
                      {"gpu.uuid", kUuid},
                      {"gpu.vendor", "nvidia"},
                      {"gpu.pci.bus_id", "0000:0f:00.0"}});
  tick.Add(kGpuDriverInfo, {{"gpu.vendor", "nvidia"}, {"gpu.driver.version", "580.95.05"}});
  SeriesNamer namer = DcgmNamer();
  EXPECT_TRUE(namer.Refresh(tick.Snap({{"host.name", "node7"}})));
  AttributeSet power({{"gpu.index", int64_t{3}},
                      {"gpu.uuid", kUuid},
                      {"gpu.model", "NVIDIA H100 80GB HBM3"},
                      {"k8s.pod.name", "train-0"},
                      {"k8s.namespace.name", "ml"},
                      {"k8s.container.name", "main"}});
  auto named = NameWith(namer, kGpuPowerDraw, power);
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].name, "DCGM_FI_DEV_POWER_USAGE");
  EXPECT_THAT(named[0].labels,
              ElementsAre(Pair("gpu", "3"), Pair("UUID", kUuid), Pair("pci_bus_id", "00000000:0F:00.0"),
                          Pair("device", "nvidia3"), Pair("modelName", "NVIDIA H100 80GB HBM3"),
                          Pair("Hostname", "node7"), Pair("DCGM_FI_DRIVER_VERSION", "580.95.05"),
                          Pair("container", "main"), Pair("namespace", "ml"), Pair("pod", "train-0")));
}

TEST(Dcgm, OmitsUnknownLabels) {
  auto named = MakeNames({"dcgm"}, kGpuPowerDraw, {{"gpu.index", int64_t{0}}});
  ASSERT_EQ(named.size(), 1u);
  EXPECT_THAT(named[0].labels, ElementsAre(Pair("gpu", "0"), Pair("device", "nvidia0")));
}

TEST(Dcgm, FollowsChangedFacts) {
  auto tick = [](std::string_view driver) {
    Tick made;
    made.Add(kGpuInfo, {{"gpu.index", int64_t{0}}, {"gpu.uuid", kUuid}, {"gpu.vendor", "nvidia"}});
    made.Add(kGpuDriverInfo, {{"gpu.vendor", "nvidia"}, {"gpu.driver.version", driver}});
    return made.Snap({{"host.name", "a"}});
  };
  SeriesNamer namer = DcgmNamer();
  EXPECT_TRUE(namer.Refresh(tick("1")));
  EXPECT_FALSE(namer.Refresh(tick("1"))) << "another layout, the same facts";
  AttributeSet gpu({{"gpu.index", int64_t{0}}, {"gpu.uuid", kUuid}});
  EXPECT_EQ(Label(NameWith(namer, kGpuPowerDraw, gpu)[0], "DCGM_FI_DRIVER_VERSION"), "1");
  EXPECT_TRUE(namer.Refresh(tick("2")));
  EXPECT_EQ(Label(NameWith(namer, kGpuPowerDraw, gpu)[0], "DCGM_FI_DRIVER_VERSION"), "2");
  std::vector<std::string> plain = {"native", "zernel"};
  EXPECT_FALSE(MakeSeriesNamer(plain).Refresh(tick("3"))) << "these say nothing of others";
}

TEST(Dcgm, IndexOfTwoVendorsIsAmbiguous) {
  Tick tick;
  tick.Add(kGpuInfo, {{"gpu.index", int64_t{0}},
                      {"gpu.uuid", kUuid},
                      {"gpu.vendor", "nvidia"},
                      {"gpu.pci.bus_id", "0000:01:00.0"}});
  tick.Add(kGpuInfo, {{"gpu.index", int64_t{0}},
                      {"gpu.uuid", "amd-1"},
                      {"gpu.vendor", "amd"},
                      {"gpu.pci.bus_id", "0000:02:00.0"}});
  SeriesNamer namer = DcgmNamer();
  namer.Refresh(tick.Snap());
  auto by_uuid = NameWith(namer, kGpuPowerDraw, {{"gpu.index", int64_t{0}}, {"gpu.uuid", kUuid}});
  ASSERT_EQ(by_uuid.size(), 1u);
  EXPECT_EQ(Label(by_uuid[0], "pci_bus_id"), "00000000:01:00.0");
  EXPECT_TRUE(NameWith(namer, kGpuPowerDraw, {{"gpu.index", int64_t{0}}, {"gpu.uuid", "amd-1"}}).empty())
      << "DCGM knows no GPU of AMD";
  auto by_index = NameWith(namer, kGpuPowerDraw, {{"gpu.index", int64_t{0}}});
  ASSERT_EQ(by_index.size(), 1u);
  EXPECT_EQ(Label(by_index[0], "pci_bus_id"), "-");
}

TEST(Dcgm, MigInstancesHaveTheirProfile) {
  Tick tick;
  tick.Add(kGpuMigInfo, {{"gpu.uuid", kUuid},
                         {"gpu.index", int64_t{0}},
                         {"gpu.mig.instance_id", int64_t{7}},
                         {"gpu.mig.compute_instance_id", int64_t{0}},
                         {"gpu.mig.profile", "1g.10gb"}});
  SeriesNamer namer = DcgmNamer();
  namer.Refresh(tick.Snap());
  auto memory = NameWith(namer, kGpuMigMemoryUsed,
                         {{"gpu.uuid", kUuid},
                          {"gpu.index", int64_t{0}},
                          {"gpu.mig.instance_id", int64_t{7}},
                          {"gpu.mig.compute_instance_id", int64_t{0}}});
  ASSERT_EQ(memory.size(), 1u);
  EXPECT_EQ(memory[0].name, "DCGM_FI_DEV_FB_USED");
  EXPECT_EQ(Label(memory[0], "GPU_I_ID"), "7");
  EXPECT_EQ(Label(memory[0], "GPU_I_PROFILE"), "1g.10gb");
  auto active =
      NameWith(namer, kGpuSmActive,
               {{"gpu.uuid", kUuid}, {"gpu.index", int64_t{0}}, {"gpu.mig.instance_id", int64_t{7}}});
  ASSERT_EQ(active.size(), 1u);
  EXPECT_EQ(Label(active[0], "GPU_I_PROFILE"), "1g.10gb") << "known by its GPU instance alone";
  auto parent = NameWith(namer, kGpuPowerDraw, {{"gpu.uuid", kUuid}, {"gpu.index", int64_t{0}}});
  EXPECT_EQ(Label(parent[0], "GPU_I_PROFILE"), "-");
}

TEST(Dcgm, HasUnitsOfTheExporter) {
  struct Want {
    const MetricDesc* native;
    AttributeSet attributes;
    std::string_view name;
    double scale;
    bool whole;
    Kind kind;
  };
  const Want wants[] = {
      {&kGpuUtilization, {}, "DCGM_FI_DEV_GPU_UTIL", 100, true, Kind::kGauge},
      {&kGpuMemoryUsed, {}, "DCGM_FI_DEV_FB_USED", 1.0 / 1048576, true, Kind::kGauge},
      {&kGpuMemoryUsedPercent, {}, "DCGM_FI_DEV_FB_USED_PERCENT", 0.01, false, Kind::kGauge},
      {&kGpuEnergyConsumption, {}, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 1000, true, Kind::kCounter},
      {&kGpuSmActive, {}, "DCGM_FI_PROF_SM_ACTIVE", 1, false, Kind::kGauge},
      {&kGpuViolationTime,
       {{"gpu.violation.policy", "thermal"}},
       "DCGM_FI_DEV_THERMAL_VIOLATION",
       1e9,
       true,
       Kind::kCounter},
      {&kGpuEccErrors,
       {{"gpu.ecc.count_type", "aggregate"}, {"gpu.ecc.error_type", "uncorrectable"}},
       "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
       1,
       false,
       Kind::kCounter},
      {&kGpuInterconnectLinkBandwidth,
       {{"gpu.interconnect.type", "nvlink"}, {"gpu.interconnect.link_index", int64_t{17}}},
       "DCGM_FI_DEV_NVLINK_BANDWIDTH_L17",
       1e-6,
       true,
       Kind::kCounter},
  };
  for (const Want& want : wants) {
    auto named = MakeNames({"dcgm"}, *want.native, want.attributes);
    ASSERT_EQ(named.size(), 1u) << want.name;
    EXPECT_EQ(named[0].name, want.name);
    EXPECT_EQ(named[0].scale, want.scale) << want.name;
    EXPECT_EQ(named[0].whole, want.whole) << want.name;
    EXPECT_EQ(named[0].kind, want.kind) << want.name;
  }
}

TEST(Dcgm, SeriesOfALinkHaveOtherLabels) {
  auto named = MakeNames({"dcgm@4.6"}, kGpuInterconnectIo,
                         {{"gpu.index", int64_t{1}},
                          {"gpu.uuid", kUuid},
                          {"gpu.model", "H100"},
                          {"gpu.interconnect.type", "nvlink"},
                          {"gpu.interconnect.direction", "transmit"},
                          {"gpu.interconnect.link_index", int64_t{4}}});
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].name, "DCGM_FI_DEV_NVLINK_TX_BYTES_TOTAL");
  EXPECT_THAT(named[0].labels, ElementsAre(Pair("nvlink", "4"), Pair("gpu", "1"), Pair("gpu_uuid", kUuid),
                                           Pair("device", "nvidia1"), Pair("model_name", "H100")));
}

TEST(Dcgm, OmitsAmdBlocks) {
  EXPECT_TRUE(MakeNames({"dcgm"}, kGpuEccErrors,
                        {{"gpu.ecc.count_type", "volatile"},
                         {"gpu.ecc.error_type", "correctable"},
                         {"gpu.ecc.memory_block", "umc"}})
                  .empty());
}

// The families of Grafana's dashboard 12239 and of the alerts that are usual beside it.
TEST(Dcgm, FeedsTheUsualDashboardAndAlerts) {
  const std::set<std::string> wanted = {
      "DCGM_FI_DEV_GPU_TEMP",         "DCGM_FI_DEV_POWER_USAGE",   "DCGM_FI_DEV_SM_CLOCK",
      "DCGM_FI_DEV_GPU_UTIL",         "DCGM_FI_DEV_FB_USED",       "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
      "DCGM_FI_DEV_FB_FREE",          "DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_XID_ERRORS",
      "DCGM_FI_DEV_MEMORY_TEMP",      "DCGM_FI_DEV_MEM_CLOCK",     "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
      "DCGM_FI_DEV_ROW_REMAP_FAILURE"};
  std::set<std::string> made;
  auto add = [&](const MetricDesc& desc, AttributeSet own) {
    AttributeSet gpu({{"gpu.index", int64_t{0}}, {"gpu.uuid", kUuid}, {"gpu.model", "H100"}});
    for (const NamedSeries& named : MakeNames({"dcgm"}, desc, own.OverlaidOn(gpu))) {
      // What the dashboard chooses by and writes beside its lines.
      EXPECT_EQ(Label(named, "gpu"), "0");
      EXPECT_EQ(Label(named, "modelName"), "H100");
      made.insert(named.name);
    }
  };
  add(kGpuTemperature, {{"gpu.temperature.sensor", "edge"}});
  add(kGpuTemperature, {{"gpu.temperature.sensor", "memory"}});
  add(kGpuPowerDraw, {});
  add(kGpuClockFrequency, {{"gpu.clock.type", "sm"}});
  add(kGpuClockFrequency, {{"gpu.clock.type", "memory"}});
  add(kGpuUtilization, {{"gpu.task.type", "compute"}});
  add(kGpuMemoryUtilization, {{"gpu.task.type", "memory_controller"}});
  add(kGpuMemoryUsed, {});
  add(kGpuMemoryFree, {});
  add(kGpuPipeTensorActive, {});
  add(kGpuXidLastErrorCode, {});
  add(kGpuEnergyConsumption, {});
  add(kGpuRowRemapFailed, {});
  EXPECT_EQ(made, wanted);
}

const NamingRow* RowOf(const MetricNaming& dialect, std::string_view name) {
  for (const NamingRow& row : dialect.rows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

TEST(Dcgm, HasEveryFieldOfTheDefaultList) {
  const std::string path = GPULENS_SOURCE_DIR "/../shared/fixtures/dcgm/dcgm-exporter_default-counters.csv";
  auto text = ReadFile(path);
  if (!text) GTEST_SKIP() << "captures not here: " << path;
  // What cannot be a row, and why.
  const std::set<std::string_view> left_out = {
      "DCGM_EXP_CLOCK_EVENTS_COUNT",  // counts over a window of the exporter
      "DCGM_EXP_XID_ERRORS_COUNT",    // the same
      "DCGM_EXP_GPU_HEALTH_STATUS",   // codes of DCGM's own health watches
      "DCGM_EXP_P2P_STATUS",          // a matrix of pairs
  };
  size_t found = 0;
  std::map<std::string_view, std::string_view> types;  // of the lines in force first
  for (bool commented : {false, true}) {
    std::string_view rest = *text;
    while (!rest.empty()) {
      std::string_view line = Trim(TakeUntil(rest, '\n'));
      if (line.starts_with('#') != commented) continue;
      while (line.starts_with('#') || line.starts_with(' ')) line.remove_prefix(1);
      if (!line.starts_with("DCGM_")) continue;
      std::string_view name = Trim(TakeUntil(line, ','));
      types.try_emplace(name, Trim(TakeUntil(line, ',')));
    }
  }
  for (auto [name, type] : types) {
    if (type == "label" || left_out.contains(name)) continue;
    const NamingRow* row = RowOf(kDcgm, name);
    ASSERT_NE(row, nullptr) << name;
    EXPECT_EQ(KindName(row->kind), type) << name;
    ++found;
  }
  EXPECT_GE(found, 45u);
}

TEST(Dcgm, NewNamesAreThoseOfDcgm46) {
  const std::string path = GPULENS_SOURCE_DIR "/../shared/fixtures/dcgm/dcgm_fields_4.6.0.tsv";
  auto text = ReadFile(path);
  if (!text) GTEST_SKIP() << "captures not here: " << path;
  std::map<std::string, std::string> new_names;  // by the old one; by itself where there was no old one
  Tsv fields(*std::move(text));
  for (size_t i = 0; i < fields.size(); ++i) {
    std::string now(fields.At(i, "name_4.6.0")), before(fields.At(i, "name_4.5.2"));
    new_names[before.empty() ? now : before] = now;
  }
  ASSERT_EQ(kDcgm.rows.size(), kDcgm46.rows.size());
  for (size_t i = 0; i < kDcgm.rows.size(); ++i) {
    std::string name(kDcgm.rows[i].name);
    ASSERT_TRUE(new_names.contains(name)) << name << " is no field of DCGM";
    EXPECT_EQ(kDcgm46.rows[i].name, new_names[name]) << name;
  }
}

}  // namespace
}  // namespace gpulens

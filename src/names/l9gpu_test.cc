#include "names/l9gpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/files.h"
#include "catalog/all.h"
#include "catalog/exported_name.h"
#include "names/naming_testing.h"

namespace gpulens {
namespace {

using naming_testing::Label;
using naming_testing::MakeNames;
using naming_testing::Series;
using naming_testing::Tick;
using naming_testing::Tsv;

TEST(L9gpu, CountersAreGaugesUnderTheirNames) {
  struct Want {
    const MetricDesc* native;
    std::string_view name;
    double scale;
  };
  const Want wants[] = {{&kGpuEccErrors, "gpu_ecc_errors", 1},
                        {&kGpuXidErrors, "gpu_xid_errors", 1},
                        {&kGpuPcieReplayCount, "gpu_pcie_replay_count", 1},
                        {&kGpuEnergyConsumption, "gpu_energy_consumption_mJ", 1000},
                        {&kGpuThrottleMask, "gpu_throttle_reason", 1}};
  for (const Want& want : wants) {
    auto named = MakeNames({"l9gpu"}, *want.native, {{"gpu.index", int64_t{2}}});
    ASSERT_EQ(named.size(), 1u) << want.name;
    EXPECT_EQ(named[0].name, want.name);
    EXPECT_EQ(named[0].kind, Kind::kGauge);
    EXPECT_EQ(named[0].scale, want.scale);
    EXPECT_EQ(Label(named[0], "gpu_index"), "2");
  }
}

TEST(L9gpu, OtherNamesAreNativeAndLevelsAreGauges) {
  Tick tick;
  std::vector<std::string> names = {"l9gpu"};
  SeriesNamer namer = MakeSeriesNamer(names);
  namer.Refresh(tick.Snap({{"host.name", "n1"}, {"k8s.cluster.name", "prod"}}));
  std::vector<NamedSeries> out;
  namer(Series(kGpuMemoryUsed, {{"gpu.index", int64_t{0}}}), out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].name, "gpu_memory_used_bytes");
  EXPECT_EQ(out[0].kind, Kind::kGauge);
  EXPECT_EQ(Label(out[0], "host_name"), "n1") << "its dashboards choose by host and cluster";
  EXPECT_EQ(Label(out[0], "k8s_cluster_name"), "prod");
  EXPECT_EQ(MakeNames({"l9gpu"}, kGpuPowerDraw, {}).at(0).name, "gpu_power_draw_watts");
  EXPECT_EQ(MakeNames({"l9gpu"}, kGpuPowerDraw, {}).at(0).scale, 1) << "W, as it says, not mW";
}

TEST(L9gpu, NothingIsDuplicatedWithNative) {
  auto both = MakeNames({"native", "l9gpu"}, kGpuMemoryUsed, {{"gpu.index", int64_t{0}}});
  ASSERT_EQ(both.size(), 1u);
  EXPECT_EQ(both[0].kind, Kind::kUpDownCounter);
  auto energy = MakeNames({"native", "l9gpu"}, kGpuEnergyConsumption, {});
  ASSERT_EQ(energy.size(), 2u);
  EXPECT_EQ(energy[0].name, "gpu_energy_consumption_joules_total");
  EXPECT_FALSE(energy[0].name_taken);
  auto errors = MakeNames({"native", "l9gpu"}, kGpuXidErrors, {});
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].name, "gpu_xid_errors_total");
  EXPECT_TRUE(errors[0].name_taken) << "OpenMetrics would call it gpu_xid_errors, too";
  EXPECT_FALSE(MakeNames({"native"}, kGpuXidErrors, {}).at(0).name_taken);
}

TEST(L9gpu, AddsTheNameOfTheAlert) {
  auto rate = MakeNames({"l9gpu"}, kGpuEccSbeRate, {});
  ASSERT_EQ(rate.size(), 2u);
  EXPECT_EQ(rate[0].name, "gpu_ecc_sbe_rate");
  EXPECT_EQ(rate[1].name, "gpu_ecc_sbe_rate_per_hour");
}

TEST(L9gpu, AnXgmiLinkHasNoDirection) {
  auto link = [](const char* type, const char* direction) {
    return MakeNames({"l9gpu"}, kGpuInterconnectThroughput,
                     {{"gpu.interconnect.type", type},
                      {"gpu.interconnect.direction", direction},
                      {"gpu.interconnect.link_index", int64_t{1}}});
  };
  auto sent = link("xgmi", "transmit");
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].name, "gpu_interconnect_throughput_bytes_per_second");
  EXPECT_EQ(Label(sent[0], "gpu_interconnect_direction"), "-");
  EXPECT_EQ(Label(sent[0], "gpu_interconnect_link_index"), "1");
  EXPECT_TRUE(link("xgmi", "receive").empty());
  auto nvlink = link("nvlink", "receive");
  ASSERT_EQ(nvlink.size(), 1u);
  EXPECT_EQ(Label(nvlink[0], "gpu_interconnect_direction"), "receive");
}

bool HasKey(const MetricDesc& row, std::string_view key) {
  return std::find(row.keys.begin(), row.keys.end(), key) != row.keys.end();
}

// The keys of {"a":"b","c":"d"}.
std::vector<std::string_view> KeysOf(std::string_view json) {
  std::vector<std::string_view> keys;
  for (bool key = true; json.find('"') != json.npos; key = !key) {
    TakeUntil(json, '"');
    std::string_view word = TakeUntil(json, '"');
    if (key) keys.push_back(word);
  }
  return keys;
}

TEST(L9gpu, EveryMetricOfItsGpusHasARow) {
  const std::string path = GPULENS_SOURCE_DIR "/../shared/reference/l9gpu_metric_names.tsv";
  auto text = ReadFile(path);
  if (!text) GTEST_SKIP() << "captures not here: " << path;
  const std::set<std::string_view> schemas = {"DeviceMetrics", "AMDDeviceMetrics", "GaudiDeviceMetrics",
                                              "DcgmProfilingMetrics", "GPUFleetHealthMetrics"};
  // Names with other units: theirs and ours.
  const std::map<std::string_view, std::pair<std::string_view, std::string_view>> units = {
      {"gpu.energy.consumption", {"mJ", "J"}},           // the naming has mJ
      {"gpu.row_remap.available", {"{row}", "{bank}"}},  // the driver counts banks that have spare rows
  };
  // No metric, and why.
  const std::map<std::string_view, std::string_view> elsewhere = {
      {"gpu_architecture", "gpu.architecture"},  // text: an attribute of gpu.info
  };
  Tsv names(*std::move(text));
  size_t metrics = 0, identities = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!schemas.contains(names.At(i, "schema"))) continue;
    std::string_view field = names.At(i, "python_field"), name = names.At(i, "otel_name");
    if (names.At(i, "role").starts_with("identity")) {
      ++identities;
      auto found = elsewhere.find(field);
      EXPECT_TRUE(found == elsewhere.end() || HasKey(kGpuInfo, found->second)) << field;
      continue;
    }
    ++metrics;
    const MetricDesc* row = FindMetric(name);
    ASSERT_NE(row, nullptr) << name;
    std::string_view unit = names.At(i, "unit");
    if (unit != row->unit) {
      auto known = units.find(name);
      ASSERT_NE(known, units.end()) << name << " in " << unit << ", here in " << row->unit;
      EXPECT_EQ(known->second, std::pair(unit, row->unit)) << name;
    }
    for (std::string_view key : KeysOf(names.At(i, "attributes(json)")))
      EXPECT_TRUE(HasKey(*row, key)) << name << " " << key;
  }
  EXPECT_EQ(metrics, 63u);
  EXPECT_EQ(identities, 9u);
}

// The metrics of a query: words outside of braces, texts and lists of labels.
std::set<std::string> FamiliesOf(std::string_view query) {
  std::set<std::string> families;
  const std::set<std::string_view> lists = {"by", "without", "on", "ignoring", "group_left", "group_right"};
  bool list = false, in_list = false, braces = false, text = false;
  for (size_t at = 0; at < query.size();) {
    char c = query[at];
    if (text || c == '"') {
      if (c == '"') text = !text;
      at += c == '\\' ? 2 : 1;
      continue;
    }
    if (c == '{' || c == '}') braces = c == '{';
    if (c == '(' && list) in_list = true;
    if (c == ')') in_list = false;
    if (c != ' ') list = false;
    size_t end = at;
    while (end < query.size() && (std::isalnum(static_cast<unsigned char>(query[end])) || query[end] == '_'))
      ++end;
    if (end == at) {
      ++at;
      continue;
    }
    std::string_view word = query.substr(at, end - at);
    list = lists.contains(word);
    bool family = false;
    for (const char* prefix : {"gpu_", "host_", "vllm_", "nim_", "triton_", "sglang_", "tgi_"})
      family = family || word.starts_with(prefix);
    if (family && !braces && !in_list) families.insert(std::string(word));
    at = end;
  }
  return families;
}

TEST(L9gpu, ParsesQueries) {
  EXPECT_EQ(FamiliesOf(R"(sum by (gpu_index) (rate(gpu_a{gpu_x="gpu_y"}[5m])) / on(host_name) gpu_b)"),
            (std::set<std::string>{"gpu_a", "gpu_b"}));
}

TEST(L9gpu, ItsDashboardsFindTheirFamiliesAsGauges) {
  const std::string path = GPULENS_SOURCE_DIR "/../shared/reference/l9gpu_dashboards.tsv";
  auto text = ReadFile(path);
  if (!text) GTEST_SKIP() << "captures not here: " << path;
  std::map<std::string, Kind> given;
  for (const MetricDesc* metric : AllMetrics()) {
    // Rows with conditions apply to some series of a metric; the others have the name without them.
    for (const char* type : {"nvlink", "xgmi"}) {
      for (const NamedSeries& named :
           MakeNames({"l9gpu"}, *metric,
                     {{"gpu.interconnect.type", type}, {"gpu.interconnect.direction", "transmit"}}))
        given.try_emplace(named.name, named.kind);
    }
  }
  Tsv panels(*std::move(text));
  std::set<std::string> queried;
  for (size_t i = 0; i < panels.size(); ++i) queried.merge(FamiliesOf(panels.At(i, "expr")));
  EXPECT_GE(queried.size(), 40u);
  for (const std::string& family : queried) {
    ASSERT_TRUE(given.contains(family)) << family;
    // Of engines, rates and levels alike.
    if (family.starts_with("gpu_")) {
      EXPECT_EQ(given[family], Kind::kGauge) << family;
    }
  }
}

}  // namespace
}  // namespace gpulens

#include "catalog/exported_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "base/files.h"
#include "base/parse.h"
#include "catalog/all.h"
#include "catalog/cost.h"
#include "catalog/cuda.h"
#include "catalog/nccl.h"
#include "catalog/phases.h"

namespace gpulens {
namespace {

std::string Name(std::string_view name, std::string_view unit, Kind kind, Naming naming = Naming::kOtel) {
  MetricDesc metric{.name = name, .unit = unit, .help = "", .kind = kind, .naming = naming};
  std::string out;
  AppendPrometheusName(out, metric);
  return out;
}

std::string Label(std::string_view key) {
  std::string out;
  AppendPrometheusLabel(out, key);
  return out;
}

TEST(Naming, NamesGetUnitAndKind) {
  struct Row {
    std::string_view name, unit;
    Kind kind;
    std::string_view named;
  };
  constexpr Row kRows[] = {
      {"gpu.utilization", "1", Kind::kGauge, "gpu_utilization_ratio"},
      {"gpu.power.draw", "W", Kind::kGauge, "gpu_power_draw_watts"},
      {"gpu.energy.consumption", "J", Kind::kCounter, "gpu_energy_consumption_joules_total"},
      {"gpu.voltage", "V", Kind::kGauge, "gpu_voltage_volts"},
      {"gpu.temperature", "Cel", Kind::kGauge, "gpu_temperature_celsius"},
      {"gpu.clock.frequency", "MHz", Kind::kGauge, "gpu_clock_frequency_MHz"},
      {"system.cpu.frequency", "Hz", Kind::kGauge, "system_cpu_frequency_hertz"},
      {"gpu.fan.rotation", "rpm", Kind::kGauge, "gpu_fan_rotation_rpm"},
      {"gpu.memory.total", "By", Kind::kUpDownCounter, "gpu_memory_total_bytes"},
      {"gpu.pcie.throughput", "By/s", Kind::kGauge, "gpu_pcie_throughput_bytes_per_second"},
      {"gpu.thermal.ramp_rate", "Cel/min", Kind::kGauge, "gpu_thermal_ramp_rate_celsius_per_min"},
      {"gpu.xid.error_rate", "{error}/h", Kind::kGauge, "gpu_xid_error_rate_per_hour"},
      {"gpu.encoder.frame_rate", "{frame}/s", Kind::kGauge, "gpu_encoder_frame_rate_per_second"},
      {"gpu.memory.used.percent", "{percent}", Kind::kGauge, "gpu_memory_used_percent"},
      {"gpu.ecc.dbe_total", "{error}", Kind::kCounter, "gpu_ecc_dbe_total"},
      {"gpu.row_remap.count", "{row}", Kind::kUpDownCounter, "gpu_row_remap_count"},
      {"gpu.pcie.replay.count", "{event}", Kind::kCounter, "gpu_pcie_replay_count_total"},
      {"gpu.info", "", Kind::kInfo, "gpu_info"},
      {"gpu.topology.link", "", Kind::kInfo, "gpu_topology_link_info"},
      {"gpu.state", "", Kind::kStateSet, "gpu_state"},
      {"gpulens.http.duration", "s", Kind::kHistogram, "gpulens_http_duration_seconds"},
      {"gpu.energy.co2_intensity", "g/kWh", Kind::kGauge, "gpu_energy_co2_intensity_grams_per_kWh"},
      {"gpu.cost.per_prompt_token", "USD/{token}", Kind::kGauge, "gpu_cost_per_prompt_token_USD"},
      {"process.cpu.time", "s", Kind::kCounter, "process_cpu_seconds_total"},
      {"process.unix.file_descriptor.count", "{file_descriptor}", Kind::kUpDownCounter, "process_open_fds"},
  };
  for (const Row& row : kRows) EXPECT_EQ(Name(row.name, row.unit, row.kind), row.named);
}

TEST(Naming, NameWithoutWordsIsNotEmpty) {
  EXPECT_EQ(Name("温度", "Cel", Kind::kGauge), "温度_celsius");
  EXPECT_EQ(Name("花火", "{rocket}", Kind::kCounter), "花火_total");
  EXPECT_EQ(Name("...", "", Kind::kGauge), "...");
  EXPECT_EQ(Name("total", "By", Kind::kCounter), "bytes_total");
}

TEST(Naming, DoesNotRepeatWords) {
  EXPECT_EQ(Name("disk.bytes.read", "By", Kind::kCounter), "disk_bytes_read_total");
  EXPECT_EQ(Name("seconds", "s", Kind::kGauge), "seconds");
  EXPECT_EQ(Name("hit.ratio.now", "1", Kind::kGauge), "hit_now_ratio");
  EXPECT_EQ(Name("total.things", "", Kind::kCounter), "things_total");
  EXPECT_EQ(Name("milliseconds.left", "s", Kind::kGauge), "milliseconds_left_seconds");
  EXPECT_EQ(Name("cost.per_gpu_hour", "USD/h", Kind::kGauge), "cost_per_gpu_hour_USD");
}

TEST(Naming, RatioSuffixOnlyForGauges) {
  EXPECT_EQ(Name("x", "1", Kind::kCounter), "x_total");
  EXPECT_EQ(Name("x", "1", Kind::kUpDownCounter), "x");
  EXPECT_EQ(Name("x", "", Kind::kGauge), "x");
}

TEST(Naming, OddNamesAndUnits) {
  EXPECT_EQ(Name("a..b--c", "", Kind::kGauge), "a_b_c");
  EXPECT_EQ(Name("3d.load", "1", Kind::kGauge), "_3d_load_ratio");
  EXPECT_EQ(Name("job:rate", "s", Kind::kGauge), "job:rate_seconds");
  EXPECT_EQ(Name("größe", "By", Kind::kGauge), "gr_e_bytes") << "two letters outside ASCII are one break";
  EXPECT_EQ(Name("x", "{a}By", Kind::kGauge), "x");
  EXPECT_EQ(Name("x", "By/", Kind::kGauge), "x_bytes");
  EXPECT_EQ(Name("x", "/s", Kind::kGauge), "x_per_second");
  EXPECT_EQ(Name("", "", Kind::kGauge), "");
}

TEST(Naming, ScrapedNamesStayAsTheyAre) {
  EXPECT_EQ(Name("http.requests", "By", Kind::kCounter, Naming::kVerbatim), "http.requests");
}

TEST(Naming, AppendsToText) {
  std::string out = "total_";
  AppendPrometheusName(out, {.name = "a.b", .unit = "By", .help = "", .kind = Kind::kCounter});
  EXPECT_EQ(out, "total_a_b_bytes_total");
}

TEST(Naming, Labels) {
  EXPECT_EQ(Label("gpu.index"), "gpu_index");
  EXPECT_EQ(Label("gpu.mig.instance_id"), "gpu_mig_instance_id");
  EXPECT_EQ(Label("collector"), "collector");
  EXPECT_EQ(Label("2fast"), "key_2fast");
  EXPECT_EQ(Label("a b:c/d"), "a_b_c_d");
  EXPECT_EQ(Label("größe"), "gr__e");
  EXPECT_EQ(Label("\xff\xfe"), "__") << "bytes that are no UTF-8";
  EXPECT_EQ(Label(""), "");
}

// The rows of a captured table, one vector of columns each; empty when it is not here.
std::vector<std::vector<std::string>> Captured(const std::string& name) {
  auto text = ReadFile(std::string(GPULENS_SOURCE_DIR "/../shared/reference/") + name);
  std::vector<std::vector<std::string>> rows;
  if (!text) return rows;
  std::string_view rest = *text;
  TakeUntil(rest, '\n');
  while (!rest.empty()) {
    std::string_view line = TakeUntil(rest, '\n');
    std::vector<std::string>& row = rows.emplace_back();
    while (!line.empty()) row.emplace_back(TakeUntil(line, '\t'));
    row.resize(16);
  }
  return rows;
}

const std::map<std::string, Kind> kKinds = {
    {"gauge", Kind::kGauge},         {"counter", Kind::kCounter}, {"updown", Kind::kUpDownCounter},
    {"histogram", Kind::kHistogram}, {"info", Kind::kInfo},       {"stateset", Kind::kStateSet},
};

std::string UnitOf(const std::vector<std::string>& row) { return row[2] == "-" ? "" : row[2]; }

std::vector<std::string> KeysOf(const std::string& column) {
  std::vector<std::string> keys;
  std::string_view rest = column == "-" ? std::string_view{} : column;
  while (!rest.empty()) {
    std::string_view part = TakeUntil(rest, ',');
    keys.emplace_back(TakeUntil(part, '='));
  }
  return keys;
}

TEST(NamingCapture, AgreesWithTheTable) {
  auto rows = Captured("catalogue_gpu.tsv");
  if (rows.empty()) GTEST_SKIP() << "captures not here: reference/catalogue_gpu.tsv";
  std::set<std::string> families;
  size_t events = 0;
  for (const auto& row : rows) {
    if (row[3] == "event") continue;
    ASSERT_TRUE(kKinds.contains(row[3])) << row[3];
    EXPECT_EQ(Name(row[1], UnitOf(row), kKinds.at(row[3])), row[5]);
    families.insert(row[5]);
  }
  // Events have no name on pages: a family of the table counts them.
  for (const auto& row : rows) {
    if (row[3] != "event") continue;
    ++events;
    EXPECT_TRUE(families.contains(row[5].substr(0, row[5].find('{')))) << row[1] << " " << row[5];
  }
  EXPECT_EQ(rows.size(), 379u);
  EXPECT_EQ(events, 28u);
}

// Names of LLM engines and of Slurm: they are in no table, or in another one.
bool IsOfEngines(std::string_view name) {
  constexpr std::string_view kAreas[] = {"inference.", "vllm.", "nim.",  "triton.",
                                         "sglang.",    "tgi.",  "slurm."};
  return std::any_of(std::begin(kAreas), std::end(kAreas),
                     [&](std::string_view a) { return name.starts_with(a); });
}

// Named since the table was written, but for two rows that it has.
bool IsOfLedger(std::string_view name) {
  constexpr std::string_view kAreas[] = {"energy.", "cost.", "ledger.", "effective_compute",
                                         "gpulens.ledger."};
  return std::any_of(std::begin(kAreas), std::end(kAreas),
                     [&](std::string_view a) { return name.starts_with(a); });
}

// The table has the names before 0.2: docs/migration-0.2.md.
std::vector<std::string> Renamed(std::vector<std::string> row) {
  constexpr std::string_view kOld = "gpulens.driver.";
  if (row[1].starts_with(kOld)) {
    row[1] = "gpulens.reader." + row[1].substr(kOld.size());
    if (row[4].starts_with("driver")) row[4].replace(0, 6, "reader");
  }
  if (row[2] == "{parcel}") row[2] = "{item}";
  if (const size_t at = row[4].find("lane"); at != std::string::npos && row[1].starts_with("gpulens.sink."))
    row[4].replace(at, 4, "queue");
  return row;
}

TEST(NamingCapture, CatalogueAgreesWithTheTable) {
  auto rows = Captured("catalogue_gpu.tsv");
  for (auto& row : rows) row = Renamed(row);
  if (rows.empty()) GTEST_SKIP() << "captures not here: reference/catalogue_gpu.tsv";
  std::map<std::string_view, std::set<std::string>> keys;
  std::map<std::string_view, int> times;
  for (const auto& row : rows) {
    const MetricDesc* metric = row[3] == "event" ? nullptr : FindMetric(row[1]);
    if (!metric) continue;
    EXPECT_EQ(metric->unit, UnitOf(row)) << row[1];
    EXPECT_EQ(metric->kind, kKinds.at(row[3])) << row[1];
    EXPECT_EQ(row[12].find("mono") != std::string::npos && metric->kind == Kind::kCounter,
              metric->on_decrease == OnDecrease::kReject)
        << row[1];
    ++times[metric->name];
    for (const std::string& key : KeysOf(row[4])) keys[metric->name].insert(key);
  }
  // Named since the table was written.
  constexpr std::string_view kNewer[] = {"gpulens.scrape.series.folded",
                                         "gpulens.scrape.series.dropped",
                                         "gpulens.enricher.missing",
                                         "gpulens.programs",
                                         "gpulens.programs.points",
                                         "gpulens.text.replaced",
                                         "gpulens.page.series.dropped",
                                         "gpu.xid.recent",
                                         "gpu.health.condition",
                                         "gpulens.reader.files",
                                         "gpulens.sandbox.active",
                                         "gpu.driver.mismatch",
                                         "gpu.pod.info",
                                         "gpulens.sink.disk_queue.unusable",
                                         "gpulens.sink.disk_queue.leftover.length",
                                         "gpulens.sink.disk_queue.leftover.size",
                                         "gpulens.sink.filtered",
                                         "gpulens.sink.untranslated",
                                         "gpulens.sink.rollup.groups",
                                         "gpulens.sink.rollup.series",
                                         "gpulens.sink.rollup.refused",
                                         "gpulens.sink.rollup.intervals"};
  for (const MetricDesc* metric : AllMetrics()) {
    // Those of Kubernetes are OpenTelemetry's.
    if (metric->name.starts_with("k8s.") || metric->name.starts_with("container.")) continue;
    if (metric->name.starts_with("training.")) continue;                        // rows that programs bring
    if (std::ranges::find(kCostRows, metric) != std::end(kCostRows)) continue;  // l9gpu's, below
    if (IsOfLedger(metric->name)) continue;
    if (std::ranges::find(kCudaRows, metric) != std::end(kCudaRows) ||
        std::ranges::find(kNcclRows, metric) != std::end(kNcclRows) ||
        std::ranges::find(kPhasesRows, metric) != std::end(kPhasesRows))
      continue;  // inside jobs: other references
    if (IsOfEngines(metric->name) || std::ranges::find(kNewer, metric->name) != std::end(kNewer)) continue;
    EXPECT_GT(times[metric->name], 0) << metric->name << " is not in the table";
    EXPECT_EQ(std::set<std::string>(metric->keys.begin(), metric->keys.end()), keys[metric->name])
        << metric->name;
  }
}

TEST(NamingCapture, HasEveryMetricOfDeviceHostTrainingAndCost) {
  auto rows = Captured("l9gpu_metric_names.tsv");
  if (rows.empty()) GTEST_SKIP() << "captures not here: reference/l9gpu_metric_names.tsv";
  size_t seen = 0;
  for (const auto& row : rows) {
    const bool wanted = row[0] == "DeviceMetrics" || row[0] == "HostMetrics" || row[0] == "TrainingMetrics" ||
                        row[0] == "GPUCostMetrics";
    if (!wanted || row[2].empty()) continue;
    ++seen;
    const MetricDesc* metric = FindMetric(row[2]);
    ASSERT_NE(metric, nullptr) << row[2];
    // The seed publishes millijoules; native is the base unit under the same name.
    EXPECT_EQ(metric->unit, row[3] == "mJ" ? "J" : row[3]) << row[2];
    std::set<std::string_view> keys(metric->keys.begin(), metric->keys.end());
    std::string_view rest = row[4];
    for (TakeUntil(rest, '"'); !rest.empty(); TakeUntil(rest, '"')) {
      std::string_view text = TakeUntil(rest, '"');
      if (rest.starts_with(':')) {
        EXPECT_TRUE(keys.contains(text)) << row[2] << " " << text;
      }
    }
  }
  EXPECT_EQ(seen, 58u);
}

}  // namespace
}  // namespace gpulens

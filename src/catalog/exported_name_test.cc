#include "catalog/exported_name.h"

#include <gtest/gtest.h>

#include "catalog/all.h"

namespace gpulens {
namespace {

std::string Reported(std::string_view name, NameOwner owner, Naming naming = Naming::kOtel,
                     Kind kind = Kind::kGauge, std::string_view unit = {}) {
  return ExportedName({.name = name, .unit = unit, .kind = kind, .naming = naming}, owner);
}
std::string Scraped(std::string_view name) { return Reported(name, NameOwner::kTarget, Naming::kVerbatim); }
std::string Sent(std::string_view name, std::string_view unit = {}) {
  return Reported(name, NameOwner::kProgram, Naming::kOtel, Kind::kGauge, unit);
}

TEST(ExportedName, KeepsUnreservedNames) {
  for (const char* name : {"http.requests", "training.steps", "gpus", "my.gpu.power", "http_gpu_total",
                           "upper", "process.cpu.time", "process_resident_memory_bytes", "a"})
    EXPECT_EQ(Sent(name), name);
  for (const char* name : {"node_cpu_seconds_total", "vllm:num_requests_running", "DCGM_FI_DEV_POWER_USAGE",
                           "process_start_time_seconds", "process_cpu_seconds_total", "target_info",
                           "go_goroutines", "python_gc_objects_collected_total", "hw_power_watts", "up_total",
                           "gpu_prof_gui_util_percent", "gpu_xgmi_nbr_0_nop_tx"})
    EXPECT_EQ(Scraped(name), name);
}

TEST(ExportedName, MarksReservedNames) {
  for (const char* name : {"gpu.power.draw", "gpu.of.a.later.version", "gpulens.collector.up", "up", "gpu",
                           "gpulens", "system.cpu.time", "gpu_power_draw_watts", "DCGM_FI_DEV_POWER_USAGE",
                           "hw.power", "inference.requests.running"})
    EXPECT_EQ(Sent(name), "exported." + std::string(name));
  for (const char* name : {"gpu_power_draw_watts", "gpu.power_draw_watts", "up", "gpulens_collector_up",
                           "system_cpu_time_seconds_total", "system_cpu_time_seconds",
                           "scrape_samples_scraped", "ALERTS", "vllm_ttft_seconds_count"})
    EXPECT_EQ(Scraped(name), "exported_" + std::string(name)) << name;
}

TEST(ExportedName, ReservesWhateverUnitAndKind) {
  EXPECT_EQ(Sent("gpu", "W"), "exported.gpu");
  EXPECT_EQ(Sent("system.cpu", "time"), "exported.system.cpu") << "system_cpu_time";
  EXPECT_EQ(Sent("..gpu..power"), "exported...gpu..power");
  EXPECT_EQ(Reported("system.cpu.time", NameOwner::kProgram, Naming::kOtel, Kind::kHistogram, "s"),
            "exported.system.cpu.time");
}

// Native names and page names of all rows are reserved.
TEST(ExportedName, EveryRowIsReserved) {
  for (const MetricDesc* row : AllMetrics()) {
    std::string page;
    AppendPrometheusName(page, *row);
    if (row->name.starts_with("process.") || row->name.starts_with("training.") ||
        row->name == "target.info") {
      EXPECT_EQ(Scraped(page), page);
      EXPECT_EQ(Sent(row->name, row->unit), row->name) << "programs bring it";
      continue;
    }
    EXPECT_EQ(Scraped(page), "exported_" + page);
    EXPECT_EQ(Sent(row->name), "exported." + std::string(row->name));
    // The mark itself makes a free name.
    EXPECT_FALSE(
        IsReservedName({.name = "exported_" + page, .naming = Naming::kVerbatim}, NameOwner::kTarget));
  }
}

}  // namespace
}  // namespace gpulens

#include "catalog/guest_name.h"

#include <gtest/gtest.h>

#include "catalog/all.h"
#include "catalog/spelling.h"

namespace gpulens {
namespace {

std::string Told(std::string_view name, Guest guest, Spelling spelling = Spelling::kOtel,
                 Kind kind = Kind::kGauge, std::string_view unit = {}) {
  return GuestName({.name = name, .unit = unit, .kind = kind, .spelling = spelling}, guest);
}
std::string Scraped(std::string_view name) { return Told(name, Guest::kTarget, Spelling::kVerbatim); }
std::string Sent(std::string_view name, std::string_view unit = {}) {
  return Told(name, Guest::kProgram, Spelling::kOtel, Kind::kGauge, unit);
}

TEST(GuestName, NamesOfTheirOwnStay) {
  for (const char* name : {"http.requests", "training.steps", "gpus", "my.gpu.power", "http_gpu_total",
                           "upper", "process.cpu.time", "process_resident_memory_bytes", "a"})
    EXPECT_EQ(Sent(name), name);
  for (const char* name : {"node_cpu_seconds_total", "vllm:num_requests_running", "DCGM_FI_DEV_POWER_USAGE",
                           "process_start_time_seconds", "process_cpu_seconds_total", "target_info",
                           "go_goroutines", "python_gc_objects_collected_total", "hw_power_watts", "up_total",
                           "gpu_prof_gui_util_percent", "gpu_xgmi_nbr_0_nop_tx"})
    EXPECT_EQ(Scraped(name), name);
}

TEST(GuestName, OursAreMarked) {
  for (const char* name : {"gpu.power.draw", "gpu.of.a.later.version", "gpulens.collector.up", "up", "gpu",
                           "gpulens", "system.cpu.time", "gpu_power_draw_watts", "DCGM_FI_DEV_POWER_USAGE",
                           "hw.power", "inference.requests.running"})
    EXPECT_EQ(Sent(name), "exported." + std::string(name));
  for (const char* name : {"gpu_power_draw_watts", "gpu.power_draw_watts", "up", "gpulens_collector_up",
                           "system_cpu_time_seconds_total", "system_cpu_time_seconds",
                           "scrape_samples_scraped", "ALERTS", "vllm_ttft_seconds_count"})
    EXPECT_EQ(Scraped(name), "exported_" + std::string(name)) << name;
}

TEST(GuestName, NeitherUnitNorKindIsAWayRound) {
  EXPECT_EQ(Sent("gpu", "W"), "exported.gpu");
  EXPECT_EQ(Sent("system.cpu", "time"), "exported.system.cpu") << "system_cpu_time";
  EXPECT_EQ(Sent("..gpu..power"), "exported...gpu..power");
  EXPECT_EQ(Told("system.cpu.time", Guest::kProgram, Spelling::kOtel, Kind::kHistogram, "s"),
            "exported.system.cpu.time");
}

// Whatever is in the catalogue, under its native name and under that of a page, is nobody else's.
TEST(GuestName, EveryRowIsReserved) {
  for (const MetricDesc* row : AllMetrics()) {
    if (row->name.starts_with("process.") || row->name == "target.info") continue;
    std::string page;
    AppendPrometheusName(page, *row);
    EXPECT_EQ(Scraped(page), "exported_" + page);
    EXPECT_EQ(Sent(row->name), "exported." + std::string(row->name));
    // The mark itself makes a free name.
    EXPECT_FALSE(
        IsReservedName({.name = "exported_" + page, .spelling = Spelling::kVerbatim}, Guest::kTarget));
  }
}

}  // namespace
}  // namespace gpulens

#include "cli/check/check_data.h"

#include <gtest/gtest.h>

#include "catalog/gpu.h"
#include "cli/check/check_table.h"
#include "core/frame_writer.h"

namespace gpulens {
namespace {

constexpr std::string_view kPage =
    "gpulens_build_info{version=\"0.1.0\"} 1\n"
    "gpu_temperature_celsius{gpu_index=\"10\",gpu_uuid=\"GPU-b\",gpu_temperature_sensor=\"edge\"} 64\n"
    "gpu_temperature_celsius{gpu_index=\"2\",gpu_uuid=\"GPU-a\",gpu_temperature_sensor=\"edge\"} 61 "
    "1700000000000\n"
    "gpu_temperature_celsius{gpu_index=\"2\",gpu_uuid=\"GPU-a\",gpu_temperature_sensor=\"memory\"} 70\n"
    "gpu_memory_used_bytes{gpu_index=\"2\",gpu_uuid=\"GPU-a\"} 1e9\n"
    "gpu_memory_used_bytes{gpu_index=\"2\",gpu_uuid=\"GPU-a\",gpu_mig_instance_id=\"1\"} 5e8\n"
    "gpu_ecc_errors_total{gpu_index=\"2\",gpu_uuid=\"GPU-a\",gpu_ecc_count_type=\"volatile\","
    "gpu_ecc_error_type=\"correctable\"} 3\n"
    "some_other_metric{gpu_index=\"7\"} 5\n";

CheckInput Edge() { return {&kGpuTemperature, "gpu.temperature.sensor", "edge"}; }

TEST(CheckData, ReadsAnAgentsPage) {
  auto data = ReadPage(kPage, AllCheckMetrics());
  ASSERT_TRUE(data) << data.error().detail;
  ASSERT_EQ(data->gpus.size(), 2u);
  EXPECT_EQ(data->gpus[0].label, "2") << "by number, not by text";
  EXPECT_EQ(data->gpus[1].key, "GPU-b");
  EXPECT_FALSE(data->simulated);
  EXPECT_EQ(data->Sum(1, Edge()), 64);
  EXPECT_EQ(data->Sum(0, Edge()), std::nullopt) << "a value with a time is an old one";
  EXPECT_TRUE(data->IsStale(0, Edge()));
  EXPECT_EQ(data->Sum(0, {&kGpuTemperature, "gpu.temperature.sensor", "memory"}), 70);
  EXPECT_EQ(data->Sum(0, {&kGpuMemoryUsed}), 1e9) << "a slice is part of its GPU";
  EXPECT_EQ(data->Sum(0, {&kGpuEccErrors, "gpu.ecc.error_type", "correctable"}), 3);
  EXPECT_EQ(data->Of(0, kGpuTemperature).size(), 1u);
}

TEST(CheckData, RefusesPageOfOtherProgram) {
  EXPECT_FALSE(ReadPage("", AllCheckMetrics()));
  EXPECT_FALSE(ReadPage("<html>hello</html>\n", AllCheckMetrics()));
  auto data = ReadPage("gpu_temperature_celsius{gpu_index=\"0\",gpu_temperature_sensor=\"edge\"} 64\n",
                       AllCheckMetrics());
  ASSERT_FALSE(data);
  EXPECT_EQ(data.error().code, Code::kDataLoss);
}

TEST(CheckData, SkipsDamagedLines) {
  auto data = ReadPage(kPage.substr(0, kPage.size() / 2), AllCheckMetrics());
  ASSERT_TRUE(data);
  EXPECT_LE(data->readings.size(), 3u);
}

TEST(CheckData, DetectsSimulatedGpus) {
  std::string page = "gpulens_build_info 1\ngpu_memory_used_bytes{gpu_index=\"0\",simulated=\"true\"} 1\n";
  auto data = ReadPage(page, AllCheckMetrics());
  ASSERT_TRUE(data);
  EXPECT_TRUE(data->simulated);
}

TEST(CheckData, ReadsASnapshot) {
  SeriesTable table;
  FrameWriter writer(table, std::chrono::seconds(10));
  EntityRef gpu = MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", int64_t{3}}, {"gpu.uuid", "GPU-c"}}));
  EntityRef process = MakeRef<Entity>("process", AttributeSet({{"process.pid", int64_t{7}}}), gpu);
  Series used = table.Declare(kGpuMemoryUsed, gpu),
         edge = table.Declare(kGpuTemperature, gpu, {{"gpu.temperature.sensor", "edge"}});
  Series of_process = table.Declare(kGpuMemoryUsed, process);
  ManualClock clock;
  writer.Begin(clock.Now());
  writer.Set(used, 5);
  writer.Set(edge, 50.0);
  writer.Set(of_process, 3);
  static_cast<void>(writer.Finish());
  clock.Advance(std::chrono::seconds(1));
  writer.Begin(clock.Now());
  writer.Set(used, 6);
  Snapshot snapshot;
  snapshot.frames.push_back({writer.Finish(), "nvidia", Precedence::kNative, false});
  CheckData data = ReadSnapshot(snapshot, AllCheckMetrics());
  ASSERT_EQ(data.gpus.size(), 1u);
  EXPECT_EQ(data.gpus[0].label, "3");
  EXPECT_EQ(data.Sum(0, {&kGpuMemoryUsed}), 6);
  EXPECT_FALSE(data.Sum(0, Edge())) << "stale";
  snapshot.frames.push_back(snapshot.frames[0]);
  EXPECT_EQ(ReadSnapshot(snapshot, AllCheckMetrics()).Sum(0, {&kGpuMemoryUsed}), 6)
      << "told twice, counted once";
  snapshot.frames[0].overdue = snapshot.frames[1].overdue = true;
  EXPECT_FALSE(ReadSnapshot(snapshot, AllCheckMetrics()).Sum(0, {&kGpuMemoryUsed}));
}

}  // namespace
}  // namespace gpulens

#include <gtest/gtest.h>
#include <unistd.h>

#include "catalog/self.h"
#include "plugins/agent_stats.h"
#include "plugins/plugin.h"

namespace gpulens {

extern const CollectorSpec self_collector;

namespace {

class SelfCollectorTest : public ::testing::Test {
 protected:
  void Collect(Env& env, int runs = 1) {
    if (!collector_) collector_ = *self_collector.create({}, env);
    for (int i = 0; i < runs; ++i) {
      clock_.Advance(std::chrono::seconds(1));
      writer_.Begin(clock_.Now());
      ASSERT_TRUE(collector_->Collect(writer_));
      frame_ = writer_.Finish();
    }
  }
  // -1: no such series with a value.
  double Value(const MetricDesc& desc, std::string_view key = {}, std::string_view value = {}) const {
    for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame_->layout)[slot];
      if (info.desc != &desc || frame_->quality[slot] == Quality::kAbsent) continue;
      if (!key.empty() && info.attributes.Text(key) != value) continue;
      Cell cell = frame_->cells[info.first_cell];
      return desc.number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
    }
    return -1;
  }

  ManualClock clock_;
  SeriesTable table_;
  FrameWriter writer_{table_, std::chrono::seconds(10)};
  std::unique_ptr<Collector> collector_;
  Ref<const Frame> frame_;
};

TEST_F(SelfCollectorTest, ReportsTheCostOfThisProcess) {
  Env env;
  Collect(env, 2);
  EXPECT_GT(Value(kProcessMemoryUsage), 1e6);
  EXPECT_GE(Value(kProcessUnixFileDescriptorCount), 3);
  EXPECT_GE(Value(kProcessCpuTime), 0);
  EXPECT_GE(Value(kSelfOverheadCpu), 0);
  EXPECT_GT(Value(kSelfProcessMemory, "gpulens.memory.type", "pss"), 1e6);
  EXPECT_GE(Value(kSelfProcessThreads, "process", "agent"), 1);
  EXPECT_EQ(Value(kSelfConfigReloads), -1) << "no agent, no reloads";
  // The clock of this test has its own time of boot; this process began after it.
  const double booted = static_cast<double>(clock_.Now().unix_ns - clock_.Now().boot_ns) * 1e-9;
  const double started = Value(kProcessStartTime);
  EXPECT_GT(started, booted);
  Collect(env);
  EXPECT_EQ(Value(kProcessStartTime), started);
}

TEST_F(SelfCollectorTest, ReportsReloadsAndServers) {
  AgentStats stats;
  ServerStats http;
  stats.http = &http;
  stats.reloads_rejected = 2;
  stats.last_reload_ok = false;
  http.connections = 5;
  http.Refused(Refusal::kOrigin);
  Env env;
  env.stats = &stats;
  Collect(env);
  EXPECT_EQ(Value(kSelfConfigReloads, "result", "rejected"), 2);
  EXPECT_EQ(Value(kSelfConfigLastReloadSuccess), 0);
  EXPECT_EQ(Value(kSelfConfigLastReloadTime), -1) << "none has been applied";
  EXPECT_EQ(Value(kSelfHttpConnections, "listener", "http"), 5);
  EXPECT_EQ(Value(kSelfHttpRefused, "reason", "origin"), 1);
  EXPECT_EQ(Value(kSelfHttpConnections, "listener", "websocket"), -1);
}

TEST_F(SelfCollectorTest, ReportsWhatConfinesTheAgent) {
  AgentStats stats;
  stats.sandbox = {{"files", true, ""}, {"system calls", false, "this kernel has no filters"}};
  Env env;
  env.stats = &stats;
  Collect(env);
  EXPECT_EQ(Value(kSelfSandboxActive, "layer", "files"), 1);
  EXPECT_EQ(Value(kSelfSandboxActive, "layer", "system calls"), 0);
}

TEST_F(SelfCollectorTest, FollowsReaderProcesses) {
  AgentStats stats;
  Env env;
  env.stats = &stats;
  Collect(env);
  EXPECT_EQ(Value(kSelfProcessCpuTime, "process", "nvml"), -1);
  stats.nvml_driver_pid = static_cast<int32_t>(::getpid());  // any process will do
  Collect(env, 2);
  EXPECT_GE(Value(kSelfProcessCpuTime, "process", "nvml"), 0);
  stats.nvml_driver_pid = 0;
  Collect(env);
  EXPECT_EQ(Value(kSelfProcessCpuTime, "process", "nvml"), -1);
}

}  // namespace
}  // namespace gpulens

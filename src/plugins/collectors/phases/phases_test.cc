#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "base/testing/temp_folder.h"
#include "catalog/cuda.h"
#include "catalog/gpu.h"
#include "catalog/inference.h"
#include "catalog/ledger.h"
#include "catalog/phases.h"
#include "plugins/latest_snapshot.h"
#include "plugins/plugin.h"

namespace gpulens {

extern const CollectorSpec phases_collector;

namespace {

using std::chrono::seconds;

// Other collectors' series, and the phases that follow from them. Pages are in tests/e2e/test_phases.py.
class PhasesCollectorTest : public ::testing::Test {
 protected:
  PhasesCollectorTest() {
    env_.clock = &clock_;
    env_.root = root_.path();
    env_.latest = &latest_;
    Config config;
    config.Set("pages", false, {});
    collector_ = *phases_collector.create(config, env_);
  }
  EntityRef ProcessOn(int64_t pid, int64_t gpu) {
    auto on = MakeRef<Entity>("gpu",
                              AttributeSet({{"gpu.uuid", "GPU-" + std::to_string(gpu)}, {"gpu.index", gpu}}));
    return MakeRef<Entity>("process", AttributeSet({{"process.pid", pid}, {"simulated", true}}), on);
  }
  // What was set since the last tick, as its snapshot; then a run of the collector.
  void Tick(Duration after = seconds(1)) {
    auto snapshot = MakeRef<Snapshot>();
    snapshot->tick = ++tick_;
    snapshot->closed_at = clock_.Now();
    snapshot->frames = {{in_.Finish(), "nvidia"}};
    latest_.Put(std::move(snapshot));
    clock_.Advance(after);
    out_.Begin(clock_.Now());
    ASSERT_TRUE(collector_->Collect(out_));
    frame_ = out_.Finish();
    in_.Begin(clock_.Now());
  }
  double Value(const MetricDesc& desc, AttributeSet wanted) const {
    double sum = std::nan("");
    for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame_->layout)[slot];
      if (info.desc != &desc || frame_->quality[slot] != Quality::kOk) continue;
      bool fits = true;
      for (auto [key, value] : wanted) fits &= info.attributes.Text(key) == wanted.Text(key);
      if (!fits) continue;
      const Cell cell = frame_->cells[info.first_cell];
      sum =
          (std::isnan(sum) ? 0 : sum) + (desc.number == Number::kInt ? static_cast<double>(cell.i) : cell.d);
    }
    return sum;
  }
  double Time(int64_t pid, std::string_view phase) const {
    return Value(kProcessPhaseTime, AttributeSet({{"process.pid", pid}, {"process.phase", phase}}));
  }

  testing::TempFolder root_;
  ManualClock clock_;
  LatestSnapshot latest_;
  Env env_;
  std::unique_ptr<Collector> collector_;
  SeriesTable table_, out_table_;
  FrameWriter in_{table_, seconds(60)}, out_{out_table_, seconds(5)};
  Ref<const Frame> frame_;
  uint64_t tick_ = 0;
};

TEST_F(PhasesCollectorTest, NothingWithoutProcesses) {
  in_.Begin(clock_.Now());
  Tick();
  Tick();
  EXPECT_EQ(frame_->layout->slots(), 0u);
}

TEST_F(PhasesCollectorTest, AMinuteOfComputeByTheUtilisationOfTheGpu) {
  in_.Begin(clock_.Now());
  EntityRef process = ProcessOn(7, 0), idle = ProcessOn(8, 1);
  Series used = table_.Declare(kGpuProcessMemoryUsed, process),
         idle_used = table_.Declare(kGpuProcessMemoryUsed, idle);
  Series busy =
      table_.Declare(kGpuUtilization, process->parent, AttributeSet({{"gpu.task.type", "compute"}}));
  for (int i = 0; i < 61; ++i) {
    in_.Set(used, 1000);
    in_.Set(idle_used, 1000);
    in_.Set(busy, 0.97);
    Tick();
  }
  EXPECT_GT(Time(7, "gpu_compute"), 57);
  EXPECT_NEAR(Time(7, "gpu_compute") + Time(7, "unknown"), 60, 1e-3) << "all time since it was seen";
  EXPECT_EQ(
      Value(kProcessPhase, AttributeSet({{"process.pid", int64_t{7}}, {"process.phase", "gpu_compute"}})), 1);
  EXPECT_NEAR(Value(kProcessPhaseConfidence, AttributeSet({{"process.pid", int64_t{7}}})), 0.4, 0.02);
  EXPECT_EQ(Value(kProcessPhasesTracked, AttributeSet({{"task.type", "ml"}})), 2);
  EXPECT_EQ(Value(kProcessPhasesCurrent, AttributeSet({{"process.phase", "gpu_compute"}})), 1);
  EXPECT_EQ(Value(kProcessPhasesCurrent, AttributeSet({{"process.phase", "optimizer_step"}})), 0);
  EXPECT_NEAR(Value(kProcessPhasesShare, {}), 1, 1e-12);
  EXPECT_GT(Value(kProcessPhasesDecisions, {}), 100);
}

TEST_F(PhasesCollectorTest, TwoProcessesOnOneGpuAreNotItsUtilisation) {
  in_.Begin(clock_.Now());
  EntityRef one = ProcessOn(7, 0), two = ProcessOn(8, 0);
  Series used = table_.Declare(kGpuProcessMemoryUsed, one),
         also_used = table_.Declare(kGpuProcessMemoryUsed, two);
  Series busy = table_.Declare(kGpuUtilization, one->parent, AttributeSet({{"gpu.task.type", "compute"}}));
  Series share = table_.Declare(kGpuProcessUtilization, two, AttributeSet({{"gpu.task.type", "compute"}}));
  for (int i = 0; i < 10; ++i) {
    in_.Set(used, 1000);
    in_.Set(also_used, 1000);
    in_.Set(busy, 0.97);
    in_.Set(share, 0.9);
    Tick();
  }
  EXPECT_TRUE(std::isnan(Time(7, "gpu_compute")));
  EXPECT_GT(Time(8, "gpu_compute"), 6) << "its own share is known";
}

TEST_F(PhasesCollectorTest, EnergyOfPhasesIsThatOfTheProcess) {
  in_.Begin(clock_.Now());
  EntityRef process = ProcessOn(7, 0);
  Series used = table_.Declare(kGpuProcessMemoryUsed, process),
         joules = table_.Declare(kGpuProcessEnergy, process);
  Series busy =
      table_.Declare(kGpuUtilization, process->parent, AttributeSet({{"gpu.task.type", "compute"}}));
  double energy = 0;
  for (int i = 0; i < 100; ++i) {
    in_.Set(used, 1000);
    in_.Set(busy, i < 50 ? 0.97 : 0.5);
    if (i % 10 == 9) energy += 1234.5;
    in_.Set(joules, energy);
    Tick();
  }
  const AttributeSet pid({{"process.pid", int64_t{7}}});
  EXPECT_NEAR(Value(kProcessPhaseEnergy, pid), energy, 1e-6);
  const double compute = Value(kProcessPhaseEnergy,
                               AttributeSet({{"process.pid", int64_t{7}}, {"process.phase", "gpu_compute"}}));
  EXPECT_NEAR(compute / energy, Time(7, "gpu_compute") / 99, 0.05);
}

TEST_F(PhasesCollectorTest, WaitsAndLaunchesThatProbesSeeFromOutside) {
  in_.Begin(clock_.Now());
  auto process = MakeRef<Entity>("process", AttributeSet({{"process.pid", int64_t{7}}, {"simulated", true}}));
  auto shape = MakeRef<Shape>();
  shape->bounds = {1};
  Series waits = table_.Declare(kDataloaderWaitDuration, process,
                                AttributeSet({{"dataloader.source", "waker"}}), {.shape = shape});
  Series launches = table_.Declare(kCudaLaunches, process);
  double waited = 0;
  for (int i = 0; i < 20; ++i) {
    in_.Cells(waits)[1].d = waited;
    in_.Cells(waits)[2].d = i;
    in_.Set(launches, 100 * i);
    Tick();
    waited += 0.25;
  }
  EXPECT_NEAR(Time(7, "data_loading"), 19 * 0.25, 0.3);
  EXPECT_NEAR(Time(7, "gpu_compute"), 19 * 0.75, 0.8);
}

TEST_F(PhasesCollectorTest, AnEngineByItsPage) {
  in_.Begin(clock_.Now());
  auto engine = MakeRef<Entity>("engine", AttributeSet({{"target", "vllm"}}), EntityRef(),
                                AttributeSet({{"process.pid", int64_t{9}}}));
  Series running = table_.Declare(kInferenceRequestsRunning, engine),
         waiting = table_.Declare(kInferenceRequestsWaiting, engine);
  Series prompt = table_.Declare(kInferencePromptTokens, engine),
         generated = table_.Declare(kInferenceGenerationTokens, engine);
  for (int i = 0; i < 30; ++i) {
    in_.Set(running, i < 10 ? 4 : 0);
    in_.Set(waiting, i < 20 ? 2 : 0);
    in_.Set(prompt, 100);
    in_.Set(generated, 500 * std::min(i, 10));
    Tick();
  }
  EXPECT_NEAR(Time(9, "decode"), 10, 1.1);
  EXPECT_NEAR(Time(9, "queued"), 9, 1.1);
  EXPECT_NEAR(Time(9, "idle"), 9, 1.1);
  EXPECT_EQ(Value(kProcessPhasesCurrent, AttributeSet({{"process.phase", "unknown"}})), 1)
      << "idle is none of the five";
}

TEST_F(PhasesCollectorTest, AProcessThatIsGoneTakesItsSeriesAlong) {
  in_.Begin(clock_.Now());
  EntityRef process = ProcessOn(7, 0);
  Series used = table_.Declare(kGpuProcessMemoryUsed, process);
  in_.Set(used, 1000);
  Tick();
  in_.Set(used, 1000);
  Tick();
  EXPECT_FALSE(std::isnan(Value(kProcessPhaseTransitions, {})));
  table_.Retire(process);
  for (int i = 0; i < 20; ++i) Tick();
  EXPECT_TRUE(std::isnan(Value(kProcessPhaseTransitions, AttributeSet({{"process.pid", int64_t{7}}}))));
  EXPECT_EQ(Value(kProcessPhasesTracked, AttributeSet({{"task.type", "total"}})), 0);
}

}  // namespace
}  // namespace gpulens

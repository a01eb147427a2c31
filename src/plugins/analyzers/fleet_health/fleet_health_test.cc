// Tests of the analyzer with ticks of collectors.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "base/files.h"
#include "base/testing/allocations.h"
#include "catalog/gpu.h"
#include "catalog/self.h"
#include "plugins/analyzers/fleet_health/health_score.h"
#include "plugins/analyzers/fleet_health/health_world_testing.h"
#include "plugins/event_queue.h"
#include "plugins/plugin.h"

namespace gpulens {

namespace {

using health_world::Attributes;
using health_world::Gpu;
using health_world::Source;
using std::chrono::seconds;

// An analyzer and its environment; Restart creates another one that reads the saved state.
class FleetHealthTest : public ::testing::Test {
 protected:
  FleetHealthTest() {
    char folder[] = "/tmp/gpulens-health-XXXXXX";
    EXPECT_TRUE(::mkdtemp(folder));
    folder_ = folder;
    env_.clock = &clock_;
    env_.events = &queue_;
    Restart();
  }
  ~FleetHealthTest() override {
    analyzer_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Restart() {
    analyzer_.reset();
    table_ = std::make_unique<SeriesTable>();
    out_ = std::make_unique<FrameWriter>(*table_, seconds(10));
    Config config;
    config.Set("window", Duration(seconds(300)), {});
    analyzer_ = *fleet_health_analyzer.create(config, env_);
  }
  void GpuState(const EntityRef& gpu, std::string_view now) {
    for (std::string_view state :
         {"ok", "hung", "lost", "reset_required", "no_permission", "failed", "left_out", "unread"}) {
      source_.Set(gpu, kGpuState, {{"gpu.state", state}}, state == now);
    }
  }
  // The readings of a healthy, idle H100.
  void Healthy(const EntityRef& gpu) {
    GpuState(gpu, "ok");
    source_.Set(gpu, kGpuPowerDraw, {}, 70);
    source_.Set(gpu, kGpuMemoryUsed, {}, 1e9);
    source_.Set(gpu, kGpuClockFrequency, {{"gpu.clock.type", "graphics"}}, 345);
    source_.Set(gpu, kGpuInfo, {{"gpu.vendor", "nvidia"}}, 1);
    source_.Set(gpu, kGpuTemperature, {{"gpu.temperature.sensor", "edge"}}, 35);
    source_.Set(gpu, kGpuUtilization, {{"gpu.task.type", "compute"}}, 0);
    Ecc(gpu, "correctable", 0);
    Ecc(gpu, "uncorrectable", 0);
    source_.Set(gpu, kGpuRowRemapFailed, {}, 0);
    Banks(gpu, 512, 0, 0);
    source_.Set(gpu, kGpuXidErrors, {}, 0);
    source_.Set(gpu, kGpuPcieLinkGenMax, {}, 5);
    source_.Set(gpu, kGpuPcieLinkGenCurrent, {}, 1);
    source_.Set(gpu, kGpuPcieLinkWidthMax, {}, 16);
    source_.Set(gpu, kGpuPcieLinkWidthCurrent, {}, 16);
  }
  void Ecc(const EntityRef& gpu, std::string_view type, double count) {
    source_.Set(gpu, kGpuEccErrors, {{"gpu.ecc.count_type", "volatile"}, {"gpu.ecc.error_type", type}},
                count);
  }
  void Banks(const EntityRef& gpu, double max, double low, double none) {
    auto set = [&](std::string_view spare, double banks) {
      source_.Set(gpu, kGpuRowRemapBanks, {{"gpu.row_remap.availability", spare}}, banks);
    };
    set("max", max);
    set("high", 0);
    set("partial", 0);
    set("low", low);
    set("none", none);
  }
  void Tick(int ticks = 1, Duration apart = seconds(1)) {
    for (int i = 0; i < ticks; ++i) {
      clock_.Advance(apart);
      snapshot_.frames.clear();
      snapshot_.frames.push_back({source_.Run(clock_.Now()), "nvidia", Precedence::kNative, false});
      snapshot_.closed_at = clock_.Now();
      out_->Begin(clock_.Now());
      ASSERT_TRUE(analyzer_->Analyze(snapshot_, *out_));
      frame_ = out_->Finish();
    }
  }
  double Value(const MetricDesc& desc, std::string_view key = {}, std::string_view value = {},
               std::string_view gpu = "0") const {
    for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame_->layout)[slot];
      if (info.desc != &desc || frame_->quality[slot] != Quality::kOk) continue;
      if (!key.empty() && info.attributes.Text(key) != value) continue;
      if (info.attributes.Has("gpu.index") && info.attributes.Text("gpu.index") != gpu) continue;
      Cell cell = frame_->cells[info.first_cell];
      return desc.number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
    }
    return std::nan("");
  }
  // Whether the condition holds and is the reason of the last change.
  bool Holds(std::string_view condition) const {
    return Value(kGpuHealthCondition, "gpu.health.reason", condition) == 1;
  }
  bool Has(const MetricDesc& desc) const { return !std::isnan(Value(desc)); }
  std::string State() const {
    for (std::string_view state : {"ok", "degraded", "failed", "predicted_failure"}) {
      if (Value(kGpuHealthState, "gpu.health.state", state) == 1) return std::string(state);
    }
    return "";
  }

  std::string folder_;
  ManualClock clock_;
  EventQueue queue_;
  Env env_;
  Source source_;
  Snapshot snapshot_;
  std::unique_ptr<SeriesTable> table_;
  std::unique_ptr<FrameWriter> out_;
  std::unique_ptr<Analyzer> analyzer_;
  Ref<const Frame> frame_;
  EntityRef gpu_ = Gpu(0);
};

TEST_F(FleetHealthTest, WritesNothingWithoutGpus) {
  Tick(3);
  EXPECT_EQ(table_->size(), 0u);
}

TEST_F(FleetHealthTest, HealthyIdleGpuHasTheFullScore) {
  Healthy(gpu_);
  Tick(160);
  EXPECT_EQ(Value(kGpuHealthScore), 1);
  EXPECT_EQ(Value(kGpuHealthConfidence), 1);
  EXPECT_EQ(State(), "ok");
  EXPECT_EQ(Value(kGpuHealthWindow), 300);
  EXPECT_EQ(Value(kGpuPcieLinkDowntraining), 0) << "an idle GPU lets its link slow down";
  EXPECT_EQ(Value(kGpuEccDbeTotal), 0);
  EXPECT_EQ(Value(kGpuRowRemapAvailable), 512);
  EXPECT_EQ(Value(kGpuHealthPenalty, "gpu.health.reason", "ecc_uncorrectable"), 0);
  EXPECT_TRUE(queue_.Take().empty());
}

TEST_F(FleetHealthTest, ComputesRates) {
  Healthy(gpu_);
  Tick();
  for (int t = 1; t <= 300; ++t) {
    Ecc(gpu_, "correctable", t / 30);
    source_.Set(gpu_, kGpuTemperature, {{"gpu.temperature.sensor", "edge"}}, 35 + t / 30.0);
    if (t == 200) source_.Set(gpu_, kGpuXidErrors, {}, 1);
    Tick();
  }
  EXPECT_DOUBLE_EQ(Value(kGpuEccSbeRate), 120);
  EXPECT_NEAR(Value(kGpuThermalRampRate), 2, 1e-3);
  EXPECT_DOUBLE_EQ(Value(kGpuXidErrorRate), 12);
}

TEST_F(FleetHealthTest, UncorrectedErrorsLowerTheScoreAndAreReported) {
  Healthy(gpu_);
  Tick(160);
  Ecc(gpu_, "uncorrectable", 2);
  Tick();
  EXPECT_EQ(Value(kGpuEccDbeTotal), 2);
  EXPECT_NEAR(Value(kGpuHealthScore), 0.7, 1e-9);
  EXPECT_NEAR(Value(kGpuHealthPenalty, "gpu.health.reason", "ecc_uncorrectable"), 0.3, 1e-9);
  EXPECT_EQ(State(), "degraded");
  auto events = queue_.Take();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].name, "gpu.health.change");
  EXPECT_EQ(events[0].entity->attributes.Text("gpu.uuid"), "GPU-0");
  EXPECT_EQ(events[0].attributes.Text("gpu.health.state"), "degraded");
  EXPECT_EQ(events[0].attributes.Text("gpu.health.reason"), "ecc_uncorrectable");
  EXPECT_EQ(events[0].body, "GPU health was ok, is degraded: ecc_uncorrectable");
}

TEST_F(FleetHealthTest, FewerPcieLanesAreDowntrainedAtOnce) {
  Healthy(gpu_);
  source_.Set(gpu_, kGpuPcieLinkWidthCurrent, {}, 8);
  Tick();
  EXPECT_EQ(Value(kGpuPcieLinkDowntraining), 1);
}

TEST_F(FleetHealthTest, LowPcieGenerationCountsUnderLastingLoad) {
  Healthy(gpu_);
  Tick();
  source_.Set(gpu_, kGpuUtilization, {{"gpu.task.type", "compute"}}, 0.9);
  Tick(30);
  EXPECT_EQ(Value(kGpuPcieLinkDowntraining), 0) << "the link may still be about to speed up";
  Tick(1);
  EXPECT_EQ(Value(kGpuPcieLinkDowntraining), 1);
  source_.Set(gpu_, kGpuPcieLinkGenCurrent, {}, 5);
  Tick();
  EXPECT_EQ(Value(kGpuPcieLinkDowntraining), 0);
}

TEST_F(FleetHealthTest, MissingInputsLowerConfidence) {
  source_.Set(gpu_, kGpuInfo, {{"gpu.vendor", "nvidia"}}, 1);
  Tick(2);
  EXPECT_EQ(Value(kGpuHealthConfidence), 0);
  EXPECT_FALSE(Has(kGpuHealthScore));
  EXPECT_FALSE(Has(kGpuRowRemapAvailable)) << "before Ampere";
  EXPECT_EQ(State(), "");
  Ecc(gpu_, "uncorrectable", 0);
  Tick();
  EXPECT_EQ(Value(kGpuHealthScore), 1);
  EXPECT_EQ(Value(kGpuHealthConfidence), 0.25) << "memory errors of: link, temperature, XIDs, memory errors";
  EXPECT_FALSE(Has(kGpuXidErrorRate));
  EXPECT_TRUE(std::isnan(Value(kGpuHealthPenalty, "gpu.health.reason", "xid_rate")));
}

TEST_F(FleetHealthTest, IgnoresStaleValues) {
  Healthy(gpu_);
  Tick(5);
  source_.Clear();
  source_.Set(gpu_, kGpuInfo, {{"gpu.vendor", "nvidia"}}, 1);
  Tick(1);
  EXPECT_FALSE(Has(kGpuHealthScore));
  EXPECT_EQ(Value(kGpuHealthConfidence), 0);
}

TEST_F(FleetHealthTest, BlocksOfAmdMemoryAddUp) {
  for (std::string_view block : {"umc", "gfx"}) {
    source_.Set(gpu_, kGpuEccErrors,
                {{"gpu.ecc.count_type", "volatile"},
                 {"gpu.ecc.error_type", "uncorrectable"},
                 {"gpu.ecc.memory_block", block}},
                block == "umc" ? 2 : 3);
  }
  source_.Set(gpu_, kGpuTemperature, {{"gpu.temperature.sensor", "hotspot"}}, 50);
  Tick(2);
  EXPECT_EQ(Value(kGpuEccDbeTotal), 5);
  EXPECT_NEAR(Value(kGpuHealthConfidence), 1.0 / 3, 1e-9) << "no XIDs to be had here";
}

TEST_F(FleetHealthTest, LostGpuFailsAlone) {
  EntityRef other = Gpu(1);
  Healthy(gpu_);
  Healthy(other);
  Tick(3);
  source_.Retire(gpu_);
  for (std::string_view state : {"ok", "lost"}) {
    source_.Set(gpu_, kGpuState, {{"gpu.state", state}}, state == "lost");
  }
  Tick();
  EXPECT_EQ(State(), "failed");
  EXPECT_EQ(Value(kGpuHealthState, "gpu.health.state", "ok", "1"), 1);
  EXPECT_EQ(Value(kGpuHealthScore, {}, {}, "1"), 1);
  EXPECT_EQ(Value(kGpuHealthScore), 0);
  EXPECT_TRUE(Holds("gpu_lost"));
}

TEST_F(FleetHealthTest, BetterStateMustLast) {
  Healthy(gpu_);
  Banks(gpu_, 500, 0, 1);
  Tick();
  EXPECT_EQ(State(), "predicted_failure");
  Banks(gpu_, 500, 0, 0);
  Tick(30);
  EXPECT_EQ(State(), "predicted_failure");
  Tick(1);
  EXPECT_EQ(State(), "ok");
  EXPECT_EQ(queue_.Take().size(), 2u);
}

TEST_F(FleetHealthTest, SeriesEndWithTheGpuAndTheWindowStays) {
  Healthy(gpu_);
  Tick(10);
  source_.Retire(gpu_);
  Tick(2);
  EXPECT_EQ(table_->size(), 1u) << "the length of the window, which is the host's";
  gpu_ = Gpu(0);
  Healthy(gpu_);
  Ecc(gpu_, "correctable", 4);
  Tick();
  EXPECT_DOUBLE_EQ(Value(kGpuEccSbeRate), 48);
  source_.Retire(gpu_);
  Tick(310);
  Healthy(gpu_ = Gpu(0));
  Ecc(gpu_, "correctable", 40);
  Tick();
  EXPECT_FALSE(Has(kGpuEccSbeRate)) << "forgotten after a window without it";
}

TEST_F(FleetHealthTest, WindowSurvivesARestart) {
  env_.state_dir = folder_;
  Restart();
  Healthy(gpu_);
  Ecc(gpu_, "uncorrectable", 1);
  Tick(200);
  queue_.Take();
  Ecc(gpu_, "correctable", 5);
  Tick();
  Restart();
  Ecc(gpu_, "correctable", 6);
  Tick();
  EXPECT_DOUBLE_EQ(Value(kGpuEccSbeRate), 72) << "five before the restart and one during it";
  EXPECT_TRUE(Has(kGpuThermalRampRate)) << "half a window is known at once";
  EXPECT_EQ(State(), "degraded");
  EXPECT_TRUE(queue_.Take().empty()) << "the word has not changed";
}

TEST_F(FleetHealthTest, IgnoresAnOldStateFile) {
  env_.state_dir = folder_;
  Restart();
  Healthy(gpu_);
  Tick(200);
  analyzer_.reset();
  clock_.Advance(std::chrono::hours(2));
  Restart();
  Tick();
  EXPECT_FALSE(Has(kGpuThermalRampRate));
}

TEST_F(FleetHealthTest, IgnoresADamagedStateFile) {
  env_.state_dir = folder_;
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/fleet_health.state", "gpulens-fleet-health 1\ngpu \x01\n"));
  Restart();
  Healthy(gpu_);
  Tick(61);
  EXPECT_EQ(Value(kGpuHealthScore), 1);
  auto text = ReadFile(folder_ + "/fleet_health.state");
  ASSERT_TRUE(text);
  EXPECT_NE(text->find("gpu GPU-0 ok"), text->npos) << "written over after a minute";
}

TEST_F(FleetHealthTest, RunsWithoutAWritableFolder) {
  env_.state_dir = folder_ + "/not/there";
  Restart();
  Healthy(gpu_);
  Tick(130);
  EXPECT_EQ(Value(kGpuHealthScore), 1);
}

TEST_F(FleetHealthTest, SilentGpuHasNoGoodScore) {
  struct {
    const char *state, *condition, *word;
    double score;
  } const kCases[] = {
      {"lost", "gpu_lost", "failed", 0},
      {"hung", "gpu_hung", "failed", 0},
      {"reset_required", "reset_required", "failed", 0},
      {"failed", "gpu_cannot_open", "failed", 0},
      {"left_out", "gpu_left_out", "failed", 0},
      {"unread", "gpu_unread", "degraded", 0.6},
      {"a_new_one", "gpu_lost", "failed", 0},
  };
  for (const auto& c : kCases) {
    Healthy(gpu_);
    Tick(40);
    GpuState(gpu_, c.state);
    Tick();
    EXPECT_EQ(State(), c.word) << c.state;
    EXPECT_EQ(Value(kGpuHealthScore), c.score) << c.state;
    EXPECT_TRUE(Holds(c.condition)) << c.state;
    GpuState(gpu_, "ok");
    Tick(30);
    EXPECT_EQ(State(), c.word) << c.state << ": a better word must last";
    EXPECT_EQ(Value(kGpuHealthScore), c.score) << c.state << ": word and score get better together";
    Tick(1);
    EXPECT_EQ(State(), "ok") << c.state;
    EXPECT_EQ(Value(kGpuHealthScore), 1) << c.state;
  }
}

TEST_F(FleetHealthTest, RestoredStateLimitsTheScore) {
  env_.state_dir = folder_;
  Restart();
  Healthy(gpu_);
  GpuState(gpu_, "lost");
  Tick(2);
  Restart();
  GpuState(gpu_, "ok");
  Tick();
  EXPECT_EQ(State(), "failed");
  EXPECT_LT(Value(kGpuHealthScore), kFailedBelow);
  Tick(31);
  EXPECT_EQ(State(), "ok");
  EXPECT_EQ(Value(kGpuHealthScore), 1);
}

// Counters that are read each minute are still fresh when the GPU has not answered for a while.
TEST_F(FleetHealthTest, SlowCountersDoNotShowThatAGpuAnswers) {
  Healthy(gpu_);
  Tick(3);
  source_.Clear();
  Ecc(gpu_, "uncorrectable", 0);
  source_.Set(gpu_, kGpuPcieLinkWidthCurrent, {}, 16);
  Tick();
  EXPECT_EQ(State(), "");
  EXPECT_FALSE(Has(kGpuHealthScore));
}

TEST_F(FleetHealthTest, SilentGpuFailsAfterAMinute) {
  EntityRef other = Gpu(1);
  Healthy(gpu_);
  Healthy(other);
  Tick(3);
  source_.Retire(gpu_);
  source_.Set(gpu_, kGpuInfo, {{"gpu.vendor", "nvidia"}}, 1);
  Tick(60);
  EXPECT_EQ(State(), "") << "its state is not known";
  Tick();
  EXPECT_EQ(State(), "failed");
  EXPECT_TRUE(Holds("no_readings"));
  // Where no GPU answers, the reader process is at fault.
  source_.Retire(other);
  source_.Set(other, kGpuInfo, {{"gpu.vendor", "nvidia"}}, 1);
  Tick(120);
  EXPECT_TRUE(std::isnan(Value(kGpuHealthState, "gpu.health.state", "failed", "1")));
}

// The agent starts while GPU 3 cannot be opened, so it has only an index and a state.
TEST_F(FleetHealthTest, GpuWithoutUuidIsReplacedByTheNamedOne) {
  Healthy(gpu_);
  EntityRef nameless = MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", int64_t{3}}}));
  GpuState(nameless, "failed");
  Tick();
  EXPECT_EQ(Value(kGpuHealthState, "gpu.health.state", "failed", "3"), 1);
  EXPECT_EQ(Value(kGpuHealthScore, {}, {}, "3"), 0);
  source_.Retire(nameless);
  EntityRef named = Gpu(3);
  Healthy(named);
  Tick();
  EXPECT_EQ(Value(kGpuHealthState, "gpu.health.state", "ok", "3"), 1);
  EXPECT_TRUE(std::isnan(Value(kGpuHealthCondition, "gpu.health.reason", "gpu_missing", "3")));
  // The reverse: a GPU with a uuid cannot be opened any more.
  source_.Retire(named);
  nameless = MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", int64_t{3}}}));
  GpuState(nameless, "failed");
  Tick();
  EXPECT_EQ(Value(kGpuHealthState, "gpu.health.state", "failed", "3"), 1);
  EXPECT_TRUE(std::isnan(Value(kGpuHealthCondition, "gpu.health.reason", "gpu_missing", "3")))
      << "it is not told twice";
}

TEST_F(FleetHealthTest, ZeroXidsDoNotMakeAnUnreadGpuHealthy) {
  Healthy(gpu_);
  Tick(5);
  source_.Clear();
  source_.Set(gpu_, kGpuInfo, {{"gpu.vendor", "nvidia"}}, 1);
  source_.Set(gpu_, kGpuXidErrors, {}, 0);
  source_.Set(gpu_, kGpuRowRemapFailed, {}, 0);
  Tick();
  EXPECT_FALSE(Has(kGpuHealthScore)) << "its state is not known";
  EXPECT_EQ(State(), "");
  GpuState(gpu_, "no_permission");
  Tick();
  EXPECT_FALSE(Has(kGpuHealthScore)) << "it may not be read, so nobody knows";
}

TEST_F(FleetHealthTest, GpuWithoutAnyReadingFails) {
  Healthy(gpu_);
  Tick(40);
  source_.Clear();
  GpuState(gpu_, "ok");
  source_.Set(gpu_, kGpuXidErrors, {}, 0);
  source_.Set(gpu_, kGpuRowRemapFailed, {}, 0);
  Tick(2);
  EXPECT_FALSE(Has(kGpuHealthScore)) << "it answers, but says nothing";
  Tick(10);
  EXPECT_EQ(State(), "failed");
  EXPECT_EQ(Value(kGpuHealthScore), 0);
  EXPECT_TRUE(Holds("no_readings"));
}

TEST_F(FleetHealthTest, LostReadingDegrades) {
  Healthy(gpu_);
  Tick(5);
  source_.Set(gpu_, kGpuPowerDraw, {}, std::nan(""));
  Tick(30);
  EXPECT_EQ(State(), "ok") << "a failure that has not lasted is none";
  Tick(1);
  EXPECT_EQ(State(), "degraded");
  EXPECT_TRUE(Holds("readings_missing"));
}

TEST_F(FleetHealthTest, RepeatedlyFailingReadingDegrades) {
  Healthy(gpu_);
  Tick(200);
  auto fail = [&](int of_twenty) {
    for (int i = 0; i < 20; ++i) {
      source_.Set(gpu_, kGpuPowerDraw, {}, i < of_twenty ? std::nan("") : 300);
      Tick(1);
    }
  };
  for (int i = 0; i < 20; ++i) fail(2);
  EXPECT_EQ(State(), "ok") << "one in ten";
  for (int i = 0; i < 10; ++i) fail(12);
  EXPECT_EQ(State(), "degraded") << "six in ten";
  EXPECT_TRUE(Holds("readings_fail"));
  EXPECT_FALSE(Holds("readings_missing"));
  for (int i = 0; i < 4; ++i) fail(0);
  EXPECT_EQ(State(), "ok") << "it has answered for more than a minute";
}

TEST_F(FleetHealthTest, SingleFailureOfRareReadingsIsIgnored) {
  Healthy(gpu_);
  for (int i = 0; i < 20; ++i) {
    source_.Set(gpu_, kGpuPowerDraw, {}, i == 10 ? std::nan("") : 300);
    Tick(1, seconds(60));
    EXPECT_EQ(State(), "ok") << i;
  }
}

TEST_F(FleetHealthTest, UnlistedGpuIsMissingForAWindow) {
  EntityRef other = Gpu(1);
  Healthy(gpu_);
  Healthy(other);
  Tick(5);
  source_.Retire(gpu_);
  Tick();
  EXPECT_EQ(State(), "failed");
  EXPECT_EQ(Value(kGpuHealthScore), 0);
  EXPECT_TRUE(Holds("gpu_missing"));
  // Without readers of GPUs nothing is exported; a reader that returns without one shows that it is missing.
  source_.Retire(other);
  Tick(2);
  EXPECT_EQ(State(), "");
  Healthy(other = Gpu(1));
  Tick();
  EXPECT_EQ(State(), "failed");
  Tick(301);
  EXPECT_EQ(State(), "") << "it was taken out on purpose";
  EXPECT_EQ(Value(kGpuHealthState, "gpu.health.state", "ok", "1"), 1);
}

TEST_F(FleetHealthTest, GpuWithANewIndexIsTheAnsweringOne) {
  Healthy(gpu_);
  Tick(3);
  EntityRef moved = MakeRef<Entity>(
      "gpu", AttributeSet({{"gpu.index", int64_t{6}}, {"gpu.uuid", std::string_view("GPU-0")}}));
  source_.Clear();
  GpuState(gpu_, "lost");
  Healthy(moved);
  Tick(2);
  EXPECT_EQ(Value(kGpuHealthState, "gpu.health.state", "ok", "6"), 1);
  EXPECT_EQ(Value(kGpuHealthScore, {}, {}, "6"), 1);
}

TEST_F(FleetHealthTest, XidsCountByAction) {
  Healthy(gpu_);
  source_.Set(gpu_, kGpuXidRecent, {{"gpu.xid.action", "restart_app"}}, 3);
  Tick();
  EXPECT_EQ(State(), "ok") << "an application's own fault";
  source_.Set(gpu_, kGpuXidRecent, {{"gpu.xid.action", "drain"}}, 1);
  Tick();
  EXPECT_EQ(State(), "predicted_failure");
  source_.Set(gpu_, kGpuXidRecent, {{"gpu.xid.action", "reboot"}}, 1);
  Tick();
  EXPECT_EQ(State(), "failed");
  EXPECT_EQ(Value(kGpuHealthScore), 0.2);
  EXPECT_TRUE(Holds("xid_reset"));
  EXPECT_EQ(queue_.Take().back().body, "GPU health was predicted_failure, is failed: xid_reset");
}

// Conditions count once they have lasted long enough.
TEST_F(FleetHealthTest, BoardConditionsOfPowerHeatAndFabric) {
  struct Case {
    const MetricDesc* metric;
    Attributes attributes;
    double well, ill;
    int after;  // ticks that pass without a word
    const char *condition, *state;
  };
  const Case cases[] = {
      {&kGpuThrottleReason, {{"gpu.throttle.cause", "power_brake"}}, 0, 1, 10, "power_brake", "degraded"},
      {&kGpuThrottleReason,
       {{"gpu.throttle.cause", "temp_hardware"}},
       0,
       1,
       10,
       "thermal_slowdown",
       "degraded"},
      {&kGpuTemperatureMargin, {}, 40, 0, 60, "too_hot", "degraded"},
      {&kGpuInforomValid, {}, 1, 0, 0, "inforom_corrupt", "degraded"},
      {&kGpuFabricDegraded, {{"gpu.fabric.condition", "bandwidth"}}, 0, 1, 10, "fabric_degraded", "degraded"},
      {&kGpuFabricState, {{"gpu.fabric.state", "in_progress"}}, 0, 1, 300, "fabric_pending", "degraded"},
      {&kGpuRecoveryAction, {{"gpu.recovery.action", "none"}}, 1, 0, 0, "recovery_action", "failed"},
      {&kGpuMemoryUnrepairable, {}, 0, 1, 0, "memory_unrepairable", "failed"},
      {&kGpuEccSramThresholdExceeded, {}, 0, 1, 0, "sram_threshold", "predicted_failure"},
      {&kGpuRowRemapResetPending, {}, 0, 1, 0, "remap_pending", "degraded"},
      {&kGpuPcieReplayCount, {}, 20'000, 20'041, 0, "pcie_replays", "degraded"},
      {&kGpuInterconnectErrors,
       {{"gpu.interconnect.error_type", "replay"}},
       5,
       16,
       0,
       "link_errors",
       "degraded"},
  };
  for (const Case& c : cases) {
    EntityRef gpu = Gpu(0);
    Restart();
    Healthy(gpu);
    source_.Set(gpu, *c.metric, c.attributes, c.well);
    Tick(2);
    EXPECT_EQ(State(), "ok") << c.condition;
    source_.Set(gpu, *c.metric, c.attributes, c.ill);
    Tick(c.after);
    EXPECT_EQ(State(), "ok") << c.condition;
    Tick();
    EXPECT_EQ(State(), c.state) << c.condition;
    EXPECT_TRUE(Holds(c.condition)) << c.condition;
    source_.Retire(gpu);
  }
}

TEST_F(FleetHealthTest, LinksDownComparedWithPastAndOthers) {
  auto links = [&](const EntityRef& gpu, double active) {
    source_.Set(gpu, kGpuInterconnectLinks, {{"gpu.interconnect.state", "active"}}, active);
    source_.Set(gpu, kGpuInterconnectLinks, {{"gpu.interconnect.state", "inactive"}}, 18 - active);
  };
  Healthy(gpu_);
  links(gpu_, 0);
  Tick();
  EXPECT_EQ(State(), "ok") << "a board without a bridge";
  EntityRef other = Gpu(1);
  Healthy(other);
  links(other, 18);
  Tick();
  EXPECT_TRUE(Holds("links_down")) << "missing from the start";
  links(gpu_, 18);
  Tick(31);
  EXPECT_EQ(State(), "ok");
  source_.Retire(other);
  links(gpu_, 15);
  Tick();
  EXPECT_EQ(State(), "degraded");
  EXPECT_EQ(Value(kGpuHealthScore), 0.7);
}

// For some seconds after GPUs got new indexes a GPU may have readings under both numbers.
TEST_F(FleetHealthTest, LinksOfAGpuWithTwoIndexesAreNotAddedUp) {
  auto links = [&](const EntityRef& gpu) {
    source_.Set(gpu, kGpuInterconnectLinks, {{"gpu.interconnect.state", "active"}}, 18);
  };
  EntityRef other = Gpu(1);
  for (const EntityRef& gpu : {gpu_, other}) {
    Healthy(gpu);
    links(gpu);
  }
  Tick(3);
  EntityRef moved = MakeRef<Entity>(
      "gpu", AttributeSet({{"gpu.index", int64_t{5}}, {"gpu.uuid", std::string_view("GPU-1")}}));
  GpuState(other, "lost");
  Healthy(moved);
  links(moved);
  Tick(2);
  source_.Retire(other);
  Tick(40);
  for (const char* index : {"0", "5"}) {
    EXPECT_EQ(Value(kGpuHealthState, "gpu.health.state", "ok", index), 1) << index;
    EXPECT_TRUE(std::isnan(Value(kGpuHealthCondition, "gpu.health.reason", "links_down", index)))
        << index << ": 36 links were never up";
  }
}

TEST_F(FleetHealthTest, FailingReaderProcessDegradesItsGpus) {
  Healthy(gpu_);
  EntityRef driver = MakeRef<Entity>("reader", AttributeSet({{"reader", std::string_view("nvml")}}));
  source_.Set(driver, kSelfDriverStarts, {{"reason", "first"}}, 1);
  source_.Set(driver, kSelfDriverStarts, {{"reason", "crash"}}, 7);
  Tick();
  source_.Set(driver, kSelfDriverStarts, {{"reason", "crash"}}, 9);
  Tick();
  EXPECT_EQ(State(), "ok") << "two may be chance";
  source_.Set(driver, kSelfDriverStarts, {{"reason", "crash"}}, 10);
  Tick();
  EXPECT_EQ(State(), "degraded");
  EXPECT_TRUE(Holds("driver_fails"));
  Tick(331);
  EXPECT_EQ(State(), "ok") << "five minutes without an end, and the word that must last";
}

TEST_F(FleetHealthTest, SteadyRunDoesNotAllocate) {
  std::vector<EntityRef> gpus;
  for (int64_t i = 0; i < 16; ++i) gpus.push_back(Gpu(i));
  for (const EntityRef& gpu : gpus) Healthy(gpu);
  EntityRef driver = MakeRef<Entity>("reader", AttributeSet({{"reader", std::string_view("nvml")}}));
  for (std::string_view reason : {"first", "crash"})
    source_.Set(driver, kSelfDriverStarts, {{"reason", reason}}, 1);
  Tick(200);
  Ref<const Frame> input = source_.Run(clock_.Now());
  auto analyze = [&] {
    clock_.Advance(seconds(1));
    snapshot_.frames[0].frame = input;
    snapshot_.closed_at = clock_.Now();
    out_->Begin(clock_.Now());
    ASSERT_TRUE(analyzer_->Analyze(snapshot_, *out_));
    frame_ = out_->Finish();
  };
  for (int i = 0; i < 10; ++i) analyze();
  uint64_t before = ThreadAllocations();
  for (int i = 0; i < 100; ++i) analyze();
  EXPECT_EQ(ThreadAllocations() - before, 0u);
}

}  // namespace
}  // namespace gpulens

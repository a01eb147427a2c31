#include "plugins/analyzers/cost/gpu_readings.h"

#include <gtest/gtest.h>

#include <random>

#include "plugins/analyzers/cost/cost_testing.h"

namespace gpulens::cost {
namespace {

using namespace std::string_view_literals;
using ledger::Cause;
using ledger::GpuReading;
using std::chrono::milliseconds;
using std::chrono::seconds;

const AttributeSet kCompute({{"gpu.task.type", "compute"sv}});
AttributeSet State(std::string_view state) { return AttributeSet({{"gpu.state", state}}); }

class GpuReadingsTest : public ::testing::Test {
 protected:
  GpuReadingsTest() {
    nvidia_.Set(gpu_, kGpuState, State("ok"), 1);
    nvidia_.Set(gpu_, kGpuState, State("lost"), 0);
    nvidia_.Set(gpu_, kGpuEnergyConsumption, 1234.567);
    nvidia_.Set(gpu_, kGpuUtilization, kCompute, 0.5);
    nvidia_.Set(gpu_, kGpuPowerDraw, 300);
    nvidia_.Set(gpu_, kGpuProcesses, AttributeSet({{"gpu.process.type", "compute"sv}}), 0);
  }
  // Runs the sources one second later; returns copies.
  std::vector<GpuReading> Tick(std::initializer_list<TestSource*> run,
                               std::vector<const TestSource*> all = {}) {
    clock_.Advance(seconds(1));
    for (TestSource* source : run) source->Run(clock_.Now());
    Snapshot snapshot;
    snapshot.closed_at = clock_.Now();
    if (all.empty()) all.assign(run.begin(), run.end());
    for (const TestSource* source : all) snapshot.frames.push_back(source->entry());
    changed_ = readings_.Follow(snapshot);
    if (changed_) readings_.Bind(rules_, engines_);
    std::vector<GpuReading> out;
    for (const GpuReading* one : readings_.Take(snapshot)) out.push_back(*one);
    return out;
  }
  GpuReading Only() {
    auto all = Tick({&nvidia_});
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? GpuReading() : all[0];
  }
  EntityRef AddProcess(int64_t pid, const AttributeSet& more = {}, std::string_view parents = {}) {
    EntityRef process = TestProcess(gpu_, pid, more, parents, 77);
    nvidia_.Set(process, kGpuProcessMemoryUsed, AttributeSet({{"gpu.process.type", "compute"sv}}), 1 << 30);
    nvidia_.Set(gpu_, kGpuProcesses, AttributeSet({{"gpu.process.type", "compute"sv}}), ++processes_);
    return process;
  }

  ManualClock clock_{{.boot_ns = 1'000'000'000'000, .unix_ns = 1'700'000'000'000'000'000}};
  EntityRef gpu_ = TestGpu(0);
  TestSource nvidia_{"nvidia"};
  double processes_ = 0;
  EngineRules rules_;
  std::vector<EngineIdentity> engines_;
  GpuReadings readings_{{"tenant", "k8s.namespace.name", "process.owner"}};
  bool changed_ = false;
};

TEST(Microjoules, ACounterOfMillijoulesIsExact) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 100'000; ++i) {
    const int64_t mj = static_cast<int64_t>(random() >> (14 + random() % 40));  // up to 2^50
    ASSERT_EQ(MicrojoulesOf(static_cast<double>(mj) / 1000), mj * 1000) << mj;
  }
  EXPECT_EQ(MicrojoulesOf(0.0000153), 15) << "AMD's counters have finer steps";
  EXPECT_EQ(MicrojoulesOf(-1), 0);
  EXPECT_EQ(MicrojoulesOf(std::nan("")), 0);
  EXPECT_EQ(MicrojoulesOf(1e300), MicrojoulesOf(9e12));
}

TEST_F(GpuReadingsTest, AGpuOfTheDriver) {
  nvidia_.Set(gpu_, kGpuPowerState, 2);
  nvidia_.Set(gpu_, kGpuSampleAge, 0.25);
  const GpuReading reading = Only();
  EXPECT_EQ(reading.gpu, UuidOf(0));
  EXPECT_EQ(reading.model, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(reading.at_ns, (clock_.Now() + -milliseconds(250)).boot_ns) << "when the driver was read";
  EXPECT_EQ(reading.energy_uj, 1'234'567'000);
  EXPECT_EQ(reading.energy_source, ledger::EnergySource::kCounter);
  EXPECT_EQ(reading.power_watts, 300);
  EXPECT_EQ(reading.performance_state, 2);
  EXPECT_EQ(reading.utilization, 0.5);
  EXPECT_TRUE(reading.available);
  EXPECT_TRUE(reading.users_known) << "the driver lists no process";
  EXPECT_TRUE(reading.users.empty());
  EXPECT_TRUE(reading.allocated.empty());
}

TEST_F(GpuReadingsTest, ARunOrAReadingCountsOnce) {
  nvidia_.Set(gpu_, kGpuSampleAge, 0.5);
  EXPECT_EQ(Tick({&nvidia_}).size(), 1u);
  EXPECT_TRUE(changed_);
  EXPECT_EQ(Tick({}, {&nvidia_}).size(), 0u) << "the frame rides again";
  EXPECT_FALSE(changed_);
  nvidia_.Set(gpu_, kGpuSampleAge, 2.5);
  EXPECT_EQ(Tick({&nvidia_}).size(), 0u) << "the driver was not read again";
  nvidia_.Set(gpu_, kGpuSampleAge, 0.5);
  EXPECT_EQ(Tick({&nvidia_}).size(), 1u);
}

TEST_F(GpuReadingsTest, ProcessesWithTheirOwners) {
  EntityRef process = AddProcess(41, AttributeSet({{"process.executable.name", "python3"sv},
                                                   {"process.owner", "ann"sv},
                                                   {"k8s.pod.uid", "uid-1"sv},
                                                   {"k8s.pod.name", "llama-0"sv},
                                                   {"k8s.namespace.name", "ml"sv}}));
  nvidia_.Set(process, kGpuProcessUtilization, kCompute, 0.4);
  nvidia_.Set(process, kGpuProcessUtilization, AttributeSet({{"gpu.task.type", "encoder"sv}}), 0.9);
  AddProcess(42, AttributeSet({{"process.owner", "bob"sv}, {"slurm.job.id", "17"sv}}));
  const GpuReading reading = Only();
  EXPECT_TRUE(reading.users_known);
  ASSERT_EQ(reading.users.size(), 2u);
  const auto& first = reading.users[reading.users[0].pid == 41 ? 0 : 1];
  const auto& second = reading.users[reading.users[0].pid == 41 ? 1 : 0];
  EXPECT_EQ(first.owner, (ledger::Owner{"python3", "ml", "llama-0", "", "ml", "", ""}));
  EXPECT_EQ(first.memory_bytes, 1 << 30);
  EXPECT_EQ(first.utilization, 0.4);
  EXPECT_EQ(first.start_ticks, 77);
  EXPECT_EQ(second.owner, (ledger::Owner{"", "", "", "17", "bob", "", ""}));
  EXPECT_EQ(second.utilization, std::nullopt) << "unknown is not 0";
  EXPECT_EQ(readings_.ProcessEntity(UuidOf(0), 41, 77), process);
  EXPECT_EQ(readings_.ProcessEntity(UuidOf(0), 41, 78), EntityRef()) << "another process";
  EXPECT_EQ(readings_.GpuEntity(UuidOf(0)), gpu_);
}

TEST_F(GpuReadingsTest, UsersAreUnknownWhileOneIsHidden) {
  AddProcess(41);
  nvidia_.Set(gpu_, kGpuProcesses, AttributeSet({{"gpu.process.type", "compute"sv}}), 2);
  const GpuReading reading = Only();
  EXPECT_FALSE(reading.users_known);
  EXPECT_TRUE(reading.users.empty());
}

TEST_F(GpuReadingsTest, AProcessThatLeftIsNoUser) {
  EntityRef process = AddProcess(41);
  EXPECT_EQ(Only().users.size(), 1u);
  nvidia_.Retire(process);
  nvidia_.Set(gpu_, kGpuProcesses, AttributeSet({{"gpu.process.type", "compute"sv}}), 0);
  const GpuReading reading = Only();
  EXPECT_TRUE(reading.users_known);
  EXPECT_TRUE(reading.users.empty());
  EXPECT_EQ(readings_.ProcessEntity(UuidOf(0), 41, 77), process) << "until its last window is closed";
  clock_.Advance(seconds(100));
  AddProcess(42);
  Only();
  EXPECT_EQ(readings_.ProcessEntity(UuidOf(0), 41, 77), EntityRef());
}

TEST_F(GpuReadingsTest, EnginesAreBound) {
  AddProcess(41, {}, "30,20");
  engines_ = {{"vllm", 20, {}}};
  EXPECT_EQ(Only().users[0].owner.engine, "vllm");
  // The engine is gone: its page ended.
  engines_.clear();
  readings_.Bind(rules_, engines_);
  EXPECT_EQ(Only().users[0].owner.engine, "");
}

TEST_F(GpuReadingsTest, ALostGpuIsUnavailableAndHasNoEnergy) {
  EXPECT_TRUE(Only().available);
  nvidia_.Set(gpu_, kGpuState, State("ok"), 0);
  nvidia_.Set(gpu_, kGpuState, State("lost"), 1);
  const GpuReading reading = Only();
  EXPECT_FALSE(reading.available);
  EXPECT_EQ(reading.unavailable_cause, Cause::kHardware);
  EXPECT_EQ(reading.energy_uj, std::nullopt);
  EXPECT_FALSE(reading.users_known);
}

TEST_F(GpuReadingsTest, AGpuThatIsNotReadHasNoReading) {
  nvidia_.Set(gpu_, kGpuState, State("ok"), 0);
  nvidia_.Set(gpu_, kGpuState, State("no_permission"), 1);
  EXPECT_TRUE(Tick({&nvidia_}).empty());
  nvidia_.Set(gpu_, kGpuState, State("ok"), 1);
  nvidia_.Set(gpu_, kGpuState, State("no_permission"), 0);
  EXPECT_EQ(Tick({&nvidia_}).size(), 1u);
  // The reader process is silent: nothing is written, old values are exported with their age.
  for (std::string_view state : {"ok"sv, "lost"sv, "no_permission"sv})
    nvidia_.Silence(gpu_, kGpuState, State(state));
  EXPECT_TRUE(Tick({&nvidia_}).empty());
}

TEST_F(GpuReadingsTest, OneFailedReadOfTheCounterIsNotACounterThatIsGone) {
  EXPECT_EQ(Tick({&nvidia_}).size(), 1u);
  nvidia_.Silence(gpu_, kGpuEnergyConsumption);
  EXPECT_TRUE(Tick({&nvidia_}).empty()) << "the next one brings the energy of both";
  clock_.Advance(seconds(20));
  auto later = Tick({&nvidia_});
  ASSERT_EQ(later.size(), 1u) << "time goes on without a counter";
  EXPECT_EQ(later[0].energy_uj, std::nullopt);
  EXPECT_EQ(later[0].energy_source, ledger::EnergySource::kNone);
}

TEST_F(GpuReadingsTest, ARepairIsDueOnlyWhileNothingRuns) {
  nvidia_.Set(gpu_, kGpuRowRemapResetPending, 1);
  nvidia_.Set(gpu_, kGpuUtilization, kCompute, 0);
  GpuReading reading = Only();
  EXPECT_FALSE(reading.available);
  EXPECT_EQ(reading.unavailable_cause, Cause::kMaintenance);
  EXPECT_TRUE(reading.energy_uj) << "it still draws power";
  AddProcess(41);
  EXPECT_TRUE(Only().available) << "a job runs on";
}

TEST_F(GpuReadingsTest, RecoveryActionsAndXidsOfAnotherFrame) {
  nvidia_.Set(gpu_, kGpuUtilization, kCompute, 0);
  TestSource events("gpu_events");
  events.Set(gpu_, kGpuXidRecent, AttributeSet({{"gpu.xid.action", "none"sv}}), 3);
  events.Set(gpu_, kGpuXidRecent, AttributeSet({{"gpu.xid.action", "reset_gpu"sv}}), 0);
  auto readings = Tick({&nvidia_, &events});
  ASSERT_EQ(readings.size(), 1u);
  EXPECT_TRUE(readings[0].available);
  events.Set(gpu_, kGpuXidRecent, AttributeSet({{"gpu.xid.action", "reset_gpu"sv}}), 1);
  EXPECT_FALSE(Tick({&nvidia_, &events})[0].available);
  events.Set(gpu_, kGpuXidRecent, AttributeSet({{"gpu.xid.action", "reset_gpu"sv}}), 0);
  nvidia_.Set(gpu_, kGpuRecoveryAction, AttributeSet({{"gpu.recovery.action", "none"sv}}), 1);
  EXPECT_TRUE(Tick({&nvidia_, &events})[0].available);
  nvidia_.Set(gpu_, kGpuRecoveryAction, AttributeSet({{"gpu.recovery.action", "none"sv}}), 0);
  EXPECT_FALSE(Tick({&nvidia_, &events})[0].available) << "the driver asks for a reset or a drain";
}

TEST_F(GpuReadingsTest, ThrottlingTakesAShareOfTheClock) {
  const AttributeSet graphics({{"gpu.clock.type", "graphics"sv}});
  nvidia_.Set(gpu_, kGpuClockFrequency, graphics, 990);
  nvidia_.Set(gpu_, kGpuClockMax, graphics, 1980);
  nvidia_.Set(gpu_, kGpuThrottleReason, AttributeSet({{"gpu.throttle.cause", "power_software"sv}}), 0);
  nvidia_.Set(gpu_, kGpuThrottleReason, AttributeSet({{"gpu.throttle.cause", "temp_hardware"sv}}), 0);
  nvidia_.Set(gpu_, kGpuThrottleReason, AttributeSet({{"gpu.throttle.cause", "display"sv}}), 1);
  EXPECT_EQ(Only().throttled, 0) << "a low clock without a cause is no loss";
  nvidia_.Set(gpu_, kGpuThrottleReason, AttributeSet({{"gpu.throttle.cause", "power_software"sv}}), 1);
  GpuReading reading = Only();
  EXPECT_EQ(reading.throttled, 0.5);
  EXPECT_EQ(reading.throttle_cause, Cause::kThrottlePower);
  nvidia_.Set(gpu_, kGpuThrottleReason, AttributeSet({{"gpu.throttle.cause", "temp_hardware"sv}}), 1);
  EXPECT_EQ(Only().throttle_cause, Cause::kThrottleThermal);
}

TEST_F(GpuReadingsTest, MigInstancesWithTheirPodsAndProcesses) {
  EntityRef gpu = TestGpu(1, AttributeSet({{"gpu.mig.enabled", true}, {"k8s.pod.names", "ml/a,ml/b"sv}}));
  auto mig = [&](int64_t id, std::string_view pod) {
    return MakeRef<Entity>("mig",
                           AttributeSet({{"gpu.mig.instance_id", id},
                                         {"gpu.mig.compute_instance_id", int64_t{0}},
                                         {"k8s.pod.name", pod},
                                         {"k8s.namespace.name", "ml"sv}}),
                           gpu);
  };
  EntityRef a = mig(1, "a"), b = mig(2, "b");
  TestSource source("nvidia");
  source.Set(gpu, kGpuEnergyConsumption, 10);
  source.Set(gpu, kGpuMigInstancesMax, 7);
  source.Set(gpu, kGpuProcesses, 1);
  source.Set(a, kGpuMigInfo, AttributeSet({{"gpu.mig.profile", "3g.40gb"sv}, {"gpu.mig.slices", "3"sv}}), 1);
  source.Set(b, kGpuMigInfo, AttributeSet({{"gpu.mig.profile", "4g.40gb"sv}}), 1);
  source.Set(a, kGpuGrEngineActive, 0.75);
  EntityRef process = TestProcess(a, 41);
  source.Set(process, kGpuProcessMemoryUsed, 1000);
  auto readings = Tick({&source});
  ASSERT_EQ(readings.size(), 1u);
  const GpuReading& reading = readings[0];
  EXPECT_TRUE(reading.mig);
  EXPECT_TRUE(reading.allocated.empty()) << "the slices are allocated, not the board";
  EXPECT_EQ(reading.compute_slices, 7);
  ASSERT_EQ(reading.slices.size(), 2u);
  EXPECT_EQ(reading.slices[0].slice, "1/0");
  EXPECT_EQ(reading.slices[0].compute_slices, 3);
  EXPECT_EQ(reading.slices[0].utilization, 0.75);
  EXPECT_EQ(reading.slices[0].allocated.pod, "a");
  EXPECT_EQ(reading.slices[1].slice, "2/0");
  EXPECT_EQ(reading.slices[1].compute_slices, 4) << "by its profile";
  EXPECT_EQ(reading.slices[1].utilization, std::nullopt);
  ASSERT_EQ(reading.users.size(), 1u);
  EXPECT_EQ(reading.users[0].slice, "1/0");
  // A part of an instance.
  EntityRef part = MakeRef<Entity>(
      "mig", AttributeSet({{"gpu.mig.instance_id", int64_t{3}}, {"gpu.mig.compute_instance_id", int64_t{1}}}),
      gpu);
  source.Set(part, kGpuMigInfo,
             AttributeSet({{"gpu.mig.profile", "1c.2g.20gb"sv}, {"gpu.mig.slices", "2"sv}}), 1);
  EXPECT_EQ(Tick({&source})[0].slices[2].compute_slices, 1);
  source.Retire(part);
  // The second instance is removed.
  source.Retire(b);
  EXPECT_EQ(Tick({&source})[0].slices.size(), 1u);
}

TEST_F(GpuReadingsTest, OfTwoFramesWithOneGpuTheFirstCounts) {
  TestSource dcgm("dcgm");
  EntityRef same = MakeRef<Entity>(
      "gpu", AttributeSet({{"gpu.index", int64_t{0}}, {"gpu.uuid", std::string_view(UuidOf(0))}}));
  dcgm.Set(same, kGpuEnergyConsumption, 9);
  EntityRef other = TestGpu(5);
  dcgm.Set(other, kGpuEnergyConsumption, 5);
  auto readings = Tick({&nvidia_, &dcgm});
  ASSERT_EQ(readings.size(), 2u);
  EXPECT_EQ(readings[0].energy_uj, 1'234'567'000);
  EXPECT_EQ(readings[1].gpu, UuidOf(5));
  EXPECT_EQ(readings_.GpuEntity(UuidOf(0)), gpu_);
}

TEST_F(GpuReadingsTest, APageOfDcgmHasPodsAndNoProcesses) {
  TestSource dcgm("dcgm");
  EntityRef gpu = TestGpu(3, AttributeSet({{"k8s.pod.name", "llama-0"sv}, {"k8s.namespace.name", "ml"sv}}));
  dcgm.Set(gpu, kGpuEnergyConsumption, 9.001);
  dcgm.Set(gpu, kGpuGrEngineActive, 0.25);
  engines_ = {{"vllm", 0, {"", "ml", "llama-0"}}};
  dcgm.DatedAt(clock_.Now() + -seconds(3));
  auto readings = Tick({&dcgm});
  ASSERT_EQ(readings.size(), 1u);
  EXPECT_EQ(readings[0].at_ns, (clock_.Now() + -seconds(4)).boot_ns) << "the exporter's own time";
  EXPECT_EQ(readings[0].energy_uj, 9'001'000);
  EXPECT_EQ(readings[0].utilization, 0.25) << "activity stands in for utilization";
  EXPECT_FALSE(readings[0].users_known);
  EXPECT_EQ(readings[0].allocated, (ledger::Owner{"", "ml", "llama-0", "", "ml", "vllm", ""}));
}

TEST_F(GpuReadingsTest, AmdProcessesByTheirEngineTime) {
  EntityRef board = MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", int64_t{2}}}), EntityRef{},
                                    AttributeSet({{"gpu.vendor", "amd"sv}}));
  EntityRef partition =
      MakeRef<Entity>("gpu.partition", AttributeSet({{"gpu.partition.id", int64_t{1}}}), board);
  EntityRef process = TestProcess(partition, 50), idle = TestProcess(board, 51);
  const AttributeSet gfx({{"gpu.engine.type", "gfx"sv}}), enc({{"gpu.engine.type", "enc"sv}});
  TestSource amd("amd");
  amd.Set(board, kGpuEnergyEstimate, 2.5);
  amd.Set(partition, kGpuUtilization, kCompute, 0.1);
  amd.Set(board, kGpuUtilization, kCompute, 0.3);
  amd.Set(board, kGpuProcesses, 1);
  amd.Set(partition, kGpuProcesses, 1);
  amd.Set(process, kGpuProcessEngineTime, gfx, 10);
  amd.Set(process, kGpuProcessEngineTime, enc, 90);
  amd.Set(process, kGpuProcessCuOccupancy, 0.9);
  amd.Set(idle, kGpuProcessCuOccupancy, 0.2);
  auto first = Tick({&amd});
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].gpu, "amd-2") << "it has no UUID";
  EXPECT_EQ(first[0].energy_source, ledger::EnergySource::kPowerIntegral);
  EXPECT_EQ(first[0].energy_uj, 2'500'000);
  EXPECT_EQ(first[0].utilization, 0.3) << "of the busiest partition";
  ASSERT_EQ(first[0].users.size(), 2u);
  amd.Set(process, kGpuProcessEngineTime, gfx, 10.25);
  auto second = Tick({&amd});
  for (const auto& user : second[0].users) {
    if (user.pid == 50) {
      EXPECT_DOUBLE_EQ(user.utilization.value_or(-1), 0.25);
    } else {
      EXPECT_EQ(user.utilization, 0.2) << "the units that it holds, where its time is unknown";
    }
  }
}

TEST(Owners, TheFirstAttributeThatIsThereIsTheTenant) {
  const std::vector<std::string> keys = {"tenant", "k8s.namespace.name", "process.owner"};
  EXPECT_EQ(OwnerOf(AttributeSet({{"process.owner", "ann"sv}, {"k8s.namespace.name", "ml"sv}}), keys).tenant,
            "ml");
  EXPECT_EQ(OwnerOf(AttributeSet({{"process.owner", "ann"sv}, {"tenant", "blue"sv}}), keys).tenant, "blue");
  EXPECT_EQ(OwnerOf(AttributeSet({{"k8s.pod.uid", "u"sv}}), keys).pod, "u");
  EXPECT_EQ(OwnerOf(AttributeSet({{"k8s.pod.names", "a,b"sv}, {"gpu.allocation", "shared"sv}}), keys).pod,
            "a,b")
      << "a shared GPU names all of its pods, and guesses none";
  EXPECT_EQ(OwnerOf(AttributeSet({{"k8s.job.name", "train"sv}}), keys).job, "train");
  EXPECT_EQ(OwnerOf(AttributeSet({{"slurm.job.id", int64_t{9}}, {"k8s.job.name", "train"sv}}), keys).job,
            "9");
  EXPECT_TRUE(OwnerOf(AttributeSet({{"gpu.index", int64_t{1}}}), keys).empty());
}

}  // namespace
}  // namespace gpulens::cost

// Series of slices and processes, from readings made by hand.

#include "plugins/collectors/nvidia/slice_series.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/testing/allocations.h"
#include "catalog/gpu.h"
#include "names/naming.h"
#include "plugins/collectors/nvidia/gpu_series.h"

namespace gpulens::nvidia {
namespace {

namespace fs = std::filesystem;
using nvml::SliceField;
using nvml::SliceKind;
using std::chrono::seconds;

constexpr uint64_t kGiB = 1 << 30;

class SliceSeriesTest : public ::testing::Test {
 protected:
  SliceSeriesTest()
      : root_(testing::TempDir() + "part_series_" + std::to_string(::getpid()) + "_" +
              testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(root_);
    Put("proc/2/stat", "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0\n");
    Put("etc/passwd", "ada:x:1000:1000::/:\n");
    processes_ = std::make_unique<nvml::ProcessTable>(root_);
    series_ = std::make_unique<GpuSeries>(GpuSeries::Options{.processes = processes_.get()});
    gpu_.state = nvml::GpuState::kOk;
    gpu_.facts = {{"uuid", "GPU-1"}, {"name", "NVIDIA H100"}, {"mig_mode", "enabled"}};
    gpu_.identity_version = 1;
    max_age_.ns = {Duration(seconds(2)).count(), Duration(seconds(12)).count(),
                   Duration(seconds(62)).count()};
  }
  ~SliceSeriesTest() override { fs::remove_all(root_); }

  void Put(const std::string& file, const std::string& text) {
    fs::create_directories(fs::path(root_ + "/" + file).parent_path());
    std::ofstream(root_ + "/" + file) << text;
  }
  void Process(int pid, const std::string& name, int start) {
    std::string folder = "proc/" + std::to_string(pid) + "/";
    Put(folder + "stat", std::to_string(pid) + " (" + name + ") S 1 1 1 0 -1 0 0 0 0 0 1 2 3 4 20 0 1 0 " +
                             std::to_string(start) + " 0 0\n");
    Put(folder + "comm", name + "\n");
    Put(folder + "status", "Uid:\t1000\t0\t0\t0\n");
    Put(folder + "cgroup", "0::/docker/" + std::string(64, 'a') + "\n");
  }
  void Set(nvml::SliceValues& values, SliceField field, double value) {
    values[static_cast<size_t>(field)] = {nvml::ReadStatus::kOk, clock_.Now().boot_ns, value};
  }
  nvml::GpuSlice& AddMig(uint32_t instance, uint32_t compute, const std::string& uuid) {
    gpu_.slices.mig_max = 7;
    nvml::GpuSlice& slice = gpu_.slices.list.emplace_back();
    slice.key = {.kind = SliceKind::kMig, .id = instance, .sub = compute};
    slice.facts = {{"uuid", uuid}, {"profile", "3g.40gb"}, {"slices", "3"}};
    return slice;
  }
  void Processes(std::vector<nvml::GpuProcess> list) {
    gpu_.processes = std::move(list);
    gpu_.processes_boot_ns = clock_.Now().boot_ns;
  }
  void Run() {
    gpu_.last_read_boot_ns = clock_.Now().boot_ns;
    auto& count = gpu_.fields[static_cast<size_t>(nvml::Field::kProcessCount)];
    count = {nvml::ReadStatus::kOk, clock_.Now().boot_ns, 0};
    writer_.Begin(clock_.Now());
    processes_->NextRound();
    series_->Update(gpu_, max_age_, clock_.Now(), writer_);
    frame_ = writer_.Finish();
  }
  // The one value of a family with these attributes; NaN when there is none, or more than one.
  double Value(const MetricDesc& desc,
               std::initializer_list<std::pair<std::string_view, std::string_view>> with = {}) {
    double found = std::nan("");
    int count = 0;
    for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame_->layout)[slot];
      if (info.desc != &desc || frame_->quality[slot] != Quality::kOk) continue;
      bool fits = true;
      for (auto [key, value] : with) fits = fits && info.attributes.Text(key) == value;
      if (!fits) continue;
      Cell cell = frame_->cells[info.first_cell];
      found = desc.number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
      ++count;
    }
    return count == 1 ? found : std::nan("");
  }
  bool Has(const MetricDesc& desc,
           std::initializer_list<std::pair<std::string_view, std::string_view>> with = {}) {
    return !std::isnan(Value(desc, with));
  }

  const std::string root_;
  nvml::Gpu gpu_;
  FieldMaxAge max_age_;
  ManualClock clock_;
  SeriesTable table_;
  FrameWriter writer_{table_, seconds(10)};
  std::unique_ptr<nvml::ProcessTable> processes_;
  std::unique_ptr<GpuSeries> series_;
  Ref<const Frame> frame_;
};

TEST_F(SliceSeriesTest, MigInstancesAreEntities) {
  nvml::GpuSlice& one = AddMig(1, 0, "MIG-a");
  Set(one.values, SliceField::kMemoryUsed, 8.0 * kGiB);
  Set(one.values, SliceField::kGpmSm, 44);
  Set(one.values, SliceField::kBar1Used, 1024);
  AddMig(2, 0, "MIG-b");
  nvml::GpuSlice& third = AddMig(2, 1, "MIG-c");
  Set(third.values, SliceField::kMemoryUsed, 8.0 * kGiB);
  Run();
  EXPECT_EQ(Value(kGpuMigMemoryUsed, {{"gpu.mig.instance_id", "1"}, {"gpu.uuid", "GPU-1"}}), 8.0 * kGiB);
  EXPECT_EQ(Value(kGpuSmActive, {{"gpu.mig.instance_id", "1"}}), 0.44);
  EXPECT_EQ(Value(kGpuMigInfo, {{"gpu.mig.instance_id", "2"},
                                {"gpu.mig.compute_instance_id", "1"},
                                {"gpu.mig.profile", "3g.40gb"}}),
            1);
  EXPECT_FALSE(Has(kGpuMigMemoryUsed, {{"gpu.mig.instance_id", "2"}}))
      << "told of the first compute instance alone";
  EXPECT_EQ(Value(kGpuMigInstances, {{"gpu.mig.instance_type", "gpu"}}), 2);
  EXPECT_EQ(Value(kGpuMigInstances, {{"gpu.mig.instance_type", "compute"}}), 3);
  EXPECT_EQ(Value(kGpuMigInstancesMax), 7);
  EXPECT_FALSE(Has(kGpuMigBar1Used)) << "off by default";
  EXPECT_EQ((*frame_->layout)[0].attributes.Text("gpu.mig.enabled"), "true");
}

TEST_F(SliceSeriesTest, RecreatedInstanceIsAnotherEntity) {
  nvml::GpuSlice& one = AddMig(1, 0, "MIG-a");
  Set(one.values, SliceField::kMemoryUsed, 5);
  Run();
  ASSERT_TRUE(Has(kGpuMigInfo, {{"gpu.mig.uuid", "MIG-a"}}));
  one.facts[0].second = "MIG-b";
  one.values = {};
  Run();
  EXPECT_FALSE(Has(kGpuMigInfo, {{"gpu.mig.uuid", "MIG-a"}}));
  EXPECT_TRUE(Has(kGpuMigInfo, {{"gpu.mig.uuid", "MIG-b"}}));
  EXPECT_FALSE(Has(kGpuMigMemoryUsed)) << "nothing of the old one is left";
  gpu_.slices.list.clear();
  Run();
  EXPECT_FALSE(Has(kGpuMigInfo));
  EXPECT_EQ(Value(kGpuMigInstances, {{"gpu.mig.instance_type", "gpu"}}), 0);
}

TEST_F(SliceSeriesTest, GpmExportsRatesWithoutCounters) {
  Set(gpu_.slices.whole, SliceField::kGpmPcieTx, 100);
  Set(gpu_.slices.whole, SliceField::kGpmC2cDataRx, 2);
  auto& blocking = gpu_.fields[static_cast<size_t>(nvml::Field::kPcieTxRate)];
  blocking = {nvml::ReadStatus::kOk, clock_.Now().boot_ns, 5};
  Run();
  EXPECT_EQ(Value(kGpuPcieThroughput, {{"gpu.interconnect.direction", "transmit"}}), 100.0 * (1 << 20));
  EXPECT_EQ(Value(kGpuC2cThroughput, {{"gpu.interconnect.direction", "receive"}}), 2.0 * (1 << 20));
  // A counter replaces the rate by GPM.
  clock_.Advance(seconds(1));
  auto& counter = gpu_.fields[static_cast<size_t>(nvml::Field::kPcieTxBytes)];
  counter = {nvml::ReadStatus::kOk, clock_.Now().boot_ns, 1000};
  Run();
  clock_.Advance(seconds(1));
  counter = {nvml::ReadStatus::kOk, clock_.Now().boot_ns, 3000};
  Set(gpu_.slices.whole, SliceField::kGpmPcieTx, 100);
  Run();
  EXPECT_EQ(Value(kGpuPcieThroughput, {{"gpu.interconnect.direction", "transmit"}}), 2000);
}

TEST_F(SliceSeriesTest, RejectsImpossibleValues) {
  Set(gpu_.slices.whole, SliceField::kGpmSm, 250);
  Set(gpu_.slices.whole, SliceField::kGpmDram, std::nan(""));
  Run();
  EXPECT_FALSE(Has(kGpuSmActive));
  EXPECT_FALSE(Has(kGpuDramActive));
  EXPECT_EQ(writer_.counts().rejected[static_cast<size_t>(Validation::kOutOfRange)], 2u);
}

TEST_F(SliceSeriesTest, OldReadingsTurnStale) {
  nvml::GpuSlice& one = AddMig(1, 0, "MIG-a");
  Set(one.values, SliceField::kMemoryUsed, 5);
  Set(gpu_.slices.whole, SliceField::kGpmSm, 50);
  Run();
  clock_.Advance(seconds(5));
  Run();
  EXPECT_FALSE(Has(kGpuMigMemoryUsed));
  EXPECT_FALSE(Has(kGpuSmActive));
  EXPECT_TRUE(Has(kGpuMigInfo)) << "the GPU answers, and still has it";
}

TEST_F(SliceSeriesTest, VgpusOfAHost) {
  gpu_.slices.vgpu_host = true;
  Run();
  EXPECT_EQ(Value(kGpuVgpuInstances), 0);
  nvml::GpuSlice& slice = gpu_.slices.list.emplace_back();
  slice.key = {.kind = SliceKind::kVgpu, .id = 77, .sub = 0};
  slice.facts = {{"uuid", "u"}, {"vm", "vm-7"}, {"type", "L40S-8Q"}};
  Set(slice.values, SliceField::kVgpuMemoryUsed, 4.0 * kGiB);
  Set(slice.values, SliceField::kVgpuSm, 35);
  Set(slice.values, SliceField::kVgpuLicensed, 1);
  Run();
  EXPECT_EQ(Value(kGpuVgpuInstances), 1);
  EXPECT_EQ(Value(kGpuVgpuInfo, {{"gpu.vgpu.vm", "vm-7"}, {"gpu.vgpu.id", "77"}}), 1);
  EXPECT_EQ(Value(kGpuVgpuMemoryUsed, {{"gpu.vgpu.id", "77"}}), 4.0 * kGiB);
  EXPECT_EQ(Value(kGpuVgpuUtilization, {{"gpu.task.type", "compute"}}), 0.35);
  EXPECT_EQ(Value(kGpuVgpuLicensed), 1);
}

TEST_F(SliceSeriesTest, ProcessesHaveTheirFacts) {
  Process(70, "python3", 100);
  Processes(
      {{.pid = 70, .memory_used = kGiB}, {.pid = 71, .type = nvml::ProcessType::kMps, .memory_used = kGiB}});
  gpu_.slices.shares = {{.pid = 70, .sm = 40, .memory = 20, .encoder = 0, .decoder = 3}};
  gpu_.slices.shares_boot_ns = clock_.Now().boot_ns;
  Run();
  EXPECT_EQ(Value(kGpuProcessMemoryUsed, {{"process.pid", "70"},
                                          {"process.executable.name", "python3"},
                                          {"process.owner", "ada"},
                                          {"container.id", std::string(64, 'a')},
                                          {"gpu.process.type", "compute"}}),
            static_cast<double>(kGiB));
  EXPECT_TRUE(Has(kGpuProcessMemoryUsed,
                  {{"process.pid", "71"}, {"gpu.process.type", "mps"}, {"process.owner", ""}}));
  EXPECT_EQ(Value(kGpuProcessUtilization, {{"process.pid", "70"}, {"gpu.task.type", "compute"}}), 0.4);
  EXPECT_EQ(Value(kGpuProcessUtilization, {{"process.pid", "70"}, {"gpu.task.type", "decoder"}}), 0.03);
  EXPECT_FALSE(Has(kGpuProcessUtilization, {{"process.pid", "70"}, {"gpu.task.type", "encoder"}}))
      << "it was 0";
  EXPECT_EQ(Value(kGpuProcessUtilization, {{"process.pid", "71"}, {"gpu.task.type", "compute"}}), 0)
      << "idle, as far as the driver saw";
  Processes({{.pid = 71, .type = nvml::ProcessType::kMps, .memory_used = kGiB}});
  Run();
  EXPECT_FALSE(Has(kGpuProcessMemoryUsed, {{"process.pid", "70"}})) << "gone with the process";
  EXPECT_FALSE(Has(kGpuProcessUtilization, {{"process.pid", "70"}, {"gpu.task.type", "compute"}}));
}

TEST_F(SliceSeriesTest, AProcessHasItsStartAndParentsAsHiddenFacts) {
  Process(60, "vllm", 90);
  Process(70, "python3", 100);
  std::ofstream(root_ + "/proc/70/stat")
      << "70 (python3) S 60 1 1 0 -1 4194560 0 0 0 0 1 2 3 4 20 0 1 0 100 0 0\n";
  Processes({{.pid = 70, .memory_used = kGiB}});
  Run();
  size_t found = 0;
  for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
    const SeriesInfo& info = (*frame_->layout)[slot];
    if (info.desc != &kGpuProcessMemoryUsed) continue;
    ++found;
    EXPECT_EQ(info.entity->facts.Text("process.parents"), "60");
    EXPECT_EQ(info.entity->facts.Text("process.start_ticks"), "100");
    EXPECT_FALSE(info.attributes.Has("process.parents")) << "on no series";
  }
  EXPECT_EQ(found, 1u);
}

TEST_F(SliceSeriesTest, ReportsAnEndedProcessOnceWithItsPeak) {
  EventQueue queue;
  series_ = std::make_unique<GpuSeries>(GpuSeries::Options{.processes = processes_.get(), .ended = &queue});
  Process(70, "python3", 100);
  Processes({{.pid = 70, .memory_used = 9 * kGiB}, {.pid = 71, .memory_used = kGiB}});
  Run();
  Processes({{.pid = 70, .memory_used = kGiB}, {.pid = 71, .memory_used = kGiB}});
  Run();
  EXPECT_TRUE(queue.Take().empty());
  Process(70, "second", 200);
  Run();
  std::vector<Event> events = queue.Take();
  ASSERT_EQ(events.size(), 1u) << "the number is used again: the first process is gone";
  EXPECT_EQ(events[0].name, "gpu.process.end");
  EXPECT_EQ(events[0].entity, series_->entity());
  EXPECT_EQ(events[0].attributes.Text("process.pid"), "70");
  EXPECT_EQ(events[0].attributes.Text("process.executable.name"), "python3");
  EXPECT_EQ(events[0].attributes.Text("process.owner"), "ada");
  EXPECT_EQ(events[0].attributes.Text("gpu.process.memory.peak"), std::to_string(9 * kGiB));
  EXPECT_FALSE(events[0].attributes.Has("container.id")) << "not a key of the event";
  Processes({{.pid = 71, .memory_used = kGiB}});
  Run();
  Run();
  events = queue.Take();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].attributes.Text("process.executable.name"), "second");
}

TEST_F(SliceSeriesTest, EnginesCachesAndCyclesAreDetails) {
  gpu_.facts[2].second = "disabled";
  Set(gpu_.slices.whole, SliceField::kGpmSm, 50);
  Set(gpu_.slices.whole, SliceField::kGpmDecoder3, 25);
  Set(gpu_.slices.whole, SliceField::kGpmHitPeer, 40);
  Set(gpu_.slices.whole, SliceField::kGpmCycles, 2e12);
  Set(gpu_.slices.whole, SliceField::kGpmCyclesHmma, 1e12);
  Run();
  EXPECT_TRUE(Has(kGpuSmActive));
  EXPECT_FALSE(Has(kGpuCyclesElapsed));
  series_->Retire(table_);
  series_ = std::make_unique<GpuSeries>(GpuSeries::Options{.details = true});
  Run();
  EXPECT_EQ(Value(kGpuEngineUtilization, {{"gpu.engine.type", "nvdec"}, {"gpu.engine.index", "3"}}), 0.25);
  EXPECT_EQ(Value(kGpuCacheHit, {{"gpu.cache.type", "peermem"}}), 0.4);
  EXPECT_EQ(Value(kGpuCyclesElapsed), 2e12);
  EXPECT_EQ(Value(kGpuCyclesActive, {{"gpu.cycles.unit", "hmma"}}), 1e12);
}

TEST_F(SliceSeriesTest, ReusedPidInheritsNothing) {
  Process(70, "first", 100);
  Processes({{.pid = 70, .memory_used = 9 * kGiB}});
  Run();
  Process(70, "second", 200);
  Processes({{.pid = 70, .memory_used = kGiB}});
  Run();
  EXPECT_FALSE(Has(kGpuProcessMemoryPeak, {{"process.executable.name", "first"}}));
  EXPECT_EQ(Value(kGpuProcessMemoryPeak, {{"process.executable.name", "second"}}), static_cast<double>(kGiB));
}

TEST_F(SliceSeriesTest, ProcessInTwoInstancesIsTwoSeriesOfDistinctNames) {
  AddMig(1, 0, "MIG-a");
  AddMig(2, 1, "MIG-b");
  Processes({{.pid = 70, .memory_used = 8 * kGiB, .gpu_instance = 1, .compute_instance = 0},
             {.pid = 70, .memory_used = 2 * kGiB, .gpu_instance = 2, .compute_instance = 1},
             {.pid = 70, .memory_used = 1 * kGiB, .gpu_instance = 9, .compute_instance = 0}});
  Run();
  EXPECT_EQ(Value(kGpuProcessMemoryUsed, {{"gpu.mig.instance_id", "1"}}), 8.0 * kGiB);
  EXPECT_EQ(Value(kGpuProcessMemoryUsed, {{"gpu.mig.instance_id", "2"}}), 2.0 * kGiB);
  EXPECT_EQ(Value(kGpuProcessMemoryUsed, {{"gpu.mig.instance_id", "9"}}), 1.0 * kGiB)
      << "an instance not listed yet";
  EXPECT_EQ(Value(kGpuProcesses, {{"gpu.process.type", "compute"}}), 1) << "one process";
  EXPECT_FALSE(Has(kGpuProcessUtilization)) << "not exported in MIG mode";
  const std::string names_of[] = {"zernel"};
  SeriesNamer zernel = MakeSeriesNamer(names_of);
  std::set<std::string> names;
  std::vector<NamedSeries> named;
  for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
    if ((*frame_->layout)[slot].desc) zernel((*frame_->layout)[slot], named);
  }
  for (const NamedSeries& series : named) {
    std::string name = series.name;
    for (const auto& [label, value] : series.labels) name += "," + label + "=" + value;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(names.size(), 6u);
}

TEST_F(SliceSeriesTest, SteadyRunDoesNotAllocate) {
  if (!AllocationsAreCounted()) GTEST_SKIP() << "allocations are not counted under this sanitizer";
  Process(70, "python3", 100);
  nvml::GpuSlice& one = AddMig(1, 0, "MIG-a");
  auto run = [&] {
    clock_.Advance(seconds(1));
    Set(one.values, SliceField::kMemoryUsed, 5);
    Set(gpu_.slices.whole, SliceField::kGpmSm, 50);
    gpu_.processes_boot_ns = gpu_.slices.shares_boot_ns = clock_.Now().boot_ns;
    Run();
  };
  Processes({{.pid = 70, .memory_used = kGiB}});
  gpu_.slices.shares = {{.pid = 70, .sm = 40, .memory = 20}};
  for (int i = 0; i < 3; ++i) run();
  uint64_t before = AllAllocations();
  run();
  run();
  EXPECT_EQ(AllAllocations() - before, 0u);
}

}  // namespace
}  // namespace gpulens::nvidia

#include <gpulens/training.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/allocations.h"
#include "catalog/training.h"

namespace gpulens {
namespace {

using Part = TrainingMonitor::Part;
constexpr double kInf = std::numeric_limits<double>::infinity();

// The snippet of l9gpu: 70 B parameters, 4,096 tokens, 8 GPUs of 989 TFLOPS.
const TrainingOptions kLlama{
    .num_params = 70e9, .tokens_per_step = 4096, .gpu_count = 8, .peak_flops_per_gpu = 989e12};

TrainingMonitor MakeMonitor(const TrainingOptions& options, Registry& registry) {
  auto monitor = TrainingMonitor::Create(options, registry);
  EXPECT_TRUE(monitor) << monitor.status().detail;
  return std::move(*monitor);
}

double ValueOf(const Registry& registry, std::string_view name) {
  for (const Sample& sample : registry.Snapshot()) {
    if (sample.name == name) return sample.value;
  }
  return kNotMeasured;
}

TEST(Training, ComputesUtilizationByThePalmFormula) {
  Registry registry;
  TrainingMonitor monitor = MakeMonitor(kLlama, registry);
  monitor.RecordStep(1.0, 2.5);
  EXPECT_NEAR(ValueOf(registry, "training.mfu"), 0.2174, 0.00005);
  EXPECT_NEAR(ValueOf(registry, "training.tflops"), 1720.3, 0.05);
  EXPECT_EQ(ValueOf(registry, "training.step_time"), 1.0);
  EXPECT_EQ(ValueOf(registry, "training.loss"), 2.5);
  EXPECT_EQ(ValueOf(registry, "training.steps"), 1);
  EXPECT_EQ(ValueOf(registry, "training.tokens"), 4096);
  EXPECT_EQ(monitor.metrics().hfu, monitor.metrics().mfu);
  EXPECT_TRUE(monitor.mfu_status().ok());
}

// What the monitor exports is in the catalogue, each with its name, unit, kind and description.
TEST(Training, ExportsTheRowsOfTheCatalogue) {
  Registry registry;
  TrainingOptions options = kLlama;
  options.max_norm = 1.0;
  TrainingMonitor monitor = MakeMonitor(options, registry);
  monitor.RecordStep(1.0, 2.5);
  monitor.RecordDataWait(0.1);
  monitor.RecordCheckpointSave(2.0, 1e9);
  monitor.RecordCheckpointRestore(2.0, 1e9);
  monitor.RecordGradient(0.5, 0);
  const double busy[] = {1.0, 1.0, 2.0};
  monitor.RecordRanks(busy);
  std::vector<std::string> exported, listed;
  for (const MetricDesc* row : kTrainingRows) {
    listed.push_back(std::string(row->name) + " " + std::string(row->unit) + " " +
                     std::string(KindName(row->kind)) + " " + std::string(row->help));
    EXPECT_EQ(row->level, MetricLevel::kEssential) << row->name;
  }
  for (const Sample& sample : registry.Snapshot()) {
    const char* kind = sample.kind == InstrumentKind::kCounter ? "counter"
                       : sample.kind == InstrumentKind::kGauge ? "gauge"
                                                               : "histogram";
    exported.push_back(sample.name + " " + sample.unit + " " + kind + " " + sample.description);
    ASSERT_EQ(sample.attributes.size(), 1u) << sample.name;
    EXPECT_EQ(sample.attributes.front().first, "rank");
  }
  EXPECT_THAT(exported, ::testing::UnorderedElementsAreArray(listed));
}

TEST(Training, RecomputationCountsInHfuOnly) {
  Registry registry;
  TrainingOptions options = kLlama;
  options.gradient_checkpointing = true;
  TrainingMonitor monitor = MakeMonitor(options, registry);
  monitor.RecordStep(1.0);
  EXPECT_NEAR(monitor.metrics().mfu, 0.2174, 0.00005);
  EXPECT_NEAR(monitor.metrics().hfu, 0.2174 * 4 / 3, 0.00007);
}

TEST(Training, CountsActiveParametersOfAMixtureOfExperts) {
  Registry registry;
  TrainingOptions options = kLlama;
  options.active_params = 13e9;
  TrainingMonitor monitor = MakeMonitor(options, registry);
  monitor.RecordStep(2.0);
  EXPECT_NEAR(monitor.metrics().flops_per_second, 6 * 13e9 * 4096 / 2, 1);
}

TEST(Training, UsesThePeakOfProductAndPrecision) {
  Registry registry;
  TrainingMonitor monitor = MakeMonitor({.num_params = 70e9,
                                         .tokens_per_step = 4096,
                                         .gpu_count = 8,
                                         .product = "NVIDIA H100 80GB HBM3",
                                         .precision = Precision::kBf16},
                                        registry);
  monitor.RecordStep(1.0);
  EXPECT_NEAR(monitor.metrics().mfu, 0.2174, 0.0003);
}

TEST(Training, HasNoMfuWithoutAPeakAndReportsWhy) {
  Registry registry;
  TrainingOptions options{.num_params = 1e9, .tokens_per_step = 10, .product = "Imaginary GPU"};
  TrainingMonitor unknown = MakeMonitor(options, registry);
  unknown.RecordStep(1.0);
  EXPECT_TRUE(std::isnan(unknown.metrics().mfu));
  EXPECT_TRUE(std::isnan(ValueOf(registry, "training.mfu")));
  EXPECT_EQ(unknown.metrics().flops_per_second, 6 * 1e9 * 10) << "that needs no peak";
  EXPECT_THAT(unknown.mfu_status().detail, testing::HasSubstr("\"Imaginary GPU\""));

  options.product = {};
  EXPECT_THAT(MakeMonitor(options, registry).mfu_status().detail, testing::HasSubstr("neither"));
  options.num_params = 0;
  EXPECT_THAT(MakeMonitor(options, registry).mfu_status().detail, testing::HasSubstr("num_params"));
}

TEST(Training, NamesInvalidOptions) {
  Registry registry;
  const auto refused = [&](TrainingOptions options, const char* name) {
    const auto monitor = TrainingMonitor::Create(options, registry);
    ASSERT_FALSE(monitor) << name;
    EXPECT_EQ(monitor.status().code, Code::kInvalidArgument);
    EXPECT_THAT(monitor.status().detail, testing::StartsWith(name));
  };
  refused({.num_params = -1}, "num_params");
  refused({.num_params = kNotMeasured}, "num_params");
  refused({.num_params = 1, .active_params = 2}, "active_params");
  refused({.tokens_per_step = kInf}, "tokens_per_step");
  refused({.gpu_count = 0}, "gpu_count");
  refused({.rank = -1}, "rank");
  refused({.peak_flops_per_gpu = 0}, "peak_flops_per_gpu");
  refused({.max_norm = -1}, "max_norm");
}

TEST(Training, CountsClippedGradients) {
  Registry registry;
  TrainingOptions options = kLlama;
  options.max_norm = 1.0;
  TrainingMonitor monitor = MakeMonitor(options, registry);
  for (int i = 0; i < 10; ++i) monitor.RecordGradient(i < 2 ? 1.5 : 0.5, i == 9 ? 1 : 0);
  EXPECT_DOUBLE_EQ(ValueOf(registry, "training.gradient.clip_rate"), 0.2);
  EXPECT_EQ(ValueOf(registry, "training.gradient.norm"), 0.5);
  EXPECT_EQ(ValueOf(registry, "training.gradient.nan_count"), 1);
  monitor.RecordGradient(0.5, 0, true);
  EXPECT_DOUBLE_EQ(monitor.metrics().gradient_clip_ratio, 3.0 / 11);
}

TEST(Training, OmitsClippingWithoutALimit) {
  Registry registry;
  TrainingMonitor monitor = MakeMonitor(kLlama, registry);
  monitor.RecordGradient(7, 0);
  EXPECT_TRUE(std::isnan(monitor.metrics().gradient_clip_ratio));
  EXPECT_EQ(monitor.metrics().gradient_norm, 7);
}

TEST(Training, CountsNonfiniteLossesWithoutExportingThem) {
  Registry registry;
  TrainingMonitor monitor = MakeMonitor(kLlama, registry);
  monitor.RecordStep(1, 2.0);
  monitor.RecordStep(1, kNotMeasured);
  monitor.RecordStep(1, kInf);
  monitor.RecordStep(1);
  monitor.RecordLoss(kNotMeasured);
  EXPECT_EQ(ValueOf(registry, "training.loss.nonfinite"), 3);
  EXPECT_TRUE(std::isnan(monitor.metrics().loss));
  EXPECT_EQ(monitor.metrics().steps, 4);
  EXPECT_EQ(monitor.metrics().nonfinite_losses, 3);
  monitor.RecordLoss(1.5);
  EXPECT_EQ(monitor.metrics().loss, 1.5);
}

TEST(Training, CheckpointsHaveARateIfTheSizeIsKnown) {
  Registry registry;
  TrainingMonitor monitor = MakeMonitor(kLlama, registry);
  monitor.RecordCheckpointSave(0.5, 1 << 30);
  EXPECT_EQ(ValueOf(registry, "training.checkpoint.save_duration"), 0.5);
  EXPECT_EQ(ValueOf(registry, "training.checkpoint.save_bandwidth"), 2.0 * (1 << 30));
  monitor.RecordCheckpointSave(0.7);
  EXPECT_TRUE(std::isnan(monitor.metrics().checkpoint_save_bytes_per_second))
      << "of this one nothing is known";
  monitor.RecordCheckpointRestore(0.3, 300);
  EXPECT_EQ(ValueOf(registry, "training.checkpoint.restore_duration"), 0.3);
  EXPECT_EQ(monitor.metrics().checkpoint_restore_bytes_per_second, 1000);
}

TEST(Training, DropsInvalidTimes) {
  Registry registry;
  TrainingMonitor monitor = MakeMonitor(kLlama, registry);
  for (const double bad : {-1.0, kNotMeasured, kInf}) {
    monitor.RecordStep(bad, 1);
    monitor.RecordDataWait(bad);
    monitor.RecordCheckpointSave(bad, 1);
    monitor.RecordCheckpointRestore(bad, 1);
  }
  EXPECT_EQ(monitor.metrics().steps, 0);
  EXPECT_TRUE(std::isnan(monitor.metrics().data_wait_seconds));
  EXPECT_TRUE(std::isnan(monitor.metrics().checkpoint_save_seconds));
  EXPECT_TRUE(std::isnan(monitor.metrics().checkpoint_restore_seconds));
}

TEST(Training, ScopeRecordsUnlessAnExceptionEndsIt) {
  Registry registry;
  TrainingMonitor monitor = MakeMonitor(kLlama, registry);
  {
    auto step = monitor.Time(Part::kStep);
    step.set_loss(0.25);
  }
  EXPECT_EQ(monitor.metrics().steps, 1);
  EXPECT_EQ(monitor.metrics().loss, 0.25);
  EXPECT_GE(monitor.metrics().step_seconds, 0);
  {
    auto save = monitor.Time(Part::kCheckpointSave);
    auto moved = std::move(save);
    moved.set_bytes(1000);
  }
  EXPECT_GT(monitor.metrics().checkpoint_save_bytes_per_second, 0);
  try {
    const auto step = monitor.Time(Part::kStep);
    throw std::runtime_error("out of memory");
  } catch (const std::runtime_error&) {
    EXPECT_EQ(monitor.metrics().steps, 1) << "a step that failed has no time";
  }
}

TEST(Training, StragglerIsTheBusiestRank) {
  const double busy[] = {1.0, 1.1, 1.6, 1.0};
  const Straggler straggler = FindStraggler(busy);
  EXPECT_EQ(straggler.rank, 2);
  EXPECT_NEAR(straggler.ratio_to_median, 1.6 / 1.05, 1e-12);
  const double unknown[] = {kNotMeasured, 1.0, -1};
  EXPECT_EQ(FindStraggler(unknown).rank, -1);
  EXPECT_EQ(FindStraggler({}).rank, -1);

  Registry registry;
  TrainingOptions options = kLlama;
  options.rank = 2;
  TrainingMonitor monitor = MakeMonitor(options, registry);
  monitor.RecordRanks(busy);
  EXPECT_NEAR(ValueOf(registry, "training.step.busy_ratio"), 1.6 / 1.05, 1e-12);
  monitor.RecordRanks(std::span(busy, 2));
  EXPECT_TRUE(std::isnan(monitor.metrics().busy_ratio_to_median)) << "this rank is not among them";
}

TEST(Training, RecordingIsExactAndDoesNotAllocate) {
  Registry registry;
  TrainingOptions options = kLlama;
  options.max_norm = 1;
  TrainingMonitor monitor = MakeMonitor(options, registry);
  const auto record = [&] {
    monitor.RecordStep(0.5, 1.0);
    monitor.RecordDataWait(0.25);
    monitor.RecordGradient(0.5, 0);
    monitor.RecordCheckpointSave(0.5, 10);
  };
  record();  // a thread's first touch
  const uint64_t before = ThreadAllocations();
  for (int i = 0; i < 100; ++i) record();
  EXPECT_EQ(ThreadAllocations(), before);

  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) record();
    });
  }
  threads.clear();
  EXPECT_EQ(ValueOf(registry, "training.steps"), 4101);
  EXPECT_EQ(monitor.metrics().steps, 4101);
  EXPECT_DOUBLE_EQ(ValueOf(registry, "training.dataloader.wait_time"), 4101 * 0.25);
}

}  // namespace
}  // namespace gpulens

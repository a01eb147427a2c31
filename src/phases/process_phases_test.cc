#include "phases/process_phases.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "phases/job_evidence.h"

namespace gpulens::phases {
namespace {

using job_page::PageCopy;
using job_page::RecordCopy;
using job_page::Timing;

constexpr int64_t kMs = 1'000'000, kSecond = 1'000'000'000;

int64_t SumOf(const ProcessPhases& phases) {
  int64_t sum = 0;
  for (size_t i = 0; i < kPhaseCount; ++i) sum += phases.time_ns(static_cast<Phase>(i));
  return sum;
}

TEST(ProcessPhases, TimeBelongsToTheBestEvidenceAndTheSumIsExact) {
  ProcessPhases phases(kSecond);
  phases.Interval(Evidence::kDevice, kSecond, 2 * kSecond);
  phases.Interval(Evidence::kCollective, kSecond + 200 * kMs, kSecond + 500 * kMs);
  phases.Interval(Evidence::kDataWait, kSecond + 400 * kMs, kSecond + 600 * kMs);
  phases.Mark(Phase::kOptimizerStep, kSecond + 550 * kMs);
  phases.Mark(Phase::kUnknown, kSecond + 700 * kMs);
  phases.Advance(2 * kSecond + 100 * kMs);
  EXPECT_EQ(phases.time_ns(Phase::kGpuCompute), 500 * kMs);
  EXPECT_EQ(phases.time_ns(Phase::kNcclCollective), 200 * kMs);
  EXPECT_EQ(phases.time_ns(Phase::kDataLoading), 150 * kMs);
  EXPECT_EQ(phases.time_ns(Phase::kOptimizerStep), 150 * kMs);
  EXPECT_EQ(phases.time_ns(Phase::kUnknown), 100 * kMs);
  EXPECT_EQ(SumOf(phases), 1100 * kMs);
  EXPECT_EQ(phases.transitions(), 6u);
  EXPECT_EQ(phases.phase(), Phase::kUnknown);
}

TEST(ProcessPhases, TenChangesAreTenTransitions) {
  ProcessPhases phases(0);
  phases.Mark(Phase::kGpuCompute, 0);
  phases.Advance(kSecond);
  const uint64_t before = phases.transitions();
  for (int i = 1; i <= 10; ++i)
    phases.Mark(i % 2 ? Phase::kDataLoading : Phase::kGpuCompute, kSecond + i * 3 * kMs);
  phases.Advance(2 * kSecond);
  EXPECT_EQ(phases.transitions() - before, 10u);
  phases.Advance(3 * kSecond);
  EXPECT_EQ(phases.transitions() - before, 10u) << "time alone is no change";
}

TEST(ProcessPhases, AnOpenPhaseCounts) {
  ProcessPhases phases(0);
  phases.Mark(Phase::kGpuCompute, 0);
  phases.Advance(60 * kSecond);
  EXPECT_EQ(phases.time_ns(Phase::kGpuCompute), 60 * kSecond);
  EXPECT_EQ(phases.phase(), Phase::kGpuCompute);
  EXPECT_DOUBLE_EQ(phases.confidence(), 1);
}

TEST(ProcessPhases, SamplesCountWithTheSecondEqualOne) {
  ProcessPhases phases(0);
  phases.Sample(Evidence::kUtilization, Phase::kGpuCompute, 1 * kSecond);
  phases.Advance(1 * kSecond);
  EXPECT_EQ(phases.phase(), Phase::kUnknown);
  phases.Sample(Evidence::kUtilization, Phase::kGpuCompute, 2 * kSecond);
  phases.Sample(Evidence::kUtilization, Phase::kDataLoading, 3 * kSecond);
  phases.Sample(Evidence::kUtilization, Phase::kGpuCompute, 4 * kSecond);
  phases.Advance(60 * kSecond);
  EXPECT_EQ(phases.time_ns(Phase::kGpuCompute), 58 * kSecond) << "one other sample changes nothing";
  EXPECT_EQ(phases.time_ns(Phase::kDataLoading), 0);
  EXPECT_NEAR(phases.confidence(), 0.4 * 58 / 60, 0.01);
  phases.EndSamples(Evidence::kUtilization, 60 * kSecond);
  phases.Advance(61 * kSecond);
  EXPECT_EQ(phases.phase(), Phase::kUnknown);
}

TEST(ProcessPhases, AnAmountTakesTheWorstEvidenceFirstAndNoMoreThanThereIs) {
  ProcessPhases phases(0);
  phases.Interval(Evidence::kCollective, 0, 300 * kMs);
  phases.Interval(Evidence::kDevice, 300 * kMs, 900 * kMs);
  phases.Amount(Evidence::kDataWait, Phase::kDataLoading, 250 * kMs);
  phases.Advance(kSecond);
  EXPECT_EQ(phases.time_ns(Phase::kUnknown), 0);
  EXPECT_EQ(phases.time_ns(Phase::kDataLoading), 250 * kMs);
  EXPECT_EQ(phases.time_ns(Phase::kGpuCompute), 450 * kMs);
  EXPECT_EQ(phases.time_ns(Phase::kNcclCollective), 300 * kMs);
  phases.Amount(Evidence::kDataWait, Phase::kDataLoading, 50 * kSecond);
  phases.Advance(2 * kSecond);
  EXPECT_EQ(phases.time_ns(Phase::kDataLoading), 1250 * kMs);
  EXPECT_EQ(SumOf(phases), 2 * kSecond);
}

TEST(ProcessPhases, WhatComesLateChangesNothing) {
  ProcessPhases phases(0);
  phases.Advance(kSecond);
  phases.Interval(Evidence::kDataWait, 0, kSecond);
  phases.Interval(Evidence::kDataWait, 500 * kMs, kSecond + 100 * kMs);
  phases.Advance(2 * kSecond);
  EXPECT_EQ(phases.time_ns(Phase::kDataLoading), 100 * kMs);
  phases.Advance(kSecond);
  EXPECT_EQ(SumOf(phases), 2 * kSecond);
}

TEST(ProcessPhases, ConfidenceIsThatOfTheLastMinute) {
  ProcessPhases phases(0);
  for (int second = 1; second <= 300; ++second) {
    phases.Mark(second <= 200 ? Phase::kGpuCompute : Phase::kUnknown, (second - 1) * kSecond);
    phases.Advance(second * kSecond);
  }
  EXPECT_NEAR(phases.confidence(), 0, 1e-9);
}

// A job that does one thing after another, and what its page has of it.
class ScriptedJob {
 public:
  enum class Reports { kAll, kMarks };
  ScriptedJob(unsigned seed, Reports reports, bool kernel_times)
      : reports_(reports), kernel_times_(kernel_times) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> label(0, 4);
    std::uniform_real_distribution<double> length(0, 1);
    constexpr Phase kLabels[] = {Phase::kDataLoading, Phase::kGpuCompute, Phase::kNcclCollective,
                                 Phase::kOptimizerStep, Phase::kUnknown};
    int64_t at = kSecond;
    while (steps_.size() < 200) {
      const Phase phase = kLabels[label(random)];
      if (!steps_.empty() && steps_.back().phase == phase) continue;
      // 0.5 to 500 ms, each decade as often as the other.
      const auto ns = static_cast<int64_t>(0.5 * kMs * std::pow(1000.0, length(random)));
      steps_.push_back({phase, at, at + ns});
      at += ns;
    }
    end_ = at;
  }
  int64_t begin() const { return kSecond; }
  int64_t end() const { return end_; }
  // The truth of a stretch.
  int64_t TimeIn(Phase phase, int64_t from, int64_t to) const {
    int64_t sum = 0;
    for (const Step& step : steps_) {
      if (step.phase == phase)
        sum += std::max<int64_t>(0, std::min(to, step.end) - std::max(from, step.begin));
    }
    return sum;
  }
  // Its page at a time; what happened since `read_` is new in it.
  PageCopy Read(int64_t now) {
    PageCopy page;
    page.writer = job_page::Writer::kProgram;
    page.opened_boot_ns = static_cast<uint64_t>(kSecond);
    page.data_loading.emplace();
    page.devices.emplace_back();
    job_page::CudaDeviceCopy& device = page.devices[0];
    auto identity = std::make_shared<job_page::CommunicatorIdentity>();
    page.communicators.push_back({identity, false, {}});
    job_page::PhasesCopy marks;
    for (const Step& step : steps_) {
      if (step.begin > now) break;
      const bool ended = step.end <= now;
      const auto ns = static_cast<uint64_t>(std::min(step.end, now) - step.begin);
      const bool is_new = step.end > read_ && ended;
      if (reports_ == Reports::kMarks || step.phase == Phase::kOptimizerStep) {
        if (step.begin > read_) marks.edges.push_back({static_cast<uint64_t>(step.begin), step.phase});
        marks.current = step.phase;
        marks.since_boot_ns = static_cast<uint64_t>(step.begin);
      } else if (marks.current != Phase::kUnknown) {
        if (step.begin > read_) marks.edges.push_back({static_cast<uint64_t>(step.begin), Phase::kUnknown});
        marks.current = Phase::kUnknown;
        marks.since_boot_ns = static_cast<uint64_t>(step.begin);
      }
      if (reports_ == Reports::kMarks) continue;
      switch (step.phase) {
        case Phase::kDataLoading:
          if (ended) page.data_loading->wait.sum_ns += ns;
          else page.data_loading->open_since_boot_ns = static_cast<uint64_t>(step.begin);
          break;
        case Phase::kGpuCompute:
          device.launches[0] += 10;
          if (!kernel_times_) break;
          // Kernels of 3 ms: one that runs is not in the page yet.
          device.kernel.count += 10;
          device.busy_ns += ended ? ns : ns / (3 * kMs) * (3 * kMs);
          break;
        case Phase::kNcclCollective: {
          // The kernel of a collective is one of the device, too.
          if (kernel_times_ && ended) device.busy_ns += ns;
          job_page::ProgressCopy& progress = page.communicators[0].functions[1];
          progress.enqueued = ++progress.started;
          progress.changed_boot_ns = static_cast<uint64_t>(ended ? step.end : step.begin);
          if (ended) progress.done = progress.started;
          if (!is_new) break;
          RecordCopy record;
          record.timing = Timing::kDevice;
          record.start_ns = 5000 + static_cast<uint64_t>(step.begin);  // a clock of its own
          record.end_ns = 5000 + static_cast<uint64_t>(step.end);
          record.ended_boot_ns = static_cast<uint64_t>(step.end);
          page.records.push_back(record);
          break;
        }
        default: break;
      }
    }
    page.phases = marks;
    read_ = now;
    return page;
  }

 private:
  struct Step {
    Phase phase;
    int64_t begin, end;
  };
  const Reports reports_;
  const bool kernel_times_;
  std::vector<Step> steps_;
  int64_t end_ = 0, read_ = 0;
};

struct Confusion {
  double ms[kPhaseCount][kPhaseCount] = {};  // of the truth, as what it was taken for
  double right = 0, all = 0;
  int64_t elapsed = 0, sum = 0;

  void Add(const ScriptedJob& job, const std::array<int64_t, kPhaseCount>& given, int64_t from, int64_t to) {
    std::array<double, kPhaseCount> missing{}, excess{};
    double excess_sum = 0;
    for (size_t i = 0; i < kPhaseCount; ++i) {
      const auto truth = static_cast<double>(job.TimeIn(static_cast<Phase>(i), from, to));
      const auto taken = static_cast<double>(given[i]);
      ms[i][i] += std::min(truth, taken) / kMs;
      right += std::min(truth, taken);
      all += truth;
      missing[i] = std::max(0.0, truth - taken);
      excess[i] = std::max(0.0, taken - truth);
      excess_sum += excess[i];
    }
    for (size_t i = 0; i < kPhaseCount && excess_sum > 0; ++i) {
      for (size_t k = 0; k < kPhaseCount; ++k) ms[i][k] += missing[i] * excess[k] / excess_sum / kMs;
    }
  }
  void Print(const char* title) const {
    printf("%s: %.2f %% of %.1f s right; rows: truth, columns: taken for, in ms\n%17s", title,
           100 * right / all, all / 1e9, "");
    for (int k = 0; k < 5; ++k) printf("%17s", PhaseName(static_cast<Phase>(k)).data());
    printf("\n");
    for (int i = 0; i < 5; ++i) {
      printf("%17s", PhaseName(static_cast<Phase>(i)).data());
      for (int k = 0; k < 5; ++k) printf("%17.1f", ms[i][k]);
      printf("\n");
    }
  }
};

Confusion Play(unsigned seed, ScriptedJob::Reports reports, bool kernel_times) {
  ScriptedJob job(seed, reports, kernel_times);
  std::mt19937 random(seed + 1);
  std::uniform_int_distribution<int64_t> period(900 * kMs, 1100 * kMs);
  ProcessPhases phases(job.begin());
  JobEvidence evidence;
  Confusion confusion;
  std::array<int64_t, kPhaseCount> before{};
  for (int64_t now = job.begin(); now < job.end();) {
    const int64_t from = now;
    now = std::min(now + period(random), job.end());
    const PageCopy page = job.Read(now);
    evidence.Read(page, page.records, page.phases->edges);
    evidence.Give(now, phases);
    phases.Advance(now);
    std::array<int64_t, kPhaseCount> given{};
    for (size_t i = 0; i < kPhaseCount; ++i) {
      given[i] = phases.time_ns(static_cast<Phase>(i)) - before[i];
      before[i] += given[i];
    }
    confusion.Add(job, given, from, now);
  }
  confusion.elapsed = job.end() - job.begin();
  confusion.sum = SumOf(phases);
  return confusion;
}

void ExpectTimes(const Confusion& confusion, double error) {
  EXPECT_EQ(confusion.sum, confusion.elapsed);
  for (size_t i = 0; i < 5; ++i) {
    double truth = 0, taken = 0;
    for (size_t k = 0; k < 5; ++k) {
      truth += confusion.ms[i][k];
      taken += confusion.ms[k][i];
    }
    EXPECT_NEAR(taken / truth, 1, error) << PhaseName(static_cast<Phase>(i));
  }
}

TEST(GroundTruth, AJobThatMarksItsPhases) {
  const Confusion confusion = Play(7, ScriptedJob::Reports::kMarks, false);
  confusion.Print("marks");
  EXPECT_DOUBLE_EQ(confusion.right, confusion.all);
  ExpectTimes(confusion, 1e-9);
}

TEST(GroundTruth, AJobWithTheTimesOfItsKernels) {
  const Confusion confusion = Play(7, ScriptedJob::Reports::kAll, true);
  confusion.Print("waits, collectives, kernel times, optimizer marked; read each second");
  EXPECT_GT(confusion.right / confusion.all, 0.98);
  ExpectTimes(confusion, 0.05);
}

// What launches do between two waits, and what is nothing at all, cannot be distinguished.
TEST(GroundTruth, AJobWhoseLaunchesAreCounted) {
  const Confusion confusion = Play(7, ScriptedJob::Reports::kAll, false);
  confusion.Print("waits, collectives, launches counted, optimizer marked; read each second");
  EXPECT_EQ(confusion.sum, confusion.elapsed);
  for (auto phase : {Phase::kDataLoading, Phase::kNcclCollective, Phase::kOptimizerStep}) {
    const auto i = static_cast<size_t>(phase);
    double truth = 0, taken = 0;
    for (size_t k = 0; k < 5; ++k) truth += confusion.ms[i][k], taken += confusion.ms[k][i];
    EXPECT_NEAR(taken / truth, 1, 0.05) << PhaseName(phase);
  }
  EXPECT_GT(confusion.right / confusion.all, 0.8);
}

TEST(GroundTruth, UtilizationAloneForPhasesOfSeconds) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> length(1, 8);
  ProcessPhases phases(0);
  double right = 0;
  int64_t at = 0;
  bool compute = true;
  for (int i = 0; i < 200; ++i, compute = !compute) {
    const auto end = at + static_cast<int64_t>(length(random) * kSecond);
    const Phase truth = compute ? Phase::kGpuCompute : Phase::kDataLoading;
    const int64_t before = phases.time_ns(truth);
    for (int64_t now = (at / (100 * kMs) + 1) * 100 * kMs; now <= end; now += 100 * kMs) {
      phases.Sample(Evidence::kUtilization, truth, now);
      phases.Advance(now);
    }
    phases.Advance(end);
    right += static_cast<double>(phases.time_ns(truth) - before);
    at = end;
  }
  printf("utilization each 100 ms, phases of 1 to 8 s: %.2f %% right\n",
         100 * right / static_cast<double>(at));
  EXPECT_GT(right / static_cast<double>(at), 0.9);
  EXPECT_EQ(SumOf(phases), at);
}

}  // namespace
}  // namespace gpulens::phases

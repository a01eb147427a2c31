#include "phases/job_evidence.h"

#include <gtest/gtest.h>

namespace gpulens::phases {
namespace {

constexpr int64_t kMillisecond = 1'000'000, kSecondNs = 1'000'000'000;

class JobEvidenceTest : public testing::Test {
 protected:
  JobEvidenceTest() {
    page_.writer = job_page::Writer::kProgram;
    page_.opened_boot_ns = kSecondNs;
  }
  void Read(int64_t now) {
    const auto edges = page_.phases ? page_.phases->edges : std::vector<job_page::PhaseEdgeCopy>();
    evidence_.Read(page_, page_.records, edges);
    evidence_.Give(now, phases_);
    phases_.Advance(now);
    page_.records.clear();
  }
  int64_t Ms(Phase phase) const { return phases_.time_ns(phase) / kMillisecond; }

  job_page::PageCopy page_;
  JobEvidence evidence_;
  ProcessPhases phases_{kSecondNs};
};

TEST_F(JobEvidenceTest, AWaitThatLastsOverReadsIsCountedOnce) {
  page_.data_loading.emplace();
  page_.data_loading->open_since_boot_ns = kSecondNs + 500 * kMillisecond;
  Read(2 * kSecondNs);
  EXPECT_EQ(Ms(Phase::kDataLoading), 500);
  Read(3 * kSecondNs);
  EXPECT_EQ(Ms(Phase::kDataLoading), 1500);
  // It ended at 3.2 s; the next began at 3.9 s.
  page_.data_loading->wait.sum_ns = 1'700'000'000;
  page_.data_loading->open_since_boot_ns = 3'900'000'000;
  Read(4 * kSecondNs);
  EXPECT_EQ(Ms(Phase::kDataLoading), 1800);
  page_.data_loading->wait.sum_ns += 150'000'000;
  page_.data_loading->open_since_boot_ns = 0;
  Read(5 * kSecondNs);
  EXPECT_EQ(Ms(Phase::kDataLoading), 1850);
  EXPECT_EQ(Ms(Phase::kUnknown), 4000 - 1850);
}

TEST_F(JobEvidenceTest, APageThatIsOldCountsFromItsFirstRead) {
  page_.opened_boot_ns = 1;
  page_.data_loading.emplace();
  page_.data_loading->wait.sum_ns = 900'000'000;
  Read(2 * kSecondNs);
  EXPECT_EQ(Ms(Phase::kDataLoading), 0);
  page_.data_loading->wait.sum_ns += 300'000'000;
  Read(3 * kSecondNs);
  EXPECT_EQ(Ms(Phase::kDataLoading), 300);
}

TEST_F(JobEvidenceTest, CollectivesThatOverlapCountOnce) {
  job_page::RecordCopy record;
  record.timing = job_page::Timing::kHost;
  record.start_ns = 1'100'000'000;
  record.end_ns = record.ended_boot_ns = 1'400'000'000;
  page_.records.push_back(record);
  record.start_ns = 1'300'000'000;
  record.end_ns = record.ended_boot_ns = 1'500'000'000;
  page_.records.push_back(record);
  record.timing = job_page::Timing::kNone;
  record.ended_boot_ns = 1'900'000'000;
  page_.records.push_back(record);
  Read(2 * kSecondNs);
  EXPECT_EQ(Ms(Phase::kNcclCollective), 400);
}

TEST_F(JobEvidenceTest, ACollectiveThatHangsIsOneAsLongAsItHangs) {
  page_.communicators.push_back({std::make_shared<job_page::CommunicatorIdentity>(), false, {}});
  page_.communicators[0].functions[1] = {5, 5, 4, 1'700'000'000, 5, 100};
  Read(2 * kSecondNs);
  EXPECT_EQ(Ms(Phase::kNcclCollective), 300);
  for (int second = 3; second <= 60; ++second) Read(second * kSecondNs);
  EXPECT_EQ(Ms(Phase::kNcclCollective), 58'300);
  EXPECT_EQ(phases_.phase(), Phase::kNcclCollective);
  page_.communicators[0].closed = true;
  Read(61 * kSecondNs);
  EXPECT_EQ(phases_.phase(), Phase::kUnknown);
}

// Half a second of compute, 0.7 s of a collective: 0.2 s must have been at the same time.
TEST_F(JobEvidenceTest, WhatMustOverlapIsNotExposed) {
  page_.devices.emplace_back();
  page_.devices[0].kernel.count = 1;
  page_.devices[0].busy_ns = 1'200'000'000;
  job_page::RecordCopy record;
  record.timing = job_page::Timing::kDevice;
  record.start_ns = 77;
  record.end_ns = 77 + 700'000'000;
  record.ended_boot_ns = 1'950'000'000;
  page_.records.push_back(record);
  Read(2 * kSecondNs);
  EXPECT_EQ(Ms(Phase::kNcclCollective), 500);
  EXPECT_EQ(Ms(Phase::kGpuCompute), 500);
}

// A checkpoint that the job does not mark is neither a wait for data nor compute.
TEST_F(JobEvidenceTest, ACheckpointIsNoDataWait) {
  page_.data_loading.emplace();
  page_.data_loading->wait.sum_ns = 100'000'000;
  Read(2 * kSecondNs);
  Read(4 * kSecondNs);  // two seconds of writes
  EXPECT_EQ(Ms(Phase::kDataLoading), 100);
  EXPECT_EQ(Ms(Phase::kUnknown), 2900);
}

TEST_F(JobEvidenceTest, LostEdgesDoNotStopAtAnOldPhase) {
  page_.phases.emplace();
  page_.phases->current = Phase::kGpuCompute;
  page_.phases->since_boot_ns = 1'400'000'000;
  Read(2 * kSecondNs);
  EXPECT_EQ(Ms(Phase::kGpuCompute), 600);
  EXPECT_TRUE(evidence_.marks());
}

}  // namespace
}  // namespace gpulens::phases

// Cost of what a job reports of itself, with a page and without an agent.
#include <gpulens/job.h>
#include <poll.h>
#include <stdlib.h>

#include <benchmark/benchmark.h>

#include "job_page/job_page.h"

namespace gpulens {
namespace {

// The page is opened at most once: what runs without an agent comes first.
void WithoutAgent() {
  ::unsetenv(job_page::kFolderVariable);
  ::setenv(job_page::kSocketVariable, "/nonexistent/gpulens.sock", 1);
}
void WithPage() {
  ::setenv(job_page::kFolderVariable, "/dev/shm", 1);
  for (int i = 0; i < 1100 && !JobStatus().ok(); ++i) ::poll(nullptr, 0, 10);  // it looks again after 10 s
}

void PhaseWithoutAgent(benchmark::State& state) {
  WithoutAgent();
  for (auto _ : state) const PhaseScope phase(JobPhase::kOptimizerStep);
}
BENCHMARK(PhaseWithoutAgent);

void PhaseWithPage(benchmark::State& state) {
  WithPage();
  for (auto _ : state) const PhaseScope phase(JobPhase::kOptimizerStep);
  if (!JobStatus().ok()) state.SkipWithError("no page");
}
BENCHMARK(PhaseWithPage);

void DataWaitWithPage(benchmark::State& state) {
  for (auto _ : state) const DataWaitScope wait;
}
BENCHMARK(DataWaitWithPage);

void CollectiveWithPage(benchmark::State& state) {
  JobCommunicator world(1, 0, 2, "bench");
  for (auto _ : state) const auto call = world.Collective(CollectiveFunction::kAllReduce, 1 << 20);
}
BENCHMARK(CollectiveWithPage);

}  // namespace
}  // namespace gpulens

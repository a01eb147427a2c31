// The analyzer as a whole: what is in its file and in its series is the growth of the counters.

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "plugins/analyzers/cost/cost_world_testing.h"

namespace gpulens::cost {
namespace {

using namespace std::string_view_literals;
using ledger::Dimension;
using std::chrono::seconds;

// Loads of which no window is a multiple, and processes that come and go.
constexpr const char* kProfile =
    "gpus: 3\n"
    "load: {kind: sine, level: 0.5, amplitude: 0.5, period: 47}\n"
    "processes:\n"
    "  - {gpu: 0, pid: 41, memory: 3GiB}\n"
    "  - {gpu: 0, pid: 42, memory: 1GiB}\n"
    "  - {gpu: 1, pid: 43, memory: 2GiB}\n";

int64_t Number(__int128 sum) { return static_cast<int64_t>(sum); }

class CostTest : public ::testing::Test {
 protected:
  std::unique_ptr<CostWorld> Make(const std::string& profile = kProfile) {
    auto world = std::make_unique<CostWorld>(profile, state_.path());
    world->Describe(41, AttributeSet({{"process.owner", "ann"sv}}));
    world->Describe(42, AttributeSet({{"process.owner", "bob"sv}}));
    return world;
  }
  // All energy and time of the file is that of the counters and the clock.
  static void ExpectWhole(const CostWorld& world, int64_t ms) {
    auto by_gpu = world.InFile({Dimension::kGpu});
    ASSERT_EQ(by_gpu.size(), world.gpus());
    for (size_t i = 0; i < world.gpus(); ++i) {
      const ledger::Totals& sums = by_gpu[{UuidOf(static_cast<int64_t>(i))}];
      EXPECT_EQ(Number(sums.energy_uj), world.Growth(i)) << "GPU " << i;
      EXPECT_EQ(Number(sums.time_ms), ms) << "GPU " << i;
    }
  }
  static std::pair<int64_t, int64_t> Unobserved(const CostWorld& world) {
    auto by_state = world.InFile({Dimension::kEnergyState});
    return {Number(by_state[{"unobserved"}].energy_uj), Number(by_state[{"unobserved"}].time_ms)};
  }

  gpulens::testing::TempFolder state_;
};

TEST_F(CostTest, PartsAreTheCounterToTheMicrojoule) {
  auto world = Make();
  world->Begin();
  world->Run(437);
  world->End();
  ExpectWhole(*world, 436'000);
  EXPECT_EQ(Unobserved(*world).second, 0);
  auto by_tenant = world->InFile({Dimension::kTenant});
  EXPECT_GT(Number(by_tenant[{"ann"}].energy_uj), 0);
  EXPECT_GT(Number(by_tenant[{"bob"}].energy_uj), 0);
}

TEST_F(CostTest, SeriesAddUpToTheCounterInClosedWindows) {
  auto world = Make();
  world->Begin();
  world->Run(400);
  double growth = 0;
  for (size_t i = 0; i < world->gpus(); ++i) growth += static_cast<double>(world->Growth(i)) / 1e6;
  const double states = world->Sum(kEnergyLedger);
  EXPECT_GT(states, growth * 0.9);
  EXPECT_LE(states, growth);
  const double processes = world->Sum(kGpuProcessEnergy);
  EXPECT_GT(processes, 0);
  EXPECT_NEAR(processes + world->Sum(kGpuEnergyUnattributed), states, 1e-3);
  EXPECT_NEAR(world->Sum(kEnergyLedgerOwner, {{"owner.kind", "tenant"sv}}), states, 1e-3);
  EXPECT_EQ(world->Sum(kLedgerResidual), 0);
  EXPECT_EQ(world->Sum(kSelfLedgerRefused), 0);
  EXPECT_EQ(world->Sum(kSelfLedgerEntries, {{"result", "dropped"sv}}), 0);
}

TEST_F(CostTest, AProcessOfAFewSecondsHasItsEnergy) {
  auto world = Make(
      "gpus: 1\nload: {kind: constant, level: 0.7}\n"
      "processes: [{gpu: 0, pid: 99, memory: 1GiB, from: 20, for: 4}]\n");
  world->Begin();
  world->Run(60);
  const double energy = world->Sum(kGpuProcessEnergy, {{"process.pid", int64_t{99}}});
  EXPECT_GT(energy, 0) << "its window is closed after its end";
  EXPECT_NEAR(energy + world->Sum(kGpuEnergyUnattributed), world->Sum(kEnergyLedger), 1e-3);
  world->End();
  ExpectWhole(*world, 59'000);
}

TEST_F(CostTest, ARestartMakesTheTimeBetweenUnobserved) {
  auto world = Make();
  world->Begin();
  world->Run(123);
  world->End();
  std::vector<int64_t> before;
  for (size_t i = 0; i < world->gpus(); ++i) before.push_back(world->Counter(i));
  world->Wait(seconds(99));
  world->Begin();
  world->Tick();
  int64_t between = 0;
  for (size_t i = 0; i < world->gpus(); ++i) between += world->Counter(i) - before[i];
  world->Run(200);
  world->End();
  ExpectWhole(*world, 122'000 + 100'000 + 200'000);
  EXPECT_EQ(Unobserved(*world), std::pair(between, int64_t{3 * 100'000}));
}

TEST_F(CostTest, AReloadLosesAndDoublesNothing) {
  auto world = Make();
  world->Begin();
  world->Run(65);
  world->Begin();  // the new one is made before the old one has ended
  world->Tick();   // and waits for it
  EXPECT_EQ(world->Sum(kLedgerResidual), 0);
  world->EndOld();
  world->Run(100);
  world->End();
  ExpectWhole(*world, 165'000);
}

TEST_F(CostTest, AKillChangesOnlyWhatIsUnobserved) {
  auto world = Make();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Has the clock and the counters of the parent, and is killed at some moment after a write.
    world->Begin();
    world->Run(300);
    for (int i = 0; i < 500 && world->Sum(kSelfLedgerEntries, {{"result", "written"sv}}) == 0; ++i) {
      ::poll(nullptr, 0, 10);
      world->Tick();
    }
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  world->ReadGpus();  // what the child's first reading was
  world->Wait(seconds(999));
  world->Begin();
  world->Run(100);
  world->End();
  ExpectWhole(*world, 1'099'000);
  const auto [energy_uj, ms] = Unobserved(*world);
  EXPECT_GE(ms, 3 * 200'000) << "from the last write of the child on";
  EXPECT_LT(ms, 3 * 1'000'000);
  EXPECT_GT(energy_uj, 0);
}

TEST_F(CostTest, WithoutAStateFolderTheSeriesGoOn) {
  CostWorld world(kProfile, "");
  world.Begin();
  world.Run(200);
  EXPECT_GT(world.Sum(kEnergyLedger), 0);
  EXPECT_GT(world.Sum(kSelfLedgerEntries, {{"result", "not_kept"sv}}), 0);
  EXPECT_EQ(world.Sum(kLedgerResidual), 0);
  world.End();
}

TEST_F(CostTest, AStateFolderThatCannotBeWrittenStopsNothing) {
  state_.Write("no_folder", "");
  CostWorld world(kProfile, state_.path() + "/no_folder");
  world.Begin();
  world.Run(200);
  EXPECT_GT(world.Sum(kEnergyLedger), 0);
  EXPECT_GT(world.Sum(kSelfLedgerWaiting), 0);
  EXPECT_EQ(world.Sum(kSelfLedgerUp), 0);
  EXPECT_EQ(world.Sum(kSelfLedgerEntries, {{"result", "written"sv}}), 0);
  world.End();
}

TEST_F(CostTest, AnEngineOfEightGpusIsChargedOnce) {
  auto world = Make(
      "gpus: 8\nload: {kind: sine, level: 0.6, amplitude: 0.3, period: 31}\n"
      "processes: [{pid: 200, memory: 60GiB}]\n");
  for (unsigned pid = 200; pid < 208; ++pid) world->Describe(pid, {}, "150,100,20");
  EntityRef engine = TestEngine("vllm-8000", "engine", {}, 100);
  TestSource page("targets/vllm-8000");
  const AttributeSet model({{"model.name", "llama"sv}});
  page.Set(engine, kInferencePromptTokens, model, 0);
  page.Set(engine, kInferenceGenerationTokens, model, 0);
  page.Set(engine, kInferenceRequestsRunning, model, 4);
  world->Add(page);
  world->Begin();
  for (int i = 1; i <= 200; ++i) {
    page.Set(engine, kInferencePromptTokens, model, 1000 * i);
    page.Set(engine, kInferenceGenerationTokens, model, 300 * i);
    world->Tick();
  }
  world->End();
  ExpectWhole(*world, 199'000);
  int64_t growth = 0;
  for (size_t i = 0; i < 8; ++i) growth += world->Growth(i);
  auto by_engine = world->InFile({Dimension::kEngine, Dimension::kModel});
  EXPECT_EQ(Number((by_engine[{"vllm-8000", "llama"}].energy_uj)), growth) << "all that the eight have drawn";
  auto by_class = world->InFile({Dimension::kClass});
  EXPECT_GT(Number(by_class[{"prefill"}].energy_uj), 0);
  EXPECT_GT(Number(by_class[{"decode"}].energy_uj), 0);
}

TEST(CostOptions, AWrongEngineIsRefusedWithItsTarget) {
  Env env;
  auto made = cost_analyzer.create(
      CostConfig({{"engines", std::map<std::string, std::string>{{"vllm", "gpu=all"}}}}), env);
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().detail, ::testing::HasSubstr("vllm"));
}

}  // namespace
}  // namespace gpulens::cost

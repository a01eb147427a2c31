#include "ledger/ledger.h"

#include <filesystem>
#include <limits>
#include <set>

#include "base/files.h"
#include "base/testing/allocations.h"
#include "ledger/ledger_testing.h"

namespace gpulens::ledger {
namespace {

using State = ComputeState;
constexpr EnergyState kIdle = EnergyState::kIdle, kHeld = EnergyState::kHeld, kActive = EnergyState::kActive,
                      kUnattributed = EnergyState::kUnattributed, kUnobserved = EnergyState::kUnobserved;

Ledger::Options IdleWatts(double watts) {
  Ledger::Options options;
  options.idle_watts = watts;
  return options;
}

// One reading each second from `from` to `to`, of a GPU that draws `watts` and counted from second 1000 on.
void Feed(
    TestLedger& world, int from, int to, double watts,
    const std::function<void(GpuReading&)>& change = [](GpuReading&) {}) {
  for (int t = from; t <= to; ++t) {
    GpuReading reading = TestReading(t, watts * (t - 1000));
    change(reading);
    world.ledger->Observe(reading);
    world.Close(t);
  }
}

std::function<void(GpuReading&)> Uses(std::vector<GpuUser> users, double utilization) {
  return [=](GpuReading& reading) { reading.users = users, reading.utilization = utilization; };
}

TEST(LedgerWindows, EnergyAtAnEdgeIsInterpolated) {
  TestLedger world;
  world.ledger->Observe(TestReading(1003, 5));
  world.ledger->Observe(TestReading(1013, 105));
  world.Close(1013);
  ASSERT_EQ(world.entries.size(), 1u);
  EXPECT_EQ(world.entries[0].window_unix_ms, (1000 * kTestSecond + kTestOffset) / 1'000'000);
  EXPECT_EQ(world.entries[0].amounts.energy_uj, 70'000'000);
  EXPECT_EQ(world.entries[0].amounts.time_ms, 7000);
  world.Finish(1014);
  EXPECT_EQ(world.Sum().energy_uj, 100'000'000);
  EXPECT_EQ(world.Sum().time_ms, 10'000);
  EXPECT_DOUBLE_EQ(world.Joules(kIdle), 100);
}

TEST(LedgerWindows, StayOpenUntilAReadingAtTheirEndHasCome) {
  TestLedger world;
  world.ledger->Observe(TestReading(1000, 0));
  world.ledger->Observe(TestReading(1009.9, 1));
  world.Close(1015);
  EXPECT_TRUE(world.entries.empty());
  world.ledger->Observe(TestReading(1010, 2));
  world.Close(1015);
  EXPECT_EQ(world.Sum().energy_uj, 2'000'000);
}

TEST(LedgerWindows, AWallClockThatJumpsChangesLabelsOnly) {
  TestLedger world;
  Feed(world, 1000, 1015, 100);
  world.offset += 7200 * kTestSecond + 3;
  Feed(world, 1016, 1040, 100);
  EXPECT_EQ(world.Sum().energy_uj, 4'000'000'000);
  EXPECT_EQ(world.Sum().time_ms, 40'000);
  std::set<int64_t> labels;
  for (const Entry& entry : world.entries) labels.insert(entry.window_unix_ms);
  const int64_t first = (1000 * kTestSecond + kTestOffset) / 1'000'000;
  EXPECT_EQ(labels, (std::set<int64_t>{first, first + 7'210'000, first + 7'220'000, first + 7'230'000}));
}

TEST(LedgerEnergy, ACounterThatFellHasNoJoulesAndItsTimeCounts) {
  TestLedger world;
  world.ledger->Observe(TestReading(1000, 4294.967295));
  world.ledger->Observe(TestReading(1004, 1));
  world.ledger->Observe(TestReading(1010, 31));
  world.Close(1010);
  EXPECT_EQ(world.Sum().energy_uj, 30'000'000);
  EXPECT_EQ(world.Sum().time_ms, 10'000);
  EXPECT_EQ(world.Sum().unmetered_ms, 4000);
}

TEST(LedgerEnergy, UnknownEnergyAndLeapsAreUnmetered) {
  TestLedger world;
  world.ledger->Observe(TestReading(1000, 1));
  GpuReading reading = TestReading(1002, 0);
  reading.energy_uj.reset();
  world.ledger->Observe(reading);
  world.ledger->Observe(TestReading(1004, 11));
  reading = TestReading(1006, 13);
  reading.energy_source = EnergySource::kPowerIntegral;
  world.ledger->Observe(reading);
  reading = TestReading(1010, 0);
  reading.energy_uj = std::numeric_limits<int64_t>::max();
  reading.energy_source = EnergySource::kPowerIntegral;
  world.ledger->Observe(reading);
  world.Close(1010);
  EXPECT_EQ(world.Sum().energy_uj, 0);
  EXPECT_EQ(world.Sum().unmetered_ms, 10'000);
}

TEST(LedgerEnergy, AGapIsUnobservedWithTheCountersDifference) {
  TestLedger world;
  Feed(world, 1000, 1010, 100, Uses({TestUser(1, PodOwner("a"))}, 0.5));
  Feed(world, 1050, 1060, 100, Uses({TestUser(1, PodOwner("a"))}, 0.5));
  EXPECT_DOUBLE_EQ(world.Joules(kUnobserved), 4000);
  EXPECT_DOUBLE_EQ(world.Seconds(State::kUnobserved, Cause::kNone), 40);
  EXPECT_DOUBLE_EQ(world.Joules(kActive, "a"), 2000);
}

TEST(LedgerEnergy, BaseGoesToHoldersAndTheRestToRunners) {
  TestLedger world(IdleWatts(60));
  Feed(world, 1000, 1010, 300,
       Uses({TestUser(1, PodOwner("a"), 0.6, 30), TestUser(2, PodOwner("b"), 0.2, 10)}, 0.8));
  EXPECT_DOUBLE_EQ(world.Joules(kHeld, "a"), 450) << "600 J by memory 3 to 1";
  EXPECT_DOUBLE_EQ(world.Joules(kHeld, "b"), 150);
  EXPECT_DOUBLE_EQ(world.Joules(kActive, "a"), 1800) << "2400 J by use 3 to 1";
  EXPECT_DOUBLE_EQ(world.Joules(kActive, "b"), 600);
  EXPECT_DOUBLE_EQ(world.Seconds(State::kUseful, Cause::kNone, "a"), 7.5);
  for (const Entry& entry : world.entries) {
    if (entry.account.owner.empty()) continue;
    EXPECT_EQ(entry.account.method,
              entry.account.energy_state == kHeld ? Method::kMemory : Method::kUtilization);
  }
  int64_t of_process = 0;
  for (const ProcessEnergy& process : world.processes) {
    if (process.pid == 1) of_process += process.energy_uj;
  }
  EXPECT_EQ(of_process, 2'250'000'000);
}

TEST(LedgerEnergy, WithoutSamplesItIsEqualAndTheMethodIsNamed) {
  TestLedger world;
  Feed(world, 1000, 1010, 300, Uses({TestUser(1, PodOwner("a")), TestUser(2, PodOwner("b"))}, 0.8));
  EXPECT_DOUBLE_EQ(world.Joules(kActive, "a"), 1500);
  EXPECT_DOUBLE_EQ(world.Joules(kActive, "b"), 1500);
  for (const Entry& entry : world.entries) {
    if (entry.account.owner.empty()) continue;
    EXPECT_EQ(entry.account.method, Method::kEqual);
  }
}

TEST(LedgerEnergy, NothingRunsThenItIsHeld) {
  TestLedger world(IdleWatts(60));
  Feed(world, 1000, 1010, 90, Uses({TestUser(1, PodOwner("a"))}, 0));
  EXPECT_DOUBLE_EQ(world.Joules(kHeld, "a"), 900);
  EXPECT_DOUBLE_EQ(world.Joules(kActive), 0);
}

TEST(LedgerEnergy, WithoutAKnownUserItIsUnattributed) {
  TestLedger world(IdleWatts(60));
  Feed(world, 1000, 1010, 300, Uses({}, 0.9));
  EXPECT_DOUBLE_EQ(world.Joules(kUnattributed), 3000);
  // With an allocation, its owner holds the GPU, and who ran is still not known.
  TestLedger allocated(IdleWatts(60));
  Feed(allocated, 1000, 1010, 300, [](GpuReading& reading) {
    reading.users_known = false, reading.allocated = PodOwner("a"), reading.utilization = 0.9;
  });
  EXPECT_DOUBLE_EQ(allocated.Joules(kUnattributed), 2400);
  EXPECT_DOUBLE_EQ(allocated.Joules(kHeld, "a"), 600);
}

TEST(LedgerEnergy, LearnsTheBasePowerOfAnEmptyGpuByPerformanceState) {
  TestLedger world;
  const auto in_state = [](int state) {
    return [=](GpuReading& reading) { reading.performance_state = state; };
  };
  Feed(world, 1000, 1030, 70, in_state(0));
  const LedgerState state = world.ledger->state();
  ASSERT_EQ(state.gpus.size(), 1u);
  EXPECT_DOUBLE_EQ(state.gpus[0].idle_watts.value(), 70);
  ASSERT_EQ(state.gpus[0].idle_watts_of.size(), 1u);
  EXPECT_DOUBLE_EQ(state.gpus[0].idle_watts_of[0].second, 70);
  // From then on base and active are divided, also after a restart.
  const auto busy = [&](GpuReading& reading) {
    reading.users = {TestUser(1, PodOwner("a"))}, reading.utilization = 0.9;
    reading.energy_uj = 70'000'000 * 30 + (reading.at_ns / kTestSecond - 1030) * 400'000'000;
    reading.performance_state = 0;
  };
  world.Restart(1030);
  Feed(world, 1031, 1040, 0, busy);
  EXPECT_DOUBLE_EQ(world.Joules(kHeld, "a"), 9 * 70);
  EXPECT_DOUBLE_EQ(world.Joules(kActive, "a"), 9 * 330);
}

GpuReading MigReading(int t, double joules) {
  GpuReading reading = TestReading(t, joules);
  reading.mig = true, reading.compute_slices = 7, reading.utilization.reset();
  MigSlice one, two;
  one.slice = "1/0", one.compute_slices = 4, one.utilization = 0.5, one.allocated = PodOwner("a");
  two.slice = "2/0", two.compute_slices = 2, two.utilization = 0.25, two.allocated = PodOwner("b");
  reading.slices = {one, two};
  GpuUser a = TestUser(1, PodOwner("a")), b = TestUser(2, PodOwner("b"));
  a.slice = "1/0", b.slice = "2/0";
  reading.users = {a, b};
  return reading;
}

TEST(LedgerMig, BaseAndTimeBySlicesAndTheRestByActivity) {
  TestLedger world(IdleWatts(70));
  for (int t = 1000; t <= 1010; ++t) world.ledger->Observe(MigReading(t, 320 * (t - 1000)));
  world.Close(1010);
  EXPECT_DOUBLE_EQ(world.Joules(kHeld, "a"), 400) << "700 J x 4/7";
  EXPECT_DOUBLE_EQ(world.Joules(kHeld, "b"), 200);
  EXPECT_DOUBLE_EQ(world.Joules(kIdle), 100) << "no instance has the seventh slice";
  EXPECT_DOUBLE_EQ(world.Joules(kActive, "a"), 2000) << "2500 J by 4 x 0.5 to 2 x 0.25";
  EXPECT_DOUBLE_EQ(world.Joules(kActive, "b"), 500);
  EXPECT_NEAR(world.Seconds(State::kUseful, Cause::kNone, "a"), 40. / 7, 0.001);
  EXPECT_NEAR(world.Seconds(State::kUnallocated, Cause::kNone), 10. / 7, 0.001);
  EXPECT_EQ(world.Sum().time_ms, 10'000);
}

TEST(LedgerMig, AReconfigurationEndsTheOldInstances) {
  TestLedger world;
  for (int t = 1000; t <= 1010; ++t) world.ledger->Observe(MigReading(t, 300 * (t - 1000)));
  for (int t = 1011; t <= 1020; ++t) {
    GpuReading reading = TestReading(t, 300 * (t - 1000));
    reading.users = {TestUser(9, PodOwner("c"))}, reading.utilization = 0.9;
    world.ledger->Observe(reading);
  }
  world.Close(1020);
  EXPECT_DOUBLE_EQ(world.Joules(kActive, "c"), 3000);
  EXPECT_DOUBLE_EQ(world.Joules(kActive, "a") + world.Joules(kActive, "b"), 3000);
  for (const Entry& entry : world.entries)
    EXPECT_EQ(entry.account.slice.empty(), entry.account.owner.pod == "c" || entry.account.owner.empty());
}

// Engines.

EngineWork Work(double prompt, double cached, double generated, double prefill_seconds, double decode_seconds,
                double running = 1) {
  EngineWork work;
  work.model = "m", work.prompt_tokens = prompt, work.cached_tokens = cached;
  work.generated_tokens = generated, work.prefill_seconds = prefill_seconds;
  work.decode_seconds = decode_seconds, work.running = running, work.waiting = 0;
  return work;
}

void Page(TestLedger& world, int t, const EngineWork& work) {
  EngineReading page;
  page.engine = "e", page.at_ns = t * kTestSecond, page.work = {work};
  world.ledger->Observe(page);
}

// Two GPUs of one tensor-parallel engine.
void FeedPair(TestLedger& world, int from, int to, double utilization = 0.9) {
  for (int t = from; t <= to; ++t) {
    for (int gpu = 0; gpu < 2; ++gpu) {
      GpuReading reading = TestReading(t, 100 * (gpu + 1) * (t - 1000));
      reading.gpu = "GPU-" + std::to_string(gpu);
      reading.users = {TestUser(10 + gpu, PodOwner("a", "e"))};
      reading.utilization = utilization;
      world.ledger->Observe(reading);
    }
  }
}

Amounts OfClass(const TestLedger& world, RequestClass request_class) {
  return world.Sum([=](const Entry& entry) { return entry.account.request_class == request_class; });
}

TEST(LedgerEngines, ATensorParallelEngineIsDividedOnceByItsOwnSeconds) {
  TestLedger world;
  FeedPair(world, 1000, 1010);
  Page(world, 1000, Work(0, 0, 0, 0, 0));
  Page(world, 1010, Work(3000, 1000, 500, 2, 6));
  world.Close(1010);
  // 3000 J: 2 s of prefill, 6 s of decode.
  EXPECT_EQ(OfClass(world, RequestClass::kPrefill).energy_uj, 750'000'000);
  EXPECT_EQ(OfClass(world, RequestClass::kDecode).energy_uj, 2'250'000'000);
  EXPECT_EQ(OfClass(world, RequestClass::kPrefill).tokens, 2000) << "tokens from the cache were not computed";
  EXPECT_EQ(OfClass(world, RequestClass::kDecode).tokens, 500) << "once, not for each GPU";
  const auto of_gpu = [](const std::string& gpu) {
    return [=](const Entry& entry) { return entry.account.gpu == gpu; };
  };
  EXPECT_EQ(world.Sum(of_gpu("GPU-0")).energy_uj, 1'000'000'000);
  EXPECT_EQ(world.Sum(of_gpu("GPU-1")).tokens, 1333 + 333) << "by energy";
  for (const Entry& entry : world.entries) {
    if (entry.account.request_class == RequestClass::kNone) continue;
    EXPECT_EQ(entry.account.owner.model, "m");
  }
}

TEST(LedgerEngines, SecondsOfRequestsThatDecodeAtOnceCountOnce) {
  TestLedger world;
  FeedPair(world, 1000, 1010);
  Page(world, 1000, Work(0, 0, 0, 0, 0, 30));
  Page(world, 1010, Work(3000, 0, 500, 2, 6 * 40, 50));
  world.Close(1010);
  EXPECT_EQ(OfClass(world, RequestClass::kPrefill).energy_uj, 750'000'000);
  EXPECT_EQ(OfClass(world, RequestClass::kDecode).energy_uj, 2'250'000'000);
}

TEST(LedgerEngines, WithoutSecondsTokensAreEqual) {
  TestLedger world;
  FeedPair(world, 1000, 1010);
  Page(world, 1000, Work(0, 0, 0, -1, -1));
  Page(world, 1010, Work(2000, -1, 1000, -1, -1));
  world.Close(1010);
  EXPECT_EQ(OfClass(world, RequestClass::kPrefill).energy_uj, 2'000'000'000);
  EXPECT_EQ(OfClass(world, RequestClass::kDecode).energy_uj, 1'000'000'000);
}

TEST(LedgerEngines, LearntSecondsServeWindowsWithoutThem) {
  TestLedger world;
  FeedPair(world, 1000, 1020);
  Page(world, 1000, Work(0, 0, 0, 0, 0));
  Page(world, 1010, Work(1000, 0, 1000, 1, 3));
  Page(world, 1020, Work(2000, 0, 2000, -1, -1));
  world.Close(1020);
  EXPECT_NEAR(static_cast<double>(OfClass(world, RequestClass::kPrefill).energy_uj), 1'500e6, 1);
  ASSERT_EQ(world.ledger->state().engines.size(), 1u);
  EXPECT_NEAR(world.ledger->state().engines[0].decode_tokens, 1000, 50);
}

TEST(LedgerEngines, NoOpenRequestIsHeld) {
  TestLedger world;
  FeedPair(world, 1000, 1010, 0);
  Page(world, 1000, Work(5, 0, 5, 0, 0, 0));
  Page(world, 1010, Work(5, 0, 5, 0, 0, 0));
  world.Close(1010);
  EXPECT_EQ(OfClass(world, RequestClass::kHeld).energy_uj, 3'000'000'000);
}

TEST(LedgerEngines, WhatIsNotKnownIsOfNoClass) {
  TestLedger world;
  FeedPair(world, 1000, 1100);
  world.Close(1100);
  EXPECT_EQ(OfClass(world, RequestClass::kNone).time_ms, world.Sum().time_ms);
  EXPECT_EQ(world.Sum().time_ms, 2 * 40'000) << "the page is waited for so long";
}

TEST(LedgerEngines, ARestartedEngineCountsFromZero) {
  TestLedger world;
  FeedPair(world, 1000, 1020);
  Page(world, 1000, Work(9000, 0, 9000, 5, 5));
  Page(world, 1010, Work(9000, 0, 9100, 5, 6));
  Page(world, 1020, Work(40, 0, 60, 1, 1));
  world.Close(1020);
  EXPECT_EQ(OfClass(world, RequestClass::kPrefill).tokens, 40);
  EXPECT_EQ(OfClass(world, RequestClass::kDecode).tokens, 160);
}

TEST(LedgerEngines, PagesBetweenEdgesAreInterpolatedToWholeTokens) {
  TestLedger world;
  FeedPair(world, 1000, 1030);
  Page(world, 1000, Work(0, 0, 0, 0, 0));
  Page(world, 1007, Work(0, 0, 101, 0, 1));
  Page(world, 1030, Work(0, 0, 400, 0, 2));
  world.Close(1030);
  EXPECT_EQ(OfClass(world, RequestClass::kDecode).tokens, 400);
}

TEST(LedgerEngines, LostWorkOfAnEngineIsWasted) {
  TestLedger world;
  FeedPair(world, 1000, 1010);
  EngineWork begin = Work(0, 0, 0, 0, 0), end = Work(1000, 0, 1000, 5, 5);
  begin.recomputed_tokens = begin.rejected_tokens = begin.cancelled_requests = begin.finished_requests = 0;
  end.recomputed_tokens = 1000, end.rejected_tokens = 1000, end.cancelled_requests = 1;
  end.finished_requests = 4;
  Page(world, 1000, begin);
  Page(world, 1010, end);
  world.Close(1010);
  EXPECT_NEAR(world.Seconds(State::kActiveWasted, Cause::kPreemptRecompute), 5, 0.002)
      << "of 20 s, a quarter";
  EXPECT_NEAR(world.Seconds(State::kActiveWasted, Cause::kSpecRejected), 5, 0.002);
  EXPECT_NEAR(world.Seconds(State::kActiveWasted, Cause::kCancelled), 2.5, 0.002);
  EXPECT_NEAR(world.Seconds(State::kUseful, Cause::kNone), 7.5, 0.002);
  EXPECT_EQ(OfClass(world, RequestClass::kDecode).tokens, 1000);
}

// Money and carbon.

Rates TestRates() {
  Rates rates;
  rates.pico_per_gpu_hour = 3'600'000'000'000;  // 3.60 USD: 0.001 a second
  rates.pico_per_kwh = 100'000'000'000;
  rates.pue_milli = 1500;
  rates.mg_per_kwh = 400'000;
  return rates;
}

TEST(LedgerMoney, ByAllocationAndByUseBothAddUp) {
  TestLedger world({}, TestRates());
  Feed(world, 1000, 1100, 300, [](GpuReading& reading) {
    if (reading.at_ns > 1050 * kTestSecond) return;
    reading.users = {TestUser(1, PodOwner("a"), 0.3, 10), TestUser(2, PodOwner("b"), 0.1, 30)};
    reading.utilization = 0.4;
  });
  const auto of = [](const std::string& pod) {
    return [=](const Entry& entry) { return entry.account.owner.pod == pod; };
  };
  EXPECT_EQ(world.Sum().cost_allocation_pico, 100'000'000'000);
  EXPECT_EQ(world.Sum().cost_usage_pico, 100'000'000'000);
  EXPECT_EQ(world.Sum(of("a")).cost_allocation_pico, 12'500'000'000) << "50 s by memory 1 to 3";
  EXPECT_EQ(world.Sum(of("b")).cost_allocation_pico, 37'500'000'000);
  EXPECT_EQ(world.Sum(of("a")).cost_usage_pico, 15'000'000'000) << "50 s x 0.4 x 3/4";
  EXPECT_EQ(world.Sum(of("b")).cost_usage_pico, 5'000'000'000);
  EXPECT_EQ(world.Sum(of("")).cost_usage_pico, 80'000'000'000);
  EXPECT_EQ(world.Sum().priced_ms, 100'000);
  // 30 kJ x 1.5 = 0.0125 kWh.
  EXPECT_EQ(world.Sum().electricity_pico, 1'250'000'000);
  EXPECT_EQ(world.Sum().carbon_ng, 5'000'000'000);
  EXPECT_EQ(world.Sum().carbon_known_uj, 30'000'000'000);
}

TEST(LedgerMoney, WithoutARateItIsNotKnown) {
  TestLedger world;
  Feed(world, 1000, 1020, 300);
  EXPECT_EQ(world.Sum().cost_allocation_pico, 0);
  EXPECT_EQ(world.Sum().priced_ms, 0);
  EXPECT_EQ(world.Sum().carbon_known_uj, 0);
  EXPECT_EQ(world.Sum().time_ms, 20'000);
}

TEST(LedgerMoney, ARateThatChangesTelescopes) {
  TestLedger world;
  world.rates_at = [](int64_t unix_ns) {
    Rates rates = TestRates();
    rates.pico_per_gpu_hour = unix_ns < 1020 * kTestSecond + kTestOffset ? 7 : 1'000'000'001;
    return rates;
  };
  Feed(world, 1000, 1040, 300);
  EXPECT_EQ(world.Sum().cost_allocation_pico, (7 * 20'000 + int64_t{1'000'000'001} * 20'000) / 3'600'000);
}

TEST(LedgerMoney, AForeignProcessDoesNotPayForAnothersAllocation) {
  TestLedger world({}, TestRates());
  Feed(world, 1000, 1010, 300, [](GpuReading& reading) {
    reading.allocated = PodOwner("a");
    reading.users = {TestUser(2, PodOwner("b"), 0.5)}, reading.utilization = 0.5;
  });
  const auto of = [](const std::string& pod) {
    return [=](const Entry& entry) { return entry.account.owner.pod == pod; };
  };
  EXPECT_EQ(world.Sum(of("a")).cost_allocation_pico, 10'000'000'000);
  EXPECT_EQ(world.Sum(of("b")).cost_usage_pico, 5'000'000'000);
}

// Effective compute.

TEST(LedgerCompute, HeldIdleBeginsAfterTheHoldTimeAndNamesItsHolder) {
  TestLedger world;
  Feed(world, 1000, 1100, 90, Uses({TestUser(1, PodOwner("a"))}, 0.01));
  EXPECT_DOUBLE_EQ(world.Seconds(State::kUseful, Cause::kNone, "a"), 60);
  EXPECT_DOUBLE_EQ(world.Seconds(State::kHeldIdle, Cause::kUnknown, "a"), 40);
  // Use ends it, and the next pause is counted again.
  Feed(world, 1101, 1110, 90, Uses({TestUser(1, PodOwner("a"))}, 0.5));
  Feed(world, 1111, 1180, 90, Uses({TestUser(1, PodOwner("a"))}, 0.01));
  EXPECT_DOUBLE_EQ(world.Seconds(State::kHeldIdle, Cause::kUnknown, "a"), 50);
}

TEST(LedgerCompute, ProgramsStateWhyTheyWait) {
  TestLedger world;
  world.ledger->Observe(ProgramSignal{1, 1065 * kTestSecond, Cause::kInputWait});
  world.ledger->Observe(ProgramSignal{1, 1081 * kTestSecond, Cause::kCheckpoint});
  world.ledger->Observe(ProgramSignal{1, 1081 * kTestSecond, Cause::kHardware});
  EXPECT_EQ(world.ledger->refused(), 1u) << "no program waits for hardware";
  Feed(world, 1000, 1160, 90, Uses({TestUser(1, PodOwner("a"))}, 0));
  EXPECT_DOUBLE_EQ(world.Seconds(State::kHeldIdle, Cause::kUnknown), 4 + 19) << "a signal holds for a minute";
  EXPECT_DOUBLE_EQ(world.Seconds(State::kHeldIdle, Cause::kInputWait), 16);
  EXPECT_DOUBLE_EQ(world.Seconds(State::kHeldIdle, Cause::kCheckpoint), 61);
}

TEST(LedgerCompute, AnEngineWithoutRequestsIsNamed) {
  TestLedger world;
  FeedPair(world, 1000, 1100, 0);
  for (int t = 1000; t <= 1100; t += 10) Page(world, t, Work(5, 0, 5, 0, 0, 0));
  world.Close(1100);
  EXPECT_DOUBLE_EQ(world.Seconds(State::kHeldIdle, Cause::kNoRequests), 80);
}

TEST(LedgerCompute, AThrottleTakesItsShareOfEachMillisecond) {
  TestLedger world;
  Feed(world, 1000, 1010, 300, [](GpuReading& reading) {
    reading.users = {TestUser(1, PodOwner("a"))}, reading.utilization = 1;
    reading.throttled = 0.2, reading.throttle_cause = Cause::kThrottleThermal;
  });
  EXPECT_DOUBLE_EQ(world.Seconds(State::kUseful, Cause::kNone, "a"), 8);
  EXPECT_DOUBLE_EQ(world.Seconds(State::kActiveWasted, Cause::kThrottleThermal, "a"), 2);
}

TEST(LedgerCompute, AnAllocationWithoutAProcessIsStartingThenForgotten) {
  TestLedger world;
  Feed(world, 1000, 1400, 60, [](GpuReading& reading) { reading.allocated = PodOwner("a"); });
  EXPECT_DOUBLE_EQ(world.Seconds(State::kAllocatedUnheld, Cause::kStarting, "a"), 300);
  EXPECT_DOUBLE_EQ(world.Seconds(State::kAllocatedUnheld, Cause::kForgotten, "a"), 100);
  EXPECT_DOUBLE_EQ(world.Joules(kHeld, "a"), 400 * 60);
}

TEST(LedgerCompute, ProcessesThatComeAndGoAreACrashLoop) {
  TestLedger world;
  Feed(world, 1000, 1100, 60, [](GpuReading& reading) {
    reading.allocated = PodOwner("a");
    const int64_t t = reading.at_ns / kTestSecond;
    // Ten seconds of each thirty, with another pid each time.
    if (t % 30 < 10) reading.users = {TestUser(t / 30 + 1, PodOwner("a"))};
  });
  EXPECT_GT(world.Seconds(State::kAllocatedUnheld, Cause::kStarting, "a"), 0);
  EXPECT_DOUBLE_EQ(world.Seconds(State::kAllocatedUnheld, Cause::kCrashLoop, "a"), 11)
      << "from the third end on";
}

TEST(LedgerCompute, ALostGpuIsUnavailableAndAnEmptyOneUnallocated) {
  TestLedger world;
  Feed(world, 1000, 1010, 60);
  Feed(world, 1011, 1020, 60, [](GpuReading& reading) { reading.available = false; });
  Feed(world, 1021, 1030, 60, [](GpuReading& reading) {
    reading.available = false, reading.unavailable_cause = Cause::kMaintenance;
  });
  EXPECT_DOUBLE_EQ(world.Seconds(State::kUnallocated, Cause::kNone), 10);
  EXPECT_DOUBLE_EQ(world.Seconds(State::kUnavailable, Cause::kHardware), 10);
  EXPECT_DOUBLE_EQ(world.Seconds(State::kUnavailable, Cause::kMaintenance), 10);
}

TEST(LedgerCompute, UnknownUseIsNotIdle) {
  TestLedger world;
  Feed(world, 1000, 1100, 60, [](GpuReading& reading) {
    reading.users = {TestUser(1, PodOwner("a"))}, reading.utilization.reset();
  });
  EXPECT_DOUBLE_EQ(world.Seconds(State::kUnobserved, Cause::kNone, "a"), 100);
}

// Late readings.

TEST(LedgerLate, AReadingWithinTheGraceAdjustsItsWindow) {
  TestLedger world;
  const auto busy = Uses({TestUser(1, PodOwner("a"))}, 0.9);
  Feed(world, 1000, 1003, 100, busy);
  Feed(world, 1006, 1030, 100, busy);
  const size_t before = world.entries.size();
  GpuReading late = TestReading(1004, 100 * 4);
  late.users = {TestUser(2, PodOwner("b"))}, late.utilization = 0.9;
  world.ledger->Observe(late);
  world.ledger->Observe(late);
  world.Close(1030);
  ASSERT_GT(world.entries.size(), before);
  Amounts sum;
  for (size_t i = before; i < world.entries.size(); ++i) {
    EXPECT_EQ(world.entries[i].for_window_unix_ms, (1000 * kTestSecond + kTestOffset) / 1'000'000);
    EXPECT_EQ(world.entries[i].window_unix_ms, (1030 * kTestSecond + kTestOffset) / 1'000'000);
    sum += world.entries[i].amounts;
  }
  EXPECT_TRUE(sum.empty()) << "an adjustment moves, and adds nothing";
  EXPECT_DOUBLE_EQ(world.Joules(kActive, "b"), 100);
  EXPECT_DOUBLE_EQ(world.Joules(kActive, "a"), 2900);
  EXPECT_EQ(world.ledger->refused(), 0u);
}

TEST(LedgerLate, AReadingAfterTheGraceIsRefused) {
  TestLedger world;
  Feed(world, 1000, 1400, 100);
  const size_t before = world.entries.size();
  world.ledger->Observe(TestReading(1004.5, 450));
  world.Close(1400);
  EXPECT_EQ(world.entries.size(), before);
  EXPECT_EQ(world.ledger->refused(), 1u);
}

TEST(LedgerLate, EnergyThatBecomesKnownIsAdded) {
  TestLedger world;
  world.ledger->Observe(TestReading(1000, 10));
  world.ledger->Observe(TestReading(1010, 5));
  world.Close(1010);
  EXPECT_EQ(world.Sum().energy_uj, 0);
  world.ledger->Observe(TestReading(1006, 1));
  world.Close(1011);
  EXPECT_EQ(world.Sum().energy_uj, 4'000'000);
  EXPECT_EQ(world.Sum().unmetered_ms, 6000);
}

TEST(LedgerLate, ASilentGpuIsNotWaitedForAndItsSilenceIsBookedLater) {
  TestLedger world;
  const auto other = [](GpuReading& reading) { reading.gpu = "GPU-1"; };
  Feed(world, 1000, 1010, 100);
  Feed(world, 1000, 1100, 100, other);
  const auto of = [&] { return world.Sum([](const Entry& entry) { return entry.account.gpu == "GPU-0"; }); };
  EXPECT_EQ(of().time_ms, 10'000);
  EXPECT_GT(world.Sum().time_ms, 60'000);
  world.ledger->Observe(TestReading(1100, 10'000));
  world.Close(1101);
  EXPECT_EQ(of().time_ms, 100'000);
  EXPECT_DOUBLE_EQ(world.Joules(kUnobserved), 9000);
}

TEST(LedgerLate, SilenceBeyondTheGraceIsBookedByHour) {
  TestLedger world({}, TestRates());
  const auto other = [](GpuReading& reading) { reading.gpu = "GPU-1"; };
  Feed(world, 1000, 1015, 100);
  Feed(world, 1000, 9000, 100, other);
  EXPECT_EQ(world.Sum([](const Entry& entry) { return entry.account.gpu == "GPU-0"; }).time_ms, 15'000)
      << "up to its last reading";
  const size_t before = world.entries.size();
  world.ledger->Observe(TestReading(9001, 100'000));
  world.Finish(9001);
  const Amounts sum = world.Sum([](const Entry& entry) { return entry.account.gpu == "GPU-0"; });
  EXPECT_EQ(sum.time_ms, 8'001'000);
  EXPECT_EQ(sum.energy_uj, 100'000'000'000);
  EXPECT_EQ(sum.cost_allocation_pico, 8'001'000'000'000);
  std::set<int64_t> labels;
  for (size_t i = before; i < world.entries.size(); ++i) {
    if (world.entries[i].amounts.time_ms > 10'000) labels.insert(world.entries[i].for_window_unix_ms);
  }
  EXPECT_EQ(labels.size(), 3u) << "one of each hour";
}

TEST(LedgerLate, ABacklogIsClosedByHour) {
  TestLedger world;
  world.ledger->Observe(TestReading(0, 0));
  world.ledger->Observe(TestReading(20 * 86'400, 1000));
  world.Close(20 * 86'400);
  EXPECT_EQ(world.Sum().time_ms, 20 * 86'400'000);
  EXPECT_LT(world.entries.size(), 600u);
}

// Restarts.

TEST(LedgerRestart, TheDifferenceOfTheCounterIsUnobserved) {
  TestLedger world;
  const auto busy = Uses({TestUser(1, PodOwner("a"))}, 0.9);
  Feed(world, 1000, 1017, 100, busy);  // killed: the window that began at 1010 is lost
  world.Restart(1027);
  Feed(world, 1028, 1040, 100, busy);
  EXPECT_EQ(world.Sum().energy_uj, 4'000'000'000);
  EXPECT_EQ(world.Sum().time_ms, 40'000);
  EXPECT_DOUBLE_EQ(world.Joules(kUnobserved), 1800);
  EXPECT_DOUBLE_EQ(world.Joules(kActive, "a"), 2200);
}

TEST(LedgerRestart, AfterFinishNothingIsLost) {
  TestLedger world;
  const auto busy = Uses({TestUser(1, PodOwner("a"))}, 0.9);
  Feed(world, 1000, 1017, 100, busy);
  world.Finish(1017);
  world.Restart(1019);
  EXPECT_EQ(world.ledger->state().gpus.at(0).at_ns, 1017 * kTestSecond) << "also if it is killed again";
  Feed(world, 1020, 1040, 100, busy);
  EXPECT_EQ(world.Sum().energy_uj, 4'000'000'000);
  EXPECT_DOUBLE_EQ(world.Joules(kUnobserved), 300);
}

TEST(LedgerRestart, AnotherBootHasNoJoulesAndItsTimeIsOfTheWallClock) {
  TestLedger world;
  Feed(world, 1000, 1020, 100);
  const int64_t unix_ns = world.At(1020).unix_ns;
  world.offset = unix_ns + 50 * kTestSecond;  // 30 s after the new boot, 80 s later
  world.Restart(30, "another");
  for (int t = 31; t <= 40; ++t) {
    world.ledger->Observe(TestReading(t, 1e6 + t));
    world.Close(t);
  }
  EXPECT_EQ(world.Sum().time_ms, 20'000 + 90'000);
  EXPECT_EQ(world.Sum().energy_uj, 2'000'000'000 + 9'000'000);
  EXPECT_EQ(world.Sum().unmetered_ms, 81'000);
  EXPECT_DOUBLE_EQ(world.Seconds(State::kUnobserved, Cause::kNone), 81);
}

TEST(LedgerRestart, AWallClockThatWentBackGivesNoNegativeTime) {
  TestLedger world;
  Feed(world, 1000, 1020, 100);
  world.offset -= 5000 * kTestSecond;
  world.Restart(30, "another");
  for (int t = 31; t <= 40; ++t) {
    world.ledger->Observe(TestReading(t, 1e6 + t));
    world.Close(t);
  }
  EXPECT_EQ(world.Sum().time_ms, 20'000 + 10'000);
}

TEST(LedgerRestart, AnIntegralOfPowerBeginsAgain) {
  TestLedger world;
  const auto integral = [](GpuReading& reading) { reading.energy_source = EnergySource::kPowerIntegral; };
  Feed(world, 1000, 1020, 100, integral);
  world.Restart(1021);
  Feed(world, 1022, 1030, 1000, integral);
  EXPECT_EQ(world.Sum().unmetered_ms, 2000);
  EXPECT_EQ(world.Sum().energy_uj, 2'000'000'000 + 8'000'000'000);
}

TEST(LedgerRestart, HoldsAreRemembered) {
  TestLedger world;
  Feed(world, 1000, 1050, 90, Uses({TestUser(1, PodOwner("a"))}, 0));
  world.Restart(1050);
  Feed(world, 1051, 1080, 90, Uses({TestUser(1, PodOwner("a"))}, 0));
  EXPECT_DOUBLE_EQ(world.Seconds(State::kHeldIdle, Cause::kUnknown, "a"), 20);
}

TEST(LedgerRestart, ANewGpuBeginsAtItsFirstReading) {
  TestLedger world;
  Feed(world, 1000, 1030, 100);
  for (int t = 1024; t <= 1040; ++t) {
    GpuReading reading = TestReading(t, 7777 + t);
    reading.gpu = "GPU-9";
    world.ledger->Observe(reading);
  }
  Feed(world, 1031, 1040, 100);
  EXPECT_EQ(world.Sum([](const Entry& entry) { return entry.account.gpu == "GPU-9"; }).energy_uj, 16'000'000);
}

// Bounds.

TEST(LedgerOwners, BeyondTheLimitAreOneAndTotalsStay) {
  Ledger::Options options;
  options.most_owners = 3;
  TestLedger world(options);
  Feed(world, 1000, 1020, 100, [](GpuReading& reading) {
    reading.utilization = 0.9;
    for (int pid = 1; pid <= 8; ++pid)
      reading.users.push_back(TestUser(pid, PodOwner("p" + std::to_string(pid)), 0.1 * pid));
  });
  EXPECT_EQ(world.Sum().energy_uj, 2'000'000'000);
  std::set<std::string> pods;
  for (const Entry& entry : world.entries) pods.insert(entry.account.owner.pod);
  pods.erase("");
  EXPECT_EQ(pods, (std::set<std::string>{std::string(kOther), "p6", "p7", "p8"})) << "those with most";
  EXPECT_NEAR(world.Joules(kActive, std::string(kOther)), 2000. * 15 / 36, 0.001);
}

TEST(LedgerOwners, AnHourBeginsWithNewOnes) {
  Ledger::Options options;
  options.most_owners = 1;
  TestLedger world(options);
  // An hour begins at second 3600.
  Feed(world, 3580, 3599, 100, Uses({TestUser(1, PodOwner("a"))}, 0.9));
  Feed(world, 3600, 3640, 100, Uses({TestUser(2, PodOwner("b"))}, 0.9));
  EXPECT_DOUBLE_EQ(world.Joules(kActive, std::string(kOther)), 100) << "the last second of the hour before";
  EXPECT_DOUBLE_EQ(world.Joules(kActive, "b"), 4000);
}

TEST(LedgerBounds, CloseAllocatesNothingBetweenWindows) {
  TestLedger world;
  Feed(world, 1000, 1040, 100, Uses({TestUser(1, PodOwner("a", "e"))}, 0.9));
  const uint64_t before = ThreadAllocations();
  for (int t = 1041; t < 1050; ++t) EXPECT_TRUE(world.ledger->Close(world.At(t)).entries.empty());
  EXPECT_EQ(ThreadAllocations(), before);
}

TEST(LedgerBounds, NonsenseNeverBreaksTheSums) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const int64_t most = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
  Rates rates;
  rates.pico_per_gpu_hour = most, rates.pico_per_kwh = most, rates.mg_per_kwh = most, rates.pue_milli = least;
  TestLedger world(IdleWatts(nan), rates);
  for (int t = 1000; t <= 1100; ++t) {
    GpuReading reading = TestReading(t, 100 * t);
    reading.utilization = t % 3 == 0 ? nan : t % 3 == 1 ? -inf : 1e300;
    reading.throttled = t % 2 == 0 ? inf : -1;
    reading.performance_state = t % 5 == 0 ? -7 : 1 << 30;
    reading.users = {TestUser(-1, Owner(), nan, least), TestUser(1, PodOwner(""), inf, most),
                     TestUser(1, PodOwner(std::string(100'000, 'x')), 1e9, most)};
    reading.mig = t % 7 == 0;
    MigSlice slice;
    slice.compute_slices = t % 2 == 0 ? most : least, slice.utilization = nan;
    reading.slices = {slice, slice};
    if (t % 11 == 0) reading.energy_uj = t % 2 == 0 ? most : least;
    world.ledger->Observe(reading);
    EngineReading page;
    page.engine = "e", page.at_ns = t * kTestSecond;
    page.work = {Work(nan, inf, -inf, 1e308, -5), Work(1, 2, 3, 4, 5)};
    world.ledger->Observe(page);
    world.Close(t);
  }
  GpuReading nameless = TestReading(1100, 1);
  nameless.gpu.clear();
  world.ledger->Observe(nameless);
  for (int64_t at : {most, least, int64_t{0}}) {
    GpuReading reading = TestReading(0, 0);
    reading.at_ns = at;
    world.ledger->Observe(reading);
  }
  EXPECT_EQ(world.ledger->refused(), 4u);
  GpuReading future = TestReading(1e6, 1e6);
  world.ledger->Observe(future);
  world.Close(1100);
  EXPECT_EQ(world.ledger->refused(), 5u) << "from the future";
  world.ledger->Close({least, most});
  world.ledger->Close({most, least});
  world.ledger->Close({1100 * kTestSecond, least});
  world.Close(900);
  EXPECT_EQ(world.Sum().time_ms, 100'000);
  EXPECT_EQ(world.Sum().priced_ms, 100'000);
  EXPECT_EQ(world.Sum().cost_allocation_pico, world.Sum().cost_usage_pico);
  for (const Entry& entry : world.entries) {
    EXPECT_GE(entry.amounts.energy_uj, 0);
    EXPECT_GE(entry.amounts.time_ms, 0);
  }
}

// The state as text.

TEST(LedgerStateText, IsReadBackAsItWas) {
  TestLedger world({}, TestRates());
  FeedPair(world, 1000, 1010, 0);
  Page(world, 1000, Work(0, 0, 0, 0, 0));
  Page(world, 1010, Work(3000, 1000, 500, 0.1, 6.7));
  world.Close(1010);
  LedgerState state = world.ledger->state();
  ASSERT_EQ(state.gpus.size(), 2u);
  ASSERT_FALSE(state.engines.empty());
  state.gpus[0].idle_watts = 71.0625, state.gpus[0].idle_watts_of = {{0, 72.1}, {8, 1e-3}};
  state.gpus[1].energy_uj.reset();
  state.gpus[1].holds.push_back({"1/0", -5, PodOwner("a\n\"\x01"), 7, {1, 2, 3}});
  const std::string text = StateText(state);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const Result<LedgerState> read = ParseState(text);
  ASSERT_TRUE(read.ok()) << read.error().detail;
  EXPECT_EQ(*read, state);
  EXPECT_EQ(StateText(*read), text);
}

TEST(LedgerStateText, OtherTextsAreRefused) {
  for (const char* text :
       {"", "{}", "[]", "null", "{\"version\":2}", "{\"version\":1", "{\"version\":1}x", "{\"version\":1.5}",
        "{\"version\":1,\"gpus\":{}}", "{\"version\":1,\"gpus\":[{}]}",
        "{\"version\":1,\"gpus\":[{\"gpu\":1}]}", "{\"version\":1,\"gpus\":[{\"gpu\":\"a\",\"at_ns\":1e30}]}",
        "{\"version\":1,\"gpus\":[{\"gpu\":\"a\",\"energy_source\":9}]}",
        "{\"version\":1,\"gpus\":[{\"gpu\":\"a\",\"idle_watts_of\":[[0.5,1]]}]}",
        "{\"version\":1,\"engines\":[{\"engine\":\"e\",\"prefill_seconds\":1e999}]}"}) {
    const Result<LedgerState> read = ParseState(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.error().code, Code::kDataLoss) << text;
  }
  EXPECT_TRUE(ParseState("{\"version\":1,\"later\":[1,{}]}").ok()) << "what a later version adds is skipped";
}

TEST(LedgerStateText, DamagedFilesAreRefusedAndSaneOnesRead) {
  size_t read = 0, refused = 0;
  const std::filesystem::path folder = GPULENS_SOURCE_DIR "/src/ledger/testdata/ledger_state_corpus";
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const Result<std::string> text = ReadFile(file.path().string());
    ASSERT_TRUE(text.ok());
    const Result<LedgerState> state = ParseState(*text);
    (state.ok() ? read : refused) += 1;
    if (state.ok()) {
      EXPECT_EQ(*ParseState(StateText(*state)), *state) << file.path();
    }
  }
  EXPECT_EQ(read, 4u);
  EXPECT_EQ(refused, 8u);
}

TEST(LedgerStateText, AStateOfNonsenseIsSurvived) {
  const int64_t most = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
  for (int64_t at : {most, least, int64_t{0}, 1000 * kTestSecond, int64_t{-1}}) {
    for (const char* boot : {"boot", "another"}) {
      LedgerState state;
      LedgerState::Gpu gpu;
      gpu.gpu = "GPU-0", gpu.at_ns = at, gpu.at_unix_ns = most - (at & 1), gpu.energy_uj = at;
      gpu.energy_source = EnergySource::kCounter;
      gpu.idle_watts = -1e300, gpu.idle_watts_of = {{-1, 1e300}, {1, 5}};
      gpu.remainders = {most, least, most, 1, 2};
      gpu.holds.push_back({"", least, PodOwner("a"), most, {most, least, 0, 1}});
      state.gpus = {gpu, gpu};
      state.engines = {{"e", -1, 1e300, 1e300, 0}};
      state.boot_id = boot;
      TestLedger world({}, TestRates());
      world.ledger->Restore(state, world.At(1010), "boot");
      Feed(world, 1011, 1040, 100, Uses({TestUser(1, PodOwner("a"))}, 0));
      EXPECT_GE(world.Sum().time_ms, 29'000);
      EXPECT_GE(world.Sum().energy_uj, 2'900'000'000);
    }
  }
}

}  // namespace
}  // namespace gpulens::ledger

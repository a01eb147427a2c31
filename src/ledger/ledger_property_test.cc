// Random worlds of GPUs, processes and engines, with gaps, counters that fall, late and repeated readings,
// restarts, MIG, clocks that jump and nonsense. Sums are compared with what the counters alone give, computed
// here again; every difference must be 0.
#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "base/sanitizers.h"
#include "base/stable_sort.h"
#include "ledger/ledger_testing.h"

namespace gpulens::ledger {
namespace {

constexpr int64_t kWindowNs = 10 * kTestSecond;
constexpr int kWorlds = kAddressSanitizer || kThreadSanitizer ? 2'100 : 10'500;

// A number of the world's own generator: worlds are the same everywhere.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  int64_t Below(int64_t end) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(end)); }
  bool OneIn(int64_t chances) { return Below(chances) == 0; }
  double Share() { return static_cast<double>(Below(1001)) / 1000; }

 private:
  std::mt19937_64 engine_;
};

// What was read at one moment, and when it came.
struct Arrival {
  int64_t at = 0, arrives = 0;
  std::shared_ptr<GpuReading> gpu;
  std::shared_ptr<EngineReading> engine;
  std::optional<ProgramSignal> signal;
};

struct RandomWorld {
  std::vector<Arrival> arrivals;  // in order of `at`
  int64_t begin = 0, end = 0;
  Ledger::Options options;
  std::vector<Rates> rates;  // by window, in turns
  int64_t jump_at = 0, jump = 0;

  Rates RatesAt(int64_t unix_ns) const {
    return rates[static_cast<size_t>(unix_ns / kWindowNs) % rates.size()];
  }
};

Owner RandomOwner(Dice& dice, int engines) {
  Owner owner;
  owner.process = dice.OneIn(3) ? "" : "python3";
  owner.pod = "pod-" + std::to_string(dice.Below(4));
  owner.name_space = "ns";
  owner.tenant = "tenant-" + std::to_string(dice.Below(2));
  if (dice.OneIn(6)) return Owner();
  if (engines > 0 && dice.OneIn(2)) owner.engine = "engine-" + std::to_string(dice.Below(engines));
  return owner;
}

// The state of a GPU in the making of a world.
struct GpuMaker {
  GpuReading now;
  int64_t counter = 0;
};

void ChangeGpu(Dice& dice, int engines, GpuMaker& gpu) {
  GpuReading& now = gpu.now;
  now.users.clear();
  now.slices.clear();
  now.users_known = !dice.OneIn(6);
  now.utilization = dice.OneIn(5) ? std::nullopt : std::optional<double>(dice.OneIn(3) ? 0 : dice.Share());
  now.allocated = dice.OneIn(2) ? RandomOwner(dice, 0) : Owner();
  now.available = !dice.OneIn(20);
  now.throttled = dice.OneIn(4) ? dice.Share() : 0;
  now.throttle_cause = dice.OneIn(2) ? Cause::kThrottlePower : Cause::kNone;
  now.performance_state = static_cast<int>(dice.Below(2)) * 8;
  now.mig = dice.OneIn(5);
  if (now.mig) {
    now.compute_slices = 7;
    for (int i = 0; i < 3; ++i) {
      MigSlice slice;
      slice.slice = std::to_string(i) + "/0";
      slice.compute_slices = dice.Below(3);
      if (!dice.OneIn(3)) slice.utilization = dice.Share();
      if (dice.OneIn(2)) slice.allocated = RandomOwner(dice, 0);
      now.slices.push_back(slice);
    }
  }
  for (int64_t i = dice.Below(4); i > 0; --i) {
    GpuUser user;
    user.pid = dice.Below(6) + 1, user.start_ticks = user.pid;
    user.owner = RandomOwner(dice, engines);
    if (!dice.OneIn(3)) user.memory_bytes = dice.Below(1000);
    if (!dice.OneIn(3)) user.utilization = dice.Share();
    if (now.mig) user.slice = std::to_string(dice.Below(4)) + "/0";
    now.users.push_back(user);
  }
}

void MakeGpu(Dice& dice, int number, int engines, RandomWorld& world) {
  GpuMaker gpu;
  gpu.now.gpu = "GPU-" + std::to_string(number);
  gpu.now.model = "H100";
  gpu.now.energy_source = EnergySource::kCounter;
  gpu.counter = dice.Below(1'000'000'000);
  ChangeGpu(dice, engines, gpu);
  const int64_t step = 2 + dice.Below(6);
  for (int64_t t = world.begin + dice.Below(15 * kTestSecond); t < world.end;) {
    gpu.now.at_ns = t;
    gpu.now.energy_uj = dice.OneIn(25) ? std::nullopt : std::optional<int64_t>(gpu.counter);
    world.arrivals.push_back({t, t, std::make_shared<GpuReading>(gpu.now), {}, {}});
    const int64_t step_ns =
        dice.OneIn(30) ? (31 + dice.Below(30)) * kTestSecond : step * kTestSecond - dice.Below(kTestSecond);
    t += step_ns;
    // Up to 700 W.
    gpu.counter += dice.Below(700) * (step_ns / 1000);
    if (dice.OneIn(40)) gpu.counter = dice.Below(1000);
    if (dice.OneIn(4)) ChangeGpu(dice, engines, gpu);
  }
}

void MakeEngine(Dice& dice, int number, RandomWorld& world) {
  EngineReading page;
  page.engine = "engine-" + std::to_string(number);
  const int64_t models = 1 + dice.Below(2);
  for (int64_t i = 0; i < models; ++i) {
    EngineWork& work = page.work.emplace_back();
    work.model = "model-" + std::to_string(i);
    work.prompt_tokens = work.generated_tokens = work.cached_tokens = 0;
    if (dice.OneIn(2)) work.prefill_seconds = work.decode_seconds = 0;
    if (dice.OneIn(2)) work.recomputed_tokens = work.rejected_tokens = 0;
    if (dice.OneIn(2)) work.cancelled_requests = work.finished_requests = 0;
  }
  for (int64_t t = world.begin + dice.Below(5 * kTestSecond); t < world.end;
       t += (3 + dice.Below(9)) * kTestSecond) {
    page.at_ns = t;
    world.arrivals.push_back({t, t, {}, std::make_shared<EngineReading>(page), {}});
    for (EngineWork& work : page.work) {
      const bool open = !dice.OneIn(3);
      work.running = open ? 2 : 0, work.waiting = 0;
      if (!open) continue;
      const auto grow = [&](double& counter, int64_t most) {
        if (counter >= 0) counter += static_cast<double>(dice.Below(most));
      };
      grow(work.prompt_tokens, 5000), grow(work.generated_tokens, 900), grow(work.cached_tokens, 900);
      grow(work.prefill_seconds, 3), grow(work.decode_seconds, 20);
      grow(work.recomputed_tokens, 50), grow(work.rejected_tokens, 50);
      grow(work.cancelled_requests, 2), grow(work.finished_requests, 9);
      if (dice.OneIn(25)) work.prompt_tokens = work.generated_tokens = work.cached_tokens = 3;
    }
  }
}

RandomWorld MakeWorld(uint64_t seed) {
  Dice dice(seed);
  RandomWorld world;
  world.begin = 1000 * kTestSecond + dice.Below(30 * kTestSecond);
  world.end = world.begin + (25 + dice.Below(60)) * kTestSecond;
  world.options.grace = std::chrono::seconds(300);
  world.options.hold_time = std::chrono::seconds(dice.Below(20));
  if (dice.OneIn(2)) world.options.idle_watts = static_cast<double>(dice.Below(100));
  if (dice.OneIn(8)) world.options.most_owners = static_cast<size_t>(dice.Below(4));
  for (int64_t i = 1 + dice.Below(3); i > 0; --i) {
    Rates rates;
    if (!dice.OneIn(5)) rates.pico_per_gpu_hour = dice.Below(4'000'000'000'001);
    if (!dice.OneIn(5)) rates.pico_per_kwh = dice.Below(300'000'000'001);
    if (!dice.OneIn(5)) rates.mg_per_kwh = dice.Below(900'001);
    rates.pue_milli = 1000 + dice.Below(1000);
    world.rates.push_back(rates);
  }
  if (dice.OneIn(4)) {
    world.jump_at = world.begin + dice.Below(world.end - world.begin);
    world.jump = dice.Below(4000 * kTestSecond) - 2000 * kTestSecond;
    world.rates.resize(1);
  }
  const auto engines = static_cast<int>(dice.Below(3));
  // Mostly few, up to eight.
  const int64_t gpus = dice.OneIn(12) ? 1 + dice.Below(8) : 1 + dice.Below(2);
  for (int i = 0; i < gpus; ++i) MakeGpu(dice, i, engines, world);
  for (int i = 0; i < engines; ++i) MakeEngine(dice, i, world);
  for (int64_t i = dice.Below(4); i > 0; --i) {
    const int64_t at = world.begin + dice.Below(world.end - world.begin);
    world.arrivals.push_back(
        {at,
         at,
         {},
         {},
         ProgramSignal{1 + dice.Below(6), at, dice.OneIn(2) ? Cause::kInputWait : Cause::kNone}});
  }
  SortStably(world.arrivals, [](const Arrival& a, const Arrival& b) { return a.at < b.at; });
  return world;
}

// A ledger that is given the arrivals in the order in which they come.
struct Played {
  explicit Played(const RandomWorld& given) : world(given), ledger(world.options) {
    ledger.rates_at = [this](int64_t unix_ns) { return world.RatesAt(unix_ns); };
  }

  void Tick(int64_t now) {
    ledger.offset = kTestOffset + (world.jump_at != 0 && now >= world.jump_at ? world.jump : 0);
    ledger.Close(static_cast<double>(now) / kTestSecond);
  }
  void Give(const Arrival& arrival) {
    if (arrival.gpu) ledger.ledger->Observe(*arrival.gpu);
    if (arrival.engine) ledger.ledger->Observe(*arrival.engine);
    if (arrival.signal) ledger.ledger->Observe(*arrival.signal);
  }
  // Arrivals until `until`, with a Close now and then.
  void Play(const std::vector<Arrival>& arrivals, int64_t from, int64_t until) {
    int64_t closed = from;
    for (const Arrival& arrival : arrivals) {
      if (arrival.arrives < from || arrival.arrives >= until) continue;
      if (arrival.arrives - closed >= 7 * kTestSecond) Tick(closed = arrival.arrives);
      Give(arrival);
    }
  }
  void Finish() { ledger.Finish(static_cast<double>(world.end + 200 * kTestSecond) / kTestSecond); }

  const RandomWorld& world;
  TestLedger ledger;
};

// The counters, again and simply: points of one GPU in order of time.
struct Point {
  int64_t at = 0, energy = -1;
};

int64_t FloorOf(__int128 a, __int128 b) { return static_cast<int64_t>(a >= 0 ? a / b : -((-a + b - 1) / b)); }
int64_t PointMs(int64_t ns) { return FloorOf(ns, 1'000'000); }

int64_t PointEnergy(const std::vector<Point>& points, int64_t from, int64_t to) {
  int64_t sum = 0;
  for (size_t i = 0; i + 1 < points.size(); ++i) {
    const Point &a = points[i], &b = points[i + 1];
    if (a.energy < 0 || b.energy < a.energy) continue;
    const auto at = [&](int64_t t) {
      t = std::clamp(t, a.at, b.at);
      return FloorOf(static_cast<__int128>(b.energy - a.energy) * (t - a.at), b.at - a.at);
    };
    sum += at(to) - at(from);
  }
  return sum;
}

int64_t PointTime(const std::vector<Point>& points, int64_t from, int64_t to) {
  from = std::max(from, points.front().at), to = std::min(to, points.back().at);
  return from < to ? PointMs(to) - PointMs(from) : 0;
}

using GpuPoints = std::map<std::string, std::vector<Point>>;

GpuPoints PointsOf(const std::vector<Arrival>& arrivals) {
  GpuPoints points;
  for (const Arrival& arrival : arrivals) {
    if (!arrival.gpu) continue;
    auto& list = points[arrival.gpu->gpu];
    if (list.empty() || list.back().at != arrival.at)
      list.push_back({arrival.at, arrival.gpu->energy_uj.value_or(-1)});
  }
  return points;
}

// Energy, time and what rates make of them, of each GPU over all windows (I1, I2, I4, I6, I9), and that no
// account is negative (I5).
void CheckSums(const RandomWorld& world, const TestLedger& ledger, const GpuPoints& points,
               bool of_windows = true) {
  std::map<std::pair<std::string, int64_t>, Amounts> by_window;
  std::map<std::string, Amounts> by_gpu, by_tenant;
  Amounts by_tenant_sum, all;
  for (const Entry& entry : ledger.entries) {
    const Amounts& amounts = entry.amounts;
    const bool adjusts = entry.for_window_unix_ms != 0;
    by_window[{entry.account.gpu, adjusts ? entry.for_window_unix_ms : entry.window_unix_ms}] += amounts;
    by_gpu[entry.account.gpu] += amounts;
    by_tenant[entry.account.owner.tenant] += amounts;
    all += amounts;
    if (adjusts) continue;
    for (int64_t amount : {amounts.energy_uj, amounts.time_ms, amounts.cost_allocation_pico,
                           amounts.cost_usage_pico, amounts.priced_ms, amounts.electricity_pico,
                           amounts.carbon_ng, amounts.carbon_known_uj, amounts.tokens, amounts.unmetered_ms})
      ASSERT_GE(amount, 0) << "I5";
    ASSERT_LE(amounts.unmetered_ms, amounts.time_ms) << "I5";
  }
  for (const auto& [name, amounts] : by_tenant) by_tenant_sum += amounts;
  ASSERT_EQ(by_tenant_sum, all) << "I10";

  for (const auto& [gpu, list] : points) {
    const Amounts& sum = by_gpu[gpu];
    __int128 price = 0, electricity = 0, carbon = 0;
    for (int64_t start = list.front().at / kWindowNs * kWindowNs; start < list.back().at;
         start += kWindowNs) {
      const int64_t energy = PointEnergy(list, start, start + kWindowNs);
      const int64_t time = PointTime(list, start, start + kWindowNs);
      if (of_windows && world.jump == 0) {
        const Amounts& window = by_window[{gpu, (start + kTestOffset) / 1'000'000}];
        ASSERT_EQ(window.energy_uj, energy) << "I1 " << gpu << " " << start;
        ASSERT_EQ(window.time_ms, time) << "I1 " << gpu << " " << start;
      }
      const Rates rates = world.RatesAt(start + kTestOffset);
      price += static_cast<__int128>(rates.pico_per_gpu_hour.value_or(0)) * time;
      const __int128 grossed = static_cast<__int128>(energy) * rates.pue_milli;
      electricity += grossed * rates.pico_per_kwh.value_or(0);
      carbon += grossed * rates.mg_per_kwh.value_or(0);
    }
    ASSERT_EQ(sum.energy_uj, PointEnergy(list, list.front().at, list.back().at)) << "I4 " << gpu;
    ASSERT_EQ(sum.time_ms, PointTime(list, list.front().at, list.back().at)) << "I4 " << gpu;
    ASSERT_EQ(sum.cost_allocation_pico, FloorOf(price, 3'600'000)) << "I6 " << gpu;
    ASSERT_EQ(sum.cost_usage_pico, FloorOf(price, 3'600'000)) << "I6 " << gpu;
    ASSERT_EQ(sum.electricity_pico, FloorOf(electricity, 3'600'000'000'000'000)) << "I9 " << gpu;
    ASSERT_EQ(sum.carbon_ng, FloorOf(carbon, 3'600'000'000)) << "I9 " << gpu;
  }
}

// Processes and accounts have the same joules: those of users.
void CheckProcesses(const TestLedger& ledger) {
  std::map<std::string, int64_t> of_processes, of_accounts;
  for (const ProcessEnergy& process : ledger.processes) of_processes[process.gpu] += process.energy_uj;
  for (const Entry& entry : ledger.entries) {
    const EnergyState state = entry.account.energy_state;
    if (state == EnergyState::kHeld || state == EnergyState::kActive)
      of_accounts[entry.account.gpu] += entry.amounts.energy_uj;
  }
  // An allocation without a process is held, and no process has it.
  for (const auto& [gpu, energy] : of_processes) ASSERT_LE(energy, of_accounts[gpu]);
}

TEST(LedgerProperties, SumsAreThoseOfTheCounters) {
  for (int seed = 0; seed < kWorlds; ++seed) {
    const RandomWorld world = MakeWorld(static_cast<uint64_t>(seed));
    Played run(world);
    run.Play(world.arrivals, 0, world.end);
    run.Finish();
    CheckSums(world, run.ledger, PointsOf(world.arrivals));
    CheckProcesses(run.ledger);
    ASSERT_EQ(run.ledger.ledger->refused(), 0u) << seed;
    if (testing::Test::HasFailure()) FAIL() << "world " << seed;
  }
}

// I7: the order of arrival within the grace, and repeated arrivals, change nothing.
TEST(LedgerProperties, TheOrderOfArrivalChangesNothing) {
  for (int seed = 0; seed < kWorlds / 10; ++seed) {
    RandomWorld world = MakeWorld(static_cast<uint64_t>(seed));
    world.jump = world.jump_at = 0;
    Played in_order(world);
    in_order.Play(world.arrivals, 0, world.end);
    in_order.Finish();
    std::vector<Arrival> late = world.arrivals;
    Dice dice(static_cast<uint64_t>(seed) + 1);
    for (Arrival& arrival : late) {
      arrival.arrives += dice.OneIn(3) ? dice.Below(120 * kTestSecond) : 0;
    }
    const size_t count = late.size();
    for (size_t i = 0; i < count; ++i) {
      if (!dice.OneIn(5)) continue;
      late.push_back(late[i]);
      late.back().arrives += dice.Below(120 * kTestSecond);
    }
    SortStably(late, [](const Arrival& a, const Arrival& b) { return a.arrives < b.arrives; });
    Played permuted(world);
    permuted.Play(late, 0, world.end + 240 * kTestSecond);
    permuted.Finish();
    ASSERT_EQ(permuted.ledger.ledger->refused(), 0u) << seed;
    ASSERT_EQ(permuted.ledger.Totals(), in_order.ledger.Totals()) << "I7, world " << seed;
    for (const auto& [key, amounts] : permuted.ledger.Totals()) {
      ASSERT_TRUE(amounts.energy_uj >= 0 && amounts.time_ms >= 0 && amounts.cost_usage_pico >= 0) << "I5";
    }
    CheckSums(world, permuted.ledger, PointsOf(world.arrivals));
    if (testing::Test::HasFailure()) FAIL() << "world " << seed;
  }
}

// I3: what an engine's models and classes have is what its processes had.
TEST(LedgerProperties, ClassesOfAnEngineAddUpToIt) {
  for (int seed = 0; seed < kWorlds / 10; ++seed) {
    RandomWorld world = MakeWorld(static_cast<uint64_t>(seed));
    world.options.most_owners = 1000;
    Played divided(world);
    divided.Play(world.arrivals, 0, world.end);
    divided.Finish();
    std::vector<Arrival> without = world.arrivals;
    std::erase_if(without, [](const Arrival& arrival) { return arrival.engine != nullptr; });
    Played whole(world);
    whole.Play(without, 0, world.end);
    whole.Finish();
    const auto by_engine = [](const TestLedger& ledger) {
      std::map<std::tuple<int64_t, std::string, std::string>, Amounts> sums;
      for (const auto& [key, amounts] : ledger.Totals()) {
        Amounts& sum = sums[{key.first, key.second.gpu, key.second.owner.engine}];
        sum += amounts;
        // Rounded from nanoseconds and joules to these for each account.
        sum.tokens = sum.time_ms = sum.priced_ms = sum.unmetered_ms = 0;
        sum.cost_allocation_pico = sum.cost_usage_pico = sum.electricity_pico = sum.carbon_ng = 0;
      }
      std::erase_if(sums, [](const auto& row) { return row.second.empty(); });
      return sums;
    };
    if (world.jump == 0) {
      ASSERT_EQ(by_engine(divided.ledger), by_engine(whole.ledger)) << "I3, world " << seed;
    }
  }
}

// I8: a stop and a start anywhere change only what is unobserved.
TEST(LedgerProperties, ARestartChangesOnlyWhatIsUnobserved) {
  for (int seed = 0; seed < kWorlds / 10; ++seed) {
    RandomWorld world = MakeWorld(static_cast<uint64_t>(seed));
    world.jump = world.jump_at = 0;
    world.options.most_owners = 1000;
    // A restart puts a point on the counter's line, rounded to a microjoule: a window may have one more.
    world.rates.resize(1);
    Dice dice(static_cast<uint64_t>(seed) + 1);
    const int64_t stop = world.begin + dice.Below(world.end - world.begin);
    const int64_t start = stop + dice.Below(40 * kTestSecond);
    Played through(world);
    through.Play(world.arrivals, 0, world.end);
    through.Finish();

    Played run(world);
    run.Play(world.arrivals, 0, stop);
    if (dice.OneIn(2)) run.ledger.Finish(static_cast<double>(stop) / kTestSecond);
    const LedgerState state = run.ledger.ledger->state();
    const Result<LedgerState> read = ParseState(StateText(state));
    ASSERT_TRUE(read.ok() && *read == state) << seed;
    run.ledger.Restart(static_cast<double>(start) / kTestSecond, "boot", world.options);
    run.Play(world.arrivals, start, world.end);
    run.Finish();

    // The points that the two programs saw.
    GpuPoints points;
    std::map<std::string, std::pair<int64_t, int64_t>> lost;
    for (auto& [gpu, list] : PointsOf(world.arrivals)) {
      const auto saved = std::find_if(state.gpus.begin(), state.gpus.end(),
                                      [&](const LedgerState::Gpu& one) { return one.gpu == gpu; });
      std::vector<Point>& seen = points[gpu];
      int64_t resumed = -1;
      for (const Point& point : list) {
        if (saved != state.gpus.end() && point.at < saved->at_ns) seen.push_back(point);
        if (point.at < start) continue;
        if (resumed < 0 && saved != state.gpus.end())
          seen.push_back({saved->at_ns, saved->energy_uj.value_or(-1)});
        if (resumed < 0) resumed = point.at;
        seen.push_back(point);
      }
      if (resumed < 0 && saved != state.gpus.end())
        seen.push_back({saved->at_ns, saved->energy_uj.value_or(-1)});
      if (seen.empty()) points.erase(gpu);
      lost[gpu] = {saved == state.gpus.end() ? world.begin - kWindowNs : saved->at_ns,
                   resumed < 0 ? world.end + kWindowNs : resumed};
    }
    CheckSums(world, run.ledger, points, false);
    if (testing::Test::HasFailure()) FAIL() << "I8, world " << seed;
    // Windows outside of what was lost have the same states.
    const auto outside = [&](const TestLedger& ledger) {
      std::map<std::tuple<int64_t, std::string, bool>, std::pair<int64_t, int64_t>> sums;
      for (const auto& [key, amounts] : ledger.Totals()) {
        const int64_t begin = key.first * 1'000'000 - kTestOffset;
        const auto& [from, to] = lost[key.second.gpu];
        if (begin < to && begin + kWindowNs > from) continue;
        auto& sum = sums[{key.first, key.second.gpu, key.second.energy_state == EnergyState::kUnobserved}];
        sum.first += amounts.energy_uj, sum.second += amounts.time_ms;
      }
      std::erase_if(sums, [](const auto& row) { return row.second == std::pair<int64_t, int64_t>(); });
      return sums;
    };
    ASSERT_EQ(outside(run.ledger), outside(through.ledger)) << "I8, world " << seed;
  }
}

// Values that make no sense, of any field and at any time: the residuals, which TestLedger checks, stay 0,
// and both ways of dividing the price have the same sum.
TEST(LedgerProperties, NonsenseKeepsTheSums) {
  const double numbers[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                            -1, 1e300, 0};
  const int64_t integers[] = {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), -1, 0,
                              1};
  for (int seed = 0; seed < kWorlds / 10; ++seed) {
    RandomWorld world = MakeWorld(static_cast<uint64_t>(seed));
    Dice dice(static_cast<uint64_t>(seed) + 1);
    const auto number = [&] { return numbers[dice.Below(5)]; };
    const auto integer = [&] { return integers[dice.Below(5)]; };
    for (Arrival& arrival : world.arrivals) {
      if (!dice.OneIn(4)) continue;
      if (arrival.gpu) {
        GpuReading& reading = *arrival.gpu;
        switch (dice.Below(8)) {
          case 0: reading.energy_uj = integer(); break;
          case 1: reading.utilization = number(); break;
          case 2: reading.throttled = number(); break;
          case 3: reading.compute_slices = integer(); break;
          case 4:
            reading.at_ns = dice.OneIn(2) ? integer() : arrival.at - dice.Below(900 * kTestSecond);
            break;
          case 5: reading.gpu = dice.OneIn(2) ? "" : std::string(1000, 'g'); break;
          case 6: reading.energy_source = EnergySource::kPowerIntegral; break;
          default:
            for (GpuUser& user : reading.users) {
              user.pid = integer(), user.memory_bytes = integer(), user.utilization = number();
              user.slice = std::string(static_cast<size_t>(dice.Below(100)), 's');
            }
            for (MigSlice& slice : reading.slices)
              slice.compute_slices = integer(), slice.utilization = number();
        }
      }
      if (arrival.engine) {
        if (dice.OneIn(5)) arrival.engine->at_ns = integer();
        for (EngineWork& work : arrival.engine->work) {
          work.prompt_tokens = number(), work.decode_seconds = number(), work.running = number();
          work.generated_tokens = number(), work.finished_requests = number();
        }
      }
    }
    Played run(world);
    run.Play(world.arrivals, 0, world.end);
    run.Finish();
    const Amounts sum = run.ledger.Sum();
    ASSERT_EQ(sum.cost_allocation_pico, sum.cost_usage_pico) << "world " << seed;
    if (testing::Test::HasFailure()) FAIL() << "world " << seed;
  }
}

}  // namespace
}  // namespace gpulens::ledger

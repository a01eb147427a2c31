// Conservation of energy: over several boards at once, the requests' shares add up to what the boards'
// counters counted, to the millijoule, and the error of a window is within its uncertainty.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/testing/temp_folder.h"
#include "sdk/energy/engine_fixture_for_test.h"
#include "sdk/energy/sources/system_sources.h"

namespace gpulens::sdk {
namespace {

constexpr double kMillijoule = 1e-3;
constexpr int64_t kTickNs = 500'000;  // time passes by half milliseconds
constexpr int64_t kLength = 6000;     // of a trace, in ticks

// Load of a board: levels of power, each for some time, never 0.
class Trace {
 public:
  // `dwell`: ticks that a level lasts, in the mean.
  Trace(std::mt19937& random, uint64_t dwell) : watts_(kLength), joules_(kLength + 1) {
    double level = 100;
    for (size_t tick = 0; tick < watts_.size(); ++tick) {
      if (random() % dwell == 0) level = 60 + static_cast<double>(random() % 640);
      watts_[tick] = level;
      joules_[tick + 1] = joules_[tick] + level * kTickNs * 1e-9;
    }
  }
  double Watts(int64_t tick) const { return watts_[static_cast<size_t>(tick)]; }
  double Joules(int64_t tick) const { return joules_[static_cast<size_t>(tick)]; }
  double Between(int64_t from, int64_t to) const { return Joules(to) - Joules(from); }

 private:
  std::vector<double> watts_, joules_;
};

// The ticks of readings, so far apart.
std::vector<int64_t> Every(int64_t ticks) {
  std::vector<int64_t> at;
  for (int64_t tick = ticks; tick < kLength; tick += ticks) at.push_back(tick);
  return at;
}
std::vector<int64_t> AtRandom(std::mt19937& random, int64_t most) {
  std::vector<int64_t> at;
  for (int64_t tick = 0; (tick += 4 + static_cast<int64_t>(random()) % most) < kLength;) at.push_back(tick);
  return at;
}

// Requests that come and go from `begin` to `end`, one or another of them open at each instant.
class Load {
 public:
  Load(Fixture& fixture, std::mt19937& random) : fixture_(fixture), random_(random) {}

  // `before` is called with the tick before each reading.
  void Run(const std::vector<int64_t>& reads, int64_t begin, int64_t end,
           const std::function<void(int64_t)>& before) {
    auto next = reads.begin();
    for (int64_t tick = 1; next != reads.end(); ++tick) {
      fixture_.clock.Advance(Duration(kTickNs));
      if (tick == *next) {
        before(tick);
        fixture_.engine->Round(true);
        ++next;
      }
      if (tick == begin) {
        whole_ = fixture_.Begin(false);
        cover_ = Begin();
      }
      if (tick > begin && tick < end) Change();
      if (tick == end) EndAll();
    }
  }
  // Sum of all shares.
  double Sum() {
    double sum = 0;
    for (WindowSlot* one : all_) {
      const EnergyResult result = fixture_.End(one);
      RC_ASSERT(result.valid());
      RC_ASSERT(result.energy_joules >= -1e-9);
      sum += result.energy_joules;
    }
    return sum;
  }
  // Energy of the devices meanwhile.
  EnergyResult Whole() { return fixture_.End(whole_); }
  size_t size() const { return all_.size(); }

 private:
  WindowSlot* Begin() { return all_.emplace_back(fixture_.Begin(true)); }
  void Change() {
    if (random_() % 120 == 0) {  // the one that covers is another
      WindowSlot* next = Begin();
      cover_->End(fixture_.engine->Now());
      cover_ = next;
    }
    if (random_() % 50 == 0) open_.push_back(Begin());
    if (random_() % 60 == 0 && !open_.empty()) {
      const size_t which = random_() % open_.size();
      open_[which]->End(fixture_.engine->Now());
      open_.erase(open_.begin() + static_cast<ptrdiff_t>(which));
    }
    for (WindowSlot* one : open_) one->AddTokens(random_() % 12 == 0 ? 1 + random_() % 9 : 0);
  }
  void EndAll() {
    for (WindowSlot* one : open_) one->End(fixture_.engine->Now());
    cover_->End(fixture_.engine->Now());
    whole_->End(fixture_.engine->Now());
    open_.clear();
  }

  Fixture& fixture_;
  std::mt19937& random_;
  WindowSlot *cover_ = nullptr, *whole_ = nullptr;
  std::vector<WindowSlot*> all_, open_;
};

EnergyOptions By(bool tokens) {
  EnergyOptions options;
  options.share = tokens ? Share::kByTokens : Share::kByTime;
  return options;
}

// Boards with different loads, and counters of whole millijoules that are updated every `step` ticks; 1: at
// each read, as their devices state.
class Boards {
 public:
  // `step` 0: they have no counters and report their power.
  Boards(Fixture& fixture, std::mt19937& random, size_t count, int64_t step, uint64_t dwell = 0)
      : step_(step) {
    const int64_t zero = fixture.clock.Now().boot_ns;
    for (size_t i = 0; i < count; ++i) {
      traces_.emplace_back(random, dwell > 0 ? dwell : 8 + random() % 160);
      since_boot_.push_back(static_cast<double>(random() % 1'000'000'000));
      EnergyDevice device;
      device.id = "GPU-" + std::to_string(i);
      device.most_watts = 700;
      device.counter_lag = Duration(step == 1 ? 0 : -1);
      fixture.source->Add(device, [this, i, zero](int64_t ns) {
        const int64_t tick = (ns - zero) / kTickNs;
        EnergyReading reading;
        reading.watts = traces_[i].Watts(tick);
        if (step_ > 0) reading.joules = Reported(i, tick);
        return reading;
      });
    }
  }
  // The sum of the counters at this tick.
  double Counters(int64_t tick) const {
    double sum = 0;
    for (size_t i = 0; i < traces_.size(); ++i) sum += Reported(i, tick);
    return sum;
  }

  double Truth(int64_t from, int64_t to) const {
    double sum = 0;
    for (const Trace& trace : traces_) sum += trace.Between(from, to);
    return sum;
  }

 private:
  double Reported(size_t i, int64_t tick) const {
    return since_boot_[i] + std::floor(traces_[i].Joules(tick / step_ * step_) * 1000) / 1000;
  }

  const int64_t step_;
  std::vector<Trace> traces_;
  std::vector<double> since_boot_;
};

// One to four boards, read at any time; their counters are written as they are read.
RC_GTEST_PROP(Conservation, SharesOfSeveralBoardsAreTheirCounters, (uint32_t seed, bool tokens)) {
  std::mt19937 random(seed);
  Fixture fixture;
  const Boards boards(fixture, random, *rc::gen::inRange<size_t>(1, 5), 1);
  fixture.Start(By(tokens));
  const std::vector<int64_t> reads = AtRandom(random, *rc::gen::inRange(2, 200));
  const int64_t begin = reads[2], end = reads[reads.size() - 3];
  Load load(fixture, random);
  load.Run(reads, begin, end, [](int64_t) {});
  const double counted = boards.Counters(end) - boards.Counters(begin);
  RC_ASSERT(counted > 100);
  RC_ASSERT(load.size() > 20);
  RC_ASSERT(std::abs(load.Sum() - counted) < kMillijoule);
}

// Counters like those of GPUs, updated every 20 to 110 ms: the requests' shares add up to the energy of the
// devices, also by device, and that is within its bound of what they drew.
RC_GTEST_PROP(Conservation, SharesAreWhatCountersThatAreWrittenSlowlyCounted, (uint32_t seed, bool tokens)) {
  std::mt19937 random(seed);
  Fixture fixture;
  constexpr int64_t kRead = 20;  // ticks: 10 ms
  const int64_t step = *rc::gen::inRange<int64_t>(2, 12) * kRead;
  const Boards boards(fixture, random, *rc::gen::inRange<size_t>(1, 5), step);
  fixture.Start(By(tokens));
  const int64_t from = 2 * step, until = kLength / step * step - 2 * step;
  Load load(fixture, random);
  load.Run(Every(kRead), from, until, [](int64_t) {});
  RC_ASSERT(load.size() > 20);
  const EnergyResult whole = load.Whole();
  RC_ASSERT(whole.valid());
  RC_ASSERT(std::abs(load.Sum() - whole.energy_joules) < kMillijoule);
  RC_ASSERT(std::abs(whole.energy_joules - boards.Truth(from, until)) <=
            whole.uncertainty_joules + kMillijoule);
  double by_device = 0;
  for (const EnergyOfDevice& one : whole.by_device) by_device += one.energy_joules;
  RC_ASSERT(std::abs(by_device - whole.energy_joules) < kMillijoule);
}

// Packages and a memory in a tree of RAPL, whose counters of microjoules wrap around.
class Zones {
 public:
  explicit Zones(std::mt19937& random) {
    for (const auto& [folder, name] :
         {std::pair("intel-rapl:0", "package-0"), std::pair("intel-rapl:0:0", "dram"),
          std::pair("intel-rapl:1", "package-1")}) {
      const uint64_t range = 80'000'000 + random() % 60'000'000;  // of some 1,000 J: it wraps several times
      const std::string at = root.path() + "/sys/class/powercap/" + folder + "/";
      std::filesystem::create_directories(at);
      std::ofstream(at + "name") << name << "\n";
      std::ofstream(at + "max_energy_range_uj") << range << "\n";
      zones_.push_back(
          {std::ofstream(at + "energy_uj"), range, random() % range, Trace(random, 8 + random() % 160)});
    }
    Write(0);
  }
  // Over what was there, with as many digits: nothing is truncated, and no disk waited for.
  void Write(int64_t tick) {
    for (Zone& zone : zones_) {
      const uint64_t reported = (zone.begin + Counted(zone, tick)) % zone.range;
      wraps += reported < zone.reported ? 1 : 0;
      zone.reported = reported;
      const std::string digits = std::to_string(reported);
      zone.file.seekp(0);
      zone.file << std::string(12 - digits.size(), '0') << digits << "\n" << std::flush;
    }
  }
  // Without wraps.
  double Counters(int64_t tick) const {
    double sum = 0;
    for (const Zone& zone : zones_) sum += static_cast<double>(Counted(zone, tick)) * 1e-6;
    return sum;
  }

  testing::TempFolder root;
  int wraps = 0;

 private:
  struct Zone {
    std::ofstream file;
    uint64_t range, begin;
    Trace trace;
    uint64_t reported = 0;
  };
  static uint64_t Counted(const Zone& zone, int64_t tick) {
    return static_cast<uint64_t>(zone.trace.Joules(tick) * 1e6);
  }
  std::vector<Zone> zones_;
};

// Through the real reader of RAPL. Its values may be a millisecond old, so one holds half of that before its
// reading.
RC_GTEST_PROP(Conservation, SharesAreTheCountersAlsoWhereTheseWrap, (uint32_t seed, bool tokens)) {
  std::mt19937 random(seed);
  Zones zones(random);
  Fixture fixture;
  fixture.Start(By(tokens), std::make_shared<RaplEnergy>(zones.root.path()));
  const std::vector<int64_t> reads = AtRandom(random, *rc::gen::inRange(60, 200));
  const int64_t from = reads[2], until = reads[reads.size() - 3];
  Load load(fixture, random);
  load.Run(reads, from - 1, until - 1, [&](int64_t tick) { zones.Write(tick); });
  RC_ASSERT(zones.wraps >= 3);
  RC_ASSERT(std::abs(load.Sum() - (zones.Counters(until) - zones.Counters(from))) < kMillijoule);
}

// Requests and windows of 20 to 500 ms that begin and end at any time, with what is true of each.
class Truths {
 public:
  struct One {
    WindowSlot* slot;
    bool shares;
    int64_t begin, end;
    double truth = 0;
  };
  Truths(Fixture& fixture, const Boards& boards, std::mt19937& random)
      : fixture_(fixture), boards_(boards), random_(random) {}

  template <class F>
  void Run(const std::vector<int64_t>& reads, F on_result) {
    auto next = reads.begin();
    for (int64_t tick = 1; next != reads.end(); ++tick) {
      fixture_.clock.Advance(Duration(kTickNs));
      Account(tick);
      if (tick == *next) {
        fixture_.engine->Round(true);
        ++next;
      }
      for (size_t i = 0; i < open_.size();) {
        if (open_[i].end > tick) {
          ++i;
          continue;
        }
        if (random_() % 2 == 0) fixture_.engine->Round(false);  // a reading for the result
        on_result(open_[i], fixture_.End(open_[i].slot));
        open_.erase(open_.begin() + static_cast<ptrdiff_t>(i));
      }
      if (tick > 400 && tick < kLength - 1100 && random_() % 60 == 0 && open_.size() < 16) {
        const bool shares = random_() % 3 != 0;
        const auto length = 40 + static_cast<int64_t>(random_() % 961);
        open_.push_back({fixture_.Begin(shares), shares, tick, tick + length});
      }
    }
  }

 private:
  // The tick that has just passed, in equal parts.
  void Account(int64_t tick) {
    const auto sharing = std::count_if(open_.begin(), open_.end(), [](const One& one) { return one.shares; });
    for (One& one : open_)
      one.truth += boards_.Truth(tick - 1, tick) / (one.shares ? static_cast<double>(sharing) : 1);
  }

  Fixture& fixture_;
  const Boards& boards_;
  std::mt19937& random_;
  std::vector<One> open_;
};

// With counters, of windows and of shares. Where the power between two readings decides the half-width, it is
// an estimate too, so a few are beyond it by a little: 3 of 223,000 were, by 13 % at most, with a counter of
// 3 ms that is read every 2 to 12 ms, and none of 296,000 with counters and readings of all sorts.
TEST(Uncertainty, ACounterBoundsWindowsAndSharesOfSeveralBoards) {
  int within = 0, shares = 0, windows = 0;
  for (uint32_t seed = 0; seed < 120; ++seed) {
    std::mt19937 random(seed);
    Fixture fixture;
    const bool quick = seed % 2 == 0;
    const size_t count = quick ? 1 : 1 + random() % 3;
    const Boards boards(fixture, random, count, quick ? 6 : 1 + static_cast<int64_t>(random() % 219));
    fixture.Start();
    Truths truths(fixture, boards, random);
    const int64_t most = quick ? 20 : 10 + static_cast<int64_t>(random() % 110);
    truths.Run(AtRandom(random, most), [&](const Truths::One& one, const EnergyResult& result) {
      ++(one.shares ? shares : windows);
      ASSERT_TRUE(result.valid());
      ASSERT_EQ(result.method, EnergyMethod::kCounter);
      const double off = std::abs(result.energy_joules - one.truth) - 1e-6;
      within += off <= result.uncertainty_joules ? 1 : 0;
      EXPECT_LE(off, 1.2 * result.uncertainty_joules) << "seed " << seed;
    });
  }
  EXPECT_GT(shares, 5000);
  EXPECT_GT(windows, 2500);
  EXPECT_GE(within, (shares + windows) * 0.9995);
}

// Without, it is an estimate, which 95 of 100 keep: of loads that change every 15 ms as of those that rest
// for a second.
TEST(Uncertainty, IntegralIsWithinItsEstimateIn95Of100Windows) {
  for (const unsigned dwell : {30u, 100u, 400u, 2000u}) {
    int within = 0, all = 0;
    for (uint32_t seed = 0; seed < 40; ++seed) {
      std::mt19937 random(seed);
      Fixture fixture;
      const Boards boards(fixture, random, 1 + seed % 4, 0, dwell);
      fixture.Start();
      Truths truths(fixture, boards, random);
      truths.Run(Every(100), [&](const Truths::One& one, const EnergyResult& result) {
        EXPECT_EQ(result.method, EnergyMethod::kPowerIntegral);
        ++all;
        within += std::abs(result.energy_joules - one.truth) <= result.uncertainty_joules + 1e-6 ? 1 : 0;
      });
    }
    EXPECT_GT(all, 2000);
    EXPECT_GE(within, all * 0.95) << "of " << all << ", levels of " << dwell / 2 << " ms";
  }
}

}  // namespace
}  // namespace gpulens::sdk

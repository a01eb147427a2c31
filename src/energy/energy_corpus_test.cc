// Corpus of simulated counters, loads and windows: the truth is within the stated bound of a window in at
// least 95 of 100 windows of every cell, and where the power is constant the bound is narrow.
//
// GPULENS_PRINT_BOUNDS=FILE writes the tables of docs/performance/energy-bounds.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "energy/energy_curve.h"
#include "energy/time_testing.h"

namespace gpulens::energy {
namespace {

constexpr double kIdleWatts = 60, kBusyWatts = 650, kBoundWatts = 1050;
// Loads repeat after so many milliseconds: a multiple of all their periods.
constexpr int64_t kLoopMs = 22'000;

// A load, its power by millisecond, and its energy up to there.
class CorpusLoad {
 public:
  CorpusLoad(std::string name, const std::function<double(int64_t ms)>& watts)
      : name_(std::move(name)), watts_(kLoopMs), joules_(kLoopMs + 1) {
    for (int64_t ms = 0; ms < kLoopMs; ++ms) {
      const auto i = static_cast<size_t>(ms);
      watts_[i] = watts(ms);
      joules_[i + 1] = joules_[i] + watts_[i] * 1e-3;
    }
  }
  const std::string& name() const { return name_; }
  double Watts(int64_t at_ns) const { return watts_[static_cast<size_t>(at_ns / kMs % kLoopMs)]; }
  double Joules(int64_t at_ns) const {
    const int64_t loop = at_ns / (kLoopMs * kMs), ms = at_ns / kMs % kLoopMs;
    return joules_.back() * static_cast<double>(loop) + joules_[static_cast<size_t>(ms)] +
           watts_[static_cast<size_t>(ms)] * Seconds(at_ns % kMs);
  }

 private:
  std::string name_;
  std::vector<double> watts_, joules_;
};

double Wave(int64_t ms, int64_t period_ms) {
  return std::sin(2 * 3.14159265358979 * static_cast<double>(ms % period_ms) /
                  static_cast<double>(period_ms));
}

std::vector<CorpusLoad> Loads() {
  std::mt19937 random(7);
  std::vector<double> noise(kLoopMs), bursts(kLoopMs, kIdleWatts);
  for (size_t ms = 0; ms < noise.size(); ++ms)
    noise[ms] = ms % 5 == 0 ? 220 + static_cast<double>(random() % 160) : noise[ms - 1];
  for (size_t ms = 500; ms + 1500 < bursts.size(); ms += 900 + random() % 1500) {
    const size_t length = 150 + random() % 700;
    for (size_t i = 0; i < length; ++i, ++ms) bursts[ms] = kBusyWatts;
  }
  std::vector<CorpusLoad> out;
  out.emplace_back("constant", [](int64_t) { return 300.0; });
  out.emplace_back("square 110 ms", [](int64_t ms) { return ms % 110 < 55 ? 150.0 : kBusyWatts; });
  out.emplace_back("square 1 s", [](int64_t ms) { return ms % 1000 < 500 ? 150.0 : kBusyWatts; });
  out.emplace_back("sine 110 ms", [](int64_t ms) { return 400 + 250 * Wave(ms, 110); });
  out.emplace_back("sine 2 s", [](int64_t ms) { return 400 + 250 * Wave(ms, 2000); });
  out.emplace_back("ramp", [](int64_t ms) { return 100 + 0.1 * static_cast<double>(ms % 5500); });
  out.emplace_back("idle and burst", [&](int64_t ms) { return bursts[static_cast<size_t>(ms)]; });
  out.emplace_back("noise", [&](int64_t ms) { return noise[static_cast<size_t>(ms)]; });
  return out;
}

enum class CorpusFault : uint8_t { kNone, kJitter, kReset, kWrap, kFrozen };

struct CorpusBoard {
  std::string name;
  int64_t step_ms = 0;  // 0: no counter
  int64_t lag_ms = 0;
  CorpusFault fault = CorpusFault::kNone;
  int64_t power_mean_ms = 0;  // the power is a mean over so long
};

std::vector<CorpusBoard> CorpusBoards() {
  std::vector<CorpusBoard> out;
  const auto named = [](int64_t step, int64_t lag, const char* more) {
    return std::to_string(step) + " ms, " + std::to_string(lag) + " ms old" + more;
  };
  for (const int64_t step : {20, 50, 100}) {
    for (const int64_t lag : {0, 20, 40, 60, 100}) out.push_back({named(step, lag, ""), step, lag});
  }
  for (const auto& [step, lag] :
       {std::pair<int64_t, int64_t>(20, 40), std::pair<int64_t, int64_t>(100, 20)}) {
    out.push_back({named(step, lag, ", step ±40 %"), step, lag, CorpusFault::kJitter});
    out.push_back({named(step, lag, ", reset every 7 s"), step, lag, CorpusFault::kReset});
    out.push_back({named(step, lag, ", wraps at 2000 J"), step, lag, CorpusFault::kWrap});
    out.push_back({named(step, lag, ", frozen for 1.2 s of 6"), step, lag, CorpusFault::kFrozen});
    out.push_back({named(step, lag, ", power a mean of 1 s"), step, lag, CorpusFault::kNone, 1000});
  }
  out.push_back({"no counter", 0, 0});
  return out;
}

// A board's sensors at a time.
class CorpusSensor {
 public:
  CorpusSensor(const CorpusBoard& board, const CorpusLoad& load, uint32_t seed)
      : board_(board), load_(load), random_(seed) {}

  // Called with rising times.
  SensorReading Read(int64_t at_ns) {
    SensorReading out{.at_ns = at_ns, .took_ns = 300'000};
    out.power_watts = load_.Watts(at_ns);
    if (board_.power_mean_ms > 0) {
      const int64_t from_ns = std::max<int64_t>(0, at_ns - board_.power_mean_ms * kMs);
      out.power_watts =
          (load_.Joules(at_ns) - load_.Joules(from_ns)) / Seconds(std::max(at_ns - from_ns, kMs));
    }
    if (board_.step_ms == 0) return out;
    while (next_write_ns_ <= at_ns) Write();
    out.counter_joules = value_;
    return out;
  }
  // When the counter last fell before `at_ns`; 0: never.
  const std::vector<int64_t>& falls() const { return falls_; }

 private:
  static constexpr int64_t kResetNs = 7000 * kMs, kFreezeNs = 6000 * kMs, kFrozenNs = 1200 * kMs;

  void Write() {
    const int64_t now_ns = next_write_ns_;
    const double jitter =
        board_.fault == CorpusFault::kJitter ? 0.6 + 0.8 * static_cast<double>(random_() % 1000) / 1000 : 1;
    next_write_ns_ += static_cast<int64_t>(static_cast<double>(board_.step_ms * kMs) * jitter);
    if (board_.fault == CorpusFault::kFrozen && now_ns % kFreezeNs < kFrozenNs && now_ns > kFreezeNs) return;
    double joules = load_.Joules(std::max<int64_t>(0, now_ns - board_.lag_ms * kMs));
    if (board_.fault == CorpusFault::kReset) {
      const int64_t since_ns = now_ns / kResetNs * kResetNs;
      joules -= load_.Joules(std::max<int64_t>(0, since_ns - board_.lag_ms * kMs));
    }
    if (board_.fault == CorpusFault::kWrap) joules = std::fmod(joules, 2000);
    joules = std::floor(joules * 1000) / 1000;
    if (joules < value_) falls_.push_back(now_ns);
    value_ = joules;
  }

  const CorpusBoard& board_;
  const CorpusLoad& load_;
  std::mt19937 random_;
  double value_ = 0;
  int64_t next_write_ns_ = 3 * kMs;
  std::vector<int64_t> falls_;
};

struct CorpusCell {
  int windows = 0, valid = 0, inside = 0;
  int unknown = 0;               // invalid, though nothing was wrong
  std::vector<double> relative;  // half-widths over the truth
  double worst = 0;              // error over the half-width

  double Inside() const { return valid > 0 ? static_cast<double>(inside) / valid : 1; }
  double Median() {
    if (relative.empty()) return 0;
    const auto middle = relative.begin() + static_cast<ptrdiff_t>(relative.size() / 2);
    std::nth_element(relative.begin(), middle, relative.end());
    return *middle;
  }
};

// Reads as the sampler does: every 2 ms while it learns, every 50 ms then, and for up to 20 ms after the end
// of a window.
class CorpusReader {
 public:
  CorpusReader(const CorpusBoard& board, const CorpusLoad& load, uint32_t seed, int64_t begin_ns)
      : load_(load), sensor_(board, load, seed), now_ns_(begin_ns), tick_ns_(begin_ns) {
    Read(now_ns_);
  }
  void ReadUntil(int64_t end_ns) {
    for (;;) {
      const bool learns = learning_reads_ < 300 && (curve_.learning() || learning_reads_ < 5);
      const int64_t next_ns = learns ? now_ns_ + 2 * kMs : tick_ns_ + 50 * kMs;
      if (next_ns > end_ns) break;
      ++learning_reads_;
      tick_ns_ = std::max(now_ns_, next_ns);
      Read(tick_ns_);
    }
    now_ns_ = std::max(now_ns_, end_ns);
  }
  void Close(int64_t end_ns) {
    constexpr int64_t kCloseNs = 2'300'000, kWaitNs = 20 * kMs;
    Read(end_ns + 100'000);
    while (now_ns_ < end_ns + kWaitNs && curve_.settled_ns().value_or(0) < end_ns) Read(now_ns_ + kCloseNs);
  }
  void Query(int64_t begin_ns, int64_t end_ns, CorpusCell& out) const {
    const EnergySpan span = curve_.Between(begin_ns, end_ns);
    ++out.windows;
    const bool wrong = std::ranges::any_of(sensor_.falls(), [&](int64_t at_ns) {
      return at_ns > begin_ns - 300 * kMs && at_ns < end_ns + 500 * kMs;
    });
    if (!span.valid()) {
      out.unknown += wrong ? 0 : 1;
      return;
    }
    ++out.valid;
    const double truth = load_.Joules(end_ns) - load_.Joules(begin_ns);
    const double error = std::abs(span.joules - truth);
    out.inside += error <= span.half_width_joules + 1e-6 ? 1 : 0;
    out.relative.push_back(span.half_width_joules / truth);
    out.worst = std::max(out.worst, error / truth);
  }
  int64_t now_ns() const { return now_ns_; }

 private:
  void Read(int64_t at_ns) {
    curve_.Add(sensor_.Read(at_ns));
    now_ns_ = at_ns;
  }

  const CorpusLoad& load_;
  CorpusSensor sensor_;
  EnergyCurve curve_{{.most_watts = kBoundWatts, .counter_lag_ns = EnergyCurve::kLagUnknown}};
  int64_t now_ns_, tick_ns_;
  int learning_reads_ = 0;
};

// Each window is queried at once and a second later.
CorpusCell Measure(const CorpusBoard& board, const CorpusLoad& load, int64_t length_ms, uint32_t seed) {
  std::mt19937 random(seed);
  CorpusReader reader(board, load, seed, 3 * kMs);
  CorpusCell out;
  reader.ReadUntil(2000 * kMs);
  const int windows = length_ms >= 10'000 ? 24 : length_ms >= 1000 ? 60 : 100;
  std::vector<std::pair<int64_t, int64_t>> later;
  for (int i = 0; i < windows; ++i) {
    reader.ReadUntil(reader.now_ns() + static_cast<int64_t>(random() % 300'000'000));
    const int64_t begin_ns = reader.now_ns(), end_ns = begin_ns + length_ms * kMs;
    reader.ReadUntil(end_ns);
    reader.Close(end_ns);
    reader.Query(begin_ns, end_ns, out);
    later.emplace_back(begin_ns, end_ns);
    while (!later.empty() && later.front().second < reader.now_ns() - 1000 * kMs) {
      reader.Query(later.front().first, later.front().second, out);
      later.erase(later.begin());
    }
  }
  return out;
}

// Windows in the first second of a process, each of another one, at any time of the load.
CorpusCell MeasureAtStart(const CorpusBoard& board, const CorpusLoad& load, int64_t length_ms,
                          uint32_t seed) {
  std::mt19937 random(seed);
  CorpusCell out;
  for (uint32_t i = 0; i < 100; ++i) {
    const auto start_ns = static_cast<int64_t>(random() % 20'000) * kMs + 1500 * kMs;
    CorpusReader reader(board, load, seed + i, start_ns);
    const int64_t begin_ns = start_ns + static_cast<int64_t>(i % 4 == 0 ? 1000 : random() % 1'000'000'000);
    const int64_t end_ns = begin_ns + length_ms * kMs;
    reader.ReadUntil(end_ns);
    reader.Close(end_ns);
    reader.Query(begin_ns, end_ns, out);
  }
  return out;
}

constexpr int64_t kLengthsMs[] = {20, 50, 100, 200, 500, 1000, 10'000};

std::string LengthText(int64_t ms) {
  return ms < 1000 ? std::to_string(ms) + " ms" : std::to_string(ms / 1000) + " s";
}

TEST(EnergyCorpus, TheTruthIsWithinTheBoundAndConstantPowerIsNarrow) {
  const char* const print = std::getenv("GPULENS_PRINT_BOUNDS");
  std::string tables[2];
  std::string head = "| ";
  for (const int64_t length : kLengthsMs) head += "| " + LengthText(length) + " ";
  head += "|\n|---";
  for (size_t i = 0; i < std::size(kLengthsMs); ++i) head += "|---";
  tables[0] = tables[1] = head + "|\n";
  const std::vector<CorpusLoad> loads = Loads();
  std::vector<std::vector<double>> widths(loads.size() * std::size(kLengthsMs));
  std::vector<double> least(widths.size(), 1);
  char text[96];
  for (const CorpusBoard& board : CorpusBoards()) {
    tables[0] += "| " + board.name;
    std::vector<double> inside(std::size(kLengthsMs), 1), constant(std::size(kLengthsMs));
    for (size_t l = 0; l < loads.size(); ++l) {
      for (size_t w = 0; w < std::size(kLengthsMs); ++w) {
        const auto seed = static_cast<uint32_t>(1000 * l + w);
        CorpusCell cell = Measure(board, loads[l], kLengthsMs[w], seed);
        const std::string where = board.name + "; " + loads[l].name() + "; " + LengthText(kLengthsMs[w]);
        EXPECT_GE(cell.Inside(), 0.95) << where << ", error up to " << cell.worst;
        EXPECT_EQ(cell.unknown, 0) << where;
        if (kLengthsMs[w] <= 500) {
          CorpusCell fresh = MeasureAtStart(board, loads[l], kLengthsMs[w], seed);
          EXPECT_GE(fresh.Inside(), board.step_ms > 0 ? 0.95 : 0.85)
              << where << ", at the start, error up to " << fresh.worst;
          if (l == 0 && kLengthsMs[w] >= 200) {
            EXPECT_LE(fresh.Median(), 0.10) << where << ", at the start";
          }
        }
        if (l == 0 && kLengthsMs[w] >= 200) {
          EXPECT_LE(cell.Median(), 0.05) << where;
        }
        if (l == 0) {
          EXPECT_LE(cell.Median(), 0.15) << where;
        }
        inside[w] = std::min(inside[w], cell.Inside());
        if (l == 0) constant[w] = cell.Median();
        if (board.fault == CorpusFault::kNone && board.power_mean_ms == 0 && board.step_ms > 0) {
          const size_t i = l * std::size(kLengthsMs) + w;
          least[i] = std::min(least[i], cell.Inside());
          widths[i].push_back(cell.Median());
        }
      }
    }
    for (size_t w = 0; w < inside.size(); ++w) {
      if (constant[w] > 0 || board.step_ms == 0)
        std::snprintf(text, sizeof text, " | %.0f %%, ±%.1f %%", std::floor(inside[w] * 100),
                      constant[w] * 100);
      else std::snprintf(text, sizeof text, " | none valid");
      tables[0] += text;
    }
    tables[0] += " |\n";
  }
  for (size_t l = 0; l < loads.size(); ++l) {
    tables[1] += "| " + loads[l].name();
    for (size_t w = 0; w < std::size(kLengthsMs); ++w) {
      std::vector<double>& all = widths[l * std::size(kLengthsMs) + w];
      std::sort(all.begin(), all.end());
      std::snprintf(text, sizeof text, " | %.0f %%, ±%.0f %%",
                    std::floor(least[l * std::size(kLengthsMs) + w] * 100), all[all.size() / 2] * 100);
      tables[1] += text;
    }
    tables[1] += " |\n";
  }
  if (!print) return;
  std::FILE* const file = std::fopen(print, "w");
  ASSERT_NE(file, nullptr) << print;
  std::fputs((tables[0] + "\n" + tables[1]).c_str(), file);
  std::fclose(file);
}

}  // namespace
}  // namespace gpulens::energy

// The energy curve on the readings of a real H100, taken every 10 ms: testdata/h100_curve.csv.

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/files.h"
#include "energy/energy_curve.h"

namespace gpulens::energy {
namespace {

constexpr int64_t kMs = 1'000'000;

struct BoardReading {
  int64_t queried_ns = 0, back_ns = 0;
  double joules = 0, watts = 0;
};

std::vector<BoardReading> BoardReadings() {
  const auto text = ReadFile(GPULENS_SOURCE_DIR "/src/energy/testdata/h100_curve.csv");
  std::vector<BoardReading> readings;
  if (!text.ok()) return readings;
  std::string_view rest = *text;
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.empty() || line.front() == '#') continue;
    int64_t cells[4] = {};
    const char* at = line.data();
    for (int64_t& cell : cells) {
      at = std::from_chars(at, line.data() + line.size(), cell).ptr;
      if (at < line.data() + line.size()) ++at;
    }
    readings.push_back({cells[0] * 1000, cells[1] * 1000, static_cast<double>(cells[2]) / 1e3,
                        static_cast<double>(cells[3]) / 1e3});
  }
  return readings;
}

// The counter between its updates, as a line; each was written between two readings.
class CounterLine {
 public:
  explicit CounterLine(const std::vector<BoardReading>& readings) {
    for (size_t i = 1; i < readings.size(); ++i) {
      if (readings[i].joules != readings[i - 1].joules)
        points_.push_back({(readings[i - 1].back_ns + readings[i].back_ns) / 2, readings[i].joules});
    }
  }
  double At(int64_t at_ns) const {
    const auto after = std::ranges::upper_bound(points_, at_ns, {}, &Point::at_ns);
    if (after == points_.begin() || after == points_.end()) return kNotMeasured;
    const Point &late = *after, &early = *std::prev(after);
    const double part =
        static_cast<double>(at_ns - early.at_ns) / static_cast<double>(late.at_ns - early.at_ns);
    return early.joules + part * (late.joules - early.joules);
  }

 private:
  struct Point {
    int64_t at_ns;
    double joules;
  };
  std::vector<Point> points_;
};

// The counter of this board is written each 100 ms and the instant power wavers by 5 % under a steady load,
// so its bounds are wider than those of simulated boards (docs/performance/energy-bounds.md).
TEST(RealBoard, TheCounterIsWithinTheBounds) {
  const std::vector<BoardReading> readings = BoardReadings();
  ASSERT_GT(readings.size(), 3000U);
  const CounterLine line(readings);
  for (int64_t every_ms : {20, 50}) {
    EnergyCurve curve({.readings = 4000, .most_watts = 700, .counter_lag_ns = EnergyCurve::kLagUnknown});
    int64_t next_ns = 0;
    for (const BoardReading& reading : readings) {
      if (reading.back_ns < next_ns) continue;
      next_ns = reading.back_ns + every_ms * kMs;
      curve.Add({.at_ns = reading.back_ns,
                 .counter_joules = reading.joules,
                 .power_watts = reading.watts,
                 .took_ns = reading.back_ns - reading.queried_ns});
    }
    for (int64_t length_ms : {50, 100, 500, 2000}) {
      int windows = 0, within = 0;
      std::vector<double> widths;
      for (int64_t begin = 3000; begin + length_ms < 31'000; begin += 37) {
        const EnergySpan span = curve.Between(begin * kMs, (begin + length_ms) * kMs);
        const double truth = line.At((begin + length_ms) * kMs) - line.At(begin * kMs);
        if (!span.valid() || !IsKnown(truth)) continue;
        ++windows;
        within += std::abs(span.joules - truth) <= span.half_width_joules ? 1 : 0;
        if (begin > 9000 && begin + length_ms < 15'500)
          widths.push_back(span.half_width_joules / span.joules);
      }
      ASSERT_GT(windows, 600);
      ASSERT_FALSE(widths.empty());
      std::ranges::sort(widths);
      const double median = widths[widths.size() / 2];
      std::printf("read each %lld ms, windows of %lld ms: %.1f %% within, at a steady load +- %.1f %%\n",
                  static_cast<long long>(every_ms), static_cast<long long>(length_ms),
                  100.0 * within / windows, 100 * median);
      EXPECT_GE(within, windows * 95 / 100) << every_ms << " " << length_ms;
    }
  }
}

}  // namespace
}  // namespace gpulens::energy

// Whatever sources do, the history returns what a list of all samples has.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <random>

#include "catalog/host.h"
#include "history/history_testing.h"

namespace gpulens {
namespace {

using history_testing::FakeSource;
using history_testing::Gpu;
using history_testing::MakeTick;
using history_testing::Value;

std::mt19937_64 random_numbers;

constexpr const MetricDesc* kRows[] = {&kGpuPowerDraw,  &kGpuEnergyConsumption,
                                       &kGpuMemoryUsed, &kGpuThrottleTime,
                                       &kGpuPcieIo,     &kGpuTemperature};

// A series as the source has it, and the samples that it should have in the history.
struct Model {
  const MetricDesc* row = nullptr;
  int64_t index = 0;
  Series series;
  bool declared = false, restarted = false;
  double last = 0;  // also of absent times: a counter goes on
  double shown = kNotMeasured;
  Value read;                         // in the latest frame
  std::vector<SeriesSample> samples;  // by the clock that never jumps
};

struct Node {
  Node(std::string name, uint64_t every) : source(name), period(every) {}
  FakeSource source;
  uint64_t period;
  std::vector<Model> models;
  bool overdue = false, left = true;
  int64_t last_ms = 0, read_ms = 0;
};

// A number of [0, end), the same ones for the same seed.
int64_t Below(int64_t end) { return static_cast<int64_t>(random_numbers() % static_cast<uint64_t>(end)); }

double Draw(const Model& model) {
  const int64_t kind = Below(10);
  if (kind < 4) return model.last;
  const bool counter = IsMonotonic(model.row->kind), whole = model.row->number == Number::kInt;
  double step = 0;
  if (kind < 6) step = static_cast<double>(Below(100));
  else if (kind < 8) step = static_cast<double>(Below(int64_t{1} << 40));
  else step = static_cast<double>(Below(int64_t{1} << 50)) * 1e-13;
  if (whole) step = std::floor(step);
  if (counter) return model.last + step;
  return Below(2) == 0 ? step : model.last - step;
}

void Expect(Node& node, Model& model, int64_t ms, const Value& value) {
  const bool absent = std::isnan(value.number);
  if (absent && std::isnan(model.shown)) return;
  SeriesSample sample{ms, value.number,
                      absent        ? SeriesSample::kGap
                      : value.stale ? SeriesSample::kStale
                                    : SeriesSample::kOk,
                      false};
  if (!absent) {
    sample.reset = model.restarted || (IsMonotonic(model.row->kind) && value.number < model.shown);
    model.restarted = false;
  }
  model.shown = value.number;
  model.samples.push_back(sample);
  node.last_ms = ms;
}

// The last increase that was not 0, up to a sample, since a gap or reset; 0: none.
double LastIncrease(const std::vector<SeriesSample>& all, ptrdiff_t at) {
  for (; at > 0; --at) {
    const SeriesSample &now = all[static_cast<size_t>(at)], &before = all[static_cast<size_t>(at - 1)];
    if (now.reset || before.mark == SeriesSample::kGap) return 0;
    if (now.value > before.value) return now.value - before.value;
  }
  return 0;
}

// The largest increase up to a sample, since a gap or reset.
double LargestIncrease(const std::vector<SeriesSample>& all, ptrdiff_t at) {
  double largest = 0;
  for (; at > 0; --at) {
    const SeriesSample &now = all[static_cast<size_t>(at)], &before = all[static_cast<size_t>(at - 1)];
    if (now.reset || before.mark == SeriesSample::kGap) break;
    largest = std::max(largest, now.value - before.value);
  }
  return largest;
}

void Compare(const std::vector<SeriesSample>& all, const std::vector<SeriesSample>& got, bool counter,
             int64_t from, int64_t to, int64_t wall) {
  auto first =
      std::ranges::find_if(all, [&](const SeriesSample& sample) { return sample.unix_ms + wall >= from; });
  if (first != all.begin() && (first - 1)->mark != SeriesSample::kGap) --first;
  auto last =
      std::ranges::find_if(all, [&](const SeriesSample& sample) { return sample.unix_ms + wall > to; });
  std::vector<SeriesSample> want;
  if (first < last) want.assign(first, last);
  RC_ASSERT(got.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    RC_ASSERT(got[i].unix_ms == want[i].unix_ms + wall);
    RC_ASSERT(got[i].mark == want[i].mark);
    if (i > 0) RC_ASSERT(got[i].reset == want[i].reset);
    if (want[i].mark == SeriesSample::kGap) continue;
    const double size = std::abs(want[i].value);
    const auto of_increase = [size](double increase) {
      return increase > 0 ? std::max(increase * 1.01e-6, size * 4e-16) : size * 5.1e-13;
    };
    double slack = size * 5.1e-8;
    if (counter) {
      const ptrdiff_t at = first - all.begin() + static_cast<ptrdiff_t>(i);
      slack = of_increase(LastIncrease(all, at));
      if (i > 0 && want[i - 1].mark != SeriesSample::kGap && !want[i].reset)
        RC_ASSERT(got[i].value >= got[i - 1].value);
      // It waits for the counter to pass what its first value or a larger increase was rounded up to.
      if (got[i].value > want[i].value)
        slack = std::max({slack, of_increase(LargestIncrease(all, at)), of_increase(0)});
    }
    RC_ASSERT(std::abs(got[i].value - want[i].value) <= slack);
  }
}

void RunOneLife(uint64_t seed) {
  random_numbers.seed(seed);
  History history({.window = std::chrono::hours(24), .memory = 1 << 20});
  history.Begin();
  ManualClock clock;
  Node nodes[] = {{"nvidia", 1}, {"cost", 1}, {"targets/chat", 5}};
  int64_t index = 0, shift = 0, wall = 0;
  const uint64_t ticks = static_cast<uint64_t>(1 + Below(200));
  for (uint64_t tick = 1; tick <= ticks; ++tick) {
    if (Below(40) == 0) shift += Below(200'000) - 100'000;
    // Now and then the machine sleeps for so long that a segment ends.
    clock.Advance(Below(40) == 0 ? Duration(std::chrono::minutes(100)) : Duration(std::chrono::seconds(1)));
    const auto now = [&](int64_t after_ms) {
      Instant at = clock.Now() + std::chrono::milliseconds(after_ms);
      at.unix_ns += shift * 1'000'000;
      return at;
    };
    auto snapshot = MakeTick(tick, now(100));
    const int64_t closed = snapshot->closed_at.boot_ns / 1'000'000;
    const int64_t offset = snapshot->closed_at.unix_ns / 1'000'000 - closed;
    if (tick == 1 || std::abs(offset - wall) > 100) wall = offset;
    for (Node& node : nodes) {
      const bool here = Below(30) != 0;
      const bool reads = here && (tick % node.period == 0 || node.models.empty());
      if (!here || (node.models.empty() && !reads)) {
        for (Model& model : node.models) Expect(node, model, std::max(closed, node.last_ms), {});
        node.left = true;
        continue;
      }
      if (reads) {
        for (Model& model : node.models) {
          const int64_t what = Below(40);
          if (what == 0 && model.declared) {
            node.source.Retire(model.series);
            model.declared = false;
          } else if (what == 1 && model.declared && IsMonotonic(model.row->kind)) {
            node.source.Restart(model.series, static_cast<int64_t>(tick));
            model.last = 0;
            model.restarted = true;
          } else if (what < 10 && !model.declared) {
            model.series = node.source.Declare(*model.row, Gpu(model.index), static_cast<int64_t>(tick));
            model.declared = true;
            model.restarted = IsMonotonic(model.row->kind);
          }
        }
        while (node.models.empty() || Below(10) == 0) {
          Model model;
          model.row = kRows[static_cast<size_t>(Below(std::size(kRows)))];
          model.index = index++;
          model.series = node.source.Declare(*model.row, Gpu(model.index), static_cast<int64_t>(tick));
          model.declared = true;
          node.models.push_back(model);
        }
        const int64_t read_at = now(Below(60) - 30).boot_ns / 1'000'000;
        const int64_t ms = std::max(read_at, node.last_ms);
        std::vector<std::pair<Series, Value>> values;
        for (Model& model : node.models) {
          Value value;
          if (model.declared && Below(12) != 0) {
            model.last = value.number = Draw(model);
            value.stale = Below(12) == 0;
            values.push_back({model.series, value});
          }
          model.read = value;
          Expect(node, model, ms, value);
        }
        node.source.Read({read_at * 1'000'000, 0}, values);
        node.read_ms = read_at;
        node.overdue = false;
      } else if (node.left) {
        // A frame that was away and comes again is taken as read again.
        const int64_t ms = std::max(node.read_ms, node.last_ms);
        for (Model& model : node.models) Expect(node, model, ms, model.read);
        node.overdue = false;
      }
      node.left = false;
      const bool overdue = !reads && Below(10) == 0;
      node.source.AddTo(*snapshot, overdue);
      if (overdue && !node.overdue) {
        node.overdue = true;
        for (Model& model : node.models) {
          if (!std::isnan(model.shown))
            Expect(node, model, std::max(closed, node.last_ms), {model.shown, true});
        }
      }
    }
    history.Observe(*snapshot);
  }
  const int64_t last = clock.Now().boot_ns / 1'000'000 + wall;
  for (int round = 0; round < 4; ++round) {
    int64_t from = 0, to = int64_t{1} << 50;
    if (round > 0) {
      from = last - Below(300'000);
      to = from + Below(300'000);
    }
    for (const Node& node : nodes) {
      for (const Model& model : node.models) {
        const std::string selector =
            std::string(model.row->name) + "{gpu.index=\"" + std::to_string(model.index) + "\"}";
        Compare(model.samples, history_testing::SamplesOf(history, selector, from, to),
                IsMonotonic(model.row->kind), from, to, wall);
      }
    }
  }
}

TEST(HistoryProperty, ReturnsWhatAListOfAllSamplesHas) {
  ASSERT_TRUE(rc::check("the history equals a list", RunOneLife));
}

}  // namespace
}  // namespace gpulens

// Analyzer of what people look at first: quantiles of launches, collectives and data waits in the last
// minute, for the names of the zernel API. Native names have the histograms themselves, which receivers can
// add up; of launches the quantiles, too, for those that keep one number of a reading: the page.
//
// Sum and count are of all that was observed. Of launches that were not all timed the count is that of
// cuda.launches, and the sum is that of the timed ones, scaled to it.

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "catalog/cuda.h"
#include "catalog/nccl.h"
#include "catalog/phases.h"
#include "core/series_finder.h"
#include "plugins/analyzers/recent_latency/latency_window.h"
#include "plugins/plugin.h"

namespace gpulens {
namespace {

using recent_latency::Growing;
using recent_latency::LatencyWindow;
using recent_latency::QuantileOf;

constexpr Duration kWindow = std::chrono::seconds(60);
constexpr double kQuantiles[] = {0.5, 0.99};
constexpr std::string_view kQuantileNames[] = {"p50", "p99"};

// The operations of the zernel API by NCCL's names; others are its "unknown".
std::string_view OperationOf(std::string_view type) noexcept {
  constexpr std::pair<std::string_view, std::string_view> kOperations[] = {
      {"AllReduce", "all_reduce"},
      {"Broadcast", "broadcast"},
      {"AllGather", "all_gather"},
      {"ReduceScatter", "reduce_scatter"}};
  for (const auto& [theirs, operation] : kOperations) {
    if (type == theirs) return operation;
  }
  return "unknown";
}

// The better of several sources of data waits.
int RankOfSource(std::string_view source) noexcept {
  constexpr std::string_view kBest[] = {"sdk", "scope", "waker"};
  return static_cast<int>(std::find(std::begin(kBest), std::end(kBest), source) - std::begin(kBest));
}

// One summary, by pid or operation.
struct Output {
  LatencyWindow window{kWindow};
  double sum = 0, count = 0;
  // Launches that were counted, and those of them for which no timed one has come yet.
  bool counted = false;
  double untimed = 0;
  Buckets now;                        // of this tick
  double old_sum = 0, old_count = 0;  // the same, of before the window
  double launches = 0;
  EntityRef entity;
  Series series;
  std::array<Series, std::size(kQuantiles)> quantiles;
  uint64_t tick = 0;
};

class Family {
 public:
  // `all`: the summary over all outputs; `quantile`: a gauge of each quantile. Both may be null.
  Family(const MetricDesc& summary, const MetricDesc* all, const MetricDesc* quantile)
      : summary_(summary), all_desc_(all), quantile_desc_(quantile) {}

  Output& At(const std::string& key, const SeriesInfo& info, uint64_t tick) {
    Output& output = outputs_[key];
    if (!output.entity) output.entity = info.entity;
    output.tick = tick;
    return output;
  }
  // Writes all; those of processes that are not seen any more end.
  void Write(uint64_t tick, int64_t now_ns, bool by_operation, FrameWriter& out) {
    Output* all = all_desc_ ? &all_ : nullptr;
    std::erase_if(outputs_, [&](const auto& item) {
      const bool gone = item.second.tick != tick && !by_operation;
      if (!gone) return false;
      out.table().Retire(item.second.series);
      for (const Series& series : item.second.quantiles) {
        if (series) out.table().Retire(series);
      }
      return true;
    });
    for (auto& [key, output] : outputs_) {
      const double count = output.now.count + std::exchange(output.old_count, 0);
      const double sum = output.now.sum.value_or(0) + std::exchange(output.old_sum, 0);
      const double launches = std::exchange(output.launches, 0);
      if (all) {
        all->window.Add(output.now, now_ns);
        Fold(*all, count, sum, launches, output.counted);
      }
      output.window.Add(output.now, now_ns);
      Fold(output, count, sum, launches, output.counted);
      output.now = {};
      const AttributeSet extra =
          by_operation ? AttributeSet({{"nccl.collective.type", std::string_view(key)}}) : AttributeSet();
      Put(output, summary_, by_operation ? EntityRef() : output.entity, extra, now_ns, out);
      if (quantile_desc_) PutQuantiles(output, *quantile_desc_, out);
    }
    if (all && all->count > 0) Put(*all, *all_desc_, {}, {}, now_ns, out);
  }
  // `recent`: it was observed in the window. What was before this agent is in the totals alone.
  static void AddGrowth(Output& output, const Buckets& growth, bool recent) {
    if (recent) {
      const bool none = output.now.bounds.empty() && output.now.count == 0;
      output.now = none ? growth : Merge(output.now, growth);
    } else {
      output.old_count += growth.count;
      output.old_sum += growth.sum.value_or(0);
    }
  }
  static void AddLaunches(Output& output, double growth) {
    output.counted = true;
    output.launches += growth;
  }

 private:
  static void Fold(Output& output, double count, double sum, double launches, bool counted) {
    if (!counted) {
      output.count += count;
      output.sum += sum;
      return;
    }
    output.count += launches;
    output.untimed += launches;
    if (count <= 0) return;
    // Never less than what was timed.
    output.sum += sum * std::max(1.0, output.untimed / count);
    output.untimed = 0;
  }
  static void Put(Output& output, const MetricDesc& desc, const EntityRef& entity, const AttributeSet& extra,
                  int64_t now_ns, FrameWriter& out) {
    if (!output.series) {
      auto shape = MakeRef<Shape>();
      shape->bounds.assign(std::begin(kQuantiles), std::end(kQuantiles));
      output.series = out.table().Declare(desc, entity, extra, {.shape = shape});
    }
    output.window.Expire(now_ns);
    std::span<Cell> cells = out.Cells(output.series);
    if (cells.size() != std::size(kQuantiles) + 2) return;
    const Buckets recent = output.window.Recent();
    for (size_t i = 0; i < std::size(kQuantiles); ++i) cells[i].d = QuantileOf(recent, kQuantiles[i]);
    cells[std::size(kQuantiles)].d = output.sum;
    cells[std::size(kQuantiles) + 1].d = output.count;
  }

  // After Put.
  static void PutQuantiles(Output& output, const MetricDesc& desc, FrameWriter& out) {
    const Buckets recent = output.window.Recent();
    for (size_t i = 0; i < std::size(kQuantiles); ++i) {
      const double value = QuantileOf(recent, kQuantiles[i]);
      if (std::isfinite(value))
        out.DeclareAndSet(output.quantiles[i], desc, output.entity, {{"launch.quantile", kQuantileNames[i]}},
                          value);
      else if (output.quantiles[i]) out.Clear(output.quantiles[i]);
    }
  }

  const MetricDesc& summary_;
  const MetricDesc* const all_desc_;
  const MetricDesc* const quantile_desc_;
  std::map<std::string, Output> outputs_;
  Output all_;
};

class RecentLatency final : public Analyzer {
 public:
  Status Analyze(const Snapshot& snapshot, FrameWriter& out) override {
    ++tick_;
    const int64_t now = snapshot.closed_at.boot_ns, now_unix = snapshot.closed_at.unix_ns;
    ReadLaunches(snapshot, now_unix);
    ReadWaits(snapshot, now_unix);
    durations_.ForEach(snapshot, [&](const SeriesInfo& info, double, const Frame& frame, uint32_t) {
      const std::string type = info.attributes.Text("nccl.collective.type");
      Add(collectives_, std::string(OperationOf(type)), info, frame, now_unix);
    });
    launches_.Write(tick_, now, false, out);
    waits_.Write(tick_, now, false, out);
    collectives_.Write(tick_, now, true, out);
    std::erase_if(growing_, [&](const auto& item) { return item.second.tick != tick_; });
    std::erase_if(counters_, [&](const auto& item) { return item.second.tick != tick_; });
    return Ok();
  }

 private:
  using Key = std::pair<std::string, uint64_t>;  // source, hash of the attributes
  struct Counter {
    double value = 0;
    uint64_t tick = 0;
  };

  // Whether all that a series has at its first sight was observed in the window.
  bool IsRecent(const SeriesInfo& info, int64_t now_unix) const {
    if (info.start_known) return now_unix - info.start_unix_ns < kWindow.count();
    return tick_ > 1;
  }

  // The growth of a histogram since the last tick; nothing where it was read in this one.
  struct Step {
    Buckets growth;
    bool recent = false;
  };
  std::optional<Step> StepOf(const SeriesInfo& info, const Frame& frame, int64_t now_unix) {
    if (!info.shape) return std::nullopt;
    const uint64_t identity = info.attributes.hash() ^ reinterpret_cast<uintptr_t>(info.desc);
    Growing& growing = growing_[{frame.source, identity}];
    if (std::exchange(growing.tick, tick_) == tick_) return std::nullopt;
    CopyNumbers({frame.cells.data() + info.first_cell, info.cells()}, info.desc->number, numbers_);
    Buckets buckets = ReadBuckets(*info.shape, numbers_);
    Step step;
    step.recent = growing.known() || IsRecent(info, now_unix);
    step.growth = growing.Next(std::move(buckets));
    return step;
  }

  void Add(Family& family, const std::string& key, const SeriesInfo& info, const Frame& frame,
           int64_t now_unix) {
    Output& output = family.At(key, info, tick_);
    if (auto step = StepOf(info, frame, now_unix)) Family::AddGrowth(output, step->growth, step->recent);
  }

  void ReadLaunches(const Snapshot& snapshot, int64_t now_unix) {
    launches_counted_.ForEach(
        snapshot, [&](const SeriesInfo& info, double value, const Frame& frame, uint32_t) {
          Output& output = launches_.At(info.attributes.Text("process.pid"), info, tick_);
          Counter& counter = counters_[{frame.source, info.attributes.hash()}];
          if (std::exchange(counter.tick, tick_) == tick_) return;
          const double growth = value >= counter.value ? value - counter.value : value;
          counter.value = value;
          Family::AddLaunches(output, growth);
        });
    enqueues_.ForEach(snapshot, [&](const SeriesInfo& info, double, const Frame& frame, uint32_t) {
      Add(launches_, info.attributes.Text("process.pid"), info, frame, now_unix);
    });
  }

  // Of several sources of a process the best counts; the others are followed, so that a change counts nothing
  // twice.
  void ReadWaits(const Snapshot& snapshot, int64_t now_unix) {
    std::map<std::string, int> best;
    data_waits_.ForEach(snapshot, [&](const SeriesInfo& info, double, const Frame&, uint32_t) {
      const int rank = RankOfSource(info.attributes.Text("dataloader.source"));
      auto [at, added] = best.try_emplace(info.attributes.Text("process.pid"), rank);
      at->second = std::min(at->second, rank);
    });
    data_waits_.ForEach(snapshot, [&](const SeriesInfo& info, double, const Frame& frame, uint32_t) {
      const std::string pid = info.attributes.Text("process.pid");
      const bool is_best = RankOfSource(info.attributes.Text("dataloader.source")) == best[pid];
      if (is_best) Add(waits_, pid, info, frame, now_unix);
      else static_cast<void>(StepOf(info, frame, now_unix));
    });
  }

  uint64_t tick_ = 0;
  std::vector<double> numbers_;
  std::map<Key, Growing> growing_;
  std::map<Key, Counter> counters_;
  Family launches_{kRecentLaunches, &kRecentAllLaunches, &kRecentLaunchLatency};
  Family waits_{kRecentDataWaits, &kRecentAllDataWaits, nullptr};
  Family collectives_{kRecentCollectives, nullptr, nullptr};
  SeriesFinder launches_counted_{kCudaLaunches}, enqueues_{kCudaLaunchEnqueueDuration},
      data_waits_{kDataloaderWaitDuration}, durations_{kNcclCollectiveDuration};
};

Result<std::unique_ptr<Analyzer>> Create(const Config&, Env&) {
  return std::unique_ptr<Analyzer>(std::make_unique<RecentLatency>());
}

}  // namespace

extern const AnalyzerSpec recent_latency_analyzer;
const AnalyzerSpec recent_latency_analyzer{
    .name = "recent_latency",
    .help =
        "Quantiles of launches, collectives and data waits in the last minute, for the names of zernel and "
        "the page.",
    .metrics = kRecentRows,
    .create = &Create};

}  // namespace gpulens

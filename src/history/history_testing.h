// Sources for tests of the history: frames with any values, without the rules of a writer.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "catalog/gpu.h"
#include "core/frame.h"
#include "core/series_table.h"
#include "history/history.h"

namespace gpulens::history_testing {

struct Value {
  double number = kNotMeasured;  // not a number: absent
  bool stale = false;
};

class FakeSource {
 public:
  explicit FakeSource(std::string name, Duration period = std::chrono::seconds(1))
      : name_(std::move(name)), period_(period) {}

  Series Declare(const MetricDesc& desc, const AttributeSet& attributes, int64_t start_unix_ns = 0) {
    return table_.Declare(desc, MakeRef<const Entity>("gpu", attributes), {}, {{}, start_unix_ns});
  }
  void Retire(Series series) { table_.Retire(series); }
  void Restart(Series series, int64_t start_unix_ns) { table_.Restart(series.slot, start_unix_ns, true); }

  // A new frame; series without a value are absent.
  void Read(Instant at, const std::vector<std::pair<Series, Value>>& values) {
    auto frame = MakeRef<Frame>();
    frame->source = name_;
    frame->layout = table_.Freeze();
    frame->run = ++run_;
    frame->read_at = at;
    frame->cells.resize(frame->layout->cells());
    frame->quality.assign(frame->layout->slots(), Quality::kAbsent);
    frame->age_ms.assign(frame->layout->slots(), 0);
    for (const auto& [series, value] : values) {
      const SeriesInfo& info = (*frame->layout)[series.slot];
      Cell& cell = frame->cells[info.first_cell];
      if (value.number != value.number) continue;
      if (info.desc->number == Number::kInt) cell.i = static_cast<int64_t>(value.number);
      else cell.d = value.number;
      frame->quality[series.slot] = value.stale ? Quality::kStale : Quality::kOk;
      if (value.stale) frame->age_ms[series.slot] = 1500;
    }
    frame_ = std::move(frame);
  }
  // Writes into the frame again, as its pool does: no allocation.
  void ReadAgain(Instant at, const std::vector<Series>& series, double number) {
    frame_->read_at = at;
    frame_->run = ++run_;
    for (const Series one : series) {
      const SeriesInfo& info = (*frame_->layout)[one.slot];
      if (info.desc->number == Number::kInt) frame_->cells[info.first_cell].i = static_cast<int64_t>(number);
      else frame_->cells[info.first_cell].d = number;
    }
  }

  const std::string& name() const { return name_; }
  void AddTo(Snapshot& snapshot, bool overdue = false) const {
    snapshot.frames.push_back({frame_, frame_->source, Precedence::kNative, overdue, period_});
  }

 private:
  const std::string name_;
  const Duration period_;
  SeriesTable table_;
  Ref<Frame> frame_;
  uint64_t run_ = 0;
};

inline Ref<Snapshot> MakeTick(uint64_t tick, Instant closed_at) {
  auto snapshot = MakeRef<Snapshot>();
  snapshot->tick = tick;
  snapshot->closed_at = closed_at;
  return snapshot;
}

inline AttributeSet Gpu(int64_t index) { return AttributeSet({{"gpu.index", index}}); }

inline int64_t Ms(Instant at) { return at.unix_ns / 1'000'000; }

// All samples of one series of the history; empty: it is not there.
inline std::vector<SeriesSample> SamplesOf(History& history, std::string_view selector, int64_t from_ms = 0,
                                           int64_t to_ms = int64_t{1} << 50) {
  const SeriesSelector parsed = *ParseSelector(selector);
  auto windows = history.Read({&parsed, 1}, from_ms, to_ms);
  return windows.ok() && windows->size() == 1 ? windows->front().samples : std::vector<SeriesSample>();
}

}  // namespace gpulens::history_testing

// Makes a timeline of what is known of a node: series, events, runs of experiments and calls of engines.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/inference_record.h>

#include "cli/node/node_json.h"
#include "history/series_window.h"
#include "store/experiments/run_reader.h"
#include "wire/perfetto/timeline.h"

namespace gpulens {

// Tracks of a node:
//
//   Events                      instants of the node; those of a GPU or an engine are below it
//   GPU 0 · H100                counters; slices of states and of reasons for throttling
//   Engines › chat-a (vllm)     counters; up and down
//   Processes › python 1234     lifetimes, and counters
//   Collectives › train · 0x7f8c  faults as slices, and counters; by rank below it
//   Training, Experiments, Requests, Host, Energy and cost, Pods and jobs, gpulens
//
// A gauge is drawn as it was sampled. A counter is drawn as its rate: the rate between two samples from the
// earlier one on. Viewers hold the last value of a line, so that each time without a value, or with a stale
// one, is a slice on a track next to it. Used by one thread at a time.
class TraceBuilder {
 public:
  // Shows nothing before `from_ms` and, unless `all`, no series of gpulens itself but those of targets.
  // `writer` outlives the builder.
  TraceBuilder(TimelineWriter& writer, const std::string& node, int64_t from_ms, bool all = false);

  // Adds the samples up to `to_ms` that were not added before. Windows of one series come in the order of
  // time and may overlap.
  void AddSeries(std::span<const SeriesWindow> windows, int64_t to_ms);
  // In any order; those that were added before are left out.
  void AddEvents(std::span<const NodeEvent> events);

  struct Run {
    experiments::RunRow run;
    std::vector<experiments::MetricRow> metrics;
    std::vector<std::pair<std::string, std::vector<experiments::PointRow>>> points;  // by metric
    std::vector<experiments::ArtifactRow> artifacts;
  };
  // Adds the part of a run that lies within the trace, up to `to_ms`.
  void AddRun(const Run& run, int64_t to_ms);
  // Adds a call. Calls come in the order of their begin.
  void AddRequest(const InferenceRecord& record, int64_t to_ms);

  // Writes what was added since the last call, in the order of time.
  void Flush();
  // Flushes, and ends what is open.
  void Finish(int64_t to_ms);

  uint64_t gaps() const noexcept { return gaps_; }

 private:
  struct Item {
    int64_t ns = 0;
    uint32_t track = 0;
    enum What : uint8_t { kEnd, kCount, kMark, kBegin } what = kCount;  // at one time in this order
    double value = 0;
    uint64_t owner = 0;  // of a slice and those within it
    std::string name;
    AttributeSet attributes;
  };
  enum class Drawn : uint8_t { kNot, kGauge, kRate, kState, kFlag, kSteps, kDurations };
  struct Series {
    Drawn drawn = Drawn::kNot;
    uint64_t owner = 0;                             // of its slices
    uint32_t track = 0, gap_track = 0, slices = 0;  // 0: not made yet
    int32_t rank = 0;
    bool any = false, open = false, gap_open = false, known = false;
    int64_t last_ms = 0;  // of the last sample that was added
    SeriesSample::Mark mark = SeriesSample::kOk;
    SeriesSample before;  // where `known`
    int64_t opened_ns = 0, gap_opened_ns = 0;
  };
  // A track of slices, and more of them for slices that overlap.
  struct TrackRow {
    uint32_t track = 0;
    uint64_t owner = 0;
    uint32_t depth = 0;
  };
  struct TrackRows {
    TimelineTrack first;
    std::vector<TrackRow> all;
  };

  // A group by its key below `parent`; `label` names it when it is new.
  uint32_t Group(uint32_t parent, const std::string& key, const std::string& label, int32_t rank);
  uint32_t GroupOf(const KeptSeries& series);
  uint32_t GpuGroup(const AttributeSet& attributes);
  uint32_t EngineGroup(const AttributeSet& attributes);
  uint32_t CommunicatorGroup(const AttributeSet& attributes);
  uint32_t ProcessTrack(const AttributeSet& attributes);
  // A track of slices by its name below `parent`.
  uint32_t Slices(uint32_t parent, const std::string& name, int32_t rank);
  uint32_t CounterOf(const KeptSeries& series, Series& state);

  void AddSample(const KeptSeries& series, Series& state, const SeriesSample& sample);
  void DrawRate(const KeptSeries& series, Series& state, const SeriesSample& sample);
  void DrawState(const KeptSeries& series, Series& state, const SeriesSample& sample);
  void DrawSteps(const KeptSeries& series, Series& state, const SeriesSample& sample);
  void DrawDuration(const KeptSeries& series, Series& state, const SeriesSample& sample);
  void DrawFault(const NodeEvent& event);
  void OpenGap(const KeptSeries& series, Series& state, int64_t ms, const char* why);
  void CloseGap(Series& state, int64_t ms);

  int64_t Clipped(int64_t ns) const noexcept { return std::max(ns, from_ns_); }
  void Count(uint32_t track, int64_t ns, double value);
  void Begin(uint32_t track, uint64_t owner, int64_t ns, std::string name, const AttributeSet& attributes);
  void End(uint32_t track, uint64_t owner, int64_t ns);
  void Mark(uint32_t track, int64_t ns, std::string name, const AttributeSet& attributes);
  TrackRow& RowFor(uint32_t track, uint64_t owner);

  TimelineWriter& writer_;
  const int64_t from_ns_;
  const bool all_;
  const uint32_t node_;
  std::map<std::string, uint32_t> groups_;
  std::map<uint32_t, std::set<std::string>> names_;  // of the children of a track
  std::map<std::string, Series> series_;
  std::map<std::string, std::string> gpu_keys_;  // by index: the GPU that was seen first
  std::map<uint32_t, TrackRows> rows_;           // by the first track
  std::set<std::string> events_;
  struct Fault {
    uint64_t owner = 0;  // of its slice; 0: it is not raised
    int64_t begun_ns = 0;
  };
  std::map<std::string, Fault> faults_;
  std::vector<Item> items_;
  uint64_t owners_ = 0, gaps_ = 0;
  int64_t first_ms_ = 0;  // of the first sample of all; 0: none yet
};

// A row for each value, slice and instant: time, end, track, what, name, value, unit, attributes. Rows of
// slices come when the slice ends.
class CsvTimelineWriter final : public TimelineWriter {
 public:
  explicit CsvTimelineWriter(const TimelineFacts& facts);

 private:
  struct Open {
    int64_t begin_ns = 0;
    std::string name;
    AttributeSet attributes;
  };
  void WriteTrack(uint32_t number) override;
  void WriteCount(uint32_t number, int64_t unix_ns, double value) override;
  void WriteBegin(uint32_t number, int64_t unix_ns, std::string_view name,
                  const AttributeSet& attributes) override;
  void WriteEnd(uint32_t number, int64_t unix_ns) override;
  void WriteMark(uint32_t number, int64_t unix_ns, std::string_view name,
                 const AttributeSet& attributes) override;
  void WriteLast() override {}
  void Row(uint32_t number, int64_t unix_ns, int64_t end_ns, std::string_view what, std::string_view name,
           const double* value, const AttributeSet& attributes);

  std::vector<std::string> paths_;
  std::map<uint32_t, std::vector<Open>> open_;
};

}  // namespace gpulens

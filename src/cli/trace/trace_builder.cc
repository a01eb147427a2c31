#include "cli/trace/trace_builder.h"

#include <array>
#include <chrono>
#include <cmath>
#include <limits>

#include "base/parse.h"
#include "base/stable_sort.h"
#include "catalog/all.h"
#include "catalog/events.h"
#include "catalog/gpu.h"
#include "catalog/nccl.h"
#include "catalog/phases.h"
#include "catalog/self.h"
#include "catalog/training.h"
#include "history/history.h"
#include "wire/json/json_text.h"

namespace gpulens {
namespace {

using TrackKind = TimelineTrack::Kind;

constexpr int64_t kMs = 1'000'000;  // nanoseconds

// Order of the groups of a node; a GPU's index is added to its own.
enum GroupRank : int32_t {
  kEventsRank = 0,
  kGpuRank = 1000,
  kEnginesRank = 5000,
  kProcessesRank = 6000,
  kTrainingRank = 7000,
  kCollectivesRank = 7500,
  kExperimentsRank = 8000,
  kRequestsRank = 9000,
  kHostRank = 10'000,
  kPodsRank = 11'000,
  kCostRank = 12'000,
  kSelfRank = 13'000,
};

// Ranks of a communicator come after its faults and its own lines.
constexpr int32_t kAfterFaults = 100'000;

// Position among the metrics that are kept, which begin with the more important ones.
int32_t RankOf(std::string_view name) {
  static const std::map<std::string_view, int32_t> all = [] {
    std::map<std::string_view, int32_t> ranks;
    for (const MetricDesc* desc : KeptMetrics())
      ranks.emplace(desc->name, static_cast<int32_t>(ranks.size()));
    return ranks;
  }();
  const auto at = all.find(name);
  return at == all.end() ? static_cast<int32_t>(all.size()) : at->second;
}

// Keys that the group of a series shows.
bool IsOfGroup(std::string_view key) {
  constexpr std::array<std::string_view, 10> kKeys = {
      "gpu.index", "process.pid",       "process.executable.name", "process.owner", "target",
      "rank",      "nccl.communicator", "nccl.communicator.name",  "nccl.rank",     "nccl.host"};
  return std::ranges::find(kKeys, key) != kKeys.end();
}

// States that have a word of their own.
std::string_view WordOf(std::string_view name) {
  if (name == kProcessPhase.name) return "phase";
  if (name == kNcclRankStraggler.name) return "late";
  return name == kNcclCommunicatorHung.name ? "hangs" : name;
}

// "gpu.temperature edge": the name, and what distinguishes the series of one entity.
std::string LabelOf(const KeptSeries& series) {
  std::string label(WordOf(series.name));
  if (series.attributes.Has("gpu.mig.instance_id"))
    label += " MIG " + series.attributes.Text("gpu.mig.instance_id");
  const MetricDesc* desc = FindMetric(series.name);
  if (desc == nullptr) return label;
  // The model comes last: most engines have one.
  constexpr std::string_view kModel = "model.name";
  const auto add = [&](std::string_view key) {
    if (const std::string text = series.attributes.Text(key); !text.empty()) label += " " + text;
  };
  bool has_model = false;
  for (std::string_view key : desc->keys) {
    if (IsOfGroup(key) || (series.kind == Kind::kStateSet && key == series.name)) continue;
    if (key == kModel) has_model = true;
    else add(key);
  }
  if (has_model) add(kModel);
  return label;
}

std::string KeyOf(const KeptSeries& series) {
  std::string key = series.name + "\xff" + series.source + "\xff";
  AppendJsonAttributes(key, series.attributes);
  return key;
}

std::string RateUnit(const std::string& unit) {
  if (unit == "J") return "W";
  if (unit == "s") return "1";
  return unit == "1" || unit.empty() ? "1/s" : unit + "/s";
}

AttributeSet With(const AttributeSet& set, std::initializer_list<AttributeSet::Attribute> more) {
  return AttributeSet(more).OverlaidOn(set);
}

int64_t NsOf(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

int64_t NsOf(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

}  // namespace

TraceBuilder::TraceBuilder(TimelineWriter& writer, const std::string& node, int64_t from_ms, bool all)
    : writer_(writer),
      from_ns_(from_ms * kMs),
      all_(all),
      node_(writer.AddTrack(
          {.kind = TrackKind::kGroup, .parent = 0, .name = node.empty() ? "node" : node, .unit = {}})) {}

uint32_t TraceBuilder::Group(uint32_t parent, const std::string& key, const std::string& label,
                             int32_t rank) {
  const auto [at, is_new] = groups_.try_emplace(std::to_string(parent) + "\xff" + key, 0);
  if (!is_new) return at->second;
  std::string name = label;
  for (int n = 2; !names_[parent].insert(name).second; ++n) name = label + " (" + std::to_string(n) + ")";
  return at->second = writer_.AddTrack({.kind = TrackKind::kGroup,
                                        .parent = parent,
                                        .name = name,
                                        .unit = {},
                                        .description = {},
                                        .rank = rank});
}

uint32_t TraceBuilder::Slices(uint32_t parent, const std::string& name, int32_t rank) {
  const auto [at, is_new] = groups_.try_emplace(std::to_string(parent) + "\xfe" + name, 0);
  if (!is_new) return at->second;
  TimelineTrack track = {.kind = TrackKind::kSlices,
                         .parent = parent,
                         .name = name,
                         .unit = {},
                         .description = {},
                         .rank = rank};
  at->second = writer_.AddTrack(track);
  rows_[at->second] = {std::move(track), {TrackRow{.track = at->second}}};
  return at->second;
}

uint32_t TraceBuilder::GpuGroup(const AttributeSet& attributes) {
  const std::string index = attributes.Text("gpu.index"), uuid = attributes.Text("gpu.uuid");
  std::string& first = gpu_keys_[index];
  // GPUs of several vendors count from 0 each. What names no UUID is of the GPU that was seen first.
  const std::string key = uuid.empty() ? first : uuid;
  if (first.empty()) first = uuid;
  const std::string model = attributes.Text("gpu.model");
  return Group(node_, "gpu\xff" + index + "\xff" + key, "GPU " + index + (model.empty() ? "" : " · " + model),
               kGpuRank + ParseInt<int32_t>(index).value_or(999) % 1000);
}

uint32_t TraceBuilder::EngineGroup(const AttributeSet& attributes) {
  const std::string target = attributes.Text("target");
  return Group(Group(node_, "engines", "Engines and other targets", kEnginesRank), target, target, 0);
}

uint32_t TraceBuilder::ProcessTrack(const AttributeSet& attributes) {
  const std::string name = attributes.Text("process.executable.name"), gpu = attributes.Text("gpu.index");
  return Slices(Group(node_, "processes", "Processes", kProcessesRank),
                (name.empty() ? "process" : name) + " " + attributes.Text("process.pid") +
                    (gpu.empty() ? "" : " · GPU " + gpu),
                ParseInt<int32_t>(gpu).value_or(0));
}

uint32_t TraceBuilder::CommunicatorGroup(const AttributeSet& attributes) {
  const std::string hash = attributes.Text("nccl.communicator"),
                    name = attributes.Text("nccl.communicator.name");
  const uint32_t all = Group(node_, "collectives", "Collectives", kCollectivesRank);
  if (hash.empty() && name.empty()) return all;
  return Group(all, hash.empty() ? name : hash, name + (name.empty() || hash.empty() ? "" : " · ") + hash, 0);
}

uint32_t TraceBuilder::GroupOf(const KeptSeries& series) {
  const AttributeSet& attributes = series.attributes;
  const std::string& name = series.name;
  if (name.starts_with("nccl.")) {
    const uint32_t communicator = CommunicatorGroup(attributes);
    const std::string rank = attributes.Text("nccl.rank");
    return rank.empty() ? communicator
                        : Group(communicator, "rank\xff" + rank, "rank " + rank,
                                kAfterFaults + ParseInt<int32_t>(rank).value_or(0) % 100'000);
  }
  if (attributes.Has("process.pid")) return ProcessTrack(attributes);
  if (attributes.Has("target")) return EngineGroup(attributes);
  if (attributes.Has("gpu.index")) return GpuGroup(attributes);
  if (name.starts_with("training.")) {
    const uint32_t training = Group(node_, "training", "Training", kTrainingRank);
    const std::string rank = attributes.Text("rank");
    return rank.empty() ? training
                        : Group(training, rank, "rank " + rank, ParseInt<int32_t>(rank).value_or(0));
  }
  if (name.starts_with("system.") || name.starts_with("host."))
    return Group(node_, "host", "Host", kHostRank);
  if (name.starts_with("k8s.") || name.starts_with("slurm."))
    return Group(node_, "pods", "Pods and jobs", kPodsRank);
  if (name.starts_with("gpulens.")) return Group(node_, "gpulens", "gpulens", kSelfRank);
  if (name.starts_with("gpu.")) return Group(node_, "gpus", "GPUs", kGpuRank - 1);
  return Group(node_, "cost", "Energy and cost", kCostRank);
}

uint32_t TraceBuilder::CounterOf(const KeptSeries& series, Series& state) {
  if (state.track != 0) return state.track;
  const uint32_t parent = GroupOf(series);
  const bool is_rate = state.drawn == Drawn::kRate;
  std::string label = LabelOf(series) + (is_rate ? " rate" : "");
  std::set<std::string>& names = names_[parent];
  if (names.contains(label)) AppendJsonAttributes(label += " ", series.attributes);
  std::string name = label;
  for (int n = 2; !names.insert(name).second; ++n) name = label + " (" + std::to_string(n) + ")";
  const MetricDesc* desc = FindMetric(series.name);
  std::string description(desc != nullptr ? desc->help : "");
  AppendJsonAttributes(description.append(" ").append(series.name), series.attributes);
  // Next to each counter there is room for its gaps.
  state.rank = RankOf(series.name) * 64 + static_cast<int32_t>(names.size() % 32) * 2;
  return state.track = writer_.AddTrack({.kind = TrackKind::kCounter,
                                         .parent = parent,
                                         .name = name,
                                         .unit = is_rate ? RateUnit(series.unit) : series.unit,
                                         .description = description + " source " + series.source,
                                         .rank = state.rank});
}

void TraceBuilder::AddSeries(std::span<const SeriesWindow> windows, int64_t to_ms) {
  if (first_ms_ == 0) {
    int64_t first = std::numeric_limits<int64_t>::max();
    for (const SeriesWindow& window : windows) {
      if (!window.samples.empty()) first = std::min(first, window.samples.front().unix_ms);
    }
    if (first != std::numeric_limits<int64_t>::max()) first_ms_ = first;
  }
  for (const SeriesWindow& window : windows) {
    const KeptSeries& series = window.series;
    const auto [at, is_new] = series_.try_emplace(KeyOf(series));
    Series& state = at->second;
    if (is_new) {
      state.owner = ++owners_;
      using enum Kind;
      const bool is_hidden = !all_ && series.name.starts_with("gpulens.") && !series.attributes.Has("target");
      if (is_hidden || series.kind == kInfo || series.kind == kHistogram || series.kind == kGaugeHistogram ||
          series.kind == kSummary)
        state.drawn = Drawn::kNot;
      else if (series.kind == kStateSet) state.drawn = Drawn::kState;
      else if (series.unit == kSelfScrapeUp.unit) state.drawn = Drawn::kFlag;
      else if (series.name == kTrainingSteps.name) state.drawn = Drawn::kSteps;
      else if (series.name == kTrainingCheckpointSaveDuration.name ||
               series.name == kTrainingCheckpointRestoreDuration.name)
        state.drawn = Drawn::kDurations;
      else state.drawn = series.kind == kCounter ? Drawn::kRate : Drawn::kGauge;
    }
    if (state.drawn == Drawn::kNot) continue;
    for (const SeriesSample& sample : window.samples) {
      if (sample.unix_ms > to_ms) break;
      if (state.any &&
          (sample.unix_ms < state.last_ms || (sample.unix_ms == state.last_ms && sample.mark == state.mark)))
        continue;
      AddSample(series, state, sample);
      state.any = true;
      state.last_ms = sample.unix_ms;
      state.mark = sample.mark;
    }
  }
}

void TraceBuilder::AddSample(const KeptSeries& series, Series& state, const SeriesSample& sample) {
  const int64_t ms = sample.unix_ms, ns = ms * kMs;
  const bool is_line = state.drawn == Drawn::kGauge || state.drawn == Drawn::kRate;
  if (sample.mark == SeriesSample::kGap || !std::isfinite(sample.value)) {
    if (state.open) End(state.slices, state.owner, std::max(ns, state.opened_ns + 1));
    state.open = state.known = false;
    if (is_line && state.any) CloseGap(state, ms), OpenGap(series, state, ms, "no value");
    return;
  }
  if (sample.mark == SeriesSample::kStale) {
    if (is_line && state.mark != SeriesSample::kStale)
      CloseGap(state, ms), OpenGap(series, state, ms, "stale");
    return;
  }
  CloseGap(state, ms);
  switch (state.drawn) {
    case Drawn::kNot: break;
    case Drawn::kGauge:
      if (ns >= from_ns_) Count(CounterOf(series, state), ns, sample.value);
      if (series.name == kGpuProcessMemoryUsed.name) DrawState(series, state, sample);
      break;
    case Drawn::kRate: DrawRate(series, state, sample); break;
    case Drawn::kState:
    case Drawn::kFlag: DrawState(series, state, sample); break;
    case Drawn::kSteps: DrawSteps(series, state, sample); break;
    case Drawn::kDurations: DrawDuration(series, state, sample); break;
  }
  state.known = true;
  state.before = sample;
}

void TraceBuilder::DrawRate(const KeptSeries& series, Series& state, const SeriesSample& sample) {
  const SeriesSample& before = state.before;
  if (!state.known || sample.unix_ms <= before.unix_ms || sample.unix_ms * kMs <= from_ns_) return;
  if (sample.reset || sample.value < before.value) {
    if (state.track == 0) return;
    OpenGap(series, state, before.unix_ms, "counter began again");
    return CloseGap(state, sample.unix_ms);
  }
  const double seconds = static_cast<double>(sample.unix_ms - before.unix_ms) / 1000;
  Count(CounterOf(series, state), Clipped(before.unix_ms * kMs), (sample.value - before.value) / seconds);
}

// Slices of states, of flags, and of processes while they have memory.
void TraceBuilder::DrawState(const KeptSeries& series, Series& state, const SeriesSample& sample) {
  const bool is_process = state.drawn == Drawn::kGauge, is_up = series.name.ends_with(".up");
  const bool is_on = is_process || sample.value == 1;
  // Most collectors are for machines of another kind: that they are down is no news.
  const bool shows_off = is_up && series.name != kSelfCollectorUp.name;
  std::string name;
  if (is_process) name = series.attributes.Text("process.executable.name");
  else if (state.drawn == Drawn::kState) name = series.attributes.Text(series.name);
  else if (is_up) name = is_on ? "up" : "down";
  else name = LabelOf(series);
  if (name.empty()) name = series.name;
  if (series.name == kProcessPhase.name) std::ranges::replace(name, '_', ' ');
  const int64_t ns = Clipped(sample.unix_ms * kMs);
  const bool draws = is_on || shows_off;
  if (state.open && draws && (is_process || (state.before.value == 1) == is_on)) return;
  if (state.open) End(state.slices, state.owner, std::max(ns, state.opened_ns + 1));
  state.open = draws;
  if (!draws) return;
  if (state.slices == 0) {
    state.slices = is_process ? ProcessTrack(series.attributes)
                              : Slices(GroupOf(series), LabelOf(series), RankOf(series.name) * 64);
  }
  state.opened_ns = std::max(ns, state.opened_ns + 1);
  Begin(state.slices, state.owner, state.opened_ns, std::move(name), series.attributes);
}

void TraceBuilder::DrawSteps(const KeptSeries& series, Series& state, const SeriesSample& sample) {
  constexpr double kMost = 9e15;  // a whole number still
  if (!state.known || sample.reset || sample.value <= state.before.value) return;
  if (sample.unix_ms * kMs < from_ns_ || state.before.value < 0 || sample.value > kMost) return;
  const auto first = static_cast<int64_t>(state.before.value) + 1, last = static_cast<int64_t>(sample.value);
  const std::string name = first == last ? "step " + std::to_string(last)
                                         : "steps " + std::to_string(first) + "–" + std::to_string(last);
  Mark(Slices(GroupOf(series), "steps", -2), sample.unix_ms * kMs, name,
       AttributeSet({{"training.steps", last}}));
}

// A gauge with the time of the last checkpoint: a new value is a new checkpoint, which ended by then.
void TraceBuilder::DrawDuration(const KeptSeries& series, Series& state, const SeriesSample& sample) {
  const int64_t quiet = std::max<int64_t>(
      2000,
      2 * std::chrono::milliseconds(std::chrono::duration_cast<std::chrono::milliseconds>(series.period))
              .count());
  const bool is_new =
      state.known ? sample.value != state.before.value : first_ms_ != 0 && sample.unix_ms > first_ms_ + quiet;
  const int64_t end = sample.unix_ms * kMs;
  if (!is_new || sample.value < 0 || sample.value > 1e6 || end <= from_ns_) return;
  const uint32_t track = Slices(GroupOf(series), "checkpoints", -1);
  const uint64_t owner = ++owners_;
  Begin(track, owner, std::min(Clipped(end - NsOf(sample.value)), end - 1),
        series.name == kTrainingCheckpointSaveDuration.name ? "checkpoint saved" : "checkpoint restored",
        AttributeSet({{std::string_view(series.name), sample.value}}));
  End(track, owner, end);
}

void TraceBuilder::OpenGap(const KeptSeries& series, Series& state, int64_t ms, const char* why) {
  // Of a process its lifetime shows when there is nothing.
  if (state.gap_open || state.track == 0 || series.attributes.Has("process.pid")) return;
  if (state.gap_track == 0) {
    state.gap_track = Slices(GroupOf(series), LabelOf(series) + ": gaps", state.rank + 1);
  }
  ++gaps_;
  state.gap_open = true;
  state.gap_opened_ns = std::max(Clipped(ms * kMs), state.gap_opened_ns + 1);
  Begin(state.gap_track, state.owner, state.gap_opened_ns, why, {});
}

void TraceBuilder::CloseGap(Series& state, int64_t ms) {
  if (!state.gap_open) return;
  state.gap_open = false;
  state.gap_opened_ns = std::max(ms * kMs, state.gap_opened_ns + 1);
  End(state.gap_track, state.owner, state.gap_opened_ns);
}

// Of slow ranks, slow links and hangs, which are raised and cleared: a slice from one to the other, with the
// evidence. What was raised before the trace begins with it.
void TraceBuilder::DrawFault(const NodeEvent& event) {
  std::string name;
  const std::string ranks = event.attributes.Text("nccl.rank");
  const std::string who = ranks.empty() ? "" : (ranks.find(',') == ranks.npos ? "rank " : "ranks ") + ranks;
  if (event.name == kEventNcclHang.name) name = who.empty() ? "hang" : "hang: " + who;
  else if (event.name == kEventNcclStraggler.name) name = who.empty() ? "a rank is late" : who + " late";
  else if (event.name == kEventNcclLinkSlow.name)
    name = who.empty() ? "slow communication" : "slow link: " + who;
  else return;
  const std::string change = event.attributes.Text("nccl.change");
  const uint32_t track = Slices(CommunicatorGroup(event.attributes), "faults", kEventsRank);
  // A slow rank is one fault each; others are one of the communicator, whose ranks may become known later.
  Fault& fault = faults_[std::to_string(track) + event.name +
                         (event.name == kEventNcclStraggler.name ? "\xff" + ranks : "")];
  const bool cleared = change == "cleared";
  const int64_t ns = event.at_ms * kMs;
  if (fault.owner != 0 && change != "cleared" && change != "changed") return;
  const AttributeSet attributes = With(event.attributes, {{"evidence", std::string_view(event.body)}});
  if (fault.owner == 0) {
    fault = {++owners_, cleared ? from_ns_ : ns};
    Begin(track, fault.owner, fault.begun_ns, name, attributes);
  } else if (change == "changed") {
    Mark(track, ns, name, attributes);
  }
  if (!cleared) return;
  End(track, fault.owner, std::max(ns, fault.begun_ns + 1));
  fault = {};
}

void TraceBuilder::AddEvents(std::span<const NodeEvent> events) {
  std::vector<const NodeEvent*> faults;  // in the order of time
  for (const NodeEvent& event : events) {
    if (event.at_ms * kMs < from_ns_) continue;
    std::string key = std::to_string(event.at_ms) + "\xff" + event.name + "\xff" + event.body + "\xff";
    AppendJsonAttributes(key, event.attributes);
    if (!events_.insert(std::move(key)).second) continue;
    uint32_t group = node_;
    if (event.attributes.Has("gpu.index")) group = GpuGroup(event.attributes);
    else if (event.attributes.Has("target")) group = EngineGroup(event.attributes);
    Mark(Slices(group, group == node_ ? "Events" : "events", group == node_ ? kEventsRank : -1),
         event.at_ms * kMs, event.name,
         With(event.attributes,
              {{"body", std::string_view(event.body)}, {"severity", std::string_view(event.severity)}}));
    if (event.name.starts_with("nccl.")) faults.push_back(&event);
  }
  SortStably(faults, [](const NodeEvent* a, const NodeEvent* b) { return a->at_ms < b->at_ms; });
  for (const NodeEvent* event : faults) DrawFault(*event);
}

void TraceBuilder::AddRun(const Run& run, int64_t to_ms) {
  const experiments::RunRow& row = run.run;
  const int64_t to = to_ms * kMs, begin = Clipped(row.started_ns);
  const int64_t end = std::max(std::min(row.ended_ns.value_or(to), to), begin + 1);
  if (row.started_ns >= to || (row.ended_ns && *row.ended_ns <= from_ns_)) return;
  const uint32_t track = Slices(Group(node_, "experiments", "Experiments", kExperimentsRank),
                                row.name + " " + row.id, static_cast<int32_t>(rows_.size()));
  const uint64_t owner = ++owners_;
  std::vector<AttributeSet::Attribute> facts = {{"run.id", std::string_view(row.id)},
                                                {"run.status", std::string_view(row.status)},
                                                {"run.command", std::string_view(row.command)},
                                                {"run.host", std::string_view(row.host)}};
  if (!row.parent_id.empty()) facts.push_back({"run.parent", std::string_view(row.parent_id)});
  if (!row.reason.empty()) facts.push_back({"run.reason", std::string_view(row.reason)});
  if (std::isfinite(row.energy.joules)) facts.push_back({"run.energy.joules", row.energy.joules});
  Begin(track, owner, begin, row.name, AttributeSet(facts));
  // Steps are those of the metric with the most points; one lasts from the point before to its own.
  const auto longest =
      std::ranges::max_element(run.points, {}, [](const auto& one) { return one.second.size(); });
  if (longest != run.points.end()) {
    int64_t last = std::clamp(row.started_ns, begin, end);
    for (const experiments::PointRow& point : longest->second) {
      const int64_t at = std::min(point.unix_ns, end);
      if (at <= last || point.unix_ns <= from_ns_) continue;
      Begin(track, owner, last, "step " + std::to_string(point.step),
            std::isfinite(point.value) ? AttributeSet({{std::string_view(longest->first), point.value}})
                                       : AttributeSet());
      End(track, owner, at);
      last = at;
    }
  }
  End(track, owner, end);
  for (const auto& [key, points] : run.points) {
    uint32_t counter = 0;
    int64_t last = from_ns_;
    for (const experiments::PointRow& point : points) {
      if (point.unix_ns < last || point.unix_ns > to || !std::isfinite(point.value)) continue;
      if (counter == 0)
        counter = writer_.AddTrack({.kind = TrackKind::kCounter, .parent = track, .name = key, .unit = {}});
      Count(counter, last = point.unix_ns, point.value);
    }
  }
  for (const experiments::ArtifactRow& artifact : run.artifacts) {
    if (artifact.unix_ns < from_ns_ || artifact.unix_ns > to) continue;
    Mark(Slices(track, "artifacts", 0), artifact.unix_ns, artifact.name,
         AttributeSet({{"bytes", artifact.bytes}, {"path", std::string_view(artifact.path)}}));
  }
}

void TraceBuilder::AddRequest(const InferenceRecord& record, int64_t to_ms) {
  const int64_t start = NsOf(record.time), to = to_ms * kMs;
  const bool known = std::isfinite(record.latency_seconds) && record.latency_seconds >= 0;
  const int64_t finish = known ? start + NsOf(std::min(record.latency_seconds, 1e6)) : start;
  if (start >= to || finish < from_ns_) return;
  const std::string model(record.model.empty() ? "unknown model" : record.model);
  const uint32_t track = Slices(Group(node_, "requests", "Requests", kRequestsRank),
                                model + (record.engine.empty() ? "" : " · " + std::string(record.engine)), 0);
  std::vector<AttributeSet::Attribute> facts = {{"outcome", OutcomeName(record.outcome)}};
  if (!record.agent.empty()) facts.push_back({"agent", record.agent});
  if (!record.error_type.empty()) facts.push_back({"error.type", record.error_type});
  if (record.prompt_tokens) facts.push_back({"prompt.tokens", *record.prompt_tokens});
  if (record.completion_tokens) facts.push_back({"completion.tokens", *record.completion_tokens});
  if (std::isfinite(record.energy_joules)) facts.push_back({"energy.joules", record.energy_joules});
  const AttributeSet attributes(facts);
  const std::string name =
      record.outcome == Outcome::kOk ? "request" : "request: " + std::string(OutcomeName(record.outcome));
  if (!known) return Mark(track, Clipped(start), name, attributes);
  const uint64_t owner = ++owners_;
  const int64_t begin = Clipped(start), end = std::max(std::min(finish, to), begin + 1);
  Begin(track, owner, begin, name, attributes);
  if (std::isfinite(record.ttft_seconds) && record.ttft_seconds >= 0 &&
      record.ttft_seconds <= record.latency_seconds) {
    const int64_t token = std::clamp(start + NsOf(record.ttft_seconds), begin, end);
    if (token > begin) Begin(track, owner, begin, "first token", {}), End(track, owner, token);
    if (end > token) Begin(track, owner, token, "further tokens", {}), End(track, owner, end);
  }
  End(track, owner, end);
}

void TraceBuilder::Count(uint32_t track, int64_t ns, double value) {
  items_.push_back({.ns = ns,
                    .track = track,
                    .what = Item::kCount,
                    .value = value,
                    .owner = 0,
                    .name = {},
                    .attributes = {}});
}
void TraceBuilder::Begin(uint32_t track, uint64_t owner, int64_t ns, std::string name,
                         const AttributeSet& attributes) {
  items_.push_back({ns, track, Item::kBegin, 0, owner, std::move(name), attributes});
}
void TraceBuilder::End(uint32_t track, uint64_t owner, int64_t ns) {
  items_.push_back({ns, track, Item::kEnd, 0, owner, {}, {}});
}
void TraceBuilder::Mark(uint32_t track, int64_t ns, std::string name, const AttributeSet& attributes) {
  items_.push_back({ns, track, Item::kMark, 0, 0, std::move(name), attributes});
}

// The row where the owner has a slice, else a free one.
TraceBuilder::TrackRow& TraceBuilder::RowFor(uint32_t track, uint64_t owner) {
  TrackRows& rows = rows_[track];
  TrackRow* free = nullptr;
  for (TrackRow& row : rows.all) {
    if (row.depth > 0 && row.owner == owner) return row;
    if (row.depth == 0 && free == nullptr) free = &row;
  }
  if (free == nullptr) {
    TimelineTrack more = rows.first;
    more.name += " (" + std::to_string(rows.all.size() + 1) + ")";
    rows.all.push_back({.track = writer_.AddTrack(std::move(more))});
    free = &rows.all.back();
  }
  free->owner = owner;
  return *free;
}

void TraceBuilder::Flush() {
  SortStably(items_, [](const Item& a, const Item& b) {
    const auto order = [](const Item& item) {
      return item.what == Item::kEnd ? 0 : item.what == Item::kBegin ? 2 : 1;
    };
    return a.ns != b.ns ? a.ns < b.ns : order(a) < order(b);
  });
  for (const Item& item : items_) {
    switch (item.what) {
      case Item::kCount: writer_.Count(item.track, item.ns, item.value); break;
      case Item::kMark: writer_.Mark(item.track, item.ns, item.name, item.attributes); break;
      case Item::kBegin: {
        TrackRow& row = RowFor(item.track, item.owner);
        ++row.depth;
        writer_.Begin(row.track, item.ns, item.name, item.attributes);
        break;
      }
      case Item::kEnd: {
        TrackRow& row = RowFor(item.track, item.owner);
        if (row.depth == 0) break;
        --row.depth;
        writer_.End(row.track, item.ns);
        break;
      }
    }
  }
  items_.clear();
}

void TraceBuilder::Finish(int64_t to_ms) {
  Flush();
  writer_.Finish(to_ms * kMs);
}

}  // namespace gpulens

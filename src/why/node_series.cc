#include "why/node_series.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace gpulens::why_detail {
namespace {

// A value counts until the next one, at most so many periods: two may be late.
constexpr int64_t kPeriods = 3, kLeastHoldMs = 5000;

int64_t MillisecondsOf(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

// The time between two readings: the collector's period, or more where the source reads this value less
// often.
int64_t PeriodOf(const SeriesWindow& window) {
  std::vector<int64_t> steps;
  for (size_t i = 1; i < window.samples.size(); ++i)
    steps.push_back(window.samples[i].unix_ms - window.samples[i - 1].unix_ms);
  int64_t median = 0;
  if (!steps.empty()) {
    auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
    std::nth_element(steps.begin(), middle, steps.end());
    median = *middle;
  }
  return std::max(MillisecondsOf(window.series.period), std::min<int64_t>(median, 60'000));
}

bool NumberBefore(const std::string& a, const std::string& b) {
  int x = 0, y = 0;
  bool both = std::from_chars(a.data(), a.data() + a.size(), x).ec == std::errc() &&
              std::from_chars(b.data(), b.data() + b.size(), y).ec == std::errc();
  return both && x != y ? x < y : a < b;
}

// Whether the attribute has one of the values, which '|' separates.
bool HasValue(const AttributeSet& set, std::string_view key, std::string_view values) {
  if (key.empty()) return true;
  const std::string value = set.Text(key);
  while (!values.empty()) {
    size_t end = std::min(values.find('|'), values.size());
    if (values.substr(0, end) == value) return true;
    values.remove_prefix(std::min(end + 1, values.size()));
  }
  return false;
}

}  // namespace

size_t Track::KnownIn(size_t seconds) const noexcept {
  size_t first = values.size() - std::min(seconds, values.size()), known = 0;
  for (size_t i = first; i < values.size(); ++i) known += !std::isnan(values[i]);
  return known;
}

double Track::Sum(size_t seconds) const noexcept {
  double sum = 0;
  for (size_t i = values.size() - std::min(seconds, values.size()); i < values.size(); ++i)
    if (!std::isnan(values[i])) sum += values[i];
  return sum;
}

double Track::Mean(size_t seconds) const noexcept {
  size_t known = KnownIn(seconds);
  return known ? Sum(seconds) / static_cast<double>(known) : kNotMeasured;
}

double Track::Now() const noexcept {
  size_t least = values.size() - std::min(values.size(), static_cast<size_t>(fresh));
  for (size_t i = values.size(); i > least; --i)
    if (!std::isnan(values[i - 1])) return values[i - 1];
  return kNotMeasured;
}

NodeSeries::NodeSeries(std::span<const SeriesWindow> windows, int64_t to_ms, int lookback_seconds)
    : to_ms_(to_ms), lookback_(lookback_seconds) {
  std::map<std::string, int64_t> newest;  // of the sample from which a GPU's facts are
  for (const SeriesWindow& window : windows) {
    const AttributeSet& set = window.series.attributes;
    const std::string& name = window.series.name;
    if (set.Text("simulated") == "true") simulated_ = true;
    Row row{&window,
            set.Text("gpu.index"),
            {},
            set.Text("process.pid"),
            set.Has("process.pid"),
            set.Has("gpu.mig.instance_id")};
    if (name.starts_with("inference.")) row.engine = set.Text("target");
    if (name.starts_with("host.") || name.starts_with("system.")) has_host_ = true;
    int64_t at = 0;
    for (const SeriesSample& sample : window.samples)
      if (sample.mark != SeriesSample::kGap && sample.unix_ms <= to_ms) at = sample.unix_ms;
    if (!row.gpu.empty()) {
      GpuFacts& gpu = gpu_facts_[row.gpu];
      gpu.index = row.gpu;
      bool gone = !window.samples.empty() && window.samples.back().mark == SeriesSample::kGap;
      if (row.process && !gone && at > to_ms - 60'000) {
        std::string pid = set.Text("process.pid");
        if (std::find(gpu.pids.begin(), gpu.pids.end(), pid) == gpu.pids.end()) gpu.pids.push_back(pid);
      }
      if (!row.process && !row.part && !gone && at >= newest[row.gpu]) {
        newest[row.gpu] = at;
        gpu.model = set.Text("gpu.model");
        gpu.slurm_id = set.Text("slurm.job.id");
        gpu.pod_uid = set.Text("k8s.pod.uid");
        std::string pod = set.Text("k8s.pod.name"), space = set.Text("k8s.namespace.name");
        gpu.job = !gpu.slurm_id.empty()            ? gpu.slurm_id
                  : !pod.empty() && !space.empty() ? space + "/" + pod
                                                   : pod;
      }
    }
    // A router or a cache in front of engines has numbers of the same names; it is no engine.
    std::string layer = set.Text("inference.layer");
    if (!row.engine.empty() && (layer.empty() || layer == "engine")) {
      engine_facts_[row.engine] = {set.Text("k8s.pod.uid"), set.Text("slurm.job.id")};
    } else {
      row.engine.clear();
    }
    rows_[name].push_back(std::move(row));
  }
  for (auto& [index, facts] : gpu_facts_) {
    gpus_.push_back({WhyKind::kGpu, index});
    std::sort(facts.pids.begin(), facts.pids.end(), NumberBefore);
  }
  std::sort(gpus_.begin(), gpus_.end(),
            [](const WhySubject& a, const WhySubject& b) { return NumberBefore(a.name, b.name); });
  for (const auto& [target, facts] : engine_facts_) engines_.push_back({WhyKind::kEngine, target});
}

const GpuFacts& NodeSeries::Gpu(std::string_view index) const {
  static const GpuFacts kNone;
  auto found = gpu_facts_.find(index);
  return found == gpu_facts_.end() ? kNone : found->second;
}

std::vector<std::string> NodeSeries::EnginesOn(const GpuFacts& gpu) const {
  std::vector<std::string> names;
  for (const auto& [name, engine] : engine_facts_) {
    if ((!gpu.pod_uid.empty() && engine.pod_uid == gpu.pod_uid) ||
        (!gpu.slurm_id.empty() && engine.slurm_id == gpu.slurm_id))
      names.push_back(name);
  }
  return names;
}

std::vector<std::string> NodeSeries::GpusOf(std::string_view engine) const {
  std::vector<std::string> names;
  for (const WhySubject& gpu : gpus_) {
    std::vector<std::string> on = EnginesOn(Gpu(gpu.name));
    if (std::find(on.begin(), on.end(), engine) != on.end()) names.push_back(gpu.name);
  }
  return names;
}

void NodeSeries::Fill(const SeriesWindow& window, Track& track) const {
  track.counter = IsMonotonic(window.series.kind);
  track.values.assign(static_cast<size_t>(lookback_), kNotMeasured);
  const int64_t period = PeriodOf(window), hold = std::max(kPeriods * period, kLeastHoldMs);
  track.fresh = std::max(track.fresh, static_cast<int>(hold / 1000));
  const int64_t begin = to_ms_ - int64_t{lookback_} * 1000;
  // Of a gauge: seconds whose ends lie in (from, to].
  auto set = [&](int64_t from, int64_t to, double value) {
    const int64_t first = from < begin ? 0 : (from - begin) / 1000,
                  last = (std::min(to, to_ms_) - begin) / 1000;
    for (int64_t i = first; i < last; ++i) track.values[static_cast<size_t>(i)] = value;
  };
  // Of a counter: each second gets its part of the growth, so that the sum over seconds is the growth.
  auto spread = [&](int64_t from, int64_t to, double growth) {
    const auto time = static_cast<double>(to - from);
    from -= begin, to -= begin;
    for (int64_t i = std::max<int64_t>(from, 0) / 1000; i < lookback_ && i * 1000 < to; ++i) {
      const int64_t part = std::min(to, i * 1000 + 1000) - std::max(from, i * 1000);
      if (part <= 0) continue;
      double& value = track.values[static_cast<size_t>(i)];
      value = (std::isnan(value) ? 0 : value) + growth * static_cast<double>(part) / time;
    }
  };
  const std::vector<SeriesSample>& samples = window.samples;
  for (size_t i = 0; i < samples.size() && samples[i].unix_ms <= to_ms_; ++i) {
    const SeriesSample& at = samples[i];
    track.stale = at.mark == SeriesSample::kStale;
    track.gap = at.mark == SeriesSample::kGap;
    if (at.mark != SeriesSample::kOk || std::isnan(at.value)) continue;
    if (track.first_ms == 0) track.first_ms = at.unix_ms;
    track.last_ms = at.unix_ms;
    if (track.counter) {
      if (at.reset) track.reset = true;
      if (i == 0 || at.reset) continue;
      const SeriesSample& before = samples[i - 1];
      const int64_t time = at.unix_ms - before.unix_ms;
      if (before.mark != SeriesSample::kOk || std::isnan(before.value) || time <= 0 || time > hold) continue;
      if (at.value < before.value) continue;  // began again without a mark
      spread(before.unix_ms, at.unix_ms, at.value - before.value);
    } else {
      const bool last = i + 1 == samples.size();
      const int64_t next = last ? to_ms_ : samples[i + 1].unix_ms;
      set(at.unix_ms - 1, std::min(next, at.unix_ms + hold), at.value);
    }
  }
}

bool NodeSeries::IsOf(const Row& row, const WhySubject& subject, const WhyInput& input) const {
  if (row.part || row.process != input.of_processes) return false;
  if (subject.kind == WhyKind::kEngine && row.engine != subject.name) return false;
  if (subject.kind == WhyKind::kGpu && input.of_processes) {
    const std::vector<std::string>& pids = Gpu(subject.name).pids;
    if (std::find(pids.begin(), pids.end(), row.pid) == pids.end()) return false;
  } else if (subject.kind == WhyKind::kGpu && row.gpu != subject.name) {
    return false;
  }
  const AttributeSet& set = row.window->series.attributes;
  return HasValue(set, input.key, input.value) && HasValue(set, input.key2, input.value2);
}

std::vector<Track> NodeSeries::Each(const WhySubject& subject, const WhyInput& input) const {
  std::vector<Track> tracks;
  auto rows = rows_.find(input.metric->name);
  if (rows == rows_.end()) return tracks;
  for (const Row& row : rows->second) {
    if (!IsOf(row, subject, input)) continue;
    Track& track = tracks.emplace_back(Track{.values = {}, .input = &input});
    Fill(*row.window, track);
    track.latest = row.window;
  }
  return tracks;
}

Track NodeSeries::Read(const WhySubject& subject, const WhyInput& input) const {
  Track out{.values = std::vector<double>(static_cast<size_t>(lookback_), kNotMeasured), .input = &input};
  auto rows = rows_.find(input.metric->name);
  if (rows == rows_.end()) return out;
  // Series of one source are parts of a whole, or follow each other when a job or pod changes. Two sources
  // report the same thing twice: the one with the newer value counts.
  std::map<std::string_view, Track> sources;
  for (const Row& row : rows->second) {
    if (!IsOf(row, subject, input)) continue;
    Track one{.values = {}, .input = &input};
    Fill(*row.window, one);
    one.latest = row.window;
    auto [place, first] = sources.try_emplace(row.window->series.source, std::move(one));
    if (first) continue;
    Track& all = place->second;
    for (size_t i = 0; i < all.values.size(); ++i) {
      double &to = all.values[i], from = one.values[i];
      if (std::isnan(from)) continue;
      if (std::isnan(to) || input.combine == WhyInput::Combine::kOne) to = from;
      else if (input.combine == WhyInput::Combine::kMax) to = std::max(to, from);
      else to += from;
    }
    all.fresh = std::max(all.fresh, one.fresh);
    all.reset |= one.reset;
    if (one.first_ms != 0 && (all.first_ms == 0 || one.first_ms < all.first_ms)) all.first_ms = one.first_ms;
    if (one.last_ms > all.last_ms || all.last_ms == 0) {
      all.latest = one.latest;
      all.stale = one.stale;
      all.gap = one.gap;
      all.last_ms = one.last_ms;
    }
  }
  Track* best = nullptr;
  for (auto& [name, track] : sources)
    if (!best || track.last_ms > best->last_ms + 10'000) best = &track;
  return best ? std::move(*best) : out;
}

Track NodeSeries::Get(const WhySubject& subject, const WhyRole& role, int seconds) const {
  std::optional<Track> first;
  for (const WhyInput& input : role.any_of) {
    Track track = Read(subject, input);
    const bool known = track.KnownIn(static_cast<size_t>(seconds)) > 0;
    if (known && (!role.not_zero || track.Sum(static_cast<size_t>(seconds)) > 0)) return track;
    const bool better = first && first->KnownIn(static_cast<size_t>(seconds)) == 0 &&
                        (known || (!first->exists() && track.exists()));
    if (!first || better) first = std::move(track);
  }
  return std::move(*first);
}

}  // namespace gpulens::why_detail

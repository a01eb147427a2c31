#include "collectives/collective_join.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpulens::collectives {
namespace {

// More wait only when a host is silent; the oldest is then joined without it.
constexpr size_t kMostOpen = 64;
constexpr size_t kMostSpare = 8;
// A member of which nothing came for so long is not waited for.
constexpr int64_t kActiveNs = 5'000'000'000;
constexpr int64_t kCountEveryNs = 250'000'000;
// Fewer ranks do not show the median.
constexpr double kLeastPresent = 0.6;
constexpr uint64_t kDayNs = 86'400'000'000'000;
constexpr double kHourNs = 3.6e12;
constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

bool CanBeTrue(const Sample& sample) noexcept {
  return static_cast<size_t>(sample.function) < kFunctions && sample.duration_ns <= kDayNs &&
         sample.total_count >= 1 && sample.total_ns >= sample.duration_ns &&
         sample.sequence < uint64_t{1} << 62 && sample.total_ns < uint64_t{1} << 62 &&
         sample.ended_ns > -(int64_t{1} << 61) && sample.ended_ns < int64_t{1} << 61;
}

}  // namespace

void CollectiveJoin::CountActive(Track& track, int64_t now_ns) const {
  if (track.counted_ns != 0 && now_ns - track.counted_ns < kCountEveryNs) return;
  // In the first seconds the others are on their way.
  const bool first = track.counted_ns == 0;
  track.counted_ns = now_ns;
  if (first) return;
  track.active = static_cast<size_t>(std::ranges::count_if(
      track.last, [&](const Last& last) { return last.at_ns != 0 && now_ns - last.at_ns < kActiveNs; }));
}

CollectiveJoin::Open* CollectiveJoin::Find(Track& track, const Sample& sample, int64_t now_ns) {
  auto at = track.open.end();
  while (at != track.open.begin() && (*std::prev(at))->sequence >= sample.sequence) --at;
  if (at != track.open.end() && (*at)->sequence == sample.sequence) return at->get();
  if (sample.sequence < track.closed_through) return nullptr;
  std::unique_ptr<Open> open;
  if (track.spare.empty()) {
    open = std::make_unique<Open>();
  } else {
    open = std::move(track.spare.back());
    track.spare.pop_back();
  }
  open->sequence = sample.sequence;
  open->bytes = sample.bytes;
  open->algorithm = sample.algorithm;
  open->protocol = sample.protocol;
  open->first_at_ns = now_ns;
  open->present = open->interval_count = 0;
  open->count = 1;
  open->shortest = std::numeric_limits<float>::infinity();
  open->longest = 0;
  open->mean.assign(members_, kMissing);
  open->reached = static_cast<size_t>(std::ranges::count_if(track.last, [&](const Last& last) {
    return last.at_ns != 0 && last.sequence >= sample.sequence && now_ns - last.at_ns < kActiveNs;
  }));
  return track.open.insert(at, std::move(open))->get();
}

void CollectiveJoin::Add(size_t member, const Sample& sample, int64_t now_ns, DiagnosisCounts& counts,
                         const Sink& sink) {
  if (!CanBeTrue(sample)) {
    ++counts.invalid;
    return;
  }
  std::unique_ptr<Track>& made = tracks_[static_cast<size_t>(sample.function)];
  if (!made) made = std::make_unique<Track>();
  Track& track = *made;
  if (track.last.size() < members_) track.last.resize(members_);
  Last& last = track.last[member];
  const bool known = last.at_ns != 0;
  if (known && sample.sequence <= last.sequence) {
    ++counts.duplicate;
    return;
  }
  ++counts.samples;
  double mean = static_cast<double>(sample.duration_ns), span = 1, interval = 0;
  // Totals that fall are those of a writer that began again.
  if (known && sample.total_count > last.total_count && sample.total_ns >= last.total_ns) {
    mean = static_cast<double>(sample.total_ns - last.total_ns) /
           static_cast<double>(sample.total_count - last.total_count);
    span = static_cast<double>(sample.sequence - last.sequence);
    interval = static_cast<double>(sample.ended_ns - last.ended_ns) / span;
  }
  Open* open = Find(track, sample, now_ns);
  // The open ones that this member has passed.
  for (auto at = track.open.rbegin(); at != track.open.rend(); ++at) {
    if (known && (*at)->sequence <= last.sequence) break;
    if ((*at)->sequence <= sample.sequence) ++(*at)->reached;
  }
  last = {sample.sequence, sample.total_ns, sample.total_count, sample.ended_ns, now_ns};
  if (!open) {
    ++counts.late;
    return;
  }
  if (open->mean.size() < members_) open->mean.resize(members_, kMissing);
  open->mean[member] = static_cast<float>(mean);
  if (++open->present == 1) open->count = span;
  const auto own = static_cast<float>(sample.duration_ns);
  open->shortest = std::min(open->shortest, own);
  open->longest = std::max(open->longest, own);
  if (interval > 0 && interval < kHourNs && open->interval_count < open->intervals.size())
    open->intervals[open->interval_count++] = interval;
  CountActive(track, now_ns);
  // A member that has reached one has passed all before it.
  while (track.active >= 2 && !track.open.empty() && track.open.front()->reached >= track.active)
    Close(sample.function, track, counts, sink);
  while (track.open.size() > kMostOpen) Close(sample.function, track, counts, sink);
}

void CollectiveJoin::Close(Function function, Track& track, DiagnosisCounts& counts, const Sink& sink) {
  std::unique_ptr<Open> open = std::move(track.open.front());
  track.open.pop_front();
  track.closed_through = std::max(track.closed_through, open->sequence + 1);
  const size_t expected = std::max(track.active, open->present);
  if (open->present < 2 ||
      static_cast<double>(open->present) < kLeastPresent * static_cast<double>(expected)) {
    ++counts.incomplete;
  } else {
    ++counts.collectives;
    CompleteCollective done;
    const auto intervals = open->intervals.begin();
    const auto end = intervals + static_cast<std::ptrdiff_t>(open->interval_count);
    std::sort(intervals, end);
    done.joined.function = function;
    done.joined.count = open->count;
    done.joined.interval_ns = open->interval_count > 0 ? intervals[open->interval_count / 2] : 0;
    done.joined.mean_ns = open->mean;
    done.joined.present = open->present;
    done.sequence = open->sequence;
    done.bytes = open->bytes;
    done.algorithm = open->algorithm;
    done.protocol = open->protocol;
    done.shortest_ns = open->shortest;
    done.longest_ns = open->longest;
    done.expected = expected;
    sink(done);
  }
  if (track.spare.size() < kMostSpare) track.spare.push_back(std::move(open));
}

void CollectiveJoin::Advance(int64_t now_ns, DiagnosisCounts& counts, const Sink& sink) {
  for (size_t i = 0; i < kFunctions; ++i) {
    if (!tracks_[i]) continue;
    Track& track = *tracks_[i];
    CountActive(track, now_ns);
    while (!track.open.empty() && now_ns - track.open.front()->first_at_ns >= grace_ns_)
      Close(static_cast<Function>(i), track, counts, sink);
  }
}

void CollectiveJoin::Forget(size_t member) {
  for (auto& track : tracks_) {
    if (track && member < track->last.size()) track->last[member] = {};
  }
}

size_t CollectiveJoin::memory() const noexcept {
  size_t bytes = sizeof *this;
  for (const auto& track : tracks_) {
    if (!track) continue;
    bytes += sizeof *track + track->last.capacity() * sizeof(Last) + 1024;
    for (const auto& open : track->open) bytes += sizeof *open + open->mean.capacity() * sizeof(float);
    for (const auto& open : track->spare) bytes += sizeof *open + open->mean.capacity() * sizeof(float);
  }
  return bytes;
}

}  // namespace gpulens::collectives

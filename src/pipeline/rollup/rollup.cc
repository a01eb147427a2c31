#include "pipeline/rollup/rollup.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

namespace gpulens {
namespace {

// A sink holds two that wait and the one that it writes; one more is being made.
constexpr size_t kPooledSnapshots = 4;
constexpr int64_t kSecond = 1'000'000'000;
// Sinks tell times apart by milliseconds.
constexpr int64_t kNextTime = 2'000'000;

}  // namespace

Result<std::unique_ptr<Rollup>> Rollup::Make(const Config& sink) {
  std::vector<RollupRule> rules = RollupRulesOf(sink);
  if (rules.empty()) return std::unique_ptr<Rollup>();
  if (Status status = RefuseFaults(&CheckRollups, sink); !status) return status;
  return std::make_unique<Rollup>(std::move(rules));
}

Rollup::Rollup(std::vector<RollupRule> rules) {
  for (RollupRule& rule : rules) {
    std::string source = "rollup/" + std::to_string(rules_.size() + 1);
    rules_.push_back(std::make_unique<RollupGroups>(std::move(rule), std::move(source)));
  }
  intervals_.resize(rules_.size());
}

Ref<const Snapshot> Rollup::Apply(const Ref<const Snapshot>& snapshot) {
  return snapshot ? Run(*snapshot, false) : nullptr;
}

Ref<const Snapshot> Rollup::ApplyLast(const Ref<const Snapshot>& snapshot) {
  return snapshot ? Run(*snapshot, true) : nullptr;
}

Ref<const Snapshot> Rollup::Run(const Snapshot& snapshot, bool last) {
  const Instant now = snapshot.closed_at;
  const uint64_t former_round = round_++;
  if (start_unix_ns_ == 0) start_unix_ns_ = now.unix_ns;
  for (uint32_t r = 0; r < rules_.size(); ++r) {
    Interval& interval = intervals_[r];
    // The last interval takes in this tick, too.
    if (interval.open && (last || now.boot_ns < interval.end.boot_ns)) continue;
    if (interval.open) Close(r, interval.end, former_round);
    Open(r, now);
  }
  Ref<Snapshot> out = TakeSnapshot();
  out->closed_at = now;
  out->tick = snapshot.tick;
  out->resource = snapshot.resource;
  for (size_t i = 0; i < snapshot.frames.size(); ++i) {
    const SnapshotEntry& entry = snapshot.frames[i];
    Seen& seen = SourceOf(entry, i);
    seen.round = round_;
    seen.at_ns = now.boot_ns;
    seen.source->Take(entry.frame, start_unix_ns_);
    seen.source->Emit(entry, *out);
  }
  ForgetSources(now);
  for (uint32_t r = 0; r < rules_.size(); ++r) {
    Interval& interval = intervals_[r];
    if (last) {
      // Sinks send nothing that is not later than what they sent.
      const int64_t late_ns = std::max<int64_t>(0, interval.closed_ns + kNextTime - now.boot_ns);
      Close(r, now + Duration(late_ns), round_);
      interval.open = false;
    }
    if (!interval.results) continue;
    SnapshotEntry& entry = out->frames.emplace_back();
    entry.frame = interval.results;
    entry.source = entry.frame->source;
    entry.period = rules_[r]->rule().interval;
  }
  start_unix_ns_ = now.unix_ns;
  UpdateStats();
  return out;
}

// Two frames of one name have two sources.
Rollup::Seen& Rollup::SourceOf(const SnapshotEntry& entry, size_t hint) {
  auto fits = [&](const Seen& seen) { return seen.round != round_ && seen.source->name() == entry.source; };
  if (hint < sources_.size() && fits(sources_[hint])) return sources_[hint];
  auto found = std::ranges::find_if(sources_, fits);
  if (found != sources_.end()) return *found;
  return sources_.emplace_back(std::make_unique<RollupSource>(std::string(entry.source), rules_));
}

void Rollup::ForgetSources(Instant now) {
  std::erase_if(sources_, [&](const Seen& seen) {
    if (now.boot_ns - seen.at_ns < kForgetAfter.count()) return false;
    seen.source->Leave();
    return true;
  });
}

// The next interval follows the last one, unless the wall clock was set or the machine was suspended.
void Rollup::Open(uint32_t rule, Instant now) noexcept {
  Interval& interval = intervals_[rule];
  const Duration length = rules_[rule]->rule().interval;
  const Instant next = interval.end + length;
  const int64_t step_ns = (now.unix_ns - interval.end.unix_ns) - (now.boot_ns - interval.end.boot_ns);
  const bool follows = interval.open && next.boot_ns > now.boot_ns && std::abs(step_ns) <= kSecond;
  interval.open = true;
  if (follows) {
    interval.end = next;
    return;
  }
  int64_t into = now.unix_ns % length.count();
  if (into < 0) into += length.count();
  int64_t left = length.count() - into;
  if (left * 2 < length.count()) left += length.count();
  interval.end = now + Duration(left);
}

void Rollup::Close(uint32_t rule, Instant end, uint64_t round) {
  for (const Seen& seen : sources_) seen.source->EndInterval(rule, seen.round == round);
  intervals_[rule].results = rules_[rule]->Close(end);
  intervals_[rule].closed_ns = end.boot_ns;
  ++ended_;
}

Ref<Snapshot> Rollup::TakeSnapshot() {
  Ref<Snapshot> free;
  for (Ref<Snapshot>& pooled : pool_) {
    if (!pooled.unique()) continue;
    pooled->frames.clear();  // so that their writers have them back
    free = pooled;
  }
  if (free) return free;
  free = MakeRef<Snapshot>();
  if (pool_.size() < kPooledSnapshots) pool_.push_back(free);
  return free;
}

void Rollup::UpdateStats() noexcept {
  RollupStats now;
  for (const auto& groups : rules_) now.groups += groups->size();
  for (const Seen& seen : sources_) {
    now.rolled_up += seen.source->members();
    now.left_out += seen.source->hidden();
    for (size_t i = 0; i < kRollupRefusals; ++i) now.refused[i] += seen.source->refused()[i];
  }
  stats_.groups.store(now.groups, std::memory_order_relaxed);
  stats_.rolled_up.store(now.rolled_up, std::memory_order_relaxed);
  stats_.left_out.store(now.left_out, std::memory_order_relaxed);
  stats_.intervals.store(ended_, std::memory_order_relaxed);
  for (size_t i = 0; i < kRollupRefusals; ++i)
    stats_.refused[i].store(now.refused[i], std::memory_order_relaxed);
}

RollupStats Rollup::stats() const noexcept {
  RollupStats now;
  now.groups = stats_.groups.load(std::memory_order_relaxed);
  now.rolled_up = stats_.rolled_up.load(std::memory_order_relaxed);
  now.left_out = stats_.left_out.load(std::memory_order_relaxed);
  now.intervals = stats_.intervals.load(std::memory_order_relaxed);
  for (size_t i = 0; i < kRollupRefusals; ++i)
    now.refused[i] = stats_.refused[i].load(std::memory_order_relaxed);
  return now;
}

}  // namespace gpulens

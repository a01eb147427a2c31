#include "pipeline/rollup/rollup.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <unordered_map>
#include <utility>

namespace gpulens {
namespace {

constexpr uint32_t kNoGroup = UINT32_MAX;
constexpr int64_t kMillisecond = 1'000'000;

bool SameShape(const SeriesInfo& a, const SeriesInfo& b) noexcept {
  if (a.shape == b.shape) return true;
  return a.shape && b.shape && a.shape->bounds == b.shape->bounds && a.shape->has_sum == b.shape->has_sum &&
         a.shape->has_count == b.shape->has_count;
}

bool SameDesc(const MetricDesc& a, const MetricDesc& b) noexcept {
  return &a == &b || (a.name == b.name && a.kind == b.kind && a.unit == b.unit && a.number == b.number);
}

// Whether the slot has the same series in both.
bool SameSeries(const Layout& before, const Layout& now, uint32_t slot) noexcept {
  if (slot >= before.slots() || slot >= now.slots()) return false;
  const SeriesInfo &a = before[slot], &b = now[slot];
  return a.desc && b.desc && SameDesc(*a.desc, *b.desc) && a.attributes == b.attributes && SameShape(a, b);
}

// Whether a series began after the previous reading of its source, and has counted from 0 since then.
bool BeganSince(const SeriesInfo& series, const Frame* before) noexcept {
  return before && series.start_known && series.start_unix_ns >= before->read_at.unix_ns;
}

// Numbers that fell began again from 0. Never negative.
template <class T>
T IncreaseOf(T before, T now, bool restarted) noexcept {
  T increase = now;
  if constexpr (std::is_integral_v<T>) {
    if (!restarted && now >= before && __builtin_sub_overflow(now, before, &increase)) increase = 0;
  } else {
    if (!restarted && now >= before) increase = now - before;
  }
  return std::max(increase, T{0});
}

constexpr int64_t kSecond = 1'000'000'000;
// Sinks export times in milliseconds.
constexpr int64_t kNextTime = 2'000'000;

}  // namespace

void RollupSource::Take(const Ref<const Frame>& frame, int64_t start_unix_ns) {
  if (layout_ != frame->layout) Plan(*frame, start_unix_ns);
  if (frame_ == frame) return;
  const Ref<const Frame> before = std::exchange(frame_, frame);
  Read(before.get());
}

uint32_t RollupSource::RulesOf(const MetricDesc& desc) const noexcept {
  static_assert(kRollupRulesMax <= 32);
  uint32_t rules = 0;
  for (size_t r = 0; r < rules_.size(); ++r) {
    if (rules_[r]->rule().Matches(desc)) rules |= uint32_t{1} << r;
  }
  return rules;
}

// Series that stay keep what they were read before.
void RollupSource::Plan(const Frame& frame, int64_t start_unix_ns) {
  const Layout& layout = *frame.layout;
  std::vector<RollupMember> former = std::exchange(members_, {});
  const std::vector<double> numbers = std::exchange(numbers_, {});
  // Ended series leave first, so that others can take their place in a group.
  for (RollupMember& member : former) {
    if (!SameSeries(*layout_, layout, member.slot)) Drop(member);
  }
  layout_ = frame.layout;
  of_ = shown_ = nullptr;
  hidden_.assign(layout.slots(), 0);
  series_ = hidden_series_ = 0;
  refused_.fill(0);
  std::unordered_map<const MetricDesc*, uint32_t> rules_of;
  auto old = former.begin();
  for (uint32_t slot = 0; slot < layout.slots(); ++slot) {
    const SeriesInfo& series = layout[slot];
    if (!series.desc) continue;
    ++series_;
    auto known = rules_of.find(series.desc);
    if (known == rules_of.end()) known = rules_of.emplace(series.desc, RulesOf(*series.desc)).first;
    for (uint32_t rules = known->second; rules != 0; rules &= rules - 1) {
      const auto rule = static_cast<uint32_t>(std::countr_zero(rules));
      while (old != former.end() && std::pair(old->slot, old->rule) < std::pair(slot, rule)) ++old;
      if (old == former.end() || old->slot != slot || old->rule != rule || old->group == kNoGroup) {
        Join(series, slot, rule, start_unix_ns);
        continue;
      }
      RollupMember& kept = members_.emplace_back(*old);
      if (kept.form != RollupForm::kBuckets) continue;
      const size_t size = (*rules_[rule])[kept.group].rows.size();
      kept.first_number = static_cast<uint32_t>(numbers_.size());
      numbers_.insert(numbers_.end(), numbers.begin() + old->first_number,
                      numbers.begin() + static_cast<std::ptrdiff_t>(old->first_number + size));
    }
  }
  for (const RollupMember& member : members_) {
    uint8_t& hidden = hidden_[member.slot];
    if (hidden || rules_[member.rule]->rule().keep_input) continue;
    hidden = 1;
    ++hidden_series_;
  }
}

void RollupSource::Join(const SeriesInfo& series, uint32_t slot, uint32_t rule, int64_t start_unix_ns) {
  RollupGroups& groups = *rules_[rule];
  if (!groups.rule().Takes(RollupFormOf(series))) return;
  const RollupGroups::Joined joined = groups.Join(series, start_unix_ns);
  if (!joined.group) {
    ++refused_[static_cast<size_t>(joined.why)];
    return;
  }
  RollupMember& member = members_.emplace_back();
  member.slot = slot;
  member.rule = rule;
  member.group = *joined.group;
  member.form = groups[*joined.group].form;
  member.int_cells = groups[*joined.group].int_cells;
  member.first_number = static_cast<uint32_t>(numbers_.size());
  numbers_.resize(numbers_.size() + groups[*joined.group].rows.size());
}

void RollupSource::Drop(RollupMember& member) noexcept {
  RollupGroups& groups = *rules_[member.rule];
  groups[member.group].Take(member);
  groups.Leave(member.group);
  member.group = kNoGroup;
}

void RollupSource::Read(const Frame* before) {
  const Frame& frame = *frame_;
  for (RollupMember& member : members_) {
    const Quality quality = frame.quality[member.slot];
    if (quality == Quality::kAbsent) continue;
    const int64_t at_ns = frame.read_at.boot_ns - int64_t{frame.AgeMs(member.slot)} * kMillisecond;
    // Ages are whole milliseconds, so one reading may seem to be up to one later.
    if (member.seen && at_ns <= member.last_ns + kMillisecond) continue;
    RollupGroup& group = (*rules_[member.rule])[member.group];
    const SeriesInfo& series = (*frame.layout)[member.slot];
    const Cell cell = frame.cells[series.first_cell];
    const double value = member.int_cells ? static_cast<double>(cell.i) : cell.d;
    // A start that merely became known is no new one.
    const bool began =
        BeganSince(series, before) && !(member.seen && series.start_unix_ns == member.start_unix_ns);
    if (member.form == RollupForm::kBuckets) {
      if (!TakeBuckets(member, group, series, began)) continue;
    } else if (!std::isfinite(value)) {
      continue;
    } else if (member.form == RollupForm::kReadings) {
      group.AddReading(value, at_ns);
      member.sum += value;
    } else if (member.seen || began) {
      if (member.int_cells) {
        const int64_t increase = IncreaseOf(member.last.i, cell.i, began);
        group.AddIncrease(increase);
        member.sum += static_cast<double>(increase);
      } else {
        const double increase = IncreaseOf(member.last.d, cell.d, began);
        group.AddIncrease(increase);
        member.sum += increase;
      }
      if (!member.seen) member.base_ns = before->read_at.boot_ns;
      member.has_increase = true;
    } else {
      member.base_ns = at_ns;
    }
    member.last = cell;
    member.last_ns = at_ns;
    member.start_unix_ns = series.start_unix_ns;
    member.seen = true;
    member.stale = member.stale || quality == Quality::kStale;
    ++member.readings;
  }
}

// False when the numbers cannot be believed. `from_zero`: they have counted from 0 since the previous one.
bool RollupSource::TakeBuckets(RollupMember& member, RollupGroup& group, const SeriesInfo& series,
                               bool from_zero) {
  CopyNumbers(std::span(frame_->cells).subspan(series.first_cell, series.cells()), series.desc->number, now_);
  ReadBuckets(*series.shape, now_, buckets_);
  const double sum = buckets_.sum.value_or(0);
  const size_t bounds = group.bounds.size();
  if (buckets_.counts.size() != bounds || !std::isfinite(buckets_.count) || !std::isfinite(sum)) return false;
  now_.assign(buckets_.counts.begin(), buckets_.counts.end());
  now_.push_back(buckets_.count);
  double* before = numbers_.data() + member.first_number;
  const std::span<const double> counts_before(before, bounds + 1);
  if (member.seen || from_zero) {
    double sum_increase = sum;
    if (from_zero || AnyFell(counts_before, now_)) {
      increases_ = now_;
    } else {
      increases_.resize(now_.size());
      Growth(counts_before, now_, increases_);
      sum_increase -= before[bounds + 1];
    }
    increases_.push_back(sum_increase);
    for (size_t i = 0; i < increases_.size(); ++i) {
      group.rows[i] += increases_[i];
      group.in_rows[i] += increases_[i];
    }
  }
  std::ranges::copy(now_, before);
  before[bounds + 1] = sum;
  return true;
}

void RollupSource::Emit(const SnapshotEntry& entry, Snapshot& out) {
  if (hidden_series_ != 0 && hidden_series_ == series_) return;
  out.frames.push_back(entry);
  if (hidden_series_ == 0) return;
  if (of_ != entry.frame) {
    of_ = entry.frame;
    shown_ = nullptr;
    Ref<Frame> copy = pool_.Take();
    *copy = *entry.frame;
    for (size_t slot = 0; slot < hidden_.size(); ++slot) {
      if (hidden_[slot]) copy->quality[slot] = Quality::kAbsent;
    }
    shown_ = copy;
  }
  out.frames.back().frame = shown_;
  out.frames.back().source = shown_->source;
}

void RollupSource::EndInterval(uint32_t rule, bool in_snapshot) noexcept {
  RollupGroups& groups = *rules_[rule];
  for (RollupMember& member : members_) {
    if (member.rule != rule) continue;
    RollupGroup& group = groups[member.group];
    const bool shown = in_snapshot && frame_->quality[member.slot] != Quality::kAbsent;
    group.window.shown = group.window.shown || shown;
    if (shown && member.readings == 0) group.window.stale = true;
    group.Take(member);
  }
}

void RollupSource::Leave() noexcept {
  for (RollupMember& member : members_) Drop(member);
  members_.clear();
}

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
  pool_.ForEachFree([](Snapshot& free) { free.frames.clear(); });  // returns their frames to the writers
  Ref<Snapshot> out = pool_.Take();
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

void Rollup::UpdateStats() {
  RollupStats now{.intervals = ended_};
  for (const auto& groups : rules_) now.groups += groups->size();
  for (const Seen& seen : sources_) {
    now.rolled_up += seen.source->members();
    now.left_out += seen.source->hidden();
    for (size_t i = 0; i < kRollupRefusals; ++i) now.refused[i] += seen.source->refused()[i];
  }
  std::lock_guard lock(stats_mutex_);
  stats_ = now;
}

RollupStats Rollup::stats() const {
  std::lock_guard lock(stats_mutex_);
  return stats_;
}

}  // namespace gpulens

#include "pipeline/rollup/rollup.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>
#include <utility>

namespace gpulens {
namespace {

constexpr uint32_t kNoGroup = UINT32_MAX;
// A sink holds two that wait and the one that it writes; one more is being made.
constexpr size_t kPooled = 4;
constexpr int64_t kMillisecond = 1'000'000, kSecond = 1'000'000'000;

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

}  // namespace

struct Rollup::Rule {
  Rule(RollupRule rule, std::string source) : groups(std::move(rule), std::move(source)) {}

  RollupGroups groups;
  bool open = false;
  Instant end;            // of the current interval
  int64_t closed_ns = 0;  // boot time at which the last one ended
  Ref<const Frame> frame;
};

struct Rollup::Source {
  std::string name;
  Ref<const Frame> frame;  // read last
  Ref<const Layout> layout;
  std::vector<RollupMember> members;  // by slot, then by rule
  std::vector<double> numbers;        // of histograms: counts by bound, count, sum
  std::vector<uint8_t> hidden;        // by slot: not sent as it is
  uint32_t series = 0, hidden_series = 0;
  std::array<uint64_t, kRollupRefusals> refused{};
  uint64_t round = 0;   // in which it was in the snapshot
  int64_t seen_ns = 0;  // boot time of that snapshot
  Ref<const Frame> of;  // whose copy `shown` is
  Ref<const Frame> shown;
  std::vector<Ref<Frame>> pool;
};

Result<std::unique_ptr<Rollup>> Rollup::Make(const Config& sink) {
  std::vector<RollupRule> rules = RollupRulesOf(sink);
  if (rules.empty()) return std::unique_ptr<Rollup>();
  if (Status status = RefuseFaults(&CheckRollups, sink); !status) return status;
  return std::make_unique<Rollup>(std::move(rules));
}

Rollup::Rollup(std::vector<RollupRule> rules) {
  for (RollupRule& rule : rules) {
    std::string source = "rollup/" + std::to_string(rules_.size() + 1);
    rules_.push_back(std::make_unique<Rule>(std::move(rule), std::move(source)));
  }
}

Rollup::~Rollup() = default;

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
    Rule& rule = *rules_[r];
    // The last interval takes in this tick, too.
    if (rule.open && (last || now.boot_ns < rule.end.boot_ns)) continue;
    if (rule.open) Close(r, rule.end, former_round);
    Open(rule, now);
  }
  Ref<Snapshot> out = TakeSnapshot();
  out->closed_at = now;
  out->tick = snapshot.tick;
  out->resource = snapshot.resource;
  for (size_t i = 0; i < snapshot.frames.size(); ++i) {
    const SnapshotEntry& entry = snapshot.frames[i];
    Source& source = SourceOf(entry, i);
    source.round = round_;
    source.seen_ns = now.boot_ns;
    if (source.layout != entry.frame->layout) Plan(source, *entry.frame);
    if (source.frame != entry.frame) {
      Ref<const Frame> before = std::exchange(source.frame, entry.frame);
      Read(source, *entry.frame, before.get());
    }
    Emit(source, entry, *out);
  }
  ForgetSources(now);
  for (uint32_t r = 0; r < rules_.size(); ++r) {
    Rule& rule = *rules_[r];
    if (last) {
      // Sinks send nothing that is not later than what they sent.
      const int64_t late_ns = std::max<int64_t>(0, rule.closed_ns + 2 * kMillisecond - now.boot_ns);
      Close(r, now + Duration(late_ns), round_);
      rule.open = false;
    }
    if (!rule.frame) continue;
    SnapshotEntry& entry = out->frames.emplace_back();
    entry.frame = rule.frame;
    entry.source = rule.frame->source;
  }
  start_unix_ns_ = now.unix_ns;
  UpdateStats();
  return out;
}

// Two frames of one name have two sources.
Rollup::Source& Rollup::SourceOf(const SnapshotEntry& entry, size_t hint) {
  auto fits = [&](const std::unique_ptr<Source>& source) {
    return source->round != round_ && source->name == entry.source;
  };
  if (hint < sources_.size() && fits(sources_[hint])) return *sources_[hint];
  auto found = std::ranges::find_if(sources_, fits);
  if (found != sources_.end()) return **found;
  sources_.push_back(std::make_unique<Source>());
  sources_.back()->name = entry.source;
  return *sources_.back();
}

uint32_t Rollup::RulesOf(const MetricDesc& desc) const noexcept {
  static_assert(kRollupRulesMax <= 32);
  uint32_t rules = 0;
  for (size_t r = 0; r < rules_.size(); ++r) {
    if (rules_[r]->groups.rule().Matches(desc.name)) rules |= uint32_t{1} << r;
  }
  return rules;
}

// Series that stay keep what they were read before.
void Rollup::Plan(Source& source, const Frame& frame) {
  const Layout& layout = *frame.layout;
  std::vector<RollupMember> former = std::exchange(source.members, {});
  const std::vector<double> numbers = std::exchange(source.numbers, {});
  // Those that ended leave first, so that others may have their place in a group.
  for (RollupMember& member : former) {
    if (!SameSeries(*source.layout, layout, member.slot)) Drop(member);
  }
  source.layout = frame.layout;
  source.of = source.shown = nullptr;
  source.pool.clear();
  source.hidden.assign(layout.slots(), 0);
  source.series = source.hidden_series = 0;
  source.refused.fill(0);
  std::unordered_map<const MetricDesc*, uint32_t> rules_of;
  auto old = former.begin();
  for (uint32_t slot = 0; slot < layout.slots(); ++slot) {
    const SeriesInfo& series = layout[slot];
    if (!series.desc) continue;
    ++source.series;
    auto known = rules_of.find(series.desc);
    if (known == rules_of.end()) known = rules_of.emplace(series.desc, RulesOf(*series.desc)).first;
    for (uint32_t rules = known->second; rules != 0; rules &= rules - 1) {
      const auto rule = static_cast<uint32_t>(std::countr_zero(rules));
      while (old != former.end() && std::pair(old->slot, old->rule) < std::pair(slot, rule)) ++old;
      if (old == former.end() || old->slot != slot || old->rule != rule || old->group == kNoGroup) {
        Join(source, series, slot, rule);
        continue;
      }
      RollupMember& kept = source.members.emplace_back(*old);
      if (kept.form != RollupForm::kBuckets) continue;
      const size_t size = rules_[rule]->groups[kept.group].rows.size();
      kept.first_number = static_cast<uint32_t>(source.numbers.size());
      source.numbers.insert(source.numbers.end(), numbers.begin() + old->first_number,
                            numbers.begin() + static_cast<std::ptrdiff_t>(old->first_number + size));
    }
  }
  for (const RollupMember& member : source.members) {
    uint8_t& hidden = source.hidden[member.slot];
    if (hidden || rules_[member.rule]->groups.rule().keep_input) continue;
    hidden = 1;
    ++source.hidden_series;
  }
}

void Rollup::Join(Source& source, const SeriesInfo& series, uint32_t slot, uint32_t rule) {
  RollupGroups& groups = rules_[rule]->groups;
  if (!groups.rule().Takes(RollupFormOf(series))) return;
  const RollupGroups::Joined joined = groups.Join(series, start_unix_ns_);
  if (!joined.group) {
    ++source.refused[static_cast<size_t>(joined.why)];
    return;
  }
  RollupMember& member = source.members.emplace_back();
  member.slot = slot;
  member.rule = rule;
  member.group = *joined.group;
  member.form = groups[*joined.group].form;
  member.int_cells = groups[*joined.group].int_cells;
  member.first_number = static_cast<uint32_t>(source.numbers.size());
  source.numbers.resize(source.numbers.size() + groups[*joined.group].rows.size());
}

void Rollup::Drop(RollupMember& member) {
  RollupGroups& groups = rules_[member.rule]->groups;
  groups[member.group].Take(member);
  groups.Leave(member.group);
  member.group = kNoGroup;
}

void Rollup::Read(Source& source, const Frame& frame, const Frame* before) {
  for (RollupMember& member : source.members) {
    const Quality quality = frame.quality[member.slot];
    if (quality == Quality::kAbsent) continue;
    const int64_t at_ns = frame.read_at.boot_ns - int64_t{frame.AgeMs(member.slot)} * kMillisecond;
    // Ages are whole milliseconds, so one reading may seem to be up to one later.
    if (member.seen && at_ns <= member.last_ns + kMillisecond) continue;
    RollupGroup& group = rules_[member.rule]->groups[member.group];
    const SeriesInfo& series = (*frame.layout)[member.slot];
    const Cell cell = frame.cells[series.first_cell];
    const double value = member.int_cells ? static_cast<double>(cell.i) : cell.d;
    // A start that merely became known is no new one.
    const bool began =
        BeganSince(series, before) && !(member.seen && series.start_unix_ns == member.start_unix_ns);
    if (member.form == RollupForm::kBuckets) {
      if (!TakeBuckets(source, member, group, series, frame, began)) continue;
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
bool Rollup::TakeBuckets(Source& source, RollupMember& member, RollupGroup& group, const SeriesInfo& series,
                         const Frame& frame, bool from_zero) {
  CopyNumbers(std::span(frame.cells).subspan(series.first_cell, series.cells()), series.desc->number,
              numbers_);
  ReadBuckets(*series.shape, numbers_, buckets_);
  const double sum = buckets_.sum.value_or(0);
  const size_t bounds = group.bounds.size();
  if (buckets_.counts.size() != bounds || !std::isfinite(buckets_.count) || !std::isfinite(sum)) return false;
  std::vector<double>& now = numbers_;
  now.assign(buckets_.counts.begin(), buckets_.counts.end());
  now.push_back(buckets_.count);
  double* before = source.numbers.data() + member.first_number;
  const std::span<const double> counts_before(before, bounds + 1);
  if (member.seen || from_zero) {
    double sum_increase = sum;
    if (from_zero || AnyFell(counts_before, now)) {
      increases_ = now;
    } else {
      increases_.resize(now.size());
      Growth(counts_before, now, increases_);
      sum_increase -= before[bounds + 1];
    }
    increases_.push_back(sum_increase);
    for (size_t i = 0; i < increases_.size(); ++i) {
      group.rows[i] += increases_[i];
      group.in_rows[i] += increases_[i];
    }
  }
  std::ranges::copy(now, before);
  before[bounds + 1] = sum;
  return true;
}

void Rollup::Emit(Source& source, const SnapshotEntry& entry, Snapshot& out) {
  if (source.hidden_series != 0 && source.hidden_series == source.series) return;
  out.frames.push_back(entry);
  if (source.hidden_series == 0) return;
  if (source.of != entry.frame) {
    source.of = entry.frame;
    source.shown = nullptr;
    Ref<Frame> copy;
    for (Ref<Frame>& pooled : source.pool) {
      if (pooled.unique()) copy = pooled;
    }
    if (!copy) {
      copy = MakeRef<Frame>();
      if (source.pool.size() < kPooled) source.pool.push_back(copy);
    }
    const Frame& frame = *entry.frame;
    copy->source = frame.source;
    copy->layout = frame.layout;
    copy->run = frame.run;
    copy->read_at = frame.read_at;
    copy->cells = frame.cells;
    copy->quality = frame.quality;
    copy->absence = frame.absence;
    copy->age_ms = frame.age_ms;
    copy->exemplars = frame.exemplars;
    for (size_t slot = 0; slot < source.hidden.size(); ++slot) {
      if (source.hidden[slot]) copy->quality[slot] = Quality::kAbsent;
    }
    source.shown = copy;
  }
  out.frames.back().frame = source.shown;
  out.frames.back().source = source.shown->source;
}

void Rollup::ForgetSources(Instant now) {
  std::erase_if(sources_, [&](const std::unique_ptr<Source>& source) {
    if (now.boot_ns - source->seen_ns < kForgetAfter.count()) return false;
    for (RollupMember& member : source->members) Drop(member);
    return true;
  });
}

// The next interval follows the last one, unless the wall clock was set or the machine was suspended.
void Rollup::Open(Rule& rule, Instant now) noexcept {
  const Duration interval = rule.groups.rule().interval;
  const Instant next = rule.end + interval;
  const int64_t step_ns = (now.unix_ns - rule.end.unix_ns) - (now.boot_ns - rule.end.boot_ns);
  const bool follows = rule.open && next.boot_ns > now.boot_ns && std::abs(step_ns) <= kSecond;
  rule.open = true;
  if (follows) {
    rule.end = next;
    return;
  }
  const int64_t length = interval.count();
  int64_t into = now.unix_ns % length;
  if (into < 0) into += length;
  int64_t left = length - into;
  if (left * 2 < length) left += length;
  rule.end = now + Duration(left);
}

void Rollup::Close(uint32_t r, Instant end, uint64_t round) {
  Rule& rule = *rules_[r];
  for (const std::unique_ptr<Source>& source : sources_) {
    const bool here = source->round == round;
    for (RollupMember& member : source->members) {
      if (member.rule != r) continue;
      RollupGroup& group = rule.groups[member.group];
      const bool shown = here && source->frame->quality[member.slot] != Quality::kAbsent;
      group.window.shown = group.window.shown || shown;
      if (shown && member.readings == 0) group.window.stale = true;
      group.Take(member);
    }
  }
  rule.frame = rule.groups.Close(end);
  rule.closed_ns = end.boot_ns;
  ++intervals_;
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
  if (pool_.size() < kPooled) pool_.push_back(free);
  return free;
}

void Rollup::UpdateStats() noexcept {
  RollupStats now;
  for (const auto& rule : rules_) now.groups += rule->groups.size();
  for (const auto& source : sources_) {
    now.rolled_up += source->members.size();
    now.left_out += source->hidden_series;
    for (size_t i = 0; i < kRollupRefusals; ++i) now.refused[i] += source->refused[i];
  }
  stats_.groups.store(now.groups, std::memory_order_relaxed);
  stats_.rolled_up.store(now.rolled_up, std::memory_order_relaxed);
  stats_.left_out.store(now.left_out, std::memory_order_relaxed);
  stats_.intervals.store(intervals_, std::memory_order_relaxed);
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

#include "plugins/analyzers/inference/feed.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

namespace gpulens::windows {
namespace {

double NumberOf(const MetricDesc& desc, Cell cell) noexcept {
  return desc.number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
}

void AddTo(std::span<double> into, std::span<const double> from) noexcept {
  for (size_t i = 0; i < into.size(); ++i) into[i] += from[i];
}

// Adds the growth between two rows: counts first, the rest are sums. A fall is a restart.
void AddGrowth(std::span<double> into, std::span<const double> before, std::span<const double> after,
               size_t counts, std::vector<double>& tmp) {
  if (AnyFell(before.first(counts), after.first(counts))) return AddTo(into, after);
  tmp.resize(into.size());
  Growth(before.first(counts), after.first(counts), std::span(tmp).first(counts));
  for (size_t i = counts; i < into.size(); ++i) tmp[i] = after[i] - before[i];
  AddTo(into, tmp);
}

// Number of gone label sets that are kept in case they come back.
constexpr size_t kGoneKept = 64;

bool Passes(const LabelFilter& filter, const AttributeSet& attributes, bool& witness) {
  witness = false;
  if (filter.key.empty()) return true;
  if (!attributes.Has(filter.key)) return false;
  std::string value = attributes.Text(filter.key);
  bool listed = std::ranges::find(filter.values, value) != filter.values.end();
  witness = filter.except && listed;
  return filter.except || listed;
}

}  // namespace

void Feed::Read(const FeedReading& reading, FeedScratch& scratch) {
  result_ = Gather(reading.frame, scratch);
  if (result_ != FeedResult::kRead) return;
  if (use_ == FeedUse::kLevel) return Combined(scratch);
  if (reading.frame.read_at.boot_ns <= last_ns_) result_ = FeedResult::kSkipped;
  else Step(reading, scratch);
}

// Reads each label set. Skips the reading when one is stale: a part would pass for the whole.
FeedResult Feed::Gather(const Frame& frame, FeedScratch& scratch) {
  size_t width = rows_.width(), present = 0;
  scratch.rows.resize(inputs_.size() * width);
  scratch.present.assign(inputs_.size(), 0);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = inputs_[i];
    if (!input.live() || (!input.counts && !input.witness)) continue;
    Quality quality = frame.quality[input.slot];
    if (quality == Quality::kAbsent) continue;
    std::span<double> row(scratch.rows.data() + i * width, width);
    if (quality == Quality::kStale || !ReadRow(frame, input, row, scratch)) return FeedResult::kSkipped;
    scratch.present[i] = 1;
    ++present;
  }
  return present > 0 ? FeedResult::kRead : FeedResult::kNone;
}

bool Feed::ReadRow(const Frame& frame, const Input& input, std::span<double> row, FeedScratch& scratch) {
  if (use_ == FeedUse::kMoments || use_ == FeedUse::kBuckets)
    return ReadHistogram(frame, input, row, scratch);
  const SeriesInfo& info = (*frame.layout)[input.slot];
  row[0] = NumberOf(*info.desc, frame.cells[info.first_cell]);
  return std::isfinite(row[0]);
}

bool Feed::ReadHistogram(const Frame& frame, const Input& input, std::span<double> row,
                         FeedScratch& scratch) {
  const SeriesInfo& info = (*frame.layout)[input.slot];
  if (!input.shape) return false;
  CopyNumbers(std::span(frame.cells).subspan(info.first_cell, info.cells()), info.desc->number,
              scratch.numbers);
  Buckets& now = scratch.buckets;
  ReadBuckets(*input.shape, scratch.numbers, now);
  size_t counts = Counts();
  // Both ascend.
  for (size_t i = 0, at = 0; i + 1 < counts; ++i, ++at) {
    while (at < now.bounds.size() && now.bounds[at] < bounds_[i]) ++at;
    if (at == now.bounds.size() || now.bounds[at] != bounds_[i]) return false;
    row[i] = now.counts[at];
  }
  row[counts - 1] = now.count;
  row[counts] = now.sum.value_or(std::numeric_limits<double>::quiet_NaN());
  return std::isfinite(now.count);
}

void Feed::Combined(FeedScratch& scratch) noexcept {
  double sum = 0, most = -std::numeric_limits<double>::infinity();
  size_t count = 0;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!scratch.present[i] || inputs_[i].witness) continue;
    sum += scratch.rows[i];
    most = std::max(most, scratch.rows[i]);
    ++count;
  }
  // Only witnesses: it did not happen.
  level_ = sum;
  if (count == 0) return;
  if (combine_ == Combine::kMean) level_ = sum / static_cast<double>(count);
  if (combine_ == Combine::kMax || combine_ == Combine::kNewest) level_ = most;
}

void Feed::Step(const FeedReading& reading, FeedScratch& scratch) {
  const size_t width = rows_.width(), counts = Counts();
  scratch.step.assign(width, 0);
  scratch.before.assign(width, 0);
  scratch.after.assign(width, 0);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Input& input = inputs_[i];
    std::span<double> last = LastOf(i);
    if (!scratch.present[i]) {
      if (input.present) AddTo(scratch.before, last);
      input.present = false;
      continue;
    }
    std::span<const double> now(scratch.rows.data() + i * width, width);
    // Times of another machine are only compared for new series.
    bool other = !input.read || input.start_unix_ns != input.read_start_unix_ns;
    bool is_new =
        input.start_known && other && reading.last_unix_ns != 0 && input.start_unix_ns > reading.last_unix_ns;
    if (is_new) {
      AddTo(scratch.step, now);
    } else if (input.read && !AnyFell(last.first(counts), now.first(counts))) {
      AddGrowth(scratch.step, last, now, counts, scratch.tmp);
    } else if (input.read) {
      AddTo(scratch.before, last);
      AddTo(scratch.after, now);
    } else if (reading.follows && !dropped_ && !input.start_known) {
      AddTo(scratch.after, now);
    }
    std::copy(now.begin(), now.end(), last.begin());
    input.read = input.present = true;
    input.read_start_unix_ns = input.start_unix_ns;
  }
  AddGrowth(scratch.step, scratch.before, scratch.after, counts, scratch.tmp);
  if (last_ns_ != 0) Keep(reading, scratch.step);
  last_ns_ = reading.frame.read_at.boot_ns;
}

void Feed::Keep(const FeedReading& reading, std::span<const double> step) {
  int64_t now_ns = reading.frame.read_at.boot_ns, window_ns = reading.window.count();
  int64_t slice_ns = std::max<int64_t>(1, window_ns / kRowsOfWindow);
  bool fits = !rows_.empty() && now_ns / slice_ns == last_ns_ / slice_ns;
  AddTo(fits ? rows_.Last() : rows_.Push(last_ns_), step);
  rows_.Expire(now_ns - window_ns);
  rows_.Sum(observed_);
}

Feed::Feed(const MetricPick& pick, FeedUse use, int64_t since_ns)
    : pick_(pick),
      use_(use),
      combine_(EngineMetricOf(*pick.role) ? EngineMetricOf(*pick.role)->combine : Combine::kSum),
      last_ns_(since_ns),
      rows_(use == FeedUse::kMoments || use == FeedUse::kBuckets ? 2 : 1, kRowsMax),
      observed_(rows_.width()) {}

void Feed::BeginPlan() noexcept {
  for (Input& input : inputs_) input.slot = kNone;
  live_ = 0;
  planned_ = inputs_.size();
  cursor_ = 0;
}

// Label sets mostly keep their order.
Feed::Input& Feed::FindOrMake(const AttributeSet& attributes) {
  auto is_it = [&](size_t i) { return !inputs_[i].live() && inputs_[i].attributes == attributes; };
  if (cursor_ < planned_ && is_it(cursor_)) return inputs_[cursor_++];
  if (by_hash_.empty()) {
    for (uint32_t i = 0; i < planned_; ++i) by_hash_.emplace_back(inputs_[i].attributes.hash(), i);
    std::ranges::sort(by_hash_);
  }
  auto at = std::lower_bound(by_hash_.begin(), by_hash_.end(), std::pair(attributes.hash(), uint32_t{0}));
  for (; at != by_hash_.end() && at->first == attributes.hash(); ++at) {
    if (!is_it(at->second)) continue;
    cursor_ = at->second + 1;
    return inputs_[at->second];
  }
  Input& made = inputs_.emplace_back();
  made.attributes = attributes;
  return made;
}

bool Feed::Takes(const MetricPick& pick, const SeriesInfo& info) {
  bool witness = false;
  return info.desc == pick.role && Passes(pick.filter, info.attributes, witness);
}

void Feed::Add(const SeriesInfo& info, uint32_t slot) {
  bool witness = false;
  if (!Passes(pick_.filter, info.attributes, witness)) return;
  Input& input = FindOrMake(info.attributes);
  input.slot = slot;
  input.shape = info.shape;
  input.start_unix_ns = info.start_unix_ns;
  input.start_known = info.start_known;
  input.witness = witness;
  input.counts = !witness;
  ++live_;
}

void Feed::EndPlan() {
  by_hash_ = {};
  MarkCopies();
  DropGone();
  lasts_.resize(inputs_.size() * rows_.width());
  if (use_ == FeedUse::kBuckets) FollowBounds();
}

void Feed::MarkCopies() {
  struct Lowest {
    EngineRanks rank;
    Input* input;
  };
  std::map<std::string, Lowest> lowest;
  std::string rest;
  EngineRanks rank;
  for (Input& input : inputs_) {
    if (!input.live() || input.witness || !SplitRanks(input.attributes, rest, rank)) continue;
    auto [at, first] = lowest.try_emplace(rest, Lowest{rank, &input});
    if (first) continue;
    bool lower = rank < at->second.rank;
    (lower ? at->second.input : &input)->counts = false;
    --live_;
    if (lower) at->second = {rank, &input};
  }
}

// Of the gone label sets, keeps the newest kGoneKept that were read, and all of the last reading, as the next
// one must see that they are gone.
void Feed::DropGone() {
  auto has_gone = [](const Input& input) { return !input.live() && input.read && !input.present; };
  size_t gone = static_cast<size_t>(std::ranges::count_if(inputs_, has_gone));
  size_t drop = gone > kGoneKept ? gone - kGoneKept : 0;
  dropped_ = dropped_ || drop > 0;
  size_t width = rows_.width(), kept = 0;
  lasts_.resize(inputs_.size() * width);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].live() && !inputs_[i].read) continue;
    if (drop > 0 && has_gone(inputs_[i])) {
      --drop;
      continue;
    }
    if (kept != i) {
      inputs_[kept] = std::move(inputs_[i]);
      std::copy_n(lasts_.begin() + static_cast<ptrdiff_t>(i * width), width,
                  lasts_.begin() + static_cast<ptrdiff_t>(kept * width));
    }
    ++kept;
  }
  inputs_.resize(kept);
}

// The finite bounds that all label sets have.
void Feed::FollowBounds() {
  std::vector<double> common;
  const Shape* before = nullptr;
  for (const Input& input : inputs_) {
    if (!input.live() || !input.counts || !input.shape || input.shape.get() == before) continue;
    std::vector<double> own;
    for (double bound : input.shape->bounds) {
      if (std::isfinite(bound) && (own.empty() || bound > own.back())) own.push_back(bound);
    }
    if (before)
      std::erase_if(common, [&](double b) { return !std::binary_search(own.begin(), own.end(), b); });
    else common = std::move(own);
    before = input.shape.get();
  }
  if (!before || common == bounds_) return;
  bool was_there =
      !bounds_.empty() || std::ranges::any_of(inputs_, [](const Input& input) { return input.read; });
  bounds_ = std::move(common);
  rows_.Reset(bounds_.size() + 2);
  observed_.assign(rows_.width(), 0);
  lasts_.assign(inputs_.size() * rows_.width(), 0);
  for (Input& input : inputs_) input.read = input.present = false;
  if (was_there) last_ns_ = 0;
}

size_t Feed::memory_bytes() const noexcept {
  size_t doubles = lasts_.capacity() + bounds_.capacity() + observed_.capacity();
  return sizeof *this + doubles * sizeof(double) + inputs_.capacity() * sizeof(Input) + rows_.memory_bytes();
}

}  // namespace gpulens::windows

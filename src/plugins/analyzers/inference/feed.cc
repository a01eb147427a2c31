#include "plugins/analyzers/inference/feed.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpulens::windows {
namespace {

double NumberOf(const MetricDesc& desc, Cell cell) noexcept {
  return desc.number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
}

void AddTo(std::span<double> into, std::span<const double> from) noexcept {
  for (size_t i = 0; i < into.size(); ++i) into[i] += from[i];
}

// Adds what lies between two rows: counts first, the rest are sums. A fall is a new beginning.
void AddGrowth(std::span<double> into, std::span<const double> before, std::span<const double> after,
               size_t counts, std::vector<double>& tmp) {
  if (AnyFell(before.first(counts), after.first(counts))) return AddTo(into, after);
  tmp.resize(into.size());
  Growth(before.first(counts), after.first(counts), std::span(tmp).first(counts));
  for (size_t i = counts; i < into.size(); ++i) tmp[i] = after[i] - before[i];
  AddTo(into, tmp);
}

}  // namespace

void Feed::Read(const Reading& reading, Scratch& scratch) {
  known_ = Gather(reading.frame, scratch);
  if (known_ != Known::kNow) return;
  if (use_ == Use::kLevel) return Combined(scratch);
  if (reading.frame.read_at.boot_ns <= last_ns_) known_ = Known::kOld;
  else Step(reading, scratch);
}

// What each label set says. Nothing is kept when one of them is stale: a part would pass for the whole.
Known Feed::Gather(const Frame& frame, Scratch& scratch) {
  size_t width = rows_.width(), told = 0;
  scratch.rows.resize(inputs_.size() * width);
  scratch.told.assign(inputs_.size(), 0);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = inputs_[i];
    if (!input.live() || (!input.counts && !input.witness)) continue;
    Quality quality = frame.quality[input.slot];
    if (quality == Quality::kAbsent) continue;
    std::span<double> row(scratch.rows.data() + i * width, width);
    if (quality == Quality::kStale || !ReadRow(frame, input, row, scratch)) return Known::kOld;
    scratch.told[i] = 1;
    ++told;
  }
  return told > 0 ? Known::kNow : Known::kNothing;
}

bool Feed::ReadRow(const Frame& frame, const Input& input, std::span<double> row, Scratch& scratch) {
  if (use_ == Use::kMoments || use_ == Use::kBuckets) return ReadHistogram(frame, input, row, scratch);
  const SeriesInfo& info = (*frame.layout)[input.slot];
  row[0] = NumberOf(*info.desc, frame.cells[info.first_cell]);
  return std::isfinite(row[0]);
}

bool Feed::ReadHistogram(const Frame& frame, const Input& input, std::span<double> row, Scratch& scratch) {
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

void Feed::Combined(Scratch& scratch) noexcept {
  double sum = 0, most = -std::numeric_limits<double>::infinity();
  size_t count = 0;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!scratch.told[i] || inputs_[i].witness) continue;
    sum += scratch.rows[i];
    most = std::max(most, scratch.rows[i]);
    ++count;
  }
  // Only witnesses: what is asked for is told where it happens, and did not happen.
  level_ = sum;
  if (count == 0) return;
  if (combine_ == Combine::kMean) level_ = sum / static_cast<double>(count);
  if (combine_ == Combine::kMax || combine_ == Combine::kNewest) level_ = most;
}

void Feed::Step(const Reading& reading, Scratch& scratch) {
  const size_t width = rows_.width(), counts = Counts();
  scratch.step.assign(width, 0);
  scratch.before.assign(width, 0);
  scratch.after.assign(width, 0);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Input& input = inputs_[i];
    std::span<double> last = LastOf(i);
    if (!scratch.told[i]) {
      if (input.present) AddTo(scratch.before, last);
      input.present = false;
      continue;
    }
    std::span<const double> now(scratch.rows.data() + i * width, width);
    // Times of another machine are only compared while the series is new to us.
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
    } else if (reading.follows && !forgot_ && !input.start_known) {
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

void Feed::Keep(const Reading& reading, std::span<const double> step) {
  int64_t now_ns = reading.frame.read_at.boot_ns, window_ns = reading.window.count();
  int64_t slice_ns = std::max<int64_t>(1, window_ns / kRowsOfWindow);
  bool fits = !rows_.empty() && now_ns / slice_ns == last_ns_ / slice_ns;
  AddTo(fits ? rows_.Last() : rows_.Push(last_ns_), step);
  rows_.Expire(now_ns - window_ns);
  rows_.Sum(observed_);
}

}  // namespace gpulens::windows

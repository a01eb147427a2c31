#include "sdk/ring/record/record.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

namespace gpulens {

namespace {

constexpr std::string_view kStateNames[] = {"created",     "launched",   "active", "deactivated",
                                            "terminating", "terminated", "failed"};
constexpr std::string_view kReasonNames[kDropReasons] = {"rejected", "timeout",    "oldest",
                                                         "newest",   "terminated", "reply"};

template <size_t kCount, class Enum>
std::string_view NameOf(const std::string_view (&names)[kCount], Enum value) noexcept {
  const auto number = static_cast<size_t>(value);
  return number < kCount ? names[number] : "unknown";
}

}  // namespace

std::string_view KernelStateName(KernelState state) noexcept { return NameOf(kStateNames, state); }
std::string_view DropReasonName(DropReason reason) noexcept { return NameOf(kReasonNames, reason); }

namespace ring {
namespace {

constexpr size_t kMostError = 255;

double Seconds(Duration span) noexcept { return std::chrono::duration<double>(span).count(); }

// Truncates to kMostError bytes without splitting a UTF-8 character.
std::string_view Shortened(std::string_view text) noexcept {
  if (text.size() <= kMostError) return text;
  size_t size = kMostError;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  return text.substr(0, size);
}

}  // namespace

KernelRecord::KernelRecord(std::string id) : id_(std::move(id)) { last_error_.reserve(kMostError); }

void KernelRecord::SetState(KernelState state, TimePoint now) noexcept {
  if (state == KernelState::kActive && !start_) {
    start_ = counted_from_ = now;
    rates_.Reset(now);
  }
  const bool over = state == KernelState::kTerminated || state == KernelState::kFailed;
  if (over && start_ && !end_) end_ = now;
  state_ = state;
}

void KernelRecord::Settle() const noexcept {
  for (uint32_t i = 0; i < waits_; ++i) wait_.Record(wait_of_[i]);
  for (uint32_t i = 0; i < services_; ++i) {
    rates_.Count(service_of_[i].end, counts_.processed - services_ + i);
    service_.Record(service_of_[i].seconds);
  }
  waits_ = services_ = 0;
}

void KernelRecord::Error(TimePoint now, std::string_view what, double service_seconds) noexcept {
  if (!open()) ++stray_errors_;
  ++counts_.errors;
  last_ = now;
  service_.Record(service_seconds);
  last_error_ = Shortened(what);  // within the reserved memory
}

void KernelRecord::Reset(TimePoint now) {
  Settle();
  base_ = counts_;
  high_water_ = depth_;
  wait_.Reset();
  service_.Reset();
  last_error_.clear();
  if (!start_) return;
  counted_from_ = end_ ? std::min(now, *end_) : now;
  rates_.Reset(now);
}

KernelTelemetry KernelRecord::Copy(TimePoint now, std::chrono::system_clock::time_point wall) const {
  Settle();
  KernelTelemetry out;
  const auto wall_of = [&](TimePoint then) {
    return wall - std::chrono::duration_cast<std::chrono::system_clock::duration>(now - then);
  };
  out.kernel_id = id_;
  out.state = state_;
  out.messages_received = counts_.received - base_.received;
  out.messages_sent = counts_.sent - base_.sent;
  out.messages_processed = counts_.processed - base_.processed;
  out.errors = counts_.errors - base_.errors;
  for (size_t i = 0; i < kDropReasons; ++i) out.dropped_by[i] = counts_.dropped[i] - base_.dropped[i];
  out.dropped = std::accumulate(out.dropped_by.begin(), out.dropped_by.end(), uint64_t{0});
  out.last_error = last_error_;
  if (out.messages_processed > 0)
    out.error_rate = static_cast<double>(out.errors) / static_cast<double>(out.messages_processed);
  else out.error_rate = out.errors > 0 ? 1 : 0;
  out.wait_seconds = wait_.Describe();
  out.service_seconds = service_.Describe();
  out.queue_depth = depth_;
  out.queue_high_water = high_water_;
  out.queue_limit = queue_limit_;
  if (last_) out.last_message_time = wall_of(*last_);
  if (!start_) return out;

  const TimePoint until = end_.value_or(now);
  if (!start_wall_) start_wall_ = wall_of(*start_);
  out.start_time = start_wall_;
  if (last_ && *last_ >= *start_) out.last_message_time = std::max(*out.last_message_time, *start_wall_);
  out.uptime = until - *start_;
  const double counted = Seconds(until - *counted_from_);
  if (counted > 0) out.throughput = static_cast<double>(out.messages_processed) / counted;
  out.throughput_1s = rates_.PerSecond(now, std::chrono::seconds(1), counts_.processed);
  out.throughput_10s = rates_.PerSecond(now, std::chrono::seconds(10), counts_.processed);
  out.throughput_60s = rates_.PerSecond(now, std::chrono::seconds(60), counts_.processed);
  if (!counts_.cpu_known) return out;
  out.cpu_seconds = counts_.cpu_seconds - base_.cpu_seconds;
  if (counted > 0) out.cpu_ratio = out.cpu_seconds / counted;
  return out;
}

void KernelRecord::AddTo(KernelTotals& totals) const {
  Settle();
  KernelCounts& to = totals.counts;
  to.received += counts_.received;
  to.sent += counts_.sent;
  to.processed += counts_.processed;
  to.errors += counts_.errors;
  for (size_t i = 0; i < kDropReasons; ++i) to.dropped[i] += counts_.dropped[i];
  to.cpu_seconds += counts_.cpu_seconds;
  to.cpu_known |= counts_.cpu_known;
  wait_.AddTo(totals.wait);
  service_.AddTo(totals.service);
  totals.queue_depth += depth_;
}

}  // namespace ring

}  // namespace gpulens

namespace gpulens::ring {
namespace {

void Merge(const instruments::ExponentialCounts& from, instruments::ExponentialCounts& to) {
  to.buckets.Add(from.buckets.scale(), from.buckets.offset(), from.buckets.counts());
  to.sum += from.sum;
  to.zeros += from.zeros;
}

// Returns the value at a rank, which may be fractional, interpolated within its bucket.
double AtRank(const instruments::ExponentialCounts& whole, double rank) {
  double below = static_cast<double>(whole.zeros);
  if (rank < below) return 0;
  const std::span<const uint64_t> counts = whole.buckets.counts();
  const double width = std::exp2(-whole.buckets.scale());  // of a bucket, in doublings
  for (size_t i = 0; i < counts.size(); ++i) {
    const double here = static_cast<double>(counts[i]);
    if (rank < below + here) {
      const double part = (rank - below + 0.5) / here;
      const double bucket = static_cast<double>(whole.buckets.offset()) + static_cast<double>(i);
      return std::exp2((bucket + std::min(part, 1.0)) * width);
    }
    below += here;
  }
  return std::numeric_limits<double>::infinity();  // the caller clamps it to the maximum
}

}  // namespace

void LatencyRecord::Record(double seconds) noexcept {
  if (!(seconds >= 0 && seconds <= std::numeric_limits<double>::max())) return;
  instruments::RecordInWindow(window_.data(), seconds);
  if (n_++ == 0) first_ = least_ = most_ = seconds;
  sum_ += seconds;
  least_ = std::min(least_, seconds);
  most_ = std::max(most_, seconds);
  const double off = seconds - first_;
  off_ += off;
  squares_ += off * off;
}

void LatencyRecord::Reset() {
  instruments::ReadWindow(window_.data(), before_);
  for (instruments::CounterCell& cell : window_) cell.store(0, std::memory_order_relaxed);
  n_ = 0;
  sum_ = least_ = most_ = first_ = off_ = squares_ = 0;
}

Distribution LatencyRecord::Describe() const {
  Distribution out;
  out.n = n_;
  if (n_ == 0) return out;
  const double n = static_cast<double>(n_);
  out.sum = sum_;
  out.mean = first_ + off_ / n;
  if (n_ > 1) out.std = std::sqrt(std::max(0.0, squares_ - off_ * off_ / n) / (n - 1));
  out.min = least_;
  out.max = most_;
  instruments::ExponentialCounts whole;
  instruments::ReadWindow(window_.data(), whole);
  const auto at = [&](double fraction) {
    return std::clamp(AtRank(whole, fraction * (n - 1)), least_, most_);
  };
  out.p50 = at(0.5);
  out.p90 = at(0.9);
  out.p95 = at(0.95);
  out.p99 = at(0.99);
  return out;
}

void LatencyRecord::AddTo(instruments::ExponentialCounts& sum) const {
  Merge(before_, sum);
  instruments::ReadWindow(window_.data(), sum);
}

}  // namespace gpulens::ring

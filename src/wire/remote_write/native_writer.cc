#include "wire/remote_write/native_writer.h"

#include <algorithm>
#include <cmath>
#include <protozero/pbf_writer.hpp>

#include "wire/otlp/proto_cursor.h"
#include "wire/remote_write/remote_write_fields.h"
#include "wire/remote_write/remote_write_series.h"

namespace gpulens::remote_write_out {

using namespace remote_write;
using Fault = RemoteWriteOutFault;

namespace {

// As many empty buckets stand between others without a new span: a span costs as much as they do.
constexpr size_t kMostEmpty = 2;

bool AddsUp(uint64_t first, const std::vector<uint64_t>& a, const std::vector<uint64_t>& b, uint64_t count) {
  for (const auto* counts : {&a, &b})
    for (uint64_t one : *counts)
      if (__builtin_add_overflow(first, one, &first)) return false;
  // Deltas are signed.
  return first == count && count <= static_cast<uint64_t>(INT64_MAX);
}

}  // namespace

void NativeWriter::Begin(const OtlpPoint& point, int32_t schema) {
  message_.clear();
  protozero::pbf_writer writer(message_);
  writer.add_uint64(kCountInt, point.ended ? 0 : point.count);
  // A sum that is not known is no number, rather than 0.
  const double unknown = std::bit_cast<double>(kNanBits);
  writer.add_double(kSum, point.ended ? StaleMarker() : point.has_sum ? point.sum : unknown);
  if (schema != 0) writer.add_sint32(kSchema, schema);
}

// `place` is the index of the first bucket as Prometheus counts.
void NativeWriter::AppendSide(uint32_t spans, uint32_t deltas, int64_t place,
                              const std::vector<uint64_t>& counts) {
  deltas_.clear();
  int64_t next = 0;  // behind the span before
  uint64_t before = 0;
  for (size_t i = 0; i < counts.size();) {
    if (counts[i] == 0) {
      ++i;
      continue;
    }
    // A run ends where more buckets than that are empty.
    size_t end = i + 1;
    for (size_t k = end; k < counts.size() && k - end <= kMostEmpty; ++k)
      if (counts[k] != 0) end = k + 1;
    protozero::pbf_writer writer(message_), span(writer, spans);
    const int64_t begin = place + static_cast<int64_t>(i);
    span.add_sint32(kSpanOffset, static_cast<int32_t>(begin - next));
    span.add_uint32(kSpanLength, static_cast<uint32_t>(end - i));
    next = place + static_cast<int64_t>(end);
    for (; i < end; ++i) {
      deltas_.push_back(static_cast<int64_t>(counts[i] - before));
      before = counts[i];
    }
  }
  if (!deltas_.empty())
    protozero::pbf_writer(message_).add_packed_sint64(deltas, deltas_.begin(), deltas_.end());
}

void NativeWriter::Finish(std::string& out, Times times) {
  protozero::pbf_writer writer(message_);
  writer.add_int64(kHistogramTimestamp, times.ms);
  if (version_ == RemoteWriteVersion::k2 && times.start_ms != 0)
    writer.add_int64(kHistogramStart, times.start_ms);
  protozero::pbf_writer(out).add_message(remote_write_in::NumbersOf(version_).histograms, message_);
}

// Buckets of a scale that is lower by `by`: each holds 2^by of the others.
bool NativeWriter::Downscale(const OtlpPoint::Buckets& from, int by, OtlpPoint::Buckets& to) const {
  to.counts.clear();
  to.offset = 0;
  by = std::min(by, 40);  // beyond, all indices of 32 bits are in one bucket of either sign
  for (size_t i = 0; i < from.counts.size(); ++i) {
    const int64_t index = (int64_t{from.offset} + static_cast<int64_t>(i)) >> by;
    if (to.counts.empty()) to.offset = static_cast<int32_t>(index);
    const auto at = static_cast<size_t>(index - to.offset);
    if (at >= to.counts.size()) to.counts.resize(at + 1);
    to.counts[at] += from.counts[i];
  }
  // Prometheus counts from one more.
  return int64_t{to.offset} + static_cast<int64_t>(to.counts.size()) < INT32_MAX;
}

RemoteWriteOutFault NativeWriter::AppendExponential(std::string& out, const OtlpPoint& point, Times times,
                                                    double zero_threshold) {
  if (point.ended) {
    Begin(point, 0);
    Finish(out, times);
    return Fault::kNone;
  }
  if (point.scale < kLowestSchema) return Fault::kSchema;
  if (!(zero_threshold >= 0) || !std::isfinite(zero_threshold)) return Fault::kBuckets;
  if (!AddsUp(point.zero_count, point.positive.counts, point.negative.counts, point.count))
    return Fault::kBuckets;
  const int32_t schema = std::min(point.scale, kHighestSchema);
  const int by = static_cast<int>(std::min<int64_t>(int64_t{point.scale} - schema, 64));
  if (!Downscale(point.positive, by, positive_) || !Downscale(point.negative, by, negative_))
    return Fault::kBuckets;
  Begin(point, schema);
  protozero::pbf_writer writer(message_);
  if (zero_threshold != 0) writer.add_double(kZeroThreshold, zero_threshold);
  writer.add_uint64(kZeroCountInt, point.zero_count);
  AppendSide(kNegativeSpans, kNegativeDeltas, int64_t{negative_.offset} + 1, negative_.counts);
  AppendSide(kPositiveSpans, kPositiveDeltas, int64_t{positive_.offset} + 1, positive_.counts);
  Finish(out, times);
  return Fault::kNone;
}

RemoteWriteOutFault NativeWriter::AppendCustom(std::string& out, const OtlpPoint& point, Times times) {
  if (point.ended) {
    Begin(point, kCustomBounds);
    Finish(out, times);
    return Fault::kNone;
  }
  all_.assign(1, point.count);
  const std::vector<uint64_t>& counts = point.counts.empty() && point.bounds.empty() ? all_ : point.counts;
  if (counts.size() != point.bounds.size() + 1 || !AddsUp(0, counts, {}, point.count)) return Fault::kBuckets;
  Begin(point, kCustomBounds);
  AppendSide(kPositiveSpans, kPositiveDeltas, 0, counts);
  if (!point.bounds.empty())
    protozero::pbf_writer(message_).add_packed_double(kCustomValues, point.bounds.begin(),
                                                      point.bounds.end());
  Finish(out, times);
  return Fault::kNone;
}

RemoteWriteOutFault NativeWriter::AppendCarried(std::string& out, std::string_view message) {
  RemoteWriteFault fault = RemoteWriteFault::kNone;
  if (!carried_.Read(message, fault) || fault != RemoteWriteFault::kNone ||
      !remote_write_in::IsTime(carried_.ms()))
    return Fault::kBuckets;
  message_.clear();
  ProtoCursor cursor(message);
  for (ProtoField field; cursor.Next(field);) {
    if (field.number > kHistogramStart) continue;
    // 1.0 has no start.
    if (field.number == kHistogramStart && version_ == RemoteWriteVersion::k1) continue;
    message_ += field.whole;
  }
  protozero::pbf_writer(out).add_message(remote_write_in::NumbersOf(version_).histograms, message_);
  return Fault::kNone;
}

}  // namespace gpulens::remote_write_out

#include "wire/remote_write/native_histogram.h"

#include <algorithm>
#include <cmath>
#include <protozero/pbf_writer.hpp>
#include <type_traits>

#include "base/text.h"
#include "wire/otlp/otlp_fields.h"
#include "wire/otlp/proto_cursor.h"
#include "wire/remote_write/remote_write_series.h"

namespace gpulens::remote_write {

namespace {

// Eight bytes each: packed, or one at a time. False when there are more than buckets may be.
template <class Number>
bool TakeFixed(const ProtoField& field, std::vector<Number>& out) {
  const size_t count = field.bytes.size() / sizeof(Number);
  if (out.size() + count > OtlpPoint::kMostBuckets) return false;
  const size_t before = out.size();
  out.resize(before + count);
  if (count != 0) std::memcpy(out.data() + before, field.bytes.data(), count * sizeof(Number));
  return true;
}

bool ReadBuckets(std::string_view message, OtlpPoint::Buckets& out) {
  ProtoCursor cursor(message);
  ProtoField field;
  bool fits = true;
  while (cursor.Next(field)) {
    if (field.number == otlp::kOffset && field.wire == WireType::kVarint)
      out.offset = static_cast<int32_t>(UnZigZag(static_cast<uint32_t>(field.value)));
    else if (field.number == otlp::kCounts)
      static_cast<void>(ForEachVarint(field, [&](uint64_t count) {
        if (out.counts.size() < OtlpPoint::kMostBuckets) out.counts.push_back(count);
        else fits = false;
      }));
  }
  return fits;
}

OtlpPoint::Quantile ReadQuantile(std::string_view message) {
  OtlpPoint::Quantile out;
  ProtoCursor cursor(message);
  for (ProtoField field; cursor.Next(field);) {
    if (field.wire != WireType::kFixed64) continue;
    if (field.number == otlp::kQuantile) out.quantile = AsFixed<double>(field.bytes);
    else if (field.number == otlp::kQuantileValue) out.value = AsFixed<double>(field.bytes);
  }
  return out;
}

}  // namespace

bool MsOfTime(uint64_t ns, int64_t& ms) noexcept {
  if (ns == 0 || ns > static_cast<uint64_t>(INT64_MAX)) return false;
  ms = static_cast<int64_t>(ns / 1'000'000);
  return ms > 0;
}

void OtlpPoint::Clear() {
  start_ns = ns = count = zero_count = 0;
  value = sum = zero_threshold = 0;
  scale = 0;
  ended = has_value = has_sum = too_many = false;
  counts.clear();
  bounds.clear();
  quantiles.clear();
  attributes.clear();
  exemplars.clear();
  for (Buckets* side : {&positive, &negative}) {
    side->offset = 0;
    side->counts.clear();
  }
  native = {};
}

void OtlpPoint::Read(uint32_t data, std::string_view message) {
  Clear();
  const otlp::ItemFields numbers = otlp::FieldsOf(otlp::PointShape(data));
  const bool number = data == otlp::kGauge || data == otlp::kSum;
  const bool explicit_bounds = data == otlp::kHistogram;
  const bool exponential = data == otlp::kExponentialHistogram, summary = data == otlp::kSummary;
  ProtoCursor cursor(message);
  for (ProtoField field; cursor.Next(field);) {
    const uint32_t at = field.number;
    const bool fixed = field.wire == WireType::kFixed64, bytes = field.wire == WireType::kBytes;
    if (bytes && at == numbers.attributes) {
      if (attributes.size() < kMostAttributes) attributes.push_back(field.bytes);
      else too_many = true;
    } else if (bytes && at == numbers.exemplars) {
      exemplars.push_back(field.bytes);
    } else if (at == numbers.flags && field.wire == WireType::kVarint) {
      ended = (field.value & otlp::kNoRecordedValue) != 0;
    } else if (fixed && at == otlp::kStartTime) {
      start_ns = AsFixed<uint64_t>(field.bytes);
    } else if (fixed && at == otlp::kTime) {
      ns = AsFixed<uint64_t>(field.bytes);
    } else if (number) {
      if (fixed) ReadNumber(at, field.bytes);
    } else if (fixed && at == otlp::kHistogramCount) {
      count = AsFixed<uint64_t>(field.bytes);
    } else if (fixed && at == otlp::kHistogramSum) {
      sum = AsFixed<double>(field.bytes);
      has_sum = true;
    } else if (explicit_bounds && at == otlp::kBucketCounts) {
      if (!TakeFixed(field, counts)) too_many = true;
    } else if (explicit_bounds && at == otlp::kExplicitBounds) {
      if (!TakeFixed(field, bounds)) too_many = true;
    } else if (exponential && at == otlp::kScale) {
      scale = static_cast<int32_t>(UnZigZag(static_cast<uint32_t>(field.value)));
    } else if (exponential && fixed && at == otlp::kZeroCount) {
      zero_count = AsFixed<uint64_t>(field.bytes);
    } else if (exponential && fixed && at == otlp::kZeroThreshold) {
      zero_threshold = AsFixed<double>(field.bytes);
    } else if (exponential && bytes && (at == otlp::kPositive || at == otlp::kNegative)) {
      if (!ReadBuckets(field.bytes, at == otlp::kNegative ? negative : positive)) too_many = true;
    } else if (summary && bytes && at == otlp::kQuantiles) {
      if (quantiles.size() < kMostBuckets) quantiles.push_back(ReadQuantile(field.bytes));
      else too_many = true;
    } else if (bytes && at == remote_write::kNativeField) {
      native = field.bytes;
    }
  }
}

void OtlpPoint::ReadNumber(uint32_t number, std::string_view bytes) {
  if (number == otlp::kAsDouble) value = AsFixed<double>(bytes);
  else if (number == otlp::kAsInt)
    value = static_cast<double>(static_cast<int64_t>(AsFixed<uint64_t>(bytes)));
  else return;
  has_value = true;
}

bool IsGood(OtlpMessage shape, std::string_view message, bool& readable) noexcept {
  const otlp::SchemaFinding finding = otlp::CheckMessage(shape, message);
  readable = finding.validity != otlp::Validity::kBroken;
  return finding.good();
}

}  // namespace gpulens::remote_write

namespace gpulens {

using namespace remote_write;

void NativeHistogram::Clear() noexcept {
  ms_ = start_ms_ = 0;
  count_ = zero_count_ = hint_ = 0;
  sum_ = zero_threshold_ = float_count_ = float_zero_count_ = 0;
  schema_ = 0;
  ended_ = custom_ = floats_ = too_wide_ = false;
  for (Side* side : {&above_, &below_}) {
    side->spans.clear();
    side->deltas.clear();
    side->counts.clear();
  }
  for (Buckets* buckets : {&positive_, &negative_}) {
    buckets->offset = 0;
    buckets->counts.clear();
  }
  bounds_.clear();
}

bool NativeHistogram::is_gauge() const noexcept { return hint_ == kResetHintGauge; }

bool NativeHistogram::Read(std::string_view message, RemoteWriteFault& fault) {
  Clear();
  if (!ReadFields(message)) return false;
  custom_ = schema_ == kCustomBounds;
  ended_ = IsStaleMarker(sum_);
  fault = ended_ ? RemoteWriteFault::kNone : Validate();
  return true;
}

bool NativeHistogram::ReadSpan(std::string_view message, Side& side) {
  ProtoCursor cursor(message);
  ProtoField field;
  Span span;
  while (cursor.Next(field)) {
    if (field.number != kSpanOffset && field.number != kSpanLength) continue;
    if (field.wire != WireType::kVarint) return false;
    if (field.number == kSpanOffset)
      span.offset = static_cast<int32_t>(UnZigZag(static_cast<uint32_t>(field.value)));
    else span.length = static_cast<uint32_t>(field.value);
  }
  if (cursor.broken()) return false;
  if (side.spans.size() < kMostBuckets) side.spans.push_back(span);
  else too_wide_ = true;
  return true;
}

bool NativeHistogram::ReadFields(std::string_view message) {
  ProtoCursor cursor(message);
  ProtoField field;
  const auto take_delta = [this](Side& side) {
    return [this, &side](uint64_t value) {
      if (side.deltas.size() < kMostBuckets) side.deltas.push_back(UnZigZag(value));
      else too_wide_ = true;
    };
  };
  const auto number = [&field](auto& out) {
    using Out = std::remove_reference_t<decltype(out)>;
    out = static_cast<Out>(field.value);
    return field.wire == WireType::kVarint;
  };
  const auto real = [&field](double& out) {
    if (field.wire != WireType::kFixed64) return false;
    out = AsFixed<double>(field.bytes);
    return true;
  };
  const auto take_count = [this](Side& side) {
    return [this, &side](double count) {
      floats_ = true;
      if (side.counts.size() < kMostBuckets) side.counts.push_back(count);
      else too_wide_ = true;
    };
  };
  uint64_t schema = 0;
  bool good = true;
  while (good && cursor.Next(field)) {
    switch (field.number) {
      case kCountInt: good = number(count_); break;
      case kCountFloat:
      case kZeroCountFloat:
        good = real(field.number == kCountFloat ? float_count_ : float_zero_count_);
        floats_ = true;
        break;
      case kSum: good = real(sum_); break;
      case kSchema:
        good = number(schema);
        schema_ = static_cast<int32_t>(UnZigZag(static_cast<uint32_t>(schema)));
        break;
      case kZeroThreshold: good = real(zero_threshold_); break;
      case kZeroCountInt: good = number(zero_count_); break;
      case kNegativeSpans: good = field.wire == WireType::kBytes && ReadSpan(field.bytes, below_); break;
      case kPositiveSpans: good = field.wire == WireType::kBytes && ReadSpan(field.bytes, above_); break;
      case kNegativeDeltas: good = ForEachVarint(field, take_delta(below_)); break;
      case kPositiveDeltas: good = ForEachVarint(field, take_delta(above_)); break;
      case kNegativeCounts: good = ForEachFixed<double>(field, take_count(below_)); break;
      case kPositiveCounts: good = ForEachFixed<double>(field, take_count(above_)); break;
      case kResetHint: good = number(hint_); break;
      case kHistogramTimestamp: good = number(ms_); break;
      case kHistogramStart: good = number(start_ms_); break;
      case kCustomValues:
        good = ForEachFixed<double>(field, [this](double bound) {
          if (bounds_.size() < kMostBuckets) bounds_.push_back(bound);
          else too_wide_ = true;
        });
        break;
      default: break;
    }
  }
  return good && !cursor.broken();
}

RemoteWriteFault NativeHistogram::Validate() {
  if (floats_ && !accept_all_) return RemoteWriteFault::kFloatHistogram;
  if (is_gauge() && !accept_all_) return RemoteWriteFault::kGaugeHistogram;
  if (too_wide_) return RemoteWriteFault::kTooWide;
  if (floats_) return ValidateFloats();
  RemoteWriteFault fault = RemoteWriteFault::kSchema;
  if (custom_) {
    fault = SpreadCustom();
  } else if (schema_ >= kLowestSchema && schema_ <= kHighestSchema) {
    fault = Spread(above_, positive_);
    if (fault == RemoteWriteFault::kNone) fault = Spread(below_, negative_);
    const bool threshold = zero_threshold_ >= 0 && std::isfinite(zero_threshold_);
    if (fault == RemoteWriteFault::kNone && !threshold) fault = RemoteWriteFault::kBounds;
  }
  if (fault != RemoteWriteFault::kNone) return fault;
  return AddsUp() ? RemoteWriteFault::kNone : RemoteWriteFault::kBuckets;
}

// Spans leave empty buckets out; OTLP has one run of buckets.
RemoteWriteFault NativeHistogram::Spread(const Side& side, Buckets& out) const {
  int64_t place = 0, count = 0;
  size_t next = 0, gap = 0;
  for (size_t i = 0; i < side.spans.size(); ++i) {
    const Span& span = side.spans[i];
    if (i != 0 && span.offset < 0) return RemoteWriteFault::kBuckets;
    place += span.offset;
    if (!out.counts.empty()) gap += static_cast<size_t>(span.offset);
    if (span.length == 0) continue;
    // Bucket i of Prometheus ends at base^i, that of OTLP begins there.
    if (place <= INT32_MIN || place + span.length > INT32_MAX) return RemoteWriteFault::kBuckets;
    if (out.counts.empty()) out.offset = static_cast<int32_t>(place - 1);
    if (out.counts.size() + gap + span.length > kMostBuckets) return RemoteWriteFault::kTooWide;
    if (span.length > side.deltas.size() - next) return RemoteWriteFault::kBuckets;
    out.counts.resize(out.counts.size() + gap);
    gap = 0;
    for (uint32_t k = 0; k < span.length; ++k) {
      if (__builtin_add_overflow(count, side.deltas[next++], &count) || count < 0)
        return RemoteWriteFault::kBuckets;
      out.counts.push_back(static_cast<uint64_t>(count));
    }
    place += span.length;
  }
  return next == side.deltas.size() ? RemoteWriteFault::kNone : RemoteWriteFault::kBuckets;
}

// Checks what a receiver checks; the counts themselves are only passed on. They are rounded, so their sum is
// not compared.
RemoteWriteFault NativeHistogram::ValidateFloats() const {
  if (!custom_ && (schema_ < kLowestSchema || schema_ > kHighestSchema)) return RemoteWriteFault::kSchema;
  const auto is_count = [](double count) { return count >= 0 && std::isfinite(count); };
  if (!is_count(zero_threshold_)) return RemoteWriteFault::kBounds;
  if (!is_count(float_count_) || !is_count(float_zero_count_)) return RemoteWriteFault::kBuckets;
  if (custom_ && (!below_.spans.empty() || float_zero_count_ != 0)) return RemoteWriteFault::kBuckets;
  for (const Side* side : {&above_, &below_}) {
    int64_t place = 0, buckets = 0;
    for (size_t i = 0; i < side->spans.size(); ++i) {
      if (i != 0 && side->spans[i].offset < 0) return RemoteWriteFault::kBuckets;
      place += side->spans[i].offset;
      if (custom_ && place < 0) return RemoteWriteFault::kBuckets;
      place += side->spans[i].length;
      buckets += side->spans[i].length;
      if (place > INT32_MAX || place < INT32_MIN) return RemoteWriteFault::kBuckets;
    }
    if (static_cast<uint64_t>(buckets) != side->counts.size() || !side->deltas.empty())
      return RemoteWriteFault::kBuckets;
    if (custom_ && place > static_cast<int64_t>(bounds_.size()) + 1) return RemoteWriteFault::kBuckets;
    for (double count : side->counts)
      if (!is_count(count)) return RemoteWriteFault::kBuckets;
  }
  return custom_ && !AreBounds(bounds_) ? RemoteWriteFault::kBounds : RemoteWriteFault::kNone;
}

RemoteWriteFault NativeHistogram::SpreadCustom() {
  if (!AreBounds(bounds_)) return RemoteWriteFault::kBounds;
  if (!below_.spans.empty() || !below_.deltas.empty() || zero_count_ != 0) return RemoteWriteFault::kBuckets;
  const RemoteWriteFault fault = Spread(above_, positive_);
  if (fault != RemoteWriteFault::kNone) return fault;
  // The places of custom buckets are those of their bounds.
  const int64_t lead = positive_.counts.empty() ? 0 : int64_t{positive_.offset} + 1;
  const size_t all = bounds_.size() + 1;
  if (lead < 0 || static_cast<size_t>(lead) + positive_.counts.size() > all)
    return RemoteWriteFault::kBuckets;
  positive_.counts.insert(positive_.counts.begin(), static_cast<size_t>(lead), 0);
  positive_.counts.resize(all);
  return RemoteWriteFault::kNone;
}

bool NativeHistogram::AddsUp() const noexcept {
  uint64_t all = zero_count_;
  for (const Buckets* buckets : {&positive_, &negative_})
    for (uint64_t count : buckets->counts)
      if (__builtin_add_overflow(all, count, &all)) return false;
  return all == count_;
}

}  // namespace gpulens

namespace gpulens::remote_write {

using namespace remote_write;
using Fault = RemoteWriteOutFault;

namespace {

// So many empty buckets between others get no new span: a span costs as much as they do.
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
  int64_t next = 0;  // after the previous span
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
  protozero::pbf_writer(out).add_message(remote_write::NumbersOf(version_).histograms, message_);
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
      !remote_write::IsTime(carried_.ms()))
    return Fault::kBuckets;
  message_.clear();
  ProtoCursor cursor(message);
  for (ProtoField field; cursor.Next(field);) {
    if (field.number > kHistogramStart) continue;
    // 1.0 has no start.
    if (field.number == kHistogramStart && version_ == RemoteWriteVersion::k1) continue;
    message_ += field.whole;
  }
  protozero::pbf_writer(out).add_message(remote_write::NumbersOf(version_).histograms, message_);
  return Fault::kNone;
}

}  // namespace gpulens::remote_write

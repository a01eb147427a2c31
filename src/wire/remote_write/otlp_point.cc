#include "wire/remote_write/otlp_point.h"

#include <charconv>
#include <cmath>

#include "base/text.h"
#include "wire/otlp/otlp_fields.h"
#include "wire/otlp/otlp_schema.h"
#include "wire/otlp/proto_cursor.h"
#include "wire/remote_write/remote_write_fields.h"

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
  ProtoField field;
  while (cursor.Next(field)) {
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
  ProtoField field;
  while (cursor.Next(field)) {
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
  const otlp::Finding finding = otlp::CheckMessage(shape, message);
  readable = finding.validity != otlp::Validity::kBroken;
  return finding.good();
}

}  // namespace gpulens::remote_write

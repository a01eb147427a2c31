#include "wire/remote_write/otlp_point.h"

#include "wire/otlp/otlp_fields.h"
#include "wire/otlp/otlp_message.h"
#include "wire/remote_write/proto_numbers.h"
#include "wire/remote_write/remote_write_marks.h"

namespace gpulens::remote_write_out {

using remote_write_in::AsDouble;
using remote_write_in::ForEachVarint;
using remote_write_in::UnZigZag;

namespace {

constexpr uint32_t kNegative = 9;

// Where fields of a point stand; those of values differ, too.
struct Numbers {
  uint32_t attributes, exemplars, flags;
};
constexpr Numbers NumbersOf(uint32_t data) noexcept {
  switch (data) {
    case otlp_in::kHistogramData:
      return {otlp::kHistogramAttributes, otlp::kHistogramExemplars, otlp::kHistogramFlags};
    case otlp_in::kExponentialData:
      return {otlp::kExponentialAttributes, otlp::kExponentialExemplars, otlp::kExponentialFlags};
    case otlp_in::kSummaryData: return {otlp::kSummaryAttributes, 0, otlp::kSummaryFlags};
    default: return {otlp::kNumberAttributes, otlp::kNumberExemplars, otlp::kNumberFlags};
  }
}

uint64_t AsInteger(std::string_view bytes) noexcept {
  uint64_t value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

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
    if (field.number == otlp::kQuantile) out.quantile = AsDouble(field.bytes);
    else if (field.number == otlp::kQuantileValue) out.value = AsDouble(field.bytes);
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
  const Numbers numbers = NumbersOf(data);
  const bool number = data == otlp_in::kGaugeData || data == otlp_in::kSumData;
  const bool explicit_bounds = data == otlp_in::kHistogramData;
  const bool exponential = data == otlp_in::kExponentialData, summary = data == otlp_in::kSummaryData;
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
      start_ns = AsInteger(field.bytes);
    } else if (fixed && at == otlp::kTime) {
      ns = AsInteger(field.bytes);
    } else if (number) {
      if (fixed) ReadNumber(at, field.bytes);
    } else if (fixed && at == otlp::kHistogramCount) {
      count = AsInteger(field.bytes);
    } else if (fixed && at == otlp::kHistogramSum) {
      sum = AsDouble(field.bytes);
      has_sum = true;
    } else if (explicit_bounds && at == otlp::kBucketCounts) {
      if (!TakeFixed(field, counts)) too_many = true;
    } else if (explicit_bounds && at == otlp::kExplicitBounds) {
      if (!TakeFixed(field, bounds)) too_many = true;
    } else if (exponential && at == otlp::kScale) {
      scale = static_cast<int32_t>(UnZigZag(static_cast<uint32_t>(field.value)));
    } else if (exponential && fixed && at == otlp::kZeroCount) {
      zero_count = AsInteger(field.bytes);
    } else if (exponential && fixed && at == otlp::kZeroThreshold) {
      zero_threshold = AsDouble(field.bytes);
    } else if (exponential && bytes && (at == otlp::kPositive || at == kNegative)) {
      if (!ReadBuckets(field.bytes, at == kNegative ? negative : positive)) too_many = true;
    } else if (summary && bytes && at == otlp::kQuantiles) {
      if (quantiles.size() < kMostBuckets) quantiles.push_back(ReadQuantile(field.bytes));
      else too_many = true;
    } else if (bytes && at == remote_write_in::kNativeField) {
      native = field.bytes;
    }
  }
}

void OtlpPoint::ReadNumber(uint32_t number, std::string_view bytes) {
  if (number == otlp::kAsDouble) value = AsDouble(bytes);
  else if (number == otlp::kAsInt) value = static_cast<double>(static_cast<int64_t>(AsInteger(bytes)));
  else return;
  has_value = true;
}

}  // namespace gpulens::remote_write_out

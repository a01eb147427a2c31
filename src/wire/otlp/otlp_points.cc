#include "wire/otlp/otlp_points.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/text.h"
#include "wire/otlp/otlp_fields.h"
#include "wire/otlp/proto_cursor.h"

namespace gpulens {
namespace {

using namespace otlp;
using Attributes = std::vector<AttributeSet::Attribute>;

// The reason of a valid point.
constexpr std::string_view kGood = {};

bool IsBytes(const ProtoField& field, uint32_t number) noexcept {
  return field.number == number && field.wire == WireType::kBytes;
}
bool IsFixed(const ProtoField& field, uint32_t number) noexcept {
  return field.number == number && field.wire == WireType::kFixed64;
}
bool IsVarint(const ProtoField& field, uint32_t number) noexcept {
  return field.number == number && field.wire == WireType::kVarint;
}
class OtlpPointReader {
 public:
  OtlpPointReader(OtlpPointVisitor& visitor, OtlpPointsReport& report) : visitor_(visitor), report_(report) {}

  // Each of these is false at bytes that cannot be read.
  bool Request(std::string_view bytes) {
    return Each(bytes, [this](const ProtoField& field) {
      return !IsBytes(field, kResourceList) || List(field.bytes);
    });
  }

 private:
  template <class Visit>
  static bool Each(std::string_view message, Visit visit) {
    ProtoCursor cursor(message);
    for (ProtoField field; cursor.Next(field);) {
      if (!visit(field)) return false;
    }
    return !cursor.broken();
  }

  // The resource may follow what it describes, so messages are read twice.
  bool List(std::string_view bytes) {
    attributes_.clear();
    bool good = true;
    const bool read = Each(bytes, [&](const ProtoField& field) {
      if (!IsBytes(field, kResource)) return true;
      return Each(field.bytes, [&](const ProtoField& inner) {
        if (!IsBytes(inner, kResourceAttributes)) return true;
        // A resource keeps what can be kept of it.
        std::string_view why;
        if (!Pair(inner.bytes, why)) good = false;
        return good;
      });
    });
    if (!read || !good) return false;
    visitor_.OnResource(attributes_);
    return Each(bytes, [this](const ProtoField& field) {
      return !IsBytes(field, kScopeList) || Each(field.bytes, [this](const ProtoField& inner) {
        return !IsBytes(inner, kItems) || Metric(inner.bytes);
      });
    });
  }

  // Appends a KeyValue to attributes_; `why` when it cannot be one of ours.
  bool Pair(std::string_view bytes, std::string_view& why) {
    std::string_view key;
    AttributeSet::Value value = std::string_view();
    bool known = true;
    const bool read = Each(bytes, [&](const ProtoField& field) {
      if (IsBytes(field, kKey)) key = field.bytes;
      if (!IsBytes(field, kValue)) return true;
      return Each(field.bytes, [&](const ProtoField& any) {
        if (IsBytes(any, kString)) value = any.bytes;
        else if (IsVarint(any, kBool)) value = any.value != 0;
        else if (IsVarint(any, kInt)) value = static_cast<int64_t>(any.value);
        else if (IsFixed(any, kDouble)) value = AsFixed<double>(any.bytes);
        else known = false;
        return true;
      });
    });
    if (!read) return false;
    const auto* text = std::get_if<std::string_view>(&value);
    if (key.empty() || key.size() > UINT16_MAX) why = "an attribute without a name, or with one too long";
    else if (!known) why = "an attribute that is a list";
    else if (!IsUtf8(key) || (text && !IsUtf8(*text))) why = "an attribute that is not a string";
    else if (attributes_.size() == kMostOtlpAttributes) why = "more than 128 attributes";
    else attributes_.push_back({key, value});
    return true;
  }

  bool Metric(std::string_view bytes) {
    metric_ = {};
    const bool read = Each(bytes, [this](const ProtoField& field) {
      if (IsBytes(field, kName)) metric_.name = field.bytes;
      if (IsBytes(field, kDescription)) metric_.description = field.bytes;
      if (IsBytes(field, kUnit)) metric_.unit = field.bytes;
      return true;
    });
    return read && Each(bytes, [this](const ProtoField& field) {
             if (field.wire != WireType::kBytes) return true;
             switch (field.number) {
               case kGauge: return Data(field.bytes, OtlpMetricView::Data::kGauge);
               case kSum: return Data(field.bytes, OtlpMetricView::Data::kSum);
               case kHistogram: return Data(field.bytes, OtlpMetricView::Data::kHistogram);
               case kExponentialHistogram: return Data(field.bytes, OtlpMetricView::Data::kExponential);
               case kSummary: return Summaries(field.bytes);
               default: return true;
             }
           });
  }

  bool Summaries(std::string_view bytes) {
    return Each(bytes, [this](const ProtoField& field) {
      if (IsBytes(field, kPoints)) Count("summaries are not supported");
      return true;
    });
  }

  bool Data(std::string_view bytes, OtlpMetricView::Data data) {
    metric_.data = data;
    uint64_t temporality = data == OtlpMetricView::Data::kGauge ? uint64_t{kCumulative} : 0;
    const bool read = Each(bytes, [&](const ProtoField& field) {
      if (IsVarint(field, kTemporality)) temporality = field.value;
      if (IsVarint(field, kMonotonic)) metric_.monotonic = field.value != 0;
      return true;
    });
    std::string_view why;
    if (metric_.name.empty()) why = "a metric without a name";
    else if (!IsUtf8(metric_.name) || !IsUtf8(metric_.unit) || !IsUtf8(metric_.description))
      why = "a metric whose name is not a string";
    else if (temporality != kCumulative) why = "only cumulative values are supported";
    return read && Each(bytes, [&](const ProtoField& field) {
             if (!IsBytes(field, kPoints)) return true;
             if (!why.empty()) return Count(why), true;
             return Point(field.bytes);
           });
  }

  bool Point(std::string_view bytes) {
    attributes_.clear();
    bounds_.clear();
    counts_.clear();
    point_ = {};
    std::string_view why;
    bool has_value = true;
    const bool read = Each(bytes, [&](const ProtoField& field) {
      switch (metric_.data) {
        case OtlpMetricView::Data::kHistogram: return Histogram(field, why, has_value);
        case OtlpMetricView::Data::kExponential: return Exponential(field, why, has_value);
        default: return Number(field, why, has_value);
      }
    });
    if (!read) return false;
    if (!has_value) return true;
    if (why.empty()) why = Validate();
    if (!why.empty()) return Count(why), true;
    point_.attributes = attributes_;
    point_.bounds = bounds_;
    point_.counts = counts_;
    Count(visitor_.OnPoint(metric_, point_));
    return true;
  }

  void Time(const ProtoField& field) {
    if (IsFixed(field, kStartTime))
      point_.start_unix_ns = std::max<int64_t>(AsFixed<int64_t>(field.bytes), 0);
    if (IsFixed(field, kTime)) point_.unix_ns = std::max<int64_t>(AsFixed<int64_t>(field.bytes), 0);
  }
  static void Flags(const ProtoField& field, uint32_t number, bool& has_value) {
    if (IsVarint(field, number) && (field.value & kNoRecordedValue) != 0) has_value = false;
  }

  bool Number(const ProtoField& field, std::string_view& why, bool& has_value) {
    Time(field);
    Flags(field, kNumberFlags, has_value);
    if (IsFixed(field, kAsDouble)) {
      point_.value = AsFixed<double>(field.bytes);
      point_.integer = false;
    } else if (IsFixed(field, kAsInt)) {
      point_.whole = AsFixed<int64_t>(field.bytes);
      point_.integer = true;
    }
    return !IsBytes(field, kNumberAttributes) || Pair(field.bytes, why);
  }

  bool Histogram(const ProtoField& field, std::string_view& why, bool& has_value) {
    Time(field);
    Flags(field, kHistogramFlags, has_value);
    if (IsFixed(field, kHistogramCount)) point_.count = AsFixed<uint64_t>(field.bytes);
    if (IsFixed(field, kHistogramSum)) Sum(field);
    if (field.number == kBucketCounts && !Packed(field, counts_, why)) return false;
    if (field.number == kExplicitBounds && !Packed(field, bounds_, why)) return false;
    return !IsBytes(field, kHistogramAttributes) || Pair(field.bytes, why);
  }

  bool Exponential(const ProtoField& field, std::string_view& why, bool& has_value) {
    Time(field);
    Flags(field, kExponentialFlags, has_value);
    if (IsFixed(field, kExponentialCount)) point_.count = AsFixed<uint64_t>(field.bytes);
    if (IsFixed(field, kExponentialSum)) Sum(field);
    if (IsVarint(field, kScale))
      point_.scale = static_cast<int32_t>(UnZigZag(static_cast<uint32_t>(field.value)));
    if (IsFixed(field, kZeroCount)) point_.zeros = AsFixed<uint64_t>(field.bytes);
    if (IsBytes(field, kPositive)) return Buckets(field.bytes, counts_, point_.offset, why);
    if (IsBytes(field, kNegative)) {
      std::vector<uint64_t> below;
      int32_t offset = 0;
      if (!Buckets(field.bytes, below, offset, why)) return false;
      for (uint64_t count : below) {
        if (count != 0) why = "an exponential histogram of negative values";
      }
    }
    return !IsBytes(field, kExponentialAttributes) || Pair(field.bytes, why);
  }

  void Sum(const ProtoField& field) {
    point_.sum = AsFixed<double>(field.bytes);
    point_.has_sum = std::isfinite(point_.sum);
  }

  static bool Buckets(std::string_view bytes, std::vector<uint64_t>& counts, int32_t& offset,
                      std::string_view& why) {
    return Each(bytes, [&](const ProtoField& field) {
      if (IsVarint(field, kOffset))
        offset = static_cast<int32_t>(UnZigZag(static_cast<uint32_t>(field.value)));
      return field.number != kCounts ||
             ForEachVarint(field, [&](uint64_t count) { Keep(counts, count, why); });
    });
  }

  // A repeated field of eight bytes each, packed or not.
  template <class T>
  static bool Packed(const ProtoField& field, std::vector<T>& out, std::string_view& why) {
    return ForEachFixed<T>(field, [&](T value) { Keep(out, value, why); });
  }

  template <class T>
  static void Keep(std::vector<T>& out, T value, std::string_view& why) {
    if (out.size() < kMostOtlpBuckets) out.push_back(value);
    else why = "a histogram of more than 4,096 buckets";
  }

  std::string_view Validate() const {
    if (metric_.data == OtlpMetricView::Data::kGauge || metric_.data == OtlpMetricView::Data::kSum)
      return point_.integer || std::isfinite(point_.value) ? kGood : "a number that is not finite";
    const bool listed = metric_.data == OtlpMetricView::Data::kHistogram;
    // Without buckets it has its count and sum alone.
    if (listed && counts_.size() != bounds_.size() + 1 && !(counts_.empty() && bounds_.empty()))
      return "a histogram whose buckets do not fit its bounds";
    for (size_t i = 0; i < bounds_.size(); ++i) {
      if (!std::isfinite(bounds_[i]) || (i > 0 && !(bounds_[i] > bounds_[i - 1])))
        return "a histogram whose bounds do not ascend";
    }
    uint64_t sum = point_.zeros;
    for (uint64_t count : counts_) {
      if (count > UINT64_MAX - sum) return "a histogram whose buckets are too many for its count";
      sum += count;
    }
    if (sum != point_.count && !(listed && counts_.empty()))
      return "a histogram whose buckets do not add up to its count";
    return kGood;
  }

  void Count(std::string_view why) {
    if (why.empty()) {
      ++report_.points;
    } else {
      ++report_.rejected;
      report_.why = why;
    }
  }

  OtlpPointVisitor& visitor_;
  OtlpPointsReport& report_;
  OtlpMetricView metric_;
  OtlpPointView point_;
  Attributes attributes_;
  std::vector<double> bounds_;
  std::vector<uint64_t> counts_;
};

}  // namespace

Status ReadOtlpPoints(std::string_view request, OtlpPointVisitor& visitor, OtlpPointsReport& report) {
  if (OtlpPointReader(visitor, report).Request(request)) return Ok();
  return {Code::kDataLoss, "the request is not an ExportMetricsServiceRequest"};
}

}  // namespace gpulens

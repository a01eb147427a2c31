// For tests: an ExportMetricsServiceRequest as text, read by protozero, a line for each resource, scope,
// metric and point.
#pragma once

#include <bit>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <string_view>

#include "core/attribute_set.h"
#include "wire/otlp/otlp_fields.h"

namespace gpulens::otlp_testing {

inline std::string Number(double value) {
  std::string text;
  AppendValue(text, value);
  return text;
}

inline std::string AnyText(protozero::pbf_reader any) {
  std::string text;
  while (any.next()) {
    switch (any.tag()) {
      case otlp::kString: text = "\"" + any.get_string() + "\""; break;
      case otlp::kBool: text = any.get_bool() ? "true" : "false"; break;
      case otlp::kInt: text = std::to_string(any.get_int64()); break;
      case otlp::kDouble: text = "d" + Number(any.get_double()); break;
      default: text = "?", any.skip();
    }
  }
  return text;
}

inline std::string PairText(protozero::pbf_reader pair) {
  std::string key, value;
  while (pair.next()) {
    if (pair.tag() == otlp::kKey) key = pair.get_string();
    else value = AnyText(pair.get_message());
  }
  return key + "=" + value;
}

// Times are seconds after `zero`.
class MetricsText {
 public:
  static std::string Of(std::string_view request, int64_t zero_unix_ns = 0) {
    MetricsText text(zero_unix_ns);
    protozero::pbf_reader all(request.data(), request.size());
    while (all.next(otlp::kResourceList)) text.Resource(all.get_message());
    return std::move(text.out_);
  }

 private:
  explicit MetricsText(int64_t zero) : zero_(zero) {}

  void Resource(protozero::pbf_reader list) {
    while (list.next()) {
      if (list.tag() == otlp::kResource) {
        protozero::pbf_reader resource = list.get_message();
        out_ += "resource";
        while (resource.next(otlp::kResourceAttributes)) out_ += " " + PairText(resource.get_message());
        out_ += "\n";
      } else if (list.tag() == otlp::kScopeList) {
        Scope(list.get_message());
      } else {
        list.skip();
      }
    }
  }
  void Scope(protozero::pbf_reader list) {
    while (list.next()) {
      if (list.tag() == otlp::kScope) {
        protozero::pbf_reader scope = list.get_message();
        out_ += "scope";
        while (scope.next()) out_ += " " + scope.get_string();
        out_ += "\n";
      } else if (list.tag() == otlp::kItems) {
        Metric(list.get_message());
      } else {
        list.skip();
      }
    }
  }
  void Metric(protozero::pbf_reader metric) {
    std::string name, unit;
    while (metric.next()) {
      switch (metric.tag()) {
        case otlp::kName: name = metric.get_string(); break;
        case otlp::kUnit: unit = " " + metric.get_string(); break;
        case otlp::kDescription: metric.skip(); break;
        default: {
          const uint32_t kind = metric.tag();
          protozero::pbf_reader data = metric.get_message();
          out_ += name + unit +
                  (kind == otlp::kGauge                  ? " gauge"
                   : kind == otlp::kSum                  ? " sum"
                   : kind == otlp::kHistogram            ? " histogram"
                   : kind == otlp::kExponentialHistogram ? " exponential"
                                                         : " summary");
          std::string points;
          while (data.next()) {
            if (data.tag() == otlp::kPoints) points += Point(kind, data.get_message());
            else if (data.tag() == otlp::kTemporality)
              out_ += data.get_uint32() == otlp::kCumulative ? " cumulative" : " delta";
            else out_ += data.get_bool() ? " monotonic" : "";
          }
          out_ += "\n" + points;
        }
      }
    }
  }
  std::string Time(uint64_t unix_ns) const {
    if (unix_ns == 0) return "0";
    return Number(static_cast<double>(static_cast<int64_t>(unix_ns) - zero_) / 1e9);
  }
  std::string Point(uint32_t kind, protozero::pbf_reader point) {
    const bool exponential = kind == otlp::kExponentialHistogram, histogram = kind == otlp::kHistogram;
    std::string attributes, start, time, value;
    const uint32_t labels = exponential ? 1 : histogram ? 9 : 7;  // by the numbers of the protocol
    const uint32_t flags = histogram || exponential ? otlp::kHistogramFlags : otlp::kNumberFlags;
    const uint32_t exemplars = exponential ? 11 : histogram ? 8 : 5;
    while (point.next()) {
      const uint32_t tag = point.tag();
      if (tag == labels) attributes += " " + PairText(point.get_message());
      else if (tag == otlp::kStartTime) start = Time(point.get_fixed64()) + "..";
      else if (tag == otlp::kTime) time = Time(point.get_fixed64());
      else if (tag == flags) value += " no-value=" + std::to_string(point.get_uint32());
      else if (tag == exemplars && kind != otlp::kSummary) value += ExemplarText(point.get_message());
      else if (exponential) value += ExponentialPart(point);
      else if (histogram || kind == otlp::kSummary) value += Part(kind, point);
      else if (tag == otlp::kAsDouble) value += " " + Number(point.get_double());
      else value += " i" + std::to_string(point.get_sfixed64());
    }
    return " " + attributes + " @" + start + time + value + "\n";
  }
  std::string ExemplarText(protozero::pbf_reader exemplar) const {
    std::string out = " (";
    while (exemplar.next()) {
      switch (exemplar.tag()) {
        case otlp::kExemplarTime: out += "@" + Time(exemplar.get_fixed64()); break;
        case otlp::kExemplarDouble: out += " " + Number(exemplar.get_double()); break;
        case otlp::kSpanId: out += " span:" + std::to_string(exemplar.get_view().size()); break;
        case otlp::kTraceId: out += " trace:" + std::to_string(exemplar.get_view().size()); break;
        default: out += " " + PairText(exemplar.get_message());
      }
    }
    return out + ")";
  }
  // Of the buckets, those that are not empty, by their index.
  static std::string ExponentialPart(protozero::pbf_reader& point) {
    switch (point.tag()) {
      case otlp::kExponentialCount: return " count=" + std::to_string(point.get_fixed64());
      case otlp::kExponentialSum: return " sum=" + Number(point.get_double());
      case otlp::kScale: return " scale=" + std::to_string(point.get_sint32());
      case otlp::kZeroCount: return " zero=" + std::to_string(point.get_fixed64());
      case otlp::kZeroThreshold: return " upto=" + Number(point.get_double());
      default: break;
    }
    protozero::pbf_reader buckets = point.get_message();
    int index = 0;
    std::string out = " buckets";
    while (buckets.next()) {
      if (buckets.tag() == otlp::kOffset) {
        index = buckets.get_sint32();
        continue;
      }
      for (uint64_t count : buckets.get_packed_uint64()) {
        if (count != 0) out += " " + std::to_string(index) + ":" + std::to_string(count);
        ++index;
      }
    }
    return out;
  }
  static std::string Part(uint32_t kind, protozero::pbf_reader& point) {
    std::string out;
    switch (point.tag()) {
      case otlp::kHistogramCount: return " count=" + std::to_string(point.get_fixed64());
      case otlp::kHistogramSum: return " sum=" + Number(point.get_double());
      case otlp::kBucketCounts:
        if (kind == otlp::kSummary) {
          protozero::pbf_reader pair = point.get_message();
          while (pair.next()) out += (pair.tag() == otlp::kQuantile ? " q" : ":") + Number(pair.get_double());
          return out;
        }
        out = " buckets";
        for (uint64_t count : point.get_packed_fixed64()) out += ":" + std::to_string(count);
        return out;
      default:
        out = " bounds";
        for (double bound : point.get_packed_double()) out += ":" + Number(bound);
        return out;
    }
  }

  const int64_t zero_;
  std::string out_;
};

}  // namespace gpulens::otlp_testing

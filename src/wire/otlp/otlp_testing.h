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

// Times are told in seconds after `zero`.
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
      } else {
        Scope(list.get_message());
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
      } else {
        Metric(list.get_message());
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
                  (kind == otlp::kGauge       ? " gauge"
                   : kind == otlp::kSum       ? " sum"
                   : kind == otlp::kHistogram ? " histogram"
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
    std::string attributes, start, time, value;
    const uint32_t labels = kind == otlp::kHistogram ? otlp::kHistogramAttributes : otlp::kNumberAttributes;
    const uint32_t flags = kind == otlp::kHistogram ? otlp::kHistogramFlags : otlp::kNumberFlags;
    while (point.next()) {
      const uint32_t tag = point.tag();
      if (tag == labels) attributes += " " + PairText(point.get_message());
      else if (tag == otlp::kStartTime) start = Time(point.get_fixed64()) + "..";
      else if (tag == otlp::kTime) time = Time(point.get_fixed64());
      else if (tag == flags) value += " no-value=" + std::to_string(point.get_uint32());
      else if (kind == otlp::kHistogram || kind == otlp::kSummary) value += Part(kind, point);
      else if (tag == otlp::kAsDouble) value += " " + Number(point.get_double());
      else value += " i" + std::to_string(point.get_sfixed64());
    }
    return " " + attributes + " @" + start + time + value + "\n";
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

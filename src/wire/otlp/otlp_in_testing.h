// For tests: parts of requests, and requests of random shape, written by protozero.
#pragma once

#include <algorithm>
#include <protozero/pbf_writer.hpp>
#include <random>
#include <string>
#include <vector>

#include "core/received_otlp.h"
#include "wire/otlp/otlp_schema.h"

namespace gpulens::otlp_in_testing {

using protozero::pbf_writer;

inline std::string Pair(const std::string& key, const std::string& text) {
  std::string value, pair;
  pbf_writer(value).add_string(1, text);
  pbf_writer writer(pair);
  writer.add_string(1, key);
  writer.add_message(2, value);
  return pair;
}
inline std::string IntPair(const std::string& key, int64_t number) {
  std::string value, pair;
  pbf_writer(value).add_int64(3, number);
  pbf_writer writer(pair);
  writer.add_string(1, key);
  writer.add_message(2, value);
  return pair;
}
// One message field around bytes.
inline std::string In(uint32_t number, const std::string& message) {
  std::string out;
  pbf_writer(out).add_message(number, message);
  return out;
}
inline std::string Text(uint32_t number, const std::string& text) { return In(number, text); }
inline std::string Gauge(const std::string& name, const std::string& points) {
  return Text(1, name) + In(5, points);
}
// A whole request: one resource, one scope.
inline std::string Request(const std::string& resource, const std::string& items) {
  return In(1, In(1, resource) + In(2, items));
}
inline std::string Point(const std::string& attributes, double value = 1) {
  std::string point = attributes;
  pbf_writer writer(point);
  writer.add_fixed64(3, 1'700'000'000'000'000'000);
  writer.add_double(4, value);
  return point;
}

// Requests as others might write them: fields in any order, unknown fields, several of everything.
class Maker {
 public:
  explicit Maker(uint64_t seed) : random_(seed) {}

  std::string Make(OtlpSignal signal) {
    std::string request;
    for (int i = Below(4); i >= 0; --i) request += In(1, ResourceList(signal));
    if (Below(3) == 0) request += Unknown();
    return request;
  }
  // Of all metrics that Make made since: names that begin with "go_".
  int Below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }

 private:
  std::string Shuffled(std::vector<std::string> parts) {
    if (Below(3) == 0) parts.push_back(Unknown());
    std::shuffle(parts.begin(), parts.end(), random_);
    std::string out;
    for (const std::string& part : parts) out += part;
    return out;
  }
  std::string Unknown() {
    std::string out;
    pbf_writer writer(out);
    if (Below(2) == 0) writer.add_string(static_cast<uint32_t>(100 + Below(3000)), "kept");
    else writer.add_fixed32(90, static_cast<uint32_t>(random_()));
    return out;
  }
  std::string Attribute() {
    static const char* const kKeys[] = {"a",   "bb",        "k8s.pod.name", "service.name",
                                        "x.y", "gpu.model", "ключ"};
    const std::string key = kKeys[Below(7)];
    switch (Below(4)) {
      case 0: return IntPair(key, static_cast<int64_t>(random_()));
      case 1: return Pair("gpu.index", std::to_string(Below(4)));
      case 2:
        return Below(4) == 0 ? Pair("k8s.pod.uid", "uid-1")
                             : Pair(key, std::string(static_cast<size_t>(Below(200)), 'v'));
      default: {
        const std::string value = In(6, In(1, Pair("in", "side")));
        return Text(1, key) + In(2, value);
      }
    }
  }
  std::string Item(OtlpMessage shape) {
    const uint32_t field = otlp::FieldsOf(shape).attributes;
    std::vector<std::string> parts;
    for (int i = Below(4); i > 0; --i) parts.push_back(In(field, Attribute()));
    std::string number;
    pbf_writer writer(number);
    if (shape == OtlpMessage::kLogRecord) {
      writer.add_fixed64(1, random_());
      parts.push_back(In(5, Text(1, "a line")));
    } else if (shape == OtlpMessage::kSpan) {
      writer.add_string(1, "0123456789abcdef");
      writer.add_string(2, "01234567");
      parts.push_back(In(11, Text(2, "event") + In(3, Attribute())));
    } else {
      writer.add_fixed64(3, random_());
      if (shape == OtlpMessage::kHistogramPoint) {
        const uint64_t counts[] = {1, 2, 3};
        const double bounds[] = {0.5, 1};
        writer.add_packed_fixed64(6, counts, counts + 3);
        writer.add_packed_double(7, bounds, bounds + 2);
      }
    }
    parts.push_back(number);
    return Shuffled(std::move(parts));
  }
  std::string Metric() {
    static constexpr uint32_t kKinds[] = {5, 7, 9, 10, 11};
    const uint32_t kind = kKinds[Below(5)];
    std::vector<std::string> points;
    for (int i = Below(6); i > 0; --i) points.push_back(In(1, Item(otlp::PointShape(kind))));
    if (kind == 7 || kind == 9 || kind == 10) {
      std::string temporality;
      pbf_writer(temporality).add_uint32(2, 2);
      points.push_back(temporality);
    }
    return Shuffled({Text(1, Below(4) == 0 ? "go_threads" : "m" + std::to_string(Below(9))), Text(3, "By"),
                     In(kind, Shuffled(std::move(points)))});
  }
  std::string ScopeList(OtlpSignal signal) {
    std::vector<std::string> parts;
    if (Below(3) != 0) parts.push_back(In(1, Text(1, "scope") + In(3, Attribute())));
    if (Below(3) == 0) parts.push_back(Text(3, "https://schema"));
    for (int i = Below(5); i > 0; --i)
      parts.push_back(In(2, signal == OtlpSignal::kMetrics ? Metric() : Item(otlp::ItemShape(signal))));
    return Shuffled(std::move(parts));
  }
  std::string ResourceList(OtlpSignal signal) {
    std::vector<std::string> parts;
    if (Below(4) != 0) {
      std::vector<std::string> attributes;
      for (int i = Below(4); i > 0; --i) attributes.push_back(In(1, Attribute()));
      parts.push_back(In(1, Shuffled(std::move(attributes))));
    }
    if (Below(3) == 0) parts.push_back(Text(3, "https://schema"));
    for (int i = Below(4); i > 0; --i) parts.push_back(In(2, ScopeList(signal)));
    return Shuffled(std::move(parts));
  }

  std::mt19937_64 random_;
};

}  // namespace gpulens::otlp_in_testing

// For tests: requests of remote write written by protozero, and OTLP metrics as lines of text.
#pragma once

#include <bit>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "wire/remote_write/remote_write_fields.h"

namespace gpulens::remote_write_in_testing {

using protozero::pbf_reader;
using protozero::pbf_writer;

using Pairs = std::vector<std::pair<std::string, std::string>>;

inline constexpr int64_t kMs = 1'700'000'000'000;

// Parts of a TimeSeries, in either version the same bytes.
inline std::string Sample(double value, int64_t ms = kMs, int64_t start_ms = 0) {
  std::string sample, out;
  pbf_writer writer(sample);
  writer.add_double(1, value);
  writer.add_int64(2, ms);
  if (start_ms != 0) writer.add_int64(3, start_ms);
  pbf_writer(out).add_message(2, sample);
  return out;
}
inline std::string Message(uint32_t field, const std::string& bytes) {
  std::string out;
  pbf_writer(out).add_message(field, bytes);
  return out;
}

struct Histogram {
  uint64_t count = 0, zero_count = 0;
  double sum = 0, zero_threshold = 0;
  int32_t schema = 0;
  std::vector<std::pair<int32_t, uint32_t>> above = {}, below = {};
  std::vector<int64_t> above_deltas = {}, below_deltas = {};
  std::vector<double> bounds = {};
  int64_t ms = kMs, start_ms = 0;
  int32_t hint = 0;
  bool floats = false;

  std::string Bytes() const {
    std::string out;
    pbf_writer writer(out);
    if (floats) writer.add_double(2, static_cast<double>(count));
    else writer.add_uint64(1, count);
    writer.add_double(3, sum);
    writer.add_sint32(4, schema);
    writer.add_double(5, zero_threshold);
    writer.add_uint64(6, zero_count);
    const auto spans = [&](uint32_t field, const auto& list) {
      for (const auto& [offset, length] : list) {
        std::string span;
        pbf_writer(span).add_sint32(1, offset);
        pbf_writer(span).add_uint32(2, length);
        writer.add_message(field, span);
      }
    };
    spans(8, below);
    writer.add_packed_sint64(9, below_deltas.begin(), below_deltas.end());
    spans(11, above);
    writer.add_packed_sint64(12, above_deltas.begin(), above_deltas.end());
    writer.add_enum(14, hint);
    writer.add_int64(15, ms);
    writer.add_packed_double(16, bounds.begin(), bounds.end());
    if (start_ms != 0) writer.add_int64(17, start_ms);
    return out;
  }
};

// A request of 1.0.
class First {
 public:
  First& Series(const Pairs& labels, const std::string& parts) {
    pbf_writer(bytes_).add_message(1, LabelFields(labels) + parts);
    return *this;
  }
  First& Metadata(int32_t type, const std::string& family, const std::string& help, const std::string& unit) {
    std::string about;
    pbf_writer writer(about);
    writer.add_enum(1, type);
    writer.add_string(2, family);
    writer.add_string(4, help);
    writer.add_string(5, unit);
    pbf_writer(bytes_).add_message(3, about);
    return *this;
  }
  static std::string LabelFields(const Pairs& labels) {
    std::string out;
    for (const auto& [name, value] : labels) {
      std::string label;
      pbf_writer(label).add_string(1, name);
      pbf_writer(label).add_string(2, value);
      pbf_writer(out).add_message(1, label);
    }
    return out;
  }
  static std::string Exemplar(const Pairs& labels, double value, int64_t ms) {
    std::string out = LabelFields(labels);
    pbf_writer(out).add_double(2, value);
    pbf_writer(out).add_int64(3, ms);
    return Message(3, out);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

struct SeriesWords {
  int32_t type = 0;
  std::string help, unit;
};

// A request of 2.0; symbols follow the series that refer to them.
class Second {
 public:
  using About = SeriesWords;
  Second& Series(const Pairs& labels, const std::string& parts, const About& about = {}) {
    std::string metadata;
    pbf_writer writer(metadata);
    writer.add_enum(1, about.type);
    writer.add_uint32(3, Symbol(about.help));
    writer.add_uint32(4, Symbol(about.unit));
    return Raw(Refs(labels) + parts + Message(5, metadata));
  }
  Second& Raw(const std::string& series) {
    pbf_writer(series_).add_message(5, series);
    return *this;
  }
  std::string Refs(const Pairs& labels) {
    std::vector<uint32_t> refs;
    for (const auto& [name, value] : labels) {
      refs.push_back(Symbol(name));
      refs.push_back(Symbol(value));
    }
    std::string out;
    pbf_writer(out).add_packed_uint32(1, refs.begin(), refs.end());
    return out;
  }
  std::string Exemplar(const Pairs& labels, double value, int64_t ms) {
    std::string out = Refs(labels);
    pbf_writer(out).add_double(2, value);
    pbf_writer(out).add_int64(3, ms);
    return Message(4, out);
  }
  uint32_t Symbol(const std::string& text) {
    for (uint32_t i = 0; i < symbols_.size(); ++i)
      if (symbols_[i] == text) return i;
    symbols_.push_back(text);
    return static_cast<uint32_t>(symbols_.size() - 1);
  }
  std::string bytes() const {
    std::string out = series_;
    for (const std::string& symbol : symbols_) pbf_writer(out).add_string(4, symbol);
    return out;
  }

 private:
  std::vector<std::string> symbols_ = {""};
  std::string series_;
};

}  // namespace gpulens::remote_write_in_testing

// For tests: requests of remote write read strictly by protozero into plain structs (labels, samples,
// histograms as they were sent, exemplars, metadata), and OTLP metrics written by protozero.
#pragma once

#include <algorithm>
#include <bit>
#include <map>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "wire/remote_write/remote_write_fields.h"
#include "wire/remote_write/remote_write_request.h"

namespace gpulens::remote_write_out_testing {

using protozero::pbf_reader;
using protozero::pbf_writer;

// A request as text that two requests have in common when they mean the same: a line for each series, sorted;
// numbers by their bits. Throws what a receiver would refuse.
//   name{a="b"} 1.5 @1000 [start 500] exemplar 1 @2000 {trace_id="…"} type=1 help=… unit=…
class RequestText {
 public:
  static std::vector<std::string> Of(std::string_view bytes, RemoteWriteVersion version) {
    RequestText text(version);
    text.ReadSymbols(bytes);
    pbf_reader all(bytes.data(), bytes.size());
    while (all.next()) {
      const uint32_t tag = all.tag();
      if (text.first_ && tag == 3) text.Metadata1(all.get_message());
      else if (text.first_ && tag == 1) text.Series(all.get_message());
      else if (!text.first_ && tag == 5) text.Series(all.get_message());
      else if (!text.first_ && tag == 4) all.skip();
      else Ask(false, "an unknown field of the request");
    }
    for (size_t i = 1; !text.first_ && i < text.symbols_.size(); ++i)
      Ask(text.used_.contains(static_cast<uint32_t>(i)), "a symbol without use");
    std::sort(text.out_.begin(), text.out_.end());
    return text.out_;
  }

  static std::string Number(double value) {
    if (remote_write::IsStaleMarker(value)) return "stale";
    std::ostringstream out;
    out.precision(17);
    if (value != value) out << "nan:" << std::hex << std::bit_cast<uint64_t>(value);
    else out << value;
    return out.str();
  }

 private:
  explicit RequestText(RemoteWriteVersion version) : first_(version == RemoteWriteVersion::k1) {}

  static void Ask(bool right, const char* what) {
    if (!right) throw std::runtime_error(what);
  }
  void ReadSymbols(std::string_view bytes) {
    if (first_) return;
    pbf_reader all(bytes.data(), bytes.size());
    while (all.next())
      if (all.tag() == 4) symbols_.push_back(all.get_string());
      else all.skip();
    Ask(!symbols_.empty() && symbols_[0].empty(), "the first symbol is not empty");
    Ask(std::set<std::string>(symbols_.begin(), symbols_.end()).size() == symbols_.size(), "a symbol twice");
  }
  const std::string& Symbol(uint32_t number) {
    Ask(number < symbols_.size(), "no such symbol");
    used_.insert(number);
    return symbols_[number];
  }
  // Reads one field 1 of a series or an exemplar.
  void Labels(pbf_reader& message, std::vector<std::pair<std::string, std::string>>& out) {
    if (first_) {
      pbf_reader label = message.get_message();
      std::pair<std::string, std::string> pair;
      while (label.next()) (label.tag() == 1 ? pair.first : pair.second) = label.get_string();
      out.push_back(pair);
      return;
    }
    auto refs = message.get_packed_uint32();
    for (auto at = refs.begin(); at != refs.end(); ++at) {
      const std::string name = Symbol(*at);
      Ask(++at != refs.end(), "a label without a value");
      out.emplace_back(name, Symbol(*at));
    }
  }
  static std::string Text(const std::vector<std::pair<std::string, std::string>>& labels, bool named) {
    std::string name, inside;
    for (size_t i = 0; i < labels.size(); ++i) {
      const auto& [key, value] = labels[i];
      Ask(IsUtf8(key) && IsUtf8(value) && !key.empty() && !value.empty(), "a label that is none");
      Ask(i == 0 || labels[i - 1].first < key, "labels out of order, or twice");
      if (key == "__name__") name = value;
      else inside += (inside.empty() ? "" : ",") + key + "=\"" + value + "\"";
    }
    Ask(named == !name.empty(), "a name");
    return name + "{" + inside + "}";
  }
  void Metadata1(pbf_reader message) {
    std::string line = "metadata";
    while (message.next()) {
      if (message.tag() == 1) line += " type=" + std::to_string(message.get_enum());
      else line += " " + std::to_string(message.tag()) + "=" + message.get_string();
    }
    out_.push_back(line);
  }
  void Series(pbf_reader message) {
    std::vector<std::pair<std::string, std::string>> labels;
    std::string samples, exemplars, about;
    const uint32_t exemplar_field = first_ ? 3 : 4, histogram_field = first_ ? 4 : 3;
    int64_t last = 0;
    while (message.next()) {
      if (message.tag() == 1) Labels(message, labels);
      else if (message.tag() == 2) samples += Sample(message.get_message(), last);
      else if (message.tag() == histogram_field) samples += Histogram(message.get_message(), last);
      else if (message.tag() == exemplar_field) exemplars += Exemplar(message.get_message());
      else if (!first_ && message.tag() == 5) about = About(message.get_message());
      else Ask(false, "an unknown field of a series");
    }
    Ask(!samples.empty(), "a series without samples");
    out_.push_back(Text(labels, true) + samples + exemplars + about);
  }
  std::string About(pbf_reader about) {
    std::string type, help, unit;
    while (about.next()) {
      if (about.tag() == 1) type = std::to_string(about.get_enum());
      else if (about.tag() == 3) help = Symbol(about.get_uint32());
      else unit = Symbol(about.get_uint32());
    }
    std::string out;
    if (!type.empty() && type != "0") out += " type=" + type;
    if (!help.empty()) out += " help=" + help;
    if (!unit.empty()) out += " unit=" + unit;
    return out;
  }
  std::string Sample(pbf_reader sample, int64_t& last) {
    double value = 0;
    int64_t ms = 0, start = 0;
    while (sample.next()) {
      if (sample.tag() == 1) value = sample.get_double();
      else if (sample.tag() == 2) ms = sample.get_int64();
      else start = sample.get_int64();
    }
    Ask(ms >= last, "samples out of order");
    Ask(!first_ || start == 0, "1.0 has no start");
    last = ms;
    return " " + Number(value) + " @" + std::to_string(ms) + (start ? " start " + std::to_string(start) : "");
  }
  std::string Exemplar(pbf_reader message) {
    std::vector<std::pair<std::string, std::string>> labels;
    double value = 0;
    int64_t ms = 0;
    while (message.next()) {
      if (message.tag() == 1) Labels(message, labels);
      else if (message.tag() == 2) value = message.get_double();
      else ms = message.get_int64();
    }
    return " exemplar " + Number(value) + " @" + std::to_string(ms) + " " + Text(labels, false);
  }
  // All of its fields by number; zeros that protobuf may leave out are left out.
  std::string Histogram(pbf_reader message, int64_t& last) {
    std::map<uint32_t, std::string> fields;
    bool ended = false;
    while (message.next()) {
      const uint32_t tag = message.tag();
      std::string text;
      switch (tag) {
        case 1:
        case 6: text = std::to_string(message.get_uint64()); break;
        case 2:
        case 3:
        case 5:
        case 7:
          text = Number(message.get_double());
          ended = ended || (tag == 3 && text == "stale");
          break;
        case 4: text = std::to_string(message.get_sint32()); break;
        case 8:
        case 11: {
          pbf_reader span = message.get_message();
          int32_t offset = 0;
          uint32_t length = 0;
          while (span.next())
            if (span.tag() == 1) offset = span.get_sint32();
            else length = span.get_uint32();
          text = fields[tag] + "(" + std::to_string(offset) + "," + std::to_string(length) + ")";
          break;
        }
        case 9:
        case 12:
          for (int64_t delta : message.get_packed_sint64()) text += std::to_string(delta) + ",";
          break;
        case 10:
        case 13:
        case 16:
          for (double number : message.get_packed_double()) text += Number(number) + ",";
          break;
        case 14: text = std::to_string(message.get_enum()); break;
        case 15:
        case 17: {
          const int64_t ms = message.get_int64();
          if (tag == 15) Ask(ms >= last, "histograms out of order"), last = ms;
          Ask(!first_ || tag == 15, "1.0 has no start");
          text = std::to_string(ms);
          break;
        }
        default: Ask(false, "an unknown field of a histogram");
      }
      fields[tag] = text;
    }
    std::string out = " histogram";
    for (const auto& [tag, text] : fields)
      if (text != "0" && !text.empty()) out += " " + std::to_string(tag) + ":" + text;
    return out;
  }

  const bool first_;
  std::vector<std::string> out_, symbols_;
  std::set<uint32_t> used_;
};

// --- OTLP ----------------------------------------------------------------------------------------

inline std::string Wrap(uint32_t field, const std::string& message) {
  std::string out;
  pbf_writer(out).add_message(field, message);
  return out;
}
inline std::string Fixed(uint32_t field, double value) {
  std::string out;
  pbf_writer(out).add_double(field, value);
  return out;
}
inline std::string Fixed(uint32_t field, uint64_t value) {
  std::string out;
  pbf_writer(out).add_fixed64(field, value);
  return out;
}
inline std::string Varint(uint32_t field, uint64_t value) {
  std::string out;
  pbf_writer(out).add_uint64(field, value);
  return out;
}
inline std::string Text(uint32_t field, const std::string& text) {
  std::string out;
  pbf_writer(out).add_string(field, text);
  return out;
}
inline std::string Pair(uint32_t field, const std::string& key, const std::string& value) {
  return Wrap(field, Text(1, key) + Wrap(2, Text(1, value)));
}
inline std::string Pairs(uint32_t field, const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::string out;
  for (const auto& [key, value] : pairs) out += Pair(field, key, value);
  return out;
}
inline constexpr uint64_t kMsNs = 1'000'000, kAt = 1'700'000'000'000 * kMsNs, kStart = kAt - 5'000 * kMsNs;

inline std::string Metric(const std::string& name, const std::string& unit, const std::string& data,
                          const std::string& help = "") {
  return Wrap(
      2, Text(1, name) + (help.empty() ? "" : Text(2, help)) + (unit.empty() ? "" : Text(3, unit)) + data);
}
inline std::string Gauge(const std::string& points) { return Wrap(5, points); }
inline std::string Sum(const std::string& points, uint64_t temporality = 2, bool monotonic = true) {
  return Wrap(7, points + Varint(2, temporality) + (monotonic ? Varint(3, 1) : ""));
}
inline std::string HistogramData(const std::string& points, uint64_t temporality = 2) {
  return Wrap(9, points + Varint(2, temporality));
}
inline std::string ExponentialData(const std::string& points, uint64_t temporality = 2) {
  return Wrap(10, points + Varint(2, temporality));
}
inline std::string NumberPoint(double value,
                               const std::vector<std::pair<std::string, std::string>>& attributes = {},
                               const std::string& more = "") {
  return Wrap(1, Pairs(7, attributes) + Fixed(2, kStart) + Fixed(3, kAt) + Fixed(4, value) + more);
}
inline std::string Doubles(uint32_t field, const std::vector<double>& values) {
  std::string out;
  pbf_writer(out).add_packed_double(field, values.begin(), values.end());
  return out;
}
inline std::string Fixeds(uint32_t field, const std::vector<uint64_t>& values) {
  std::string out;
  pbf_writer(out).add_packed_fixed64(field, values.begin(), values.end());
  return out;
}
inline std::string BucketsOf(uint32_t field, int32_t offset, const std::vector<uint64_t>& counts) {
  std::string inside;
  pbf_writer(inside).add_sint32(1, offset);
  pbf_writer(inside).add_packed_uint64(2, counts.begin(), counts.end());
  return Wrap(field, inside);
}
inline std::string RequestOf(const std::string& metrics,
                             const std::vector<std::pair<std::string, std::string>>& resource = {},
                             const std::string& scope = "") {
  return Wrap(1, Wrap(1, Pairs(1, resource)) + Wrap(2, (scope.empty() ? "" : Wrap(1, scope)) + metrics));
}

}  // namespace gpulens::remote_write_out_testing

// For tests: requests of remote write as text, read strictly by protozero.
#pragma once

#include <algorithm>
#include <protozero/pbf_reader.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "wire/remote_write/histogram_text_testing.h"
#include "wire/remote_write/remote_write_request.h"

namespace gpulens::remote_write_out_testing {

using protozero::pbf_reader;

inline constexpr auto k1 = RemoteWriteVersion::k1;
inline constexpr auto k2 = RemoteWriteVersion::k2;

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
      else Query(false, "an unknown field of the request");
    }
    for (size_t i = 1; !text.first_ && i < text.symbols_.size(); ++i)
      Query(text.used_.contains(static_cast<uint32_t>(i)), "a symbol without use");
    std::sort(text.out_.begin(), text.out_.end());
    return text.out_;
  }

 private:
  explicit RequestText(RemoteWriteVersion version) : first_(version == RemoteWriteVersion::k1) {}

  void ReadSymbols(std::string_view bytes) {
    if (first_) return;
    pbf_reader all(bytes.data(), bytes.size());
    while (all.next())
      if (all.tag() == 4) symbols_.push_back(all.get_string());
      else all.skip();
    Query(!symbols_.empty() && symbols_[0].empty(), "the first symbol is not empty");
    Query(std::set<std::string>(symbols_.begin(), symbols_.end()).size() == symbols_.size(),
          "a symbol twice");
  }
  const std::string& Symbol(uint32_t number) {
    Query(number < symbols_.size(), "no such symbol");
    used_.insert(number);
    return symbols_[number];
  }
  // Reads one field 1 of a series or an exemplar.
  void Labels(pbf_reader& message, std::vector<std::pair<std::string, std::string>>& out) {
    if (first_) {
      pbf_reader label = message.get_message();
      std::pair<std::string, std::string> pair;
      while (label.next()) {
        std::string& text = label.tag() == 1 ? pair.first : pair.second;
        text = label.get_string();
      }
      out.push_back(pair);
      return;
    }
    auto refs = message.get_packed_uint32();
    for (auto at = refs.begin(); at != refs.end(); ++at) {
      const std::string name = Symbol(*at);
      Query(++at != refs.end(), "a label without a value");
      out.emplace_back(name, Symbol(*at));
    }
  }
  static std::string Text(const std::vector<std::pair<std::string, std::string>>& labels, bool named) {
    std::string name, inside;
    for (size_t i = 0; i < labels.size(); ++i) {
      const auto& [key, value] = labels[i];
      Query(IsUtf8(key) && IsUtf8(value) && !key.empty() && !value.empty(), "a label that is none");
      Query(i == 0 || labels[i - 1].first < key, "labels out of order, or twice");
      if (key == "__name__") name = value;
      else inside += (inside.empty() ? "" : ",") + key + "=\"" + value + "\"";
    }
    Query(named == !name.empty(), "a name");
    return name + "{" + inside + "}";
  }
  void Metadata1(pbf_reader message) {
    std::string line = "metadata";
    while (message.next()) {
      const uint32_t tag = message.tag();
      if (tag == 1) line += " type=" + std::to_string(message.get_enum());
      else line += " " + std::to_string(tag) + "=" + message.get_string();
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
      else if (message.tag() == histogram_field)
        samples += HistogramText(message.get_message(), first_, last);
      else if (message.tag() == exemplar_field) exemplars += Exemplar(message.get_message());
      else if (!first_ && message.tag() == 5) about = About(message.get_message());
      else Query(false, "an unknown field of a series");
    }
    Query(!samples.empty(), "a series without samples");
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
    Query(ms >= last, "samples out of order");
    Query(!first_ || start == 0, "1.0 has no start");
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
  const bool first_;
  std::vector<std::string> out_, symbols_;
  std::set<uint32_t> used_;
};

}  // namespace gpulens::remote_write_out_testing

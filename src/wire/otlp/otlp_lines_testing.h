// For tests: requests as lines of text, read by protozero.
#pragma once

#include <algorithm>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <vector>

#include "wire/otlp/otlp_schema.h"

namespace gpulens::otlp_in_testing {

using protozero::pbf_reader;

// An item with all that is above it, in an order that does not depend on how it was written. Containers
// without items are lines, too.
struct Line {
  std::string resource, above, item;
  friend bool operator==(const Line&, const Line&) = default;
};

class Lines {
 public:
  static std::vector<Line> Of(OtlpSignal signal, const std::string& request) {
    Lines lines(signal);
    pbf_reader reader(request);
    while (reader.next())
      if (reader.tag() == 1) lines.Resource(reader.get_view());
      else reader.skip();
    return std::move(lines.lines_);
  }
  // Fields in the order of their bytes, without those for which `walked` is true.
  template <class Walked>
  static std::string Head(protozero::data_view message, Walked walked) {
    std::vector<std::string> fields;
    ProtoCursor cursor({message.data(), message.size()});
    for (ProtoField field; cursor.Next(field);)
      if (!walked(field.number))
        fields.push_back(std::to_string(field.number) + ":" + std::string(field.bytes) + ";");
    std::sort(fields.begin(), fields.end());
    std::string out;
    for (const std::string& one : fields) out += one;
    return out;
  }

 private:
  explicit Lines(OtlpSignal signal) : signal_(signal) {}

  void Resource(protozero::data_view list) {
    std::string attributes;
    pbf_reader reader(list);
    while (reader.next(1)) attributes += Head(reader.get_view(), [](uint32_t) { return false; });
    const std::string others = Head(list, [](uint32_t n) { return n == 1 || n == 2; });
    now_ = {attributes, others, ""};
    Below(list, 2, [this](protozero::data_view scope) { Scope(scope); });
  }
  void Scope(protozero::data_view scope) {
    const Line above = now_;
    now_.above += "|" + Head(scope, [](uint32_t n) { return n == 2; });
    Below(scope, 2, [this](protozero::data_view item) {
      if (signal_ == OtlpSignal::kMetrics) Metric(item);
      else Item(item);
    });
    now_ = above;
  }
  void Metric(protozero::data_view metric) {
    const Line above = now_;
    now_.above += "|" + Head(metric, otlp::IsData);
    bool any = false;
    pbf_reader reader(metric);
    while (reader.next()) {
      if (!otlp::IsData(reader.tag())) {
        reader.skip();
        continue;
      }
      any = true;
      const Line of_metric = now_;
      const std::string kind = std::to_string(reader.tag());
      const protozero::data_view data = reader.get_view();
      now_.above += "|" + kind + Head(data, [](uint32_t n) { return n == 1; });
      Below(data, 1, [this](protozero::data_view point) { Item(point); });
      now_ = of_metric;
    }
    if (!any) lines_.push_back(now_);
    now_ = above;
  }
  void Item(protozero::data_view item) {
    Line line = now_;
    line.item = "{" + Head(item, [](uint32_t) { return false; }) + "}";
    lines_.push_back(line);
  }
  template <class Take>
  void Below(protozero::data_view message, uint32_t number, Take take) {
    pbf_reader reader(message);
    bool any = false;
    while (reader.next()) {
      if (reader.tag() != number) {
        reader.skip();
        continue;
      }
      any = true;
      take(reader.get_view());
    }
    if (!any) lines_.push_back(now_);
  }

  const OtlpSignal signal_;
  Line now_;
  std::vector<Line> lines_;
};

}  // namespace gpulens::otlp_in_testing

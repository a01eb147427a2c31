// For tests of what reads pages by tables: a target whose pages are handed in, and what came out, as text.
#pragma once

#include <initializer_list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/number_text.h"
#include "core/frame_writer.h"
#include "wire/exposition/exposition_page.h"

namespace gpulens::scrape_testing {

// `Reader` is made from a page and `options`, and has Write(bool complete, FrameWriter&).
template <class Reader>
class TableFixture {
 public:
  template <class... Options>
  explicit TableFixture(uint32_t limit, Options&&... options)
      : table(SeriesTable::Options{.limit = limit}),
        writer(table, std::chrono::seconds(30), "rig/t"),
        series(page, std::forward<Options>(options)...) {}

  Ref<const Frame> Read(std::string_view body, ExpositionFormat format = ExpositionFormat::kText004) {
    clock.Advance(std::chrono::seconds(15));
    writer.Begin(clock.Now());
    Status read = page.Update(body, format);
    complete = read.ok();
    last = read.code == Code::kExhausted ? read : series.Write(read.ok(), writer);
    return frame = writer.Finish();
  }

  // "gpu.power.draw{gpu.index=0,…}" of every series with a fresh value: its value; of a histogram one
  // with " le=", " sum" and " count" for each cell. Attributes in the order of
  // their keys; `without` are left out of the names.
  std::map<std::string, double> Values(std::initializer_list<std::string_view> without) const {
    return Values(std::span<const std::string_view>(without.begin(), without.size()));
  }
  std::map<std::string, double> Values(std::span<const std::string_view> without = {}) const {
    std::map<std::string, double> values;
    for (uint32_t slot = 0; slot < frame->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame->layout)[slot];
      if (!info.desc || frame->quality[slot] != Quality::kOk) continue;
      auto number = [&](uint32_t cell) {
        Cell at = frame->cells[info.first_cell + cell];
        return info.desc->number == Number::kInt ? static_cast<double>(at.i) : at.d;
      };
      std::string name = NameOf(info, without);
      if (!info.shape) {
        values[name] = number(0);
        continue;
      }
      const Shape& shape = *info.shape;
      for (size_t i = 0; i < shape.bounds.size(); ++i) {
        char bound[kNumberBytes];
        values[name + " le=" + std::string(bound, WriteNumber(bound, shape.bounds[i]))] =
            number(static_cast<uint32_t>(i));
      }
      if (shape.has_sum) values[name + " sum"] = number(shape.sum_cell());
      if (shape.has_count) values[name + " count"] = number(shape.count_cell());
    }
    return values;
  }

  // The names of all series that are declared, with a value or not.
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (uint32_t slot = 0; slot < frame->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame->layout)[slot];
      if (info.desc) names.insert(NameOf(info, {}));
    }
    return names;
  }

  static std::string NameOf(const SeriesInfo& info, std::span<const std::string_view> without) {
    std::string name(info.desc->name);
    name += '{';
    for (auto [key, value] : info.attributes) {
      bool skip = false;
      for (std::string_view other : without) skip = skip || key == other;
      if (skip) continue;
      if (name.back() != '{') name += ',';
      name += key;
      name += '=';
      AppendValue(name, value);
    }
    return name + '}';
  }

  ManualClock clock;
  ScrapedPage page;
  SeriesTable table;
  FrameWriter writer;
  Reader series;
  Status last;
  bool complete = false;  // the last page was whole
  Ref<const Frame> frame;
};

}  // namespace gpulens::scrape_testing

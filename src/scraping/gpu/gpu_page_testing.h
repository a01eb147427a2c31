// For tests of this folder: a page through the tables of its exporter, and what came out, as text.
#pragma once

#include <initializer_list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "core/frame_writer.h"
#include "scraping/gpu/gpu_page_series.h"
#include "wire/exposition/exposition_page.h"

namespace gpulens::gpu_page {

// One target whose pages are handed in.
class PageRig {
 public:
  explicit PageRig(const Exporter* exporter = nullptr, uint32_t limit = UINT32_MAX,
                   std::vector<std::pair<std::string, std::string>> more = {})
      : table(SeriesTable::Options{nullptr, limit, {}}),
        writer(table, std::chrono::seconds(30), "gpu_page/t"),
        series(page, exporter, std::move(more)) {}

  Ref<const Frame> Read(std::string_view body, ExpositionFormat format = ExpositionFormat::kText004) {
    clock.Advance(std::chrono::seconds(15));
    writer.Begin(clock.Now());
    Status read = page.Update(body, format);
    complete = read.ok();
    last = read.code == Code::kExhausted ? read : series.Write(read.ok(), writer);
    return frame = writer.Finish();
  }

  // "gpu.power.draw{gpu.index=0,…}" of every series with a fresh value: its value. Attributes in the order of
  // their keys; `without` are left out of the names.
  std::map<std::string, double> Values(std::initializer_list<std::string_view> without) const {
    return Values(std::span<const std::string_view>(without.begin(), without.size()));
  }
  std::map<std::string, double> Values(std::span<const std::string_view> without = {}) const {
    std::map<std::string, double> values;
    for (uint32_t slot = 0; slot < frame->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame->layout)[slot];
      if (!info.desc || frame->quality[slot] != Quality::kOk) continue;
      Cell cell = frame->cells[info.first_cell];
      values[NameOf(info, without)] =
          info.desc->number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
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
  GpuPageSeries series;
  Status last;
  bool complete = false;  // the last page was whole
  Ref<const Frame> frame;
};

}  // namespace gpulens::gpu_page

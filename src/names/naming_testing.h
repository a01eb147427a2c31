// For tests of namings: series made by hand, and their names.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/parse.h"
#include "catalog/gpu.h"
#include "core/frame_writer.h"
#include "names/naming.h"

namespace gpulens::naming_testing {

inline SeriesInfo Series(const MetricDesc& desc, AttributeSet attributes) {
  SeriesInfo info;
  info.desc = &desc;
  info.attributes = std::move(attributes);
  return info;
}

inline std::vector<NamedSeries> MakeNames(std::vector<std::string> namings, const MetricDesc& desc,
                                          AttributeSet attributes) {
  std::vector<NamedSeries> out;
  MakeSeriesNamer(namings)(Series(desc, std::move(attributes)), out);
  return out;
}

// The value of a label; "-" when there is none.
inline std::string Label(const NamedSeries& named, std::string_view label) {
  for (const auto& [key, value] : named.labels) {
    if (key == label) return value;
  }
  return "-";
}

// A tick of one frame with the given series.
class Tick {
 public:
  Tick& Add(const MetricDesc& desc, std::initializer_list<AttributeSet::Attribute> attributes) {
    table_.Declare(desc, {}, AttributeSet(attributes));
    return *this;
  }
  Snapshot Snap(AttributeSet resource = {}) {
    writer_.Begin(ManualClock().Now());
    Snapshot snapshot;
    snapshot.resource = std::move(resource);
    snapshot.frames = {{writer_.Finish(), "test", Precedence::kNative, false}};
    return snapshot;
  }

 private:
  SeriesTable table_;
  FrameWriter writer_{table_, std::chrono::seconds(10)};
};

// The cells of a table whose first line names its columns.
class Tsv {
 public:
  explicit Tsv(std::string text) : text_(std::move(text)) {
    std::string_view rest = text_;
    names_ = Cells(TakeUntil(rest, '\n'));
    while (!rest.empty()) rows_.push_back(Cells(TakeUntil(rest, '\n')));
  }
  size_t size() const noexcept { return rows_.size(); }
  std::string_view At(size_t row, std::string_view column) const {
    size_t at = static_cast<size_t>(std::find(names_.begin(), names_.end(), column) - names_.begin());
    return at < rows_[row].size() ? rows_[row][at] : std::string_view();
  }

 private:
  static std::vector<std::string_view> Cells(std::string_view line) {
    std::vector<std::string_view> cells;
    for (bool more = true; more;) {
      more = line.find('\t') != line.npos;
      cells.push_back(TakeUntil(line, '\t'));
    }
    return cells;
  }
  const std::string text_;
  std::vector<std::string_view> names_;
  std::vector<std::vector<std::string_view>> rows_;
};

}  // namespace gpulens::naming_testing

#include "scrape/folded_series.h"

#include <algorithm>
#include <cmath>

#include "scrape/sample_times.h"

namespace gpulens {

SeriesLoss WhyRefused(const SeriesTable& table, uint64_t limit, uint64_t duplicate) noexcept {
  if (table.refused_for_room() != limit) return SeriesLoss::kLimit;
  if (table.refused(SeriesRefusal::kDuplicate) != duplicate) return SeriesLoss::kDuplicate;
  return SeriesLoss::kInvalid;
}

void FoldedSeries::Retire(SeriesTable& table) {
  const auto groups = groups_.groups();
  live_.resize(groups.size());
  for (size_t i = 0; i < groups.size(); ++i) {
    Live& live = live_[i];
    if (groups[i].alive && groups[i].version == live.version) continue;
    table.Retire(live.series);
    live = {};
    live.version = groups[i].version;
  }
}

void FoldedSeries::Declare(const DescOf& desc_of, const AttributesOf& attributes_of, SeriesTable& table) {
  const auto groups = groups_.groups();
  bool full = false;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (!groups[i].alive) continue;
    Live& live = live_[i];
    const bool here = groups[i].family != SeriesGroups::kNoFamily;
    const MetricDesc* desc = here ? desc_of(groups[i].family) : nullptr;
    if (desc != live.desc) {
      table.Retire(live.series);
      uint32_t version = live.version;
      live = {};
      live.desc = desc;
      live.version = version;
    }
    live.wanted = desc != nullptr;
    if (!desc || live.series) continue;
    if (full) live.loss = SeriesLoss::kLimit;
    else DeclareOne(i, attributes_of, table);
    full = full || (!live.series && live.loss == SeriesLoss::kLimit);
  }
}

void FoldedSeries::DeclareOne(size_t at, const AttributesOf& attributes_of, SeriesTable& table) {
  const SeriesGroups::Group& group = groups_.groups()[at];
  Live& live = live_[at];
  SeriesTable::Form form;
  form.shape = group.shape;
  uint64_t limit = table.refused_for_room(), twice = table.refused(SeriesRefusal::kDuplicate);
  live.series = table.Declare(*live.desc, target_, attributes_of(group.labels), form);
  if (!live.series) live.loss = WhyRefused(table, limit, twice);
}

void FoldedSeries::Write(bool complete, FrameWriter& out) {
  SampleTimes times(groups_.page(), out);
  for (size_t i = 0; i < live_.size(); ++i) {
    Live& live = live_[i];
    if (!groups_.groups()[i].alive) continue;
    // Even one that has no series: it must know what its members counted when it gets one.
    const SeriesGroups::Group& group = groups_.Read(i, complete);
    if (!live.series) continue;
    times.Next(group.slots);
    bool read =
        std::none_of(group.sums.begin(), group.sums.end(), [](double sum) { return std::isnan(sum); });
    if (!group.shape) {
      if (read || complete) out.Set(live.series, group.sums[0]);
      continue;
    }
    if (!read) continue;
    std::span<Cell> cells = out.Cells(live.series);
    for (size_t c = 0; c < cells.size(); ++c) cells[c].d = group.sums[c];
    // It began nobody knows when: its first numbers are the base.
    bool counts = group.fold == Fold::kCount && group.shape->has_count;
    if (counts && !live.written) out.table().Restart(live.series.slot, out.read_at().unix_ns);
    live.written = true;
  }
}

void FoldedSeries::Count(SeriesLosses& losses) const {
  losses.folds = true;
  losses.folded += groups_.folded();
  losses[SeriesLoss::kApart] += groups_.dropped();
  for (const Live& live : live_) {
    if (live.wanted && !live.series) ++losses[live.loss];
  }
}

}  // namespace gpulens

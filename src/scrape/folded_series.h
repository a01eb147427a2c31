// The groups of a page as series of ours.
#pragma once

#include <functional>
#include <vector>

#include "core/frame_writer.h"
#include "scrape/series_groups.h"
#include "scrape/series_losses.h"

namespace gpulens {

// Used inside its instance's run: not thread-safe. Write does not allocate.
class FoldedSeries {
 public:
  // The row of a family, by its index on the page; null: none of its series is passed on.
  using DescOf = std::function<const MetricDesc*(uint32_t family)>;
  using AttributesOf = std::function<AttributeSet(std::vector<PageLabel> labels)>;

  FoldedSeries(SeriesGroups& groups, EntityRef target) : groups_(groups), target_(std::move(target)) {}

  // After a Follow of the groups: first what ended, so that names are free, then what began.
  void Retire(SeriesTable& table);
  void Declare(const DescOf& desc_of, const AttributesOf& attributes_of, SeriesTable& table);
  // After each Update of the page that read something.
  void Write(bool complete, FrameWriter& out);
  // Adds what is not passed on.
  void Count(SeriesLosses& losses) const;

 private:
  struct Live {
    Series series;
    const MetricDesc* desc = nullptr;
    uint32_t version = 0;
    bool wanted = false, written = false;
    SeriesLoss loss = SeriesLoss::kLimit;  // of a wanted one without a series
  };

  void DeclareOne(size_t group, const AttributesOf& attributes_of, SeriesTable& table);

  SeriesGroups& groups_;
  const EntityRef target_;
  std::vector<Live> live_;  // beside the groups
};

// Why the last Declare was refused: what `table` counted since it had refused so many.
SeriesLoss WhyRefused(const SeriesTable& table, uint64_t limit, uint64_t duplicate) noexcept;

}  // namespace gpulens

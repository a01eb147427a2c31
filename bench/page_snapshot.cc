#include "bench/page_snapshot.h"

#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "wire/exposition/exposition_page.h"

namespace gpulens {
namespace {

Kind KindOf(ExpositionType type) {
  switch (type) {
    case ExpositionType::kCounter: return Kind::kCounter;
    case ExpositionType::kGauge: return Kind::kGauge;
    case ExpositionType::kHistogram: return Kind::kHistogram;
    case ExpositionType::kSummary: return Kind::kSummary;
    default: return Kind::kUnknown;
  }
}

// Which slot of the page feeds each cell, in the order in which series were declared.
struct Feed {
  uint32_t cell, slot;
};

Status Declare(SeriesTable& table, const ScrapedPage& page, std::vector<Feed>& feeds) {
  std::vector<uint32_t> ids;
  std::vector<PageLabel> labels;
  std::vector<PageCell> cells;
  page.Series(ids);
  for (uint32_t id : ids) {
    const ExpositionFamily& family = page.families()[page.family_of(id)];
    MetricDesc row;
    row.name = family.name;
    row.help = family.help;
    row.kind = KindOf(family.type);
    row.naming = Naming::kVerbatim;
    page.Labels(id, labels);
    page.Cells(id, cells);
    std::vector<AttributeSet::Attribute> attributes;
    for (const PageLabel& label : labels) attributes.push_back({label.name, label.value});
    SeriesTable::Form form;
    form.start_unix_ns = 1;
    if (row.kind == Kind::kHistogram || row.kind == Kind::kSummary) {
      auto shape = MakeRef<Shape>();
      for (const PageCell& cell : cells) {
        if (cell.role == SampleRole::kBucket || cell.role == SampleRole::kQuantile)
          shape->bounds.push_back(cell.bound);
      }
      form.shape = shape;
    }
    Series series = table.Declare(*table.Own(row), {}, AttributeSet(attributes), form);
    if (!series) return {Code::kDataLoss, "the page has a series that cannot be declared"};
    const SeriesInfo& info = table.InfoAt(series.slot);
    uint32_t bound = 0;
    for (const PageCell& cell : cells) {
      uint32_t at = 0;
      if (cell.role == SampleRole::kSum) at = info.shape->sum_cell();
      else if (cell.role == SampleRole::kCount) at = info.shape->count_cell();
      else at = bound++;
      feeds.push_back({info.first_cell + at, cell.slot});
    }
  }
  return Ok();
}

}  // namespace

Status PageSnapshots::Load(std::string_view page, std::string_view next) {
  ExpositionLimits limits;
  limits.samples = 1'000'000;
  ScrapedPage scraped(limits);
  std::vector<Feed> feeds;
  for (std::string_view text : {page, next}) {
    RETURN_IF_ERROR(scraped.Update(text, ExpositionFormat::kText004));
    if (scraped.report().bad_lines != 0) return {Code::kDataLoss, "the page has lines that make no sense"};
    size_t turn = feeds.empty() ? 0 : 1;
    if (turn == 0) RETURN_IF_ERROR(Declare(table_, scraped, feeds));
    else if (!scraped.appeared().empty() || !scraped.vanished().empty())
      return {Code::kDataLoss, "the two pages differ in more than numbers"};
    auto frame = MakeRef<Frame>();
    frame->layout = table_.Freeze();
    frame->read_at = RealClock().Now();
    frame->cells.resize(frame->layout->cells());
    frame->quality.assign(frame->layout->slots(), Quality::kOk);
    for (const Feed& feed : feeds) frame->cells[feed.cell].d = scraped.values()[feed.slot];
    frames_[turn] = frame;
  }
  samples_ = static_cast<uint32_t>(feeds.size());
  return Ok();
}

Ref<const Snapshot> PageSnapshots::GrownAt(uint64_t tick) const {
  auto frame = MakeRef<Frame>();
  const Frame& turn = *frames_[tick & 1];
  frame->source = turn.source;
  frame->layout = turn.layout;
  frame->read_at = RealClock().Now();
  frame->cells = turn.cells;
  frame->quality = turn.quality;
  for (uint32_t slot = 0; slot < frame->layout->slots(); ++slot) {
    const SeriesInfo& info = (*frame->layout)[slot];
    if (!info.desc || !IsMonotonic(info.desc->kind)) continue;
    for (uint32_t cell = info.first_cell; cell < info.first_cell + info.cells(); ++cell) {
      double first = frames_[0]->cells[cell].d, more = frames_[1]->cells[cell].d - first;
      frame->cells[cell].d = first + static_cast<double>(tick) * more;
    }
  }
  return Show(frame, tick);
}

Ref<const Snapshot> PageSnapshots::At(uint64_t tick) const { return Show(frames_[tick & 1], tick); }

Ref<const Snapshot> PageSnapshots::Show(Ref<const Frame> frame, uint64_t tick) {
  auto snapshot = MakeRef<Snapshot>();
  snapshot->closed_at = RealClock().Now();
  snapshot->tick = tick;
  SnapshotEntry& entry = snapshot->frames.emplace_back();
  entry.frame = std::move(frame);
  entry.source = entry.frame->source;
  return snapshot;
}

}  // namespace gpulens

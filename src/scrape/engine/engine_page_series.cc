#include "scrape/engine/engine_page_series.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "scrape/page_cells.h"

namespace gpulens::engine_page {

EnginePageSeries::EnginePageSeries(const ParsedPage& page, Options options)
    : page_(page),
      options_(std::move(options)),
      families_(options_.engine),
      labels_(page, std::move(options_.rules)) {
  drops_.folds = labels_.active();
}

void EnginePageSeries::SetModel(std::string_view model) {
  if (options_.model == model) return;
  options_.model = model;
  followed_ = false;
}

Status EnginePageSeries::Write(bool complete, FrameWriter& out) {
  if (!followed_ || page_.generation() != generation_) Follow(out.table());
  if (!families_.main()) return {Code::kDataLoss, "is not the page of a known LLM engine"};
  const bool restarted = ProcessRestarted();
  SampleTimes times(page_, out);
  for (Live& live : live_) {
    // Half a histogram, or half a sum, would be wrong.
    if (!complete && !Seen(live)) continue;
    times.Next({slots_.data() + live.first, size_t{live.members} * live.cells});
    if (live.reading == SeriesReading::kShaped) WriteShaped(live, out);
    else if (live.reading == SeriesReading::kOne) out.Set(live.series, 1);
    else out.Set(live.series, Number(live, 0) * live.scale);
    RestartCreated(live, restarted, out.table());
  }
  return Ok();
}

// With several processes on a page it is unknown to which one a counter belongs.
void EnginePageSeries::FindProcessStart() {
  constexpr std::string_view kName = "process_start_time_seconds";
  std::vector<uint32_t> ids;
  std::vector<PageCell> cells;
  process_start_.reset();
  page_.Series(ids);
  for (uint32_t id : ids) {
    if (page_.families()[page_.family_of(id)].name != kName) continue;
    page_.Cells(id, cells);
    if (process_start_ || cells.size() != 1) return process_start_.reset();
    process_start_ = cells.front().slot;
  }
}

bool EnginePageSeries::ProcessRestarted() noexcept {
  // Clients derive the start from the boot time, which moves a little with the clock.
  constexpr double kSlack = 2;
  if (!process_start_ || !page_.seen(*process_start_)) return false;
  const double before = process_started_s_, now = page_.values()[*process_start_];
  if (UnixNsOf(now) == 0) return false;
  process_started_s_ = now;
  return before != 0 && now > before + kSlack;
}

// Called after the number was set, so that a restart detected by a fall gets its time, too.
void EnginePageSeries::RestartCreated(const Live& live, bool process_restarted, SeriesTable& table) const {
  const bool counts = table.InfoAt(live.series.slot).desc->kind == Kind::kCounter || live.counts;
  if (!counts) return;
  if (live.created == 0) {
    if (process_restarted) table.Restart(live.series.slot, UnixNsOf(process_started_s_), true);
    return;
  }
  double oldest = std::numeric_limits<double>::infinity(), youngest = 0;
  for (uint32_t i = 0; i < live.created; ++i) {
    const uint32_t slot = created_[live.first_created + i];
    const double created = page_.values()[slot];
    if (!page_.seen(slot) || UnixNsOf(created) == 0) return;
    oldest = std::min(oldest, created);
    youngest = std::max(youngest, created);
  }
  // The sum restarts only when all members did.
  if (live.held->created_s != 0 && oldest > live.held->created_s)
    table.Restart(live.series.slot, UnixNsOf(oldest), true);
  live.held->created_s = youngest;
}

bool EnginePageSeries::Seen(const Live& live) const noexcept {
  auto first = slots_.begin() + live.first;
  return std::all_of(first, first + live.members * live.cells,
                     [this](uint32_t slot) { return page_.seen(slot); });
}

// Combines one cell of the members, in the page's unit.
double EnginePageSeries::Number(const Live& live, uint32_t cell) const noexcept {
  const std::span<const double> values = page_.values();
  const uint32_t* slots = slots_.data() + live.first;
  double number = values[slots[cell]];
  if (live.reading == SeriesReading::kConstant) {
    uint32_t newest = 0;
    for (uint32_t i = 1; i < live.members; ++i) {
      if (values[slots[i]] > values[slots[newest]]) newest = i;
    }
    return constants_[live.first + newest];
  }
  for (uint32_t i = 1; i < live.members; ++i) {
    double other = values[slots[i * live.cells + cell]];
    if (live.combine == Combine::kSum || live.combine == Combine::kMean) number += other;
    else number = std::max(number, other);
  }
  if (live.combine == Combine::kMean && live.members > 1) number /= live.members;
  return number;
}

void EnginePageSeries::WriteShaped(Live& live, FrameWriter& out) {
  std::span<Cell> cells = out.Cells(live.series);
  if (cells.size() != live.cells) return;
  const uint32_t count = live.cells - 1, sum = live.has_sum && live.counts ? count - 1 : count;
  const double before = cells.back().d;
  for (uint32_t i = 0; i < live.cells; ++i) {
    // Only the sum has the metric's unit.
    cells[i].d = live.has_sum && i == sum ? Number(live, i) * live.scale : Number(live, i);
  }
  const bool known = out.table().InfoAt(live.series.slot).start_known;
  const bool restarts = live.counts && (live.written ? cells.back().d < before : !known);
  live.written = true;
  if (restarts) out.table().Restart(live.series.slot, out.read_at().unix_ns);
}

EnginePageSeries::Live EnginePageSeries::MakeLive(const SeriesPlan& plan) {
  Live live{.series = {},
            .first_created = static_cast<uint32_t>(created_.size()),
            .created = static_cast<uint32_t>(plan.created.size()),
            .first = static_cast<uint32_t>(slots_.size()),
            .members = plan.members(),
            .cells = plan.shape ? plan.shape->cells() : 1,
            .reading = plan.reading,
            .combine = plan.combine,
            .has_sum = plan.shape && plan.shape->has_sum,
            .counts = plan.shape && plan.shape->has_count,
            .scale = plan.scale};
  slots_.insert(slots_.end(), plan.slots.begin(), plan.slots.end());
  constants_.resize(slots_.size());
  created_.insert(created_.end(), plan.created.begin(), plan.created.end());
  std::copy(plan.constants.begin(), plan.constants.end(), constants_.begin() + live.first);
  return live;
}

void EnginePageSeries::Follow(SeriesTable& table) {
  followed_ = true;
  generation_ = page_.generation();
  families_.Update(page_);
  labels_.Follow();
  FindProcessStart();
  std::vector<SeriesPlan> plans = PlanSeries(
      page_, families_, {options_.target, options_.model, &options_.attributes, &labels_, options_.pid});
  drops_.folded = 0;
  drops_.dropped = {};
  ++round_;
  for (const SeriesPlan& plan : plans) {
    auto at = held_.find(plan.identity);
    if (at == held_.end()) continue;
    if (SameShape(at->second.shape, plan.shape)) at->second.used = round_;
  }
  std::erase_if(held_, [&](const auto& held) {
    if (held.second.used != round_) table.Retire(held.second.series);
    return held.second.used != round_;
  });
  std::map<uint32_t, bool> written;
  for (const Live& live : live_) written[live.series.slot] = live.written;
  live_.clear();
  slots_.clear();
  constants_.clear();
  created_.clear();
  for (const SeriesPlan& plan : plans) {
    auto at = held_.find(plan.identity);
    bool fresh = at == held_.end();
    // Above the limit of series: declared again when the page changes.
    Series series = fresh ? Declare(plan, table) : at->second.series;
    drops_[SeriesDrop::kLimit] += !series;
    if (!series) continue;
    drops_.folded += plan.members() - 1;
    if (fresh) at = held_.insert_or_assign(plan.identity, Held{series, plan.shape, round_}).first;
    Live live = MakeLive(plan);
    live.series = series;
    live.held = &at->second;
    live.written = !fresh && written[series.slot];
    live_.push_back(live);
  }
}

Series EnginePageSeries::Declare(const SeriesPlan& plan, SeriesTable& table) {
  return table.Declare(*plan.metric, plan.entity, plan.extra,
                       {.shape = plan.shape, .start_unix_ns = plan.start_unix_ns});
}

}  // namespace gpulens::engine_page

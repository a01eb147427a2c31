#include "scrape/gpu/gpu_page_series.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "base/parse.h"
#include "catalog/gpu.h"
#include "quality/raw_rule.h"
#include "scrape/page_cells.h"
#include "scrape/sample_times.h"

namespace gpulens::gpu_page {
namespace {

constexpr std::string_view kSource = "gpu.interconnect.source";
constexpr std::string_view kTotal = "_total";

void AppendAttribute(std::string& out, char before, std::string_view key, const AttributeSet::Value& value) {
  out += before;
  out.append(key) += '=';
  AppendValue(out, value);
}

// One reading is told by its metric, entity and attributes, wherever it was counted.
void AppendIdentity(std::string& out, const MetricDesc& metric, const Entity* entity) {
  out = metric.name;
  for (; entity; entity = entity->parent.get()) {
    for (auto [key, value] : entity->attributes) AppendAttribute(out, '\x1f', key, value);
  }
}

void AppendExtra(std::string& out, const AttributeSet& extra, bool with_source) {
  for (auto [key, value] : extra) {
    if (key != kSource || with_source) AppendAttribute(out, '\x1e', key, value);
  }
}

// The generation of a link of so many GT/s a lane; 0 for no such speed.
double GenerationOf(double speed) noexcept {
  constexpr double kSpeeds[] = {2.5, 5, 8, 16, 32, 64, 128};
  for (size_t i = 0; i < std::size(kSpeeds); ++i) {
    if (speed == kSpeeds[i]) return static_cast<double>(i + 1);
  }
  return 0;
}

std::vector<Match> MatchesOf(const Exporter& exporter, const ExpositionFamily& family) {
  std::string name = family.name;
  if (!exporter.optional_prefix.empty() && name.starts_with(exporter.optional_prefix)) {
    name.erase(0, exporter.optional_prefix.size());
  }
  std::vector<Match> matches;
  auto look = [&] {
    uint32_t order = 0;
    for (std::span<const PageRow> rows : exporter.rows) {
      for (const PageRow& row : rows) {
        std::string_view number;
        if (Matches(row.family, name, &number) || Matches(row.renamed, name, &number)) {
          matches.push_back({&row, order, std::string(number)});
        }
        ++order;
      }
    }
  };
  look();
  // OpenMetrics names the family of a counter without the ending of its samples.
  if (matches.empty() && family.type == ExpositionType::kCounter) {
    name += kTotal;
    look();
  }
  return matches;
}

}  // namespace

bool IsBlank(double raw) noexcept {
  constexpr double kInt64Blank = 9223372036854775792.0, kDoubleBlank = 140737488355328.0;
  constexpr double kInt32Blank = 2147483632.0, kKinds = 3, kAllBits = 4294967295.0;
  return raw >= kInt64Blank || (raw >= kInt32Blank && raw <= kInt32Blank + kKinds) ||
         (raw >= kDoubleBlank && raw <= kDoubleBlank + kKinds) || raw == kAllBits;
}

GpuPageSeries::GpuPageSeries(const ScrapedPage& page, const Exporter* exporter,
                             std::vector<std::pair<std::string, std::string>> more)
    : page_(page), exporter_(exporter), entities_(exporter ? exporter->labels : nullptr, std::move(more)) {}

bool GpuPageSeries::Reads(const ExpositionFamily& family) const {
  return exporter_ && !MatchesOf(*exporter_, family).empty();
}

DetectedExporter DetectExporter(const ScrapedPage& page) {
  DetectedExporter best;
  for (const Exporter* exporter : AllExporters()) {
    size_t known = 0;
    for (const ExpositionFamily& family : page.families())
      known += family.alive && !MatchesOf(*exporter, family).empty();
    if (known > best.families) best = {exporter, known};
  }
  return best;
}

Status GpuPageSeries::Write(bool complete, FrameWriter& out) {
  if (!followed_ || page_.generation() != generation_) {
    if (!exporter_ && (exporter_ = DetectExporter(page_).exporter)) entities_.SetLabels(exporter_->labels);
    if (!exporter_) return {Code::kDataLoss, "has no family of a known GPU exporter"};
    Follow(out.table());
    followed_ = true;
    generation_ = page_.generation();
  }
  SampleTimes times(page_, out);
  for (const Live& live : live_) {
    const uint32_t slots[] = {live.slot, live.slot2};
    const std::span<const uint32_t> read(slots, !live.row ? 0u : live.slot2 == kNone ? 1u : 2u);
    times.Next(read);
    if (!live.row) {
      for (Series series : live.held->series) out.Set(series, 1);
      continue;
    }
    if (!complete && !std::ranges::all_of(read, [this](uint32_t slot) { return page_.seen(slot); })) continue;
    double raw = 0;
    for (uint32_t slot : read) raw += page_.values()[slot];
    SetOne(*live.row, raw, *live.held, out);
  }
  if (live_.empty()) return {Code::kDataLoss, "has no reading of a GPU under a known name"};
  return Ok();
}

void GpuPageSeries::SetOne(const PageRow& row, double raw, const Held& held, FrameWriter& out) {
  Series series = held.series.front();
  if (IsBlank(raw) || SaysNothing(*row.metric, raw)) return out.Reject(series, Validation::kSentinel);
  switch (row.take) {
    case Take::kValue:
    case Take::kSum: return out.Set(series, raw * row.times / row.per);
    case Take::kNotZero:
      if (raw != 0) out.Set(series, raw);
      return;
    case Take::kBit:
      if (!(raw >= 0)) return out.Reject(series, Validation::kOutOfRange);
      return out.Set(series, (static_cast<uint64_t>(raw) & row.bit) != 0 ? 1 : 0);
    case Take::kPcieSpeed: return out.Set(series, GenerationOf(raw));
    case Take::kPcieGeneration: return out.Set(series, raw > 7 ? GenerationOf(raw) : raw == 5 ? 0 : raw);
    case Take::kStates: break;
  }
  if (!(raw >= 0) || raw != std::floor(raw) || raw >= static_cast<double>(held.series.size())) {
    return out.Reject(series, Validation::kOutOfRange);
  }
  for (size_t i = 0; i < held.series.size(); ++i)
    out.Set(held.series[i], raw == static_cast<double>(i) ? 1 : 0);
}

void GpuPageSeries::Follow(SeriesTable& table) {
  candidates_.clear();
  Gather();
  DropWholes();
  PickWinners();
  Reconcile(table);
  entities_.Forget();
  std::vector<Candidate>().swap(candidates_);
}

void GpuPageSeries::Gather() {
  const std::span<const ExpositionFamily> families = page_.families();
  std::vector<std::vector<Match>> matches(families.size());
  unknown_ = 0;
  for (size_t i = 0; i < families.size(); ++i) {
    if (!families[i].alive) continue;
    matches[i] = MatchesOf(*exporter_, families[i]);
    unknown_ += matches[i].empty() && !FindIgnored(*exporter_, families[i].name);
  }
  std::vector<uint32_t> ids;
  page_.Series(ids);
  for (uint32_t id : ids) {
    const std::vector<Match>& of_family = matches[page_.family_of(id)];
    if (!of_family.empty()) GatherSeries(id, of_family);
  }
}

void GpuPageSeries::GatherSeries(uint32_t id, const std::vector<Match>& matches) {
  page_.Labels(id, labels_);
  page_.Cells(id, cells_);
  const PageCell* value = FindCell(cells_, SampleRole::kValue);
  if (!value) return;
  Subject subject = entities_.Of(labels_);
  if (!subject.taken) return;
  if (subject.whole) AddFacts(subject);
  for (const Match& match : matches) AddCandidate(match, subject, value->slot);
}

AttributeSet GpuPageSeries::Extra(const Match& match) const {
  const PageRow& row = *match.row;
  std::vector<AttributeSet::Attribute> attributes;
  for (std::string_view rest = row.attributes; !rest.empty();) {
    std::string_view value = TakeUntil(rest, ',');
    std::string_view key = TakeUntil(value, '=');
    attributes.push_back({key, value});
  }
  auto add = [&](std::string_view key, std::string_view text) {
    if (auto number = ParseInt<int64_t>(text)) attributes.push_back({key, *number});
    else attributes.push_back({key, text});
  };
  if (!row.number.empty()) add(row.number, match.number);
  if (!row.label.empty()) add(row.label_key, LabelOf(labels_, row.label));
  return AttributeSet(std::span<const AttributeSet::Attribute>(attributes));
}

void GpuPageSeries::AddCandidate(const Match& match, const Subject& subject, uint32_t slot) {
  const PageRow& row = *match.row;
  if (!row.label.empty() && LabelOf(labels_, row.label).empty()) return;
  if (!row.without.empty() && !LabelOf(labels_, row.without).empty()) return;
  if (!row.has.empty() && LabelOf(labels_, row.has) != row.is) {
    // Vocabularies differ in case between versions of one exporter.
    std::string upper(LabelOf(labels_, row.has));
    std::transform(upper.begin(), upper.end(), upper.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
    if (upper != row.is && "GPU_CLOCK_TYPE_" + upper != row.is) return;
  }
  Candidate candidate;
  candidate.row = &row;
  candidate.metric = row.metric;
  candidate.of_part = subject.part && row.scope == Scope::kPart;
  if (candidate.of_part && row.part_metric) candidate.metric = row.part_metric;
  if (row.scope == Scope::kSwitch) candidate.entity = entities_.SwitchOf(labels_);
  else if (row.scope != Scope::kHost) candidate.entity = candidate.of_part ? subject.part : subject.whole;
  if (!candidate.entity && row.scope != Scope::kHost) return;
  if (row.scope == Scope::kGpu && !subject.first_part) return;
  candidate.extra = Extra(match);
  candidate.gpu = std::string(candidate.metric->name) + '\x1f' + std::string(subject.gpu);
  AppendIdentity(candidate.group, *candidate.metric, candidate.entity.get());
  candidate.name = candidate.group;
  AppendExtra(candidate.group, candidate.extra, false);
  AppendExtra(candidate.name, candidate.extra, true);
  uint64_t clock = ParseInt<uint16_t>(LabelOf(labels_, "clock_index")).value_or(0);
  uint64_t part = subject.part ? 0x8000u | (subject.part_number & 0x7FFFu) : 0;
  candidate.rank = uint64_t{match.order} << 32 | part << 16 | clock;
  candidate.slot = slot;
  candidates_.push_back(std::move(candidate));
}

void GpuPageSeries::AddFacts(const Subject& subject) {
  const AttributeSet::Attribute vendor = {"gpu.vendor", exporter_->vendor};
  const std::span<const AttributeSet::Attribute> first(&vendor, 1);
  const PageLabels& labels = *exporter_->labels;
  AddFact(kGpuInfo, subject.whole, entities_.Pick(labels_, labels.info, first));
  AttributeSet driver = entities_.Pick(labels_, labels.driver, first);
  if (driver.Has("gpu.driver.version")) AddFact(kGpuDriverInfo, {}, std::move(driver));
  std::string_view profile = LabelOf(labels_, labels.profile);
  if (subject.part && !labels.profile.empty() && !profile.empty()) {
    AddFact(kGpuMigInfo, subject.part, AttributeSet({{"gpu.mig.profile", profile}}));
  }
}

// Facts repeat on every line. Where lines contradict each other, the one with the most attributes is used,
// and of several the one whose text sorts first. Not the first on the page: the order also depends on earlier
// pages.
void GpuPageSeries::AddFact(const MetricDesc& metric, EntityRef entity, AttributeSet extra) {
  Candidate candidate;
  candidate.metric = &metric;
  candidate.entity = std::move(entity);
  candidate.extra = std::move(extra);
  AppendIdentity(candidate.group, metric, candidate.entity.get());
  candidate.name = candidate.group;
  AppendExtra(candidate.name, candidate.extra, true);
  candidate.rank = ~uint64_t{candidate.extra.size()};
  candidates_.push_back(std::move(candidate));
}

// A share of a split GPU stands on its instances or on the whole, not on both: else it counts twice.
void GpuPageSeries::DropWholes() {
  std::set<std::string_view> split;
  for (const Candidate& candidate : candidates_) {
    if (candidate.of_part && !candidate.row->part_metric) split.insert(candidate.gpu);
  }
  if (split.empty()) return;
  std::vector<Candidate> kept;
  for (Candidate& candidate : candidates_) {
    bool whole = candidate.row && candidate.row->scope == Scope::kPart && !candidate.of_part;
    if (!whole || !split.contains(candidate.gpu)) kept.push_back(candidate);
  }
  candidates_ = std::move(kept);
}

void GpuPageSeries::PickWinners() {
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.group, a.rank, a.name, a.slot) < std::tie(b.group, b.rank, b.name, b.slot);
  });
  std::vector<Candidate> winners;
  // Half a sum would be a lie.
  auto drop_half = [&winners] {
    if (winners.empty() || !winners.back().row || winners.back().row->take != Take::kSum) return;
    if (winners.back().slot2 == kNone) winners.pop_back();
  };
  for (Candidate& candidate : candidates_) {
    if (winners.empty() || winners.back().group != candidate.group) {
      drop_half();
      winners.push_back(std::move(candidate));
    } else if (Candidate& winner = winners.back(); candidate.row && candidate.row->take == Take::kSum) {
      if (winner.row != candidate.row && winner.slot2 == kNone) winner.slot2 = candidate.slot;
    }
  }
  drop_half();
  candidates_ = std::move(winners);
}

void GpuPageSeries::Reconcile(SeriesTable& table) {
  ++round_;
  for (const Candidate& candidate : candidates_) {
    auto at = held_.find(candidate.name);
    if (at != held_.end()) at->second.used = round_;
  }
  for (auto at = held_.begin(); at != held_.end();) {
    if (at->second.used == round_) {
      ++at;
      continue;
    }
    for (Series series : at->second.series) table.Retire(series);
    at = held_.erase(at);
  }
  live_.clear();
  for (const Candidate& candidate : candidates_) {
    Held& held = held_[candidate.name];
    held.used = round_;
    if (held.series.empty()) {
      bool states = candidate.row && candidate.row->take == Take::kStates;
      std::string_view rest = states ? candidate.row->states : std::string_view{};
      do {
        AttributeSet extra = candidate.extra;
        if (states) extra = AttributeSet({{candidate.metric->name, TakeUntil(rest, ',')}}).OverlaidOn(extra);
        held.series.push_back(table.Declare(*candidate.metric, candidate.entity, extra));
      } while (!rest.empty());
    }
    // Above the limit of series: asked for again when the page changes.
    if (!held.series.front()) {
      held_.erase(candidate.name);
      continue;
    }
    live_.push_back({candidate.row, candidate.slot, candidate.slot2, &held});
  }
  live_.shrink_to_fit();
}

}  // namespace gpulens::gpu_page

#include "scrape/engine/engine_plan.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "base/parse.h"
#include "scrape/page_cells.h"

namespace gpulens::engine_page {
namespace {

// A histogram with more bounds than this is thinned: TGI keeps 1,024 of the batch size.
constexpr size_t kMostBounds = 64;
constexpr double kThinning = 1.1;

// What a series of the page feeds: all of a series, or one part of a histogram without buckets.
enum class Part : uint8_t { kWhole, kSum, kCount };

struct Candidate {
  SeriesPlan plan;
  Part part = Part::kWhole;
  uint32_t order = 0;  // of its row: the first one wins
};

class Gatherer {
 public:
  Gatherer(const ParsedPage& page, const PageFamilies& families, const PlanOptions& options)
      : page_(page), families_(families), options_(options) {}

  std::vector<Candidate> Gather();

 private:
  void GatherFamily(uint32_t family, const std::vector<uint32_t>& ids);
  void GatherSeries(uint32_t id, const EngineRow& row, const LabelPlan& labels);
  bool Feed(const EngineRow& row, Candidate& candidate);
  bool FeedShape(const EngineRow& row, Candidate& candidate);
  bool FeedPart(const EngineRow& row, Candidate& candidate);
  bool FeedCell(SampleRole role, Candidate& candidate);
  void FindCreated();
  void SetCreated(uint32_t family, Candidate& candidate) const;
  void Identify(const EngineRow& row, Candidate& candidate);
  EntityRef EntityOf(const Engine* engine);

  const ParsedPage& page_;
  const PageFamilies& families_;
  const PlanOptions options_;
  const Engine* engine_ = nullptr;                // of the family being gathered
  KnownFamily::Part part_ = KnownFamily::kWhole;  // likewise
  uint32_t order_ = 0;
  std::map<std::string_view, EntityRef> entities_;
  std::unordered_map<std::string, uint32_t> created_;  // by family and labels: a slot
  std::vector<PageLabel> labels_, governed_;
  std::vector<PageCell> cells_;
  LabelPlan::Attributes attributes_;
  std::vector<Candidate> candidates_;
};

constexpr std::string_view kCreated = "_created";

std::string CreatedKey(std::string_view family, const std::vector<PageLabel>& labels) {
  std::vector<std::string> pairs;
  for (const PageLabel& label : labels) pairs.push_back(label.name + '\x1f' + label.value);
  std::ranges::sort(pairs);
  std::string key(family);
  for (const std::string& pair : pairs) key += '\x1e' + pair;
  return key;
}

// In the text format 0.0.4, `_created` samples are gauges of their own.
void Gatherer::FindCreated() {
  std::vector<uint32_t> ids;
  page_.Series(ids);
  for (uint32_t id : ids) {
    const ExpositionFamily& family = page_.families()[page_.family_of(id)];
    const bool number = family.type == ExpositionType::kGauge || family.type == ExpositionType::kUnknown;
    if (!number || !family.name.ends_with(kCreated)) continue;
    page_.Labels(id, labels_);
    page_.Cells(id, cells_);
    const PageCell* cell = FindCell(cells_, SampleRole::kValue);
    std::string_view base = std::string_view(family.name).substr(0, family.name.size() - kCreated.size());
    if (cell) created_.emplace(CreatedKey(base, labels_), cell->slot);
  }
}

// Sets the creation time from labels_ and cells_.
void Gatherer::SetCreated(uint32_t family, Candidate& candidate) const {
  SeriesPlan& plan = candidate.plan;
  if (plan.metric->kind != Kind::kCounter && plan.reading != SeriesReading::kShaped) return;
  if (const PageCell* cell = FindCell(cells_, SampleRole::kCreated)) {
    plan.created.push_back(cell->slot);
  } else if (!created_.empty()) {
    auto at = created_.find(CreatedKey(WithoutTotal(page_.families()[family].name), labels_));
    if (at != created_.end()) plan.created.push_back(at->second);
  }
  if (!plan.created.empty()) plan.start_unix_ns = UnixNsOf(page_.values()[plan.created.front()]);
}

std::vector<Candidate> Gatherer::Gather() {
  std::vector<uint32_t> ids;
  page_.Series(ids);
  std::vector<std::vector<uint32_t>> by_family(families_.families().size());
  for (uint32_t id : ids) by_family[page_.family_of(id)].push_back(id);
  FindCreated();
  for (uint32_t family = 0; family < by_family.size(); ++family) {
    if (families_.families()[family].kind == KnownFamily::kMapped) GatherFamily(family, by_family[family]);
  }
  return std::move(candidates_);
}

void Gatherer::GatherFamily(uint32_t family, const std::vector<uint32_t>& ids) {
  const KnownFamily& known = families_.families()[family];
  engine_ = known.engine;
  part_ = known.part;
  for (const EngineRow& row : known.rows) {
    if (!row.metric) continue;
    // The row's position in its table: families of a page come in any order.
    order_ = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(&row) / sizeof(EngineRow));
    LabelPlan labels(row.labels);
    if (!labels.choices().empty()) {
      for (uint32_t id : ids) {
        page_.Labels(id, labels_);
        labels.Observe(labels_);
      }
    }
    for (uint32_t id : ids) GatherSeries(id, row, labels);
  }
}

void Gatherer::GatherSeries(uint32_t id, const EngineRow& row, const LabelPlan& labels) {
  page_.Labels(id, labels_);
  if (!labels.Takes(labels_)) return;
  page_.Cells(id, cells_);
  // Conditions of the row are checked on the page's labels; the rules of the target then apply to its
  // attributes.
  const std::vector<PageLabel>* left = &labels_;
  if (options_.labels->active() && options_.labels->Labels(id, governed_)) left = &governed_;
  bool of_label = row.use == RowUse::kLabelNumber || row.use == RowUse::kLabelNames;
  labels.Apply(*left, !of_label, attributes_);
  Candidate candidate;
  candidate.order = order_;
  candidate.plan.metric = row.metric;
  candidate.plan.combine = EngineMetricOf(*row.metric)->combine;
  candidate.plan.scale = row.scale;
  if (!Feed(row, candidate)) return;
  SetCreated(page_.family_of(id), candidate);
  Identify(row, candidate);
  candidates_.push_back(std::move(candidate));
}

bool Gatherer::FeedCell(SampleRole role, Candidate& candidate) {
  const PageCell* cell = FindCell(cells_, role);
  if (!cell) return false;
  candidate.plan.slots.push_back(cell->slot);
  return true;
}

// Feeds from a sum or a count that is a family of its own.
bool Gatherer::FeedPart(const EngineRow& row, Candidate& candidate) {
  if (part_ == KnownFamily::kBuckets) return false;
  const bool sum = part_ == KnownFamily::kSum;
  if (row.use == RowUse::kSame && row.metric->kind == Kind::kHistogram) {
    candidate.part = sum ? Part::kSum : Part::kCount;
  } else if (row.use == RowUse::kCellCountRole && !sum) {
    candidate.part = Part::kCount;
  } else if (row.use != (sum ? RowUse::kOwnSum : RowUse::kOwnCount)) {
    return false;
  }
  return FeedCell(SampleRole::kValue, candidate);
}

// Returns false when this series of the page has nothing for the row.
bool Gatherer::Feed(const EngineRow& row, Candidate& candidate) {
  if (part_ != KnownFamily::kWhole) return FeedPart(row, candidate);
  SeriesPlan& plan = candidate.plan;
  const bool shaped = FindCell(cells_, SampleRole::kCount) || FindCell(cells_, SampleRole::kBucket);
  const Kind kind = row.metric->kind;
  switch (row.use) {
    case RowUse::kPass:
    case RowUse::kIgnore: return false;
    case RowUse::kSumOfRole: candidate.part = Part::kSum; return FeedCell(SampleRole::kValue, candidate);
    case RowUse::kCountOfRole: candidate.part = Part::kCount; return FeedCell(SampleRole::kValue, candidate);
    case RowUse::kCellCountRole:
      candidate.part = Part::kCount;
      return FeedCell(SampleRole::kCount, candidate);
    case RowUse::kOwnSum: return FeedCell(SampleRole::kSum, candidate);
    case RowUse::kOwnCount: return FeedCell(SampleRole::kCount, candidate);
    case RowUse::kLabelNumber:
    case RowUse::kLabelNames: {
      std::string_view text = LabelOf(labels_, row.label);
      plan.reading = SeriesReading::kConstant;
      if (row.use == RowUse::kLabelNames) {
        text = Trim(text);
        plan.constants.push_back(text.empty() ? 0 : 1 + static_cast<double>(std::ranges::count(text, ',')));
      } else if (auto number = ParseDouble(text)) {
        plan.constants.push_back(*number);
      } else {
        return false;
      }
      return FeedCell(SampleRole::kValue, candidate) || FeedCell(SampleRole::kInfo, candidate);
    }
    case RowUse::kSame: break;
  }
  if (kind == Kind::kHistogram) return shaped && FeedShape(row, candidate);
  if (kind == Kind::kInfo) plan.reading = SeriesReading::kOne;
  // A gauge that a version exports as a histogram has no number of its own.
  return !shaped && (FeedCell(SampleRole::kValue, candidate) || FeedCell(SampleRole::kInfo, candidate) ||
                     FeedCell(SampleRole::kState, candidate));
}

bool Gatherer::FeedShape(const EngineRow& row, Candidate& candidate) {
  const PageCell* sum = FindCell(cells_, SampleRole::kSum);
  const PageCell* count = FindCell(cells_, SampleRole::kCount);
  auto shape = MakeRef<Shape>();
  shape->has_sum = sum != nullptr;
  shape->has_count = count != nullptr;
  const auto bounds =
      std::ranges::count_if(cells_, [](const PageCell& cell) { return cell.role == SampleRole::kBucket; });
  double last = 0;
  std::vector<uint32_t>& slots = candidate.plan.slots;
  for (const PageCell& cell : cells_) {
    if (cell.role != SampleRole::kBucket) continue;
    double bound = cell.bound * row.scale;
    // Counts are cumulative: leaving a bound out joins two buckets.
    if (static_cast<size_t>(bounds) > kMostBounds && last > 0 && bound < last * kThinning) continue;
    shape->bounds.push_back(bound);
    slots.push_back(cell.slot);
    last = bound;
  }
  if (sum) slots.push_back(sum->slot);
  if (count) slots.push_back(count->slot);
  candidate.plan.reading = SeriesReading::kShaped;
  candidate.plan.shape = shape;
  return !slots.empty();
}

EntityRef Gatherer::EntityOf(const Engine* engine) {
  std::string_view name = families_.NameFor(engine);
  EntityRef& entity = entities_[name];
  if (entity) return entity;
  const Engine* named = FindEngine(name);
  std::vector<AttributeSet::Attribute> attributes;
  for (const auto& [key, value] : *options_.attributes) attributes.push_back({key, std::string_view(value)});
  attributes.push_back({"target", options_.target});
  attributes.push_back({"inference.engine", name});
  if (named) attributes.push_back({"inference.layer", named->layer});
  if (!options_.model.empty()) attributes.push_back({"model.name", options_.model});
  AttributeSet facts;
  if (options_.pid > 0) facts = AttributeSet({{"process.pid", options_.pid}});
  return entity = MakeRef<Entity>("engine", AttributeSet(attributes), EntityRef{}, facts);
}

// Sets entity, attributes and identity.
void Gatherer::Identify(const EngineRow& row, Candidate& candidate) {
  SeriesPlan& plan = candidate.plan;
  plan.entity = EntityOf(engine_);
  std::vector<AttributeSet::Attribute> attributes;
  for (auto& [key, value] : attributes_) {
    // Attributes of the target itself win.
    if (key != "model.name" && plan.entity->attributes.Has(key)) key.insert(0, "exported_");
    attributes.push_back({key, std::string_view(value)});
  }
  plan.extra = AttributeSet(attributes);
  plan.identity = std::string(row.metric->name) + '\x1f' + std::string(families_.NameFor(engine_));
  for (auto [key, value] : plan.extra) {
    plan.identity.append(1, '\x1f').append(key).append(1, '=');
    AppendValue(plan.identity, value);
  }
  if (!plan.extra.Has("model.name")) plan.identity.append(1, '\x1e').append(options_.model);
}

void Join(SeriesPlan& into, const SeriesPlan& other) {
  into.slots.insert(into.slots.end(), other.slots.begin(), other.slots.end());
  into.constants.insert(into.constants.end(), other.constants.begin(), other.constants.end());
  if (other.created.empty()) into.created.clear();
  if (!into.created.empty())
    into.created.insert(into.created.end(), other.created.begin(), other.created.end());
  into.start_unix_ns = 0;
}

// Candidates of one identity, sorted by part and row: those of the first row, joined.
SeriesPlan JoinFirst(std::span<Candidate> group) {
  SeriesPlan plan = std::move(group.front().plan);
  for (Candidate& other : group.subspan(1)) {
    if (other.order == group.front().order && SameShape(plan.shape, other.plan.shape)) Join(plan, other.plan);
  }
  return plan;
}

// Makes a histogram without buckets of sums and counts, each of one or several series. Needs both.
bool JoinParts(std::span<Candidate> sums, std::span<Candidate> counts, SeriesPlan& out) {
  if (sums.empty() || counts.empty()) return false;
  SeriesPlan sum = JoinFirst(sums), count = JoinFirst(counts);
  if (sum.slots.size() != count.slots.size()) return false;
  out = sum;
  out.shape = MakeRef<Shape>();
  out.reading = SeriesReading::kShaped;
  out.slots.clear();
  for (size_t i = 0; i < sum.slots.size(); ++i) {
    out.slots.push_back(sum.slots[i]);
    out.slots.push_back(count.slots[i]);
  }
  return true;
}

}  // namespace

bool SameShape(const Ref<const Shape>& a, const Ref<const Shape>& b) noexcept {
  if (!a || !b) return !a && !b;
  return a->bounds == b->bounds && a->has_sum == b->has_sum && a->has_count == b->has_count;
}

std::vector<SeriesPlan> PlanSeries(const ParsedPage& page, const PageFamilies& families,
                                   const PlanOptions& options) {
  std::vector<Candidate> candidates = Gatherer(page, families, options).Gather();
  // Slots are unique, except of families that feed two parts of one series.
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    return std::tie(a.plan.identity, a.part, a.order, a.plan.slots) <
           std::tie(b.plan.identity, b.part, b.order, b.plan.slots);
  });
  std::vector<SeriesPlan> plans;
  for (auto first = candidates.begin(); first != candidates.end();) {
    auto part_end = [&](auto from, Part part) {
      return std::find_if(from, candidates.end(), [&](const Candidate& other) {
        return other.part != part || other.plan.identity != first->plan.identity;
      });
    };
    auto wholes = part_end(first, Part::kWhole), sums = part_end(wholes, Part::kSum),
         counts = part_end(sums, Part::kCount);
    SeriesPlan plan;
    bool any = true;
    if (wholes != first) plan = JoinFirst({first, wholes});
    else any = JoinParts({wholes, sums}, {sums, counts}, plan);
    first = counts;
    if (any) plans.push_back(std::move(plan));
  }
  return plans;
}

std::string_view LabelOf(const std::vector<PageLabel>& labels, std::string_view name) noexcept {
  for (const PageLabel& label : labels) {
    if (label.name == name) return label.value;
  }
  return {};
}

LabelPlan::LabelPlan(std::string_view labels) {
  while (!labels.empty()) {
    std::string_view text = TakeUntil(labels, ',');
    if (text.starts_with('+')) {
      std::string_view key = TakeUntil(text, '=');
      ops_.push_back({Op::kAdd, key.substr(1), text});
    } else if (text.ends_with('!')) {
      ops_.push_back({Op::kDrop, text.substr(0, text.size() - 1), {}});
    } else if (size_t at = text.find('>'); at != std::string_view::npos) {
      std::string_view attribute = text.substr(at + 1), map;
      if (size_t open = attribute.find('('); open != std::string_view::npos) {
        map = attribute.substr(open + 1, attribute.size() - open - 2);
        attribute = attribute.substr(0, open);
      }
      ops_.push_back({Op::kBecomes, text.substr(0, at), attribute, map});
    } else if (size_t sign = text.find_first_of("=?~"); sign != std::string_view::npos) {
      std::string_view name = text.substr(0, sign), value = text.substr(sign + 1);
      if (text[sign] == '=') ops_.push_back({Op::kOnly, name, value});
      else choices_.push_back({name, value, text[sign] == '?'});
    }
  }
}

void LabelPlan::Observe(const std::vector<PageLabel>& labels) noexcept {
  for (Choice& choice : choices_) {
    std::string_view value = LabelOf(labels, choice.label);
    choice.active |= choice.preferred ? value == choice.value : !value.empty() && value != choice.value;
  }
}

bool LabelPlan::Takes(const std::vector<PageLabel>& labels) const noexcept {
  for (const Choice& choice : choices_) {
    if (!choice.active) continue;
    if ((LabelOf(labels, choice.label) == choice.value) != choice.preferred) return false;
  }
  return std::ranges::all_of(
      ops_, [&](const Op& op) { return op.kind != Op::kOnly || LabelOf(labels, op.name) == op.text; });
}

std::string_view LabelPlan::Mapped(std::string_view map, std::string_view value) noexcept {
  while (!map.empty()) {
    std::string_view to = TakeUntil(map, ' ');
    std::string_view from = TakeUntil(to, ':');
    bool same = from.ends_with('*') ? value.starts_with(from.substr(0, from.size() - 1)) : value == from;
    if (same) return to;
  }
  return value;
}

void LabelPlan::Apply(const std::vector<PageLabel>& labels, bool all, Attributes& out) const {
  out.clear();
  for (const PageLabel& label : labels) {
    if (label.value.empty()) continue;
    auto op =
        std::ranges::find_if(ops_, [&](const Op& o) { return o.kind != Op::kAdd && o.name == label.name; });
    if (op == ops_.end()) {
      if (all) out.emplace_back(label.name, label.value);
    } else if (op->kind == Op::kBecomes) {
      out.emplace_back(op->text, Mapped(op->map, label.value));
    }
  }
  for (const Op& op : ops_) {
    if (op.kind == Op::kAdd) out.emplace_back(op.name, op.text);
  }
}

}  // namespace gpulens::engine_page

#include "pipeline/rollup/rollup_groups.h"

#include <algorithm>
#include <cmath>

namespace gpulens {
namespace {

constexpr double kNanosecondsPerSecond = 1e9, kNanosecondsPerMillisecond = 1e6;

std::string UnitOf(const MetricDesc& input, RollupFunction function) {
  if (function == RollupFunction::kCount) return "{series}";
  if (function != RollupFunction::kRate) return std::string(input.unit);
  if (input.unit == "s") return "1";
  return (input.unit.empty() ? "1" : std::string(input.unit)) + "/s";
}

Kind KindOf(const MetricDesc& input, RollupFunction function) noexcept {
  const bool sum = function == RollupFunction::kSum;
  return sum && input.kind != Kind::kUnknown ? input.kind : Kind::kGauge;
}

Number NumberOf(const MetricDesc& input, RollupFunction function) noexcept {
  if (function == RollupFunction::kCount) return Number::kInt;
  const bool increases = function == RollupFunction::kSum || function == RollupFunction::kIncrease;
  return input.kind == Kind::kCounter && increases ? input.number : Number::kDouble;
}

double ShareOf(RollupFunction function) noexcept {
  switch (function) {
    case RollupFunction::kP50: return 0.5;
    case RollupFunction::kP90: return 0.9;
    default: return 0.99;
  }
}

std::vector<double> FiniteBounds(const Shape& shape) {
  Buckets buckets;
  const std::vector<double> zeros(shape.cells());
  ReadBuckets(shape, zeros, buckets);
  return buckets.bounds;
}

int64_t SaturatingAdd(int64_t a, int64_t b) noexcept {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

}  // namespace

std::string_view RollupRefusalName(RollupRefusal refusal) noexcept {
  switch (refusal) {
    case RollupRefusal::kKind: return "kind";
    case RollupRefusal::kFunction: return "function";
    case RollupRefusal::kBounds: return "bounds";
    case RollupRefusal::kLimit: return "limit";
    case RollupRefusal::kName: return "name";
  }
  return "unknown";
}

void RollupGroup::AddReading(double value, int64_t at_ns) noexcept {
  window.min = std::min(window.min, value);
  window.max = std::max(window.max, value);
  // The greatest of several readings of one time, independent of their order.
  if (at_ns > window.last_ns) window.last = value;
  else if (at_ns == window.last_ns) window.last = std::max(window.last, value);
  window.last_ns = std::max(window.last_ns, at_ns);
}

void RollupGroup::AddIncrease(double increase) noexcept {
  window.increase += increase;
  total += increase;
}

void RollupGroup::AddIncrease(int64_t increase) noexcept {
  window.int_increase = SaturatingAdd(window.int_increase, increase);
  int_total = SaturatingAdd(int_total, increase);
}

void RollupGroup::Take(RollupMember& member) noexcept {
  if (member.readings != 0) {
    ++window.count;
    window.stale = window.stale || member.stale;
    if (form == RollupForm::kReadings) window.sum += member.sum / member.readings;
    window.has_increase = window.has_increase || member.has_increase;
    const int64_t span_ns = member.last_ns - member.base_ns;
    if (form == RollupForm::kIncreases && member.has_increase && span_ns > 0) {
      window.rate += member.sum / (static_cast<double>(span_ns) / kNanosecondsPerSecond);
      window.has_rate = true;
    }
  }
  member.readings = 0;
  member.sum = 0;
  member.stale = member.has_increase = false;
  member.base_ns = member.last_ns;
}

RollupGroups::RollupGroups(RollupRule rule, std::string source)
    : rule_(std::move(rule)),
      source_(std::move(source)),
      entity_(MakeRef<const Entity>("rollup", AttributeSet())) {}

size_t RollupGroups::KeyHash::operator()(const RollupKey& key) const noexcept {
  return std::hash<std::string_view>{}(key.name) ^ static_cast<size_t>(key.attributes.hash());
}

RollupGroups::Joined RollupGroups::Join(const SeriesInfo& series, int64_t start_unix_ns) {
  const RollupForm form = RollupFormOf(series);
  if (form == RollupForm::kNone) return {{}, RollupRefusal::kKind};
  if (!rule_.AppliesTo(form)) return {{}, RollupRefusal::kFunction};
  RollupKey key{std::string(series.desc->name), std::string(series.desc->unit), series.desc->kind,
                series.desc->number, rule_.GroupOf(series.attributes)};
  auto found = index_.find(key);
  if (found != index_.end() && form == RollupForm::kBuckets) {
    const RollupGroup& group = groups_[found->second];
    if (group.has_sum != series.shape->has_sum || group.bounds != FiniteBounds(*series.shape)) {
      if (group.members != 0) return {{}, RollupRefusal::kBounds};
      // All that had the former bounds are gone: a new version of a program, perhaps.
      Remove(found->second);
      found = index_.end();
    }
  }
  if (found == index_.end()) {
    if (index_.size() >= rule_.max_groups) return {{}, RollupRefusal::kLimit};
    RollupGroup group;
    if (auto refusal = Make(series, key, start_unix_ns, group)) return {{}, *refusal};
    uint32_t place = static_cast<uint32_t>(groups_.size());
    if (free_.empty()) {
      groups_.push_back(std::move(group));
    } else {
      place = free_.back();
      free_.pop_back();
      groups_[place] = std::move(group);
    }
    found = index_.emplace(std::move(key), place).first;
  }
  RollupGroup& group = groups_[found->second];
  ++group.members;
  group.idle = 0;
  return {found->second, {}};
}

const MetricDesc* RollupGroups::DescOf(const MetricDesc& input, RollupFunction function) {
  const std::string_view word = kRollupFunctionNames[static_cast<size_t>(function)];
  // Names of scraped pages are Prometheus's, where a colon marks what was computed from series.
  const char separator = input.naming == Naming::kVerbatim ? ':' : '.';
  std::string name = rule_.name;
  if (name.empty()) name = std::string(input.name) + separator + std::string(word);
  const std::string unit = UnitOf(input, function);
  const std::string help = "Roll-up (" + std::string(word) + "): " + std::string(input.help);
  return table_.Own({.name = name,
                     .unit = unit,
                     .help = help,
                     .kind = KindOf(input, function),
                     .number = NumberOf(input, function),
                     .naming = input.naming});
}

std::optional<RollupRefusal> RollupGroups::Make(const SeriesInfo& series, RollupKey key,
                                                int64_t start_unix_ns, RollupGroup& group) {
  group.form = RollupFormOf(series);
  group.int_cells = series.desc->number == Number::kInt;
  SeriesTable::Form form{.start_unix_ns = start_unix_ns};
  if (group.form == RollupForm::kBuckets) {
    group.bounds = FiniteBounds(*series.shape);
    group.has_sum = series.shape->has_sum;
    group.rows.resize(group.bounds.size() + 2);
    group.in_rows.resize(group.bounds.size() + 2);
    auto shape = MakeRef<Shape>();
    shape->bounds = group.bounds;
    shape->has_sum = group.has_sum;
    form.shape = shape;
  }
  for (RollupFunction function : rule_.functions) {
    Series result;
    if (Applies(function, group.form)) {
      const MetricDesc* desc = DescOf(*series.desc, function);
      const bool histogram = group.form == RollupForm::kBuckets && function == RollupFunction::kSum;
      if (desc)
        result = table_.Declare(*desc, entity_, key.attributes,
                                histogram ? form : SeriesTable::Form{.start_unix_ns = start_unix_ns});
      if (!result) {
        for (Series made : group.series) table_.Retire(made);
        return desc ? RollupRefusal::kName : RollupRefusal::kLimit;
      }
    }
    group.series.push_back(result);
  }
  group.known_ns.resize(group.series.size());
  group.key = std::move(key);
  return std::nullopt;
}

void RollupGroups::Remove(uint32_t group) {
  for (Series series : groups_[group].series) table_.Retire(series);
  index_.erase(groups_[group].key);
  groups_[group] = RollupGroup();
  free_.push_back(group);
}

// Writes the result into cells_; false when there is none.
bool RollupGroups::Compute(const RollupGroup& group, RollupFunction function, const SeriesInfo& result) {
  const RollupGroup::Window& window = group.window;
  Cell& cell = cells_[result.first_cell];
  switch (function) {
    case RollupFunction::kCount: cell.i = window.count; return true;
    case RollupFunction::kAvg: cell.d = window.sum / window.count; break;
    case RollupFunction::kMin: cell.d = window.min; break;
    case RollupFunction::kMax: cell.d = window.max; break;
    case RollupFunction::kLast: cell.d = window.last; break;
    case RollupFunction::kRate: cell.d = window.rate; return window.has_rate;
    case RollupFunction::kIncrease:
      if (group.int_cells) cell.i = window.int_increase;
      else cell.d = window.increase;
      return window.has_increase;
    case RollupFunction::kSum:
      if (group.form == RollupForm::kReadings) cell.d = window.sum;
      else if (group.form == RollupForm::kIncreases && group.int_cells) cell.i = group.int_total;
      else if (group.form == RollupForm::kIncreases) cell.d = group.total;
      else {
        const size_t bounds = group.bounds.size();
        for (size_t i = 0; i < bounds; ++i) cells_[result.first_cell + i].d = group.rows[i];
        if (group.has_sum) cells_[result.first_cell + result.shape->sum_cell()].d = group.rows[bounds + 1];
        cells_[result.first_cell + result.shape->count_cell()].d = group.rows[bounds];
      }
      return true;
    case RollupFunction::kP50:
    case RollupFunction::kP90:
    case RollupFunction::kP99: {
      auto row = std::span(group.in_rows).first(group.bounds.size() + 1);
      const auto quantile = Quantile(group.bounds, row, ShareOf(function));
      if (quantile) cell.d = *quantile;
      return quantile.has_value();
    }
  }
  // Readings are finite; their sum need not be.
  return std::isfinite(cell.d);
}

void RollupGroups::Show(int64_t known_ns, bool stale, uint32_t slot, Frame& frame) {
  frame.quality[slot] = Quality::kAbsent;
  frame.absence[slot] = Absence::kNotRead;
  if (known_ns == 0) return;
  frame.absence[slot] = Absence::kPresent;
  const int64_t age_ns = frame.read_at.boot_ns - known_ns;
  frame.quality[slot] = stale || age_ns > 0 ? Quality::kStale : Quality::kOk;
  if (age_ns <= 0) return;
  if (frame.age_ms.empty()) frame.age_ms.resize(frame.quality.size());
  const double age_ms = static_cast<double>(age_ns) / kNanosecondsPerMillisecond;
  frame.age_ms[slot] = static_cast<uint32_t>(std::min(age_ms, 4e9));
}

void RollupGroups::Publish(RollupGroup& group, Frame& frame) {
  const RollupGroup::Window& window = group.window;
  for (size_t f = 0; f < group.series.size(); ++f) {
    const Series series = group.series[f];
    if (!series) continue;
    int64_t& known_ns = group.known_ns[f];
    if (window.count != 0) {
      const bool known = Compute(group, rule_.functions[f], table_.InfoAt(series.slot));
      known_ns = known ? frame.read_at.boot_ns : 0;
    } else if (!window.shown) {
      known_ns = 0;
    }
    Show(known_ns, window.stale, series.slot, frame);
  }
}

Ref<const Frame> RollupGroups::Close(Instant end) {
  for (uint32_t i = 0; i < groups_.size(); ++i) {
    RollupGroup& group = groups_[i];
    if (group.form == RollupForm::kNone || group.members != 0 || group.window.count != 0) continue;
    if (++group.idle >= kIdleIntervals) Remove(i);
  }
  Ref<Frame> frame = pool_.Take();
  frame->source = source_;
  frame->layout = table_.Freeze();
  frame->run = ++run_;
  frame->read_at = end;
  cells_.resize(table_.cells());
  frame->quality.assign(table_.slots(), Quality::kAbsent);
  frame->absence.assign(table_.slots(), Absence::kNotRead);
  frame->age_ms.clear();
  for (RollupGroup& group : groups_) {
    Publish(group, *frame);
    group.window = {};
    std::ranges::fill(group.in_rows, 0.0);
  }
  frame->cells.assign(cells_.begin(), cells_.end());
  return frame;
}

}  // namespace gpulens

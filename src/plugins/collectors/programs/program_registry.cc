#include "plugins/collectors/programs/programs.h"

#include <algorithm>
#include <limits>

#include "catalog/all.h"
#include "catalog/exported_name.h"
#include "wire/otlp/exponential_bounds.h"

namespace gpulens {
namespace {

// Attributes of a resource, which are on every series of the program.
constexpr size_t kMostAttributes = 32, kLongest = 256;
// Maximum number of buckets of a series.
constexpr size_t kMostBounds = 1'024;

// Attributes of machine and process are the agent's own; telemetry.* is not exported.
bool IsKept(std::string_view key) noexcept {
  for (std::string_view prefix : {"host.", "os.", "process.", "telemetry."}) {
    if (key.starts_with(prefix)) return false;
  }
  return true;
}

EntityRef EntityOf(int32_t pid, std::span<const AttributeSet::Attribute> resource) {
  std::vector<AttributeSet::Attribute> kept;
  for (const AttributeSet::Attribute& attribute : resource) {
    const auto* text = std::get_if<std::string_view>(&attribute.value);
    if (IsKept(attribute.key) && attribute.key.size() <= kLongest && (!text || text->size() <= kLongest) &&
        kept.size() < kMostAttributes)
      kept.push_back(attribute);
  }
  if (pid > 0) kept.push_back({"process.pid", int64_t{pid}});
  return MakeRef<Entity>("process", AttributeSet(kept));
}

Kind KindOf(const OtlpMetricView& metric) noexcept {
  switch (metric.data) {
    case OtlpMetricView::Data::kGauge: return Kind::kGauge;
    case OtlpMetricView::Data::kSum: return metric.monotonic ? Kind::kCounter : Kind::kUpDownCounter;
    case OtlpMetricView::Data::kHistogram:
    case OtlpMetricView::Data::kExponential: break;
  }
  return Kind::kHistogram;
}

}  // namespace

class ProgramRegistry::PointReader final : public OtlpPointVisitor {
 public:
  PointReader(ProgramRegistry& registry, const Sender& sender, Instant now)
      : registry_(registry), sender_(sender), now_(now) {}

  void OnResource(std::span<const AttributeSet::Attribute> attributes) override {
    program_ = registry_.ProgramOf(sender_, attributes);
    if (program_) program_->received = now_;
    refused_ = refused_ || !program_;
  }

  std::string_view OnPoint(const OtlpMetricView& metric, const OtlpPointView& point) override {
    if (!program_) return "too many programs";
    const AttributeSet attributes(point.attributes);
    MakeKey(metric, point, attributes);
    auto found = program_->rows.find(key_);
    if (found == program_->rows.end()) {
      User& user = registry_.users_[sender_.uid];
      if (program_->rows.size() >= registry_.limits_.series ||
          registry_.series_ >= registry_.limits_.all_series)
        return "too many series";
      if (user.series >= registry_.limits_.series_of_user) return "too many series of one user";
      if (point.bounds.size() > kMostBounds) return "a histogram of more than 1,024 bounds";
      Row row;
      row.name = ExportedName({.name = metric.name, .unit = metric.unit, .kind = KindOf(metric)},
                              NameOwner::kProgram);
      row.unit = metric.unit;
      row.description = metric.description;
      row.attributes = attributes;
      row.kind = KindOf(metric);
      row.integer = point.integer;
      ++registry_.series_;
      ++user.series;
      found = program_->rows.emplace(key_, std::move(row)).first;
    }
    Fill(found->second, metric, point);
    return {};
  }

  bool refused() const noexcept { return refused_; }

 private:
  void MakeKey(const OtlpMetricView& metric, const OtlpPointView& point, const AttributeSet& attributes) {
    key_.assign(metric.name);
    key_ += '\0';
    key_ += static_cast<char>('0' + static_cast<int>(KindOf(metric)));
    key_ += point.integer ? 'i' : 'd';
    for (auto [name, value] : attributes) {
      key_ += name;
      key_ += '\0';
      AppendValue(key_, value);
      key_ += '\0';
    }
  }

  void Fill(Row& row, const OtlpMetricView& metric, const OtlpPointView& point) {
    row.received = now_;
    row.start_unix_ns = row.kind == Kind::kGauge ? 0 : point.start_unix_ns;
    row.value = point.value;
    row.whole = point.whole;
    if (row.kind != Kind::kHistogram) return;
    if (metric.data == OtlpMetricView::Data::kExponential) {
      ToClassicBuckets(point.scale, point.offset, point.counts, point.zeros, buckets_);
    } else {
      buckets_.bounds.assign(point.bounds.begin(), point.bounds.end());
      buckets_.counts.clear();
      uint64_t sum = 0;
      for (size_t i = 0; i < point.bounds.size(); ++i) buckets_.counts.push_back(sum += point.counts[i]);
      buckets_.count = point.count;
    }
    buckets_.bounds.push_back(std::numeric_limits<double>::infinity());
    buckets_.counts.push_back(buckets_.count);
    if (row.bounds != buckets_.bounds || row.has_sum != point.has_sum) {
      row.bounds = buckets_.bounds;
      row.has_sum = point.has_sum;
      row.reshaped = true;
    }
    row.counts.assign(buckets_.counts.begin(), buckets_.counts.end());
    row.sum = point.sum;
  }

  ProgramRegistry& registry_;
  const Sender sender_;
  const Instant now_;
  Program* program_ = nullptr;
  bool refused_ = false;
  std::string key_;
  ClassicBuckets buckets_;
};

ProgramRegistry::Program* ProgramRegistry::ProgramOf(const Sender& sender,
                                                     std::span<const AttributeSet::Attribute> resource) {
  std::string instance;
  for (const AttributeSet::Attribute& attribute : resource) {
    if (attribute.key != "service.instance.id") continue;
    instance.clear();
    AppendValue(instance, attribute.value);
  }
  instance.resize(std::min(instance.size(), kLongest));
  const auto found = programs_.find({sender, instance});
  if (found != programs_.end()) return &found->second;
  const auto first = programs_.lower_bound({sender, std::string()});
  const auto end =
      std::find_if(first, programs_.end(), [&](const auto& one) { return one.first.first != sender; });
  const auto user = users_.find(sender.uid);
  if (programs_.size() >= limits_.programs ||
      (user != users_.end() && user->second.programs >= limits_.programs_of_user) ||
      static_cast<size_t>(std::distance(first, end)) >= limits_.instances)
    return nullptr;
  Program& made = programs_[{sender, std::move(instance)}];
  ++users_[sender.uid].programs;
  made.entity = EntityOf(sender.pid, resource);
  return &made;
}

Status ProgramRegistry::Take(const Sender& sender, std::string_view request, Instant now,
                             OtlpPointsReport& report) {
  std::lock_guard lock(mutex_);
  PointReader reader(*this, sender, now);
  Status read = ReadOtlpPoints(request, reader, report);
  accepted_ += report.points;
  rejected_ += report.rejected;
  if (!read) return read;
  if (reader.refused() && report.points == 0)
    return {Code::kExhausted, "too many programs export metrics to this agent"};
  return Ok();
}

void ProgramRegistry::Declare(Row& row, const EntityRef& entity, SeriesTable& table) {
  table.Retire(row.series);
  row.series = {};
  row.reshaped = false;
  MetricDesc described;
  described.name = row.name;
  described.unit = row.unit;
  described.help = row.description;
  described.kind = row.kind;
  if (row.integer) described.number = Number::kInt;
  // A row of the catalogue that programs bring, such as training.mfu, has its rule.
  const MetricDesc* known = FindMetric(row.name);
  if (known && known->unit == row.unit && known->kind == row.kind) described.rule = known->rule;
  const MetricDesc* desc = table.Own(described);
  row.refused = !desc;
  if (!desc) return;
  SeriesTable::Form form{.start_unix_ns = row.start_unix_ns};
  if (row.kind == Kind::kHistogram) {
    auto shape = MakeRef<Shape>();
    shape->bounds = row.bounds;
    shape->has_sum = row.has_sum;
    form.shape = shape;
  }
  row.series = table.Declare(*desc, entity, row.attributes, form);
  row.declared_start_ns = row.start_unix_ns;
  row.refused = !row.series;
}

void ProgramRegistry::WriteRow(Row& row, FrameWriter& out) {
  if (row.declared_start_ns != row.start_unix_ns) {
    out.table().Restart(row.series.slot, row.start_unix_ns);
    row.declared_start_ns = row.start_unix_ns;
  }
  if (row.kind != Kind::kHistogram) {
    if (row.integer) out.SetInt(row.series, row.whole);
    else out.Set(row.series, row.value);
    return;
  }
  const std::span<Cell> cells = out.Cells(row.series);
  if (cells.size() != row.counts.size() + row.has_sum + 1) return;
  size_t next = 0;
  for (double count : row.counts) cells[next++].d = count;
  if (row.has_sum) cells[next++].d = row.sum;
  cells[next].d = row.counts.back();
}

void ProgramRegistry::Write(FrameWriter& out) {
  std::lock_guard lock(mutex_);
  const Instant now = out.begun_at();
  for (auto& [key, program] : programs_) {
    User& user = users_[key.first.uid];
    for (auto at = program.rows.begin(); at != program.rows.end();) {
      Row& row = at->second;
      const Duration age = now - row.received;
      if (age >= limits_.drop_after) {
        out.table().Retire(row.series);
        at = program.rows.erase(at);
        --series_;
        --user.series;
        continue;
      }
      ++at;
      if (age >= limits_.max_age || row.refused) continue;
      if (!row.series || row.reshaped) Declare(row, program.entity, out.table());
      if (!row.series) continue;
      out.ReadAt(row.received);
      WriteRow(row, out);
    }
  }
  std::erase_if(programs_, [&](const auto& one) {
    const bool over = one.second.rows.empty() && now - one.second.received >= limits_.drop_after;
    if (over) --users_[one.first.first.uid].programs;
    return over;
  });
  std::erase_if(users_, [](const auto& one) { return one.second.programs == 0; });
  out.ReadAt(now);
}

ProgramRegistry::Counts ProgramRegistry::counts() const {
  std::lock_guard lock(mutex_);
  return {programs_.size(), accepted_, rejected_};
}

}  // namespace gpulens

#include "plugins/analyzers/inference/engine_group.h"

#include <algorithm>
#include <cmath>

namespace gpulens::windows {
namespace {

constexpr double kSecond = 1e9;

bool SamePick(const MetricPick& a, const MetricPick& b) noexcept {
  return a.role == b.role && a.filter.key == b.filter.key && a.filter.except == b.filter.except &&
         std::equal(a.filter.values.begin(), a.filter.values.end(), b.filter.values.begin(),
                    b.filter.values.end());
}

FeedUse UseOf(NativeOp op) noexcept {
  switch (op) {
    case NativeOp::kLevel:
    case NativeOp::kTotal: return FeedUse::kLevel;
    case NativeOp::kQuantiles: return FeedUse::kBuckets;
    case NativeOp::kMean: return FeedUse::kMoments;
    case NativeOp::kRate:
    case NativeOp::kRatio:
    case NativeOp::kOnePlusRatio: break;
  }
  return FeedUse::kGrowth;
}

constexpr std::string_view kEngineType = "engine";

// Empty: the series is not used.
std::span<const NativeMetric> NativesFor(const SeriesInfo& info) {
  if (!info.desc || !info.entity || info.entity->type != kEngineType) return {};
  std::span<const NativeMetric> natives = NativesOf(info.attributes.Text("inference.engine"));
  bool used = std::ranges::any_of(natives, [&](const NativeMetric& native) {
    return native.of.role == info.desc || native.over.role == info.desc || native.fallback.role == info.desc;
  });
  return used ? natives : std::span<const NativeMetric>();
}

}  // namespace

EngineGroup::EngineGroup(Identity identity, std::span<const NativeMetric> natives, Past past)
    : identity_(std::move(identity)), past_(past) {
  for (const NativeMetric& native : natives) {
    FeedUse use = UseOf(native.op);
    Output output;
    output.native = &native;
    output.of = SourceOf(native.of, use);
    output.over = SourceOf(native.over, use);
    output.fallback = SourceOf(native.fallback, FeedUse::kLevel);
    if (native.op != NativeOp::kQuantiles) {
      outputs_.push_back(output);
      continue;
    }
    for (const WindowQuantile& quantile : kWindowQuantiles) {
      output.quantile = &quantile;
      outputs_.push_back(output);
    }
  }
}

// Natives with the same pick and use share a feed.
size_t EngineGroup::SourceOf(const MetricPick& pick, FeedUse use) {
  if (!pick.role) return kNoFeed;
  auto same = [&](const Source& source) { return source.use == use && SamePick(*source.pick, pick); };
  auto at = std::ranges::find_if(sources_, same);
  size_t place = static_cast<size_t>(at - sources_.begin());
  if (at == sources_.end()) sources_.push_back({&pick, use, nullptr});
  return place;
}

const Feed* EngineGroup::FeedOf(size_t source) const noexcept {
  if (source == kNoFeed || !sources_[source].feed || sources_[source].feed->empty()) return nullptr;
  return sources_[source].feed.get();
}

void EngineGroup::BeginPlan() noexcept {
  for (Source& source : sources_) {
    if (source.feed) source.feed->BeginPlan();
  }
}

void EngineGroup::Add(const SeriesInfo& info, uint32_t slot, int64_t since_ns) {
  for (Source& source : sources_) {
    if (!Feed::Takes(*source.pick, info)) continue;
    if (!source.feed)
      source.feed = std::make_unique<Feed>(*source.pick, source.use, past_ == Past::kKnown ? since_ns : 0);
    source.feed->Add(info, slot);
  }
}

bool EngineGroup::EndPlan() {
  bool any = false;
  for (Source& source : sources_) {
    if (!source.feed) continue;
    source.feed->EndPlan();
    any = any || !source.feed->empty();
  }
  return any;
}

void EngineGroup::Read(const FeedReading& reading, FeedScratch& scratch) {
  FeedReading own = reading;
  own.follows = reading.follows && past_ == Past::kKnown;
  if (past_ == Past::kNone) past_ = Past::kKnown;
  for (Source& source : sources_) {
    if (source.feed) source.feed->Read(own, scratch);
  }
  for (Output& output : outputs_) {
    output.value = Evaluate(output);
    output.refused = false;
  }
}

EngineGroup::Value EngineGroup::Level(size_t source) const noexcept {
  const Feed* feed = FeedOf(source);
  return feed ? Value{feed->result(), feed->level()} : Value{};
}

EngineGroup::Value EngineGroup::Total(const Output& output) const noexcept {
  if (FeedOf(output.of)) return Level(output.of);
  Value total = Level(output.fallback);
  if (!FeedOf(output.over)) return total;
  Value more = Level(output.over);
  return {std::min(total.result, more.result), total.value + more.value};
}

EngineGroup::Value EngineGroup::Rate(const Feed& feed) const noexcept {
  if (feed.to_ns() <= feed.from_ns()) return {};
  double seconds = static_cast<double>(feed.to_ns() - feed.from_ns()) / kSecond;
  return {feed.result(), feed.count() / seconds};
}

EngineGroup::Value EngineGroup::Ratio(const Output& output) const noexcept {
  const Feed *of = FeedOf(output.of), *over = FeedOf(output.over);
  if (!of || !over) return Level(output.fallback);
  FeedResult known = std::min(of->result(), over->result());
  // Both must cover the same time.
  bool same = of->from_ns() == over->from_ns() && of->to_ns() == over->to_ns();
  if (known == FeedResult::kRead && (!same || over->count() <= 0)) return {};
  return {known, of->count() / over->count()};
}

EngineGroup::Value EngineGroup::Evaluate(const Output& output) const {
  const NativeMetric& native = *output.native;
  if (native.op == NativeOp::kLevel) return Level(output.of);
  if (native.op == NativeOp::kTotal) return Total(output);
  if (native.op == NativeOp::kRatio) return Ratio(output);
  if (native.op == NativeOp::kOnePlusRatio) {
    Value ratio = Ratio(output);
    return {ratio.result, 1 + ratio.value};
  }
  const Feed* feed = FeedOf(output.of);
  if (!feed || feed->result() != FeedResult::kRead) return {feed ? feed->result() : FeedResult::kNone, 0};
  if (native.op == NativeOp::kRate) return Rate(*feed);
  if (native.op == NativeOp::kMean) {
    if (feed->count() <= 0 || !std::isfinite(feed->sum())) return {};
    return {FeedResult::kRead, native.scale * feed->sum() / feed->count()};
  }
  std::optional<double> value = feed->QuantileOf(output.quantile->q);
  return value ? Value{FeedResult::kRead, *value} : Value{};
}

Series EngineGroup::Declare(const Output& output, SeriesTable& table) const {
  std::vector<AttributeSet::Attribute> extra;
  if (!identity_.model.empty()) extra.push_back({"model.name", std::string_view(identity_.model)});
  if (!identity_.version.empty()) extra.push_back({"model.version", std::string_view(identity_.version)});
  if (!output.native->key.empty()) extra.push_back({output.native->key, output.native->value});
  if (output.quantile) extra.push_back({"quantile", output.quantile->name});
  return table.Declare(*output.native->metric, identity_.engine, AttributeSet(extra));
}

void EngineGroup::Write(FrameWriter& out) {
  for (Output& output : outputs_) {
    if (output.value.result == FeedResult::kRead) {
      if (!output.series && !output.refused) output.series = Declare(output, out.table());
      output.refused = !output.series;
      if (output.series) out.Set(output.series, output.value.value);
    } else if (output.value.result == FeedResult::kNone && output.series) {
      out.Clear(output.series);
    }
  }
}

void EngineGroup::Retire(SeriesTable& table) {
  for (Output& output : outputs_) {
    if (output.series) table.Retire(output.series);
    output.series = {};
  }
}

size_t EngineGroup::memory_bytes() const noexcept {
  size_t bytes = sizeof *this + sources_.capacity() * sizeof(Source) + outputs_.capacity() * sizeof(Output);
  for (const Source& source : sources_) bytes += source.feed ? source.feed->memory_bytes() : 0;
  return bytes;
}

EngineGroup& EngineSource::GroupOf(const SeriesInfo& info, const std::string& model,
                                   std::span<const NativeMetric> natives) {
  uint64_t engine = info.entity->attributes.hash();
  std::string version = info.attributes.Text("model.version");
  std::string key(reinterpret_cast<const char*>(&engine), sizeof engine);
  key.append(model).append(1, '\0').append(version);
  std::unique_ptr<EngineGroup>& group = groups_[key];
  if (!group) {
    using enum EngineGroup::Past;
    bool known = std::ranges::find(engines_, engine) != engines_.end();
    group = std::make_unique<EngineGroup>(EngineGroup::Identity{info.entity, model, version}, natives,
                                          lost_groups_ ? kLost
                                          : known      ? kKnown
                                                       : kNone);
    in_order_.push_back(group.get());
  }
  return *group;
}

EngineGroup* EngineSource::OnlyNamedGroup(const EntityRef& engine) const noexcept {
  EngineGroup* only = nullptr;
  for (EngineGroup* group : in_order_) {
    const EngineGroup::Identity& identity = group->identity();
    if (identity.model.empty() || identity.engine->attributes != engine->attributes) continue;
    if (only) return nullptr;
    only = group;
  }
  return only;
}

// A series without a model belongs to the engine's only one.
void EngineSource::Plan(const Frame& frame, SeriesTable& table, bool& follows) {
  const int64_t since_ns = follows ? read_at_.boot_ns : 0;
  for (EngineGroup* group : in_order_) group->BeginPlan();
  std::vector<uint32_t> unnamed;
  std::vector<uint64_t> engines;
  for (uint32_t slot = 0; slot < frame.layout->slots(); ++slot) {
    const SeriesInfo& info = (*frame.layout)[slot];
    std::span<const NativeMetric> natives = NativesFor(info);
    if (natives.empty()) continue;
    uint64_t engine = info.entity->attributes.hash();
    if (std::ranges::find(engines, engine) == engines.end()) engines.push_back(engine);
    std::string model = info.attributes.Text("model.name");
    if (model.empty()) unnamed.push_back(slot);
    else GroupOf(info, model, natives).Add(info, slot, since_ns);
  }
  for (uint32_t slot : unnamed) {
    const SeriesInfo& info = (*frame.layout)[slot];
    EngineGroup* group = OnlyNamedGroup(info.entity);
    if (!group) group = &GroupOf(info, "", NativesFor(info));
    group->Add(info, slot, since_ns);
  }
  size_t before = groups_.size();
  std::erase_if(groups_, [&](auto& item) {
    if (item.second->EndPlan()) return false;
    item.second->Retire(table);
    std::erase(in_order_, item.second.get());
    return true;
  });
  // A gone group may be back under another name: then new label sets do not count from 0.
  if (groups_.size() != before) {
    lost_groups_ = true;
    follows = false;
  }
  engines_ = std::move(engines);
}

void EngineSource::Update(const SnapshotEntry& entry, Duration window, FeedScratch& scratch,
                          FrameWriter& out) {
  const Frame& frame = *entry.frame;
  const bool first = layout_id_ == 0;
  const bool moved = first || frame.run != run_ || frame.read_at != read_at_;
  // A new instance may have label sets that the former one had not.
  bool follows = !first && frame.run > run_;
  if (frame.layout->id() != layout_id_) Plan(frame, out.table(), follows);
  if (moved) {
    FeedReading reading{
        .frame = frame, .last_unix_ns = first ? 0 : read_at_.unix_ns, .follows = follows, .window = window};
    for (EngineGroup* group : in_order_) group->Read(reading, scratch);
  }
  layout_id_ = frame.layout->id();
  run_ = frame.run;
  read_at_ = frame.read_at;
  // The series of an overdue frame become stale with it.
  if (entry.overdue) return;
  for (EngineGroup* group : in_order_) group->Write(out);
}

void EngineSource::End(SeriesTable& table) {
  for (EngineGroup* group : in_order_) group->Retire(table);
}

size_t EngineSource::memory_bytes() const noexcept {
  size_t bytes = sizeof *this;
  for (const EngineGroup* group : in_order_) bytes += group->memory_bytes();
  return bytes;
}

}  // namespace gpulens::windows

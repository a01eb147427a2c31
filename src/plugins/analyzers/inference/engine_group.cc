#include "plugins/analyzers/inference/engine_group.h"

#include <algorithm>
#include <cmath>

namespace gpulens::windows {
namespace {

constexpr double kSecond = 1e9;

bool SamePick(const Pick& a, const Pick& b) noexcept {
  return a.role == b.role && a.filter.key == b.filter.key && a.filter.except == b.filter.except &&
         std::equal(a.filter.values.begin(), a.filter.values.end(), b.filter.values.begin(),
                    b.filter.values.end());
}

Use UseOf(Op op) noexcept {
  switch (op) {
    case Op::kLevel:
    case Op::kTotal: return Use::kLevel;
    case Op::kQuantiles: return Use::kBuckets;
    case Op::kMean: return Use::kMoments;
    case Op::kRate:
    case Op::kRatio:
    case Op::kOnePlusRatio: break;
  }
  return Use::kGrowth;
}

}  // namespace

EngineGroup::EngineGroup(Identity identity, std::span<const Native> natives, Past past)
    : identity_(std::move(identity)), past_(past) {
  for (const Native& native : natives) {
    Use use = UseOf(native.op);
    Output output;
    output.native = &native;
    output.of = WantOf(native.of, use);
    output.over = WantOf(native.over, use);
    output.fallback = WantOf(native.fallback, Use::kLevel);
    if (native.op != Op::kQuantiles) {
      outputs_.push_back(output);
      continue;
    }
    for (const WindowQuantile& quantile : kWindowQuantiles) {
      output.quantile = &quantile;
      outputs_.push_back(output);
    }
  }
}

// Natives that use the same in the same way share a feed.
size_t EngineGroup::WantOf(const Pick& pick, Use use) {
  if (!pick.role) return kNoFeed;
  auto same = [&](const Want& want) { return want.use == use && SamePick(*want.pick, pick); };
  auto at = std::find_if(wants_.begin(), wants_.end(), same);
  size_t place = static_cast<size_t>(at - wants_.begin());
  if (at == wants_.end()) wants_.push_back({&pick, use, nullptr});
  return place;
}

const Feed* EngineGroup::FeedOf(size_t want) const noexcept {
  if (want == kNoFeed || !wants_[want].feed || wants_[want].feed->empty()) return nullptr;
  return wants_[want].feed.get();
}

void EngineGroup::BeginPlan() noexcept {
  for (Want& want : wants_) {
    if (want.feed) want.feed->BeginPlan();
  }
}

void EngineGroup::Add(const SeriesInfo& info, uint32_t slot, int64_t since_ns) {
  for (Want& want : wants_) {
    if (!Feed::Takes(*want.pick, info)) continue;
    if (!want.feed) {
      want.feed = std::make_unique<Feed>(*want.pick, want.use, past_ == Past::kKnown ? since_ns : 0);
    }
    want.feed->Add(info, slot);
  }
}

bool EngineGroup::EndPlan() {
  bool any = false;
  for (Want& want : wants_) {
    if (!want.feed) continue;
    want.feed->EndPlan();
    any = any || !want.feed->empty();
  }
  return any;
}

void EngineGroup::Read(const Reading& reading, Scratch& scratch) {
  Reading own = reading;
  own.follows = reading.follows && past_ == Past::kKnown;
  if (past_ == Past::kNone) past_ = Past::kKnown;
  for (Want& want : wants_) {
    if (want.feed) want.feed->Read(own, scratch);
  }
  for (Output& output : outputs_) {
    output.value = Evaluate(output);
    output.refused = false;
  }
}

EngineGroup::Value EngineGroup::Level(size_t want) const noexcept {
  const Feed* feed = FeedOf(want);
  return feed ? Value{feed->known(), feed->level()} : Value{};
}

EngineGroup::Value EngineGroup::Total(const Output& output) const noexcept {
  if (FeedOf(output.of)) return Level(output.of);
  Value total = Level(output.fallback);
  if (!FeedOf(output.over)) return total;
  Value more = Level(output.over);
  return {std::min(total.known, more.known), total.value + more.value};
}

EngineGroup::Value EngineGroup::Rate(const Feed& feed) const noexcept {
  if (feed.to_ns() <= feed.from_ns()) return {};
  double seconds = static_cast<double>(feed.to_ns() - feed.from_ns()) / kSecond;
  return {feed.known(), feed.count() / seconds};
}

EngineGroup::Value EngineGroup::Ratio(const Output& output) const noexcept {
  const Feed *of = FeedOf(output.of), *over = FeedOf(output.over);
  if (!of || !over) return Level(output.fallback);
  Known known = std::min(of->known(), over->known());
  // Of the same time, or it is no share of anything.
  bool same = of->from_ns() == over->from_ns() && of->to_ns() == over->to_ns();
  if (known == Known::kNow && (!same || over->count() <= 0)) return {};
  return {known, of->count() / over->count()};
}

EngineGroup::Value EngineGroup::Evaluate(const Output& output) const {
  const Native& native = *output.native;
  if (native.op == Op::kLevel) return Level(output.of);
  if (native.op == Op::kTotal) return Total(output);
  if (native.op == Op::kRatio) return Ratio(output);
  if (native.op == Op::kOnePlusRatio) {
    Value ratio = Ratio(output);
    return {ratio.known, 1 + ratio.value};
  }
  const Feed* feed = FeedOf(output.of);
  if (!feed || feed->known() != Known::kNow) return {feed ? feed->known() : Known::kNothing, 0};
  if (native.op == Op::kRate) return Rate(*feed);
  if (native.op == Op::kMean) {
    if (feed->count() <= 0 || !std::isfinite(feed->sum())) return {};
    return {Known::kNow, native.scale * feed->sum() / feed->count()};
  }
  std::optional<double> value = feed->QuantileOf(output.quantile->q);
  return value ? Value{Known::kNow, *value} : Value{};
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
    if (output.value.known == Known::kNow) {
      if (!output.series && !output.refused) output.series = Declare(output, out.table());
      output.refused = !output.series;
      if (output.series) out.Set(output.series, output.value.value);
    } else if (output.value.known == Known::kNothing && output.series) {
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
  size_t bytes = sizeof *this + wants_.capacity() * sizeof(Want) + outputs_.capacity() * sizeof(Output);
  for (const Want& want : wants_) bytes += want.feed ? want.feed->memory_bytes() : 0;
  return bytes;
}

}  // namespace gpulens::windows

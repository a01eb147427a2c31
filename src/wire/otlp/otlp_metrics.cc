#include "wire/otlp/otlp_metrics.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/result.h"
#include "wire/otlp/otlp_fields.h"
#include "wire/otlp/otlp_metrics_writer.h"
#include "wire/otlp/otlp_telling.h"

namespace gpulens {
namespace {

using namespace otlp;

bool SameSeries(const SeriesInfo& a, const SeriesInfo& b) noexcept {
  return a.desc == b.desc && a.attributes == b.attributes;
}

// Whether a layout has that series, and with it its slot's quality as it is now.
bool HasValue(const Layout& layout, const Frame& frame, uint32_t slot, const SeriesInfo& series) noexcept {
  return slot < layout.slots() && SameSeries(layout[slot], series) && frame.quality[slot] != Quality::kAbsent;
}

}  // namespace

OtlpMetrics::OtlpMetrics(Speller speller, const Options& options)
    : speller_(std::move(speller)), options_(options) {}

const OtlpLayout& OtlpMetrics::TextOf(const Ref<const Layout>& layout) {
  return texts_.Of(layout, [this](const Layout& one) { return SpellOtlp(one, speller_, options_.style); });
}

// Its scope is the collector, "gpulens.scrape": targets are told apart by attributes.
OtlpMetrics::Source& OtlpMetrics::SourceOf(std::string_view name) {
  auto at = sources_.find(name);
  if (at != sources_.end()) return at->second;
  Source& source = sources_[std::string(name)];
  std::string scope_name = "gpulens.", scope;
  scope_name += name.substr(0, name.find('/'));
  AppendText(scope, kScopeName, scope_name);
  AppendText(scope, kScopeVersion, options_.scope_version);
  AppendBytes(source.scope, kScope, scope);
  AppendText(source.scope, kSchemaUrlField, kSchemaUrl);
  return source;
}

bool OtlpMetrics::PlanFits(const Snapshot& snapshot) const noexcept {
  if (resource_bytes_.empty() || plan_.size() != snapshot.frames.size() || !(resource_ == snapshot.resource))
    return false;
  for (size_t i = 0; i < plan_.size(); ++i) {
    if (plan_[i].layout != snapshot.frames[i].frame->layout->id()) return false;
  }
  return true;
}

void OtlpMetrics::Plan(const Snapshot& snapshot) {
  if (resource_bytes_.empty() || !(resource_ == snapshot.resource)) {
    resource_ = snapshot.resource;
    std::string attributes;
    AppendAttributes(attributes, kResourceAttributes, resource_);
    resource_bytes_.clear();
    AppendBytes(resource_bytes_, kResource, attributes);
    AppendText(resource_bytes_, kSchemaUrlField, kSchemaUrl);
  }
  if (speller_.Look(snapshot)) {
    former_ = std::exchange(texts_, {});
    ++spelling_;
  }
  plan_.clear();
  for (const SnapshotEntry& entry : snapshot.frames) {
    const Ref<const Layout>& layout = entry.frame->layout;
    plan_.push_back({layout->id(), &TextOf(layout), {}});
  }
  DropDuplicates(snapshot);
}

// Of equal series the native one is told, and of equals the earlier. Only families that two frames have are
// looked at.
void OtlpMetrics::DropDuplicates(const Snapshot& snapshot) {
  duplicates_ = 0;
  std::map<std::string_view, uint32_t> frames_with;
  for (const Planned& planned : plan_) {
    std::unordered_set<std::string_view> own;
    for (const OtlpFamily& family : planned.text->families) own.insert(family.name);
    for (std::string_view name : own) ++frames_with[name];
  }
  std::unordered_set<std::string> seen;
  std::string key;
  for (Standing standing : {Standing::kNative, Standing::kPassThrough}) {
    for (size_t i = 0; i < plan_.size(); ++i) {
      if (snapshot.frames[i].standing != standing) continue;
      const OtlpLayout& text = *plan_[i].text;
      for (const OtlpFamily& family : text.families) {
        if (frames_with[family.name] < 2) continue;
        for (uint32_t p = family.first; p < family.first + family.count; ++p) {
          const OtlpPoint& point = text.points[p];
          key = family.name;
          key += '\0';
          key.append(text.arena, point.attributes, point.values - point.attributes);
          if (seen.insert(key).second) continue;
          plan_[i].dropped.resize(text.points.size());
          plan_[i].dropped[p] = 1;
          ++duplicates_;
        }
      }
    }
  }
}

Status OtlpMetrics::Encode(const Snapshot& snapshot, const Take& take) {
  if (!PlanFits(snapshot)) Plan(snapshot);
  for (auto& [name, source] : sources_) source.touched = false;
  tick_unix_ns_ = snapshot.closed_at.unix_ns;
  if (begun_unix_ns_ == 0) begun_unix_ns_ = tick_unix_ns_;
  pending_.clear();
  if (options_.style.delta_counters || options_.style.delta_histograms) FollowLayouts(snapshot);
  former_ = {};
  Writer writer(request_, resource_bytes_, options_, take);
  for (size_t i = 0; i < plan_.size(); ++i) {
    const SnapshotEntry& entry = snapshot.frames[i];
    Source& source = SourceOf(entry.source);
    source.touched = true;
    RETURN_IF_ERROR(Tell(entry, plan_[i], source, writer));
  }
  for (auto& [name, source] : sources_) {
    if (source.touched || !source.now.layout) continue;
    writer.BeginScope(source.scope);
    RETURN_IF_ERROR(TellEnded(source.now, nullptr, writer));
    source.next = {};
  }
  RETURN_IF_ERROR(Flush(writer));
  points_ = writer.total();
  texts_.Forget();
  return Ok();
}

void OtlpMetrics::Commit() {
  for (auto& [name, source] : sources_) std::swap(source.now, source.next);
  std::erase_if(sources_, [](const auto& item) { return !item.second.now.layout; });
}

// Deltas are told from here on against what this request had.
Status OtlpMetrics::Flush(Writer& writer) {
  RETURN_IF_ERROR(writer.Flush());
  for (const Pending& one : pending_) {
    std::copy_n(one.cells, one.count, one.bases->cells.begin() + one.base);
    one.bases->told_unix_ns[one.base] = one.unix_ns;
  }
  pending_.clear();
  return Ok();
}

// The points of one frame that its receiver has not seen.
Status OtlpMetrics::Tell(const SnapshotEntry& entry, const Planned& planned, Source& source, Writer& writer) {
  const Frame& frame = *entry.frame;
  Telling telling{frame, TextOf(frame.layout), planned, source};
  if (source.now.layout) telling.told_unix_ns = source.now.read_unix_ns;
  Told& next = source.next;
  next.layout = frame.layout;
  next.read_unix_ns = frame.read_at.unix_ns;
  next.shown.assign(frame.quality.size(), 0);
  for (size_t slot = 0; slot < next.shown.size(); ++slot)
    next.shown[slot] = frame.quality[slot] != Quality::kAbsent;
  writer.BeginScope(source.scope);
  if (source.now.layout) RETURN_IF_ERROR(TellEnded(source.now, &frame, writer));
  if (frame.read_at.unix_ns == telling.told_unix_ns) return Ok();
  for (const OtlpFamily& family : telling.text.families) RETURN_IF_ERROR(TellFamily(telling, family, writer));
  return Ok();
}

Status OtlpMetrics::TellFamily(const Telling& telling, const OtlpFamily& family, Writer& writer) {
  const auto& [frame, text, planned, source, told] = telling;
  const bool examples = !frame.exemplars.empty() && FieldsOf(family.form).exemplars != 0;
  auto fresh = [&](uint32_t p) {
    const uint32_t slot = text.points[p].slot;
    const Quality quality = frame.quality[slot];
    if (!planned.dropped.empty() && planned.dropped[p]) return false;
    if (quality != Quality::kOk && !(quality == Quality::kStale && ReadUnixNs(frame, slot) > told))
      return false;
    return !family.delta || BeginsDelta(telling, p);
  };
  auto alone = [&](uint32_t p) { return examples && HasExemplar(telling, p); };
  writer.BeginFamily(family);
  const uint32_t end = family.first + family.count;
  for (uint32_t p = family.first; p < end;) {
    if (!fresh(p)) {
      ++p;
      continue;
    }
    if (alone(p)) {
      RETURN_IF_ERROR(TellWithExemplars(telling, family, p++, writer));
      continue;
    }
    const uint32_t begin = p;
    size_t room = writer.Room(text.points[p].end - text.points[p].begin);
    if (room == 0) {
      RETURN_IF_ERROR(Flush(writer));
      room = writer.Room(text.points[p].end - text.points[p].begin);
    }
    for (++p; p < end && p - begin < room && fresh(p) && !alone(p);) ++p;
    const uint32_t from = text.points[begin].begin;
    std::string& out = writer.Open();
    const size_t at = out.size();
    out.append(text.arena, from, text.points[p - 1].end - from);
    for (uint32_t i = begin; i < p; ++i)
      PutNumbers(telling, family, i, out.data() + at + (text.points[i].end - from));
    writer.Count(p - begin);
  }
  return Ok();
}

// What had a value when it was told last and has none now. `frame`: what its source says now; null: it is
// gone.
Status OtlpMetrics::TellEnded(const Told& told, const Frame* frame, Writer& writer) {
  ended_.assign(told.shown.size(), 0);
  bool any = false;
  const bool same = frame && frame->layout->id() == told.layout->id();
  for (uint32_t slot = 0; slot < told.shown.size(); ++slot) {
    if (!told.shown[slot]) continue;
    bool here = same ? frame->quality[slot] != Quality::kAbsent
                     : frame && HasValue(*frame->layout, *frame, slot, (*told.layout)[slot]);
    ended_[slot] = !here;
    any |= !here;
  }
  if (!any) return Ok();
  if (frame && !same) {
    // One that is told in another slot now goes on.
    std::unordered_multimap<uint64_t, uint32_t> by_hash;
    for (uint32_t slot = 0; slot < frame->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame->layout)[slot];
      if (info.desc && frame->quality[slot] != Quality::kAbsent)
        by_hash.emplace(info.attributes.hash(), slot);
    }
    for (uint32_t slot = 0; slot < ended_.size(); ++slot) {
      if (!ended_[slot]) continue;
      auto [first, last] = by_hash.equal_range((*told.layout)[slot].attributes.hash());
      for (; first != last; ++first) {
        if (SameSeries((*frame->layout)[first->second], (*told.layout)[slot])) ended_[slot] = 0;
      }
    }
  }
  return Flag(TextOf(told.layout), ended_, writer);
}

// The points of these slots, each without a value.
Status OtlpMetrics::Flag(const OtlpLayout& text, const std::vector<uint8_t>& slots, Writer& writer) {
  for (const OtlpFamily& family : text.families) {
    if (family.delta) continue;  // one that ends is not told any more, and that is all
    writer.BeginFamily(family);
    for (uint32_t p = family.first; p < family.first + family.count; ++p) {
      const OtlpPoint& point = text.points[p];
      if (!slots[point.slot]) continue;
      point_.assign(text.arena, point.attributes, point.values - point.attributes);
      if (family.has_start) point_.append(text.arena, point.end - 2 * kFixedBytes, kFixedBytes);
      AppendFixed(point_, kTime, static_cast<uint64_t>(tick_unix_ns_));
      AppendNumber(point_, FieldsOf(family.form).flags, kNoRecordedValue);
      if (writer.Room(point_.size()) == 0) RETURN_IF_ERROR(Flush(writer));
      AppendBytes(writer.Open(), kPoints, point_);
      writer.Count(1);
    }
  }
  return Ok();
}

}  // namespace gpulens

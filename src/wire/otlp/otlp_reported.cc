// State of the receiver: bases of deltas, which survive a change of the layout, and series that ended, which
// are exported once without a value.
#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/result.h"
#include "wire/otlp/otlp_fields.h"
#include "wire/otlp/otlp_metrics.h"
#include "wire/otlp/otlp_metrics_writer.h"
#include "wire/otlp/otlp_schema.h"

namespace gpulens {
namespace {

using namespace otlp;

// Layouts of one source that are owed their ends. More than so many requests in a row that were taken in
// part, each with another layout, are a receiver that is not well; it then keeps some series for its minutes.
constexpr size_t kMostOwed = 8;

bool SameSeries(const SeriesInfo& a, const SeriesInfo& b) noexcept {
  return a.desc == b.desc && a.attributes == b.attributes;
}

// Whether the frame exports that series in that slot.
bool HasValue(const OtlpLayout& text, const Frame& frame, uint32_t slot, const SeriesInfo& series) noexcept {
  const Layout& layout = *frame.layout;
  return slot < layout.slots() && SameSeries(layout[slot], series) && text.Shows(frame, slot);
}

// Clears those of `slots`, of the layout `of`, whose series is in `in`, too, in a slot for which `has`
// holds.
template <class Has>
void ClearSame(std::vector<uint8_t>& slots, const Layout& of, const Layout& in, Has has) {
  std::unordered_multimap<uint64_t, uint32_t> by_hash;
  for (uint32_t slot = 0; slot < in.slots(); ++slot) {
    if (in[slot].desc && has(slot)) by_hash.emplace(in[slot].attributes.hash(), slot);
  }
  for (uint32_t slot = 0; slot < slots.size(); ++slot) {
    if (!slots[slot]) continue;
    auto [first, last] = by_hash.equal_range(of[slot].attributes.hash());
    for (; first != last; ++first) {
      if (SameSeries(in[first->second], of[slot])) slots[slot] = 0;
    }
  }
}

// As DropDuplicates compares them: the family's name and the attributes.
std::string SeriesKeyOf(const OtlpLayout& text, const OtlpFamily& family, const OtlpPoint& point) {
  std::string key = family.name;
  key += '\0';
  return key.append(text.arena, point.attributes, point.values - point.attributes);
}

// With the kind: other cells are another base.
std::string NameOf(const OtlpLayout& text, const OtlpFamily& family, const OtlpPoint& point) {
  return SeriesKeyOf(text, family, point) += static_cast<char>(family.form);
}

}  // namespace

// --- Deltas ---

void OtlpMetrics::FollowLayouts(const Snapshot& snapshot) {
  for (const SnapshotEntry& entry : snapshot.frames) {
    Bases& bases = SourceOf(entry.source).bases;
    const Ref<const Layout>& layout = entry.frame->layout;
    if (!bases.layout || bases.layout->id() != layout->id() || bases.naming != naming_) Follow(bases, layout);
  }
}

// A series with the same name continues in whatever slot it is now.
void OtlpMetrics::Follow(Bases& bases, const Ref<const Layout>& layout) {
  const OtlpLayout& text = TextOf(layout);
  Bases next;
  next.layout = layout;
  next.naming = naming_;
  next.cells.resize(text.kept);
  next.reported_unix_ns.resize(text.kept);
  if (bases.layout) {
    auto make_names = [this](const Layout& one) { return NameOtlp(one, namer_, options_.style); };
    const OtlpLayout& before = (bases.naming == naming_ ? texts_ : former_).Of(bases.layout, make_names);
    std::unordered_map<std::string, uint32_t> known;
    for (const OtlpFamily& family : before.families) {
      for (uint32_t p = family.first; family.delta && p < family.first + family.count; ++p)
        known.emplace(NameOf(before, family, before.points[p]), p);
    }
    for (const OtlpFamily& family : text.families) {
      for (uint32_t p = family.first; family.delta && p < family.first + family.count; ++p) {
        const auto at = known.find(NameOf(text, family, text.points[p]));
        if (at == known.end()) continue;
        const Shape* now = (*layout)[text.points[p].slot].shape.get();
        const Shape* then = (*bases.layout)[before.points[at->second].slot].shape.get();
        // Other bounds are another histogram: what it counted by the old ones cannot be taken off.
        if (!now != !then || (now && (now->bounds != then->bounds || now->cells() != then->cells())))
          continue;
        const uint32_t from = before.bases[at->second], to = text.bases[p];
        std::copy_n(bases.cells.begin() + from, (*layout)[text.points[p].slot].cells(),
                    next.cells.begin() + to);
        next.reported_unix_ns[to] = bases.reported_unix_ns[from];
      }
    }
  }
  bases = std::move(next);
}

// Whether a point has a delta. If not, its number becomes the base.
bool OtlpMetrics::BeginsDelta(const Reporting& reporting, uint32_t p) {
  const auto& [frame, text, planned, source, number, reported_at] = reporting;
  const OtlpPoint& point = text.points[p];
  Bases& bases = source.bases;
  const uint32_t base = text.bases[p];
  const int64_t at = ReadUnixNs(frame, point.slot);
  const int64_t before = bases.reported_unix_ns[base];
  // The age of a stale reading is known to a millisecond.
  if (before != 0) return frame.quality[point.slot] == Quality::kOk ? at != before : at > before + kNsOfMs;
  const SeriesInfo& info = (*frame.layout)[point.slot];
  if (info.start_known && info.start_unix_ns >= begun_unix_ns_ && info.start_unix_ns <= at) return true;
  std::copy_n(frame.cells.begin() + point.cell, info.cells(), bases.cells.begin() + base);
  bases.reported_unix_ns[base] = at;
  return false;
}

OtlpMetrics::Since OtlpMetrics::SinceOf(const Reporting& reporting, uint32_t p) const {
  const OtlpPoint& point = reporting.text.points[p];
  const SeriesInfo& info = (*reporting.frame.layout)[point.slot];
  const uint32_t base = reporting.text.bases[p];
  const int64_t before = reporting.source.bases.reported_unix_ns[base];
  const int64_t at = ReadUnixNs(reporting.frame, point.slot);
  if (before == 0) return {info.start_unix_ns, nullptr};
  // It was reset since then, so all of it is new. Without a start from the source, a number that fell shows
  // it.
  if (info.start_known && info.start_unix_ns > before) return {std::min(info.start_unix_ns, at), nullptr};
  return {std::min(before, at), &reporting.source.bases.cells[base]};
}

// --- Ends ---

// The last requests were taken, or some of them, and the tick was not: series that came with them alone are
// known to the receiver, too.
void OtlpMetrics::Owe() {
  for (auto& [name, source] : sources_) {
    const Reported &now = source.now, &next = source.next;
    if (!source.touched || !next.layout) continue;
    if (now.layout && now.layout->id() == next.layout->id() && now.shown == next.shown) continue;
    auto known = std::find_if(source.owed.begin(), source.owed.end(),
                              [&](const Reported& one) { return one.layout->id() == next.layout->id(); });
    if (known == source.owed.end()) {
      if (source.owed.size() == kMostOwed) source.owed.erase(source.owed.begin());
      source.owed.push_back({.layout = next.layout, .shown = {}, .age_ms = {}});
      known = source.owed.end() - 1;
    }
    known->shown.resize(next.shown.size());
    for (size_t slot = 0; slot < next.shown.size(); ++slot) known->shown[slot] |= next.shown[slot];
    if (now.layout)
      ClearSame(known->shown, *next.layout, *now.layout, [&](uint32_t slot) { return now.shown[slot] != 0; });
  }
}

// `frame`: the source's current frame; null: the source is gone.
Status OtlpMetrics::ReportEnds(const Snapshot& snapshot, const Source& source, const Frame* frame,
                               Writer& writer) {
  if (source.now.layout) RETURN_IF_ERROR(ReportEnded(snapshot, source.now, frame, writer));
  for (const Reported& owed : source.owed) RETURN_IF_ERROR(ReportEnded(snapshot, owed, frame, writer));
  return Ok();
}

// Ends the series that had a value when exported and have none now.
Status OtlpMetrics::ReportEnded(const Snapshot& snapshot, const Reported& former, const Frame* frame,
                                Writer& writer) {
  ended_.assign(former.shown.size(), 0);
  bool any = false;
  const bool same = frame && frame->layout->id() == former.layout->id();
  const OtlpLayout* const own = frame ? &TextOf(frame->layout) : nullptr;
  for (uint32_t slot = 0; slot < former.shown.size(); ++slot) {
    if (!former.shown[slot]) continue;
    const bool here =
        same ? own->Shows(*frame, slot) : frame && HasValue(*own, *frame, slot, (*former.layout)[slot]);
    ended_[slot] = !here;
    any |= !here;
  }
  if (!any) return Ok();
  if (frame && !same) {
    // One in another slot now continues.
    ClearSame(ended_, *former.layout, *frame->layout,
              [&](uint32_t slot) { return own->Shows(*frame, slot); });
  }
  const OtlpLayout& text = TextOf(former.layout);
  SpareReportedElsewhere(snapshot, frame, text);
  return Flag(text, ended_, writer);
}

// A series that another source exports continues. Only families with an end in them are compared.
void OtlpMetrics::SpareReportedElsewhere(const Snapshot& snapshot, const Frame* own, const OtlpLayout& text) {
  auto for_ended = [&](auto&& use) {
    for (const OtlpFamily& family : text.families) {
      for (uint32_t p = family.first; p < family.first + family.count; ++p) {
        if (ended_[text.points[p].slot]) use(family, text.points[p]);
      }
    }
  };
  std::unordered_set<std::string_view> names;
  for_ended([&](const OtlpFamily& family, const OtlpPoint&) { names.insert(family.name); });
  std::unordered_set<std::string> elsewhere;
  for (size_t i = 0; i < plan_.size(); ++i) {
    const Frame& frame = *snapshot.frames[i].frame;
    if (&frame == own) continue;
    const OtlpLayout& other = TextOf(frame.layout);
    for (const OtlpFamily& family : other.families) {
      if (!names.contains(family.name)) continue;
      for (uint32_t p = family.first; p < family.first + family.count; ++p) {
        const bool dropped = !plan_[i].dropped.empty() && plan_[i].dropped[p];
        if (!dropped && other.Shows(frame, other.points[p].slot))
          elsewhere.insert(SeriesKeyOf(other, family, other.points[p]));
      }
    }
  }
  if (elsewhere.empty()) return;
  for_ended([&](const OtlpFamily& family, const OtlpPoint& point) {
    if (elsewhere.contains(SeriesKeyOf(text, family, point))) ended_[point.slot] = 0;
  });
}

// The points of these slots, each without a value.
Status OtlpMetrics::Flag(const OtlpLayout& text, const std::vector<uint8_t>& slots, Writer& writer) {
  for (const OtlpFamily& family : text.families) {
    if (family.delta) continue;  // a delta that ends is no longer exported
    writer.BeginFamily(family);
    for (uint32_t p = family.first; p < family.first + family.count; ++p) {
      const OtlpPoint& point = text.points[p];
      if (!slots[point.slot]) continue;
      point_.assign(text.arena, point.attributes, point.values - point.attributes);
      if (family.has_start) point_.append(text.arena, point.end - 2 * kFixedBytes, kFixedBytes);
      AppendFixed(point_, kTime, static_cast<uint64_t>(tick_unix_ns_));
      AppendNumber(point_, FieldsOf(PointShape(family.data)).flags, kNoRecordedValue);
      if (writer.Room(point_.size()) == 0) RETURN_IF_ERROR(Flush(writer));
      AppendBytes(writer.Open(), kPoints, point_);
      writer.Count(1);
    }
  }
  return Ok();
}

}  // namespace gpulens

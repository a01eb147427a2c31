// What a receiver was told and is not told any more: once, without a value.
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

namespace gpulens {
namespace {

using namespace otlp;

// Layouts of one source that are owed their ends. More than so many requests in a row that were taken in
// part, each with another layout, are a receiver that is not well; it then keeps some series for its minutes.
constexpr size_t kMostOwed = 8;

bool SameSeries(const SeriesInfo& a, const SeriesInfo& b) noexcept {
  return a.desc == b.desc && a.attributes == b.attributes;
}

// Whether a layout has that series, and with it its slot's quality as it is now.
bool HasValue(const Layout& layout, const Frame& frame, uint32_t slot, const SeriesInfo& series) noexcept {
  return slot < layout.slots() && SameSeries(layout[slot], series) && frame.quality[slot] != Quality::kAbsent;
}

// Clears those of `slots`, of the layout `of`, whose series stands in `in`, too, in a slot for which `has`
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

std::string KeyOf(const OtlpLayout& text, const OtlpFamily& family, const OtlpPoint& point) {
  std::string key = family.name;
  key += '\0';
  return key.append(text.arena, point.attributes, point.values - point.attributes);
}

}  // namespace

// The last requests were taken, or some of them, and the tick was not: series that came with them alone are
// known to the receiver, too.
void OtlpMetrics::Owe() {
  for (auto& [name, source] : sources_) {
    const Told &now = source.now, &next = source.next;
    if (!source.touched || !next.layout) continue;
    if (now.layout && now.layout->id() == next.layout->id() && now.shown == next.shown) continue;
    auto known = std::find_if(source.owed.begin(), source.owed.end(),
                              [&](const Told& one) { return one.layout->id() == next.layout->id(); });
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

// `frame`: what its source says now; null: it is gone.
Status OtlpMetrics::TellEnds(const Snapshot& snapshot, const Source& source, const Frame* frame,
                             Writer& writer) {
  if (source.now.layout) RETURN_IF_ERROR(TellEnded(snapshot, source.now, frame, writer));
  for (const Told& owed : source.owed) RETURN_IF_ERROR(TellEnded(snapshot, owed, frame, writer));
  return Ok();
}

// What had a value when it was told and has none now.
Status OtlpMetrics::TellEnded(const Snapshot& snapshot, const Told& told, const Frame* frame,
                              Writer& writer) {
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
    ClearSame(ended_, *told.layout, *frame->layout,
              [&](uint32_t slot) { return frame->quality[slot] != Quality::kAbsent; });
  }
  const OtlpLayout& text = TextOf(told.layout);
  SpareToldElsewhere(snapshot, frame, text);
  return Flag(text, ended_, writer);
}

// A series that another source tells goes on. Only families with an end in them are looked at.
void OtlpMetrics::SpareToldElsewhere(const Snapshot& snapshot, const Frame* own, const OtlpLayout& text) {
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
        if (!dropped && frame.quality[other.points[p].slot] != Quality::kAbsent)
          elsewhere.insert(KeyOf(other, family, other.points[p]));
      }
    }
  }
  if (elsewhere.empty()) return;
  for_ended([&](const OtlpFamily& family, const OtlpPoint& point) {
    if (elsewhere.contains(KeyOf(text, family, point))) ended_[point.slot] = 0;
  });
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

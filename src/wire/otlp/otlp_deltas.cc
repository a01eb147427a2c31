// Against what deltas are told, and how that survives a change of the layout.
#include <algorithm>
#include <string>
#include <unordered_map>

#include "wire/otlp/otlp_metrics.h"
#include "wire/otlp/otlp_metrics_writer.h"

namespace gpulens {
namespace {

// As its receiver knows it: the family's name and kind, and the attributes.
std::string NameOf(const OtlpLayout& text, const OtlpFamily& family, const OtlpPoint& point) {
  std::string name = family.name;
  name += '\0';
  name += static_cast<char>(family.form);
  name.append(text.arena, point.attributes, point.values - point.attributes);
  return name;
}

}  // namespace

void OtlpMetrics::FollowLayouts(const Snapshot& snapshot) {
  for (const SnapshotEntry& entry : snapshot.frames) {
    Bases& bases = SourceOf(entry.source).bases;
    const Ref<const Layout>& layout = entry.frame->layout;
    if (!bases.layout || bases.layout->id() != layout->id() || bases.spelling != spelling_)
      Follow(bases, layout);
  }
}

// A series that is told as before goes on, wherever it stands now.
void OtlpMetrics::Follow(Bases& bases, const Ref<const Layout>& layout) {
  const OtlpLayout& text = TextOf(layout);
  Bases next;
  next.layout = layout;
  next.spelling = spelling_;
  next.cells.resize(text.kept);
  next.told_unix_ns.resize(text.kept);
  if (bases.layout) {
    auto spell = [this](const Layout& one) { return SpellOtlp(one, speller_, options_.style); };
    const OtlpLayout& before = (bases.spelling == spelling_ ? texts_ : former_).Of(bases.layout, spell);
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
        next.told_unix_ns[to] = bases.told_unix_ns[from];
      }
    }
  }
  bases = std::move(next);
}

// Whether there is something to be told of a point. Where there is not, its number is the base from now on.
bool OtlpMetrics::BeginsDelta(const Telling& telling, uint32_t p) {
  const auto& [frame, text, planned, source, number, told] = telling;
  const OtlpPoint& point = text.points[p];
  Bases& bases = source.bases;
  const uint32_t base = text.bases[p];
  const int64_t at = ReadUnixNs(frame, point.slot);
  const int64_t before = bases.told_unix_ns[base];
  // The age of a stale reading is known to a millisecond.
  if (before != 0) return frame.quality[point.slot] == Quality::kOk ? at != before : at > before + kNsOfMs;
  const SeriesInfo& info = (*frame.layout)[point.slot];
  if (info.start_known && info.start_unix_ns >= begun_unix_ns_ && info.start_unix_ns <= at) return true;
  std::copy_n(frame.cells.begin() + point.cell, info.cells(), bases.cells.begin() + base);
  bases.told_unix_ns[base] = at;
  return false;
}

OtlpMetrics::Since OtlpMetrics::SinceOf(const Telling& telling, uint32_t p) const {
  const OtlpPoint& point = telling.text.points[p];
  const SeriesInfo& info = (*telling.frame.layout)[point.slot];
  const uint32_t base = telling.text.bases[p];
  const int64_t before = telling.source.bases.told_unix_ns[base];
  const int64_t at = ReadUnixNs(telling.frame, point.slot);
  if (before == 0) return {info.start_unix_ns, nullptr};
  // It began anew since then, so all that it has is new. Where its source does not tell, a number that fell
  // does.
  if (info.start_known && info.start_unix_ns > before) return {std::min(info.start_unix_ns, at), nullptr};
  return {std::min(before, at), &telling.source.bases.cells[base]};
}

}  // namespace gpulens

#include "wire/otlp/otlp_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/result.h"
#include "wire/otlp/otlp_fields.h"
#include "wire/otlp/otlp_metrics_writer.h"

namespace gpulens {
using namespace otlp;

OtlpMetrics::OtlpMetrics(SeriesNamer namer, const Options& options)
    : namer_(std::move(namer)), options_(options) {}

const OtlpLayout& OtlpMetrics::TextOf(const Ref<const Layout>& layout) {
  return texts_.Of(layout, [this](const Layout& one) { return NameOtlp(one, namer_, options_.style); });
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
  if (namer_.Refresh(snapshot)) {
    former_ = std::exchange(texts_, {});
    ++naming_;
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
  for (Precedence precedence : {Precedence::kNative, Precedence::kPassThrough}) {
    for (size_t i = 0; i < plan_.size(); ++i) {
      if (snapshot.frames[i].precedence != precedence) continue;
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
  if (std::exchange(uncommitted_, false)) Owe();
  const Take counted = [&](std::string_view request, uint32_t points) {
    Status taken = take(request, points);
    uncommitted_ |= taken.ok();
    return taken;
  };
  return EncodeNew(snapshot, counted);
}

Status OtlpMetrics::EncodeNew(const Snapshot& snapshot, const Take& take) {
  if (ImageFits(snapshot)) return ReportImage(snapshot, take);
  const bool choices = options_.style.delta_counters || options_.style.delta_histograms;
  image_.kept = image_.made = false;
  image_.recording = options_.keep_request && !choices && requests_ == 1;
  image_.patches.clear();
  image_.runs.clear();
  requests_ = 0;
  if (!PlanFits(snapshot)) Plan(snapshot);
  for (auto& [name, source] : sources_) source.touched = false;
  tick_unix_ns_ = snapshot.closed_at.unix_ns;
  if (begun_unix_ns_ == 0) begun_unix_ns_ = tick_unix_ns_;
  pending_.clear();
  if (choices) FollowLayouts(snapshot);
  former_ = {};
  Writer writer(request_, resource_bytes_, options_, take);
  for (uint32_t i = 0; i < plan_.size(); ++i) {
    Source& source = SourceOf(snapshot.frames[i].source);
    source.touched = true;
    RETURN_IF_ERROR(Report(snapshot, i, source, writer));
  }
  for (auto& [name, source] : sources_) {
    if (source.touched) continue;
    writer.BeginScope(source.scope);
    RETURN_IF_ERROR(ReportEnds(snapshot, source, nullptr, writer));
    source.next = {};
  }
  RETURN_IF_ERROR(Flush(writer));
  points_ = writer.total();
  // What was told once alone (a flag, an exemplar, a stale reading) would have to be told again.
  image_.made = image_.recording && requests_ == 1 && points_ == image_.patches.size();
  if (image_.made) {
    image_.qualities.resize(snapshot.frames.size());
    for (size_t i = 0; i < snapshot.frames.size(); ++i)
      image_.qualities[i] = snapshot.frames[i].frame->quality;
  }
  texts_.Forget();
  return Ok();
}

void OtlpMetrics::Commit() {
  uncommitted_ = false;
  for (auto& [name, source] : sources_) {
    std::swap(source.now, source.next);
    source.owed.clear();
  }
  image_.kept |= std::exchange(image_.made, false);
  std::erase_if(sources_, [](const auto& item) { return !item.second.now.layout; });
}

// Deltas are told from here on against what this request had.
Status OtlpMetrics::Flush(Writer& writer) {
  requests_ += writer.points() != 0;
  RETURN_IF_ERROR(writer.Flush());
  for (const Pending& one : pending_) {
    std::copy_n(one.cells, one.count, one.bases->cells.begin() + one.base);
    one.bases->reported_unix_ns[one.base] = one.unix_ns;
  }
  pending_.clear();
  return Ok();
}

void OtlpMetrics::Remember(const Frame& frame, const Planned& planned, const OtlpLayout& text,
                           Reported& next) {
  next.layout = frame.layout;
  next.read_unix_ns = frame.read_at.unix_ns;
  next.age_ms = frame.age_ms;
  next.shown.resize(frame.quality.size());
  for (size_t slot = 0; slot < next.shown.size(); ++slot)
    next.shown[slot] = text.Shows(frame, static_cast<uint32_t>(slot));
  // What another source tells is not this one's to end.
  for (size_t p = 0; p < planned.dropped.size(); ++p) {
    if (planned.dropped[p]) next.shown[text.points[p].slot] = 0;
  }
}

// When the reading that the receiver has of a slot was made, as far as that is known. Ages are cut to
// milliseconds: the time of one reading may come out up to one later from another frame.
int64_t OtlpMetrics::Reported::ReadingUnixNs(uint64_t layout_id, uint32_t slot) const noexcept {
  if (!layout) return std::numeric_limits<int64_t>::min();
  const bool known = layout->id() == layout_id && slot < age_ms.size() && shown[slot];
  return read_unix_ns - (known ? int64_t{age_ms[slot]} * kNsOfMs : 0);
}

// The points of one frame that its receiver has not seen.
Status OtlpMetrics::Report(const Snapshot& snapshot, uint32_t number, Source& source, Writer& writer) {
  const Frame& frame = *snapshot.frames[number].frame;
  Reporting reporting{frame, TextOf(frame.layout), plan_[number], source, number};
  if (source.now.layout) reporting.reported_unix_ns = source.now.read_unix_ns;
  Remember(frame, reporting.planned, reporting.text, source.next);
  writer.BeginScope(source.scope);
  RETURN_IF_ERROR(ReportEnds(snapshot, source, &frame, writer));
  // A tick that leaves one out is no pattern for the next.
  image_.recording &= frame.read_at.unix_ns != reporting.reported_unix_ns && frame.age_ms.empty();
  if (frame.read_at.unix_ns == reporting.reported_unix_ns) return Ok();
  for (const OtlpFamily& family : reporting.text.families)
    RETURN_IF_ERROR(ReportFamily(reporting, family, writer));
  return Ok();
}

Status OtlpMetrics::ReportFamily(const Reporting& reporting, const OtlpFamily& family, Writer& writer) {
  const auto& [frame, text, planned, source, number, told] = reporting;
  const bool examples = !frame.exemplars.empty() && FieldsOf(family.form).exemplars != 0;
  auto fresh = [&](uint32_t p) {
    const uint32_t slot = text.points[p].slot;
    const Quality quality = frame.quality[slot];
    if (!planned.dropped.empty() && planned.dropped[p]) return false;
    if (!text.Shows(frame, slot)) return false;
    // What is as old as when it was last told is not told again.
    if ((quality == Quality::kStale || frame.AgeMs(slot) != 0) &&
        ReadUnixNs(frame, slot) < source.now.ReadingUnixNs(frame.layout->id(), slot) + kNsOfMs)
      return false;
    return !family.delta || BeginsDelta(reporting, p);
  };
  auto alone = [&](uint32_t p) { return examples && HasExemplar(reporting, p); };
  writer.BeginFamily(family);
  const uint32_t end = family.first + family.count;
  for (uint32_t p = family.first; p < end;) {
    if (!fresh(p)) {
      ++p;
      continue;
    }
    if (alone(p)) {
      RETURN_IF_ERROR(ReportWithExemplars(reporting, family, p++, writer));
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
    for (uint32_t i = begin; i < p; ++i) {
      const size_t place = at + (text.points[i].end - from);
      PutNumbers(reporting, family, i, out.data() + place);
      if (image_.recording) Record(reporting, family, i, place);
    }
    writer.Count(p - begin);
  }
  return Ok();
}

}  // namespace gpulens

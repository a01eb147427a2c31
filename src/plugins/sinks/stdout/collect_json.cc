#include "plugins/sinks/stdout/collect_forms.h"

#include <algorithm>

#include "base/text.h"
#include "catalog/all.h"
#include "catalog/self.h"
#include "wire/json/json_text.h"

namespace gpulens {
namespace {

void AppendObject(std::string& out, const std::vector<AttributeSet::Attribute>& attributes) {
  char before = '{';
  for (const AttributeSet::Attribute& attribute : attributes) {
    out += before;
    before = ',';
    AppendJsonAttribute(out, attribute);
  }
  out += before == '{' ? "{}" : "}";
}

std::string NameAndUnit(std::string_view name, std::string_view unit) {
  std::string text = "{\"name\":";
  AppendJsonString(text, name);
  text += ",\"unit\":";
  AppendJsonString(text, unit);
  return text;
}

// Whether it is a GPU, or an instance or a partition of one.
bool IsGpu(const EntityGroup& group) {
  if (group.type == "process" || group.type == "link") return false;
  return std::ranges::any_of(group.known_by, [](const auto& attribute) {
    return attribute.key == "gpu.index" || attribute.key == "gpu.uuid";
  });
}

}  // namespace

CollectJson::CollectJson(bool gpus_only, const SinkNames& names)
    : gpus_only_(gpus_only),
      native_(names.uses(kNativeNaming)),
      others_(names.uses_others()),
      namer_(names.namer(NameForm::kOtel)),
      attribute_filter_(names.attribute_filter()),
      durations_(kSelfCollectorDuration) {}

CollectJson::Groups CollectJson::MakeNames(const Layout& layout) const {
  Groups groups;
  for (const EntityGroup& from : GroupByEntity(layout)) {
    if (gpus_only_ && !IsGpu(from)) continue;
    Group& group = groups.emplace_back();
    group.entity = "\"entity_type\":";
    AppendJsonString(group.entity, from.type);
    group.entity += ",\"entity\":";
    AppendObject(group.entity, from.known_by);
    for (const EntityReading& reading : from.readings)
      NameReading(layout[reading.slot], reading, from, group);
  }
  return groups;
}

void CollectJson::NameReading(const SeriesInfo& info, const EntityReading& reading, const EntityGroup& from,
                              Group& group) const {
  AttributeSet attributes = info.attributes;
  const bool shown = !attribute_filter_ || attribute_filter_(info, attributes);
  if (native_ && shown) {
    std::vector<AttributeSet::Attribute> extra(attributes.begin(), attributes.end());
    AddReading({reading.slot, NameAndUnit(info.desc->name, info.desc->unit)}, std::move(extra), from, group);
  }
  if (!others_) return;
  std::vector<NamedSeries> names;
  namer_(info, names);
  // The native name, which comes first, is written above with its attributes unchanged.
  const bool native_first = native_ && shown && !info.desc->translated_only;
  for (const NamedSeries& name : std::span(names).subspan(native_first ? 1 : 0)) {
    std::vector<AttributeSet::Attribute> extra;
    for (const auto& [key, value] : name.labels) extra.push_back({key, std::string_view(value)});
    AddReading({reading.slot, NameAndUnit(name.name, name.unit), name.scale, name.whole}, std::move(extra),
               from, group);
  }
}

// Omits attributes of the entity.
void CollectJson::AddReading(Reading reading, std::vector<AttributeSet::Attribute> extra,
                             const EntityGroup& from, Group& group) {
  std::erase_if(extra, [&](const AttributeSet::Attribute& attribute) {
    return std::ranges::find(from.known_by, attribute.key, &AttributeSet::Attribute::key) !=
           from.known_by.end();
  });
  if (!extra.empty()) {
    reading.text += ",\"attributes\":";
    AppendObject(reading.text, extra);
  }
  group.readings.push_back(std::move(reading));
}

// Returns the common start of all elements of a collector.
std::string CollectJson::HeadOf(const SnapshotEntry& entry, const Snapshot& snapshot) {
  std::string head = "{\"schema\":\"gpulens.collect/1\",\"collector\":";
  AppendJsonString(head, entry.source);
  head += ",\"read_at\":\"";
  AppendRfc3339(head, entry.frame->read_at.unix_ns);
  head += "\",";
  durations_.ForEach(snapshot, [&](const SeriesInfo& info, double value, const Frame&, uint32_t) {
    if (info.attributes.Text("collector") != entry.source) return;
    AppendJsonMember(head, "duration_s", value);
    head += ',';
  });
  if (!snapshot.resource.empty()) {
    head += "\"resource\":";
    AppendJsonAttributes(head, snapshot.resource);
    head += ',';
  }
  return head;
}

void CollectJson::AppendReadings(const Group& group, const SnapshotEntry& entry, Instant now, bool& any,
                                 std::string& out) {
  const Frame& frame = *entry.frame;
  for (const Reading& reading : group.readings) {
    Quality quality = frame.quality[reading.slot];
    if (quality == Quality::kAbsent) continue;
    if (any) out += ',';
    any = true;
    out += reading.text;
    out += ',';
    AppendJsonReading(out, frame, reading.slot, reading.scale, reading.whole);
    bool stale = quality == Quality::kStale || entry.overdue;
    out += stale ? ",\"quality\":\"stale\",\"age_s\":" : ",\"quality\":\"ok\",\"age_s\":";
    AppendJsonSeconds(out, AgeMsAt(frame, reading.slot, now));
    out += '}';
  }
}

void CollectJson::AppendAbsent(const Group& group, const SnapshotEntry& entry, bool& any, std::string& out) {
  const Frame& frame = *entry.frame;
  for (const Reading& reading : group.readings) {
    if (frame.quality[reading.slot] != Quality::kAbsent) continue;
    if (any) out += ',';
    any = true;
    out += reading.text;
    // A frame of another maker may lack the reasons.
    if (reading.slot < frame.absence.size()) {
      out += ",\"reason\":";
      AppendJsonString(out, AbsenceName(frame.absence[reading.slot]));
    }
    out += '}';
  }
}

const CollectJson::Groups& CollectJson::GroupsOf(const SnapshotEntry& entry) {
  return groups_.Of(entry.frame->layout, [this](const Layout& layout) { return MakeNames(layout); });
}

const CollectJson::Group* CollectJson::SameIn(const SnapshotEntry& entry, const Group& group) {
  if (!gpus_only_ || entry.source == kSelfSource) return nullptr;
  for (const Group& other : GroupsOf(entry)) {
    if (other.entity == group.entity) return &other;
  }
  return nullptr;
}

// Appends a GPU with its readings of all frames.
void CollectJson::AppendGroup(const Group& group, std::span<const SnapshotEntry> entries, Instant now,
                              std::string& out) {
  out += group.entity;
  out += ",\"readings\":[";
  bool any = false;
  AppendReadings(group, entries[0], now, any, out);
  for (const SnapshotEntry& entry : entries.subspan(1)) {
    if (const Group* more = SameIn(entry, group)) AppendReadings(*more, entry, now, any, out);
  }
  out += "],\"absent\":[";
  any = false;
  AppendAbsent(group, entries[0], any, out);
  for (const SnapshotEntry& entry : entries.subspan(1)) {
    if (const Group* more = SameIn(entry, group)) AppendAbsent(*more, entry, any, out);
  }
  out += "]}";
}

void CollectJson::Append(const Snapshot& snapshot, std::string& out) {
  if (namer_.Refresh(snapshot)) groups_ = {};
  out += '[';
  bool any = false;
  std::span<const SnapshotEntry> entries = snapshot.frames;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].source == kSelfSource) continue;
    const Groups& groups = GroupsOf(entries[i]);
    if (groups.empty()) continue;
    std::string head = HeadOf(entries[i], snapshot);
    for (const Group& group : groups) {
      bool written =
          std::any_of(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(i),
                      [&](const SnapshotEntry& before) { return SameIn(before, group) != nullptr; });
      if (written) continue;
      if (any) out += ",";
      any = true;
      out += head;
      AppendGroup(group, entries.subspan(i), snapshot.closed_at, out);
    }
  }
  out += "]\n";
  groups_.Forget();
}

}  // namespace gpulens

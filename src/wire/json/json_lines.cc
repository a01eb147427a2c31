#include "wire/json/json_lines.h"

#include "base/text.h"
#include "wire/json/json_text.h"

namespace gpulens {
namespace {

NamedSeries AsItIs(const SeriesInfo& info) {
  NamedSeries told;
  told.name = info.desc->name;
  told.unit = info.desc->unit;
  return told;
}

// Labels are texts; one that equals an attribute of the series keeps the attribute's type.
AttributeSet Typed(const NamedSeries& told, const AttributeSet& own) {
  std::vector<AttributeSet::Attribute> attributes;
  for (const auto& [key, text] : told.labels) {
    const bool same = own.Has(key) && own.Text(key) == text;
    attributes.push_back({key, same ? own.Find(key, {}) : AttributeSet::Value(std::string_view(text))});
  }
  return AttributeSet(std::span<const AttributeSet::Attribute>(attributes));
}

}  // namespace

void JsonLines::AddLine(const SeriesInfo& info, const NamedSeries& told, std::string_view source, Line line,
                        LayoutLines& text) const {
  line.scale = told.scale;
  line.whole = told.whole;
  line.only_if_set = told.only_if_set;
  line.text = static_cast<uint32_t>(text.arena.size());
  text.arena += "\",\"name\":";
  AppendJsonString(text.arena, told.name);
  text.arena += ",\"unit\":";
  AppendJsonString(text.arena, told.unit);
  text.arena += ",\"source\":";
  AppendJsonString(text.arena, source);
  text.arena += ",\"attributes\":";
  const AttributeSet attributes = namer_ ? Typed(told, info.attributes) : info.attributes;
  AppendJsonAttributes(text.arena, attributes.OverlaidOn(resource_));
  text.arena += ',';
  line.text_size = static_cast<uint32_t>(text.arena.size()) - line.text;
  text.lines.push_back(line);
}

JsonLines::LayoutLines JsonLines::MakeNames(const Layout& layout, std::string_view source) const {
  LayoutLines text;
  std::vector<NamedSeries> names;
  for (uint32_t slot = 0; slot < layout.slots(); ++slot) {
    const SeriesInfo& info = layout[slot];
    if (!info.desc) continue;
    names.clear();
    if (namer_) (*namer_)(info, names);
    else names.push_back(AsItIs(info));
    Line line;
    line.slot = slot;
    for (const NamedSeries& told : names) AddLine(info, told, source, line, text);
  }
  return text;
}

void JsonLines::Append(const Snapshot& snapshot, std::string& out) {
  const bool renamed = namer_ && namer_->Refresh(snapshot);
  if (renamed || !(snapshot.resource == resource_)) {
    resource_ = snapshot.resource;
    texts_ = {};
  }
  appended_.clear();
  std::string when;
  for (const SnapshotEntry& entry : snapshot.frames) {
    const Frame& frame = *entry.frame;
    const LayoutLines& text =
        texts_.Of(frame.layout, [&](const Layout& layout) { return MakeNames(layout, entry.source); });
    Run run{frame.run, frame.read_at.boot_ns};
    auto before = written_.find(entry.source);
    bool known = before != written_.end() && before->second == run;
    appended_[std::string(entry.source)] = run;
    if (known) continue;
    when = "{\"ts\":\"";
    AppendRfc3339(when, frame.read_at.unix_ns);
    for (const Line& line : text.lines) {
      if (frame.quality[line.slot] != Quality::kOk) continue;
      if (line.only_if_set && frame.cells[(*frame.layout)[line.slot].first_cell].i == 0) continue;
      out += when;
      out.append(text.arena, line.text, line.text_size);
      AppendJsonReading(out, frame, line.slot, line.scale, line.whole);
      out += "}\n";
    }
  }
  texts_.Forget();
}

void JsonLines::Commit() { written_.swap(appended_); }

std::string_view JsonSeverityName(EventSeverity severity) noexcept {
  switch (severity) {
    case EventSeverity::kUnset: return "unset";
    case EventSeverity::kInfo: return "info";
    case EventSeverity::kWarning: return "warning";
    case EventSeverity::kError: return "error";
    case EventSeverity::kFatal: return "fatal";
  }
  return "unset";
}

void AppendJsonEvent(std::string& out, const Event& event, const AttributeSet& resource) {
  out += "{\"ts\":\"";
  AppendRfc3339(out, event.at.unix_ns);
  out += "\",\"type\":\"event\",\"name\":";
  AppendJsonString(out, event.name);
  out += ",\"severity\":\"";
  out += JsonSeverityName(event.severity);
  out += "\",\"body\":";
  AppendJsonString(out, event.body);
  out += ",\"attributes\":";
  AppendJsonAttributes(out, event.attributes);
  if (event.entity) {
    out += ",\"entity_type\":";
    AppendJsonString(out, event.entity->type);
    AttributeSet known_by;
    for (const Entity* entity = event.entity.get(); entity; entity = entity->parent.get()) {
      known_by = known_by.OverlaidOn(entity->attributes);
    }
    out += ",\"entity\":";
    AppendJsonAttributes(out, known_by);
  }
  if (!resource.empty()) {
    out += ",\"resource\":";
    AppendJsonAttributes(out, resource);
  }
  out += '}';
}

void AppendJsonEvents(std::string& out, const Events& events) {
  for (const Event& event : events.list) {
    AppendJsonEvent(out, event, events.resource);
    out += '\n';
  }
}

}  // namespace gpulens

#include "wire/json/json_snapshot.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "base/text.h"
#include "wire/json/json_text.h"

namespace gpulens {
namespace {

constexpr std::string_view kSchema = "gpulens.json/1";

// `"kind":"gauge","unit":"W",`
std::string KindAndUnit(Kind kind, std::string_view unit) {
  std::string out;
  AppendJsonKey(out, "kind");
  AppendJsonString(out, KindName(kind));
  out += ',';
  AppendJsonKey(out, "unit");
  AppendJsonString(out, unit);
  out += ',';
  return out;
}

// Appends what follows the source of a series without a value.
void AppendAbsence(const Frame& frame, uint32_t slot, std::string& out) {
  // A frame from another source may not have the reason.
  if (slot < frame.absence.size()) {
    AppendJsonKey(out, "reason");
    AppendJsonString(out, AbsenceName(frame.absence[slot]));
    out += '}';
  } else {
    out.back() = '}';  // instead of the comma
  }
}

bool IsSet(const Frame& frame, uint32_t slot) noexcept {
  return frame.cells[(*frame.layout)[slot].first_cell].i != 0;
}

std::string HelpOf(std::string_view help) {
  std::string out;
  AppendJsonKey(out, "help");
  AppendJsonString(out, help);
  out += ',';
  return out;
}

}  // namespace

void JsonSnapshot::AlwaysShow(std::vector<NamedSeries> families) {
  always_ = std::move(families);
  planned_.Clear();
}

JsonSnapshot::LayoutText JsonSnapshot::MakeNames(const Layout& layout) const {
  struct Draft {
    struct Series {
      uint32_t slot;
      AttributeSet attributes;
      bool only_if_set;
    };
    std::vector<Series> series;
    std::set<std::string> names;
    const MetricDesc* desc = nullptr;
  };
  std::map<std::tuple<std::string_view, Kind, std::string_view>, Draft> drafts;
  std::vector<NamedSeries> namings;
  for (uint32_t slot = 0; slot < layout.slots(); ++slot) {
    const SeriesInfo& info = layout[slot];
    AttributeSet attributes = info.attributes;
    if (!info.desc || (attribute_filter_ && !attribute_filter_(info, attributes))) continue;
    namings.clear();
    namer_(info, namings);
    if (namings.empty()) continue;
    Draft& draft = drafts[{info.desc->name, info.desc->kind, info.desc->unit}];
    draft.desc = info.desc;
    draft.series.push_back(
        {slot, std::move(attributes), std::ranges::all_of(namings, &NamedSeries::only_if_set)});
    for (NamedSeries& named : namings) draft.names.insert(std::move(named.name));
  }
  LayoutText text;
  for (auto& [key, draft] : drafts) {
    Family family;
    family.name = draft.desc->name;
    family.own = KindAndUnit(draft.desc->kind, draft.desc->unit);
    family.head = family.own + HelpOf(draft.desc->help);
    family.names.assign(draft.names.begin(), draft.names.end());
    family.first_line = static_cast<uint32_t>(text.lines.size());
    family.lines = static_cast<uint32_t>(draft.series.size());
    for (const auto& [slot, attributes, only_if_set] : draft.series) {
      Line line;
      line.only_if_set = only_if_set;
      line.text = static_cast<uint32_t>(text.arena.size());
      line.slot = slot;
      text.arena += "{\"attributes\":";
      AppendJsonAttributes(text.arena, attributes);
      text.arena += ',';
      line.text_size = static_cast<uint32_t>(text.arena.size()) - line.text;
      text.lines.push_back(line);
    }
    text.families.push_back(std::move(family));
  }
  text.arena.shrink_to_fit();
  return text;
}

// Collects the families of all layouts and lays them out as one object.
class JsonSnapshot::Planner {
 public:
  explicit Planner(JsonSnapshot& page) : page_(page) {}

  void Add(const LayoutText& text, uint32_t frame, const SnapshotEntry& entry) {
    std::string source;
    AppendJsonKey(source, "source");
    AppendJsonString(source, entry.source);
    source += ',';
    sources_.push_back(std::move(source));
    for (const Family& family : text.families) parts_.push_back({&family, &text, frame, entry.precedence});
  }

  void Finish() {
    // Families of one frame are in one vector, so their addresses give their order.
    std::sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) {
      return std::tie(a.family->name, a.precedence, a.frame, a.family) <
             std::tie(b.family->name, b.precedence, b.frame, b.family);
    });
    for (size_t first = 0; first < parts_.size();) {
      size_t last = first + 1;
      while (last < parts_.size() && parts_[last].family->name == parts_[first].family->name) ++last;
      AddFamily(first, last);
      first = last;
    }
    for (const NamedSeries& series : page_.always_) AddEmpty(series);
    page_.end_ = (any_ ? "]}" : "") + std::string("\n}}\n");
  }

 private:
  struct Part {
    const Family* family;
    const LayoutText* text;
    uint32_t frame;
    Precedence precedence;
  };

  // The text between the last series of the family before and the first of this one.
  std::string Begin(std::string_view name, std::string_view head, const std::set<std::string>& names) {
    std::string out = any_ ? "]},\n" : "\n";
    any_ = true;
    AppendJsonString(out, name);
    out += ":{";
    out += head;
    out += "\"names\":[";
    const char* before = "";
    for (const std::string& each : names) {
      out += before;
      before = ",";
      AppendJsonString(out, each);
    }
    out += "],\"series\":[";
    return out;
  }

  void AddFamily(size_t first, size_t last) {
    const Family& family = *parts_[first].family;
    std::set<std::string> names;
    for (size_t i = first; i < last; ++i)
      names.insert(parts_[i].family->names.begin(), parts_[i].family->names.end());
    shown_.insert(names.begin(), names.end());
    shown_.insert(family.name);
    std::string before = Begin(family.name, family.head, names);
    for (size_t i = first; i < last; ++i) {
      const Part& part = parts_[i];
      Segment segment;
      segment.before = std::exchange(before, {});
      segment.source = sources_[part.frame];
      if (part.family->own != family.own) segment.source += part.family->own;
      segment.text = part.text;
      segment.frame = part.frame;
      segment.first = part.family->first_line;
      segment.count = part.family->lines;
      page_.segments_.push_back(std::move(segment));
    }
  }

  void AddEmpty(const NamedSeries& series) {
    if (!shown_.insert(series.name).second) return;
    Segment segment;
    segment.before =
        Begin(series.name, KindAndUnit(series.kind, series.unit) + HelpOf(series.help), {series.name});
    page_.segments_.push_back(std::move(segment));
  }

  JsonSnapshot& page_;
  std::vector<std::string> sources_;
  std::vector<Part> parts_;
  std::set<std::string> shown_;
  bool any_ = false;
};

void JsonSnapshot::Plan(const Snapshot& snapshot) {
  segments_.clear();
  planned_.Set(snapshot);
  if (namer_.Refresh(snapshot)) texts_ = {};
  Planner planner(*this);
  for (uint32_t i = 0; i < snapshot.frames.size(); ++i) {
    const SnapshotEntry& entry = snapshot.frames[i];
    planner.Add(texts_.Of(entry.frame->layout, [this](const Layout& layout) { return MakeNames(layout); }), i,
                entry);
  }
  planner.Finish();
  texts_.Forget();
}

const char* JsonSnapshot::RenderSegment(const Segment& segment, const Snapshot& snapshot, Which which,
                                        const char* before, std::string& out) const {
  if (segment.count == 0) return before;
  const SnapshotEntry& entry = snapshot.frames[segment.frame];
  const Frame& frame = *entry.frame;
  const Line* line = &segment.text->lines[segment.first];
  for (const Line* end = line + segment.count; line != end; ++line) {
    const Quality quality = frame.quality[line->slot];
    if ((quality == Quality::kAbsent) != (which == Which::kAbsent)) continue;
    if (line->only_if_set && (which == Which::kAbsent || !IsSet(frame, line->slot))) continue;
    out += before;
    before = kNext;
    out.append(segment.text->arena, line->text, line->text_size);
    out += segment.source;
    if (which == Which::kAbsent) {
      AppendAbsence(frame, line->slot, out);
      continue;
    }
    AppendJsonReading(out, frame, line->slot);
    bool stale = quality == Quality::kStale || entry.overdue;
    out += stale ? ",\"quality\":\"stale\",\"age_s\":" : ",\"quality\":\"ok\",\"age_s\":";
    AppendJsonSeconds(out, AgeMsAt(frame, line->slot, snapshot.closed_at));
    out += '}';
  }
  return before;
}

size_t JsonSnapshot::RenderFamily(size_t first, const Snapshot& snapshot, std::string& out) const {
  size_t last = first + 1;
  while (last < segments_.size() && segments_[last].before.empty()) ++last;
  out += segments_[first].before;
  const char* before = kFirst;
  for (size_t i = first; i < last; ++i)
    before = RenderSegment(segments_[i], snapshot, Which::kValued, before, out);
  before = "],\"absent\":[\n";
  for (size_t i = first; i < last; ++i)
    before = RenderSegment(segments_[i], snapshot, Which::kAbsent, before, out);
  return last;
}

void JsonSnapshot::Render(const Snapshot& snapshot, std::string_view members, std::string& out) {
  if (!planned_.Fits(snapshot)) Plan(snapshot);
  out.clear();
  out += "{\"schema\":";
  AppendJsonString(out, kSchema);
  if (!members.empty()) out += ",\n";
  out += members;
  out += ",\n\"tick\":";
  AppendJsonInt(out, static_cast<int64_t>(snapshot.tick));
  out += ",\"last_update_ms\":";
  AppendJsonInt(out, snapshot.closed_at.unix_ns / 1'000'000);
  out += ",\n\"resource\":";
  AppendJsonAttributes(out, snapshot.resource);
  out += ",\n\"metrics\":{";
  for (size_t i = 0; i < segments_.size();) i = RenderFamily(i, snapshot, out);
  out += end_;
}

std::map<std::string, MemoryByProcess::Bytes> MemoryByProcess::Of(const Snapshot& snapshot) {
  std::map<std::string, Bytes> found;
  auto collect = [&](std::optional<int64_t> Bytes::* member) {
    return [&found, member](const SeriesInfo& info, double value, const Frame&, uint32_t) {
      if (!info.attributes.Has("process.pid") || !info.attributes.Has("gpu.index")) return;
      std::string key = info.attributes.Text("process.pid") + ":" + info.attributes.Text("gpu.index");
      std::optional<int64_t>& bytes = found[std::move(key)].*member;
      if (!bytes) bytes = static_cast<int64_t>(value);
    };
  };
  used_.ForEach(snapshot, collect(&Bytes::current));
  peak_.ForEach(snapshot, collect(&Bytes::peak));
  return found;
}

std::map<std::string, SummaryByKey::Numbers> SummaryByKey::Of(const Snapshot& snapshot) {
  std::map<std::string, Numbers> found;
  finder_.ForEach(snapshot, [&](const SeriesInfo& info, double, const Frame& frame, uint32_t) {
    if (!info.shape || !info.shape->has_sum || !info.shape->has_count) return;
    const Cell* cells = frame.cells.data() + info.first_cell;
    Numbers numbers{std::nan(""), std::nan(""), cells[info.shape->sum_cell()].d,
                    cells[info.shape->count_cell()].d};
    for (size_t i = 0; i < info.shape->bounds.size(); ++i) {
      if (info.shape->bounds[i] == 0.5) numbers.p50 = cells[i].d;
      if (info.shape->bounds[i] == 0.99) numbers.p99 = cells[i].d;
    }
    found.emplace(info.attributes.Text(key_), numbers);
  });
  return found;
}

namespace {

NamedSeries AsItIs(const SeriesInfo& info) {
  NamedSeries named;
  named.name = info.desc->name;
  named.unit = info.desc->unit;
  return named;
}

// Labels are texts; one that equals an attribute of the series keeps the attribute's type.
AttributeSet Typed(const NamedSeries& named, const AttributeSet& own) {
  std::vector<AttributeSet::Attribute> attributes;
  for (const auto& [key, text] : named.labels) {
    const bool same = own.Has(key) && own.Text(key) == text;
    attributes.push_back({key, same ? own.Find(key, {}) : AttributeSet::Value(std::string_view(text))});
  }
  return AttributeSet(std::span<const AttributeSet::Attribute>(attributes));
}

}  // namespace

void JsonLines::AddLine(const SeriesInfo& info, const NamedSeries& named, std::string_view source, Line line,
                        LayoutLines& text) const {
  line.scale = named.scale;
  line.whole = named.whole;
  line.only_if_set = named.only_if_set;
  line.text = static_cast<uint32_t>(text.arena.size());
  text.arena += "\",\"name\":";
  AppendJsonString(text.arena, named.name);
  text.arena += ",\"unit\":";
  AppendJsonString(text.arena, named.unit);
  text.arena += ",\"source\":";
  AppendJsonString(text.arena, source);
  text.arena += ",\"attributes\":";
  const AttributeSet attributes = namer_ ? Typed(named, info.attributes) : info.attributes;
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
    for (const NamedSeries& named : names) AddLine(info, named, source, line, text);
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

namespace {

// "info", "warning", "error", "fatal"; "unset".
std::string_view SeverityName(EventSeverity severity) noexcept {
  switch (severity) {
    case EventSeverity::kUnset: return "unset";
    case EventSeverity::kInfo: return "info";
    case EventSeverity::kWarning: return "warning";
    case EventSeverity::kError: return "error";
    case EventSeverity::kFatal: return "fatal";
  }
  return "unset";
}

}  // namespace

void AppendJsonEvent(std::string& out, const Event& event, const AttributeSet& resource) {
  out += "{\"ts\":\"";
  AppendRfc3339(out, event.at.unix_ns);
  out += "\",\"type\":\"event\",\"name\":";
  AppendJsonString(out, event.name);
  out += ",\"severity\":\"";
  out += SeverityName(event.severity);
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

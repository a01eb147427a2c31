#include "wire/json/json_lines.h"

#include "base/text.h"
#include "wire/json/json_text.h"

namespace gpulens {

JsonLines::LayoutLines JsonLines::Spell(const Layout& layout, std::string_view source,
                                        const AttributeSet& resource) {
  LayoutLines text;
  for (uint32_t slot = 0; slot < layout.slots(); ++slot) {
    const SeriesInfo& info = layout[slot];
    if (!info.desc) continue;
    Line line;
    line.slot = slot;
    line.text = static_cast<uint32_t>(text.arena.size());
    text.arena += "\",\"name\":";
    AppendJsonString(text.arena, info.desc->name);
    text.arena += ",\"unit\":";
    AppendJsonString(text.arena, info.desc->unit);
    text.arena += ",\"source\":";
    AppendJsonString(text.arena, source);
    text.arena += ",\"attributes\":";
    AppendJsonAttributes(text.arena, info.attributes.OverlaidOn(resource));
    text.arena += ',';
    line.text_size = static_cast<uint32_t>(text.arena.size()) - line.text;
    text.lines.push_back(line);
  }
  return text;
}

void JsonLines::Append(const Snapshot& snapshot, std::string& out) {
  if (!(snapshot.resource == resource_)) {
    resource_ = snapshot.resource;
    texts_ = {};
  }
  appended_.clear();
  std::string when;
  for (const SnapshotEntry& entry : snapshot.frames) {
    const Frame& frame = *entry.frame;
    const LayoutLines& text =
        texts_.Of(frame.layout, [&](const Layout& layout) { return Spell(layout, entry.source, resource_); });
    Run run{frame.run, frame.read_at.boot_ns};
    auto before = written_.find(entry.source);
    bool known = before != written_.end() && before->second == run;
    appended_[std::string(entry.source)] = run;
    if (known) continue;
    when = "{\"ts\":\"";
    AppendRfc3339(when, frame.read_at.unix_ns);
    for (const Line& line : text.lines) {
      if (frame.quality[line.slot] != Quality::kOk) continue;
      out += when;
      out.append(text.arena, line.text, line.text_size);
      AppendJsonReading(out, frame, line.slot);
      out += "}\n";
    }
  }
  texts_.Forget();
}

void JsonLines::Commit() { written_.swap(appended_); }

}  // namespace gpulens

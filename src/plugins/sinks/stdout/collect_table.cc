#include "plugins/sinks/stdout/collect_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/text.h"
#include "plugins/sinks/stdout/collect_json.h"
#include "plugins/sinks/stdout/entity_groups.h"
#include "wire/json/json_text.h"

namespace gpulens {
namespace {

constexpr std::string_view kAbsent = "–";
constexpr size_t kGap = 2;

struct TableCell {
  double value = 0;
  bool here = false, stale = false;
  std::string text;
};

struct TableRow {
  MetricDesc shown;  // as HumanScaleFor is to see it
  std::string_view unit;
  std::vector<TableCell> cells;
};

// Entities of one type that one collector has read.
struct Block {
  std::string title;
  std::vector<std::string> columns;
  std::map<std::string, TableRow> rows;
};

std::string TextOf(const AttributeSet::Attribute& attribute) {
  std::string text, safe;
  AppendValue(text, attribute.value);
  AppendPrintable(safe, text);
  return safe;
}

const AttributeSet::Attribute* FindKey(const EntityGroup& group, std::string_view key) {
  auto found = std::ranges::find(group.own, key, &AttributeSet::Attribute::key);
  return found == group.own.end() ? nullptr : &*found;
}

// The key whose values tell the entities apart in the fewest letters; empty when no single one does.
std::string_view ReportingKey(const std::vector<const EntityGroup*>& groups) {
  std::string_view best;
  size_t best_size = SIZE_MAX;
  for (const AttributeSet::Attribute& candidate : groups.front()->own) {
    std::set<std::string> values;
    size_t size = 0;
    for (const EntityGroup* group : groups) {
      const AttributeSet::Attribute* attribute = FindKey(*group, candidate.key);
      if (!attribute) break;
      auto [at, added] = values.insert(TextOf(*attribute));
      size += at->size();
    }
    if (values.size() != groups.size() || size >= best_size) continue;
    best = candidate.key;
    best_size = size;
  }
  return best;
}

std::string ColumnOf(const EntityGroup& group, std::string_view key) {
  if (const auto* attribute = key.empty() ? nullptr : FindKey(group, key)) return TextOf(*attribute);
  std::string out;
  for (const AttributeSet::Attribute& attribute : group.own) {
    if (attribute.key == "simulated") continue;  // it names nothing
    if (!out.empty()) out += '/';
    out += TextOf(attribute);
  }
  return out.empty() ? "value" : out;
}

// One column of a block while it is filled.
class ColumnFiller {
 public:
  ColumnFiller(Block& block, size_t column, const SnapshotEntry& entry)
      : block_(block), column_(column), entry_(entry), frame_(*entry.frame) {}

  void Add(const EntityReading& reading) {
    const SeriesInfo& info = (*frame_.layout)[reading.slot];
    Quality quality = frame_.quality[reading.slot];
    std::string label;
    AppendPrintable(label, info.desc->name);
    for (const AttributeSet::Attribute& extra : reading.extra) label += " " + TextOf(extra);
    TableCell cell;
    cell.here = quality != Quality::kAbsent;
    cell.stale = cell.here && (quality == Quality::kStale || entry_.overdue);
    if (info.shape) return AddShape(label, info, cell);
    Cell value = frame_.cells[info.first_cell];
    cell.value = info.desc->number == Number::kInt ? static_cast<double>(value.i) : value.d;
    Put(label, *info.desc, cell);
  }

 private:
  // A distribution is shown by its mean and count.
  void AddShape(const std::string& label, const SeriesInfo& info, TableCell cell) {
    const Shape& shape = *info.shape;
    if (!shape.has_count) return;
    Cell value = frame_.cells[info.first_cell + shape.count_cell()];
    double count = info.desc->number == Number::kInt ? static_cast<double>(value.i) : value.d;
    MetricDesc counted;
    counted.number = Number::kInt;
    cell.value = count;
    Put(label + " count", counted, cell);
    if (!shape.has_sum) return;
    cell.here = cell.here && count > 0;
    cell.value = cell.here ? frame_.cells[info.first_cell + shape.sum_cell()].d / count : 0;
    Put(label + " mean", *info.desc, cell);
  }

  void Put(const std::string& label, const MetricDesc& desc, TableCell cell) {
    TableRow& row = block_.rows[label];
    row.shown = desc;
    row.cells.resize(block_.columns.size());
    row.cells[column_] = std::move(cell);
  }

  Block& block_;
  const size_t column_;
  const SnapshotEntry& entry_;
  const Frame& frame_;
};

void FormatCells(Block& block) {
  for (auto& [label, row] : block.rows) {
    double largest = 0;
    for (const TableCell& cell : row.cells) {
      if (cell.here && std::isfinite(cell.value)) largest = std::max(largest, std::abs(cell.value));
    }
    HumanScale scale = HumanScaleFor(row.shown, largest);
    row.unit = scale.unit;
    for (TableCell& cell : row.cells) {
      cell.text = cell.here ? HumanNumber(cell.value, scale) : std::string(kAbsent);
      // A blank for the mark, so that numbers end at the same place.
      cell.text += cell.stale ? '~' : ' ';
    }
  }
}

void AppendPadded(std::string& out, std::string_view text, size_t width, bool right) {
  size_t blanks = width - std::min(width, DisplayWidth(text));
  if (right) out.append(blanks, ' ');
  out += text;
  if (!right) out.append(blanks, ' ');
}

void EndLine(std::string& out) {
  while (!out.empty() && out.back() == ' ') out.pop_back();
  out += '\n';
}

// The columns from `first` that fit, at least one; returns the next one.
size_t AppendColumns(const Block& block, size_t first, size_t width, std::string& out) {
  size_t label_width = DisplayWidth(block.title), unit_width = 0;
  for (const auto& [label, row] : block.rows) {
    label_width = std::max(label_width, DisplayWidth(label) + kGap);
    unit_width = std::max(unit_width, DisplayWidth(row.unit));
  }
  std::vector<size_t> widths;
  size_t used = label_width + 1 + unit_width;
  for (size_t i = first; i < block.columns.size(); ++i) {
    size_t column = DisplayWidth(block.columns[i]) + 1;
    for (const auto& [label, row] : block.rows) column = std::max(column, DisplayWidth(row.cells[i].text));
    if (!widths.empty() && used + kGap + column > width) break;
    used += kGap + column;
    widths.push_back(column);
  }
  AppendPadded(out, block.title, label_width + 1 + unit_width, false);
  for (size_t i = 0; i < widths.size(); ++i)
    AppendPadded(out, block.columns[first + i] + " ", widths[i] + kGap, true);
  EndLine(out);
  for (const auto& [label, row] : block.rows) {
    AppendPadded(out, "  " + label, label_width + 1, false);
    AppendPadded(out, row.unit, unit_width, false);
    for (size_t i = 0; i < widths.size(); ++i)
      AppendPadded(out, row.cells[first + i].text, widths[i] + kGap, true);
    EndLine(out);
  }
  return first + widths.size();
}

}  // namespace

void CollectTable::AppendFrame(const SnapshotEntry& entry, const std::vector<EntityGroup>& groups,
                               Counts& counts, std::string& out) const {
  std::map<std::string, std::vector<const EntityGroup*>> by_type;
  for (const EntityGroup& group : groups) {
    by_type[group.type].push_back(&group);
    for (const EntityReading& reading : group.readings) {
      Quality quality = entry.frame->quality[reading.slot];
      bool absent = quality == Quality::kAbsent;
      ++(absent ? counts.absent : counts.readings);
      counts.stale += !absent && (quality == Quality::kStale || entry.overdue);
    }
  }
  for (const auto& [type, members] : by_type) {
    Block block;
    std::string_view key = members.size() > 1 ? ReportingKey(members) : std::string_view();
    AppendPrintable(block.title, type.empty() ? std::string_view("series") : std::string_view(type));
    block.title += " (";
    AppendPrintable(block.title, entry.source);
    block.title += ')';
    if (!key.empty()) block.title.append(" by ").append(key);
    for (const EntityGroup* group : members) block.columns.push_back(ColumnOf(*group, key));
    for (size_t i = 0; i < members.size(); ++i) {
      ColumnFiller column(block, i, entry);
      for (const EntityReading& reading : members[i]->readings) column.Add(reading);
    }
    FormatCells(block);
    for (size_t first = 0; first < block.columns.size();) {
      first = AppendColumns(block, first, width_, out);
      out += '\n';
    }
    counts.entities += members.size();
  }
}

void CollectTable::Append(const Snapshot& snapshot, std::string& out) {
  Counts counts;
  for (const SnapshotEntry& entry : snapshot.frames) {
    if (entry.source == kSelfSource) continue;
    AppendFrame(entry, groups_.Of(entry.frame->layout, GroupByEntity), counts, out);
  }
  groups_.Forget();
  AppendRfc3339(out, snapshot.closed_at.unix_ns);
  auto count = [&](size_t number, std::string_view one, std::string_view many) {
    out += HumanNumber(static_cast<double>(number), {});
    out += number == 1 ? one : many;
  };
  out += ": ";
  count(counts.entities, " entity, ", " entities, ");
  count(counts.readings, " reading", " readings");
  if (counts.stale != 0) out += ", ", count(counts.stale, " of them stale (~)", " of them stale (~)");
  if (counts.absent != 0) out += ", ", count(counts.absent, " absent (–)", " absent (–)");
  out += "\n\n";
}

}  // namespace gpulens

#include "plugins/sinks/stdout/collect_forms.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "base/text.h"
#include "wire/json/json_text.h"

namespace gpulens {
namespace {

bool IsOnEntity(const Entity* entity, std::string_view key) noexcept {
  for (; entity; entity = entity->parent.get()) {
    if (entity->attributes.Has(key)) return true;
  }
  return false;
}

bool BelongsToEntity(const SeriesInfo& info, std::string_view key) noexcept {
  if (IsOnEntity(info.entity.get(), key)) return true;
  const MetricDesc& desc = *info.desc;
  // The labels that scraped families add are unknown, so all count.
  return desc.naming != Naming::kVerbatim && std::ranges::find(desc.keys, key) == desc.keys.end();
}

// Returns the entity's type, and its attributes as text.
std::pair<std::string_view, std::string> IdentityOf(const SeriesInfo& info) {
  std::pair<std::string_view, std::string> identity;
  if (info.entity) identity.first = info.entity->type;
  for (AttributeSet::Attribute attribute : info.attributes) {
    if (!BelongsToEntity(info, attribute.key)) continue;
    identity.second += attribute.key;
    identity.second += '=';
    AppendValue(identity.second, attribute.value);
    identity.second += '\0';
  }
  return identity;
}

constexpr double kKi = 1024.0;

// Returns the number of decimals for three significant figures.
int DecimalsFor(double shown) noexcept {
  if (shown >= 100) return 0;
  return shown >= 10 ? 1 : 2;
}

HumanScale Figures(double factor, std::string_view unit, double largest) noexcept {
  return {factor, unit, DecimalsFor(largest * factor)};
}

HumanScale BytesScale(double largest) noexcept {
  if (largest >= kKi * kKi * kKi) return {1 / (kKi * kKi * kKi), "GiB", 1};
  if (largest >= kKi * kKi) return {1 / (kKi * kKi), "MiB", 1};
  if (largest >= kKi) return {1 / kKi, "KiB", 1};
  return {1, "B", 0};
}

HumanScale RateScale(double largest) noexcept {
  if (largest >= 1e9) return {1e-9, "GB/s", 1};
  if (largest >= 1e6) return {1e-6, "MB/s", 1};
  if (largest >= 1e3) return {1e-3, "kB/s", 1};
  return {1, "B/s", 0};
}

HumanScale TimeScale(double largest) noexcept {
  if (largest == 0 || largest >= 1) return Figures(1, "s", largest);
  if (largest >= 1e-3) return Figures(1e3, "ms", largest);
  return Figures(1e6, "µs", largest);
}

HumanScale EnergyScale(double largest) noexcept {
  if (largest >= 3.6e6) return Figures(1 / 3.6e6, "kWh", largest);
  if (largest >= 1e4) return Figures(1e-3, "kJ", largest);
  return Figures(1, "J", largest);
}

bool IsCount(const MetricDesc& desc) noexcept {
  return desc.unit.empty() || (desc.unit.starts_with('{') && desc.unit.ends_with('}'));
}

}  // namespace

std::vector<EntityGroup> GroupByEntity(const Layout& layout) {
  std::vector<EntityGroup> groups;
  // A collector may create several entities for one device: equal type and attributes are one group.
  std::map<std::pair<std::string_view, std::string>, size_t> known;
  for (uint32_t slot = 0; slot < layout.slots(); ++slot) {
    const SeriesInfo& info = layout[slot];
    if (!info.desc) continue;
    auto [at, added] = known.try_emplace(IdentityOf(info), groups.size());
    if (added) {
      EntityGroup& group = groups.emplace_back();
      if (info.entity) {
        group.type = info.entity->type;
        group.own.assign(info.entity->attributes.begin(), info.entity->attributes.end());
      }
      for (AttributeSet::Attribute attribute : info.attributes) {
        if (BelongsToEntity(info, attribute.key)) group.known_by.push_back(attribute);
      }
    }
    EntityReading reading;
    reading.slot = slot;
    for (AttributeSet::Attribute attribute : info.attributes) {
      if (!BelongsToEntity(info, attribute.key)) reading.extra.push_back(attribute);
    }
    groups[at->second].readings.push_back(std::move(reading));
  }
  for (EntityGroup& group : groups) {
    std::ranges::sort(group.readings, {}, [&](const EntityReading& reading) {
      return std::pair(layout[reading.slot].desc->name, reading.slot);
    });
  }
  return groups;
}

HumanScale HumanScaleFor(const MetricDesc& desc, double largest) noexcept {
  std::string_view unit = desc.unit;
  if (unit == "By") return BytesScale(largest);
  if (unit == "By/s") return RateScale(largest);
  if (unit == "s") return TimeScale(largest);
  if (unit == "J") return EnergyScale(largest);
  if (unit == "W" && largest >= 1e4) return Figures(1e-3, "kW", largest);
  if (unit == "W") return {1, "W", largest >= 10 ? 0 : 1};
  if (unit == "1" && desc.kind != Kind::kCounter && largest <= 1.5)
    return {100, "%", largest < 0.0995 ? 1 : 0};
  if (unit == "{percent}" || unit == "%") return {1, "%", largest < 9.95 ? 1 : 0};
  if (unit == "Cel") return {1, "°C", 0};
  if (unit == "MHz") return {1, "MHz", 0};
  if (IsCount(desc) && desc.number == Number::kInt)
    return largest >= 1e7 ? Figures(1e-6, "M", largest) : HumanScale{};
  return Figures(1, IsCount(desc) || unit == "1" ? std::string_view() : unit, largest);
}

std::string HumanNumber(double value, const HumanScale& scale) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[400];
  double shown = value * scale.factor;
  if (std::isinf(shown)) shown = value;
  auto end =
      std::to_chars(text, text + sizeof text, std::abs(shown), std::chars_format::fixed, scale.decimals).ptr;
  std::string_view digits(text, static_cast<size_t>(end - text));
  size_t whole = std::min(digits.find('.'), digits.size());
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && i < whole && (whole - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  bool zero = digits.find_first_not_of("0.") == digits.npos;
  return shown < 0 && !zero ? "-" + out : out;
}

size_t DisplayWidth(std::string_view text) noexcept {
  size_t width = 0;
  for (char c : text) width += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return width;
}

namespace {

constexpr std::string_view kAbsent = "–";
constexpr size_t kGap = 2;

struct TableCell {
  double value = 0;
  bool here = false, stale = false;
  std::string text;
};

struct TableRow {
  MetricDesc shown;  // for HumanScaleFor
  std::string_view unit;
  std::vector<TableCell> cells;
};

// Entities of one type of one collector.
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

// Returns the key with the shortest distinct values; empty when none identifies all entities.
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
    if (attribute.key == "simulated") continue;  // does not identify an entity
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
      // A blank for the mark, so that numbers are aligned.
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

// Appends the columns from `first` that fit, at least one; returns the next one.
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

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/parse.h"
#include "config/print.h"
#include "config/value_parse.h"

namespace gpulens {
namespace {

// An option that so many plugins of a section have alike is printed once for the section.
constexpr size_t kShared = 2;
constexpr std::string_view kRequired = "required";

// One key: "tls.ca_file", "targets[].url".
struct KeyRow {
  std::string key, type, fallback, help;
  bool operator==(const KeyRow&) const = default;
  bool SameKind(const KeyRow& other) const { return key == other.key && type == other.type; }
  bool SameMeaning(const KeyRow& other) const { return SameKind(other) && help == other.help; }
};

std::string MarkdownCell(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

// Whether it has a row: all but groups, of which each key has one.
bool IsKey(const OptionSpec& spec) { return spec.type != OptionType::kGroup || !HasKeys(spec); }

// "transport", "rollups[]".
std::string GroupName(const OptionSpec& group) {
  return std::string(group.key) + (group.type == OptionType::kGroups ? "[]" : "");
}

KeyRow RowOf(const OptionSpec& spec, const std::string& key) {
  KeyRow row{key, std::string(TypeName(spec.type)), std::string(spec.fallback), std::string(spec.help)};
  if (!spec.allowed.empty()) {
    row.type.clear();
    for (std::string_view word : spec.allowed) row.type.append(row.type.empty() ? "" : ", ").append(word);
    if (spec.type == OptionType::kTexts) row.type = "list of " + row.type;
  }
  if (spec.required) row.fallback = kRequired;
  return row;
}

// Every key of a group, those of groups inside of it included.
std::vector<KeyRow> AllRows(const OptionSpec& group, const std::string& prefix = "") {
  std::vector<KeyRow> rows;
  for (const OptionSpec& spec : group.children) {
    if (IsKey(spec)) rows.push_back(RowOf(spec, prefix + std::string(spec.key)));
    std::ranges::move(AllRows(spec, prefix + GroupName(spec) + "."), std::back_inserter(rows));
  }
  return rows;
}

// Whether each key of `part` is in `whole`, with the same type and the same words. Defaults may differ.
bool IsPart(const std::vector<KeyRow>& part, const std::vector<KeyRow>& whole) {
  return std::ranges::all_of(part, [&](const KeyRow& row) {
    return std::ranges::any_of(whole, [&](const KeyRow& other) { return row.SameKind(other); });
  });
}

// A group that two or more parts of the configuration have, each all of its keys or some.
struct SharedGroup {
  std::string name;                   // "transport", "rollups[]"
  const OptionSpec* whole = nullptr;  // the one that is printed: it has every key
  std::vector<KeyRow> rows;           // all keys of it
  bool alike = true;                  // the keys of every other one are among them
  size_t places = 0;                  // without those inside of other shared groups

  std::string Heading() const { return (name.ends_with("[]") ? "List `" : "Group `") + name + "`"; }
  // The link of the heading, whose anchor GitHub makes.
  std::string Link() const {
    const std::string key(whole->key);
    return "[" + key + "](#" + (name.ends_with("[]") ? "list-" : "group-") + key + ")";
  }
};

// Finds the groups that are shared: by their keys, and only where none has a key that the largest lacks.
class SharedGroups {
 public:
  explicit SharedGroups(const Schema& schema) {
    ForEach(schema, [this](const OptionSpec& spec) { Compare(spec); });
    ForEach(schema, [this](const OptionSpec& spec) { Count(spec); });
    std::erase_if(groups_, [](const SharedGroup& group) {
      return !group.alike || group.places < 2 || group.whole == nullptr;
    });
  }

  const std::vector<SharedGroup>& groups() const { return groups_; }
  // Null: this group is not shared.
  const SharedGroup* Find(const OptionSpec& spec) const {
    if (!HasKeys(spec)) return nullptr;
    const auto found = std::ranges::find(groups_, GroupName(spec), &SharedGroup::name);
    return found == groups_.end() ? nullptr : &*found;
  }

 private:
  // The options of the root and of every plugin. A list of the root is a section: its options.
  template <class Visit>
  static void ForEach(const Schema& schema, const Visit& visit) {
    for (const OptionSpec& spec : schema.options()) {
      if (!Schema::SectionNoun(spec.key).empty()) {
        for (const OptionSpec& plugin : spec.children) std::ranges::for_each(plugin.children, visit);
      } else if (spec.type == OptionType::kGroups) {
        std::ranges::for_each(spec.children, visit);
      } else {
        visit(spec);
      }
    }
  }

  SharedGroup& Named(const OptionSpec& spec) {
    const std::string name = GroupName(spec);
    const auto found = std::ranges::find(groups_, name, &SharedGroup::name);
    return found != groups_.end() ? *found : groups_.emplace_back(SharedGroup{.name = name, .rows = {}});
  }

  void Compare(const OptionSpec& spec) {
    if (!HasKeys(spec)) return;
    std::vector<KeyRow> rows = AllRows(spec);
    SharedGroup& group = Named(spec);
    if (rows.size() > group.rows.size()) std::swap(rows, group.rows);
    group.alike = group.alike && IsPart(rows, group.rows);
    for (const OptionSpec& child : spec.children) Compare(child);
  }

  // Groups inside of a shared one count once, as it is printed once.
  void Count(const OptionSpec& spec) {
    if (!HasKeys(spec)) return;
    SharedGroup& group = Named(spec);
    ++group.places;
    if (group.alike) {
      std::vector<KeyRow> rows = AllRows(spec);
      if (group.whole != nullptr || rows.size() != group.rows.size()) return;
      group.whole = &spec;
      group.rows = std::move(rows);
    }
    for (const OptionSpec& child : spec.children) Count(child);
  }

  std::vector<SharedGroup> groups_;
};

// The names of the keys of `whole` that `part` has, a group as one name when it has all of it. True: all of
// them.
bool AddNames(const OptionSpec& part, const OptionSpec& whole, const std::string& prefix,
              std::vector<std::string>& names) {
  bool all = true;
  for (const OptionSpec& spec : whole.children) {
    const auto here = std::ranges::find(part.children, spec.key, &OptionSpec::key);
    if (here == part.children.end()) {
      all = false;
      continue;
    }
    std::vector<std::string> below;
    if (HasKeys(spec) && !AddNames(*here, spec, prefix + GroupName(spec) + ".", below)) {
      all = false;
      names.insert(names.end(), below.begin(), below.end());
    } else {
      names.push_back(prefix + std::string(spec.key));
    }
  }
  return all;
}

// The one row of a shared group at a place that has it.
KeyRow ReferenceRow(const OptionSpec& spec, const std::string& key, const SharedGroup& group) {
  KeyRow row = RowOf(spec, key);
  if (spec.type == OptionType::kGroup) row.type = "a group";
  const bool sentence = row.help.ends_with('.');
  if (sentence) row.help.pop_back();
  row.help += (row.help.empty() ? "see " : "; see ") + group.Link();
  std::vector<std::string> names;
  if (!AddNames(spec, *group.whole, "", names)) {
    for (size_t i = 0; i < names.size(); ++i) row.help += (i == 0 ? ", only `" : ", `") + names[i] + "`";
  }
  if (sentence) row.help += '.';
  return row;
}

// The keys of options as their table has them: of a shared group, one row, and those that differ from it.
void AddRows(std::span<const OptionSpec> options, const std::string& prefix, const SharedGroups& shared,
             std::vector<KeyRow>& rows) {
  for (const OptionSpec& spec : options) {
    const std::string key = prefix + std::string(spec.key), below = prefix + GroupName(spec) + ".";
    if (const SharedGroup* group = shared.Find(spec)) {
      rows.push_back(ReferenceRow(spec, key, *group));
      for (KeyRow& row : AllRows(spec)) {
        if (std::ranges::find(group->rows, row) != group->rows.end()) continue;
        row.key = below + row.key;
        rows.push_back(std::move(row));
      }
      continue;
    }
    if (IsKey(spec)) rows.push_back(RowOf(spec, key));
    if (HasKeys(spec)) AddRows(spec.children, below, shared, rows);
  }
}

std::vector<KeyRow> RowsOf(std::span<const OptionSpec> options, const SharedGroups& shared) {
  std::vector<KeyRow> rows;
  AddRows(options, "", shared, rows);
  return rows;
}

std::string DefaultText(const std::string& fallback) {
  return fallback.empty() ? "–" : fallback == kRequired ? fallback : "`" + fallback + "`";
}

std::string KeyTable(const std::vector<KeyRow>& rows) {
  std::string out = "| key | type | default | meaning |\n|---|---|---|---|\n";
  for (const KeyRow& row : rows) {
    out += "| `" + row.key + "` | " + MarkdownCell(row.type) + " | " +
           MarkdownCell(DefaultText(row.fallback)) + " | " + MarkdownCell(row.help) + " |\n";
  }
  return out + "\n";
}

// The rows of all tables, without those that only refer to a group which several parts share.
size_t CountKeys(std::string_view tables) {
  size_t keys = 0;
  while (!tables.empty()) {
    const std::string_view line = TakeUntil(tables, '\n');
    const bool refers = line.find("](#group-") != line.npos || line.find("](#list-") != line.npos;
    keys += line.starts_with("| `") && !refers;
  }
  return keys;
}

// An option that several plugins of a section have.
struct CommonRow {
  KeyRow row;
  std::map<std::string, size_t> fallbacks;  // each default and how many plugins have it
  size_t count = 0;
};

// Rows that enough plugins have, at most one of each key, with the most frequent default.
std::vector<KeyRow> CommonRows(const std::vector<std::vector<KeyRow>>& plugins) {
  std::vector<CommonRow> found;
  for (const std::vector<KeyRow>& rows : plugins) {
    for (const KeyRow& row : rows) {
      auto known =
          std::ranges::find_if(found, [&](const CommonRow& one) { return one.row.SameMeaning(row); });
      if (known == found.end()) known = found.insert(found.end(), CommonRow{row, {}});
      ++known->count;
      ++known->fallbacks[row.fallback];
    }
  }
  std::vector<KeyRow> common;
  for (const CommonRow& one : found) {
    const bool most = std::ranges::none_of(found, [&](const CommonRow& other) {
      const size_t least = &other < &one ? one.count : one.count + 1;  // the first of equals
      return other.row.key == one.row.key && other.count >= least;
    });
    if (one.count < kShared || !most) continue;
    KeyRow& row = common.emplace_back(one.row);
    for (const auto& [fallback, times] : one.fallbacks) {
      if (times > one.fallbacks.at(row.fallback)) row.fallback = fallback;
    }
  }
  return common;
}

// A section of plugins: what several share, then what each has besides.
std::string SectionMarkdown(const OptionSpec& section, const SharedGroups& shared) {
  std::vector<std::vector<KeyRow>> plugins;
  for (const OptionSpec& plugin : section.children) plugins.push_back(RowsOf(plugin.children, shared));
  const std::vector<KeyRow> common = CommonRows(plugins);
  std::string out;
  if (!common.empty()) out += "Options of several " + std::string(section.key) + ":\n\n" + KeyTable(common);
  for (size_t i = 0; i < plugins.size(); ++i) {
    out += "### " + std::string(section.key) + "." + std::string(section.children[i].key) + "\n\n";
    std::vector<KeyRow> own;
    std::string names;
    for (const KeyRow& row : plugins[i]) {
      const auto one = std::ranges::find_if(common, [&](const KeyRow& it) { return it.SameMeaning(row); });
      if (one == common.end()) {
        own.push_back(row);
        continue;
      }
      names += (names.empty() ? "`" : ", `") + row.key + "`";
      if (row.fallback != one->fallback) names += " (default " + DefaultText(row.fallback) + ")";
    }
    if (!own.empty()) out += KeyTable(own);
    if (!names.empty()) out += "Also, as above: " + names + ".\n\n";
  }
  return out;
}

std::string SharedMarkdown(const SharedGroups& shared) {
  if (shared.groups().empty()) return {};
  std::string out =
      "## Groups that several parts share\n\n"
      "A part that has one of these groups has all its keys, or only those that its row names. A default or\n"
      "a meaning that differs in a part is a row of that part.\n\n";
  for (const SharedGroup& group : shared.groups())
    out += "### " + group.Heading() + "\n\n" + KeyTable(RowsOf(group.whole->children, shared));
  return out;
}

std::string Title(std::string_view key) {
  std::string title(key);
  title[0] = static_cast<char>(title[0] - 'a' + 'A');
  return "## " + title + "\n\n";
}

}  // namespace

std::string PrintMarkdownSchema(const Schema& schema) {
  const SharedGroups shared(schema);
  std::vector<KeyRow> rows;
  std::string lists, sections;
  for (const OptionSpec& spec : schema.options()) {
    if (!Schema::SectionNoun(spec.key).empty()) {
      sections += Title(spec.key) + SectionMarkdown(spec, shared);
    } else if (spec.type == OptionType::kGroups) {
      std::vector<KeyRow> own = {RowOf(spec, std::string(spec.key))};
      AddRows(spec.children, GroupName(spec) + ".", shared, own);
      lists += Title(spec.key) + KeyTable(own);
    } else {
      AddRows(std::span(&spec, 1), "", shared, rows);
    }
  }
  const std::string tables = KeyTable(rows) + SharedMarkdown(shared) + lists + sections;
  std::string out = "## Keys of the whole agent\n\nThe whole configuration has " +
                    std::to_string(CountKeys(tables)) +
                    " keys: one that several parts share is counted once.\n\n" + tables;
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

}  // namespace gpulens

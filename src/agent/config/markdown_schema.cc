#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/config/print.h"
#include "agent/config/text/convert.h"

namespace gpulens {
namespace {

// So many plugins of a section that have an option alike make it one of the section.
constexpr size_t kShared = 3;

// One key: "tls.ca_file", "targets[].url".
struct KeyRow {
  std::string key, type, fallback, help;
  bool operator==(const KeyRow&) const = default;
};

std::string MarkdownCell(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

void AddKeyRows(std::span<const OptionSpec> options, const std::string& prefix, std::vector<KeyRow>& rows) {
  for (const OptionSpec& spec : options) {
    const std::string key = prefix + std::string(spec.key);
    const bool below = !spec.children.empty();
    if (below) AddKeyRows(spec.children, key + (spec.type == OptionType::kGroups ? "[]." : "."), rows);
    if (below && spec.type == OptionType::kGroup) continue;
    KeyRow row{key, std::string(TypeName(spec.type)), std::string(spec.fallback), std::string(spec.help)};
    if (!spec.allowed.empty()) {
      row.type.clear();
      for (std::string_view word : spec.allowed) row.type.append(row.type.empty() ? "" : ", ").append(word);
      if (spec.type == OptionType::kTexts) row.type = "list of " + row.type;
    }
    if (spec.required) row.fallback = "required";
    rows.push_back(std::move(row));
  }
}

std::string KeyTable(const std::vector<KeyRow>& rows) {
  std::string out = "| key | type | default | meaning |\n|---|---|---|---|\n";
  for (const KeyRow& row : rows) {
    const bool required = row.fallback == "required";
    const std::string fallback = row.fallback.empty() ? "–"
                                 : required           ? row.fallback
                                                      : "`" + row.fallback + "`";
    out += "| `" + row.key + "` | " + MarkdownCell(row.type) + " | " + MarkdownCell(fallback) + " | " +
           MarkdownCell(row.help) + " |\n";
  }
  return out + "\n";
}

// A section of plugins: what several share, then what each has besides.
std::string SectionMarkdown(const OptionSpec& section) {
  std::vector<std::pair<std::string, std::vector<KeyRow>>> plugins;
  std::vector<std::pair<KeyRow, size_t>> counted;
  for (const OptionSpec& plugin : section.children) {
    std::vector<KeyRow> rows;
    AddKeyRows(plugin.children, "", rows);
    for (const KeyRow& row : rows) {
      auto known = std::ranges::find(counted, row, &std::pair<KeyRow, size_t>::first);
      if (known == counted.end()) counted.emplace_back(row, 1);
      else ++known->second;
    }
    plugins.emplace_back(plugin.key, std::move(rows));
  }
  auto shared = [&](const KeyRow& row) {
    const auto known = std::ranges::find(counted, row, &std::pair<KeyRow, size_t>::first);
    return known != counted.end() && known->second >= kShared;
  };
  std::vector<KeyRow> common;
  for (const auto& [row, count] : counted) {
    if (count >= kShared) common.push_back(row);
  }
  std::string out;
  if (!common.empty()) out += "Options of several " + std::string(section.key) + ":\n\n" + KeyTable(common);
  for (auto& [name, rows] : plugins) {
    out += "### " + std::string(section.key) + "." + name + "\n\n";
    std::string names;
    for (const KeyRow& row : rows) {
      if (shared(row)) names += (names.empty() ? "`" : ", `") + row.key + "`";
    }
    std::erase_if(rows, shared);
    if (!rows.empty()) out += KeyTable(rows);
    if (!names.empty()) out += "Also, as above: " + names + ".\n\n";
  }
  return out;
}

}  // namespace

std::string PrintMarkdownSchema(const Schema& schema) {
  std::string out;
  std::vector<KeyRow> rows;
  for (const OptionSpec& spec : schema.options()) {
    if (Schema::SectionNoun(spec.key).empty()) AddKeyRows(std::span(&spec, 1), "", rows);
  }
  out += "## Keys of the whole agent\n\n" + KeyTable(rows);
  for (const OptionSpec& spec : schema.options()) {
    if (Schema::SectionNoun(spec.key).empty()) continue;
    std::string title(spec.key);
    title[0] = static_cast<char>(title[0] - 'a' + 'A');
    out += "## " + title + "\n\n" + SectionMarkdown(spec);
  }
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

}  // namespace gpulens

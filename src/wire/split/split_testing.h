// For tests: a simple reference implementation of rules, on lists of items.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/hash.h"
#include "wire/split/split_router.h"

namespace gpulens::split_testing {

struct ItemModel {
  std::string text;  // the item and the fields of all messages around it
  std::map<std::string, std::string> values;
  uint64_t hash = 0;
  uint32_t items = 1;
};

using Key = std::tuple<bool, std::string, uint32_t, uint32_t>;
inline Key KeyOf(const SplitPart& part) { return {part.has_value, part.value, part.endpoint, part.shard}; }

struct PartModel {
  Key key;
  uint64_t hash = 0;
  uint32_t items = 0;
  std::vector<std::string> texts;
};
struct Model {
  std::vector<PartModel> parts;
  uint32_t left_out = 0;
  bool all_stay = true;
};

inline bool Glob(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*')
    return Glob(pattern.substr(1), text) || (!text.empty() && Glob(pattern, text.substr(1)));
  return !text.empty() && (pattern[0] == '?' || pattern[0] == text[0]) &&
         Glob(pattern.substr(1), text.substr(1));
}

// `named` returns a second name for looking up an attribute.
inline Model Apply(const std::vector<ItemModel>& items, const SplitRule& rule,
                   const std::function<std::string(const std::string&)>& named) {
  Model out;
  for (const ItemModel& item : items) {
    const auto find = [&](const std::string& name) {
      const auto at = item.values.find(name);
      return at != item.values.end() ? at : item.values.find(named(name));
    };
    bool stays = true;
    for (const SplitRule::Match& match : rule.where) {
      const auto at = find(match.attribute);
      const bool has = at != item.values.end();
      const bool one =
          match.values.empty() || std::any_of(match.values.begin(), match.values.end(),
                                              [&](const auto& p) { return has && Glob(p, at->second); });
      stays = stays && (has && one) != match.exclude;
    }
    if (!stays) {
      out.left_out += item.items;
      out.all_stay = false;
      continue;
    }
    const auto at = rule.by.empty() ? item.values.end() : find(rule.by);
    const bool has = at != item.values.end();
    uint32_t endpoint = 0, shard = 0;
    if (rule.hash != SplitHash::kNone) {
      shard = static_cast<uint32_t>(item.hash % rule.shards);
      if (!rule.endpoints.empty())
        endpoint = static_cast<uint32_t>(PickEndpoint(item.hash, rule.endpoints, rule.usable));
    }
    const Key key = {has, has ? at->second : "", endpoint, shard};
    auto part = std::find_if(out.parts.begin(), out.parts.end(), [&](const auto& p) { return p.key == key; });
    if (part == out.parts.end()) part = out.parts.insert(part, {key, item.hash, 0, {}});
    part->items += item.items;
    part->texts.push_back(item.text);
  }
  return out;
}

inline SplitRule MakeRule(const std::vector<std::string>& names, const std::vector<std::string>& patterns,
                          const std::function<int(int)>& below) {
  const auto one_of = [&](const auto& list) {
    return list[static_cast<size_t>(below(static_cast<int>(list.size())))];
  };
  SplitRule rule;
  for (int i = below(3); i > 0; --i) {
    SplitRule::Match& match = rule.where.emplace_back();
    match.attribute = one_of(names);
    for (int p = below(3); p > 0; --p) match.values.push_back(one_of(patterns));
    match.exclude = below(3) != 0;
  }
  if (below(3) != 0) rule.by = one_of(names);
  rule.hash = static_cast<SplitHash>(below(4));
  rule.shards = 1 + static_cast<uint32_t>(below(3));
  for (int i = below(4); i > 0; --i) rule.endpoints.push_back(static_cast<uint64_t>(i));
  if (rule.endpoints.size() > 1 && below(2) == 0) {
    rule.usable.assign(rule.endpoints.size(), 1);
    rule.usable[0] = 0;
  }
  return rule;
}

// Returns the current field of a reader with its tag, and moves the reader to the next field.
inline std::string Whole(protozero::pbf_reader& reader) {
  std::string out;
  protozero::pbf_writer writer(out);
  const uint32_t tag = reader.tag();
  switch (reader.wire_type()) {
    case protozero::pbf_wire_type::varint: writer.add_uint64(tag, reader.get_uint64()); break;
    case protozero::pbf_wire_type::fixed64: writer.add_fixed64(tag, reader.get_fixed64()); break;
    case protozero::pbf_wire_type::fixed32: writer.add_fixed32(tag, reader.get_fixed32()); break;
    default: writer.add_string(tag, std::string(reader.get_view()));
  }
  return out;
}
// Returns the content of such a field.
inline std::string Content(const std::string& whole) {
  protozero::pbf_reader reader(whole);
  reader.next();
  return std::string(reader.get_view());
}

}  // namespace gpulens::split_testing

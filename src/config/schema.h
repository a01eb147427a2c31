// The options of the whole configuration: the root options of the program, and one group of options per
// plugin. Built once from the specs; has no values.
//
//   const PluginSchema plugins[] = {{"collectors", "nvidia", "GPUs by NVML", kNvidiaOptions, true, 1s, 10s}};
//   Schema schema(plugins);
#pragma once

#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "plugins/config.h"

namespace gpulens {

// A plugin's options. Points into its spec: static storage.
struct PluginSchema {
  std::string_view section;  // "collectors", "analyzers", "enrichers", "sinks", …
  std::string_view name, help;
  std::span<const OptionSpec> options;
  bool on_by_default = true;  // false: on once it is written in the file, a variable or a flag
  // Defaults of `interval` and `ttl`, options of every collector along with `timeout`. Zero: the plugin has
  // none of the three.
  Duration interval{}, ttl{};
  ConfigCheck check = nullptr;  // checks beyond the types of its options; null: none
  bool several = false;         // there may be more of it, under names: "otlp/b"
  // A list at the top level, `name`, whose elements have the options; `section` has no group for it.
  bool is_list = false;
};

// Immutable after construction; safe to share. An option that a plugin declares itself replaces the
// common one of the same key. Two options with the same variable name are a programmer error.
class Schema {
 public:
  explicit Schema(std::span<const PluginSchema> plugins);
  // Of another program's file, which has no plugins: its options, the start of its variables
  // ("GPULENS_PROXY_"), and what prints all its keys, for messages. Static storage.
  Schema(std::span<const OptionSpec> options, std::string_view variables, std::string_view help);
  Schema(const Schema&) = delete;
  Schema& operator=(const Schema&) = delete;

  std::span<const OptionSpec> options() const noexcept { return root_; }
  std::span<const PluginSchema> plugins() const noexcept { return specs_; }
  // Whether this is the agent's: with its pages, plugins and state folder.
  bool is_agents() const noexcept { return is_agents_; }
  std::string_view variables() const noexcept { return variables_; }
  std::string_view help() const noexcept { return help_; }
  // Whether `group` is the group of one plugin: then it has `enabled`, and listing it turns it on.
  bool IsPlugin(const OptionSpec& group) const { return plugins_.contains(&group); }
  // The group of the plugin that `key` names in a section: "otlp/b" is a further "otlp". Null for another
  // name, or a plugin of which there can be only one.
  const OptionSpec* FindNamed(const OptionSpec& section, std::string_view key) const noexcept;
  // "collector" for "collectors"; empty for a key that is no section.
  static std::string_view SectionNoun(std::string_view key) noexcept;

  // Every option that one text can set, by path: "http.listen" and its variable, GPULENS_HTTP_LISTEN.
  struct Leaf {
    std::string path, variable;
    const OptionSpec* spec = nullptr;
  };
  // Includes lists of groups, so that a message can explain why a variable cannot set them.
  const std::vector<Leaf>& leaves() const noexcept { return leaves_; }
  const Leaf* FindLeaf(std::string_view path) const noexcept;

 private:
  void AddSection(std::string_view section, std::span<const PluginSchema> plugins);
  std::vector<OptionSpec> PluginOptions(const PluginSchema& plugin);
  std::string_view Keep(std::string text) { return texts_.emplace_back(std::move(text)); }
  std::span<const OptionSpec> Keep(std::vector<OptionSpec> rows) {
    return rows_.emplace_back(std::move(rows));
  }
  void AddLeaves(std::span<const OptionSpec> options, const std::string& prefix);

  std::deque<std::string> texts_;
  std::deque<std::vector<OptionSpec>> rows_;
  std::vector<OptionSpec> root_;
  std::vector<PluginSchema> specs_;
  std::unordered_set<const OptionSpec*> plugins_, several_;
  std::vector<Leaf> leaves_;
  bool is_agents_ = true;
  std::string_view variables_ = "GPULENS_", help_ = "gpulens config schema";
};

}  // namespace gpulens

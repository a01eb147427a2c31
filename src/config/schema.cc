#include "config/schema.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "config/root_options.h"
#include "config/value_parse.h"

namespace gpulens {
namespace {

struct Section {
  std::string_view key, noun, help;
  bool always;  // stands in the file even when no plugin of it exists yet
};
constexpr Section kSections[] = {
    {"collectors", "collector",
     "Sources to read. Every available collector runs; list one to configure it, enabled: false disables it",
     true},
    {"analyzers", "analyzer", "Computations on the readings", true},
    {"enrichers", "enricher", "Sources of attributes for what is measured", true},
    {"discovery", "discovery", "Discovery of targets to scrape", false},
    {"sinks", "sink", "Destinations of the data", true},
    {"receivers", "receiver", "Servers for data from other programs", false},
};

std::string VariableOf(std::string_view path) {
  std::string name = "GPULENS_";
  for (char c : path) {
    name += c == '.' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return name;
}

bool Declares(std::span<const OptionSpec> options, std::string_view key) {
  return std::any_of(options.begin(), options.end(), [&](const OptionSpec& spec) { return spec.key == key; });
}

}  // namespace

std::string_view Schema::SectionNoun(std::string_view key) noexcept {
  for (const Section& section : kSections) {
    if (section.key == key) return section.noun;
  }
  return {};
}

std::vector<OptionSpec> Schema::PluginOptions(const PluginSchema& plugin) {
  std::vector<OptionSpec> options;
  auto add = [&](OptionSpec spec) {
    if (!Declares(plugin.options, spec.key)) options.push_back(spec);
  };
  add({.key = "enabled",
       .type = OptionType::kBool,
       .fallback = plugin.on_by_default ? "true" : "false",
       .help = "Whether it runs; one that is off by default is turned on by naming it here"});
  if (plugin.interval != Duration::zero()) {
    add({.key = "interval",
         .type = OptionType::kTime,
         .fallback = Keep(FormatTimeValue(plugin.interval)),
         .help = "How often it runs",
         .min = 0.01});
    add({.key = "ttl",
         .type = OptionType::kTime,
         .fallback = Keep(FormatTimeValue(plugin.ttl)),
         .help = "How long a value is still exported when it cannot be read again",
         .min = 0.01});
    add({.key = "timeout",
         .type = OptionType::kTime,
         .fallback = {},
         .help = "Timeout of one run; default: the interval",
         .min = 0.001});
  }
  options.insert(options.end(), plugin.options.begin(), plugin.options.end());
  return options;
}

void Schema::AddSection(std::string_view key, std::span<const PluginSchema> plugins) {
  const Section* section = std::find_if(std::begin(kSections), std::end(kSections),
                                        [&](const Section& s) { return s.key == key; });
  std::vector<OptionSpec> groups;
  for (const PluginSchema& plugin : plugins) {
    if (plugin.section != key || plugin.is_list) continue;
    CHECK(!Declares(groups, plugin.name));
    groups.push_back({.key = plugin.name,
                      .type = OptionType::kGroup,
                      .fallback = {},
                      .help = plugin.help,
                      .children = Keep(PluginOptions(plugin))});
  }
  if (groups.empty() && !section->always) return;
  std::span<const OptionSpec> kept = Keep(std::move(groups));
  for (const OptionSpec& group : kept) {
    plugins_.insert(&group);
    const bool several = std::any_of(plugins.begin(), plugins.end(), [&](const PluginSchema& plugin) {
      return plugin.section == key && plugin.name == group.key && plugin.several;
    });
    if (several) several_.insert(&group);
  }
  root_.push_back(
      {.key = key, .type = OptionType::kGroup, .fallback = {}, .help = section->help, .children = kept});
}

void Schema::AddLeaves(std::span<const OptionSpec> options, const std::string& prefix) {
  for (const OptionSpec& spec : options) {
    std::string path = prefix + std::string(spec.key);
    if (spec.type == OptionType::kGroup) {
      AddLeaves(spec.children, path + ".");
    } else {
      std::string variable = VariableOf(path);
      leaves_.push_back({std::move(path), std::move(variable), &spec});
    }
  }
}

Schema::Schema(std::span<const PluginSchema> plugins) : specs_(plugins.begin(), plugins.end()) {
  std::span<const OptionSpec> own = RootOptions();
  root_.assign(own.begin(), own.end());
  for (const PluginSchema& plugin : plugins) {
    CHECK(!SectionNoun(plugin.section).empty());
    if (plugin.section != "collectors" || plugin.is_list ||
        (plugin.interval.count() > 0 && plugin.ttl.count() > 0))
      continue;
    const std::string message = "the spec of the collector " + std::string(plugin.name) +
                                " has .period and .ttl, the defaults of interval and ttl";
    CheckFailed(message.c_str(), __FILE__, __LINE__);
  }
  for (const PluginSchema& plugin : plugins) {
    if (!plugin.is_list) continue;
    root_.push_back(
        {.key = plugin.name, .type = OptionType::kGroups, .help = plugin.help, .children = plugin.options});
  }
  for (const Section& section : kSections) AddSection(section.key, plugins);
  AddLeaves(root_, "");
  std::unordered_set<std::string_view> variables;
  for (const Leaf& leaf : leaves_) CHECK(variables.insert(leaf.variable).second);
}

const OptionSpec* Schema::FindNamed(const OptionSpec& section, std::string_view key) const noexcept {
  const size_t slash = key.find('/');
  if (slash == key.npos) return nullptr;
  const std::string_view name = key.substr(slash + 1);
  constexpr size_t kLongest = 64;  // it is part of the name of a folder
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  if (name.empty() || name.size() > kLongest || !std::all_of(name.begin(), name.end(), fits)) return nullptr;
  for (const OptionSpec& group : section.children) {
    if (group.key == key.substr(0, slash) && several_.contains(&group)) return &group;
  }
  return nullptr;
}

const Schema::Leaf* Schema::FindLeaf(std::string_view path) const noexcept {
  for (const Leaf& leaf : leaves_) {
    if (leaf.path == path) return &leaf;
  }
  return nullptr;
}

}  // namespace gpulens

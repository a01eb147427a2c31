#include "config/loader.h"

#include <climits>
#include <unordered_set>
#include <utility>

#include "config/convert.h"
#include "config/overlay.h"
#include "config/validate.h"
#include "config/walk.h"
#include "config/yaml_tree.h"

namespace gpulens {
namespace {

// Hides the scalars under every key that looks secret, known or not, before anything is quoted; header
// fields; the URL of a webhook; and whatever may be a URL with a password or a query, also one that is
// written wrong.
void HideSecrets(const YamlTree& tree, SourceText& source) {
  std::unordered_set<const YamlNode*> secrets;
  for (const YamlNode& node : tree.nodes()) {
    for (const YamlNode::Member& member : node.members) {
      const bool webhook = member.key == "webhook";
      if (webhook || IsSecretMap(member.key)) {
        for (const YamlNode::Member& each : member.value->members) {
          if (!webhook || each.key == "url") secrets.insert(each.value);
        }
      }
      if (!IsSecretKey(member.key)) continue;
      secrets.insert(member.value);
      secrets.insert(member.value->items.begin(), member.value->items.end());
    }
    size_t at = node.text.rfind('@');
    if (at != std::string::npos && node.text.find(':') < at) secrets.insert(&node);
    if (node.text.find('?') != std::string::npos && node.text.find(":/") != std::string::npos)
      secrets.insert(&node);
  }
  for (size_t i = 0; i < tree.nodes().size(); ++i) {
    const YamlNode& node = tree.nodes()[i];
    if (node.kind != YamlNode::kScalar || !secrets.contains(&node)) continue;
    source.Hide(node.span);
    // A text over several lines ends where the next node begins.
    int end = i + 1 < tree.nodes().size() ? tree.nodes()[i + 1].span.line : source.lines() + 1;
    for (int line = node.span.line + 1; line < end && !node.literal; ++line)
      source.Hide({line, 1, INT_MAX / 2});
  }
}

// The texts that values of the file stand for.
void Expand(const Sources& sources, const SourceText& source, YamlTree& tree, Problems& problems) {
  ExpandFrom from;
  from.variable = [&](std::string_view name) -> std::optional<std::string_view> {
    for (const Variable& variable : sources.environment) {
      if (variable.name == name) return variable.value;
    }
    return std::nullopt;
  };
  if (sources.read) {
    const std::string folder = sources.file_name.substr(0, sources.file_name.rfind('/') + 1);
    from.file = [&sources, folder](const std::string& path) {
      return sources.read(path.starts_with('/') ? path : folder + path);
    };
  }
  ExpandValues(tree, source, from, problems);
}

// Where a value stands that a rule of several options refuses.
Spot SpotOf(const Origin& origin, const SourceText& source) {
  if (origin.where == Origin::kFile) return source.SpotOf({origin.line, origin.column, 1});
  if (origin.where == Origin::kEnvironment) return {"environment", 0, 0, 1, origin.name, 0};
  if (origin.where == Origin::kFlag) return {"command line", 0, 0, 1, origin.name, 0};
  return {source.name().empty() ? "configuration" : source.name(), 0, 0, 1, {}, 0};
}

// A no-break space looks like a blank and is a letter: "key: value" is then one text.
void WarnOfBlanks(const SourceText& source, std::vector<std::string>& warnings) {
  constexpr std::string_view kBlank = "\xC2\xA0";
  for (int line = 1; line <= source.lines(); ++line) {
    const std::string_view text = source.Line(line);
    const size_t at = text.find(kBlank);
    if (at == text.npos) continue;
    const size_t before = text.find_last_not_of(' ', at == 0 ? 0 : at - 1);
    const bool indents = text.substr(0, at).find_first_not_of(' ') == text.npos;
    if (!indents &&
        (before == text.npos || (text[before] != ':' && text[before] != '-' && text[before] != ',')))
      continue;
    warnings.push_back(source.name() + ":" + std::to_string(line) +
                       ": a no-break space (U+00A0) is used instead of a space");
    return;
  }
}

// What the plugins that are on refuse of their parts.
void CheckPlugins(const Schema& schema, const Config& config, const SourceText& source, Problems& problems) {
  for (const PluginSchema& plugin : schema.plugins()) {
    if (plugin.check == nullptr) continue;
    if (plugin.is_list) {
      const std::vector<Config>& elements = config.Groups(plugin.name);
      for (size_t i = 0; i < elements.size(); ++i) {
        ConfigFaults faults;
        plugin.check(elements[i], faults);
        for (const ConfigFaults::Fault& fault : faults.faults()) {
          problems.Add(SpotOf(fault.at, source),
                       std::string(plugin.name) + "[" + std::to_string(i) + "]: " + fault.problem,
                       fault.hint);
        }
      }
      continue;
    }
    for (const Config::Entry& entry : config.Group(plugin.section).entries()) {
      if (entry.key.substr(0, entry.key.find('/')) != plugin.name) continue;
      const auto& own = std::get<Config>(entry.value);
      if (!own.Bool("enabled")) continue;
      ConfigFaults faults;
      plugin.check(own, faults);
      for (const ConfigFaults::Fault& fault : faults.faults())
        problems.Add(SpotOf(fault.at, source),
                     std::string(plugin.section) + "." + entry.key + ": " + fault.problem, fault.hint);
    }
  }
}

}  // namespace

LoadOutcome Load(const Schema& schema, const Sources& sources) {
  LoadOutcome outcome;
  Problems problems;
  Overlay overlay(schema, sources, problems, outcome.unknown_variables);
  SourceText source(sources.file_text ? sources.file_name : "", sources.file_text.value_or(""));
  size_t before = problems.count();
  YamlTree tree;
  if (sources.file_text) tree = ParseYaml(source, problems);
  HideSecrets(tree, source);
  if (sources.expand) Expand(sources, source, tree, problems);
  bool silent = tree.root() == nullptr || tree.root()->kind == YamlNode::kNull;
  if (sources.file_text && silent && problems.count() == before) {
    outcome.warnings.push_back(source.name() + ": is empty, so every key has its default");
  }
  OptionSpec root{
      .key = "", .type = OptionType::kGroup, .fallback = "", .help = "", .children = schema.options()};
  Walk::Shared shared{schema, overlay, problems, {}};
  outcome.config = Walk(shared, source, Origin::kFile).Group(root, tree.root(), "");
  Validate(outcome.config, shared.spots, sources.look, problems);
  CheckPlugins(schema, outcome.config, source, problems);
  WarnOfPlaces(outcome.config, sources, outcome.warnings);
  if (problems.count() > 0) WarnOfBlanks(source, outcome.warnings);
  outcome.errors = problems.Shown(&source);
  outcome.error_count = problems.count();
  outcome.error_files = problems.Files();
  return outcome;
}

std::string LoadOutcome::FullReport() const {
  std::string out = Report();
  for (const std::string& warning : unknown_variables) out += "warning: " + warning + "\n";
  return out;
}

std::string LoadOutcome::Report() const {
  std::string out = Errors();
  for (const std::string& warning : warnings) out += "warning: " + warning + "\n";
  return out;
}

std::string LoadOutcome::Errors() const {
  std::string out;
  for (const Diagnostic& error : errors) out += Render(error);
  if (error_count == 0) return out;
  out += std::to_string(error_count) + (error_count == 1 ? " error in " : " errors in ") + error_files;
  if (error_count > errors.size()) out += ", the first " + std::to_string(errors.size()) + " are shown";
  return out + ".   every key with its default: gpulens config schema\n";
}

}  // namespace gpulens

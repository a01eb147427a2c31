#include "config/loader.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/parse.h"
#include "config/overlay.h"
#include "config/validate.h"
#include "config/value_parse.h"
#include "net/message/http_message.h"

namespace gpulens {
namespace {

// Applies the schema to the tree of a file: every option gets its value, its origin, or a problem.
// One per tree: defaults that are lists or maps are trees of their own, of origin kDefault. Not thread-safe;
// its arguments outlive it.
class Walk {
 public:
  struct Shared {
    const Schema& schema;
    const ConfigOverlay& overlay;
    ConfigProblems& problems;
    ValueSpots spots;
  };

  Walk(Shared& shared, const SourceText& source, Origin::Where where)
      : shared_(shared), source_(source), where_(where) {}

  Config Group(const OptionSpec& group, const YamlNode* node, const std::string& path);
  Config::Value Value(const OptionSpec& spec, const YamlNode* node, const std::string& path);

 private:
  static std::string Below(const std::string& path, std::string_view key) {
    return path.empty() ? std::string(key) : path + "." + std::string(key);
  }
  Origin OriginOf(const YamlNode* node) const {
    if (node == nullptr || where_ == Origin::kDefault) return {};
    const SourcePlace spot = source_.SpotOf(node->mark);
    Origin origin{where_, source_.name(), spot.line, spot.column};
    origin.secret = node->secret;
    for (const YamlNode* item : node->items) origin.secret = origin.secret || item->secret;
    for (const YamlNode::Member& member : node->members)
      origin.secret = origin.secret || member.value->secret;
    return origin;
  }

  void AddAt(YamlMark mark, std::string message, std::string hint = {}) {
    shared_.problems.Add(source_.SpotOf(mark), std::move(message), std::move(hint));
  }
  void CheckKeys(const OptionSpec& group, const YamlNode& node, const std::string& path);
  void CheckRequired(const OptionSpec& group, const YamlNode* node, const Config& config,
                     const std::string& path);
  Config::Entry Option(const OptionSpec& spec, const YamlNode* node, const std::string& path);
  bool Text(const OptionSpec& spec, const YamlNode& node, const std::string& path, Config::Value& out);
  Config::Value Texts(const OptionSpec& spec, const YamlNode& node, const std::string& path);
  Config::Value TextMap(const OptionSpec& spec, const YamlNode& node, const std::string& path);
  Config::Value Groups(const OptionSpec& spec, const YamlNode& node, const std::string& path);
  Config::Value Default(const OptionSpec& spec, const std::string& path);
  bool FromOverlay(const OptionSpec& spec, const OverlaySetting& setting, const std::string& path,
                   Config::Value& out);
  void WrongKind(const OptionSpec& spec, const YamlNode& node, const std::string& path);

  Shared& shared_;
  const SourceText& source_;
  Origin::Where where_;
  bool required_matters_ = true;  // not in a plugin that is off
};

std::string GotText(const YamlNode& node) {
  if (node.kind == YamlNode::kList) return "a list";
  if (node.kind == YamlNode::kMap) return "a map";
  return node.kind == YamlNode::kNull ? "nothing" : "the text " + QuotedText(node.text);
}

bool IsMissing(const Config::Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return text->empty();
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) return texts->empty();
  if (const auto* map = std::get_if<std::map<std::string, std::string>>(&value)) return map->empty();
  if (const auto* groups = std::get_if<std::vector<Config>>(&value)) return groups->empty();
  return false;
}

void Walk::WrongKind(const OptionSpec& spec, const YamlNode& node, const std::string& path) {
  const bool hidden = IsSecretKey(spec.key) || node.secret;
  std::string got = hidden && node.kind == YamlNode::kScalar ? "a text" : GotText(node);
  std::string hint;
  if (spec.type == OptionType::kGroup) hint = WordHint("", KeysOf(spec.children));
  if (spec.type == OptionType::kGroups) hint = "like [{…}, {…}]";
  if (spec.type == OptionType::kTextMap) hint = "like {key: text}";
  AddAt(node.mark, path + ": expected " + std::string(TypeName(spec.type)) + ", got " + got, hint);
}

void Walk::CheckKeys(const OptionSpec& group, const YamlNode& node, const std::string& path) {
  std::vector<std::string_view> allowed = KeysOf(group.children);
  for (const YamlNode::Member& member : node.members) {
    if (std::ranges::find(allowed, member.key) != allowed.end()) continue;
    // For anchors, as in Compose.
    if (path.empty() && member.key.starts_with("x-")) continue;
    if (shared_.schema.FindNamed(group, member.key)) continue;
    if (shared_.problems.full()) {
      AddAt(member.key_mark, {});
      continue;
    }
    std::string_view noun = Schema::SectionNoun(path);
    std::string message = noun.empty() ? "unknown key " : "no " + std::string(noun) + " ";
    message += QuotedText(member.key);
    if (noun.empty() && !path.empty()) message += " in " + path;
    std::string hint = RenamedKeyHint(path, member.key);
    if (hint.empty()) hint = WordHint(member.key, allowed);
    if (member.key == "<<") hint = "merge keys are not part of YAML 1.2: write the keys out";
    else if (path == "sinks" && member.key.find('/') != member.key.npos)
      hint =
          "further sinks of a kind are otlp/NAME, remote_write/NAME, webhook/NAME, file/NAME, with a name of "
          "at most 64 of a-z A-Z 0-9 _ -";
    AddAt(member.key_mark, std::move(message), std::move(hint));
  }
}

void Walk::CheckRequired(const OptionSpec& group, const YamlNode* node, const Config& config,
                         const std::string& path) {
  for (const OptionSpec& spec : group.children) {
    if (!spec.required || !required_matters_ || spec.type == OptionType::kGroup) continue;
    const YamlNode* given = node == nullptr ? nullptr : node->Find(spec.key);
    bool present = given != nullptr && given->kind != YamlNode::kNull;
    bool number = IsScalar(spec.type) && !std::holds_alternative<std::string>(EmptyValue(spec));
    bool missing =
        number ? config.origin(spec.key).where == Origin::kDefault && !present && spec.fallback.empty()
               : IsMissing(config.entries()[static_cast<size_t>(&spec - group.children.data())].value);
    // A present but invalid value has been reported already.
    if (!missing || (present && given->kind != YamlNode::kScalar)) continue;
    if (present && !given->text.empty()) continue;
    std::string message = QuotedText(spec.key) + " is missing" + (path.empty() ? "" : " in " + path);
    std::string hint = std::string(TypeName(spec.type)) + ": " + std::string(spec.help);
    if (node != nullptr) {
      AddAt((present ? given : node)->mark, std::move(message), std::move(hint));
    } else {
      shared_.problems.Add({source_.name().empty() ? "configuration" : source_.name(), 0, 0, 1, {}, 0},
                           std::move(message), std::move(hint));
    }
  }
}

Config Walk::Group(const OptionSpec& group, const YamlNode* node, const std::string& path) {
  const YamlNode* written = node;
  bool listed = node != nullptr || (!path.empty() && shared_.overlay.Touches(path));
  if (node != nullptr && node->kind != YamlNode::kMap) {
    if (node->kind != YamlNode::kNull) WrongKind(group, *node, path.empty() ? "the file" : path);
    node = nullptr;
  }
  if (node != nullptr) CheckKeys(group, *node, path);
  bool plugin = shared_.schema.IsPlugin(group);
  bool outer = required_matters_;
  Config config;
  for (const OptionSpec& spec : group.children) {
    Config::Entry entry =
        Option(spec, node == nullptr ? nullptr : node->Find(spec.key), Below(path, spec.key));
    if (plugin && spec.key == "enabled") {
      bool* on = std::get_if<bool>(&entry.value);
      if (listed && entry.origin.where == Origin::kDefault) *on = true;
      required_matters_ = outer && *on;
    }
    config.Set(spec.key, std::move(entry.value), std::move(entry.origin));
  }
  for (size_t i = 0; node != nullptr && i < node->members.size(); ++i) {
    const YamlNode::Member& member = node->members[i];
    const OptionSpec* spec = shared_.schema.FindNamed(group, member.key);
    if (spec == nullptr) continue;
    Config::Entry entry = Option(*spec, member.value, Below(path, member.key));
    config.Set(member.key, std::move(entry.value), std::move(entry.origin));
  }
  CheckRequired(group, written, config, path);
  required_matters_ = outer;
  return config;
}

Config::Entry Walk::Option(const OptionSpec& spec, const YamlNode* node, const std::string& path) {
  Config::Entry entry;
  bool empty_group = spec.type == OptionType::kGroup && spec.fallback.empty();
  bool given = node != nullptr && (node->kind != YamlNode::kNull || empty_group);
  // The text in the file is checked even when something stronger replaces it.
  entry.value = given ? Value(spec, node, path) : Default(spec, path);
  entry.origin = given ? OriginOf(node) : Origin{};
  if (spec.type == OptionType::kGroup) return entry;
  const OverlaySetting* setting = shared_.overlay.Find(path);
  if (setting != nullptr && FromOverlay(spec, *setting, path, entry.value)) entry.origin = setting->origin;
  return entry;
}

Config::Value Walk::Value(const OptionSpec& spec, const YamlNode* node, const std::string& path) {
  switch (spec.type) {
    case OptionType::kGroup: return Group(spec, node, path);
    case OptionType::kTexts: return Texts(spec, *node, path);
    case OptionType::kTextMap:
    case OptionType::kGroups: {
      bool map = spec.type == OptionType::kTextMap;
      if (node->kind == (map ? YamlNode::kMap : YamlNode::kList)) {
        return map ? TextMap(spec, *node, path) : Groups(spec, *node, path);
      }
      WrongKind(spec, *node, path);
      return EmptyValue(spec);
    }
    default: break;
  }
  Config::Value out;
  return Text(spec, *node, path, out) ? out : Default(spec, path);
}

bool Walk::Text(const OptionSpec& spec, const YamlNode& node, const std::string& path, Config::Value& out) {
  if (node.kind != YamlNode::kScalar) {
    OptionSpec one = spec;
    if (!IsScalar(spec.type)) one.type = OptionType::kText;
    WrongKind(one, node, path);
    return false;
  }
  ValueCheck wrong = ConvertText(spec, node.text, out);
  if (!wrong) wrong = CheckRootText(path, node.text);
  if (where_ == Origin::kFile && WantsSpots(path)) shared_.spots[path].push_back(source_.SpotOf(node.mark));
  if (!wrong) return true;
  // Points at the text without its quotes, unless it is empty.
  YamlMark mark = node.text.empty() || !node.literal ? node.mark
                  : wrong->length > 0                ? node.Within(wrong->at, wrong->length)
                                                     : node.Within(0, node.text.size());
  if (node.secret) {
    AddAt(mark, path + ": expected " + std::string(TypeName(spec.type)) + ", got something else",
          wrong->hint);
    return false;
  }
  AddAt(mark, path + ": " + wrong->problem + (node.replaced ? ", the value after expansion" : ""),
        wrong->hint);
  return false;
}

Config::Value Walk::Texts(const OptionSpec& spec, const YamlNode& node, const std::string& path) {
  std::vector<std::string> texts;
  auto add = [&](const YamlNode& item) {
    Config::Value value;
    if (Text(spec, item, path, value)) texts.push_back(std::get<std::string>(std::move(value)));
  };
  if (node.kind == YamlNode::kMap) {
    WrongKind(spec, node, path);
  } else if (node.kind == YamlNode::kScalar) {
    if (!node.text.empty()) add(node);
  }
  for (const YamlNode* item : node.items) add(*item);
  return texts;
}

Config::Value Walk::TextMap(const OptionSpec& spec, const YamlNode& node, const std::string& path) {
  std::map<std::string, std::string> map;
  for (const YamlNode::Member& member : node.members) {
    bool text = member.value->kind == YamlNode::kScalar;
    const bool secret = IsSecretKey(member.key) || path.ends_with(".headers");
    if (text && secret && member.value->text.starts_with("…")) {
      AddAt(member.value->mark, path + "." + member.key + ": " + std::string(kHiddenSecret),
            std::string(kHiddenHint));
    }
    const bool empty = member.value->kind == YamlNode::kNull;
    if (text || empty) {
      const bool key_is_name = spec.map_of != MapOf::kRenames;
      if (ValueCheck wrong = CheckPair(spec, member.key, text ? member.value->text : ""))
        AddAt(key_is_name ? member.key_mark : member.value->mark, path + ": " + wrong->problem, wrong->hint);
    }
    if (text) map.emplace(member.key, member.value->text);
    // An empty value is an empty text.
    if (empty) map.emplace(member.key, "");
    if (text || empty) continue;
    WrongKind({.key = member.key, .type = OptionType::kText, .fallback = {}, .help = {}}, *member.value,
              path + "." + member.key);
  }
  return map;
}

Config::Value Walk::Groups(const OptionSpec& spec, const YamlNode& node, const std::string& path) {
  std::vector<Config> groups;
  std::unordered_map<std::string, SourcePlace> names;
  OptionSpec element = spec;
  element.type = OptionType::kGroup;
  for (size_t i = 0; i < node.items.size(); ++i) {
    const YamlNode& item = *node.items[i];
    std::string here = path + "[" + std::to_string(i) + "]";
    if (item.kind != YamlNode::kMap) {
      WrongKind(element, item, here);
      continue;
    }
    groups.push_back(Group(element, &item, here));
    const YamlNode* name = item.Find("name");
    if (name == nullptr || name->kind != YamlNode::kScalar || name->text.empty()) continue;
    auto [first, is_new] = names.emplace(name->text, source_.SpotOf(name->mark));
    if (is_new) continue;
    std::string place = std::to_string(first->second.line) + ":" + std::to_string(first->second.column);
    AddAt(name->mark, here + ": duplicate name " + QuotedText(name->text) + ", first at " + place,
          "each needs a name of its own");
  }
  return groups;
}

Config::Value Walk::Default(const OptionSpec& spec, const std::string& path) {
  if (spec.fallback.empty()) {
    return spec.type == OptionType::kGroup ? Group(spec, nullptr, path) : EmptyValue(spec);
  }
  Config::Value value;
  if (IsScalar(spec.type)) {
    CHECK(!ConvertText(spec, spec.fallback, value));
    return value;
  }
  ConfigProblems none;
  SourceText source("default", std::string(spec.fallback));
  YamlTree tree = ParseYaml(source, none);
  CHECK(none.count() == 0 && tree.root() != nullptr);
  // Below a group, variables and flags may still be wrong; a list by itself is the table's word alone.
  Shared own{shared_.schema, shared_.overlay, none, {}};
  Shared& shared = spec.type == OptionType::kGroup ? shared_ : own;
  value = Walk(shared, source, Origin::kDefault).Value(spec, tree.root(), path);
  CHECK(none.count() == 0);
  return value;
}

// Percent-encoding of the W3C's baggage, in which a plus sign is one.
std::string Decoded(std::string text) {
  for (size_t at = 0; (at = text.find('+', at)) != std::string::npos; ++at) text.replace(at, 1, "%2B");
  return DecodePercent(text);
}

bool Walk::FromOverlay(const OptionSpec& spec, const OverlaySetting& setting, const std::string& path,
                       Config::Value& out) {
  bool good = true;
  std::vector<SourcePlace> spots;
  auto check = [&](std::string_view text, Config::Value& value) {
    ValueCheck wrong = ConvertText(spec, text, value);
    if (!wrong) wrong = CheckRootText(path, text);
    size_t start = static_cast<size_t>(text.data() - setting.text.data());
    spots.push_back(ConfigOverlay::SpotOf(setting, start, text.size()));
    if (!wrong) return;
    good = false;
    size_t length = wrong->length > 0 ? wrong->length : text.size();
    shared_.problems.Add(ConfigOverlay::SpotOf(setting, start + wrong->at, length),
                         path + ": " + wrong->problem, wrong->hint);
  };
  Config::Value value;
  if (IsScalar(spec.type)) {
    check(setting.text, value);
  } else {
    std::vector<std::string> texts;
    std::map<std::string, std::string> map;
    for (std::string_view rest = setting.text; !rest.empty();) {
      std::string_view item = Trim(TakeUntil(rest, ','));
      if (item.empty()) continue;
      if (spec.type == OptionType::kTexts) {
        check(item, value);
        if (const auto* text = std::get_if<std::string>(&value)) texts.push_back(*text);
        continue;
      }
      std::string_view left = item;
      std::string key(Trim(TakeUntil(left, '=')));
      bool pair = item.find('=') != std::string_view::npos && !key.empty() && key.size() <= kConfigKeyBytes;
      std::string text(Trim(left));
      if (setting.percent) text = Decoded(std::move(text));
      if (ValueCheck wrong = pair ? CheckPair(spec, key, text) : std::nullopt) {
        good = false;
        shared_.problems.Add(
            ConfigOverlay::SpotOf(setting, static_cast<size_t>(item.data() - setting.text.data()),
                                  item.size()),
            path + ": " + wrong->problem, wrong->hint);
        continue;
      }
      if (pair && map.emplace(key, std::move(text)).second) continue;
      good = false;
      shared_.problems.Add(
          ConfigOverlay::SpotOf(setting, static_cast<size_t>(item.data() - setting.text.data()), item.size()),
          path + (pair ? ": duplicate key " + QuotedText(key) : ": expected KEY=TEXT"), "like a=1,b=2");
    }
    if (spec.type == OptionType::kTexts) value = std::move(texts);
    if (spec.type == OptionType::kTextMap) value = std::move(map);
  }
  if (!good) return false;
  if (WantsSpots(path)) shared_.spots[path] = std::move(spots);
  out = std::move(value);
  return true;
}

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
    source.Hide(node.mark);
    // A text over several lines ends where the next node begins.
    int end = i + 1 < tree.nodes().size() ? tree.nodes()[i + 1].mark.line : source.lines() + 1;
    for (int line = node.mark.line + 1; line < end && !node.literal; ++line) source.Hide({line, 0, SIZE_MAX});
  }
}

// Expands the values of the file.
void Expand(const ConfigSources& sources, const SourceText& source, YamlTree& tree,
            ConfigProblems& problems) {
  ExpandFrom from;
  from.variable = [&](std::string_view name) -> std::optional<std::string_view> {
    for (const EnvironmentVariable& variable : sources.environment) {
      if (variable.name == name) return variable.value;
    }
    return std::nullopt;
  };
  if (sources.read) {
    const std::string folder = sources.file_name.substr(0, sources.file_name.rfind('/') + 1);
    from.file = [&sources, folder](const std::string& path) {
      return sources.read(path.starts_with('/') ? path : folder + path);
    };
    // A command outside of the unit reads those of the running agent, where it may.
    const std::string given(from.variable("CREDENTIALS_DIRECTORY").value_or(""));
    const std::string credentials = given.empty() ? "/run/credentials/gpulens.service" : given;
    from.credential = [&sources, credentials](const std::string& name) {
      return sources.read(credentials + "/" + name);
    };
  }
  ExpandValues(tree, source, from, problems);
}

// The place of a value that a rule over several options refuses.
SourcePlace SpotOf(const Origin& origin, const SourceText& source) {
  if (origin.where == Origin::kFile) return SourcePlace{source.name(), origin.line, origin.column, 1, {}, 0};
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

// Runs the checks of enabled plugins over their groups.
void CheckPlugins(const Schema& schema, const Config& config, const SourceText& source,
                  ConfigProblems& problems) {
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

LoadOutcome Load(const Schema& schema, const ConfigSources& sources) {
  LoadOutcome outcome;
  ConfigProblems problems;
  ConfigOverlay overlay(schema, sources, problems, outcome.unknown_variables);
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
  if (schema.is_agents()) Validate(outcome.config, shared.spots, sources.inspect_file, problems);
  CheckPlugins(schema, outcome.config, source, problems);
  if (schema.is_agents()) WarnOfPlaces(outcome.config, sources, outcome.warnings);
  outcome.help = schema.help();
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
  return out + ".   every key with its default: " + help + "\n";
}

}  // namespace gpulens

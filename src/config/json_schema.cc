#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "config/print.h"
#include "config/value_parse.h"

namespace gpulens {
namespace {

constexpr std::string_view kTimePattern = R"(^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h|d))+)$)";
constexpr std::string_view kSizePattern = R"(^[0-9]+(\.[0-9]+)?(B|[kK]B|MB|GB|TB|KiB|MiB|GiB|TiB)?$)";

// Members of one JSON object, one per line.
class JsonObject {
 public:
  JsonObject(std::string& out, size_t indent) : out_(out), indent_(indent) { out_ += "{"; }
  ~JsonObject() { out_ += empty_ ? "}" : "\n" + std::string(indent_, ' ') + "}"; }
  JsonObject(const JsonObject&) = delete;
  JsonObject& operator=(const JsonObject&) = delete;

  // The caller appends the value.
  void Key(std::string_view key) {
    out_ += empty_ ? "\n" : ",\n";
    out_.append(indent_ + 2, ' ');
    AppendJsonString(out_, key);
    out_ += ": ";
    empty_ = false;
  }
  void Text(std::string_view key, std::string_view text) {
    Key(key);
    AppendJsonString(out_, text);
  }
  void Raw(std::string_view key, std::string_view json) {
    Key(key);
    out_ += json;
  }

 private:
  std::string& out_;
  size_t indent_;
  bool empty_ = true;
};

std::string JsonList(const std::vector<std::string_view>& texts) {
  std::string out = "[";
  for (std::string_view text : texts) {
    if (out.size() > 1) out += ", ";
    AppendJsonString(out, text);
  }
  return out + "]";
}

// The default as JSON; empty for options that have none, and for groups.
std::string JsonDefault(const OptionSpec& spec, const Config::Value& value) {
  // Without a default of its own, an option may have one that its group sets.
  if (spec.fallback.empty() && value == EmptyValue(spec)) return "";
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const double* number = std::get_if<double>(&value)) return FormatDoubleValue(*number);
  std::string text;
  if (const Duration* time = std::get_if<Duration>(&value)) {
    AppendJsonString(text, FormatTimeValue(*time));
  } else if (const int64_t* number = std::get_if<int64_t>(&value)) {
    if (spec.type == OptionType::kInt) return std::to_string(*number);
    AppendJsonString(text, FormatSizeValue(*number));
  } else if (const auto* one = std::get_if<std::string>(&value)) {
    AppendJsonString(text, *one);
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    return JsonList(std::vector<std::string_view>(texts->begin(), texts->end()));
  }
  return text;
}

void AddBounds(const OptionSpec& spec, JsonObject& object) {
  if (spec.type != OptionType::kInt && spec.type != OptionType::kDouble) return;
  if (spec.min > -1e299) object.Raw("minimum", FormatDoubleValue(spec.min));
  if (spec.max < 1e299) object.Raw("maximum", FormatDoubleValue(spec.max));
}

// Writes the schema. Groups that are equal in several places, defaults included, are written once, below
// "$defs", and the places refer to them.
class JsonSchemaWriter {
 public:
  explicit JsonSchemaWriter(const Schema& schema)
      : schema_(schema), defaults_(Load(schema, {.inspect_file = nullptr}).config) {}

  std::string Write();

 private:
  // A group, and the values it has by default. Null in an element of a list: the values of its rows.
  struct Place {
    const OptionSpec* group;
    const Config* config;
    auto operator<=>(const Place&) const = default;
  };
  // Equal groups of one key.
  struct Kind {
    std::string body;  // without any reference
    Place first;
    size_t places = 0;
    std::string name;  // below "$defs"; empty: written where it is
  };

  const Config* ConfigOf(const OptionSpec& spec, const Config* parent) const;
  void Count(const OptionSpec& spec, const Config* parent);
  void NameShared();
  std::string ReferenceTo(const Place& place) const;
  std::string NamedPlugins(const OptionSpec& section) const;
  void AddMembers(const Place& place, JsonObject& object, std::string& out, size_t indent) const;
  void AddType(const OptionSpec& spec, JsonObject& object, std::string& out, size_t indent) const;
  void AddElement(const OptionSpec& list, std::string& out, size_t indent) const;
  void AddOption(const OptionSpec& spec, const Config* parent, std::string& out, size_t indent) const;

  const Schema& schema_;
  const Config defaults_;
  const Config unknown_;  // of a group whose defaults its list sets
  std::deque<Kind> kinds_;
  std::map<Place, const Kind*> kind_of_;
};

// The values of a group inside of `parent`.
const Config* JsonSchemaWriter::ConfigOf(const OptionSpec& spec, const Config* parent) const {
  if (spec.type == OptionType::kGroups) return nullptr;
  if (parent == nullptr) return spec.fallback.empty() ? nullptr : &unknown_;
  const Config::Entry* entry = FindEntry(*parent, spec.key);
  return entry == nullptr ? &unknown_ : std::get_if<Config>(&entry->value);
}

// Counts a group and those inside of it. A second one that is equal would be a reference, so what is inside
// of it does not count.
void JsonSchemaWriter::Count(const OptionSpec& spec, const Config* parent) {
  if (!HasKeys(spec)) return;
  const Place place = {&spec, ConfigOf(spec, parent)};
  std::string body;
  {
    JsonObject object(body, 0);
    AddMembers(place, object, body, 0);
  }
  auto kind = std::ranges::find_if(
      kinds_, [&](const Kind& known) { return known.first.group->key == spec.key && known.body == body; });
  if (kind == kinds_.end()) kind = kinds_.insert(kind, Kind{std::move(body), place, 0, {}});
  kind_of_[place] = &*kind;
  if (++kind->places > 1) return;
  for (const OptionSpec& child : spec.children) Count(child, place.config);
}

// Names shared kinds by their keys; those of the same key are numbered.
void JsonSchemaWriter::NameShared() {
  std::map<std::string, int> used;
  for (Kind& kind : kinds_) {
    if (kind.places < 2) continue;
    kind.name = kind.first.group->key;
    const int number = ++used[kind.name];
    if (number > 1) kind.name += "-" + std::to_string(number);
  }
}

// Empty: the group is written where it is.
std::string JsonSchemaWriter::ReferenceTo(const Place& place) const {
  const auto known = kind_of_.find(place);
  return known == kind_of_.end() || known->second->name.empty() ? "" : "#/$defs/" + known->second->name;
}

void JsonSchemaWriter::AddType(const OptionSpec& spec, JsonObject& object, std::string& out,
                               size_t indent) const {
  switch (spec.type) {
    case OptionType::kBool: return object.Text("type", "boolean");
    case OptionType::kInt: object.Text("type", "integer"); return AddBounds(spec, object);
    case OptionType::kDouble: object.Text("type", "number"); return AddBounds(spec, object);
    case OptionType::kTime:
      object.Raw("type", R"(["string", "integer"])");
      return object.Text("pattern", kTimePattern);
    case OptionType::kSize:
      object.Raw("type", R"(["string", "integer"])");
      return object.Text("pattern", kSizePattern);
    case OptionType::kTextMap:
      object.Text("type", "object");
      return object.Raw("additionalProperties", R"({"type": ["string", "number", "boolean", "null"]})");
    case OptionType::kTexts: {
      object.Raw("type", R"(["array", "string"])");
      std::string words =
          spec.allowed.empty() ? "" : R"(, "enum": )" + JsonList({spec.allowed.begin(), spec.allowed.end()});
      return object.Raw("items", R"({"type": "string")" + words + "}");
    }
    case OptionType::kGroups:
      object.Text("type", "array");
      object.Key("items");
      return AddElement(spec, out, indent + 2);
    case OptionType::kText:
      object.Text("type", "string");
      if (!spec.allowed.empty()) object.Raw("enum", JsonList({spec.allowed.begin(), spec.allowed.end()}));
      return;
    default: return object.Text("type", "string");
  }
}

void JsonSchemaWriter::AddElement(const OptionSpec& list, std::string& out, size_t indent) const {
  const Place place = {&list, nullptr};
  JsonObject object(out, indent);
  const std::string reference = ReferenceTo(place);
  if (!reference.empty()) return object.Text("$ref", reference);
  AddMembers(place, object, out, indent);
}

void JsonSchemaWriter::AddOption(const OptionSpec& spec, const Config* parent, std::string& out,
                                 size_t indent) const {
  JsonObject object(out, indent);
  if (!spec.help.empty()) object.Text("description", spec.help);
  if (spec.type == OptionType::kGroup) {
    const Place place = {&spec, ConfigOf(spec, parent)};
    const std::string reference = ReferenceTo(place);
    if (!reference.empty()) return object.Text("$ref", reference);
    return AddMembers(place, object, out, indent);
  }
  AddType(spec, object, out, indent);
  Config::Value value;
  if (parent == nullptr) {
    if (!IsScalar(spec.type) || spec.fallback.empty() || ConvertText(spec, spec.fallback, value)) return;
  } else {
    const Config::Entry* entry = FindEntry(*parent, spec.key);
    if (entry == nullptr) return;
    value = entry->value;
  }
  const std::string json = JsonDefault(spec, value);
  if (!json.empty()) object.Raw("default", json);
}

// Patterns for plugins of which there may be several: "otlp/b".
std::string JsonSchemaWriter::NamedPlugins(const OptionSpec& section) const {
  std::string named;
  for (const OptionSpec& spec : section.children) {
    if (!schema_.FindNamed(section, std::string(spec.key) + "/x")) continue;
    named += std::string(named.empty() ? "" : ", ") + "\"^" + std::string(spec.key) +
             "/[A-Za-z0-9_-]{1,64}$\": {\"$ref\": \"#/properties/sinks/properties/" + std::string(spec.key) +
             "\"}";
  }
  return named;
}

void JsonSchemaWriter::AddMembers(const Place& place, JsonObject& object, std::string& out,
                                  size_t indent) const {
  const OptionSpec& group = *place.group;
  // An empty value is a group with its defaults; an element of a list must have a value.
  const bool element = group.type == OptionType::kGroups;
  object.Raw("type", element ? R"("object")" : R"(["object", "null"])");
  object.Raw("additionalProperties", "false");
  std::vector<std::string_view> required;
  for (const OptionSpec& spec : group.children) {
    if (spec.required && element) required.push_back(spec.key);
  }
  if (!required.empty()) object.Raw("required", JsonList(required));
  const std::string named = NamedPlugins(group);
  if (!named.empty()) object.Raw("patternProperties", "{" + named + "}");
  object.Key("properties");
  JsonObject properties(out, indent + 2);
  for (const OptionSpec& spec : group.children) {
    properties.Key(spec.key);
    AddOption(spec, place.config, out, indent + 4);
  }
}

std::string JsonSchemaWriter::Write() {
  for (const OptionSpec& spec : schema_.options()) {
    if (Schema::SectionNoun(spec.key).empty()) {
      Count(spec, &defaults_);
      continue;
    }
    const Config* section = ConfigOf(spec, &defaults_);
    for (const OptionSpec& plugin : spec.children) {
      for (const OptionSpec& option : plugin.children) Count(option, ConfigOf(plugin, section));
    }
  }
  NameShared();
  const OptionSpec whole{
      .key = "", .type = OptionType::kGroup, .fallback = "", .help = "", .children = schema_.options()};
  std::string out;
  {
    JsonObject root(out, 0);
    root.Text("$schema", "https://json-schema.org/draft/2020-12/schema");
    root.Text("description", "gpulens.yaml");
    AddMembers({&whole, &defaults_}, root, out, 0);
    if (std::ranges::any_of(kinds_, [](const Kind& kind) { return !kind.name.empty(); })) {
      root.Key("$defs");
      JsonObject shared(out, 2);
      for (const Kind& kind : kinds_) {
        if (kind.name.empty()) continue;
        shared.Key(kind.name);
        JsonObject object(out, 4);
        AddMembers(kind.first, object, out, 4);
      }
    }
  }
  return out + "\n";
}

}  // namespace

std::string PrintJsonSchema(const Schema& schema) { return JsonSchemaWriter(schema).Write(); }

}  // namespace gpulens

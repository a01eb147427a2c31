#include "agent/config/print.h"
#include "agent/config/text/convert.h"
#include "agent/config/text/value_parse.h"
#include "base/text.h"

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
  if (spec.fallback.empty()) return "";
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

void AddGroup(const Schema& schema, const OptionSpec& group, const Config* config, std::string& out,
              size_t indent);

void AddType(const Schema& schema, const OptionSpec& spec, JsonObject& object, std::string& out,
             size_t indent) {
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
      return AddGroup(schema, spec, nullptr, out, indent + 2);
    case OptionType::kText:
      object.Text("type", "string");
      if (!spec.allowed.empty()) object.Raw("enum", JsonList({spec.allowed.begin(), spec.allowed.end()}));
      return;
    default: return object.Text("type", "string");
  }
}

void AddOption(const Schema& schema, const OptionSpec& spec, const Config* group, std::string& out,
               size_t indent) {
  const Config::Entry* entry = nullptr;
  for (size_t i = 0; group != nullptr && i < group->entries().size(); ++i) {
    if (group->entries()[i].key == spec.key) entry = &group->entries()[i];
  }
  if (spec.type == OptionType::kGroup) {
    return AddGroup(schema, spec, entry == nullptr ? nullptr : std::get_if<Config>(&entry->value), out,
                    indent);
  }
  JsonObject object(out, indent);
  object.Text("description", spec.help);
  AddType(schema, spec, object, out, indent);
  std::string json = entry == nullptr ? "" : JsonDefault(spec, entry->value);
  if (!json.empty()) object.Raw("default", json);
}

void AddGroup(const Schema& schema, const OptionSpec& group, const Config* config, std::string& out,
              size_t indent) {
  JsonObject object(out, indent);
  if (!group.help.empty()) object.Text("description", group.help);
  // Nothing behind the colon is a group with its defaults; an element of a list must be there.
  object.Raw("type", group.type == OptionType::kGroups ? R"("object")" : R"(["object", "null"])");
  object.Raw("additionalProperties", "false");
  std::vector<std::string_view> required;
  for (const OptionSpec& spec : group.children) {
    if (spec.required && group.type == OptionType::kGroups) required.push_back(spec.key);
  }
  if (!required.empty()) object.Raw("required", JsonList(required));
  std::string named;
  for (const OptionSpec& spec : group.children) {
    if (!schema.FindNamed(group, std::string(spec.key) + "/x")) continue;
    named += std::string(named.empty() ? "" : ", ") + "\"^" + std::string(spec.key) +
             "/[A-Za-z0-9_-]{1,64}$\": {\"$ref\": \"#/properties/sinks/properties/" + std::string(spec.key) +
             "\"}";
  }
  if (!named.empty()) object.Raw("patternProperties", "{" + named + "}");
  object.Key("properties");
  JsonObject properties(out, indent + 2);
  for (const OptionSpec& spec : group.children) {
    properties.Key(spec.key);
    AddOption(schema, spec, config, out, indent + 4);
  }
}

}  // namespace

std::string PrintJsonSchema(const Schema& schema) {
  LoadOutcome defaults = Load(schema, {.look = nullptr});
  std::string out;
  OptionSpec root{.key = "",
                  .type = OptionType::kGroup,
                  .fallback = "",
                  .help = "gpulens.yaml",
                  .children = schema.options()};
  AddGroup(schema, root, &defaults.config, out, 0);
  // The root says, before anything else, what it is.
  constexpr std::string_view kDialect = R"("$schema": "https://json-schema.org/draft/2020-12/schema",)";
  out.insert(1, "\n  " + std::string(kDialect));
  return out + "\n";
}

}  // namespace gpulens

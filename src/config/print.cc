#include "config/print.h"

#include <algorithm>
#include <vector>

#include "base/parse.h"
#include "base/text.h"
#include "config/expand.h"
#include "config/value_parse.h"

namespace gpulens {
namespace {

// Quotes a text so that every YAML reader reads it as this text.
std::string YamlText(std::string_view text) {
  constexpr std::string_view kWords[] = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"};
  bool plain = !text.empty() && text.size() < 1000 && !ParseDouble(text);
  for (size_t i = 0; i < text.size() && plain; ++i) {
    char c = text[i];
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    bool digit = c >= '0' && c <= '9';
    plain = letter || c == '/' || c == '_' || (i > 0 && (digit || c == '.' || c == '-'));
  }
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (plain && std::ranges::find(kWords, lower) == std::end(kWords)) return std::string(text);
  std::string out;
  AppendJsonString(out, text);
  return out;
}

std::string OriginText(const Origin& origin) {
  if (origin.where == Origin::kDefault) return "default";
  std::string out;
  AppendPrintable(out, origin.name);
  if (origin.where != Origin::kFile) return out;
  return out + ":" + std::to_string(origin.line) + ":" + std::to_string(origin.column);
}

bool IsNumber(OptionType type) {
  return type == OptionType::kInt || type == OptionType::kDouble || type == OptionType::kTime ||
         type == OptionType::kSize;
}

// Writes one tree of options, with origins or with help as comments.
class Printer {
 public:
  Printer(bool help, PrintOptions options) : help_(help), options_(options) {}

  void Group(std::span<const OptionSpec> specs, const Config& config, size_t indent, bool in_list = false) {
    bool first = in_list;
    for (const OptionSpec& spec : specs) {
      const Config::Entry* entry = FindEntry(config, spec.key);
      if (entry == nullptr) continue;
      if (help_ && !in_list) Help(spec, indent);
      // The first key of a list element follows its dash.
      lead_ = first ? std::string(indent - 2, ' ') + "- " : std::string(indent, ' ');
      first = false;
      Option(spec, *entry, indent);
      if (spec.type != OptionType::kGroup) continue;
      // Further ones of the same kind, which have names.
      for (const Config::Entry& named : config.entries()) {
        if (!named.key.starts_with(std::string(spec.key) + "/")) continue;
        OptionSpec one = spec;
        one.key = named.key;
        lead_ = std::string(indent, ' ');
        Option(one, named, indent);
      }
    }
  }
  std::string out;

 private:
  void Option(const OptionSpec& spec, const Config::Entry& entry, size_t indent) {
    out += lead_ + std::string(spec.key) + ":";
    if (spec.type == OptionType::kGroup) {
      const Config& group = std::get<Config>(entry.value);
      out += group.entries().empty() ? " {}\n" : "\n";
      return Group(spec.children, group, indent + 2);
    }
    if (spec.type == OptionType::kGroups) {
      const auto& groups = std::get<std::vector<Config>>(entry.value);
      if (groups.empty()) out += " []";
      Comment(entry.origin);
      for (const Config& group : groups) Group(spec.children, group, indent + 4, true);
      if (help_) Elements(spec, indent + 2);
      return;
    }
    bool unset = IsNumber(spec.type) && spec.fallback.empty() && entry.origin.where == Origin::kDefault &&
                 entry.value == EmptyValue(spec);
    secret_ = entry.origin.secret;
    out += " " + (unset ? std::string("null") : ValueText(spec, entry.value));
    Comment(entry.origin);
  }

  void Comment(const Origin& origin) { out += options_.origins ? "  # " + OriginText(origin) + "\n" : "\n"; }

  std::string ValueText(const OptionSpec& spec, const Config::Value& value) const {
    if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
    if (const double* number = std::get_if<double>(&value)) return FormatDoubleValue(*number);
    if (const Duration* time = std::get_if<Duration>(&value)) return FormatTimeValue(*time);
    if (const int64_t* number = std::get_if<int64_t>(&value)) {
      return spec.type == OptionType::kSize ? FormatSizeValue(*number) : std::to_string(*number);
    }
    std::string text;
    if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
      for (const std::string& one : *texts) text += (text.empty() ? "" : ", ") + Shown(spec, spec.key, one);
      return "[" + text + "]";
    }
    if (const auto* map = std::get_if<std::map<std::string, std::string>>(&value)) {
      for (const auto& [key, one] : *map)
        text += (text.empty() ? "" : ", ") + YamlText(key) + ": " + Shown(spec, key, one);
      return "{" + text + "}";
    }
    return Shown(spec, spec.key, std::get<std::string>(value));
  }

  std::string Shown(const OptionSpec& spec, std::string_view key, const std::string& text) const {
    if (options_.show_secrets) return YamlText(EscapeDollars(text));
    const bool secret = secret_ || IsSecretKey(key) || IsSecretMap(spec.key);
    return YamlText(EscapeDollars(secret ? MaskSecret(text) : MaskUrl(text, spec.secret_path)));
  }

  static std::string Facts(const OptionSpec& spec) {
    std::string facts(TypeName(spec.type));
    facts[0] = static_cast<char>(facts[0] - 'a' + 'A');
    if (std::string range = RangeText(spec); !range.empty()) facts += ", " + range;
    bool words = spec.type == OptionType::kText || spec.type == OptionType::kTexts;
    for (size_t i = 0; i < spec.allowed.size() && words; ++i) {
      facts += (i == 0 ? ": " : " ") + std::string(spec.allowed[i]);
    }
    return facts + (spec.required ? ", required." : ".");
  }

  // Help is printed as a sentence, whether it ends with a stop or not.
  static std::string WithoutStop(std::string_view help) {
    if (help.ends_with('.')) help.remove_suffix(1);
    return std::string(help);
  }

  void Help(const OptionSpec& spec, size_t indent) {
    if (indent == 0 && !out.empty()) out += "\n";
    out += std::string(indent, ' ') + "# " + WithoutStop(spec.help);
    out += spec.type == OptionType::kGroup ? ".\n" : ". " + Facts(spec) + "\n";
  }

  // The options of a list's elements, as comments: there is no element to show them on.
  void Elements(const OptionSpec& list, size_t indent) {
    for (const OptionSpec& spec : list.children) {
      std::string dash = &spec == list.children.data() ? "- " : "  ";
      std::string value = spec.fallback.empty() ? std::string() : " " + std::string(spec.fallback);
      out += std::string(indent, ' ') + "# " + dash + std::string(spec.key) + ":" + value + "   " +
             WithoutStop(spec.help) + ". " + Facts(spec) + "\n";
    }
  }

  bool help_;
  PrintOptions options_;
  std::string lead_;
  bool secret_ = false;  // the value at hand came from a file that may hold secrets
};

// How many values came from `where`, and the names of the variables or flags.
void CountOrigins(const Config& config, Origin::Where where, std::vector<std::string>& names) {
  for (const Config::Entry& entry : config.entries()) {
    if (const auto* group = std::get_if<Config>(&entry.value)) CountOrigins(*group, where, names);
    if (entry.origin.where == where) names.push_back(entry.origin.name);
  }
}

size_t CountEnabled(const Config& config) {
  size_t count = 0;
  for (const Config::Entry& plugin : config.entries())
    count += std::get<Config>(plugin.value).Bool("enabled");
  return count;
}

}  // namespace

std::string PrintConfig(const Schema& schema, const Config& config, PrintOptions options) {
  Printer printer(false, options);
  printer.Group(schema.options(), config, 0);
  return std::move(printer.out);
}

std::string PrintSchema(const Schema& schema) {
  LoadOutcome defaults = Load(schema, {.inspect_file = nullptr});
  Printer printer(true, {.origins = false});
  printer.Group(schema.options(), defaults.config, 0);
  return "# Every key, its type and its default. Durations 500ms 1s 5m 2h 1d, sizes 4096 64MiB 10GB.\n\n" +
         std::move(printer.out);
}

std::string CheckSummary(const Schema& schema, const Config& config, const std::string& file_name) {
  std::string out;
  AppendPrintable(out, file_name.empty() ? "no file, defaults" : file_name);
  std::string separator = ": good. ";
  for (const OptionSpec& section : schema.options()) {
    std::string_view noun = Schema::SectionNoun(section.key);
    size_t count = 0;
    if (section.type == OptionType::kGroups) {
      noun = section.key.substr(0, section.key.size() - 1);  // "target"
      count = config.Groups(section.key).size();
    } else if (!noun.empty()) {
      count = CountEnabled(config.Group(section.key));
    }
    if (count == 0 && section.key != "collectors" && section.key != "sinks") continue;
    out += separator + std::to_string(count) + " " + std::string(count == 1 ? noun : section.key);
    separator = ", ";
  }
  for (Origin::Where where : {Origin::kEnvironment, Origin::kFlag}) {
    std::vector<std::string> names;
    CountOrigins(config, where, names);
    if (names.empty()) continue;
    out += separator + std::to_string(names.size()) + " from ";
    out += where == Origin::kFlag ? "the command line (" : "the environment (";
    for (size_t i = 0; i < names.size(); ++i) out += (i == 0 ? "" : " ") + names[i];
    out += ")";
  }
  return out;
}

}  // namespace gpulens

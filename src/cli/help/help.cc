#include "cli/help/help.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <span>
#include <utility>

#include "base/parse.h"
#include "base/text.h"
#include "cli/common/output.h"

namespace gpulens {
namespace {

constexpr size_t kNarrowest = 40, kWidest = 100;
// Where the text of an option or a command begins, unless its name is longer.
constexpr size_t kOptionColumn = 30, kCommandColumn = 14;
constexpr std::string_view kFirstCommands[] = {"agent",  "top",     "why",     "doctor",  "check",
                                               "events", "metrics", "collect", "explain", "run",
                                               "exp",    "bench",   "config",  "version", "help"};
// The groups of commands, in the order of `help all`. Large ones only list the names.
struct CommandGroup {
  const char* name;
  bool names_only;
};
constexpr CommandGroup kGroups[] = {{"Look", false},
                                    {"LLM engines", false},
                                    {"Runs and records", false},
                                    {"Simulated GPUs", false},
                                    {"Set up", false},
                                    {"Monitors, under the names of l9gpu", true},
                                    {"Slurm", true}};

std::string Bold(std::string_view text, const HelpStyle& style) {
  return style.color ? "\x1b[1m" + std::string(text) + "\x1b[0m" : std::string(text);
}

// Appends "  name   what it does" with the text in a column of its own.
void AppendEntry(std::string& out, const std::string& name, std::string_view text, size_t column,
                 const HelpStyle& style) {
  out += "  " + Bold(name, style);
  size_t at = 2 + WidthOf(name);
  if (at + 2 > column) {
    out += '\n';
    at = 0;
  }
  out.append(column - at, ' ');
  AppendWrapped(out, text, column, column, style.width);
}

// A line of examples, "  command     what it does".
struct Example {
  std::string command;
  std::string_view remark;
};

Example SplitExample(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const size_t gap = line.find("  ");
  if (gap == line.npos) return {std::string(line), {}};
  return {std::string(line.substr(0, gap)), line.substr(line.find_first_not_of(' ', gap))};
}

// Lays out lines that are too long in narrower columns, with remarks below commands that leave no room.
void AppendExamples(std::string& out, std::span<const std::string_view> lines, const HelpStyle& style) {
  constexpr size_t kRemarkColumns = 30;
  if (std::ranges::all_of(lines, [&](std::string_view line) { return WidthOf(line) <= style.width; })) {
    for (std::string_view line : lines) out.append(line) += '\n';
    return;
  }
  size_t column = 6;
  for (std::string_view line : lines) {
    const size_t end = 2 + WidthOf(SplitExample(line).command) + 2;
    if (end + kRemarkColumns <= style.width) column = std::max(column, end);
  }
  for (std::string_view line : lines) {
    const Example example = SplitExample(line);
    if (!example.remark.empty() && 2 + WidthOf(example.command) <= style.width) {
      AppendEntry(out, example.command, example.remark, column, {.width = style.width});
      continue;
    }
    out += "  ";
    AppendWrapped(out, example.command, 2, 6, style.width);
    if (example.remark.empty()) continue;
    out.append(column, ' ');
    AppendWrapped(out, example.remark, column, column, style.width);
  }
}

// Appends the text after the options: blocks of indented examples, and wrapped sentences. "Exit: …" begins a
// line.
void AppendFooter(std::string& out, std::string_view footer, const HelpStyle& style) {
  std::vector<std::string_view> lines;
  while (!footer.empty()) lines.push_back(TakeUntil(footer, '\n'));
  auto indented = [&](size_t i) { return lines[i].starts_with("  "); };
  bool blank = true;
  for (size_t i = 0; i < lines.size();) {
    if (lines[i].empty()) {
      blank = true;
      ++i;
      continue;
    }
    if (std::exchange(blank, false)) out += '\n';
    size_t end = i + 1;
    if (indented(i)) {
      while (end < lines.size() && indented(end)) ++end;
      AppendExamples(out, std::span(lines).subspan(i, end - i), style);
    } else {
      std::string sentence(lines[i]);
      while (end < lines.size() && !lines[end].empty() && !indented(end) && !lines[end].starts_with("Exit:"))
        sentence.append(" ").append(lines[end++]);
      AppendWrapped(out, sentence, 0, sentence.starts_with("Exit:") ? 6 : 0, style.width);
    }
    i = end;
  }
}

// The placeholder of the value, or the allowed words, instead of the parser's types.
std::string ValueOf(const CLI::Option& option) {
  if (option.get_type_size() == 0) return {};
  std::string type = option.get_type_name();
  if (const size_t open = type.find('{'); open != type.npos && type.ends_with('}')) {
    std::string words = type.substr(open + 1, type.size() - open - 2);
    std::ranges::replace(words, ',', '|');
    return words;
  }
  for (const auto& [theirs, ours] :
       {std::pair("TEXT", "TEXT"), {"INT", "N"}, {"UINT", "N"}, {"FLOAT", "X"}}) {
    if (type == theirs || type.starts_with(std::string(theirs) + ":")) return ours;
  }
  return type;
}

std::string NamesOf(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames()) names += (names.empty() ? "-" : ", -") + name;
  for (const std::string& name : option.get_lnames()) names += (names.empty() ? "--" : ", --") + name;
  if (const std::string value = ValueOf(option); !value.empty() && !names.empty()) names += " " + value;
  return names;
}

std::string MeaningOf(const CLI::Option& option) {
  std::string text = option.get_description();
  const std::string value = option.get_default_str();
  if (!value.empty() && option.get_type_size() != 0) text += " (default " + value + ")";
  return text;
}

std::string PositionalName(const CLI::Option& option) {
  const std::string names = option.get_name(true);
  return names.substr(0, names.find(','));
}

std::string UsageOf(const CLI::App& command, const std::string& name) {
  std::string usage = name;
  bool any = false;
  for (const CLI::Option* option : command.get_options()) {
    any |= option->nonpositional() && !option->get_group().empty();
    if (!option->get_positional()) continue;
    const std::string word = PositionalName(*option) + (option->get_items_expected_max() > 1 ? "…" : "");
    usage += option->get_required() ? " " + word : " [" + word + "]";
  }
  if (!SubcommandNames(command, false).empty())
    usage += command.get_require_subcommand_min() > 0 ? " COMMAND" : " [COMMAND]";
  if (any) usage += " [OPTIONS]";
  return usage;
}

void AppendOptions(std::string& out, const CLI::App& command, const HelpStyle& style) {
  std::vector<std::string> groups;
  for (const CLI::Option* option : command.get_options()) {
    if (option->nonpositional() && !option->get_group().empty() &&
        std::ranges::find(groups, option->get_group()) == groups.end())
      groups.push_back(option->get_group());
  }
  bool titled = false;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional() || option->get_description().empty()) continue;
    if (!std::exchange(titled, true)) out += "\n" + Bold("Arguments", style) + "\n";
    AppendEntry(out, PositionalName(*option), MeaningOf(*option), kOptionColumn, style);
  }
  for (const std::string& group : groups) {
    out += "\n" + Bold(group, style) + "\n";
    for (const CLI::Option* option : command.get_options()) {
      if (option->nonpositional() && option->get_group() == group)
        AppendEntry(out, NamesOf(*option), MeaningOf(*option), kOptionColumn, style);
    }
  }
}

std::vector<const CLI::App*> Subcommands(const CLI::App& command) {
  return command.get_subcommands([](const CLI::App*) { return true; });
}

const CLI::App* FindSubcommand(const CLI::App& command, std::string_view name) {
  for (const CLI::App* one : Subcommands(command)) {
    if (one->get_name() == name) return one;
  }
  return nullptr;
}

// The option at the beginning of a text of CLI11: "--limit: …", "--limit requires …".
std::string OptionIn(const std::string& text) { return text.substr(0, text.find_first_of(": ")); }

// Reports a word that is neither an option nor a subcommand.
std::string WrongWord(const CLI::App& command, const std::string& word) {
  std::vector<std::string> options;
  const std::string printable = Printable(word);
  if (word.size() > 1 && word.front() == '-') {
    for (const CLI::Option* option : command.get_options()) {
      for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
    }
    const std::vector<std::string_view> names(options.begin(), options.end());
    return "no option \"" + printable.substr(0, printable.find('=')) + "\"." +
           DidYouMean(word.substr(0, word.find('=')), names);
  }
  const std::vector<std::string_view> names = SubcommandNames(command, true);
  if (names.empty()) return "\"" + printable + "\" is one argument too many.";
  return "no command \"" + printable + "\"." + DidYouMean(word, names);
}

// Rewords "--format: xml not in {table,json}".
std::string WrongChoice(const std::string& text) {
  const size_t in = text.find(" not in {"), colon = text.find(": ");
  if (in == text.npos || colon == text.npos || colon > in) return {};
  const std::string value = text.substr(colon + 2, in - colon - 2);
  std::string listed = text.substr(in + 9);
  listed.resize(std::min(listed.find('}'), listed.size()));
  std::vector<std::string_view> words;
  for (std::string_view rest = listed; !rest.empty();) words.push_back(TakeUntil(rest, ','));
  return text.substr(0, colon) + ": \"" + value + "\" is not one of " + Joined(words, ", ") + "." +
         DidYouMean(value, words);
}

std::string WhatIsWrong(const CLI::App& command, const CLI::ParseError& error) {
  // An unknown word also explains a missing one.
  if (const std::vector<std::string> rest = command.remaining(); !rest.empty())
    return WrongWord(command, rest.front());
  const std::string text = error.what();
  if (text == "A subcommand is required") {
    return "a command is required: " + Joined(SubcommandNames(command, false), ", ") + ".";
  }
  if (std::string choice = WrongChoice(text); !choice.empty()) return choice;
  // "--limit: Value x not in range 1 to 100"
  if (const size_t value = text.find(": Value "), range = text.find(" not in range ");
      value != text.npos && range != text.npos && range > value)
    return text.substr(0, value) + ": \"" + text.substr(value + 8, range - value - 8) +
           "\" is not a number from " + text.substr(range + 14) + ".";
  if (error.get_name() == "ArgumentMismatch") return OptionIn(text) + " needs a value.";
  if (error.get_name() == "ConversionError") {
    const size_t equals = text.find(" = "), from = text.find("convert: ");
    if (equals != text.npos && from != text.npos)
      return text.substr(from + 9, equals - from - 9) + ": \"" + text.substr(equals + 3) + "\" is no number.";
  }
  return text.ends_with('.') ? text : text + ".";
}

}  // namespace

HelpStyle HelpStyleOf(int fd) {
  HelpStyle style;
  style.width = std::clamp<size_t>(static_cast<size_t>(TerminalColumns(fd)), kNarrowest, kWidest);
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  style.color = ::isatty(fd) && !(no_color && *no_color) && term && std::string_view(term) != "dumb";
  return style;
}

std::vector<std::string_view> SubcommandNames(const CLI::App& command, bool hidden) {
  std::vector<std::string_view> names;
  for (const CLI::App* one : Subcommands(command)) {
    if (!hidden && one->get_group().empty()) continue;
    names.push_back(one->get_name());
    if (!hidden) continue;
    for (const std::string& alias : one->get_aliases()) names.push_back(alias);
  }
  return names;
}

std::string FirstHelp(const CLI::App& app, const HelpStyle& style) {
  std::string out;
  AppendWrapped(out, "GPU and LLM telemetry for one machine or a whole cluster.", 0, 0, style.width);
  out += '\n';
  const size_t column = 25;
  AppendEntry(out, "gpulens agent", "collect what is here; serve it on http://127.0.0.1:9091", column, style);
  AppendEntry(out, "gpulens agent --demo", "a simulated node: GPUs, engines, owners", column, style);
  AppendEntry(out, "gpulens doctor", "what was found, what is missing and what to do", column, style);
  out += "\n" + Bold("Commands", style) + "\n";
  for (std::string_view name : kFirstCommands) {
    if (const CLI::App* command = FindSubcommand(app, name))
      AppendEntry(out, command->get_name(), command->get_description(), kCommandColumn, style);
  }
  out += '\n';
  AppendWrapped(out, "gpulens help all lists every command; gpulens help COMMAND explains one.", 0, 0,
                style.width);
  return out;
}

std::string AllHelp(const CLI::App& app, const HelpStyle& style) {
  std::string out;
  for (const CommandGroup& group : kGroups) {
    std::string names;
    out += (out.empty() ? "" : "\n") + Bold(group.name, style) + "\n";
    for (const CLI::App* command : Subcommands(app)) {
      if (command->get_group() != group.name) continue;
      if (group.names_only) names += (names.empty() ? "" : " ") + command->get_name();
      else AppendEntry(out, command->get_name(), command->get_description(), kCommandColumn, style);
    }
    if (!group.names_only) continue;
    out += "  ";
    AppendWrapped(out, names, 2, 2, style.width);
  }
  return out + "\ngpulens help COMMAND explains one.\n";
}

std::string CommandHelp(const CLI::App& command, const std::string& name, const HelpStyle& style) {
  std::string out;
  AppendWrapped(out, command.get_description(), 0, 0, style.width);
  out += '\n';
  AppendWrapped(out, "Usage: " + UsageOf(command, name), 0, 7, style.width);
  bool titled = false;
  for (const CLI::App* one : Subcommands(command)) {
    if (one->get_group().empty()) continue;
    if (!std::exchange(titled, true)) out += "\n" + Bold("Commands", style) + "\n";
    AppendEntry(out, one->get_name(), one->get_description(), kCommandColumn, style);
  }
  AppendOptions(out, command, style);
  AppendFooter(out, command.get_footer(), style);
  return out;
}

std::string HelpUsage(const CLI::App& command, const std::string& name) { return UsageOf(command, name); }

std::string HelpValue(const CLI::Option& option) { return ValueOf(option); }

std::string HelpMeaning(const CLI::Option& option) { return MeaningOf(option); }

ParsedCommand DeepestCommand(const CLI::App& app) {
  ParsedCommand at{&app, "gpulens"};
  while (true) {
    const std::vector<CLI::App*> parsed = at.command->get_subcommands();
    if (parsed.empty()) return at;
    at.command = parsed.back();
    at.name += " " + at.command->get_name();
  }
}

std::string Complaint(const CLI::App& app, const CLI::ParseError& error) {
  const ParsedCommand at = DeepestCommand(app);
  return at.name + ": " + WhatIsWrong(*at.command, error) + "   " + at.name + " --help\n";
}

CLI::Option* AddOption(CLI::App& command, const std::string& names, std::string& value,
                       const std::string& help, const std::string& type) {
  return command.add_option(names, value, help)->type_name(type);
}

CLI::Option* AddOption(CLI::App& command, const std::string& names, std::vector<std::string>& values,
                       const std::string& help, const std::string& type) {
  return command.add_option(names, values, help)->type_name(type);
}

CLI::Option* AddConfigOption(CLI::App& command, std::string& file) {
  return AddOption(command, "--config", file, "Configuration file (YAML)", "FILE");
}

}  // namespace gpulens

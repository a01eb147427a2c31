#include "cli/help/command_tree.h"

#include <CLI/CLI.hpp>

#include "base/parse.h"
#include "base/version.h"
#include "cli/help/help.h"
#include "wire/json/json_object.h"

namespace gpulens {
namespace {

ValueKind KindOf(std::string_view value) {
  if (value.empty()) return ValueKind::kNone;
  if (value.find('|') != value.npos) return ValueKind::kWords;
  for (std::string_view file : {"FILE", "PATH", "LEDGER"}) {
    if (value == file) return ValueKind::kFile;
  }
  return value == "DIR" ? ValueKind::kFolder : ValueKind::kText;
}

OptionEntry EntryOf(const CLI::Option& option, std::string value) {
  OptionEntry entry;
  entry.value = std::move(value);
  entry.help = HelpMeaning(option);
  entry.group = option.get_group();
  entry.kind = KindOf(entry.value);
  entry.required = option.get_required();
  entry.several = option.get_items_expected_max() > 1;
  if (entry.kind == ValueKind::kWords) {
    for (std::string_view rest = entry.value; !rest.empty();) entry.words.emplace_back(TakeUntil(rest, '|'));
  }
  return entry;
}

CommandEntry EntryOf(const CLI::App& command, std::string name, const ArgumentWords& words) {
  CommandEntry entry;
  entry.description = command.get_description();
  entry.usage = HelpUsage(command, name);
  if (command.get_parent()) entry.group = command.get_group();
  entry.footer = command.get_footer();
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) {
      const std::string names = option->get_name(true), value = HelpValue(*option);
      OptionEntry& argument =
          entry.arguments.emplace_back(EntryOf(*option, names.substr(0, names.find(','))));
      if (KindOf(value) == ValueKind::kWords) {
        argument.words = EntryOf(*option, value).words;
        argument.kind = ValueKind::kWords;
      } else if (const auto found = words.find(name); found != words.end()) {
        argument.words = found->second;
        argument.kind = ValueKind::kWords;
      } else if (name == "gpulens run") {
        argument.kind = ValueKind::kProgram;
      }
    }
    if (!option->nonpositional() || option->get_group().empty()) continue;
    OptionEntry& added = entry.options.emplace_back(EntryOf(*option, HelpValue(*option)));
    for (const std::string& one : option->get_snames()) added.names.push_back("-" + one);
    for (const std::string& one : option->get_lnames()) added.names.push_back("--" + one);
  }
  for (const CLI::App* one : command.get_subcommands([](const CLI::App*) { return true; })) {
    if (!one->get_group().empty())
      entry.commands.push_back(EntryOf(*one, name + " " + one->get_name(), words));
  }
  entry.name = std::move(name);
  return entry;
}

void AppendOption(std::string& out, const OptionEntry& option) {
  JsonObject object(out);
  if (!option.names.empty()) object.Texts("names", option.names);
  object.TextIfAny("value", option.value);
  if (!option.words.empty()) object.Texts("words", option.words);
  object.Text("help", option.help);
  if (!option.names.empty()) object.Text("group", option.group);
  else object.Flag("required", option.required);
  object.Flag("several", option.several);
}

void AppendCommand(JsonObject& object, const CommandEntry& command);

void AppendCommands(JsonObject& object, std::string_view key, const std::vector<CommandEntry>& commands) {
  object.List(key, commands, [](std::string& out, const CommandEntry& one) {
    JsonObject inner(out);
    AppendCommand(inner, one);
  });
}

void AppendCommand(JsonObject& object, const CommandEntry& command) {
  object.Text("name", command.name);
  object.Text("description", command.description);
  object.Text("usage", command.usage);
  object.TextIfAny("group", command.group);
  object.List("arguments", command.arguments, AppendOption);
  object.List("options", command.options, AppendOption);
  object.TextIfAny("footer", command.footer);
  AppendCommands(object, "commands", command.commands);
}

}  // namespace

CommandEntry CommandTree(const CLI::App& app, const ArgumentWords& words) {
  return EntryOf(app, "gpulens", words);
}

std::string CommandTreeJson(const CommandEntry& root) {
  return JsonDocumentText("gpulens.help/1", [&](JsonObject& object) {
    object.Text("version", Version());
    AppendCommands(object, "commands", {root});
  });
}

}  // namespace gpulens

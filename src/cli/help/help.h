// Options, help pages and parse errors of the command line. Texts are those of the commands and options.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI

namespace gpulens {

// How text for people is laid out on one output.
struct HelpStyle {
  size_t width = 80;
  bool color = false;
};

// Of an open file: as wide as its terminal, at most 100 columns, and 80 without one. Colour only on a
// terminal that has it, and never where NO_COLOR is set.
HelpStyle HelpStyleOf(int fd);

// The commands that most people need: `gpulens`, `gpulens help`.
std::string FirstHelp(const CLI::App& app, const HelpStyle& style);
// Every command, by group: `gpulens help all`.
std::string AllHelp(const CLI::App& app, const HelpStyle& style);
// One command. `name`: all its words, "gpulens config check".
std::string CommandHelp(const CLI::App& command, const std::string& name, const HelpStyle& style);

// The names of the commands under this one that help shows, and with `hidden` older names, too.
std::vector<std::string_view> SubcommandNames(const CLI::App& command, bool hidden);

// The command that was being parsed, and its words.
struct ParsedCommand {
  const CLI::App* command;
  std::string name;
};
ParsedCommand DeepestCommand(const CLI::App& app);

// One line, with a newline: what of the command line is wrong, and which word may have been meant.
std::string Complaint(const CLI::App& app, const CLI::ParseError& error);

// Adds an option; `type` names its value in the help.
CLI::Option* AddOption(CLI::App& command, const std::string& names, std::string& value,
                       const std::string& help, const std::string& type);
CLI::Option* AddOption(CLI::App& command, const std::string& names, std::vector<std::string>& values,
                       const std::string& help, const std::string& type);
// --config.
CLI::Option* AddConfigOption(CLI::App& command, std::string& file);

}  // namespace gpulens

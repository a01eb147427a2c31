// What the command line prints about itself: help pages, and complaints about a wrong word with the nearest
// right one. The texts are those of the parser's commands and options; this file only lays them out.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
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

}  // namespace gpulens

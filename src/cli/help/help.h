// Commands, options, help pages and parse errors of the command line.
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

// Returns the style for an open file: the width of its terminal, at most 100 columns, or 80 without one. Uses
// colour only on a terminal that has it, and never with NO_COLOR.
HelpStyle HelpStyleOf(int fd);

// Lists the most important commands: `gpulens`, `gpulens help`.
std::string FirstHelp(const CLI::App& app, const HelpStyle& style);
// Lists every command by group: `gpulens help all`.
std::string AllHelp(const CLI::App& app, const HelpStyle& style);
// Describes one command. `name`: all its words, "gpulens config check".
std::string CommandHelp(const CLI::App& command, const std::string& name, const HelpStyle& style);

// Parts of CommandHelp: the line of use without "Usage:"; of an option the placeholder of its value or the
// allowed words ("table|json"; of a flag empty), and what it means, with its default.
std::string HelpUsage(const CLI::App& command, const std::string& name);
std::string HelpValue(const CLI::Option& option);
std::string HelpMeaning(const CLI::Option& option);

// Returns the names of the subcommands that help shows; with `hidden` also older names.
std::vector<std::string_view> SubcommandNames(const CLI::App& command, bool hidden);

// A parsed command and all its words.
struct ParsedCommand {
  const CLI::App* command;
  std::string name;
};
ParsedCommand DeepestCommand(const CLI::App& app);

// Returns a line on what is wrong with the command line, with the nearest known word.
std::string Complaint(const CLI::App& app, const CLI::ParseError& error);

// Each adds its command, which stores its exit code in `code` when it runs. `code` outlives `app`.
void AddAliases(CLI::App& app, int& code);  // the l9gpu project's names of `collect`
void AddBench(CLI::App& app, int& code);
void AddCheck(CLI::App& app, int& code);
void AddConfig(CLI::App& app, int& code);
void AddCost(CLI::App& app, int& code);
void AddDoctor(CLI::App& app, int& code);
void AddEngines(CLI::App& app, int& code);
void AddExp(CLI::App& app, int& code);
void AddFlightRecorder(CLI::App& app, int& code);
void AddGpu(CLI::App& app, int& code);
void AddLog(CLI::App& app, int& code);
void AddMcp(CLI::App& app, int& code);
void AddMetrics(CLI::App& app, int& code);
void AddMigrate(CLI::App& app, int& code);
void AddProbe(CLI::App& app, int& code);
void AddProbeHost(CLI::App& app, int& code);
void AddProfile(CLI::App& app, int& code);
void AddProxy(CLI::App& app, int& code);
void AddQueue(CLI::App& app, int& code);
void AddWhy(CLI::App& app, int& code);
void AddRun(CLI::App& app, int& code);
void AddSlurm(CLI::App& app, int& code);
void AddTelemetry(CLI::App& app, int& code);
void AddTrace(CLI::App& app, int& code);
void AddTop(CLI::App& app, int& code);

// Adds an option; `type` names its value in the help.
CLI::Option* AddOption(CLI::App& command, const std::string& names, std::string& value,
                       const std::string& help, const std::string& type);
CLI::Option* AddOption(CLI::App& command, const std::string& names, std::vector<std::string>& values,
                       const std::string& help, const std::string& type);
// Adds --config.
CLI::Option* AddConfigOption(CLI::App& command, std::string& file);

}  // namespace gpulens

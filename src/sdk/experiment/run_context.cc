#include "sdk/experiment/run_context.h"

#include <unistd.h>

#include <climits>
#include <vector>

#include "base/files.h"
#include "base/parse.h"
#include "sdk/experiment/git_commit.h"

namespace gpulens::experiments {
namespace {

// Of a command line; the rest is cut.
constexpr size_t kMostCommand = 64 << 10;

std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

std::string CommandText(std::span<const std::string> arguments) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  std::string out;
  for (const std::string& argument : arguments) {
    if (!out.empty()) out += ' ';
    if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string::npos) {
      out += argument;
      continue;
    }
    out += '\'';
    for (char c : argument) {
      if (c == '\'') out += "'\\'";
      out += c;
    }
    out += '\'';
    if (out.size() > kMostCommand) break;
  }
  return out.substr(0, kMostCommand);
}

std::string NameOf(std::string_view script) {
  std::string_view name = BaseName(script);
  size_t dot = name.rfind('.');
  if (dot != std::string_view::npos && dot > 0) name = name.substr(0, dot);
  return name.empty() ? "run" : std::string(name);
}

std::string CurrentFolder() {
  char path[PATH_MAX];
  return ::getcwd(path, sizeof path) ? path : "";
}

RunRow DescribeProgram(std::span<const std::string> arguments, const std::string& folder) {
  RunRow run;
  run.command = CommandText(arguments);
  run.folder = folder;
  run.git_commit = folder.empty() ? "" : GitCommit(folder);
  for (const std::string& argument : arguments) {
    if (!argument.ends_with(".py") && !argument.ends_with(".sh")) continue;
    run.script = argument;
    return run;
  }
  if (!arguments.empty()) run.script = BaseName(arguments[0]);
  return run;
}

RunRow DescribeThisProgram() {
  std::vector<std::string> arguments;
  auto line = ReadFile("/proc/self/cmdline", 1 << 20);
  std::string_view rest = line ? std::string_view(*line) : std::string_view();
  while (!rest.empty()) arguments.emplace_back(TakeUntil(rest, '\0'));
  return DescribeProgram(arguments, CurrentFolder());
}

}  // namespace gpulens::experiments

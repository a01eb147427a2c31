#include "sdk/experiment/run_context.h"

#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <vector>

#include "base/files.h"
#include "base/parse.h"

namespace gpulens::experiments {
namespace {

// Maximum bytes of a command line.
constexpr size_t kMostCommand = 64 << 10;

std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

constexpr int kMostParents = 64;
constexpr size_t kMostPackedRefs = 16 << 20;

bool IsCommit(std::string_view text) noexcept {
  return (text.size() == 40 || text.size() == 64) && text.find_first_not_of("0123456789abcdef") == text.npos;
}

// Returns the first line of a small file, or "".
std::string LineOf(const std::string& path) {
  auto text = ReadFile(path, 4096);
  if (!text) return {};
  std::string_view rest = *text;
  return std::string(Trim(TakeUntil(rest, '\n')));
}

std::string Below(const std::string& folder, const std::string& path) {
  return path.starts_with('/') ? path : folder + "/" + path;
}

// Returns the folder .git, or the folder that a file .git names.
std::string GitFolder(std::string folder) {
  for (int i = 0; i < kMostParents; ++i) {
    std::string git = folder + "/.git";
    struct stat info{};
    if (::stat(git.c_str(), &info) == 0) {
      if (S_ISDIR(info.st_mode)) return git;
      std::string line = LineOf(git);
      return line.starts_with("gitdir: ") ? Below(folder, line.substr(8)) : std::string();
    }
    size_t slash = folder.rfind('/');
    if (slash == std::string::npos || folder.empty()) return {};
    folder.resize(slash);
  }
  return {};
}

std::string PackedCommit(const std::string& git, std::string_view ref) {
  auto text = ReadFile(git + "/packed-refs", kMostPackedRefs);
  if (!text) return {};
  std::string_view rest = *text;
  while (!rest.empty()) {
    std::string_view line = TakeUntil(rest, '\n');
    std::string_view commit = TakeUntil(line, ' ');
    if (Trim(line) == ref && IsCommit(commit)) return std::string(commit);
  }
  return {};
}

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

std::string GitCommit(std::string folder) {
  const std::string git = GitFolder(std::move(folder));
  if (git.empty()) return {};
  std::string head = LineOf(git + "/HEAD");
  if (IsCommit(head)) return head;
  if (!head.starts_with("ref: refs/") || head.find("..") != std::string::npos) return {};
  const std::string ref = head.substr(5);
  // Branches of a worktree are stored in its main repository.
  const std::string common_line = LineOf(git + "/commondir");
  const std::string common = common_line.empty() ? git : Below(git, common_line);
  for (const std::string& place : {git, common}) {
    if (std::string line = LineOf(place + "/" + ref); IsCommit(line)) return line;
  }
  return PackedCommit(common, ref);
}

}  // namespace gpulens::experiments

// The commands and options that help shows, as plain data: for completions, manual pages and other programs.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace gpulens {

// What can be typed where a value is expected.
enum class ValueKind {
  kNone,     // a flag
  kText,     // anything
  kFile,     // a path
  kFolder,   // a folder's path
  kProgram,  // a program or a file
  kWords     // one of `words`
};

// An option or an argument.
struct OptionEntry {
  std::vector<std::string> names;  // "-o", "--output"; empty: an argument
  std::string value;               // "FILE", "table|json"; of a flag empty
  std::string help, group;
  ValueKind kind = ValueKind::kNone;
  std::vector<std::string> words;
  bool required = false, several = false;
};

struct CommandEntry {
  std::string name;  // all its words: "gpulens config check"
  std::string description, usage, group, footer;
  std::vector<OptionEntry> options, arguments;
  std::vector<CommandEntry> commands;

  std::string_view last_word() const noexcept { return std::string_view(name).substr(name.rfind(' ') + 1); }
};

// Words of arguments that no option lists, by the command: {"gpulens collect", {"host", …}}.
using ArgumentWords = std::map<std::string, std::vector<std::string>, std::less<>>;

// Describes what help shows of `app`; hidden commands and options are left out.
CommandEntry CommandTree(const CLI::App& app, const ArgumentWords& words);

// Writes the tree as JSON: `gpulens help --json`.
std::string CommandTreeJson(const CommandEntry& root);

// Returns the completions of a shell as its own program text, or empty for a shell other than bash, zsh and
// fish.
std::string CompletionScript(const CommandEntry& root, std::string_view shell);

}  // namespace gpulens

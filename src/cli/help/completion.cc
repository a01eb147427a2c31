// Completions for bash, zsh and fish. Each text is a table of the commands, and the few lines that look into
// it.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/version.h"
#include "cli/common/output.h"
#include "cli/help/command_tree.h"

namespace gpulens {
namespace {

// Calls `visit` for a command and all within it.
template <class Visit>
void ForEachCommand(const CommandEntry& command, const Visit& visit) {
  visit(command);
  for (const CommandEntry& one : command.commands) ForEachCommand(one, visit);
}

// `text` with `before` in front of each of `characters`.
std::string Escaped(std::string_view text, std::string_view characters, std::string_view before) {
  std::string out;
  for (char c : text) {
    if (characters.find(c) != characters.npos) out += before;
    out += c;
  }
  return out;
}

// In single quotes of bash and zsh, where nothing is special but the quote.
std::string ShellQuoted(std::string_view text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string FishQuoted(std::string_view text) { return "'" + Escaped(text, "\\'", "\\") + "'"; }

std::vector<std::string_view> LastWords(const CommandEntry& command) {
  std::vector<std::string_view> words;
  for (const CommandEntry& one : command.commands) words.push_back(one.last_word());
  return words;
}

std::string Title(std::string_view shell) {
  return "gpulens " + std::string(Version()) + ", written by: gpulens completion " + std::string(shell);
}

// --- bash -------------------------------------------------------------------------------------------------

constexpr std::string_view kBash = R"(
_gpulens() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} path=gpulens takes="" word i
  local commands options values arguments
  COMPREPLY=()
  _gpulens_table "$path"
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    case " $commands " in *" $word "*) path+=" $word"; _gpulens_table "$path" ;; esac
  done
  # bash divides --option=value at the sign.
  if [[ $current == '=' ]]; then current=""
  elif [[ $before == '=' ]]; then before=${COMP_WORDS[COMP_CWORD - 2]}; fi
  for word in $values; do
    if [[ ${word%%=*} == "$before" ]]; then takes=${word#*=}; fi
  done
  if [[ -z $takes ]]; then
    if [[ $current == -* || -z $commands$arguments ]]; then takes=${options// /|}
    else takes=${arguments:-${commands// /|}}; fi
  fi
  case $takes in
  '<text>') ;;
  '<file>') compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
  '<folder>') compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
  '<program>') compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -c -f -- "$current" | sort -u) ;;
  *) mapfile -t COMPREPLY < <(compgen -W "${takes//|/ }" -- "$current") ;;
  esac
}
complete -F _gpulens gpulens
)";

std::string BashValue(const OptionEntry& option) {
  switch (option.kind) {
    case ValueKind::kFile: return "<file>";
    case ValueKind::kFolder: return "<folder>";
    case ValueKind::kProgram: return "<program>";
    case ValueKind::kWords: return Joined(option.words, "|");
    case ValueKind::kText: return "<text>";
    case ValueKind::kNone: break;
  }
  return {};
}

std::string BashScript(const CommandEntry& root) {
  std::string out =
      "# " + Title("bash") +
      "\n# Sets what can follow a command: words, options, the values that options take, and the "
      "argument.\n_gpulens_table() {\n  case $1 in\n";
  ForEachCommand(root, [&](const CommandEntry& command) {
    std::string options, values;
    for (const OptionEntry& option : command.options) {
      for (const std::string& name : option.names) {
        options += (options.empty() ? "" : " ") + name;
        if (option.kind != ValueKind::kNone)
          values += (values.empty() ? "" : " ") + name + "=" + BashValue(option);
      }
    }
    const std::string argument = command.arguments.empty() ? "" : BashValue(command.arguments.front());
    out += "  " + ShellQuoted(command.name) + ") commands=" + ShellQuoted(Joined(LastWords(command), " ")) +
           " options=" + ShellQuoted(options) + "\n    values=" + ShellQuoted(values) +
           " arguments=" + ShellQuoted(argument) + " ;;\n";
  });
  return out + "  esac\n}\n" + std::string(kBash.substr(1));
}

// --- zsh --------------------------------------------------------------------------------------------------

std::string ZshAction(const OptionEntry& option) {
  switch (option.kind) {
    case ValueKind::kFile: return "_files";
    case ValueKind::kFolder: return "_files -/";
    case ValueKind::kProgram: return "{_command_names -e; _files}";
    case ValueKind::kWords: {
      std::string words;
      for (const std::string& word : option.words)
        words += (words.empty() ? "" : " ") + Escaped(word, ":\\ ()", "\\");
      return "(" + words + ")";
    }
    case ValueKind::kText:
    case ValueKind::kNone: break;
  }
  return " ";
}

std::string ZshName(const CommandEntry& command) {
  std::string name = "_" + command.name;
  std::ranges::replace(name, ' ', '_');
  return name;
}

// The arguments of _arguments for one option: a specification for each name.
void AppendZshOption(std::string& out, const OptionEntry& option) {
  for (const std::string& name : option.names) {
    std::string spec = option.several ? "*" : "(" + Joined(option.names, " ") + ")";
    spec += name;
    if (option.kind != ValueKind::kNone) spec += name.starts_with("--") ? "=" : "+";
    spec += "[" + Escaped(option.help, "[]\\", "\\") + "]";
    if (option.kind != ValueKind::kNone)
      spec += ":" + Escaped(option.kind == ValueKind::kWords ? "word" : option.value, ":\\", "\\") + ":" +
              ZshAction(option);
    out += " \\\n    " + ShellQuoted(spec);
  }
}

void AppendZshCommand(std::string& out, const CommandEntry& command) {
  out += ZshName(command) + "() {\n";
  if (!command.commands.empty()) out += "  local context state line\n  typeset -A opt_args\n";
  out += "  _arguments -s -S" + std::string(command.commands.empty() ? "" : " -C");
  for (const OptionEntry& option : command.options) AppendZshOption(out, option);
  size_t place = 0;
  for (const OptionEntry& argument : command.arguments) {
    const std::string where = argument.several ? "*" : std::to_string(++place);
    out += " \\\n    " +
           ShellQuoted(where + ":" + Escaped(argument.value, ":\\", "\\") + ":" + ZshAction(argument));
  }
  if (command.commands.empty()) {
    out += "\n}\n";
    return;
  }
  out += " \\\n    '1: :->command' '*:: :->words'\n  case $state in\n  command)\n    local -a commands=(";
  for (const CommandEntry& one : command.commands) {
    out += "\n      " + ShellQuoted(Escaped(one.last_word(), ":\\", "\\") + ":" + one.description);
  }
  out += ")\n    _describe -t commands command commands ;;\n  words)\n    case $words[1] in\n";
  for (const CommandEntry& one : command.commands)
    out += "    " + std::string(one.last_word()) + ") " + ZshName(one) + " ;;\n";
  out += "    esac ;;\n  esac\n}\n";
}

std::string ZshScript(const CommandEntry& root) {
  std::string out = "#compdef gpulens\n# " + Title("zsh") + "\n";
  ForEachCommand(root, [&](const CommandEntry& command) { AppendZshCommand(out, command); });
  // From a folder of $fpath the text is the body of the function that it then replaces; with `source` it
  // registers itself.
  return out +
         "if [ \"$funcstack[1]\" = _gpulens ]; then\n  _gpulens \"$@\"\nelse\n  compdef _gpulens "
         "gpulens\nfi\n";
}

// --- fish -------------------------------------------------------------------------------------------------

constexpr std::string_view kFish = R"(    end
    test "$path" = "$argv"
end
complete -c gpulens -f
)";

std::string FishValue(const OptionEntry& option) {
  switch (option.kind) {
    case ValueKind::kFile: return " -r -F";
    case ValueKind::kFolder: return " -x -a '(__fish_complete_directories)'";
    case ValueKind::kProgram: return " -r -F -a '(__fish_complete_command)'";
    case ValueKind::kWords: return " -x -a " + FishQuoted(Joined(option.words, " "));
    case ValueKind::kText: return " -x";
    case ValueKind::kNone: break;
  }
  return {};
}

std::string FishScript(const CommandEntry& root) {
  std::string known, out;
  ForEachCommand(root, [&](const CommandEntry& command) {
    const std::string here = "complete -c gpulens -n " + FishQuoted("__gpulens_at " + command.name);
    for (const CommandEntry& one : command.commands) {
      known += " " + FishQuoted(one.name);
      out += here + " -a " + FishQuoted(one.last_word()) + " -d " + FishQuoted(one.description) + "\n";
    }
    for (const OptionEntry& option : command.options) {
      out += here;
      for (const std::string& name : option.names)
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      out += FishValue(option) + " -d " + FishQuoted(option.help) + "\n";
    }
    if (command.arguments.empty()) return;
    // With an argument, -x and -r would need a value.
    const OptionEntry& argument = command.arguments.front();
    std::string value = FishValue(argument);
    if (value.starts_with(" -x") || value.starts_with(" -r")) value.erase(0, 3);
    if (!value.empty()) out += here + value + "\n";
  });
  return "# " + Title("fish") +
         "\n# Whether the words before the cursor are those of a command.\nfunction __gpulens_at\n"
         "    set -l path gpulens\n    set -l words (commandline -opc)\n    for word in $words[2..-1]\n"
         "        contains -- \"$path $word\"" +
         known + "; and set path \"$path $word\"\n" + std::string(kFish) + out;
}

}  // namespace

std::string CompletionScript(const CommandEntry& root, std::string_view shell) {
  if (shell == "bash") return BashScript(root);
  if (shell == "zsh") return ZshScript(root);
  if (shell == "fish") return FishScript(root);
  return {};
}

}  // namespace gpulens

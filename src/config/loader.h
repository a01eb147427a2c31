// The configuration from its four places: flags over environment over file over defaults. Every
// problem is found in one pass and reported with its place.
//
//   LoadOutcome outcome = Load(schema, {.file_name = "gpulens.yaml", .file_text = text});
//   if (!outcome.ok()) … outcome.Report() on stderr, exit 2
//
// Reads no file and no environment by itself: both are passed in. A bad file never changes anything.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/diagnostic.h"
#include "config/expand.h"
#include "config/schema.h"
#include "plugins/config.h"

namespace gpulens {

// GPULENS_HTTP_LISTEN=…, and the few names of other programs that are read as aliases. An empty value
// is as if it were not set. Lists are comma-separated, maps KEY=TEXT,KEY=TEXT.
struct Variable {
  std::string name, value;
};

// {"--interval", "interval", "5s"}; {"-o", "sinks.file.path", "x"}. Later ones win.
struct FlagValue {
  std::string flag, path, text;
};

// What a look at a file or a folder found: `problem` is empty when it can be used.
struct FileAnswer {
  std::string problem;  // "permission denied"
  std::string hint;     // "owned by root, mode 0600; this runs as gpulens.   do: chown …"
};
// Opens and closes it; never waits, also not on a pipe.
FileAnswer InspectFile(const std::string& path);
// Whether files can be written in the folder, or in one that can be made there. Makes nothing.
FileAnswer InspectFolder(const std::string& path);

struct Sources {
  std::string file_name = {};                 // as it is shown; empty: there is no file
  std::optional<std::string> file_text = {};  // nothing: there is no file
  std::vector<Variable> environment = {};     // all of it; others' variables are passed over
  std::vector<FlagValue> flags = {};
  // Whether files that the configuration names can be read. Null: not looked at.
  std::function<FileAnswer(const std::string& path)> inspect_file = InspectFile;
  // Whether the state folder, where one is named, can be used. Null: not looked at.
  std::function<FileAnswer(const std::string& path)> inspect_folder = InspectFolder;
  // Whether ${NAME} and ${file:PATH} in values of the file stand for other texts. Not in a text that others
  // may have written: they would read our files.
  bool expand = false;
  // Gives the texts of ${file:PATH}; relative paths are below the file's folder. Null: none is read.
  std::function<Result<std::string>(const std::string& path)> read = ReadValueFile;
};

// A plain value.
struct LoadOutcome {
  // Every option of the schema with the right type; where there were errors, with its default.
  Config config;
  std::vector<Diagnostic> errors;     // at most 20, in the order of the file
  size_t error_count = 0;             // all of them
  std::string error_files;            // "gpulens.yaml and the environment"
  std::vector<std::string> warnings;  // "gpulens.yaml:3:12: state_dir: cannot use /proc/x: …"
  // Of variables named as ours that are no option. They concern who configures, not every command.
  std::vector<std::string> unknown_variables;

  bool ok() const noexcept { return error_count == 0; }
  // Errors, their count and warnings as a person should see them; empty when there are none.
  std::string Report() const;
  // Without the warnings: for commands that only look up where the agent is, whose own words come first.
  std::string Errors() const;
  // The same with unknown variables at its end.
  std::string FullReport() const;
};

LoadOutcome Load(const Schema& schema, const Sources& sources);

}  // namespace gpulens

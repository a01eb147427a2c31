// Loads the configuration from its four sources: flags override the environment, which overrides the file,
// which overrides defaults. Every problem is found in one pass and reported with its place.
//
//   LoadOutcome outcome = Load(schema, {.file_name = "gpulens.yaml", .file_text = text});
//   if (!outcome.ok()) … outcome.Report() on stderr, exit 2
//
// Reads neither files nor the environment itself: both are passed in.
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

// GPULENS_HTTP_LISTEN=…, and some names of other programs, which are aliases. An empty value is unset. Lists
// are comma-separated, maps KEY=TEXT,KEY=TEXT.
struct EnvironmentVariable {
  std::string name, value;
};

// {"--interval", "interval", "5s"}; {"-o", "sinks.file.path", "x"}. Later ones win.
struct FlagValue {
  std::string flag, path, text;
};

// Result of inspecting a file or a folder: `problem` is empty when it can be used.
struct FileAnswer {
  std::string problem;  // "permission denied"
  std::string hint;     // "owned by root, mode 0600; this runs as gpulens.   do: chown …"
};
// Opens and closes the file; never waits, not even on a pipe.
FileAnswer InspectFile(const std::string& path);
// Checks whether files can be written in the folder, or whether it can be made. Creates nothing.
FileAnswer InspectFolder(const std::string& path);

struct ConfigSources {
  std::string file_name = {};                 // as shown; empty: there is no file
  std::optional<std::string> file_text = {};  // nothing: there is no file
  std::vector<EnvironmentVariable> environment =
      {};  // the whole environment; unrelated variables are ignored
  std::vector<FlagValue> flags = {};
  // Checks whether configured files can be read. Null: not checked.
  std::function<FileAnswer(const std::string& path)> inspect_file = InspectFile;
  // Checks whether a configured state folder can be used. Null: not checked.
  std::function<FileAnswer(const std::string& path)> inspect_folder = InspectFolder;
  // Whether to expand ${NAME}, ${file:PATH} and ${credential:NAME} in values of the file. Not for untrusted
  // text, which would read our files.
  bool expand = false;
  // Returns the texts of ${file:PATH}, whose relative paths are below the file's folder, and of
  // ${credential:NAME}, files below $CREDENTIALS_DIRECTORY. Null: none is read.
  std::function<Result<std::string>(const std::string& path)> read = ReadValueFile;
};

// A plain value.
struct LoadOutcome {
  // Every option of the schema with the right type; where there were errors, with its default.
  Config config;
  std::vector<Diagnostic> errors;              // at most 20, in the order of the file
  size_t error_count = 0;                      // all of them
  std::string error_files;                     // "gpulens.yaml and the environment"
  std::string help = "gpulens config schema";  // prints every key
  std::vector<std::string> warnings;           // "gpulens.yaml:3:12: state_dir: cannot use /proc/x: …"
  // Warnings of variables with our prefix that are no option, for commands about the configuration.
  std::vector<std::string> unknown_variables;
  // What LoadConfig has read, or tried to: the file, and those of ${file:PATH} and ${credential:NAME}.
  std::vector<std::string> files;

  bool ok() const noexcept { return error_count == 0; }
  // Errors, their count and warnings as a text for people; empty when there are none.
  std::string Report() const;
  // The same without warnings, for commands that only look up the agent.
  std::string Errors() const;
  // The same with unknown variables at its end.
  std::string FullReport() const;
};

LoadOutcome Load(const Schema& schema, const ConfigSources& sources);

}  // namespace gpulens

// Describes the program of a run, and names the variables that `gpulens run` passes to its program.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "store/experiments/run_rows.h"

namespace gpulens::experiments {

// Id of the run that experiments of this process join.
inline constexpr const char* kRunIdVariable = "GPULENS_RUN_ID";
// Set when the user named that run, which its first experiment must then not rename.
inline constexpr const char* kRunNameVariable = "GPULENS_RUN_NAME";

// Returns script, command line, folder and commit of a program.
RunRow DescribeProgram(std::span<const std::string> arguments, const std::string& folder);
// Describes this process.
RunRow DescribeThisProgram();
// Returns the working directory, or "" if it was deleted.
std::string CurrentFolder();

// Quotes arguments for a shell: train.py --name 'a b'.
std::string CommandText(std::span<const std::string> arguments);
// Returns the default name of a run: the stem of its script ("train" of a/train.py) or program.
std::string NameOf(std::string_view script);

// Returns the commit of a working tree, read from git's own files: 40 or 64 hexadecimal digits; empty where
// `folder` is in no repository or has no commit yet. Follows worktrees and submodules.
std::string GitCommit(std::string folder);

}  // namespace gpulens::experiments

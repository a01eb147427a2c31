// Description of the program that a run belongs to, and the variables that `gpulens run` passes to its
// program.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "store/experiments/run_rows.h"

namespace gpulens::experiments {

// The run that experiments of this process join.
inline constexpr const char* kRunIdVariable = "GPULENS_RUN_ID";
// Set when a person has named that run: its first experiment does not rename it.
inline constexpr const char* kRunNameVariable = "GPULENS_RUN_NAME";

// Script, command line, folder and commit.
RunRow DescribeProgram(std::span<const std::string> arguments, const std::string& folder);
// Describes this process.
RunRow DescribeThisProgram();
// The folder that this process is in; empty when that is gone.
std::string CurrentFolder();

// Arguments as a shell would take them: train.py --name 'a b'.
std::string CommandText(std::span<const std::string> arguments);
// Default name of a run: the stem of its script ("train" of a/train.py) or program.
std::string NameOf(std::string_view script);

// Returns the commit of a working tree, read from git's own files: 40 or 64 hexadecimal digits; empty where
// `folder` is in no repository or has no commit yet. Follows worktrees and submodules.
std::string GitCommit(std::string folder);

}  // namespace gpulens::experiments

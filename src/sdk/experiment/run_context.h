// What a run knows of the program that it is a run of, and what `gpulens run` tells the program that it
// starts.
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
// Of this process.
RunRow DescribeThisProgram();
// The folder that this process is in; empty when that is gone.
std::string CurrentFolder();

// Arguments as a shell would take them: train.py --name 'a b'.
std::string CommandText(std::span<const std::string> arguments);
// What a run is called without a name: the stem of its script, "train" of a/train.py, or of its program.
std::string NameOf(std::string_view script);

}  // namespace gpulens::experiments

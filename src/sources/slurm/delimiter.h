// The delimiter between the columns that Slurm's programs are asked for: another one for each run, so that no
// text of a user (a job's name, comment, account) can hold it and pass for columns or rows of its own.
#pragma once

#include <string>
#include <string_view>

namespace gpulens::slurm {

// How each of them begins.
inline constexpr std::string_view kDelimiterStart = "|#";

// kDelimiterStart and 12 random letters and digits (71 bits), which no -O, -o or --delimiter takes for
// anything else. Any thread.
std::string MakeDelimiter();

}  // namespace gpulens::slurm

// The command line: words to functions, functions to exit codes.
#pragma once

namespace gpulens {

// 0 done, 1 failed while running, 2 wrong use or configuration; doctor's own codes are in its help.
int RunCommandLine(int argc, char** argv);

}  // namespace gpulens

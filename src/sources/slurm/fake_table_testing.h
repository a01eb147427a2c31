// A fake Slurm program: its script prints "|#" between values, which is replaced by the requested delimiter.
#pragma once

#include <string>

#include "base/testing/temp_folder.h"

namespace gpulens::slurm {

inline void WriteTableProgram(testing::TempFolder& folder, const std::string& program,
                              const std::string& script) {
  folder.WriteProgram(program + ".script", script);
  folder.WriteProgram(program,
                      "delimiter=$(printf '%s\\n' \"$*\" | grep -a -o '|#[A-Za-z0-9]*' | head -n 1)\n"
                      "text=$(\"$0.script\" \"$@\")\nresult=$?\n"
                      "printf '%s\\n' \"$text\" | LC_ALL=C sed \"s/|#/${delimiter:-|#}/g\"\nexit $result");
}

}  // namespace gpulens::slurm

// Which commit a working tree is at, read from git's own files: no program is started.
#pragma once

#include <string>

namespace gpulens::experiments {

// 40 or 64 hexadecimal digits; empty where `folder` is in no repository or has no commit yet. Worktrees and
// submodules are followed.
std::string GitCommit(std::string folder);

}  // namespace gpulens::experiments

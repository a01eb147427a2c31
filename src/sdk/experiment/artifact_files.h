// Files of a run: small ones are copied next to the store, large ones only recorded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "store/experiments/run_rows.h"

namespace gpulens::experiments {

struct ArtifactLimits {
  int64_t most_copied = 64 << 20;   // bytes of a file that is copied
  int64_t most_hashed = 1LL << 30;  // bytes of a file that is hashed
  size_t most_files = 10'000;       // files of a folder
};

// Copies `path`, a file or a folder with its files, to `name` below `artifacts`; the default name is the last
// part of `path`. Links within a folder are skipped. kInvalidArgument: a name that leads elsewhere. Blocks.
Result<std::vector<ArtifactRow>> KeepArtifact(const std::string& path, std::string name,
                                              const std::string& artifacts, int64_t unix_ns,
                                              const ArtifactLimits& limits = {});

}  // namespace gpulens::experiments

// Moments as people type them.
#pragma once

#include <cstdint>
#include <string>

#include <gpulens/status.h>

namespace gpulens::slurm {

// Seconds since 1970 of "now", "3 hours ago", "90 minutes ago", "2026-11-22", "2026-11-22T10:00",
// "2026-11-22T10:00:00", all UTC, with or without Z. kInvalidArgument for anything else.
Result<int64_t> ParseWhen(std::string text, int64_t now);

}  // namespace gpulens::slurm

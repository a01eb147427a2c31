// Where experiments are kept, and what their ids look like.
//
//   ~/.gpulens/experiments.db                  $GPULENS_EXPERIMENTS_DB or --db name another one
//   ~/.gpulens/runs/ID/output.log              what a run printed, beside the file
//   ~/.gpulens/runs/ID/artifacts/NAME
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens::experiments {

inline constexpr size_t kMostKeyBytes = 250;        // of a metric, a param, a tag: MLflow's bound
inline constexpr size_t kMostTextBytes = 64 << 10;  // of a param's or tag's text
inline constexpr size_t kMostIdBytes = 64;

// `given`, else the variable, else the file below the home folder; a leading ~/ is the home folder.
// kInvalidArgument: there is no home folder.
Result<std::string> FindDatabase(std::string_view given);

// exp-YYYYMMDD-HHMMSS-<8 hexadecimal digits>, of UTC and of chance.
std::string MakeRunId(int64_t unix_ns);
// Letters, digits, `.`, `_` and `-`, not first a dot: an id is a folder, too.
bool IsRunId(std::string_view text) noexcept;
// 1 to kMostKeyBytes of UTF-8 without control bytes.
bool IsKey(std::string_view text) noexcept;

// The folder of a run beside its file. `old`: of a file of the zernel project.
std::string RunFolder(const std::string& database, std::string_view id, bool old = false);
std::string LogPath(const std::string& database, std::string_view id, bool old = false);

}  // namespace gpulens::experiments

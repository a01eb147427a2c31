// State file of the analyzer: one line per GPU, then one per moment of its window. No I/O.
//
//   gpulens-fleet-health 1
//   gpu GPU-2f1c ok corrected 12 4 xids - 0
//   at 1711800000123 64 4 0
//   end 1
//
// `corrected` and `xids` have the last count ("-": none yet) and its growth so far; `at` has Unix
// milliseconds, the temperature, and the two growths then ("-": not read).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "plugins/analyzers/fleet_health/health_score.h"
#include "plugins/analyzers/fleet_health/health_window.h"

namespace gpulens {

struct SavedGpu {
  std::string key;
  std::optional<HealthState> state;
  GrowingCount corrected, xids;
  std::vector<HealthMoment> moments;  // at_ns here: Unix time; oldest first
};

inline constexpr size_t kHealthFileLimit = 4 << 20;

// Returns the file. GPUs whose key it cannot hold are left out.
std::string EncodeHealthFile(const std::vector<SavedGpu>& gpus);
// kDataLoss names the line. Rejects a damaged file as a whole: more than 256 GPUs, moments out of order or
// more than a window has, growths that fall, impossible temperatures.
Result<std::vector<SavedGpu>> DecodeHealthFile(std::string_view text);

}  // namespace gpulens

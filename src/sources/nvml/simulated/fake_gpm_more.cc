#include "sources/nvml/simulated/fake_gpm_more.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gpulens::nvml {
namespace {

constexpr double kCyclesPerSecond = 1.98e9;
constexpr unsigned kEngines = 7;  // decoders, and JPEG engines

// Hits in the cache, in %.
constexpr std::pair<unsigned, double> kHits[] = {{160, 12}, {162, 35}, {164, 61}};
// Cycles in which a unit is active, as a share of those in which the GPU is busy.
constexpr std::pair<unsigned, double> kUnits[] = {{249, 0.88}, {250, 0.52}, {251, 0},    {252, 0.5},
                                                  {253, 0.02}, {254, 0},    {257, 0.12}, {258, 0.01},
                                                  {259, 0.18}, {260, 0.06}};

}  // namespace

std::optional<double> FakeGpmMore(unsigned metric, const FakeGpmSpan& span) noexcept {
  double busy = std::clamp(span.busy, 0.0, 1.0);
  if (metric >= 30 && metric < 30 + kEngines) return busy * 3;
  if (metric >= 40 && metric < 40 + kEngines) return 0;
  if (metric == 50) return 0;
  if (metric == 248) return span.seconds * kCyclesPerSecond;
  for (auto [id, percent] : kHits) {
    if (id == metric) return percent;
  }
  for (auto [id, share] : kUnits) {
    if (id == metric) return span.busy_seconds * share * kCyclesPerSecond;
  }
  return std::nullopt;
}

}  // namespace gpulens::nvml

// Explicit buckets told as an exponential histogram of OpenTelemetry, tick after tick. Which exponential
// buckets an explicit one is told in follows from the bounds alone, so it is found once and the counts of a
// series that only grows only grow, bucket by bucket: a receiver takes a falling one for a restart.
//
// What is known does not get more: `count` and `sum` are exact, and so is the number of observations between
// two bounds, but for an edge that is off by less than one exponential bucket. Where between its two bounds
// an observation lay nobody knows; they are spread evenly over the exponential buckets there.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gpulens {

// Immutable once made; thread-safe.
struct ExponentialForm {
  int scale = 0;
  int32_t offset = 0;         // of the first bucket
  double zero_threshold = 0;  // what is not above it is counted as zero
  uint32_t buckets = 0;
  // By explicit bucket, the one above the last bound included: where its buckets end; they begin where those
  // of the one before end. One without any (its bounds lie too close together) joins the last before it.
  std::vector<uint32_t> ends;
};

// At the finest scale at which 160 buckets are enough. `bounds` are finite and ascend. Nothing when one is
// negative or none is positive: then the histogram can only be told with its own bounds.
std::optional<ExponentialForm> MakeExponentialForm(std::span<const double> bounds);

// `counts`: by explicit bucket, one more than bounds. Fills `out` (form.buckets) and returns the zero count.
uint64_t SpreadCounts(const ExponentialForm& form, std::span<const uint64_t> counts, std::span<uint64_t> out);

}  // namespace gpulens

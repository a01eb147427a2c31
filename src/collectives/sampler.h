// Chooses which collectives of a rank are sent: the same ones on all ranks, without any exchange. The totals
// of a sample have the others, so lateness is exact and only its resolution in time is less.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "collectives/batch.h"

namespace gpulens::collectives {

// A collective as its source measured it; see Sample for units.
struct Measured {
  Function function = Function::kOther;
  Algorithm algorithm = Algorithm::kUnknown;
  Protocol protocol = Protocol::kUnknown;
  uint64_t sequence = 0;
  uint64_t bytes = 0;
  uint64_t duration_ns = 0;
  int64_t ended_ns = 0;
};

// One in `modulus` (a power of two) sequence numbers is chosen; what is chosen with a larger one is chosen
// with each smaller one, too.
bool IsSampled(uint64_t communicator, Function function, uint64_t sequence, uint32_t modulus) noexcept;

// For one rank of one communicator. Not thread-safe.
class Sampler {
 public:
  // `rate`: most samples a second of one function; the rate of collectives is learned from `ended_ns`.
  explicit Sampler(uint64_t communicator, double rate = 10) noexcept;

  void set_rate(double rate) noexcept { rate_ = rate; }
  // Counts the collective, and appends it to `out` when it is chosen. Sequence numbers of a function that do
  // not rise are counted and never chosen.
  void Add(const Measured& measured, std::vector<Sample>& out);
  uint32_t modulus(Function function) const noexcept;

 private:
  struct Track {
    uint64_t total_ns = 0, total_count = 0;
    uint64_t last_sequence = 0, rate_sequence = 0;
    int64_t rate_ns = 0;
    uint32_t modulus = 1;
    bool any = false;
  };

  const uint64_t communicator_;
  double rate_;
  std::array<Track, kFunctions> tracks_;
};

}  // namespace gpulens::collectives

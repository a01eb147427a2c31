#include "collectives/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/hash.h"

namespace gpulens::collectives {
namespace {

// The rate is learned over this long, and over no less than this many collectives.
constexpr int64_t kLearnNs = 1'000'000'000;
constexpr uint64_t kLearnCount = 16;
constexpr uint32_t kMostModulus = 1U << 20;

}  // namespace

bool IsSampled(uint64_t communicator, Function function, uint64_t sequence, uint32_t modulus) noexcept {
  const uint64_t what = MixBits(static_cast<uint64_t>(function) << 56 ^ sequence);
  return (MixBits(communicator ^ what) & (modulus - 1)) == 0;
}

Sampler::Sampler(uint64_t communicator, double rate) noexcept : communicator_(communicator), rate_(rate) {}

uint32_t Sampler::modulus(Function function) const noexcept {
  return tracks_[static_cast<size_t>(function) % kFunctions].modulus;
}

void Sampler::Add(const Measured& measured, std::vector<Sample>& out) {
  const auto at = static_cast<size_t>(measured.function);
  if (at >= kFunctions) return;
  Track& track = tracks_[at];
  track.total_ns += measured.duration_ns;
  ++track.total_count;
  if (track.any && measured.sequence <= track.last_sequence) return;
  if (!track.any) {
    track.rate_sequence = measured.sequence;
    track.rate_ns = measured.ended_ns;
  }
  track.any = true;
  track.last_sequence = measured.sequence;
  const uint64_t count = measured.sequence - track.rate_sequence;
  const int64_t elapsed = measured.ended_ns - track.rate_ns;
  if (elapsed < 0) {
    track.rate_sequence = measured.sequence;
    track.rate_ns = measured.ended_ns;
  } else if (count >= kLearnCount && (elapsed >= kLearnNs || count >= 64 * kLearnCount)) {
    const double rate = static_cast<double>(count) * 1e9 / static_cast<double>(std::max<int64_t>(elapsed, 1));
    const double one_in = std::ceil(rate / std::max(rate_, 0.1));
    track.modulus = std::bit_ceil(static_cast<uint32_t>(std::clamp<double>(one_in, 1, kMostModulus)));
    track.rate_sequence = measured.sequence;
    track.rate_ns = measured.ended_ns;
  }
  if (!IsSampled(communicator_, measured.function, measured.sequence, track.modulus)) return;
  out.push_back({measured.function, measured.algorithm, measured.protocol, measured.sequence, measured.bytes,
                 measured.duration_ns, track.total_ns, track.total_count, measured.ended_ns});
}

}  // namespace gpulens::collectives

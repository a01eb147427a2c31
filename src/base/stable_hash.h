// Hashes for choosing lanes and endpoints. They are the same in every process, version and architecture, so
// that agents of different versions send the same series to the same endpoint. Pure functions; safe from any
// thread. Not resistant to chosen collisions: use them to spread load, not as keys of a hash table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/fnv1a.h"

namespace gpulens {

// A permutation of 64-bit words in which every bit of the input changes every bit of the result with a
// probability of about one half (the finalizer of MurmurHash3).
constexpr uint64_t MixBits(uint64_t word) noexcept {
  word = (word ^ word >> 33) * 0xff51afd7ed558ccd;
  word = (word ^ word >> 33) * 0xc4ceb9fe1a85ec53;
  return word ^ word >> 33;
}

// Hashes a text, such as the URL of an endpoint or a trace id.
constexpr uint64_t StableHash(std::string_view text) noexcept { return MixBits(Fnv1a(text)); }

// Hashes one attribute. A set of attributes is hashed as MixBits of the sum, which does not depend on their
// order.
constexpr uint64_t PairHash(std::string_view name, std::string_view value) noexcept {
  return MixBits(StableHash(name) + 0x9e3779b97f4a7c15 * Fnv1a(value));
}

// Picks the endpoint with the highest score for `hash` (rendezvous hashing). `endpoints` holds the StableHash
// of each endpoint's name. `usable` holds 0 at the index of an endpoint that must not be picked; empty: all
// are usable. When one of n endpoints becomes unusable or is removed, only its share (1/n) moves, spread
// evenly over the others. Returns the index, or endpoints.size() when no endpoint is usable. Linear in the
// number of endpoints.
constexpr size_t PickEndpoint(uint64_t hash, std::span<const uint64_t> endpoints,
                              std::span<const uint8_t> usable = {}) noexcept {
  size_t best = endpoints.size();
  uint64_t best_score = 0;
  for (size_t i = 0; i < endpoints.size(); ++i) {
    if (i < usable.size() && usable[i] == 0) continue;
    const uint64_t score = MixBits(hash ^ MixBits(endpoints[i]));
    if (best != endpoints.size() && score <= best_score) continue;
    best = i;
    best_score = score;
  }
  return best;
}

}  // namespace gpulens

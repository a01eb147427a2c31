// Hashes: keyed ones for untrusted input, stable ones that are equal in every process and version, and
// SHA-256.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace gpulens {

// Mixes two words into one.
inline uint64_t MixWords(uint64_t a, uint64_t b) noexcept {
  __extension__ using Wide = unsigned __int128;
  Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

namespace hash_internal {

inline uint64_t Load64(const char* p) noexcept {
  uint64_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// Loads one to seven bytes; their number is hashed too, so overlapping loads are unambiguous.
inline uint64_t LoadShort(const char* p, size_t size) noexcept {
  auto byte = [p](size_t i) { return static_cast<uint64_t>(static_cast<unsigned char>(p[i])); };
  if (size < 4) return byte(0) | byte(size / 2) << 8 | byte(size - 1) << 16;
  uint32_t first, last;
  std::memcpy(&first, p, sizeof first);
  std::memcpy(&last, p + size - 4, sizeof last);
  return static_cast<uint64_t>(last) << 32 | first;
}

}  // namespace hash_internal

struct HashKey {
  uint64_t a, b, c;
};
// Random, drawn once per process. Thread-safe.
const HashKey& ProcessHashKey() noexcept;

// Keyed hash for untrusted names: without the key no collisions can be prepared. Not cryptographic.
inline uint64_t HashBytes(std::string_view text, uint64_t seed, const HashKey& key) noexcept {
  using namespace hash_internal;
  const char* p = text.data();
  size_t left = text.size();
  uint64_t hash = seed ^ MixWords(left ^ key.a, key.b);
  for (; left > 16; left -= 16, p += 16) hash = MixWords(Load64(p) ^ key.a ^ hash, Load64(p + 8) ^ key.b);
  uint64_t first = 0, second = 0;
  if (left >= 8) {
    first = Load64(p);
    second = Load64(p + left - 8);
  } else if (left > 0) {
    first = LoadShort(p, left);
  }
  return MixWords(first ^ key.b ^ hash, second ^ key.c);
}

// FNV-1a of 64 bits. Equal in every run and on every machine; not for untrusted names, which may collide on
// purpose.
constexpr uint64_t Fnv1a(std::string_view text) noexcept {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}
static_assert(Fnv1a("a") == 0xaf63dc4c8601ec8c);  // a test vector of the authors

// A permutation of 64-bit words in which every bit of the input changes every bit of the result with a
// probability of about one half (the finalizer of MurmurHash3).
constexpr uint64_t MixBits(uint64_t word) noexcept {
  word = (word ^ word >> 33) * 0xff51afd7ed558ccd;
  word = (word ^ word >> 33) * 0xc4ceb9fe1a85ec53;
  return word ^ word >> 33;
}

// Stable hash of a text, such as the URL of an endpoint or a trace id, to spread load: agents of different
// versions send a series to the same endpoint. Not for hash tables of untrusted keys.
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

// SHA-256 (FIPS 180-4) of files, to compare them. Not thread-safe.
class Sha256 {
 public:
  void Add(std::string_view bytes) noexcept;
  // Nothing may be added afterwards.
  using Digest = std::array<unsigned char, 32>;
  Digest FinishBytes() noexcept;
  // As 64 hexadecimal digits.
  std::string Finish();

 private:
  void Block(const unsigned char* bytes) noexcept;

  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> rest_{};
  uint64_t size_ = 0;
};

}  // namespace gpulens

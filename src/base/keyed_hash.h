// A keyed hash of bytes, for what strangers send: the key is drawn at start, so nobody can prepare names
// that collide. Not cryptographic; results differ between runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace gpulens {

// Two words into one from which neither can be told.
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

// One to seven bytes; the size is hashed beside them, so overlapping loads stay unambiguous.
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
// Random words, drawn once per process. Safe from any thread.
const HashKey& ProcessHashKey() noexcept;

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

}  // namespace gpulens

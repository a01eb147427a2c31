// FNV-1a of 64 bits: for names that must hash the same in every run and on every machine. Whoever chooses the
// names can make them collide; for those of strangers there is keyed_hash.h.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpulens {

constexpr uint64_t Fnv1a(std::string_view text) noexcept {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}
static_assert(Fnv1a("a") == 0xaf63dc4c8601ec8c);  // of the authors' test vectors

}  // namespace gpulens

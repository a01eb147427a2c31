// SHA-256 (FIPS 180-4) of files that are kept: to see whether two are the same, no secret is guarded by it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpulens {

// Bytes in, in any pieces, then once the digest. Not thread-safe.
class Sha256 {
 public:
  void Add(std::string_view bytes) noexcept;
  // 64 hexadecimal digits. Nothing may be added afterwards.
  std::string Finish();

 private:
  void Block(const unsigned char* bytes) noexcept;

  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> rest_{};
  uint64_t size_ = 0;
};

}  // namespace gpulens

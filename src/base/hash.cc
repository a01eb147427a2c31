#include "base/hash.h"

#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <chrono>

#include "base/text.h"

namespace gpulens {

const HashKey& ProcessHashKey() noexcept {
  static const HashKey key = [] {
    HashKey made{};
    if (getrandom(&made, sizeof made, GRND_NONBLOCK) != sizeof made) {
      auto now = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
      made = {now * 0x9E3779B97F4A7C15, ~now * 0xD1B54A32D192ED03, now ^ 0x8CB92BA72F3D8DD7};
    }
    made.a |= 1, made.b |= 1, made.c |= 1;
    return made;
  }();
  return key;
}

namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t BigEndian(const unsigned char* at) noexcept {
  return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | uint32_t{at[3]};
}

}  // namespace

void Sha256::Block(const unsigned char* bytes) noexcept {
  std::array<uint32_t, 64> w;
  for (size_t i = 0; i < 16; ++i) w[i] = BigEndian(bytes + 4 * i);
  for (size_t i = 16; i < 64; ++i) {
    uint32_t near = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
    uint32_t far = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + near + w[i - 7] + far;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (size_t i = 0; i < 64; ++i) {
    uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) +
                     kRounds[i] + w[i];
    uint32_t second = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
  }
  const std::array<uint32_t, 8> mixed{a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state_[i] += mixed[i];
}

void Sha256::Add(std::string_view bytes) noexcept {
  if (bytes.empty()) return;  // perhaps without an address
  const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
  size_t left = bytes.size(), held = size_ % 64;
  size_ += left;
  if (held != 0) {
    size_t taken = std::min(left, 64 - held);
    std::memcpy(rest_.data() + held, at, taken);
    at += taken, left -= taken;
    if (held + taken < 64) return;
    Block(rest_.data());
  }
  for (; left >= 64; at += 64, left -= 64) Block(at);
  if (left != 0) std::memcpy(rest_.data(), at, left);
}

Sha256::Digest Sha256::FinishBytes() noexcept {
  const uint64_t bits = size_ * 8;
  const size_t held = size_ % 64;
  // A bit, zeros up to 56 bytes of a block, and the length.
  std::array<char, 72> end{'\x80'};
  const size_t length_at = (held < 56 ? 56 : 120) - held;
  for (size_t i = 0; i < 8; ++i) end[length_at + i] = static_cast<char>(bits >> (56 - 8 * i) & 0xff);
  Add({end.data(), length_at + 8});
  Digest out{};
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<unsigned char>(state_[i / 4] >> (24 - 8 * (i % 4)) & 0xff);
  return out;
}

std::string Sha256::Finish() {
  const Digest digest = FinishBytes();
  std::string out;
  AppendHex(out, {reinterpret_cast<const char*>(digest.data()), digest.size()});
  return out;
}

}  // namespace gpulens

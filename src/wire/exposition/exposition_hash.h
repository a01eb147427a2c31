// A keyed hash of bytes and an index of ids by hash, for what strangers send: the key is drawn at
// start, so nobody can prepare names that collide. Not cryptographic; results differ between runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace gpulens {

namespace exposition_internal {

__extension__ using Wide = unsigned __int128;

inline uint64_t Mum(uint64_t a, uint64_t b) noexcept {
  Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

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

}  // namespace exposition_internal

// Random words, made once per process.
struct HashKey {
  uint64_t a, b, c;
};
const HashKey& ProcessHashKey() noexcept;

inline uint64_t HashBytes(std::string_view text, uint64_t seed, const HashKey& key) noexcept {
  using namespace exposition_internal;
  const char* p = text.data();
  size_t left = text.size();
  uint64_t hash = seed ^ Mum(left ^ key.a, key.b);
  for (; left > 16; left -= 16, p += 16) hash = Mum(Load64(p) ^ key.a ^ hash, Load64(p + 8) ^ key.b);
  uint64_t first = 0, second = 0;
  if (left >= 8) {
    first = Load64(p);
    second = Load64(p + left - 8);
  } else if (left > 0) {
    first = LoadShort(p, left);
  }
  return Mum(first ^ key.b ^ hash, second ^ key.c);
}

// Ids found by a 32-bit hash; the caller keeps what the ids stand for. Open addressing without
// tombstones: erasing moves the followers back, so years of churn leave no dirt. Beside the id stand
// 8 bits of the hash, so that strangers on the way mostly need no look at what they stand for.
class IdIndex {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  static constexpr uint32_t kMaxIds = 1u << 24;

  // The id for which `equal(id)` holds among those of this hash and its neighbours; kNone otherwise.
  template <class Equal>
  uint32_t Find(uint32_t hash, Equal equal) const {
    if (used_ == 0) return kNone;
    for (size_t at = Home(hash);; at = Next(at)) {
      uint32_t cell = cells_[at];
      if (cell == kFree) return kNone;
      if ((cell ^ hash) << kIdBits == 0 && equal(cell >> kTagBits)) return cell >> kTagBits;
    }
  }

  // `hash_of(id)` gives the hash of any id inside.
  template <class HashOf>
  void Insert(uint32_t id, HashOf hash_of) {
    if ((used_ + 1) * 4 > cells_.size() * 3) Grow((used_ + 1) * 2, hash_of);
    Put(hash_of(id), id);
    ++used_;
  }

  template <class HashOf>
  void Erase(uint32_t id, HashOf hash_of) {
    size_t hole = Home(hash_of(id));
    while (cells_[hole] >> kTagBits != id) hole = Next(hole);
    for (size_t at = Next(hole); cells_[at] != kFree; at = Next(at)) {
      size_t home = Home(hash_of(cells_[at] >> kTagBits));
      size_t from_home = at >= home ? at - home : at + cells_.size() - home;
      size_t from_hole = at >= hole ? at - hole : at + cells_.size() - hole;
      if (from_home < from_hole) continue;
      cells_[hole] = cells_[at];
      hole = at;
    }
    cells_[hole] = kFree;
    --used_;
  }

  // Makes room for `count` ids at once.
  template <class HashOf>
  void Reserve(size_t count, HashOf hash_of) {
    if (count * 4 > cells_.size() * 3) Grow(count * 3 / 2, hash_of);
  }

  void Clear() noexcept {
    cells_.clear();
    used_ = 0;
  }
  size_t memory_bytes() const noexcept { return cells_.capacity() * sizeof(uint32_t); }

 private:
  static constexpr uint32_t kTagBits = 8, kIdBits = 24;
  static constexpr uint32_t kFree = 0xFFFFFFFF;  // so the last id is never given out

  size_t Home(uint32_t hash) const noexcept {
    return static_cast<size_t>((static_cast<uint64_t>(hash) * cells_.size()) >> 32);
  }
  size_t Next(size_t at) const noexcept { return at + 1 == cells_.size() ? 0 : at + 1; }
  void Put(uint32_t hash, uint32_t id) {
    size_t at = Home(hash);
    while (cells_[at] != kFree) at = Next(at);
    cells_[at] = id << kTagBits | (hash & 0xFF);
  }
  template <class HashOf>
  void Grow(size_t size, HashOf hash_of) {
    std::vector<uint32_t> old(size < 16 ? 16 : size, kFree);
    old.swap(cells_);
    for (uint32_t cell : old) {
      if (cell != kFree) Put(hash_of(cell >> kTagBits), cell >> kTagBits);
    }
  }

  std::vector<uint32_t> cells_;
  size_t used_ = 0;
};

}  // namespace gpulens

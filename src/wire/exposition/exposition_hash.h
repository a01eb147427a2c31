// An index of ids by hash, for what strangers send.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/hash.h"

namespace gpulens {

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

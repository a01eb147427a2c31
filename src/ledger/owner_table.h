// Owners by number, so that readings and windows keep and compare few bytes.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "ledger/account.h"

namespace gpulens::ledger {

using OwnerId = uint32_t;
inline constexpr size_t kMostOwnerText = 512;  // bytes of a field
inline constexpr OwnerId kNoOwner = 0;         // every field is empty
inline constexpr OwnerId kOtherOwner = 1;      // every field is kOther

// Not thread-safe. References stay valid until their owner is forgotten.
class OwnerTable {
 public:
  OwnerTable();
  // The number of this owner; a new one if it has none. Fields are cut to kMostOwnerText.
  OwnerId IdOf(const Owner& owner);
  const Owner& At(OwnerId id) const { return owners_[id]; }
  // Forgets those whose place in `used` is false; their numbers are given to new ones.
  void Keep(const std::vector<bool>& used);
  size_t size() const noexcept { return owners_.size(); }  // above every number
  size_t count() const noexcept { return ids_.size(); }

 private:
  struct Hash {
    size_t operator()(const Owner& owner) const noexcept;
  };
  std::deque<Owner> owners_;
  std::unordered_map<Owner, OwnerId, Hash> ids_;
  std::vector<OwnerId> free_;
};

}  // namespace gpulens::ledger

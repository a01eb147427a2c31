#include "ledger/owner_table.h"

#include <functional>
#include <optional>
#include <string_view>

namespace gpulens::ledger {
namespace {

template <class Any, class Visit>
void VisitFields(Any& owner, Visit&& visit) {
  for (auto* field : {&owner.process, &owner.name_space, &owner.pod, &owner.job, &owner.tenant, &owner.engine,
                      &owner.model})
    visit(*field);
}

}  // namespace

size_t OwnerTable::Hash::operator()(const Owner& owner) const noexcept {
  size_t hash = 0;
  VisitFields(owner, [&](const std::string& field) {
    // The constant of boost::hash_combine, for 64 bits.
    hash ^= std::hash<std::string_view>()(field) + 0x9E37'79B9'7F4A'7C15u + (hash << 6) + (hash >> 2);
  });
  return hash;
}

OwnerTable::OwnerTable() {
  Owner other;
  VisitFields(other, [](std::string& field) { field = kOther; });
  owners_ = {Owner(), other};
  ids_ = {{Owner(), kNoOwner}, {other, kOtherOwner}};
}

OwnerId OwnerTable::IdOf(const Owner& owner) {
  bool long_field = false;
  VisitFields(owner,
              [&](const std::string& field) { long_field = long_field || field.size() > kMostOwnerText; });
  if (long_field) {
    Owner cut = owner;
    VisitFields(cut, [](std::string& field) {
      if (field.size() > kMostOwnerText) field.resize(kMostOwnerText);
    });
    return IdOf(cut);
  }
  if (const auto found = ids_.find(owner); found != ids_.end()) return found->second;
  OwnerId id;
  if (free_.empty()) {
    id = static_cast<OwnerId>(owners_.size());
    owners_.push_back(owner);
  } else {
    id = free_.back();
    free_.pop_back();
    owners_[id] = owner;
  }
  ids_.emplace(owner, id);
  return id;
}

void OwnerTable::Keep(const std::vector<bool>& used) {
  for (auto at = ids_.begin(); at != ids_.end();) {
    const OwnerId id = at->second;
    if (id <= kOtherOwner || (id < used.size() && used[id])) {
      ++at;
      continue;
    }
    owners_[id] = Owner();
    free_.push_back(id);
    at = ids_.erase(at);
  }
}

}  // namespace gpulens::ledger

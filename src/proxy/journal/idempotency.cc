#include "proxy/journal/idempotency.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace gpulens {

// The hash has a fixed size, so two pairs have one name only when they are equal.
std::string IdempotencyIndex::NameOf(std::string_view key, const IdempotencyHash& hash) {
  std::string name(reinterpret_cast<const char*>(hash.data()), hash.size());
  return name += key;
}

void IdempotencyIndex::Expire(int64_t now_unix_ns) {
  while (!settled_.empty()) {
    const auto& [time, name] = settled_.front();
    const bool late = time < now_unix_ns - options_.kept.count();
    if (!late && settled_.size() <= options_.most) return;
    const auto found = entries_.find(name);
    if (found != entries_.end() && found->second.settled_unix_ns == time) {
      entries_.erase(found);
      if (!late) ++forgotten_early_;
    }
    settled_.pop_front();
  }
}

void IdempotencyIndex::AddSettled(std::string name, const Entry& entry) {
  entries_[name] = entry;
  settled_.emplace_back(entry.settled_unix_ns, std::move(name));
}

IdempotencyIndex::Found IdempotencyIndex::Claim(std::string_view key, const IdempotencyHash& hash,
                                                const RequestId& id, int64_t now_unix_ns) {
  std::lock_guard lock(mutex_);
  Expire(now_unix_ns);
  const auto [entry, fresh] = entries_.try_emplace(NameOf(key, hash), Entry{id, 0, 0});
  if (fresh) return {};
  return {entry->second.settled_unix_ns == 0 ? State::kInFlight : State::kSettled, entry->second.id,
          entry->second.status};
}

void IdempotencyIndex::Settled(std::string_view key, const IdempotencyHash& hash, const RequestId& id,
                               int64_t status, int64_t now_unix_ns) {
  std::lock_guard lock(mutex_);
  std::string name = NameOf(key, hash);
  const auto found = entries_.find(name);
  if (found == entries_.end() || found->second.id != id || found->second.settled_unix_ns != 0) return;
  AddSettled(std::move(name), {id, std::max<int64_t>(now_unix_ns, 1), status});
}

void IdempotencyIndex::Release(std::string_view key, const IdempotencyHash& hash, const RequestId& id) {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(NameOf(key, hash));
  if (found != entries_.end() && found->second.id == id && found->second.settled_unix_ns == 0)
    entries_.erase(found);
}

void IdempotencyIndex::Add(std::span<const IdempotentCharge> charges, int64_t now_unix_ns) {
  std::vector<const IdempotentCharge*> sorted;
  sorted.reserve(charges.size());
  for (const IdempotentCharge& charge : charges) sorted.push_back(&charge);
  std::ranges::sort(sorted, {}, &IdempotentCharge::settled_unix_ns);
  std::lock_guard lock(mutex_);
  for (const IdempotentCharge* charge : sorted) {
    if (charge->settled_unix_ns <= now_unix_ns - options_.kept.count()) continue;
    std::string name = NameOf(charge->key, charge->hash);
    const auto found = entries_.find(name);
    if (found != entries_.end() && found->second.settled_unix_ns >= charge->settled_unix_ns) continue;
    AddSettled(std::move(name), {charge->id, charge->settled_unix_ns, charge->status});
  }
  std::ranges::sort(settled_);
  Expire(now_unix_ns);
}

size_t IdempotencyIndex::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

uint64_t IdempotencyIndex::forgotten_early() const {
  std::lock_guard lock(mutex_);
  return forgotten_early_;
}

}  // namespace gpulens

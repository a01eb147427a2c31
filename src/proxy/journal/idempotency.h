// Idempotency keys of clients: a request that is sent again is not charged again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/clock.h"
#include "store/charges/charge_store.h"

namespace gpulens {

// (key id, hash of the idempotency key) → the request. Rebuilt at start by Add: from the store's
// ListIdempotent, then from JournalFound::idempotent. Thread-safe. Memory: about 150 bytes an entry.
class IdempotencyIndex {
 public:
  struct Options {
    Duration kept = std::chrono::hours(24);  // from the settlement
    size_t most = 1'000'000;  // settled ones; then the oldest is forgotten before its time, and counted
  };
  enum class State : uint8_t {
    kNew,       // claimed now: call Settled or Release
    kInFlight,  // a request with it is under way
    kSettled,   // a request with it was charged
  };
  struct Found {
    State state = State::kNew;
    RequestId id{};      // of the other request
    int64_t status = 0;  // as its client got it; kSettled
  };

  explicit IdempotencyIndex(const Options& options) : options_(options) {}

  // Takes the key for `id` unless another request has it. Of two at once one gets kNew.
  Found Claim(std::string_view key, const IdempotencyHash& hash, const RequestId& id, int64_t now_unix_ns);
  // The claim of `id` is charged.
  void Settled(std::string_view key, const IdempotencyHash& hash, const RequestId& id, int64_t status,
               int64_t now_unix_ns);
  // The claim of `id` ended before anything was dispatched: the next request may have it.
  void Release(std::string_view key, const IdempotencyHash& hash, const RequestId& id);
  // Adds settled ones, before requests come.
  void Add(std::span<const IdempotentCharge> charges, int64_t now_unix_ns);

  size_t size() const;
  uint64_t forgotten_early() const;

 private:
  struct Entry {
    RequestId id{};
    int64_t settled_unix_ns = 0;  // 0: in flight
    int64_t status = 0;
  };
  static std::string NameOf(std::string_view key, const IdempotencyHash& hash);
  void Expire(int64_t now_unix_ns);
  void AddSettled(std::string name, const Entry& entry);

  const Options options_;
  mutable std::mutex mutex_;  // guards what follows
  std::unordered_map<std::string, Entry> entries_;
  std::deque<std::pair<int64_t, std::string>> settled_;  // by time, nearly
  uint64_t forgotten_early_ = 0;
};

}  // namespace gpulens

// Admission: who a client of the proxy is, and whether its request may be sent. One call authenticates, one
// reserves; the answer is a grant, which ends by itself, or a refusal.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/ref.h"
#include "proxy/admission/budgets.h"
#include "proxy/admission/keys.h"
#include "proxy/admission/leases.h"
#include "proxy/admission/rate_limits.h"

namespace gpulens::proxy {

enum class RefusalReason : uint8_t {
  kNoKey,
  kBadKey,  // malformed, unknown, or with a wrong secret: not distinguished
  kExpiredKey,
  kRevokedKey,
  kModelNotAllowed,
  kRouteNotMetered,  // a route that this key may not use, as nothing there is metered
  kRequestRate,
  kTokenRate,
  kStreams,
  kRequestTooLarge,  // more tokens than the key has in a minute
  kBudget,
  kNoCostBound,   // a budget needs an upper bound of the cost, as max_tokens gives
  kLease,         // WhenLeased, then try again
  kBudgetEngine,  // away, and budget_engine_down is closed
};
inline constexpr size_t kRefusalReasons = 14;
// "bad_key": the value of a label. Static storage.
std::string_view RefusalName(RefusalReason reason) noexcept;

struct AdmissionRefusal {
  RefusalReason reason = RefusalReason::kNoKey;
  int64_t retry_after_ns = 0;  // 0: unknown, or trying again does not help
  std::string budget;          // the name, when one refused
  std::string message;         // for the client; has no secret
};

// A key in force, with its limits. What a request gets from Authenticate stays as it was, whatever is
// reloaded.
struct Client {
  const VirtualKey* key = nullptr;
  Ref<KeyRates> rates;
  std::vector<Ref<Budget>> budgets;  // of every request
  struct Scoped {
    Ref<Budget> budget;
    std::vector<std::string> providers, models;
  };
  std::vector<Scoped> scoped;  // of those to some providers or models
};
// The names of the budgets in which Admit reserves for such a request: for its record, from which they are
// restored.
std::vector<std::string> BudgetNames(const Client& client, std::string_view provider, std::string_view model);
using ClientRef = std::shared_ptr<const Client>;

struct AdmissionRequest {
  std::string_view model, provider;
  bool stream = false;
  CostEstimate cost;
  int64_t tokens = 0;  // expected, in and out
};

// What an admitted request holds. Move-only; destroyed without Settle it gives budgets and tokens back. Any
// thread, one at a time.
class Grant {
 public:
  // False, and nothing happens, the second time.
  bool Settle(int64_t actual_pico, int64_t actual_tokens, Instant now) noexcept {
    rate_.Settle(actual_tokens, now);
    return reservation_.Settle(actual_pico, now);
  }
  int64_t reserved_pico() const noexcept { return reservation_.reserved_pico(); }

 private:
  friend class Admission;
  Reservation reservation_;
  RateUse rate_;
};

struct AdmissionOptions {
  // Of the budgets that a key's own line has.
  BudgetMode key_budget_mode = BudgetMode::kSoft;
  std::optional<int64_t> key_max_overshoot_pico;
  bool key_budgets_shared = false;
};

// Thread-safe. Outlives its grants.
class Admission {
 public:
  explicit Admission(const AdmissionOptions& options = {}) : options_(options) {}

  // Puts keys and budgets in force together, or changes nothing. What budgets and keys of the same name have
  // spent stays. kInvalidArgument: a budget that is not valid or defined twice, a key that names none that is
  // defined, or has more than Reservation::kMostBudgets.
  Status Reload(KeyTable keys, const std::vector<BudgetSpec>& budgets);

  struct Authenticated {
    ClientRef client;  // null: refused
    std::optional<AdmissionRefusal> refused;
  };
  // `presented`: the key as the client sent it, without "Bearer"; empty: none.
  Authenticated Authenticate(std::string_view presented, Instant now);

  struct Decision {
    Grant grant;
    std::optional<AdmissionRefusal> refused;
  };
  // Whether the request may be sent: model, then rates, then budgets. Refused, it holds nothing.
  Decision Admit(const Client& client, const AdmissionRequest& request, Instant now);

  // Whether the key may use a path that is not metered: it has no budget at all and lists a prefix that ends
  // where a segment ends. `path` is normalised.
  std::optional<AdmissionRefusal> RefuseUnmetered(const Client& client, std::string_view path);

  // After kLease. Without a keeper calls `done` at once. `keeper` must outlive the requests.
  void SetKeeper(LeaseKeeper* keeper) noexcept { keeper_.store(keeper, std::memory_order_release); }
  void WhenLeased(std::function<void()> done);

  Budgets& budgets() noexcept { return budgets_; }
  // Since the start, by RefusalReason.
  std::array<uint64_t, kRefusalReasons> refusals() const noexcept;
  size_t keys() const;

 private:
  struct Table;
  AdmissionRefusal Refuse(RefusalReason reason, std::string message);

  const AdmissionOptions options_;
  Budgets budgets_;
  std::array<std::atomic<uint64_t>, kRefusalReasons> refusals_{};
  std::atomic<LeaseKeeper*> keeper_{nullptr};

  std::mutex reload_;  // one at a time; guards rates_
  std::map<std::string, Ref<KeyRates>, std::less<>> rates_;
  mutable std::mutex mutex_;  // guards table_
  std::shared_ptr<const Table> table_;
};

}  // namespace gpulens::proxy

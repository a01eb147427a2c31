#include "proxy/admission/admission.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "base/result.h"
#include "base/text.h"

namespace gpulens::proxy {
namespace {

constexpr std::string_view kRefusalNames[] = {"no_key",
                                              "bad_key",
                                              "expired_key",
                                              "revoked_key",
                                              "model_not_allowed",
                                              "route_not_metered",
                                              "request_rate",
                                              "token_rate",
                                              "streams",
                                              "request_too_large",
                                              "budget",
                                              "no_cost_bound",
                                              "lease",
                                              "budget_engine"};
static_assert(std::size(kRefusalNames) == kRefusalReasons);

constexpr std::string_view kOwnPrefix = "key:";
constexpr int64_t kSoonNs = 1'000'000'000;

bool MatchesAny(const std::vector<std::string>& patterns, std::string_view text) noexcept {
  return patterns.empty() || std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
           return MatchesStars(pattern, text);
         });
}

bool Counts(const BudgetSpec& spec, const VirtualKey& key) noexcept {
  if (std::find(key.budgets.begin(), key.budgets.end(), spec.name) != key.budgets.end()) return true;
  return !spec.listed_only && MatchesAny(spec.tenants, key.tenant) &&
         MatchesAny(spec.projects, key.project) && MatchesAny(spec.keys, key.id);
}

// The budgets of a key's own line.
Result<std::vector<BudgetSpec>> OwnBudgets(const VirtualKey& key, const AdmissionOptions& options) {
  std::vector<BudgetSpec> out;
  std::set<std::string> windows;
  for (const VirtualKey::OwnBudget& budget : key.own_budgets) {
    BudgetSpec spec;
    spec.name = std::string(kOwnPrefix) + key.id + ":" + BudgetWindowText(budget.window);
    if (!windows.insert(spec.name).second)
      return Status{Code::kInvalidArgument, "key " + key.id + ": two of its own budgets have one window"};
    spec.limit_pico = budget.limit_pico;
    spec.window = budget.window;
    spec.mode = options.key_budget_mode;
    if (spec.mode == BudgetMode::kSoft) spec.max_overshoot_pico = options.key_max_overshoot_pico;
    spec.shared = options.key_budgets_shared;
    RETURN_IF_ERROR(CheckBudgetSpec(spec));
    out.push_back(std::move(spec));
  }
  return out;
}

RefusalReason ReasonOf(BudgetAnswer answer) noexcept {
  switch (answer) {
    case BudgetAnswer::kAdmitted:
    case BudgetAnswer::kLimit: return RefusalReason::kBudget;
    case BudgetAnswer::kNoBound: return RefusalReason::kNoCostBound;
    case BudgetAnswer::kLease: return RefusalReason::kLease;
    case BudgetAnswer::kEngineDown: return RefusalReason::kBudgetEngine;
  }
  return RefusalReason::kBudget;
}

std::string MessageOf(BudgetAnswer answer, const std::string& budget) {
  switch (answer) {
    case BudgetAnswer::kAdmitted:
    case BudgetAnswer::kLimit: return "The budget " + budget + " has too little left for this request.";
    case BudgetAnswer::kNoBound:
      return "The budget " + budget + " needs a bound of the cost: set max_tokens or its equivalent.";
    case BudgetAnswer::kLease: return "The budget " + budget + " is being leased. Try again.";
    case BudgetAnswer::kEngineDown: return "The budget " + budget + " cannot be checked at the moment.";
  }
  return {};
}

}  // namespace

struct Admission::Table {
  KeyTable keys;
  std::vector<Client> clients;  // in the order of keys.keys()
};

std::string_view RefusalName(RefusalReason reason) noexcept {
  return kRefusalNames[static_cast<size_t>(reason)];
}

AdmissionRefusal Admission::Refuse(RefusalReason reason, std::string message) {
  refusals_[static_cast<size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
  AdmissionRefusal refusal;
  refusal.reason = reason;
  refusal.message = std::move(message);
  return refusal;
}

Status Admission::Reload(KeyTable keys, const std::vector<BudgetSpec>& budgets) {
  // Everything is checked before anything is changed.
  std::set<std::string_view> names;
  for (const BudgetSpec& spec : budgets) {
    RETURN_IF_ERROR(CheckBudgetSpec(spec));
    if (spec.name.starts_with(kOwnPrefix))
      return {Code::kInvalidArgument,
              "budget \"" + spec.name + "\": names with key: are those of the keys' own budgets"};
    if (!names.insert(spec.name).second)
      return {Code::kInvalidArgument, "two budgets have the name " + spec.name};
  }
  std::vector<std::vector<BudgetSpec>> own(keys.keys().size());
  for (size_t i = 0; i < own.size(); ++i) {
    const VirtualKey& key = keys.keys()[i];
    for (const std::string& name : key.budgets) {
      if (!names.contains(name))
        return {Code::kInvalidArgument, "key " + key.id + ": no budget has the name " + Printable(name)};
    }
    ASSIGN_OR_RETURN(own[i], OwnBudgets(key, options_));
    const auto counting = static_cast<size_t>(std::count_if(
        budgets.begin(), budgets.end(), [&](const BudgetSpec& spec) { return Counts(spec, key); }));
    if (counting + own[i].size() > Reservation::kMostBudgets)
      return {Code::kInvalidArgument, "key " + key.id + ": its requests count in more than " +
                                          std::to_string(Reservation::kMostBudgets) + " budgets"};
  }

  const std::lock_guard one(reload_);
  std::vector<Ref<Budget>> defined;
  for (const BudgetSpec& spec : budgets) defined.push_back(budgets_.Define(spec));
  auto table = std::make_shared<Table>();
  table->keys = std::move(keys);
  std::map<std::string, Ref<KeyRates>, std::less<>> rates;
  for (size_t i = 0; i < own.size(); ++i) {
    const VirtualKey& key = table->keys.keys()[i];
    Client& client = table->clients.emplace_back();
    client.key = &key;
    const auto known = rates_.find(key.id);
    client.rates = known == rates_.end() ? MakeRef<KeyRates>() : known->second;
    client.rates->SetLimits(key.requests_per_minute, key.tokens_per_minute, key.streams);
    rates.emplace(key.id, client.rates);
    for (size_t j = 0; j < budgets.size(); ++j) {
      const BudgetSpec& spec = budgets[j];
      if (!Counts(spec, key)) continue;
      if (spec.providers.empty() && spec.models.empty()) client.budgets.push_back(defined[j]);
      else client.scoped.push_back({defined[j], spec.providers, spec.models});
    }
    for (const BudgetSpec& spec : own[i]) client.budgets.push_back(budgets_.Define(spec));
  }
  rates_ = std::move(rates);
  std::shared_ptr<const Table> old;
  {
    const std::lock_guard lock(mutex_);
    old = std::exchange(table_, std::move(table));
  }
  old.reset();  // open requests may keep it
  budgets_.DropUnused();
  return Ok();
}

size_t Admission::keys() const {
  const std::lock_guard lock(mutex_);
  return table_ ? table_->keys.keys().size() : 0;
}

Admission::Authenticated Admission::Authenticate(std::string_view presented, Instant now) {
  Authenticated out;
  if (presented.empty()) {
    out.refused = Refuse(RefusalReason::kNoKey, "No API key was sent.");
    return out;
  }
  std::shared_ptr<const Table> table;
  {
    const std::lock_guard lock(mutex_);
    table = table_;
  }
  const KeyCheck check = table ? table->keys.Verify(presented, now.unix_ns) : KeyCheck{};
  switch (check.outcome) {
    case KeyOutcome::kUnknown:
      out.refused = Refuse(RefusalReason::kBadKey, "The API key is not valid.");
      break;
    case KeyOutcome::kExpired:
      out.refused = Refuse(RefusalReason::kExpiredKey, "The API key has expired.");
      break;
    case KeyOutcome::kRevoked:
      out.refused = Refuse(RefusalReason::kRevokedKey, "The API key is revoked.");
      break;
    case KeyOutcome::kValid:
      const Client& client = table->clients[static_cast<size_t>(check.key - table->keys.keys().data())];
      out.client = ClientRef(std::move(table), &client);
      break;
  }
  return out;
}

std::vector<std::string> BudgetNames(const Client& client, std::string_view provider,
                                     std::string_view model) {
  std::vector<std::string> names;
  for (const Ref<Budget>& budget : client.budgets) names.push_back(budget->name());
  for (const Client::Scoped& scoped : client.scoped) {
    if (MatchesAny(scoped.providers, provider) && MatchesAny(scoped.models, model))
      names.push_back(scoped.budget->name());
  }
  return names;
}

Admission::Decision Admission::Admit(const Client& client, const AdmissionRequest& request, Instant now) {
  Decision out;
  if (!client.key->AllowsModel(request.model)) {
    out.refused = Refuse(RefusalReason::kModelNotAllowed, "The API key may not use the model " +
                                                              Printable(request.model.substr(0, 128)) + ".");
    return out;
  }
  KeyRates::Admitted rate = client.rates->Admit(request.tokens, request.stream, now);
  switch (rate.answer) {
    case RateAnswer::kAdmitted: break;
    case RateAnswer::kRequests:
      out.refused = Refuse(RefusalReason::kRequestRate, "Too many requests a minute.");
      break;
    case RateAnswer::kTokens:
      out.refused = Refuse(RefusalReason::kTokenRate, "Too many tokens a minute.");
      break;
    case RateAnswer::kStreams:
      out.refused = Refuse(RefusalReason::kStreams, "Too many streams at once.");
      break;
    case RateAnswer::kTooLarge:
      out.refused = Refuse(RefusalReason::kRequestTooLarge,
                           "The request has more tokens than the key has in a minute.");
      break;
  }
  if (out.refused) {
    if (rate.answer == RateAnswer::kStreams) out.refused->retry_after_ns = kSoonNs;
    if (rate.answer == RateAnswer::kRequests || rate.answer == RateAnswer::kTokens)
      out.refused->retry_after_ns = rate.wait_ns;
    return out;
  }
  Budgets::Admitted admitted;
  if (client.scoped.empty()) {
    admitted = budgets_.Admit(client.budgets, request.cost, now);
  } else {
    std::array<Ref<Budget>, Reservation::kMostBudgets> of;
    size_t count = 0;
    for (const Ref<Budget>& budget : client.budgets) of[count++] = budget;
    for (const Client::Scoped& scoped : client.scoped) {
      if (MatchesAny(scoped.providers, request.provider) && MatchesAny(scoped.models, request.model))
        of[count++] = scoped.budget;
    }
    admitted = budgets_.Admit({of.data(), count}, request.cost, now);
  }
  if (admitted.answer == BudgetAnswer::kAdmitted) {
    out.grant.reservation_ = std::move(admitted.reservation);
    out.grant.rate_ = std::move(rate.use);
    return out;
  }
  rate.use.Undo(now);
  out.refused = Refuse(ReasonOf(admitted.answer), MessageOf(admitted.answer, admitted.blocked->name()));
  out.refused->budget = admitted.blocked->name();
  if (admitted.answer == BudgetAnswer::kLimit &&
      admitted.until_unix_ns != std::numeric_limits<int64_t>::max())
    out.refused->retry_after_ns = std::max<int64_t>(admitted.until_unix_ns - now.unix_ns, 0);
  if (admitted.answer == BudgetAnswer::kLease || admitted.answer == BudgetAnswer::kEngineDown)
    out.refused->retry_after_ns = kSoonNs;
  return out;
}

std::optional<AdmissionRefusal> Admission::RefuseUnmetered(const Client& client, std::string_view path) {
  if (client.budgets.empty() && client.scoped.empty()) {
    for (const std::string& prefix : client.key->allow_unmetered) {
      if (!path.starts_with(prefix)) continue;
      if (path.size() == prefix.size() || prefix.back() == '/' || path[prefix.size()] == '/')
        return std::nullopt;
    }
  }
  return Refuse(RefusalReason::kRouteNotMetered, "The API key may not use this path.");
}

void Admission::WhenLeased(std::function<void()> done) {
  if (LeaseKeeper* keeper = keeper_.load(std::memory_order_acquire)) keeper->WhenLeased(std::move(done));
  else done();
}

std::array<uint64_t, kRefusalReasons> Admission::refusals() const noexcept {
  std::array<uint64_t, kRefusalReasons> out{};
  for (size_t i = 0; i < out.size(); ++i) out[i] = refusals_[i].load(std::memory_order_relaxed);
  return out;
}

}  // namespace gpulens::proxy

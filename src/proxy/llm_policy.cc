#include "proxy/llm_policy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <utility>

#include "base/hash.h"
#include "base/stable_sort.h"
#include "base/text.h"
#include "proxy/genai_names.h"
#include "proxy/llm_pages.h"
#include "wire/llm/llm_answer.h"
#include "wire/llm/llm_error.h"
#include "wire/llm/llm_request.h"

namespace gpulens::proxy {
namespace {

constexpr std::string_view kKeyField = "x-gpulens-key", kIdField = "x-gpulens-request-id",
                           kProfileField = "Agent-Execution-Profile";
// Fields that carry keys, ours or a provider's.
constexpr std::string_view kCredentialFields[] = {"authorization", "x-api-key", "api-key", "x-goog-api-key"};
constexpr Duration kProgressEvery = std::chrono::seconds(1);
constexpr int64_t kProgressEvents = 1000;
// Of a provider's limits, which are not those of the key.
constexpr std::string_view kLimitFields[] = {"x-ratelimit-limit-requests",
                                             "x-ratelimit-limit-tokens",
                                             "x-ratelimit-remaining-requests",
                                             "x-ratelimit-remaining-tokens",
                                             "x-ratelimit-reset-requests",
                                             "x-ratelimit-reset-tokens",
                                             "anthropic-ratelimit-requests-limit",
                                             "anthropic-ratelimit-requests-remaining",
                                             "anthropic-ratelimit-requests-reset",
                                             "anthropic-ratelimit-tokens-limit",
                                             "anthropic-ratelimit-tokens-remaining",
                                             "anthropic-ratelimit-tokens-reset",
                                             "anthropic-ratelimit-input-tokens-limit",
                                             "anthropic-ratelimit-input-tokens-remaining",
                                             "anthropic-ratelimit-input-tokens-reset",
                                             "anthropic-ratelimit-output-tokens-limit",
                                             "anthropic-ratelimit-output-tokens-remaining",
                                             "anthropic-ratelimit-output-tokens-reset"};

LlmError ErrorOf(RefusalReason reason) noexcept {
  switch (reason) {
    case RefusalReason::kNoKey:
    case RefusalReason::kBadKey:
    case RefusalReason::kExpiredKey:
    case RefusalReason::kRevokedKey: return LlmError::kBadKey;
    case RefusalReason::kModelNotAllowed: return LlmError::kModelNotAllowed;
    case RefusalReason::kRouteNotMetered: return LlmError::kUnknownRoute;
    case RefusalReason::kRequestRate:
    case RefusalReason::kTokenRate:
    case RefusalReason::kStreams: return LlmError::kLimitReached;
    case RefusalReason::kRequestTooLarge: return LlmError::kTooLarge;
    case RefusalReason::kBudget: return LlmError::kBudgetUsedUp;
    case RefusalReason::kNoCostBound: return LlmError::kBadRequest;
    case RefusalReason::kLease:
    case RefusalReason::kBudgetEngine: return LlmError::kOverloaded;
  }
  return LlmError::kOverloaded;
}

LlmError ErrorOf(int status) noexcept {
  switch (status) {
    case 408:
    case 504: return LlmError::kUpstreamTimeout;
    case 413:
    case 431: return LlmError::kTooLarge;
    case 429: return LlmError::kLimitReached;
    case 502: return LlmError::kUpstreamAway;
    case 503: return LlmError::kOverloaded;
    default: return LlmError::kBadRequest;
  }
}

// The value of a parameter of a query as it came; empty: absent.
std::string_view QueryParameter(std::string_view query, std::string_view name) noexcept {
  while (!query.empty()) {
    std::string_view value = TakeUntil(query, '&');
    if (TakeUntil(value, '=') == name) return value;
  }
  return {};
}

// The query without that parameter.
std::string WithoutParameter(std::string_view query, std::string_view name) {
  std::string out;
  while (!query.empty()) {
    const std::string_view pair = TakeUntil(query, '&');
    if (pair.substr(0, pair.find('=')) == name) continue;
    if (!out.empty()) out += '&';
    out += pair;
  }
  return out;
}

int64_t InputOf(const LlmUsage& usage) noexcept {
  int64_t sum = 0;
  for (size_t i = 0; i < kLlmClasses; ++i) {
    if (IsInput(static_cast<LlmClass>(i))) sum += usage.units[i];
  }
  return sum;
}
int64_t OutputOf(const LlmUsage& usage) noexcept {
  int64_t sum = 0;
  for (size_t i = 0; i < kLlmClasses; ++i) {
    if (IsOutput(static_cast<LlmClass>(i))) sum += usage.units[i];
  }
  return sum;
}

// Whether a status is worth another provider: it was too busy, or failed.
bool IsPassing(int status) noexcept { return status == 429 || status >= 500; }

}  // namespace

// One request. On its loop's thread.
class LlmExchange final : public RelayExchange {
 public:
  LlmExchange(LlmPolicy& policy, const RelayHandle& handle)
      : policy_(policy),
        shared_(policy.shared_),
        in_force_(policy.in_force_),
        handle_(handle),
        alive_(std::make_shared<LlmExchange*>(this)),
        began_(Now()),
        id_(policy.NewId()) {}
  // The last request under rules that were replaced may end inside a call of one of its own connections, so
  // these rules and their pools end later.
  ~LlmExchange() override {
    if (in_force_.use_count() == 1) policy_.loop_.Post([last = in_force_] {});
  }

  // The head has come.
  void Begin(const RelayRequest& request);
  void OnRequest(const RelayRequest& request) override;
  void OnUpstreamHead(const RelayHead& head, RelayPass& pass) override;
  void OnBody(std::string_view piece, RelayOutput& output) override;
  void OnBodyEnd(RelayOutput& output) override;
  void OnResume(RelayOutput& output) override { output.Pass(reader_->Release()); }
  void OnAttemptFailed(const RelayAttempt& attempt) override;
  void OnCut(const RelayAttempt& attempt, RelayOutput& output) override;
  RelayDrain OnClientGone() override;
  void OnEnd(const RelayOutcome& outcome) override;

 private:
  const ProxyConfig& config() const noexcept { return in_force_->rules->config; }
  const pricing::PriceTable& prices() const noexcept { return in_force_->rules->prices; }
  const ProviderConfig& provider() const noexcept { return *providers_[attempt_]; }
  Instant Now() const noexcept { return shared_.clock.Now(); }

  void Reject(LlmError error, std::string_view message, int64_t retry_after_s = 0);
  void Reject(const AdmissionRefusal& refusal);
  std::string_view PresentedKey(const RelayHead& head, std::string& room) const;

  void Admit();
  CostEstimate Estimate() const;
  CostEstimate EstimateAt(const ProviderConfig& provider) const;
  bool HasPrices() const;
  // Tokens that the request can have at most, and that each of its answers may have; none: not known.
  std::optional<int64_t> MostInput() const {
    if (request_.media > 0 || request_.open_input) return std::nullopt;
    return request_.text_bytes;
  }
  std::optional<int64_t> MostOutput() const {
    if (request_.max_output) return request_.max_output;
    if (client_->key->default_max_tokens > 0) return client_->key->default_max_tokens;
    return std::nullopt;
  }
  void BeginRecord();
  void Dispatch();
  void BuildBody();
  void EndAttempt(std::string_view result, int64_t uncertain_pico = 0);
  bool HasNextAttempt() const noexcept;

  void Count(bool whole);
  pricing::ModelPrices PricesOf(std::string_view answered) const;
  void Price();
  void Progress(Instant now);
  // Journal and budgets get the charge; `done` when it is on disk. Once.
  void Settle(bool whole, ChargeOutcome outcome, LoopJournal::Done done);
  void SettleAndHold(RelayOutput& output);
  GenaiRequest GenaiFacts() const {
    return {config(),
            prices(),
            *match_.route,
            provider(),
            model_,
            request_,
            reader_ ? &reader_->answer() : nullptr};
  }

  std::string_view SentModel(const ProviderConfig& provider) const {
    const auto at = provider.models.find(model_);
    return at == provider.models.end() ? std::string_view(model_) : std::string_view(at->second);
  }
  // Estimates are learnt for each provider and model.
  std::string CalibrationKey(const ProviderConfig& provider, std::string_view what) const {
    std::string key = provider.name + "\n";
    return key.append(SentModel(provider)).append("\n").append(what);
  }
  pricing::ProfileTerms Terms(const ProviderConfig& provider) const {
    pricing::ProfileTerms terms = provider.terms;
    if (client_) terms.profile = client_->key->profile.value_or(terms.profile);
    return terms;
  }

  LlmPolicy& policy_;
  ProxyShared& shared_;
  const std::shared_ptr<const LlmPolicy::InForce> in_force_;
  const RelayHandle handle_;
  // What journal and leases call back looks here first.
  const std::shared_ptr<LlmExchange*> alive_;
  const Instant began_;
  const RequestId id_;

  const RelayHead* head_ = nullptr;
  LlmPath path_;
  LlmRouteMatch match_{};
  ClientRef client_;
  std::string_view body_;
  LlmRequest request_;
  std::string model_;  // of the request
  std::vector<const ProviderConfig*> providers_;
  size_t attempt_ = 0;
  int attempts_made_ = 0;
  Grant grant_;
  std::optional<IdempotencyHash> claimed_;

  std::vector<LlmEdit> edits_;
  std::vector<std::string_view> body_pieces_;
  std::string target_, fields_, answer_fields_;
  std::vector<std::string_view> drop_, answer_drop_;
  bool strip_ = false;

  Instant dispatched_, attempt_began_, last_output_, last_progress_;
  int64_t progress_events_ = 0;
  std::optional<LlmAnswerReader> reader_;
  bool metered_ = false;   // the route is
  bool answered_ = false;  // a good answer of a metered route has begun
  bool begun_ = false;     // the journal has it
  bool sent_ = false;      // something went to a provider
  bool settled_ = false, attempt_open_ = false;
  bool client_left_ = false;  // the answer is read on for its usage
  int answer_status_ = 0;
  ChargeRecord record_;
  std::unique_ptr<GenaiExchange> genai_;  // from the first dispatch on; null without telemetry
};

void LlmExchange::Reject(LlmError error, std::string_view message, int64_t retry_after_s) {
  const LlmApi api = match_.route ? ApiOfAnswer(*match_.route, *head_) : LlmApi::kOpenAi;
  LlmErrorAnswer made = MakeLlmError(api, error, message, RequestIdText(id_), retry_after_s);
  HttpResponse response;
  response.status = made.status;
  response.content_type.clear();
  for (const auto& [name, value] : made.headers) response.AddHeader(name, value);
  response.AddHeader(kIdField, RequestIdText(id_));
  if (client_ && !providers_.empty())
    response.AddHeader(kProfileField, pricing::ProfileName(Terms(provider()).profile));
  response.body = std::move(made.body);
  handle_.Answer(std::move(response));
}

void LlmExchange::Reject(const AdmissionRefusal& refusal) {
  const int64_t retry = refusal.retry_after_ns > 0 ? RetryAfterSeconds(refusal.retry_after_ns) : 0;
  Reject(ErrorOf(refusal.reason), refusal.message, retry);
}

std::string_view LlmExchange::PresentedKey(const RelayHead& head, std::string& room) const {
  if (const std::string_view own = head.Header(kKeyField); !own.empty()) return own;
  if (const std::string_view token = BearerToken(head.Header("authorization")); !token.empty()) return token;
  for (std::string_view field : {"x-api-key", "api-key", "x-goog-api-key"}) {
    if (const std::string_view value = head.Header(field); !value.empty()) return value;
  }
  if (match_.route->api != LlmApi::kGemini) return {};
  room = DecodePercent(QueryParameter(path_.query, "key"));
  return room;
}

void LlmExchange::Begin(const RelayRequest& request) {
  head_ = &request.head;
  Result<LlmPath> path = NormalLlmPath(request.head.target());
  if (!path) return Reject(LlmError::kBadRequest, path.error().detail);
  path_ = *std::move(path);
  match_ = FindLlmRoute(request.head.method(), path_.path);
  if (std::optional<HttpResponse> page = AnswerOperatorPage(request.head, path_.path, config(), shared_))
    return handle_.Answer(*std::move(page));
  std::string room;
  Admission::Authenticated who = shared_.admission.Authenticate(PresentedKey(request.head, room), began_);
  if (who.refused) return Reject(*who.refused);
  client_ = std::move(who.client);
  const LlmAccess access = match_.route->access;
  metered_ = access == LlmAccess::kMetered;
  if (access == LlmAccess::kUnmetered || access == LlmAccess::kUnknown) {
    if (const auto refused = shared_.admission.RefuseUnmetered(*client_, path_.path)) return Reject(*refused);
  }
  if (match_.route->operation != LlmOperation::kModels) return;
  const LlmApi api = ApiOfAnswer(*match_.route, request.head);
  if (match_.model.empty()) return handle_.Answer(ListModels(*in_force_->rules, *client_->key, api));
  if (std::optional<HttpResponse> one =
          DescribeModel(*in_force_->rules, *client_->key, api, DecodePercent(match_.model)))
    return handle_.Answer(*std::move(one));
  Reject(LlmError::kUnknownModel, "the key has no model of this name");
}

void LlmExchange::OnRequest(const RelayRequest& request) {
  body_ = request.body;
  if (metered_) {
    Result<LlmRequest> read = ReadLlmRequest(body_, *match_.route);
    if (!read)
      return Reject(read.error().code == Code::kExhausted ? LlmError::kTooLarge : LlmError::kBadRequest,
                    read.error().detail);
    request_ = *std::move(read);
    if (request_.background)
      return Reject(LlmError::kBadRequest, "a response in the background is not metered here; leave it out");
  }
  model_ = match_.model.empty() ? request_.model : std::string(match_.model);
  // A server of TGI has one model, and moderations have a default one.
  const bool needs_model =
      metered_ && match_.route->api != LlmApi::kTgi && match_.route->operation != LlmOperation::kModerations;
  if (needs_model && model_.empty()) return Reject(LlmError::kBadRequest, "the request names no model");
  providers_ = ProvidersFor(config(), match_.route->api, model_);
  if (providers_.empty()) return Reject(LlmError::kUnknownModel, "there is no route for this model");
  const bool has_budget = !client_->budgets.empty() || !client_->scoped.empty();
  if (metered_ && has_budget && config().unknown_price == UnknownPrice::kRefuse && !HasPrices())
    return Reject(LlmError::kUnknownModel, "this model has no price, and the key has a budget");
  if (const std::string_view key = head_->Header("idempotency-key"); metered_ && !key.empty()) {
    const SecretDigest digest = DigestOf(key);
    IdempotencyHash hash;
    std::memcpy(hash.data(), digest.data(), hash.size());
    const IdempotencyIndex::Found found =
        shared_.idempotency.Claim(client_->key->id, hash, id_, Now().unix_ns);
    if (found.state != IdempotencyIndex::State::kNew)
      return Reject(LlmError::kConflict, "a request with this Idempotency-Key was sent as " +
                                             RequestIdText(found.id) + "; it is not sent again");
    claimed_ = hash;
  }
  Admit();
}

// A provider that is charged for must have prices for what it may get.
bool LlmExchange::HasPrices() const {
  return std::ranges::all_of(providers_, [&](const ProviderConfig* one) {
    return Terms(*one).profile != pricing::Profile::kManaged ||
           bool(prices().FindEstimate(one->prices, SentModel(*one)));
  });
}

CostEstimate LlmExchange::EstimateAt(const ProviderConfig& at) const {
  const pricing::ProfileTerms terms = Terms(at);
  pricing::ModelPrices found = prices().FindEstimate(at.prices, SentModel(at));
  if (!found && config().unknown_price == UnknownPrice::kDefault) found = prices().Default(at.prices);
  CostEstimate out;
  if (!found) {
    // Nothing is charged for what has no price.
    out.most_pico = 0;
    return out;
  }
  const int64_t now = Now().unix_ns;
  const std::optional<int64_t> most_output = MostOutput();
  pricing::ReserveRequest reserve;
  reserve.input_tokens = MostInput();
  if (most_output) reserve.output_tokens = *most_output * request_.choices;
  reserve.answers = request_.choices;
  if (request_.media > 0)
    reserve.classes |= pricing::ClassBit(LlmClass::kInputImage) | pricing::ClassBit(LlmClass::kInputAudio);
  if (const auto tier = pricing::ServedTier(request_.service_tier))
    reserve.tiers = static_cast<uint8_t>(reserve.tiers | pricing::TierBit(*tier));
  reserve.from_ns = now;
  reserve.to_ns = now + std::chrono::nanoseconds(std::chrono::minutes(1)).count();
  const pricing::LlmReserve bound = pricing::ReserveFor(found, reserve);
  if (bound.state == pricing::ChargeState::kPriced) out.most_pico = pricing::ChargedPico(terms, bound.pico);

  pricing::ChargeRequest expected;
  expected.dispatched_ns = now;
  {
    std::lock_guard lock(shared_.calibration_mutex);
    expected.usage[LlmClass::kInput] =
        shared_.calibration.Tokens(CalibrationKey(at, "in"), request_.text_bytes).tokens;
    const int64_t learnt =
        shared_.calibration.OutputP95(CalibrationKey(at, "out")).value_or(config().soft_output_tokens);
    expected.usage[LlmClass::kOutput] =
        request_.choices * (most_output ? std::min(*most_output, learnt) : learnt);
  }
  const pricing::LlmCharge charge = pricing::ChargeFor(found, expected);
  out.expected_pico = pricing::ChargedPico(terms, charge.pico).value_or(0);
  if (out.most_pico) out.expected_pico = std::min(out.expected_pico, *out.most_pico);
  return out;
}

// The largest of all providers that the request may go to.
CostEstimate LlmExchange::Estimate() const {
  CostEstimate out;
  if (!metered_) {
    out.most_pico = 0;
    return out;
  }
  out.most_pico = 0;
  for (const ProviderConfig* one : providers_) {
    const CostEstimate here = EstimateAt(*one);
    out.expected_pico = std::max(out.expected_pico, here.expected_pico);
    if (!here.most_pico || !out.most_pico) out.most_pico.reset();
    else out.most_pico = std::max(*out.most_pico, *here.most_pico);
  }
  return out;
}

void LlmExchange::Admit() {
  if (handle_.over()) return;
  AdmissionRequest wanted;
  wanted.model = model_;
  wanted.provider = provider().name;
  wanted.stream = request_.stream;
  wanted.cost = Estimate();
  if (metered_) {
    std::lock_guard lock(shared_.calibration_mutex);
    wanted.tokens = shared_.calibration.Tokens(CalibrationKey(provider(), "in"), request_.text_bytes).tokens +
                    request_.max_output.value_or(0) * request_.choices;
  }
  Admission::Decision decision = shared_.admission.Admit(*client_, wanted, Now());
  if (decision.refused) {
    if (decision.refused->reason != RefusalReason::kLease) return Reject(*decision.refused);
    IoLoop& loop = policy_.loop_;
    shared_.admission.WhenLeased([&loop, alive = std::weak_ptr<LlmExchange*>(alive_)] {
      loop.Post([alive] {
        if (const auto self = alive.lock()) (*self)->Admit();
      });
    });
    return;
  }
  grant_ = std::move(decision.grant);
  if (!metered_) return Dispatch();
  if (!shared_.journal.admits())
    return Reject(LlmError::kOverloaded, "charges cannot be recorded now, so nothing is sent", 1);
  BeginRecord();
}

void LlmExchange::BeginRecord() {
  record_.id = id_;
  record_.dispatch_unix_ns = Now().unix_ns;
  record_.key = client_->key->id;
  record_.tenant = client_->key->tenant;
  record_.budgets = BudgetNames(*client_, provider().name, model_);
  record_.profile = pricing::ProfileName(Terms(provider()).profile);
  record_.region = provider().region;
  record_.provider = provider().name;
  record_.model_requested = model_;
  record_.api = LlmApiName(match_.route->api);
  record_.operation = LlmOperationName(match_.route->operation);
  record_.tier = request_.service_tier;
  record_.reserved_pico = grant_.reserved_pico();
  record_.idempotency = claimed_;
  begun_ = true;
  policy_.journal_.Begin(record_, [alive = std::weak_ptr<LlmExchange*>(alive_)](Kept kept) {
    const auto self = alive.lock();
    if (!self) return;
    LlmExchange& exchange = **self;
    if (kept == Kept::kRefused) {
      exchange.begun_ = false;
      return exchange.Reject(LlmError::kOverloaded, "charges cannot be recorded now, so nothing is sent", 1);
    }
    exchange.Dispatch();
  });
}

void LlmExchange::BuildBody() {
  edits_.clear();
  strip_ = false;
  if (metered_) {
    const std::string_view sent = SentModel(provider());
    if (sent != model_ && !request_.model_value.empty()) edits_.push_back(ReplaceModel(request_, sent));
    const std::string_view limit = MaxOutputMember(*match_.route);
    if (!request_.max_output && client_->key->default_max_tokens > 0 && !limit.empty())
      edits_.push_back(AddMember(request_, limit, std::to_string(client_->key->default_max_tokens)));
    if (provider().stream_usage != StreamUsage::kNever) {
      std::vector<LlmEdit> usage =
          InjectUsage(request_, *match_.route, provider().stream_usage == StreamUsage::kContinuous);
      strip_ = !usage.empty();
      for (LlmEdit& edit : usage) edits_.push_back(std::move(edit));
    }
  }
  SortStably(edits_, [](const LlmEdit& a, const LlmEdit& b) { return a.at < b.at; });
  body_pieces_.clear();
  size_t at = 0;
  for (const LlmEdit& edit : edits_) {
    if (edit.at > at) body_pieces_.push_back(body_.substr(at, edit.at - at));
    body_pieces_.push_back(edit.insert);
    at = edit.at + edit.erase;
  }
  if (at < body_.size()) body_pieces_.push_back(body_.substr(at));
}

void LlmExchange::Dispatch() {
  if (handle_.over()) return;
  const ProviderConfig& to = provider();
  BuildBody();
  target_ = to.Prefix();
  const std::string_view sent = SentModel(to);
  if (!match_.model.empty() && sent != model_) {
    // The model is a segment of the path, or a part of one.
    const size_t begin = static_cast<size_t>(match_.model.data() - path_.path.data());
    target_.append(path_.path, 0, begin).append(sent).append(path_.path, begin + match_.model.size());
  } else {
    target_ += path_.path;
  }
  const std::string query =
      match_.route->api == LlmApi::kGemini && (!to.credential.empty() || head_->Header(kKeyField).empty())
          ? WithoutParameter(path_.query, "key")
          : std::string(path_.query);
  if (!query.empty()) (target_ += '?') += query;
  drop_.assign({kKeyField});
  fields_.clear();
  if (!to.credential.empty()) {
    for (std::string_view field : kCredentialFields) drop_.push_back(field);
    switch (to.api) {
      case LlmApi::kAnthropic: fields_ += "x-api-key: "; break;
      case LlmApi::kGemini: fields_ += "x-goog-api-key: "; break;
      default:
        fields_ += path_.path.starts_with("/openai/deployments/") ? "api-key: " : "Authorization: Bearer ";
        break;
    }
    (fields_ += to.credential) += "\r\n";
  } else if (head_->Header(kKeyField).empty()) {
    // The field has our key, which no other program gets.
    for (std::string_view field : kCredentialFields) drop_.push_back(field);
  }
  if (metered_) {
    drop_.push_back("accept-encoding");
    fields_ += "Accept-Encoding: identity\r\n";
  }
  ++attempts_made_;
  attempt_began_ = dispatched_ = Now();
  attempt_open_ = sent_ = true;
  if (policy_.genai_ && metered_) {
    if (!genai_) genai_ = std::make_unique<GenaiExchange>(*policy_.genai_, *head_);
    genai_->Dispatch(dispatched_, drop_, fields_);
  }
  record_.dispatch_unix_ns = dispatched_.unix_ns;
  record_.provider = to.name;
  record_.region = to.region;
  record_.profile = pricing::ProfileName(Terms(to).profile);
  RelayForward forward;
  forward.upstream = in_force_->pools[static_cast<size_t>(&to - config().providers.data())];
  forward.target = target_;
  forward.drop = drop_;
  forward.fields = fields_;
  if (!edits_.empty()) forward.body = &body_pieces_;
  handle_.Forward(forward);
}

void LlmExchange::EndAttempt(std::string_view result, int64_t uncertain_pico) {
  if (!std::exchange(attempt_open_, false)) return;
  shared_.metrics.CountAttempt(provider().name, result);
  if (record_.attempts.size() >= kMostAttempts) return;
  record_.attempts.push_back({.provider = provider().name,
                              .result = std::string(result),
                              .begin_unix_ns = attempt_began_.unix_ns,
                              .duration_ns = (Now() - attempt_began_).count(),
                              .uncertain_list_pico = uncertain_pico});
}

bool LlmExchange::HasNextAttempt() const noexcept {
  return attempts_made_ < config().attempts && attempt_ + 1 < providers_.size();
}

void LlmExchange::OnAttemptFailed(const RelayAttempt& attempt) {
  // What a provider may have begun is not sent again: it may charge for both.
  const bool again = HasNextAttempt() && !attempt.dispatched;
  EndAttempt(RelayFailureName(attempt.failure), attempt.dispatched ? record_.reserved_pico : 0);
  if (!again) {
    // Not by the relay, whose answer would have another id than the row.
    const int status = RelayFailureStatus(attempt.failure);
    return Reject(ErrorOf(status),
                  status == 504   ? "the provider did not answer in time"
                  : status == 503 ? "the provider takes no requests now; try again"
                                  : "the provider did not answer",
                  status == 503 ? 1 : 0);
  }
  ++attempt_;
  Dispatch();
}

void LlmExchange::OnUpstreamHead(const RelayHead& head, RelayPass& pass) {
  const int status = head.status();
  if (IsPassing(status) && HasNextAttempt()) {
    EndAttempt("http_" + std::to_string(status));
    ++attempt_;
    return Dispatch();
  }
  answer_status_ = status;
  EndAttempt(status < 400 ? std::string("ok") : "http_" + std::to_string(status));
  for (std::string_view field : {"x-request-id", "request-id", "apim-request-id"}) {
    if (const std::string_view id = head.Header(field); !id.empty()) {
      record_.upstream_request_id = id;
      break;
    }
  }
  const pricing::ProfileTerms terms = Terms(provider());
  answer_drop_.assign({kIdField, kProfileField});
  answer_fields_.clear();
  ((answer_fields_.append(kIdField) += ": ") += RequestIdText(id_)) += "\r\n";
  ((answer_fields_.append(kProfileField) += ": ") += pricing::ProfileName(terms.profile)) += "\r\n";
  if (terms.profile == pricing::Profile::kManaged) {
    for (std::string_view field : kLimitFields) answer_drop_.push_back(field);
    const Instant now = Now();
    AppendRateHeaders(
        answer_fields_,
        match_.route->api == LlmApi::kAnthropic ? RateHeaders::kAnthropic : RateHeaders::kOpenAi,
        client_->rates->View(now), now.unix_ns);
  }
  pass.write_first = true;
  const LlmFraming framing = FramingOfAnswer(*match_.route, request_.stream, head.Header("content-type"));
  if (framing == LlmFraming::kSse) {
    if (!head.HasHeader("cache-control")) answer_fields_ += "Cache-Control: no-cache\r\n";
    if (!head.HasHeader("x-accel-buffering")) answer_fields_ += "X-Accel-Buffering: no\r\n";
  }
  answered_ = metered_ && status >= 200 && status < 300;
  const std::string_view coding = head.Header("content-encoding");
  // A server that compresses unrequested is passed on as it is, and counted by its size.
  if (answered_ && (coding.empty() || coding == "identity")) {
    LlmAnswerOptions options;
    options.shape = match_.route->shape;
    options.framing = framing;
    options.strip_usage = strip_;
    options.reasoning_besides = provider().reasoning_besides;
    options.choices = request_.choices;
    reader_.emplace(options);
    pass.write_first = false;
    // The end of a stream is seen by its last chunk, which waits for the charge.
    pass.same_length = framing == LlmFraming::kWhole;
  }
  pass.drop = answer_drop_;
  pass.fields = answer_fields_;
}

void LlmExchange::OnBody(std::string_view piece, RelayOutput& output) {
  if (!reader_) return;
  const int64_t before = reader_->answer().content_events;
  const LlmAnswerStep step = reader_->Feed(piece);
  for (std::string_view bytes : step.pass) output.Pass(bytes);
  const int64_t more = reader_->answer().content_events - before;
  // A whole answer has no times of its tokens.
  if ((more > 0 || step.first_token) && reader_->framing() != LlmFraming::kWhole) {
    const Instant now = Now();
    if (!record_.ttft_ns) {
      record_.ttft_ns = (now - dispatched_).count();
      if (genai_ && more > 1) genai_->AddChunks(GenaiFacts(), Duration{}, more - 1);
    } else {
      record_.itl_sum_ns += (now - last_output_).count();
      record_.itl_count += more;
      if (genai_ && more > 0) genai_->AddChunks(GenaiFacts(), now - last_output_, more);
    }
    last_output_ = now;
    if (now - std::max(last_progress_, dispatched_,
                       [](Instant a, Instant b) { return a.boot_ns < b.boot_ns; }) >=
            kProgressEvery ||
        reader_->answer().events - progress_events_ >= kProgressEvents)
      Progress(now);
  }
  if (step.settle) SettleAndHold(output);
}

void LlmExchange::OnBodyEnd(RelayOutput& output) {
  if (!reader_) return;
  const LlmAnswerStep step = reader_->Finish();
  for (std::string_view bytes : step.pass) output.Pass(bytes);
  if (step.settle) SettleAndHold(output);
}

// The bytes that are held pass when the charge is on disk.
void LlmExchange::SettleAndHold(RelayOutput& output) {
  if (settled_) return;
  output.Hold();
  Settle(true, client_left_ ? ChargeOutcome::kCancelled : ChargeOutcome::kComplete,
         [alive = std::weak_ptr<LlmExchange*>(alive_)](Kept) {
           if (const auto self = alive.lock()) (*self)->handle_.Resume();
         });
}

void LlmExchange::OnCut(const RelayAttempt& attempt, RelayOutput& output) {
  if (!reader_) return;
  output.Pass(reader_->Release());
  const bool timeout = attempt.failure == RelayFailure::kIdleTimeout;
  const LlmError error = timeout ? LlmError::kUpstreamTimeout : LlmError::kUpstreamAway;
  fields_ = LlmStreamError(*match_.route, reader_->framing(), error, "the provider's answer was cut",
                           RequestIdText(id_), reader_->answer().events);
  output.Pass(fields_);
}

RelayDrain LlmExchange::OnClientGone() {
  client_left_ = true;
  if (!answered_ || config().drain_bytes == 0) return {};
  return {.bytes = config().drain_bytes, .time = config().drain_time};
}

// Sets what was used, and by whom it is known.
void LlmExchange::Count(bool whole) {
  record_.usage = {};
  record_.counted_by = CountedBy::kNothing;
  if (!answered_) return;
  if (reader_) {
    const LlmAnswer& answer = reader_->answer();
    record_.model_answered = answer.model;
    if (!answer.tier.empty()) record_.tier = answer.tier;
    record_.events = answer.events;
    if (answer.usage) {
      record_.usage = *answer.usage;
      record_.counted_by = whole || answer.ended ? CountedBy::kUsage : CountedBy::kPartial;
      if (!whole) return;
      std::lock_guard lock(shared_.calibration_mutex);
      if (answer.usage->input_known && request_.media == 0)
        shared_.calibration.Learn(CalibrationKey(provider(), "in"), request_.text_bytes,
                                  InputOf(*answer.usage));
      if (answer.usage->output_known && answer.content_bytes > 0)
        shared_.calibration.Learn(CalibrationKey(provider(), "out"), answer.content_bytes,
                                  OutputOf(*answer.usage));
      return;
    }
    if (answer.error && answer.content_events == 0) return;
  }
  // The provider sent no counts.
  const int64_t out_bytes = reader_ ? reader_->answer().content_bytes : record_.answer_bytes;
  const int64_t listed = reader_ ? reader_->answer().listed_tokens : 0;
  int64_t input = 0, output = listed;
  {
    std::lock_guard lock(shared_.calibration_mutex);
    input = shared_.calibration.Tokens(CalibrationKey(provider(), "in"), request_.text_bytes).tokens;
    if (listed == 0) output = shared_.calibration.Tokens(CalibrationKey(provider(), "out"), out_bytes).tokens;
  }
  // An estimate is not above what was allowed, and so not above what a hard budget has reserved.
  std::optional<int64_t> most_output = MostOutput();
  if (const pricing::PriceRow* row = PricesOf({}).RowAt(record_.dispatch_unix_ns);
      !most_output && row != nullptr && row->max_output >= 0)
    most_output = row->max_output;
  if (listed == 0 && most_output) output = std::min(output, *most_output * request_.choices);
  record_.usage[LlmClass::kInput] = std::min(input, MostInput().value_or(input));
  record_.usage[LlmClass::kOutput] = output;
  record_.counted_by = !whole       ? CountedBy::kPartial
                       : listed > 0 ? CountedBy::kEvents
                                    : CountedBy::kCalibrated;
}

pricing::ModelPrices LlmExchange::PricesOf(std::string_view answered) const {
  pricing::ModelPrices found = prices().Find(provider().prices, answered, SentModel(provider()));
  if (!found && config().unknown_price == UnknownPrice::kDefault) found = prices().Default(provider().prices);
  return found;
}

// Sets list_pico and charged_pico of what was counted.
void LlmExchange::Price() {
  record_.list_pico = record_.charged_pico = 0;
  record_.price_row = -1;
  record_.price_version.clear();
  if (record_.counted_by == CountedBy::kNothing) return;
  std::vector<LlmIteration> parts;
  if (reader_) parts = reader_->answer().iterations;
  if (parts.empty()) parts.push_back({record_.model_answered, record_.usage});
  std::optional<int64_t> list = 0;
  const std::optional<pricing::PriceTier> tier = pricing::ServedTier(record_.tier);
  for (const LlmIteration& part : parts) {
    pricing::ChargeRequest charge;
    charge.usage = part.usage;
    charge.dispatched_ns = record_.dispatch_unix_ns;
    charge.tier = tier.value_or(pricing::PriceTier::kStandard);
    const pricing::LlmCharge made =
        pricing::ChargeFor(PricesOf(part.model.empty() ? record_.model_answered : part.model), charge);
    if (record_.price_row < 0 && made.row.line > 0) {
      record_.price_version = PriceRowText(made.row);
      record_.price_row = made.row.line;
    }
    if (!tier || made.state != pricing::ChargeState::kPriced || !list) list.reset();
    else list = pricing::AddPico(*list, made.pico);
  }
  record_.list_pico = list.value_or(0);
  record_.charged_pico = pricing::ChargedPico(Terms(provider()), list).value_or(0);
}

void LlmExchange::Progress(Instant now) {
  last_progress_ = now;
  progress_events_ = reader_->answer().events;
  Count(false);
  Price();
  ChargeProgress progress;
  progress.id = id_;
  progress.ttft_ns = record_.ttft_ns;
  progress.model_answered = record_.model_answered;
  progress.tier = record_.tier;
  progress.counted_by = CountedBy::kPartial;
  progress.usage = record_.usage;
  progress.list_pico = record_.list_pico;
  progress.charged_pico = record_.charged_pico;
  progress.price_version = record_.price_version;
  progress.price_row = record_.price_row;
  progress.events = record_.events;
  shared_.journal.Progress(std::move(progress));
}

void LlmExchange::Settle(bool whole, ChargeOutcome outcome, LoopJournal::Done done) {
  settled_ = true;
  const Instant now = Now();
  Count(whole);
  Price();
  if (outcome == ChargeOutcome::kCancelled && !config().charge_cancelled) record_.charged_pico = 0;
  record_.outcome = outcome;
  record_.settled_unix_ns = now.unix_ns;
  record_.duration_ns = (now - began_).count();
  record_.status = answer_status_;
  record_.retries = std::max(attempts_made_ - 1, 0);
  grant_.Settle(record_.charged_pico, InputOf(record_.usage) + OutputOf(record_.usage), now);
  shared_.metrics.CountCharge(record_);
  if (shared_.records) shared_.records->Add(record_, request_.stream);
  if (claimed_) {
    if (sent_) shared_.idempotency.Settled(record_.key, *claimed_, id_, record_.status, now.unix_ns);
    else shared_.idempotency.Release(record_.key, *claimed_, id_);
    claimed_.reset();
  }
  policy_.journal_.Settle(record_, std::move(done));
}

void LlmExchange::OnEnd(const RelayOutcome& outcome) {
  const bool left = outcome.end == RelayEnd::kClientGone || outcome.end == RelayEnd::kClientSlow;
  record_.answer_bytes = static_cast<int64_t>(outcome.received);
  EndAttempt(left ? std::string_view("client_gone") : RelayFailureName(outcome.failure));
  if (begun_ && !settled_) {
    answer_status_ = outcome.status;
    const ChargeOutcome how = left                                       ? ChargeOutcome::kCancelled
                              : outcome.end == RelayEnd::kComplete       ? ChargeOutcome::kComplete
                              : outcome.end == RelayEnd::kUpstreamFailed ? ChargeOutcome::kUpstreamFailed
                              : sent_                                    ? ChargeOutcome::kCancelled
                                                                         : ChargeOutcome::kRefused;
    Settle(outcome.answer_whole, how, nullptr);
  }
  if (claimed_) shared_.idempotency.Release(client_->key->id, *claimed_, id_);
  if (sent_ && metered_) shared_.metrics.CountInference(provider());
  if (genai_) {
    const LlmAnswer* answer = reader_ ? &reader_->answer() : nullptr;
    const std::string error = GenaiErrorType(outcome, answer);
    const std::string_view detail =
        error == "answer_error" ? std::string_view(answer->error_type) : outcome.detail;
    genai_->Finish(GenaiFacts(), {began_, Now(), error, detail, outcome.status, record_, dispatched_});
  }
  shared_.metrics.CountHttp(head_->method(),
                            outcome.status != 0 ? outcome.status
                            : left              ? 499
                                                : 0,
                            Now() - began_);
}

LlmPolicy::LlmPolicy(IoLoop& loop, ProxyShared& shared, std::shared_ptr<const ProxyRules> rules)
    : loop_(loop),
      shared_(shared),
      journal_(loop, shared.journal),
      genai_(shared.telemetry ? std::make_unique<GenaiRecorder>(*shared.telemetry) : nullptr) {
  SetRules(std::move(rules));
}

LlmPolicy::~LlmPolicy() = default;

void LlmPolicy::SetRules(std::shared_ptr<const ProxyRules> rules) {
  auto next = std::make_shared<InForce>();
  for (const ProviderConfig& provider : rules->config.providers)
    next->pools.push_back(MakeRef<UpstreamPool>(loop_, provider.upstream));
  next->rules = std::move(rules);
  // Requests that run keep the old ones; their idle connections end.
  if (in_force_) {
    for (const Ref<UpstreamPool>& pool : in_force_->pools) pool->CloseIdle();
  }
  in_force_ = std::move(next);
}

RequestId LlmPolicy::NewId() {
  // Two words of the kernel's random numbers, so that ids of several replicas are distinct.
  thread_local std::mt19937_64 engine = [] {
    std::random_device source;
    std::seed_seq seed{source(), source(), source(), source(), source(), source(), source(), source()};
    return std::mt19937_64(seed);
  }();
  return MakeRequestId(shared_.clock.Now().unix_ns / 1'000'000, engine(), engine());
}

std::unique_ptr<RelayExchange> LlmPolicy::Begin(const RelayRequest& request, RelayHandle handle) {
  auto exchange = std::make_unique<LlmExchange>(*this, handle);
  exchange->Begin(request);
  return exchange;
}

void LlmPolicy::Refuse(const RelayHead& head, HttpResponse& refusal) {
  LlmApi api = LlmApi::kOpenAi;
  if (const Result<LlmPath> path = NormalLlmPath(head.target()); path)
    api = FindLlmRoute(head.method(), path->path).route->api;
  const LlmErrorAnswer made =
      MakeLlmError(api, ErrorOf(refusal.status), refusal.body.bytes, RequestIdText(NewId()), 0);
  refusal.content_type.clear();
  for (const auto& [name, value] : made.headers) {
    if (name != "Retry-After") refusal.AddHeader(name, value);
  }
  refusal.body = std::string(made.body);
}

}  // namespace gpulens::proxy

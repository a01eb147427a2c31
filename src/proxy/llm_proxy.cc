#include "proxy/llm_proxy.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/result.h"
#include "pricing/list_prices.h"
#include "proxy/admission/engines.h"
#include "proxy/admission/lease_starts.h"
#include "proxy/journal/charge_fold.h"
#include "proxy/journal/idempotency.h"
#include "proxy/llm_policy.h"
#include "proxy/proxy_metrics.h"
#include "store/charges/charge_file.h"
#include "store/charges/charge_servers.h"

namespace gpulens::proxy {
namespace {

constexpr size_t kMostPriceFileBytes = size_t{16} << 20;
// At the start stores get what the last run has left for them before budgets are read from the first one.
constexpr Duration kFoldAtStart = std::chrono::seconds(10);
// For metrics and spans that a receiver has not taken when the proxy ends.
constexpr Duration kLastExport = std::chrono::seconds(3);

Result<std::unique_ptr<ChargeStore>> OpenStore(const std::string& place) {
  if (IsChargeServer(place)) return OpenChargeServer(place);
  ChargeFile::Options options;
  options.path = place;
  ASSIGN_OR_RETURN(auto file, ChargeFile::Open(options));
  return std::unique_ptr<ChargeStore>(std::move(file));
}

// For questions besides the fold, which writes.
Result<std::unique_ptr<ChargeStore>> OpenStoreToRead(const std::string& place) {
  if (IsChargeServer(place)) return OpenChargeServer(place);
  ChargeFile::Options options;
  options.path = place;
  options.read_only = true;
  options.create = false;
  ASSIGN_OR_RETURN(auto file, ChargeFile::Open(options));
  return std::unique_ptr<ChargeStore>(std::move(file));
}

}  // namespace

Result<pricing::PriceTable> LoadPrices(const ProxyOptions& options) {
  std::vector<pricing::PriceFile> files;
  for (const std::string& path : options.price_files) {
    if (path == kBuiltinPrices) {
      files.push_back({path, pricing::ListPrices()});
      continue;
    }
    Result<std::string> text = ReadFile(path, kMostPriceFileBytes);
    if (!text) return Status{Code::kInvalidArgument, path + ": " + text.error().detail};
    files.push_back({path, *std::move(text)});
  }
  std::vector<std::string> names;
  for (const ProviderConfig& provider : options.config.providers) names.push_back(provider.prices);
  return pricing::PriceTable::Load(files, names);
}

class LlmProxy::Impl {
 public:
  Impl(ProxyOptions options, std::unique_ptr<RequestRecords> records)
      : options_(std::move(options)),
        records_(std::move(records)),
        admission_(options_.admission),
        idempotency_({}) {}
  ~Impl() { Stop(Duration{}); }

  Status Start() {
    ASSIGN_OR_RETURN(rules_, LoadRules(options_));
    RETURN_IF_ERROR(StartJournal());
    RestoreFromStore();
    RETURN_IF_ERROR(StartLeases());
    shared_ = std::make_unique<ProxyShared>(admission_, *journal_, idempotency_, metrics_,
                                            [this](ProxyState& state) { ReadState(state); });
    shared_->records = records_.get();
    if (options_.genai.send) {
      ASSIGN_OR_RETURN(telemetry_, GenaiTelemetry::Start(options_.genai));
      shared_->telemetry = telemetry_.get();
    }
    for (size_t i = 0; i < std::max<size_t>(options_.loops, 1); ++i)
      loops_.push_back(std::make_unique<Loop>());
    for (const auto& loop : loops_) RETURN_IF_ERROR(StartLoop(*loop));
    return Listen();
  }

  Status Reload(ProxyOptions next) {
    std::lock_guard lock(mutex_);
    if (stopped_) return {Code::kUnavailable, "the proxy is stopping"};
    ASSIGN_OR_RETURN(auto rules, LoadRules(next));
    rules_ = std::move(rules);
    for (const auto& loop : loops_) loop->io.Call([&] { loop->policy->SetRules(rules_); });
    return Ok();
  }

  void Stop(Duration grace) {
    std::lock_guard lock(mutex_);
    if (std::exchange(stopped_, true)) return;
    std::mutex mutex;
    std::condition_variable ended;
    size_t left = 0;
    for (const auto& loop : loops_) left += loop->server != nullptr;
    for (const auto& loop : loops_) {
      if (!loop->server) continue;
      loop->server->Shutdown(grace, [&] {
        std::lock_guard guard(mutex);
        --left;
        ended.notify_one();
      });
    }
    {
      std::unique_lock guard(mutex);
      ended.wait(guard, [&] { return left == 0; });
    }
    for (const auto& loop : loops_) {
      loop->server = nullptr;  // ends the requests that are left
      loop->io.Call([&] { loop->policy = nullptr; });
    }
    if (telemetry_) telemetry_->Finish(std::min(grace, kLastExport));
    // The journal's callbacks post to the loops, so these live until it has ended.
    if (journal_) journal_->Flush();
    for (const auto& fold : folds_) fold->Drain(std::min(grace, kFoldAtStart));
    folds_.clear();
    keeper_ = nullptr;
    journal_ = nullptr;
    for (const auto& loop : loops_) {
      loop->io.Call([&] { loop->authenticator = nullptr; });
      loop->io.Stop();
    }
  }

  std::vector<Endpoint> addresses() const { return addresses_; }
  const JournalFound& found() const noexcept { return found_; }
  Admission& admission() noexcept { return admission_; }

 private:
  struct Loop {
    IoLoop io;
    std::unique_ptr<Authenticator> authenticator;
    std::unique_ptr<LlmPolicy> policy;
    std::unique_ptr<RelayServer> server;
  };

  // Loads keys and prices, and puts keys and budgets in force.
  Result<std::shared_ptr<const ProxyRules>> LoadRules(const ProxyOptions& options) {
    auto rules = std::make_shared<ProxyRules>();
    rules->config = options.config;
    ASSIGN_OR_RETURN(rules->prices, LoadPrices(options));
    ASSIGN_OR_RETURN(KeyTable keys, KeyTable::Load(options.keys_file));
    RETURN_IF_ERROR(admission_.Reload(std::move(keys), options.budgets));
    return std::shared_ptr<const ProxyRules>(std::move(rules));
  }

  Status StartJournal() {
    JournalOptions journal = options_.journal;
    for (const ProxyOptions::Store& store : options_.stores) journal.stores.push_back(store.name);
    ASSIGN_OR_RETURN(journal_, Journal::Open(journal));
    found_ = journal_->found();
    for (size_t i = 0; i < options_.stores.size(); ++i) {
      ChargeFold::Options fold;
      fold.store = i;
      fold.name = options_.stores[i].name;
      fold.folder = journal.folder;
      ASSIGN_OR_RETURN(auto started, ChargeFold::Start(*journal_, fold, [place = options_.stores[i].place] {
                         return OpenStore(place);
                       }));
      folds_.push_back(std::move(started));
    }
    return Ok();
  }

  // What budgets have spent in their windows, and keys of requests that may come again, from the first store.
  void RestoreFromStore() {
    const Instant now = RealClock().Now();
    idempotency_.Add(std::exchange(found_.idempotent, {}), now.unix_ns);
    if (folds_.empty()) return;
    const std::string& place = options_.stores.front().place;
    if (!IsChargeServer(place) && ::access(place.c_str(), F_OK) != 0 && errno == ENOENT &&
        found_.records == 0 && journal_->stats().next_id <= 1) {
      charges_known_ = true;  // the first start
      return;
    }
    const bool complete = folds_.front()->Drain(kFoldAtStart);
    Result<std::unique_ptr<ChargeStore>> store = OpenStoreToRead(place);
    Status status = store ? Ok() : store.error();
    if (store) {
      const std::vector<BudgetView> budgets = admission_.budgets().View(now);
      std::vector<SpentWindow> windows;
      for (const BudgetView& budget : budgets) windows.push_back({budget.name, budget.window_start_unix_ns});
      const Result<std::vector<__int128>> spent = (*store)->Spent(windows);
      if (spent) {
        for (size_t i = 0; i < budgets.size(); ++i) {
          const __int128 pico = std::min<__int128>((*spent)[i], INT64_MAX);
          admission_.budgets().Restore(budgets[i].name, static_cast<int64_t>(pico),
                                       budgets[i].window_start_unix_ns);
        }
        const int64_t day = std::chrono::nanoseconds(std::chrono::hours(24)).count();
        if (const auto keys = (*store)->ListIdempotent(now.unix_ns - day))
          idempotency_.Add(*keys, now.unix_ns);
      } else {
        status = spent.error();
      }
    }
    charges_known_ = status && complete;
    if (!charges_known_)
      Log(LogLevel::kError, "proxy", "budgets_not_read",
          "What budgets have spent is not known completely: " +
              (status ? "the store " + options_.stores.front().name + " is behind the journal"
                      : status.detail) +
              ".");
  }

  std::string LeaseStartsPath() const { return options_.journal.folder + "/leases"; }

  // Ends the leases of earlier starts of this replica, by what the rows have of each start.
  Status ReportEndedLeases() {
    ASSIGN_OR_RETURN(lease_starts_, ReadLeaseStarts(LeaseStartsPath()));
    if (lease_starts_.empty()) return Ok();
    if (options_.stores.empty() || IsChargeServer(options_.stores.front().place))
      return {Code::kUnavailable, "the first store has rows of other replicas, too"};
    if (!charges_known_) return {Code::kUnavailable, "the first store is behind the journal"};
    ASSIGN_OR_RETURN(auto store, OpenStoreToRead(options_.stores.front().place));
    const Instant now = RealClock().Now();
    for (const Budgets::LeaseState& state : admission_.budgets().LeaseStates(true)) {
      BudgetSpec budget;
      budget.name = state.budget->name();
      budget.limit_pico = state.limit_pico;
      budget.window = state.window;
      std::vector<SpentWindow> since;
      for (const LeaseStart& start : lease_starts_) since.push_back({budget.name, start.since_unix_ns});
      ASSIGN_OR_RETURN(std::vector<__int128> spent, store->Spent(since));
      spent.push_back(0);
      for (size_t i = 0; i < lease_starts_.size(); ++i) {
        const __int128 pico = std::clamp<__int128>(spent[i] - spent[i + 1], 0, INT64_MAX);
        RETURN_IF_ERROR(
            keeper_->ReportEnded(budget, lease_starts_[i].fence, static_cast<int64_t>(pico), now));
      }
    }
    lease_starts_.clear();
    return Ok();
  }

  Status StartLeases() {
    if (options_.budget_engine.empty()) return Ok();
    ASSIGN_OR_RETURN(engine_, OpenBudgetEngine(options_.budget_engine));
    LeaseOptions leases;
    leases.replica = options_.replica;
    leases.open_when_down = options_.open_when_down;
    // Rows that the recovery of the journal wrote are of the start before.
    leases.on_fence = [this, since = RealClock().Now().unix_ns](int64_t fence) {
      std::vector<LeaseStart> starts = lease_starts_;
      starts.push_back({fence, since});
      return WriteLeaseStarts(LeaseStartsPath(), starts);
    };
    keeper_ = std::make_unique<LeaseKeeper>(*engine_, admission_.budgets(), leases);
    if (const Status reported = ReportEndedLeases(); !reported)
      Log(LogLevel::kWarn, "proxy", "leases_not_reported",
          "What earlier starts leased of shared budgets counts as spent until their windows end: " +
              reported.detail + ".");
    RETURN_IF_ERROR(keeper_->Start());
    admission_.SetKeeper(keeper_.get());
    return Ok();
  }

  Status StartLoop(Loop& loop) {
    loop.io.Start();
    RETURN_IF_ERROR(loop.io.status());
    ASSIGN_OR_RETURN(loop.authenticator, Authenticator::Open(loop.io, options_.web_config, {}));
    loop.io.Call([&] { loop.policy = std::make_unique<LlmPolicy>(loop.io, *shared_, rules_); });
    RelayOptions relay;
    relay.limits = options_.limits;
    relay.authenticator = loop.authenticator.get();
    relay.trusted_peers = options_.trusted_peers;
    loop.server = std::make_unique<RelayServer>(loop.io, *loop.policy, std::move(relay));
    return Ok();
  }

  Status Listen() {
    for (const Endpoint& at : options_.listen) {
      // One socket for all loops: the kernel wakes one that waits.
      ASSIGN_OR_RETURN(const auto socket, SharedSocket::Get(at));
      for (const auto& loop : loops_) {
        ASSIGN_OR_RETURN(UniqueFd copy, socket->Copy());
        ASSIGN_OR_RETURN(const Endpoint bound, loop->server->Listen(std::move(copy)));
        if (loop == loops_.front()) addresses_.push_back(bound);
      }
    }
    return Ok();
  }

  void ReadState(ProxyState& state) {
    for (const auto& loop : loops_) {
      state.streams += loop->server->stats().streams.load(std::memory_order_relaxed);
      state.connections += loop->server->stats().connections.load(std::memory_order_relaxed);
    }
    state.budgets = admission_.budgets().View(RealClock().Now());
    if (engine_) state.budget_engine_up = !admission_.budgets().engine_down();
    state.refusals = admission_.refusals();
    state.journal = journal_->stats();
    if (records_) state.records = records_->counts();
    if (telemetry_) state.genai = telemetry_->stats();
    state.journal_limit_bytes = options_.journal.max_bytes;
    state.found = found_;
    for (size_t i = 0; i < folds_.size(); ++i)
      state.stores.emplace_back(options_.stores[i].name, folds_[i]->stats());
  }

  const ProxyOptions options_;
  const std::unique_ptr<RequestRecords> records_;
  Admission admission_;
  IdempotencyIndex idempotency_;
  ProxyMetrics metrics_;
  std::unique_ptr<Journal> journal_;
  JournalFound found_;
  std::vector<std::unique_ptr<ChargeFold>> folds_;
  bool charges_known_ = false;            // the first store has all of the journal
  std::vector<LeaseStart> lease_starts_;  // earlier ones that are not reported; then the keeper's thread's
  std::unique_ptr<BudgetEngine> engine_;
  std::unique_ptr<LeaseKeeper> keeper_;
  std::unique_ptr<GenaiTelemetry> telemetry_;  // null: nothing is sent
  std::unique_ptr<ProxyShared> shared_;
  std::vector<std::unique_ptr<Loop>> loops_;
  std::vector<Endpoint> addresses_;

  std::mutex mutex_;  // one Reload or Stop at a time; guards what follows
  std::shared_ptr<const ProxyRules> rules_;
  bool stopped_ = false;
};

LlmProxy::LlmProxy(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LlmProxy::~LlmProxy() = default;

Result<std::unique_ptr<LlmProxy>> LlmProxy::Start(ProxyOptions options,
                                                  std::unique_ptr<RequestRecords> records) {
  auto impl = std::make_unique<Impl>(std::move(options), std::move(records));
  RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<LlmProxy>(new LlmProxy(std::move(impl)));
}

Status LlmProxy::Reload(ProxyOptions next) { return impl_->Reload(std::move(next)); }
void LlmProxy::Stop(Duration grace) { impl_->Stop(grace); }
std::vector<Endpoint> LlmProxy::addresses() const { return impl_->addresses(); }
const JournalFound& LlmProxy::found() const noexcept { return impl_->found(); }
Admission& LlmProxy::admission() noexcept { return impl_->admission(); }

}  // namespace gpulens::proxy

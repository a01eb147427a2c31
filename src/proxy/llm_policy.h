// The policy of the relay that meters LLM APIs: authenticates, routes, reserves, counts and charges each
// request.
//
//   head ─ key, route ─ body ─ model, providers, prices ─ Admission::Admit ─ Journal::Begin ─ provider
//   answer ─ LlmAnswerReader ─ its last event is held ─ charge ─ Journal::Settle ─ the event is let go
//
// One policy a loop; what they share is thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "net/relay/relay_server.h"
#include "pricing/price_table.h"
#include "proxy/admission/admission.h"
#include "proxy/genai_exchange.h"
#include "proxy/journal/idempotency.h"
#include "proxy/journal/journal.h"
#include "proxy/loop_journal.h"
#include "proxy/proxy_config.h"
#include "proxy/proxy_metrics.h"
#include "proxy/proxy_records.h"
#include "wire/llm/llm_calibration.h"

namespace gpulens::proxy {

// What a reload replaces. Immutable.
struct ProxyRules {
  ProxyConfig config;
  pricing::PriceTable prices;
};

// What the policies of all loops share, and what they need of the process. Outlives them.
struct ProxyShared {
  // Fills what the page of metrics reads; called on a loop.
  using ReadState = std::function<void(ProxyState&)>;

  ProxyShared(Admission& admits, Journal& charges, IdempotencyIndex& once, ProxyMetrics& counts,
              ReadState read, const Clock& time = RealClock())
      : admission(admits),
        journal(charges),
        idempotency(once),
        metrics(counts),
        read_state(std::move(read)),
        clock(time) {}

  Admission& admission;
  Journal& journal;
  IdempotencyIndex& idempotency;
  ProxyMetrics& metrics;
  const ReadState read_state;
  RequestRecords* records = nullptr;    // null: settled requests are not recorded in a telemetry store
  GenaiTelemetry* telemetry = nullptr;  // null: no metrics and spans are sent
  const Clock& clock;

  std::mutex calibration_mutex;  // guards calibration
  TokenCalibration calibration;
};

class LlmPolicy final : public RelayPolicy {
 public:
  // On the loop's thread, as all calls.
  LlmPolicy(IoLoop& loop, ProxyShared& shared, std::shared_ptr<const ProxyRules> rules);
  ~LlmPolicy() override;

  // For requests that come from now on. Connections to providers whose options stay are kept.
  void SetRules(std::shared_ptr<const ProxyRules> rules);

  std::unique_ptr<RelayExchange> Begin(const RelayRequest& request, RelayHandle handle) override;
  void Refuse(const RelayHead& head, HttpResponse& refusal) override;

 private:
  friend class LlmExchange;
  // The rules with this loop's connections to each provider. Requests keep those that they began with.
  struct InForce {
    std::shared_ptr<const ProxyRules> rules;
    std::vector<Ref<UpstreamPool>> pools;
  };
  RequestId NewId();

  IoLoop& loop_;
  ProxyShared& shared_;
  LoopJournal journal_;
  const std::unique_ptr<GenaiRecorder> genai_;  // null without telemetry
  std::shared_ptr<const InForce> in_force_;
};

}  // namespace gpulens::proxy

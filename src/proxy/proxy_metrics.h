// Counts of the proxy, as a page in the text format of Prometheus: the families of zumik, and its own. Labels
// have closed sets of values or come from the configuration, so the number of series is bounded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "pricing/money.h"
#include "proxy/admission/admission.h"
#include "proxy/genai_telemetry.h"
#include "proxy/journal/charge_fold.h"
#include "proxy/journal/journal.h"
#include "proxy/proxy_config.h"
#include "proxy/proxy_records.h"
#include "store/charges/charge_record.h"

namespace gpulens::proxy {

// Cumulative counts at ascending bounds.
template <size_t kBounds>
struct BucketCounts {
  std::array<uint64_t, kBounds + 1> counts{};
  double sum = 0;

  void Add(const std::array<double, kBounds>& bounds, double value) noexcept {
    size_t at = 0;
    while (at < kBounds && value > bounds[at]) ++at;
    ++counts[at];
    sum += value;
  }
};

// What is read when the page is written.
struct ProxyState {
  const ProxyConfig* config = nullptr;
  uint64_t streams = 0;      // at an upstream now
  uint64_t connections = 0;  // of clients
  std::vector<BudgetView> budgets;
  std::optional<bool> budget_engine_up;  // none: there is no engine
  std::array<uint64_t, kRefusalReasons> refusals{};
  JournalStats journal;
  std::optional<RequestRecords::Counts> records;  // with `telemetry`
  std::optional<GenaiStats> genai;                // with `otlp`
  uint64_t journal_limit_bytes = 0;
  JournalFound found;  // at the start; its list of idempotency keys is not read
  std::vector<std::pair<std::string, ChargeFoldStats>> stores;  // by name
};

// Thread-safe.
class ProxyMetrics {
 public:
  // The process starts now by that clock.
  explicit ProxyMetrics(const Clock& clock = RealClock()) : start_unix_ns_(clock.Now().unix_ns) {}

  // A request of HTTP, whatever became of it. `status`: 499 for a client that left before an answer began.
  void CountHttp(std::string_view method, int status, Duration duration);
  // A request to a provider, which its last attempt went to, when it ends.
  void CountInference(const ProviderConfig& provider);
  void CountAttempt(const std::string& provider, std::string_view result);
  void CountCharge(const ChargeRecord& record);

  std::string Page(const ProxyState& state) const;

  // Milliseconds, as zumik's dashboards have them.
  static constexpr std::array<double, 16> kDurationBounds = {
      5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 120000, 300000, 600000};
  // Seconds.
  static constexpr std::array<double, 16> kTtftBounds = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                                         0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10};
  // Seconds between two outputs.
  static constexpr std::array<double, 14> kGapBounds = {0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15,
                                                        0.2,   0.3,  0.4,   0.5,  0.75,  1,   2.5};

 private:
  using Labels = std::tuple<std::string, std::string, std::string>;

  const int64_t start_unix_ns_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<std::pair<std::string, int>, uint64_t> http_;
  BucketCounts<16> duration_;
  std::map<Labels, uint64_t> inference_;                              // provider, profile, region
  std::map<std::pair<std::string, std::string>, uint64_t> attempts_;  // provider, result
  std::map<Labels, uint64_t> tokens_;                                 // provider, class, counted by
  std::map<std::pair<std::string, std::string>, uint64_t> settled_;   // provider, outcome
  std::map<std::pair<std::string, std::string>, uint64_t> unpriced_;  // provider, profile
  std::map<std::string, BucketCounts<16>> ttft_;                      // by provider
  std::map<std::string, BucketCounts<14>> gaps_;                      // by provider
  pricing::PicoSum charged_, listed_;
  std::map<std::string, pricing::PicoSum> charged_by_;  // by counted by
  std::map<std::string, uint64_t> inconsistent_;        // by api
};

}  // namespace gpulens::proxy

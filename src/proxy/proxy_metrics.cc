#include "proxy/proxy_metrics.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/number_text.h"
#include "wire/exposition/layout_text.h"

namespace gpulens::proxy {
namespace {

constexpr std::string_view kMethods[] = {"GET",   "HEAD",    "POST",  "PUT",    "DELETE",
                                         "PATCH", "OPTIONS", "TRACE", "CONNECT"};

class Family {
 public:
  using Label = std::pair<std::string_view, std::string_view>;

  Family(std::string& out, std::string_view name, std::string_view type, std::string_view help)
      : out_(out), name_(name) {
    (out_.append("# HELP ").append(name) += ' ').append(help) += '\n';
    (out_.append("# TYPE ").append(name) += ' ').append(type) += '\n';
  }

  void Add(std::initializer_list<Label> labels, std::string_view value, std::string_view suffix = {}) {
    out_.append(name_).append(suffix);
    char before = '{';
    for (const auto& [key, text] : labels) {
      (((out_ += before) += key) += "=\"");
      AppendEscaped(out_, text, true);
      out_ += '"';
      before = ',';
    }
    if (before == ',') out_ += '}';
    ((out_ += ' ') += value) += '\n';
  }
  void Add(std::initializer_list<Label> labels, uint64_t value) { Add(labels, std::to_string(value)); }

  template <size_t kBounds>
  void AddBuckets(const std::array<double, kBounds>& bounds, const BucketCounts<kBounds>& of,
                  std::string_view key = {}, std::string_view text = {}) {
    uint64_t below = 0;
    for (size_t i = 0; i <= kBounds; ++i) {
      below += of.counts[i];
      const std::string bound = i < kBounds ? NumberText(bounds[i]) : "+Inf";
      if (key.empty()) Add({{"le", bound}}, std::to_string(below), "_bucket");
      else Add({{key, text}, {"le", bound}}, std::to_string(below), "_bucket");
    }
    if (key.empty()) {
      Add({}, NumberText(of.sum), "_sum");
      Add({}, std::to_string(below), "_count");
    } else {
      Add({{key, text}}, NumberText(of.sum), "_sum");
      Add({{key, text}}, std::to_string(below), "_count");
    }
  }

 private:
  static std::string NumberText(double value) {
    char text[kNumberBytes];
    return {text, WriteNumber(text, value)};
  }

  std::string& out_;
  const std::string_view name_;
};

std::string MicrosOf(pricing::PicoSum sum) { return std::to_string(sum.micros().value_or(INT64_MAX)); }
std::string MicrosOf(int64_t pico) { return std::to_string(pico / pricing::kPicoPerMicro); }

// Of requests in the telemetry store.
void AddRecords(std::string& out, const RequestRecords::Counts& counts) {
  Family(out, "gpulens_proxy_telemetry_stored_total", "counter", "Records in the telemetry store.")
      .Add({}, counts.stored);
  Family(out, "gpulens_proxy_telemetry_queued", "gauge", "Records that wait for the telemetry store.")
      .Add({}, counts.queued);
  {
    Family family(out, "gpulens_proxy_telemetry_lost_total", "counter",
                  "Records that the telemetry store lacks: the queue was full, or it refused them.");
    family.Add({{"reason", "queue_full"}}, counts.lost);
    family.Add({{"reason", "refused"}}, counts.set_aside);
  }
  Family(out, "gpulens_proxy_telemetry_up", "gauge", "Whether the last write to the telemetry store succeeded.")
      .Add({}, uint64_t{counts.failing ? 0u : 1u});
}

}  // namespace

void ProxyMetrics::CountHttp(std::string_view method, int status, Duration duration) {
  const bool known = std::ranges::find(kMethods, method) != std::end(kMethods);
  // Statuses of a server are its own numbers: those outside of HTTP's are one.
  if (status < 100 || status > 599) status = 0;
  std::lock_guard lock(mutex_);
  ++http_[{std::string(known ? method : "other"), status}];
  duration_.Add(kDurationBounds, std::chrono::duration<double, std::milli>(duration).count());
}

void ProxyMetrics::CountInference(const ProviderConfig& provider) {
  std::lock_guard lock(mutex_);
  ++inference_[{provider.name, std::string(pricing::ProfileName(provider.terms.profile)), provider.region}];
}

void ProxyMetrics::CountAttempt(const std::string& provider, std::string_view result) {
  std::lock_guard lock(mutex_);
  ++attempts_[{provider, std::string(result)}];
}

void ProxyMetrics::CountCharge(const ChargeRecord& record) {
  const std::string by(Name(record.counted_by));
  std::lock_guard lock(mutex_);
  charged_.Add(record.charged_pico);
  listed_.Add(record.list_pico);
  charged_by_[by].Add(record.charged_pico);
  for (size_t i = 0; i < kLlmClasses; ++i) {
    if (record.usage.units[i] > 0)
      tokens_[{record.provider, std::string(LlmClassName(static_cast<LlmClass>(i))), by}] +=
          static_cast<uint64_t>(record.usage.units[i]);
  }
  if (record.usage.inconsistent) ++inconsistent_[record.api];
  if (record.ttft_ns) ttft_[record.provider].Add(kTtftBounds, static_cast<double>(*record.ttft_ns) / 1e9);
}

std::string ProxyMetrics::Page(const ProxyState& state) const {
  std::string out;
  {
    std::lock_guard lock(mutex_);
    {
      Family family(out, "http_requests_total", "counter",
                    "Requests by method and status; 499: the client left.");
      for (const auto& [key, count] : http_)
        family.Add({{"method", key.first}, {"status", std::to_string(key.second)}}, count);
    }
    Family(out, "http_request_duration_ms", "histogram",
           "From the head of a request to the last byte of its answer, in milliseconds.")
        .AddBuckets(kDurationBounds, duration_);
    {
      Family family(out, "zumik_inference_requests_total", "counter",
                    "Requests by the provider that the last attempt went to.");
      for (const auto& [key, count] : inference_)
        family.Add(
            {{"provider", std::get<0>(key)}, {"profile", std::get<1>(key)}, {"region", std::get<2>(key)}},
            count);
    }
    Family(out, "zumik_inference_charged_micros_total", "counter", "Charged, in millionths of the currency.")
        .Add({}, MicrosOf(charged_));
    {
      Family family(out, "gpulens_proxy_attempts_total", "counter",
                    "Requests to providers, failed ones included.");
      for (const auto& [key, count] : attempts_)
        family.Add({{"provider", key.first}, {"result", key.second}}, count);
    }
    {
      Family family(out, "gpulens_proxy_units_total", "counter",
                    "What was used, by class and by who counted it.");
      for (const auto& [key, count] : tokens_)
        family.Add(
            {{"provider", std::get<0>(key)}, {"class", std::get<1>(key)}, {"counted_by", std::get<2>(key)}},
            count);
    }
    {
      Family family(out, "gpulens_proxy_time_to_first_token_seconds", "histogram",
                    "From the dispatch of a request to the first output.");
      for (const auto& [provider, counts] : ttft_)
        family.AddBuckets(kTtftBounds, counts, "provider", provider);
    }
    {
      Family family(out, "gpulens_proxy_charged_micros_total", "counter",
                    "Charged, by who counted what was used.");
      for (const auto& [by, sum] : charged_by_) family.Add({{"counted_by", by}}, MicrosOf(sum));
    }
    Family(out, "gpulens_proxy_list_micros_total", "counter", "The same requests at list prices.")
        .Add({}, MicrosOf(listed_));
    {
      Family family(out, "gpulens_proxy_usage_inconsistent_total", "counter",
                    "Answers whose counts contradict each other.");
      for (const auto& [api, count] : inconsistent_) family.Add({{"api", api}}, count);
    }
  }
  {
    Family family(out, "zumik_byoc_target_ttft_ms", "gauge",
                  "The time to first token that a cluster is to keep.");
    for (const ProviderConfig& provider : state.config->providers) {
      if (provider.target_ttft_ms > 0)
        family.Add({{"cluster", provider.cluster}}, static_cast<uint64_t>(provider.target_ttft_ms));
    }
  }
  {
    Family family(out, "gpulens_proxy_refused_total", "counter", "Requests that were not let in, by reason.");
    for (size_t i = 0; i < kRefusalReasons; ++i)
      family.Add({{"reason", RefusalName(static_cast<RefusalReason>(i))}}, state.refusals[i]);
  }
  const std::pair<std::string_view, int64_t BudgetView::*> kOfBudgets[] = {{"limit", &BudgetView::limit_pico},
                                                                           {"spent", &BudgetView::spent_pico},
                                                                           {"held", &BudgetView::held_pico}};
  for (const auto& [what, member] : kOfBudgets) {
    const std::string name = "gpulens_proxy_budget_" + std::string(what) + "_micros";
    Family family(out, name, "gauge", "Of each budget in its present window.");
    for (const BudgetView& budget : state.budgets)
      family.Add({{"budget", budget.name}}, MicrosOf(budget.*member));
  }
  Family(out, "gpulens_proxy_streams", "gauge", "Requests that are at a provider.").Add({}, state.streams);
  Family(out, "gpulens_proxy_connections", "gauge", "Connections of clients.").Add({}, state.connections);
  Family(out, "gpulens_proxy_journal_records_total", "counter", "Records written to the journal.")
      .Add({}, state.journal.written);
  Family(out, "gpulens_proxy_journal_held", "gauge", "Records in memory, for a disk that fails.")
      .Add({}, state.journal.held);
  Family(out, "gpulens_proxy_unrecorded_total", "counter", "Charges that were lost, as the disk failed.")
      .Add({}, state.journal.unrecorded);
  Family(out, "gpulens_proxy_journal_up", "gauge", "Whether the journal can be written.")
      .Add({}, uint64_t{state.journal.failing ? 0u : 1u});
  if (state.records) AddRecords(out, *state.records);
  return out;
}

}  // namespace gpulens::proxy

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

std::string NumberText(double value) {
  char text[kNumberBytes];
  return {text, WriteNumber(text, value)};
}

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
  void Add(std::pair<std::string_view, std::string_view> keys,
           const std::map<std::pair<std::string, std::string>, uint64_t>& counts) {
    for (const auto& [texts, count] : counts)
      Add({{keys.first, texts.first}, {keys.second, texts.second}}, count);
  }

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
  std::string& out_;
  const std::string_view name_;
};

// What has become of metrics and spans.
void AddTelemetry(std::string& out, const GenaiStats& stats) {
  const auto each = [&](std::string_view name, std::string_view type, std::string_view help, auto count) {
    Family family(out, name, type, help);
    for (const GenaiStats::Signal& signal : stats.signals)
      family.Add({{"signal", signal.name}}, signal.*count);
  };
  each("gpulens_proxy_otlp_delivered_total", "counter", "Points and spans that the receiver has taken.",
       &GenaiStats::Signal::delivered);
  each("gpulens_proxy_otlp_waiting", "gauge", "Points and spans that wait for the receiver.",
       &GenaiStats::Signal::waiting);
  {
    Family family(out, "gpulens_proxy_otlp_dropped_total", "counter",
                  "Points and spans that were dropped, or rejected by the receiver.");
    for (const GenaiStats::Signal& signal : stats.signals) {
      for (const auto& [reason, count] : signal.dropped)
        family.Add({{"signal", signal.name}, {"reason", reason}}, count);
    }
  }
  {
    Family family(out, "gpulens_proxy_otlp_requests_total", "counter",
                  "Export requests by status of HTTP, or how they failed.");
    for (const auto& [code, count] : stats.requests) family.Add({{"code", code}}, count);
  }
  Family(out, "gpulens_proxy_otlp_up", "gauge", "Whether the receiver took the last request.")
      .Add({}, uint64_t{stats.up ? 1u : 0u});
}

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
  Family(out, "gpulens_proxy_telemetry_up", "gauge",
         "Whether the last write to the telemetry store succeeded.")
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
  ++settled_[{record.provider, std::string(Name(record.outcome))}];
  if (record.counted_by != CountedBy::kNothing && record.price_row < 0)
    ++unpriced_[{record.provider, record.profile}];
  for (size_t i = 0; i < kLlmClasses; ++i) {
    if (record.usage.units[i] > 0)
      tokens_[{record.provider, std::string(LlmClassName(static_cast<LlmClass>(i))), by}] +=
          static_cast<uint64_t>(record.usage.units[i]);
  }
  if (record.usage.inconsistent) ++inconsistent_[record.api];
  if (record.ttft_ns) ttft_[record.provider].Add(kTtftBounds, static_cast<double>(*record.ttft_ns) / 1e9);
  if (record.itl_count > 0)
    gaps_[record.provider].Add(
        kGapBounds, static_cast<double>(record.itl_sum_ns) / static_cast<double>(record.itl_count) / 1e9);
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
    Family(out, "gpulens_proxy_attempts_total", "counter",
           "Requests to providers by how the answer began, failed ones included.")
        .Add({"provider", "result"}, attempts_);
    Family(out, "gpulens_proxy_settled_total", "counter", "Requests that were charged, by how they ended.")
        .Add({"provider", "outcome"}, settled_);
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
      Family family(out, "gpulens_proxy_time_per_output_token_seconds", "histogram",
                    "Mean time between two outputs of a streamed answer, one observation an answer.");
      for (const auto& [provider, counts] : gaps_)
        family.AddBuckets(kGapBounds, counts, "provider", provider);
    }
    {
      Family family(out, "gpulens_proxy_charged_micros_total", "counter",
                    "Charged, by who counted what was used.");
      for (const auto& [by, sum] : charged_by_) family.Add({{"counted_by", by}}, MicrosOf(sum));
    }
    Family(out, "gpulens_proxy_list_micros_total", "counter", "The same requests at list prices.")
        .Add({}, MicrosOf(listed_));
    // From the start, so that the first one is an increase.
    auto unpriced = unpriced_;
    auto inconsistent = inconsistent_;
    for (const ProviderConfig& provider : state.config->providers) {
      unpriced.try_emplace({provider.name, std::string(pricing::ProfileName(provider.terms.profile))}, 0);
      inconsistent.try_emplace(std::string(LlmApiName(provider.api)), 0);
    }
    Family(out, "gpulens_proxy_unpriced_total", "counter",
           "Requests that used something for which no price was found.")
        .Add({"provider", "profile"}, unpriced);
    {
      Family family(out, "gpulens_proxy_usage_inconsistent_total", "counter",
                    "Answers whose counts contradict each other.");
      for (const auto& [api, count] : inconsistent) family.Add({{"api", api}}, count);
    }
  }
  {
    Family family(out, "zumik_byoc_target_ttft_ms", "gauge",
                  "The time to first token that a cluster is to keep.");
    std::map<std::string_view, double> targets;  // a cluster may have several providers; the strictest holds
    for (const ProviderConfig& provider : state.config->providers) {
      if (provider.target_ttft_ms <= 0) continue;
      double& target = targets.try_emplace(provider.cluster, provider.target_ttft_ms).first->second;
      target = std::min(target, provider.target_ttft_ms);
    }
    for (const auto& [cluster, target] : targets) family.Add({{"cluster", cluster}}, NumberText(target));
  }
  {
    Family family(out, "gpulens_proxy_refused_total", "counter", "Requests that were not let in, by reason.");
    for (size_t i = 0; i < kRefusalReasons; ++i)
      family.Add({{"reason", RefusalName(static_cast<RefusalReason>(i))}}, state.refusals[i]);
  }
  const std::tuple<std::string_view, std::string_view, std::string_view, std::string (*)(const BudgetView&)>
      kOfBudgets[] = {
          {"gpulens_proxy_budget_limit_micros", "gauge", "What may be spent in a window.",
           [](const BudgetView& of) { return MicrosOf(of.limit_pico); }},
          {"gpulens_proxy_budget_spent_micros", "gauge", "Charged in the present window.",
           [](const BudgetView& of) { return MicrosOf(of.spent_pico); }},
          {"gpulens_proxy_budget_held_micros", "gauge", "Reserved by requests that run.",
           [](const BudgetView& of) { return MicrosOf(of.held_pico); }},
          {"gpulens_proxy_budget_refused_total", "counter", "Requests that the budget did not allow.",
           [](const BudgetView& of) { return std::to_string(of.refused); }},
          {"gpulens_proxy_budget_overshoot_micros_total", "counter", "Charged above the limit.",
           [](const BudgetView& of) { return MicrosOf(of.overshoot_pico); }},
          {"gpulens_proxy_budget_opened_micros_total", "counter",
           "Let in without a slice, while the engine of budgets was away.",
           [](const BudgetView& of) { return MicrosOf(of.opened_pico); }}};
  for (const auto& [name, type, help, value] : kOfBudgets) {
    Family family(out, name, type, help);
    for (const BudgetView& budget : state.budgets) family.Add({{"budget", budget.name}}, value(budget));
  }
  {
    Family family(out, "gpulens_proxy_budget_engine_up", "gauge",
                  "Whether the engine of budgets answers; only with one.");
    if (state.budget_engine_up) family.Add({}, uint64_t{*state.budget_engine_up ? 1u : 0u});
  }
  Family(out, "gpulens_proxy_streams", "gauge", "Requests that are at a provider.").Add({}, state.streams);
  Family(out, "gpulens_proxy_connections", "gauge", "Connections of clients.").Add({}, state.connections);
  const JournalStats& journal = state.journal;
  Family(out, "gpulens_proxy_journal_up", "gauge", "Whether the journal can be written.")
      .Add({}, uint64_t{journal.failing ? 0u : 1u});
  Family(out, "gpulens_proxy_journal_records_total", "counter", "Records written to the journal.")
      .Add({}, journal.written);
  Family(out, "gpulens_proxy_journal_failures_total", "counter",
         "Writes and syncs of the journal that failed.")
      .Add({}, journal.write_failures + journal.sync_failures);
  Family(out, "gpulens_proxy_journal_refused_total", "counter",
         "Requests that were refused, as the journal could not be written.")
      .Add({}, journal.refused);
  Family(out, "gpulens_proxy_journal_open", "gauge", "Requests that are begun and not charged.")
      .Add({}, journal.open);
  Family(out, "gpulens_proxy_journal_held", "gauge", "Records in memory, for a disk that fails.")
      .Add({}, journal.held);
  Family(out, "gpulens_proxy_journal_size_bytes", "gauge", "Of the journal on disk.")
      .Add({}, journal.disk_bytes);
  Family(out, "gpulens_proxy_journal_limit_bytes", "gauge", "Size from which requests are refused.")
      .Add({}, state.journal_limit_bytes);
  Family(out, "gpulens_proxy_unrecorded_total", "counter", "Charges that were lost, as the disk failed.")
      .Add({}, journal.unrecorded);
  Family(out, "gpulens_proxy_unrecorded_micros_total", "counter", "What was lost with them.")
      .Add({}, MicrosOf(pricing::PicoSum(journal.unrecorded_pico)));
  Family(out, "gpulens_proxy_unsettled_at_start", "gauge", "Requests that the end before this start has cut.")
      .Add({}, state.found.unsettled);
  Family(out, "gpulens_proxy_unsettled_bound_micros", "gauge", "What these have cost at most.")
      .Add({}, MicrosOf(state.found.unsettled_bound_pico));
  Family(out, "gpulens_proxy_journal_damaged_at_start", "gauge",
         "Records and files of the journal that could not be read at this start.")
      .Add({}, state.found.damaged + state.found.damaged_files);
  const std::tuple<std::string_view, std::string_view, std::string_view, uint64_t (*)(const ChargeFoldStats&)>
      kOfStores[] = {
          {"gpulens_proxy_store_up", "gauge", "Whether the last attempt to write to the store succeeded.",
           [](const ChargeFoldStats& of) { return uint64_t{of.status ? 1u : 0u}; }},
          {"gpulens_proxy_store_behind", "gauge", "Records of the journal that the store may not have.",
           [](const ChargeFoldStats& of) { return of.behind; }},
          {"gpulens_proxy_store_rows_total", "counter", "Charges written to the store.",
           [](const ChargeFoldStats& of) { return of.stored; }},
          {"gpulens_proxy_store_failures_total", "counter", "Attempts to write to the store that failed.",
           [](const ChargeFoldStats& of) { return of.failures; }},
          {"gpulens_proxy_store_refused_total", "counter",
           "Charges that the store refused; set aside in a file.",
           [](const ChargeFoldStats& of) { return of.refused; }}};
  for (const auto& [name, type, help, value] : kOfStores) {
    Family family(out, name, type, help);
    for (const auto& [store, stats] : state.stores) family.Add({{"store", store}}, value(stats));
  }
  if (state.genai) AddTelemetry(out, *state.genai);
  Family(out, "process_start_time_seconds", "gauge", "When the proxy was started, in seconds since 1970.")
      .Add({}, NumberText(static_cast<double>(start_unix_ns_) / 1e9));
  if (state.records) AddRecords(out, *state.records);
  return out;
}

}  // namespace gpulens::proxy

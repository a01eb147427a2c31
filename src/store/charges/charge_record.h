// What one request to an LLM API was charged: the row of the journal and of every store of charges.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/llm/llm_usage.h"

namespace gpulens {

// UUIDv7 (RFC 9562): ids made later sort behind, by millisecond.
using RequestId = std::array<uint8_t, 16>;
// `high` and `low` are random.
RequestId MakeRequestId(int64_t unix_ms, uint64_t high, uint64_t low) noexcept;
// "0192e4a0-…", 36 characters.
std::string RequestIdText(const RequestId& id);
// False, and `out` unchanged, for another text. Letters of both cases.
bool ParseRequestId(std::string_view text, RequestId& out) noexcept;
int64_t UnixMsOf(const RequestId& id) noexcept;

// How a request ended.
enum class ChargeOutcome : uint8_t {
  kComplete,
  kCancelled,       // the client left
  kUpstreamFailed,  // no answer, an error, or a stream that was cut
  kRefused,         // by the proxy, before anything was sent
  kUnsettled,       // the proxy ended before the request did
};
inline constexpr size_t kChargeOutcomes = 5;

// Where the counts of a charge are from.
enum class CountedBy : uint8_t {
  kNothing,     // nothing was used
  kUsage,       // the provider's own
  kTokenized,   // the engine's tokenizer, afterwards
  kEvents,      // one token an event
  kCalibrated,  // bytes, by the ratio that was learnt
  kPartial,     // the last counts before the stream was cut
  kRecovered,   // the last counts in the journal, after a crash
  kUnsettled,   // unknown; `reserved_pico` is the bound
};
inline constexpr size_t kCountedBys = 8;

// "upstream_failed", as in labels and columns. Static storage.
std::string_view Name(ChargeOutcome outcome) noexcept;
std::string_view Name(CountedBy by) noexcept;
// False, and `out` unchanged, for another text.
bool Parse(std::string_view text, ChargeOutcome& out) noexcept;
bool Parse(std::string_view text, CountedBy& out) noexcept;

// One try of a request at one provider. Failed ones cost the key nothing.
struct ChargeAttempt {
  std::string provider;
  std::string result;  // "ok", "connect", "http_503", "timeout" …
  int64_t begin_unix_ns = 0;
  int64_t duration_ns = 0;
  int64_t uncertain_list_pico = 0;  // what the provider may bill although no answer came

  bool operator==(const ChargeAttempt&) const = default;
};

// SHA-256 of an idempotency key, cut to 16 bytes.
using IdempotencyHash = std::array<uint8_t, 16>;

// Money is in picodollars (or pico of `currency`). Times are UTC in nanoseconds since 1970, spans in
// nanoseconds. Empty texts are unknown or none.
struct ChargeRecord {
  RequestId id{};
  int64_t dispatch_unix_ns = 0;  // prices are of this time
  int64_t settled_unix_ns = 0;   // reports and windows of budgets go by this one
  int64_t duration_ns = 0;
  std::optional<int64_t> ttft_ns;  // to the first event with output
  int64_t itl_sum_ns = 0, itl_count = 0;
  std::string key, tenant;
  std::vector<std::string> budgets;
  std::string profile, region, provider;
  std::string model_requested, model_answered;
  std::string api, operation, tier;
  int64_t status = 0;  // of HTTP, as the client got it; 0: none
  ChargeOutcome outcome = ChargeOutcome::kComplete;
  CountedBy counted_by = CountedBy::kNothing;
  LlmUsage usage;
  int64_t list_pico = 0, charged_pico = 0;
  int64_t reserved_pico = 0;  // held while it ran: the bound of its cost where the reservation is hard
  std::string currency;       // empty: USD
  std::string price_version;
  int64_t price_row = -1;  // -1: no price was found
  std::optional<IdempotencyHash> idempotency;
  std::string upstream_request_id;
  int64_t retries = 0;
  int64_t events = 0, answer_bytes = 0;
  std::vector<ChargeAttempt> attempts;  // in order; at most kMostAttempts

  bool operator==(const ChargeRecord&) const = default;
};
inline constexpr size_t kMostAttempts = 16, kMostBudgets = 16;
inline constexpr size_t kMostChargeText = 256;
inline constexpr int64_t kMostChargeUnits = 1'000'000'000'000;  // of a class: sums of millions of records fit

// Bounds texts and lists, replaces invalid UTF-8 and control characters, and limits units to 0 …
// kMostChargeUnits, so that every store takes the record and its sums. Names of models come from clients.
void Clean(ChargeRecord& record);

// Calls visit("request_id", record.id), … for every member but the attempts, in the order of the journal and
// of the tables. A new member is put at the end: older journals and tables lack it. Record is const or not.
template <class Record, class Visit>
void ForEachChargeField(Record& record, Visit&& visit) {
  visit("request_id", record.id);
  visit("dispatch_unix_ns", record.dispatch_unix_ns);
  visit("settled_unix_ns", record.settled_unix_ns);
  visit("duration_ns", record.duration_ns);
  visit("ttft_ns", record.ttft_ns);
  visit("itl_sum_ns", record.itl_sum_ns);
  visit("itl_count", record.itl_count);
  visit("key_id", record.key);
  visit("tenant", record.tenant);
  visit("budgets", record.budgets);
  visit("profile", record.profile);
  visit("region", record.region);
  visit("provider", record.provider);
  visit("model_requested", record.model_requested);
  visit("model_answered", record.model_answered);
  visit("api", record.api);
  visit("operation", record.operation);
  visit("tier", record.tier);
  visit("status", record.status);
  visit("outcome", record.outcome);
  visit("counted_by", record.counted_by);
  visit("usage", record.usage);  // columns units_input … units_requests, usage_known
  visit("list_pico", record.list_pico);
  visit("charged_pico", record.charged_pico);
  visit("reserved_pico", record.reserved_pico);
  visit("currency", record.currency);
  visit("price_version", record.price_version);
  visit("price_row", record.price_row);
  visit("idempotency", record.idempotency);
  visit("upstream_request_id", record.upstream_request_id);
  visit("retries", record.retries);
  visit("events", record.events);
  visit("answer_bytes", record.answer_bytes);
}

// usage_known as a number: input 1, output 2, inconsistent 4.
constexpr int64_t UsageBits(const LlmUsage& usage) noexcept {
  return (usage.input_known ? 1 : 0) | (usage.output_known ? 2 : 0) | (usage.inconsistent ? 4 : 0);
}
constexpr void SetUsageBits(LlmUsage& usage, int64_t bits) noexcept {
  usage.input_known = (bits & 1) != 0;
  usage.output_known = (bits & 2) != 0;
  usage.inconsistent = (bits & 4) != 0;
}

// Names of budgets as one text: "a\nb". Names have no line breaks (Clean).
std::string BudgetsText(const std::vector<std::string>& budgets);
std::vector<std::string> ParseBudgets(std::string_view text);

}  // namespace gpulens

#include "proxy/proxy_records.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>

#include "pricing/money.h"
#include "wire/json/json_object.h"

namespace gpulens::proxy {
namespace {

constexpr double kNsPerSecond = 1e9;

// Whether a provider counted: then its counts are what the request used.
bool IsCounted(CountedBy by) noexcept { return by != CountedBy::kNothing && by != CountedBy::kUnsettled; }

void AddTokens(const ChargeRecord& from, InferenceRecord& record) {
  if (!IsCounted(from.counted_by)) return;
  const auto& units = from.usage.units;
  const auto sum = [&](LlmClass first, LlmClass last) {
    return std::accumulate(units.begin() + static_cast<size_t>(first),
                           units.begin() + static_cast<size_t>(last) + 1, int64_t{0});
  };
  const bool estimated = from.counted_by == CountedBy::kCalibrated || from.counted_by == CountedBy::kEvents ||
                         from.counted_by == CountedBy::kPartial || from.counted_by == CountedBy::kRecovered;
  const int64_t prompt = sum(LlmClass::kInput, LlmClass::kInputTool);
  const int64_t completion = sum(LlmClass::kOutput, LlmClass::kOutputImage);
  if (from.usage.input_known || (estimated && prompt > 0)) record.prompt_tokens = prompt;
  if (from.usage.output_known || (estimated && completion > 0)) record.completion_tokens = completion;
  // Many providers leave it out and do not send a 0.
  const int64_t cached = from.usage[LlmClass::kInputCached] + from.usage[LlmClass::kInputAudioCached];
  if (record.prompt_tokens && cached > 0) {
    record.cached_prompt_tokens = cached;
    record.prompt_tokens_evaluated = prompt - cached;
  }
}

// As columns have them: picodollars / 10^12. None where it is not known.
std::optional<double> CostOf(const ChargeRecord& record) {
  // The ledger knows what one's own machines cost (gpulens cost report --charges).
  if (record.profile == "byoc") return std::nullopt;
  const bool used = IsCounted(record.counted_by) &&
                    std::ranges::any_of(record.usage.units, [](int64_t units) { return units > 0; });
  if (record.profile != "subscription" && used && record.list_pico == 0)
    return std::nullopt;  // no price was found
  if (record.counted_by == CountedBy::kUnsettled) return std::nullopt;
  return static_cast<double>(record.charged_pico) / static_cast<double>(pricing::kPicoPerUsd);
}

// Why a request failed, in the words of its last attempt.
std::string_view ErrorOf(const ChargeRecord& record) {
  if (record.outcome == ChargeOutcome::kRefused) return "refused";
  if (!record.attempts.empty() && record.attempts.back().result != "ok") return record.attempts.back().result;
  return record.status >= 400 ? "http_error" : Name(record.outcome);
}

std::string MetadataOf(const ChargeRecord& record) {
  std::string out;
  {
    JsonObject object(out);
    object.Text("request_id", RequestIdText(record.id));
    object.TextIfAny("key", record.key);
    object.TextIfAny("tenant", record.tenant);
    object.TextIfAny("profile", record.profile);
    object.TextIfAny("region", record.region);
    object.TextIfAny("operation", record.operation);
    object.TextIfAny("tier", record.tier);
    if (record.model_requested != record.model_answered)
      object.TextIfAny("model_requested", record.model_requested);
    object.Text("counted_by", Name(record.counted_by));
    object.Whole("charged_pico", record.charged_pico);
    if (record.list_pico != 0) object.Whole("list_pico", record.list_pico);
    object.TextIfAny("currency", record.currency);
    if (record.status != 0) object.Whole("status", record.status);
    if (record.retries > 0) object.Whole("retries", record.retries);
  }
  return out;
}

}  // namespace

InferenceRecord RecordOf(const ChargeRecord& from, bool streaming, std::string& room) {
  InferenceRecord record;
  record.model = from.model_answered.empty() ? from.model_requested : from.model_answered;
  record.engine = from.provider;
  record.agent = from.key;
  record.time =
      std::chrono::system_clock::time_point(std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::nanoseconds(from.dispatch_unix_ns)));
  record.streaming = streaming;
  const bool failed = from.outcome == ChargeOutcome::kUpstreamFailed ||
                      from.outcome == ChargeOutcome::kRefused || from.outcome == ChargeOutcome::kUnsettled ||
                      (from.outcome == ChargeOutcome::kComplete && from.status >= 400);
  if (from.outcome == ChargeOutcome::kCancelled) {
    record.outcome = Outcome::kCancelled;
  } else if (failed) {
    record.outcome = Outcome::kError;
    record.error_type = ErrorOf(from);
  }
  AddTokens(from, record);
  if (from.duration_ns > 0) record.latency_seconds = static_cast<double>(from.duration_ns) / kNsPerSecond;
  if (from.ttft_ns) record.ttft_seconds = static_cast<double>(*from.ttft_ns) / kNsPerSecond;
  if (from.itl_count > 0) {
    record.itl_seconds.n = static_cast<uint64_t>(from.itl_count);
    record.itl_seconds.sum = static_cast<double>(from.itl_sum_ns) / kNsPerSecond;
    record.itl_seconds.mean = record.itl_seconds.sum / static_cast<double>(from.itl_count);
  }
  if (const auto cost = CostOf(from)) record.cost_usd = *cost;
  room = MetadataOf(from);
  record.metadata_json = room;
  return record;
}

}  // namespace gpulens::proxy

// The gen_ai metrics and the span of one request that a proxy sends on.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "net/relay/relay_message.h"
#include "pricing/price_table.h"
#include "proxy/genai_telemetry.h"
#include "proxy/proxy_config.h"
#include "proxy/trace_context.h"
#include "store/charges/charge_record.h"
#include "wire/llm/llm_answer.h"
#include "wire/llm/llm_request.h"
#include "wire/llm/llm_routes.h"

namespace gpulens::proxy {

// What the exchanges of one loop share. Of its thread.
class GenaiRecorder {
 public:
  explicit GenaiRecorder(GenaiTelemetry& telemetry);

 private:
  friend class GenaiExchange;
  void FillRandom(std::span<uint8_t> id);

  GenaiTelemetry& telemetry_;
  GenaiSeriesTable series_;
  std::mt19937_64 random_;
  std::string span_, name_;
};

// What is known of a request.
struct GenaiRequest {
  const ProxyConfig& config;
  const pricing::PriceTable& prices;
  const LlmRoute& route;
  const ProviderConfig& provider;  // of the last attempt
  std::string_view model;          // as the client named it
  const LlmRequest& request;
  const LlmAnswer* answer = nullptr;  // null: none was read
};

// The span is a child of the caller's where the request names one that is sampled (`traceparent`), and the
// parent of what the provider makes of the request. It lasts from the first dispatch to the end of the
// answer. Requests of traces that are not sampled pass as they are. On the loop's thread.
class GenaiExchange {
 public:
  GenaiExchange(GenaiRecorder& recorder, const RelayHead& head);

  // Before each attempt: adds to the names of fields that do not pass, and to the fields that are sent.
  void Dispatch(Instant now, std::vector<std::string_view>& drop, std::string& fields);
  // Chunks have come, `gap` after those before.
  void AddChunks(const GenaiRequest& of, Duration gap, int64_t count);

  struct End {
    Instant began, now;           // of the client's request
    std::string_view error_type;  // GenaiErrorType
    std::string_view detail;      // of the error, for the span alone
    int status = 0;               // of HTTP, that the client got
    const ChargeRecord& record;
    Instant last_dispatch;
  };
  // The request has ended. Once, after a Dispatch.
  void Finish(const GenaiRequest& of, const End& end);

 private:
  GenaiSeries& SeriesOf(const GenaiRequest& of, std::string_view error_type);
  void Measure(const GenaiRequest& of, const End& end);
  void WriteSpan(const GenaiRequest& of, const End& end);

  GenaiRecorder& recorder_;
  std::optional<TraceContext> parent_;
  TraceContext own_;
  std::string tracestate_;
  bool sampled_ = false;
  bool restarted_ = false;  // the caller's fields are invalid
  Instant first_dispatch_;
  GenaiSeries* chunks_ = nullptr;
};

}  // namespace gpulens::proxy

// What gen_ai metrics and spans cost a request, without its relay: with metrics alone, and with a span.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "proxy/genai_exchange.h"

namespace gpulens::proxy {
namespace {

constexpr int kChunks = 200;

void BM_Genai(benchmark::State& state, const char* traceparent, int chunks) {
  GenaiOptions options;
  std::unique_ptr<GenaiTelemetry> telemetry = *GenaiTelemetry::Start(options);
  GenaiRecorder recorder(*telemetry);
  ProxyConfig config;
  ProviderConfig provider;
  provider.name = provider.prices = "openai";
  provider.upstream.url = *ParseHttpUrl("https://api.openai.com");
  config.providers = {provider};
  const std::vector<pricing::PriceFile> files = {
      {"p", "provider\tmodel\tinput\toutput\nopenai\tgpt-5.6-sol\t1\t1\n"}};
  const pricing::PriceTable prices = *pricing::PriceTable::Load(files);
  LlmRequest request;
  request.stream = chunks > 0;
  LlmAnswer answer;
  answer.id = "chatcmpl-0123456789abcdef01234567";
  answer.model = "gpt-5.6-sol";
  answer.finish_reasons = {"stop"};
  answer.usage.emplace();
  answer.usage->units[static_cast<size_t>(LlmClass::kInput)] = 1000;
  answer.usage->units[static_cast<size_t>(LlmClass::kOutput)] = 200;
  answer.usage->input_known = answer.usage->output_known = true;
  ChargeRecord record;
  record.ttft_ns = 1'000'000;
  record.itl_count = chunks;
  const std::string text =
      "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer x\r\nContent-Type: "
      "application/json\r\n" +
      std::string(traceparent) + "\r\n";
  RelayHead head;
  CHECK(ParseRequestHead(text, {}, head).state == RelayHeadStep::State::kDone);
  const LlmRoute& route = *FindLlmRoute("POST", "/v1/chat/completions").route;
  const GenaiRequest of{config, prices, route, config.providers[0], "gpt-5.6-sol", request, &answer};
  std::vector<std::string_view> drop;
  std::string fields;
  int64_t number = 0;
  for (auto _ : state) {
    const auto exchange = std::make_unique<GenaiExchange>(recorder, head);
    drop.clear();
    fields.clear();
    const Instant now = RealClock().Now();
    exchange->Dispatch(now, drop, fields);
    for (int i = 0; i < chunks; ++i) exchange->AddChunks(of, std::chrono::milliseconds(20), 1);
    exchange->Finish(of, {now, now, {}, {}, 200, record, now});
    if (++number % 1000 == 0) telemetry->TakeSpans();
  }
  state.SetItemsProcessed(state.iterations());
}

constexpr const char* kTraceparentField =
    "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";

BENCHMARK_CAPTURE(BM_Genai, metrics, "", 0);
BENCHMARK_CAPTURE(BM_Genai, metrics_stream, "", kChunks);
BENCHMARK_CAPTURE(BM_Genai, span, kTraceparentField, 0);

}  // namespace
}  // namespace gpulens::proxy

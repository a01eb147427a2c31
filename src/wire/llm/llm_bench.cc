// What reading costs: per event of a stream, per byte of a request, per path. Bytes are those that came;
// items are events.
#include <benchmark/benchmark.h>

#include <string>

#include "base/check.h"
#include "wire/llm/llm_answer.h"
#include "wire/llm/llm_request.h"

namespace gpulens {
namespace {

constexpr int kEvents = 200;

std::string ChatStream(bool usage_member) {
  std::string out;
  for (int i = 0; i < kEvents; ++i) {
    out +=
        R"(data: {"id":"chatcmpl-0123456789abcdef01234567","object":"chat.completion.chunk","created":1764200000,"model":"gpt-5.6-sol","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":" token)" +
        std::to_string(i) + R"("},"logprobs":null,"finish_reason":null}])" +
        (usage_member ? R"(,"usage":null)" : "") + "}\n\n";
  }
  return out;
}

std::string GeminiStream() {
  std::string out;
  for (int i = 0; i < kEvents; ++i) {
    out +=
        R"(data: {"candidates":[{"content":{"parts":[{"text":" token"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":)" +
        std::to_string(i + 1) + R"(,"totalTokenCount":)" + std::to_string(i + 11) +
        R"(,"promptTokensDetails":[{"modality":"TEXT","tokenCount":10}]},"modelVersion":"gemini-2.5-pro","responseId":"r"})"
        "\n\n";
  }
  return out;
}

// Each event in a piece of its own, as a stream arrives.
void ReadStream(benchmark::State& state, LlmShape shape, const std::string& body, bool strip) {
  LlmAnswerOptions options;
  options.shape = shape;
  options.framing = LlmFraming::kSse;
  options.strip_usage = strip;
  LlmAnswerReader reader(options);
  size_t passed = 0;
  for (auto _ : state) {
    for (std::string_view rest = body; !rest.empty();) {
      const size_t size = rest.find("\n\n") + 2;
      for (const std::string_view bytes : reader.Feed(rest.substr(0, size)).pass) passed += bytes.size();
      rest.remove_prefix(size);
    }
  }
  CHECK(passed > 0 && reader.answer().events_bad == 0);
  state.SetItemsProcessed(state.iterations() * kEvents);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(body.size()));
}

void BM_ChatEvent(benchmark::State& state) { ReadStream(state, LlmShape::kChat, ChatStream(false), false); }
void BM_ChatEventStripped(benchmark::State& state) {
  ReadStream(state, LlmShape::kChat, ChatStream(true), true);
}
void BM_GeminiEventWithUsage(benchmark::State& state) {
  ReadStream(state, LlmShape::kGemini, GeminiStream(), false);
}
BENCHMARK(BM_ChatEvent);
BENCHMARK(BM_ChatEventStripped);
BENCHMARK(BM_GeminiEventWithUsage);

// A whole answer of many numbers, in pieces of 16 KiB.
void BM_WholeEmbeddings(benchmark::State& state) {
  std::string body = R"({"object":"list","data":[)";
  for (int i = 0; i < 20; ++i) {
    body += std::string(i ? "," : "") + R"({"object":"embedding","index":0,"embedding":[0.1)";
    for (int j = 0; j < 1535; ++j) body += ",-0.012345678";
    body += "]}";
  }
  body += R"(],"model":"e","usage":{"prompt_tokens":8,"total_tokens":8}})";
  LlmAnswerOptions options;
  options.shape = LlmShape::kPlain;
  for (auto _ : state) {
    LlmAnswerReader reader(options);
    for (size_t at = 0; at < body.size(); at += 16384) reader.Feed(std::string_view(body).substr(at, 16384));
    CHECK(reader.answer().usage.has_value());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(body.size()));
}
BENCHMARK(BM_WholeEmbeddings);

// A conversation of `state.range(0)` bytes, of plain text with a line break in each 80 bytes.
void BM_Request(benchmark::State& state) {
  const LlmRoute& route = *FindLlmRoute("POST", "/v1/chat/completions").route;
  std::string text;
  while (text.size() < static_cast<size_t>(state.range(0)))
    text += R"(The quick brown fox jumps over the lazy dog, and then it does so again, twice.\n)";
  const std::string body = R"({"model":"gpt-5.6-sol","stream":true,"messages":[{"role":"user","content":")" +
                           text + R"("}],"max_tokens":100})";
  for (auto _ : state) {
    const auto request = ReadLlmRequest(body, route);
    CHECK(request.ok());
    benchmark::DoNotOptimize(InjectUsage(*request, route));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(body.size()));
}
BENCHMARK(BM_Request)->Arg(200)->Arg(100 << 10);

void BM_FindRoute(benchmark::State& state) {
  static constexpr std::string_view kPaths[] = {"/v1/chat/completions", "/v1/messages",
                                                "/v1/organization/usage"};
  size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(FindLlmRoute("POST", kPaths[i++ % 3]));
}
BENCHMARK(BM_FindRoute);

}  // namespace
}  // namespace gpulens

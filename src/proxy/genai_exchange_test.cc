#include "proxy/genai_exchange.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/number_text.h"
#include "proxy/genai_names.h"
#include "wire/otlp/otlp_json.h"

namespace gpulens::proxy {
namespace {

constexpr std::string_view kGenaiPrices =
    "provider\tmodel\tinput\toutput\n"
    "openai\tgpt-test\t2000000\t8000000\n"
    "openai\tgpt-test-2026-01-01\t2000000\t8000000\n";
constexpr std::string_view kCallersSpan = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

Instant AtMs(int64_t ms) {
  Instant at;
  at.unix_ns = 1'700'000'000'000'000'000 + ms * 1'000'000;
  at.boot_ns = ms * 1'000'000;
  return at;
}

class GenaiExchangeTest : public ::testing::Test {
 protected:
  GenaiExchangeTest() {
    ProviderConfig provider;
    provider.name = "one";
    provider.prices = "openai";
    provider.upstream.url = *ParseHttpUrl("https://api.openai.com");
    provider.models = {{"fast", "gpt-test"}};
    config_.providers = {provider};
    config_.routes = {{{"exact", "gpt-*"}, {0}}};
    const std::vector<pricing::PriceFile> files = {{"prices.tsv", std::string(kGenaiPrices)}};
    prices_ = *pricing::PriceTable::Load(files);
    request_.stream = true;
    answer_.id = "c1";
    answer_.model = "gpt-test-2026-01-01";
    answer_.finish_reasons = {"stop"};
    answer_.usage.emplace();
    answer_.usage->units[static_cast<size_t>(LlmClass::kInput)] = 100;
    answer_.usage->units[static_cast<size_t>(LlmClass::kInputCached)] = 900;
    answer_.usage->units[static_cast<size_t>(LlmClass::kOutput)] = 20;
    answer_.usage->units[static_cast<size_t>(LlmClass::kOutputReasoning)] = 31;
    answer_.usage->input_known = answer_.usage->output_known = true;
    record_.ttft_ns = 40'000'000;
    record_.itl_sum_ns = 100'000'000;
    record_.itl_count = 2;
    record_.attempts = {{.provider = "one", .result = "ok"}};
  }

  void Start(GenaiOptions options) {
    recorder_.reset();
    telemetry_ = *GenaiTelemetry::Start(std::move(options));
    recorder_.emplace(*telemetry_);
  }
  GenaiRequest Facts() const {
    return {config_,
            prices_,
            *FindLlmRoute("POST", "/v1/chat/completions").route,
            config_.providers[0],
            model_,
            request_,
            answered_ ? &answer_ : nullptr};
  }
  // What is added to the request of a client with these fields.
  std::string Send(const std::string& fields, std::string_view error = {}, int status = 200) {
    const std::string head_text = "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n";
    RelayHead head;
    CHECK(ParseRequestHead(head_text, {}, head).state == RelayHeadStep::State::kDone);
    GenaiExchange exchange(*recorder_, head);
    std::string added;
    drop_.clear();
    exchange.Dispatch(AtMs(10), drop_, added);
    exchange.AddChunks(Facts(), std::chrono::milliseconds(100), 2);
    exchange.Finish(Facts(), {AtMs(0), AtMs(210), error, "why", status, record_, AtMs(10)});
    return added;
  }
  // The spans that were made, as OTLP's JSON.
  std::string Spans() {
    const auto [spans, count] = telemetry_->TakeSpans();
    if (count == 0) return {};
    std::string request, json;
    EncodeSpans(spans, {}, request);
    CHECK(OtlpToJson(OtlpMessage::kTraces, request, json).ok());
    return json;
  }
  // "name{key=value,…}": value, of counters; "count sum" of histograms.
  std::map<std::string, std::string> Metrics() const {
    std::map<std::string, std::string> out;
    const auto text = [](double value) {
      char room[kNumberBytes];
      return std::string(room, WriteNumber(room, value));
    };
    for (const Sample& sample : telemetry_->instruments().Read()) {
      std::string name = sample.name + "{";
      for (const auto& [key, value] : sample.attributes) {
        if (key != "gen_ai.operation.name" && key != "gen_ai.provider.name" && !key.starts_with("server."))
          name += key.substr(key.find('.') + 1) + "=" + value + ",";
      }
      out[name + "}"] = sample.kind == InstrumentKind::kHistogram
                            ? std::to_string(sample.count) + " " + text(sample.sum)
                            : text(sample.value);
    }
    return out;
  }

  ProxyConfig config_;
  pricing::PriceTable prices_;
  std::string model_ = "fast";
  LlmRequest request_;
  LlmAnswer answer_;
  bool answered_ = true;
  ChargeRecord record_;
  std::unique_ptr<GenaiTelemetry> telemetry_;
  std::optional<GenaiRecorder> recorder_;
  std::vector<std::string_view> drop_;
};

TEST_F(GenaiExchangeTest, BothVersionsOfTheConventionsHaveTheirMetrics) {
  Start({});
  Send("");
  const std::string models = "request.model=fast,response.model=gpt-test-2026-01-01,";
  const std::map<std::string, std::string> expected = {
      {"gen_ai.client.inference.usage.input_tokens{" + models + "token.modality=text,}", "1000"},
      {"gen_ai.client.inference.usage.output_tokens{" + models + "token.modality=text,}", "51"},
      {"gen_ai.client.inference.usage.cache_read.input_tokens{" + models + "token.modality=text,}", "900"},
      {"gen_ai.client.inference.usage.reasoning.output_tokens{" + models + "token.modality=text,}", "31"},
      {"gen_ai.client.inference.operation.input_tokens{" + models + "}", "1 1000"},
      {"gen_ai.client.inference.operation.output_tokens{" + models + "}", "1 51"},
      {"gen_ai.client.inference.duration{" + models + "}", "1 0.2"},
      {"gen_ai.client.inference.time_to_first_chunk{" + models + "}", "1 0.04"},
      {"gen_ai.client.inference.time_per_output_chunk{" + models + "}", "2 0.1"},
      {"gen_ai.server.request.duration{" + models + "}", "1 0.21"},
      {"gen_ai.server.time_to_first_token{" + models + "}", "1 0.05"},
      {"gen_ai.server.time_per_output_token{" + models + "}", "1 0.002"},
      {"gen_ai.client.token.usage{" + models + "token.type=input,}", "1 1000"},
      {"gen_ai.client.token.usage{" + models + "token.type=output,}", "1 51"},
      {"gen_ai.client.operation.duration{" + models + "}", "1 0.2"},
  };
  EXPECT_EQ(Metrics(), expected);
}

TEST_F(GenaiExchangeTest, AVersionThatIsNotWantedHasNone) {
  Start({.versions = {.v1_37 = true, .v2026 = false}});
  Send("");
  for (const auto& [name, value] : Metrics())
    EXPECT_EQ(name.find("gen_ai.client.inference"), name.npos) << name;
  Start({.versions = {.v1_37 = false, .v2026 = true}});
  Send("");
  for (const auto& [name, value] : Metrics()) {
    EXPECT_EQ(name.find("token.usage"), name.npos) << name;
    EXPECT_EQ(name.find("client.operation"), name.npos) << name;
  }
  Start({.metrics = false});
  Send("");
  EXPECT_TRUE(Metrics().empty());
}

TEST_F(GenaiExchangeTest, UsageThatIsNotKnownIsAbsent) {
  Start({});
  answered_ = false;
  record_.ttft_ns.reset();
  Send("", "503", 503);
  const std::map<std::string, std::string> expected = {
      {"gen_ai.client.inference.time_per_output_chunk{request.model=fast,}", "2 0.1"},
      {"gen_ai.client.inference.duration{type=503,request.model=fast,}", "1 0.2"},
      {"gen_ai.client.operation.duration{type=503,request.model=fast,}", "1 0.2"},
      {"gen_ai.server.request.duration{type=503,request.model=fast,}", "1 0.21"},
  };
  EXPECT_EQ(Metrics(), expected);
  const std::string json = Spans();
  EXPECT_EQ(json.find("gen_ai.usage"), json.npos) << json;
}

TEST_F(GenaiExchangeTest, ImagesWhoseTokensAreNotCountedApartMakeTheModalityUnknown) {
  Start({});
  request_.media = 1;
  Send("");
  const std::string models = "request.model=fast,response.model=gpt-test-2026-01-01,";
  EXPECT_EQ(Metrics()["gen_ai.client.inference.usage.input_tokens{" + models + "token.modality=unknown,}"],
            "1000");
  EXPECT_EQ(Metrics()["gen_ai.client.inference.usage.output_tokens{" + models + "token.modality=text,}"],
            "51");
}

TEST_F(GenaiExchangeTest, AnEngineOfOnesOwnReportsServerMetricsItself) {
  Start({});
  config_.providers[0].terms.profile = pricing::Profile::kByoc;
  Send("");
  for (const auto& [name, value] : Metrics()) EXPECT_FALSE(name.starts_with("gen_ai.server")) << name;
}

TEST_F(GenaiExchangeTest, InventedModelsMakeOneSeries) {
  Start({});
  for (int i = 0; i < 1000; ++i) {
    model_ = "gpt-" + std::to_string(i);
    answer_.model = "answered-" + std::to_string(i);
    Send("");
  }
  EXPECT_EQ(Metrics().size(), 15u);
  EXPECT_EQ(
      Metrics()["gen_ai.client.inference.operation.input_tokens{request.model=other,response.model=other,}"],
      "1000 1000000");
}

TEST_F(GenaiExchangeTest, AboveTheLimitThereIsOneSeries) {
  std::string rows(kGenaiPrices);
  for (int i = 0; i < 50; ++i) rows += "openai\tmodel-" + std::to_string(i) + "\t1\t1\n";
  const std::vector<pricing::PriceFile> files = {{"prices.tsv", rows}};
  prices_ = *pricing::PriceTable::Load(files);
  Start({.max_series = 10});
  for (int i = 0; i < 50; ++i) {
    model_ = "model-" + std::to_string(i);
    Send("");
  }
  size_t series = 0;
  uint64_t requests = 0;
  for (const Sample& sample : telemetry_->instruments().Read()) {
    if (sample.name != "gen_ai.client.inference.duration") continue;
    ++series;
    requests += sample.count;
  }
  EXPECT_EQ(requests, 50u);
  EXPECT_LE(series, 11u);
}

TEST_F(GenaiExchangeTest, TheSpanIsBetweenTheCallersAndTheProviders) {
  Start({});
  record_.attempts = {
      {.provider = "zero", .result = "http_503", .begin_unix_ns = 5, .duration_ns = 500'000'000},
      {.provider = "one", .result = "ok", .begin_unix_ns = 7}};
  request_.max_output = 64;
  const std::string added =
      Send("TraceParent: " + std::string(kCallersSpan) + "\r\ntracestate: a=1\r\ntracestate: b=2\r\n");
  ASSERT_EQ(added.size(), std::string_view("traceparent: ").size() + kCallersSpan.size() + 2) << added;
  EXPECT_EQ(drop_, std::vector<std::string_view>{"traceparent"});
  const std::string trace = "4bf92f3577b34da6a3ce929d0e0e4736", own = added.substr(49, 16);
  EXPECT_EQ(added, "traceparent: 00-" + trace + "-" + own + "-01\r\n");
  EXPECT_NE(own, "00f067aa0ba902b7");
  const auto text = [](const std::string& key, const std::string& value) {
    return R"({"key":")" + key + R"(","value":{"stringValue":")" + value + R"("}},)";
  };
  const auto whole = [](const std::string& key, const std::string& value) {
    return R"({"key":")" + key + R"(","value":{"intValue":")" + value + R"("}},)";
  };
  std::string expected =
      R"({"resourceSpans":[{"resource":{},"scopeSpans":[{"scope":{"name":""},"spans":[{"traceId":")" + trace +
      R"(","spanId":")" + own +
      R"(","traceState":"a=1,b=2","parentSpanId":"00f067aa0ba902b7","name":"chat fast","kind":3,)"
      R"("startTimeUnixNano":"1700000000010000000","endTimeUnixNano":"1700000000210000000","attributes":[)" +
      text("gen_ai.operation.name", "chat") + text("gen_ai.provider.name", "openai") +
      text("gen_ai.request.model", "fast") + text("server.address", "api.openai.com") +
      whole("server.port", "443") + whole("http.response.status_code", "200") +
      R"({"key":"gen_ai.request.stream","value":{"boolValue":true}},)" +
      whole("gen_ai.request.max_tokens", "64") + text("openai.api.type", "chat_completions") +
      R"({"key":"gen_ai.response.time_to_first_chunk","value":{"doubleValue":0.04}},)" +
      text("gen_ai.response.id", "c1") + text("gen_ai.response.model", "gpt-test-2026-01-01") +
      R"({"key":"gen_ai.response.finish_reasons","value":{"arrayValue":{"values":[{"stringValue":"stop"}]}}},)" +
      whole("gen_ai.usage.input_tokens", "1000") + whole("gen_ai.usage.output_tokens", "51") +
      whole("gen_ai.usage.cache_read.input_tokens", "900") +
      whole("gen_ai.usage.reasoning.output_tokens", "31") + text("gpulens.proxy.provider", "one") +
      text("gpulens.proxy.request.id", "00000000-0000-0000-0000-000000000000");
  expected.back() = ']';
  const auto event = [&](const char* time, const char* provider, const char* result, const char* seconds) {
    return R"({"timeUnixNano":")" + std::string(time) + R"(","name":"gpulens.proxy.attempt","attributes":[)" +
           text("gpulens.proxy.provider", provider) + text("gpulens.proxy.attempt.result", result) +
           R"({"key":"gpulens.proxy.attempt.duration","value":{"doubleValue":)" + seconds + "}}]}";
  };
  expected += R"(,"events":[)" + event("5", "zero", "http_503", "0.5") + "," + event("7", "one", "ok", "0") +
              R"(],"flags":769}]}]}]})";
  EXPECT_EQ(Spans(), expected);
}

TEST_F(GenaiExchangeTest, ATraceThatIsNotSampledStaysSo) {
  Start({.sample = 1});
  EXPECT_EQ(Send("traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00\r\n"), "");
  EXPECT_TRUE(drop_.empty());
  EXPECT_EQ(Spans(), "");
}

TEST_F(GenaiExchangeTest, WithoutACallersTraceTheRatioDecides) {
  Start({});
  EXPECT_EQ(Send(""), "");
  EXPECT_EQ(Send("traceparent: nonsense\r\ntracestate: a=1\r\n"), "");
  EXPECT_TRUE(drop_.empty()) << "what is not understood passes";
  Start({.sample = 1});
  // Two of them contradict each other.
  const std::string twice = "traceparent: " + std::string(kCallersSpan) + "\r\n";
  for (const std::string& fields :
       {std::string(), std::string("traceparent: x\r\ntracestate: a=1\r\n"), twice + twice}) {
    const std::string added = Send(fields);
    const auto made = ParseTraceparent(std::string_view(added).substr(13, 55));
    ASSERT_TRUE(made) << added;
    EXPECT_EQ(made->flags, 3);
    EXPECT_EQ(added.find("4bf92f3577b34da6a3ce929d0e0e4736"), added.npos);
    EXPECT_EQ(drop_, (std::vector<std::string_view>{"traceparent", "tracestate"}));
    const std::string json = Spans();
    EXPECT_EQ(json.find("parentSpanId"), json.npos);
    EXPECT_EQ(json.find("traceState"), json.npos);
  }
  Start({.sample = 0.5});
  for (int i = 0; i < 1000; ++i) Send("");
  const uint32_t spans = telemetry_->TakeSpans().second;
  EXPECT_GT(spans, 400u);
  EXPECT_LT(spans, 600u);
}

TEST_F(GenaiExchangeTest, AnErrorIsTheStatusOfTheSpan) {
  Start({});
  Send("traceparent: " + std::string(kCallersSpan) + "\r\n", "idle_timeout");
  const std::string json = Spans();
  EXPECT_NE(json.find(R"({"key":"error.type","value":{"stringValue":"idle_timeout"}})"), json.npos) << json;
  EXPECT_NE(json.find(R"("status":{"message":"why","code":2})"), json.npos) << json;
}

TEST_F(GenaiExchangeTest, SpansThatFindNoRoomAreCounted) {
  Start({.metrics = false});
  for (int i = 0; i < 10'000; ++i) Send("traceparent: " + std::string(kCallersSpan) + "\r\n");
  const GenaiStats stats = telemetry_->stats();
  const auto [spans, kept] = telemetry_->TakeSpans();
  EXPECT_LE(spans.size(), 4u << 20);
  EXPECT_EQ(kept + stats.signals[1].dropped.at("buffer_full"), 10'000u);
}

TEST(GenaiNames, ProvidersHaveTheNamesOfTheConventions) {
  const auto name = [](const char* url, LlmApi api = LlmApi::kOpenAi, const char* configured = "") {
    ProviderConfig provider;
    provider.name = "mine";
    provider.api = api;
    provider.genai_name = configured;
    provider.upstream.url = *ParseHttpUrl(url);
    return std::string(GenaiProviderName(provider));
  };
  EXPECT_EQ(name("https://api.openai.com"), "openai");
  EXPECT_EQ(name("https://x.openai.azure.com"), "azure.ai.openai");
  EXPECT_EQ(name("https://api.groq.com/openai"), "groq");
  EXPECT_EQ(name("https://api.x.ai"), "x_ai");
  EXPECT_EQ(name("https://max.ai"), "mine");
  EXPECT_EQ(name("https://europe-west1-aiplatform.googleapis.com", LlmApi::kGemini), "gcp.vertex_ai");
  EXPECT_EQ(name("https://generativelanguage.googleapis.com", LlmApi::kGemini), "gcp.gemini");
  EXPECT_EQ(name("http://127.0.0.1:8000", LlmApi::kAnthropic), "anthropic");
  EXPECT_EQ(name("http://127.0.0.1:8000"), "mine");
  EXPECT_EQ(name("http://127.0.0.1:8000", LlmApi::kOpenAi, "vllm"), "vllm");
}

TEST(GenaiNames, ErrorsHaveAClosedSetOfTypes) {
  RelayOutcome outcome;
  outcome.status = 200;
  EXPECT_EQ(GenaiErrorType(outcome, nullptr), "");
  LlmAnswer answer;
  EXPECT_EQ(GenaiErrorType(outcome, &answer), "");
  answer.error = true;
  answer.error_type = "overloaded_error";
  EXPECT_EQ(GenaiErrorType(outcome, &answer), "answer_error");
  outcome.status = 429;
  EXPECT_EQ(GenaiErrorType(outcome, nullptr), "429");
  outcome.end = RelayEnd::kUpstreamFailed;
  outcome.failure = RelayFailure::kIdleTimeout;
  EXPECT_EQ(GenaiErrorType(outcome, nullptr), "idle_timeout");
  outcome.end = RelayEnd::kClientGone;
  EXPECT_EQ(GenaiErrorType(outcome, nullptr), "client_gone");
}

}  // namespace
}  // namespace gpulens::proxy

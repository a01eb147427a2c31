#include "wire/llm/llm_routes.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/json.h"
#include "wire/llm/llm_calibration.h"
#include "wire/llm/llm_error.h"

namespace gpulens {
namespace {

std::string Normal(std::string_view target) {
  const auto path = NormalLlmPath(target);
  return path.ok() ? path->path + (path->query.empty() ? "" : "?" + std::string(path->query))
                   : "refused: " + path.error().detail;
}

TEST(LlmRoutes, PathsAreMadeNormal) {
  EXPECT_EQ(Normal("/v1/chat/completions"), "/v1/chat/completions");
  EXPECT_EQ(Normal("//v1///chat/./completions?a=%2F&b"), "/v1/chat/completions?a=%2F&b");
  EXPECT_EQ(Normal("/v1/files/%2e%2E/chat/completions"), "/v1/chat/completions");
  EXPECT_EQ(Normal("/v1/%63hat/completions"), "/v1/chat/completions");
  EXPECT_EQ(Normal("/v1/chat/"), "/v1/chat/");
  EXPECT_EQ(Normal("/v1/chat/.."), "/v1/");
  EXPECT_EQ(Normal("/"), "/");
  EXPECT_EQ(Normal("/a%20b/%C3%A9"), "/a%20b/%C3%A9");
  for (const std::string_view bad :
       {"/v1%2fchat", "/v1%5Cchat", "/v1\\chat", "/%00", "/%0a", "/v1/%", "/%2", "/%zz", "/../v1",
        "/v1/../../x", "/%2e%2e/x", "v1/chat", "", "http://x/v1", "*", "/v1#x", "/a b", "/a\tb", "/\x7f"})
    EXPECT_TRUE(Normal(bad).starts_with("refused")) << bad << " " << Normal(bad);
}

struct Route {
  std::string_view method, path;
  LlmApi api;
  LlmOperation operation;
  LlmAccess access;
  std::string_view model = {};
};

TEST(LlmRoutes, EachPathHasItsRoute) {
  using enum LlmOperation;
  using enum LlmAccess;
  const Route routes[] = {
      {"POST", "/v1/chat/completions", LlmApi::kOpenAi, kChat, kMetered},
      {"GET", "/v1/chat/completions", LlmApi::kOpenAi, kOther, kUnknown},
      {"GET", "/v1/chat/completions/abc", LlmApi::kOpenAi, kOther, kUnmetered},
      {"POST", "/v1/chat/completions/", LlmApi::kOpenAi, kOther, kUnknown},
      {"POST", "/openai/deployments/gpt-4/chat/completions", LlmApi::kOpenAi, kChat, kMetered, "gpt-4"},
      {"POST", "/openai/deployments/a/b/chat/completions", LlmApi::kOpenAi, kOther, kUnknown},
      {"POST", "/openai/v1/responses", LlmApi::kOpenAi, kResponses, kMetered},
      {"POST", "/v1/responses/input_tokens", LlmApi::kOpenAi, kCountTokens, kFree},
      {"GET", "/v1/responses/resp_1", LlmApi::kOpenAi, kOther, kUnmetered},
      {"POST", "/v1/messages", LlmApi::kAnthropic, kChat, kMetered},
      {"POST", "/v1/messages/count_tokens", LlmApi::kAnthropic, kCountTokens, kFree},
      {"POST", "/v1/messages/batches", LlmApi::kAnthropic, kOther, kUnmetered},
      {"GET", "/v1/messages/x", LlmApi::kAnthropic, kOther, kUnknown},
      {"POST", "/v1beta/models/gemini-2.5-pro:generateContent", LlmApi::kGemini, kGenerateContent, kMetered,
       "gemini-2.5-pro"},
      {"POST", "/v1beta/models/a:b:streamGenerateContent", LlmApi::kGemini, kGenerateContent, kMetered,
       "a:b"},
      {"POST", "/v1beta/models/:generateContent", LlmApi::kGemini, kOther, kUnknown},
      {"POST", "/v1beta/models/g:generateAnswer", LlmApi::kGemini, kOther, kUnknown},
      {"POST", "/v1/models/g:predict", LlmApi::kGemini, kOther, kUnknown},
      {"POST", "/v1beta/models/g:countTokens", LlmApi::kGemini, kCountTokens, kFree, "g"},
      {"POST", "/v1beta/models/g:embedContent", LlmApi::kGemini, kEmbeddings, kMetered, "g"},
      {"GET", "/v1/models", LlmApi::kOpenAi, kModels, kFree},
      {"GET", "/v1/models/gpt-4", LlmApi::kOpenAi, kModels, kFree, "gpt-4"},
      {"DELETE", "/v1/models/ft:gpt-4", LlmApi::kOpenAi, kOther, kUnknown},
      {"POST", "/api/chat", LlmApi::kOllama, kChat, kMetered},
      {"POST", "/api/pull", LlmApi::kOllama, kOther, kUnknown},
      {"POST", "/generate_stream", LlmApi::kTgi, kCompletions, kMetered},
      {"POST", "/v2/rerank", LlmApi::kCohere, kRerank, kMetered},
      {"POST", "/rerank", LlmApi::kOpenAi, kRerank, kMetered},
      {"POST", "/v1/audio/transcriptions", LlmApi::kOpenAi, kOther, kUnmetered},
      {"POST", "/v1/images/generations", LlmApi::kOpenAi, kOther, kUnmetered},
      {"GET", "/v1/realtime", LlmApi::kOpenAi, kOther, kUnmetered},
      {"POST", "/v1/batches", LlmApi::kOpenAi, kOther, kUnmetered},
      {"POST", "/model/anthropic.claude/converse", LlmApi::kBedrock, kOther, kUnmetered},
      {"POST", "/v1/assistants", LlmApi::kOpenAi, kOther, kUnknown},
      {"POST", "/v1/Chat/completions", LlmApi::kOpenAi, kOther, kUnknown},
      {"post", "/v1/chat/completions", LlmApi::kOpenAi, kOther, kUnknown},
      {"GET", "/", LlmApi::kOpenAi, kOther, kUnknown},
      {"OPTIONS", "*", LlmApi::kOpenAi, kOther, kUnknown},
      {"GET", "", LlmApi::kOpenAi, kOther, kUnknown},
  };
  for (const Route& expected : routes) {
    const LlmRouteMatch match = FindLlmRoute(expected.method, expected.path);
    const std::string where = std::string(expected.method) + " " + std::string(expected.path);
    EXPECT_EQ(LlmApiName(match.route->api), LlmApiName(expected.api)) << where;
    EXPECT_EQ(LlmOperationName(match.route->operation), LlmOperationName(expected.operation)) << where;
    EXPECT_EQ(match.route->access, expected.access) << where;
    EXPECT_EQ(match.model, expected.model) << where;
  }
  EXPECT_TRUE(RequestsSse("key=1&alt=sse"));
  EXPECT_FALSE(RequestsSse("alt=ssex&xalt=sse"));
}

// Every error is JSON of every API, whatever its message.
TEST(LlmErrors, AreThoseOfTheRoutesApi) {
  for (size_t d = 0; d < kLlmApis; ++d) {
    for (size_t e = 0; e < kLlmErrors; ++e) {
      const auto answer =
          MakeLlmError(static_cast<LlmApi>(d), static_cast<LlmError>(e), "a \"message\"\n", "r-1");
      EXPECT_TRUE(JsonDocument::Parse(answer.body).ok()) << answer.body;
      EXPECT_GE(answer.status, 400);
    }
  }
  const auto has = [](const LlmErrorAnswer& answer, std::string_view name) {
    for (const auto& [key, value] : answer.headers) {
      if (key == name) return value;
    }
    return std::string("none");
  };
  const auto openai = MakeLlmError(LlmApi::kOpenAi, LlmError::kBudgetUsedUp, "m", "r-1");
  EXPECT_EQ(openai.status, 429);
  EXPECT_EQ(
      openai.body,
      R"({"error":{"message":"m","type":"insufficient_quota","param":null,"code":"insufficient_quota"}})");
  EXPECT_EQ(has(openai, "x-should-retry"), "false");
  EXPECT_EQ(has(openai, "x-gpulens-request-id"), "r-1");
  const auto limited = MakeLlmError(LlmApi::kAnthropic, LlmError::kLimitReached, "m", "r-1", 7);
  EXPECT_EQ(limited.body,
            R"({"type":"error","error":{"type":"rate_limit_error","message":"m"},"request_id":"r-1"})");
  EXPECT_EQ(has(limited, "Retry-After"), "7");
  EXPECT_EQ(has(limited, "x-should-retry"), "none");
  EXPECT_EQ(MakeLlmError(LlmApi::kAnthropic, LlmError::kOverloaded, "m", "").status, 529);
  EXPECT_EQ(MakeLlmError(LlmApi::kGemini, LlmError::kBadKey, "m", "").body,
            R"({"error":{"code":401,"message":"m","status":"UNAUTHENTICATED","details":[]}})");
  EXPECT_EQ(MakeLlmError(LlmApi::kOllama, LlmError::kBadRequest, "m", "").body, R"({"error":"m"})");
  EXPECT_EQ(MakeLlmError(LlmApi::kTgi, LlmError::kBadRequest, "m", "").body,
            R"({"error":"m","error_type":"validation"})");
  EXPECT_EQ(MakeLlmError(LlmApi::kCohere, LlmError::kBadRequest, "m", "").body, R"({"message":"m"})");
}

// The error that ends a stream is read as one by the reader of answers.
TEST(LlmErrors, AStreamsErrorIsReadBack) {
  const struct {
    std::string_view path;
    LlmFraming framing;
    int64_t events;
    std::string_view before;
  } streams[] = {{"/v1/chat/completions", LlmFraming::kSse, 1, "data: {\"choices\":[]}\n\n"},
                 {"/v1/responses", LlmFraming::kSse, 1, "data: {\"type\":\"response.created\"}\n\n"},
                 {"/v1/messages", LlmFraming::kSse, 1, "event: ping\ndata: {\"type\":\"ping\"}\n\n"},
                 {"/v1beta/models/g:streamGenerateContent", LlmFraming::kSse, 0, ""},
                 {"/v1beta/models/g:streamGenerateContent", LlmFraming::kArray, 1, "[{\"a\":1}"},
                 {"/v1beta/models/g:streamGenerateContent", LlmFraming::kArray, 0, ""},
                 {"/api/chat", LlmFraming::kLines, 1, "{\"done\":false}\n"},
                 {"/generate_stream", LlmFraming::kSse, 0, ""}};
  for (const auto& stream : streams) {
    const LlmRoute& route = *FindLlmRoute("POST", stream.path).route;
    LlmAnswerOptions options;
    options.shape = route.shape;
    options.framing = stream.framing;
    LlmAnswerReader reader(options);
    const std::string body =
        std::string(stream.before) +
        LlmStreamError(route, stream.framing, LlmError::kUpstreamAway, "gone", "r", stream.events);
    reader.Feed(body);
    EXPECT_TRUE(reader.answer().error) << "the event has its end: " << body;
    reader.Finish();
    EXPECT_TRUE(reader.answer().error) << body;
    EXPECT_FALSE(reader.answer().ended) << body;
    EXPECT_EQ(reader.answer().events_bad, 0) << body;
    EXPECT_TRUE(stream.framing != LlmFraming::kArray || JsonDocument::Parse(body).ok()) << body;
  }
  EXPECT_EQ(LlmStreamError(*FindLlmRoute("POST", "/v1/chat/completions").route, LlmFraming::kWhole,
                           LlmError::kUpstreamAway, "m", "r", 0),
            "");
}

TEST(TokenCalibration, LearnsTheRatioOfSums) {
  TokenCalibration calibration;
  EXPECT_EQ(calibration.Tokens("m", 9).tokens, 3);
  EXPECT_EQ(calibration.Tokens("m", 0).tokens, 0);
  for (int i = 1; i < TokenCalibration::kEnough; ++i) calibration.Learn("m", 3 * i, i);
  EXPECT_FALSE(calibration.Tokens("m", 300).learnt);
  calibration.Learn("m", 300, 100);
  const TokenEstimate estimate = calibration.Tokens("m", 300);
  EXPECT_TRUE(estimate.learnt);
  EXPECT_EQ(estimate.tokens, 100);
  EXPECT_NEAR(estimate.half_width, 0, 1e-6);
  EXPECT_EQ(calibration.Tokens("m", 1).tokens, 1);
  EXPECT_EQ(calibration.Tokens("other", 300).tokens, 75);
  EXPECT_EQ(calibration.answers("m"), 50);
}

TEST(TokenCalibration, TheIntervalHasTheTruthAndNarrows) {
  // 2 or 6 bytes a token by turns, of equal tokens: 4 on average.
  TokenCalibration calibration;
  double before = 1;
  for (int i = 0; i < 3200; ++i) {
    calibration.Learn("m", i % 2 ? 200 : 600, 100);
    if (i + 1 != 50 && i + 1 != 3200) continue;
    const TokenEstimate estimate = calibration.Tokens("m", 4000);
    EXPECT_EQ(estimate.tokens, 1000);
    EXPECT_GT(estimate.half_width, 0);
    EXPECT_LT(estimate.half_width, before);
    before = estimate.half_width;
  }
  // 1.96 × 0.5 / √3200
  EXPECT_NEAR(before, 0.0173, 0.0002);
}

TEST(TokenCalibration, NinetyFiveOfAHundred) {
  TokenCalibration calibration;
  EXPECT_FALSE(calibration.OutputP95("m"));
  for (int i = 1; i <= 100; ++i) calibration.Learn("m", 10, i <= 95 ? 7 : 5000);
  EXPECT_EQ(calibration.OutputP95("m"), 7);
  for (int i = 0; i < 10; ++i) calibration.Learn("m", 10, 5000);
  const int64_t p95 = *calibration.OutputP95("m");
  EXPECT_GE(p95, 5000);
  EXPECT_LE(p95, 5000 * 5 / 4);
  // Each number is in a step whose end is not below it.
  for (int64_t tokens : {1, 2, 3, 4, 5, 7, 8, 9, 100, 1000, 12345, 999'999'999}) {
    TokenCalibration one;
    for (int i = 0; i < 50; ++i) one.Learn("m", 10, tokens);
    EXPECT_GE(*one.OutputP95("m"), tokens);
    EXPECT_LE(*one.OutputP95("m"), tokens + tokens / 4);
  }
}

TEST(TokenCalibration, IsBounded) {
  TokenCalibration calibration(2);
  calibration.Learn("a", 1, 1);
  calibration.Learn("b", 1, 1);
  calibration.Learn("c", 1, 1);
  calibration.Learn("a", -1, 1);
  calibration.Learn("a", int64_t{1} << 60, 1);
  EXPECT_EQ(calibration.size(), 2u);
  EXPECT_EQ(calibration.answers("a"), 1);
  EXPECT_GT(calibration.Tokens("x", std::numeric_limits<int64_t>::max()).tokens, 0);
}

}  // namespace
}  // namespace gpulens

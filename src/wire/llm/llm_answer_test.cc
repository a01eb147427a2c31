#include "wire/llm/llm_answer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "base/testing/allocations.h"
#include "wire/llm/llm_testing.h"

namespace gpulens {
namespace {

using enum LlmClass;

LlmAnswerOptions Streamed(LlmShape shape, LlmFraming framing = LlmFraming::kSse, bool strip = false) {
  LlmAnswerOptions options;
  options.shape = shape;
  options.framing = framing;
  options.strip_usage = strip;
  return options;
}

std::string Sse(std::initializer_list<std::string_view> events) {
  std::string out;
  for (const std::string_view event : events) out.append("data: ").append(event).append("\n\n");
  return out;
}

bool Same(const LlmAnswer& a, const LlmAnswer& b) {
  return a.id == b.id && a.model == b.model && a.tier == b.tier && a.status == b.status &&
         a.finish_reasons == b.finish_reasons && a.usage == b.usage && a.error == b.error &&
         a.error_type == b.error_type && a.ended == b.ended && a.gave_up == b.gave_up &&
         a.events == b.events && a.events_bad == b.events_bad && a.content_events == b.content_events &&
         a.content_bytes == b.content_bytes && a.listed_tokens == b.listed_tokens;
}

// Reads with pieces of all sizes: what is known and what is passed on must be the same. S3.
ReadAnswer ReadAllWays(const LlmAnswerOptions& options, std::string_view body) {
  const ReadAnswer whole = ReadInPieces(options, body, body.size() + 1);
  for (size_t piece = 1; piece <= std::min<size_t>(body.size(), 300); ++piece) {
    const ReadAnswer read = ReadInPieces(options, body, piece);
    EXPECT_EQ(read.out, whole.out) << piece;
    EXPECT_TRUE(Same(read.answer, whole.answer)) << piece;
    EXPECT_EQ(read.settles, 1) << piece;
    EXPECT_EQ(read.first_tokens, whole.first_tokens) << piece;
  }
  EXPECT_EQ(whole.settles, 1);
  EXPECT_EQ(whole.out.size() + whole.stripped, body.size());
  return whole;
}

int64_t Units(const ReadAnswer& read, LlmClass of) {
  return read.answer.usage ? (*read.answer.usage)[of] : -1;
}

constexpr std::string_view kRole =
    R"({"id":"c-1","object":"chat.completion.chunk","model":"gpt-5.6-sol","service_tier":"flex","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]})";
constexpr std::string_view kHello =
    R"({"id":"c-1","object":"chat.completion.chunk","model":"gpt-5.6-sol","choices":[{"index":0,"delta":{"content":"Hello \"usage\":null"},"finish_reason":null}]})";
constexpr std::string_view kStop =
    R"({"id":"c-1","object":"chat.completion.chunk","model":"gpt-5.6-sol","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})";
constexpr std::string_view kUsage =
    R"({"id":"c-1","object":"chat.completion.chunk","model":"gpt-5.6-sol","choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":50,"total_tokens":1050}})";

std::string With(std::string_view event, std::string_view member) {
  return std::string(event.substr(0, event.size() - 1)) + std::string(member) + "}";
}

// S1: the bytes are those of the same upstream of which no usage was requested.
TEST(LlmAnswer, WhatWasInjectedIsTakenOutAgain) {
  const std::string plain = ":ping\n\n" + Sse({kRole, kHello, kStop, "[DONE]"});
  const std::string with_usage =
      ":ping\n\n" + Sse({With(kRole, R"(,"usage":null)"), With(kHello, R"(,"usage":null)"),
                         With(kStop, R"(,"usage":null)"), kUsage, "[DONE]"});
  const ReadAnswer read = ReadAllWays(Streamed(LlmShape::kChat, LlmFraming::kSse, true), with_usage);
  EXPECT_EQ(read.out, plain);
  EXPECT_EQ(Units(read, kInput), 1000);
  EXPECT_EQ(Units(read, kOutput), 50);
  EXPECT_TRUE(read.answer.ended);
  EXPECT_TRUE(read.settled_in_feed);
  // [DONE] waits for the settlement.
  EXPECT_EQ(read.before_settle, plain.substr(0, plain.size() - Sse({"[DONE]"}).size()));
  EXPECT_EQ(read.answer.id, "c-1");
  EXPECT_EQ(read.answer.model, "gpt-5.6-sol");
  EXPECT_EQ(read.answer.tier, "flex");
  EXPECT_EQ(read.answer.finish_reasons, std::vector<std::string>{"stop"});
  EXPECT_EQ(read.answer.content_events, 1);
  EXPECT_EQ(read.first_tokens, 1);
}

TEST(LlmAnswer, MembersAreCutOutWhereverTheyAre) {
  const auto strip = [](std::string_view event) {
    return ReadAllWays(Streamed(LlmShape::kChat, LlmFraming::kSse, true), Sse({event, "[DONE]"})).out;
  };
  const std::string plain = Sse({R"({"choices":[{"delta":{"content":"x"}}],"id":"1"})", "[DONE]"});
  EXPECT_EQ(strip(R"({"usage":null,"choices":[{"delta":{"content":"x"}}],"id":"1"})"), plain);
  EXPECT_EQ(strip(R"({"choices":[{"delta":{"content":"x"}}],"usage":null,"id":"1"})"), plain);
  EXPECT_EQ(strip(R"({"choices":[{"delta":{"content":"x"}}],"id":"1","usage":{"prompt_tokens":3}})"), plain);
  EXPECT_EQ(strip(R"({ "usage" : null , "choices": [{"delta":{}}], "usage_x": 1})"),
            Sse({R"({"choices": [{"delta":{}}], "usage_x": 1})", "[DONE]"}));
  EXPECT_EQ(strip(R"({"choices": [{"delta":{}}], "usage": null, "id": "1"})"),
            Sse({R"({"choices": [{"delta":{}}], "id": "1"})", "[DONE]"}));
  EXPECT_EQ(strip(R"({"usage":null})"), Sse({"{}", "[DONE]"}));
  // Azure's first event has no choices and no usage.
  const std::string_view azure = R"({"choices":[],"prompt_filter_results":[{"usage":{}}]})";
  EXPECT_EQ(strip(azure), Sse({azure, "[DONE]"}));
  // No JSON: as it came.
  EXPECT_EQ(strip(R"({"usage":null,)"), Sse({R"({"usage":null,)", "[DONE]"}));
}

TEST(LlmAnswer, AnEventThatIsLeftOutTakesAllItsBytes) {
  for (const std::string_view end : {"\r\n", "\r"}) {
    const std::string e(end);
    const std::string hello = "data: " + std::string(kHello) + e + e, done = "data: [DONE]" + e + e;
    const ReadAnswer read = ReadAllWays(Streamed(LlmShape::kChat, LlmFraming::kSse, true),
                                        hello + "data: " + std::string(kUsage) + e + e + done);
    EXPECT_EQ(read.out, hello + done);
    EXPECT_EQ(Units(read, kInput), 1000);
  }
}

// Streams of random events, in random styles: what was put in is taken out, and nothing else.
TEST(LlmAnswer, RandomStreamsComeOutAsThePlainOnes) {
  std::mt19937 random(20261127);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (int round = 0; round < 400; ++round) {
    const std::string_view end = std::array<std::string_view, 3>{"\n", "\r\n", "\r"}[below(3)];
    const std::string_view comma = below(2) ? ", " : ",", colon = below(2) ? ": " : ":";
    std::string plain, with_usage;
    const auto add = [&](std::string& out, std::string_view data) {
      out.append("data: ").append(data).append(end).append(end);
    };
    for (size_t events = below(6); events > 0; --events) {
      std::vector<std::string> members = {R"("choices")" + std::string(colon) +
                                          R"([{"delta":{"content":"\"usage\": null,\u00e9"}}])"};
      if (below(2)) members.push_back(R"("id":"c\\")");
      if (below(2)) members.push_back(R"("usage_x":{"usage":null, "a":[1.0e5,{}]})");
      if (below(2)) members.push_back(R"("model":"m")");
      std::shuffle(members.begin(), members.end(), random);
      const auto join = [&] {
        std::string out = "{";
        for (const std::string& member : members) out.append(out.size() > 1 ? comma : "").append(member);
        return out + "}";
      };
      add(plain, join());
      const std::string_view value = below(2) ? "null" : R"({"prompt_tokens":3,"completion_tokens":1})";
      if (below(4))
        members.insert(members.begin() + static_cast<std::ptrdiff_t>(below(members.size() + 1)),
                       "\"usage\"" + std::string(colon) + std::string(value));
      add(with_usage, join());
      if (below(4) == 0) {
        plain.append(": ping").append(end).append(end);
        with_usage.append(": ping").append(end).append(end);
      }
    }
    add(with_usage, R"({"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5}})");
    if (below(2)) {
      add(plain, "[DONE]");
      add(with_usage, "[DONE]");
    }
    for (const size_t piece : {size_t{1}, 1 + below(50), with_usage.size()}) {
      const ReadAnswer read =
          ReadInPieces(Streamed(LlmShape::kChat, LlmFraming::kSse, true), with_usage, piece);
      ASSERT_EQ(read.out, plain) << round;
      ASSERT_EQ(Units(read, kOutput), 5);
    }
  }
}

TEST(LlmAnswer, TheLfAfterAnEventThatIsLeftOutGoesWithIt) {
  const std::string hello = "data: " + std::string(kHello) + "\r\r\n", done = "data: [DONE]\r\r\n";
  const ReadAnswer read = ReadAllWays(Streamed(LlmShape::kChat, LlmFraming::kSse, true),
                                      hello + "data: " + std::string(kUsage) + "\r\r\n" + done);
  EXPECT_EQ(read.out, hello + done);
}

// S2: requested by the client, nothing is changed.
TEST(LlmAnswer, WhatTheClientRequestedStays) {
  const std::string body =
      Sse({With(kHello, R"(,"usage":null)"), With(kStop, R"(,"usage":null)"), kUsage, "[DONE]"});
  const ReadAnswer read = ReadAllWays(Streamed(LlmShape::kChat), body);
  EXPECT_EQ(read.out, body);
  EXPECT_EQ(Units(read, kOutput), 50);
  // The event with the usage waits, too.
  EXPECT_EQ(read.before_settle, body.substr(0, body.size() - Sse({kUsage, "[DONE]"}).size()));
}

// S4
TEST(LlmAnswer, UsageInAnEventWithChoicesCounts) {
  const std::string body = Sse(
      {kHello, kStop,
       R"({"choices":[{"index":0,"delta":{}}],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}})",
       "[DONE]"});
  const ReadAnswer read = ReadAllWays(Streamed(LlmShape::kChat), body);
  EXPECT_EQ(Units(read, kInput), 7);
  EXPECT_EQ(read.out, body);
}

TEST(LlmAnswer, UsageInEachEventIsNotAddedAndHoldsNothingBack) {
  std::string body;
  for (int i = 1; i <= 5; ++i)
    body += Sse(
        {R"({"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}],"usage":{"prompt_tokens":7,"completion_tokens":)" +
         std::to_string(i) + "}}"});
  LlmAnswerReader reader(Streamed(LlmShape::kChat));
  const LlmAnswerStep step = reader.Feed(body);
  ASSERT_EQ(step.pass.size(), 1u);
  EXPECT_EQ(step.pass[0].data(), body.data());
  EXPECT_EQ(step.pass[0].size(), body.size());
  EXPECT_FALSE(reader.holding());
  EXPECT_EQ((*reader.answer().usage)[kOutput], 5);
}

// S5
TEST(LlmAnswer, GeminiCountsUpAndTheLastCounts) {
  const auto chunk = [](int out, std::string_view finish) {
    return R"({"candidates":[{"content":{"parts":[{"text":"ab"}],"role":"model"})" + std::string(finish) +
           R"(}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":)" + std::to_string(out) +
           R"(,"totalTokenCount":)" + std::to_string(10 + out) +
           R"(,"trafficType":"ON_DEMAND"},"modelVersion":"gemini-2.5-pro","responseId":"r1"})";
  };
  const std::string stop = R"(,"finishReason":"STOP")";
  const std::string sse = Sse({chunk(1, ""), chunk(2, ""), chunk(3, stop)});
  const ReadAnswer read = ReadAllWays(Streamed(LlmShape::kGemini), sse);
  EXPECT_EQ(read.out, sse);
  EXPECT_EQ(Units(read, kOutput), 3);
  EXPECT_EQ(Units(read, kInput), 10);
  EXPECT_EQ(read.answer.content_bytes, 6);
  EXPECT_EQ(read.answer.tier, "ON_DEMAND");
  EXPECT_TRUE(read.answer.ended);
  EXPECT_EQ(read.before_settle, Sse({chunk(1, ""), chunk(2, "")}));
  // The same as one array.
  const std::string array = "[" + chunk(1, "") + "\n,\r\n" + chunk(3, stop) + "\n]\n";
  const ReadAnswer from_array = ReadAllWays(Streamed(LlmShape::kGemini, LlmFraming::kArray), array);
  EXPECT_EQ(from_array.out, array);
  EXPECT_EQ(Units(from_array, kOutput), 3);
  // Blocked: no candidates, the prompt is billed.
  const ReadAnswer blocked = ReadAllWays(
      Streamed(LlmShape::kGemini),
      Sse({R"({"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":9,"totalTokenCount":9}})"}));
  EXPECT_EQ(Units(blocked, kInput), 9);
  EXPECT_FALSE(blocked.answer.usage->output_known);
  EXPECT_EQ(blocked.answer.finish_reasons, std::vector<std::string>{"SAFETY"});
}

// S6
TEST(LlmAnswer, AnthropicsDeltasReplaceAndKeep) {
  const auto event = [](std::string_view name, std::string_view data) {
    return "event: " + std::string(name) + "\ndata: " + std::string(data) + "\n\n";
  };
  const std::string start = event(
      "message_start",
      R"({"type":"message_start","message":{"id":"msg_1","type":"message","model":"claude-opus-5","content":[],"stop_reason":null,"usage":)"
      R"({"input_tokens":9,"cache_read_input_tokens":17102,"cache_creation_input_tokens":300,"cache_creation":{"ephemeral_5m_input_tokens":100,)"
      R"("ephemeral_1h_input_tokens":200},"output_tokens":1,"service_tier":"standard"}}})");
  const std::string text =
      event("ping", R"({"type":"ping"})") +
      event("content_block_delta",
            R"({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}})") +
      event(
          "content_block_delta",
          R"({"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}})");
  const std::string delta1 =
      event("message_delta",
            R"({"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":20}})");
  const std::string delta2 = event(
      "message_delta",
      R"({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":40,"server_tool_use":{"web_search_requests":2}}})");
  const std::string stop = event("message_stop", R"({"type":"message_stop"})");
  const ReadAnswer read = ReadAllWays(Streamed(LlmShape::kMessages), start + text + delta1 + delta2 + stop);
  EXPECT_EQ(Units(read, kInput), 9);
  EXPECT_EQ(Units(read, kInputCached), 17102);
  EXPECT_EQ(Units(read, kInputWrite5m), 100);
  EXPECT_EQ(Units(read, kInputWriteLong), 200);
  EXPECT_EQ(Units(read, kOutput), 40);
  EXPECT_EQ(Units(read, kWebSearches), 2);
  EXPECT_FALSE(read.answer.usage->inconsistent);
  EXPECT_EQ(read.answer.model, "claude-opus-5");
  EXPECT_EQ(read.answer.tier, "standard");
  EXPECT_EQ(read.answer.content_events, 2);
  EXPECT_EQ(read.answer.content_bytes, 4);
  EXPECT_EQ(read.before_settle, start + text + delta1);
  EXPECT_EQ(read.out, start + text + delta1 + delta2 + stop);
  // Cut off: what was seen so far.
  const ReadAnswer cut = ReadInPieces(Streamed(LlmShape::kMessages), start + text + delta1, 10);
  EXPECT_EQ(Units(cut, kOutput), 20);
  EXPECT_FALSE(cut.answer.ended);
  EXPECT_FALSE(cut.settled_in_feed);
  // A 200 that begins with an error.
  const std::string error =
      event("error", R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})");
  const ReadAnswer failed = ReadAllWays(Streamed(LlmShape::kMessages), error);
  EXPECT_TRUE(failed.answer.error);
  EXPECT_EQ(failed.answer.error_type, "overloaded_error");
  EXPECT_FALSE(failed.answer.ended);
  EXPECT_EQ(failed.before_settle, "");
  EXPECT_EQ(failed.out, error);
}

// S7
TEST(LlmAnswer, AStreamWithoutItsMarkIsSettledAtItsEnd) {
  const std::string body = Sse({kHello, kStop, kUsage});
  const ReadAnswer read = ReadAllWays(Streamed(LlmShape::kChat), body);
  EXPECT_FALSE(read.answer.ended);
  EXPECT_FALSE(read.settled_in_feed);
  EXPECT_EQ(Units(read, kOutput), 50);
  EXPECT_EQ(read.out, body);
}

// S8
TEST(LlmAnswer, ByteOrderMarksCommentsAndCrLf) {
  std::string body = "\xEF\xBB\xBF: hello\r\n:ping\r\n\r\nretry: 5\r\ndata: " + std::string(kHello) +
                     "\r\n\r\n: OPENROUTER PROCESSING\r\n\r\ndata: " + std::string(kUsage) +
                     "\r\n\r\ndata: [DONE]\r\n\r\n";
  const ReadAnswer read = ReadAllWays(Streamed(LlmShape::kChat), body);
  EXPECT_EQ(read.out, body);
  EXPECT_EQ(Units(read, kOutput), 50);
  EXPECT_EQ(read.answer.events, 2);
  EXPECT_TRUE(read.answer.ended);
}

// S9
TEST(LlmAnswer, ChoicesToolsRefusalsLogprobsAndTextThatLooksLikeUsage) {
  const std::string body = Sse(
      {R"({"choices":[{"index":0,"delta":{"content":"\"usage\":{\"prompt_tokens\":5}"},"logprobs":{"content":[{"token":"a"},{"token":"b"}]}}]})",
       R"({"choices":[{"index":1,"delta":{"tool_calls":[{"index":0,"id":"call_123","type":"function","function":{"name":"f","arguments":"{}"}}]}}]})",
       R"({"choices":[{"index":2,"delta":{"refusal":"no"}}]})",
       R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"},{"index":1,"delta":{},"finish_reason":"tool_calls"}]})",
       R"({"choices":[{"index":2,"delta":{"content":"x"},"finish_reason":"length"}],"obfuscation":"abc"})",
       "[DONE]"});
  LlmAnswerOptions options = Streamed(LlmShape::kChat);
  options.choices = 3;
  const ReadAnswer read = ReadAllWays(options, body);
  EXPECT_FALSE(read.answer.usage.has_value());
  EXPECT_EQ(read.out, body);
  EXPECT_EQ(read.answer.content_events, 4);
  EXPECT_EQ(read.answer.content_bytes, 31 + 3 + 2 + 1);
  EXPECT_EQ(read.answer.listed_tokens, 2);
  EXPECT_EQ(read.answer.finish_reasons, (std::vector<std::string>{"stop", "tool_calls", "length"}));
}

TEST(LlmAnswer, ResponsesCarryTheirUsageInTheLastEvent) {
  const std::string created = Sse(
      {R"({"type":"response.created","sequence_number":0,"response":{"id":"resp_1","status":"in_progress","usage":null}})"});
  const std::string delta =
      Sse({R"({"type":"response.output_text.delta","sequence_number":1,"delta":"Hi"})"});
  const std::string done = Sse(
      {R"({"type":"response.completed","response":{"id":"resp_1","model":"gpt-5.6-sol","service_tier":"priority","status":"completed","error":null,)"
       R"("output":[{"content":[{"text":"Hi"}]}],"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":6,"total_tokens":16}}})"});
  const ReadAnswer read = ReadAllWays(Streamed(LlmShape::kResponses), created + delta + done);
  EXPECT_EQ(Units(read, kInput), 6);
  EXPECT_EQ(Units(read, kInputCached), 4);
  EXPECT_EQ(read.answer.tier, "priority");
  EXPECT_EQ(read.answer.status, "completed");
  EXPECT_EQ(read.answer.content_bytes, 2);
  EXPECT_TRUE(read.answer.ended);
  EXPECT_FALSE(read.answer.error);
  EXPECT_EQ(read.before_settle, created + delta);
  const ReadAnswer failed = ReadAllWays(
      Streamed(LlmShape::kResponses),
      Sse({R"({"type":"response.failed","response":{"id":"resp_1","status":"failed","error":{"code":"server_error","message":"x"},"usage":{"input_tokens":10,"output_tokens":0}}})"}));
  EXPECT_TRUE(failed.answer.error);
  EXPECT_EQ(failed.answer.error_type, "server_error");
  EXPECT_EQ(Units(failed, kInput), 10);
}

TEST(LlmAnswer, OllamaTgiAndCohere) {
  const std::string ollama =
      R"({"model":"llama3","message":{"role":"assistant","content":"Hi"},"done":false})"
      "\n"
      R"({"model":"llama3","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":26,"eval_count":298})"
      "\n";
  const ReadAnswer lines = ReadAllWays(Streamed(LlmShape::kOllama, LlmFraming::kLines), ollama);
  EXPECT_EQ(Units(lines, kInput), 26);
  EXPECT_EQ(Units(lines, kOutput), 298);
  EXPECT_TRUE(lines.answer.ended);
  EXPECT_EQ(lines.out, ollama);
  EXPECT_EQ(lines.answer.content_bytes, 2);

  const std::string tgi = Sse(
      {R"({"index":1,"token":{"id":5,"text":"a","logprob":-0.1,"special":false},"generated_text":null,"details":null})",
       R"({"index":2,"token":{"id":6,"text":"b","logprob":-0.1,"special":false},"generated_text":"ab","details":{"finish_reason":"length","generated_tokens":2,"seed":null,"input_length":5}})"});
  const ReadAnswer tokens = ReadAllWays(Streamed(LlmShape::kTgi), tgi);
  EXPECT_EQ(Units(tokens, kInput), 5);
  EXPECT_EQ(Units(tokens, kOutput), 2);
  EXPECT_EQ(tokens.answer.content_events, 2);
  EXPECT_TRUE(tokens.answer.ended);
  EXPECT_EQ(tokens.answer.finish_reasons, std::vector<std::string>{"length"});

  const std::string cohere = Sse(
      {R"({"type":"message-start","id":"co-1","delta":{"message":{"role":"assistant","content":[]}}})",
       R"({"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"Hi"}}}})",
       R"({"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":{"billed_units":{"input_tokens":3,"output_tokens":4},"tokens":{"input_tokens":70,"output_tokens":9}}}})"});
  const ReadAnswer billed = ReadAllWays(Streamed(LlmShape::kCohere), cohere);
  EXPECT_EQ(Units(billed, kInput), 3);
  EXPECT_EQ(Units(billed, kOutput), 4);
  EXPECT_EQ(billed.answer.id, "co-1");
}

// The same usage without a stream; the piece that ends the answer waits.
TEST(LlmAnswer, WholeAnswers) {
  const std::string body =
      R"({"id":"c-1","model":"gpt-5.6-sol","choices":[{"message":{"role":"assistant","content":")" +
      std::string(5000, 'x') +
      R"("},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":50}})"
      "\n";
  const ReadAnswer read = ReadAllWays(Streamed(LlmShape::kChat, LlmFraming::kWhole), body);
  EXPECT_EQ(read.out, body);
  EXPECT_EQ(Units(read, kOutput), 50);
  EXPECT_EQ(read.answer.content_bytes, 5000);
  EXPECT_TRUE(read.answer.ended);
  EXPECT_EQ(ReadInPieces(Streamed(LlmShape::kChat, LlmFraming::kWhole), body, body.size()).before_settle, "");
  const ReadAnswer cut =
      ReadInPieces(Streamed(LlmShape::kChat, LlmFraming::kWhole), body.substr(0, 400), 100);
  EXPECT_FALSE(cut.answer.ended);
  EXPECT_EQ(cut.out, body.substr(0, 400));

  // Embeddings of any size, in bounded memory.
  std::string embeddings = R"({"object":"list","data":[)";
  for (int i = 0; i < 3000; ++i)
    embeddings +=
        std::string(i ? "," : "") +
        R"({"index":1,"embedding":[0.123456789,0.123456789,0.123456789,0.123456789,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1]})";
  embeddings += R"(],"model":"e","usage":{"prompt_tokens":8,"total_tokens":8}})";
  const ReadAnswer vectors = ReadInPieces(Streamed(LlmShape::kPlain, LlmFraming::kWhole), embeddings, 16384);
  EXPECT_EQ(Units(vectors, kInput), 8);
  EXPECT_EQ(vectors.answer.model, "e");
  EXPECT_EQ(vectors.out, embeddings);

  const ReadAnswer rerank = ReadAllWays(Streamed(LlmShape::kPlain, LlmFraming::kWhole),
                                        R"({"results":[],"meta":{"billed_units":{"search_units":3}}})");
  EXPECT_EQ(Units(rerank, kQueries), 3);
  const ReadAnswer tgi = ReadAllWays(
      Streamed(LlmShape::kTgi, LlmFraming::kWhole),
      R"([{"generated_text":"abc","details":{"finish_reason":"length","generated_tokens":2,"prefill":[]}}])");
  EXPECT_EQ(Units(tgi, kOutput), 2);
  EXPECT_FALSE(tgi.answer.usage->input_known);
  const ReadAnswer error = ReadAllWays(Streamed(LlmShape::kChat, LlmFraming::kWhole),
                                       R"({"error":{"message":"m","type":null,"code":"model_not_found"}})");
  EXPECT_TRUE(error.answer.error);
  EXPECT_EQ(error.answer.error_type, "model_not_found");
  const ReadAnswer text = ReadAllWays(Streamed(LlmShape::kChat, LlmFraming::kWhole), "Bad Gateway");
  EXPECT_EQ(text.out, "Bad Gateway");
  EXPECT_FALSE(text.answer.usage.has_value());
  EXPECT_EQ(text.before_settle, "Bad Gatewa") << "with a length its last byte is the end";
}

// §8.4: what upstreams send that should not be.
TEST(LlmAnswer, BadBytesPass) {
  for (const std::string_view event :
       {R"({"choices":[)", "null", "{}", "[]", "\xFF\xFE", R"({"usage":5})", R"({"usage":[]})",
        R"({"choices":{"a":1},"usage":{"prompt_tokens":{}}})", R"({"id":5,"model":null,"choices":null})",
        R"({"usage":{"prompt_tokens":1},"usage":null,"choices":[]} x)"}) {
    for (const LlmShape shape :
         {LlmShape::kChat, LlmShape::kResponses, LlmShape::kMessages, LlmShape::kGemini, LlmShape::kOllama,
          LlmShape::kTgi, LlmShape::kCohere, LlmShape::kPlain}) {
      const std::string body = Sse({event});
      EXPECT_EQ(ReadAllWays(Streamed(shape), body).out, body);
    }
  }
  LlmAnswerOptions options = Streamed(LlmShape::kChat);
  options.max_event_bytes = 400;
  const std::string large = Sse({kHello, std::string(1000, 'x'), kUsage, "[DONE]"});
  const ReadAnswer read = ReadInPieces(options, large, 50);
  EXPECT_TRUE(read.answer.gave_up);
  EXPECT_EQ(read.out, large);
  EXPECT_FALSE(read.answer.usage.has_value());
}

TEST(LlmAnswer, AnErrorInTheStreamIsSettledBeforeItIsPassedOn) {
  const std::string body = Sse({kHello, R"({"error":{"message":"m","type":"server_error"}})", "[DONE]"});
  const ReadAnswer read = ReadAllWays(Streamed(LlmShape::kChat), body);
  EXPECT_TRUE(read.answer.error);
  EXPECT_EQ(read.answer.error_type, "server_error");
  EXPECT_EQ(read.before_settle, Sse({kHello}));
  EXPECT_EQ(read.out, body);
}

TEST(LlmAnswer, UsageAfterTheReleaseIsLate) {
  LlmAnswerReader reader(Streamed(LlmShape::kChat));
  const std::string first = Sse({kUsage}),
                    second = Sse({R"({"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}})"});
  EXPECT_TRUE(reader.Feed(first).pass.empty());
  EXPECT_TRUE(reader.holding());
  EXPECT_EQ(reader.Release(), first);
  EXPECT_EQ(reader.Feed(second).pass.size(), 1u);
  EXPECT_TRUE(reader.answer().usage_late);
}

TEST(LlmAnswer, FramingFollowsTheContentType) {
  const LlmRoute& chat = *FindLlmRoute("POST", "/v1/chat/completions").route;
  const LlmRoute& gemini = *FindLlmRoute("POST", "/v1beta/models/g:streamGenerateContent").route;
  EXPECT_EQ(FramingOfAnswer(chat, true, "text/event-stream; charset=utf-8"), LlmFraming::kSse);
  EXPECT_EQ(FramingOfAnswer(chat, true, "application/json"), LlmFraming::kWhole);
  EXPECT_EQ(FramingOfAnswer(gemini, true, "application/json; charset=UTF-8"), LlmFraming::kArray);
  EXPECT_EQ(FramingOfAnswer(gemini, false, "application/json"), LlmFraming::kWhole);
  EXPECT_EQ(FramingOfAnswer(*FindLlmRoute("POST", "/api/chat").route, true, "application/x-ndjson"),
            LlmFraming::kLines);
}

// A steady stream: each event in a piece of its own, and events cut in two; stripped and not.
TEST(LlmAnswer, ASteadyStreamAllocatesNothing) {
  if (!AllocationsAreCounted()) GTEST_SKIP() << "allocations are not counted in this build";
  for (const bool strip : {false, true}) {
    LlmAnswerReader reader(Streamed(LlmShape::kChat, LlmFraming::kSse, strip));
    const std::string event = Sse({With(
        R"({"id":"chatcmpl-0123456789abcdef0123456789","model":"gpt-5.6-sol-2026-08-21","service_tier":"default","choices":[{"index":0,"delta":{"content":"a long text with \n escapes \u00e9 in it"}}]})",
        R"(,"usage":null)")});
    const std::string_view first = std::string_view(event).substr(0, 100),
                           second = std::string_view(event).substr(100);
    const auto feed = [&] {
      reader.Feed(event);
      reader.Feed(first);
      reader.Feed(second);
    };
    for (int i = 0; i < 3; ++i) feed();
    const uint64_t before = ThreadAllocations();
    for (int i = 0; i < 100; ++i) feed();
    EXPECT_EQ(ThreadAllocations(), before);
    EXPECT_EQ(reader.answer().content_events, 206);
  }
}

}  // namespace
}  // namespace gpulens

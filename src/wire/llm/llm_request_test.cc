#include "wire/llm/llm_request.h"

#include <gtest/gtest.h>

#include <string>

#include "base/json.h"

namespace gpulens {
namespace {

const LlmRoute& RouteOf(std::string_view path) { return *FindLlmRoute("POST", path).route; }
const LlmRoute& Chat() { return RouteOf("/v1/chat/completions"); }

LlmRequest Read(std::string_view body, const LlmRoute& route = Chat()) {
  auto request = ReadLlmRequest(body, route);
  EXPECT_TRUE(request.ok()) << body << ": " << request.status().detail;
  return request.ok() ? *std::move(request) : LlmRequest();
}

std::string Refusal(std::string_view body, const LlmRoute& route = Chat()) {
  auto request = ReadLlmRequest(body, route);
  return request.ok() ? "accepted" : request.error().detail;
}

std::string Injected(std::string_view body, bool continuous = false) {
  const LlmRequest request = Read(body);
  const std::string out = Edited(body, InjectUsage(request, Chat(), continuous));
  EXPECT_EQ(out.size(), EditedSize(body, InjectUsage(request, Chat(), continuous)));
  if (out != body) {
    EXPECT_TRUE(Read(out).usage_requested) << out;
    EXPECT_TRUE(InjectUsage(Read(out), Chat()).empty());
  }
  return out;
}

TEST(LlmRequest, MembersAtDepthOne) {
  const std::string_view body =
      R"({"messages":[{"role":"user","content":"model\": \"x"}], "model" : "gpt\u002d5.6", "stream":true,"n":3,)"
      R"("max_tokens":10,"max_completion_tokens":20,"service_tier":"priority","user":"u-1","other":{"model":"no","stream":5}})";
  const LlmRequest request = Read(body);
  EXPECT_EQ(request.model, "gpt-5.6");
  EXPECT_EQ(body.substr(request.model_value.begin, request.model_value.end - request.model_value.begin),
            R"("gpt\u002d5.6")");
  EXPECT_TRUE(request.stream);
  EXPECT_FALSE(request.usage_requested);
  EXPECT_EQ(request.choices, 3);
  EXPECT_EQ(request.max_output, 20);
  EXPECT_EQ(request.service_tier, "priority");
  EXPECT_EQ(request.user, "u-1");
  EXPECT_EQ(request.end_brace, body.size() - 1);
  EXPECT_EQ(request.text_bytes, static_cast<int64_t>(body.size()));
  EXPECT_FALSE(request.open_input);
}

TEST(LlmRequest, EachApiHasItsLimitOfTheOutput) {
  EXPECT_EQ(Read(R"({"max_output_tokens":7})", RouteOf("/v1/responses")).max_output, 7);
  const LlmRequest gemini =
      Read(R"({"contents":[],"generationConfig":{"maxOutputTokens":9,"candidateCount":2}})",
           RouteOf("/v1beta/models/g:streamGenerateContent"));
  EXPECT_EQ(gemini.max_output, 9);
  EXPECT_EQ(gemini.choices, 2);
  EXPECT_TRUE(gemini.stream);
  EXPECT_EQ(Read(R"({"options":{"num_predict":11}})", RouteOf("/api/chat")).max_output, 11);
  EXPECT_FALSE(Read(R"({"options":{"num_predict":-1}})", RouteOf("/api/chat")).max_output);
  EXPECT_EQ(Read(R"({"parameters":{"max_new_tokens":12}})", RouteOf("/generate_stream")).max_output, 12);
  EXPECT_FALSE(Read(R"({"options":{"num_predict":11}})").max_output);
  EXPECT_FALSE(Read(R"({"max_tokens":null})").max_output);
}

TEST(LlmRequest, WhetherItStreamsIsAMatterOfTheRoute) {
  EXPECT_TRUE(Read("{}", RouteOf("/api/chat")).stream);
  EXPECT_FALSE(Read(R"({"stream":false})", RouteOf("/api/chat")).stream);
  EXPECT_TRUE(Read("{}", RouteOf("/generate_stream")).stream);
  EXPECT_FALSE(Read(R"({"stream":true})", RouteOf("/v1/embeddings")).stream);
  EXPECT_FALSE(Read("{}").stream);
}

TEST(LlmRequest, WhatTwoProgramsCouldReadDifferentlyIsRefused) {
  EXPECT_EQ(Refusal(R"({"model":"a","model":"b"})"), "\"model\" comes twice");
  EXPECT_EQ(Refusal(R"({"model":"a","mo\u0064el":"b"})"), "\"model\" comes twice");
  EXPECT_EQ(Refusal(R"({"stream":true,"stream":false})"), "\"stream\" comes twice");
  EXPECT_EQ(Refusal(R"({"n":1,"n":2})"), "\"n\" comes twice");
  EXPECT_EQ(Refusal(R"({"stream_options":{},"stream_options":{}})"), "\"stream_options\" comes twice");
  EXPECT_EQ(Refusal(R"({"stream_options":{"include_usage":true,"include_usage":false}})"),
            "a member of \"stream_options\" comes twice");
  EXPECT_EQ(Refusal(R"({"stream_options":[]})"), "\"stream_options\" is no object");
  EXPECT_EQ(Refusal(R"({"stream_options":true})"), "\"stream_options\" is no object");
  EXPECT_EQ(Refusal(R"({"stream":"true"})"), "\"stream\" is neither true nor false");
  EXPECT_EQ(Refusal(R"({"model":5})"), "\"model\" is no text");
  EXPECT_EQ(Refusal(R"({"model":null})"), "\"model\" is no text");
  EXPECT_EQ(Refusal(R"({"n":0})"), "\"n\" is out of range");
  EXPECT_EQ(Refusal(R"({"n":1e9})"), "\"n\" is out of range");
  EXPECT_EQ(Refusal(R"({"max_tokens":-1})"), "the limit of the output is out of range");
  EXPECT_EQ(Refusal(R"({"max_tokens":"9"})"), "the limit of the output is out of range");
  EXPECT_EQ(Refusal(R"({"max_tokens":1.5})"), "the limit of the output is out of range");
  EXPECT_EQ(Refusal(R"({"generationConfig":{},"generation_config":{}})",
                    RouteOf("/v1beta/models/g:generateContent")),
            "the configuration of the output comes twice");
}

TEST(LlmRequest, WhatIsNoJsonIsRefused) {
  for (const std::string_view body : {"", "[]", "null", "\"x\""})
    EXPECT_EQ(Refusal(body), "the body is no JSON object") << body;
  for (const std::string_view body :
       {"{", "{}x", "{} {}", "{\"a\":}", "{\"a\":1,}", "{'a':1}", "{\"a\":01}", "{\"a\":\"\x01\"}",
        "{\"a\":\"\\x\"}", "{\"a\":NaN}", "{\"model\":\"\xFF\"}", "{\"a\":[1,]}"})
    EXPECT_TRUE(Refusal(body).starts_with("the body is no JSON")) << body << Refusal(body);
  const std::string deep = "{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}";
  EXPECT_EQ(Refusal(deep), "the body is nested too deep");
  std::string many = "{\"a\":1";
  for (int i = 0; i < 300; ++i) many += ",\"" + std::to_string(i) + "\":1";
  EXPECT_EQ(Refusal(many + "}"), "the body has too many members");
  EXPECT_EQ(Refusal("{\"" + std::string(300, 'a') + "\":1}"), "a member of the body has too long a name");
}

TEST(LlmRequest, UsageIsRequestedWithFewBytes) {
  EXPECT_EQ(Injected(R"({"model":"m","stream":true})"),
            R"({"model":"m","stream":true,"stream_options":{"include_usage":true}})");
  EXPECT_EQ(Injected("{\"stream\":true, \"x\":1.0e5\n}\n"),
            "{\"stream\":true, \"x\":1.0e5\n,\"stream_options\":{\"include_usage\":true}}\n");
  EXPECT_EQ(Injected(R"({"stream_options":{},"stream":true})"),
            R"({"stream_options":{"include_usage":true},"stream":true})");
  EXPECT_EQ(Injected(R"({"stream_options": { "a":{} } ,"stream":true})"),
            R"({"stream_options": { "a":{} ,"include_usage":true} ,"stream":true})");
  EXPECT_EQ(Injected(R"({"stream_options":{"include_usage":false,"a":1},"stream":true})"),
            R"({"stream_options":{"include_usage":true,"a":1},"stream":true})");
  EXPECT_EQ(Injected(R"({"stream_options":{"include_usage":null},"stream":true})"),
            R"({"stream_options":{"include_usage":true},"stream":true})");
  EXPECT_EQ(Injected(R"({"stream_options":null,"stream":true})"),
            R"({"stream_options":{"include_usage":true},"stream":true})");
  EXPECT_EQ(Injected(R"({"stream":true})", true),
            R"({"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}})");
  EXPECT_EQ(Injected(R"({"stream":true,"stream_options":{"continuous_usage_stats":false}})", true),
            R"({"stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":true}})");
  // The client requested it, or there is no stream: nothing changes.
  for (const std::string_view body :
       {R"({"stream":true,"stream_options":{"include_usage":true}})", R"({"stream":false})", "{}"})
    EXPECT_EQ(Injected(body), body);
  EXPECT_TRUE(
      InjectUsage(Read(R"({"stream":true})", RouteOf("/v1/messages")), RouteOf("/v1/messages")).empty());
}

TEST(LlmRequest, EditsTogether) {
  const std::string_view body = R"({"model":"alias","stream":true})";
  const LlmRequest request = Read(body);
  std::vector<LlmEdit> edits = InjectUsage(request, Chat());
  edits.push_back(AddMember(request, MaxOutputMember(Chat()), "512"));
  edits.push_back(ReplaceModel(request, "real\"name"));
  EXPECT_EQ(
      Edited(body, edits),
      R"({"model":"real\"name","stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":512})");
  EXPECT_EQ(Edited("{ }", std::vector<LlmEdit>{AddMember(Read("{ }"), "a", "1")}), "{ \"a\":1}");
}

TEST(LlmRequest, MediaAreCountedAndNotTakenForText) {
  const std::string base64(5000, 'A');
  const auto text_of = [&](const std::string& body, std::string_view path, int64_t media) {
    const LlmRequest request = Read(body, RouteOf(path));
    EXPECT_EQ(request.media, media) << body.substr(0, 100);
    return request.text_bytes;
  };
  EXPECT_LT(
      text_of(R"({"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,)" +
                  base64 + R"("}},{"type":"text","text":"x"}]}]})",
              "/v1/chat/completions", 1),
      300);
  EXPECT_LT(text_of(R"({"input":[{"content":[{"type":"input_image","image_url":"data:image/png;base64,)" +
                        base64 + R"("}]}]})",
                    "/v1/responses", 1),
            300);
  EXPECT_LT(text_of(R"({"messages":[{"content":[{"type":"image","source":{"type":"base64","data":")" +
                        base64 + R"("}}]}]})",
                    "/v1/messages", 1),
            300);
  EXPECT_LT(text_of(R"({"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":")" + base64 +
                        R"("}}]}]})",
                    "/v1beta/models/g:generateContent", 1),
            300);
  EXPECT_LT(text_of(R"({"messages":[{"content":"x","images":[")" + base64 + R"(",")" + base64 + R"("]}]})",
                    "/api/chat", 2),
            300);
  // What looks like media in a client's own call of a tool is text.
  EXPECT_GT(text_of(R"({"messages":[{"content":[{"type":"tool_use","input":{"source":{"data":")" + base64 +
                        R"("}}}]}]})",
                    "/v1/messages", 0),
            5000);
  EXPECT_GT(text_of(R"({"messages":[{"content":")" + base64 + R"("}]})", "/v1/chat/completions", 0), 5000);
}

TEST(LlmRequest, InputThatIsElsewhereIsNotBounded) {
  for (const std::string_view body :
       {R"({"previous_response_id":"resp_1"})", R"({"prompt":{"id":"p"}})",
        R"({"tools":[{"type":"web_search_preview"}]})",
        R"({"input":[{"content":[{"type":"input_file","file_id":"f"}]}]})", R"({"conversation":"c"})"})
    EXPECT_TRUE(Read(body, RouteOf("/v1/responses")).open_input) << body;
  EXPECT_FALSE(
      Read(R"({"previous_response_id":null,"input":"x","tools":[{"type":"function","name":"web_search"}]})",
           RouteOf("/v1/responses"))
          .open_input);
  EXPECT_FALSE(Read(R"({"prompt":"x"})", RouteOf("/v1/completions")).open_input);
  EXPECT_TRUE(Read(R"({"cachedContent":"cachedContents/1"})", RouteOf("/v1beta/models/g:generateContent"))
                  .open_input);
  EXPECT_TRUE(Read(R"({"background":true})", RouteOf("/v1/responses")).background);
}

}  // namespace
}  // namespace gpulens

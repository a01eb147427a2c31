#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/bench/completion_stream.h"

namespace gpulens {

namespace {

CompletionChunk Read(std::string_view data) {
  const auto chunk = ReadCompletionChunk(data);
  EXPECT_TRUE(chunk) << data;
  return chunk ? *chunk : CompletionChunk{};
}

TEST(CompletionChunk, DetectsText) {
  EXPECT_TRUE(Read(R"({"choices":[{"delta":{"content":"a"}}]})").text);
  EXPECT_TRUE(Read(R"({"choices":[{"delta":{"reasoning_content":"a"}}]})").text);
  EXPECT_TRUE(Read(R"({"choices":[{"delta":{"tool_calls":[{"index":0}]}}]})").text);
  EXPECT_TRUE(Read(R"({"choices":[{"text":"a"}]})").text);
  EXPECT_TRUE(Read(R"({"choices":[{"message":{"content":"a"}}]})").text);
  EXPECT_FALSE(Read(R"({"choices":[{"delta":{"role":"assistant","content":""}}]})").text);
  EXPECT_FALSE(Read(R"({"choices":[{"delta":{},"finish_reason":"stop"}]})").text);
  EXPECT_TRUE(Read("[DONE]").done);
}

TEST(CompletionChunk, ReadsUsage) {
  const CompletionChunk chunk = Read(
      R"({"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}})");
  EXPECT_EQ(chunk.prompt_tokens, 12);
  EXPECT_EQ(chunk.completion_tokens, 3);
  EXPECT_EQ(chunk.cached_tokens, 8);
  EXPECT_EQ(chunk.error, "");
  const CompletionChunk without = Read(R"({"choices":[{"delta":{}}],"usage":null})");
  EXPECT_EQ(without.completion_tokens, std::nullopt);
}

TEST(CompletionChunk, ReadsError) {
  EXPECT_EQ(Read(R"({"error":{"message":"out of memory","code":500}})").error, "out of memory");
  EXPECT_EQ(Read(R"({"object":"error","message":"too long"})").error, "too long");
  EXPECT_EQ(Read(R"({"error":{"message":")" + std::string(1000, 'x') + R"("}})").error.size(), 300);
}

TEST(CompletionChunk, RefusesOtherText) {
  EXPECT_EQ(ReadCompletionChunk("<html>").status().code, Code::kDataLoss);
  EXPECT_FALSE(ReadCompletionChunk("").ok());
}

TEST(CompletionChunk, ReadsFirstModel) {
  EXPECT_EQ(FirstModel(R"({"object":"list","data":[{"id":"llama"},{"id":"b"}]})"), "llama");
  EXPECT_EQ(FirstModel(R"({"data":[]})"), std::nullopt);
  EXPECT_EQ(FirstModel("no"), std::nullopt);
}

std::vector<std::string> Events(std::string_view bytes, size_t step) {
  SseReader reader;
  std::vector<std::string> events;
  for (size_t at = 0; at < bytes.size(); at += step)
    EXPECT_TRUE(
        reader.Feed(bytes.substr(at, step), [&](std::string_view data) { events.emplace_back(data); }));
  return events;
}

TEST(SseReader, EventsDoNotDependOnChunking) {
  const std::string_view bytes =
      ": comment\r\nid: 7\r\ndata: {\"a\":1}\r\n\r\n"
      "data:one\ndata:  two\n\n"
      "event: ping\n\n"
      "data\r\r"
      "datum: x\n\ndata: [DONE]\n\ndata: not ended";
  for (size_t step : {size_t{1}, size_t{2}, size_t{3}, size_t{5}, bytes.size()}) {
    EXPECT_THAT(Events(bytes, step), ::testing::ElementsAre("{\"a\":1}", "one\n two", "", "[DONE]")) << step;
  }
}

TEST(SseReader, RefusesEventAboveLimit) {
  SseReader reader;
  int events = 0;
  const auto count = [&](std::string_view) { ++events; };
  EXPECT_FALSE(reader.Feed("data: " + std::string(SseReader::kMostBytes, 'x'), count));
  EXPECT_FALSE(reader.Feed("\n\ndata: a\n\n", count)) << "what follows cannot be trusted";
  reader.Reset();
  EXPECT_TRUE(reader.Feed("data: a\n\n", count));
  EXPECT_EQ(events, 1);

  reader.Reset();
  const std::string line = "data: " + std::string(100'000, 'x') + "\n";
  bool read = true;
  for (int i = 0; i < 20 && read; ++i) read = reader.Feed(line, count);
  EXPECT_FALSE(read) << "many lines are as large as one";
}

}  // namespace

}  // namespace gpulens

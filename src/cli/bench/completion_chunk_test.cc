#include "cli/bench/completion_chunk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpulens {
namespace {

CompletionChunk Read(std::string_view data) {
  const auto chunk = ReadCompletionChunk(data);
  EXPECT_TRUE(chunk) << data;
  return chunk ? *chunk : CompletionChunk{};
}

TEST(CompletionChunk, TextIsWhateverBringsTokens) {
  EXPECT_TRUE(Read(R"({"choices":[{"delta":{"content":"a"}}]})").text);
  EXPECT_TRUE(Read(R"({"choices":[{"delta":{"reasoning_content":"a"}}]})").text);
  EXPECT_TRUE(Read(R"({"choices":[{"delta":{"tool_calls":[{"index":0}]}}]})").text);
  EXPECT_TRUE(Read(R"({"choices":[{"text":"a"}]})").text);
  EXPECT_TRUE(Read(R"({"choices":[{"message":{"content":"a"}}]})").text);
  EXPECT_FALSE(Read(R"({"choices":[{"delta":{"role":"assistant","content":""}}]})").text);
  EXPECT_FALSE(Read(R"({"choices":[{"delta":{},"finish_reason":"stop"}]})").text);
  EXPECT_TRUE(Read("[DONE]").done);
}

TEST(CompletionChunk, TokensAreThoseThatTheServerCounts) {
  const CompletionChunk chunk = Read(
      R"({"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}})");
  EXPECT_EQ(chunk.prompt_tokens, 12);
  EXPECT_EQ(chunk.completion_tokens, 3);
  EXPECT_EQ(chunk.cached_tokens, 8);
  EXPECT_EQ(chunk.error, "");
  const CompletionChunk without = Read(R"({"choices":[{"delta":{}}],"usage":null})");
  EXPECT_EQ(without.completion_tokens, std::nullopt);
}

TEST(CompletionChunk, AnErrorInsideAnAnswerIsOne) {
  EXPECT_EQ(Read(R"({"error":{"message":"out of memory","code":500}})").error, "out of memory");
  EXPECT_EQ(Read(R"({"object":"error","message":"too long"})").error, "too long");
  EXPECT_EQ(Read(R"({"error":{"message":")" + std::string(1000, 'x') + R"("}})").error.size(), 300);
}

TEST(CompletionChunk, WhatIsNoJsonIsAnError) {
  EXPECT_EQ(ReadCompletionChunk("<html>").status().code, Code::kDataLoss);
  EXPECT_FALSE(ReadCompletionChunk("").ok());
}

TEST(CompletionChunk, TheFirstModelIsTakenWhenNoneIsNamed) {
  EXPECT_EQ(FirstModel(R"({"object":"list","data":[{"id":"llama"},{"id":"b"}]})"), "llama");
  EXPECT_EQ(FirstModel(R"({"data":[]})"), std::nullopt);
  EXPECT_EQ(FirstModel("no"), std::nullopt);
}

}  // namespace
}  // namespace gpulens

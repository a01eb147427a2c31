#include "wire/llm/llm_usage_fields.h"

#include <gtest/gtest.h>

#include <string>

namespace gpulens {
namespace {

LlmUsage UsageOf(std::string_view object, bool reasoning_besides = false) {
  LlmUsageFields fields;
  JsonScanner json(object);
  fields.Read(json);
  EXPECT_TRUE(json.Finish()) << object;
  return fields.Usage(reasoning_besides);
}

struct ClassUnits {
  LlmClass of;
  int64_t units;
};

LlmUsage Known(std::initializer_list<ClassUnits> units, bool inconsistent = false) {
  LlmUsage usage;
  for (const auto& [of, count] : units) usage[of] = count;
  usage.input_known = usage.output_known = true;
  usage.inconsistent = inconsistent;
  return usage;
}

void PrintUsage(const LlmUsage& usage, std::string& out) {
  for (size_t i = 0; i < kLlmClasses; ++i) {
    if (usage.units[i] != 0)
      out += std::string(LlmClassName(static_cast<LlmClass>(i))) + "=" + std::to_string(usage.units[i]) + " ";
  }
  out += usage.input_known ? "in " : "";
  out += usage.output_known ? "out " : "";
  out += usage.inconsistent ? "inconsistent" : "";
}

std::string Text(const LlmUsage& usage) {
  std::string out;
  PrintUsage(usage, out);
  return out;
}

#define EXPECT_USAGE(object, ...) EXPECT_EQ(Text(UsageOf(object)), Text(__VA_ARGS__)) << object

using enum LlmClass;

TEST(LlmUsageFields, GoldenChargesV1ToV7) {
  // V1, V2: 1,000 in, of which 900 cached; 50 out, of which 30 reasoning.
  EXPECT_USAGE(
      R"({"prompt_tokens":1000,"completion_tokens":50,"total_tokens":1050,"prompt_tokens_details":{"cached_tokens":900},)"
      R"("completion_tokens_details":{"reasoning_tokens":30}})",
      Known({{kInput, 100}, {kInputCached, 900}, {kOutput, 20}, {kOutputReasoning, 30}}));
  // The same by Responses.
  EXPECT_USAGE(
      R"({"input_tokens":1000,"output_tokens":50,"total_tokens":1050,"input_tokens_details":{"cached_tokens":900},)"
      R"("output_tokens_details":{"reasoning_tokens":30}})",
      Known({{kInput, 100}, {kInputCached, 900}, {kOutput, 20}, {kOutputReasoning, 30}}));
  EXPECT_USAGE(R"({"prompt_tokens":272000,"completion_tokens":10,"total_tokens":272010})",
               Known({{kInput, 272000}, {kOutput, 10}}));
  EXPECT_USAGE(
      R"({"prompt_tokens":272001,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":272000}})",
      Known({{kInput, 1}, {kInputCached, 272000}, {kOutput, 10}}));
  // V5
  EXPECT_USAGE(
      R"({"input_tokens":9,"cache_read_input_tokens":17102,"cache_creation_input_tokens":300,)"
      R"("cache_creation":{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":200},"output_tokens":40,)"
      R"("server_tool_use":{"web_search_requests":2},"service_tier":"standard"})",
      Known({{kInput, 9},
             {kInputCached, 17102},
             {kInputWrite5m, 100},
             {kInputWriteLong, 200},
             {kOutput, 40},
             {kWebSearches, 2}}));
  // V6
  EXPECT_USAGE(
      R"({"promptTokenCount":250000,"cachedContentTokenCount":200000,"candidatesTokenCount":100,"thoughtsTokenCount":900,)"
      R"("totalTokenCount":251000})",
      Known({{kInput, 50000}, {kInputCached, 200000}, {kOutput, 100}, {kOutputReasoning, 900}}));
  // V7
  LlmUsage rerank;
  rerank[kQueries] = 3;
  EXPECT_USAGE(R"({"api_version":{"version":"2"},"billed_units":{"search_units":3.0}})", rerank);
}

TEST(LlmUsageFields, TheTotalDecidesWhatIsInsideAndWhatIsBesides) {
  // xAI counts reasoning besides the completion under OpenAI's name.
  EXPECT_USAGE(
      R"({"prompt_tokens":10,"completion_tokens":5,"total_tokens":115,"completion_tokens_details":{"reasoning_tokens":100}})",
      Known({{kInput, 10}, {kOutput, 5}, {kOutputReasoning, 100}}));
  // Gemini's API with thoughts inside.
  EXPECT_USAGE(
      R"({"promptTokenCount":10,"candidatesTokenCount":50,"thoughtsTokenCount":40,"totalTokenCount":60})",
      Known({{kInput, 10}, {kOutput, 10}, {kOutputReasoning, 40}}));
  // Tools' prompts besides, thoughts inside.
  EXPECT_USAGE(
      R"({"promptTokenCount":10,"toolUsePromptTokenCount":7,"candidatesTokenCount":50,"thoughtsTokenCount":40,"totalTokenCount":67})",
      Known({{kInput, 10}, {kInputTool, 7}, {kOutput, 10}, {kOutputReasoning, 40}}));
  // A server that has cached tokens besides the prompt.
  EXPECT_USAGE(
      R"({"prompt_tokens":10,"completion_tokens":5,"total_tokens":105,"prompt_tokens_details":{"cached_tokens":90}})",
      Known({{kInput, 10}, {kInputCached, 90}, {kOutput, 5}}));
  // One that has Anthropic's names inside OpenAI's prompt.
  EXPECT_USAGE(
      R"({"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"cache_read_input_tokens":90,"cache_creation_input_tokens":4})",
      Known({{kInput, 6}, {kInputCached, 90}, {kInputWrite5m, 4}, {kOutput, 5}}));
  // A total that fits nothing: the table's reading, marked.
  EXPECT_USAGE(
      R"({"prompt_tokens":10,"completion_tokens":5,"total_tokens":99,"completion_tokens_details":{"reasoning_tokens":2}})",
      Known({{kInput, 10}, {kOutput, 3}, {kOutputReasoning, 2}}, true));
}

TEST(LlmUsageFields, WithoutATotalTheNameDecides) {
  const std::string_view xai =
      R"({"prompt_tokens":10,"completion_tokens":5,"completion_tokens_details":{"reasoning_tokens":3}})";
  EXPECT_EQ(Text(UsageOf(xai)), Text(Known({{kInput, 10}, {kOutput, 2}, {kOutputReasoning, 3}})));
  EXPECT_EQ(Text(UsageOf(xai, true)), Text(Known({{kInput, 10}, {kOutput, 5}, {kOutputReasoning, 3}})));
  EXPECT_USAGE(R"({"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":3})",
               Known({{kInput, 10}, {kOutput, 5}, {kOutputReasoning, 3}}));
}

TEST(LlmUsageFields, MissingIsNotZero) {
  LlmUsage embeddings;
  embeddings[kInput] = 8;
  embeddings.input_known = true;
  EXPECT_USAGE(R"({"prompt_tokens":8,"total_tokens":8})", embeddings);
  EXPECT_USAGE(R"({"total_tokens":8})", embeddings);
  EXPECT_USAGE(R"({"prompt_tokens":8,"completion_tokens":null})", embeddings);
  EXPECT_USAGE(R"({"prompt_tokens":0,"completion_tokens":0})", Known({}));
  EXPECT_USAGE("{}", LlmUsage());
  // All the answer was thought.
  EXPECT_USAGE(R"({"promptTokenCount":8,"thoughtsTokenCount":3,"totalTokenCount":11})",
               Known({{kInput, 8}, {kOutputReasoning, 3}}));
}

TEST(LlmUsageFields, ContradictionsAreLimitedAndMarked) {
  EXPECT_USAGE(R"({"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":90}})",
               Known({{kInputCached, 10}, {kOutput, 5}}, true));
  EXPECT_USAGE(
      R"({"prompt_tokens":10,"completion_tokens":5,"completion_tokens_details":{"reasoning_tokens":6}})",
      Known({{kInput, 10}, {kOutputReasoning, 5}}, true));
  for (const std::string bad :
       {"-1", "1.5", "\"7\"", "9223372036854775808", "1e30", "true", "1000000000001"}) {
    LlmUsage usage;
    usage[kInput] = 3;
    usage.input_known = usage.inconsistent = true;
    EXPECT_USAGE(R"({"prompt_tokens":3,"completion_tokens":)" + bad + "}", usage);
  }
  EXPECT_USAGE(R"({"prompt_tokens":3.0,"completion_tokens":1e1})", Known({{kInput, 3}, {kOutput, 10}}));
}

TEST(LlmUsageFields, ModalitiesAndOtherUnits) {
  EXPECT_USAGE(
      R"({"prompt_tokens":100,"completion_tokens":60,"prompt_tokens_details":{"cached_tokens":20,"audio_tokens":30,"text_tokens":70},)"
      R"("completion_tokens_details":{"audio_tokens":40,"accepted_prediction_tokens":5}})",
      Known({{kInput, 50}, {kInputCached, 20}, {kInputAudio, 30}, {kOutput, 20}, {kOutputAudio, 40}}));
  EXPECT_USAGE(
      R"({"promptTokenCount":300,"cachedContentTokenCount":90,"candidatesTokenCount":20,"totalTokenCount":320,)"
      R"("promptTokensDetails":[{"modality":"TEXT","tokenCount":100},{"modality":"IMAGE","tokenCount":150},{"tokenCount":50,"modality":"AUDIO"}],)"
      R"("cacheTokensDetails":[{"modality":"IMAGE","tokenCount":80},{"modality":"AUDIO","tokenCount":10}],)"
      R"("candidatesTokensDetails":[{"modality":"IMAGE","tokenCount":20}]})",
      Known({{kInput, 100},
             {kInputCached, 80},
             {kInputAudioCached, 10},
             {kInputImage, 70},
             {kInputAudio, 40},
             {kOutputImage, 20}}));
  LlmUsage seconds;
  seconds[kMilliseconds] = 61000;
  EXPECT_USAGE(R"({"type":"duration","seconds":61.0})", seconds);
  EXPECT_USAGE(
      R"({"prompt_tokens":9,"completion_tokens":1,"prompt_cache_hit_tokens":6,"prompt_cache_miss_tokens":3,"total_tokens":10})",
      Known({{kInput, 3}, {kInputCached, 6}, {kOutput, 1}}));
}

TEST(LlmUsageFields, CacheWritesWithoutASplitAreTheShortOnes) {
  EXPECT_USAGE(R"({"input_tokens":1,"cache_creation_input_tokens":10,"output_tokens":1})",
               Known({{kInput, 1}, {kInputWrite5m, 10}, {kOutput, 1}}));
  EXPECT_USAGE(R"({"input_tokens":1,"cache_creation":{"ephemeral_1h_input_tokens":10},"output_tokens":1})",
               Known({{kInput, 1}, {kInputWriteLong, 10}, {kOutput, 1}}));
}

TEST(LlmUsageFields, IterationsAreAddedUp) {
  LlmUsageFields fields;
  const std::string_view object =
      R"({"input_tokens":5,"output_tokens":7,"server_tool_use":{"web_search_requests":1},"iterations":[)"
      R"({"type":"compaction","input_tokens":1000,"output_tokens":100,"cache_creation":{"ephemeral_1h_input_tokens":2}},)"
      R"({"type":"advisor_message","model":"claude-opus-5","input_tokens":10,"output_tokens":20,"cache_read_input_tokens":3},)"
      R"({"type":"message","input_tokens":5,"output_tokens":7}]})";
  JsonScanner json(object);
  fields.Read(json);
  ASSERT_TRUE(json.Finish());
  ASSERT_EQ(fields.iterations().size(), 3u);
  EXPECT_EQ(fields.iterations()[1].model, "claude-opus-5");
  EXPECT_EQ(Text(fields.iterations()[1].usage),
            Text(Known({{kInput, 10}, {kInputCached, 3}, {kOutput, 20}})));
  EXPECT_EQ(
      Text(fields.Usage()),
      Text(Known(
          {{kInput, 1015}, {kInputCached, 3}, {kInputWriteLong, 2}, {kOutput, 127}, {kWebSearches, 1}})));
}

}  // namespace
}  // namespace gpulens

#include "sources/nvml/recording/recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"

namespace gpulens::nvml {
namespace {

std::string BadFile(const std::string& name) {
  auto text = ReadFile(GPULENS_SOURCE_DIR "/src/sources/nvml/recording/testdata/bad/" + name + ".yaml");
  EXPECT_TRUE(text.ok()) << name;
  return text.ok() ? *text : "";
}

struct Bad {
  const char* name;
  const char* words;
};
constexpr Bad kBad[] = {
    {"alias", "line 4: the referenced anchor is not defined"},
    {"anchor", "line 4: anchors are not supported"},
    {"answer_is_a_map", "line 5: an answer is a code or values, not a map"},
    {"changes_unknown", "line 9: 'nvmlDeviceGetName' has no answer to begin with"},
    {"deep", "line 4: nested too deeply"},
    {"event_of_no_gpu", "line 6: gpu is not a whole number in range"},
    {"format_2", "line 1: unknown format: expected 1"},
    {"goes_back", "line 10: t goes back"},
    {"identity", "line 2: identity must be 'kept' or 'made up'"},
    {"long_text", "line 5: text is too long"},
    {"key_not_ascii", "line 5: the name of a call is printable ASCII"},
    {"mig_place", "line 5: the place of a MIG device is not a whole number in range"},
    {"no_gpus", "gpus is missing"},
    {"no_recording", "gpulens_recording is missing"},
    {"no_seconds", "seconds is missing"},
    {"not_yaml", "recording line 5"},
    {"seconds_nan", "line 2: seconds is not a time in seconds"},
    {"seventeen_gpus", "line 3: gpus is too long"},
    {"tag", "line 3: tags are not supported"},
    {"twice", "line 6: duplicate key 'nvmlDeviceGetName'"},
    {"two_documents", "a second document"},
    {"unknown_device", "line 7: there is no 'gpu1' in this recording"},
    {"unknown_key", "line 2: unknown key 'secunds'"},
};

TEST(Recording, BadOnesAreRefusedWithTheLine) {
  for (const Bad& bad : kBad) {
    auto recording = ReadRecording(BadFile(bad.name));
    ASSERT_FALSE(recording.ok()) << bad.name;
    EXPECT_EQ(recording.error().code, gpulens::Code::kInvalidArgument) << bad.name;
    EXPECT_THAT(recording.error().detail, testing::HasSubstr(bad.words)) << bad.name;
  }
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(GPULENS_SOURCE_DIR "/src/sources/nvml/recording/testdata/bad"))
    ++files;
  EXPECT_EQ(files, std::size(kBad)) << "every file is tried";
  EXPECT_EQ(ReadRecording(std::string(kMaxRecordingBytes + 1, ' ')).error().code, gpulens::Code::kExhausted);
}

RecordedAnswer AnswerOf(const std::string& yaml) {
  auto recording = ReadRecording("gpulens_recording: 1\nseconds: 1\ngpus: [{calls: {q: " + yaml + "}}]\n");
  EXPECT_TRUE(recording.ok()) << yaml << ": " << recording.error().detail;
  return recording ? recording->gpus[0].calls.at("q").first : RecordedAnswer{};
}

TEST(Recording, AnswersAreCodesOrValues) {
  EXPECT_EQ(AnswerOf("ok"), (RecordedAnswer{0, {}}));
  EXPECT_EQ(AnswerOf("[]"), (RecordedAnswer{0, {}}));
  EXPECT_EQ(AnswerOf("612"), (RecordedAnswer{0, {"612"}}));
  EXPECT_EQ(AnswerOf("-5"), (RecordedAnswer{0, {"-5"}}));
  EXPECT_EQ(AnswerOf("NVIDIA H100"), (RecordedAnswer{0, {"NVIDIA H100"}}));
  EXPECT_EQ(AnswerOf("GPU_IS_LOST"), (RecordedAnswer{15, {}}));
  EXPECT_EQ(AnswerOf("\"GPU_IS_LOST\""), (RecordedAnswer{0, {"GPU_IS_LOST"}}));
  EXPECT_EQ(AnswerOf("\"ok\""), (RecordedAnswer{0, {"ok"}}));
  EXPECT_EQ(AnswerOf("CODE_1234"), (RecordedAnswer{1234, {}}));
  EXPECT_EQ(AnswerOf("\"\""), (RecordedAnswer{0, {""}}));
  EXPECT_EQ(AnswerOf("[INSUFFICIENT_SIZE, 3]"), (RecordedAnswer{7, {"3"}}));
  EXPECT_EQ(AnswerOf("[[1, 2], [3, none]]"), (RecordedAnswer{0, {"1", "2", "3", "none"}}));
}

TEST(Recording, IsReadAsItWasWritten) {
  NvmlRecording recording;
  recording.made_by = "gpulens 1: \"x\"";
  recording.trouble = "GPU 3 hung";
  recording.seconds = 12.5;
  recording.every = 0.5;
  recording.missing = {"nvmlFoo"};
  recording.counters = {{"field 83", 1}};
  recording.gpus.resize(2);
  AnswerTracks& calls = recording.gpus[0].calls;
  for (const char* text :
       {"", "ok", "-", "null", "~", "a: b", "# c", "NOT_FOUND", "tab\there", "\x01\"\\", "0x1", "'"})
    calls[std::string("text ") + std::to_string(calls.size())].first = {0, {text}};
  calls["nvmlDeviceGetComputeRunningProcesses_v3"].first = {0,
                                                            {"1", "2", "none", "none", "3", "4", "1", "0"}};
  calls["power"] = {{0, {"1"}}, {{1.5, {0, {"2"}}}, {1.6, {0, {"3"}}}, {2.5, {15, {}}}}};
  recording.gpus[1].mig[3]["nvmlDeviceGetUUID"] = {{0, {"MIG-1"}}, {{1.55, {6, {}}}}};
  recording.events = {{1.5, 1, 8, 79, ~0U, ~0U}, {2, 0, 0x100, 0, 3, 0}};
  std::string text = WriteRecording(recording, 0.25);
  auto again = ReadRecording(text);
  ASSERT_TRUE(again.ok()) << again.error().detail << "\n" << text;
  EXPECT_EQ(again->made_by, recording.made_by);
  EXPECT_EQ(again->trouble, recording.trouble);
  EXPECT_EQ(again->events, recording.events);
  EXPECT_EQ(again->counters, recording.counters);
  for (const auto& [question, track] : calls) EXPECT_EQ(again->gpus[0].calls.at(question).first, track.first);
  EXPECT_EQ(again->gpus[0].calls.at("power").later, calls["power"].later)
      << "a second change is no part of a moment";
  EXPECT_EQ(again->gpus[1].mig.at(3).at("nvmlDeviceGetUUID").later[0].first, 1.5)
      << "near ones are one moment";
  EXPECT_EQ(WriteRecording(*again, 0.25), text);
}

TEST(Recording, ATrackHoldsUntilTheNextAnswer) {
  AnswerTrack track{{0, {"1"}}, {{2, {0, {"2"}}}, {4, {3, {}}}}};
  EXPECT_EQ(track.At(0).values[0], "1");
  EXPECT_EQ(track.At(1.999).values[0], "1");
  EXPECT_EQ(track.At(2).values[0], "2");
  EXPECT_EQ(track.At(1e9).code, 3);
}

TEST(Recording, EveryCodeHasItsWord) {
  for (int code = 1; code < 1100; ++code) EXPECT_EQ(CodeOfWord(WordOfCode(code)), code);
  EXPECT_EQ(CodeOfWord("CODE_0"), -1);
  EXPECT_EQ(CodeOfWord("CODE_x"), -1);
  EXPECT_EQ(CodeOfWord("power"), -1);
}

}  // namespace
}  // namespace gpulens::nvml

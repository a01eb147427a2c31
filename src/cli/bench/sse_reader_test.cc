#include "cli/bench/sse_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpulens {
namespace {

std::vector<std::string> Events(std::string_view bytes, size_t step) {
  SseReader reader;
  std::vector<std::string> events;
  for (size_t at = 0; at < bytes.size(); at += step)
    EXPECT_TRUE(
        reader.Feed(bytes.substr(at, step), [&](std::string_view data) { events.emplace_back(data); }));
  return events;
}

TEST(SseReader, EventsAreTheSameHoweverTheBytesAreCut) {
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

TEST(SseReader, AnEventAboveTheLimitIsRefusedAndTheNextAnswerIsRead) {
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

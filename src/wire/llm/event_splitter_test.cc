#include "wire/llm/event_splitter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "wire/llm/json_digest.h"

namespace gpulens {
namespace {

struct Frame {
  std::string bytes, data, event;
  bool ends_before = false;
  bool operator==(const Frame&) const = default;
};

void PrintTo(const Frame& frame, std::ostream* out) {
  *out << testing::PrintToString(frame.bytes) << " carries " << testing::PrintToString(frame.data)
       << " named " << frame.event;
}

std::vector<Frame> Split(EventFraming framing, std::string_view text, size_t piece,
                         size_t limit = EventSplitter::kMaxBytes) {
  EventSplitter splitter(framing, limit);
  std::vector<Frame> frames;
  EventFrame frame;
  const auto take = [&] {
    while (splitter.Next(frame)) {
      if (frame.data_is_inside) {
        EXPECT_GE(frame.data.data(), frame.bytes.data());
        EXPECT_LE(frame.data.data() + frame.data.size(), frame.bytes.data() + frame.bytes.size());
      }
      frames.push_back({std::string(frame.bytes), std::string(frame.data), std::string(frame.event),
                        frame.ends_frame_before});
    }
  };
  for (size_t at = 0; at < text.size(); at += piece) {
    const std::string copy(text.substr(at, piece));
    splitter.Feed(copy);
    take();
  }
  splitter.Feed({});
  splitter.Finish();
  take();
  return frames;
}

// The same frames whatever the pieces, and no byte lost.
std::vector<Frame> SplitAllWays(EventFraming framing, std::string_view text) {
  const std::vector<Frame> whole = Split(framing, text, text.size() + 1);
  std::string bytes;
  for (const Frame& frame : whole) bytes += frame.bytes;
  EXPECT_EQ(bytes, text);
  for (size_t piece = 1; piece <= text.size(); ++piece)
    EXPECT_EQ(Split(framing, text, piece), whole) << piece;
  return whole;
}

TEST(EventSplitter, LinesOfEventsEndInThreeWays) {
  for (const std::string_view end : {"\n", "\r\n", "\r"}) {
    const std::string e(end);
    const std::string text =
        "event: delta" + e + "data: {\"a\":1}" + e + e + "data:x" + e + e + "data: [DONE]" + e + e;
    const auto frames = SplitAllWays(EventFraming::kSse, text);
    ASSERT_EQ(frames.size(), 3u);
    EXPECT_EQ(frames[0].event, "delta");
    EXPECT_EQ(frames[0].data, "{\"a\":1}");
    EXPECT_EQ(frames[1].data, "x");
    EXPECT_EQ(frames[1].event, "");
    EXPECT_EQ(frames[2].data, "[DONE]");
  }
}

TEST(EventSplitter, AnEventThatEndsWithCrIsNotHeldBackForAnLf) {
  EventSplitter splitter(EventFraming::kSse);
  EventFrame frame;
  splitter.Feed("data: x\r\r");
  ASSERT_TRUE(splitter.Next(frame));
  EXPECT_EQ(frame.data, "x");
  EXPECT_FALSE(splitter.Next(frame));
  splitter.Feed("\ndata: y\r\n\r\n");
  ASSERT_TRUE(splitter.Next(frame));
  EXPECT_EQ(frame.bytes, "\n");
  EXPECT_TRUE(frame.ends_frame_before);
  ASSERT_TRUE(splitter.Next(frame));
  EXPECT_EQ(frame.bytes, "data: y\r\n\r\n");
  EXPECT_FALSE(frame.ends_frame_before);
}

TEST(EventSplitter, CommentsByteOrderMarksAndOtherFieldsCarryNothing) {
  const auto frames =
      SplitAllWays(EventFraming::kSse,
                   "\xEF\xBB\xBF"
                   "data: first\n\n:ping\n\n\n: ping\nid: 7\nretry: 10\ndata\ndata:  two\n\ndatax: 1\n\n");
  ASSERT_EQ(frames.size(), 5u);
  EXPECT_EQ(frames[0].data, "first");
  EXPECT_EQ(frames[1].data, "");
  EXPECT_EQ(frames[2].bytes, "\n");
  EXPECT_EQ(frames[3].data, "\n two");
  EXPECT_EQ(frames[4].data, "");
}

TEST(EventSplitter, SeveralDataLinesAreJoined) {
  const auto frames = SplitAllWays(EventFraming::kSse, "data: {\"a\":\ndata: 1}\n\n");
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].data, "{\"a\":\n1}");
}

TEST(EventSplitter, MixedEndsOfLinesLoseNothing) {
  SplitAllWays(EventFraming::kSse, "data: a\r\n\rdata: b\n\r\ndata: c\r\r\n\n\r\r\ndata: d\n\r\r\n");
}

TEST(EventSplitter, AnEventWithoutItsEndComesAtTheEnd) {
  const auto frames = SplitAllWays(EventFraming::kSse, "data: a\n\ndata: b");
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[1].data, "b");
}

TEST(EventSplitter, LinesOfJson) {
  const auto frames = SplitAllWays(EventFraming::kLines, "{\"a\":1}\n\n{\"b\":2}\r\n{\"c\":3}");
  ASSERT_EQ(frames.size(), 4u);
  EXPECT_EQ(frames[0].data, "{\"a\":1}");
  EXPECT_EQ(frames[1].data, "");
  EXPECT_EQ(frames[2].data, "{\"b\":2}");
  EXPECT_EQ(frames[3].data, "{\"c\":3}");
}

TEST(EventSplitter, ElementsOfAnArray) {
  const auto frames =
      SplitAllWays(EventFraming::kArray, "[{\"a\":\"}]\\\"{\"}\n,\r\n{\"b\":[{\"c\":{}}]}\n]\n");
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0].data, "{\"a\":\"}]\\\"{\"}");
  EXPECT_EQ(frames[1].data, "{\"b\":[{\"c\":{}}]}");
  EXPECT_EQ(frames[2].bytes, "\n]\n");
  EXPECT_EQ(frames[2].data, "");
}

TEST(EventSplitter, OneObjectInPlaceOfAnArray) {
  const auto frames = SplitAllWays(EventFraming::kArray, "{\"error\":{\"code\":429}}\n");
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].data, "{\"error\":{\"code\":429}}");
}

TEST(EventSplitter, ATooLargeEventIsPassedOn) {
  const std::string text = "data: ok\n\ndata: " + std::string(200, 'x') + "\n\ndata: later\n\n";
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{100}, text.size()}) {
    const auto frames = Split(EventFraming::kSse, text, piece, 100);
    std::string bytes;
    for (const Frame& frame : frames) bytes += frame.bytes;
    EXPECT_EQ(bytes, text);
    EXPECT_EQ(frames[0].data, "ok");
    for (size_t i = 1; i < frames.size(); ++i) EXPECT_EQ(frames[i].data, "") << piece;
  }
  // At the limit it is whole.
  EXPECT_EQ(Split(EventFraming::kSse, "data: x\n\n", 3, 9)[0].data, "x");
  EXPECT_EQ(Split(EventFraming::kSse, "data: x\n\n", 3, 8)[0].data, "");
}

TEST(EventSplitter, AFrameInsideAPieceIsNotCopied) {
  EventSplitter splitter(EventFraming::kSse);
  const std::string piece = "data: a\n\ndata: b\n\n";
  splitter.Feed(piece);
  EventFrame frame;
  ASSERT_TRUE(splitter.Next(frame));
  EXPECT_EQ(frame.bytes.data(), piece.data());
  ASSERT_TRUE(splitter.Next(frame));
  EXPECT_EQ(frame.bytes.data(), piece.data() + 9);
}

std::string Digest(std::string_view text, size_t piece) {
  JsonDigest digest(1 << 20);
  for (size_t at = 0; at < text.size(); at += piece) digest.Feed(text.substr(at, piece));
  return digest.ended() ? std::string(digest.text()) : "not ended: " + std::string(digest.text());
}

TEST(JsonDigest, LeavesOutWhatIsLong) {
  const std::string text = R"({"data":[{"embedding":[1,2,3,4,5,6,7,8,9,10,[],"x"],"b":"]\"}"}],)"
                           R"("long":")" +
                           std::string(300, 'a') + R"(\\","usage":{"prompt_tokens":7}} trailing)";
  const std::string short_text =
      R"({"data":[{"embedding":[1,2,3,4,5,6,7,8],"b":"]\"}"}],"long":"","usage":{"prompt_tokens":7}})";
  for (size_t piece = 1; piece < text.size() + 1; ++piece)
    EXPECT_EQ(Digest(text, piece), short_text) << piece;
  std::string deep = "1";
  for (int i = 0; i < 40; ++i) deep = "{\"a\":" + deep + "}";
  EXPECT_EQ(Digest(deep, 3).find("null"), 32u * 5);
}

}  // namespace
}  // namespace gpulens

#include "net/websocket/websocket_frame.h"

#include <gtest/gtest.h>

#include <vector>

namespace gpulens {
namespace {

using Kind = FrameReader::Event::Kind;

std::string Masked(uint8_t first, std::string payload, uint64_t claimed = ~0ull, int form = 0) {
  uint64_t size = claimed == ~0ull ? payload.size() : claimed;
  if (form == 0) form = size < 126 ? 1 : size < 65536 ? 2 : 8;
  std::string frame(1, static_cast<char>(first));
  frame += static_cast<char>(0x80 | (form == 1 ? size : form == 2 ? 126 : 127));
  if (form > 1) {
    for (int i = form - 1; i >= 0; --i) frame += static_cast<char>(size >> (8 * i) & 0xff);
  }
  const std::string mask = "\x11\x22\x33\x44";
  frame += mask;
  for (size_t i = 0; i < payload.size(); ++i) frame += static_cast<char>(payload[i] ^ mask[i % 4]);
  return frame;
}

struct Seen {
  Kind kind;
  uint16_t code;
  std::string payload;
  bool operator==(const Seen&) const = default;
};

std::vector<Seen> ReadAll(std::string_view bytes, size_t step = 1 << 20, size_t limit = 1000) {
  FrameReader reader(limit);
  std::vector<Seen> seen;
  while (!bytes.empty()) {
    std::string_view part = bytes.substr(0, step);
    bytes.remove_prefix(part.size());
    while (!part.empty()) {
      FrameReader::Event event = reader.Next(part);
      if (event.kind != Kind::kNone) seen.push_back({event.kind, event.code, std::string(event.payload)});
    }
  }
  return seen;
}

std::vector<Seen> One(Kind kind, uint16_t code = 0, std::string payload = {}) {
  return {{kind, code, payload}};
}

TEST(FrameReader, MessagesOfEverySizeAndSplit) {
  for (size_t size : {0u, 1u, 125u, 126u, 1000u}) {
    std::string frame = Masked(0x81, std::string(size, 'a'));
    for (size_t step : {1u, 3u, 10000u}) EXPECT_EQ(ReadAll(frame, step), One(Kind::kMessage)) << size;
  }
  EXPECT_EQ(ReadAll(Masked(0x82, "\xff\xfe")), One(Kind::kMessage));
}

TEST(FrameReader, PingsBetweenFragments) {
  std::string bytes =
      Masked(0x01, "ab") + Masked(0x89, "p1") + Masked(0x00, "c") + Masked(0x80, "d") + Masked(0x8a, "");
  std::vector<Seen> expected = {{Kind::kPing, 0, "p1"}, {Kind::kMessage, 0, ""}, {Kind::kPong, 0, ""}};
  EXPECT_EQ(ReadAll(bytes), expected);
  EXPECT_EQ(ReadAll(bytes, 1), expected);
}

TEST(FrameReader, BreachesOfTheProtocol) {
  const auto error = One(Kind::kError, CloseCode::kProtocolError);
  EXPECT_EQ(ReadAll(std::string("\x81\x02hi", 4)), error) << "unmasked";
  EXPECT_EQ(ReadAll(Masked(0xc1, "x")), error) << "reserved bit";
  EXPECT_EQ(ReadAll(Masked(0x83, "x")), error) << "unknown data opcode";
  EXPECT_EQ(ReadAll(Masked(0x8b, "x")), error) << "unknown control opcode";
  EXPECT_EQ(ReadAll(Masked(0x80, "x")), error) << "continuation of nothing";
  EXPECT_EQ(ReadAll(Masked(0x01, "x") + Masked(0x81, "y")), error) << "a message within a message";
  EXPECT_EQ(ReadAll(Masked(0x09, "x")), error) << "a fragmented ping";
  EXPECT_EQ(ReadAll(Masked(0x89, std::string(126, 'x'))), error) << "a long ping";
  EXPECT_EQ(ReadAll(Masked(0x81, "x", ~0ull, 2)), error) << "not the shortest length";
  EXPECT_EQ(ReadAll(Masked(0x81, "x", 300, 8)), error) << "not the shortest length";
  EXPECT_EQ(ReadAll(Masked(0x81, "x", 1ull << 63, 8)), error) << "top bit of the length";
  EXPECT_EQ(ReadAll(Masked(0x88, "x")), error) << "half a close code";
  for (int code : {0, 999, 1004, 1005, 1006, 1015, 2999, 5000}) {
    std::string text{static_cast<char>(code >> 8), static_cast<char>(code)};
    EXPECT_EQ(ReadAll(Masked(0x88, text)), error) << code;
  }
}

TEST(FrameReader, TooBigAlsoInFragments) {
  const auto error = One(Kind::kError, CloseCode::kTooBig);
  EXPECT_EQ(ReadAll(Masked(0x81, "", 1001)), error);
  EXPECT_EQ(ReadAll(Masked(0x81, "", ~0ull >> 1, 8)), error);
  EXPECT_EQ(ReadAll(Masked(0x02, std::string(600, 'x')) + Masked(0x80, std::string(401, 'x'))), error);
}

TEST(FrameReader, TextIsUtf8) {
  const auto error = One(Kind::kError, CloseCode::kBadData);
  for (const char* bad : {"\xff", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
                          "\xf4\x90\x80\x80", "\xf5", "\xe2\x82", "a\x80", "\xc3("}) {
    EXPECT_EQ(ReadAll(Masked(0x81, bad)), error) << bad;
  }
  for (const char* good : {"\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf",
                           "z\xc3\xbcrich"}) {
    EXPECT_EQ(ReadAll(Masked(0x81, good), 1), One(Kind::kMessage)) << good;
  }
  EXPECT_EQ(ReadAll(Masked(0x01, "\xe2\x82") + Masked(0x80, "\xac")), One(Kind::kMessage))
      << "split euro sign";
}

TEST(FrameReader, CloseEndsTheReading) {
  EXPECT_EQ(ReadAll(Masked(0x88, "") + Masked(0x81, "x")), One(Kind::kClose, CloseCode::kNormal));
  EXPECT_EQ(ReadAll(Masked(0x88,
                           "\x03\xe9"
                           "bye")),
            One(Kind::kClose, 1001, "bye"));
  EXPECT_EQ(ReadAll(Masked(0x88, "\x0b\xb8")), One(Kind::kClose, 3000));
  EXPECT_EQ(ReadAll(Masked(0x88, "\x03\xe9\xff")), One(Kind::kError, CloseCode::kBadData));
}

TEST(Frames, HeadsOfOurs) {
  auto head = [](size_t size) {
    std::string out;
    AppendFrameHead(out, Opcode::kText, size);
    return out;
  };
  EXPECT_EQ(head(0), std::string("\x81\x00", 2));
  EXPECT_EQ(head(125), "\x81\x7d");
  EXPECT_EQ(head(126), std::string("\x81\x7e\x00\x7e", 4));
  EXPECT_EQ(head(65535), "\x81\x7e\xff\xff");
  EXPECT_EQ(head(65536), std::string("\x81\x7f\0\0\0\0\0\1\0\0", 10));
  EXPECT_EQ(CloseFrame(1001, "x"), "\x88\x03\x03\xe9x");
  EXPECT_EQ(CloseFrame(1001, std::string(500, 'x')).size(), 2u + 125u);
  // The example of RFC 6455 §1.3.
  EXPECT_EQ(AcceptKey("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

}  // namespace
}  // namespace gpulens

#include "base/text.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace gpulens {
namespace {

std::string Json(std::string_view text) {
  std::string out;
  AppendJsonString(out, text);
  return out;
}
TEST(Utf8Length, FollowsTheTable) {
  EXPECT_EQ(Utf8Length(""), 0u);
  EXPECT_EQ(Utf8Length("a"), 1u);
  EXPECT_EQ(Utf8Length(std::string_view("\0", 1)), 1u);
  EXPECT_EQ(Utf8Length("\xC2\x80"), 2u);
  EXPECT_EQ(Utf8Length("\xDF\xBF"), 2u);
  EXPECT_EQ(Utf8Length("\xE0\xA0\x80"), 3u);
  EXPECT_EQ(Utf8Length("\xED\x9F\xBF"), 3u);
  EXPECT_EQ(Utf8Length("\xEF\xBF\xBF"), 3u);
  EXPECT_EQ(Utf8Length("\xF0\x90\x80\x80"), 4u);
  EXPECT_EQ(Utf8Length("\xF4\x8F\xBF\xBF"), 4u);
}

TEST(Utf8Length, RejectsMalformedSequences) {
  constexpr std::string_view kBad[] = {
      "\x80",              // a continuation alone
      "\xC0\x80",          // overlong NUL
      "\xC1\xBF",          // overlong
      "\xE0\x9F\xBF",      // overlong, three bytes
      "\xF0\x8F\xBF\xBF",  // overlong, four bytes
      "\xED\xA0\x80",      // a surrogate
      "\xF4\x90\x80\x80",  // above U+10FFFF
      "\xF5\x80\x80\x80",
      "\xFF",
      "\xC2",  // cut off
      "\xE2\x82",
      "\xF0\x9F\x98",
      "\xC2\x41",
      "\xE2\x28\xA1",
      "\xE2\x82\x28",
      "\xF0\x9F\x28\x80",
      "\xF0\x28\x9F\x80",
  };
  for (std::string_view bad : kBad) {
    EXPECT_EQ(Utf8Length(bad), 0u) << Printable(bad);
    EXPECT_FALSE(IsUtf8(bad)) << Printable(bad);
  }
}

TEST(IsUtf8, WholeText) {
  EXPECT_TRUE(IsUtf8(""));
  EXPECT_TRUE(IsUtf8("größe € 😀"));
  EXPECT_FALSE(IsUtf8("good until \xff"));
}

TEST(IsUtf8, FindsABadByteAnywhereInALongText) {
  for (size_t size = 1; size < 40; ++size) {
    std::string text(size, 'a');
    EXPECT_TRUE(IsUtf8(text));
    for (size_t at = 0; at < size; ++at) {
      text[at] = '\xff';
      EXPECT_FALSE(IsUtf8(text)) << at << " of " << size;
      text[at] = 'a';
    }
  }
}

TEST(ValidUtf8, ReplacesAndCountsInvalidBytes) {
  std::string room;
  const uint64_t before = ReplacedUtf8Bytes();
  const std::string_view good = "größe 训练 😀";
  EXPECT_EQ(ValidUtf8(good, room).data(), good.data()) << "no copy of what is good";
  EXPECT_EQ(ReplacedUtf8Bytes(), before);
  // The kernel cuts the name of a process after 15 bytes.
  EXPECT_EQ(ValidUtf8("a训练模型\xe6\x8e", room), "a训练模型\uFFFD\uFFFD");
  EXPECT_EQ(ReplacedUtf8Bytes(), before + 2);
  EXPECT_EQ(ValidUtf8("\xff in \xc0\x80 front", room), "\uFFFD in \uFFFD\uFFFD front");
  EXPECT_EQ(ReplacedUtf8Bytes(), before + 5);
  // The text may be what is in the room already.
  room = "x\xfe";
  EXPECT_EQ(ValidUtf8(room, room), "x\uFFFD");
}

TEST(AppendJsonString, EscapesControlCharacters) {
  EXPECT_EQ(Json(""), "\"\"");
  EXPECT_EQ(Json("a\"b\\c/d"), R"("a\"b\\c/d")");
  EXPECT_EQ(Json("\n\t\r\b\x01\x1f\x7f"), R"("\n\u0009\u000d\u0008\u0001\u001f\u007f")");
  EXPECT_EQ(Json(std::string_view("a\0b", 3)), R"("a\u0000b")");
  EXPECT_EQ(Json("größe 😀"), "\"größe 😀\"");
  EXPECT_EQ(Json("\xff x \xC2"), R"("\ufffd x \ufffd")");
  EXPECT_EQ(Json("\xE2\x82 x"), R"("\ufffd\ufffd x")");
}

TEST(AppendPrintable, EscapesBytesThatControlTerminals) {
  EXPECT_EQ(Printable("plain ü"), "plain ü");
  EXPECT_EQ(Printable("\x1b[2J\n"), "\\x1b[2J\\x0a");
  EXPECT_EQ(Printable("\x7f\xff"), "\\x7f\\xff");
  EXPECT_EQ(Printable("\u009b2J\u0085"), "\\xc2\\x9b2J\\xc2\\x85") << "C1 are obeyed as ESC [ is";
  for (const char* turn :
       {"\u061c", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u202e", "\u2066", "\u2069"}) {
    EXPECT_EQ(Printable(turn).substr(0, 2), "\\x") << Json(turn);
    EXPECT_EQ(Json(turn).substr(0, 3), "\"\\u");
  }
  EXPECT_EQ(Json("\u009b\u202e\u061c"), R"("\u009b\u202e\u061c")");
  const char* kept = "\u00a0 \u200b \u200d \u2030 \u2065 \u206a \u1f00 \u0641\u0627 \u05d0 😀";
  EXPECT_EQ(Printable(kept), kept);
}

constexpr std::array<std::string_view, 4> kWords = {"interval", "listen", "log", "ttl"};

TEST(NearestWord, FindsTheNearestWord) {
  EXPECT_EQ(NearestWord("intervall", kWords), "interval");
  EXPECT_EQ(NearestWord("intreval", kWords), "interval");
  EXPECT_EQ(NearestWord("lsiten", kWords), "listen");
  EXPECT_EQ(NearestWord("tll", kWords), "ttl");
  EXPECT_EQ(NearestWord("interval", kWords), "interval");
  constexpr std::string_view kShort[] = {"url", "name", "true"};
  EXPECT_EQ(NearestWord("ulr", kShort), "url") << "two letters that changed places are one mistake";
  EXPECT_EQ(NearestWord("ture", kShort), "true");
}

TEST(NearestWord, NothingWhenNoneIsNear) {
  EXPECT_EQ(NearestWord("dashboard", kWords), "");
  EXPECT_EQ(NearestWord("", kWords), "");
  EXPECT_EQ(NearestWord("interval", {}), "");
  EXPECT_EQ(NearestWord(std::string(65, 'i'), kWords), "");
  std::string huge(100'000, 'x');
  std::array<std::string_view, 2> candidates = {huge, "xxxx"};
  EXPECT_EQ(NearestWord("xxx", candidates), "xxxx") << "a long candidate is passed over";
}

TEST(AppendUtf8, EveryLength) {
  std::string text;
  for (uint32_t point : {0x41u, 0x7fu, 0x80u, 0x7ffu, 0x800u, 0xfffdu, 0x10000u, 0x10ffffu})
    AppendUtf8(text, point);
  EXPECT_EQ(text, "A\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbd\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
  EXPECT_TRUE(IsUtf8(text));
}

TEST(MatchesStars, StarsMatchAnything) {
  EXPECT_TRUE(MatchesStars("*", ""));
  EXPECT_TRUE(MatchesStars("go_*", "go_gc_duration_seconds"));
  EXPECT_FALSE(MatchesStars("go_*", "gopher"));
  EXPECT_TRUE(MatchesStars("*_created", "a_created_created"));
  EXPECT_TRUE(MatchesStars("a*b*c", "axxbyyc"));
  EXPECT_FALSE(MatchesStars("a*b*c", "axxbyy"));
  EXPECT_FALSE(MatchesStars("plain", "plain2"));
  const std::string hard = std::string(2000, 'a');
  EXPECT_FALSE(MatchesStars("*a*a*a*a*a*a*a*b", hard));
}

TEST(MatchesStars, AndOneCharacter) {
  for (auto [pattern, text] : {std::pair{"go_*", "go_gc_duration_seconds"},
                               {"*_created", "x_created"},
                               {"*", ""},
                               {"a*b*c", "a-b-b-c"},
                               {"gpu.?ower.draw", "gpu.power.draw"},
                               {"", ""},
                               {"a**", "a"}})
    EXPECT_TRUE(MatchesStars(pattern, text, '?')) << pattern << " " << text;
  for (auto [pattern, text] : {std::pair{"go_*", "cargo_x"},
                               {"*_created", "_created_at"},
                               {"", "a"},
                               {"?", ""},
                               {"a*b", "a*c"},
                               {"gpu.power", "gpu.power.draw"},
                               {"*a*b", "b a"}})
    EXPECT_FALSE(MatchesStars(pattern, text, '?')) << pattern << " " << text;
  EXPECT_FALSE(MatchesStars("*a*a*a*a*a*a*a*a*b", std::string(10'000, 'a'), '?')) << "and it ends";
}

TEST(Percent, KeepsUnreservedCharacters) {
  EXPECT_EQ(PercentEncoded("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(PercentEncoded("a b/c%ä"), "a%20b%2Fc%25%C3%A4");
  EXPECT_EQ(PercentEncoded("/a b?", "/"), "/a%20b%3F");
  EXPECT_EQ(PercentEncoded(std::string_view("\0\x7f\xff", 3)), "%00%7F%FF");
  EXPECT_EQ(PercentEncoded(""), "");
}

TEST(Percent, DecodesItsOwnOutput) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(PercentDecoded(PercentEncoded(all)), all);
  EXPECT_EQ(PercentDecoded("%c3%A4"), "ä");
}

TEST(Percent, BrokenEscapesStay) {
  for (const char* text : {"%", "%4", "a%", "a%4", "%zz", "%4z", "%%", "100%"}) {
    EXPECT_EQ(PercentDecoded(text), text);
  }
  EXPECT_EQ(PercentDecoded("%%41"), "%A");
}

TEST(Base64, PadsToWholeGroupsAndReadsBothAlphabets) {
  std::string text, bytes;
  for (const auto& [plain, encoded] : {std::pair<std::string, std::string>{"", ""},
                                       {"f", "Zg=="},
                                       {"fo", "Zm8="},
                                       {"foo\xff", "Zm9v/w=="}}) {
    text.clear();
    AppendBase64(text, plain);
    EXPECT_EQ(text, encoded);
    EXPECT_TRUE(FromBase64(encoded, bytes));
    EXPECT_EQ(bytes, plain);
  }
  EXPECT_TRUE(FromBase64("Zm9v_w", bytes));
  EXPECT_EQ(bytes, "foo\xff");
  for (const char* bad : {"Z", "Zg=", "Zg===", "Z=g=", "Zm 8"}) EXPECT_FALSE(FromBase64(bad, bytes)) << bad;
}

TEST(AppendHex, WritesTwoDigitsAByte) {
  std::string text = "0x";
  AppendHex(text, "\x01\xfa");
  EXPECT_EQ(text, "0x01fa");
}

TEST(UrlName, HasNeitherPasswordNorParameters) {
  EXPECT_EQ(UrlName("postgresql://ada:pw@db:5432/d?sslmode=require"), "postgresql://ada@db:5432/d");
  EXPECT_EQ(UrlName("clickhouse://h"), "clickhouse://h");
  EXPECT_EQ(UrlName("postgresql:///d?password=pw"), "postgresql:///d");
  // Unescaped parts are hidden, too.
  EXPECT_EQ(UrlName("postgresql://ada:p@w/x?y@db/d"), "postgresql://ada@db/d");
  EXPECT_EQ(UrlName("postgresql://:pw@db"), "postgresql://db");
  EXPECT_EQ(UrlName("postgresql://ada:p@w"), "postgresql://ada@w") << "the last @ ends it";
}

}  // namespace

}  // namespace gpulens

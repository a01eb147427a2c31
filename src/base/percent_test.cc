#include <gtest/gtest.h>

#include "base/hex.h"

namespace gpulens {
namespace {

TEST(Percent, WhatIsUnreservedStaysPlain) {
  EXPECT_EQ(PercentEncoded("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(PercentEncoded("a b/c%ä"), "a%20b%2Fc%25%C3%A4");
  EXPECT_EQ(PercentEncoded("/a b?", "/"), "/a%20b%3F");
  EXPECT_EQ(PercentEncoded(std::string_view("\0\x7f\xff", 3)), "%00%7F%FF");
  EXPECT_EQ(PercentEncoded(""), "");
}

TEST(Percent, DecodingIsTheOtherWay) {
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

}  // namespace
}  // namespace gpulens

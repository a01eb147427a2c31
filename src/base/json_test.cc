#include "base/json.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

namespace gpulens {
namespace {

TEST(JsonDocument, Facts) {
  auto document = JsonDocument::Parse(
      R"( {"data": [{"id": "m\u00e9"}, {"id": 7}], "version": "0.11.0", "n": 3, "x": 1.5, "none": null} )");
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(document->Size("/data"), 2u);
  EXPECT_EQ(document->Text("/data/0/id"), "mé");
  EXPECT_EQ(document->Text("/data/1/id"), std::nullopt);
  EXPECT_EQ(document->Number("/data/1/id"), 7);
  EXPECT_EQ(document->Number("/x"), 1.5);
  EXPECT_EQ(document->Whole("/n"), 3u);
  EXPECT_EQ(document->Whole("/x"), std::nullopt);
  EXPECT_EQ(document->Whole("/version"), std::nullopt);
  EXPECT_EQ(document->Text("/version"), "0.11.0");
  EXPECT_EQ(document->Text("/none"), std::nullopt);
  EXPECT_EQ(document->Text("/nowhere/0"), std::nullopt);
  EXPECT_EQ(document->Text("no pointer"), std::nullopt);
  EXPECT_EQ(document->Size("/version"), 0u);
}

TEST(JsonDocument, WholeNumbersKeepTheirDigits) {
  auto document =
      JsonDocument::Parse(R"({"id": 8087716956832600000, "large": 18446744073709551615, "less": -1})");
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(document->Whole("/id"), 8087716956832600000u);
  EXPECT_EQ(document->Whole("/large"), 18446744073709551615u);
  EXPECT_EQ(document->Whole("/less"), std::nullopt);
}

TEST(JsonDocument, WholeNumbersOfEitherSign) {
  auto document = JsonDocument::Parse(R"({"less": -9223372036854775808, "more": 9223372036854775807,
      "large": 9223372036854775808, "even": -2.0, "part": -2.5, "text": "-2"})");
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(document->Integer("/less"), INT64_MIN);
  EXPECT_EQ(document->Integer("/more"), INT64_MAX);
  EXPECT_EQ(document->Integer("/large"), std::nullopt);
  EXPECT_EQ(document->Integer("/even"), -2);
  EXPECT_EQ(document->Integer("/part"), std::nullopt);
  EXPECT_EQ(document->Integer("/text"), std::nullopt);
}

// Two roundings, as Boost 1.81 has them, miss some of these by a bit.
TEST(JsonDocument, ANumberIsTheNearestDouble) {
  uint64_t state = 1;
  for (int i = 0; i < 20'000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double value = std::bit_cast<double>((state >> 2) ^ (state << 40 >> 2));
    if (!std::isfinite(value)) continue;
    char text[64];
    std::snprintf(text, sizeof text, "[%.17g]", value);
    const auto document = JsonDocument::Parse(text);
    ASSERT_TRUE(document.ok()) << text;
    ASSERT_EQ(document->Number("/0"), value) << text;
  }
  const auto document = JsonDocument::Parse("[1763690820.1234567, 1.25e+2, -0.1E-1, 1e999, 1e-999]");
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(document->Number("/0"), 1763690820.1234567);
  EXPECT_EQ(document->Number("/1"), 125);
  EXPECT_EQ(document->Number("/2"), -0.01);
  EXPECT_EQ(document->Number("/3"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(document->Number("/4"), 0);
}

TEST(JsonDocument, ListsMembersOfObjects) {
  auto document = JsonDocument::Parse(
      R"({"b": true, "a/~": null, "": false, "in": {"x": 1, "y": 2, "x": 3}, "none": {}, "list": [1]})");
  ASSERT_TRUE(document.ok());
  using Names = std::vector<std::string>;
  EXPECT_EQ(document->Names(""), (Names{"b", "a/~", "", "in", "none", "list"}));
  EXPECT_EQ(document->Names("/in"), (Names{"x", "y"}));
  EXPECT_EQ(document->Whole("/in/x"), 3u) << "the last one";
  EXPECT_EQ(document->Names("/none"), Names());
  EXPECT_EQ(document->Names("/list"), std::nullopt);
  EXPECT_EQ(document->Names("/nowhere"), std::nullopt);
  EXPECT_EQ(document->Truth("/b"), true);
  EXPECT_EQ(document->Truth("/"), false);
  EXPECT_EQ(document->Truth("/list/0"), std::nullopt);
  EXPECT_TRUE(document->IsNull("/a~1~0"));
  EXPECT_FALSE(document->IsNull("/b"));
  EXPECT_FALSE(document->IsNull("/nowhere")) << "what is not there is no null";
}

TEST(JsonDocument, BadInput) {
  for (const char* text : {"", "{", "<html>", "{\"a\":1} x", "{'a':1}", "nul", "\"\xff\"", "[1,]"}) {
    auto document = JsonDocument::Parse(text);
    ASSERT_FALSE(document.ok()) << text;
    EXPECT_EQ(document.error().code, Code::kDataLoss) << text;
  }
  EXPECT_EQ(JsonDocument::Parse(std::string(1000, '[')).error().code, Code::kExhausted);
  EXPECT_EQ(JsonDocument::Parse(std::string(JsonDocument::kMaxBytes + 1, ' ')).error().code,
            Code::kExhausted);
}

}  // namespace
}  // namespace gpulens

#include "net/json/json_document.h"

#include <gtest/gtest.h>

#include <string>

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

TEST(JsonDocument, BadInput) {
  for (const char* text : {"", "{", "<html>", "{\"a\":1} x", "{'a':1}", "nul", "\"\xff\"", "[1,]"}) {
    auto document = JsonDocument::Parse(text);
    ASSERT_FALSE(document.ok()) << text;
    EXPECT_EQ(document.error().code, Code::kDataLoss) << text;
  }
  EXPECT_EQ(JsonDocument::Parse(std::string(1000, '[')).error().code, Code::kExhausted);
  EXPECT_EQ(JsonDocument::Parse(std::string(JsonDocument::kMostBytes + 1, ' ')).error().code,
            Code::kExhausted);
}

}  // namespace
}  // namespace gpulens

#include "base/json.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

namespace gpulens {
namespace {

TEST(JsonScanner, ReadsTypedValuesAndSkipsTheRest) {
  JsonScanner json(
      R"( {"a": [1, {"b": null}], "t": "x\"\u00e9\ud83d\ude00\ud800y", "n": -1.5e1, "u": 18446744073709551615,
                       "f": 1.5, "b": true, "z": {"t": "inner"}} )");
  std::string text;
  std::optional<double> number;
  std::optional<uint64_t> whole, fraction;
  std::optional<bool> flag;
  json.Object([&](std::string_view key) {
    if (key == "t") text = json.Text();
    else if (key == "n") number = json.Double();
    else if (key == "u") whole = json.Unsigned();
    else if (key == "f") fraction = json.Unsigned();
    else if (key == "b") flag = json.Bool();
  });
  EXPECT_TRUE(json.Finish().ok());
  EXPECT_EQ(text, "x\"é😀\uFFFDy");
  EXPECT_EQ(number, -15);
  EXPECT_EQ(whole, UINT64_MAX);
  EXPECT_EQ(fraction, std::nullopt);
  EXPECT_EQ(flag, true);
}

TEST(JsonScanner, AnotherTypeYieldsNothing) {
  JsonScanner json(R"({"a": {"b": 1}, "c": [1], "d": "x", "e": null})");
  json.Object([&](std::string_view key) {
    if (key == "a") EXPECT_EQ(json.Text(), "");
    else if (key == "c") EXPECT_EQ(json.Double(), std::nullopt);
    else if (key == "d") json.Object([](std::string_view) { ADD_FAILURE(); });
    else json.Array([] { ADD_FAILURE(); });
  });
  EXPECT_TRUE(json.Finish().ok());
}

TEST(JsonScanner, EscapedKeysOutliveTheirValues) {
  JsonScanner json(R"({"\u0061-long-enough-for-the-heap": "\u0062", "c": "\ud800"})");
  std::string keys;
  json.Object([&](std::string_view key) {
    keys += std::string(json.Text()) + '=';
    keys += key;
    keys += ' ';
  });
  EXPECT_TRUE(json.Finish().ok());
  EXPECT_EQ(keys, "b=a-long-enough-for-the-heap \uFFFD=c ");
}

TEST(JsonScanner, FailuresNameTheFirstPlace) {
  const auto finish = [](std::string_view text) {
    JsonScanner json(text, 4);
    json.Skip();
    return json.Finish();
  };
  EXPECT_EQ(finish("[1, 2] 3").detail, "unexpected data after the end at byte 7");
  EXPECT_EQ(finish("[1 2]").detail, "no comma at byte 3");
  EXPECT_EQ(finish(R"({"a" 1})").detail, "no colon at byte 5");
  EXPECT_EQ(finish("[01]").detail, "no comma at byte 2");
  EXPECT_EQ(finish("[1.]").detail, "no digit at byte 3");
  EXPECT_EQ(finish("[[[[1]]]]").code, Code::kOk);
  EXPECT_EQ(finish("[[[[[1]]]]]").code, Code::kExhausted);
  JsonScanner json("[\"\xff\"]");
  json.Array([&] { EXPECT_EQ(json.Text(), ""); });
  EXPECT_EQ(json.Finish().code, Code::kDataLoss);
}

TEST(JsonScanner, IntegersHaveNoFraction) {
  EXPECT_EQ(JsonInteger<int64_t>("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(JsonInteger<int64_t>("1e3"), 1000);
  EXPECT_EQ(JsonInteger<int32_t>("2147483647.0"), INT32_MAX);
  EXPECT_EQ(JsonInteger<int32_t>("2147483648"), std::nullopt);
  EXPECT_EQ(JsonInteger<uint64_t>("18446744073709551616"), std::nullopt);
  EXPECT_EQ(JsonInteger<uint32_t>("-1"), std::nullopt);
  EXPECT_EQ(JsonInteger<uint32_t>("1.5"), std::nullopt);
}

}  // namespace
}  // namespace gpulens

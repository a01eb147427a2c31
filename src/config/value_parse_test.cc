#include "config/value_parse.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace gpulens {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

Duration Time(std::string_view text) {
  Duration value{-1};
  ValueCheck wrong = ParseTimeValue(text, value);
  EXPECT_FALSE(wrong.has_value()) << text << ": " << wrong->problem;
  return value;
}

template <class T>
std::string Wrong(ValueCheck (*parse)(std::string_view, T&), std::string_view text) {
  T value{};
  ValueCheck wrong = parse(text, value);
  return wrong ? wrong->problem + " | " + wrong->hint : "good";
}

TEST(ValueParseTest, Times) {
  EXPECT_EQ(Time("500ms"), milliseconds(500));
  EXPECT_EQ(Time("1s"), seconds(1));
  EXPECT_EQ(Time("5m"), minutes(5));
  EXPECT_EQ(Time("2h"), hours(2));
  EXPECT_EQ(Time("1d"), hours(24));
  EXPECT_EQ(Time("1.5s"), milliseconds(1500));
  EXPECT_EQ(Time("1h30m"), minutes(90));
  EXPECT_EQ(Time("7us"), Duration(7000));
  EXPECT_EQ(Time("7µs"), Duration(7000));
  EXPECT_EQ(Time("7ns"), Duration(7));
  EXPECT_EQ(Time("0"), Duration::zero());
  EXPECT_EQ(Time("0s"), Duration::zero());
}

TEST(ValueParseTest, WrongTimes) {
  EXPECT_EQ(Wrong(ParseTimeValue, "fast"),
            "expected a duration, got the text \"fast\" | a number and a unit: 500ms 1s 5m 2h");
  EXPECT_EQ(Wrong(ParseTimeValue, "5"), "\"5\" has no unit | a number and a unit: 5ms 5s 5m");
  EXPECT_EQ(Wrong(ParseTimeValue, "5 s"),
            "\"5 s\" has the unknown unit \" s\" | no space is allowed between the number and its unit");
  EXPECT_EQ(Wrong(ParseTimeValue, "1m1m"),
            "expected a duration, got the text \"1m1m\" | bigger units first: 1h30m");
  EXPECT_EQ(Wrong(ParseTimeValue, "300y"), "\"300y\" has the unknown unit \"y\" | units: ms s m h d");
  EXPECT_EQ(Wrong(ParseTimeValue, "106752d"), "\"106752d\" is too long | at most 106751d");
  EXPECT_EQ(Wrong(ParseTimeValue, "1234567890123456"),
            "\"1234567890123456\" has no unit | a number and a unit: 500ms 1s 5m 2h");
  for (const char* text :
       {"", "-5s", "+5s", "s", "1.s", ".5s", " 1s", "1s ", "1e3s", "infs", "0x1s", "1s-1s"}) {
    EXPECT_NE(Wrong(ParseTimeValue, text), "good") << text;
  }
}

TEST(ValueParseTest, Sizes) {
  const std::pair<const char*, int64_t> kGood[] = {{"4096", 4096},      {"0", 0},
                                                   {"64MiB", 64 << 20}, {"10GB", 10'000'000'000},
                                                   {"10kB", 10'000},    {"1.5GiB", 3LL << 29},
                                                   {"7B", 7},           {"9223372036854775807", INT64_MAX},
                                                   {"2TiB", 2LL << 40}};
  for (auto [text, bytes] : kGood) {
    int64_t value = -1;
    EXPECT_FALSE(ParseSizeValue(text, value).has_value()) << text;
    EXPECT_EQ(value, bytes) << text;
  }
  for (const char* text : {"", "64Mi", "64M", "-1", "1 MiB", "1e3", "MiB", "9223372036854775808",
                           "8388608TiB", "1.", "1.5.5MiB", "64mib"}) {
    EXPECT_NE(Wrong(ParseSizeValue, text), "good") << text;
  }
  EXPECT_EQ(Wrong(ParseSizeValue, "64M"),
            "\"64M\" has the unknown unit \"M\" | did you mean MiB?   units: B kB MB GB TB (1000) KiB MiB "
            "GiB TiB (1024)");
}

TEST(ValueParseTest, BoolsAndNumbers) {
  EXPECT_EQ(Wrong(ParseBoolValue, "true"), "good");
  EXPECT_EQ(Wrong(ParseBoolValue, "false"), "good");
  EXPECT_EQ(Wrong(ParseBoolValue, "off"),
            "expected true or false, got the text \"off\" | did you mean false?");
  EXPECT_EQ(Wrong(ParseBoolValue, ""), "expected true or false, got nothing | ");
  EXPECT_EQ(Wrong(ParseIntValue, "-5"), "good");
  EXPECT_EQ(Wrong(ParseIntValue, "5.0"), "expected a whole number, got the text \"5.0\" | like 5");
  EXPECT_EQ(Wrong(ParseDoubleValue, "1e3"), "good");
  for (const char* text : {"nan", "inf", "1e999", "", "0x1", "1,5"}) {
    EXPECT_NE(Wrong(ParseDoubleValue, text), "good") << text;
  }
}

TEST(ValueParseTest, Urls) {
  for (const char* text : {"http://a", "https://a:443/b?c#d", "http://[::1]:9100/metrics",
                           "http://me:pw@h:1/", "http://127.0.0.1", "http://a?x=1"}) {
    EXPECT_FALSE(CheckUrlValue(text).has_value()) << text;
  }
  constexpr std::string_view kSchemes[] = {"grpc", "unix"};
  EXPECT_FALSE(CheckUrlValue("grpc://a:1", kSchemes).has_value());
  EXPECT_EQ(CheckUrlValue("http://a", kSchemes)->hint, "allowed: grpc unix");
  // A wrong URL that holds a password is never repeated.
  ValueCheck wrong = CheckUrlValue("http//me:hunter22@h/");
  ASSERT_TRUE(wrong.has_value());
  EXPECT_EQ(wrong->problem + wrong->hint, "the text is not a URL\":\" is missing here.");
  EXPECT_EQ(wrong->at, 4u);
  for (const char* text : {"", "://", "http", "http:/", "//h", "1http://h", "http://u@", "http://[::1]:x"}) {
    EXPECT_TRUE(CheckUrlValue(text).has_value()) << text;
  }
}

TEST(ValueParseTest, ListenAddresses) {
  struct Row {
    const char *text, *host;
    int port;
    bool loopback;
  };
  constexpr Row kGood[] = {{"127.0.0.1:9091", "127.0.0.1", 9091, true},
                           {"[::1]:1", "::1", 1, true},
                           {"localhost:0", "localhost", 0, true},
                           {":9091", "", 9091, false},
                           {"0.0.0.0:80", "0.0.0.0", 80, false},
                           {"[::]:80", "::", 80, false},
                           {"127.9.9.9:1", "127.9.9.9", 1, true},
                           {"[::ffff:127.0.0.1]:1", "::ffff:127.0.0.1", 1, true},
                           {"[::ffff:8.8.8.8]:1", "::ffff:8.8.8.8", 1, false},
                           {"unix:/run/x", "unix", 0, true}};
  for (const Row& row : kGood) {
    ListenAddress address;
    ValueCheck wrong = ParseListenValue(row.text, address);
    ASSERT_FALSE(wrong.has_value()) << row.text << wrong->problem;
    EXPECT_EQ(address.host, row.host);
    EXPECT_EQ(address.port, row.port);
    EXPECT_EQ(address.loopback, row.loopback) << row.text;
  }
  for (const char* text :
       {"127.1:1", "256.0.0.1:1", "1.2.3.4:-1", "[]:1", "[1.2.3.4]:1", "[::1]9", "a b:1", "*:1"}) {
    ListenAddress address;
    EXPECT_TRUE(ParseListenValue(text, address).has_value()) << text;
  }
}

TEST(ValueParseTest, PrintedValuesReadBack) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20'000; ++i) {
    int64_t number = static_cast<int64_t>(random() >> (1 + random() % 62));
    if (i % 3 == 0) number = number / 1'000'000'000 * 1'000'000'000;
    EXPECT_EQ(Time(FormatTimeValue(Duration(number))).count(), number);
    int64_t size = -1;
    ASSERT_FALSE(ParseSizeValue(FormatSizeValue(number), size).has_value()) << FormatSizeValue(number);
    EXPECT_EQ(size, number);
    double real = std::ldexp(static_cast<double>(number), static_cast<int>(random() % 200) - 100), back = 0;
    ASSERT_FALSE(ParseDoubleValue(FormatDoubleValue(real), back).has_value());
    EXPECT_EQ(back, real);
  }
  EXPECT_EQ(FormatTimeValue(seconds(90)), "90s");
  EXPECT_EQ(FormatTimeValue(hours(48)), "2d");
  EXPECT_EQ(FormatSizeValue(256 << 20), "256MiB");
}

TEST(ConvertTest, SecretsAreMasked) {
  for (const char* key :
       {"password", "bearer_token", "TOKEN", "client_secret", "Authorization", "x-api-key"}) {
    EXPECT_TRUE(IsSecretKey(key)) << key;
  }
  for (const char* key : {"url", "password_file", "name", "series"}) EXPECT_FALSE(IsSecretKey(key)) << key;
  EXPECT_EQ(MaskSecret(""), "");
  EXPECT_EQ(MaskSecret("short"), "…");
  EXPECT_EQ(MaskSecret("0123456789ab3f9a"), "…");
  EXPECT_TRUE(IsSecretMap("headers"));
  EXPECT_FALSE(IsSecretMap("attributes"));
  EXPECT_EQ(MaskUrl("http://me:pw@h/x"), "http://me:…@h/x");
  EXPECT_EQ(MaskUrl("http://h/x@y:z"), "http://h/x@y:z");
  EXPECT_EQ(MaskUrl("http://me@h/x"), "http://me@h/x");
  EXPECT_EQ(MaskUrl("text"), "text");
  EXPECT_EQ(MaskUrl("https://h/x?token=T#f"), "https://h/x?…");
  EXPECT_EQ(MaskUrl("https://h?auth=T"), "https://h?…");
  EXPECT_EQ(MaskUrl("https://h/x?"), "https://h/x?");
  EXPECT_EQ(MaskUrl("https://me:p@q@h:8/services/SECRET?a=b", true), "https://me:…@h:8/…");
  EXPECT_EQ(MaskUrl("https://h/", true), "https://h/");
  EXPECT_EQ(MaskUrl("https://h?SECRET", true), "https://h/…");
}

TEST(ConvertTest, RangesAndTypesHaveWords) {
  EXPECT_EQ(RangeText({.key = "x", .type = OptionType::kInt, .fallback = {}, .help = {}}), "");
  EXPECT_EQ(RangeText({.key = "x", .type = OptionType::kDouble, .fallback = {}, .help = {}, .max = 0.5}),
            "at most 0.5");
  EXPECT_EQ(RangeText({.key = "x", .type = OptionType::kSize, .fallback = {}, .help = {}, .min = 1024}),
            "at least 1KiB");
  for (int type = 0; type <= static_cast<int>(OptionType::kGroups); ++type) {
    EXPECT_NE(TypeName(static_cast<OptionType>(type)), "");
  }
}

}  // namespace
}  // namespace gpulens

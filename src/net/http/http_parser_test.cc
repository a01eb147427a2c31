#include "net/http/http_parser.h"
#include "base/parse.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

using State = HttpParser::State;

constexpr const char* kRequest =
    "POST /a/b?x=1 HTTP/1.1\r\nHost: h\r\nAccept: a;q=0.5\r\nX-Empty:\r\naccept:  b \r\nContent-Length: "
    "4\r\n\r\nbody";

// Feeds `text` so many bytes at a time, as a connection does. The last step.
HttpParser::Step FeedBy(HttpParser& parser, std::string_view text, size_t step) {
  std::string kept;
  HttpParser::Step last;
  while (!text.empty()) {
    kept += text.substr(0, step);
    text.remove_prefix(std::min(step, text.size()));
    last = parser.Feed(kept);
    if (last.state != State::kMore) return last;
    kept.erase(0, last.consumed);
  }
  return last;
}

TEST(HttpParser, AnySplitGivesTheSameRequest) {
  HttpParser parser{HttpLimits()};
  for (size_t step : {1u, 2u, 3u, 7u, 20u, 1000u}) {
    ASSERT_EQ(FeedBy(parser, kRequest, step).state, State::kDone) << step;
    const HttpRequest& request = parser.request();
    EXPECT_EQ(request.method(), "POST");
    EXPECT_EQ(request.target(), "/a/b?x=1");
    EXPECT_EQ(request.path(), "/a/b");
    EXPECT_EQ(request.query(), "x=1");
    EXPECT_EQ(request.body(), "body");
    EXPECT_EQ(request.Header("ACCEPT"), "a;q=0.5");
    EXPECT_EQ(request.JoinedHeader("Accept"), "a;q=0.5, b");
    EXPECT_TRUE(request.HasHeader("x-empty"));
    EXPECT_EQ(request.Header("x-empty"), "");
    EXPECT_FALSE(request.HasHeader("x"));
    EXPECT_EQ(request.field_count(), 5u);
    EXPECT_EQ(request.field(4).name, "Content-Length");
    EXPECT_EQ(request.Parameter("x"), "1");
    EXPECT_EQ(request.Parameter("y"), std::nullopt);
    parser.Reset();
  }
}

TEST(HttpParser, AnySplitOfAChunkedBody) {
  constexpr const char* kHead = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  struct Case {
    const char* chunks;
    const char* body;
  };
  constexpr Case kCases[] = {{"0\r\n\r\n", ""},
                             {"0\r\nA: b\r\n\r\n", ""},
                             {"1\r\na\r\n0\r\n\r\n", "a"},
                             {"2;x=y\r\nab\r\n3\r\ncde\r\n00\r\nT: 1\r\n\r\n", "abcde"}};
  for (const Case& one : kCases) {
    for (size_t step : {1u, 2u, 3u, 4u, 5u, 7u, 1000u}) {
      HttpParser parser{HttpLimits()};
      ASSERT_EQ(FeedBy(parser, std::string(kHead) + one.chunks, step).state, State::kDone)
          << one.chunks << " by " << step;
      EXPECT_EQ(parser.request().body(), one.body);
    }
  }
}

TEST(HttpParser, LeavesTheNextRequest) {
  HttpParser parser{HttpLimits()};
  std::string two = std::string(kRequest) + "GET / HTTP/1.0\r\n\r\n";
  HttpParser::Step step = parser.Feed(two);
  EXPECT_EQ(step.state, State::kDone);
  EXPECT_EQ(step.consumed, std::string_view(kRequest).size());
  parser.Reset();
  EXPECT_EQ(parser.Feed(std::string_view(two).substr(step.consumed)).state, State::kDone);
  EXPECT_EQ(parser.request().version_minor(), 0);
  EXPECT_EQ(parser.request().query(), "");
}

TEST(HttpParser, ForgetsNothingAndKeepsNothing) {
  HttpParser parser{HttpLimits()};
  std::string big = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n" + std::string(60000, 'x');
  ASSERT_EQ(FeedBy(parser, big, 4096).state, State::kDone);
  EXPECT_EQ(parser.request().body().size(), 60000u);
  parser.Reset();
  EXPECT_EQ(parser.Feed("GET / HTTP/1.1\r\nHost: h\r\n\r\n").state, State::kDone);
  EXPECT_EQ(parser.request().body(), "");
}

struct Bad {
  const char* text;
  int status;
};

class HttpParserBad : public ::testing::TestWithParam<Bad> {};

TEST_P(HttpParserBad, IsRejectedHoweverItIsSplit) {
  for (size_t step : {1u, 5u, 1000u}) {
    HttpParser parser{HttpLimits()};
    HttpParser::Step last = FeedBy(parser, GetParam().text, step);
    EXPECT_EQ(last.state, State::kRejected) << GetParam().text << " by " << step;
    EXPECT_EQ(last.status, GetParam().status) << GetParam().text << " by " << step;
    EXPECT_FALSE(last.why.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Named, HttpParserBad,
    ::testing::Values(
        Bad{"\x16\x03\x01\x02\r\n\r\n", 400}, Bad{"G@T / HTTP/1.1\r\n\r\n", 400},
        Bad{"GET  / HTTP/1.1\r\n\r\n", 400}, Bad{"GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505},
        Bad{"GET / HTTP/2.0\r\n\r\n", 505}, Bad{"GET / HTTX/1.1\r\n\r\n", 400},
        Bad{"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        Bad{"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400},
        Bad{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400},
        Bad{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n", 400},
        Bad{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 2\r\n\r\n", 400},
        Bad{"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", 501},
        Bad{"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            400},
        Bad{"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", 400}));

TEST(HttpMessage, SmallThings) {
  EXPECT_EQ(DecodePercent("a%2Fb+c%"), "a/b c%");
  EXPECT_EQ(DecodePercent("%41%4"), "A%4");
  EXPECT_EQ(HttpReason(404), "Not Found");
  EXPECT_EQ(HttpReason(299), "Unknown");
  EXPECT_TRUE(EqualsIgnoringCase("AbC", "aBc"));
  EXPECT_FALSE(EqualsIgnoringCase("ab", "abc"));
  for (int status : {100, 101, 200, 202, 204, 206, 301, 302, 304, 400, 401, 403, 405,
                     406, 408, 413, 414, 415, 417, 426, 429, 431, 500, 501, 503, 505}) {
    EXPECT_NE(HttpReason(status), "Unknown") << status;
  }
  std::string_view date = HttpDate();
  EXPECT_EQ(date.size(), 29u);
  EXPECT_EQ(date[3], ',');
}

TEST(HttpMessageTest, WhoTakesGzip) {
  auto gzip = [](std::string_view accept) { return AcceptsGzip(accept); };
  EXPECT_TRUE(gzip("gzip"));
  EXPECT_TRUE(gzip("deflate, GZIP;q=0.5"));
  EXPECT_TRUE(gzip("*"));
  EXPECT_FALSE(gzip(""));
  EXPECT_FALSE(gzip("gzip;q=0"));
  EXPECT_FALSE(gzip("gzip;q=0, *"));
  EXPECT_FALSE(gzip("deflate, br"));
}

}  // namespace
}  // namespace gpulens

#include "net/message/http_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "base/parse.h"

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

TEST(HttpMessageTest, AcceptsGzipByQuality) {
  auto gzip = [](std::string_view accept) { return AcceptsGzip(accept); };
  EXPECT_TRUE(gzip("gzip"));
  EXPECT_TRUE(gzip("deflate, GZIP;q=0.5"));
  EXPECT_TRUE(gzip("*"));
  EXPECT_FALSE(gzip(""));
  EXPECT_FALSE(gzip("gzip;q=0"));
  EXPECT_FALSE(gzip("gzip;q=0, *"));
  EXPECT_FALSE(gzip("deflate, br"));
}

using ::testing::HasSubstr;
using ResponseState = HttpResponseParser::State;

struct ParsedResponse {
  ResponseState state = ResponseState::kMore;
  size_t consumed = 0;
};

// Feeds all of it, `step` bytes at a time, then ends the connection when nothing is decided.
ParsedResponse Feed(HttpResponseParser& parser, std::string_view all, size_t step = SIZE_MAX) {
  ParsedResponse parsed;
  while (!all.empty() && parsed.state == ResponseState::kMore) {
    size_t used = 0;
    parsed.state = parser.Feed(all.substr(0, std::min(step, all.size())), used);
    parsed.consumed += used;
    all.remove_prefix(used);
  }
  if (parsed.state == ResponseState::kMore) parsed.state = parser.End();
  return parsed;
}

TEST(HttpResponse, ReadsALengthAndKeepsTheConnection) {
  for (size_t step : {size_t{1}, size_t{7}, SIZE_MAX}) {
    HttpResponseParser parser({});
    std::string text =
        "HTTP/1.1 200 OK\r\nContent-Type:  text/plain; version=0.0.4 \r\nCONTENT-LENGTH: "
        "5\r\n\r\nhelloHTTP/1.1";
    ParsedResponse parsed = Feed(parser, text, step);
    EXPECT_EQ(parsed.state, ResponseState::kDone);
    EXPECT_EQ(parsed.consumed, text.size() - 8);
    EXPECT_EQ(parser.body(), "hello");
    EXPECT_EQ(parser.content_type(), "text/plain; version=0.0.4");
    EXPECT_TRUE(parser.keeps_alive());
    EXPECT_FALSE(parser.gzip());
  }
}

TEST(HttpResponse, ReadsChunksWithExtensionsAndTrailers) {
  std::string text =
      "HTTP/1.1 200\r\nTransfer-Encoding: Chunked\r\nContent-Encoding: gzip\r\n\r\n"
      "4;a=b\r\nwiki\r\n05\r\npedia\r\n0\r\nX: y\r\n\r\n";
  for (size_t step : {size_t{1}, size_t{3}, SIZE_MAX}) {
    HttpResponseParser parser({});
    EXPECT_EQ(Feed(parser, text, step).state, ResponseState::kDone);
    EXPECT_EQ(parser.body(), "wikipedia");
    EXPECT_TRUE(parser.gzip());
    EXPECT_TRUE(parser.keeps_alive());
  }
}

TEST(HttpResponse, BodyWithoutLengthEndsWithTheConnection) {
  HttpResponseParser parser({});
  EXPECT_EQ(Feed(parser, "HTTP/1.0 200 OK\n\nall of it").state, ResponseState::kDone)
      << "bare newlines are let pass";
  EXPECT_EQ(parser.body(), "all of it");
  EXPECT_FALSE(parser.keeps_alive());
  EXPECT_EQ(parser.End(), ResponseState::kDone);
}

TEST(HttpResponse, KnowsWhenTheConnectionEnds) {
  auto keeps = [](std::string_view head) {
    HttpResponseParser parser({});
    EXPECT_EQ(Feed(parser, std::string(head) + "Content-Length: 0\r\n\r\n").state, ResponseState::kDone);
    return parser.keeps_alive();
  };
  EXPECT_TRUE(keeps("HTTP/1.1 200 OK\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.1 200 OK\r\nConnection: x, Close\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.0 200 OK\r\n"));
  EXPECT_TRUE(keeps("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n"));
}

TEST(HttpResponse, PassesOverInterimAnswersAndBodilessOnes) {
  HttpResponseParser parser({});
  EXPECT_EQ(
      Feed(parser, "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 204 No\r\nLocation: /x\r\n\r\n").state,
      ResponseState::kDone);
  EXPECT_EQ(parser.status(), 204);
  EXPECT_EQ(parser.location(), "/x");
  std::string kept(1000, 'x');
  const char* memory = kept.data();
  parser.Reset(std::move(kept));
  EXPECT_EQ(Feed(parser, "HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\nabc").state, ResponseState::kDone);
  EXPECT_EQ(parser.body().data(), memory) << "the buffer is used again";
}

TEST(HttpResponse, KeepsWhenToComeAgain) {
  auto field = [](std::string_view fields) {
    HttpResponseParser parser({});
    std::string text = "HTTP/1.1 503 No\r\n" + std::string(fields) + "Content-Length: 0\r\n\r\n";
    for (size_t step : {size_t{1}, SIZE_MAX}) {
      parser.Reset({});
      EXPECT_EQ(Feed(parser, text, step).state, ResponseState::kDone);
    }
    return parser.retry_after();
  };
  EXPECT_EQ(field("retry-AFTER:  120 \r\n"), "120");
  EXPECT_EQ(field("Retry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n"), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(field(""), "");
  EXPECT_EQ(field("Retry-After: \r\n"), "");
  EXPECT_EQ(field("Retry-After: " + std::string(64, '1') + "\r\n"), std::string(64, '1'));
  EXPECT_EQ(field("Retry-After: " + std::string(65, '1') + "\r\n"), "") << "cut it would mean something else";
  EXPECT_EQ(field("Retry-After: 1\r\nRetry-After: 2\r\n"), "2");
  HttpResponseParser parser({});
  EXPECT_EQ(Feed(parser, "HTTP/1.1 103 x\r\nRetry-After: 1\r\n\r\nHTTP/1.1 204 x\r\n\r\n").state,
            ResponseState::kDone);
  EXPECT_EQ(parser.retry_after(), "") << "an interim answer's";
}

TEST(HttpResponse, KeepsTheRequestedFields) {
  HttpResponseParser parser({.keep = "x-count-"});
  for (size_t step : {size_t{1}, SIZE_MAX}) {
    parser.Reset({});
    EXPECT_EQ(Feed(parser,
                   "HTTP/1.1 103 x\r\nX-Count-A: 9\r\n\r\nHTTP/1.1 204 x\r\nX-Count-A:  1 \r\nX-Cou: 2\r\n"
                   "x-COUNT-b: 3\r\nX-Count-Long: " +
                       std::string(1024, 'y') + "\r\nx-count-c:\r\n\r\n",
                   step)
                  .state,
              ResponseState::kDone);
    EXPECT_EQ(parser.kept(), "x-count-a: 1\nx-count-b: 3\nx-count-c: \n");
  }
  parser.Reset({});
  EXPECT_EQ(parser.kept(), "");
}

TEST(HttpResponse, AHeadIsWholeWhateverItsBodyDoes) {
  auto status_counts = [](std::string_view text) {
    HttpResponseParser parser({.head_bytes = 100, .body_bytes = 10});
    EXPECT_GE(Feed(parser, text).state, ResponseState::kTooLarge);
    return parser.head_done();
  };
  EXPECT_TRUE(status_counts("HTTP/1.1 400 x\r\nContent-Length: 11\r\n\r\n"));
  EXPECT_TRUE(status_counts("HTTP/1.1 400 x\r\nContent-Length: 5\r\n\r\nabc"));
  EXPECT_TRUE(status_counts("HTTP/1.1 400 x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"));
  EXPECT_FALSE(status_counts("HTTP/1.1 400 x\r\nA: " + std::string(100, 'x')));
  EXPECT_FALSE(status_counts("HTTP/1.1 400 x\r\nContent-Length: 5\r\n"));
  EXPECT_FALSE(status_counts("HTTP/1.1 400 x\r\nContent-Length: x\r\n\r\n"));
  EXPECT_FALSE(
      status_counts("HTTP/1.1 400 x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"));
  EXPECT_FALSE(status_counts("HTTP/1.1 100 x\r\n\r\n"));
}

struct BadResponse {
  const char *name, *text, *why;
  ResponseState state = ResponseState::kBroken;
};
class HttpResponseBad : public ::testing::TestWithParam<BadResponse> {};

TEST_P(HttpResponseBad, IsRefused) {
  for (size_t step : {size_t{1}, SIZE_MAX}) {
    HttpResponseParser parser({.head_bytes = 500, .body_bytes = 100});
    EXPECT_EQ(Feed(parser, GetParam().text, step).state, GetParam().state);
    EXPECT_THAT(parser.why(), HasSubstr(GetParam().why));
    EXPECT_EQ(parser.End(), GetParam().state) << "stays bad";
  }
}

constexpr ResponseState kBig = ResponseState::kTooLarge;
#define HEAD "HTTP/1.1 200 OK\r\n"
#define X50 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
INSTANTIATE_TEST_SUITE_P(
    Each, HttpResponseBad,
    ::testing::Values(
        BadResponse{"empty", "", "without a response"},
        BadResponse{"ssh", "SSH-2.0-OpenSSH_9.2\r\n", "\"SSH-2.0"},
        BadResponse{"http2", "HTTP/2 200\r\n", "not an HTTP/1.1"},
        BadResponse{"no_code", "HTTP/1.1 abc\r\n", "not an HTTP/1.1"},
        BadResponse{"code_999", "HTTP/1.1 999 x\r\n", "not an HTTP/1.1"},
        BadResponse{"long_code", "HTTP/1.1 2000\r\n", "not an HTTP/1.1"},
        BadResponse{"switch", "HTTP/1.1 101 x\r\n\r\n", "switch"},
        BadResponse{"cut_head", HEAD "A: b", "truncated in its header"},
        BadResponse{"no_colon", HEAD "abc\r\n", "invalid field"},
        BadResponse{"blank_name", HEAD "a b: c\r\n", "invalid field"},
        BadResponse{"folded", HEAD "A: b\r\n  c\r\n", "invalid field"},
        BadResponse{"no_name", HEAD ": c\r\n", "invalid field"},
        BadResponse{"lengths", HEAD "Content-Length: 1\r\nContent-Length: 2\r\n", "two different lengths"},
        BadResponse{"minus", HEAD "Content-Length: -1\r\n", "not a number"},
        BadResponse{"too_long_number", HEAD "Content-Length: 99999999999999999999\r\n", "not a number"},
        BadResponse{"big", HEAD "Content-Length: 101\r\n\r\n", "larger than 100 bytes", kBig},
        BadResponse{"cut", HEAD "Content-Length: 10\r\n\r\nabc", "3 of 10 bytes"},
        BadResponse{"both", HEAD "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "ambiguous"},
        BadResponse{"chunked_10", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "ambiguous"},
        BadResponse{"codings", HEAD "Transfer-Encoding: gzip, chunked\r\n", "\"gzip, chunked\""},
        BadResponse{"brotli", HEAD "Content-Encoding: br\r\n", "\"br\""},
        BadResponse{"chunk_size", HEAD "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "size of a chunk"},
        BadResponse{"chunk_long", HEAD "Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
                    "longer than its stated size"},
        BadResponse{"chunk_big", HEAD "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
                    "larger than 100", kBig},
        BadResponse{"chunks_big",
                    HEAD "Transfer-Encoding: chunked\r\n\r\n32\r\n" X50 "\r\n32\r\n" X50 "\r\n1\r\nx\r\n",
                    "larger than 100", kBig},
        BadResponse{"chunk_cut", HEAD "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
                    "last chunk is missing"},
        BadResponse{"head_big", HEAD "A: " X50 X50 X50 X50 X50 X50 X50 X50 X50 X50 "\r\n\r\n",
                    "header of the response is larger", kBig},
        BadResponse{"interim_endless",
                    "HTTP/1.1 100 a\r\n\r\nHTTP/1.1 100 a\r\n\r\n" HEAD
                    "A: " X50 X50 X50 X50 X50 X50 X50 X50 X50 "\r\n\r\n",
                    "header of the response is larger", kBig},
        BadResponse{"close_big", HEAD "\r\n" X50 X50 "x", "larger than 100", kBig}),
    [](const auto& each) { return each.param.name; });

TEST(HttpResponse, EndlessChunkLinesAndTrailersAreBounded) {
  for (std::string start : {"5;", "0\r\nA: "}) {
    HttpResponseParser parser({.head_bytes = 2000, .body_bytes = 100});
    std::string text = HEAD "Transfer-Encoding: chunked\r\n\r\n" + start + std::string(5000, 'x');
    EXPECT_EQ(Feed(parser, text).state, ResponseState::kTooLarge) << start;
  }
  HttpResponseParser parser({});
  EXPECT_EQ(Feed(parser, std::string_view(HEAD "A: b\0c\r\n", 25)).state, ResponseState::kBroken);
}

}  // namespace

}  // namespace gpulens

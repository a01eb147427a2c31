#include "net/client/http_response.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

namespace gpulens {
namespace {

using ::testing::HasSubstr;
using State = HttpResponseParser::State;

struct Parsed {
  State state = State::kMore;
  size_t consumed = 0;
};

// Feeds all of it, `step` bytes at a time, then ends the connection when nothing is decided.
Parsed Feed(HttpResponseParser& parser, std::string_view all, size_t step = SIZE_MAX) {
  Parsed parsed;
  while (!all.empty() && parsed.state == State::kMore) {
    size_t used = 0;
    parsed.state = parser.Feed(all.substr(0, std::min(step, all.size())), used);
    parsed.consumed += used;
    all.remove_prefix(used);
  }
  if (parsed.state == State::kMore) parsed.state = parser.End();
  return parsed;
}

TEST(HttpResponse, ReadsALengthAndKeepsTheConnection) {
  for (size_t step : {size_t{1}, size_t{7}, SIZE_MAX}) {
    HttpResponseParser parser({});
    std::string text =
        "HTTP/1.1 200 OK\r\nContent-Type:  text/plain; version=0.0.4 \r\nCONTENT-LENGTH: "
        "5\r\n\r\nhelloHTTP/1.1";
    Parsed parsed = Feed(parser, text, step);
    EXPECT_EQ(parsed.state, State::kDone);
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
    EXPECT_EQ(Feed(parser, text, step).state, State::kDone);
    EXPECT_EQ(parser.body(), "wikipedia");
    EXPECT_TRUE(parser.gzip());
    EXPECT_TRUE(parser.keeps_alive());
  }
}

TEST(HttpResponse, BodyWithoutLengthEndsWithTheConnection) {
  HttpResponseParser parser({});
  EXPECT_EQ(Feed(parser, "HTTP/1.0 200 OK\n\nall of it").state, State::kDone) << "bare newlines are let pass";
  EXPECT_EQ(parser.body(), "all of it");
  EXPECT_FALSE(parser.keeps_alive());
  EXPECT_EQ(parser.End(), State::kDone);
}

TEST(HttpResponse, KnowsWhenTheConnectionEnds) {
  auto keeps = [](std::string_view head) {
    HttpResponseParser parser({});
    EXPECT_EQ(Feed(parser, std::string(head) + "Content-Length: 0\r\n\r\n").state, State::kDone);
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
      State::kDone);
  EXPECT_EQ(parser.status(), 204);
  EXPECT_EQ(parser.location(), "/x");
  std::string kept(1000, 'x');
  const char* memory = kept.data();
  parser.Reset(std::move(kept));
  EXPECT_EQ(Feed(parser, "HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\nabc").state, State::kDone);
  EXPECT_EQ(parser.body().data(), memory) << "the buffer is used again";
}

TEST(HttpResponse, KeepsWhenToComeAgain) {
  auto field = [](std::string_view fields) {
    HttpResponseParser parser({});
    std::string text = "HTTP/1.1 503 No\r\n" + std::string(fields) + "Content-Length: 0\r\n\r\n";
    for (size_t step : {size_t{1}, SIZE_MAX}) {
      parser.Reset({});
      EXPECT_EQ(Feed(parser, text, step).state, State::kDone);
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
            State::kDone);
  EXPECT_EQ(parser.retry_after(), "") << "an interim answer's";
}

TEST(HttpResponse, KeepsTheFieldsThatAreAskedFor) {
  HttpResponseParser parser({.keep = "x-count-"});
  for (size_t step : {size_t{1}, SIZE_MAX}) {
    parser.Reset({});
    EXPECT_EQ(Feed(parser,
                   "HTTP/1.1 103 x\r\nX-Count-A: 9\r\n\r\nHTTP/1.1 204 x\r\nX-Count-A:  1 \r\nX-Cou: 2\r\n"
                   "x-COUNT-b: 3\r\nX-Count-Long: " +
                       std::string(1024, 'y') + "\r\nx-count-c:\r\n\r\n",
                   step)
                  .state,
              State::kDone);
    EXPECT_EQ(parser.kept(), "x-count-a: 1\nx-count-b: 3\nx-count-c: \n");
  }
  parser.Reset({});
  EXPECT_EQ(parser.kept(), "");
}

TEST(HttpResponse, AHeadIsWholeWhateverItsBodyDoes) {
  auto status_counts = [](std::string_view text) {
    HttpResponseParser parser({.head_bytes = 100, .body_bytes = 10});
    EXPECT_GE(Feed(parser, text).state, State::kTooLarge);
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
  State state = State::kBroken;
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

constexpr State kBig = State::kTooLarge;
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
    EXPECT_EQ(Feed(parser, text).state, State::kTooLarge) << start;
  }
  HttpResponseParser parser({});
  EXPECT_EQ(Feed(parser, std::string_view(HEAD "A: b\0c\r\n", 25)).state, State::kBroken);
}

}  // namespace
}  // namespace gpulens

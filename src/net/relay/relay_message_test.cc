#include "net/relay/relay_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "net/relay/address_range.h"

namespace gpulens {
namespace {

using State = RelayHeadStep::State;
using Kind = RelayHead::Kind;
using namespace std::string_literals;

RelayHeadStep Request(const std::string& text, RelayHead& head) { return ParseRequestHead(text, {}, head); }

TEST(RelayRequestHead, KeepsTheBytesOfEachField) {
  RelayHead head;
  const std::string text =
      "POST /v1/chat?x=%20 HTTP/1.1\r\nhOsT: a:80\r\nX-Odd:  two  blanks \t\r\nEmpty:\r\nContent-Length: "
      "5\r\n\r\nhello";
  const RelayHeadStep step = Request(text, head);
  ASSERT_EQ(step.state, State::kDone);
  EXPECT_EQ(step.consumed, text.size() - 5);
  EXPECT_EQ(head.method(), "POST");
  EXPECT_EQ(head.target(), "/v1/chat?x=%20");
  ASSERT_EQ(head.field_count(), 4u);
  EXPECT_EQ(head.field(0).kind, Kind::kHost);
  EXPECT_EQ(head.field(1).line, "X-Odd:  two  blanks \t\r\n");
  EXPECT_EQ(head.field(1).value, "two  blanks");
  EXPECT_EQ(head.field(2).value, "");
  EXPECT_EQ(head.framing(), RelayFraming::kLength);
  EXPECT_EQ(head.length(), 5u);
  EXPECT_EQ(head.Header("CONTENT-LENGTH"), "5");
  EXPECT_TRUE(head.keeps_alive());
}

TEST(RelayRequestHead, WaitsForTheEndAtEveryByte) {
  const std::string text = "GET / HTTP/1.1\r\nHost: a\r\nTE: deflate, trailers;q=1\r\n\r\n";
  RelayHead head;
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_EQ(Request(text.substr(0, size), head).state, State::kMore) << size;
  }
  EXPECT_EQ(Request(text, head).state, State::kDone);
  EXPECT_TRUE(head.takes_trailers());
}

TEST(RelayRequestHead, MarksWhatIsForOneConnection) {
  RelayHead head;
  const std::string text =
      "GET / HTTP/1.1\r\nHost: a\r\nConnection: close, X-Named , host,content-length,transfer-encoding\r\n"
      "x-named: 1\r\nKeep-Alive: 5\r\nProxy-Authorization: x\r\nTrailer: y\r\nUpgrade: websocket\r\n"
      "X-Forwarded-For: 1.2.3.4\r\nForwarded: for=a\r\nExpect: 100-continue\r\nPlain: z\r\n\r\n";
  ASSERT_EQ(Request(text, head).state, State::kDone);
  std::vector<Kind> kinds;
  for (size_t i = 0; i < head.field_count(); ++i) kinds.push_back(head.field(i).kind);
  EXPECT_THAT(kinds, ::testing::ElementsAre(Kind::kHost, Kind::kHop, Kind::kHop, Kind::kHop, Kind::kHop,
                                            Kind::kHop, Kind::kHop, Kind::kForwarded, Kind::kForwarded,
                                            Kind::kExpect, Kind::kPlain));
  EXPECT_FALSE(head.keeps_alive());
  EXPECT_TRUE(head.expects_continue());
}

struct BadHead {
  const char* name;
  std::string text;
  int status;
};

// What two servers behind each other could read differently, and what no server should take.
const std::vector<BadHead>& BadRequests() {
  static const std::string h = "Host: a\r\n";
  static const std::vector<BadHead> kAll = {
      {"length and chunks",
       "POST / HTTP/1.1\r\n" + h + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"chunks and length",
       "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 400},
      {"two lengths", "POST / HTTP/1.1\r\n" + h + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400},
      {"the same length twice", "POST / HTTP/1.1\r\n" + h + "Content-Length: 5\r\ncontent-length: 5\r\n\r\n",
       400},
      {"a list of lengths", "POST / HTTP/1.1\r\n" + h + "Content-Length: 5, 5\r\n\r\n", 400},
      {"a signed length", "POST / HTTP/1.1\r\n" + h + "Content-Length: +5\r\n\r\n", 400},
      {"a negative length", "POST / HTTP/1.1\r\n" + h + "Content-Length: -5\r\n\r\n", 400},
      {"a hexadecimal length", "POST / HTTP/1.1\r\n" + h + "Content-Length: 0x5\r\n\r\n", 400},
      {"no length", "POST / HTTP/1.1\r\n" + h + "Content-Length:\r\n\r\n", 400},
      {"a length beyond numbers", "POST / HTTP/1.1\r\n" + h + "Content-Length: 99999999999999999999\r\n\r\n",
       400},
      {"chunked twice",
       "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"chunked in a list", "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
      {"an unknown coding", "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: xchunked\r\n\r\n", 501},
      {"identity", "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: identity\r\n\r\n", 501},
      {"a coding with a vertical tab", "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: \vchunked\r\n\r\n",
       400},
      {"chunks in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"a blank before the colon", "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding : chunked\r\n\r\n", 400},
      {"a folded field", "GET / HTTP/1.1\r\n" + h + "X: a\r\n b\r\n\r\n", 400},
      {"a folded first field", "GET / HTTP/1.1\r\n " + h + "\r\n\r\n", 400},
      {"a tab at the front", "GET / HTTP/1.1\r\n\tX: a\r\n" + h + "\r\n", 400},
      {"NUL in a value", "GET / HTTP/1.1\r\n" + h + "X: a\0b\r\n\r\n"s, 400},
      {"NUL in a name", "GET / HTTP/1.1\r\n" + h + "X\0: a\r\n\r\n"s, 400},
      {"CR in a value", "GET / HTTP/1.1\r\n" + h + "X: a\rY: b\r\n\r\n", 400},
      {"LF ends a line", "GET / HTTP/1.1\r\n" + h + "X: a\nY: b\r\n\r\n", 400},
      {"LF alone ends the head", "GET / HTTP/1.1\nHost: a\n\n", 400},
      {"CR in the request line", "GET /\r HTTP/1.1\r\n" + h + "\r\n", 400},
      {"a length with an underscore", "POST / HTTP/1.1\r\n" + h + "Content_Length: 5\r\n\r\n", 400},
      {"a coding with an underscore", "POST / HTTP/1.1\r\n" + h + "transfer_encoding: chunked\r\n\r\n", 400},
      {"a hop with an underscore", "POST / HTTP/1.1\r\n" + h + "Proxy_Authorization: a\r\n\r\n", 400},
      {"no name", "GET / HTTP/1.1\r\n" + h + ": a\r\n\r\n", 400},
      {"no colon", "GET / HTTP/1.1\r\n" + h + "X\r\n\r\n", 400},
      {"no Host", "GET / HTTP/1.1\r\n\r\n", 400},
      {"two Hosts", "GET / HTTP/1.1\r\n" + h + h + "\r\n", 400},
      {"a Host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
      {"an absolute URL", "GET http://other/ HTTP/1.1\r\n" + h + "\r\n", 400},
      {"a URL without scheme", "GET other:80 HTTP/1.1\r\n" + h + "\r\n", 400},
      {"a star", "OPTIONS * HTTP/1.1\r\n" + h + "\r\n", 400},
      {"CONNECT", "CONNECT other:443 HTTP/1.1\r\n" + h + "\r\n", 501},
      {"TRACE", "TRACE / HTTP/1.1\r\n" + h + "\r\n", 501},
      {"no target", "GET  HTTP/1.1\r\n" + h + "\r\n", 400},
      {"two blanks", "GET  / HTTP/1.1\r\n" + h + "\r\n", 400},
      {"a blank in the target", "GET /a b HTTP/1.1\r\n" + h + "\r\n", 400},
      {"a fragment", "GET /a#b HTTP/1.1\r\n" + h + "\r\n", 400},
      {"no version", "GET /\r\n" + h + "\r\n", 400},
      {"a word as version", "GET / HTTP/x\r\n" + h + "\r\n", 400},
      {"HTTP/2.0", "GET / HTTP/2.0\r\n" + h + "\r\n", 505},
      {"HTTP/0.9", "GET / HTTP/0.9\r\n" + h + "\r\n", 505},
      {"another expectation", "POST / HTTP/1.1\r\n" + h + "Expect: magic\r\n\r\n", 417},
      {"a long URL", "GET /" + std::string(9000, 'a') + " HTTP/1.1\r\n" + h + "\r\n", 414},
      {"a URL without end", "GET /" + std::string(9000, 'a'), 414},
      {"many fields",
       "GET / HTTP/1.1\r\n" + h +
           [] {
             std::string many;
             for (int i = 0; i < 201; ++i) many += "X: a\r\n";
             return many;
           }() +
           "\r\n",
       431},
      {"large fields", "GET / HTTP/1.1\r\n" + h + "X: " + std::string(40'000, 'a') + "\r\n\r\n", 431},
      {"fields without end", "GET / HTTP/1.1\r\n" + h + "X: " + std::string(40'000, 'a'), 431},
      {"a blank at the front", " GET / HTTP/1.1\r\n" + h + "\r\n", 400},
  };
  return kAll;
}

TEST(RelayRequestHead, RefusesWhatOthersMayReadDifferently) {
  for (const BadHead& bad : BadRequests()) {
    RelayHead head;
    const RelayHeadStep step = Request(bad.text, head);
    EXPECT_EQ(step.state, State::kBad) << bad.name;
    EXPECT_EQ(step.status, bad.status) << bad.name << ": " << step.why;
    EXPECT_FALSE(step.why.empty()) << bad.name;
  }
}

TEST(RelayRequestHead, LetsAnEmptyLinePass) {
  RelayHead head;
  EXPECT_EQ(Request("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", head).state, State::kDone);
  EXPECT_EQ(Request("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", head).state, State::kBad);
}

TEST(RelayAnswerHead, ReadsStatusAndFraming) {
  RelayHead head;
  const auto parse = [&head](const std::string& text) { return ParseAnswerHead(text, {}, head); };
  ASSERT_EQ(parse("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n").state, State::kDone);
  EXPECT_EQ(head.framing(), RelayFraming::kChunked);
  EXPECT_EQ(head.status_and_reason(), "200 OK");
  ASSERT_EQ(parse("HTTP/1.1 429\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n").state, State::kDone);
  EXPECT_EQ(head.length(), 3u);
  EXPECT_EQ(head.status(), 429);
  ASSERT_EQ(parse("HTTP/1.0 200 OK\r\n\r\n").state, State::kDone);
  EXPECT_EQ(head.framing(), RelayFraming::kUntilClose);
  EXPECT_FALSE(head.keeps_alive());
  for (const char* bad :
       {"HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/2 200 OK\r\n\r\n", "garbage\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
        "HTTP/1.1 200 OK\nA: b\n\n", "HTTP/1.1 200 O\x01K\r\n\r\n", "HTTP/1.1 600 X\r\n\r\n"}) {
    EXPECT_EQ(parse(bad).state, State::kBad) << bad;
    EXPECT_EQ(parse(bad).status, 502) << bad;
  }
}

struct Walked {
  std::string payload, trailers;
  RelayBodyWalk::State state = RelayBodyWalk::State::kMore;
  size_t consumed = 0;
};

Walked Walk(RelayFraming framing, uint64_t length, std::string bytes, size_t step) {
  RelayBodyWalk walk;
  walk.Begin(framing, length);
  Walked out;
  for (size_t at = 0; at < bytes.size() && out.state == RelayBodyWalk::State::kMore; at += step) {
    std::string part = bytes.substr(at, step);
    const RelayBodyWalk::Step done = walk.Take(part);
    out.payload += part.substr(0, done.payload);
    out.consumed += done.consumed;
    out.state = done.state;
  }
  out.trailers = walk.trailers();
  return out;
}

TEST(RelayBodyWalk, FindsThePayloadInPiecesOfAnySize) {
  const std::string chunks = "5\r\nhello\r\n00A;name=\"v\"\r\n0123456789\r\n0\r\nA: b\r\nC: d\r\n\r\nNEXT";
  for (size_t step = 1; step <= chunks.size(); ++step) {
    const Walked walked = Walk(RelayFraming::kChunked, 0, chunks, step);
    EXPECT_EQ(walked.state, RelayBodyWalk::State::kDone) << step;
    EXPECT_EQ(walked.payload, "hello0123456789") << step;
    EXPECT_EQ(walked.trailers, "A: b\r\nC: d\r\n") << step;
    EXPECT_EQ(walked.consumed, chunks.size() - 4) << step;
    EXPECT_EQ(Walk(RelayFraming::kLength, 5, chunks, step).payload, "5\r\nhe") << step;
  }
}

TEST(RelayBodyWalk, RefusesDamagedChunks) {
  const std::pair<const char*, std::string> bad[] = {
      {"no size", "\r\nhello\r\n"},
      {"a word", "g\r\nhello"},
      {"a sign", "+5\r\nhello\r\n"},
      {"a prefix", "0x5\r\nhello\r\n"},
      {"a blank", "5 \r\nhello\r\n"},
      {"a negative size", "-5\r\nhello"},
      {"a size beyond numbers", "10000000000000000\r\nhello"},
      {"LF after the size", "5\nhello\r\n"},
      {"CR alone after the size", "5\rhello"},
      {"LF in the extension", "5;a\nhello\r\n"},
      {"NUL in the extension", "5;a\0\r\nhello\r\n"s},
      {"a long extension", "5;" + std::string(300, 'a') + "\r\nhello\r\n"},
      {"more than the size", "5\r\nhello!\r\n"},
      {"no CR after the data", "5\r\nhello\n0\r\n\r\n"},
      {"a trailer that is none", "0\r\nA\r\n\r\n"},
      {"a folded trailer", "0\r\n A: b\r\n\r\n"},
      {"LF after a trailer", "0\r\nA: b\n\r\n"},
      {"endless trailers", "0\r\nA: " + std::string(9000, 'a')},
  };
  for (const auto& [name, text] : bad) {
    for (size_t step : {size_t{1}, text.size()}) {
      const Walked walked = Walk(RelayFraming::kChunked, 0, text, step);
      EXPECT_EQ(walked.state, RelayBodyWalk::State::kBad) << name;
    }
  }
}

TEST(RelayBodyWalk, KnowsWhetherTheEndOfTheConnectionIsTheEnd) {
  RelayBodyWalk walk;
  walk.Begin(RelayFraming::kUntilClose, 0);
  EXPECT_EQ(walk.End(), RelayBodyWalk::State::kDone);
  walk.Begin(RelayFraming::kLength, 3);
  EXPECT_EQ(walk.End(), RelayBodyWalk::State::kBad);
  walk.Begin(RelayFraming::kChunked, 0);
  EXPECT_EQ(walk.End(), RelayBodyWalk::State::kBad);
  walk.Begin(RelayFraming::kNone, 0);
  EXPECT_TRUE(walk.done());
}

TEST(RelayTrailers, LeavesOutWhatFramesOrRoutes) {
  std::string out;
  AppendPassedTrailers(
      out, "A: b\r\nContent-Length: 5\r\nTransfer-Encoding: x\r\nHost: y\r\nConnection: z\r\nC: d\r\n");
  EXPECT_EQ(out, "A: b\r\nC: d\r\n");
}

TEST(AddressRange, ContainsByBits) {
  const auto contains = [](const char* range, const char* address) {
    return ParseAddressRange(range)->Contains(*ParseIp(address));
  };
  EXPECT_TRUE(contains("10.0.0.0/8", "10.255.0.1"));
  EXPECT_FALSE(contains("10.0.0.0/8", "11.0.0.1"));
  EXPECT_TRUE(contains("10.0.0.0/8", "::ffff:10.1.2.3"));
  EXPECT_TRUE(contains("192.168.1.128/25", "192.168.1.200"));
  EXPECT_FALSE(contains("192.168.1.128/25", "192.168.1.100"));
  EXPECT_TRUE(contains("fd00::/8", "fdff::1"));
  EXPECT_TRUE(contains("127.0.0.1", "127.0.0.1"));
  EXPECT_FALSE(contains("127.0.0.1", "127.0.0.2"));
  EXPECT_TRUE(contains("0.0.0.0/0", "9.9.9.9"));
  for (const char* bad : {"", "a", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "::/129"})
    EXPECT_FALSE(ParseAddressRange(bad).ok()) << bad;
}

TEST(AddressRange, KnowsMetadataAddresses) {
  for (const char* yes :
       {"169.254.169.254", "169.254.0.1", "::ffff:169.254.169.254", "64:ff9b::169.254.169.254",
        "2002:a9fe:a9fe::1", "::169.254.169.254", "fe80::1", "febf::1", "fd00:ec2::254", "fd00:ec2::23",
        "fd20:ce::254", "100.100.100.200", "192.0.0.192", "168.63.129.16", "64:ff9b::6464:64c8"})
    EXPECT_TRUE(IsMetadataAddress(*ParseIp(yes))) << yes;
  for (const char* no :
       {"169.253.0.1", "127.0.0.1", "10.0.0.1", "fec0::1", "fd00:ec2::253", "::1", "100.100.100.201",
        "64:ff9b::8.8.8.8", "64:ff9c::169.254.169.254", "2002:a9fd:a9fe::1", "2001:db8::a9fe:a9fe"})
    EXPECT_FALSE(IsMetadataAddress(*ParseIp(no))) << no;
}

}  // namespace
}  // namespace gpulens

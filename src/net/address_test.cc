#include "net/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpulens {
namespace {

using ::testing::HasSubstr;

std::string Parsed(std::string_view text) {
  auto parsed = ParseListenAddress(text);
  return parsed ? parsed->ToString() : parsed.error().detail;
}

TEST(ParseListenAddress, TakesWhatPeopleWrite) {
  EXPECT_EQ(Parsed("127.0.0.1:9091"), "127.0.0.1:9091");
  EXPECT_EQ(Parsed("[::1]:9091"), "[::1]:9091");
  EXPECT_EQ(Parsed("localhost:0"), "127.0.0.1:0");
  EXPECT_EQ(Parsed("0.0.0.0:65535"), "0.0.0.0:65535");
  EXPECT_EQ(Parsed(":9091"), "[::]:9091");
  EXPECT_TRUE(ParseListenAddress(":9091")->any_family);
  EXPECT_FALSE(ParseListenAddress("[::]:9091")->any_family);
  EXPECT_EQ(Parsed("unix:/run/x.sock"), "unix:/run/x.sock");
  EXPECT_EQ(ParseListenAddress("unix:/run/x.sock")->Host(), "/run/x.sock");
}

TEST(ParseListenAddress, SaysWhatIsWrong) {
  EXPECT_THAT(Parsed("9091"), HasSubstr("the port is missing; write HOST:PORT"));
  EXPECT_THAT(Parsed("127.0.0.1:"), HasSubstr("not a number from 0 to 65535"));
  EXPECT_THAT(Parsed("127.0.0.1:65536"), HasSubstr("not a number from 0 to 65535"));
  EXPECT_THAT(Parsed("127.0.0.1:+1"), HasSubstr("not a number"));
  EXPECT_THAT(Parsed("::1:9091"), HasSubstr("needs brackets, as in [::1]:9091"));
  EXPECT_THAT(Parsed("node1:9091"), HasSubstr("\"node1\" is not an IP address"));
  EXPECT_THAT(Parsed("[::1:9091"), HasSubstr("is not an IP address"));
  EXPECT_THAT(Parsed("[127.0.0.1]:1"), HasSubstr("is not an IP address"));
  EXPECT_THAT(Parsed("unix:x.sock"), HasSubstr("absolute path"));
  EXPECT_THAT(Parsed("unix:"), HasSubstr("absolute path"));
  EXPECT_THAT(Parsed("unix:/" + std::string(120, 'x')), HasSubstr("107 bytes"));
  EXPECT_EQ(ParseListenAddress("x").error().code, Code::kInvalidArgument);
  EXPECT_THAT(Parsed("\x1b[31m:1"), HasSubstr("\\x1b"));
}

TEST(Endpoint, Loopback) {
  for (const char* text : {"127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "unix:/x"}) {
    EXPECT_TRUE(ParseListenAddress(text)->IsLoopback()) << text;
  }
  for (const char* text : {"0.0.0.0:1", ":1", "[::]:1", "10.0.0.1:1", "[fe80::1]:1", "[::ffff:10.0.0.1]:1"}) {
    EXPECT_FALSE(ParseListenAddress(text)->IsLoopback()) << text;
  }
  EXPECT_FALSE(Endpoint().IsLoopback());
  for (const char* host : {"localhost", "LocalHost", "a.localhost", "127.0.0.1", "[::1]", "::1"}) {
    EXPECT_TRUE(IsLoopbackHost(host)) << host;
  }
  for (const char* host : {"", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1"}) {
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
  }
}

TEST(Endpoint, ThereAndBack) {
  for (const char* text : {"127.0.0.1:9091", "[2001:db8::7]:80", "unix:/run/x.sock"}) {
    Endpoint endpoint = *ParseListenAddress(text);
    sockaddr_storage address{};
    socklen_t size = endpoint.ToSockaddr(address);
    ASSERT_GT(size, 0u);
    EXPECT_EQ(Endpoint::FromSockaddr(address, size), endpoint);
  }
  sockaddr_storage none{};
  EXPECT_EQ(Endpoint().ToSockaddr(none), 0u);
  EXPECT_EQ(Endpoint::FromSockaddr(none, sizeof(none)), Endpoint());
  EXPECT_EQ(Endpoint().ToString(), "(none)");
  EXPECT_EQ(Endpoint().Host(), "");
}

}  // namespace
}  // namespace gpulens

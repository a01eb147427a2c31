#include "net/message/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpulens {
namespace {

using ::testing::HasSubstr;

std::string Parsed(std::string_view text) {
  auto parsed = ParseListenAddress(text);
  return parsed ? parsed->ToString() : parsed.error().detail;
}

TEST(ParseListenAddress, AcceptsTheUsualForms) {
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

TEST(ParseListenAddress, ErrorsNameTheCause) {
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

using ::testing::HasSubstr;

TEST(HttpUrl, HasItsParts) {
  auto url = ParseHttpUrl("http://10.0.0.7:9100/metrics?a=b#frag");
  ASSERT_TRUE(url.ok());
  EXPECT_FALSE(url->tls);
  EXPECT_EQ(url->host, "10.0.0.7");
  EXPECT_EQ(url->port, 9100);
  EXPECT_EQ(url->target, "/metrics?a=b");
  EXPECT_EQ(url->ToString(), "http://10.0.0.7:9100/metrics?a=b");
  EXPECT_EQ(url->Authority(), "10.0.0.7:9100");
}

TEST(HttpUrl, KnowsSchemesPortsAndBareHosts) {
  auto url = ParseHttpUrl("https://node");
  ASSERT_TRUE(url.ok());
  EXPECT_TRUE(url->tls);
  EXPECT_EQ(url->port, 443);
  EXPECT_EQ(url->target, "/");
  EXPECT_FALSE(url->has_path);
  EXPECT_EQ(url->ToString(), "https://node");
  EXPECT_EQ(ParseHttpUrl("http://node?x=1")->target, "/?x=1");
  EXPECT_EQ(ParseHttpUrl("http://node/")->ToString(), "http://node/");
  EXPECT_EQ(ParseHttpUrl("http://node:80/")->Authority(), "node");
}

TEST(HttpUrl, TakesIpv6AndUserInfo) {
  auto url = ParseHttpUrl("http://me:p%40ss%zz@[::1]:9100/m");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->host, "::1");
  EXPECT_EQ(url->user, "me");
  EXPECT_EQ(url->password, "p@ss%zz");
  EXPECT_EQ(url->Authority(), "[::1]:9100");
  EXPECT_EQ(url->ToString(), "http://[::1]:9100/m") << "no secret is printed";
}

TEST(HttpUrl, ShownWithoutSecrets) {
  auto shown = [](const char* text) { return ParseHttpUrl(text)->Shown(); };
  EXPECT_EQ(shown("http://me:pw@node:9100/metrics"), "http://node:9100/metrics");
  EXPECT_EQ(shown("http://node/metrics?token=SECRET"), "http://node/metrics?…");
  EXPECT_EQ(shown("http://node?token=SECRET"), "http://node/?…");
  EXPECT_EQ(shown("http://node/x?"), "http://node/x?");
  EXPECT_EQ(ParseHttpUrl("https://hooks.example/services/SECRET?a=b")->Origin(), "https://hooks.example");
  EXPECT_EQ(ParseHttpUrl("http://[::1]:9100/x")->Origin(), "http://[::1]:9100");
}

TEST(HttpUrl, RejectsInvalidUrls) {
  struct Case {
    const char *text, *why;
  };
  for (Case c : {Case{"ftp://x/", "http://"},
                 {"http://", "no host"},
                 {"http://:80/", "no host"},
                 {"http://x:0/", "1 to 65535"},
                 {"http://x:99999/", "1 to 65535"},
                 {"http://x y/", "blank"},
                 {"http://x/\r\nHost: y", "control"},
                 {"http://[::1/", "]"},
                 {"http://[1.2.3.4]/", "IPv6"},
                 {"http://[::1]9/", "port"}}) {
    auto url = ParseHttpUrl(c.text);
    ASSERT_FALSE(url.ok()) << c.text;
    EXPECT_THAT(url.error().detail, HasSubstr(c.why));
  }
  EXPECT_FALSE(ParseHttpUrl("http://" + std::string(9000, 'a')).ok());
}

}  // namespace

}  // namespace gpulens

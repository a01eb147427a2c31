#include "net/client/http_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpulens {
namespace {

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

TEST(HttpUrl, ShownWithoutWhatMayBeSecret) {
  auto shown = [](const char* text) { return ParseHttpUrl(text)->Shown(); };
  EXPECT_EQ(shown("http://me:pw@node:9100/metrics"), "http://node:9100/metrics");
  EXPECT_EQ(shown("http://node/metrics?token=SECRET"), "http://node/metrics?…");
  EXPECT_EQ(shown("http://node?token=SECRET"), "http://node/?…");
  EXPECT_EQ(shown("http://node/x?"), "http://node/x?");
  EXPECT_EQ(ParseHttpUrl("https://hooks.example/services/SECRET?a=b")->Origin(), "https://hooks.example");
  EXPECT_EQ(ParseHttpUrl("http://[::1]:9100/x")->Origin(), "http://[::1]:9100");
}

TEST(HttpUrl, RefusesWhatIsNone) {
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

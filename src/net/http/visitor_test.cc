#include "net/http/visitor.h"

#include <gtest/gtest.h>

#include "net/http/http_parser.h"

namespace gpulens {
namespace {

Visitor Judge(std::string_view fields, const VisitorRule& rule) {
  HttpParser parser{HttpLimits()};
  EXPECT_EQ(parser.Feed("GET / HTTP/1.1\r\n" + std::string(fields) + "\r\n").state, HttpParser::State::kDone);
  return JudgeVisitor(parser.request(), rule);
}

TEST(HostAllowed, AddressesLocalNamesAndThoseListed) {
  const std::vector<std::string> listed{"gpu1.example.org"};
  for (const char* good :
       {"", "localhost", "LOCALHOST:9091", "127.0.0.1:9091", "[::1]:9091", "10.1.2.3", "node1:9091",
        "a.localhost:1", "gpu1.example.org:9091", "GPU1.Example.Org.", "localhost.:9091"})
    EXPECT_TRUE(HostAllowed(good, listed)) << good;
  for (const char* bad :
       {"evil.example:9091", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80",
        "gpu1.example.org.evil.example", "127.0.0.1@evil.example", "[evil.example]", "["})
    EXPECT_FALSE(HostAllowed(bad, listed)) << bad;
  EXPECT_TRUE(HostAllowed("evil.example", {"*"}));
}

TEST(OriginAllowed, NamesOfOurOwnAndRebinding) {
  EXPECT_TRUE(OriginAllowed("http://node1:9091", "node1:9092", false, {}, {}));
  EXPECT_TRUE(OriginAllowed("http://10.0.0.7", "10.0.0.7:9092", true, {}, {}));
  EXPECT_TRUE(OriginAllowed("http://[fe80::1]:1", "[fe80::1]:2", false, {}, {}));
  EXPECT_FALSE(OriginAllowed("http://node2", "node1:9092", false, {}, {}));
  EXPECT_FALSE(OriginAllowed("http://evil.example", "evil.example:9092", true, {}, {}));
  EXPECT_TRUE(OriginAllowed("http://gpu1.example", "gpu1.example", true, {}, {"gpu1.example"}));
  EXPECT_TRUE(OriginAllowed("null", "x", true, {"*"}, {}));
  EXPECT_FALSE(OriginAllowed("http://[", "[", false, {}, {}));
}

TEST(JudgeVisitor, AnOpenLoopbackRefusesForeignHosts) {
  const char* rebound = "Host: evil.example:9091\r\n";
  EXPECT_EQ(Judge(rebound, {.arrival = Arrival::kLoopback, .open = true}), Visitor::kForeignHost);
  EXPECT_EQ(Judge(rebound, {.arrival = Arrival::kLoopback, .open = false}), Visitor::kWelcome);
  EXPECT_EQ(Judge(rebound, {.arrival = Arrival::kNetwork, .open = true}), Visitor::kWelcome);
  EXPECT_EQ(Judge(rebound, {.arrival = Arrival::kUnix, .open = true}), Visitor::kWelcome);
  EXPECT_EQ(Judge("Host: localhost:9091\r\n", {.arrival = Arrival::kLoopback, .open = true}),
            Visitor::kWelcome);
}

TEST(JudgeVisitor, EveryNetworkListenerRefusesForeignOrigins) {
  const char* crossed = "Host: 127.0.0.1:9091\r\nOrigin: http://evil.example\r\n";
  for (Arrival arrival : {Arrival::kLoopback, Arrival::kNetwork}) {
    for (bool open : {false, true})
      EXPECT_EQ(Judge(crossed, {.arrival = arrival, .open = open}), Visitor::kForeignOrigin);
  }
  EXPECT_EQ(Judge(crossed, {.arrival = Arrival::kUnix}), Visitor::kWelcome);
  EXPECT_EQ(
      Judge("Host: 127.0.0.1:9091\r\nOrigin: http://localhost:3000\r\n", {.arrival = Arrival::kLoopback}),
      Visitor::kWelcome);
  EXPECT_EQ(Judge("Host: a.b\r\nOrigin: null\r\n", {}), Visitor::kForeignOrigin);
  const std::vector<std::string> origins{"https://grafana.example.org"};
  EXPECT_EQ(Judge("Host: a.b\r\nOrigin: https://grafana.example.org\r\n", {.origins = &origins}),
            Visitor::kWelcome);
}

TEST(ArrivalAt, ByTheLocalAddress) {
  EXPECT_EQ(ArrivalAt(*ParseListenAddress("127.0.0.1:1")), Arrival::kLoopback);
  EXPECT_EQ(ArrivalAt(*ParseListenAddress("[::1]:1")), Arrival::kLoopback);
  EXPECT_EQ(ArrivalAt(*ParseListenAddress("10.0.0.1:1")), Arrival::kNetwork);
  EXPECT_EQ(ArrivalAt(*ParseListenAddress("unix:/x")), Arrival::kUnix);
}

}  // namespace
}  // namespace gpulens

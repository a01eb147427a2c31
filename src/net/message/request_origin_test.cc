#include "net/message/request_origin.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

constexpr RequestOrigin kRebound{"evil.example:9091", std::nullopt};

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

TEST(CheckOrigin, AnOpenLoopbackRefusesForeignHosts) {
  EXPECT_EQ(CheckOrigin(kRebound, {.arrival = Arrival::kLoopback, .open = true}), OriginCheck::kForeignHost);
  EXPECT_EQ(CheckOrigin(kRebound, {.arrival = Arrival::kLoopback, .open = false}), OriginCheck::kAllowed);
  EXPECT_EQ(CheckOrigin(kRebound, {.arrival = Arrival::kNetwork, .open = true}), OriginCheck::kAllowed);
  EXPECT_EQ(CheckOrigin(kRebound, {.arrival = Arrival::kUnix, .open = true}), OriginCheck::kAllowed);
  EXPECT_EQ(CheckOrigin({"localhost:9091", std::nullopt}, {.arrival = Arrival::kLoopback, .open = true}),
            OriginCheck::kAllowed);
}

TEST(CheckOrigin, EveryNetworkListenerRefusesForeignOrigins) {
  const RequestOrigin crossed{"127.0.0.1:9091", "http://evil.example"};
  for (Arrival arrival : {Arrival::kLoopback, Arrival::kNetwork}) {
    for (bool open : {false, true})
      EXPECT_EQ(CheckOrigin(crossed, {.arrival = arrival, .open = open}), OriginCheck::kForeignOrigin);
  }
  EXPECT_EQ(CheckOrigin(crossed, {.arrival = Arrival::kUnix}), OriginCheck::kAllowed);
  EXPECT_EQ(CheckOrigin({"127.0.0.1:9091", "http://localhost:3000"}, {.arrival = Arrival::kLoopback}),
            OriginCheck::kAllowed);
  EXPECT_EQ(CheckOrigin({"a.b", "null"}, {}), OriginCheck::kForeignOrigin);
  const std::vector<std::string> origins{"https://grafana.example.org"};
  EXPECT_EQ(CheckOrigin({"a.b", "https://grafana.example.org"}, {.origins = &origins}),
            OriginCheck::kAllowed);
}

TEST(ArrivalAt, ByTheLocalAddress) {
  EXPECT_EQ(ArrivalAt(*ParseListenAddress("127.0.0.1:1")), Arrival::kLoopback);
  EXPECT_EQ(ArrivalAt(*ParseListenAddress("[::1]:1")), Arrival::kLoopback);
  EXPECT_EQ(ArrivalAt(*ParseListenAddress("10.0.0.1:1")), Arrival::kNetwork);
  EXPECT_EQ(ArrivalAt(*ParseListenAddress("unix:/x")), Arrival::kUnix);
}

}  // namespace
}  // namespace gpulens

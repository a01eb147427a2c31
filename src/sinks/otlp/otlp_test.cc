#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sinks/otlp/otlp_endpoint.h"

namespace gpulens {
namespace {

std::string Url(std::string_view endpoint, std::string_view own = "") {
  auto url = OtlpUrl(endpoint, own, "metrics");
  return url ? url->ToString() : url.error().detail;
}

TEST(OtlpEndpoint, PutsTheSignalBehindThePathOnce) {
  for (const char* endpoint : {"http://c:4318", "http://c:4318/", "http://c:4318/v1", "http://c:4318/v1/",
                               "http://c:4318/v1/metrics", "http://c:4318/v1/logs/"}) {
    EXPECT_EQ(Url(endpoint), "http://c:4318/v1/metrics") << endpoint;
  }
  EXPECT_EQ(Url("https://c/otlp/"), "https://c/otlp/v1/metrics");
  EXPECT_EQ(Url("https://c/api/v1/otlp"), "https://c/api/v1/otlp/v1/metrics");
}

TEST(OtlpEndpoint, OfOneSignalIsTakenAsItIs) {
  EXPECT_EQ(Url("http://c", "http://d:1/x?y=1"), "http://d:1/x?y=1");
  EXPECT_EQ(OtlpUrl("http://c", "http://d:1", "metrics")->target, "/");
}

TEST(OtlpEndpoint, BadOnesAreRefused) {
  EXPECT_THAT(Url("http://c/?tenant=1"), ::testing::HasSubstr("metrics_endpoint"));
  EXPECT_FALSE(OtlpUrl("c:4318", "", "metrics").ok());
}

}  // namespace
}  // namespace gpulens

#include "wire/negotiation.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

constexpr auto kText004 = ExpositionFormat::kText004;
constexpr auto kText100 = ExpositionFormat::kText100;
constexpr auto kOpenMetrics = ExpositionFormat::kOpenMetrics100;

ExpositionFormat FormatFor(std::string_view accept) { return Negotiate(accept).format; }

TEST(NegotiationTest, WhoAsksForNothingGetsTheOldestText) {
  EXPECT_EQ(FormatFor(""), kText004);
  EXPECT_EQ(FormatFor("*/*"), kText004);
  EXPECT_EQ(FormatFor("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"), kText004);
  EXPECT_EQ(FormatFor("application/json"), kText004);
  EXPECT_EQ(Negotiate("").content_type, "text/plain; version=0.0.4; charset=utf-8");
}

TEST(NegotiationTest, PrometheusGetsWhatItPrefers) {
  // Prometheus 2.42 and 3.x, as they send it.
  EXPECT_EQ(
      FormatFor(
          "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
          "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"),
      kOpenMetrics);
  EXPECT_EQ(
      FormatFor(
          "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
          "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"),
      kText100);
}

TEST(NegotiationTest, QualityDecidesAndZeroForbids) {
  EXPECT_EQ(FormatFor("application/openmetrics-text;q=0.1,text/plain;version=0.0.4;q=0.9"), kText004);
  EXPECT_EQ(FormatFor("application/openmetrics-text;q=0,text/plain;version=0.0.4;q=0.1"), kText004);
  EXPECT_EQ(FormatFor("text/plain"), kText004);
  EXPECT_EQ(FormatFor("text/plain; version=\"1.0.0\""), kText100);
  EXPECT_EQ(FormatFor("TEXT/PLAIN; VERSION=0.0.4"), kText004);
  EXPECT_EQ(FormatFor("application/openmetrics-text; version=9.9.9"), kText004);
  EXPECT_EQ(FormatFor("application/*;q=0.9"), kText004);
  EXPECT_EQ(FormatFor("application/openmetrics-text;q=nonsense"), kText004);
}

}  // namespace
}  // namespace gpulens

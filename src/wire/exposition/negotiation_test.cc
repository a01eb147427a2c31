#include "wire/exposition/exposition_format.h"

#include <gtest/gtest.h>

#include <string>

namespace gpulens {
namespace {

constexpr auto kText004 = ExpositionFormat::kText004;
constexpr auto kText100 = ExpositionFormat::kText100;
constexpr auto kOpenMetrics = ExpositionFormat::kOpenMetrics100;

ExpositionFormat FormatFor(std::string_view accept) { return Negotiate(accept).form.format; }

TEST(NegotiationTest, WhoAsksForNothingGetsTheOldestText) {
  EXPECT_EQ(FormatFor(""), kText004);
  EXPECT_EQ(FormatFor("*/*"), kText004);
  EXPECT_EQ(FormatFor("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"), kText004);
  EXPECT_EQ(FormatFor("application/json"), kText004);
  EXPECT_EQ(Negotiate("").content_type, "text/plain; version=0.0.4; charset=utf-8; escaping=underscores");
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
  EXPECT_EQ(FormatFor("application/*;q=0.9"), kText004);
  EXPECT_EQ(FormatFor("application/openmetrics-text;q=nonsense"), kText004);
}

// A reader of OpenMetrics 2.0 that knows nothing else of ours reads 1.0.0 rather than the old text.
TEST(NegotiationTest, ANewerOpenMetricsGetsOurs) {
  EXPECT_EQ(FormatFor("application/openmetrics-text; version=2.0.0"), kOpenMetrics);
  EXPECT_EQ(FormatFor("application/openmetrics-text; version=2.0.0;q=0.5, */*;q=0.1"), kOpenMetrics);
  EXPECT_EQ(FormatFor("application/openmetrics-text; version=2.0.0;q=0.1, */*;q=0.5"), kText004);
  EXPECT_EQ(FormatFor("application/openmetrics-text; version=2.0.0;q=0.9, text/plain;version=1.0.0;q=0.5"),
            kText100)
      << "what it names is better than what it might read";
  EXPECT_EQ(FormatFor("application/openmetrics-text; version=2.0.0;q=0"), kText004);
  EXPECT_EQ(FormatFor("application/openmetrics-text; version=0.0.0"), kText004);
  EXPECT_EQ(FormatFor("application/openmetrics-text; version=newest"), kText004);
}

std::string_view TypeFor(std::string_view accept) { return Negotiate(accept).content_type; }

TEST(NegotiationTest, EscapingIsWhatTheChosenElementAsksFor) {
  const std::string_view open = "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=";
  for (std::string_view word : {"allow-utf-8", "underscores", "dots", "values"}) {
    for (std::string type : {"application/openmetrics-text;version=1.0.0", "text/plain;version=1.0.0"}) {
      const Negotiated got = Negotiate(type + ";escaping=" + std::string(word));
      EXPECT_EQ(NameEscapingWord(got.form.escaping), word);
      EXPECT_TRUE(got.content_type.ends_with("; escaping=" + std::string(word))) << got.content_type;
    }
  }
  EXPECT_EQ(TypeFor("application/openmetrics-text;version=1.0.0"), std::string(open) + "underscores");
  EXPECT_EQ(TypeFor("application/openmetrics-text;version=1.0.0;escaping=\"dots\""),
            std::string(open) + "dots");
  EXPECT_EQ(TypeFor("application/openmetrics-text;version=1.0.0;escaping=leet"),
            std::string(open) + "underscores");
  EXPECT_EQ(TypeFor("application/openmetrics-text;version=1.0.0;escaping=dots;q=0.1,"
                    "text/plain;version=1.0.0;escaping=values;q=0.2"),
            "text/plain; version=1.0.0; charset=utf-8; escaping=values");
  // Text 0.0.4 has no quotes for names.
  EXPECT_EQ(TypeFor("text/plain;version=0.0.4;escaping=allow-utf-8"),
            "text/plain; version=0.0.4; charset=utf-8; escaping=underscores");
  EXPECT_EQ(TypeFor("text/plain;version=0.0.4;escaping=dots"),
            "text/plain; version=0.0.4; charset=utf-8; escaping=dots");
  // Prometheus 2.42 asks for nothing; 3.x does.
  EXPECT_EQ(
      TypeFor("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
              "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"),
      std::string(open) + "underscores");
  EXPECT_EQ(
      TypeFor("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
              "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"),
      std::string(open) + "allow-utf-8");
}

}  // namespace
}  // namespace gpulens

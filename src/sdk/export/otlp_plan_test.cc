#include "sdk/export/otlp_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "sdk/export/push_job.h"

namespace gpulens::sdk {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

Result<OtlpPlan> Plan(std::map<std::string, std::string> environment, const OtlpOptions& options = {}) {
  return PlanOtlp(options, [&](const char* name) { return environment[name]; });
}
std::string UrlOf(std::map<std::string, std::string> environment, const OtlpOptions& options = {}) {
  auto plan = Plan(std::move(environment), options);
  return plan ? (*plan).url.ToString() + ((*plan).grpc ? " grpc" : "") : plan.error().detail;
}

TEST(OtlpPlan, ResolvesEndpoints) {
  EXPECT_EQ(UrlOf({}), "http://localhost:4318/v1/metrics");
  EXPECT_EQ(UrlOf({{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}}), "http://localhost:4317 grpc");
  EXPECT_EQ(UrlOf({{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://c.example.org/otlp"}}),
            "https://c.example.org/otlp/v1/metrics");
  EXPECT_EQ(UrlOf({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1"},
                   {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://b:2/x"}}),
            "http://b:2/x")
      << "that of metrics is as it stands";
  EXPECT_EQ(UrlOf({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1"}}, {.endpoint = "http://c:3/"}),
            "http://c:3/v1/metrics")
      << "the program first";
  EXPECT_EQ(UrlOf({}, {.endpoint = "http://c:3/v1/metrics"}), "http://c:3/v1/metrics");
  EXPECT_EQ(UrlOf({}, {.endpoint = "http://collector:4317"}), "http://collector:4317 grpc");
  EXPECT_EQ(UrlOf({}, {.endpoint = "http://collector:4317", .protocol = "http/protobuf"}),
            "http://collector:4317/v1/metrics");
}

TEST(OtlpPlan, NamesErrors) {
  EXPECT_THAT(UrlOf({{"OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://x"}}),
              HasSubstr("OTEL_EXPORTER_OTLP_ENDPOINT: "));
  EXPECT_THAT(UrlOf({{"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/json"}}),
              HasSubstr("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: the protocol must be http/protobuf or grpc"));
  EXPECT_THAT(UrlOf({{"OTEL_EXPORTER_OTLP_HEADERS", "nonsense"}}), HasSubstr("OTEL_EXPORTER_OTLP_HEADERS: "));
  EXPECT_FALSE(Plan({}, {.headers = {{"Host", "x"}}}).ok());
  EXPECT_FALSE(Plan({}, {.headers = {{"a b", "x"}}}).ok());
  EXPECT_FALSE(Plan({}, {.protocol = "smoke"}).ok());
}

TEST(OtlpPlan, ReadsHeadersAndTimes) {
  const auto stated = Plan({{"OTEL_EXPORTER_OTLP_HEADERS", "x-a=1,x-b=two%20words"},
                            {"OTEL_METRIC_EXPORT_INTERVAL", "5000"},
                            {"OTEL_EXPORTER_OTLP_TIMEOUT", "2500"},
                            {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"}});
  ASSERT_TRUE(stated.ok());
  EXPECT_EQ((*stated).headers, "x-a: 1\r\nx-b: two words\r\n");
  EXPECT_EQ((*stated).interval, seconds(5));
  EXPECT_EQ((*stated).timeout, milliseconds(2500));
  EXPECT_EQ((*stated).ca_file, "/ca.pem");
  const auto own =
      Plan({{"OTEL_EXPORTER_OTLP_HEADERS", "x-a=1"}, {"OTEL_METRIC_EXPORT_INTERVAL", "soon"}},
           {.endpoint = "http://me:secret@h:1", .headers = {{"x-c", "3"}}, .timeout = seconds(1)});
  ASSERT_TRUE(own.ok());
  EXPECT_EQ((*own).headers, "x-c: 3\r\nAuthorization: Basic bWU6c2VjcmV0\r\n");
  EXPECT_EQ((*own).interval, seconds(30)) << "the default where it is no number";
  EXPECT_EQ((*own).timeout, seconds(1));
  EXPECT_EQ((*own).url.ToString(), "http://h:1/v1/metrics") << "no password is shown";
}

TEST(OtlpPlan, ReadsTheClientCertificate) {
  const std::map<std::string, std::string> both = {{"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/c.pem"},
                                                   {"OTEL_EXPORTER_OTLP_CLIENT_KEY", "/k.pem"}};
  EXPECT_EQ((*Plan(both)).client_certificate_file, "/c.pem");
  EXPECT_EQ((*Plan(both)).client_key_file, "/k.pem");
  const auto own = Plan(both, {.client_certificate_file = "/own.pem", .client_key_file = "/own.key"});
  EXPECT_EQ((*own).client_certificate_file, "/own.pem");
  EXPECT_EQ((*own).client_key_file, "/own.key");
  EXPECT_FALSE(Plan({{"OTEL_EXPORTER_OTLP_CLIENT_KEY", "/k.pem"}}).ok());
  EXPECT_FALSE(Plan(both, {.client_key_file = "/own.key"}).ok()) << "never one of each";
}

TEST(OtlpPlan, Disabled) {
  for (const char* word : {"true", "TRUE", " True "})
    EXPECT_TRUE(Disabled([&](const char*) { return word; }));
  for (const char* word : {"", "1", "yes", "false"})
    EXPECT_FALSE(Disabled([&](const char*) { return word; }));
}

TEST(Pace, BacksOffFromASecondToAMinute) {
  PushPace pace(seconds(10));
  const OtlpDelivery absent{{Code::kUnavailable, "x"}}, good{Ok()};
  for (int expected : {1, 2, 4, 8, 16, 32, 60, 60}) EXPECT_EQ(pace.After(absent), seconds(expected));
  EXPECT_EQ(pace.After(good), seconds(10));
  EXPECT_EQ(pace.After(absent), seconds(1)) << "from the beginning";
  EXPECT_EQ(pace.After({{Code::kExhausted, "x"}, seconds(90)}), seconds(90)) << "as the other side wants";
  EXPECT_EQ(pace.After({{Code::kInvalidArgument, "x"}}), seconds(10)) << "haste would not help";
}

}  // namespace
}  // namespace gpulens::sdk

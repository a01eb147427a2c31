#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/sinks/otlp/otlp.h"
#include "wire/otlp/otlp_fields.h"

namespace gpulens {
namespace {

std::string Url(std::string_view endpoint, std::string_view own = "") {
  auto url = OtlpUrl(endpoint, own, "metrics");
  return url ? url->ToString() : url.error().detail;
}

TEST(OtlpSignalsSent, UrlOfOneSignalLeavesTheOthers) {
  using Signals = std::array<bool, 3>;
  EXPECT_EQ(OtlpSignalsSent("", {}), (Signals{true, true, true})) << "the default";
  EXPECT_EQ(OtlpSignalsSent("http://c", {"http://m"}), (Signals{true, true, true}));
  EXPECT_EQ(OtlpSignalsSent("", {"http://m"}), (Signals{true, false, false}));
  EXPECT_EQ(OtlpSignalsSent("", {"", "http://l", "http://t"}), (Signals{false, true, true}));
}

TEST(OtlpEndpoint, AppendsTheSignalToThePathOnce) {
  for (const char* endpoint : {"http://c:4318", "http://c:4318/", "http://c:4318/v1", "http://c:4318/v1/",
                               "http://c:4318/v1/metrics", "http://c:4318/v1/logs/"}) {
    EXPECT_EQ(Url(endpoint), "http://c:4318/v1/metrics") << endpoint;
  }
  EXPECT_EQ(Url("https://c/otlp/"), "https://c/otlp/v1/metrics");
  EXPECT_EQ(Url("https://c/api/v1/otlp"), "https://c/api/v1/otlp/v1/metrics");
}

TEST(OtlpEndpoint, UsesTheUrlOfOneSignalAsItIs) {
  EXPECT_EQ(Url("http://c", "http://d:1/x?y=1"), "http://d:1/x?y=1");
  EXPECT_EQ(OtlpUrl("http://c", "http://d:1", "metrics")->target, "/");
}

TEST(OtlpEndpoint, RefusesBadUrls) {
  EXPECT_THAT(Url("http://c/?tenant=1"), ::testing::HasSubstr("metrics_endpoint"));
  EXPECT_FALSE(OtlpUrl("c:4318", "", "metrics").ok());
}

HttpReply Answer(int status, std::string type, std::string body) {
  HttpReply reply;
  reply.failure = status == 200 ? HttpFailure::kNone : HttpFailure::kStatus;
  reply.status = status;
  reply.detail = "HTTP " + std::to_string(status);
  reply.content_type = std::move(type);
  reply.body = std::move(body);
  return reply;
}

TEST(OtlpBody, OldRoutesKeepTheirMeaning) {
  const auto routes = OtlpRoutes();
  ASSERT_EQ(routes.size(), 18u);
  EXPECT_EQ(routes[0].headers, "Content-Type: application/x-protobuf\r\n");
  EXPECT_EQ(routes[3].headers, "Content-Type: application/x-protobuf\r\nContent-Encoding: gzip\r\n");
  EXPECT_EQ(routes[3].signal, 1u);
  EXPECT_EQ(routes[4].headers, "Content-Type: application/x-protobuf\r\nContent-Encoding: zstd\r\n");
  EXPECT_EQ(routes[11].headers, "Content-Type: application/json\r\nContent-Encoding: zstd\r\n");
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(routes[i].signal, i % 2) << i;
  for (size_t i = 12; i < 18; ++i) EXPECT_EQ(routes[i].signal, 2u) << i;
  EXPECT_EQ(routes[13].headers, routes[3].headers);
  for (size_t i = 0; i < routes.size(); ++i) {
    const OtlpEncoding as = OtlpEncodingOf(i);
    EXPECT_EQ(NumberOf(as), i);
    EXPECT_EQ(routes[i].signal, as.signal);
  }
}

TEST(OtlpBody, AnswersAreReadInBothEncodings) {
  std::string partial, error, answer;
  otlp::AppendNumber(partial, 1, 3);
  otlp::AppendBytes(partial, 2, "too old");
  otlp::AppendBytes(answer, 1, partial);
  otlp::AppendBytes(error, 2, "too many");
  for (const HttpReply& reply :
       {Answer(200, "application/x-protobuf", answer),
        Answer(200, "application/json",
               R"({"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"too old"}})"),
        Answer(200, "application/json; charset=utf-8",
               R"({"partialSuccess":{"rejectedLogRecords":3,"errorMessage":"too old","more":[]}})")}) {
    const SendOutcome outcome = ValidateOtlp(reply);
    EXPECT_EQ(outcome.kind, SendOutcome::kTaken);
    EXPECT_EQ(outcome.rejected, 3u) << reply.body;
    EXPECT_EQ(outcome.detail, "too old");
  }
  for (const char* odd : {"", "{", "[]", R"({"partialSuccess":7})"})
    EXPECT_EQ(ValidateOtlp(Answer(200, "application/json", odd)).rejected, 0u) << odd;
  for (const HttpReply& reply : {Answer(400, "application/x-protobuf", error),
                                 Answer(400, "application/json", R"({"code":3,"message":"too many"})")}) {
    const SendOutcome outcome = ValidateOtlp(reply);
    EXPECT_EQ(outcome.kind, SendOutcome::kRefused);
    EXPECT_EQ(outcome.detail, "HTTP 400: too many");
  }
  EXPECT_EQ(ValidateOtlp(Answer(503, "application/json", "{}")).kind, SendOutcome::kAgain);
  EXPECT_EQ(ValidateOtlp(Answer(400, "text/plain", "no\x1b")).detail, "HTTP 400: no\\x1b");
}

}  // namespace
}  // namespace gpulens

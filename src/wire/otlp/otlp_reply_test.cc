#include "wire/otlp/otlp_answer.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

TEST(OtlpReply, FullSuccessIsEmpty) {
  EXPECT_EQ(OtlpSuccess(OtlpSignal::kLogs, OtlpEncoding::kProtobuf, 0, ""), "");
  EXPECT_EQ(OtlpSuccess(OtlpSignal::kLogs, OtlpEncoding::kJson, 0, ""), "{}");
}

TEST(OtlpReply, PartialSuccessSaysHowManyAndWhy) {
  const auto partial = ReadOtlpAnswer(OtlpSuccess(OtlpSignal::kMetrics, OtlpEncoding::kProtobuf, 3, "why"));
  ASSERT_TRUE(partial.has_value());
  EXPECT_EQ(partial->rejected, 3);
  EXPECT_EQ(partial->message, "why");
  EXPECT_EQ(OtlpSuccess(OtlpSignal::kMetrics, OtlpEncoding::kJson, 3, "a \"b\""),
            R"({"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"a \"b\""}})");
  EXPECT_NE(OtlpSuccess(OtlpSignal::kLogs, OtlpEncoding::kJson, 1, "").find("rejectedLogRecords"),
            std::string::npos);
  EXPECT_NE(OtlpSuccess(OtlpSignal::kTraces, OtlpEncoding::kJson, 1, "").find("rejectedSpans"),
            std::string::npos);
}

TEST(OtlpReply, FailuresAreAStatus) {
  EXPECT_EQ(ReadOtlpError(OtlpFailure(OtlpEncoding::kProtobuf, 8, "full")), "full");
  EXPECT_EQ(OtlpFailure(OtlpEncoding::kJson, 8, "full\n"), R"({"code":8,"message":"full\n"})");
}

}  // namespace
}  // namespace gpulens

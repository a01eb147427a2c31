#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/otlp/otlp_answer.h"
#include "wire/otlp/otlp_fields.h"
#include "wire/otlp/otlp_testing.h"
#include "wire/otlp/otlp_write.h"

namespace gpulens {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Partial(uint64_t rejected, std::string_view message) {
  std::string partial, answer;
  otlp::AppendNumber(partial, 1, rejected);
  otlp::AppendBytes(partial, 2, message);
  otlp::AppendBytes(answer, 1, partial);
  return answer;
}

TEST(OtlpAnswer, ReportsRejectedItems) {
  auto all = ReadOtlpAnswer("");
  ASSERT_TRUE(all);
  EXPECT_EQ(all->rejected, 0);
  auto some = ReadOtlpAnswer(Partial(7, "too\x1b old"));
  ASSERT_TRUE(some);
  EXPECT_EQ(some->rejected, 7);
  EXPECT_EQ(some->message, "too\\x1b old");
  EXPECT_EQ(ReadOtlpAnswer(Partial(UINT64_MAX, ""))->rejected, 0);
  EXPECT_EQ(ReadOtlpAnswer(Partial(1, std::string(100'000, '\x01')))->message.size(), 500u);
}

TEST(OtlpAnswer, RejectsInvalidBytes) {
  for (const std::string& bad :
       {std::string("<html>"), Partial(1, "cut").substr(0, 6), std::string("\x0a\xff\xff\xff\xff\x0f", 6),
        std::string(20, '\xff'), std::string("\x00", 1)}) {
    EXPECT_FALSE(ReadOtlpAnswer(bad)) << bad;
    EXPECT_EQ(ReadOtlpError(bad), "");
  }
  EXPECT_TRUE(ReadOtlpAnswer(std::string_view("\x0d\x01\x02\x03\x04", 5)))
      << "another type of field is passed over";
  std::string status;
  otlp::AppendNumber(status, 1, 8);
  otlp::AppendBytes(status, 2, "slow down");
  EXPECT_EQ(ReadOtlpError(status), "slow down");
}

// The fields of one record, in their order.
std::vector<std::string> Fields(std::string_view request) {
  std::vector<std::string> out;
  protozero::pbf_reader all(request.data(), request.size());
  while (all.next(otlp::kResourceList)) {
    protozero::pbf_reader resource = all.get_message();
    while (resource.next(otlp::kScopeList)) {
      protozero::pbf_reader scope = resource.get_message();
      while (scope.next(otlp::kItems)) {
        protozero::pbf_reader record = scope.get_message();
        while (record.next()) {
          const std::string tag = std::to_string(record.tag()) + " ";
          switch (record.tag()) {
            case otlp::kLogTime:
            case otlp::kObservedTime: out.push_back(tag + std::to_string(record.get_fixed64())); break;
            case otlp::kSeverityNumber: out.push_back(tag + std::to_string(record.get_enum())); break;
            case otlp::kBody: out.push_back(tag + otlp_testing::AnyText(record.get_message())); break;
            case otlp::kLogAttributes:
              out.push_back(tag + otlp_testing::PairText(record.get_message()));
              break;
            default: out.push_back(tag + record.get_string());
          }
        }
      }
    }
  }
  return out;
}

TEST(OtlpLogs, WritesAnEventWithItsEntity) {
  Events events;
  events.resource = AttributeSet({{"host.name", "n1"}});
  Event& xid = events.list.emplace_back();
  xid.at.unix_ns = 42;
  xid.name = "gpu.xid";
  xid.body = "fell off the bus";
  xid.severity = EventSeverity::kFatal;
  xid.entity = MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", int64_t{3}}}));
  xid.attributes = AttributeSet({{"gpu.xid.code", int64_t{79}}});
  events.list.emplace_back().name = "host.oom_kill";
  std::string request = "old";
  EncodeOtlpLogs(events, "1.2", request);
  EXPECT_THAT(Fields(request),
              ElementsAre("1 42", "11 42", "2 21", "3 FATAL", "5 \"fell off the bus\"",
                          "6 event.name=\"gpu.xid\"", "6 gpu.index=3", "6 gpu.xid.code=79", "12 gpu.xid",
                          "1 0", "11 0", "6 event.name=\"host.oom_kill\"", "12 host.oom_kill"));
  EXPECT_THAT(request, HasSubstr("n1"));
}

}  // namespace
namespace {

TEST(OtlpReply, FullSuccessIsEmpty) {
  EXPECT_EQ(OtlpSuccess(OtlpSignal::kLogs, OtlpFormat::kProtobuf, 0, ""), "");
  EXPECT_EQ(OtlpSuccess(OtlpSignal::kLogs, OtlpFormat::kJson, 0, ""), "{}");
}

TEST(OtlpReply, PartialSuccessHasTheCountAndTheReason) {
  const auto partial = ReadOtlpAnswer(OtlpSuccess(OtlpSignal::kMetrics, OtlpFormat::kProtobuf, 3, "why"));
  ASSERT_TRUE(partial.has_value());
  EXPECT_EQ(partial->rejected, 3);
  EXPECT_EQ(partial->message, "why");
  EXPECT_EQ(OtlpSuccess(OtlpSignal::kMetrics, OtlpFormat::kJson, 3, "a \"b\""),
            R"({"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"a \"b\""}})");
  EXPECT_NE(OtlpSuccess(OtlpSignal::kLogs, OtlpFormat::kJson, 1, "").find("rejectedLogRecords"),
            std::string::npos);
  EXPECT_NE(OtlpSuccess(OtlpSignal::kTraces, OtlpFormat::kJson, 1, "").find("rejectedSpans"),
            std::string::npos);
}

TEST(OtlpReply, FailuresAreAStatus) {
  EXPECT_EQ(ReadOtlpError(OtlpFailure(OtlpFormat::kProtobuf, 8, "full")), "full");
  EXPECT_EQ(OtlpFailure(OtlpFormat::kJson, 8, "full\n"), R"({"code":8,"message":"full\n"})");
}

}  // namespace

}  // namespace gpulens

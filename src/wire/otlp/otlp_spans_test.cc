#include "wire/otlp/otlp_spans.h"

#include <gtest/gtest.h>

#include <string>

#include "wire/otlp/otlp_json.h"

namespace gpulens {
namespace {

std::string Json(const std::string& request) {
  std::string json;
  EXPECT_TRUE(OtlpToJson(OtlpMessage::kTraces, request, json).ok());
  return json;
}

OtlpSpanHead Head() {
  OtlpSpanHead head;
  head.trace_id = {0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6,
                   0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36};
  head.span_id = {0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7};
  head.name = "chat m";
  head.kind = OtlpSpanHead::kClient;
  head.start_unix_ns = 1'000;
  head.end_unix_ns = 3'000;
  return head;
}

TEST(OtlpSpans, ASpanWithAllItsPartsIsReadBack) {
  OtlpSpanHead head = Head();
  head.parent_id = {1, 2, 3, 4, 5, 6, 7, 8};
  head.remote_parent = true;
  head.trace_flags = 3;
  head.tracestate = "a=1";
  std::string spans;
  OtlpSpanWriter span(spans, head);
  span.Attribute("text", std::string_view("w"));
  span.Attribute("whole", int64_t{-5});
  span.Attribute("half", 0.5);
  span.Attribute("yes", true);
  const std::string reasons[] = {"stop", "length"};
  span.Attribute("list", reasons);
  span.OpenEvent("attempt", 2'000);
  span.Attribute("result", std::string_view("http_503"));
  span.CloseEvent();
  span.Attribute("last", std::string_view("\xff"));
  span.Close(true, "it failed");
  const SpansAbout about{AttributeSet({{"service.name", std::string_view("p")}}), "scope", "1", {}};
  std::string request;
  EncodeSpans(spans, about, request);
  EXPECT_EQ(
      Json(request),
      R"({"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"p"}}]},)"
      R"("scopeSpans":[{"scope":{"name":"scope","version":"1"},"spans":[{)"
      R"("traceId":"4bf92f3577b34da6a3ce929d0e0e4736","spanId":"00f067aa0ba902b7","traceState":"a=1",)"
      R"("parentSpanId":"0102030405060708","name":"chat m","kind":3,"startTimeUnixNano":"1000",)"
      R"("endTimeUnixNano":"3000","attributes":[)"
      R"({"key":"text","value":{"stringValue":"w"}},{"key":"whole","value":{"intValue":"-5"}},)"
      R"({"key":"half","value":{"doubleValue":0.5}},{"key":"yes","value":{"boolValue":true}},)"
      R"({"key":"list","value":{"arrayValue":{"values":[{"stringValue":"stop"},{"stringValue":"length"}]}}},)"
      R"({"key":"last","value":{"stringValue":"�"}}],)"
      R"("events":[{"timeUnixNano":"2000","name":"attempt","attributes":[)"
      R"({"key":"result","value":{"stringValue":"http_503"}}]}],)"
      R"("status":{"message":"it failed","code":2},"flags":771}]}]}]})");
}

TEST(OtlpSpans, ARootWithoutAnErrorHasNeitherParentNorStatus) {
  std::string spans;
  for (int i = 0; i < 2; ++i) OtlpSpanWriter(spans, Head()).Close(false);
  std::string request = "old";
  EncodeSpans(spans, {}, request);
  const std::string json = Json(request);
  EXPECT_EQ(json.find("parentSpanId"), json.npos) << json;
  EXPECT_EQ(json.find("status"), json.npos) << json;
  EXPECT_NE(json.find(R"("flags":0},{"traceId")"), json.npos) << json;
}

}  // namespace
}  // namespace gpulens

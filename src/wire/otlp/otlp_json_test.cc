#include "wire/otlp/otlp_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <protozero/pbf_writer.hpp>

#include "base/testing/allocations.h"

namespace gpulens {
namespace {

using protozero::pbf_writer;
using ::testing::HasSubstr;

using M = OtlpMessage;

std::string ToJson(M message, std::string_view protobuf) {
  std::string json;
  const Status status = OtlpToJson(message, protobuf, json);
  return status ? json : status.detail;
}

std::string FromJson(M message, std::string_view json) {
  std::string protobuf;
  const Status status = OtlpFromJson(message, json, 1 << 20, protobuf);
  return status ? protobuf : status.detail;
}

// A message made in place.
template <class Fill>
std::string Make(Fill&& fill) {
  std::string bytes;
  pbf_writer writer(bytes);
  fill(writer);
  return bytes;
}

template <class Fill>
void Put(pbf_writer& in, uint32_t field, Fill&& fill) {
  in.add_message(field, Make(fill));
}

std::string Attribute(const char* key, const std::string& any) {
  return Make([&](pbf_writer& pair) {
    pair.add_string(1, key);
    pair.add_message(2, any);
  });
}

// A request of one metric, whose data `fill` writes.
template <class Fill>
std::string Metric(Fill&& fill) {
  return Make([&](pbf_writer& request) {
    Put(request, 1, [&](pbf_writer& resource) {
      Put(resource, 2, [&](pbf_writer& scope) {
        Put(scope, 2, [&](pbf_writer& metric) {
          metric.add_string(1, "m");
          fill(metric);
        });
      });
    });
  });
}
std::string MetricJson(std::string_view data) {
  std::string json = R"({"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m",)";
  json += data;
  return json + "}]}]}]}";
}

// Both directions; the messages are as protobuf's own writers make them, so the bytes come back.
void ExpectPair(M message, const std::string& protobuf, const std::string& json) {
  EXPECT_EQ(ToJson(message, protobuf), json);
  EXPECT_EQ(FromJson(message, json), protobuf);
}

TEST(OtlpJson, SumsAndGauges) {
  const std::string request = Metric([](pbf_writer& metric) {
    metric.add_string(3, "J");
    Put(metric, 7, [](pbf_writer& sum) {
      Put(sum, 1, [](pbf_writer& point) {
        point.add_fixed64(2, 1'700'000'000'000'000'000);
        point.add_fixed64(3, UINT64_MAX);
        point.add_double(4, 0.5);
        Put(point, 5, [](pbf_writer& exemplar) {
          exemplar.add_fixed64(2, 7);
          exemplar.add_string(4, "\x01\x23\x45\x67\x89\xab\xcd\xef");
          exemplar.add_sfixed64(6, -9);
        });
        point.add_message(7,
                          Attribute("k", Make([](pbf_writer& any) { any.add_string(1, "\"\n\xC3\xA9"); })));
        point.add_uint32(8, 1);
      });
      sum.add_enum(2, 2);
      sum.add_bool(3, true);
    });
  });
  ExpectPair(
      M::kMetrics, request,
      MetricJson(R"("unit":"J","sum":{"dataPoints":[{"startTimeUnixNano":"1700000000000000000",)"
                 R"("timeUnixNano":"18446744073709551615","asDouble":0.5,"exemplars":[{"timeUnixNano":"7",)"
                 R"("spanId":"0123456789abcdef","asInt":"-9"}],"attributes":[{"key":"k","value":)"
                 R"({"stringValue":"\"\n)"
                 "\xC3\xA9"
                 R"("}}],"flags":1}],"aggregationTemporality":2,"isMonotonic":true})"));
}

TEST(OtlpJson, HistogramsOfBothKinds) {
  const std::vector<uint64_t> counts{0, 3, 300};
  const std::vector<double> bounds{0.1, 1e300};
  const std::string explicit_one = Metric([&](pbf_writer& metric) {
    Put(metric, 9, [&](pbf_writer& histogram) {
      Put(histogram, 1, [&](pbf_writer& point) {
        point.add_fixed64(4, 303);
        point.add_double(5, 0);  // optional: written although it is 0
        point.add_packed_fixed64(6, counts.begin(), counts.end());
        point.add_packed_double(7, bounds.begin(), bounds.end());
      });
      histogram.add_enum(2, 1);
    });
  });
  ExpectPair(M::kMetrics, explicit_one,
             MetricJson(R"("histogram":{"dataPoints":[{"count":"303","sum":0,"bucketCounts":["0","3","300"],)"
                        R"("explicitBounds":[0.1,1e+300]}],"aggregationTemporality":1})"));
  const std::string exponential = Metric([&](pbf_writer& metric) {
    Put(metric, 10, [&](pbf_writer& histogram) {
      Put(histogram, 1, [&](pbf_writer& point) {
        point.add_fixed64(4, 303);
        point.add_sint32(6, -3);
        point.add_fixed64(7, 1);
        Put(point, 8, [&](pbf_writer& positive) {
          positive.add_sint32(1, std::numeric_limits<int32_t>::min());
          positive.add_packed_uint64(2, counts.begin(), counts.end());
        });
        point.add_double(14, 1e-9);
      });
    });
  });
  ExpectPair(M::kMetrics, exponential,
             MetricJson(R"("exponentialHistogram":{"dataPoints":[{"count":"303","scale":-3,"zeroCount":"1",)"
                        R"("positive":{"offset":-2147483648,"bucketCounts":["0","3","300"]},)"
                        R"("zeroThreshold":1e-09}]})"));
  const std::string summary = Metric([&](pbf_writer& metric) {
    Put(metric, 11, [&](pbf_writer& data) {
      Put(data, 1, [&](pbf_writer& point) {
        for (double quantile : {0.5, 1.0})
          Put(point, 6, [&](pbf_writer& pair) {
            pair.add_double(1, quantile);
            pair.add_double(2, -std::numeric_limits<double>::infinity());
          });
      });
    });
  });
  ExpectPair(M::kMetrics, summary,
             MetricJson(R"("summary":{"dataPoints":[{"quantileValues":[{"quantile":0.5,"value":"-Infinity"},)"
                        R"({"quantile":1,"value":"-Infinity"}]}]})"));
}

TEST(OtlpJson, LogsWithValuesOfEveryType) {
  const std::string nested = Make([](pbf_writer& any) {
    Put(any, 5, [](pbf_writer& array) {
      Put(array, 1, [](pbf_writer& one) { one.add_bool(2, false); });
      Put(array, 1, [](pbf_writer& one) { one.add_int64(3, INT64_MIN); });
      Put(array, 1, [](pbf_writer& one) { one.add_double(4, std::numeric_limits<double>::quiet_NaN()); });
      Put(array, 1, [](pbf_writer& one) { one.add_string(7, std::string("\0\xff\x10\x80", 4)); });
      Put(array, 1, [](pbf_writer&) {});
      Put(array, 1, [](pbf_writer& one) {
        Put(one, 6, [](pbf_writer& list) {
          list.add_message(1, Attribute("in", Make([](pbf_writer& text) { text.add_string(1, ""); })));
        });
      });
    });
  });
  const std::string request = Make([&](pbf_writer& logs) {
    Put(logs, 1, [&](pbf_writer& resource) {
      Put(resource, 1, [](pbf_writer& one) {
        Put(one, 3, [](pbf_writer& entity) {
          entity.add_string(2, "host");
          entity.add_string(3, "host.id");
          entity.add_string(3, "");
        });
      });
      Put(resource, 2, [&](pbf_writer& scope) {
        Put(scope, 2, [&](pbf_writer& record) {
          record.add_fixed64(1, 1);
          record.add_enum(2, 17);
          record.add_message(5, nested);
          record.add_fixed32(8, UINT32_MAX);
          record.add_fixed64(11, 2);
          record.add_string(12, "gpu.xid");
        });
      });
      resource.add_string(3, "https://x/1");
    });
  });
  ExpectPair(
      M::kLogs, request,
      R"({"resourceLogs":[{"resource":{"entityRefs":[{"type":"host","idKeys":["host.id",""]}]},"scopeLogs":[)"
      R"({"logRecords":[{"timeUnixNano":"1","severityNumber":17,"body":{"arrayValue":{"values":[)"
      R"({"boolValue":false},{"intValue":"-9223372036854775808"},{"doubleValue":"NaN"},)"
      R"({"bytesValue":"AP8QgA=="},{},{"kvlistValue":{"values":[{"key":"in","value":{"stringValue":""}}]}}]}},)"
      R"("flags":4294967295,"observedTimeUnixNano":"2","eventName":"gpu.xid"}]}],"schemaUrl":"https://x/1"}]})");
}

TEST(OtlpJson, SpansAndAnswers) {
  const std::string request = Make([](pbf_writer& traces) {
    Put(traces, 1, [](pbf_writer& resource) {
      Put(resource, 2, [](pbf_writer& scope) {
        Put(scope, 2, [](pbf_writer& span) {
          span.add_string(1, "\x5b\x8e\xff\xf7\x98\x03\x81\x03\xd2\x69\xb6\x33\x81\x3f\xc6\x0c");
          span.add_string(5, "GET");
          span.add_enum(6, 3);
          Put(span, 11, [](pbf_writer& event) { event.add_string(2, "e"); });
          Put(span, 13, [](pbf_writer& link) { link.add_fixed32(6, 1); });
          Put(span, 15, [](pbf_writer& status) { status.add_enum(3, 2); });
          span.add_fixed32(16, 256);
        });
      });
    });
  });
  ExpectPair(M::kTraces, request,
             R"({"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c",)"
             R"("name":"GET","kind":3,"events":[{"name":"e"}],"links":[{"flags":1}],"status":{"code":2},)"
             R"("flags":256}]}]}]})");
  ExpectPair(M::kMetricsAnswer, "", "{}");
  const auto partial = [](pbf_writer& answer) {
    Put(answer, 1, [](pbf_writer& part) {
      part.add_int64(1, 5);
      part.add_string(2, "no");
    });
  };
  ExpectPair(M::kMetricsAnswer, Make(partial),
             R"({"partialSuccess":{"rejectedDataPoints":"5","errorMessage":"no"}})");
  ExpectPair(M::kLogsAnswer, Make(partial),
             R"({"partialSuccess":{"rejectedLogRecords":"5","errorMessage":"no"}})");
  ExpectPair(M::kTracesAnswer, Make(partial),
             R"({"partialSuccess":{"rejectedSpans":"5","errorMessage":"no"}})");
  ExpectPair(M::kError, Make([](pbf_writer& error) {
               error.add_int32(1, 8);
               error.add_string(2, "busy");
             }),
             R"({"code":8,"message":"busy"})");
}

// What other writers of protobuf may do, though few do it.
TEST(OtlpJson, ReadsProtobufOfAnyOrderAndInPieces) {
  const std::string sum_first = Make([](pbf_writer& metric) {
    Put(metric, 7, [](pbf_writer& sum) { sum.add_enum(2, 1); });
    metric.add_string(1, "old");
    metric.add_string(1, "new");
    Put(metric, 7, [](pbf_writer& sum) { sum.add_bool(3, true); });
  });
  EXPECT_EQ(ToJson(M::kMetric, sum_first),
            R"({"name":"new","sum":{"aggregationTemporality":1,"isMonotonic":true}})");
  const std::string chosen_twice = Make([](pbf_writer& metric) {
    Put(metric, 7, [](pbf_writer& sum) { sum.add_enum(2, 1); });
    Put(metric, 5, [](pbf_writer&) {});
    Put(metric, 7, [](pbf_writer& sum) { sum.add_bool(3, true); });
  });
  EXPECT_EQ(ToJson(M::kMetric, chosen_twice), R"({"sum":{"isMonotonic":true}})")
      << "the last of a oneof alone";
  const std::string unpacked = Make([](pbf_writer& buckets) {
    buckets.add_uint64(2, 1);
    const std::vector<uint64_t> more{2, 3};
    buckets.add_packed_uint64(2, more.begin(), more.end());
    buckets.add_string(77, "unknown");
    buckets.add_fixed32(1, 5);  // of another wire type
  });
  EXPECT_EQ(ToJson(M::kExponentialBuckets, unpacked), R"({"bucketCounts":["1","2","3"]})");
  EXPECT_EQ(ToJson(M::kScope, Make([](pbf_writer& scope) { scope.add_string(1, "a\xff"); })),
            R"({"name":"a\ufffd"})");
}

TEST(OtlpJson, BadProtobufIsRefused) {
  for (std::string_view bad :
       {"\x0a", "\x0a\x05\x0a", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x0b", "\x0a\x02\x12\x7f"})
    EXPECT_THAT(ToJson(M::kMetrics, bad), HasSubstr("no OTLP")) << bad;
  EXPECT_THAT(ToJson(M::kExponentialBuckets, "\x12\x01\x80"), HasSubstr("no OTLP")) << "a torn packed number";
  EXPECT_THAT(ToJson(M::kHistogramPoint, "\x32\x03\x01\x02\x03"), HasSubstr("no OTLP"))
      << "a torn packed number";
  std::string deep;
  for (int i = 0; i < 200; ++i) {
    deep =
        Make([&](pbf_writer& any) { Put(any, 5, [&](pbf_writer& array) { array.add_message(1, deep); }); });
    EXPECT_EQ(ToJson(M::kAnyValue, deep).starts_with("{"), i < 32 - 1) << i;
  }
  EXPECT_THAT(ToJson(M::kAnyValue, deep), HasSubstr("too deep"));
  // Every level in two pieces would double the work again and again.
  std::string pieces(1000, 'x');
  pieces = Make([&](pbf_writer& any) { any.add_string(1, pieces); });
  for (int i = 0; i < 20; ++i) {
    pieces = Make([&](pbf_writer& list) {
      Put(list, 1, [&](pbf_writer& pair) {
        pair.add_message(2, Make([&](pbf_writer& any) {
                           any.add_message(6, pieces);
                           any.add_message(6, std::string());
                         }));
      });
    });
  }
  EXPECT_THAT(ToJson(M::kKeyValueList, pieces), HasSubstr("in pieces"));
}

TEST(OtlpJson, ReadsOutputOfOtherEncoders) {
  const std::string plain =
      FromJson(M::kNumberPoint, R"({"startTimeUnixNano":"1000","timeUnixNano":"2","asDouble":1})");
  for (
      const char* other :
      {R"({"start_time_unix_nano":1000,"time_unix_nano":2,"as_double":"1.0"})",
       R"({"startTimeUnixNano":1e3, "timeUnixNano":2.0 ,"asDouble":1E0,"later":{"a":[1,{"b":null}],"c":"\u00e9"}})",
       " \t\r\n{ \"startTimeUnixNano\" : \"1e3\" , \"timeUnixNano\" : 2, \"exemplars\": null, \"flags\":0,"
       "\"attributes\":[],\"asDouble\":1 }\n"}) {
    EXPECT_EQ(FromJson(M::kNumberPoint, other), plain) << other;
  }
  EXPECT_EQ(FromJson(M::kSum, R"({"aggregationTemporality":"AGGREGATION_TEMPORALITY_DELTA"})"), "\x10\x01");
  EXPECT_EQ(FromJson(M::kSum, R"({"aggregationTemporality":"OF_A_LATER_VERSION","isMonotonic":true})"),
            "\x18\x01");
  EXPECT_EQ(FromJson(M::kLogRecord, R"({"severityNumber":"SEVERITY_NUMBER_FATAL4"})"), "\x10\x18");
  for (const char* bytes : {"-_8=", "+/8=", "-_8", "+/8"})
    EXPECT_EQ(FromJson(M::kAnyValue, std::string(R"({"bytesValue":")") + bytes + "\"}"), "\x3a\x02\xfb\xff")
        << bytes;
  EXPECT_EQ(FromJson(M::kSpan, R"({"spanId":"00FFaa"})"), std::string_view("\x12\x03\x00\xff\xaa", 5));
  EXPECT_EQ(FromJson(M::kScope, R"({"name":"\ud83d\ude00\ud83d\ud83dx\udc00\u0041\/"})"),
            "\x0a\x10\xF0\x9F\x98\x80\xEF\xBF\xBD\xEF\xBF\xBDx\xEF\xBF\xBD"
            "A/");
  EXPECT_EQ(FromJson(M::kAnyValue, R"({"stringValue":""})"), std::string_view("\x0a\x00", 2))
      << "presence counts";
  EXPECT_EQ(FromJson(M::kHistogramPoint, R"({"bucketCounts":[],"sum":-0.0})"),
            std::string_view("\x29\x00\x00\x00\x00\x00\x00\x00\x80", 9));
}

TEST(OtlpJson, BadJsonIsRefusedWithItsPlace) {
  for (const char* bad : {"",
                          "null",
                          "[]",
                          "{",
                          "{\"resourceMetrics\"",
                          R"({"resourceMetrics":})",
                          R"({"resourceMetrics":[)",
                          R"({"resourceMetrics":[{}})",
                          R"({"resourceMetrics":{}})",
                          R"({"resourceMetrics":[1]})",
                          R"({"a":1,})",
                          R"({"a":[1,]})",
                          R"({,"a":1})",
                          R"({"a" 1})",
                          R"({"a":01})",
                          R"({"a":+1})",
                          R"({"a":1.})",
                          R"({"a":.5})",
                          R"({"a":1e})",
                          R"({"a":-})",
                          R"({"a":tru})",
                          R"({"a":"\x"})",
                          R"({"a":"\u12"})",
                          R"({"a":"\u12G4"})",
                          "{\"a\":\"\n\"}",
                          R"({"a":")",
                          R"({"a":"\)",
                          R"({"a":nan})",
                          R"({} x)",
                          "{\"a\":\"\xff\"}",
                          R"({'a':1})",
                          R"({"resourceMetrics":[null]})"}) {
    const std::string error = FromJson(M::kMetrics, bad);
    EXPECT_THAT(error, HasSubstr("not OTLP in JSON")) << bad;
  }
  EXPECT_THAT(FromJson(M::kMetrics, R"({"resourceMetrics": 7})"), HasSubstr("byte 20: expected an array"));
  for (const char* bad : {R"({"timeUnixNano":-1})", R"({"timeUnixNano":"18446744073709551616"})",
                          R"({"timeUnixNano":1.5})", R"({"timeUnixNano":""})", R"({"timeUnixNano":" 1"})",
                          R"({"flags":4294967296})", R"({"flags":true})", R"({"asInt":9223372036854775808})",
                          R"({"asDouble":"inf"})", R"({"asDouble":"0x1p3"})", R"({"asDouble":1e999})",
                          R"({"exemplars":[{"traceId":"abc"}]})", R"({"exemplars":[{"traceId":"zz"}]})"}) {
    EXPECT_THAT(FromJson(M::kNumberPoint, bad), HasSubstr("not OTLP in JSON")) << bad;
  }
  for (const char* bad : {"A", "AAAAA", "A===", "AA=", "A=A=", "AA\\n="})
    EXPECT_THAT(FromJson(M::kAnyValue, std::string(R"({"bytesValue":")") + bad + "\"}"), HasSubstr("base64"))
        << bad;
}

TEST(OtlpJson, DepthAndSizeAreLimited) {
  std::string out, deep = "{}";
  for (size_t i = 1; i < 40; ++i) {
    deep = R"({"arrayValue":{"values":[)" + deep + "]}}";
    const Status status = OtlpFromJson(M::kAnyValue, deep, 1 << 20, out);
    EXPECT_EQ(status.ok(), 2 * i + 1 <= kOtlpMostDepth) << i;
    if (status) continue;
    EXPECT_EQ(status.code, Code::kExhausted);
    EXPECT_TRUE(out.empty());
  }
  EXPECT_EQ(OtlpFromJson(M::kScope, R"({"x":)" + std::string(1'000'000, '['), 1 << 20, out).code,
            Code::kExhausted);
  const std::string name = R"({"name":")" + std::string(200, 'n') + "\"}";
  EXPECT_EQ(OtlpFromJson(M::kScope, name, 203, out).code, Code::kOk);
  EXPECT_EQ(OtlpFromJson(M::kScope, name, 202, out).code, Code::kExhausted);
  std::string many = R"({"bucketCounts":[0)";
  for (int i = 0; i < 1000; ++i) many += ",0";
  EXPECT_EQ(OtlpFromJson(M::kHistogramPoint, many + "]}", 4000, out).code, Code::kExhausted);
}

TEST(OtlpJson, TheTableIsInOrder) {
  for (int i = 0; i <= static_cast<int>(M::kSpanStatus); ++i) {
    const auto message = static_cast<M>(i);
    uint32_t last = 0;
    EXPECT_FALSE(OtlpFields(message).empty()) << i;
    EXPECT_LE(OtlpFields(message).size(), 16u) << i;
    for (const OtlpField& field : OtlpFields(message)) {
      EXPECT_LT(last, field.number) << field.name;
      last = field.number;
      EXPECT_EQ(FindOtlpField(message, field.name), &field);
      EXPECT_EQ(FindOtlpField(message, field.number), &field);
    }
  }
  EXPECT_EQ(FindOtlpField(M::kScope, "Name"), nullptr);
  EXPECT_EQ(FindOtlpField(M::kNumberPoint, "as_doubl"), nullptr);
  EXPECT_EQ(FindOtlpField(M::kNumberPoint, "asdouble"), nullptr);
}

TEST(OtlpJson, ASteadyRunAllocatesNothing) {
  const std::string request = Metric([](pbf_writer& metric) {
    Put(metric, 5, [](pbf_writer& gauge) {
      for (int i = 0; i < 100; ++i) Put(gauge, 1, [&](pbf_writer& point) { point.add_double(4, i); });
    });
  });
  std::string json, back;
  for (int turn = 0; turn < 3; ++turn) {
    const uint64_t before = ThreadAllocations();
    ASSERT_TRUE(OtlpToJson(M::kMetrics, request, json).ok());
    ASSERT_TRUE(OtlpFromJson(M::kMetrics, json, 1 << 20, back).ok());
    EXPECT_TRUE(turn == 0 || ThreadAllocations() == before);
  }
  EXPECT_EQ(back, request);
}

}  // namespace
}  // namespace gpulens

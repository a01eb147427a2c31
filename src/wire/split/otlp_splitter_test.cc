#include "wire/split/otlp_splitter.h"

#include <gtest/gtest.h>

#include <protozero/pbf_reader.hpp>

#include "base/hash.h"
#include "base/testing/allocations.h"
#include "wire/otlp/otlp_in_testing.h"
#include "wire/otlp/otlp_json.h"

namespace gpulens {
namespace {

using namespace otlp_in_testing;
using Match = SplitRule::Match;
using Pairs32 = std::vector<std::pair<uint32_t, uint32_t>>;

std::string NumberPoint(const std::vector<std::string>& pairs, double value) {
  std::string attributes;
  for (const std::string& pair : pairs) attributes += In(7, pair);
  return In(1, Point(attributes, value));
}

// Two metrics of one resource, with points of the tenants a, b, a, none and b.
std::string TwoTenants() {
  return Request(
      In(1, Pair("service.name", "s")),
      In(2, Gauge("m1", NumberPoint({Pair("tenant", "a")}, 1) + NumberPoint({Pair("tenant", "b")}, 2) +
                            NumberPoint({Pair("tenant", "a")}, 3))) +
          In(2, Gauge("m2", NumberPoint({}, 4) + NumberPoint({Pair("tenant", "b")}, 5))));
}

struct Outcome {
  std::vector<SplitPart> parts;
  uint32_t left_out = 99;
};
Outcome SplitMetrics(const std::string& request, const SplitRule& rule) {
  Outcome out;
  OtlpSplitter splitter;
  const Status status = splitter.Split(OtlpSignal::kMetrics, request, rule, out.parts, out.left_out);
  EXPECT_TRUE(status.ok()) << status.detail;
  return out;
}

// Returns the values of the points of a request by metric: "m1: 1 2  m2: 3".
std::string Points(std::string_view request) {
  std::string out;
  protozero::pbf_reader lists(request.data(), request.size());
  while (lists.next(1)) {
    protozero::pbf_reader scopes = lists.get_message();
    while (scopes.next(2)) {
      protozero::pbf_reader metrics = scopes.get_message();
      while (metrics.next(2)) {
        protozero::pbf_reader metric = metrics.get_message();
        while (metric.next()) {
          if (metric.tag() == 1) out += (out.empty() ? "" : "  ") + metric.get_string() + ":";
          else if (metric.tag() != 5) metric.skip();
          else
            for (protozero::pbf_reader points = metric.get_message(); points.next(1);)
              for (protozero::pbf_reader point = points.get_message(); point.next();)
                if (point.tag() == 4) out += " " + std::to_string(static_cast<int>(point.get_double()));
                else point.skip();
        }
      }
    }
  }
  return out;
}

TEST(OtlpSplitter, WithoutARuleReturnsTheRequestUnchanged) {
  const std::string request = TwoTenants();
  const Outcome out = SplitMetrics(request, {});
  ASSERT_EQ(out.parts.size(), 1u);
  EXPECT_EQ(out.parts[0].body, request);
  EXPECT_EQ(out.parts[0].items, 5u);
  EXPECT_FALSE(out.parts[0].has_value);
  EXPECT_EQ(out.left_out, 0u);
}

TEST(OtlpSplitter, SplitsMetricsByAnAttributeOfTheirPoints) {
  const Outcome out = SplitMetrics(TwoTenants(), {.by = "tenant"});
  ASSERT_EQ(out.parts.size(), 3u);
  EXPECT_EQ(out.parts[0].value, "a");
  EXPECT_EQ(Points(out.parts[0].body), "m1: 1 3");
  EXPECT_EQ(out.parts[0].items, 2u);
  EXPECT_EQ(out.parts[1].value, "b");
  EXPECT_EQ(Points(out.parts[1].body), "m1: 2  m2: 5");
  EXPECT_FALSE(out.parts[2].has_value);
  EXPECT_EQ(Points(out.parts[2].body), "m2: 4");
}

TEST(OtlpSplitter, ResourceAttributesHideThoseOfScopesAndPoints) {
  const std::string point = In(2, Gauge("m", NumberPoint({Pair("tenant", "point")}, 1)));
  const std::string scope = In(1, Text(1, "scope") + In(3, Pair("tenant", "scope")));
  const std::string of_resource = In(1, In(1, In(1, Pair("tenant", "resource"))) + In(2, scope + point));
  // Fields may come in any order.
  const std::string of_scope = In(1, In(2, point + scope));
  const std::string of_point = In(1, In(2, point));
  const std::string request = of_resource + of_scope + of_point;
  const Outcome out = SplitMetrics(request, {.by = "tenant"});
  ASSERT_EQ(out.parts.size(), 3u);
  EXPECT_EQ(out.parts[0].value, "resource");
  EXPECT_EQ(out.parts[0].body, of_resource);
  EXPECT_EQ(out.parts[1].value, "scope");
  EXPECT_EQ(out.parts[1].body, of_scope);
  EXPECT_EQ(out.parts[2].value, "point");
  EXPECT_EQ(out.parts[2].body, of_point);
}

TEST(OtlpSplitter, TheLastOfDuplicateAttributesCounts) {
  const Outcome out = SplitMetrics(
      Request(In(1, Pair("t", "1")) + In(1, Pair("t", "2")), In(2, Gauge("m", NumberPoint({}, 1)))),
      {.by = "t"});
  ASSERT_EQ(out.parts.size(), 1u);
  EXPECT_EQ(out.parts[0].value, "2");
}

TEST(OtlpSplitter, LeavesOutItemsThatDoNotMatch) {
  const auto kept = [](std::vector<Match> where) {
    const Outcome out = SplitMetrics(TwoTenants(), {.where = std::move(where)});
    return (out.parts.empty() ? "" : Points(out.parts[0].body)) + " -" + std::to_string(out.left_out);
  };
  EXPECT_EQ(kept({{"tenant", {"a"}}}), "m1: 1 3 -3");
  EXPECT_EQ(kept({{"tenant", {"c", "b"}}}), "m1: 2  m2: 5 -3");
  EXPECT_EQ(kept({{"tenant", {"a"}, true}}), "m1: 2  m2: 4 5 -2");
  EXPECT_EQ(kept({{"tenant", {}}}), "m1: 1 2 3  m2: 5 -1");
  EXPECT_EQ(kept({{"tenant", {}, true}}), "m2: 4 -4");
  EXPECT_EQ(kept({{"service.name", {"s"}}, {"tenant", {"?"}}, {"tenant", {"b*"}, true}}), "m1: 1 3 -3");
  EXPECT_EQ(kept({{"service.name", {"other"}}}), " -5");
  EXPECT_EQ(kept({{"tenant", {"??"}}}), " -5");
}

TEST(OtlpSplitter, CopiesResourcesThatAreNotSplitUnchanged) {
  const std::string unknown = Text(500, "kept");
  const auto list = [&](const std::string& tenant, double value) {
    return In(
        1, In(1, In(1, Pair("tenant", tenant))) + unknown + In(2, In(2, Gauge("m", NumberPoint({}, value)))));
  };
  const Outcome out = SplitMetrics(list("a", 1) + list("b", 2) + unknown + list("a", 3), {.by = "tenant"});
  ASSERT_EQ(out.parts.size(), 2u);
  EXPECT_EQ(out.parts[0].body, list("a", 1) + unknown + list("a", 3));
  EXPECT_EQ(out.parts[1].body, list("b", 2) + unknown);
}

// The same as In, with the four bytes of length that a split message has.
std::string Wide(uint32_t number, const std::string& message) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  for (size_t i = 0; i < 4; ++i)
    out += static_cast<char>((message.size() >> (7 * i) & 0x7f) | (i < 3 ? 0x80 : 0));
  return out + message;
}

TEST(OtlpSplitter, OtherFieldsKeepTheirPlacesInEachPart) {
  const auto field = [](const char* text) { return Text(500, text); };
  const std::string a = NumberPoint({Pair("t", "a")}, 1), b = NumberPoint({Pair("t", "b")}, 2);
  const auto sum = [&](const std::string& points) { return field("1") + points + field("3"); };
  const std::string request =
      field("r1") +
      In(1, field("l1") +
                In(2, In(2, Text(1, "m") + In(7, sum(a + field("2") + b)) + Text(3, "By")) + field("s")) +
                field("l2")) +
      field("r2");
  const Outcome out = SplitMetrics(request, {.by = "t"});
  ASSERT_EQ(out.parts.size(), 2u);
  const auto expected = [&](const std::string& points) {
    return field("r1") +
           Wide(1, field("l1") +
                       Wide(2, Wide(2, Text(1, "m") + Wide(7, sum(points)) + Text(3, "By")) + field("s")) +
                       field("l2")) +
           field("r2");
  };
  EXPECT_EQ(out.parts[0].body, expected(a + field("2")));
  EXPECT_EQ(out.parts[1].body, expected(field("2") + b));
}

TEST(OtlpSplitter, SplitsLogsAndSpansByTheirAttributes) {
  OtlpSplitter splitter;
  std::vector<SplitPart> parts;
  uint32_t left_out = 0;
  const auto item = [](uint32_t attributes, const std::string& tenant, const std::string& name) {
    return In(2, Text(3, name) + In(attributes, Pair("tenant", tenant)));
  };
  for (const OtlpSignal signal : {OtlpSignal::kLogs, OtlpSignal::kTraces}) {
    const uint32_t field = signal == OtlpSignal::kLogs ? 6 : 9;
    const std::string resource = In(1, Pair("service.name", "s"));
    const std::string request =
        Request(resource, item(field, "a", "1") + item(field, "b", "2") + item(field, "a", "3"));
    ASSERT_TRUE(splitter.Split(signal, request, {.by = "tenant"}, parts, left_out));
    ASSERT_EQ(parts.size(), 2u);
    EXPECT_EQ(parts[0].body,
              Wide(1, In(1, resource) + Wide(2, item(field, "a", "1") + item(field, "a", "3"))));
    EXPECT_EQ(parts[1].body, Wide(1, In(1, resource) + Wide(2, item(field, "b", "2"))));
  }
}

TEST(OtlpSplitter, ReadsAttributesOfAllKindsOfPoints) {
  std::string metrics;
  for (const auto& [data, attributes] : Pairs32{{5, 7}, {7, 7}, {9, 9}, {10, 1}, {11, 7}})
    metrics += In(2, Text(1, "m") + In(data, In(1, In(attributes, Pair("t", std::to_string(data))))));
  const Outcome out = SplitMetrics(Request("", metrics), {.by = "t"});
  ASSERT_EQ(out.parts.size(), 5u);
  EXPECT_EQ(out.parts[0].value, "5");
  EXPECT_EQ(out.parts[4].value, "11");
}

TEST(OtlpSplitter, ShardsAndEndpointsFollowTheHashOfTheResource) {
  std::string request;
  for (int i = 0; i < 50; ++i)
    request += In(1, In(1, In(1, Pair("host.name", "n" + std::to_string(i))) + In(1, Pair("zone", "z"))) +
                         In(2, In(2, Gauge("m", NumberPoint({}, i)))));
  SplitRule rule{.hash = SplitHash::kResource, .shards = 4};
  Outcome out = SplitMetrics(request, rule);
  EXPECT_EQ(out.parts.size(), 4u);
  uint32_t items = 0;
  for (const SplitPart& part : out.parts) {
    EXPECT_EQ(part.shard, part.hash % 4);
    EXPECT_EQ(part.endpoint, 0u);
    items += part.items;
  }
  EXPECT_EQ(items, 50u);
  rule.endpoints = {StableHash("a"), StableHash("b")};
  out = SplitMetrics(request, rule);
  EXPECT_EQ(out.parts.size(), 8u);
  rule.usable = {0, 1};
  out = SplitMetrics(request, rule);
  EXPECT_EQ(out.parts.size(), 4u);
  for (const SplitPart& part : out.parts) EXPECT_EQ(part.endpoint, 1u);
}

TEST(OtlpSplitter, TheHashOfAResourceDoesNotDependOnTheOrderOfItsAttributes) {
  const SplitRule rule{.hash = SplitHash::kResource};
  const auto hash = [&](const std::string& attributes) {
    return SplitMetrics(Request(attributes, In(2, Gauge("m", NumberPoint({}, 1)))), rule).parts.at(0).hash;
  };
  const std::string job = In(1, Pair("job", "gpulens")), host = In(1, Pair("instance", "node-1:9091"));
  EXPECT_EQ(hash(job + host), hash(host + job));
  EXPECT_NE(hash(job + host), hash(job));
  // The value is fixed across versions.
  EXPECT_EQ(hash(job + host),
            MixBits(PairHash("job", "\x0a\x07gpulens") + PairHash("instance", "\x0a\x0bnode-1:9091")));
}

TEST(OtlpSplitter, ForRequestsInFlightAResourceStaysWholeAndATraceToo) {
  std::string points;
  for (int i = 0; i < 100; ++i) points += NumberPoint({Pair("p", std::to_string(i))}, i);
  const SplitRule rule{.hash = SplitHash::kTrace, .shards = 8};
  EXPECT_EQ(SplitMetrics(Request(In(1, Pair("r", "a")), In(2, Gauge("m", points))), rule).parts.size(), 1u);
  const SplitRule by_resource{.hash = SplitHash::kResource, .shards = 8};
  const std::string request = Request(In(1, Pair("r", "b")), In(2, Gauge("m", points)));
  EXPECT_EQ(SplitMetrics(request, rule).parts.at(0).hash,
            SplitMetrics(request, by_resource).parts.at(0).hash);
}

TEST(OtlpSplitter, TheHashOfASeriesIsThatOfResourceMetricAndPoint) {
  const SplitRule rule{.hash = SplitHash::kSeries};
  const auto hash = [&](const std::string& resource, const std::string& name, const std::string& attribute) {
    const std::string request =
        Request(In(1, Pair("r", resource)), In(2, Gauge(name, NumberPoint({Pair("p", attribute)}, 1))));
    return SplitMetrics(request, rule).parts.at(0).hash;
  };
  EXPECT_EQ(hash("r", "m", "p"), hash("r", "m", "p"));
  EXPECT_NE(hash("r", "m", "p"), hash("q", "m", "p"));
  EXPECT_NE(hash("r", "m", "p"), hash("r", "n", "p"));
  EXPECT_NE(hash("r", "m", "p"), hash("r", "m", "q"));
  // Series of one metric go to different shards, and the points of each series to one.
  std::string points;
  for (int i = 0; i < 100; ++i) points += NumberPoint({Pair("p", std::to_string(i % 50))}, i);
  const Outcome out =
      SplitMetrics(Request("", In(2, Gauge("m", points))), {.hash = SplitHash::kSeries, .shards = 8});
  EXPECT_EQ(out.parts.size(), 8u);
  for (const SplitPart& part : out.parts) EXPECT_EQ(part.items % 2, 0u);
}

TEST(OtlpSplitter, SpansOfATraceStayTogether) {
  std::string spans;
  for (int i = 0; i < 60; ++i) spans += In(2, Text(1, "trace-number-" + std::to_string(100 + i % 20)));
  OtlpSplitter splitter;
  std::vector<SplitPart> parts;
  uint32_t left_out = 0;
  const SplitRule rule{.hash = SplitHash::kSeries, .shards = 4};
  ASSERT_TRUE(splitter.Split(OtlpSignal::kTraces, Request("", spans), rule, parts, left_out));
  EXPECT_EQ(parts.size(), 4u);
  for (const SplitPart& part : parts) EXPECT_EQ(part.items % 3, 0u);
}

TEST(OtlpSplitter, ARequestWithoutItemsHasNoParts) {
  for (const SplitRule& rule : {SplitRule{}, SplitRule{.by = "tenant"}}) {
    const Outcome out = SplitMetrics(Request(In(1, Pair("tenant", "a")), In(2, Gauge("m", ""))), rule);
    EXPECT_TRUE(out.parts.empty());
    EXPECT_EQ(out.left_out, 0u);
  }
  EXPECT_TRUE(SplitMetrics("", {}).parts.empty());
}

TEST(OtlpSplitter, ReusesPartsOfEarlierRequests) {
  OtlpSplitter splitter;
  std::vector<SplitPart> parts;
  uint32_t left_out = 0;
  const SplitRule rule{.by = "tenant"};
  const std::string many = TwoTenants();
  const std::string one = Request(In(1, Pair("tenant", "only")), In(2, Gauge("m", NumberPoint({}, 1))));
  ASSERT_TRUE(splitter.Split(OtlpSignal::kMetrics, many, rule, parts, left_out));
  const std::vector<SplitPart> before = parts;
  ASSERT_TRUE(splitter.Split(OtlpSignal::kMetrics, one, rule, parts, left_out));
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].body, one);
  ASSERT_TRUE(splitter.Split(OtlpSignal::kMetrics, many, rule, parts, left_out));
  ASSERT_EQ(parts.size(), before.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(parts[i].value, before[i].value);
    EXPECT_EQ(parts[i].has_value, before[i].has_value);
    EXPECT_EQ(parts[i].body, before[i].body);
    EXPECT_EQ(parts[i].items, before[i].items);
  }
}

TEST(OtlpSplitter, DoesNotAllocateOnRepeatedRequests) {
  OtlpSplitter splitter;
  std::vector<SplitPart> parts;
  uint32_t left_out = 0;
  const std::string many = TwoTenants();
  const std::string one = Request(In(1, Pair("tenant", "only")), In(2, Gauge("m", NumberPoint({}, 1))));
  const SplitRule rule{.where = {{"tenant", {"*"}}}, .by = "tenant", .hash = SplitHash::kResource};
  for (int i = 0; i < 6; ++i) {
    const uint64_t before = ThreadAllocations();
    const bool good =
        splitter.Split(OtlpSignal::kMetrics, i % 2 == 0 ? many : one, rule, parts, left_out).ok();
    EXPECT_TRUE(good && (i < 4 || !AllocationsAreCounted() || ThreadAllocations() == before)) << i;
  }
}

TEST(OtlpSplitter, NumericResourceAttributesHideThoseOfPoints) {
  std::vector<SplitPart> parts;
  uint32_t left_out = 0;
  const std::string request =
      Request(In(1, IntPair("t", 5)), In(2, Gauge("m", NumberPoint({IntPair("t", 6), Pair("u", "v")}, 1))));
  const SplitRule rule{.where = {{"t", {"6"}, true}, {"u", {"v"}}}, .by = "t"};
  ASSERT_TRUE(OtlpSplitter().Split(OtlpSignal::kMetrics, request, rule, parts, left_out));
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].value, "5");
}

TEST(OtlpSplitter, RefusesInvalidRules) {
  OtlpSplitter splitter;
  std::vector<SplitPart> parts(3);
  uint32_t left_out = 0;
  const auto code = [&](const SplitRule& rule) {
    const Status status = splitter.Split(OtlpSignal::kMetrics, TwoTenants(), rule, parts, left_out);
    EXPECT_TRUE(parts.empty());
    return status.code;
  };
  EXPECT_EQ(code({.shards = 0}), Code::kInvalidArgument);
  EXPECT_EQ(code({.endpoints = {1, 2}, .usable = {1}}), Code::kInvalidArgument);
  EXPECT_EQ(code({.endpoints = {1, 2}, .usable = {0, 0}}), Code::kUnavailable);
}

TEST(OtlpSplitter, RefusesMalformedRequests) {
  const std::string request = TwoTenants();
  OtlpSplitter splitter;
  std::vector<SplitPart> parts;
  uint32_t left_out = 0;
  // A request of one resource is malformed when cut off at any byte.
  for (size_t size = 1; size < request.size(); ++size) {
    const std::string_view cut_off = std::string_view(request).substr(0, size);
    const Status status = splitter.Split(OtlpSignal::kMetrics, cut_off, {.by = "tenant"}, parts, left_out);
    EXPECT_EQ(status.code, Code::kDataLoss) << size;
    EXPECT_TRUE(parts.empty());
  }
  const auto detail = [&](const std::string& bytes, const SplitRule& rule) {
    return splitter.Split(OtlpSignal::kMetrics, bytes, rule, parts, left_out).detail;
  };
  const std::string number = "\x08\x01", wrong = "a field has a wire type other than that of OTLP";
  EXPECT_EQ(detail(number, {}), wrong);
  EXPECT_EQ(detail(In(1, In(1, number)), {.by = "t"}), wrong);
  EXPECT_EQ(detail(In(1, In(2, In(2, In(5, number)))), {.by = "t"}), wrong);
  EXPECT_EQ(detail(Request("", In(2, Gauge("m", In(1, "\x38\x01")))), {.by = "t"}), wrong);
  EXPECT_EQ(detail(Request(In(1, "\x0a\x7f"), ""), {.by = "t"}), "the request is not valid protobuf");
  EXPECT_EQ(detail("\x0b", {}), "the request is not valid protobuf");
}

TEST(OtlpSplitter, EnforcesLimits) {
  std::string points;
  for (int i = 0; i < 20; ++i) points += NumberPoint({Pair("t", std::to_string(i))}, i);
  const std::string request = Request(In(1, Pair("r", std::string(1000, 'r'))), In(2, Gauge("m", points)));
  std::vector<SplitPart> parts;
  uint32_t left_out = 0;
  const auto detail = [&](SplitLimits limits) {
    const Status status =
        OtlpSplitter(limits).Split(OtlpSignal::kMetrics, request, {.by = "t"}, parts, left_out);
    EXPECT_EQ(status.code, status.ok() ? Code::kOk : Code::kExhausted);
    EXPECT_EQ(parts.size(), status.ok() ? 20u : 0u);
    return status.detail;
  };
  EXPECT_EQ(detail({.parts = 20}), "");
  EXPECT_EQ(detail({.parts = 19}), "the request has more than 19 parts");
  // Each part repeats the resource.
  EXPECT_EQ(detail({.bytes = 25'000}), "");
  EXPECT_EQ(detail({.bytes = 20'000}), "the parts of the request have more than 20000 bytes together");
  EXPECT_EQ(detail({.bytes = 1000}), "the request has more than 1000 bytes");
  EXPECT_EQ(detail({.messages = 25}), "");
  EXPECT_EQ(detail({.messages = 24}), "more than 24 messages to route");
}

std::string TextOfValue(const std::string& any_value) {
  std::string room;
  std::string_view text;
  return otlp::ValueText(any_value, otlp::ValueStyle::kPage, room, text) ? std::string(text) : "absent";
}

TEST(OtlpValueText, WritesEachKindOfValue) {
  const auto number = [](uint32_t field, uint64_t value) {
    std::string out;
    pbf_writer(out).add_uint64(field, value);
    return out;
  };
  const auto real = [](double value) {
    std::string out;
    pbf_writer(out).add_double(4, value);
    return out;
  };
  EXPECT_EQ(TextOfValue(Text(1, "text \xff")), "text \xff");
  EXPECT_EQ(TextOfValue(Text(1, "")), "");
  EXPECT_EQ(TextOfValue(number(2, 1)), "true");
  EXPECT_EQ(TextOfValue(number(2, 0)), "false");
  EXPECT_EQ(TextOfValue(number(3, 5)), "5");
  EXPECT_EQ(TextOfValue(number(3, UINT64_MAX)), "-1");
  EXPECT_EQ(TextOfValue(number(3, INT64_MAX)), "9223372036854775807");
  EXPECT_EQ(TextOfValue(real(1.5)), "1.5");
  EXPECT_EQ(TextOfValue(real(5)), "5");
  EXPECT_EQ(TextOfValue(real(1.0 / 0.0)), "+Inf");
  EXPECT_EQ(TextOfValue(In(5, In(1, Text(1, "a\"")) + In(1, number(3, 1)))), "[\"a\\\"\",1]");
  EXPECT_EQ(TextOfValue(In(6, In(1, Pair("k", "v")) + In(1, IntPair("n", 2)))), "{\"k\":\"v\",\"n\":2}");
  EXPECT_EQ(TextOfValue(In(5, "")), "[]");
  // The last of several counts; a field that is unknown does not.
  EXPECT_EQ(TextOfValue(Text(1, "a") + number(3, 5) + Text(99, "x")), "5");
}

TEST(OtlpValueText, RejectsValuesWithoutText) {
  EXPECT_EQ(TextOfValue(""), "absent");
  EXPECT_EQ(TextOfValue(Text(7, "bytes")), "absent");
  EXPECT_EQ(TextOfValue("\x0a\x05"
                        "ab"),
            "absent");
  EXPECT_EQ(TextOfValue("\x08\x01"), "absent");
  EXPECT_EQ(TextOfValue(In(5, In(1, Text(7, "bytes")))), "absent");
  std::string deep = In(5, "");
  for (int i = 0; i < 30; ++i) deep = In(5, In(1, deep));
  EXPECT_EQ(TextOfValue(deep), std::string(31, '[') + std::string(31, ']'));
  for (int i = 0; i < 2; ++i) deep = In(5, In(1, deep));
  EXPECT_EQ(TextOfValue(deep), "absent");
}

}  // namespace
}  // namespace gpulens

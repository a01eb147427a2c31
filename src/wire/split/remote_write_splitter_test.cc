#include "wire/split/remote_write_splitter.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/testing/allocations.h"
#include "wire/remote_write/remote_write_in_testing.h"

namespace gpulens {
namespace {

using namespace remote_write_in_testing;
using Match = SplitRule::Match;
using Version = RemoteWriteVersion;

struct Parts {
  std::vector<SplitPart> parts;
  uint32_t left_out = 99;
};
Parts SplitWrite(Version version, const std::string& request, const SplitRule& rule) {
  Parts out;
  RemoteWriteSplitter splitter;
  const Status status = splitter.Split(version, request, rule, out.parts, out.left_out);
  EXPECT_TRUE(status.ok()) << status.detail;
  return out;
}

std::string Three1() {
  return First()
      .Series({{"__name__", "m"}, {"tenant", "a"}}, Sample(1) + Sample(2))
      .Metadata(2, "m", "Help.", "")
      .Series({{"__name__", "m"}, {"tenant", "b"}}, Sample(3))
      .Series({{"__name__", "n"}, {"tenant", "a"}}, Sample(4))
      .bytes();
}
std::string One1(const Pairs& labels, const std::string& parts) {
  return First().Series(labels, parts).bytes();
}

TEST(RemoteWriteSplitter, WithoutARuleReturnsTheRequestUnchanged) {
  const std::string request = Three1();
  const Parts out = SplitWrite(Version::k1, request, {});
  ASSERT_EQ(out.parts.size(), 1u);
  EXPECT_EQ(out.parts[0].body, request);
  EXPECT_EQ(out.parts[0].items, 4u);
  EXPECT_EQ(out.left_out, 0u);
}

TEST(RemoteWriteSplitter, SplitsVersion1ByALabelAndRepeatsMetadata) {
  const std::string about = First().Metadata(2, "m", "Help.", "").bytes();
  const Parts out = SplitWrite(Version::k1, Three1(), {.by = "tenant"});
  ASSERT_EQ(out.parts.size(), 2u);
  EXPECT_EQ(out.parts[0].value, "a");
  EXPECT_EQ(out.parts[0].items, 3u);
  EXPECT_EQ(out.parts[0].body, One1({{"__name__", "m"}, {"tenant", "a"}}, Sample(1) + Sample(2)) + about +
                                   One1({{"__name__", "n"}, {"tenant", "a"}}, Sample(4)));
  EXPECT_EQ(out.parts[1].value, "b");
  EXPECT_EQ(out.parts[1].body, about + One1({{"__name__", "m"}, {"tenant", "b"}}, Sample(3)));
}

TEST(RemoteWriteSplitter, MetadataAloneIsOnePartWithoutAValue) {
  const std::string about = First().Metadata(2, "m", "Help.", "").bytes();
  const Parts out = SplitWrite(Version::k1, about, {.where = {{"tenant", {"a"}}}, .by = "tenant"});
  ASSERT_EQ(out.parts.size(), 1u);
  EXPECT_FALSE(out.parts[0].has_value);
  EXPECT_EQ(out.parts[0].items, 0u);
  EXPECT_EQ(out.parts[0].body, about);
  EXPECT_TRUE(SplitWrite(Version::k1, "", {}).parts.empty());
  EXPECT_TRUE(SplitWrite(Version::k2, Second().bytes(), {}).parts.empty());
  // Without any series that is kept, metadata is left out too.
  EXPECT_TRUE(SplitWrite(Version::k1, Three1(), {.where = {{"tenant", {"c"}}}}).parts.empty());
}

TEST(RemoteWriteSplitter, LeavesOutItemsThatDoNotMatch) {
  Parts out = SplitWrite(Version::k1, Three1(), {.where = {{"tenant", {"a"}}, {"__name__", {"m*"}}}});
  ASSERT_EQ(out.parts.size(), 1u);
  EXPECT_EQ(out.parts[0].items, 2u);
  EXPECT_EQ(out.left_out, 2u);
  out = SplitWrite(Version::k1, Three1(), {.where = {{"tenant", {"?"}, true}}});
  EXPECT_TRUE(out.parts.empty());
  EXPECT_EQ(out.left_out, 4u);
}

TEST(RemoteWriteSplitter, FindsAttributesNamedWithUnderscores) {
  const auto value = [](const std::string& by, const Pairs& labels) {
    const Parts out = SplitWrite(Version::k1, One1(labels, Sample(1)), {.by = by});
    EXPECT_EQ(out.parts.size(), 1u);
    return out.parts[0].has_value ? out.parts[0].value : "absent";
  };
  const Pairs underscored = {{"__name__", "m"}, {"k8s_namespace_name", "u"}};
  const Pairs both = {{"k8s.namespace.name", "d"}, {"k8s_namespace_name", "u"}};
  EXPECT_EQ(value("k8s.namespace.name", underscored), "u");
  EXPECT_EQ(value("k8s_namespace_name", underscored), "u");
  EXPECT_EQ(value("k8s-namespace/name", underscored), "u");
  EXPECT_EQ(value("k8s.namespace.name", both), "d");
  EXPECT_EQ(value("k8s.namespace.name", {both[1], both[0]}), "d");
  EXPECT_EQ(value("k8s_namespace_name", both), "u");
  EXPECT_EQ(value("k8s_namespace_name", {both[0]}), "absent");
  EXPECT_EQ(value("k8sxnamespace_name", underscored), "absent");
  EXPECT_EQ(value("k8s.namespace.name", {{"k8s_namespace_name", ""}}), "absent");
}

TEST(RemoteWriteSplitter, ShardsFollowJobAndInstanceOrAllLabels) {
  First request;
  for (int i = 0; i < 200; ++i)
    request.Series({{"__name__", "m" + std::to_string(i / 20)},
                    {"instance", "n" + std::to_string(i % 20)},
                    {"job", "j"}},
                   Sample(i));
  const Parts by_resource =
      SplitWrite(Version::k1, request.bytes(), {.hash = SplitHash::kResource, .shards = 1000});
  EXPECT_EQ(by_resource.parts.size(), 20u);
  for (const SplitPart& part : by_resource.parts) EXPECT_EQ(part.items, 10u);
  EXPECT_EQ(by_resource.parts[0].hash, MixBits(PairHash("job", "j") + PairHash("instance", "n0")));
  const Parts by_series =
      SplitWrite(Version::k1, request.bytes(), {.hash = SplitHash::kSeries, .shards = 1000});
  EXPECT_GT(by_series.parts.size(), 150u);
  const Parts by_endpoint = SplitWrite(
      Version::k1, request.bytes(),
      {.hash = SplitHash::kResource, .endpoints = {StableHash("a"), StableHash("b"), StableHash("c")}});
  EXPECT_EQ(by_endpoint.parts.size(), 3u);
}

TEST(RemoteWriteSplitter, BothVersionsHaveTheSameHashes) {
  const Pairs labels = {{"__name__", "m"}, {"instance", "node-1:9091"}, {"job", "gpulens"}};
  const Pairs turned = {labels[2], labels[0], labels[1]};
  for (const SplitHash hash : {SplitHash::kResource, SplitHash::kSeries}) {
    const SplitRule rule{.hash = hash};
    const uint64_t first = SplitWrite(Version::k1, One1(labels, Sample(1)), rule).parts.at(0).hash;
    const uint64_t second =
        SplitWrite(Version::k2, Second().Series(turned, Sample(1)).bytes(), rule).parts.at(0).hash;
    EXPECT_EQ(first, second);
    if (hash == SplitHash::kResource) {
      EXPECT_EQ(first, 0x6c7627cb59c61cc9);
    }
  }
}

// Returns the symbols of a request of 2.0 in their order.
std::vector<std::string> Symbols(std::string_view request) {
  std::vector<std::string> out;
  for (pbf_reader reader(request.data(), request.size()); reader.next();)
    if (reader.tag() == 4) out.push_back(reader.get_string());
    else reader.skip();
  return out;
}

TEST(RemoteWriteSplitter, SplitsVersion2AndKeepsOnlyUsedSymbols) {
  Second request;
  const std::string exemplar = request.Exemplar({{"trace_id", "t1"}}, 5, kMs);
  request.Series({{"__name__", "m"}, {"tenant", "a"}}, Sample(1) + exemplar, {1, "Help.", "By"})
      .Series({{"__name__", "n"}, {"tenant", "b"}}, Sample(2))
      .Series({{"__name__", "o"}, {"tenant", "a"}}, Sample(3));
  const Parts out = SplitWrite(Version::k2, request.bytes(), {.by = "tenant"});
  ASSERT_EQ(out.parts.size(), 2u);
  EXPECT_EQ(Symbols(out.parts[0].body), (std::vector<std::string>{"", "__name__", "m", "tenant", "a",
                                                                  "trace_id", "t1", "Help.", "By", "o"}));
  EXPECT_EQ(Symbols(out.parts[1].body), (std::vector<std::string>{"", "__name__", "n", "tenant", "b"}));
  EXPECT_EQ(out.parts[0].items, 2u);
  // A request of the second series alone has the same symbols in the same order.
  Second second;
  second.Series({{"__name__", "n"}, {"tenant", "b"}}, Sample(2));
  const std::string expected = second.bytes();
  const size_t series = expected.find(std::string("\x22\x00", 2));
  EXPECT_EQ(out.parts[1].body, expected.substr(series) + expected.substr(0, series));
}

TEST(RemoteWriteSplitter, HandlesDuplicateAndEmptySymbols) {
  // Symbol 2 is empty too, symbols 1 and 3 are both m; references are not packed.
  const auto symbol = [](const std::string& text) { return Message(4, text); };
  const auto ref = [](uint32_t number) {
    std::string out;
    pbf_writer(out).add_uint32(1, number);
    return out;
  };
  const std::string request = symbol("") + symbol("m") + symbol("") + symbol("m") + symbol("t") +
                              Message(5, ref(4) + ref(1) + ref(1) + ref(2) + Sample(1)) +
                              Message(5, ref(4) + ref(4) + ref(1) + ref(3) + Sample(2));
  const Parts out = SplitWrite(Version::k2, request, {.by = "t"});
  ASSERT_EQ(out.parts.size(), 2u);
  EXPECT_EQ(out.parts[0].body, symbol("") + symbol("t") + symbol("m") +
                                   Message(5, ref(1) + ref(2) + ref(2) + ref(0) + Sample(1)));
  EXPECT_EQ(out.parts[1].body, symbol("") + symbol("t") + symbol("m") + symbol("m") +
                                   Message(5, ref(1) + ref(1) + ref(2) + ref(3) + Sample(2)));
}

TEST(RemoteWriteSplitter, DoesNotAllocateOnRepeatedRequests) {
  Second request;
  request
      .Series({{"__name__", "m"}, {"tenant", "a"}}, Sample(1) + request.Exemplar({{"trace_id", "t"}}, 1, 2))
      .Series({{"__name__", "m"}, {"tenant", "b"}}, Sample(2), {1, "Help.", "By"});
  const std::string second = request.bytes(), first = Three1();
  RemoteWriteSplitter splitter;
  std::vector<SplitPart> parts;
  uint32_t left_out = 0;
  const SplitRule rule{.by = "tenant", .hash = SplitHash::kSeries};
  for (int i = 0; i < 6; ++i) {
    const uint64_t before = ThreadAllocations();
    const Status status = i % 2 == 0 ? splitter.Split(Version::k1, first, rule, parts, left_out)
                                     : splitter.Split(Version::k2, second, rule, parts, left_out);
    EXPECT_TRUE(status.ok() && (i < 4 || !AllocationsAreCounted() || ThreadAllocations() == before)) << i;
    EXPECT_EQ(parts.size(), 2u);
  }
}

TEST(RemoteWriteSplitter, RefusesMalformedRequests) {
  RemoteWriteSplitter splitter;
  std::vector<SplitPart> parts;
  uint32_t left_out = 0;
  const auto split = [&](Version version, std::string_view bytes, const SplitRule& rule) {
    const Status status = splitter.Split(version, bytes, rule, parts, left_out);
    EXPECT_EQ(parts.empty(), !status.ok());
    EXPECT_EQ(status.code, status.ok() ? Code::kOk : Code::kDataLoss);
    return status.detail;
  };
  const std::string one = One1({{"__name__", "m"}, {"t", "a"}}, Sample(1));
  for (size_t size = 1; size < one.size(); ++size)
    EXPECT_NE(split(Version::k1, std::string_view(one).substr(0, size), {.by = "t"}), "") << size;
  const std::string wrong = "a field has a wire type other than that of remote write";
  const std::string number = "\x08\x01", broken = "the request is not valid protobuf";
  EXPECT_EQ(split(Version::k1, number, {}), wrong);
  EXPECT_EQ(split(Version::k1, Message(1, number), {.by = "t"}), wrong);
  EXPECT_EQ(split(Version::k1, Message(1, Message(1, number)), {.by = "t"}), wrong);
  EXPECT_EQ(split(Version::k1, Message(1, Message(1, "\x0a\x7f")), {.by = "t"}), broken);
  const std::string symbols = Message(4, "") + Message(4, "t") + Message(4, "a");
  const auto refs = [](const std::string& packed) { return Message(5, Message(1, packed) + Sample(1)); };
  EXPECT_EQ(split(Version::k2, symbols + refs("\x01\x02"), {.by = "t"}), "");
  EXPECT_EQ(split(Version::k2, symbols + refs("\x01\x03"), {.by = "t"}),
            "a reference to a symbol that does not exist");
  EXPECT_EQ(split(Version::k2, symbols + refs("\x01"), {.by = "t"}),
            "the label references of a series are not pairs");
  EXPECT_EQ(split(Version::k2, symbols + refs("\x80"), {.by = "t"}), broken);
  EXPECT_EQ(split(Version::k2, "\x20\x01", {.by = "t"}), wrong);
  // References of exemplars and metadata are checked only when the request is split.
  const std::string good = symbols + refs("\x01\x02") + refs("\x02\x01");
  const std::string of_exemplar = Message(5, Message(1, "\x01\x01") + Message(4, Message(1, "\x01\x09")));
  const std::string of_metadata = Message(5, Message(1, "\x01\x01") + Message(5, "\x18\x09"));
  EXPECT_EQ(split(Version::k2, good, {.by = "t"}), "");
  EXPECT_EQ(split(Version::k2, good + of_exemplar, {.by = "t"}),
            "a reference to a symbol that does not exist");
  EXPECT_EQ(split(Version::k2, good + of_metadata, {.by = "t"}),
            "a reference to a symbol that does not exist");
  EXPECT_EQ(split(Version::k2, good + Message(5, "\x20\x01"), {.by = "t"}), wrong);
}

TEST(RemoteWriteSplitter, EnforcesLimits) {
  First first;
  Second second;
  for (int i = 0; i < 20; ++i) {
    const Pairs labels = {{"__name__", "m"}, {"t", std::to_string(i)}};
    first.Series(labels, Sample(i)).Metadata(1, "m", std::string(100, 'h'), "");
    second.Series(labels, Sample(i), {1, std::string(1000, 'h'), ""});
  }
  std::vector<SplitPart> parts;
  uint32_t left_out = 0;
  const auto detail = [&](Version version, SplitLimits limits) {
    const std::string request = version == Version::k1 ? first.bytes() : second.bytes();
    const Status status = RemoteWriteSplitter(limits).Split(version, request, {.by = "t"}, parts, left_out);
    EXPECT_EQ(status.code, status.ok() ? Code::kOk : Code::kExhausted);
    EXPECT_EQ(parts.size(), status.ok() ? 20u : 0u);
    return status.detail;
  };
  EXPECT_EQ(detail(Version::k1, {.parts = 20}), "");
  EXPECT_EQ(detail(Version::k1, {.parts = 19}), "the request has more than 19 parts");
  // Each part repeats all metadata of 1.0, or the help symbol of 2.0.
  EXPECT_EQ(detail(Version::k1, {.bytes = 60'000}), "");
  EXPECT_EQ(detail(Version::k1, {.bytes = 20'000}),
            "the parts of the request have more than 20000 bytes together");
  EXPECT_EQ(detail(Version::k2, {.bytes = 25'000}), "");
  EXPECT_EQ(detail(Version::k2, {.bytes = 20'000}),
            "the parts of the request have more than 20000 bytes together");
  EXPECT_EQ(detail(Version::k1, {.bytes = 1000}), "the request has more than 1000 bytes");
  EXPECT_EQ(detail(Version::k1, {.messages = 19}), "more than 19 series");
  EXPECT_EQ(detail(Version::k2, {.messages = 19}), "more than 19 symbols");
}

}  // namespace
}  // namespace gpulens

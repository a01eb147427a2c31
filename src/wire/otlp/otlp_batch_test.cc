#include "wire/otlp/otlp_batch.h"

#include <gtest/gtest.h>

#include "wire/otlp/otlp_in_testing.h"
#include "wire/otlp/otlp_lines_testing.h"

namespace gpulens {
namespace {

using namespace otlp_in_testing;

// Adds its pod to a resource and to every GPU.
class FakeEnricher final : public OtlpEnricher {
 public:
  explicit FakeEnricher(bool replaces = false)
      : resource_(AttributeSet({{"k8s.pod.name", "of-resource"}, {"cluster", "c1"}}), replaces) {
    for (int i = 0; i < 4; ++i) {
      const std::string pod = "pod-" + std::to_string(i);
      gpus_.emplace_back(AttributeSet({{"k8s.pod.name", std::string_view(pod)}}), replaces);
    }
  }
  const OtlpAddition* OfResource(const OtlpIdentity& resource) override {
    return resource.host_name == "elsewhere" ? nullptr : &resource_;
  }
  const OtlpAddition* OfItem(const OtlpIdentity& resource, const OtlpIdentity& item) override {
    if (resource.host_name == "elsewhere" || item.gpu_index < 0 || item.gpu_index > 3) return nullptr;
    return &gpus_[static_cast<size_t>(item.gpu_index)];
  }

 private:
  OtlpAddition resource_;
  std::vector<OtlpAddition> gpus_;
};

struct Emitted {
  std::vector<std::string> requests;
  std::vector<uint32_t> items;
};

Emitted Batched(OtlpSignal signal, const std::vector<std::string>& requests, OtlpEnricher* enricher,
                OtlpBatch::Limits limits = {}, const NameFilter* unwanted = nullptr) {
  Emitted out;
  OtlpBatch batch(signal, limits, [&](std::string request, uint32_t items) {
    out.requests.push_back(std::move(request));
    out.items.push_back(items);
  });
  for (const std::string& request : requests) {
    OtlpScan scan;
    const Status status = ScanOtlp(signal, request, unwanted, scan);
    EXPECT_TRUE(status.ok()) << status.detail;
    batch.Add(scan, enricher);
  }
  batch.Flush();
  return out;
}
std::string One(OtlpSignal signal, const std::string& request, OtlpEnricher* enricher) {
  Emitted out = Batched(signal, {request}, enricher);
  EXPECT_EQ(out.requests.size(), 1u);
  return out.requests.empty() ? "" : out.requests[0];
}
size_t Count(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}
// Resources of the only list.
int Resources(const std::string& request) {
  int count = 0;
  pbf_reader all(request);
  while (all.next(1)) {
    pbf_reader list = all.get_message();
    while (list.next()) {
      count += list.tag() == 1;
      list.skip();
    }
  }
  return count;
}

// Attributes that FakeEnricher could have added, taken out again.
std::string Without(std::string text, const std::string& field, const std::vector<std::string>& pairs) {
  for (const std::string& pair : pairs) {
    const std::string added = field + ":" + pair + ";";
    if (size_t at = text.find(added); at != std::string::npos) text.erase(at, added.size());
  }
  return text;
}

TEST(OtlpBatch, CopiesUnchangedRequestsByteForByte) {
  for (OtlpSignal signal : {OtlpSignal::kMetrics, OtlpSignal::kLogs, OtlpSignal::kTraces}) {
    for (uint64_t seed = 0; seed < 50; ++seed) {
      const std::string request = Maker(seed).Make(signal);
      EXPECT_EQ(One(signal, request, nullptr), request);
    }
  }
}

TEST(OtlpBatch, AttributesGoInsideTheResourceThatIsThere) {
  FakeEnricher enricher;
  const std::string items = In(2, Gauge("m", In(1, Point(""))));
  const std::string request = Request(In(1, Pair("service.name", "s")), items);
  const std::string out = One(OtlpSignal::kMetrics, request, &enricher);
  EXPECT_EQ(out, Request(In(1, Pair("service.name", "s")) + In(1, Pair("cluster", "c1")) +
                             In(1, Pair("k8s.pod.name", "of-resource")),
                         items));
  EXPECT_EQ(Resources(out), 1);
}

TEST(OtlpBatch, AMissingResourceIsMade) {
  FakeEnricher enricher;
  const std::string out = One(OtlpSignal::kLogs, In(1, In(2, In(2, In(5, Text(1, "line"))))), &enricher);
  EXPECT_EQ(Resources(out), 1);
  EXPECT_EQ(Count(out, "of-resource"), 1u);
}

TEST(OtlpBatch, KeepsAttributesOfTheSenderUnlessConfiguredOtherwise) {
  const std::string items =
      In(2, Gauge("m", In(1, Point(In(7, Pair("gpu.index", "2")) + In(7, Pair("k8s.pod.name", "mine"))))));
  const std::string request = Request(In(1, Pair("k8s.pod.name", "mine")), items);
  FakeEnricher keeps(false), replaces(true);
  const std::string kept = One(OtlpSignal::kMetrics, request, &keeps);
  EXPECT_EQ(Count(kept, "mine"), 2u);
  EXPECT_EQ(Count(kept, "of-resource") + Count(kept, "pod-2"), 0u);
  const std::string replaced = One(OtlpSignal::kMetrics, request, &replaces);
  EXPECT_EQ(Count(replaced, "mine"), 0u);
  EXPECT_EQ(Count(replaced, "of-resource") + Count(replaced, "pod-2"), 2u);
}

// One metric point, log record and span with gpu.index=3 all leave with k8s.pod.name.
TEST(OtlpBatch, ItemsOfAllSignalsGetThePodOfTheirGpu) {
  FakeEnricher enricher;
  const std::string host = In(1, Pair("host.name", "here"));
  const std::string point = In(2, Gauge("m", In(1, Point(In(7, Pair("gpu.index", "3"))))));
  const std::string log = In(2, In(6, IntPair("gpu.index", 3)));
  const std::string span = In(2, In(9, Pair("gpu.index", "3")));
  EXPECT_EQ(Count(One(OtlpSignal::kMetrics, Request(host, point), &enricher), "pod-3"), 1u);
  EXPECT_EQ(Count(One(OtlpSignal::kLogs, Request(host, log), &enricher), "pod-3"), 1u);
  EXPECT_EQ(Count(One(OtlpSignal::kTraces, Request(host, span), &enricher), "pod-3"), 1u);
}

TEST(OtlpBatch, PointsOfOneResourceMayBeOfDifferentGpus) {
  FakeEnricher enricher;
  std::string points;
  for (int i = 0; i < 6; ++i) points += In(1, Point(In(7, Pair("gpu.index", std::to_string(i)))));
  const std::string out = One(OtlpSignal::kMetrics, Request("", In(2, Gauge("m", points))), &enricher);
  const auto lines = Lines::Of(OtlpSignal::kMetrics, out);
  ASSERT_EQ(lines.size(), 6u);
  for (int i = 0; i < 6; ++i) {
    const bool known = i < 4;
    EXPECT_EQ(lines[static_cast<size_t>(i)].item.find("pod-" + std::to_string(i)) != std::string::npos,
              known);
  }
}

TEST(OtlpBatch, ForwardsItemsOfOtherHostsUnchanged) {
  FakeEnricher enricher;
  const std::string request = Request(In(1, Pair("host.name", "elsewhere")),
                                      In(2, Gauge("m", In(1, Point(In(7, Pair("gpu.index", "1")))))));
  EXPECT_EQ(Lines::Of(OtlpSignal::kMetrics, One(OtlpSignal::kMetrics, request, &enricher)),
            Lines::Of(OtlpSignal::kMetrics, request));
}

// For any request: all items come out, in order, with all that is above them; only additions differ.
TEST(OtlpBatch, EnrichedRequestsDecodeEqualExceptForAdditions) {
  const std::vector<std::string> added = {Pair("k8s.pod.name", "of-resource"), Pair("cluster", "c1")};
  std::vector<std::string> of_items;
  for (int i = 0; i < 4; ++i) of_items.push_back(Pair("k8s.pod.name", "pod-" + std::to_string(i)));
  FakeEnricher enricher;
  for (OtlpSignal signal : {OtlpSignal::kMetrics, OtlpSignal::kLogs, OtlpSignal::kTraces}) {
    const std::string attributes = std::to_string(
        signal == OtlpSignal::kMetrics ? 0 : otlp::FieldsOf(otlp::ItemShape(signal)).attributes);
    for (uint64_t seed = 0; seed < 400; ++seed) {
      Maker maker(seed);
      const std::string request = maker.Make(signal);
      const uint32_t most = static_cast<uint32_t>(1 + maker.Below(7));
      Emitted out = Batched(signal, {request}, &enricher, {most, 3u << 20});
      std::string joined;
      for (size_t i = 0; i < out.requests.size(); ++i) {
        joined += out.requests[i];
        EXPECT_LE(out.items[i], most);
        OtlpScan again;
        ASSERT_TRUE(ScanOtlp(signal, out.requests[i], nullptr, again).ok()) << seed;
        EXPECT_EQ(again.items, out.items[i]);
        EXPECT_EQ(again.rejected, 0u);
      }
      const auto before = Lines::Of(signal, request);
      auto after = Lines::Of(signal, joined);
      ASSERT_EQ(before.size(), after.size()) << seed;
      for (size_t i = 0; i < before.size(); ++i) {
        if (before[i].resource.find("cluster") == std::string::npos)
          after[i].resource = Without(after[i].resource, "1", added);
        EXPECT_EQ(Without(before[i].resource, "1", added), after[i].resource) << seed;
        EXPECT_EQ(before[i].above, after[i].above) << seed;
        if (before[i].item == after[i].item) continue;
        std::string item = after[i].item;
        for (const std::string field : {"1", "6", "7", "9"}) item = Without(item, field, of_items);
        EXPECT_EQ(before[i].item, item) << seed;
        EXPECT_NE(before[i].item.find("gpu.index"), std::string::npos);
      }
    }
  }
}

TEST(OtlpBatch, LargeRequestsAreSplitAndSmallOnesMerged) {
  std::string points;
  for (int i = 0; i < 2500; ++i) points += In(1, Point("", i));
  const std::string large = Request(In(1, Pair("a", "b")), In(2, Gauge("m", points)));
  Emitted out = Batched(OtlpSignal::kMetrics, {large}, nullptr);
  EXPECT_EQ(out.items, (std::vector<uint32_t>{1000, 1000, 500}));
  std::string joined;
  for (const std::string& request : out.requests) joined += request;
  EXPECT_EQ(Lines::Of(OtlpSignal::kMetrics, joined), Lines::Of(OtlpSignal::kMetrics, large));

  const std::string small = Request("", In(2, Gauge("m", In(1, Point("")))));
  EXPECT_EQ(Batched(OtlpSignal::kMetrics, std::vector<std::string>(1500, small), nullptr).items,
            (std::vector<uint32_t>{1000, 500}));
  Emitted by_size = Batched(OtlpSignal::kMetrics, {large}, nullptr, {1'000'000, 10'000});
  EXPECT_GT(by_size.requests.size(), 5u);
  for (const std::string& request : by_size.requests) EXPECT_LE(request.size(), 10'100u);
}

TEST(OtlpBatch, LeavesOutRemovedItemsAndKeepsTheRest) {
  const std::vector<std::string> patterns = {"go_*"};
  const NameFilter unwanted(patterns);
  const std::string good = In(1, Point("", 1)), bad = In(1, Point(In(7, Pair("\xff", ""))));
  const std::string request = Request("", In(2, Gauge("go_threads", good)) +
                                              In(2, Gauge("m", good + bad + good)) + In(2, Gauge("n", bad))) +
                              Request(In(1, Pair("\xff", "")), In(2, Gauge("m", good))) +
                              Request("", In(2, Gauge("go_x", good)));
  Emitted out = Batched(OtlpSignal::kMetrics, {request}, nullptr, {}, &unwanted);
  ASSERT_EQ(out.requests.size(), 1u);
  EXPECT_EQ(out.items[0], 2u);
  EXPECT_EQ(Lines::Of(OtlpSignal::kMetrics, out.requests[0]),
            Lines::Of(OtlpSignal::kMetrics, Request("", In(2, Gauge("m", good + good)))));
}

TEST(OtlpAddition, KeepsTheFirstOfEqualKeys) {
  OtlpAddition addition(AttributeSet({{"a", "one"}}));
  addition.Add(AttributeSet({{"a", "two"}, {"b", int64_t{7}}}), true);
  ASSERT_EQ(addition.size(), 2u);
  EXPECT_EQ(addition.key(0), "a");
  EXPECT_FALSE(addition.replaces(0));
  EXPECT_EQ(addition.key(1), "b");
  EXPECT_TRUE(addition.replaces(1));
  const std::string pair = Pair("a", "one");
  EXPECT_EQ(addition.field(0), static_cast<char>(pair.size()) + pair);
}

}  // namespace
}  // namespace gpulens

#include "wire/otlp/otlp_points.h"

#include <gmock/gmock.h>
#include <gpulens/instruments.h>
#include <gtest/gtest.h>

#include <limits>

#include "wire/otlp/otlp_fields.h"
#include "wire/otlp/otlp_write.h"

namespace gpulens {
namespace {

using namespace otlp;
using ::testing::ElementsAre;

// What was read, a line for each.
class Lines final : public OtlpPointVisitor {
 public:
  void OnResource(std::span<const AttributeSet::Attribute> attributes) override {
    lines.push_back("resource" + Text(attributes));
  }
  std::string_view OnPoint(const OtlpMetricView& metric, const OtlpPointView& point) override {
    constexpr const char* kData[] = {"gauge", "sum", "histogram", "exponential"};
    std::string line = std::string(metric.name) + " " + std::string(metric.unit) + " " +
                       kData[static_cast<size_t>(metric.data)];
    if (metric.monotonic) line += " monotonic";
    line += Text(point.attributes);
    if (metric.data <= OtlpMetricView::Data::kSum) {
      line += point.integer ? " i" + std::to_string(point.whole) : " " + Number(point.value);
    } else {
      line +=
          " count=" + std::to_string(point.count) + " sum=" + (point.has_sum ? Number(point.sum) : "none");
      if (metric.data == OtlpMetricView::Data::kExponential)
        line += " scale=" + std::to_string(point.scale) + " zeros=" + std::to_string(point.zeros) + " from " +
                std::to_string(point.offset);
      for (double bound : point.bounds) line += " <" + Number(bound);
      for (uint64_t count : point.counts) line += " " + std::to_string(count);
    }
    lines.push_back(line);
    return metric.name == "unwanted" ? "it is not wanted" : "";
  }
  std::vector<std::string> lines;

 private:
  static std::string Number(double value) {
    std::string text;
    AppendValue(text, value);
    return text;
  }
  static std::string Text(std::span<const AttributeSet::Attribute> attributes) {
    std::string text;
    for (const auto& [key, value] : attributes) {
      text += " " + std::string(key) + "=";
      AppendValue(text, value);
    }
    return text;
  }
};

struct Read {
  Status status;
  OtlpPointsReport report;
  std::vector<std::string> lines;
};
Read Of(std::string_view request) {
  Lines lines;
  Read read;
  read.status = ReadOtlpPoints(request, lines, read.report);
  read.lines = lines.lines;
  return read;
}

TEST(OtlpPoints, ReadsOutputOfTheSdk) {
  Registry registry;
  Counter("jobs", {.unit = "{job}"}, registry).Bind({{"k", "v"}}).Add(3);
  UpDownCounter("open", {}, registry).Add(-2);
  Gauge("depth", {}, registry).Set(1.5);
  const double bounds[] = {1, 2};
  Histogram("e", {.unit = "s", .bounds = bounds}, registry).Record(1.5);
  const Histogram x("x", {}, registry);
  x.Record(0);
  x.Record(1);
  std::string request;
  EncodeSamples(registry.Snapshot(),
                {AttributeSet({{"service.name", "s"}, {"process.pid", int64_t{4}}}), "g", "1", 5}, request);
  const Read read = Of(request);
  EXPECT_TRUE(read.status.ok());
  EXPECT_EQ(read.report.points, 5u);
  EXPECT_EQ(read.report.rejected, 0u);
  EXPECT_THAT(read.lines,
              ElementsAre("resource process.pid=4 service.name=s", "jobs {job} sum monotonic k=v i3",
                          "open  sum i-2", "depth  gauge 1.5", "e s histogram count=1 sum=1.5 <1 <2 0 1 0",
                          "x  exponential count=2 sum=1 scale=8 zeros=1 from -1 1"));
}

// A request with one metric, whose data is `data` in the field `field`.
std::string Metric(uint32_t field, const std::string& data, std::string_view name = "m") {
  std::string metric, scope, list, out;
  // The name behind the data: order is not promised.
  AppendBytes(metric, field, data);
  AppendBytes(metric, kName, name);
  AppendBytes(scope, kItems, metric);
  AppendBytes(list, kScopeList, scope);
  AppendBytes(out, kResourceList, list);
  return out;
}
std::string Data(const std::string& point, uint64_t temporality = kCumulative) {
  std::string out;
  AppendBytes(out, kPoints, point);
  AppendNumber(out, kTemporality, temporality);
  return out;
}
std::string Why(const std::string& request) {
  const Read read = Of(request);
  EXPECT_TRUE(read.status.ok());
  EXPECT_EQ(read.report.points + read.report.rejected,
            read.report.why == "" && read.lines.size() < 2 ? 0u : 1u);
  return std::string(read.report.why);
}

TEST(OtlpPoints, CountsRejectedPointsByReason) {
  std::string number, nan, list, flagged, long_one;
  AppendFixed(number, kAsDouble, 1.0);
  AppendFixed(nan, kAsDouble, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(Why(Metric(kSum, Data(number))), "");
  EXPECT_EQ(Why(Metric(kSum, Data(number), "unwanted")), "it is not wanted");
  EXPECT_EQ(Why(Metric(kSum, Data(number, kDelta))), "only cumulative values are supported");
  EXPECT_EQ(Why(Metric(kSum, Data(number, 0))), "only cumulative values are supported");
  EXPECT_EQ(Why(Metric(kSum, Data(number), "")), "a metric without a name");
  EXPECT_EQ(Why(Metric(kSum, Data(number), "\xff")), "a metric whose name is not a string");
  EXPECT_EQ(Why(Metric(kGauge, Data(nan))), "a number that is not finite");
  EXPECT_EQ(Why(Metric(kSummary, Data(number))), "summaries are not supported");
  std::string pair, any;
  AppendBytes(any, 5, "");  // an array
  AppendBytes(pair, kKey, "k");
  AppendBytes(pair, kValue, any);
  AppendBytes(number, kNumberAttributes, pair);
  EXPECT_EQ(Why(Metric(kSum, Data(number))), "an attribute that is a list");
  flagged = nan;
  AppendNumber(flagged, kNumberFlags, kNoRecordedValue);
  EXPECT_EQ(Why(Metric(kGauge, Data(flagged))), "") << "passed over";
  for (int i = 0; i < 129; ++i) AppendAttribute(long_one, kNumberAttributes, "k" + std::to_string(i), true);
  EXPECT_EQ(Why(Metric(kGauge, Data(long_one))), "more than 128 attributes");
}

std::string Buckets(uint64_t count, const std::vector<uint64_t>& counts, const std::vector<double>& bounds) {
  std::string out;
  AppendFixed(out, kHistogramCount, count);
  // Not packed, as protobuf allows.
  for (uint64_t one : counts) AppendFixed(out, kBucketCounts, one);
  for (double one : bounds) AppendFixed(out, kExplicitBounds, one);
  return out;
}

TEST(OtlpPoints, HistogramsHaveToAddUp) {
  EXPECT_EQ(Why(Metric(kHistogram, Data(Buckets(3, {1, 2}, {5})))), "");
  EXPECT_EQ(Why(Metric(kHistogram, Data(Buckets(3, {}, {})))), "") << "count and sum alone";
  EXPECT_EQ(Why(Metric(kHistogram, Data(Buckets(4, {1, 2}, {5})))),
            "a histogram whose buckets do not add up to its count");
  EXPECT_EQ(Why(Metric(kHistogram, Data(Buckets(1, {1}, {5})))),
            "a histogram whose buckets do not fit its bounds");
  EXPECT_EQ(Why(Metric(kHistogram, Data(Buckets(0, {0, 0, 0}, {5, 5})))),
            "a histogram whose bounds do not ascend");
  EXPECT_EQ(Why(Metric(kHistogram, Data(Buckets(1, {UINT64_MAX, 2}, {5})))),
            "a histogram whose buckets are too many for its count");
  EXPECT_EQ(Why(Metric(kHistogram, Data(Buckets(0, std::vector<uint64_t>(5'000), {})))),
            "a histogram of more than 4,096 buckets");
  std::string negative, below;
  AppendNumber(below, kCounts, 1);
  AppendFixed(negative, kExponentialCount, uint64_t{1});
  AppendBytes(negative, 9, below);
  EXPECT_EQ(Why(Metric(kExponentialHistogram, Data(negative))),
            "an exponential histogram of negative values");
}

TEST(OtlpPoints, RejectsInvalidBytes) {
  for (const std::string& bytes : {std::string("\x0a\xff"), std::string("\x0b"), std::string("\x0a\x02\x12"),
                                   std::string("{\"resourceMetrics\":[]}")}) {
    EXPECT_EQ(Of(bytes).status.code, Code::kDataLoss);
  }
  EXPECT_TRUE(Of("").status.ok());
}

}  // namespace
}  // namespace gpulens

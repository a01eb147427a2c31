#include "wire/otlp/otlp_write.h"

#include <gmock/gmock.h>
#include <gpulens/instruments.h>
#include <gtest/gtest.h>

#include "wire/otlp/otlp_testing.h"

namespace gpulens {
namespace {

using otlp_testing::MetricsText;
using ::testing::HasSubstr;

constexpr int64_t kZero = 1'700'000'000'000'000'000;

std::string Text(std::vector<Sample> samples) {
  for (Sample& sample : samples) sample.start_unix_ns = kZero;
  std::string request;
  EncodeSamples(samples,
                {AttributeSet({{"service.name", "chat"}, {"process.pid", int64_t{7}}}), "gpulens.sdk", "1.2",
                 kZero + 5'000'000'000},
                request);
  return MetricsText::Of(request, kZero);
}

TEST(OtlpSamples, EveryInstrumentWithItsTimes) {
  Registry registry;
  const Counter requests("http.requests", {.unit = "{request}", .description = "Requests."}, registry);
  requests.Bind({{"route", "/a"}}).Add(3);
  requests.Bind({{"route", "/b"}}).Add(1);
  DoubleCounter("cost", {.unit = "USD"}, registry).Add(0.5);
  UpDownCounter("open", {}, registry).Add(-2);
  Gauge("depth", {}, registry).Set(1.5);
  EXPECT_EQ(Text(registry.Snapshot()),
            "resource process.pid=7 service.name=\"chat\"\n"
            "scope gpulens.sdk 1.2\n"
            "http.requests {request} sum cumulative monotonic\n"
            "  route=\"/a\" @0..5 i3\n"
            "  route=\"/b\" @0..5 i1\n"
            "cost USD sum cumulative monotonic\n"
            "  @0..5 0.5\n"
            "open sum cumulative\n"
            "  @0..5 i-2\n"
            "depth gauge\n"
            "  @5 1.5\n");
}

TEST(OtlpSamples, HistogramsKeepTheirForm) {
  Registry registry;
  const double bounds[] = {1, 2.5};
  const Histogram listed("e", {.unit = "s", .bounds = bounds}, registry), free("x", {}, registry);
  for (double value : {0.5, 1.0, 2.0, 7.0}) listed.Record(value);
  for (double value : {0.0, 1.0, 4.0, 4.0}) free.Record(value);
  const std::string text = Text(registry.Snapshot());
  EXPECT_THAT(text, HasSubstr("e s histogram cumulative\n"
                              "  @0..5 count=4 sum=10.5 buckets:2:1:1 bounds:1:2.5\n"));
  // With 256 buckets a doubling 2^0 ends bucket -1 and 2^2 bucket 511; 160 of them hold both at scale 6.
  EXPECT_THAT(text, HasSubstr("x exponential cumulative\n"
                              "  @0..5 count=4 sum=9 scale=6 zero=1 buckets -1:1 127:2\n"));
}

TEST(OtlpSamples, RepairsInvalidUtf8) {
  Registry registry;
  Counter("c", {}, registry).Bind({{"k", "\xff"}}).Add();
  EXPECT_THAT(Text(registry.Snapshot()), HasSubstr("k=\"\xEF\xBF\xBD\""));
}

}  // namespace
}  // namespace gpulens

#include "wire/remote_write/remote_write_in.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/testing/allocations.h"
#include "wire/otlp/otlp_scan.h"
#include "wire/remote_write/otlp_metrics_text_testing.h"
#include "wire/remote_write/remote_write_in_testing.h"

namespace gpulens {
namespace {

using namespace remote_write_in_testing;
using Fault = RemoteWriteFault;

constexpr auto k1 = RemoteWriteVersion::k1;
constexpr auto k2 = RemoteWriteVersion::k2;
constexpr int32_t kCounterType = 1, kGaugeType = 2, kHistogramType = 3, kSummaryType = 5, kInfoType = 6;

class RemoteWriteInTest : public ::testing::Test {
 protected:
  // What was made, as text; what a receiver of OTLP would not take is a failure.
  std::string Text(const std::string& request, RemoteWriteVersion version) {
    status_ = in_.Convert(request, version, out_, outcome_);
    EXPECT_TRUE(status_.ok()) << status_.detail;
    OtlpScan scan;
    const Status scanned = ScanOtlp(OtlpSignal::kMetrics, out_, nullptr, scan);
    EXPECT_TRUE(scanned.ok()) << scanned.detail;
    EXPECT_EQ(scan.rejected, 0u) << scan.why;
    EXPECT_EQ(scan.items, outcome_.samples + outcome_.histograms);
    return OtlpMetricsText::Of(out_);
  }
  std::string First1(const Pairs& labels, const std::string& parts) {
    return Text(First().Series(labels, parts).bytes(), k1);
  }
  std::string Second1(const Pairs& labels, const std::string& parts, const Second::About& about = {}) {
    return Text(Second().Series(labels, parts, about).bytes(), k2);
  }
  Status Refused(const std::string& request, RemoteWriteVersion version = k1) {
    return in_.Convert(request, version, out_, outcome_);
  }
  // Points of the only histogram that is in `text`.
  static std::string PointOf(const std::string& text) {
    const size_t at = text.rfind("   {");
    return at == std::string::npos ? text : text.substr(at + 3);
  }

  RemoteWriteIn in_{{}};
  std::string out_;
  RemoteWriteOutcome outcome_;
  Status status_;
};

TEST_F(RemoteWriteInTest, SeriesOfBothVersionsAreTheSameMetrics) {
  const Pairs a = {{"__name__", "up"}, {"instance", "n:1"}, {"job", "j"}, {"zone", "z"}};
  const std::string expected =
      "[service.name=j, service.instance.id=n:1]\n (gpulens.remote_write)\n"
      "  up gauge prometheus.type=unknown\n   {zone=z} 1.5 @1700000000000\n";
  EXPECT_EQ(First1(a, Sample(1.5)), expected);
  EXPECT_EQ(Second1(a, Sample(1.5)), expected);
  EXPECT_EQ(outcome_.samples, 1u);
  EXPECT_EQ(outcome_.Text(), "");
}

TEST_F(RemoteWriteInTest, WritesEachResourceAndEachMetricOnce) {
  const auto labels = [](const char* name, const char* job, const char* gpu) {
    return Pairs{{"__name__", name}, {"gpu", gpu}, {"job", job}};
  };
  First request;
  for (const char* gpu : {"0", "1"})
    for (const char* job : {"b", "a"})
      for (const char* name : {"y", "x"}) request.Series(labels(name, job, gpu), Sample(7));
  EXPECT_EQ(Text(request.bytes(), k1),
            "[service.name=a]\n (gpulens.remote_write)\n"
            "  x gauge prometheus.type=unknown\n   {gpu=0} 7 @1700000000000\n   {gpu=1} 7 @1700000000000\n"
            "  y gauge prometheus.type=unknown\n   {gpu=0} 7 @1700000000000\n   {gpu=1} 7 @1700000000000\n"
            "[service.name=b]\n (gpulens.remote_write)\n"
            "  x gauge prometheus.type=unknown\n   {gpu=0} 7 @1700000000000\n   {gpu=1} 7 @1700000000000\n"
            "  y gauge prometheus.type=unknown\n   {gpu=0} 7 @1700000000000\n   {gpu=1} 7 @1700000000000\n");
}

TEST_F(RemoteWriteInTest, SamplesOfASeriesKeepTheirOrder) {
  EXPECT_EQ(First1({{"__name__", "x"}}, Sample(3, 1000) + Sample(1, 2000) + Sample(2, 3000)),
            "[]\n (gpulens.remote_write)\n  x gauge prometheus.type=unknown\n"
            "   {} 3 @1000\n   {} 1 @2000\n   {} 2 @3000\n");
}

TEST_F(RemoteWriteInTest, TypesUnitsHelpAndStartsOfVersion2) {
  const Pairs total = {{"__name__", "energy_total"}};
  EXPECT_EQ(Second1(total, Sample(5, 2000, 1000), {kCounterType, "All of it.", "joules"}),
            "[]\n (gpulens.remote_write)\n  energy_total \"All of it.\" J sum cumulative monotonic "
            "prometheus.type=counter\n   {} 5 @1000..2000\n");
  // Older senders have the start of a whole series.
  std::string created;
  pbf_writer(created).add_int64(6, 500);
  EXPECT_EQ(PointOf(Second1(total, Sample(5, 2000) + created, {kCounterType, "", ""})), "{} 5 @500..2000\n");
  // A start that cannot be is none, and a gauge has none.
  EXPECT_EQ(PointOf(Second1(total, Sample(5, 2000, 3000), {kCounterType, "", ""})), "{} 5 @2000\n");
  EXPECT_EQ(PointOf(Second1(total, Sample(5, 2000, -1), {kCounterType, "", ""})), "{} 5 @2000\n");
  EXPECT_EQ(PointOf(Second1({{"__name__", "x"}}, Sample(5, 2000, 1000), {kGaugeType, "", ""})),
            "{} 5 @2000\n");
  EXPECT_NE(Second1({{"__name__", "x_info"}}, Sample(1), {kInfoType, "", ""})
                .find("sum cumulative prometheus.type=info"),
            std::string::npos);
}

TEST_F(RemoteWriteInTest, PartsOfClassicHistogramsStaySeries) {
  Second request;
  const Second::About about{kHistogramType, "", "seconds"};
  request.Series({{"__name__", "t_bucket"}, {"le", "0.5"}}, Sample(2, 1000), about)
      .Series({{"__name__", "t_bucket"}, {"le", "+Inf"}}, Sample(3, 1000), about)
      .Series({{"__name__", "t_count"}}, Sample(3, 1000), about)
      .Series({{"__name__", "t_created"}}, Sample(1, 1000), about)
      .Series({{"__name__", "s"}, {"quantile", "0.5"}}, Sample(4, 1000), {kSummaryType, "", ""})
      .Series({{"__name__", "s_sum"}}, Sample(9, 1000), {kSummaryType, "", ""});
  EXPECT_EQ(Text(request.bytes(), k2),
            "[]\n (gpulens.remote_write)\n"
            "  s gauge prometheus.type=summary\n   {quantile=0.5} 4 @1000\n"
            "  s_sum sum cumulative monotonic prometheus.type=summary\n   {} 9 @1000\n"
            "  t_bucket s sum cumulative monotonic prometheus.type=histogram\n"
            "   {le=0.5} 2 @1000\n   {le=+Inf} 3 @1000\n"
            "  t_count s sum cumulative monotonic prometheus.type=histogram\n   {} 3 @1000\n"
            "  t_created s gauge prometheus.type=histogram\n   {} 1 @1000\n");
}

TEST_F(RemoteWriteInTest, TypesOfVersion1AreRemembered) {
  const Pairs total = {{"__name__", "x_total"}}, bucket = {{"__name__", "h_bucket"}, {"le", "1"}};
  EXPECT_NE(First1(total, Sample(1)).find("x_total gauge prometheus.type=unknown"), std::string::npos);
  // Prometheus sends types separately from samples; for a page of OpenMetrics without the suffix.
  EXPECT_EQ(Text(First()
                     .Metadata(kCounterType, "x", "Help.", "bytes")
                     .Metadata(kHistogramType, "h", "", "")
                     .Metadata(kGaugeType, "", "nameless", "")
                     .bytes(),
                 k1),
            "");
  EXPECT_NE(
      First1(total, Sample(1)).find("x_total \"Help.\" By sum cumulative monotonic prometheus.type=counter"),
      std::string::npos);
  EXPECT_NE(First1(bucket, Sample(1)).find("h_bucket sum cumulative monotonic prometheus.type=histogram"),
            std::string::npos);
  // Its own name goes first: a gauge may be called so, too.
  Text(First().Metadata(kGaugeType, "x_total", "", "").bytes(), k1);
  EXPECT_NE(First1(total, Sample(1)).find("x_total gauge prometheus.type=gauge"), std::string::npos);
}

TEST_F(RemoteWriteInTest, EndsAndNaNs) {
  const Pairs x = {{"__name__", "x"}};
  EXPECT_EQ(PointOf(First1(x, Sample(remote_write::StaleMarker()))), "{} @1700000000000 ended\n");
  First1(x, Sample(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_EQ(PointOf(OtlpMetricsText::Of(out_)), "{} nan @1700000000000\n");
  EXPECT_EQ(PointOf(First1(x, Sample(-HUGE_VAL))), "{} -inf @1700000000000\n");
}

TEST_F(RemoteWriteInTest, ScopesAreScopes) {
  EXPECT_EQ(First1({{"__name__", "x"}, {"otel_scope_name", "lib"}, {"otel_scope_version", "1.2"}}, Sample(1)),
            "[]\n (lib 1.2)\n  x gauge prometheus.type=unknown\n   {} 1 @1700000000000\n");
}

TEST_F(RemoteWriteInTest, NativeHistogramsAreExponentialOnes) {
  // Bounds are 2^(1/2^1): buckets 1, 2, and 5 above; 0 below.
  const Histogram one{.count = 12,
                      .zero_count = 1,
                      .sum = 7.5,
                      .zero_threshold = 0.001,
                      .schema = 1,
                      .above = {{1, 2}, {2, 1}},
                      .below = {{0, 1}},
                      .above_deltas = {3, -1, 3},
                      .below_deltas = {1},
                      .start_ms = kMs - 1000};
  const std::string expected =
      "{} count 12 sum 7.5 scale 1 zero 1 above (0: 3 2 0 0 5) below (-1: 1) threshold 0.001 "
      "@1699999999000..1700000000000\n";
  EXPECT_EQ(PointOf(Second1({{"__name__", "h"}}, Message(3, one.Bytes()), {kHistogramType, "", ""})),
            expected);
  EXPECT_EQ(outcome_.histograms, 1u);
  EXPECT_EQ(outcome_.samples, 0u);
  EXPECT_EQ(PointOf(First1({{"__name__", "h"}}, Message(4, one.Bytes()))), expected) << "as 1.0 numbers it";
  const Histogram empty{.schema = 3};
  EXPECT_EQ(PointOf(Second1({{"__name__", "h"}}, Message(3, empty.Bytes()))),
            "{} count 0 sum 0 scale 3 zero 0 @1700000000000\n");
  const Histogram ended{.sum = remote_write::StaleMarker(), .floats = true};
  EXPECT_EQ(PointOf(Second1({{"__name__", "h"}}, Message(3, ended.Bytes()))), "{} @1700000000000 ended\n");
}

TEST_F(RemoteWriteInTest, CustomBoundsAreExplicitBounds) {
  const Histogram one{.count = 6,
                      .sum = 3,
                      .schema = -53,
                      .above = {{1, 1}, {1, 1}},
                      .above_deltas = {2, 2},
                      .bounds = {0.1, 0.5, 1}};
  EXPECT_EQ(PointOf(Second1({{"__name__", "h"}}, Message(3, one.Bytes()), {kHistogramType, "", ""})),
            "{} count 6 sum 3 counts 0 2 0 4 bounds 0.1 0.5 1 @1700000000000\n");
}

TEST_F(RemoteWriteInTest, HistogramsWithoutAFormAreRefusedEach) {
  const Histogram good{.count = 2, .above = {{0, 1}}, .above_deltas = {2}};
  const auto with = [&](auto change) {
    Histogram one = good;
    change(one);
    return one;
  };
  const std::pair<Fault, Histogram> bad[] = {
      {Fault::kFloatHistogram, with([](Histogram& h) { h.floats = true; })},
      {Fault::kGaugeHistogram, with([](Histogram& h) { h.hint = 3; })},
      {Fault::kSchema, with([](Histogram& h) { h.schema = 9; })},
      {Fault::kSchema, with([](Histogram& h) { h.schema = -5; })},
      {Fault::kBuckets, with([](Histogram& h) { h.count = 3; })},
      {Fault::kBuckets, with([](Histogram& h) { h.above_deltas = {2, 0}; })},
      {Fault::kBuckets, with([](Histogram& h) { h.above = {{0, 2}}; })},
      {Fault::kBuckets, with([](Histogram& h) { h.above_deltas = {-2}; })},
      {Fault::kBuckets, with([](Histogram& h) { h.above = {{0, 1}, {-1, 0}}; })},
      {Fault::kBuckets, with([](Histogram& h) { h.above = {{INT32_MIN, 1}}; })},
      {Fault::kBuckets, with([](Histogram& h) { h.above = {{INT32_MAX, 1}}; })},
      {Fault::kTooWide, with([](Histogram& h) { h.above = {{0, 1}, {20'000, 1}}, h.above_deltas = {1, 0}; })},
      {Fault::kTooWide, with([](Histogram& h) { h.above_deltas.assign(20'000, 0); })},
      {Fault::kBounds, with([](Histogram& h) { h.zero_threshold = -1; })},
      {Fault::kBounds, with([](Histogram& h) { h.schema = -53, h.bounds = {1, 1}; })},
      {Fault::kBounds, with([](Histogram& h) { h.schema = -53, h.bounds = {HUGE_VAL}; })},
      {Fault::kBuckets, with([](Histogram& h) { h.schema = -53, h.above = {{2, 1}}, h.bounds = {1}; })},
      {Fault::kBuckets, with([](Histogram& h) { h.schema = -53, h.zero_count = 1, h.count = 3; })},
      {Fault::kNoTime, with([](Histogram& h) { h.ms = 0; })},
  };
  for (const auto& [fault, histogram] : bad) {
    SCOPED_TRACE(TextOf(fault));
    const std::string text =
        Second1({{"__name__", "h"}}, Message(3, histogram.Bytes()) + Message(3, good.Bytes()));
    EXPECT_EQ(PointOf(text), "{} count 2 sum 0 scale 0 zero 0 above (-1: 2) @1700000000000\n");
    EXPECT_EQ(outcome_.refused, 1u);
    EXPECT_EQ(outcome_.faults[static_cast<size_t>(fault)], 1u);
  }
}

TEST_F(RemoteWriteInTest, ExemplarsStayWithTheirSample) {
  const Pairs labels = {{"__name__", "x_total"}, {"job", "j"}};
  const Pairs trace = {
      {"span_id", "00f067aa0ba902b7"}, {"trace_id", "4bf92f3577b34da6a3ce929d0e0e4736"}, {"user", "u"}};
  const std::string expected =
      "{} 1 @1700000000000 exemplar 0.5 @1699999999999 span 00f067aa0ba902b7 trace "
      "4bf92f3577b34da6a3ce929d0e0e4736 {user=u}\n";
  EXPECT_EQ(PointOf(First1(labels, Sample(1) + First::Exemplar(trace, 0.5, kMs - 1))), expected);
  EXPECT_EQ(outcome_.exemplars, 1u);
  Second second;
  const std::string exemplar = second.Exemplar(trace, 0.5, kMs - 1);
  EXPECT_EQ(PointOf(Text(second.Series(labels, Sample(1) + exemplar).bytes(), k2)), expected);
  // As Prometheus sends them: a series of their own, before or behind.
  First apart;
  apart.Series(labels, First::Exemplar(trace, 0.5, kMs - 1))
      .Series({{"__name__", "x_total"}}, Sample(9))
      .Series({{"job", "j"}, {"__name__", "x_total"}}, Sample(1));
  EXPECT_EQ(PointOf(Text(apart.bytes(), k1)), expected);
  EXPECT_EQ(outcome_.exemplars, 1u);
  // What is no id stays an attribute.
  EXPECT_EQ(PointOf(First1(labels, Sample(1) + First::Exemplar({{"trace_id", "abc"}}, 2, kMs))),
            "{} 1 @1700000000000 exemplar 2 @1700000000000 {trace_id=abc}\n");
}

TEST_F(RemoteWriteInTest, ExemplarsWithoutASampleAreLeftOutAndNotCounted) {
  const Pairs labels = {{"__name__", "x_total"}};
  EXPECT_EQ(First1(labels, First::Exemplar({}, 1, kMs)), "");
  EXPECT_EQ(outcome_.exemplars, 0u);
  EXPECT_EQ(outcome_.refused, 0u);
  First1(labels, Sample(remote_write::StaleMarker()) + First::Exemplar({}, 1, kMs));
  EXPECT_EQ(outcome_.exemplars, 0u) << "a series that ended has no value that it could be of";
}

TEST_F(RemoteWriteInTest, BadSeriesAreRefusedAndTheRestIsMade) {
  Second request;
  const auto raw = [&](std::vector<uint32_t> refs) {
    std::string out;
    pbf_writer(out).add_packed_uint32(1, refs.begin(), refs.end());
    request.Raw(out + Sample(1) + Sample(2, kMs + 1));
  };
  const uint32_t name = request.Symbol("__name__"), x = request.Symbol("x"), broken = request.Symbol("\xff");
  raw({x, x});
  raw({name, x, 0, x});
  raw({name, x, x, name, x, x});
  raw({name, x, x, broken});
  raw({name, x, 77, x});
  raw({name, x, x});
  raw({name, 0});
  request.Series({{"__name__", "good"}, {"empty", ""}},
                 Sample(1) + Sample(1, 0) + Sample(1, -5) + Sample(1, INT64_MAX));
  EXPECT_EQ(PointOf(Text(request.bytes(), k2)), "{} 1 @1700000000000\n");
  EXPECT_EQ(outcome_.samples, 1u);
  EXPECT_EQ(outcome_.refused, 17u);
  EXPECT_EQ(
      outcome_.Text(),
      "17 of 18 samples were not written: a series has no __name__ (4), the name of a label is empty (2), "
      "a label occurs twice (2), a text is not valid UTF-8 (2), a label refers to a symbol that does not "
      "exist "
      "(2), "
      "the label references are not pairs (2), a time is before 1970 or after 2261 (3)");
}

// RemoteWriteOut restores them; to receivers of OTLP they are points without a value.
TEST_F(RemoteWriteInTest, CarriesHistogramsWithoutAFormIfConfigured) {
  RemoteWriteIn carrying({.carry_histograms = true});
  const auto convert = [&](const Histogram& histogram) {
    const std::string bytes = histogram.Bytes();
    const std::string request = Second().Series({{"__name__", "h"}}, Message(3, bytes)).bytes();
    EXPECT_TRUE(carrying.Convert(request, k2, out_, outcome_).ok());
    OtlpScan scan;
    EXPECT_TRUE(ScanOtlp(OtlpSignal::kMetrics, out_, nullptr, scan).ok());
    EXPECT_EQ(scan.rejected, 0u);
    EXPECT_EQ(scan.items, outcome_.histograms);
    return out_.find(bytes) != std::string::npos;
  };
  Histogram gauge{.count = 2, .above = {{0, 1}}, .above_deltas = {2}, .hint = 3};
  EXPECT_TRUE(convert(gauge));
  EXPECT_EQ(outcome_.histograms, 1u);
  gauge.hint = 2;
  EXPECT_TRUE(convert(gauge)) << "that the counter was not reset has no form in OTLP";
  gauge.hint = 0;
  EXPECT_FALSE(convert(gauge)) << "OTLP says all of it";
  // What a receiver would refuse is refused here, too.
  Histogram bad{.floats = true};
  EXPECT_TRUE(convert(bad)) << "no buckets at all";
  bad.above = {{0, 1}};
  EXPECT_FALSE(convert(bad)) << "a bucket without a count";
  EXPECT_EQ(outcome_.faults[static_cast<size_t>(Fault::kBuckets)], 1u);
  bad.schema = 9;
  EXPECT_FALSE(convert(bad));
  EXPECT_EQ(outcome_.faults[static_cast<size_t>(Fault::kSchema)], 1u);
}

TEST_F(RemoteWriteInTest, ManyLabelsAreAFaultOfTheirSeries) {
  Pairs labels = {{"__name__", "x"}};
  for (int i = 0; i < 1024; ++i) labels.emplace_back("l" + std::to_string(i), "v");
  First request;
  request.Series(labels, Sample(1));
  labels.pop_back();
  request.Series(labels, Sample(2));
  Text(request.bytes(), k1);
  EXPECT_EQ(outcome_.samples, 1u);
  EXPECT_EQ(outcome_.faults[static_cast<size_t>(Fault::kTooManyLabels)], 1u);
}

TEST_F(RemoteWriteInTest, LabelsThatAreNotSortedMeanTheSame) {
  const std::string expected = First1({{"__name__", "x"}, {"a", "1"}, {"b", "2"}}, Sample(1));
  EXPECT_EQ(First1({{"b", "2"}, {"__name__", "x"}, {"a", "1"}}, Sample(1)), expected);
  EXPECT_EQ(Second1({{"b", "2"}, {"a", "1"}, {"__name__", "x"}}, Sample(1)), expected);
  First1({{"b", "2"}, {"__name__", "x"}, {"b", "1"}}, Sample(1));
  EXPECT_EQ(outcome_.faults[static_cast<size_t>(Fault::kTwice)], 1u);
}

TEST_F(RemoteWriteInTest, RejectsInvalidRequestsWhole) {
  const std::string good = First().Series({{"__name__", "x"}}, Sample(1)).bytes();
  std::string histogram = Histogram{.count = 1}.Bytes();
  const std::string bad[] = {
      good.substr(0, good.size() - 1),                                    // cut off
      good + "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",          // a length of eleven bytes
      good + "\x0a\x7f",                                                  // longer than the request
      good + "\x08\x01",                                                  // a series that is a number
      Message(1, "\x12\x02\x08\x01"),                                     // a value that is a varint
      Message(1, "\x12\x09\x11\x01\x02\x03\x04\x05\x06\x07\x08"),         // a time that is fixed
      Message(1, Message(4, histogram.substr(0, histogram.size() - 1))),  // a histogram that is cut off
      Message(1, Message(4, "\x62\x01\x80")),                             // a delta that does not end
      Message(1, Message(4,
                         "\x82\x01\x07"
                         "1234567")),       // bounds of seven bytes
      Message(1, Message(3, "\x11")),       // an exemplar without its value
      Message(1, Message(1, "\x0a\x05x")),  // a label that is cut off
      Message(3, "\x12\x05x"),              // metadata that is cut off
      std::string("\x0b\x0c", 2),           // a group
  };
  for (const std::string& request : bad) {
    const Status status = Refused(request);
    EXPECT_EQ(status.code, Code::kInvalidArgument) << testing::PrintToString(request);
    EXPECT_FALSE(status.detail.empty());
  }
  EXPECT_EQ(Refused(Message(5, "\x0a\x01\x80"), k2).code, Code::kInvalidArgument)
      << "a reference that does not end";
  EXPECT_EQ(Refused("\x20\x01", k2).code, Code::kInvalidArgument) << "a symbol that is a number";
  EXPECT_TRUE(Refused("", k1).ok());
  EXPECT_TRUE(Refused(good, k2).ok()) << "read as the other version it is empty";
  EXPECT_TRUE(out_.empty());
}

// A text that a request has once may be repeated often in the output, which is bounded.
TEST_F(RemoteWriteInTest, RejectsRequestsThatGrowTooLarge) {
  Second request;
  const Pairs labels = {{"__name__", "x"}, {"text", std::string(1 << 20, 't')}};
  for (int i = 0; i < 100; ++i) request.Series(labels, Sample(1));
  EXPECT_EQ(Refused(request.bytes(), k2).code, Code::kExhausted);
  std::string samples;
  for (int i = 0; i < 100; ++i) samples += Sample(i, kMs + i);
  EXPECT_EQ(Refused(Second().Series(labels, samples).bytes(), k2).code, Code::kExhausted);
  Second exemplars;
  std::string many;
  for (int i = 0; i < 100; ++i) many += exemplars.Exemplar(labels, 1, kMs);
  EXPECT_EQ(Refused(exemplars.Series({{"__name__", "x"}}, Sample(1) + many).bytes(), k2).code,
            Code::kExhausted);
  // Wide histograms of few bytes.
  const Histogram wide{.count = 2, .above = {{0, 1}, {16'000, 1}}, .above_deltas = {1, 0}};
  std::string histograms;
  for (int i = 0; i < 3000; ++i) histograms += Message(3, wide.Bytes());
  EXPECT_EQ(Refused(Second().Series({{"__name__", "x"}}, histograms).bytes(), k2).code, Code::kExhausted);
  First series;
  RemoteWriteIn few({.bytes = 1 << 20, .series = 2});
  for (int i = 0; i < 3; ++i) series.Series({{"__name__", "x"}}, Sample(1));
  EXPECT_EQ(few.Convert(series.bytes(), k1, out_, outcome_).code, Code::kExhausted);
  const std::string symbols(2 * 1'000'001, '\0');
  std::string empty_symbols;
  for (int i = 0; i <= 1'000'000; ++i) empty_symbols.append("\x22\x00", 2);
  EXPECT_EQ(Refused(empty_symbols, k2).code, Code::kExhausted);
}

TEST_F(RemoteWriteInTest, ASteadyStreamDoesNotAllocate) {
  if (!AllocationsAreCounted()) GTEST_SKIP() << "allocations are not counted in this build";
  First first;
  Second second;
  for (int i = 0; i < 50; ++i) {
    const Pairs labels = {
        {"__name__", "x_total"}, {"i", std::to_string(i)}, {"job", "j" + std::to_string(i % 3)}};
    first.Series(labels, Sample(i)).Series(labels, First::Exemplar(labels, 1, kMs));
    second.Series(labels, Sample(i), {kCounterType, "Some help that is not short.", "bytes_per_second"});
    second.Series(labels, Message(3, Histogram{.count = 2, .above = {{0, 1}}, .above_deltas = {2}}.Bytes()));
  }
  first.Metadata(kCounterType, "x", "Some help that is not short.", "seconds");
  const std::string one = first.bytes(), two = second.bytes();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(in_.Convert(one, k1, out_, outcome_).ok());
    ASSERT_TRUE(in_.Convert(two, k2, out_, outcome_).ok());
  }
  const uint64_t before = ThreadAllocations();
  ASSERT_TRUE(in_.Convert(one, k1, out_, outcome_).ok());
  ASSERT_TRUE(in_.Convert(two, k2, out_, outcome_).ok());
  EXPECT_EQ(ThreadAllocations(), before);
  EXPECT_EQ(outcome_.samples + outcome_.histograms, 100u);
}

// The bytes themselves, so that a change of them is seen.
TEST_F(RemoteWriteInTest, GoldenBytes) {
  Text(Second()
           .Series({{"__name__", "x_total"}, {"a", "b"}, {"job", "j"}}, Sample(1, kMs),
                   {kCounterType, "", "seconds"})
           .bytes(),
       k2);
  EXPECT_EQ(HexOf(out_),
            "0adb8180000a958080000a130a0c736572766963652e6e616d6512030a016a12bc8180000a968080000a146770756c65"
            "6e732e72656d6f74655f7772697465129c8180000a07785f746f74616c1a01733aa28080000a1c1900002a36fe9c9717"
            "21000000000000f03f3a080a016112030a016210021801621c0a0f70726f6d6574686575732e7479706512090a07636f"
            "756e74657262210a1b6770756c656e732e72656d6f74655f77726974652e66616d696c7912020a0062260a196770756c"
            "656e732e72656d6f74655f77726974652e756e697412090a077365636f6e6473");
}

TEST(RemoteWriteTypes, StaysWithinItsBounds) {
  RemoteWriteTypes types;
  for (size_t i = 0; i <= RemoteWriteTypes::kMostNames; ++i)
    types.Learn("name" + std::to_string(i), remote_write::Type::kCounter, "", "");
  EXPECT_EQ(types.size(), 1u) << "full, it begins anew";
  const std::string help(1 << 20, 'h');
  for (int i = 0; i < 20; ++i) types.Learn("long" + std::to_string(i), remote_write::Type::kGauge, help, "");
  EXPECT_LE(types.size(), 4u);
  types.Learn("one", remote_write::Type::kGauge, std::string(5 << 20, 'h'), "");
  EXPECT_EQ(types.Find("one"), nullptr);
  EXPECT_EQ(types.Find("nobody_total"), nullptr);
}

TEST(RemoteWriteWords, UnitsOfOpenTelemetry) {
  const std::pair<const char*, const char*> expected[] = {{"seconds", "s"},
                                                          {"bytes", "By"},
                                                          {"ratio", "1"},
                                                          {"bytes_per_second", "By/s"},
                                                          {"widgets", "widgets"},
                                                          {"widgets_per_fortnight", "widgets/fortnight"},
                                                          {"", ""}};
  for (const auto& [from, to] : expected) {
    std::string unit = "before";
    OtlpUnitOf(from, unit);
    EXPECT_EQ(unit, to);
  }
}

}  // namespace
}  // namespace gpulens

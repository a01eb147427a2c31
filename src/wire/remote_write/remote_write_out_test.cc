#include "wire/remote_write/remote_write_out.h"
#include "wire/otlp/otlp_json.h"

#include <gtest/gtest.h>

#include "core/prometheus_words.h"
#include "wire/remote_write/native_histogram.h"
#include "wire/remote_write/otlp_metrics_text_testing.h"
#include "wire/remote_write/otlp_writer_testing.h"
#include "wire/remote_write/remote_write_fields.h"
#include "wire/remote_write/remote_write_in_testing.h"
#include "wire/remote_write/request_text_testing.h"

namespace gpulens {
namespace {

using namespace remote_write_out_testing;
using Fault = RemoteWriteOutFault;
using Lines = std::vector<std::string>;

const std::vector<std::pair<std::string, std::string>> kService = {
    {"service.name", "web"}, {"service.namespace", "shop"}, {"service.instance.id", "i-1"}};

class RemoteWriteOutTest : public ::testing::Test {
 protected:
  // Lines of all requests that one of OTLP becomes.
  Lines Sent(const std::string& request, RemoteWriteOut::Options options = {.version = k2}) {
    RemoteWriteOut out(options);
    return SentBy(out, request);
  }
  Lines SentBy(RemoteWriteOut& out, const std::string& request, Instant now = {}) {
    Lines lines;
    requests_ = 0;
    uint64_t samples = 0;
    status_ = out.Convert(
        request, now,
        [&](std::string_view bytes, uint32_t count) {
          for (std::string& line : RequestText::Of(bytes, out.version())) lines.push_back(std::move(line));
          samples += count;
          ++requests_;
          return Ok();
        },
        outcome_);
    EXPECT_TRUE(status_.ok()) << status_.detail;
    EXPECT_EQ(samples, outcome_.samples + outcome_.histograms);
    return lines;
  }
  uint64_t faults(Fault fault) const { return outcome_.faults[static_cast<size_t>(fault)]; }

  RemoteWriteOutOutcome outcome_;
  Status status_;
  size_t requests_ = 0;
};

// "OTLP Metric points to Prometheus" of OpenTelemetry's specification, five requests: names, units, types.
TEST_F(RemoteWriteOutTest, SpecificationSums) {
  EXPECT_EQ(Sent(RequestOf(
                Metric("http.server.requests", "{request}", Sum(NumberPoint(5, {{"code", "200"}})), "All."),
                kService)),
            (Lines{"http_server_requests_total{code=\"200\",instance=\"i-1\",job=\"shop/web\"} 5 "
                   "@1700000000000 start 1699999995000 type=1 help=All."}));
  EXPECT_EQ(Sent(RequestOf(Metric("queue_size", "", Sum(NumberPoint(-2), 2, false)), kService)),
            (Lines{"queue_size{instance=\"i-1\",job=\"shop/web\"} -2 @1700000000000 type=2"}));
  EXPECT_EQ(outcome_.Text(), "");
}

TEST_F(RemoteWriteOutTest, SpecificationGaugeUnitsAndAttributes) {
  // "ms" is milliseconds, "1" is ratio, invalid characters are underscores, equal names join their values.
  const std::string metrics =
      Metric("rpc.latency", "ms",
             Gauge(NumberPoint(1.5, {{"peer.name", "b"}, {"peer-name", "a"}, {"1st", "x"}}))) +
      Metric("cache.hit", "1", Gauge(NumberPoint(0.5))) + Metric("io", "By/s", Gauge(NumberPoint(7)));
  EXPECT_EQ(Sent(RequestOf(metrics)),
            (Lines{"cache_hit_ratio{} 0.5 @1700000000000 type=2 unit=ratio",
                   "io_bytes_per_second{} 7 @1700000000000 type=2 unit=bytes_per_second",
                   "rpc_latency_milliseconds{key_1st=\"x\",peer_name=\"a;b\"} 1.5 @1700000000000 type=2 "
                   "unit=milliseconds"}));
}

TEST_F(RemoteWriteOutTest, SpecificationHistogram) {
  const std::string trace(16, '\x1f'), span(8, '\x2e');
  const std::string exemplar =
      Wrap(8, Fixed(2, kAt) + Fixed(3, 0.7) + Text(4, span) + Text(5, trace) + Pair(7, "user", "u"));
  const std::string point =
      Wrap(1, Fixed(2, kStart) + Fixed(3, kAt) + Fixed(4, uint64_t{6}) + Fixed(5, 12.5) +
                  Fixeds(6, {1, 2, 3}) + Doubles(7, {0.5, 1}) + exemplar);
  const std::string request = RequestOf(Metric("wait", "s", HistogramData(point)));
  const std::string end = " @1700000000000 start 1699999995000";
  const std::string about = " type=3 unit=seconds";
  EXPECT_EQ(
      Sent(request),
      (Lines{"wait_seconds_bucket{le=\"+Inf\"} 6" + end + about,
             "wait_seconds_bucket{le=\"0.5\"} 1" + end + about,
             "wait_seconds_bucket{le=\"1\"} 3" + end +
                 " exemplar 0.69999999999999996 @1700000000000 "
                 "{span_id=\"2e2e2e2e2e2e2e2e\",trace_id=\"1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f\",user=\"u\"}" +
                 about,
             "wait_seconds_count{} 6" + end + about, "wait_seconds_sum{} 12.5" + end + about}));
  EXPECT_EQ(outcome_.points, 1u);
  EXPECT_EQ(outcome_.exemplars, 1u);
  EXPECT_EQ(Sent(request, {.version = k2, .native_histograms = true}),
            (Lines{"wait_seconds{} histogram 1:6 3:12.5 4:-53 11:(0,3) 12:1,1,1, 15:1700000000000 16:0.5,1, "
                   "17:1699999995000 exemplar 0.69999999999999996 @1700000000000 "
                   "{span_id=\"2e2e2e2e2e2e2e2e\",trace_id=\"1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f\",user=\"u\"}" +
                   about}));
}

TEST_F(RemoteWriteOutTest, SpecificationExponentialHistogram) {
  // Prometheus counts buckets by their upper bound, so places are one higher; the threshold is 1e-128 where
  // none is given.
  const std::string point =
      Wrap(1, Fixed(3, kAt) + Fixed(4, uint64_t{9}) + Fixed(5, 4.0) + Varint(6, 0) + Fixed(7, uint64_t{1}) +
                  BucketsOf(8, 2, {1, 0, 0, 0, 2}) + BucketsOf(9, -3, {5}));
  EXPECT_EQ(Sent(RequestOf(Metric("h", "", ExponentialData(point)))),
            (Lines{"h{} histogram 1:9 3:4 5:1.0000000000000001e-128 6:1 8:(-2,1) 9:5, 11:(3,1)(3,1) 12:1,1, "
                   "15:1700000000000 type=3"}));
}

TEST_F(RemoteWriteOutTest, SpecificationSummaryAndTargetInfo) {
  const auto quantile = [](double q, double v) { return Wrap(6, Fixed(1, q) + Fixed(2, v)); };
  const std::string point =
      Wrap(1, Fixed(3, kAt) + Fixed(4, uint64_t{3}) + Fixed(5, 6.0) + quantile(0.5, 2) + quantile(1, 3));
  auto resource = kService;
  resource.emplace_back("host.name", "n1");
  resource.emplace_back("k8s.pod.name", "p");
  const std::string labels = "instance=\"i-1\",job=\"shop/web\",k8s_pod_name=\"p\"";
  EXPECT_EQ(Sent(RequestOf(Metric("s", "", Wrap(11, point)), resource)),
            (Lines{"s_count{" + labels + "} 3 @1700000000000 type=5",
                   "s_sum{" + labels + "} 6 @1700000000000 type=5",
                   "s{" + labels + ",quantile=\"0.5\"} 2 @1700000000000 type=5",
                   "s{" + labels + ",quantile=\"1\"} 3 @1700000000000 type=5",
                   "target_info{host_name=\"n1\",instance=\"i-1\",job=\"shop/web\",k8s_pod_name=\"p\"} 1 "
                   "@1700000000000 type=6 help=Target metadata"}));
}

TEST_F(RemoteWriteOutTest, TheHostIsTheInstanceOfWhatHasNone) {
  const std::string request =
      RequestOf(Metric("a", "", Gauge(NumberPoint(1))), {{"service.name", "gpulens"}, {"host.name", "n1"}});
  EXPECT_EQ(Sent(request), (Lines{"a{instance=\"n1\",job=\"gpulens\"} 1 @1700000000000 type=2",
                                  "target_info{host_name=\"n1\",instance=\"n1\",job=\"gpulens\"} 1 "
                                  "@1700000000000 type=6 help=Target metadata"}));
}

TEST_F(RemoteWriteOutTest, DeltaIsRefusedMetricByMetricAndCounted) {
  const std::string metrics = Metric("d", "", Sum(NumberPoint(1) + NumberPoint(2, {{"a", "b"}}), 1)) +
                              Metric("none", "", Sum(NumberPoint(1), 0)) +
                              Metric("dh", "", HistogramData(Wrap(1, Fixed(3, kAt)), 1)) +
                              Metric("good", "", Gauge(NumberPoint(1)));
  EXPECT_EQ(Sent(RequestOf(metrics)).size(), 1u);
  EXPECT_EQ(outcome_.points, 1u);
  EXPECT_EQ(outcome_.dropped, 4u);
  EXPECT_EQ(
      outcome_.Text(),
      "4 of 5 points were not sent: the metric has delta temporality (3), the metric has no temporality (1)");
}

TEST_F(RemoteWriteOutTest, OptionsOfNamesAndLabels) {
  auto resource = kService;
  resource.emplace_back("host.name", "n1");
  resource.emplace_back("env", "prod");
  resource.emplace_back("gpulens.receiver", "otlp");
  const std::string request = RequestOf(Metric("a.b", "s", Sum(NumberPoint(1, {{"c.d", "é"}}))), resource,
                                        Text(1, "lib") + Text(2, "2"));
  RemoteWriteOut::Options options{.version = k1, .names_as_they_are = true, .target_info = false};
  EXPECT_EQ(Sent(request, options)[1], "metadata type=1 2=a.b 5=seconds");
  EXPECT_EQ(Sent(request, options)[0],
            "a.b{c.d=\"é\",env=\"prod\",instance=\"i-1\",job=\"shop/web\"} 1 @1700000000000");
  options.names_as_they_are = false;
  options.scope_labels = true;
  options.mark_received = true;
  options.promoted = std::vector<std::string>{"host.name"};
  EXPECT_EQ(Sent(request, options)[0],
            "a_b_seconds_total{c_d=\"é\",host_name=\"n1\",instance=\"i-1\",job=\"shop/"
            "web\",otel_scope_name=\"lib\","
            "otel_scope_version=\"2\"} 1 @1700000000000");
  options.promoted.reset();
  EXPECT_NE(Sent(request, options)[0].find("gpulens_receiver=\"otlp\""), std::string::npos);
}

TEST_F(RemoteWriteOutTest, AttributesOfReservedNamesReplaceNothing) {
  const std::string point =
      NumberPoint(1, {{"__name__", "evil"}, {"job", "evil"}, {"instance", "evil"}, {"env", "point"}});
  auto resource = kService;
  resource.emplace_back("env", "resource");
  EXPECT_EQ(Sent(RequestOf(Metric("a", "", Gauge(point)), resource), {.version = k2, .target_info = false}),
            (Lines{"a{env=\"point\",instance=\"i-1\",job=\"shop/web\"} 1 @1700000000000 type=2"}));
}

TEST_F(RemoteWriteOutTest, EndsBecomeStaleMarkers) {
  const std::string ended = Fixed(3, kAt);
  const std::string metrics =
      Metric("g", "", Gauge(Wrap(1, ended + Varint(8, 1)))) +
      Metric("h", "", HistogramData(Wrap(1, ended + Doubles(7, {1}) + Varint(10, 1)))) +
      Metric("e", "", ExponentialData(Wrap(1, ended + Varint(10, 1)))) +
      Metric("s", "", Wrap(11, Wrap(1, ended + Varint(8, 1) + Wrap(6, Fixed(1, 0.5)))));
  EXPECT_EQ(
      Sent(RequestOf(metrics)),
      (Lines{"e{} histogram 3:stale 15:1700000000000 type=3", "g{} stale @1700000000000 type=2",
             "h_bucket{le=\"+Inf\"} stale @1700000000000 type=3",
             "h_bucket{le=\"1\"} stale @1700000000000 type=3", "h_count{} stale @1700000000000 type=3",
             "h_sum{} stale @1700000000000 type=3", "s_count{} stale @1700000000000 type=5",
             "s_sum{} stale @1700000000000 type=5", "s{quantile=\"0.5\"} stale @1700000000000 type=5"}));
}

TEST_F(RemoteWriteOutTest, HistogramsThatAReceiverWouldRefuseAreDropped) {
  const auto exponential = [](uint64_t count, int32_t scale, const std::string& more) {
    std::string zigzag;
    pbf_writer(zigzag).add_sint32(6, scale);
    return Metric("e", "", ExponentialData(Wrap(1, Fixed(3, kAt) + Fixed(4, count) + zigzag + more)));
  };
  const auto classic = [](const std::string& more) {
    return Metric("h", "", HistogramData(Wrap(1, Fixed(3, kAt) + Fixed(4, uint64_t{1}) + more)));
  };
  Sent(RequestOf(exponential(2, 0, BucketsOf(8, 0, {1})) + classic(Fixeds(6, {1}) + Doubles(7, {1})) +
                 classic(Fixeds(6, {1, 0, 0}) + Doubles(7, {2, 1})) +
                 exponential(1, 0, BucketsOf(8, INT32_MAX, {1}))));
  EXPECT_EQ(outcome_.points, 0u);
  EXPECT_EQ(faults(Fault::kBuckets), 4u);
  Sent(RequestOf(exponential(1, -5, BucketsOf(8, 0, {1}))));
  EXPECT_EQ(faults(Fault::kSchema), 1u);
  Sent(RequestOf(classic(Fixeds(6, std::vector<uint64_t>(16'385)))));
  EXPECT_EQ(faults(Fault::kTooMany), 1u);
  EXPECT_TRUE(Sent(RequestOf(Metric("x", "", Gauge(Wrap(1, Fixed(4, 1.0)))) +
                             Metric("y", "", Gauge(Wrap(1, Fixed(3, kAt)))) +
                             Metric("...", "", Gauge(NumberPoint(1))) + Metric("z", "", "")))
                  .empty());
  EXPECT_EQ(
      outcome_.Text(),
      "3 of 3 points were not sent: the metric has no name that is valid in Prometheus (1), a point has no "
      "time (1), a point has no value (1)");
}

// A scale above 8 is brought down to it: 2^(scale-8) buckets become one.
TEST_F(RemoteWriteOutTest, FineExponentialHistogramsAreDownscaled) {
  std::string scale;
  pbf_writer(scale).add_sint32(6, 10);
  const std::string point = Wrap(
      1, Fixed(3, kAt) + Fixed(4, uint64_t{15}) + Fixed(5, 1.0) + scale + BucketsOf(8, -5, {1, 2, 3, 4, 5}));
  EXPECT_EQ(Sent(RequestOf(Metric("h", "", ExponentialData(point)))),
            (Lines{"h{} histogram 1:15 3:1 4:8 5:1.0000000000000001e-128 11:(-1,2) 12:1,13, 15:1700000000000 "
                   "type=3"}));
}

TEST_F(RemoteWriteOutTest, RequestsStayWithinTheirLimits) {
  std::string points;
  for (int i = 0; i < 100; ++i)
    points += NumberPoint(i, {{"i", std::to_string(i)}, {"text", std::string(50, 'x')}});
  const std::string request = RequestOf(Metric("a", "", Gauge(points)));
  for (const auto version : {k1, k2}) {
    RemoteWriteOut few({.version = version, .max_samples = 7});
    SentBy(few, request);
    EXPECT_EQ(requests_, 15u);
    RemoteWriteOut small({.version = version, .max_bytes = 1000});
    size_t largest = 0, count = 0;
    uint64_t samples = 0;
    ASSERT_TRUE(small
                    .Convert(
                        request, {},
                        [&](std::string_view bytes, uint32_t in) {
                          largest = std::max(largest, bytes.size());
                          samples += in;
                          ++count;
                          return Ok();
                        },
                        outcome_)
                    .ok());
    EXPECT_LE(largest, 1000u);
    EXPECT_GE(count, 4u);
    EXPECT_EQ(samples, 100u);
  }
  const std::string wide =
      RequestOf(Metric("a", "", Gauge(NumberPoint(1, {{"text", std::string(2000, 'x')}}))));
  EXPECT_TRUE(Sent(wide, {.version = k1, .max_bytes = 1000}).empty());
  EXPECT_EQ(faults(Fault::kTooLarge), 1u);
}

// One text of OTLP is repeated in the series of each bucket: memory and output are bounded.
TEST_F(RemoteWriteOutTest, SmallRequestsDoNotBecomeHuge) {
  std::vector<double> bounds;
  for (int i = 0; i < 16'000; ++i) bounds.push_back(i);
  const std::string point = Wrap(1, Fixed(3, kAt) + Pair(9, "text", std::string(100'000, 'x')) +
                                        Doubles(7, bounds) + Fixeds(6, std::vector<uint64_t>(16'001)));
  RemoteWriteOut out({.version = k1, .max_total = 8 << 20});
  uint64_t bytes = 0;
  ASSERT_TRUE(out.Convert(
                     RequestOf(Metric("h", "", HistogramData(point))), {},
                     [&](std::string_view request, uint32_t) {
                       bytes += request.size();
                       return Ok();
                     },
                     outcome_)
                  .ok());
  EXPECT_EQ(faults(Fault::kTooMuch), 1u);
  EXPECT_LE(bytes, uint64_t{64} << 20);
}

TEST_F(RemoteWriteOutTest, FailureOfTheTakerEndsIt) {
  RemoteWriteOut out({.version = k1});
  const Status failed = out.Convert(
      RequestOf(Metric("a", "", Gauge(NumberPoint(1)))), {},
      [](std::string_view, uint32_t) { return Status{Code::kUnavailable, "no"}; }, outcome_);
  EXPECT_EQ(failed.code, Code::kUnavailable);
  // Nothing of the failed call is in the next, and its metadata comes again.
  EXPECT_EQ(SentBy(out, RequestOf(Metric("a", "", Gauge(NumberPoint(2))))),
            (Lines{"a{} 2 @1700000000000", "metadata type=2 2=a"}));
}

TEST_F(RemoteWriteOutTest, MetadataOf1ComesOnceAMinuteAndWhenItChanges) {
  RemoteWriteOut out({.version = k1});
  const auto metadata = [&](const char* help, int seconds) {
    const Lines lines = SentBy(out, RequestOf(Metric("a", "", Gauge(NumberPoint(1)), help)),
                               Instant{.boot_ns = seconds * 1'000'000'000LL, .unix_ns = 0});
    return lines.size() == 2;
  };
  EXPECT_TRUE(metadata("one", 0));
  EXPECT_FALSE(metadata("one", 59));
  EXPECT_TRUE(metadata("one", 60));
  EXPECT_TRUE(metadata("two", 61));
}

TEST_F(RemoteWriteOutTest, BytesThatCannotBeReadAreRefused) {
  RemoteWriteOut out({});
  const auto take = [](std::string_view, uint32_t) { return Ok(); };
  const std::string good = RequestOf(Metric("a", "", Gauge(NumberPoint(1))));
  const std::string bad[] = {good.substr(0, good.size() - 1),
                             "\x08\x01",
                             Wrap(1, "\x12\x05x"),
                             Wrap(1, Wrap(2, "\x12\xff")),
                             RequestOf(Metric("a", "", Gauge(Wrap(1, "\x19x")))),
                             RequestOf(Wrap(2, "\x2a\x02\x08\x01")),
                             Wrap(1, Wrap(1, "\x08\x01"))};
  for (const std::string& request : bad)
    EXPECT_EQ(out.Convert(request, {}, take, outcome_).code, Code::kDataLoss)
        << testing::PrintToString(request);
  // Text that is none costs its point, its metric or its resource, and no more.
  const std::string rest = Metric("b", "", Gauge(NumberPoint(1)));
  EXPECT_TRUE(out.Convert(RequestOf(Metric("a", "", Gauge(NumberPoint(1, {{"x", "\xff"}}))) +
                                    Metric("\xff", "", Gauge(NumberPoint(1))) + rest) +
                              RequestOf(rest, {{"x", "\xff"}}),
                          {}, take, outcome_)
                  .ok());
  EXPECT_EQ(faults(Fault::kMalformed), 3u);
  EXPECT_EQ(outcome_.points, 1u);
}

TEST_F(RemoteWriteOutTest, ManyAttributesAreAFaultOfTheirPointOrResource) {
  std::vector<std::pair<std::string, std::string>> many;
  for (int i = 0; i < 500; ++i) many.emplace_back("a" + std::to_string(i), "v");
  const auto metric = [&] { return Metric("x", "", Gauge(NumberPoint(1, many))); };
  EXPECT_EQ(Sent(RequestOf(metric())).size(), 1u);
  many.emplace_back("one.more", "v");
  EXPECT_TRUE(Sent(RequestOf(metric())).empty());
  EXPECT_TRUE(Sent(RequestOf(Metric("x", "", Gauge(NumberPoint(1) + NumberPoint(2))), many)).empty());
  EXPECT_EQ(faults(Fault::kTooMany), 2u);
}

TEST_F(RemoteWriteOutTest, LongExemplarsKeepTheirIds) {
  const auto exemplar = [](const std::string& text) {
    return Wrap(5, Fixed(2, kAt) + Fixed(6, uint64_t{3}) + Text(4, std::string(8, 'a')) + Pair(7, "t", text));
  };
  const std::string point =
      NumberPoint(1, {}, exemplar(std::string(104, 'x')) + exemplar(std::string(105, 'x')));
  const Lines lines = Sent(RequestOf(Metric("x", "", Sum(point))));
  EXPECT_EQ(lines[0].substr(lines[0].find("exemplar")),
            "exemplar 3 @1700000000000 {span_id=\"6161616161616161\",t=\"" + std::string(104, 'x') +
                "\"} exemplar 3 @1700000000000 {span_id=\"6161616161616161\"} type=1");
  // Points of gauges have none.
  EXPECT_EQ(Sent(RequestOf(Metric("x", "", Gauge(point))))[0].find("exemplar"), std::string::npos);
}

// A sender of OTLP may write our marks, too; what it gains is a name that is not translated.
TEST_F(RemoteWriteOutTest, CarriedHistogramsAreChecked) {
  remote_write_in_testing::Histogram bad{.count = 1, .above = {{0, 5}}, .above_deltas = {1}, .hint = 3};
  const std::string mark = Wrap(12, Text(1, "gpulens.remote_write.family") + Wrap(2, Text(1, "")));
  const auto request = [&](const std::string& histogram) {
    return RequestOf(Wrap(
        2, Text(1, "h") + ExponentialData(Wrap(1, Fixed(3, kAt) + Varint(10, 1) + Text(26'480, histogram))) +
               mark));
  };
  EXPECT_TRUE(Sent(request(bad.Bytes())).empty());
  EXPECT_TRUE(Sent(request("\xff\xff")).empty());
  EXPECT_EQ(faults(Fault::kBuckets), 1u);
  bad.above = {{0, 1}};
  EXPECT_EQ(Sent(request(bad.Bytes())).size(), 1u);
}

// The bytes themselves, so that a change of them is seen.
TEST_F(RemoteWriteOutTest, GoldenBytes) {
  const std::string request =
      RequestOf(Metric("x.y", "s", Sum(NumberPoint(1, {{"a", "b"}})), "Help."), {{"service.name", "j"}});
  const auto bytes = [&](RemoteWriteVersion version) {
    RemoteWriteOut out({.version = version});
    std::string hex;
    EXPECT_TRUE(out.Convert(
                       request, {},
                       [&](std::string_view sent, uint32_t) {
                         hex += remote_write_in_testing::HexOf(sent);
                         return Ok();
                       },
                       outcome_)
                    .ok());
    return hex;
  };
  EXPECT_EQ(bytes(k1),
            "0a430a1d0a085f5f6e616d655f5f1211785f795f7365636f6e64735f746f74616c0a060a01611201620a080a03"
            "6a6f6212016a121009000000000000f03f1080d095ffbc311a2508011211785f795f7365636f6e64735f746f74"
            "616c220548656c702e2a077365636f6e6473");
  EXPECT_EQ(bytes(k2),
            "220022085f5f6e616d655f5f2211785f795f7365636f6e64735f746f74616c22016122016222036a6f6222016a"
            "220548656c702e22077365636f6e64732a290a06010203040506121709000000000000f03f1080d095ffbc3118"
            "f8a895ffbc312a06080118072008");
}

TEST(PrometheusNames, AreThoseOfTheTranslator) {
  using namespace remote_write;
  const auto name = [](const char* text, const char* unit, NameKind kind) {
    std::string out;
    AppendMetricName(out, text, unit, kind);
    return out;
  };
  EXPECT_EQ(name("system.io", "By", NameKind::kCounter), "system_io_bytes_total");
  EXPECT_EQ(name("total.system.io.bytes", "By", NameKind::kCounter), "system_io_bytes_total");
  EXPECT_EQ(name("a.ratio.b", "1", NameKind::kGauge), "a_b_ratio");
  EXPECT_EQ(name("a", "1", NameKind::kOther), "a");
  EXPECT_EQ(name("a__b..c", "", NameKind::kOther), "a_b_c");
  EXPECT_EQ(name("2nd.metric", "", NameKind::kOther), "_2nd_metric");
  EXPECT_EQ(name("speed", "km/h", NameKind::kGauge), "speed_km_per_hour");
  EXPECT_EQ(name("packets", "{packet}/s", NameKind::kGauge), "packets_per_second");
  EXPECT_EQ(name("job:rate", "", NameKind::kOther), "job:rate");
  EXPECT_EQ(name("é.ü", "s", NameKind::kCounter), "");
  EXPECT_EQ(name("total", "", NameKind::kCounter), "total");
  std::string label;
  AppendPrometheusLabel(label, "é.a:b");
  EXPECT_EQ(label, "__a_b");
}

TEST(OtlpValueText, ValuesAsText) {
  const auto text_of = [](std::string_view any_value) {
    std::string room;
    std::string_view text;
    return otlp::ValueText(any_value, otlp::ValueStyle::kLabel, room, text) ? std::string(text) : "";
  };
  EXPECT_EQ(text_of(Varint(2, 1)), "true");
  EXPECT_EQ(text_of(Varint(3, static_cast<uint64_t>(-7))), "-7");
  EXPECT_EQ(text_of(Fixed(4, 0.25)), "0.25");
  EXPECT_EQ(text_of(Text(7, std::string("\0\1\2\3", 4))), "AAECAw==");
  EXPECT_EQ(text_of(""), "");
  const std::string list = Wrap(5, Wrap(1, Text(1, "a\"")) + Wrap(1, Varint(3, 2)) + Wrap(1, ""));
  EXPECT_EQ(text_of(list), "[\"a\\\"\",2,null]");
  EXPECT_EQ(text_of(Wrap(6, Wrap(1, Text(1, "k") + Wrap(2, list)))), "{\"k\":[\"a\\\"\",2,null]}");
}

}  // namespace
}  // namespace gpulens

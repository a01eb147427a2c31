#include "wire/otlp/otlp_scan.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "wire/otlp/otlp_in_testing.h"

namespace gpulens {
namespace {

using namespace otlp_in_testing;

OtlpScan Scanned(OtlpSignal signal, const std::string& request, const NameFilter* unwanted = nullptr) {
  OtlpScan scan;
  const Status status = ScanOtlp(signal, request, unwanted, scan);
  EXPECT_TRUE(status.ok()) << status.detail;
  return scan;
}
Status Refused(OtlpSignal signal, const std::string& request) {
  OtlpScan scan;
  return ScanOtlp(signal, request, nullptr, scan);
}
std::string OnePoint(const std::string& point, uint32_t kind = 5) {
  return Request("", In(2, Text(1, "m") + In(kind, In(1, point))));
}

TEST(OtlpScan, CountsItemsOfEachSignal) {
  const std::string metrics =
      Request(In(1, Pair("a", "b")),
              In(2, Gauge("up", In(1, Point("")) + In(1, Point("")))) + In(2, Text(1, "none")));
  EXPECT_EQ(Scanned(OtlpSignal::kMetrics, metrics).items, 2u);
  EXPECT_EQ(Scanned(OtlpSignal::kLogs, Request("", In(2, In(5, Text(1, "line"))))).items, 1u);
  EXPECT_EQ(Scanned(OtlpSignal::kTraces, Request("", In(2, "") + In(2, ""))).items, 2u);
  EXPECT_EQ(Scanned(OtlpSignal::kTraces, "").items, 0u);
}

TEST(OtlpScan, RejectsABadItemAlone) {
  const std::string good = In(1, Point(In(7, Pair("k", "v"))));
  const std::string no_text = In(1, Point(In(7, Pair("k", "\xff\xfe"))));
  const std::string no_key = In(1, Point(In(7, Pair("\xc3", "v"))));
  OtlpScan scan =
      Scanned(OtlpSignal::kMetrics, Request("", In(2, Gauge("m", good + no_text + good + no_key))));
  EXPECT_EQ(scan.items, 2u);
  EXPECT_EQ(scan.rejected, 2u);
  EXPECT_EQ(scan.why, "a text is not valid UTF-8");
  EXPECT_EQ(scan.removed.size(), 2u);
}

TEST(OtlpScan, ABadMessageAboveItemsRejectsThem) {
  const std::string good = In(2, Gauge("m", In(1, Point("")) + In(1, Point(""))));
  const std::string bad = In(2, Gauge("\xff", In(1, Point("")) + In(1, Point("")) + In(1, Point(""))));
  EXPECT_EQ(Scanned(OtlpSignal::kMetrics, Request("", good + bad)).rejected, 3u);
  EXPECT_EQ(Scanned(OtlpSignal::kMetrics, Request("", good + In(1, Text(1, "\xff")))).rejected, 2u);
  OtlpScan scan = Scanned(OtlpSignal::kMetrics, Request(In(1, Pair("\xff", "")), good) + Request("", good));
  EXPECT_EQ(scan.rejected, 2u);
  EXPECT_EQ(scan.items, 2u);
  EXPECT_TRUE(scan.resources[0].removed);
  EXPECT_TRUE(scan.removed.empty());
  EXPECT_EQ(Scanned(OtlpSignal::kMetrics, Request("", In(2, Gauge("", In(1, Point("")))))).why,
            "a metric has no name");
}

TEST(OtlpScan, BucketsMustFitBounds) {
  auto histogram = [](std::vector<uint64_t> counts, std::vector<double> bounds) {
    std::string point;
    pbf_writer writer(point);
    writer.add_packed_fixed64(6, counts.begin(), counts.end());
    writer.add_packed_double(7, bounds.begin(), bounds.end());
    return OnePoint(point, 9);
  };
  EXPECT_EQ(Scanned(OtlpSignal::kMetrics, histogram({}, {})).rejected, 0u);
  EXPECT_EQ(Scanned(OtlpSignal::kMetrics, histogram({1}, {})).rejected, 0u);
  EXPECT_EQ(Scanned(OtlpSignal::kMetrics, histogram({1, 2}, {1})).rejected, 0u);
  EXPECT_EQ(Scanned(OtlpSignal::kMetrics, histogram({1, 2}, {1, 2})).rejected, 1u);
  EXPECT_EQ(Scanned(OtlpSignal::kMetrics, histogram({}, {1})).rejected, 1u);
}

TEST(OtlpScan, IdsHaveTheirLengthsOrAreAbsent) {
  auto span = [](const std::string& trace, const std::string& id) {
    return Request("", In(2, Text(1, trace) + Text(2, id) + Text(5, "name")));
  };
  EXPECT_EQ(Scanned(OtlpSignal::kTraces, span("0123456789abcdef", "01234567")).rejected, 0u);
  EXPECT_EQ(Scanned(OtlpSignal::kTraces, span("", "")).rejected, 0u);
  EXPECT_EQ(Scanned(OtlpSignal::kTraces, span("0123456789abcde", "01234567")).rejected, 1u);
  EXPECT_EQ(Scanned(OtlpSignal::kTraces, span("0123456789abcdef", "0")).rejected, 1u);
}

TEST(OtlpScan, UnwantedNamesAreFilteredAndCounted) {
  const std::vector<std::string> patterns = {"go_*", "python_*", "*_created"};
  const NameFilter unwanted(patterns);
  const std::string points = In(1, Point("")) + In(1, Point(""));
  const std::string request =
      Request("", In(2, Gauge("go_threads", points)) + In(2, Gauge("x_created", points)) +
                      In(2, Gauge("created", points)));
  OtlpScan scan = Scanned(OtlpSignal::kMetrics, request, &unwanted);
  EXPECT_EQ(scan.items, 2u);
  EXPECT_EQ(scan.filtered, 4u);
  EXPECT_EQ(scan.rejected, 0u);
  // The name may follow the points.
  const std::string late = Request("", In(2, In(5, points) + Text(1, "go_gc")));
  EXPECT_EQ(Scanned(OtlpSignal::kMetrics, late, &unwanted).filtered, 2u);
  EXPECT_TRUE(Scanned(OtlpSignal::kMetrics, late, &unwanted).resources[0].removed);
}

TEST(OtlpScan, FindsItemsWithAnIdentityOfTheirOwn) {
  auto own = [](const std::string& pair) {
    return Scanned(OtlpSignal::kMetrics, OnePoint(Point(In(7, pair)))).resources[0].own;
  };
  EXPECT_TRUE(own(Pair("gpu.index", "3")));
  EXPECT_TRUE(own(IntPair("gpu.index", 3)));
  EXPECT_TRUE(own(Pair("k8s.pod.uid", "u")));
  EXPECT_FALSE(own(Pair("gpu.model", "H100")));
}

// The key in front, as most write it, and behind the value, as the Collector does.
TEST(OtlpScan, UsualPairsAreKnownInBothOrders) {
  const std::string text = Text(1, "v"), number("\x18\x80\x01", 3), truth("\x10\x01", 2),
                    real =
                        "\x21"
                        "12345678";
  for (const std::string& value : {text, number, truth, real}) {
    const std::string key = Text(1, "some.key");
    EXPECT_EQ(otlp::UsualPair(key + In(2, value)), "some.key");
    EXPECT_EQ(otlp::UsualPair(In(2, value) + key), "some.key");
    EXPECT_EQ(otlp::UsualPair(In(2, value) + In(2, value)), "") << "no key";
    EXPECT_EQ(otlp::UsualPair(key + key), "") << "no value";
    EXPECT_EQ(otlp::UsualPair(Text(1, "k\xc3\xa4") + In(2, value)), "") << "to be looked at";
    EXPECT_EQ(otlp::UsualPair(key + In(2, value) + Text(1, "other")), "");
    EXPECT_EQ(otlp::UsualPair(key + In(2, value + value)), "");
    const std::string whole = In(2, value) + key;
    for (size_t size = 0; size < whole.size(); ++size) EXPECT_EQ(otlp::UsualPair(whole.substr(0, size)), "");
  }
  for (const std::string& value : {std::string("\x18\x80", 2), std::string("\x18\x01\x01", 3),
                                   std::string("\x21"
                                               "1234567"),
                                   std::string("\x22\x00", 2), std::string("\x0a\x05x", 3),
                                   std::string("\x19"
                                               "12345678"),
                                   "\x18" + std::string(9, '\xff') + '\1', Text(1, "\xff")}) {
    EXPECT_EQ(otlp::UsualPair(Text(1, "some.key") + In(2, value)), "");
    EXPECT_EQ(otlp::UsualPair(In(2, value) + Text(1, "some.key")), "");
  }
}

TEST(OtlpScan, DeepValuesAreRejectedAndNeverWalked) {
  std::string value = Text(1, "end");
  for (int i = 0; i < 100'000 && value.size() < (8u << 20); ++i) {
    std::string outer;
    if (i > 40) break;
    pbf_writer(outer).add_message(5, In(1, value));
    value = outer;
  }
  const OtlpScan scan =
      Scanned(OtlpSignal::kLogs, Request("", In(2, In(5, value)) + In(2, In(5, Text(1, "x")))));
  EXPECT_EQ(scan.rejected, 1u);
  EXPECT_EQ(scan.items, 1u);
  EXPECT_EQ(scan.why, "values nest too deeply");
}

// Inputs with names: each is refused whole, with a sentence.
TEST(OtlpScan, BadInputs) {
  const std::pair<const char*, std::string> kBad[] = {
      {"claims_100_mb", std::string("\x0a\x80\x80\x80\x32", 5) + "x"},
      {"cut_off_in_tag", std::string("\x8a", 1)},
      {"cut_off_in_resource", In(1, std::string("\x0a\x05", 2))},
      {"varint_of_eleven_bytes",
       In(1, In(1, std::string("\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12)))},
      {"varint_above_64_bits", In(1, In(1, std::string("\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 11)))},
      {"field_number_zero", std::string("\x02\x00", 2)},
      {"field_number_too_large", std::string("\xfa\xff\xff\xff\x7f\x00", 6)},
      {"group", std::string("\x0b\x0c", 2)},
      {"length_of_64_bits", std::string("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11)},
      {"resource_is_a_number", std::string("\x08\x01", 2)},
      {"scope_is_a_number", In(1, std::string("\x10\x01", 2))},
      {"time_is_a_varint", OnePoint(std::string("\x18\x01", 2))},
      {"packed_bounds_of_seven_bytes", OnePoint(Text(7, "1234567"), 9)},
      {"packed_varints_cut_off", OnePoint(In(8, Text(2, "\xff")), 10)},
      {"name_is_a_number", Request("", In(2, std::string("\x08\x01", 2)))},
      {"html", "<html><body>502 Bad Gateway</body></html>"},
  };
  for (const auto& [name, bytes] : kBad) {
    const Status status = Refused(OtlpSignal::kMetrics, bytes);
    EXPECT_EQ(status.code, Code::kInvalidArgument) << name;
    EXPECT_FALSE(status.detail.empty()) << name;
  }
}

TEST(OtlpScan, TooManyResourcesOrFaultsRefuseTheRequest) {
  std::string many;
  for (size_t i = 0; i <= kMostOtlpResources; ++i) many += In(1, "");
  EXPECT_EQ(Refused(OtlpSignal::kMetrics, many).code, Code::kExhausted);
  std::string bad_spans;
  for (size_t i = 0; i <= kMostOtlpRemovals; ++i) bad_spans += In(2, Text(1, "x"));
  const Status status = Refused(OtlpSignal::kTraces, Request("", bad_spans + In(2, "")));
  EXPECT_EQ(status.code, Code::kExhausted);
  EXPECT_NE(status.detail.find("wrong length"), std::string::npos);
}

TEST(OtlpScan, EveryCutOfARequestIsReadOrRefused) {
  const std::string request = Maker(7).Make(OtlpSignal::kMetrics);
  for (size_t size = 0; size < request.size(); ++size) {
    OtlpScan scan;
    static_cast<void>(
        ScanOtlp(OtlpSignal::kMetrics, std::string_view(request).substr(0, size), nullptr, scan));
  }
}

TEST(OtlpIdentity, ReadsAttributesAndPrometheusLabels) {
  OtlpIdentity identity;
  const std::vector<std::string> pairs = {Pair("k8s.pod.uid", "u"), Pair("container.id", "c"),
                                          Pair("host.name", "h"),   Pair("gpu.uuid", "GPU-1"),
                                          Pair("gpu.index", "3"),   Pair("else", "x")};
  for (const std::string& pair : pairs) TakeIdentity(pair, identity);
  EXPECT_EQ(identity.pod_uid, "u");
  EXPECT_EQ(identity.container_id, "c");
  EXPECT_EQ(identity.host_name, "h");
  EXPECT_EQ(identity.gpu_uuid, "GPU-1");
  EXPECT_EQ(identity.gpu_index, 3);
  // As labels of Prometheus.
  OtlpIdentity labels;
  const std::vector<std::string> label_pairs = {Pair("k8s_pod_uid", "u"),  Pair("container_id", "c"),
                                                Pair("gpu_uuid", "GPU-1"), Pair("gpu_index", "3"),
                                                Pair("host_name", "no"),   Pair("gpuxuuid", "x")};
  for (const std::string& pair : label_pairs) TakeIdentity(pair, labels);
  EXPECT_EQ(labels, (OtlpIdentity{.pod_uid = "u", .container_id = "c", .gpu_uuid = "GPU-1", .gpu_index = 3}));
  OtlpIdentity dcgm, other;
  const std::string of_dcgm = Pair("UUID", "GPU-2"),
                    of_other = Pair("UUID", "6ba7b810-9dad-11d1-80b4-00c04fd430c8");
  TakeIdentity(of_dcgm, dcgm);
  TakeIdentity(of_other, other);
  EXPECT_EQ(dcgm.gpu_uuid, "GPU-2");
  EXPECT_EQ(other, OtlpIdentity{}) << "not every UUID is a GPU's";
  for (const std::string& pair :
       {Pair("gpu.index", "three"), Pair("gpu.index", "-1"), IntPair("gpu.index", -1),
        IntPair("gpu.index", int64_t{1} << 40), Pair("gpu.index", "")}) {
    OtlpIdentity none;
    TakeIdentity(pair, none);
    EXPECT_EQ(none, OtlpIdentity{});
  }
}

}  // namespace
}  // namespace gpulens

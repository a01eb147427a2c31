// Remote write that becomes OTLP and leaves by remote write is the same: names, labels, values, times, types,
// exemplars, native histograms. What is generated is normal as a Prometheus sends it: sorted labels, series
// that have samples, buckets without empty ones at the ends.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <limits>
#include <set>

#include "wire/remote_write/remote_write_in.h"
#include "wire/remote_write/remote_write_in_testing.h"
#include "wire/remote_write/remote_write_out.h"
#include "wire/remote_write/request_text_testing.h"

namespace gpulens {
namespace {

using remote_write_in_testing::First;
using remote_write_in_testing::Histogram;
using remote_write_in_testing::kMs;
using remote_write_in_testing::Message;
using remote_write_in_testing::Pairs;
using remote_write_in_testing::pbf_writer;
using remote_write_in_testing::Sample;
using remote_write_in_testing::Second;
using remote_write_in_testing::SeriesWords;
using remote_write_out_testing::k1;
using remote_write_out_testing::k2;
using remote_write_out_testing::RequestText;
using Lines = std::vector<std::string>;

int Int(int from, int below) { return *rc::gen::inRange(from, below); }

// The lines of a request, with metadata of 1.0, after the way through OTLP.
Lines Relayed(const std::string& request, RemoteWriteVersion version, RemoteWriteVersion to,
              size_t max_samples) {
  RemoteWriteIn in({.carry_histograms = true});
  RemoteWriteOutcome came;
  std::string otlp;
  const Status converted = in.Convert(request, version, otlp, came);
  if (!converted.ok() || came.refused != 0) return {converted.detail + came.Text()};
  RemoteWriteOut out({.version = to, .max_samples = max_samples});
  RemoteWriteOutOutcome went;
  Lines lines;
  const Status status = out.Convert(
      otlp, Instant(),
      [&](std::string_view bytes, uint32_t) {
        for (std::string& line : RequestText::Of(bytes, to)) lines.push_back(std::move(line));
        return Ok();
      },
      went);
  if (!status.ok() || went.dropped != 0) return {status.detail + went.Text()};
  std::sort(lines.begin(), lines.end());
  return lines;
}

double AnyValue() {
  switch (Int(0, 8)) {
    case 0: return remote_write::StaleMarker();
    case 1: return std::bit_cast<double>(remote_write::kNanBits);
    case 2: return std::numeric_limits<double>::infinity();
    case 3: return -0.0;
    case 4: return 5e-324;
    default: return Int(-1'000'000, 1'000'000) / 7.0;
  }
}

// Runs of buckets with gaps of three and more empty ones, as Prometheus writes them.
void AnySide(std::vector<std::pair<int32_t, uint32_t>>& spans, std::vector<int64_t>& deltas, uint64_t& all,
             int64_t room, bool custom) {
  int64_t before = 0;
  const int count = Int(0, 4);
  for (int i = 0; i < count; ++i) {
    const auto offset = static_cast<int32_t>(i != 0 || custom ? Int(i == 0 ? 0 : 3, 9) : Int(-600, 600));
    const auto length = static_cast<uint32_t>(Int(1, 5));
    room -= offset + static_cast<int64_t>(length);
    if (custom && room < 0) break;
    spans.emplace_back(offset, length);
    for (uint32_t k = 0; k < length; ++k) {
      const int64_t bucket = Int(1, 1000);
      deltas.push_back(bucket - before);
      all += static_cast<uint64_t>(bucket);
      before = bucket;
    }
  }
}

std::string AnyFloats(int64_t ms) {
  std::string out;
  pbf_writer writer(out);
  writer.add_double(2, 3.5);
  writer.add_double(3, -1.25);
  writer.add_sint32(4, Int(-4, 9));
  writer.add_double(5, 0.001);
  writer.add_double(7, 0.5);
  std::string span;
  pbf_writer(span).add_sint32(1, Int(-9, 9));
  pbf_writer(span).add_uint32(2, 2);
  writer.add_message(11, span);
  const double counts[] = {1.5, 1.5};
  writer.add_packed_double(13, std::begin(counts), std::end(counts));
  writer.add_enum(14, *rc::gen::element(0, 3));
  writer.add_int64(15, ms);
  return out;
}

std::string AnyHistogram(int64_t ms, int64_t start_ms, bool custom, bool floats) {
  if (floats) return AnyFloats(ms);
  Histogram histogram{
      .sum = Int(-100, 100) / 3.0, .schema = custom ? -53 : Int(-4, 9), .ms = ms, .start_ms = start_ms};
  if (custom) {
    const int bounds = Int(0, 20);
    for (int i = 0; i < bounds; ++i) histogram.bounds.push_back(i * 1.5 - 3);
    AnySide(histogram.above, histogram.above_deltas, histogram.count, bounds + 1, true);
  } else {
    histogram.zero_threshold = *rc::gen::element(0.0, 1e-128, 0.001);
    histogram.count = histogram.zero_count = static_cast<uint64_t>(Int(0, 5));
    AnySide(histogram.above, histogram.above_deltas, histogram.count, 0, false);
    AnySide(histogram.below, histogram.below_deltas, histogram.count, 0, false);
    histogram.hint = *rc::gen::element(0, 0, 1, 2, 3);
  }
  return histogram.Bytes();
}

template <class Writer>
std::string AnyExemplars(Writer& writer) {
  std::string out;
  for (int count = Int(0, 3); count > 0; --count) {
    Pairs labels = {{"a", "é"}};
    if (Int(0, 2) != 0) labels.emplace_back("span_id", "00f067aa0ba902b7");
    if (Int(0, 2) != 0)
      labels.emplace_back(
          "trace_id", *rc::gen::element<std::string>("4bf92f3577b34da6a3ce929d0e0e4736", "not hex", "00"));
    out += writer.Exemplar(labels, Int(0, 100) / 3.0, kMs - Int(0, 1000));
  }
  return out;
}

// What series of one name have in common, since OTLP has it once.
struct Family {
  std::string name;
  SeriesWords about;
  bool counts = false;  // samples may have a start
};
const std::vector<Family>& Families() {
  static const std::vector<Family> kFamilies = {
      {"requests_total", {1, "All.", ""}, true}, {"power", {2, "Watts.", "watts"}, false},
      {"h_bucket", {3, "", "seconds"}, true},    {"h_count", {3, "", "seconds"}, true},
      {"s", {5, "A summary.", ""}, true},        {"target_info", {6, "", ""}, true},
      {"state", {7, "", "widgets"}, true},       {"unknown.with.dots", {0, "", ""}, true},
      {"gpulens_total", {0, "help", ""}, true}};
  return kFamilies;
}

Pairs AnyLabels(const std::string& name, int number) {
  Pairs labels = {{"__name__", name}, {"number", std::to_string(number)}};
  const std::pair<const char*, std::vector<std::string>> more[] = {
      {"job", {"a/b", "j"}},
      {"instance", {"n:1", "é"}},
      {"le", {"1", "1.0", "+Inf", "1e+06"}},
      {"quantile", {"0.5", "0.50"}},
      {"otel_scope_name", {"lib", "gpulens.remote_write"}},
      {"otel_scope_version", {"1.0"}},
      {"host_name", {"n"}},
      {"Upper", {"case"}},
      {"utf8.label", {"x"}},
      {"service_name", {"other"}},
  };
  for (const auto& [key, values] : more)
    if (Int(0, 3) == 0) labels.emplace_back(key, *rc::gen::elementOf(values));
  std::sort(labels.begin(), labels.end());
  return labels;
}

template <class Writer>
std::string AnyParts(Writer& writer, RemoteWriteVersion version, const Family& family, bool& histograms) {
  const bool second = version == k2;
  std::string parts;
  histograms = family.name == "power" ? false : Int(0, 3) == 0;
  const bool custom = Int(0, 2) == 0, floats = Int(0, 4) == 0;
  int64_t ms = kMs;
  bool ended = false;
  for (int count = Int(1, 4); count > 0; --count, ms += Int(1, 60'000)) {
    const int64_t start = second && family.counts && Int(0, 2) != 0 ? kMs - 1000 : 0;
    if (histograms) {
      parts += Message(second ? 3 : 4, AnyHistogram(ms, start, custom, floats));
      continue;
    }
    const double value = AnyValue();
    ended = remote_write::IsStaleMarker(value);
    parts += Sample(value, ms, start);
  }
  // A series that ended has no value that an exemplar could be of.
  if (!ended) parts += AnyExemplars(writer);
  return parts;
}

TEST(RemoteWriteOutProperty, Version2IsTheSameAfterOtlp) {
  EXPECT_TRUE(rc::check("2.0 is the same after OTLP", [] {
    Second request;
    bool unused = false;
    for (int i = Int(1, 12); i > 0; --i) {
      const Family family = *rc::gen::elementOf(Families());
      const Pairs labels = AnyLabels(family.name, i);
      request.Series(labels, AnyParts(request, k2, family, unused), family.about);
    }
    // Symbols come before the series that refer to them, and each is used.
    const std::string bytes = request.bytes();
    RC_ASSERT(Relayed(bytes, k2, k2, 1000) == RequestText::Of(bytes, k2));
  }));
}

TEST(RemoteWriteOutProperty, Version1IsTheSameAfterOtlp) {
  EXPECT_TRUE(rc::check("1.0 is the same after OTLP", [] {
    First request;
    bool unused = false;
    std::set<std::string> families;
    for (int i = Int(1, 12); i > 0; --i) {
      const Family family = *rc::gen::elementOf(Families());
      request.Series(AnyLabels(family.name, i), AnyParts(request, k1, family, unused));
      // The family is that of the whole classic histogram.
      const std::string name = family.about.type == 3 ? "h" : family.name;
      if ((family.about.type != 0 || !family.about.help.empty()) && families.insert(name).second)
        request.Metadata(family.about.type, name, family.about.help, family.about.unit);
    }
    const auto normal = [](Lines lines) {
      // Empty fields mean the same as none; where a name has several kinds of data its metadata comes once.
      for (std::string& line : lines)
        if (line.starts_with("metadata"))
          for (const char* empty : {" type=0", " 4=", " 5="})
            if (const size_t at = line.find(empty);
                at != std::string::npos &&
                (at + std::string_view(empty).size() == line.size() ||
                 line[at + std::string_view(empty).size()] == ' ' || std::string_view(empty) == " type=0"))
              line.erase(at, std::string_view(empty).size());
      return lines;
    };
    RC_ASSERT(normal(Relayed(request.bytes(), k1, k1, 1000)) == normal(RequestText::Of(request.bytes(), k1)));
  }));
}

// Requests are cut where they are full, and no sample is lost for it.
TEST(RemoteWriteOutProperty, SmallRequestsHoldAllSamples) {
  EXPECT_TRUE(rc::check("small requests hold all samples", [] {
    Second request;
    size_t samples = 0;
    for (int i = Int(1, 30); i > 0; --i, ++samples)
      request.Series(AnyLabels("power", i), Sample(i), {2, "Watts.", "watts"});
    const size_t most = static_cast<size_t>(Int(1, 10));
    const Lines lines = Relayed(request.bytes(), k2, *rc::gen::element(k1, k2), most);
    RC_ASSERT(static_cast<size_t>(std::ranges::count_if(
                  lines, [](const std::string& line) { return line.starts_with("power{"); })) == samples);
  }));
}

}  // namespace
}  // namespace gpulens

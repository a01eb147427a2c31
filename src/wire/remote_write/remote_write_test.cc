#include "wire/remote_write/remote_write.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/allocations.h"
#include "wire/exposition/naming_testing.h"
#include "wire/json/json_testing.h"
#include "wire/remote_write/remote_write_series.h"
#include "wire/remote_write/remote_write_testing.h"

namespace gpulens {
namespace {

using json_testing::Gpu;
using json_testing::MakeSnapshot;
using json_testing::TestSource;
using remote_write_testing::Reader;
using remote_write_testing::Request;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;
using wire_testing::NameVerbatim;

constexpr MetricDesc kPower{.name = "gpu_power_watts", .unit = "watts", .help = "What it draws."};
constexpr MetricDesc kEnergy{.name = "gpu_energy_joules_total", .kind = Kind::kCounter};
constexpr MetricDesc kFans{.name = "fans", .kind = Kind::kUpDownCounter, .number = Number::kInt};
constexpr MetricDesc kLatency{.name = "ttft_seconds", .unit = "seconds", .kind = Kind::kHistogram};
constexpr MetricDesc kSizes{.name = "sizes_bytes", .kind = Kind::kGaugeHistogram};
constexpr MetricDesc kQuantiles{.name = "rpc_seconds", .kind = Kind::kSummary};
constexpr MetricDesc kBuild{.name = "build_info", .kind = Kind::kInfo};

Ref<const Shape> MakeShape(std::vector<double> bounds, bool sum = true, bool count = true) {
  auto made = MakeRef<Shape>();
  made->bounds = std::move(bounds);
  made->has_sum = sum;
  made->has_count = count;
  return Ref<const Shape>(std::move(made));
}

class RemoteWriteTest : public ::testing::TestWithParam<RemoteWriteVersion> {
 protected:
  RemoteWriteTest() { Make({}); }

  void Make(RemoteWrite::Options options) {
    options.version = GetParam();
    options.metadata_interval = std::chrono::hours(1);
    writer_.emplace(SeriesNamer(&NameVerbatim), options);
  }
  bool second() const { return GetParam() == RemoteWriteVersion::k2; }
  Instant At(double second) const { return zero_ + milliseconds(static_cast<int64_t>(second * 1000)); }

  RemoteWrite::Take Taker(std::string& all) {
    return [&](std::string_view request, uint32_t samples) {
      ++requests_;
      Request read = Reader::Read(request, GetParam());
      EXPECT_EQ(read.series.size(), samples);
      for (auto& [name, about] : read.metadata) metadata_[name] = about;
      for (auto& series : read.series) metadata_.emplace(series.labels["__name__"], series.metadata);
      read.metadata.clear();
      all += remote_write_testing::TextOf(read, zero_.unix_ns);
      return Status{};
    };
  }
  // The requests for one tick, as text. `keep` false: the receiver did not take them.
  std::string Report(std::vector<SnapshotEntry> frames, double second, bool keep = true) {
    auto snapshot = MakeSnapshot(1, At(second), std::move(frames));
    snapshot->resource = AttributeSet({{"host.name", "n1"}});
    std::string all;
    requests_ = 0;
    EXPECT_TRUE(writer_->Encode(*snapshot, Taker(all)).ok());
    if (keep) writer_->Commit();
    return all;
  }

  const Instant zero_ = ManualClock().Now();
  std::optional<RemoteWrite> writer_;
  TestSource gpu_{"nvidia"};
  std::map<std::string, remote_write_testing::Metadata> metadata_;
  int requests_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Versions, RemoteWriteTest,
                         ::testing::Values(RemoteWriteVersion::k1, RemoteWriteVersion::k2),
                         [](const auto& version) {
                           return version.param == RemoteWriteVersion::k1 ? "V1" : "V2";
                         });

TEST_P(RemoteWriteTest, ExportsEveryKind) {
  SeriesTable& table = gpu_.table;
  Series power = table.Declare(kPower, Gpu(3)),
         energy = table.Declare(kEnergy, Gpu(3), {}, {.start_unix_ns = At(-9).unix_ns}),
         fans = table.Declare(kFans, Gpu(3), {{"busy", true}}), build = table.Declare(kBuild, {});
  gpu_.writer.Begin(At(1));
  gpu_.writer.Set(power, 512.25);
  gpu_.writer.Set(energy, 1e6);
  gpu_.writer.Set(fans, int64_t{-2});
  gpu_.writer.Set(build, 1);
  EXPECT_EQ(Report({gpu_.Entry()}, 2),
            "gpu_power_watts{gpu_index=\"3\"} 512.25 @1\n"
            "gpu_energy_joules_total{gpu_index=\"3\"} 1e+06 @" +
                std::string(second() ? "-9.." : "") +
                "1\n"
                "fans{busy=\"true\",gpu_index=\"3\"} -2 @1\n"
                "build_info 1 @1\n");
  EXPECT_EQ(metadata_["gpu_power_watts"].type, 2u);
  EXPECT_EQ(metadata_["gpu_power_watts"].help, "What it draws.");
  EXPECT_EQ(metadata_["gpu_power_watts"].unit, "watts");
  EXPECT_EQ(metadata_["gpu_energy_joules_total"].type, 1u);
  EXPECT_EQ(metadata_["fans"].type, 2u);
  EXPECT_EQ(metadata_["build_info"].type, 6u);
}

TEST_P(RemoteWriteTest, ExportsShapesAsAPageDoes) {
  const double infinity = std::numeric_limits<double>::infinity();
  Series latency = gpu_.table.Declare(kLatency, {}, {}, {.shape = MakeShape({0.5, 1, infinity})}),
         sizes = gpu_.table.Declare(kSizes, {}, {}, {.shape = MakeShape({8})}),
         rpc = gpu_.table.Declare(kQuantiles, {}, {}, {.shape = MakeShape({0.9}, true, false)});
  gpu_.writer.Begin(At(1));
  double next = 1;
  for (Series series : {latency, sizes, rpc}) {
    for (Cell& cell : gpu_.writer.Cells(series)) cell.d = next++;
  }
  EXPECT_EQ(Report({gpu_.Entry()}, 1),
            "ttft_seconds_bucket{le=\"0.5\"} 1 @1\n"
            "ttft_seconds_bucket{le=\"1.0\"} 2 @1\n"
            "ttft_seconds_bucket{le=\"+Inf\"} 3 @1\n"
            "ttft_seconds_sum 4 @1\n"
            "ttft_seconds_count 5 @1\n"
            "sizes_bytes_bucket{le=\"8.0\"} 6 @1\n"
            "sizes_bytes_gsum 7 @1\n"
            "sizes_bytes_gcount 8 @1\n"
            "rpc_seconds{quantile=\"0.9\"} 9 @1\n"
            "rpc_seconds_sum 10 @1\n");
  EXPECT_EQ(metadata_[second() ? "ttft_seconds_sum" : "ttft_seconds"].type, 3u);
}

TEST_P(RemoteWriteTest, LabelsAreSortedAndValid) {
  Make({.labels = [](const AttributeSet& resource) {
    return RemoteWriteLabels{{"job", "gpulens"}, {"instance", resource.Text("host.name")}, {"Zone", "a"}};
  }});
  Series odd = gpu_.table.Declare(
      kPower, {}, {{"1st.key", "a\xff\xc3\xa9"}, {"job", "mine"}, {"none", ""}, {"1st-key", "second"}});
  gpu_.writer.Begin(At(1));
  gpu_.writer.Set(odd, 1);
  EXPECT_EQ(Report({gpu_.Entry()}, 1),
            "gpu_power_watts{Zone=\"a\",_st_key=\"second\",instance=\"n1\",job=\"mine\"} 1 @1\n");
}

TEST_P(RemoteWriteTest, ExportsEachReadingOnce) {
  Series power = gpu_.table.Declare(kPower, Gpu(0)), other = gpu_.table.Declare(kPower, Gpu(1));
  gpu_.writer.Begin(At(1));
  gpu_.writer.Set(power, 1);
  gpu_.writer.Set(other, 2);
  SnapshotEntry entry = gpu_.Entry();
  std::string first = Report({entry}, 1, false);
  EXPECT_EQ(Report({entry}, 2), first) << "it was not taken";
  EXPECT_EQ(Report({entry}, 3), "") << "nothing was read since";
  for (int i = 0; i < 5; ++i) {  // ages are cut to milliseconds, so a reading's time comes out a bit off
    gpu_.writer.Begin(At(4) + std::chrono::nanoseconds(i * 300'300'300));
    gpu_.writer.Set(power, 3);
    std::string text = Report({gpu_.Entry()}, 6);
    EXPECT_THAT(text, HasSubstr("gpu_index=\"0\"} 3 @"));
    EXPECT_THAT(text, Not(HasSubstr("gpu_index=\"1\""))) << "it is stale";
  }
}

TEST_P(RemoteWriteTest, ExportsAStaleReadingThatIsNew) {
  Series power = gpu_.table.Declare(kPower, Gpu(0)), other = gpu_.table.Declare(kPower, Gpu(1));
  gpu_.writer.Begin(At(1));
  gpu_.writer.Set(power, 1);
  Report({gpu_.Entry()}, 1);
  gpu_.writer.Begin(At(2));
  gpu_.writer.Set(other, 2);
  gpu_.Entry();  // no tick of this sink
  gpu_.writer.Begin(At(3));
  EXPECT_EQ(Report({gpu_.Entry()}, 3), "gpu_power_watts{gpu_index=\"1\"} 2 @2\n");
}

// As on a scraped page with timestamps.
TEST_P(RemoteWriteTest, ADatedReadingHasItsOwnTimeAndIsExportedOnce) {
  Series power = gpu_.table.Declare(kPower, Gpu(0));
  auto report = [&](double now, double of) {
    gpu_.writer.Begin(At(now));
    gpu_.writer.DatedAt(At(of));
    gpu_.writer.Set(power, 1);
    return Report({gpu_.Entry()}, now);
  };
  EXPECT_EQ(report(100, 98), "gpu_power_watts{gpu_index=\"0\"} 1 @98\n");
  EXPECT_EQ(report(110, 98), "") << "the same one again";
  EXPECT_EQ(report(700, 400), "gpu_power_watts{gpu_index=\"0\"} 1 @400\n") << "older than the time to live";
}

TEST_P(RemoteWriteTest, AnEndedSeriesIsExportedOnce) {
  Series power = gpu_.table.Declare(kPower, Gpu(0)), energy = gpu_.table.Declare(kEnergy, Gpu(1)),
         latency = gpu_.table.Declare(kLatency, Gpu(2), {}, {.shape = MakeShape({1}, false, true)}),
         stays = gpu_.table.Declare(kPower, Gpu(7));
  auto run = [&](double second, auto&&... series) {
    gpu_.writer.Begin(At(second));
    (gpu_.writer.Set(series, 1), ...);
    gpu_.writer.Set(stays, 1);
    return gpu_.Entry();
  };
  gpu_.writer.Begin(At(1));
  for (Cell& cell : gpu_.writer.Cells(latency)) cell.d = 1;
  for (Series series : {power, energy, stays}) gpu_.writer.Set(series, 1);
  Report({gpu_.Entry()}, 1);
  gpu_.table.Retire(power);
  gpu_.table.Retire(latency);
  std::string text = Report({run(2, energy)}, 2.5);
  EXPECT_THAT(text, HasSubstr("gpu_power_watts{gpu_index=\"0\"} ended @2\n"));
  EXPECT_THAT(text, HasSubstr("ttft_seconds_bucket{gpu_index=\"2\",le=\"1.0\"} ended @2\n"));
  EXPECT_THAT(text, HasSubstr("ttft_seconds_count{gpu_index=\"2\"} ended @2\n"));
  EXPECT_THAT(Report({run(3, energy)}, 3), Not(HasSubstr("ended")));
  // Never read again, it gets too old and is absent.
  EXPECT_THAT(Report({run(30)}, 31), HasSubstr("gpu_energy_joules_total{gpu_index=\"1\"} ended @30\n"));
  EXPECT_THAT(Report({run(31)}, 31), Not(HasSubstr("ended")));
  text = Report({run(32, energy)}, 32);
  EXPECT_THAT(text, HasSubstr("gpu_energy_joules_total{gpu_index=\"1\"} 1 @"));
  EXPECT_EQ(Report({}, 33),
            "gpu_energy_joules_total{gpu_index=\"1\"} ended @33\n"
            "gpu_power_watts{gpu_index=\"7\"} ended @33\n")
      << "its source is gone";
  EXPECT_EQ(Report({}, 34), "");
}

TEST_P(RemoteWriteTest, ASeriesThatMovesGoesOn) {
  Series power = gpu_.table.Declare(kPower, Gpu(0)), energy = gpu_.table.Declare(kEnergy, Gpu(1));
  gpu_.writer.Begin(At(1));
  gpu_.writer.Set(power, 1);
  gpu_.writer.Set(energy, 1);
  Report({gpu_.Entry()}, 1);
  gpu_.table.Retire(power);
  gpu_.table.Declare(kPower, Gpu(5));
  power = gpu_.table.Declare(kPower, Gpu(0));  // in another slot
  gpu_.writer.Begin(At(2));
  gpu_.writer.Set(power, 2);
  gpu_.writer.Set(energy, 0.5);  // it started again: another layout, the same series
  std::string text = Report({gpu_.Entry()}, 2);
  EXPECT_THAT(text, Not(HasSubstr("ended")));
  EXPECT_THAT(text, HasSubstr("gpu_index=\"0\"} 2 @2\n"));
  // To another source, which was left out before as a duplicate.
  TestSource other("scrape/x");
  Series same = other.table.Declare(kPower, Gpu(0));
  gpu_.writer.Begin(At(3));
  gpu_.writer.Set(power, 3);
  gpu_.writer.Set(energy, 1);
  other.writer.Begin(At(3));
  other.writer.Set(same, 99);
  text = Report({other.Entry(Precedence::kPassThrough), gpu_.Entry()}, 3);
  EXPECT_THAT(text, Not(HasSubstr(" 99 ")));
  EXPECT_EQ(writer_->duplicates(), 1u);
  other.writer.Begin(At(4));
  other.writer.Set(same, 100);
  text = Report({other.Entry(Precedence::kPassThrough)}, 4);
  EXPECT_EQ(text,
            "gpu_power_watts{gpu_index=\"0\"} 100 @4\n"
            "gpu_energy_joules_total{gpu_index=\"1\"} ended @4\n");
}

TEST_P(RemoteWriteTest, AnEndFollowsTheLastSampleWhateverTheClockDid) {
  Series power = gpu_.table.Declare(kPower, Gpu(0));
  gpu_.writer.Begin(At(100));
  gpu_.writer.Set(power, 1);
  Report({gpu_.Entry()}, 100);
  Instant back = At(105);
  back.unix_ns = At(50).unix_ns;  // the clock was set back
  std::string text;
  ASSERT_TRUE(writer_->EncodeEnd(back, Taker(text)).ok());
  writer_->Commit();
  EXPECT_EQ(text, "gpu_power_watts{gpu_index=\"0\"} ended @100.001\n");
  EXPECT_EQ(writer_->samples(), 1u);
  text.clear();
  ASSERT_TRUE(writer_->EncodeEnd(back, Taker(text)).ok());
  EXPECT_EQ(text, "") << "once";
  gpu_.writer.Begin(At(104));  // a run that began before the end, and comes in behind it
  gpu_.writer.Set(power, 2);
  EXPECT_EQ(Report({gpu_.Entry()}, 106), "");
  gpu_.writer.Begin(At(107));
  gpu_.writer.Set(power, 3);
  EXPECT_EQ(Report({gpu_.Entry()}, 107), "gpu_power_watts{gpu_index=\"0\"} 3 @107\n");
}

// No source can end a series by a value that looks like the marker.
TEST_P(RemoteWriteTest, NotANumberIsNotAnEnd) {
  Series latency = gpu_.table.Declare(kQuantiles, {}, {}, {.shape = MakeShape({0.5}, false, false)});
  gpu_.writer.Begin(At(1));
  gpu_.writer.Cells(latency)[0].d = remote_write::StaleMarker();
  EXPECT_EQ(Report({gpu_.Entry()}, 1), "rpc_seconds{quantile=\"0.5\"} nan @1\n");
}

TEST_P(RemoteWriteTest, OfEqualSeriesOneIsExported) {
  auto name_alike = [](const SeriesInfo& series, std::vector<NamedSeries>& out) {
    NameVerbatim(series, out);
    out.back().labels.clear();
  };
  writer_.emplace(SeriesNamer(name_alike), RemoteWrite::Options{.version = GetParam()});
  for (int64_t i = 0; i < 3; ++i) gpu_.table.Declare(kPower, Gpu(i));
  gpu_.writer.Begin(At(1));
  for (uint32_t slot = 0; slot < 3; ++slot) gpu_.writer.Set(Series{slot, 0}, slot);
  EXPECT_EQ(Report({gpu_.Entry()}, 1), "gpu_power_watts 0 @1\n");
}

TEST_P(RemoteWriteTest, RequestsAreBoundedAndASteadyTickAllocatesNothing) {
  Make({.max_samples = 30, .max_bytes = 4000});
  std::vector<Series> all;
  for (int64_t i = 0; i < 200; ++i) all.push_back(gpu_.table.Declare(i % 2 ? kPower : kEnergy, Gpu(i)));
  uint64_t samples = 0, requests = 0, largest = 0, most = 0;
  const RemoteWrite::Take take = [&](std::string_view request, uint32_t count) {
    samples += count;
    most = std::max<uint64_t>(most, count);
    ++requests;
    largest = std::max<uint64_t>(largest, request.size());
    return Status{};
  };
  for (int tick = 1; tick < 10; ++tick) {
    gpu_.writer.Begin(At(tick));
    for (Series series : all) gpu_.writer.Set(series, tick);
    auto snapshot = MakeSnapshot(1, At(tick), {gpu_.Entry()});
    samples = requests = 0;
    const uint64_t before = ThreadAllocations();
    ASSERT_TRUE(writer_->Encode(*snapshot, take).ok());
    writer_->Commit();
    EXPECT_TRUE(tick < 5 || ThreadAllocations() == before) << tick;
    EXPECT_EQ(samples, 200u);
    EXPECT_EQ(writer_->samples(), 200u);
    EXPECT_GE(requests, 7u);
  }
  EXPECT_EQ(most, 30u);
  EXPECT_LE(largest, 4200u);
  Make({.max_bytes = 500});
  gpu_.writer.Begin(At(20));
  for (Series series : all) gpu_.writer.Set(series, 1);
  samples = requests = largest = 0;
  ASSERT_TRUE(writer_->Encode(*MakeSnapshot(1, At(20), {gpu_.Entry()}), take).ok());
  EXPECT_EQ(samples, 200u);
  EXPECT_GT(requests, 15u);
  EXPECT_LE(largest, 700u);
}

TEST_P(RemoteWriteTest, AReceiverThatRefusesEndsTheTick) {
  Make({.max_samples = 1});
  for (int64_t i = 0; i < 3; ++i) gpu_.table.Declare(kPower, Gpu(i));
  gpu_.writer.Begin(At(1));
  for (uint32_t slot = 0; slot < 3; ++slot) gpu_.writer.Set(Series{slot, 0}, 1);
  int calls = 0;
  Status status = writer_->Encode(*MakeSnapshot(1, At(1), {gpu_.Entry()}), [&](std::string_view, uint32_t) {
    ++calls;
    return Status{Code::kExhausted, "full"};
  });
  EXPECT_EQ(status.code, Code::kExhausted);
  EXPECT_EQ(calls, 1);
}

class RemoteWrite2Test : public RemoteWriteTest {};
INSTANTIATE_TEST_SUITE_P(V2, RemoteWrite2Test, ::testing::Values(RemoteWriteVersion::k2));

TEST_P(RemoteWrite2Test, HistogramsWithTheirBuckets) {
  Make({.native_histograms = true});
  const double infinity = std::numeric_limits<double>::infinity();
  auto declare = [&](Ref<const Shape> shape, std::string_view name) {
    return gpu_.table.Declare(kLatency, {}, {{"n", name}},
                              {.shape = std::move(shape), .start_unix_ns = At(-5).unix_ns});
  };
  std::vector<std::pair<Series, std::vector<double>>> all = {
      {declare(MakeShape({0.1, 0.5, infinity}), "full"), {3, 5, 9, 2.5, 9}},
      {declare(MakeShape({}), "bare"), {2.5, 9}},
      {declare(MakeShape({1, 2}), "torn"), {4, 3, 1, 2}},
      {declare(MakeShape({1}, false, true), "nosum"), {4, 4}}};
  gpu_.writer.Begin(At(1));
  for (auto& [series, numbers] : all) {
    std::span<Cell> cells = gpu_.writer.Cells(series);
    for (size_t i = 0; i < cells.size(); ++i) cells[i].d = numbers[i];
  }
  EXPECT_EQ(Report({gpu_.Entry()}, 1),
            "ttft_seconds{n=\"full\"} le0.1:3 le0.5:2 above:4 sum=2.5 @-5..1\n"
            "ttft_seconds{n=\"bare\"} above:9 sum=2.5 @-5..1\n"
            "ttft_seconds{n=\"torn\"} le1:4 le2:0 above:0 sum=1 @-5..1\n"
            "ttft_seconds_bucket{le=\"1.0\",n=\"nosum\"} 4 @-5..1\n"
            "ttft_seconds_count{n=\"nosum\"} 4 @-5..1\n");
  EXPECT_THAT(Report({}, 2), HasSubstr("ttft_seconds{n=\"full\"} ended @2\n"));
}

TEST_P(RemoteWrite2Test, AnotherVersionGoesOnWithTheSameSeries) {
  Series power = gpu_.table.Declare(kPower, Gpu(0));
  gpu_.writer.Begin(At(1));
  gpu_.writer.Set(power, 1);
  SnapshotEntry entry = gpu_.Entry();
  EXPECT_EQ(Report({entry}, 1), "gpu_power_watts{gpu_index=\"0\"} 1 @1\n");
  writer_->SetVersion(RemoteWriteVersion::k1);
  std::string text;
  auto take = [&](std::string_view request, uint32_t) {
    text += remote_write_testing::TextOf(Reader::Read(request, RemoteWriteVersion::k1), zero_.unix_ns);
    return Status{};
  };
  auto report = [&](SnapshotEntry one) {
    text.clear();
    auto snapshot = MakeSnapshot(1, At(2), {std::move(one)});
    EXPECT_TRUE(writer_->Encode(*snapshot, take).ok());
    writer_->Commit();
    return text;
  };
  EXPECT_EQ(report(entry), "# gpu_power_watts type=2 unit=watts What it draws.\n") << "it was exported";
  gpu_.writer.Begin(At(2));
  gpu_.writer.Set(power, 2);
  EXPECT_EQ(report(gpu_.Entry()), "gpu_power_watts{gpu_index=\"0\"} 2 @2\n");
}

TEST_P(RemoteWrite2Test, ADowngradedRequestHasTheSameContents) {
  Series power = gpu_.table.Declare(kPower, Gpu(0)),
         energy = gpu_.table.Declare(kEnergy, Gpu(1), {}, {.start_unix_ns = At(-5).unix_ns});
  gpu_.writer.Begin(At(1));
  gpu_.writer.Set(power, 1.5);
  gpu_.writer.Set(energy, 2);
  std::string text, first;
  ASSERT_TRUE(writer_
                  ->Encode(*MakeSnapshot(1, At(1), {gpu_.Entry()}),
                           [&](std::string_view request, uint32_t) {
                             EXPECT_TRUE(ToRemoteWrite1(request, first));
                             text = remote_write_testing::TextOf(Reader::Read(first, RemoteWriteVersion::k1),
                                                                 zero_.unix_ns);
                             EXPECT_FALSE(ToRemoteWrite1(request.substr(0, request.size() - 1), first))
                                 << "cut off";
                             EXPECT_FALSE(ToRemoteWrite1("\x0a\x01x", first)) << "1.0 already";
                             EXPECT_TRUE(ToRemoteWrite1("", first));
                             return Status{};
                           })
                  .ok());
  EXPECT_EQ(text, "gpu_power_watts{gpu_index=\"0\"} 1.5 @1\ngpu_energy_joules_total{gpu_index=\"1\"} 2 @1\n");
}

}  // namespace
}  // namespace gpulens

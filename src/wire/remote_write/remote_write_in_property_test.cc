// Output of our own encoder arrives as OTLP, sample for sample, in both versions.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "wire/json/json_testing.h"
#include "wire/otlp/otlp_scan.h"
#include "wire/remote_write/otlp_metrics_text_testing.h"
#include "wire/remote_write/remote_write.h"
#include "wire/remote_write/remote_write_in.h"
#include "wire/remote_write/remote_write_testing.h"

namespace gpulens {
namespace {

using json_testing::Gpu;
using json_testing::MakeSnapshot;
using json_testing::TestSource;
using remote_write_testing::Reader;

constexpr MetricDesc kPower{.name = "power", .unit = "W", .help = "Watts."};
constexpr MetricDesc kEnergy{.name = "energy_total", .unit = "J", .kind = Kind::kCounter};

void MakeNames(const SeriesInfo& series, std::vector<NamedSeries>& out) {
  NamedSeries& named = out.emplace_back();
  named.name = series.desc->name;
  named.kind = series.desc->kind;
  for (auto [key, value] : series.attributes) {
    std::string text;
    AppendValue(text, value);
    named.labels.emplace_back(key, std::move(text));
  }
}

// A point as text that both sides can be written as: "name{a=b} 1.5 @2000".
std::vector<std::string> Sent(std::string_view request, RemoteWriteVersion version) {
  std::vector<std::string> out;
  for (const auto& series : Reader::Read(request, version).series) {
    std::string labels;
    for (const auto& [name, value] : series.labels)
      if (name != "__name__") labels += (labels.empty() ? "" : ", ") + name + "=" + value;
    const auto& sample = series.samples.at(0);
    std::ostringstream line;
    line << series.labels.at("__name__") << " {" << labels << "}";
    if (remote_write::IsStaleMarker(sample.value)) line << " @" << sample.ms << " ended";
    else line << " " << sample.value << " @" << sample.ms;
    out.push_back(line.str());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> Arrived(const std::string& request) {
  std::vector<std::string> out;
  std::istringstream lines(remote_write_in_testing::OtlpMetricsText::Of(request));
  std::string name;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("   ")) {
      // Starts are of 2.0 alone and not what this compares.
      const size_t at = line.rfind('@'), dots = line.find("..", at);
      if (dots != std::string::npos) line.erase(at + 1, dots + 2 - (at + 1));
      out.push_back(name + " " + line.substr(3));
    } else if (line.starts_with("  ")) {
      name = line.substr(2, line.find(' ', 2) - 2);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

TEST(RemoteWriteInProperty, OutputOfTheSinkArrives) {
  EXPECT_TRUE(rc::check("what is sent arrives", [] {
    const auto version = *rc::gen::element(RemoteWriteVersion::k1, RemoteWriteVersion::k2);
    RemoteWrite::Options options;
    options.version = version;
    options.max_samples = static_cast<size_t>(*rc::gen::inRange(1, 20));
    RemoteWrite writer{SeriesNamer(&MakeNames), options};
    RemoteWriteIn in({});
    TestSource source("nvidia");
    std::vector<Series> series;
    for (int64_t gpu = 0; gpu < 5; ++gpu)
      for (const MetricDesc* desc : {&kPower, &kEnergy})
        series.push_back(source.table.Declare(*desc, Gpu(gpu)));
    Instant now = ManualClock().Now();
    uint64_t arrived = 0;
    for (int tick = 0; tick < 3; ++tick) {
      now = now + std::chrono::seconds(1);
      source.writer.Begin(now);
      for (const Series one : series) {
        const int act = *rc::gen::inRange(0, 4);
        if (act == 0 && arrived != 0) source.writer.Clear(one);
        else source.writer.Set(one, *rc::gen::inRange(-100, 100));
      }
      const auto snapshot = MakeSnapshot(1, now, {source.Entry()});
      const Status status = writer.Encode(*snapshot, [&](std::string_view request, uint32_t samples) {
        std::string out;
        RemoteWriteOutcome outcome;
        RC_ASSERT(in.Convert(request, version, out, outcome).ok());
        RC_ASSERT(outcome.refused == 0u);
        RC_ASSERT(outcome.samples == samples);
        RC_ASSERT(Arrived(out) == Sent(request, version));
        arrived += samples;
        return Ok();
      });
      RC_ASSERT(status.ok());
      writer.Commit();
    }
    RC_ASSERT(arrived > 0u);
  }));
}

}  // namespace
}  // namespace gpulens

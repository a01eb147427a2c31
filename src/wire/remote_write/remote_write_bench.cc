// Time to encode a tick of 5,000 series: numbers of five labels each, and histograms of 14 bounds. Nothing is
// committed, so that each tick exports everything.
#include <benchmark/benchmark.h>

#include <string>

#include "base/check.h"
#include "wire/exposition/naming_testing.h"
#include "wire/remote_write/remote_write.h"
#include "wire/remote_write/remote_write_request.h"
#include "wire/ticks_testing.h"

namespace gpulens {
namespace {

using wire_testing::NameVerbatim;
using wire_testing::Ticks;

void Encode(benchmark::State& state, RemoteWriteVersion version, bool shaped, bool native) {
  Ticks ticks(shaped ? Kind::kHistogram : Kind::kGauge, shaped);
  RemoteWrite::Options options;
  options.version = version;
  options.native_histograms = native;
  RemoteWrite writer{SeriesNamer(&NameVerbatim), options};
  uint64_t samples = 0, bytes = 0;
  const RemoteWrite::Take take = [&](std::string_view request, uint32_t count) {
    samples += count;
    bytes += request.size();
    return Status{};
  };
  const Ref<Snapshot> first = ticks.Next(1), second = ticks.Next(2);
  CHECK(writer.Encode(*first, take).ok());
  writer.Commit();
  samples = bytes = 0;
  for (auto _ : state) CHECK(writer.Encode(*second, take).ok());
  state.counters["samples"] = benchmark::Counter(static_cast<double>(samples), benchmark::Counter::kIsRate);
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
}
BENCHMARK_CAPTURE(Encode, version1_gauges, RemoteWriteVersion::k1, false, false);
BENCHMARK_CAPTURE(Encode, version1_histograms, RemoteWriteVersion::k1, true, false);
BENCHMARK_CAPTURE(Encode, version2_gauges, RemoteWriteVersion::k2, false, false);
BENCHMARK_CAPTURE(Encode, version2_histograms, RemoteWriteVersion::k2, true, false);
BENCHMARK_CAPTURE(Encode, version2_native, RemoteWriteVersion::k2, true, true);

void Pack(benchmark::State& state, RemoteWriteVersion version) {
  Ticks ticks(Kind::kGauge, false);
  RemoteWrite::Options options;
  options.version = version;
  RemoteWrite writer{SeriesNamer(&NameVerbatim), options};
  std::string request, packed;
  uint64_t bytes = 0, out = 0;
  CHECK(writer
            .Encode(*ticks.Next(1),
                    [&](std::string_view one, uint32_t samples) {
                      if (samples == options.max_samples) request = one;
                      return Status{};
                    })
            .ok());
  for (auto _ : state) {
    SnappyPack(request, packed);
    bytes += request.size();
    out += packed.size();
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
  state.counters["ratio"] = static_cast<double>(bytes) / static_cast<double>(out);
}
BENCHMARK_CAPTURE(Pack, version1, RemoteWriteVersion::k1);
BENCHMARK_CAPTURE(Pack, version2, RemoteWriteVersion::k2);

void FirstTick(benchmark::State& state) {
  Ticks ticks(Kind::kGauge, false);
  const Ref<Snapshot> snapshot = ticks.Next(1);
  for (auto _ : state) {
    RemoteWrite writer{SeriesNamer(&NameVerbatim), {}};
    CHECK(writer.Encode(*snapshot, [](std::string_view, uint32_t) { return Status{}; }).ok());
  }
}
BENCHMARK(FirstTick);

}  // namespace
}  // namespace gpulens

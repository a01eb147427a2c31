// Our side of the comparisons with peers, on the pages of bench/pages/make_pages.py: writing 5,000
// series, and reading 10 MB of an engine's page. Pages take turns, so that every number is another
// one. GPULENS_BENCH_PAGES names their folder; tools/bench.py sets it and reads the answers.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>

#include "base/files.h"
#include "bench/page_snapshot.h"
#include "names/naming.h"
#include "wire/exposition/exposition_page.h"
#include "wire/exposition/text_page.h"
#include "wire/packing.h"

namespace gpulens {
namespace {

constexpr size_t kPageLimit = 64u << 20;

// Empty, and the benchmark is skipped with the reason, when the page is not there.
std::string PageText(benchmark::State& state, const char* name) {
  const char* folder = std::getenv("GPULENS_BENCH_PAGES");
  std::string path = std::string(folder ? folder : GPULENS_SOURCE_DIR "/build/bench/pages") + "/" + name;
  auto text = ReadFile(path, kPageLimit);
  if (text) return *std::move(text);
  state.SkipWithError(text.error().detail.c_str());
  return {};
}

void Report(benchmark::State& state, size_t bytes, size_t samples) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(bytes));
  state.counters["bytes"] = static_cast<double>(bytes);
  state.counters["samples"] = static_cast<double>(samples);
}

bool LoadSeries(benchmark::State& state, PageSnapshots& snapshots) {
  std::string page = PageText(state, "series.prom"), next = PageText(state, "series_next.prom");
  if (page.empty() || next.empty()) return false;
  Status status = snapshots.Load(page, next);
  if (!status) state.SkipWithError(status.detail.c_str());
  return status.ok();
}

SeriesNamer NativeNamer() {
  const std::string native(kNativeNaming);
  return MakeSeriesNamer({&native, 1});
}

void BM_Encode(benchmark::State& state) {
  PageSnapshots snapshots;
  if (!LoadSeries(state, snapshots)) return;
  TextPage page(ExpositionFormat::kText004, NativeNamer());
  Ref<const Snapshot> ticks[] = {snapshots.At(0), snapshots.At(1)};
  std::string out;
  page.Render(*ticks[1], out);
  page.Render(*ticks[0], out);
  if (out != PageText(state, "series.prom"))
    return state.SkipWithError("the page is not written as it was read");
  size_t turn = 0;
  for (auto _ : state) {
    page.Render(*ticks[++turn & 1], out);
    benchmark::DoNotOptimize(out.data());
  }
  Report(state, out.size(), snapshots.samples());
}
BENCHMARK(BM_Encode)->Unit(benchmark::kMicrosecond);

void BM_Gzip(benchmark::State& state) {
  std::string page = PageText(state, "series.prom"), out;
  if (page.empty()) return;
  GzipCompressor gzip;
  for (auto _ : state) gzip.Compress(page, out);
  Report(state, page.size(), 5000);
  state.counters["packed"] = static_cast<double>(out.size());
}
BENCHMARK(BM_Gzip)->Unit(benchmark::kMicrosecond);

ExpositionLimits WideLimits() {
  ExpositionLimits limits;
  limits.samples = 1'000'000;
  return limits;
}

void TakeTurns(benchmark::State& state, const std::string& one, const std::string& other) {
  ScrapedPage scraped(WideLimits());
  const std::string* turns[] = {&one, &other};
  for (const std::string* page : turns) {
    if (!scraped.Update(*page, ExpositionFormat::kText004))
      return state.SkipWithError("the page is not read");
  }
  size_t turn = 0;
  for (auto _ : state) {
    Status status = scraped.Update(*turns[turn++ & 1], ExpositionFormat::kText004);
    benchmark::DoNotOptimize(status);
  }
  Report(state, one.size(), scraped.report().samples);
}

void BM_ParseSteady(benchmark::State& state) {
  std::string one = PageText(state, "engine.prom"), other = PageText(state, "engine_next.prom");
  if (!one.empty() && !other.empty()) TakeTurns(state, one, other);
}
BENCHMARK(BM_ParseSteady)->Unit(benchmark::kMicrosecond);

void BM_ParseHundredthNew(benchmark::State& state) {
  std::string one = PageText(state, "engine.prom"), other = PageText(state, "engine_new.prom");
  if (!one.empty() && !other.empty()) TakeTurns(state, one, other);
}
BENCHMARK(BM_ParseHundredthNew)->Unit(benchmark::kMicrosecond);

void BM_ParseFirst(benchmark::State& state) {
  std::string page = PageText(state, "engine.prom");
  if (page.empty()) return;
  size_t samples = 0, memory = 0;
  for (auto _ : state) {
    ScrapedPage scraped(WideLimits());
    Status status = scraped.Update(page, ExpositionFormat::kText004);
    benchmark::DoNotOptimize(status);
    samples = scraped.report().samples;
    memory = scraped.memory_bytes();
  }
  Report(state, page.size(), samples);
  state.counters["bytes_per_sample"] = static_cast<double>(memory) / static_cast<double>(samples);
}
BENCHMARK(BM_ParseFirst)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace gpulens

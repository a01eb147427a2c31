// How long a steady page of 20,000 series takes, and how many bytes a series costs.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <string>

#include "scrape/page_series.h"

namespace gpulens {
namespace {

// Like an exporter's page: names of 30 bytes, three labels.
std::string MakePage(int series, int round) {
  std::string page;
  for (int family = 0; family < series / 100; ++family) {
    std::string name = "exporter_some_family_" + std::to_string(1000 + family) + "_bytes";
    page += "# HELP " + name + " What it counts.\n# TYPE " + name + " gauge\n";
    for (int i = 0; i < 100; ++i) {
      page += name + "{device=\"eth" + std::to_string(i) + "\",instance=\"node-17\",mode=\"user\"} ";
      page += std::to_string(1'000'000 + i * (round + 7)) + "\n";
    }
  }
  return page;
}

size_t HeapBytes() {
  struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

void BM_SteadyScrape(benchmark::State& state) {
  const std::string pages[2] = {MakePage(20'000, 0), MakePage(20'000, 1)};
  size_t before = HeapBytes();
  ScrapedPage page;
  SeriesTable table;
  FrameWriter writer(table, std::chrono::seconds(30), "scrape/bench");
  PageSeries series(page, MakeRef<Entity>("target", AttributeSet({{"target", std::string_view("node")}})));
  ManualClock clock;
  Ref<const Frame> frame;
  size_t round = 0;
  auto scrape = [&] {
    clock.Advance(std::chrono::seconds(15));
    writer.Begin(clock.Now());
    const std::string& body = pages[round++ % 2];
    bool ok = page.Update(body, ExpositionFormat::kText004).ok();
    series.Write(ok, writer);
    frame = writer.Finish();
  };
  for (int i = 0; i < 4; ++i) scrape();
  state.counters["bytes_per_series"] = static_cast<double>(HeapBytes() - before) / table.size();
  state.counters["page_bytes_per_series"] = static_cast<double>(page.memory_bytes()) / table.size();
  state.counters["own_bytes_per_series"] = static_cast<double>(series.memory_bytes()) / table.size();
  for (auto _ : state) scrape();
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * pages[0].size()));
}
BENCHMARK(BM_SteadyScrape)->Unit(benchmark::kMicrosecond);

void BM_FirstScrape(benchmark::State& state) {
  const std::string body = MakePage(20'000, 0);
  for (auto _ : state) {
    ScrapedPage page;
    SeriesTable table;
    FrameWriter writer(table, std::chrono::seconds(30), "scrape/bench");
    PageSeries series(page, MakeRef<Entity>("target", AttributeSet({{"target", std::string_view("node")}})));
    writer.Begin(RealClock().Now());
    bool ok = page.Update(body, ExpositionFormat::kText004).ok();
    series.Write(ok, writer);
    benchmark::DoNotOptimize(writer.Finish());
  }
}
BENCHMARK(BM_FirstScrape)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gpulens

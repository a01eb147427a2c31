// Time to write a page of 5,000 numbers, by the kind of number, and to plan it from scratch.
// Two snapshots take turns, so that every number is another one. `allocs` are those of one Render.
// bench/page_bench.cc compares with other libraries, with real label sets.
#include <benchmark/benchmark.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>
#include <random>
#include <string>

#include "base/check.h"
#include "core/frame_writer.h"
#include "wire/exposition/naming_testing.h"
#include "wire/exposition/text_page.h"

namespace {
std::atomic<uint64_t> allocations{0};
}  // namespace

// Not inlined: gcc 12 takes an inlined pair for a mismatched one.
[[gnu::noinline]] void* operator new(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* block = std::malloc(size)) return block;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept { std::free(block); }

namespace gpulens {
namespace {

using wire_testing::NameVerbatim;

constexpr int kFamilies = 50, kSeriesEach = 100;

enum Numbers : int { kWhole, kShort, kFull };

double Draw(Numbers numbers, std::mt19937_64& random) {
  double part = std::uniform_real_distribution<double>(0, 1000)(random);
  if (numbers == kWhole) return std::floor(std::pow(10, part / 100));
  return numbers == kShort ? std::round(part * 1000) / 1000 : part;
}

// 5,000 gauges with five attributes, and two snapshots of them with one layout.
struct Page {
  SeriesTable table;
  FrameWriter writer{table, std::chrono::seconds(10)};
  std::vector<Series> series;
  std::array<Ref<Snapshot>, 2> snapshots;

  explicit Page(Numbers numbers) {
    std::vector<std::string> names;
    for (int i = 0; i < kFamilies; ++i) names.push_back("bench_family_" + std::to_string(i) + "_ratio");
    for (const std::string& name : names) {
      MetricDesc row;
      row.name = name;
      row.help = "A number that changes.";
      row.naming = Naming::kVerbatim;
      const MetricDesc* desc = table.Own(row);
      for (int64_t i = 0; i < kSeriesEach; ++i) series.push_back(table.Declare(*desc, {}, Attributes(i)));
    }
    std::mt19937_64 random(7);
    for (Ref<Snapshot>& snapshot : snapshots) {
      writer.Begin({1'000'000'000, 1'700'000'000'000'000'000});
      for (Series one : series) writer.Set(one, Draw(numbers, random));
      snapshot = MakeRef<Snapshot>();
      SnapshotEntry& entry = snapshot->frames.emplace_back();
      entry.frame = writer.Finish();
    }
    CHECK(snapshots[0]->frames[0].frame->layout == snapshots[1]->frames[0].frame->layout);
  }

  static AttributeSet Attributes(int64_t index) {
    return AttributeSet({{"gpu", index % 8},
                         {"gpu_model", "H100"},
                         {"host", "gpu-node-0042"},
                         {"uuid", "GPU-5a1b0000"},
                         {"worker", index}});
  }
};

void Report(benchmark::State& state, size_t bytes, uint64_t allocated) {
  auto rounds = static_cast<int64_t>(state.iterations());
  state.SetBytesProcessed(rounds * static_cast<int64_t>(bytes));
  state.SetItemsProcessed(rounds * kFamilies * kSeriesEach);
  state.counters["bytes"] = static_cast<double>(bytes);
  state.counters["allocs"] = static_cast<double>(allocated) / static_cast<double>(rounds);
}

void BM_TextPageSteady(benchmark::State& state) {
  Page page(static_cast<Numbers>(state.range(0)));
  TextPage text(static_cast<ExpositionFormat>(state.range(1)), NameVerbatim);
  std::string out;
  for (const Ref<Snapshot>& snapshot : page.snapshots) text.Render(*snapshot, out);
  uint64_t before = allocations.load();
  size_t turn = 0;
  for (auto _ : state) {
    text.Render(*page.snapshots[turn++ & 1], out);
    benchmark::DoNotOptimize(out.data());
  }
  Report(state, out.size(), allocations.load() - before);
}
BENCHMARK(BM_TextPageSteady)
    ->ArgNames({"numbers", "format"})
    ->ArgsProduct({{kWhole, kShort, kFull}, {0, 2}})
    ->Unit(benchmark::kMicrosecond);

// The first page of a layout: every series is named, sorted and laid out.
void BM_TextPagePlan(benchmark::State& state) {
  Page page(kShort);
  std::string out;
  uint64_t before = allocations.load();
  for (auto _ : state) {
    TextPage text(ExpositionFormat::kText004, NameVerbatim);
    text.Render(*page.snapshots[0], out);
    benchmark::DoNotOptimize(out.data());
  }
  Report(state, out.size(), allocations.load() - before);
}
BENCHMARK(BM_TextPagePlan)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace gpulens

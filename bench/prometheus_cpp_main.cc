// prometheus_cpp PAGE RUNS: how long prometheus-cpp takes to write the series of a page, as one line
// of JSON per writer. Built by tools/bench.py when the library is there; not part of the product.
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/parse.h"
#include "wire/exposition/exposition_page.h"

namespace {

using gpulens::ExpositionType;
using gpulens::PageCell;
using gpulens::SampleRole;
using gpulens::ScrapedPage;

constexpr int64_t kRunNs = 200'000'000;

int64_t NowNs(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

void AddHistogram(prometheus::Registry& registry, const gpulens::ExpositionFamily& family,
                  const prometheus::Labels& labels, const std::vector<PageCell>& cells,
                  const std::vector<double>& values) {
  prometheus::Histogram::BucketBoundaries bounds;
  std::vector<double> increments;
  double before = 0, sum = 0;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (cells[i].role == SampleRole::kSum) sum = values[i];
    if (cells[i].role != SampleRole::kBucket) continue;
    if (cells[i].bound != std::numeric_limits<double>::infinity()) bounds.push_back(cells[i].bound);
    increments.push_back(values[i] - before);
    before = values[i];
  }
  auto& all = prometheus::BuildHistogram().Name(family.name).Help(family.help).Register(registry);
  all.Add(labels, bounds).ObserveMultiple(increments, sum);
}

size_t Fill(prometheus::Registry& registry, const ScrapedPage& page) {
  std::vector<uint32_t> ids;
  std::vector<gpulens::PageLabel> pairs;
  std::vector<PageCell> cells;
  size_t samples = 0;
  page.Series(ids);
  for (uint32_t id : ids) {
    const gpulens::ExpositionFamily& family = page.families()[page.family_of(id)];
    page.Labels(id, pairs);
    page.Cells(id, cells);
    prometheus::Labels labels;
    for (const gpulens::PageLabel& pair : pairs) labels[pair.name] = pair.value;
    std::vector<double> values;
    for (const PageCell& cell : cells) values.push_back(page.values()[cell.slot]);
    samples += cells.size();
    if (family.type == ExpositionType::kHistogram) {
      AddHistogram(registry, family, labels, cells, values);
    } else if (family.type == ExpositionType::kCounter) {
      auto& all = prometheus::BuildCounter().Name(family.name).Help(family.help).Register(registry);
      all.Add(labels).Increment(values[0]);
    } else {
      auto& all = prometheus::BuildGauge().Name(family.name).Help(family.help).Register(registry);
      all.Add(labels).Set(values[0]);
    }
  }
  return samples;
}

}  // namespace

int main(int argc, char** argv) {
  auto runs = gpulens::ParseInt<int>(argc == 3 ? argv[2] : "");
  if (!runs) {
    std::fputs("usage: prometheus_cpp PAGE RUNS\n", stderr);
    return 2;
  }
  auto text = gpulens::ReadFile(std::string(argv[1]), 64u << 20);
  ScrapedPage page;
  if (!text || !page.Update(*text, gpulens::ExpositionFormat::kText004)) {
    std::fputs("prometheus_cpp: the page cannot be read\n", stderr);
    return 1;
  }
  prometheus::Registry registry(prometheus::Registry::InsertBehavior::Merge);
  size_t samples = Fill(registry, page), bytes = 0;
  prometheus::TextSerializer serializer;
  std::string wall, cpu;
  for (int run = 0; run < *runs; ++run) {
    int64_t calls = 0, wall_start = NowNs(CLOCK_MONOTONIC), cpu_start = NowNs(CLOCK_PROCESS_CPUTIME_ID);
    while (NowNs(CLOCK_MONOTONIC) - wall_start < kRunNs) {
      bytes = serializer.Serialize(registry.Collect()).size();
      ++calls;
    }
    const char* comma = run == 0 ? "" : ", ";
    wall += comma + std::to_string((NowNs(CLOCK_MONOTONIC) - wall_start) / calls);
    cpu += comma + std::to_string((NowNs(CLOCK_PROCESS_CPUTIME_ID) - cpu_start) / calls);
  }
  std::printf(
      "{\"name\": \"prometheus_cpp\", \"bytes\": %zu, \"samples\": %zu, \"wall_ns\": [%s], \"cpu_ns\": "
      "[%s]}\n",
      bytes, samples, wall.c_str(), cpu.c_str());
  return 0;
}

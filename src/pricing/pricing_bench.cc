// A lookup and a charge among 20,000 models; loading a file of 970 rows of 37 columns, as the reference list
// has.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "base/testing/allocations.h"
#include "pricing/charge.h"

namespace gpulens::pricing {
namespace {

constexpr int64_t kBenchTime = 1'795'435'200'000'000'000;

std::string BenchFile(int models, int extra_columns) {
  std::string text =
      "provider\tmodel\tinput\tcached_input\toutput\tlong_above\tlong_input\tlong_output\tbatch_input\tbatch_"
      "output";
  for (int i = 0; i < extra_columns; ++i) text += "\tx_" + std::to_string(i);
  for (int i = 0; i < models; ++i) {
    text += "\nprovider-" + std::to_string(i % 26) + "\tcompany-model-" + std::to_string(i) + "-large\t" +
            std::to_string(1'000'000 + i) + "\t100000\t5000000\t200000\t2000000\t7500000\t500000\t2500000";
    for (int j = 0; j < extra_columns; ++j) text += "\t-";
  }
  return text + "\n";
}

void LookupAndCharge(benchmark::State& state) {
  const PriceFile file{.name = "bench", .text = BenchFile(20'000, 0)};
  const auto table = PriceTable::Load({&file, 1});
  std::vector<std::pair<std::string, std::string>> names;
  for (int i = 0; i < 20'000; i += 7) {
    names.emplace_back("provider-" + std::to_string(i % 26), "company-model-" + std::to_string(i) + "-large" +
                                                                 (state.range(0) ? "-2026-04-23" : ""));
  }
  ChargeRequest request{.usage = {}, .dispatched_ns = kBenchTime};
  request.usage[LlmClass::kInput] = 100;
  request.usage[LlmClass::kInputCached] = 900;
  request.usage[LlmClass::kOutput] = 50;
  request.usage[LlmClass::kRequests] = 1;
  size_t i = 0;
  int64_t pico = 0;
  const uint64_t before = ThreadAllocations();
  for (auto _ : state) {
    const auto& [provider, model] = names[i];
    i = i + 1 == names.size() ? 0 : i + 1;
    pico += ChargeFor(table->Find(provider, model, model), request).pico;
  }
  benchmark::DoNotOptimize(pico);
  state.counters["allocations"] = static_cast<double>(ThreadAllocations() - before);
  state.counters["table_bytes"] = static_cast<double>(table->bytes());
}
BENCHMARK(LookupAndCharge)->ArgName("dated")->Arg(0)->Arg(1);

void ChargeAlone(benchmark::State& state) {
  const PriceFile file{.name = "bench", .text = BenchFile(1, 0)};
  const auto table = PriceTable::Load({&file, 1});
  const ModelPrices prices = table->ModelAt(0);
  ChargeRequest request{.usage = {}, .dispatched_ns = kBenchTime};
  request.usage[LlmClass::kInput] = 100;
  request.usage[LlmClass::kOutput] = 50;
  for (auto _ : state) benchmark::DoNotOptimize(ChargeFor(prices, request).pico);
}
BENCHMARK(ChargeAlone);

void LoadFile(benchmark::State& state) {
  const PriceFile file{.name = "bench", .text = BenchFile(static_cast<int>(state.range(0)), 27)};
  for (auto _ : state) benchmark::DoNotOptimize(PriceTable::Load({&file, 1}).ok());
  state.counters["file_bytes"] = static_cast<double>(file.text.size());
}
BENCHMARK(LoadFile)->Arg(970)->Arg(20'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gpulens::pricing

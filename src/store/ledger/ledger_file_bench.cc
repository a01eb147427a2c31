// A report of 30 days, and a Write, of 8 GPUs with 25 accounts in each hour.
#include <benchmark/benchmark.h>

#include "base/testing/temp_folder.h"
#include "store/ledger/ledger_file.h"
#include "store/ledger/ledger_testing.h"

namespace gpulens::ledger {
namespace {

const std::string& MonthFile() {
  static const testing::TempFolder folder;
  static const std::string path = [] {
    const std::string made = folder.path() + "/ledger.db";
    auto file = LedgerFile::Open({.path = made});
    if (!file || !(*file)->Write(TestEntries({.hours = 720}), {}, {})) std::abort();
    return made;
  }();
  return path;
}

// With opening the file, as a command does.
void Report(benchmark::State& state, std::vector<Dimension> by) {
  const std::string& path = MonthFile();
  for (auto _ : state) {
    auto file = LedgerFile::Open({.path = path, .read_only = true});
    if (!file) std::abort();
    auto rows = (*file)->Sum({.by = by});
    if (!rows || rows->empty()) std::abort();
    state.counters["rows"] = static_cast<double>(rows->size());
  }
}
BENCHMARK_CAPTURE(Report, Tenant, {Dimension::kTenant})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Report, PodAndStates, {Dimension::kPod, Dimension::kState, Dimension::kEnergyState})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Report, DayAndTenant, {Dimension::kDay, Dimension::kTenant})->Unit(benchmark::kMillisecond);

// 200 accounts of one window, in an hour that has them.
void Write(benchmark::State& state) {
  const testing::TempFolder folder;
  auto file = LedgerFile::Open({.path = folder.path() + "/ledger.db"});
  const std::vector<Entry> entries = TestEntries({.hours = 1});
  for (auto _ : state) {
    if (!file || !(*file)->Write(entries, {}, {})) std::abort();
  }
}
BENCHMARK(Write)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gpulens::ledger

// The end of a request: from Settle to its confirmation, with many streams open; how many a second; and the
// fold.
#include <benchmark/benchmark.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "proxy/journal/charge_fold.h"
#include "store/charges/charge_file.h"
#include "store/charges/charge_testing.h"

namespace gpulens {
namespace {

struct BenchFolder {
  BenchFolder() {
    if (::mkdtemp(path.data()) == nullptr) std::abort();
  }
  ~BenchFolder() { std::filesystem::remove_all(path); }
  std::string path = "/tmp/journal-bench-XXXXXX";
};

std::unique_ptr<Journal> OpenBench(const std::string& folder, SyncPolicy sync,
                                   std::vector<std::string> stores = {}) {
  JournalOptions options;
  options.folder = folder;
  options.stores = std::move(stores);
  options.sync = sync;
  options.max_bytes = uint64_t{16} << 30;
  auto journal = Journal::Open(options);
  if (!journal) std::abort();
  return *std::move(journal);
}

RequestId IdOf(uint64_t number) {
  return MakeRequestId(kTestDispatchNs / 1'000'000, number, number * 0x9E3779B97F4A7C15);
}

double Percentile(std::vector<int64_t>& values, double share) {
  const auto at = static_cast<size_t>(share * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, values.begin() + static_cast<ptrdiff_t>(at));
  return static_cast<double>(values[at]) / 1000;
}

// Arguments: open streams, sync policy. One caller, as an I/O loop, settles one stream each millisecond and
// waits for its confirmation, which a real loop does not: the latency of an idle journal.
void SettleLatency(benchmark::State& state) {
  const BenchFolder folder;
  const auto journal = OpenBench(folder.path, static_cast<SyncPolicy>(state.range(1)));
  const auto streams = static_cast<uint64_t>(state.range(0));
  ChargeRecord record = TestCharge(3);
  uint64_t next = 0, oldest = 0;
  const auto begin = [&] {
    record.id = IdOf(next++);
    journal->Begin(record, {});
  };
  while (next < streams) begin();
  journal->Flush();
  std::vector<int64_t> took;
  for (auto _ : state) {
    begin();
    ::poll(nullptr, 0, 1);
    record.id = IdOf(oldest++);
    std::atomic<int64_t> end_ns = 0;
    const auto now = [] { return std::chrono::steady_clock::now().time_since_epoch().count(); };
    const int64_t begin_ns = now();
    journal->Settle(record, [&](Kept) { end_ns = now(); });
    while (end_ns == 0) std::this_thread::yield();
    took.push_back(end_ns - begin_ns);
    state.SetIterationTime(static_cast<double>(end_ns - begin_ns) / 1e9);
  }
  state.counters["p50_us"] = Percentile(took, 0.5);
  state.counters["p99_us"] = Percentile(took, 0.99);
}
BENCHMARK(SettleLatency)
    ->ArgNames({"streams", "sync"})
    ->Args({1, 1})
    ->Args({64, 1})
    ->Args({10'000, 1})
    ->Args({64, 2})
    ->UseManualTime()
    ->Iterations(2000)
    ->Unit(benchmark::kMicrosecond);

// Requests a second, of Begin and Settle, by one caller with so many in flight.
void Settles(benchmark::State& state) {
  const BenchFolder folder;
  const auto journal = OpenBench(folder.path, static_cast<SyncPolicy>(state.range(1)));
  const auto streams = static_cast<uint64_t>(state.range(0));
  ChargeRecord record = TestCharge(4);
  uint64_t next = 0, settled = 0;
  std::atomic<uint64_t> confirmed = 0;
  for (auto _ : state) {
    record.id = IdOf(next++);
    journal->Begin(record, {});
    if (next <= streams) continue;
    record.id = IdOf(settled++);
    journal->Settle(record, [&](Kept kept) { confirmed += kept == Kept::kOnDisk; });
    while (settled - confirmed > streams) std::this_thread::yield();
  }
  journal->Flush();
  state.counters["settles_per_s"] =
      benchmark::Counter(static_cast<double>(confirmed), benchmark::Counter::kIsRate);
  state.counters["records_per_write"] = static_cast<double>(journal->stats().written) /
                                        static_cast<double>(std::max<uint64_t>(journal->stats().batches, 1));
}
BENCHMARK(Settles)
    ->ArgNames({"streams", "sync"})
    ->Args({64, 1})
    ->Args({10'000, 1})
    ->Args({64, 2})
    ->UseRealTime();

// Rows from the journal into a file of SQLite.
void Fold(benchmark::State& state) {
  constexpr uint64_t kRows = 50'000;
  for (auto _ : state) {
    state.PauseTiming();
    const BenchFolder folder;
    auto journal = OpenBench(folder.path, SyncPolicy::kInterval, {"file"});
    ChargeRecord record = TestCharge(4);
    for (uint64_t i = 0; i < kRows; ++i) {
      record.id = IdOf(i);
      journal->Begin(record, {});
      journal->Settle(record, {});
    }
    journal->Flush();
    state.ResumeTiming();
    auto fold = ChargeFold::Start(*journal, {.name = "file", .folder = folder.path},
                                  [&]() -> Result<std::unique_ptr<ChargeStore>> {
                                    auto file = ChargeFile::Open({.path = folder.path + "/charges.db"});
                                    if (!file) return file.error();
                                    return std::unique_ptr<ChargeStore>(*std::move(file));
                                  });
    if (!fold || !(*fold)->Drain(std::chrono::minutes(5))) std::abort();
    state.PauseTiming();
    fold->reset();
    journal.reset();
    state.ResumeTiming();
  }
  state.counters["rows_per_s"] = benchmark::Counter(
      static_cast<double>(kRows) * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(Fold)->Iterations(2)->UseRealTime()->Unit(benchmark::kMillisecond);

// The next start, with a journal of so many requests.
void OpenAgain(benchmark::State& state) {
  const BenchFolder folder;
  {
    const auto journal = OpenBench(folder.path, SyncPolicy::kNone, {"file"});
    ChargeRecord record = TestCharge(4);
    for (int64_t i = 0; i < state.range(0); ++i) {
      record.id = IdOf(static_cast<uint64_t>(i));
      journal->Begin(record, {});
      journal->Settle(record, {});
    }
  }
  for (auto _ : state) OpenBench(folder.path, SyncPolicy::kNone, {"file"});
}
BENCHMARK(OpenAgain)->Arg(100'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gpulens

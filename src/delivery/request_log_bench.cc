// One record of 16 KiB in and out again, in memory and on disk, and the opening of a backlog.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/check.h"
#include "delivery/request_log_testing.h"

namespace gpulens {
namespace {

using request_log_testing::OneLog;

constexpr size_t kRecordBytes = 16 << 10;

class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "records_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_ + "/queue"; }

 private:
  std::string path_;
};

std::unique_ptr<OneLog> Open(const std::string& folder) {
  OneLog::Options options;
  options.folder = folder;
  options.sync = SyncPolicy::kNone;
  auto queue = OneLog::Open(options, RealClock());
  CHECK(queue.ok());
  return *std::move(queue);
}

void PushAndPop(benchmark::State& state, const std::string& folder) {
  auto queue = Open(folder);
  const std::string bytes(kRecordBytes, 'x');
  for (auto _ : state) {
    CHECK(queue->Push(bytes, 100).ok());
    auto* record = queue->Front();
    CHECK(record != nullptr);
    benchmark::DoNotOptimize(record->bytes.data());
    queue->Pop(record->id);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kRecordBytes));
}

void PushAndPopInMemory(benchmark::State& state) { PushAndPop(state, ""); }
BENCHMARK(PushAndPopInMemory);

void PushAndPopOnDisk(benchmark::State& state) {
  Folder folder;
  PushAndPop(state, folder.path());
}
BENCHMARK(PushAndPopOnDisk);

// With 240 MiB of records of so many bytes in it.
void OpenBacklog(benchmark::State& state) {
  Folder folder;
  auto size = static_cast<size_t>(state.range(0));
  {
    auto queue = Open(folder.path());
    const std::string bytes(size, 'x');
    for (size_t done = 0; done < (size_t{240} << 20) * size / (size + 44); done += size)
      CHECK(queue->Push(bytes, 1).ok());
  }
  for (auto _ : state) CHECK(Open(folder.path())->stats().records > 0);
}
BENCHMARK(OpenBacklog)->Arg(1 << 10)->Arg(16 << 10)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gpulens

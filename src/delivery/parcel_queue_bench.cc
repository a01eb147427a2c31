// One parcel of 16 KiB in and out again, in memory and on disk, and the opening of a backlog.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/check.h"
#include "delivery/parcel_queue.h"

namespace gpulens {
namespace {

constexpr size_t kParcelBytes = 16 << 10;

class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "parcels_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_ + "/queue"; }

 private:
  std::string path_;
};

std::unique_ptr<ParcelQueue> Open(const std::string& folder) {
  ParcelQueue::Options options;
  options.folder = folder;
  options.sync = ParcelQueue::Sync::kNone;
  auto queue = ParcelQueue::Open(options, RealClock());
  CHECK(queue.ok());
  return *std::move(queue);
}

void PushAndPop(benchmark::State& state, const std::string& folder) {
  auto queue = Open(folder);
  const std::string bytes(kParcelBytes, 'x');
  for (auto _ : state) {
    CHECK(queue->Push(bytes, 100).ok());
    auto parcel = queue->Front();
    CHECK(parcel.has_value());
    benchmark::DoNotOptimize(parcel->bytes.data());
    queue->Pop(parcel->id);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kParcelBytes));
}

void PushAndPopInMemory(benchmark::State& state) { PushAndPop(state, ""); }
BENCHMARK(PushAndPopInMemory);

void PushAndPopOnDisk(benchmark::State& state) {
  Folder folder;
  PushAndPop(state, folder.path());
}
BENCHMARK(PushAndPopOnDisk);

// With 240 MiB of parcels of so many bytes in it.
void OpenBacklog(benchmark::State& state) {
  Folder folder;
  auto size = static_cast<size_t>(state.range(0));
  {
    auto queue = Open(folder.path());
    const std::string bytes(size, 'x');
    for (size_t done = 0; done < (size_t{240} << 20) * size / (size + 44); done += size)
      CHECK(queue->Push(bytes, 1).ok());
  }
  for (auto _ : state) CHECK(Open(folder.path())->stats().parcels > 0);
}
BENCHMARK(OpenBacklog)->Arg(1 << 10)->Arg(16 << 10)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gpulens

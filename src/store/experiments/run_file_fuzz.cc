// The file of experiments, made to harm: reading and querying it ends, within bounds, and changes
// nothing; a run that begins in it is found, or its writer fails with the reason. Its input:
// store/sqlite/hostile_file_testing.h.
// Fuzz inputs: 150
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/clock.h"
#include "store/experiments/run_query.h"
#include "store/experiments/run_reader.h"
#include "store/experiments/run_writer.h"
#include "store/sqlite/hostile_file_testing.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace {

using namespace gpulens;
using namespace gpulens::experiments;

constexpr int64_t kNow = 1'795'651'200'000'000'000;

ProcessObserver Observer() {
  ProcessObserver observer;
  observer.host = "node7", observer.place = "here", observer.now_ns = kNow;
  observer.start_of = [](int64_t pid) { return pid == 100 ? std::optional<int64_t>(7) : std::nullopt; };
  return observer;
}

RunStart Start(const std::string& name) {
  RunStart start;
  start.run.name = name, start.run.started_ns = kNow;
  start.process.role = "main", start.process.host = "node7", start.process.place = "here";
  start.process.pid = 100, start.process.start_ticks = 7;
  start.process.started_ns = start.process.heartbeat_ns = kNow;
  start.process.heartbeat_every_ns = 10'000'000'000;
  return start;
}

RunBatch Batch() {
  RunBatch batch;
  batch.params = {{"lr", 0.01}, {"layers", int64_t{12}}, {"name", std::string("a b")}};
  batch.tags = {{"team", "nlp"}};
  batch.artifacts = {
      {.name = "model.pt", .path = "/tmp/model.pt", .bytes = 3, .sha256 = {}, .copied = false}};
  batch.keys = {"loss", "acc"};
  for (int64_t i = 0; i < 5; ++i) batch.points.push_back({static_cast<uint32_t>(i % 2), i, kNow + i, 0.5});
  batch.heartbeat_ns = kNow;
  return batch;
}

Status Fill(const std::string& path, const std::string& name, std::string& id) {
  auto writer = RunWriter::Open(path, std::chrono::milliseconds(40));
  if (!writer) return writer.status();
  if (Status status = (*writer)->Begin(Start(name), Observer()); !status) return status;
  id = (*writer)->run_id();
  return (*writer)->Write(Batch(), PointSource::kProgram);
}

sqlite::HostileFile& File() {
  static sqlite::HostileFile file("experiments.db", [](const std::string& path) {
    std::string id;
    return Fill(path, "train", id).ok() && Fill(path, "eval", id).ok();
  });
  return file;
}

// Names what failed; a failure of a query may be of SQL, so that it names no file.
template <class T>
void Check(const Result<T>& result, size_t most = SIZE_MAX) {
  CHECK(result.ok() || !result.status().detail.empty());
  if constexpr (requires { result->size(); }) CHECK(!result || result->size() <= most);
}

void Read() {
  auto reader = RunReader::OpenForAgent(File().path(), Observer(), std::chrono::milliseconds(20));
  File().CheckError(reader.status());
  if (!reader) return;
  auto runs = reader->List({.limit = 3, .status = {}, .name = {}, .order = "metrics.loss"});
  Check(runs, 3);
  if (runs) {
    for (const RunRow& run : *runs) {
      Check(reader->Params(run.id));
      Check(reader->Tags(run.id));
      Check(reader->Artifacts(run.id));
      Check(reader->Processes(run.id));
      Check(reader->Children(run.id), 10'000);
      Check(reader->Metrics(run.id));
      Check(reader->Curve(run.id, "loss", 4), 4);
      static_cast<void>(run.duration_seconds(kNow));
    }
  }
  Check(reader->Find("train"));
  if (!MakeViews(*reader)) return;
  static ManualClock clock;
  size_t rows = 0;
  auto outcome = RunQuery(*reader, "SELECT * FROM runs, metrics, experiments", {.rows = 20}, clock,
                          [&rows](const sqlite::Statement&, bool first) { return first || ++rows > 0; });
  Check(outcome);
  if (outcome) CHECK(outcome->rows <= 20);
  auto written = RunQuery(*reader, "DELETE FROM run", {}, clock, [](const auto&, bool) { return true; });
  CHECK(written.status().code == Code::kInvalidArgument || written.status().code == Code::kTimeout ||
        written.status().code == Code::kDataLoss);
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  return File().Mutate(data, size, most, seed, &LLVMFuzzerMutate);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static_cast<void>(File().Write({reinterpret_cast<const char*>(data), size}));
  const std::string before = File().Bytes();
  Read();
  CHECK(File().Bytes() == before);
  File().CheckNames({});
  std::string id;
  const Status filled = Fill(File().path(), "mine", id);
  File().CheckError(filled);
  if (auto writer = RunWriter::Open(File().path(), std::chrono::milliseconds(40)); writer && !id.empty())
    Check((*writer)->Delete(id));
  File().CheckNames({});
  sqlite::HostileFile::CheckMemory();
  return 0;
}

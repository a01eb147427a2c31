// The file of inference records, made to harm: reading and summing it ends, within bounds, and
// changes nothing; a recorder stores into it, or fails with the reason. Its input:
// store/sqlite/hostile_file_testing.h. Fuzz inputs: 800
// Fuzz inputs: 200
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "store/sqlite/hostile_file_testing.h"
#include "store/telemetry/file_writer.h"
#include "store/telemetry/schema.h"
#include "store/telemetry/summary.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace {

using namespace gpulens;
using namespace gpulens::telemetry;

constexpr double kStart = 1'795'651'200;

std::vector<RecordRow> Rows(int count) {
  std::vector<RecordRow> rows(static_cast<size_t>(count));
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].numbers.timestamp = kStart + static_cast<double>(i * 40);
    rows[i].numbers.prompt_tokens = 100, rows[i].numbers.completion_tokens = 20;
    rows[i].numbers.latency_seconds = 0.5, rows[i].numbers.energy_joules = 12;
    rows[i].text(TextColumn::kModel) = i % 2 == 0 ? "llama" : "qwen";
    rows[i].text(TextColumn::kEngine) = "vllm";
    rows[i].text(TextColumn::kMetadata) = "{}";
  }
  return rows;
}

Status Fill(const std::string& path, uint64_t& stored) {
  auto writer = FileWriter::Open(
      {.path = path, .rollup = std::make_unique<RollupWriter>(), .longest = std::chrono::milliseconds(40)});
  if (!writer) return writer.status();
  const auto rows = Rows(8);
  auto counts = (*writer)->Write(rows, 0);
  if (!counts) return counts.status();
  stored = counts->stored;
  CHECK(counts->stored + counts->rejected == rows.size());
  for (int i = 0; i < 4; ++i) {
    auto more = (*writer)->Tidy();
    if (!more) return more.status();
    if (!*more) break;
  }
  return (*writer)->Close(0);
}

sqlite::HostileFile& File() {
  static sqlite::HostileFile file("telemetry.db", [](const std::string& path) {
    uint64_t stored = 0;
    return Fill(path, stored).ok() && stored == 8;
  });
  return file;
}

void Read() {
  auto database = OpenToRead(File().path(), std::chrono::milliseconds(20));
  File().CheckError(database.status());
  if (!database) return;
  for (GroupBy by : {GroupBy::kAll, GroupBy::kModel, GroupBy::kHour}) {
    Query query;
    query.by = by, query.limit = 5;
    auto groups = Summarize(*database, query);
    File().CheckError(groups.status());
    if (!groups) continue;
    CHECK(groups->size() <= 5);
    for (const InferenceSummary& group : *groups) CHECK(group.errors + group.cancelled <= group.calls);
  }
  Query query;
  query.limit = 50;
  size_t records = 0;
  File().CheckError(
      EachRecord(*database, query, [&records](const InferenceRecord&) { return ++records < 50; }));
  CHECK(records <= 50);
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
  uint64_t stored = 0;
  File().CheckError(Fill(File().path(), stored));
  File().CheckNames({});
  sqlite::HostileFile::CheckMemory();
  return 0;
}

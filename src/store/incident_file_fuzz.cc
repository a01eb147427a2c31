// The file of incidents, made to harm: reading it ends, within bounds, and changes nothing; the
// agent's writer stores into it, or fails with the reason. Its input: store/sqlite/hostile_file_testing.h.
// Fuzz inputs: 300
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "store/incident_store.h"
#include "store/sqlite/hostile_file_testing.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace {

using namespace gpulens;

Incident Xid(int64_t unix_ns) {
  Incident row;
  row.unix_ns = unix_ns;
  row.name = "gpu.xid";
  row.severity = EventSeverity::kError;
  row.gpu_index = 3;
  row.gpu_uuid = "GPU-8d3f";
  row.body = "fell off the bus";
  row.attributes = "{\"gpu.xid.code\":79}";
  row.readings = "{\"columns\":[],\"samples\":[]}";
  return row;
}

sqlite::HostileFile& File() {
  static sqlite::HostileFile file("incidents.db", [](const std::string& path) {
    auto store = IncidentStore::Open({.path = path});
    for (int64_t i = 0; store && i < 3; ++i) CHECK((*store)->Add(Xid(i * 1'000'000'000)).ok());
    return store.ok();
  });
  return file;
}

// What Find promises of any file.
void CheckFound(const Result<std::vector<Incident>>& found, const IncidentStore::Filter& filter) {
  File().CheckError(found.status());
  if (!found) return;
  CHECK(found->size() <= filter.limit);
  size_t bytes = 0;
  for (const Incident& row : *found) {
    CHECK(row.severity >= EventSeverity::kUnset && row.severity <= EventSeverity::kFatal);
    CHECK(filter.readings || row.readings.empty());
    bytes +=
        row.name.size() + row.gpu_uuid.size() + row.body.size() + row.attributes.size() + row.readings.size();
  }
  CHECK(bytes <= IncidentStore::kMostFoundBytes);
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  return File().Mutate(data, size, most, seed, &LLVMFuzzerMutate);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const bool whole = File().Write({reinterpret_cast<const char*>(data), size});
  const std::string before = File().Bytes();
  IncidentStore::Filter all, some;
  all.limit = 100, all.readings = true;
  some.gpu_index = 3, some.gpu_uuid = "GPU", some.name = "gpu.xid", some.limit = 2;
  {
    auto reader = IncidentStore::Open(
        {.path = File().path(), .read_only = true, .longest = std::chrono::milliseconds(20)});
    File().CheckError(reader.status());
    for (const auto& filter : {all, some})
      if (reader) CheckFound((*reader)->Find(filter), filter);
  }
  CHECK(File().Bytes() == before);
  File().CheckNames({});
  {
    auto store = IncidentStore::Open(
        {.path = File().path(), .max_bytes = 1 << 20, .longest = std::chrono::milliseconds(20)});
    File().CheckError(store.status());
    const Incident added = Xid(int64_t{1} << 60);
    const Status status = store ? (*store)->Add(added) : store.status();
    File().CheckError(status);
    // In a file that only statements have made, and whose newest this is, what was stored is found.
    auto found = status ? (*store)->Find(some) : Result<std::vector<Incident>>(status);
    CheckFound(found, some);
    if (whole && found && !found->empty() && found->back().unix_ns == added.unix_ns)
      CHECK(found->back().name == added.name);
  }
  File().CheckNames({".broken"});
  sqlite::HostileFile::CheckMemory();
  return 0;
}

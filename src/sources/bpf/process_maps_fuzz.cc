// Any bytes as /proc/PID/maps.
#include <cstddef>

#include "base/check.h"
#include "sources/bpf/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::bpf;
  std::vector<MappedFile> files;
  const gpulens::Status parsed = ParseMaps({reinterpret_cast<const char*>(data), size}, 16, files);
  CHECK(files.size() <= 16);
  for (const MappedFile& file : files) {
    CHECK(file.begin < file.end && file.inode != 0);
    CHECK(!file.path.empty() && file.path[0] == '/');
    (void)LibraryKindOf(file.path);
  }
  return parsed.ok() ? 0 : 0;
}

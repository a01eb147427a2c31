// Whatever comes: no crash, and numbers that can be true.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "sources/nccl_files/inspector_line.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto record =
      gpulens::nccl_files::ParseInspectorLine(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!record.ok()) return 0;
  CHECK(!record->operation.empty() && gpulens::IsUtf8(record->operation));
  CHECK(gpulens::IsUtf8(record->communicator_name) && gpulens::IsUtf8(record->host));
  CHECK(record->rank >= 0 && (record->ranks == 0 || record->rank < record->ranks));
  CHECK(record->bytes >= -1 && record->sequence >= -1);
  CHECK(std::isnan(record->duration_us) || record->duration_us >= 0);
  CHECK(std::isnan(record->bandwidth) || (record->bandwidth >= 0 && std::isfinite(record->bandwidth)));
  return 0;
}

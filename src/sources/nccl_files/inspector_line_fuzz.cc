// Whatever comes: no crash, and numbers that can be true.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "sources/nccl_files/inspector_line.h"

namespace {

void Validate(const gpulens::nccl_files::InspectorLine& line) {
  const gpulens::nccl_files::InspectorRecord& record = line.record;
  CHECK(gpulens::IsUtf8(record.operation) && gpulens::IsUtf8(record.communicator_name));
  CHECK(gpulens::IsUtf8(record.host));
  if (line.kind == gpulens::nccl_files::InspectorLine::Kind::kUnused) return;
  CHECK(line.kind == gpulens::nccl_files::InspectorLine::Kind::kMarker || !record.operation.empty());
  CHECK(record.rank >= 0 && (record.ranks == 0 || record.rank < record.ranks));
  CHECK(record.bytes >= -1 && record.sequence >= -1);
  CHECK(std::isnan(record.duration_us) || record.duration_us >= 0);
  CHECK(std::isnan(record.bandwidth) || (record.bandwidth > 0 && std::isfinite(record.bandwidth)));
}

}  // namespace

// A first line of the input that is a marker is that of the rest.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using gpulens::nccl_files::ParseInspectorLine;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find('\n');
  const auto first = ParseInspectorLine(text.substr(0, end));
  if (first.ok()) Validate(*first);
  if (!first.ok() || end == std::string_view::npos) return 0;
  const auto second = ParseInspectorLine(text.substr(end + 1), &first->record);
  if (second.ok()) Validate(*second);
  return 0;
}

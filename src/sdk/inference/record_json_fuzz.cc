// Any text is a valid record or gives an error, and a valid record reads back unchanged.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "sdk/inference/record_json.h"

namespace {

// Text of the known values, except those that only the column `measured` of a file distinguishes.
std::string Reported(const gpulens::sdk::JsonRecord& record) {
  return gpulens::telemetry::ToJson(record.row());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto record = gpulens::sdk::ReadRecordJson(text);
  if (!record) {
    CHECK(record.error().code == gpulens::Code::kInvalidArgument && !record.error().detail.empty());
    return 0;
  }
  gpulens::telemetry::RecordRow row = record->row();
  if (std::isnan(row.numbers.timestamp)) row.numbers.timestamp = 0;
  CHECK(gpulens::telemetry::WhyNot(row).empty());
  const std::string once = Reported(*record);
  if (once.size() > gpulens::sdk::kMostRecordBytes) return 0;
  const auto again = gpulens::sdk::ReadRecordJson(once);
  // Nothing is computed for an exported row. Its text is a record, for which values are computed and may be
  // out of range.
  if (!again) {
    CHECK(again.error().detail.find("cannot have") != std::string::npos);
    return 0;
  }
  const std::string twice = Reported(*again);
  if (twice.size() > gpulens::sdk::kMostRecordBytes) return 0;
  const auto third = gpulens::sdk::ReadRecordJson(twice);
  CHECK(third.ok() && Reported(*third) == twice);
  return 0;
}

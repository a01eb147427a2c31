// Whatever comes: a record that a store keeps, or a reason; and what is kept is read again as it was.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "sdk/inference/record_json.h"

namespace {

// The text of what is known, without what only `measured` of a file would tell.
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
  gpulens::telemetry::Row row = record->row();
  if (std::isnan(row.numbers.timestamp)) row.numbers.timestamp = 0;
  CHECK(gpulens::telemetry::WhyNot(row).empty());
  const std::string once = Reported(*record);
  if (once.size() > gpulens::sdk::kMostRecordBytes) return 0;
  const auto again = gpulens::sdk::ReadRecordJson(once);
  // Of an exported row nothing is computed; of what is told of it, it is, and may be more than a row can
  // have.
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

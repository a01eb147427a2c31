// Reads an inference call from a JSON object whose members have the names and units of the table `telemetry`,
// as programs in other languages and `gpulens telemetry export` write it.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "store/telemetry/rows.h"

namespace gpulens::sdk {

inline constexpr size_t kMostRecordBytes = 64 << 10;

struct JsonRecord {
  telemetry::RecordNumbers numbers;
  std::array<std::string, telemetry::kTexts> texts = {};

  // Returns a row with views of this object.
  telemetry::RecordRow row() const noexcept;
};

// Parses a record. Omitted and null members are unknown; a 0 is a 0. Derived values are computed. An object
// with `id` or `measured` is an exported row and is kept as it is: `measured` distinguishes a 0 from an
// unknown value. The last of repeated members counts.
//
// kInvalidArgument, with the member's name: not an object of at most kMostRecordBytes, an unknown member or
// one of another type, metadata that is not a JSON object, or an invalid row (telemetry::WhyNot).
Result<JsonRecord> ReadRecordJson(std::string_view json);

}  // namespace gpulens::sdk

// One inference call as a JSON object whose members are named and measured as the columns of the table
// `telemetry`: what a program without our C++ has at hand, and what `gpulens telemetry export` writes.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "store/telemetry/rows.h"

namespace gpulens::sdk {

inline constexpr size_t kMostRecordBytes = 64 << 10;

struct JsonRecord {
  telemetry::Numbers numbers;
  std::array<std::string, telemetry::kTexts> texts = {};

  // Views of this.
  telemetry::Row row() const noexcept;
};

// Omitted and null members are unknown; a 0 is a 0. Derived values are computed. An object with `id` or
// `measured` is an exported row and is kept as it is: `measured` distinguishes a 0 from an unknown value. Of
// a repeated member the last one counts.
//
// kInvalidArgument, with the member's name: not an object of at most kMostRecordBytes, an unknown member or
// one of another type, metadata that is no JSON object, or an invalid row (telemetry::WhyNot).
Result<JsonRecord> ReadRecordJson(std::string_view json);

}  // namespace gpulens::sdk

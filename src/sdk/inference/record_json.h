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

// What is left out or null is not known, and a 0 is a 0. What follows from the rest is computed. An object
// with `id` or `measured` is a row that was exported, and stays as it was: a 0 is told from none by
// `measured`, and without it is not known. Of a member that comes twice the last one counts.
//
// kInvalidArgument, with the member's name: no object of at most kMostRecordBytes, a member that is no column
// or of another type, metadata that is no JSON object, or what no row may have (telemetry::WhyNot).
Result<JsonRecord> ReadRecordJson(std::string_view json);

}  // namespace gpulens::sdk

// Pieces of JSON for all outputs, so that a reading looks the same on /json, on stdout and in a file. What is
// appended is valid JSON whatever the values are.
//
// Pure functions; safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/frame.h"

namespace gpulens {

// `"key":`, for keys that need no escapes.
void AppendJsonKey(std::string& out, std::string_view key);
void AppendJsonInt(std::string& out, int64_t value);
// The shortest text that reads back as the same double; whole numbers without a point. NaN and the
// infinities, which JSON does not have, become null.
void AppendJsonNumber(std::string& out, double value);
// `"key":1.5`, or `"special":"NaN"` for what JSON has no number for: a key other than "value" is part of
// the name, `"sum_special":"+Inf"`.
void AppendJsonMember(std::string& out, std::string_view key, double value);
// {"gpu.index":3,"gpu.model":"H100"}
void AppendJsonAttributes(std::string& out, const AttributeSet& attributes);
// `"key":value` of one attribute.
void AppendJsonAttribute(std::string& out, const AttributeSet::Attribute& attribute);
// Milliseconds as seconds: 0.011
void AppendJsonSeconds(std::string& out, int64_t milliseconds);
// A moment in UTC with milliseconds and without quotes: 2026-11-21T02:14:09.120Z
void AppendRfc3339(std::string& out, int64_t unix_ns);

// The number of a series that is not absent, as members of an object:
//   one cell    "value":612.3
//   histogram   "buckets":[{"le":0.1,"count":3},{"le":"+Inf","count":4}],"sum":0.3,"count":4
//   summary     "quantiles":[{"quantile":0.5,"value":0.2}],"sum":0.3,"count":4
void AppendJsonReading(std::string& out, const Frame& frame, uint32_t slot);
// The same in another unit, perhaps as a whole number. Histograms are never scaled.
void AppendJsonReading(std::string& out, const Frame& frame, uint32_t slot, double scale, bool whole);
// Returns the age of the value of a slot at `now` in milliseconds; never negative.
int64_t AgeMsAt(const Frame& frame, uint32_t slot, Instant now) noexcept;

}  // namespace gpulens

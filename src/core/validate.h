// Validation of readings by the rules of the catalogue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/metric_desc.h"

namespace gpulens {

enum class Validation : uint8_t {
  kAccepted,
  kSentinel,          // the source's value for "unknown"
  kOutOfRange,        // outside of the possible range
  kImpossibleJump,    // further from the last value than possible
  kCounterDecreased,  // a counter fell that cannot fall
  kStuck,             // does not change although its cross-check requires it
  kInconsistent,      // contradicts a second reading of the same quantity
  kNotSupported,      // the source does not support it
};
inline constexpr size_t kValidations = 8;
// "none" for kAccepted, else the value in gpulens_samples_total{reason}.
std::string_view ValidationName(Validation result) noexcept;

// State of the validation of one series. A plain value.
struct ValidatorState {
  double last = 0;       // the last accepted value
  int64_t last_ns = 0;   // its time; 0: none yet
  double candidate = 0;  // the last rejected value
  uint8_t agreeing = 0;  // consecutive readings that agree with it
};

// Whether `raw`, the number as the source gave it, is a sentinel: one of the metric's own, or a pattern of
// base/raw_sentinel.h in the width of such a reading (64 bits for bytes, joules and counted time, else 32 and
// 64). FrameWriter::SetRaw applies it; call it for readings from which values are derived.
bool IsSentinel(const MetricDesc& metric, int64_t raw) noexcept;
// For numbers that were text, or are floating-point.
bool IsSentinel(const MetricDesc& metric, double raw) noexcept;

// Whether validation needs a ValidatorState.
bool NeedsMemory(const MetricDesc& desc) noexcept;

// Validates a value read at `now_ns` (boot time). Accepts a jump or fall on which three consecutive readings
// agree (within 5 %; after a fall of a counter: not falling again), but never sentinels and impossible
// values. `memory` may be null when NeedsMemory is false.
Validation Validate(const MetricDesc& desc, double value, int64_t now_ns, ValidatorState* memory) noexcept;

}  // namespace gpulens

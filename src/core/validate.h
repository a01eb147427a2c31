// Whether a reading can be believed: the rules of the catalogue, applied to one value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/metric_desc.h"

namespace gpulens {

enum class Validation : uint8_t {
  kAccepted,
  kSentinel,          // the source's way to say "unknown"
  kOutOfRange,        // outside what the thing can be
  kImpossibleJump,    // further from the last value than it can have moved
  kCounterDecreased,  // a counter fell that cannot fall
  kStuck,             // does not move although its twin says it must
  kInconsistent,      // a second reading of the same thing says otherwise
  kNotSupported,      // the source cannot say
};
inline constexpr size_t kVerdicts = 8;
// "none" for kAccepted, else as it stands in gpulens_samples_total{reason}.
std::string_view ValidationName(Validation verdict) noexcept;

// What judging one series remembers. A plain value.
struct ValidatorState {
  double last = 0;       // the last accepted value
  int64_t last_ns = 0;   // and when it was read; 0: none yet
  double candidate = 0;  // the level that was rejected last
  uint8_t agreeing = 0;  // how many readings in a row agreed on it
};

// True when judging needs to remember the last value.
bool NeedsMemory(const MetricDesc& desc) noexcept;

// Judges `value` of a family, read at `now_ns` (boot time). A jump or fall that three readings in a
// row agree on (within 5 %; after a fall of a counter: not falling again) is accepted; sentinels and
// impossible values never are. `memory` may be null when NeedsMemory is false.
Validation Validate(const MetricDesc& desc, double value, int64_t now_ns, ValidatorState* memory) noexcept;

}  // namespace gpulens

#include "core/validate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/raw_sentinel.h"

namespace gpulens {
namespace {

constexpr int kAgreeingReadings = 3;

bool Agree(double a, double b) noexcept {
  return std::abs(a - b) <= 0.05 * std::max(std::abs(a), std::abs(b)) + 1e-9;
}

// Counts a reading that agrees with the rejected value; true when that was often enough. A restarted counter
// grows fast in proportion, so any reading that does not fall agrees.
bool AgreedOften(double value, bool restarted, ValidatorState& memory) noexcept {
  bool agrees = restarted ? value >= memory.candidate : Agree(value, memory.candidate);
  memory.agreeing = memory.agreeing > 0 && agrees ? static_cast<uint8_t>(memory.agreeing + 1) : uint8_t{1};
  memory.candidate = value;
  return memory.agreeing >= kAgreeingReadings;
}

Validation AgainstLast(const MetricDesc& desc, double value, double seconds,
                       const ValidatorState& memory) noexcept {
  double change = value - memory.last;
  bool monotonic = IsMonotonic(desc.kind);
  if (monotonic && change < 0) {
    return desc.on_decrease == OnDecrease::kReject ? Validation::kCounterDecreased : Validation::kAccepted;
  }
  // A gauge may change by so much at once: an H100 heats by 14 degrees within 0.2 s, and cools as fast.
  const double least_seconds = monotonic ? 1e-3 : 1;
  if (desc.rule && std::abs(change) > desc.rule->max_change_per_second * std::max(seconds, least_seconds)) {
    return Validation::kImpossibleJump;
  }
  return Validation::kAccepted;
}

bool IsListed(const MetricDesc& metric, double raw) noexcept {
  const Rule* rule = metric.rule;
  return rule && std::ranges::find(rule->sentinels, raw) != rule->sentinels.end();
}

bool IsWide(const MetricDesc& metric) noexcept {
  return metric.unit == "By" || metric.unit == "J" || (metric.unit == "s" && IsMonotonic(metric.kind));
}

}  // namespace

bool IsSentinel(const MetricDesc& metric, int64_t raw) noexcept {
  if (IsListed(metric, static_cast<double>(raw))) return true;
  const bool is_signed = metric.unit == "Cel";
  const auto bits = static_cast<uint64_t>(raw);
  if (IsSentinel(bits, 64, is_signed)) return true;
  const bool narrow =
      raw >= std::numeric_limits<int32_t>::min() && raw <= std::numeric_limits<uint32_t>::max();
  return narrow && !IsWide(metric) && IsSentinel(bits, 32, is_signed && raw < 0);
}

bool IsSentinel(const MetricDesc& metric, double raw) noexcept {
  constexpr double kAllBits32 = 4294967295.0, kInt32Blank = 2147483632.0, kInt32Max = 2147483647.0;
  if (IsListed(metric, raw) || IsSentinel(raw)) return true;
  const bool narrow = raw == kAllBits32 || (raw >= kInt32Blank && raw <= kInt32Max);
  return narrow && !IsWide(metric);
}

std::string_view ValidationName(Validation result) noexcept {
  switch (result) {
    case Validation::kAccepted: return "none";
    case Validation::kSentinel: return "sentinel";
    case Validation::kOutOfRange: return "out_of_range";
    case Validation::kImpossibleJump: return "impossible_jump";
    case Validation::kCounterDecreased: return "counter_decreased";
    case Validation::kStuck: return "stuck";
    case Validation::kInconsistent: return "inconsistent";
    case Validation::kNotSupported: return "not_supported";
  }
  return "unknown";
}

bool NeedsMemory(const MetricDesc& desc) noexcept {
  bool rejects_falls = IsMonotonic(desc.kind) && desc.on_decrease == OnDecrease::kReject;
  return rejects_falls || (desc.rule && desc.rule->max_change_per_second != Rule::kNone);
}

Validation Validate(const MetricDesc& desc, double value, int64_t now_ns, ValidatorState* memory) noexcept {
  if (const Rule* rule = desc.rule) {
    if (IsListed(desc, value)) return Validation::kSentinel;
    // Also false for NaN.
    if (!(value >= rule->low && value <= rule->high)) return Validation::kOutOfRange;
  }
  if (!memory) return Validation::kAccepted;
  if (memory->last_ns != 0) {
    double seconds = static_cast<double>(now_ns - memory->last_ns) * 1e-9;
    Validation result = AgainstLast(desc, value, seconds, *memory);
    bool restarted = result == Validation::kCounterDecreased;
    if (result != Validation::kAccepted && !AgreedOften(value, restarted, *memory)) return result;
  }
  *memory = {value, now_ns, 0, 0};
  return Validation::kAccepted;
}

}  // namespace gpulens

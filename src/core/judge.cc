#include "core/judge.h"

#include <algorithm>
#include <cmath>

namespace gpulens {
namespace {

constexpr int kAgreeingReadings = 3;

bool Agree(double a, double b) noexcept {
  return std::abs(a - b) <= 0.05 * std::max(std::abs(a), std::abs(b)) + 1e-9;
}

// The level `value` was seen once more; true when that was often enough. A counter that began anew
// grows fast beside the little it has, so there any reading that does not fall agrees.
bool AgreedOften(double value, bool counts_anew, JudgeMemory& memory) noexcept {
  bool agrees = counts_anew ? value >= memory.candidate : Agree(value, memory.candidate);
  memory.agreeing = memory.agreeing > 0 && agrees ? static_cast<uint8_t>(memory.agreeing + 1) : uint8_t{1};
  memory.candidate = value;
  return memory.agreeing >= kAgreeingReadings;
}

Verdict AgainstLast(const MetricDesc& desc, double value, double seconds,
                    const JudgeMemory& memory) noexcept {
  double change = value - memory.last;
  bool monotonic = IsMonotonic(desc.kind);
  if (monotonic && change < 0) {
    return desc.on_decrease == OnDecrease::kReject ? Verdict::kCounterDecreased : Verdict::kAccepted;
  }
  if (desc.rule && std::abs(change) > desc.rule->max_change_per_second * std::max(seconds, 1e-3)) {
    return Verdict::kImpossibleJump;
  }
  return Verdict::kAccepted;
}

}  // namespace

std::string_view VerdictName(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::kAccepted: return "none";
    case Verdict::kSentinel: return "sentinel";
    case Verdict::kOutOfRange: return "out_of_range";
    case Verdict::kImpossibleJump: return "impossible_jump";
    case Verdict::kCounterDecreased: return "counter_decreased";
    case Verdict::kStuck: return "stuck";
    case Verdict::kDisagreesWithTwin: return "inconsistent";
    case Verdict::kNotSupported: return "not_supported";
  }
  return "unknown";
}

bool NeedsMemory(const MetricDesc& desc) noexcept {
  bool rejects_falls = IsMonotonic(desc.kind) && desc.on_decrease == OnDecrease::kReject;
  return rejects_falls || (desc.rule && desc.rule->max_change_per_second != Rule::kNone);
}

Verdict Judge(const MetricDesc& desc, double value, int64_t now_ns, JudgeMemory* memory) noexcept {
  if (const Rule* rule = desc.rule) {
    for (double sentinel : rule->sentinels) {
      if (value == sentinel) return Verdict::kSentinel;
    }
    // Written so that NaN is out of range, too.
    if (!(value >= rule->low && value <= rule->high)) return Verdict::kOutOfRange;
  }
  if (!memory) return Verdict::kAccepted;
  if (memory->last_ns != 0) {
    double seconds = static_cast<double>(now_ns - memory->last_ns) * 1e-9;
    Verdict verdict = AgainstLast(desc, value, seconds, *memory);
    bool counts_anew = verdict == Verdict::kCounterDecreased;
    if (verdict != Verdict::kAccepted && !AgreedOften(value, counts_anew, *memory)) return verdict;
  }
  *memory = {value, now_ns, 0, 0};
  return Verdict::kAccepted;
}

}  // namespace gpulens

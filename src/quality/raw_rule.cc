#include "quality/raw_rule.h"

#include <algorithm>
#include <limits>

#include "base/raw_sentinel.h"

namespace gpulens {
namespace {

bool InRow(const MetricDesc& metric, double raw) noexcept {
  const Rule* rule = metric.rule;
  return rule && std::find(rule->sentinels.begin(), rule->sentinels.end(), raw) != rule->sentinels.end();
}

bool IsWide(const MetricDesc& metric) noexcept {
  return metric.unit == "By" || metric.unit == "J" || (metric.unit == "s" && IsMonotonic(metric.kind));
}

}  // namespace

bool SaysNothing(const MetricDesc& metric, int64_t raw) noexcept {
  if (InRow(metric, static_cast<double>(raw))) return true;
  bool is_signed = metric.unit == "Cel";
  auto bits = static_cast<uint64_t>(raw);
  if (IsSentinel(bits, 64, is_signed)) return true;
  bool narrow = raw >= std::numeric_limits<int32_t>::min() && raw <= std::numeric_limits<uint32_t>::max();
  return narrow && !IsWide(metric) && IsSentinel(bits, 32, is_signed && raw < 0);
}

bool SaysNothing(const MetricDesc& metric, double raw) noexcept {
  constexpr double kAllBits32 = 4294967295.0, kInt32Blank = 2147483632.0, kInt32Max = 2147483647.0;
  if (InRow(metric, raw) || IsSentinel(raw)) return true;
  bool narrow = raw == kAllBits32 || (raw >= kInt32Blank && raw <= kInt32Max);
  return narrow && !IsWide(metric);
}

}  // namespace gpulens

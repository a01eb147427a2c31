#include "core/exponential_form.h"

#include <algorithm>
#include <numeric>

#include "core/histogram.h"

namespace gpulens {
namespace {

// The k-th observation that is left over goes to bucket k * stride mod size: spread, and always the same
// order.
uint32_t StrideOf(uint32_t size) noexcept {
  uint32_t stride = std::max(1u, size * 5 / 8);
  while (std::gcd(stride, size) != 1) ++stride;
  return stride;
}

}  // namespace

std::optional<ExponentialForm> MakeExponentialForm(std::span<const double> bounds) {
  if (bounds.empty() || bounds.front() < 0 || bounds.back() <= 0) return std::nullopt;
  const size_t first = bounds.front() > 0 ? 0 : 1;
  ExponentialForm form;
  form.zero_threshold = bounds[first];
  for (form.scale = Exponential::kScaleMax;; --form.scale) {
    // Buckets hold what is above their lower edge up to their upper one: the one of a bound is told below it.
    form.offset = ExponentialIndex(bounds[first], form.scale) + 1;
    const int64_t above = int64_t{ExponentialIndex(bounds.back(), form.scale)} + 1;
    form.buckets = static_cast<uint32_t>(std::min<int64_t>(above - form.offset + 1, UINT32_MAX));
    if (form.buckets <= Exponential::kBucketsMax || form.scale == Exponential::kScaleMin) break;
  }
  form.ends.assign(first + 1, 0);
  for (double bound : bounds.subspan(first + 1))
    form.ends.push_back(static_cast<uint32_t>(ExponentialIndex(bound, form.scale) + 1 - form.offset));
  form.ends.push_back(form.buckets);
  return form;
}

uint64_t SpreadCounts(const ExponentialForm& form, std::span<const uint64_t> counts,
                      std::span<uint64_t> out) {
  std::fill(out.begin(), out.end(), 0);
  uint64_t zero = 0;
  uint32_t begin = 0;
  for (size_t i = 0; i < form.ends.size() && i < counts.size(); ++i) {
    const uint32_t size = form.ends[i] - begin;
    if (form.ends[i] == 0) {
      zero += counts[i];
    } else if (size == 0) {
      out[begin - 1] += counts[i];
    } else {
      const uint64_t each = counts[i] / size, left = counts[i] % size;
      const uint32_t stride = StrideOf(size);
      for (uint32_t k = 0; k < size; ++k) out[begin + (size / 2 + k * stride) % size] += each + (k < left);
    }
    begin = form.ends[i];
  }
  return zero;
}

}  // namespace gpulens

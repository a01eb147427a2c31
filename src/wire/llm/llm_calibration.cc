#include "wire/llm/llm_calibration.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace gpulens {

// Steps of a quarter of an octave, by the two bits below the highest one.
size_t TokenCalibration::StepOf(int64_t tokens) noexcept {
  const auto value = static_cast<uint64_t>(std::max<int64_t>(tokens, 1));
  const auto octave = static_cast<size_t>(std::bit_width(value)) - 1;
  const size_t quarter = octave >= 2 ? (value >> (octave - 2)) & 3 : (value << (2 - octave)) & 3;
  return std::min(4 * octave + quarter, kSteps - 1);
}

// The largest number of a step.
int64_t TokenCalibration::EndOf(size_t step) noexcept {
  const size_t octave = step / 4;
  const auto begin = [&](size_t quarter) { return (int64_t{4} + static_cast<int64_t>(quarter)) << octave; };
  return std::max<int64_t>((begin(step % 4 + 1) + 3) / 4 - 1, 1);
}

const TokenCalibration::Sums* TokenCalibration::Find(std::string_view key) const {
  const auto at = sums_.find(key);
  return at == sums_.end() ? nullptr : &at->second;
}

void TokenCalibration::Learn(std::string_view key, int64_t bytes, int64_t tokens) {
  if (bytes <= 0 || tokens <= 0 || bytes > kMaxOf || tokens > kMaxOf) return;
  auto at = sums_.find(key);
  if (at == sums_.end()) {
    if (sums_.size() >= max_keys_) return;
    at = sums_.emplace(key, Sums()).first;
  }
  Sums& sums = at->second;
  const auto b = static_cast<double>(bytes), t = static_cast<double>(tokens);
  ++sums.answers;
  sums.bytes += b;
  sums.tokens += t;
  sums.bytes2 += b * b;
  sums.tokens2 += t * t;
  sums.both += b * t;
  ++sums.of_size[StepOf(tokens)];
}

TokenEstimate TokenCalibration::Tokens(std::string_view key, int64_t bytes) const {
  TokenEstimate estimate;
  if (bytes <= 0) return estimate;
  const Sums* sums = Find(key);
  if (!sums || sums->answers < kEnough) {
    estimate.tokens = (bytes - 1) / kBytesPerToken + 1;
    return estimate;
  }
  const double ratio = sums->tokens / sums->bytes;
  const double tokens = std::min(std::ceil(static_cast<double>(bytes) * ratio - 1e-9), 9e15);
  estimate.learnt = true;
  estimate.tokens = std::max<int64_t>(static_cast<int64_t>(tokens), 1);
  // The variance of the estimator of a ratio of sums: residuals of tokens from the ratio.
  const auto n = static_cast<double>(sums->answers);
  const double residuals =
      std::max(sums->tokens2 - 2 * ratio * sums->both + ratio * ratio * sums->bytes2, 0.0) / (n - 1);
  const double error = std::sqrt(residuals / n) / (sums->bytes / n);
  estimate.half_width = 1.96 * error / ratio;
  return estimate;
}

std::optional<int64_t> TokenCalibration::OutputP95(std::string_view key) const {
  const Sums* sums = Find(key);
  if (!sums || sums->answers < kEnough) return std::nullopt;
  // Rank of the 95th of 100, rounded up.
  int64_t left = (sums->answers * 95 + 99) / 100;
  for (size_t step = 0; step < kSteps; ++step) {
    left -= sums->of_size[step];
    if (left <= 0) return EndOf(step);
  }
  return EndOf(kSteps - 1);
}

int64_t TokenCalibration::answers(std::string_view key) const {
  const Sums* sums = Find(key);
  return sums ? sums->answers : 0;
}

}  // namespace gpulens

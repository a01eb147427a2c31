#include <algorithm>
#include <cmath>
#include <numbers>

#include "sources/nvml/simulated/fake_profile.h"

namespace gpulens::nvml {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

double StepsLength(const FakeLoad& load) noexcept {
  double length = 0;
  for (const FakeLoad::Step& step : load.steps) length += step.seconds;
  return length;
}

double StepsIntegral(const FakeLoad& load, double until) noexcept {
  double sum = 0;
  for (const FakeLoad::Step& step : load.steps) {
    double part = std::min(step.seconds, until);
    sum += part * step.level;
    until -= part;
  }
  return sum;
}

}  // namespace

double FakeLoad::At(double seconds) const noexcept {
  switch (kind) {
    case Kind::kConstant: return level;
    case Kind::kSine: return level + amplitude * std::sin(kTurn * (seconds / period + phase));
    case Kind::kSteps: break;
  }
  double left = std::fmod(seconds + phase * StepsLength(*this), StepsLength(*this));
  for (const Step& step : steps) {
    if (left < step.seconds) return step.level;
    left -= step.seconds;
  }
  return steps.back().level;
}

double FakeLoad::Integral(double seconds) const noexcept {
  switch (kind) {
    case Kind::kConstant: return level * seconds;
    case Kind::kSine: {
      double swing = std::cos(kTurn * phase) - std::cos(kTurn * (seconds / period + phase));
      return level * seconds + amplitude * period / kTurn * swing;
    }
    case Kind::kSteps: break;
  }
  double length = StepsLength(*this), offset = phase * length;
  auto from_zero = [&](double t) {
    return std::floor(t / length) * StepsIntegral(*this, length) + StepsIntegral(*this, std::fmod(t, length));
  };
  return from_zero(seconds + offset) - from_zero(offset);
}

double FakeLoad::Mean(double seconds, double window) const noexcept {
  double from = std::max(0.0, seconds - window);
  if (seconds - from < 1e-3) return At(seconds);
  return (Integral(seconds) - Integral(from)) / (seconds - from);
}

}  // namespace gpulens::nvml

#include "ledger/timeline.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ledger/apportion.h"

namespace gpulens::ledger {
namespace {

// No GPU draws 100 kW: a counter that grows faster did not count. Counters advance in steps, so that a short
// stretch may seem to draw much: at least a second is assumed.
constexpr int64_t kMostMicrowatts = 100'000'000'000;
constexpr int64_t kSecond = 1'000'000'000;

}  // namespace

int PpmOf(std::optional<double> share) noexcept {
  if (!share || !std::isfinite(*share) || *share < 0) return kUnknownPpm;
  return static_cast<int>(std::llround(std::min(*share, 1.0) * static_cast<double>(kPpm)));
}

bool GpuTimeline::Metered(size_t i) const noexcept {
  const KeptReading& a = readings[i - 1];
  const KeptReading& b = readings[i];
  if (a.energy < 0 || b.energy < a.energy || a.source != b.source) return false;
  const __int128 most =
      static_cast<__int128>(kMostMicrowatts) * std::max(kSecond, b.at - a.read_at) / kSecond;
  return b.energy - a.energy <= most;
}

int64_t GpuTimeline::EnergyAt(size_t i, int64_t t) const noexcept {
  const KeptReading& a = readings[i - 1];
  const KeptReading& b = readings[i];
  return a.line_energy + MulDiv(b.energy - a.line_energy, t - a.line_at, b.at - a.line_at);
}

bool GpuTimeline::Unobserved(size_t i, int64_t longest_gap) const noexcept {
  return readings[i - 1].from_state || readings[i].at - readings[i - 1].read_at > longest_gap;
}

size_t GpuTimeline::After(int64_t t) const noexcept {
  const auto at =
      std::upper_bound(readings.begin(), readings.end(), t,
                       [](int64_t value, const KeptReading& reading) { return value < reading.at; });
  return static_cast<size_t>(at - readings.begin());
}

int64_t GpuTimeline::EnergyBetween(int64_t from, int64_t to) const noexcept {
  int64_t sum = 0;
  for (size_t i = std::max<size_t>(1, After(from)); i < readings.size() && readings[i - 1].at < to; ++i) {
    if (!Metered(i)) continue;
    sum += EnergyAt(i, std::min(to, readings[i].at)) - EnergyAt(i, std::max(from, readings[i - 1].at));
  }
  return sum;
}

int64_t GpuTimeline::MsBetween(int64_t from, int64_t to) const noexcept {
  if (readings.empty()) return 0;
  from = std::max(from, begin()), to = std::min(to, end());
  return from < to ? MsAt(to) - MsAt(from) : 0;
}

void GpuTimeline::Insert(size_t place, KeptReading reading) {
  reading.line_at = reading.at, reading.line_energy = reading.energy;
  if (place > 0) {
    // From now on the line from the end of the past leads to this reading, and begins where the past ended.
    KeptReading& before = readings[place - 1];
    before.line_at = before.at, before.line_energy = before.energy;
  }
  readings.insert(readings.begin() + static_cast<std::ptrdiff_t>(place), std::move(reading));
}

void GpuTimeline::DropBefore(int64_t t) {
  const size_t next = After(t);
  if (next == 0) return;
  KeptReading& last = readings[next - 1];
  if (next < readings.size()) {
    last.energy = Metered(next) ? EnergyAt(next, t) : -1;
    last.at = t;
  }
  readings.erase(readings.begin(), readings.begin() + static_cast<std::ptrdiff_t>(next - 1));
  final_to = std::max(final_to, readings.front().at);
}

}  // namespace gpulens::ledger

#include "energy/energy_curve.h"

#include <algorithm>
#include <utility>

namespace gpulens::energy {
namespace {

// Maximum distance of readings for a sighting, the number of sightings needed, and the margin beyond the
// latest update seen.
constexpr int64_t kClosestNs = 6'000'000;
constexpr uint32_t kEnough = 5;
constexpr int64_t kMarginParts = 4;

// Assumed age of the first value of a counter with unknown steps: half of the slowest known interval.
constexpr int64_t kOldestFirstValueNs = 200'000'000;
// Number of steps from which the scale between counter and power is computed.
constexpr size_t kScaleKnots = 16;

}  // namespace

void CounterStep::Observe(int64_t early_ns, int64_t late_ns) noexcept {
  const bool close = late_ns - early_ns <= kClosestNs && seen_ && late_ns_ - early_ns_ <= kClosestNs;
  if (close) {
    longest_ns_ = std::max(longest_ns_, late_ns - early_ns_);
    ++sightings_;
  }
  early_ns_ = early_ns;
  late_ns_ = late_ns;
  seen_ = true;
}

void CounterStep::SawNone(int64_t at_ns) noexcept {
  const auto lag = lag_ns();
  if (!lag || at_ns - late_ns_ <= *lag) return;
  sightings_ = 0;
  longest_ns_ = 0;
}

std::optional<int64_t> CounterStep::lag_ns() const noexcept {
  if (sightings_ < kEnough) return std::nullopt;
  return longest_ns_ + longest_ns_ / kMarginParts;
}

template <class T>
void EnergyCurve::Ring<T>::Push(const T& item) {
  if (count == items.size()) begin = (begin + 1) % items.size();
  else ++count;
  items[(begin + count - 1) % items.size()] = item;
}

template <class T>
void EnergyCurve::Ring<T>::Grow(size_t size) {
  if (size <= items.size()) return;
  std::rotate(items.begin(), items.begin() + static_cast<ptrdiff_t>(begin), items.end());
  begin = 0;
  items.resize(size);
}

template <class T>
size_t EnergyCurve::Ring<T>::After(int64_t at_ns) const noexcept {
  size_t low = 0, high = count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if ((*this)[middle].at_ns <= at_ns) low = middle + 1;
    else high = middle;
  }
  return low;
}

EnergyCurve::EnergyCurve(const Options& options) : options_(options) {
  ticks_.items.resize(std::max<size_t>(options.readings, 2));
  knots_.items.resize(ticks_.items.size());
}

void EnergyCurve::Keep(size_t readings) {
  ticks_.Grow(readings);
  knots_.Grow(readings);
}

std::optional<int64_t> EnergyCurve::first_ns() const noexcept {
  if (knots_.count == 0) return std::nullopt;
  return ticks_.count > 0 ? std::min(ticks_[0].at_ns, knots_[0].at_ns) : knots_[0].at_ns;
}

double EnergyCurve::first_watts() const noexcept { return ticks_.count > 0 ? ticks_[0].watts : kNotMeasured; }

std::optional<int64_t> EnergyCurve::last_ns() const noexcept {
  if (knots_.count == 0 && ticks_.count == 0) return std::nullopt;
  return last_ns_;
}

std::optional<int64_t> EnergyCurve::settled_ns() const noexcept {
  if (knots_.count == 0) return std::nullopt;
  return knots_.back().at_ns;
}

void EnergyCurve::Add(const SensorReading& reading) {
  if (reading.at_ns <= last_ns_) return;
  const bool power = IsKnown(reading.power_watts) && reading.power_watts >= 0;
  const bool counter = IsKnown(reading.counter_joules) && reading.counter_joules >= 0;
  if (!power && !counter) {
    silent_ = true;
    return;
  }
  last_ns_ = reading.at_ns;
  if (power) AddPower(reading);
  if (counter) AddCounter(reading);
  else if (!counted_) AddIntegral(reading);
}

void EnergyCurve::AddPower(const SensorReading& reading) {
  Tick tick{.at_ns = reading.at_ns, .watts = reading.power_watts, .joules = 0};
  if (ticks_.count > 0) {
    const Tick& before = ticks_.back();
    tick.joules = before.joules + (before.watts + tick.watts) / 2 * Seconds(tick.at_ns - before.at_ns);
  }
  ticks_.Push(tick);
}

void EnergyCurve::AddIntegral(const SensorReading& reading) {
  Knot knot{.at_ns = reading.at_ns, .early_ns = reading.at_ns, .late_ns = reading.at_ns};
  if (knots_.count == 0) return AddKnot(knot, 0, EnergyFlaw::kNone);
  // A tick is added with each such knot, so the last but one is that of the knot before.
  const Tick &now = ticks_.back(), &before = ticks_[ticks_.count - 2];
  const int64_t apart = now.at_ns - before.at_ns;
  knot.integral_half_width = std::abs(now.watts - before.watts) / 2 * Seconds(apart);
  AddKnot(knot, now.joules - before.joules,
          apart > options_.longest_gap_ns ? EnergyFlaw::kGap : EnergyFlaw::kNone);
}

void EnergyCurve::AddCounter(const SensorReading& reading) {
  const int64_t queried_ns = reading.at_ns - std::max<int64_t>(reading.took_ns, 0);
  const double before = std::exchange(last_counter_, reading.counter_joules);
  const int64_t before_read_ns = std::exchange(counter_read_ns_, reading.at_ns);
  const int64_t before_queried_ns = std::exchange(counter_queried_ns_, queried_ns);
  Knot knot{.at_ns = reading.at_ns, .early_ns = queried_ns, .late_ns = reading.at_ns};
  if (!counted_) {
    counted_ = true;
    if (options_.counter_lag_ns > 0) knot.early_ns -= std::min(options_.counter_lag_ns, kOldestFirstValueNs);
    // Energy integrated before the first counter value stays an integral.
    if (knots_.count > 0) return AddIntegral(reading);
    return AddKnot(knot, 0, EnergyFlaw::kNone);
  }
  if (options_.counter_lag_ns > 0) {
    if (reading.counter_joules == before) {
      step_.SawNone(queried_ns);
      return;
    }
    // Learning only tightens the bound; unknown is the largest.
    const int64_t lag_ns = std::min(options_.counter_lag_ns, step_.lag_ns().value_or(kLagUnknown));
    step_.Observe(before_queried_ns, reading.at_ns);
    knot.early_ns = before_queried_ns;
    if (lag_ns != kLagUnknown) knot.early_ns = std::max(knot.early_ns, queried_ns - lag_ns);
    knot.at_ns = std::max(knot.early_ns + (knot.late_ns - knot.early_ns) / 2, knots_.back().at_ns + 1);
  }
  EnergyFlaw flaw =
      reading.at_ns - before_read_ns > options_.longest_gap_ns ? EnergyFlaw::kGap : EnergyFlaw::kNone;
  if (reading.counter_joules < before) flaw = EnergyFlaw::kCounterReset;
  AddKnot(knot, reading.counter_joules - before, flaw);
}

void EnergyCurve::AddKnot(const Knot& knot, double piece_joules, EnergyFlaw flaw) {
  Knot next = knot;
  next.flaw = flaw;
  if (knots_.count > 0) {
    const Knot& before = knots_.back();
    next.joules = before.joules + (flaw == EnergyFlaw::kNone ? piece_joules : 0);
    next.integral_half_width += before.integral_half_width;
    next.flaws = before.flaws + (flaw == EnergyFlaw::kNone ? 0 : 1);
    next.latest = flaw == EnergyFlaw::kNone ? before.latest : flaw;
  }
  knots_.Push(next);
}

// Integral of the powers, linear from one to the next; constant after the last.
double EnergyCurve::PowerIntegral(int64_t at_ns) const noexcept {
  const size_t next = ticks_.After(at_ns);
  if (next == 0) return kNotMeasured;
  const Tick& before = ticks_[next - 1];
  const double seconds = Seconds(at_ns - before.at_ns);
  if (next == ticks_.count) return before.joules + before.watts * seconds;
  const Tick& after = ticks_[next];
  const double slope = (after.watts - before.watts) / Seconds(after.at_ns - before.at_ns);
  return before.joules + before.watts * seconds + slope * seconds * seconds / 2;
}

// Energy since `from` in the shape of the power, scaled to the counter's total of the piece.
double EnergyCurve::Drawn(const Knot& from, const Knot& to, int64_t at_ns) const noexcept {
  if (at_ns == from.at_ns) return 0;
  double share = Seconds(at_ns - from.at_ns) / Seconds(to.at_ns - from.at_ns);
  const double begin = PowerIntegral(from.at_ns), end = PowerIntegral(to.at_ns);
  if (IsKnown(begin) && end > begin) share = (PowerIntegral(at_ns) - begin) / (end - begin);
  return (to.joules - from.joules) * share;
}

// Joules of the counter per joule of the power: the two sensors differ by some percent.
double EnergyCurve::Scale() const noexcept {
  if (!counted_ || knots_.count < 2) return 1;
  const Knot& last = knots_.back();
  const Knot& first = knots_[knots_.count - 1 - std::min(kScaleKnots, knots_.count - 1)];
  const double power = PowerIntegral(last.at_ns) - PowerIntegral(first.at_ns);
  const double scale = (last.joules - first.joules) / power;
  const bool good = first.flaws == last.flaws && IsKnown(scale) && scale > 0.5 && scale < 2;
  return good ? scale : 1;
}

double EnergyCurve::DrawnSince(const Knot& last, int64_t at_ns) const noexcept {
  const double power = PowerIntegral(at_ns) - PowerIntegral(last.at_ns);
  if (IsKnown(power)) return std::max(0.0, power) * Scale();
  if (knots_.count < 2 || last.flaw != EnergyFlaw::kNone) return kNotMeasured;
  const Knot& before = knots_[knots_.count - 2];
  return (last.joules - before.joules) / Seconds(last.at_ns - before.at_ns) * Seconds(at_ns - last.at_ns);
}

// Bounds from the counter's values: one from before an instant is not more than the energy until then, and
// the device's maximum power bounds what is missing; the other way round for a later one. `near` is the knot
// before or at the instant, or the first. Knots beyond its neighbours matter only where their stretch
// overlaps the instant.
void EnergyCurve::Bound(size_t near, int64_t at_ns, CurvePosition& out) const noexcept {
  if (!counted_) {
    out.low = out.high = out.joules;
    return;
  }
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  const size_t first = near > 0 ? near - 1 : 0, last = std::min(near + 2, knots_.count - 1);
  for (size_t i = first; i <= last; ++i) {
    const Knot& knot = knots_[i];
    if (knot.flaws != knots_[near].flaws) continue;
    const double after = Seconds(std::max<int64_t>(0, knot.late_ns - at_ns));
    const double before = Seconds(std::max<int64_t>(0, at_ns - knot.early_ns));
    if (after == 0) low = std::max(low, knot.joules);
    else if (IsKnown(options_.most_watts)) low = std::max(low, knot.joules - options_.most_watts * after);
    if (before == 0) high = std::min(high, knot.joules);
    else if (IsKnown(options_.most_watts)) high = std::min(high, knot.joules + options_.most_watts * before);
  }
  // Without a maximum power the guess may be wholly wrong.
  const double step = std::abs(out.joules - knots_[near].joules);
  out.low = IsKnown(low) ? low : out.joules - step;
  out.high = IsKnown(high) ? high : std::max(out.joules + step, out.low);
  out.joules = std::clamp(out.joules, std::min(out.low, out.high), out.high);
}

CurvePosition EnergyCurve::At(int64_t at_ns) const {
  CurvePosition out;
  out.flaw = EnergyFlaw::kOutside;
  if (knots_.count == 0) return out;
  const size_t next = knots_.After(at_ns);
  const bool early = next == 0, late = next == knots_.count;
  const Knot& near = knots_[early ? 0 : next - 1];
  out.integral_half_width = near.integral_half_width;
  out.flaws_ended = out.flaws_begun = near.flaws;
  EnergyFlaw latest = near.latest;
  out.settled = !early && (!late || at_ns == near.at_ns);
  if (early) {
    // The power is known longer than the counter.
    out.joules = near.joules - (PowerIntegral(near.at_ns) - PowerIntegral(at_ns));
  } else if (!late) {
    const Knot& after = knots_[next];
    out.joules = near.joules + Drawn(near, after, at_ns);
    if (at_ns > near.at_ns) {
      out.flaws_begun = after.flaws;
      latest = after.latest;
      const double share = Seconds(at_ns - near.at_ns) / Seconds(after.at_ns - near.at_ns);
      out.integral_half_width += (after.integral_half_width - near.integral_half_width) * share;
    }
  } else if (at_ns == near.at_ns) {
    out.joules = near.joules;
  } else if (at_ns - near.at_ns <= options_.longest_gap_ns) {
    const double drawn = DrawnSince(near, at_ns);
    out.joules = near.joules + drawn;
    if (!counted_) out.integral_half_width += drawn;
  }
  if (!IsKnown(out.joules)) return out;
  out.flaw = latest;
  Bound(early ? 0 : next - 1, at_ns, out);
  return out;
}

EnergySpan EnergyCurve::Between(int64_t begin_ns, int64_t end_ns) const {
  EnergySpan span;
  const CurvePosition begin = At(begin_ns), end = At(end_ns);
  if (end_ns < begin_ns || !IsKnown(begin.joules) || !IsKnown(end.joules)) {
    span.flaw = knots_.count == 0 && silent_ ? EnergyFlaw::kNoSensor : EnergyFlaw::kOutside;
    return span;
  }
  if (end.flaws_begun != begin.flaws_ended) {
    span.flaw = end.flaw;
    return span;
  }
  span.method = method();
  span.joules = end.joules - begin.joules;
  span.half_width_joules = end.integral_half_width - begin.integral_half_width;
  if (span.method == SpanMethod::kCounter && end_ns > begin_ns) {
    const double low = std::max(0.0, end.low - begin.high);
    double high = end.high - begin.low;
    if (IsKnown(options_.most_watts)) high = std::min(high, options_.most_watts * Seconds(end_ns - begin_ns));
    span.half_width_joules +=
        std::max({span.joules - low, high - span.joules, 0.0}) + options_.counter_step_joules;
  }
  return span;
}

}  // namespace gpulens::energy

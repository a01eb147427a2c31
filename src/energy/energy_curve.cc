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
// Number of steps from which the scale between counter and power is computed, at most and at least, how far
// it may be from 1, and how far where the power bounds the energy.
constexpr size_t kScaleKnots = 64, kFewestScaleKnots = 4;
constexpr double kLeastScale = 0.5, kMostScale = 2, kLeastTrustedScale = 0.8, kMostTrustedScale = 1.25;

// Number of readings whose largest change of power bounds how far the power can be off between two of them.
constexpr size_t kCalmTicks = 8;
// A change of the load appears in the counter at most so much later: the oldest value, the longest time
// between two, and an interval of readings.
constexpr int64_t kReachNs = 300'000'000;

// The lag is learnt from knots so far back that the power was read until the latest age compared.
constexpr size_t kFitDelay = 4;
// The fit forgets within some 64 knots, and follows a level within 32.
constexpr double kFitKeep = 1 - 1.0 / 64, kFitFollow = 1.0 / 32;
// There is a range when it has seen so many knots, explains the counter so much better than a constant power
// would, and an age explains it as well as the best if its squares are not more by so many knots' share.
constexpr double kFitLeast = 24, kFitExplains = 0.3, kFitSame = 12;
// The power varies when a constant one misses the counter by more, in squares, than the unknown times of
// values do.
constexpr double kFitVaries = 2;
// A power that is late or averaged leaves more than these.
constexpr double kFitRemains = 2;
// How late a power can be of which that is not so.
constexpr double kPromptSeconds = 0.05;
// Energy at a steady power: values of so many last knots, and a bound for two ends that some 97 of 100 keep.
constexpr double kSpreadKeep = 1 - 1.0 / 64, kSpreadFollow = 1.0 / 32, kSpreadLeast = 48, kSpreads = 3;
// By knot; 2 % of the power at 20 readings a second.
constexpr int64_t kLagSlewNs = 1'000'000;

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

void LagFit::Series::Add(double change, bool first) noexcept {
  level += change;
  if (first) mean = level;
  const double off = level - mean;
  mean += off * kFitFollow;
  squares = squares * kFitKeep + off * off;
}

void LagFit::Add(double counted, const Joules& drawn, double at_mean_power, double unknown) noexcept {
  for (size_t i = 0; i < kAges; ++i) ages_[i].Add(counted - drawn[i], !started_);
  steady_.Add(counted - at_mean_power, !started_);
  unknown_ = unknown_ * kFitKeep + unknown;
  weight_ = weight_ * kFitKeep + 1;
  started_ = true;
  const auto fit = Fit();
  if (fit) range_ = fit;
  // A steady power does not contradict.
  else if (steady_.squares < kFitVaries * unknown_) return;
  agreed_ = fit ? std::min(agreed_ + 1, kAgree) : 0;
}

double LagFit::sigma() const noexcept {
  return std::sqrt(std::ranges::min_element(ages_, {}, &Series::squares)->squares / weight_);
}

std::optional<LagFit::Range> LagFit::Fit() const noexcept {
  const auto best = std::ranges::min_element(ages_, {}, &Series::squares);
  if (weight_ < kFitLeast || steady_.squares < kFitVaries * unknown_) return std::nullopt;
  if (best->squares > std::min(kFitExplains * steady_.squares, kFitRemains * unknown_)) return std::nullopt;
  const double same = best->squares * (1 + kFitSame / weight_);
  const auto age = [](size_t i) { return kFirstNs + static_cast<int64_t>(i) * kStepNs; };
  size_t first = kAges, last = 0;
  for (size_t i = 0; i < kAges; ++i) {
    if (ages_[i].squares > same) continue;
    first = std::min(first, i);
    last = std::max(last, i);
  }
  // The power is later than the counter: how old both are is unknown.
  if (age(first) < -kStepNs) return std::nullopt;
  return Range{std::max<int64_t>(age(first) - kStepNs, 0),
               std::clamp<int64_t>(age(last) + kStepNs, 0, EnergyCurve::kMostLagNs)};
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

EnergyCurve::EnergyCurve(const Options& options)
    : options_(options), lag_{0, options.counter_lag_ns == kLagUnknown ? kMostLagNs : 0} {
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
  return knots_.back().at_ns - lag_ns_;
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
  Tick tick{.at_ns = reading.at_ns, .watts = reading.power_watts};
  if (ticks_.count > 0) {
    const Tick& before = ticks_.back();
    const double seconds = Seconds(tick.at_ns - before.at_ns);
    tick.joules = before.joules + (before.watts + tick.watts) / 2 * seconds;
    tick.change = tick.watts - before.watts;
    double up = std::max(tick.change, 0.0), down = std::max(-tick.change, 0.0);
    for (size_t i = 1; i < std::min(kCalmTicks, ticks_.count); ++i) {
      const double change = ticks_[ticks_.count - i].change;
      up = std::max(up, change);
      down = std::max(down, -change);
    }
    // A power that goes up and down may do so between two readings, too.
    const double change = std::max(up, down), off = std::max(change / 2, std::min(up, down)) * seconds;
    tick.half_width = before.half_width + off;
    const bool prompt = late_seconds_ == kPromptSeconds;
    tick.late_half_width =
        before.late_half_width + off + (prompt ? std::abs(tick.change) : change) * late_seconds_;
  }
  watts_off_.Add(tick.watts);
  ticks_.Push(tick);
}

void EnergyCurve::AddIntegral(const SensorReading& reading) {
  Knot knot{.at_ns = reading.at_ns, .early_ns = reading.at_ns, .late_ns = reading.at_ns};
  if (knots_.count == 0) return AddKnot(knot, 0, EnergyFlaw::kNone);
  // A tick is added with each such knot, so the last but one is that of the knot before.
  const Tick &now = ticks_.back(), &before = ticks_[ticks_.count - 2];
  const int64_t apart = now.at_ns - before.at_ns;
  knot.integral_half_width = now.half_width - before.half_width;
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
    knot.at_ns = std::max(Place(knot, reading.counter_joules - before), knots_.back().at_ns + 1);
  }
  EnergyFlaw flaw =
      reading.at_ns - before_read_ns > options_.longest_gap_ns ? EnergyFlaw::kGap : EnergyFlaw::kNone;
  if (reading.counter_joules < before) flaw = EnergyFlaw::kCounterReset;
  if (flaw == EnergyFlaw::kNone) {
    const Knot &last = knots_.back(), &first = knots_[knots_.count - std::min(kScaleKnots, knots_.count)];
    const double seconds = Seconds(last.late_ns - first.late_ns);
    const int64_t from = last.early_ns + last.late_ns, to = knot.early_ns + knot.late_ns;
    level_ += reading.counter_joules - before;
    if (seconds > 0 && first.flaws == last.flaws)
      level_ -= (last.joules - first.joules) / seconds * Seconds(to - from) / 2;
    else joules_off_ = {};
    knot.off = joules_off_.Add(level_);
  } else {
    joules_off_ = {};
  }
  AddKnot(knot, reading.counter_joules - before, flaw);
  FindScale();
  if (options_.counter_lag_ns == kLagUnknown) Learn();
}

// Returns when the power had drawn what the counter gained since the last knot, between the knot's ends. What
// is missing at the later end, or too much at the earlier, is the knot's misfit.
int64_t EnergyCurve::Place(Knot& knot, double gained) const noexcept {
  const Knot& before = knots_.back();
  const double zero = PowerIntegral(before.at_ns - lag_ns_);
  const auto missing = [&](int64_t at_ns) {
    return gained - (PowerIntegral(at_ns - lag_ns_) - zero) * scale_;
  };
  int64_t early = std::min(knot.early_ns, knot.late_ns), late = knot.late_ns;
  double at_early = missing(early), at_late = missing(late);
  if (!IsKnown(at_early) || !IsKnown(at_late)) return early + (late - early) / 2;
  if (at_early <= 0 || at_late >= 0) {
    knot.misfit = at_early <= 0 ? -at_early : at_late;
    return at_early <= 0 ? early : late;
  }
  // The integral bends little within an interval of readings.
  for (int i = 0; i < 2; ++i) {
    const int64_t at =
        early + static_cast<int64_t>(static_cast<double>(late - early) * at_early / (at_early - at_late));
    const double left = missing(at);
    (left > 0 ? early : late) = at;
    (left > 0 ? at_early : at_late) = left;
  }
  if (at_early <= at_late) return early;
  return early + static_cast<int64_t>(static_cast<double>(late - early) * at_early / (at_early - at_late));
}

// Compares the counter with the power, and lets the lag follow what that shows.
void EnergyCurve::Learn() {
  if (knots_.count < kFitDelay + 2) return;
  const Knot &now = knots_[knots_.count - kFitDelay], &before = knots_[knots_.count - kFitDelay - 1];
  const Knot &last = knots_.back(), &first = knots_[knots_.count - std::min(kScaleKnots, knots_.count)];
  if (now.flaw != EnergyFlaw::kNone) return fit_.Skip();
  const int64_t from = before.early_ns + (before.late_ns - before.early_ns) / 2,
                to = now.early_ns + (now.late_ns - now.early_ns) / 2;
  LagFit::Joules drawn{};
  for (size_t i = 0; i < drawn.size(); ++i) {
    const int64_t age = LagFit::kFirstNs + static_cast<int64_t>(i) * LagFit::kStepNs;
    drawn[i] = (PowerIntegral(to - age) - PowerIntegral(from - age)) * scale_;
    if (!IsKnown(drawn[i])) return fit_.Skip();
  }
  const double watts = (now.joules - before.joules) / Seconds(std::max<int64_t>(to - from, 1));
  const double mean = (last.joules - first.joules) / Seconds(last.at_ns - first.at_ns);
  // Of a value written at any time of its stretch, and of a power that changed at any time between two
  // readings.
  const double time = std::min(watts, options_.most_watts) * Seconds(now.late_ns - now.early_ns);
  double unknown = time * time / 12;
  for (size_t i = ticks_.After(before.late_ns); i < ticks_.count && ticks_[i].at_ns <= now.late_ns; ++i) {
    const double change = ticks_[i].change * Seconds(ticks_[i].at_ns - ticks_[i - 1].at_ns);
    unknown += change * change / 12 / kFitFollow / 2;  // it stays until the level follows
  }
  if (first.flaws == last.flaws)
    fit_.Add(now.joules - before.joules, drawn, mean * Seconds(to - from), unknown);
  const auto range = fit_.range();
  lag_ = range.value_or(LagFit::Range{0, kMostLagNs});
  late_seconds_ = range ? kPromptSeconds : kMostLateSeconds;
  if (!range && lag_ns_ == 0) return;
  const int64_t aim = range ? (lag_.low_ns + lag_.high_ns) / 2 : lag_ns_;
  const int64_t step = std::clamp(aim - lag_ns_, -kLagSlewNs, kLagSlewNs);
  lag_ns_ += step;
  // What the windows that are open meanwhile are off by it.
  if (ticks_.count > 0) slewed_joules_ += ticks_.back().watts * Seconds(std::abs(step));
}

void EnergyCurve::AddKnot(const Knot& knot, double piece_joules, EnergyFlaw flaw) {
  Knot next = knot;
  next.flaw = flaw;
  if (knots_.count > 0) {
    const Knot& before = knots_.back();
    next.joules = before.joules + (flaw == EnergyFlaw::kNone ? piece_joules : 0);
    next.integral_half_width += before.integral_half_width + std::exchange(slewed_joules_, 0);
    next.misfit += before.misfit;
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
  const int64_t from_ns = from.at_ns - lag_ns_, to_ns = to.at_ns - lag_ns_;
  if (at_ns == from_ns) return 0;
  double share = Seconds(at_ns - from_ns) / Seconds(to_ns - from_ns);
  const double begin = PowerIntegral(from_ns), end = PowerIntegral(to_ns);
  if (IsKnown(begin) && end > begin) share = (PowerIntegral(at_ns) - begin) / (end - begin);
  return (to.joules - from.joules) * share;
}

void EnergyCurve::FindScale() noexcept {
  if (knots_.count < kFewestScaleKnots) return;
  const Knot& last = knots_.back();
  const Knot& first = knots_[knots_.count - std::min(kScaleKnots, knots_.count)];
  if (first.flaws != last.flaws) return;  // as it was before
  const int64_t from = first.at_ns - lag_ns_, to = last.at_ns - lag_ns_;
  const double power = PowerIntegral(to) - PowerIntegral(from);
  const double scale = (last.joules - first.joules) / power;
  scale_half_width_ = std::numeric_limits<double>::infinity();
  scale_ = 1;
  scale_assumed_ = false;
  if (!IsKnown(scale) || scale < kLeastScale || scale > kMostScale) return;
  const size_t after = std::min(ticks_.After(to), ticks_.count - 1),
               before = std::max<size_t>(ticks_.After(from), 1) - 1;
  const Tick &late = ticks_[after], &early = ticks_[before];
  double off = late.late_half_width - early.late_half_width +
               std::abs(late.watts - early.watts) * Seconds(lag_.high_ns - lag_.low_ns);
  if (fit_.range()) off = std::min(off, 2 * kSpreads * fit_.sigma());
  const double seconds = Seconds(last.late_ns - last.early_ns + first.late_ns - first.early_ns);
  const double half_width = scale * (seconds / Seconds(to - from) + off / power);
  // A new curve knows too little of the scale.
  if (knots_.count < kScaleKnots && half_width > kAssumedScaleHalfWidth &&
      std::abs(scale - 1) <= half_width + kAssumedScaleHalfWidth) {
    scale_half_width_ = kAssumedScaleHalfWidth;
    scale_assumed_ = true;
    return;
  }
  scale_ = scale;
  if (scale >= kLeastTrustedScale && scale <= kMostTrustedScale) scale_half_width_ = half_width;
}

double EnergyCurve::DrawnSince(const Knot& last, int64_t at_ns) const noexcept {
  const int64_t from_ns = last.at_ns - lag_ns_;
  const double power = PowerIntegral(at_ns) - PowerIntegral(from_ns);
  if (IsKnown(power)) return std::max(0.0, power) * scale_;
  if (knots_.count < 2 || last.flaw != EnergyFlaw::kNone) return kNotMeasured;
  const Knot& before = knots_[knots_.count - 2];
  return (last.joules - before.joules) / Seconds(last.at_ns - before.at_ns) * Seconds(at_ns - from_ns);
}

// Bounds from the counter's values, where they are `lag_ns` older than their writing: one from before an
// instant is not more than the energy until then, and the device's maximum power bounds what is missing; the
// other way round for a later one. Infinite where nothing bounds it. Knots beyond the neighbours matter only
// where their stretch overlaps the instant.
EnergyCurve::Interval EnergyCurve::Bound(int64_t at_ns, int64_t lag_ns) const noexcept {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  const size_t next = knots_.After(at_ns + lag_ns), near = next > 0 ? next - 1 : 0;
  const size_t first = near > 0 ? near - 1 : 0, last = std::min(near + 2, knots_.count - 1);
  for (size_t i = first; i <= last; ++i) {
    const Knot& knot = knots_[i];
    if (knot.flaws != knots_[near].flaws) continue;
    const double after = Seconds(std::max<int64_t>(0, knot.late_ns - lag_ns - at_ns));
    const double before = Seconds(std::max<int64_t>(0, at_ns - (knot.early_ns - lag_ns)));
    if (after == 0) low = std::max(low, knot.joules);
    else if (IsKnown(options_.most_watts)) low = std::max(low, knot.joules - options_.most_watts * after);
    if (before == 0) high = std::min(high, knot.joules);
    else if (IsKnown(options_.most_watts)) high = std::min(high, knot.joules + options_.most_watts * before);
  }
  return {low, high};
}

// Bounds a span by the power alone, in the counter's joules: narrow where the power changes little and the
// counter agrees with it.
void EnergyCurve::BoundByPower(int64_t begin_ns, int64_t end_ns, EnergySpan& span) const noexcept {
  const size_t first = ticks_.After(begin_ns), after = ticks_.After(end_ns);
  if (first == 0 || (scale_assumed_ && end_ns - begin_ns < kLeastAssumedNs)) return;
  const Tick &early = ticks_[first - 1], &late = ticks_[std::min(after, ticks_.count - 1)];
  const double joules = PowerIntegral(end_ns) - PowerIntegral(begin_ns);
  double off = late.late_half_width - early.late_half_width;
  const int64_t beyond_ns = end_ns - late.at_ns;
  if (beyond_ns > 0) off += options_.most_watts * Seconds(beyond_ns);
  const size_t from = knots_.After(begin_ns - kReachNs), to = knots_.After(end_ns + kReachNs);
  const double misfit = to == 0 ? 0 : knots_[to - 1].misfit - (from > 0 ? knots_[from - 1].misfit : 0);
  const double shape = off * scale_ + misfit + std::abs(span.joules - scale_ * joules);
  if (!IsKnown(shape)) return;
  span.scale_half_width_joules = scale_half_width_ * joules;
  span.shape_half_width_joules = shape;
}

// Bounds of a span from the counter's mean power, where the counter and the power were as far from their
// means around it as they were before: an estimate, for fast or noisy loads.
EnergyCurve::Interval EnergyCurve::ByMean(int64_t begin_ns, int64_t end_ns) const noexcept {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const Interval none{-kInfinite, kInfinite};
  if (joules_off_.weight < kSpreadLeast || end_ns > last_ns_) return none;
  const Knot &last = knots_.back(), &first = knots_[knots_.count - std::min(kScaleKnots, knots_.count)];
  if (begin_ns < first.at_ns || first.flaws != last.flaws) return none;
  for (size_t i = knots_.After(begin_ns - kReachNs); i < knots_.count && knots_[i].at_ns < end_ns + kReachNs;
       ++i) {
    if (!(std::abs(knots_[i].off) <= kSpreads * joules_off_.sigma())) return none;
  }
  for (size_t i = ticks_.After(begin_ns - kReachNs); i < ticks_.count && ticks_[i].at_ns < end_ns + kReachNs;
       ++i) {
    if (!watts_off_.Has(ticks_[i].watts)) return none;
  }
  const double watts = (last.joules - first.joules) / Seconds(last.late_ns - first.late_ns);
  const double joules = watts * Seconds(end_ns - begin_ns), half_width = kSpreads * joules_off_.sigma();
  return {joules - half_width, joules + half_width};
}

double EnergyCurve::Spread::Add(double value) noexcept {
  if (weight == 0) mean = value;
  const double off = value - mean;
  mean += off * kSpreadFollow;
  square = square * kSpreadKeep + off * off;
  weight = weight * kSpreadKeep + 1;
  return off;
}

double EnergyCurve::Spread::sigma() const noexcept {
  return weight > 0 ? std::sqrt(square / weight) : kNotMeasured;
}
bool EnergyCurve::Spread::Has(double value) const noexcept {
  return std::abs(value - mean) <= kSpreads * sigma();
}

CurvePosition EnergyCurve::At(int64_t at_ns) const {
  CurvePosition out;
  out.flaw = EnergyFlaw::kOutside;
  if (knots_.count == 0) return out;
  const size_t next = knots_.After(at_ns + lag_ns_);
  const bool early = next == 0, late = next == knots_.count;
  const Knot& near = knots_[early ? 0 : next - 1];
  const int64_t near_ns = near.at_ns - lag_ns_;
  out.integral_half_width = near.integral_half_width;
  out.flaws_ended = out.flaws_begun = near.flaws;
  EnergyFlaw latest = near.latest;
  out.settled = !early && (!late || at_ns == near_ns);
  if (early) {
    // The power is known longer than the counter.
    out.joules = near.joules - (PowerIntegral(near_ns) - PowerIntegral(at_ns));
  } else if (!late) {
    const Knot& after = knots_[next];
    out.joules = near.joules + Drawn(near, after, at_ns);
    if (at_ns > near_ns) {
      out.flaws_begun = after.flaws;
      latest = after.latest;
      const double share = Seconds(at_ns - near_ns) / Seconds(after.at_ns - near.at_ns);
      out.integral_half_width += (after.integral_half_width - near.integral_half_width) * share;
    }
  } else if (at_ns == near_ns) {
    out.joules = near.joules;
  } else if (at_ns - near_ns <= options_.longest_gap_ns) {
    const double drawn = DrawnSince(near, at_ns);
    out.joules = near.joules + drawn;
    if (!counted_) out.integral_half_width += drawn;
  }
  if (!IsKnown(out.joules)) return out;
  out.flaw = latest;
  if (!counted_) {
    out.low = out.high = out.joules;
    return out;
  }
  // A lag shifts both ends of a span alike: at a steady power it changes nothing between them, so what a lag
  // would add at the mean power is not counted.
  const double watts = (knots_.back().joules - knots_[0].joules) /
                       Seconds(std::max<int64_t>(knots_.back().at_ns - knots_[0].at_ns, 1));
  const Interval at_lag = Bound(at_ns, lag_ns_);
  double low = at_lag.low, high = at_lag.high;
  for (const int64_t lag_ns : {lag_.low_ns, lag_.high_ns}) {
    if (lag_ns == lag_ns_) continue;
    const Interval one = Bound(at_ns, lag_ns);
    const double shift = watts * Seconds(lag_ns_ - lag_ns);
    low = std::min(low, one.low + shift);
    high = std::max(high, one.high + shift);
  }
  // Without a maximum power the guess may be wholly wrong.
  const double step = std::abs(out.joules - near.joules);
  if (!IsKnown(low)) low = out.joules - step;
  if (!IsKnown(high)) high = std::max(out.joules + step, low);
  out.low = low;
  out.high = high;
  const double most = IsKnown(at_lag.high) ? at_lag.high : high;
  out.joules = std::clamp(out.joules, std::min(IsKnown(at_lag.low) ? at_lag.low : low, most), most);
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
  if (span.method != SpanMethod::kCounter || end_ns == begin_ns) return span;
  // The counter's bounds hold for each lag that is possible.
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (int64_t lag_ns = lag_.low_ns;; lag_ns = std::min(lag_ns + LagFit::kStepNs, lag_.high_ns)) {
    const Interval from = Bound(begin_ns, lag_ns), to = Bound(end_ns, lag_ns);
    low = std::min(low, to.low - from.high);
    high = std::max(high, to.high - from.low);
    if (lag_ns >= lag_.high_ns) break;
  }
  if (!IsKnown(low)) low = std::min(low, end.low - begin.high);
  if (!IsKnown(high)) high = end.high - begin.low;
  BoundByPower(begin_ns, end_ns, span);
  const Interval by_mean = ByMean(begin_ns, end_ns);
  const auto off = [&](double least, double most) {
    return std::max({span.joules - least, most - span.joules, 0.0});
  };
  if (IsKnown(options_.most_watts)) high = std::min(high, options_.most_watts * Seconds(end_ns - begin_ns));
  const double by_power = span.scale_half_width_joules + span.shape_half_width_joules;
  span.half_width_joules +=
      std::min({off(std::max(0.0, low), high), by_power, off(by_mean.low, by_mean.high)}) +
      options_.counter_step_joules;
  return span;
}

}  // namespace gpulens::energy

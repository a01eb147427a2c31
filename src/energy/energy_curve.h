// Energy of one device as a curve over time, from occasional sensor readings. Pure.
//
//   EnergyCurve curve({.readings = 1200});
//   curve.Add({.at_ns = now, .counter_joules = 512.3, .power_watts = 310});
//   EnergySpan span = curve.Between(begin_ns, end_ns);   // joules, with an error bound
//
// With a counter the curve goes through its values and follows the power readings in between; without one it
// is the integral of power by trapezoids. Many counters are updated only every 20 to 100 ms: a new value was
// written between the reading before and the one that shows it; the curve puts it where the power has drawn
// what the counter gained. Such a value is also of some time before it was written, the lag, which is learned
// from the power where that varies.
//
// `half_width_joules` is, with a counter, the narrowest of three: a bound that holds for each possible lag,
// as energy only grows, and no faster than the device's maximum power; the power's integral, scaled to the
// counter, where both agree; and the counter's mean power, for loads that are as they were in the last
// seconds. For an integral it is an estimate that assumes the lower, or the higher, of neighbouring powers
// all the time between them. 95 of 100 windows of simulated counters and loads are within it
// (energy_corpus_test.cc). Not thread-safe. No allocation once the rings are full.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include <gpulens/status.h>

namespace gpulens::energy {

// Learns how often a counter is updated, from a while of frequent readings: a new value was written between
// two readings, so for regular counters a few such sightings bound the age of a value. Pure.
class CounterStep {
 public:
  // A new value was written between these two times.
  void Observe(int64_t early_ns, int64_t late_ns) noexcept;
  // The value is still that of the last sighting; after longer than the lag, the lag was wrong.
  void SawNone(int64_t at_ns) noexcept;

  // Maximum age of a value; nothing while unknown.
  std::optional<int64_t> lag_ns() const noexcept;

 private:
  int64_t early_ns_ = 0, late_ns_ = 0;  // of the last sighting
  int64_t longest_ns_ = 0;
  uint32_t sightings_ = 0;
  bool seen_ = false;
};

// Learns how old the values of a counter are when they are written, from the power read with it: the energy
// up to a value is that of the power up to so long before. Needs a power that varies, and that is not itself
// late. Pure.
class LagFit {
 public:
  // The ages compared; a negative one means that the power is later than the counter.
  static constexpr int64_t kStepNs = 20'000'000, kFirstNs = -60'000'000;
  static constexpr size_t kAges = 10;
  using Joules = std::array<double, kAges>;  // by age

  // Takes what the counter gained from one value to the next, what the power gained by each age, what it
  // would have gained at its mean, and the square of what the times of the readings leave unknown.
  void Add(double counted, const Joules& drawn, double at_mean_power, double unknown) noexcept;
  // The counter was reset.
  void Skip() noexcept { started_ = false; }

  struct Range {
    int64_t low_ns, high_ns;
  };
  // The age is in this range; nothing while the readings do not show it.
  std::optional<Range> range() const noexcept { return agreed_ >= kAgree ? range_ : std::nullopt; }
  // How far the counter is from the power at the best age, in joules.
  double sigma() const noexcept;

 private:
  struct Series {
    double level = 0, mean = 0, squares = 0;
    void Add(double change, bool first) noexcept;
  };
  std::array<Series, kAges> ages_{};
  Series steady_;  // for a constant power
  double weight_ = 0, unknown_ = 0;
  bool started_ = false;
  std::optional<Range> Fit() const noexcept;
  static constexpr int kAgree = 32;
  std::optional<Range> range_;
  int agreed_ = 0;  // for how many values there has been a range
};

inline double Seconds(int64_t ns) noexcept { return static_cast<double>(ns) * 1e-9; }
// Not NaN, and no bound that is infinite.
inline bool IsKnown(double value) noexcept { return std::isfinite(value); }

// Reading of a device; NaN: unknown.
struct SensorReading {
  int64_t at_ns = 0;  // when the read returned, on a clock that never jumps
  double counter_joules = kNotMeasured;
  double power_watts = kNotMeasured;
  int64_t took_ns = 0;  // duration of the read; the values are of some instant in between
};

enum class SpanMethod : uint8_t { kNone, kCounter, kPowerIntegral };
// Why the energy of a span is missing or incomplete.
enum class EnergyFlaw : uint8_t {
  kNone,
  kOutside,       // before the first reading that is kept, or too long after the last
  kGap,           // two readings lie further apart than allowed
  kCounterReset,  // the counter fell
  kNoSensor,      // neither counter nor power was ever read
};

struct EnergySpan {
  double joules = kNotMeasured;
  double half_width_joules = kNotMeasured;
  // The half-width by the power alone has two parts: one grows with the energy, the other is in any piece of
  // the span. A share of the span has its part of the first and at most all of the second. Infinite: the
  // power does not bound it.
  double scale_half_width_joules = std::numeric_limits<double>::infinity();
  double shape_half_width_joules = std::numeric_limits<double>::infinity();
  SpanMethod method = SpanMethod::kNone;
  EnergyFlaw flaw = EnergyFlaw::kNone;
  bool valid() const noexcept { return flaw == EnergyFlaw::kNone; }
};

// The curve at one instant. Joules count from an arbitrary zero; they can be compared over the whole life of
// a curve, also after the readings are forgotten.
struct CurvePosition {
  double joules = kNotMeasured;
  double low = kNotMeasured, high = kNotMeasured;  // bounds of the true value, as far as there is a counter
  double integral_half_width = 0;                  // of all that was integrated so far
  // Pieces with something wrong, up to here: those that end before, and those that begin before.
  uint32_t flaws_ended = 0, flaws_begun = 0;
  EnergyFlaw flaw = EnergyFlaw::kNone;  // kOutside: there is no position; else what the last wrong piece has
  bool settled = false;                 // no later reading moves it
};

class EnergyCurve {
 public:
  static constexpr int64_t kLagUnknown = std::numeric_limits<int64_t>::max();
  // The oldest that a value of an unknown counter is assumed to be when it is written.
  static constexpr int64_t kMostLagNs = 100'000'000;

  struct Options {
    size_t readings = 1200;                  // kept: a minute at 50 ms
    int64_t longest_gap_ns = 2'000'000'000;  // between two readings; a longer one is a flaw
    double most_watts = std::numeric_limits<double>::infinity();  // maximum power of the device
    double counter_step_joules = 0.001;                           // the counter's resolution
    // Maximum age of the counter's value; 0: current; kLagUnknown: at most kMostLagNs older than a value that
    // is written at least every 100 ms, and learnt.
    int64_t counter_lag_ns = 0;
  };

  explicit EnergyCurve(const Options& options);

  // Readings that are not later than the last are ignored. After the first counter value, readings without
  // one only shape the curve.
  void Add(const SensorReading& reading);
  // Keeps at least so many readings from here on. Allocates.
  void Keep(size_t readings);
  // Whether more frequent readings would show how often the counter is updated.
  bool learning() const noexcept {
    return counted_ && options_.counter_lag_ns == kLagUnknown && !step_.lag_ns();
  }

  // Energy from `begin_ns` to `end_ns`.
  EnergySpan Between(int64_t begin_ns, int64_t end_ns) const;
  // Extrapolates for a short time after the last reading, at its power.
  CurvePosition At(int64_t at_ns) const;

  std::optional<int64_t> first_ns() const noexcept;    // of the readings that are kept
  double first_watts() const noexcept;                 // of the first power that is kept
  std::optional<int64_t> last_ns() const noexcept;     // the latest reading
  std::optional<int64_t> settled_ns() const noexcept;  // earlier positions do not change any more
  size_t size() const noexcept { return ticks_.count; }
  // The range of ages that values of the counter have when they are written, as far as it is known.
  LagFit::Range lag() const noexcept { return lag_; }
  SpanMethod method() const noexcept {
    return counted_           ? SpanMethod::kCounter
           : knots_.count > 0 ? SpanMethod::kPowerIntegral
                              : SpanMethod::kNone;
  }

 private:
  // A power that was read, with the integral up to it.
  struct Tick {
    int64_t at_ns = 0;
    double watts = kNotMeasured, joules = 0;
    double change = 0;  // from the power before
    // What the integral can be off so far, where the power is that of the instant of its reading, and where
    // it is the mean of the second before.
    double half_width = 0, late_half_width = 0;
  };
  // A point of the curve, whose value held at some time from `early` to `late`.
  struct Knot {
    int64_t at_ns = 0, early_ns = 0, late_ns = 0;
    double joules = 0, integral_half_width = 0;
    double misfit = 0;                      // joules up to here that the counter and the power disagree about
    double off = 0;                         // from the energy of a constant power
    uint32_t flaws = 0;                     // of the pieces up to here
    EnergyFlaw flaw = EnergyFlaw::kNone;    // of the piece that ends here
    EnergyFlaw latest = EnergyFlaw::kNone;  // of the last piece up to here that had one
  };
  // How far values are from their mean, over the last few seconds.
  struct Spread {
    double mean = 0, square = 0, weight = 0;
    double Add(double value) noexcept;  // returns how far this one is
    bool Has(double value) const noexcept;
    double sigma() const noexcept;
  };
  template <class T>
  struct Ring {
    std::vector<T> items;
    size_t begin = 0, count = 0;
    const T& operator[](size_t i) const noexcept { return items[(begin + i) % items.size()]; }
    const T& back() const noexcept { return (*this)[count - 1]; }
    void Push(const T& item);
    void Grow(size_t size);
    // The first that is later than `at_ns`.
    size_t After(int64_t at_ns) const noexcept;
  };

  static constexpr double kMostLateSeconds = 1;
  // How much the counter and the power are assumed to differ at first.
  static constexpr double kAssumedScaleHalfWidth = 0.05;
  // A power that is a mean does not bound a shorter span, so nothing is assumed of it.
  static constexpr int64_t kLeastAssumedNs = 100'000'000;

  void AddPower(const SensorReading& reading);
  void AddCounter(const SensorReading& reading);
  void AddIntegral(const SensorReading& reading);
  void AddKnot(const Knot& knot, double piece_joules, EnergyFlaw flaw);
  int64_t Place(Knot& knot, double gained) const noexcept;
  void Learn();
  double PowerIntegral(int64_t at_ns) const noexcept;
  double Drawn(const Knot& from, const Knot& to, int64_t at_ns) const noexcept;
  double DrawnSince(const Knot& last, int64_t at_ns) const noexcept;
  void FindScale() noexcept;
  struct Interval {
    double low, high;
  };
  Interval Bound(int64_t at_ns, int64_t lag_ns) const noexcept;
  void BoundByPower(int64_t begin_ns, int64_t end_ns, EnergySpan& span) const noexcept;
  Interval ByMean(int64_t begin_ns, int64_t end_ns) const noexcept;

  const Options options_;
  Ring<Tick> ticks_;
  Ring<Knot> knots_;
  bool counted_ = false, silent_ = false;
  CounterStep step_;
  LagFit fit_;
  LagFit::Range lag_;
  // The power is a mean over so long, or so old, at most.
  double late_seconds_ = kMostLateSeconds;
  int64_t lag_ns_ = 0;        // the curve is that of values so old; follows the middle of the range slowly
  double slewed_joules_ = 0;  // since the last knot
  // Joules of the counter per joule of the power, as the two sensors differ by some percent, and how far it
  // can be off; infinite: unknown.
  double scale_ = 1, scale_half_width_ = kAssumedScaleHalfWidth;
  bool scale_assumed_ = true;
  Spread joules_off_, watts_off_;
  double level_ = 0;  // of the counter above the energy of its mean power
  double last_counter_ = kNotMeasured;
  int64_t counter_read_ns_ = 0,
          counter_queried_ns_ = 0;  // when its last reading came back, and when it began
  int64_t last_ns_ = std::numeric_limits<int64_t>::min();
};

}  // namespace gpulens::energy

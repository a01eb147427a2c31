// Energy of one device as a curve over time, from occasional sensor readings. Pure.
//
//   EnergyCurve curve({.readings = 1200});
//   curve.Add({.at_ns = now, .counter_joules = 512.3, .power_watts = 310});
//   EnergySpan span = curve.Between(begin_ns, end_ns);   // joules, with an error bound
//
// With a counter the curve goes through its values and follows the power readings in between; without one it
// is the integral of power by trapezoids. Many counters are updated only every 20 to 100 ms: a new value was
// written between the reading before and the one that shows it; the curve puts it in the middle, and the
// bound uses the ends.
//
// `half_width_joules` is a bound with a counter: energy only grows, and no faster than the device's maximum
// power. For an integral it is an estimate that assumes the lower, or the higher, of two neighbouring powers
// all the time between them; loads that change more often than they are read can exceed it, but 95 of 100
// windows do not (src/sdk/energy/conservation_test.cc). Not thread-safe. No allocation once the rings are
// full.
#pragma once

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

  struct Options {
    size_t readings = 1200;                  // kept: a minute at 50 ms
    int64_t longest_gap_ns = 2'000'000'000;  // between two readings; a longer one is a flaw
    double most_watts = std::numeric_limits<double>::infinity();  // maximum power of the device
    double counter_step_joules = 0.001;                           // the counter's resolution
    // Maximum age of the counter's value; 0: current; kLagUnknown: learnt from frequent readings.
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
  };
  // A point of the curve, whose value held at some time from `early` to `late`.
  struct Knot {
    int64_t at_ns = 0, early_ns = 0, late_ns = 0;
    double joules = 0, integral_half_width = 0;
    uint32_t flaws = 0;                     // of the pieces up to here
    EnergyFlaw flaw = EnergyFlaw::kNone;    // of the piece that ends here
    EnergyFlaw latest = EnergyFlaw::kNone;  // of the last piece up to here that had one
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

  void AddPower(const SensorReading& reading);
  void AddCounter(const SensorReading& reading);
  void AddIntegral(const SensorReading& reading);
  void AddKnot(const Knot& knot, double piece_joules, EnergyFlaw flaw);
  double PowerIntegral(int64_t at_ns) const noexcept;
  double Drawn(const Knot& from, const Knot& to, int64_t at_ns) const noexcept;
  double DrawnSince(const Knot& last, int64_t at_ns) const noexcept;
  double Scale() const noexcept;
  void Bound(size_t near, int64_t at_ns, CurvePosition& out) const noexcept;

  const Options options_;
  Ring<Tick> ticks_;
  Ring<Knot> knots_;
  bool counted_ = false, silent_ = false;
  CounterStep step_;
  double last_counter_ = kNotMeasured;
  int64_t counter_read_ns_ = 0,
          counter_queried_ns_ = 0;  // when its last reading came back, and when it began
  int64_t last_ns_ = std::numeric_limits<int64_t>::min();
};

}  // namespace gpulens::energy

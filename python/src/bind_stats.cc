// gpulens.stats.
#include <gpulens/stats.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "src/values.h"

namespace gpulens::python {
namespace {

std::string Print(const Distribution& self) {
  std::string out = "Distribution(n=" + std::to_string(self.n);
  if (self.n == 0) return out + ")";
  const std::pair<const char*, double> parts[] = {{"mean", self.mean}, {"std", self.std}, {"min", self.min},
                                                  {"p50", self.p50},   {"p90", self.p90}, {"p95", self.p95},
                                                  {"p99", self.p99},   {"max", self.max}};
  for (const auto& [name, value] : parts) out += std::string(", ") + name + "=" + FloatText(value);
  return out + ")";
}

double PercentileOf(nb::handle given, double fraction) {
  if (!(fraction >= 0 && fraction <= 1))
    Raise({Code::kInvalidArgument,
           "fraction must be between 0 and 1, such as 0.95; got " + FloatText(fraction)});
  std::vector<double> values = Numbers(given, "values");
  std::erase_if(values, [](double value) { return std::isnan(value); });
  std::ranges::sort(values);
  return Percentile(values, fraction);
}

Distribution ItlOf(nb::handle given) {
  const std::vector<double> arrivals = Numbers(given, "arrivals");
  std::vector<TimePoint> times;
  times.reserve(arrivals.size());
  for (double seconds : arrivals) {
    if (!(std::abs(seconds) < 9e9))
      Raise({Code::kInvalidArgument, "an arrival must be a time in seconds; got " + FloatText(seconds)});
    times.push_back(SteadyTime(seconds));
  }
  return InterTokenLatency(times);
}

void Construct(SteadyStateDetector* self, size_t warmup, size_t window, size_t consecutive, double cv_below) {
  if (window < 2 || window > 1'000'000)
    Raise({Code::kInvalidArgument, "window must be 2 to 1,000,000; got " + std::to_string(window)});
  new (self) SteadyStateDetector(SteadyStateOptions{warmup, window, consecutive, cv_below});
}

}  // namespace

void BindStats(nb::module_& m) {
  ValueClass<Distribution>(
      m, "Distribution",
      "Distribution of n values, in their unit. Without values, n and sum are 0 and all others are NaN.")
      .def_ro("n", &Distribution::n, "Number of measured values; NaN does not count.")
      .def_ro("sum", &Distribution::sum)
      .def_ro("mean", &Distribution::mean)
      .def_ro("std", &Distribution::std, "Sample standard deviation, divided by n - 1; NaN for one value.")
      .def_ro("min", &Distribution::min)
      .def_ro("p50", &Distribution::p50)
      .def_ro("p90", &Distribution::p90)
      .def_ro("p95", &Distribution::p95)
      .def_ro("p99", &Distribution::p99)
      .def_ro("max", &Distribution::max)
      .def("__repr__", &Print);
  m.def(
      "describe", [](nb::handle values) { return Describe(Numbers(values, "values")); }, "values"_a.none(),
      nb::sig("def describe(values: collections.abc.Iterable[float]) -> Distribution"),
      "Returns the distribution of values in any order. NaN is ignored. Raises TypeError for what is not a "
      "number.");
  m.def("percentile", &PercentileOf, "values"_a.none(), "fraction"_a,
        nb::sig("def percentile(values: collections.abc.Iterable[float], fraction: float) -> float"),
        "Returns the value below which this fraction (0 to 1) of the values lies, linear between ranks as "
        "numpy does. Without values: NaN. Raises InvalidArgumentError for a fraction outside 0 to 1.");
  m.def("inter_token_latency", &ItlOf, "arrivals"_a.none(),
        nb::sig("def inter_token_latency(arrivals: collections.abc.Iterable[float]) -> Distribution"),
        "Returns the distribution of seconds from token to token, for arrivals in seconds of a monotonic "
        "clock (time.perf_counter()). For fewer than two arrivals n is 0. Arrivals that go back in time are "
        "ignored.");
  nb::class_<SteadyStateDetector> detector(
      m, "SteadyStateDetector",
      "Detects when a measured rate no longer drifts: after `warmup` values, once the standard deviation of "
      "the last `window` values is below `cv_below` times their mean for `consecutive` values in a row. "
      "Constant memory. Not thread-safe.");
  detector
      .def("__init__", &Construct, nb::kw_only(), "warmup"_a = 5, "window"_a = 5, "consecutive"_a = 3,
           "cv_below"_a = 0.05)
      .def("record", &SteadyStateDetector::Record, nb::lock_self(), "value"_a,
           "Records a value. Returns True once the rate is steady, and from then on. A window with a NaN or "
           "with a mean that is not positive never counts as steady.")
      .def_prop_ro("steady", &SteadyStateDetector::steady)
      .def_prop_ro("recorded", &SteadyStateDetector::recorded, "Number of values recorded.")
      .def("reset", &SteadyStateDetector::Reset, nb::lock_self(), "Discards all values.")
      .def("__repr__", [](const SteadyStateDetector& self) {
        return "SteadyStateDetector(recorded=" + std::to_string(self.recorded()) +
               (self.steady() ? ", steady=True)" : ", steady=False)");
      });
  RefusesPickle(detector, "make one with the same options, and record the values into it");
}

}  // namespace gpulens::python

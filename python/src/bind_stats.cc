// gpulens.stats.
#include <gpulens/stats.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include <nanobind/stl/vector.h>

#include "src/bind.h"

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

double PercentileOf(std::vector<double> values, double fraction) {
  if (!(fraction >= 0 && fraction <= 1))
    Raise({Code::kInvalidArgument,
           "fraction must be between 0 and 1, such as 0.95; got " + FloatText(fraction)});
  std::erase_if(values, [](double value) { return std::isnan(value); });
  std::ranges::sort(values);
  return Percentile(values, fraction);
}

Distribution ItlOf(const std::vector<double>& arrivals) {
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
  nb::class_<Distribution>(
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
      "describe", [](const std::vector<double>& values) { return Describe(values); }, "values"_a,
      "Returns the distribution of values in any order. NaN is ignored.");
  m.def("percentile", &PercentileOf, "values"_a, "fraction"_a,
        "Returns the value below which this fraction (0 to 1) of the values lies, linear between ranks as "
        "numpy does. Without values: NaN. Raises InvalidArgumentError for a fraction outside 0 to 1.");
  m.def("inter_token_latency", &ItlOf, "arrivals"_a,
        "Returns the distribution of seconds from token to token, for arrivals in seconds of a monotonic "
        "clock (time.perf_counter()). For fewer than two arrivals n is 0. Arrivals that go back in time are "
        "ignored.");
  nb::class_<SteadyStateDetector>(
      m, "SteadyStateDetector",
      "Detects when a measured rate no longer drifts: after `warmup` values, once the standard deviation of "
      "the last `window` values is below `cv_below` times their mean for `consecutive` values in a row. "
      "Constant memory. Not thread-safe.")
      .def("__init__", &Construct, nb::kw_only(), "warmup"_a = 5, "window"_a = 5, "consecutive"_a = 3,
           "cv_below"_a = 0.05)
      .def("record", &SteadyStateDetector::Record, "value"_a,
           "Records a value. Returns True once the rate is steady, and from then on. A window with a NaN or "
           "with a mean that is not positive never counts as steady.")
      .def_prop_ro("steady", &SteadyStateDetector::steady)
      .def_prop_ro("recorded", &SteadyStateDetector::recorded, "Number of values recorded.")
      .def("reset", &SteadyStateDetector::Reset, "Discards all values.");
}

}  // namespace gpulens::python

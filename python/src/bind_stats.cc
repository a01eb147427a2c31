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
  for (const auto& [name, value] : parts) out += std::string(", ") + name + "=" + Spell(value);
  return out + ")";
}

double PercentileOf(std::vector<double> values, double fraction) {
  if (!(fraction >= 0 && fraction <= 1))
    Raise({Code::kInvalidArgument, "a fraction is between 0 and 1, like 0.95; got " + Spell(fraction)});
  std::erase_if(values, [](double value) { return std::isnan(value); });
  std::ranges::sort(values);
  return Percentile(values, fraction);
}

Distribution ItlOf(const std::vector<double>& arrivals) {
  std::vector<TimePoint> times;
  times.reserve(arrivals.size());
  for (double seconds : arrivals) {
    if (!(std::abs(seconds) < 9e9))
      Raise({Code::kInvalidArgument, "an arrival is a time in seconds; got " + Spell(seconds)});
    times.emplace_back(std::chrono::nanoseconds(std::llround(seconds * 1e9)));
  }
  return InterTokenLatency(times);
}

void Construct(SteadyStateDetector* self, size_t warmup, size_t window, size_t consecutive, double cv_below) {
  if (window < 2 || window > 1'000'000)
    Raise({Code::kInvalidArgument, "window is 2 to 1,000,000; got " + std::to_string(window)});
  new (self) SteadyStateDetector(SteadyStateOptions{warmup, window, consecutive, cv_below});
}

}  // namespace

void BindStats(nb::module_& m) {
  nb::class_<Distribution>(
      m, "Distribution", "Of n values, in their unit. Of none: n is 0 and everything else NaN, but the sum.")
      .def_ro("n", &Distribution::n, "How many were measured; a NaN among them does not count.")
      .def_ro("sum", &Distribution::sum)
      .def_ro("mean", &Distribution::mean)
      .def_ro("std", &Distribution::std, "Of a sample: divided by n - 1; NaN for one value.")
      .def_ro("min", &Distribution::min)
      .def_ro("p50", &Distribution::p50)
      .def_ro("p90", &Distribution::p90)
      .def_ro("p95", &Distribution::p95)
      .def_ro("p99", &Distribution::p99)
      .def_ro("max", &Distribution::max)
      .def("__repr__", &Print);
  m.def(
      "describe", [](const std::vector<double>& values) { return Describe(values); }, "values"_a,
      "The distribution of values in any order. NaN among them is left out.");
  m.def("percentile", &PercentileOf, "values"_a, "fraction"_a,
        "The value below which this fraction (0 to 1) of the values lies, linear between ranks as numpy "
        "does. Of no "
        "values: NaN. Raises InvalidArgumentError for a fraction that is none.");
  m.def("inter_token_latency", &ItlOf, "arrivals"_a,
        "Seconds from token to token, of arrivals in seconds of a clock that does not jump "
        "(time.perf_counter()). Fewer "
        "than two: n is 0. A step back in time is left out.");
  nb::class_<SteadyStateDetector>(
      m, "SteadyStateDetector",
      "Tells from when on a measured rate no longer drifts: after `warmup` values, once the standard "
      "deviation of the "
      "last `window` is below `cv_below` of their mean `consecutive` times in a row. Constant memory. Not "
      "thread-safe.")
      .def("__init__", &Construct, nb::kw_only(), "warmup"_a = 5, "window"_a = 5, "consecutive"_a = 3,
           "cv_below"_a = 0.05)
      .def("record", &SteadyStateDetector::Record, "value"_a,
           "Whether it is steady with this value, and from then on for ever. A window with a NaN, or a mean "
           "that is "
           "not positive, is never quiet.")
      .def_prop_ro("steady", &SteadyStateDetector::steady)
      .def_prop_ro("recorded", &SteadyStateDetector::recorded, "How many values it has seen.")
      .def("reset", &SteadyStateDetector::Reset, "Begins anew.");
}

}  // namespace gpulens::python

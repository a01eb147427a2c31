// Native part of the modules under gpulens.compat.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include "core/histogram.h"
#include "core/layout.h"
#include "src/compat/power_trace.h"
#include "src/compat/vllm_page.h"
#include "src/values.h"
#include "wire/exposition/exposition_parser.h"

namespace gpulens::python {
namespace {

using energy::PowerSample;
using energy::PowerTrace;

using TraceRow = std::tuple<int64_t, double, double, double, double, double, double, double>;
using NumberPair = std::pair<double, double>;

PowerSample ToSample(const TraceRow& row) {
  PowerSample sample;
  std::tie(sample.at_ns, sample.gpu_watts, sample.cpu_watts, sample.gpu_joules, sample.cpu_joules,
           sample.utilization_percent, sample.temperature_celsius, sample.memory_gib) = row;
  return sample;
}

std::vector<TraceRow> RowsWithin(const PowerTrace& trace, int64_t begin_ns, int64_t end_ns) {
  std::vector<TraceRow> out;
  for (const PowerSample& s : trace.Within(begin_ns, end_ns))
    out.emplace_back(s.at_ns, s.gpu_watts, s.cpu_watts, s.gpu_joules, s.cpu_joules, s.utilization_percent,
                     s.temperature_celsius, s.memory_gib);
  return out;
}

template <auto Function>
NumberPair PairOf(const PowerTrace& trace, int64_t begin_ns, int64_t end_ns) {
  const PowerTrace::Pair pair = (trace.*Function)(begin_ns, end_ns);
  return {pair.gpu, pair.cpu};
}

std::optional<double> BucketQuantile(std::vector<NumberPair> pairs, double count, double quantile) {
  std::ranges::sort(pairs);
  Shape shape;
  shape.has_sum = false;
  std::vector<double> numbers;
  for (const auto& [bound, below] : pairs) {
    shape.bounds.push_back(bound);
    numbers.push_back(below);
  }
  numbers.push_back(count);
  return Quantile(ReadBuckets(shape, numbers), quantile);
}

VllmReading ReadPage(const nb::bytes& page, std::string_view content_type) {
  const std::string_view bytes(page.c_str(), page.size());
  auto read = [&] {
    const nb::gil_scoped_release released;
    return ReadVllmPage(bytes, content_type);
  }();
  return Take(std::move(read));
}

// Labels and value of each sample, by its name.
using PageSample = std::pair<std::map<std::string, std::string>, double>;
class SampleList final : public ExpositionHandler {
 public:
  void OnFamily(uint32_t, const ExpositionFamily&) override {}
  void OnSample(const SampleView& sample) override {
    PageSample& made = by_name[std::string(sample.name)].emplace_back();
    for (const LabelView& label : sample.labels) made.first.emplace(label.name, label.value);
    made.second = sample.value;
  }
  std::map<std::string, std::vector<PageSample>> by_name;
};

std::map<std::string, std::vector<PageSample>> ReadSamples(const nb::bytes& page) {
  const std::string_view bytes(page.c_str(), page.size());
  SampleList samples;
  Take([&] {
    const nb::gil_scoped_release released;
    return ParseExposition(bytes, ExpositionFormat::kText004, {}, samples);
  }());
  return std::move(samples.by_name);
}

}  // namespace

void BindCompat(nb::module_& m) {
  m.def("bucket_quantile", &BucketQuantile, "buckets"_a, "count"_a, "quantile"_a,
        "Returns the quantile of cumulative (bound, count) pairs in any order; None without observations or "
        "finite bounds.");
  ValueClass<VllmReading>(
      m, "VllmReading", "Metrics on a page of a vLLM server; values that the page does not contain are NaN.")
      .def_ro("ttft_p50_seconds", &VllmReading::ttft_p50_seconds)
      .def_ro("ttft_p95_seconds", &VllmReading::ttft_p95_seconds)
      .def_ro("ttft_p99_seconds", &VllmReading::ttft_p99_seconds)
      .def_ro("e2e_p50_seconds", &VllmReading::e2e_p50_seconds)
      .def_ro("e2e_p95_seconds", &VllmReading::e2e_p95_seconds)
      .def_ro("cache_usage_ratio", &VllmReading::cache_usage_ratio)
      .def_ro("requests_waiting", &VllmReading::requests_waiting)
      .prints_all();
  m.def("read_vllm_page", &ReadPage, "page"_a, "content_type"_a = "",
        "Parses a metrics page of a vLLM server. Raises DataLossError for other data, and ExhaustedError "
        "above 64 MiB.");
  m.def(
      "read_samples", &ReadSamples, "page"_a,
      "Parses a page in Prometheus' text format: name of the samples -> (labels, value) of each. Lines that "
      "cannot be understood are left out. Raises ExhaustedError above 64 MiB.");
  nb::class_<PowerTrace> trace(
      m, "PowerTrace",
      "The last readings of power. Thread-safe. A row is (at_ns, gpu_watts, cpu_watts, "
      "gpu_joules, cpu_joules, utilization_percent, temperature_celsius, memory_gib).");
  RefusesPickle(trace, "send the rows of within()");
  trace.def(nb::init<size_t>(), "capacity"_a)
      .def(
          "add", [](PowerTrace& self, const TraceRow& row) { self.Add(ToSample(row)); }, "row"_a,
          "Adds a row; ignores one that is earlier than the last.")
      .def("within", &RowsWithin, "begin_ns"_a, "end_ns"_a,
           "Returns the rows from begin_ns to end_ns, both included.")
      .def("energy_joules", &PairOf<&PowerTrace::EnergyJoules>, "begin_ns"_a, "end_ns"_a,
           "Returns the joules of (gpu, cpu): trapezoids with interpolated edges; 0 where nothing was read.")
      .def("mean_watts", &PairOf<&PowerTrace::MeanWatts>, "begin_ns"_a, "end_ns"_a,
           "Returns the watts of (gpu, cpu): the mean of the rows in the span.")
      .def("clear", &PowerTrace::Clear)
      .def("__len__", &PowerTrace::size);
}

}  // namespace gpulens::python

// Native part of gpulens.instruments.
#include <gpulens/instruments.h>

#include <optional>
#include <vector>

#include <nanobind/stl/vector.h>

#include "src/fast_methods.h"

namespace gpulens::python {
namespace {

constexpr const char* kBindDoc =
    "bind(self, attributes: collections.abc.Mapping[str, str | bool | int | float] = ..., /, "
    "**attributes)\n\nReturns the series with these attributes, which exists from now on. Bind once, not for "
    "each record. Pass names that are not Python identifiers in a mapping: bind({'http.route': '/chat'}).";
constexpr const char* kMadeDoc =
    "\n\nname: letters, digits and . _ - /, at most 255 characters, beginning with a letter.\nunit: a UCUM "
    "unit, such as \"s\", \"By\" or \"{request}\".\nregistry: by default the registry of the "
    "process.\n\nRaises InvalidArgumentError for an invalid name, and for a name that an instrument of "
    "another kind or unit has.";

template <class T>
T Made(T instrument) {
  Check(instrument.status());
  return instrument;
}

template <class T>
T Bind(const T& self, nb::args positional, nb::kwargs named) {
  if (positional.size() > 1) throw nb::type_error("bind() takes at most one mapping, and keyword arguments");
  AttributeList attributes;
  if (positional.size() == 1) attributes.Add(positional[0]);
  attributes.Add(named);
  return self.Bind(attributes.all());
}

constexpr const char* kAmount = "amount";
constexpr const char* kValue = "value";
constexpr const char* kAddDoc =
    "add($self, amount=1, attributes=None)\n--\n\nAdds `amount`. Never blocks. With attributes, looks up "
    "their series, which costs one look-up more than a bound instrument. Raises TypeError at most.";
constexpr const char* kSetDoc =
    "set($self, value, attributes=None)\n--\n\nSets the value; NaN: unknown. Never blocks. With attributes, "
    "looks up their series, which costs one look-up more than a bound instrument. Raises TypeError at most.";
constexpr const char* kRecordDoc =
    "record($self, value, attributes=None)\n--\n\nRecords an observation. Never blocks. NaN and infinite "
    "values are dropped and counted; without bounds, negative ones, too. With attributes, looks up their "
    "series, which costs one look-up more than a bound instrument. Raises TypeError at most.";

template <class T, class Number>
void AddOne(const T& to, Number amount) noexcept {
  to.Add(amount);
}
void SetOne(const Gauge& to, double value) noexcept { to.Set(value); }
void RecordOne(const Histogram& to, double value) noexcept { to.Record(value); }

template <class T>
void BindInstrument(nb::module_& m, const char* name, PyType_Slot* slots, const std::string& doc) {
  nb::class_<T>(m, name, nb::type_slots(slots), (doc + kMadeDoc).c_str())
      .def(
          "__init__",
          [](T* self, std::string_view named, std::string_view unit, std::string_view description,
             Registry* registry) {
            new (self) T(Made(T(named, {.unit = unit, .description = description}, OrProcess(registry))));
          },
          "name"_a, nb::kw_only(), "unit"_a = "", "description"_a = "", "registry"_a.none() = nb::none())
      .def("bind", &Bind<T>, kBindDoc);
}

template <class T, class Number>
void BindSum(nb::module_& m, const char* name, const std::string& doc) {
  static PyMethodDef methods[] = {
      FastMethod<T, Number, &AddOne<T, Number>, kAmount, true>::Method("add", kAddDoc), {}};
  static PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, nullptr}};
  BindInstrument<T>(m, name, slots, doc);
}

void BindGauge(nb::module_& m) {
  static PyMethodDef methods[] = {FastMethod<Gauge, double, &SetOne, kValue>::Method("set", kSetDoc), {}};
  static PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, nullptr}};
  BindInstrument<Gauge>(
      m, "Gauge", slots,
      "A current value; the last writer wins. Not exported before it is set, nor while it is NaN.");
}

// Context manager of `with histogram.time():`. One block at a time.
class Stopwatch {
 public:
  explicit Stopwatch(const Histogram& of) : of_(of) {}
  Stopwatch(Stopwatch&&) = delete;
  void Enter() { running_.emplace(of_); }
  void Exit() { running_.reset(); }

 private:
  const Histogram of_;
  std::optional<Histogram::Timer> running_;
};

void BindHistogram(nb::module_& m) {
  nb::class_<Stopwatch>(m, "HistogramTimer",
                        "Context manager of Histogram.time(); for one `with` block at a time.")
      .def(
          "__enter__",
          [](nb::object self) {
            nb::cast<Stopwatch&>(self).Enter();
            return self;
          },
          nb::sig("def __enter__(self) -> HistogramTimer"))
      .def("__exit__", [](Stopwatch& self, nb::args) { self.Exit(); });
  static PyMethodDef methods[] = {
      FastMethod<Histogram, double, &RecordOne, kValue>::Method("record", kRecordDoc), {}};
  static PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, nullptr}};
  nb::class_<Histogram>(
      m, "Histogram", nb::type_slots(slots),
      (std::string(
           "Distribution of values such as latencies and sizes. With bounds, there is a bucket up to each of "
           "them and one above; without, exponential buckets that adapt to the values, accurate to a few "
           "percent over any range.\n\nbounds: ascending and finite, at most 1,024.") +
       kMadeDoc)
          .c_str())
      .def(
          "__init__",
          [](Histogram* self, std::string_view name, std::string_view unit, std::string_view description,
             const std::vector<double>& bounds, Registry* registry) {
            const InstrumentOptions options{.unit = unit, .description = description, .bounds = bounds};
            new (self) Histogram(Made(Histogram(name, options, OrProcess(registry))));
          },
          "name"_a, nb::kw_only(), "unit"_a = "", "description"_a = "", "bounds"_a = std::vector<double>(),
          "registry"_a.none() = nb::none())
      .def("bind", &Bind<Histogram>, kBindDoc)
      .def(
          "time", [](const Histogram& self) { return new Stopwatch(self); }, nb::rv_policy::take_ownership,
          "Returns a context manager that records the duration of its block, also when the block raises, in "
          "the histogram's unit: s, ms, us or ns. With another unit the duration is dropped and counted.");
}

const char* KindName(InstrumentKind kind) {
  switch (kind) {
    case InstrumentKind::kCounter: return "counter";
    case InstrumentKind::kUpDownCounter: return "up_down_counter";
    case InstrumentKind::kGauge: return "gauge";
    case InstrumentKind::kHistogram: return "histogram";
  }
  return "";
}

nb::dict AttributesOf(const Sample& sample) {
  nb::dict out;
  for (const auto& [key, value] : sample.attributes) out[ToPython(key)] = ToPython(value);
  return out;
}

std::string Describe(const Sample& sample) {
  std::string out = "Sample(" + sample.name;
  for (const auto& [key, value] : sample.attributes) out += ' ' + key + '=' + value;
  out += std::string(", ") + KindName(sample.kind) + ", ";
  if (sample.kind == InstrumentKind::kHistogram)
    out += "count " + std::to_string(sample.count) + ", sum " + FloatText(sample.sum);
  else out += FloatText(sample.value);
  return out + (sample.unit.empty() ? ")" : " " + sample.unit + ")");
}

void BindSample(nb::module_& m) {
  nb::class_<Sample>(m, "Sample",
                     "One series of a snapshot, as a plain value; numbers that it does not have are NaN.")
      .def_ro("name", &Sample::name)
      .def_prop_ro(
          "kind", [](const Sample& self) { return KindName(self.kind); },
          "\"counter\", \"up_down_counter\", \"gauge\" or \"histogram\".")
      .def_ro("unit", &Sample::unit)
      .def_ro("description", &Sample::description)
      .def_ro("integer", &Sample::integer, "Whether the values are integers.")
      .def_prop_ro("attributes", &AttributesOf, nb::sig("def attributes(self) -> dict[str, str]"))
      .def_ro("start_unix_ns", &Sample::start_unix_ns, "Start of the accumulation in Unix nanoseconds.")
      .def_ro("value", &Sample::value, "Value of a counter or gauge.")
      .def_ro("count", &Sample::count, "Number of observations of a histogram.")
      .def_ro("sum", &Sample::sum, "Sum of all observations of a histogram.")
      .def_ro("bounds", &Sample::bounds, "Bounds of a histogram that has them.")
      .def_ro("counts", &Sample::counts,
              "Observations in each bucket of a histogram: with bounds one bucket more than these; without, "
              "in (base**(offset+i), base**(offset+i+1)] where base = 2**(2**-scale).")
      .def_ro("exponential", &Sample::exponential)
      .def_ro("scale", &Sample::scale)
      .def_ro("offset", &Sample::offset)
      .def_ro("zeros", &Sample::zeros, "Observations of 0 of a histogram without bounds.")
      .def("__repr__", &Describe);
}

void BindRegistry(nb::module_& m) {
  nb::class_<Registry>(
      m, "Registry",
      "Owns instruments. Those created without a registry belong to process_registry(). Thread-safe.")
      .def(nb::init<>())
      .def(
          "snapshot",
          [](const Registry& self) {
            nb::gil_scoped_release released;
            return self.Snapshot();
          },
          "Returns all series, in the order in which their instruments were created. Each value is monotonic "
          "from one snapshot to the next; the values are not of one instant.")
      .def("limit_series", &Registry::LimitSeries, "limit"_a,
           "Sets the maximum number of series of an instrument, 2,000 by default. Further ones are exported "
           "as one series, with otel.metric.overflow=\"true\".");
  m.def(
      "process_registry", []() -> Registry& { return Registry::Process(); }, nb::rv_policy::reference,
      "Returns the default registry of instruments, which lives as long as the process.");
  m.def("dropped_records", &DroppedRecords,
        "Returns the number of values that were recorded and dropped, in all registries: NaN, infinite and "
        "negative values where they are not allowed.");
}

}  // namespace

void BindInstruments(nb::module_& m) {
  BindRegistry(m);
  BindSample(m);
  BindSum<Counter, int64_t>(m, "Counter", "Counter of integers. Negative amounts are dropped and counted.");
  BindSum<UpDownCounter, int64_t>(m, "UpDownCounter",
                                  "Counter of integers that rises and falls, such as requests in flight.");
  BindSum<DoubleCounter, double>(
      m, "DoubleCounter",
      "A sum that only grows, such as joules. Negative amounts and NaN are dropped and counted.");
  BindSum<DoubleUpDownCounter, double>(m, "DoubleUpDownCounter",
                                       "A sum that rises and falls. NaN is dropped and counted.");
  BindGauge(m);
  BindHistogram(m);
}

}  // namespace gpulens::python

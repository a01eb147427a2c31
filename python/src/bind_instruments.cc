// Native part of gpulens.instruments.
#include <gpulens/instruments.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <nanobind/stl/unique_ptr.h>

#include "instruments/instrument_registry.h"
#include "src/fast_methods.h"
#include "src/values.h"

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

constexpr const char* kSumOfWorkers =
    "\n\nworkers: after share_with_workers(), the \"sum\" of the running workers (the default), or of "
    "\"all\", "
    "with those that have ended.";

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
constexpr const char* kIncDoc =
    "inc($self, amount=1, attributes=None)\n--\n\nAdds `amount` to the value, from 0 where none was set. "
    "Exact "
    "under any number of threads; never blocks. Raises TypeError at most.";
constexpr const char* kDecDoc =
    "dec($self, amount=1, attributes=None)\n--\n\nSubtracts `amount` from the value, from 0 where none was "
    "set. "
    "Exact under any number of threads; never blocks. Raises TypeError at most.";
constexpr const char* kTrackDoc =
    "Returns a context manager and decorator that adds 1 for as long as its block or function runs. Works on "
    "coroutine functions, too, and for any number of calls at a time.";
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

void Increase(const Gauge& to, double amount) noexcept { to.Add(amount); }
void Decrease(const Gauge& to, double amount) noexcept { to.Add(-amount); }

nb::object Blocks(const char* name) { return nb::module_::import_("gpulens._blocks").attr(name); }

instruments::SeriesFacts FactsOf(internal::Handle handle) {
  return instruments::InstrumentRegistry::Instance().FactsOf(handle);
}

nb::dict ToDict(const std::vector<std::pair<std::string, std::string>>& texts) {
  nb::dict out;
  for (const auto& [key, value] : texts) out[ToPython(key)] = ToPython(value);
  return out;
}

constexpr std::pair<const char*, WorkerMerge> kMerges[] = {
    {"", WorkerMerge::kDefault}, {"each", WorkerMerge::kEach}, {"sum", WorkerMerge::kSum},
    {"max", WorkerMerge::kMax},  {"min", WorkerMerge::kMin},   {"latest", WorkerMerge::kLatest},
    {"all", WorkerMerge::kAll}};

WorkerMerge MergeOf(std::string_view word) {
  for (const auto& [known, merge] : kMerges) {
    if (word == known) return merge;
  }
  Check({Code::kInvalidArgument, "workers must be each, sum, max, min, latest or all"});
  return {};
}

const char* WordOf(WorkerMerge merge) {
  return std::ranges::find(kMerges, merge, &std::pair<const char*, WorkerMerge>::second)->first;
}

// "Counter('http.server.requests', unit='{request}', attributes={'route': '/chat'})"
template <class T>
std::string PrintInstrument(nb::handle_t<T> self) {
  const instruments::SeriesFacts facts = FactsOf(nb::cast<const T&>(self).handle());
  const auto quoted = [](nb::object value) { return std::string(nb::repr(value).c_str()); };
  std::string out = nb::cast<std::string>(self.type().attr("__name__")) + "(" + quoted(ToPython(facts.name));
  if (!facts.unit.empty()) out += ", unit=" + quoted(ToPython(facts.unit));
  if (!facts.attributes.empty()) out += ", attributes=" + quoted(ToDict(facts.attributes));
  return out + ")";
}

// An instrument of the process's registry is made again by its name; its values stay in their process.
template <class T>
nb::tuple ReduceInstrument(nb::handle_t<T> self) {
  const instruments::SeriesFacts facts = FactsOf(nb::cast<const T&>(self).handle());
  if (facts.registry != RegistryAccess::IdOf(Registry::Process()))
    throw nb::type_error(
        "an instrument of a Registry cannot be pickled: make it in the other process, or use the registry of "
        "the process");
  nb::dict options;
  options["unit"] = ToPython(facts.unit);
  options["description"] = ToPython(facts.description);
  if (!facts.bounds.empty()) options["bounds"] = nb::cast(facts.bounds);
  if (facts.workers != WorkerMerge::kDefault) options["workers"] = ToPython(WordOf(facts.workers));
  return nb::make_tuple(nb::module_::import_("gpulens.instruments").attr("_made"),
                        nb::make_tuple(self.type(), ToPython(facts.name), options, ToDict(facts.attributes)));
}

// repr, copies, which are the same series, and pickling.
template <class T>
void BindIdentity(nb::class_<T>& kind) {
  kind.def("__repr__", &PrintInstrument<T>)
      .def("__reduce__", &ReduceInstrument<T>, nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"))
      .def("__copy__", &EnterSelf, nb::sig("def __copy__(self) -> typing.Self"))
      .def(
          "__deepcopy__", [](nb::object self, nb::handle) { return self; }, "memo"_a,
          nb::sig("def __deepcopy__(self, memo: typing.Any) -> typing.Self"));
}

template <class T>
nb::class_<T> BindInstrument(nb::module_& m, const char* name, PyType_Slot* slots, const std::string& doc) {
  nb::class_<T> kind(m, name, nb::type_slots(slots), (doc + kMadeDoc).c_str());
  kind.def(
          "__init__",
          [](T* self, nb::handle named, nb::handle unit, nb::handle description, Registry* registry) {
            const InstrumentOptions options{.unit = Text(unit, "unit"),
                                            .description = Text(description, "description")};
            new (self) T(Made(T(Text(named, "name"), options, OrProcess(registry))));
          },
          "name"_a.none(), nb::kw_only(), "unit"_a.none() = "", "description"_a.none() = "",
          "registry"_a.none() = nb::none(),
          nb::sig(
              "def __init__(self, name: str, *, unit: str = '', description: str = '', registry: Registry | "
              "None = None) -> None"))
      .def("bind", &Bind<T>, kBindDoc);
  BindIdentity(kind);
  return kind;
}

// An instrument that workers merge in several ways, of which `words` are Python's.
template <class T>
nb::class_<T> BindMerged(nb::module_& m, const char* name, PyType_Slot* slots, const std::string& doc,
                         const char* words) {
  nb::class_<T> kind(m, name, nb::type_slots(slots), (doc + kMadeDoc).c_str());
  const std::string signature = std::string(
                                    "def __init__(self, name: str, *, unit: str = '', description: str = '', "
                                    "workers: typing.Literal['', ") +
                                words + "] = '', registry: Registry | None = None) -> None";
  kind.def(
          "__init__",
          [](T* self, nb::handle named, nb::handle unit, nb::handle description, nb::handle workers,
             Registry* registry) {
            const InstrumentOptions options{.unit = Text(unit, "unit"),
                                            .description = Text(description, "description"),
                                            .workers = MergeOf(Text(workers, "workers"))};
            new (self) T(Made(T(Text(named, "name"), options, OrProcess(registry))));
          },
          "name"_a.none(), nb::kw_only(), "unit"_a.none() = "", "description"_a.none() = "",
          "workers"_a.none() = "", "registry"_a.none() = nb::none(), nb::sig(signature.c_str()))
      .def("bind", &Bind<T>, kBindDoc);
  BindIdentity(kind);
  return kind;
}

template <class T, class Number>
nb::class_<T> BindSum(nb::module_& m, const char* name, const std::string& doc) {
  static PyMethodDef methods[] = {
      FastMethod<T, Number, &AddOne<T, Number>, kAmount, true>::Method("add", kAddDoc), {}};
  static PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, nullptr}};
  if constexpr (std::is_same_v<T, UpDownCounter> || std::is_same_v<T, DoubleUpDownCounter>)
    return BindMerged<T>(m, name, slots, doc + kSumOfWorkers, "'sum', 'all'");
  else return BindInstrument<T>(m, name, slots, doc);
}

void BindCounter(nb::module_& m) {
  BindSum<Counter, int64_t>(m, "Counter", "Counter of integers. Negative amounts are dropped and counted.")
      .def(
          "count_exceptions",
          [](nb::object self, nb::object kinds) {
            if (kinds.is_none()) kinds = nb::borrow(PyExc_Exception);
            return Blocks("CountExceptions")(self, kinds);
          },
          "kinds"_a.none() = nb::none(),
          nb::sig("def count_exceptions(self, kinds: type[BaseException] | tuple[type[BaseException], ...] | "
                  "None = None) -> gpulens._blocks.CountExceptions"),
          "Returns a context manager and decorator that adds 1 for each exception of these classes, by "
          "default "
          "Exception, that leaves its block or function. Works on coroutine functions, too. Raises TypeError "
          "for "
          "what is not a class of exceptions.");
}

void BindUpDownCounter(nb::module_& m) {
  BindSum<UpDownCounter, int64_t>(m, "UpDownCounter",
                                  "Counter of integers that rises and falls, such as requests in flight.")
      .def(
          "track_inprogress", [](nb::object self) { return Blocks("TrackInprogress")(self.attr("add")); },
          nb::sig("def track_inprogress(self) -> gpulens._blocks.TrackInprogress"), kTrackDoc);
}

void BindGauge(nb::module_& m) {
  static PyMethodDef methods[] = {FastMethod<Gauge, double, &SetOne, kValue>::Method("set", kSetDoc),
                                  FastMethod<Gauge, double, &Increase, kAmount, true>::Method("inc", kIncDoc),
                                  FastMethod<Gauge, double, &Decrease, kAmount, true>::Method("dec", kDecDoc),
                                  {}};
  static PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, nullptr}};
  BindMerged<Gauge>(
      m, "Gauge", slots,
      "A current value; the last writer wins. Not exported before it is set, nor while it is "
      "NaN.\n\nworkers: "
      "after share_with_workers(), \"each\" (the default: a series for each running worker, with its "
      "process.pid), or the \"sum\", \"max\" or \"min\" of the running workers, or the \"latest\" of them to "
      "be "
      "set.",
      "'each', 'sum', 'max', 'min', 'latest'")
      .def(
          "set_function",
          [](nb::object self, nb::object function) {
            const uint32_t series = nb::cast<const Gauge&>(self).handle().cell;
            nb::module_::import_("gpulens._gauges").attr("follow")(series, self, function);
          },
          "function"_a.none(),
          nb::sig("def set_function(self, function: collections.abc.Callable[[], float] | None) -> None"),
          "Sets the gauge to function() now and then once a second, in a thread of Python, so an exported "
          "value "
          "is at most a second old. While the function raises, the value is unknown (NaN) and not exported; "
          "the "
          "error is logged. None ends it. For values that are expensive to compute, call set() instead.")
      .def(
          "track_inprogress",
          [](const Gauge& self) {
            return Blocks("TrackInprogress")(nb::cpp_function([self](double amount) { self.Add(amount); }));
          },
          nb::sig("def track_inprogress(self) -> gpulens._blocks.TrackInprogress"), kTrackDoc);
}

// Context manager of `with histogram.time():`. One block at a time.
class Stopwatch {
 public:
  explicit Stopwatch(const Histogram& of) : of_(of) {}
  Stopwatch(Stopwatch&&) = delete;
  const Histogram& of() const noexcept { return of_; }
  void Enter() { running_.emplace(of_); }
  void Exit() { running_.reset(); }

 private:
  const Histogram of_;
  std::optional<Histogram::Timer> running_;
};

void BindHistogram(nb::module_& m) {
  nb::class_<Stopwatch> timer(
      m, "HistogramTimer",
      "Context manager of Histogram.time(), for one `with` block at a time, and decorator, also of coroutine "
      "functions: each call of the function is timed on its own.");
  RefusesPickle(timer, "pickle the histogram");
  timer
      .def(
          "__enter__",
          [](nb::object self) {
            nb::cast<Stopwatch&>(self).Enter();
            return self;
          },
          nb::lock_self(), nb::sig("def __enter__(self) -> HistogramTimer"))
      .def(
          "__exit__", [](Stopwatch& self, nb::args) { self.Exit(); }, nb::lock_self(),
          nb::sig("def __exit__(self, *why: typing.Any) -> None"))
      .def(
          "__call__",
          [](const Stopwatch& self, nb::handle function) {
            const auto another = [of = self.of()] { return std::make_unique<Stopwatch>(of); };
            return Blocks("around")(function, nb::cpp_function(another));
          },
          "function"_a, nb::sig("def __call__(self, function: F) -> F"));
  static PyMethodDef methods[] = {
      FastMethod<Histogram, double, &RecordOne, kValue>::Method("record", kRecordDoc), {}};
  static PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, nullptr}};
  nb::class_<Histogram> kind(
      m, "Histogram", nb::type_slots(slots),
      (std::string(
           "Distribution of values such as latencies and sizes. With bounds, there is a bucket up to each of "
           "them and one above; without, exponential buckets that adapt to the values, accurate to a few "
           "percent over any range.\n\nbounds: ascending and finite, at most 1,024.") +
       kMadeDoc)
          .c_str());
  kind.def(
          "__init__",
          [](Histogram* self, nb::handle name, nb::handle unit, nb::handle description, nb::handle given,
             Registry* registry) {
            const std::vector<double> bounds = Numbers(given, "bounds");
            const InstrumentOptions options{.unit = Text(unit, "unit"),
                                            .description = Text(description, "description"),
                                            .bounds = bounds};
            new (self) Histogram(Made(Histogram(Text(name, "name"), options, OrProcess(registry))));
          },
          "name"_a.none(), nb::kw_only(), "unit"_a.none() = "", "description"_a.none() = "",
          "bounds"_a.none() = nb::make_tuple(), "registry"_a.none() = nb::none(),
          nb::sig("def __init__(self, name: str, *, unit: str = '', description: str = '', bounds: "
                  "collections.abc.Iterable[float] = (), registry: Registry | None = None) -> None"))
      .def("bind", &Bind<Histogram>, kBindDoc)
      .def(
          "time", [](const Histogram& self) { return new Stopwatch(self); }, nb::rv_policy::take_ownership,
          "Returns a context manager and decorator that records the duration of its block or function, also "
          "when "
          "it raises, in the histogram's unit: s, ms, us or ns. Works on coroutine functions, too. With "
          "another "
          "unit the duration is dropped and counted.");
  BindIdentity(kind);
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

nb::dict AttributesOf(const Sample& sample) { return ToDict(sample.attributes); }

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
  ValueClass<Sample>(m, "Sample",
                     "One series of a snapshot, as a plain value; numbers that it does not have are NaN.")
      .def_ro("name", &Sample::name)
      .def_prop_ro(
          "kind", [](const Sample& self) { return KindName(self.kind); },
          nb::sig("def kind(self) -> typing.Literal['counter', 'up_down_counter', 'gauge', 'histogram']"),
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
      .keeps("kind", &Sample::kind)
      .keeps("attributes", &Sample::attributes)
      .def("__repr__", &Describe);
}

bool IsProcess(const Registry& registry) { return &registry == &Registry::Process(); }

void BindRegistry(nb::module_& m) {
  nb::class_<Registry>(
      m, "Registry",
      "Owns instruments. Those created without a registry belong to process_registry(). Thread-safe.")
      .def(nb::init<>())
      .def("__repr__",
           [](const Registry& self) {
             const size_t series = WithoutGil([&] { return self.Snapshot().size(); });
             return std::string(IsProcess(self) ? "<Registry of the process, " : "<Registry, ") +
                    std::to_string(series) + " series>";
           })
      .def(
          "__reduce__",
          [](const Registry& self) {
            if (!IsProcess(self))
              throw nb::type_error(
                  "Registry cannot be pickled or copied: make one in the other process, and send its "
                  "snapshot()");
            return nb::make_tuple(nb::module_::import_("gpulens.instruments").attr("_registry"), nb::tuple());
          },
          nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"))
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
  BindCounter(m);
  BindUpDownCounter(m);
  BindSum<DoubleCounter, double>(
      m, "DoubleCounter",
      "A sum that only grows, such as joules. Negative amounts and NaN are dropped and counted.");
  BindSum<DoubleUpDownCounter, double>(m, "DoubleUpDownCounter",
                                       "A sum that rises and falls. NaN is dropped and counted.");
  BindGauge(m);
  BindHistogram(m);
}

}  // namespace gpulens::python

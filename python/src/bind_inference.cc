// gpulens.inference: the store of calls. Calls that may wait release the GIL.
#include <gpulens/inference.h>

#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include <nanobind/stl/optional.h>

#include "src/bind.h"
#include "src/fast_methods.h"
#include "src/inference_store.h"
#include "src/values.h"
#include "store/telemetry/rows.h"

namespace gpulens::python {
namespace {

std::optional<std::chrono::system_clock::time_point> At(const nb::object& when, const char* name) {
  if (when.is_none()) return std::nullopt;
  double seconds = 0;
  if (nb::hasattr(when, "total_seconds")) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    seconds = std::chrono::duration<double>(now).count() - nb::cast<double>(when.attr("total_seconds")());
  } else if (nb::hasattr(when, "timestamp")) {
    seconds = nb::cast<double>(when.attr("timestamp")());
  } else if (!nb::try_cast(when, seconds)) {
    throw nb::type_error(
        (std::string(name) + " must be a datetime, a timedelta (that long ago) or Unix seconds").c_str());
  }
  if (!(std::abs(seconds) < 9e9))
    Raise({Code::kInvalidArgument, std::string(name) + " is not a valid time: " + FloatText(seconds)});
  return telemetry::TimeOf(seconds);
}

GroupBy GroupOf(const std::optional<std::string>& name) {
  if (!name) return GroupBy::kAll;
  constexpr std::pair<const char*, GroupBy> kNames[] = {
      {"all", GroupBy::kAll},     {"model", GroupBy::kModel}, {"engine", GroupBy::kEngine},
      {"agent", GroupBy::kAgent}, {"batch", GroupBy::kBatch}, {"minute", GroupBy::kMinute},
      {"hour", GroupBy::kHour},   {"day", GroupBy::kDay}};
  for (const auto& [known, by] : kNames)
    if (*name == known) return by;
  Raise({Code::kInvalidArgument,
         "by must be model, engine, agent, batch, minute, hour or day; got \"" + *name + "\""});
}

std::string Print(const InferenceSummary& s) {
  return "InferenceSummary(" + (s.key.empty() ? std::string("all") : s.key) + ", " + std::to_string(s.calls) +
         " calls, " + std::to_string(s.errors) + " errors, " + std::to_string(s.cancelled) + " cancelled)";
}

}  // namespace

OpenStores& Opened() {
  static OpenStores opened;
  return opened;
}

bool Drain(double seconds) {
  const nb::dict modules = nb::module_::import_("sys").attr("modules");
  return !modules.contains("gpulens.inference.settle") ||
         nb::cast<bool>(modules["gpulens.inference.settle"].attr("drain")(seconds));
}

namespace {

void CloseAll() {
  std::vector<std::shared_ptr<InferenceStore>> stores;
  {
    const std::lock_guard lock(Opened().mutex);
    for (const auto& known : Opened().stores)
      if (auto store = known.lock()) stores.push_back(std::move(store));
  }
  const nb::gil_scoped_release released;
  // At the end of the program no caller is left to handle errors.
  for (const auto& store : stores) (void)store->Close();
}

PyObject* RecordOne(PyObject* self, PyObject* const* given, Py_ssize_t positional, PyObject* names) noexcept
    try {
  if (!nb::inst_ready(self) || positional > 1) {
    PyErr_SetString(PyExc_TypeError, "record() takes an InferenceRecord, or its fields as keyword arguments");
    return nullptr;
  }
  RecordFields fields;
  if (positional == 1) fields.TakeAll(given[0]);
  for (Py_ssize_t i = 0; names && i < PyTuple_Size(names); ++i)
    fields.Take(PyTuple_GetItem(names, i), given[positional + i]);
  nb::inst_ptr<StoreHandle>(self)->Record(fields.record());
  Py_RETURN_NONE;
} catch (...) {
  return RaiseCurrent();
}

// ---- a call
RecordFields FieldsOf(const nb::kwargs& given) {
  RecordFields fields;
  for (const auto& [name, value] : given) fields.Take(name.ptr(), value.ptr());
  return fields;
}

nb::object WaitFor(nb::handle self, const nb::callable& engine) {
  return nb::cast<InferenceCall&>(self).Wait([&engine] { return engine(); });
}

// The store may wait for room.
void Finish(InferenceCall& call, const InferenceRecord& known) {
  const nb::gil_scoped_release released;
  call.Finish(known);
}

void End(InferenceCall& call, const nb::args& why) {
  if (call.finished()) return;
  const nb::handle kind = why.size() > 0 ? nb::handle(why[0]) : nb::handle(Py_None);
  if (kind.is_none()) return Finish(call, {});
  if (PyObject_IsSubclass(kind.ptr(), PyExc_Exception) != 1)  // KeyboardInterrupt, CancelledError of asyncio
    return Finish(call, {.outcome = Outcome::kCancelled});
  const std::string type = nb::cast<std::string>(kind.attr("__name__"));
  Finish(call, {.error_type = type, .outcome = Outcome::kError});
}

void BindHealth(nb::module_& m) {
  using H = StoreHealth;
  ValueClass<H>(m, "StoreHealth", "Counters of the records of a store.")
      .def_ro("stored", &H::stored)
      .def_ro("queued", &H::queued, "Number of records that wait to be written.")
      .def_ro("dropped", &H::dropped,
              "Number of records that were dropped: the queue was full, or the store was closed.")
      .def_ro("rejected", &H::rejected,
              "Number of records that cannot be stored: set aside, with the reason, in a separate table.")
      .def_ro("crashed", &H::crashed, "Number of earlier writers that ended without closing the store.")
      .def_prop_ro(
          "last_error", [](const H& self) { return self.last_error.detail; },
          "Last error of writing, which is retried; empty when there is none.")
      .keeps("last_error", &H::last_error)
      .prints_all();
}

void BindCall(nb::module_& m) {
  nb::class_<InferenceCall> call(
      m, "InferenceCall",
      "A running call, recorded at the end of its `with` block: as an error when the block raises, else as "
      "ok. A call that is released without an end is cancelled. For one thread at a time.");
  RefusesPickle(call, "a call runs in one process; send the record");
  call.def("add_tokens", &InferenceCall::AddTokens, "tokens"_a,
           "Records that this many tokens have arrived at once. The first ones determine the TTFT; a gap "
           "before n tokens counts as n gaps.")
      .def("wait", &WaitFor, "engine"_a,
           nb::sig("def wait(self, engine: collections.abc.Callable[[], T]) -> T"),
           "Calls engine() and returns its result. Once wait() was used, only the time within it is the "
           "engine's time.")
      .def("enter", &InferenceCall::Enter, "Starts the engine's time: the first half of wait().")
      .def("leave", &InferenceCall::Leave, "Stops the engine's time: the second half of wait().")
      .def(
          "finish",
          [](InferenceCall& self, nb::kwargs known) {
            const RecordFields fields = FieldsOf(known);
            Finish(self, fields.record());
          },
          "Ends and records the call. Fields of InferenceRecord that are passed take precedence over "
          "measured values.",
          nb::sig("def finish(self, **known: typing.Any) -> None"))
      .def_prop_ro("finished", &InferenceCall::finished)
      .def("__repr__",
           [](const InferenceCall& self) {
             return self.finished() ? "<InferenceCall, finished>" : "<InferenceCall, running>";
           })
      .def("__enter__", &EnterSelf, nb::sig("def __enter__(self) -> InferenceCall"))
      .def("__exit__", &End, nb::sig("def __exit__(self, *why: typing.Any) -> None"));
}

// ---- the store
constexpr auto kCloseTime = std::chrono::seconds(5);

uint64_t Flush(StoreHandle& self, double timeout_seconds) {
  const auto timeout = Span(timeout_seconds, "timeout_seconds", true);
  const bool drained = Drain(timeout_seconds);
  Check(WithoutGil([&] { return self->core().Flush(timeout); }));
  if (!drained)
    Raise(
        {Code::kTimeout, self->path() + ": calls that ended wait for their energy and are not recorded yet"});
  return self->core().TakeDropped();
}
uint64_t Close(StoreHandle& self) {
  Drain(5);
  Check(WithoutGil([&] { return self->core().Close(kCloseTime); }));
  return self->core().TakeDropped();
}

WhenFull WhenFullOf(const std::string& name) {
  if (name == "block") return WhenFull::kBlock;
  if (name == "drop_newest") return WhenFull::kDropNewest;
  Raise({Code::kInvalidArgument, "when_full must be block or drop_newest; got \"" + name + "\""});
}
uint64_t Count(StoreHandle& self) {
  Drain(5);
  return Take(WithoutGil([&] { return self->Count(); }));
}
uint64_t Clear(StoreHandle& self) {
  Drain(5);
  return Take(WithoutGil([&] { return self->Clear(); }));
}

constexpr const char* kStoreDoc =
    "Stores a record of each call, in an SQLite file or, by a URL, on a PostgreSQL or ClickHouse server. A "
    "thread of its own writes.\n\npath: a file, which is created if it does not exist (\"~\" is the home "
    "folder), or postgresql://…, clickhouse://… or clickhouses://… (TLS).\nenergy: an EnergyMonitor that "
    "measures the share of each call started by begin().\nqueue_records: maximum number of records that wait "
    "to be written.\nwhen_full: what record() does when the queue is full. \"drop_newest\" never holds up "
    "the "
    "program: the record is dropped and counted, the first one is reported on stderr, and flush() and "
    "close() "
    "return the number. \"block\" waits for room, without the GIL, and raises, with the number of dropped "
    "records, when nothing could be written for 10 s (the disk is full, the server is away).\nflush_records: "
    "number of waiting records that are "
    "written without waiting for the interval.\nflush_interval_seconds: maximum time before waiting records "
    "are written.\nretention_seconds: age above which records are deleted; 0: no record is "
    "deleted.\nread_only: nothing is written, not even to a file of an older version.\n\nThread-safe. After "
    "fork() the child reopens the file. Raises the error that prevents opening: IoError, "
    "PermissionDeniedError, or DataLossError for another kind of file.";

void BindRecording(nb::class_<StoreHandle>& store) {
  const auto open = [](StoreHandle* self, nb::object path, nb::object energy, size_t queue_records,
                       const std::string& when_full, size_t flush_records, double flush_interval_seconds,
                       double retention_seconds, bool read_only) {
    EnergyMonitor* monitor = nullptr;
    if (!energy.is_none() && !nb::try_cast(energy, monitor))
      throw nb::type_error("energy must be a gpulens.EnergyMonitor or None");
    StoreOptions options{.energy = monitor,
                         .queue_records = queue_records,
                         .flush_interval = Span(flush_interval_seconds, "flush_interval_seconds", true),
                         .flush_records = flush_records,
                         .retention = Span(retention_seconds, "retention_seconds", true),
                         .read_only = read_only,
                         .when_full = WhenFullOf(when_full)};
    const std::string where = nb::cast<std::string>(nb::module_::import_("os").attr("fspath")(path));
    auto opened = WithoutGil([&] { return InferenceStore::Open(where, options); });
    new (self) StoreHandle(Take(std::move(opened)), std::move(energy));
  };
  store
      .def("__init__", open, "path"_a, nb::kw_only(), "energy"_a.none() = nb::none(),
           "queue_records"_a = 16'384, "when_full"_a = "drop_newest", "flush_records"_a = 1024,
           "flush_interval_seconds"_a = 1.0, "retention_seconds"_a = 0.0, "read_only"_a = false,
           nb::sig("def __init__(self, path: str | os.PathLike[str], *, energy: EnergyMonitor | None = None, "
                   "queue_records: int = 16384, when_full: typing.Literal['block', 'drop_newest'] = "
                   "'drop_newest', flush_records: int = 1024, "
                   "flush_interval_seconds: float = 1.0, retention_seconds: float = 0.0, read_only: bool = "
                   "False) -> None"))
      .def(
          "begin", [](StoreHandle& self, nb::kwargs known) { return self->Begin(FieldsOf(known).record()); },
          "Begins a call: `with store.begin(model=…) as call`. The arguments are fields of InferenceRecord.",
          nb::sig("def begin(self, **known: typing.Any) -> InferenceCall"))
      .def("flush", &Flush, "timeout_seconds"_a = 5.0,
           "Waits until all records recorded before are stored or set aside. Returns the number of records "
           "that were dropped since the last flush(). Raises TimeoutError, and the error that prevents "
           "writing.")
      .def("close", &Close,
           "Writes the waiting records, for at most 5 s, and returns as flush(). Records recorded later are "
           "dropped and counted. May be called twice.")
      .def("clear", &Clear, "Deletes all records and returns their number.")
      .def("count", &Count, "Returns the number of records.")
      .def_prop_ro("health", [](StoreHandle& self) { return self->health(); })
      .def_prop_ro("path", [](StoreHandle& self) { return self->path(); })
      .def("__repr__",
           [](StoreHandle& self) {
             const StoreHealth health = self->health();
             return "<InferenceStore " + nb::cast<std::string>(nb::repr(ToPython(self->path()))) + ", " +
                    std::to_string(health.stored) + " stored, " + std::to_string(health.queued) +
                    " queued, " + std::to_string(health.dropped) + " dropped>";
           })
      .def("__enter__", &EnterSelf, nb::sig("def __enter__(self) -> InferenceStore"))
      .def("__exit__", [](StoreHandle& self, nb::args) { static_cast<void>(Close(self)); });
}

// ---- summaries
void BindSummary(nb::module_& m) {
  using C = CallMeans;
  ValueClass<C>(m, "CallMeans",
                "Means over calls of each call's own ratios and percentiles: a long call weighs as much as a "
                "short one. NaN: no call measured it.")
      .def_ro("itl_median_seconds", &C::itl_median_seconds)
      .def_ro("itl_p95_seconds", &C::itl_p95_seconds)
      .def_ro("tokens_per_second", &C::tokens_per_second)
      .def_ro("tokens_per_joule", &C::tokens_per_joule)
      .def_ro("joules_per_output_token", &C::joules_per_output_token)
      .def_ro("tokens_per_second_per_watt", &C::tokens_per_second_per_watt)
      .prints_all();
  using S = InferenceSummary;
  ValueClass<S>(
      m, "InferenceSummary",
      "Summary of a group of calls. Distributions are over the calls that measured the value (n is their "
      "number), ratios are ratios of sums over the calls that have both sides. NaN: no call measured it.")
      .def_ro("key", &S::key,
              "Key of the group: a model, an engine, …, or the Unix seconds at which a minute, hour or day "
              "begins.")
      .def_ro("calls", &S::calls)
      .def_ro("errors", &S::errors)
      .def_ro("cancelled", &S::cancelled)
      .def_ro("prompt_tokens", &S::prompt_tokens)
      .def_ro("prompt_tokens_evaluated", &S::prompt_tokens_evaluated)
      .def_ro("cached_prompt_tokens", &S::cached_prompt_tokens)
      .def_ro("completion_tokens", &S::completion_tokens)
      .def_ro("total_tokens", &S::total_tokens)
      .def_ro("latency_seconds", &S::latency_seconds)
      .def_ro("ttft_seconds", &S::ttft_seconds)
      .def_ro("itl_seconds", &S::itl_seconds, "Distribution of the calls' mean inter-token latencies.")
      .def_ro("energy_joules", &S::energy_joules)
      .def_ro("cost_usd", &S::cost_usd)
      .def_ro("gpu_utilization_ratio", &S::gpu_utilization_ratio)
      .def_ro("prefill_energy_joules", &S::prefill_energy_joules, "Sum over the calls, in joules.")
      .def_ro("decode_energy_joules", &S::decode_energy_joules, "Sum over the calls, in joules.")
      .def_ro("joules_per_output_token", &S::joules_per_output_token)
      .def_ro("output_tokens_per_second", &S::output_tokens_per_second)
      .def_ro("output_tokens_per_second_per_watt", &S::output_tokens_per_second_per_watt,
              "Ratio to the measured energy; for calls without it, to their mean watts times their seconds.")
      .def_ro("joules_per_token", &S::joules_per_token,
              "Energy of all calls with known energy, divided by all their prompt and completion tokens; "
              "calls without tokens are included.")
      .def_ro("call_means", &S::call_means, "Means of each call's own ratios and percentiles.")
      .def("__repr__", &Print);
}

void BindQuerying(nb::class_<StoreHandle>& store) {
  const auto summary = [](StoreHandle& self, nb::object since, nb::object until,
                          std::optional<std::string> by, std::string model, std::string engine,
                          std::string agent, std::string batch_id, bool warmup,
                          std::optional<int64_t> token_counting_version, size_t limit) {
    const Query query{.since = At(since, "since"),
                      .until = At(until, "until"),
                      .by = GroupOf(by),
                      .model = std::move(model),
                      .engine = std::move(engine),
                      .agent = std::move(agent),
                      .batch_id = std::move(batch_id),
                      .warmup = warmup,
                      .token_counting_version = token_counting_version,
                      .limit = limit};
    Drain(5);
    return Take(WithoutGil([&] { return self->Summarize(query); }));
  };
  store.def(
      "summary", summary, nb::kw_only(), "since"_a = nb::none(), "until"_a = nb::none(), "by"_a = nb::none(),
      "model"_a = "", "engine"_a = "", "agent"_a = "", "batch_id"_a = "", "warmup"_a = false,
      "token_counting_version"_a = nb::none(), "limit"_a = 0,
      "Returns summaries of the stored calls, in groups.\n\nsince, until: a datetime, Unix seconds, or a "
      "timedelta (that long ago); both included.\nby: \"model\", \"engine\", \"agent\", \"batch\", "
      "\"minute\", \"hour\" or \"day\"; None: one group of all calls.\nmodel, engine, agent, batch_id: only "
      "calls with this value.\nwarmup: include warm-up calls.\ntoken_counting_version: only calls whose "
      "tokens were counted by this version; None: all.\nlimit: only this number of the largest groups; 0: "
      "all.\n\nFlushes before. Raises IoError and other classes of gpulens.errors when the file cannot be "
      "read.",
      nb::sig("def summary(self, *, since: datetime.datetime | datetime.timedelta | float | None = "
              "None, until: "
              "datetime.datetime | datetime.timedelta | float | None = None, by: typing.Literal['model', "
              "'engine', 'agent', 'batch', 'minute', 'hour', 'day'] | None = None, "
              "model: str = '', engine: str = '', "
              "agent: str = '', batch_id: str = '', warmup: bool = False, token_counting_version: int | None "
              "= None, limit: int = 0) -> "
              "list[InferenceSummary]"));
}

}  // namespace

void BindInference(nb::module_& m) {
  BindSummary(m);
  BindHealth(m);
  BindCall(m);
  static PyMethodDef methods[] = {
      {"record", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&RecordOne)),
       METH_FASTCALL | METH_KEYWORDS,
       "record($self, record=None, /, **fields)\n--\n\nRecords a call: an InferenceRecord, or its fields by "
       "name. Neither waits nor fails, except with a TypeError, unless the store was opened with "
       "when_full=\"block\"; records that cannot be stored are counted in health."},
      {}};
  static PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, nullptr}};
  nb::class_<StoreHandle> store(m, "InferenceStore", nb::type_slots(slots), kStoreDoc);
  RefusesPickle(store, "open it in the other process with InferenceStore(store.path)");
  BindRecording(store);
  BindQuerying(store);
  m.def("_close_inference_stores", &CloseAll);
}

}  // namespace gpulens::python

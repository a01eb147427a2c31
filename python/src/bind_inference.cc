// gpulens.inference: the store of calls. Calls that may wait release the GIL.
#include <gpulens/inference.h>

#include <cmath>
#include <memory>
#include <vector>

#include <nanobind/stl/vector.h>

#include "src/hot.h"
#include "src/inference_store.h"
#include "src/record_fields.h"

namespace gpulens::python {

OpenStores& Opened() {
  static OpenStores opened;
  return opened;
}

void Drain(double seconds) {
  const nb::dict modules = nb::module_::import_("sys").attr("modules");
  if (modules.contains("gpulens.inference.settle"))
    modules["gpulens.inference.settle"].attr("drain")(seconds);
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
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
    fields.Take(PyTuple_GET_ITEM(names, i), given[positional + i]);
  (*nb::inst_ptr<Store>(self))->Record(fields.record());
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

void End(InferenceCall& call, const nb::args& why) {
  if (call.finished()) return;
  const nb::handle kind = why.size() > 0 ? nb::handle(why[0]) : nb::handle(Py_None);
  if (kind.is_none()) return call.Finish();
  if (PyObject_IsSubclass(kind.ptr(), PyExc_Exception) != 1)  // KeyboardInterrupt, asyncio's CancelledError
    return call.Finish({.outcome = Outcome::kCancelled});
  const std::string type = nb::cast<std::string>(kind.attr("__name__"));
  call.Finish({.error_type = type, .outcome = Outcome::kError});
}

void BindHealth(nb::module_& m) {
  using H = StoreHealth;
  nb::class_<H>(m, "StoreHealth", "Counters of the records of a store.")
      .def_ro("stored", &H::stored)
      .def_ro("queued", &H::queued, "Number of records that wait to be written.")
      .def_ro("dropped", &H::dropped,
              "Number of records that were lost: the queue was full, or the store was closed.")
      .def_ro("rejected", &H::rejected,
              "Number of records that cannot be stored: set aside, with the reason, in a separate table.")
      .def_ro("crashed", &H::crashed, "Number of earlier writers that ended without closing the store.")
      .def_prop_ro(
          "last_error", [](const H& self) { return self.last_error.detail; },
          "Last error of writing, which is retried; empty when there is none.");
}

void BindCall(nb::module_& m) {
  nb::class_<InferenceCall>(
      m, "InferenceCall",
      "A running call, recorded at the end of its `with` block: as an error when the block raises, else as "
      "ok. A call that is released without an end is cancelled. For one thread at a time.")
      .def("add_tokens", &InferenceCall::AddTokens, "tokens"_a,
           "Records that this many tokens have arrived at once. The first ones determine the TTFT; a gap "
           "before n tokens counts as n gaps.")
      .def("wait", &WaitFor, "engine"_a,
           "Calls engine() and returns its result. Once wait() was used, only the time within it is the "
           "engine's time.")
      .def("enter", &InferenceCall::Enter, "Starts the engine's time: the first half of wait().")
      .def("leave", &InferenceCall::Leave, "Stops the engine's time: the second half of wait().")
      .def(
          "finish", [](InferenceCall& self, nb::kwargs known) { self.Finish(FieldsOf(known).record()); },
          "Ends and records the call. Fields of InferenceRecord that are passed take precedence over "
          "measured values.",
          nb::sig("def finish(self, **known: typing.Any) -> None"))
      .def_prop_ro("finished", &InferenceCall::finished)
      .def("__enter__", &EnterSelf, nb::sig("def __enter__(self) -> InferenceCall"))
      .def("__exit__", &End, nb::sig("def __exit__(self, *why: typing.Any) -> None"));
}

// ---- the store
void Flush(Store& self, double timeout_seconds) {
  const auto timeout = Span(timeout_seconds, "timeout_seconds", true);
  Drain(timeout_seconds);
  Check(WithoutGil([&] { return self->Flush(timeout); }));
}
void Close(Store& self) {
  Drain(5);
  Check(WithoutGil([&] { return self->Close(); }));
}
uint64_t Count(Store& self) {
  Drain(5);
  return Take(WithoutGil([&] { return self->Count(); }));
}
uint64_t Clear(Store& self) {
  Drain(5);
  return Take(WithoutGil([&] { return self->Clear(); }));
}

constexpr const char* kStoreDoc =
    "Stores a record of each call, in an SQLite file or, by a URL, on a PostgreSQL or ClickHouse server. A "
    "thread of its own writes.\n\npath: a file, which is created if it does not exist (\"~\" is the home "
    "folder), or postgresql://…, clickhouse://… or clickhouses://… (TLS).\nenergy: an EnergyMonitor that "
    "measures the share of each call started by begin().\nqueue_records: maximum number of records that wait "
    "to be written; further ones are dropped and counted.\nflush_records: number of waiting records that are "
    "written without waiting for the interval.\nflush_interval_seconds: maximum time before waiting records "
    "are written.\nretention_seconds: age above which records are deleted; 0: no record is "
    "deleted.\nread_only: nothing is written, not even to a file of an older version.\n\nThread-safe. After "
    "fork() the child reopens the file. Raises the error that prevents opening: IoError, "
    "PermissionDeniedError, or DataLossError for another kind of file.";

void BindRecording(nb::class_<Store>& store) {
  const auto open = [](Store* self, nb::object path, nb::object energy, size_t queue_records,
                       size_t flush_records, double flush_interval_seconds, double retention_seconds,
                       bool read_only) {
    EnergyMonitor* monitor = nullptr;
    if (!energy.is_none() && !nb::try_cast(energy, monitor))
      throw nb::type_error("energy must be a gpulens.EnergyMonitor or None");
    StoreOptions options{.energy = monitor,
                         .queue_records = queue_records,
                         .flush_interval = Span(flush_interval_seconds, "flush_interval_seconds", true),
                         .flush_records = flush_records,
                         .retention = Span(retention_seconds, "retention_seconds", true),
                         .read_only = read_only};
    const std::string where = nb::cast<std::string>(nb::module_::import_("os").attr("fspath")(path));
    auto opened = WithoutGil([&] { return InferenceStore::Open(where, options); });
    new (self) Store(Take(std::move(opened)), std::move(energy));
  };
  store
      .def("__init__", open, "path"_a, nb::kw_only(), "energy"_a.none() = nb::none(),
           "queue_records"_a = 16'384, "flush_records"_a = 1024, "flush_interval_seconds"_a = 1.0,
           "retention_seconds"_a = 0.0, "read_only"_a = false,
           nb::sig("def __init__(self, path: str | os.PathLike[str], *, energy: EnergyMonitor | None = None, "
                   "queue_records: int = 16384, flush_records: int = 1024, "
                   "flush_interval_seconds: float = 1.0, retention_seconds: float = 0.0, read_only: bool = "
                   "False) -> None"))
      .def(
          "begin", [](Store& self, nb::kwargs known) { return self->Begin(FieldsOf(known).record()); },
          "Begins a call: `with store.begin(model=…) as call`. The arguments are fields of InferenceRecord.",
          nb::sig("def begin(self, **known: typing.Any) -> InferenceCall"))
      .def("flush", &Flush, "timeout_seconds"_a = 5.0,
           "Waits until all records recorded before are stored or set aside. Raises TimeoutError.")
      .def("close", &Close,
           "Writes the waiting records. Records recorded later are dropped and counted. May be called twice.")
      .def("clear", &Clear, "Deletes all records and returns their number.")
      .def("count", &Count, "Returns the number of records.")
      .def_prop_ro("health", [](Store& self) { return self->health(); })
      .def_prop_ro("path", [](Store& self) { return self->path(); })
      .def("__enter__", &EnterSelf, nb::sig("def __enter__(self) -> InferenceStore"))
      .def("__exit__", [](Store& self, nb::args) { Close(self); });
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
       "name. Neither waits nor fails, except with a TypeError; records that cannot be stored are counted in "
       "health."},
      {}};
  static PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, nullptr}};
  nb::class_<Store> store(m, "InferenceStore", nb::type_slots(slots), kStoreDoc);
  BindRecording(store);
  BindQuerying(store);
  m.def("_close_inference_stores", &CloseAll);
}

}  // namespace gpulens::python

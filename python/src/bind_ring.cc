// Native part of gpulens.ring: telemetry of kernels. The runtime is written in Python.
#include <gpulens/kernel_telemetry.h>

#include <time.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include <nanobind/stl/optional.h>

#include "src/values.h"

namespace gpulens::python {
namespace {

nb::object StateOf(KernelState state) {
  return nb::module_::import_("gpulens.ring.states").attr("KernelState")(ToPython(KernelStateName(state)));
}

KernelState StateNamed(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(KernelState::kFailed); ++i) {
    if (KernelStateName(static_cast<KernelState>(i)) == name) return static_cast<KernelState>(i);
  }
  Raise({Code::kInvalidArgument, "unknown kernel state \"" + std::string(name) + "\""});
}

DropReason ReasonNamed(std::string_view name) {
  std::string known;
  for (size_t i = 0; i < kDropReasons; ++i) {
    const auto reason = static_cast<DropReason>(i);
    if (DropReasonName(reason) == name) return reason;
    known += (i == 0 ? "" : ", ") + std::string(DropReasonName(reason));
  }
  Raise({Code::kInvalidArgument, "unknown drop reason \"" + std::string(name) + "\"; use one of: " + known});
}

using Time = std::optional<std::chrono::system_clock::time_point>;
std::optional<double> UnixSeconds(const Time& time) {
  if (!time) return std::nullopt;
  return std::chrono::duration<double>(time->time_since_epoch()).count();
}

nb::dict DroppedBy(const KernelTelemetry& self) {
  nb::dict out;
  for (size_t i = 0; i < kDropReasons; ++i)
    out[ToPython(DropReasonName(static_cast<DropReason>(i)))] = nb::int_(self.dropped_by[i]);
  return out;
}

std::string Print(const KernelTelemetry& self) {
  char rate[64];
  std::snprintf(rate, sizeof rate, "%.1f messages/s)", self.throughput);
  return "KernelTelemetry(" + self.kernel_id + ", " + std::string(KernelStateName(self.state)) + ", " +
         std::to_string(self.messages_processed) + " processed, " + std::to_string(self.errors) +
         " errors, " + std::to_string(self.dropped) + " dropped, " + rate;
}

void BindTelemetry(nb::module_& m) {
  ValueClass<KernelTelemetry>(m, "KernelTelemetry",
                              "Telemetry of one kernel at one instant; all values are consistent with each "
                              "other. Counts, latencies and throughput begin at the start or at the last "
                              "reset. Throughput is in processed messages per second.")
      .def_ro("kernel_id", &KernelTelemetry::kernel_id)
      .def_prop_ro(
          "state", [](const KernelTelemetry& self) { return StateOf(self.state); },
          nb::sig("def state(self) -> gpulens.ring.states.KernelState"),
          "State of the kernel, a gpulens.ring.KernelState.")
      .def_ro("messages_received", &KernelTelemetry::messages_received,
              "Number of messages that the queue accepted.")
      .def_ro("messages_sent", &KernelTelemetry::messages_sent, "Number of replies that were sent.")
      .def_ro("messages_processed", &KernelTelemetry::messages_processed,
              "Number of messages whose handler returned without an exception.")
      .def_ro("errors", &KernelTelemetry::errors, "Number of exceptions while a message was processed.")
      .def_ro("dropped", &KernelTelemetry::dropped,
              "Number of messages that never reached the handler, and of lost replies.")
      .def_prop_ro(
          "dropped_by", &DroppedBy, nb::sig("def dropped_by(self) -> dict[str, int]"),
          "Number of dropped messages by reason: rejected, timeout, oldest, newest, terminated, reply.")
      .def_prop_ro(
          "last_error",
          [](const KernelTelemetry& self) -> std::optional<std::string> {
            if (self.last_error.empty()) return std::nullopt;
            return self.last_error;
          },
          "The last error, at most 255 bytes of it; None: no error since the last reset.")
      .def_prop_ro(
          "start_time", [](const KernelTelemetry& self) { return UnixSeconds(self.start_time); },
          "Time of the activation, as time.time(); None: never activated.")
      .def_prop_ro(
          "last_message_time",
          [](const KernelTelemetry& self) { return UnixSeconds(self.last_message_time); },
          "Last time a message was received, answered or failed, as time.time(); None: never.")
      .def_prop_ro(
          "uptime", [](const KernelTelemetry& self) { return SecondsOf(self.uptime); },
          "Seconds since the start, regardless of resets; constant after the kernel's end.")
      .def_ro("throughput", &KernelTelemetry::throughput, "Throughput over the uptime since the last reset.")
      .def_ro("throughput_1s", &KernelTelemetry::throughput_1s, "Throughput over the last second.")
      .def_ro("throughput_10s", &KernelTelemetry::throughput_10s)
      .def_ro("throughput_60s", &KernelTelemetry::throughput_60s)
      .def_ro("error_rate", &KernelTelemetry::error_rate,
              "Errors per processed message, a ratio; 1.0 when there are only errors.")
      .def_ro("wait_seconds", &KernelTelemetry::wait_seconds,
              "Time of messages in the queue, until the handler begins.")
      .def_ro("service_seconds", &KernelTelemetry::service_seconds,
              "Time of the handler, including messages that raise an exception.")
      .def_ro("queue_depth", &KernelTelemetry::queue_depth, "Current number of messages in the queue.")
      .def_ro("queue_high_water", &KernelTelemetry::queue_high_water,
              "Maximum queue_depth since the last reset.")
      .def_ro("queue_limit", &KernelTelemetry::queue_limit, "Capacity of the queue; 0: unknown.")
      .def_ro("cpu_seconds", &KernelTelemetry::cpu_seconds, "Processor time in seconds; NaN: not measured.")
      .def_ro("cpu_ratio", &KernelTelemetry::cpu_ratio,
              "Processor time per elapsed time since the last reset; 1.0 is one fully used processor.")
      .keeps("state", &KernelTelemetry::state)
      .keeps("dropped_by", &KernelTelemetry::dropped_by)
      .keeps("last_error", &KernelTelemetry::last_error)
      .keeps("start_time", &KernelTelemetry::start_time)
      .keeps("last_message_time", &KernelTelemetry::last_message_time)
      .keeps("uptime", &KernelTelemetry::uptime)
      .def("__repr__", &Print);
}

// The three calls of each message are plain C functions of the type, as in src/fast_methods.h.
const KernelRecorder* RecorderOf(PyObject* self, Py_ssize_t given, Py_ssize_t wanted) noexcept {
  if (given == wanted && nb::inst_ready(self)) [[likely]]
    return nb::inst_ptr<KernelRecorder>(self);
  PyErr_Format(PyExc_TypeError, "expected %zd arguments, got %zd", wanted, given);
  return nullptr;
}

PyObject* FastReceive(PyObject* self, PyObject* const* given, Py_ssize_t count) noexcept {
  const KernelRecorder* const to = RecorderOf(self, count, 1);
  if (!to) return nullptr;
  const uint64_t depth = PyLong_AsUnsignedLongLong(given[0]);
  if (depth == UINT64_MAX && PyErr_Occurred()) return nullptr;
  return PyFloat_FromDouble(SecondsOf(to->Receive(depth).time_since_epoch()));
}

PyObject* FastBegin(PyObject* self, PyObject* const* given, Py_ssize_t count) noexcept {
  const KernelRecorder* const to = RecorderOf(self, count, 2);
  if (!to) return nullptr;
  const uint64_t depth = PyLong_AsUnsignedLongLong(given[0]);
  if (depth == UINT64_MAX && PyErr_Occurred()) return nullptr;
  const double received = PyFloat_AsDouble(given[1]);
  if (received == -1 && PyErr_Occurred()) return nullptr;
  if (!(std::abs(received) < 9e9)) {
    PyErr_SetString(PyExc_TypeError, "received must be a result of receive()");
    return nullptr;
  }
  to->Begin(depth, SteadyTime(received));
  Py_RETURN_NONE;
}

PyObject* FastDone(PyObject* self, PyObject* const* given, Py_ssize_t count) noexcept {
  const KernelRecorder* const to = RecorderOf(self, count, 1);
  if (!to) return nullptr;
  const int sent = PyObject_IsTrue(given[0]);
  if (sent < 0) return nullptr;
  to->Done(sent != 0);
  Py_RETURN_NONE;
}

using FastCall = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t) noexcept;
PyMethodDef FastEntry(const char* name, FastCall call, const char* doc) noexcept {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call)), METH_FASTCALL, doc};
}

void BindRecorder(nb::module_& m) {
  static PyMethodDef methods[] = {
      FastEntry("receive", &FastReceive,
                "receive($self, depth, /)\n--\n\nRecords that the queue accepted a message and now has "
                "`depth` messages. Returns the time, for begin(). Starts a kernel that has no state yet."),
      FastEntry("begin", &FastBegin,
                "begin($self, depth, received, /)\n--\n\nRecords that the handler begins with the message "
                "that was received at the time `received`; the queue has `depth` messages left. For a kernel "
                "that processes one message at a time."),
      FastEntry("done", &FastDone,
                "done($self, sent, /)\n--\n\nRecords that the handler has finished the message that it "
                "began; `sent`: a reply was sent, too. Without such a message, records only the reply."),
      {}};
  static PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, nullptr}};
  nb::class_<KernelRecorder> recorder(
      m, "KernelRecorder", nb::type_slots(slots),
      "Records the telemetry of one kernel of a TelemetryCollector, without looking "
      "it up. Thread-safe; counts are exact under any number of threads. The recorder "
      "of a disabled collector records nothing and is false.");
  RefusesPickle(recorder, "make a TelemetryCollector in the other process, and send its get_all_telemetry()");
  recorder.def("__bool__", [](const KernelRecorder& self) { return static_cast<bool>(self); })
      .def(
          "set_state",
          [](const KernelRecorder& self, std::string_view state) { self.SetState(StateNamed(state)); },
          "state"_a,
          "Sets the state, a KernelState or its value. The first \"active\" is the kernel's start.")
      .def("__repr__",
           [](const KernelRecorder& self) {
             const auto telemetry = self.Telemetry();
             return telemetry ? "<KernelRecorder " + telemetry->kernel_id + ">"
                              : std::string("<KernelRecorder, disabled>");
           })
      .def("set_queue_limit", &KernelRecorder::SetQueueLimit, "limit"_a)
      .def("set_queue_depth", &KernelRecorder::SetQueueDepth, "depth"_a,
           "Sets the queue depth after messages left the queue other than through take().")
      .def("take", &KernelRecorder::Take, "depth"_a, "wait_seconds"_a,
           "Records that a message left the queue for its handler. A wait of NaN is unknown.")
      .def("processed", &KernelRecorder::Processed, "service_seconds"_a = kNotMeasured, "sent"_a = false,
           "Records that a handler returned; `sent`: it sent a reply.")
      .def("send", &KernelRecorder::Send,
           "Records a reply. Before any call of done() or processed(), the first reply after a receive() "
           "counts its message as processed.")
      .def("error", &KernelRecorder::Error, "what"_a = "", "service_seconds"_a = kNotMeasured)
      .def(
          "drop",
          [](const KernelRecorder& self, std::string_view reason, uint64_t count) {
            self.Drop(ReasonNamed(reason), count);
          },
          "reason"_a, "count"_a = 1,
          "Counts dropped messages. reason: rejected, timeout, oldest, newest, terminated or reply.")
      .def("add_cpu", &KernelRecorder::AddCpu, "seconds"_a)
      .def("telemetry", &KernelRecorder::Telemetry,
           "Returns a KernelTelemetry, also after the collector has removed the kernel. None: the collector "
           "is disabled.");
}

std::string TextOf(const nb::object& error) {
  if (error.is_none()) return {};
  if (nb::isinstance<nb::str>(error)) return nb::cast<std::string>(error);
  const std::string text = nb::str(error).c_str();
  const std::string kind = nb::type_name(error.type()).c_str();
  return text.empty() ? kind : kind + ": " + text;
}

nb::dict ById(const std::vector<KernelTelemetry>& all) {
  nb::dict out;
  for (const KernelTelemetry& one : all) out[ToPython(one.kernel_id)] = nb::cast(one);
  return out;
}

void PutQuantiles(nb::dict& row, const std::string& of, const Distribution& values) {
  const std::pair<const char*, double> parts[] = {{"_p50_seconds", values.p50},
                                                  {"_p95_seconds", values.p95},
                                                  {"_p99_seconds", values.p99},
                                                  {"_mean_seconds", values.mean}};
  for (const auto& [name, value] : parts) row[ToPython(of + name)] = nb::float_(value);
}

nb::dict SummaryOf(const TelemetryCollector& self) {
  const KernelSummary summary = self.Summary();
  nb::dict out;
  out["kernel_count"] = nb::int_(summary.kernel_count);
  out["total_messages"] = nb::int_(summary.total_messages);
  out["total_errors"] = nb::int_(summary.total_errors);
  out["total_dropped"] = nb::int_(summary.total_dropped);
  out["aggregate_throughput"] = nb::float_(summary.aggregate_throughput);
  nb::dict kernels;
  for (const KernelTelemetry& one : summary.per_kernel) {
    nb::dict row;
    row["state"] = ToPython(KernelStateName(one.state));
    row["messages_received"] = nb::int_(one.messages_received);
    row["messages_sent"] = nb::int_(one.messages_sent);
    row["messages_processed"] = nb::int_(one.messages_processed);
    row["errors"] = nb::int_(one.errors);
    row["dropped"] = nb::int_(one.dropped);
    row["dropped_by"] = DroppedBy(one);
    row["throughput"] = nb::float_(one.throughput);
    row["error_rate"] = nb::float_(one.error_rate);
    row["uptime"] = nb::float_(SecondsOf(one.uptime));
    row["queue_depth"] = nb::int_(one.queue_depth);
    PutQuantiles(row, "wait", one.wait_seconds);
    PutQuantiles(row, "service", one.service_seconds);
    row["cpu_ratio"] = nb::float_(one.cpu_ratio);
    kernels[ToPython(one.kernel_id)] = std::move(row);
  }
  out["per_kernel"] = std::move(kernels);
  return out;
}

void BindCollector(nb::module_& m) {
  nb::class_<TelemetryCollector> collector(
      m, "TelemetryCollector",
      "Telemetry of kernels by ID. Thread-safe. A registry exports it as ring_kernel.* with the attribute "
      "ring_kernel.id; the exported counts never fall, regardless of resets.\n\nenabled: False records "
      "nothing.\nregistry: by default the registry of the process.");
  RefusesPickle(collector, "make one in the other process, and send its get_all_telemetry()");
  collector
      .def(
          "__init__",
          [](TelemetryCollector* self, bool enabled, Registry* registry) {
            new (self) TelemetryCollector(enabled, &OrProcess(registry));
          },
          "enabled"_a = true, nb::kw_only(), "registry"_a.none() = nb::none(), nb::keep_alive<1, 3>())
      .def_prop_ro("enabled", &TelemetryCollector::enabled)
      .def("__repr__",
           [](const TelemetryCollector& self) {
             if (!self.enabled()) return std::string("<TelemetryCollector, disabled>");
             return "<TelemetryCollector, " + std::to_string(self.AllTelemetry().size()) + " kernels>";
           })
      .def("kernel", &TelemetryCollector::Kernel, "kernel_id"_a,
           "Returns the KernelRecorder of a kernel, and registers the kernel if it is unknown.")
      .def(
          "find", &TelemetryCollector::Find, "kernel_id"_a,
          "Returns the KernelRecorder of a known kernel, also of one that has ended; else an empty recorder.")
      .def("record_receive", &TelemetryCollector::RecordReceive, "kernel_id"_a,
           "Records that the kernel's queue accepted a message. Starts a kernel that has no state yet.")
      .def("record_send", &TelemetryCollector::RecordSend, "kernel_id"_a,
           "Records a reply of the kernel. Before any call of record_processed() for it, the first reply "
           "after a message counts that message as processed.")
      .def("record_processed", &TelemetryCollector::RecordProcessed, "kernel_id"_a,
           "service_seconds"_a = kNotMeasured,
           "Records that the kernel has processed a message. A service_seconds of NaN is unknown.")
      .def(
          "record_error",
          [](TelemetryCollector& self, std::string_view id, const nb::object& error) {
            self.RecordError(id, TextOf(error));
          },
          "kernel_id"_a, "error"_a.none() = nb::none(),
          nb::sig("def record_error(self, kernel_id: str, error: BaseException | str | None = None) -> None"),
          "Records an exception, or a text, while the kernel processed a message; last_error is the last "
          "one.")
      .def("get_telemetry", &TelemetryCollector::Telemetry, "kernel_id"_a,
           "Returns a KernelTelemetry; None where there is no such kernel.")
      .def(
          "get_all_telemetry", [](const TelemetryCollector& self) { return ById(self.AllTelemetry()); },
          nb::sig("def get_all_telemetry(self) -> dict[str, KernelTelemetry]"),
          "Returns the telemetry of all kernels, by ID.")
      .def("get_summary", &SummaryOf, nb::sig("def get_summary(self) -> dict[str, typing.Any]"),
           "Returns kernel_count, without ended kernels; total_messages (processed), total_errors, "
           "total_dropped and aggregate_throughput; and per_kernel, a dict by ID. Computed on each call.")
      .def(
          "reset",
          [](TelemetryCollector& self, std::optional<std::string_view> id) {
            if (!id) return self.Reset();
            if (!id->empty()) self.Reset(*id);
          },
          "kernel_id"_a.none() = nb::none(),
          "Resets the counts, latencies and throughput of a kernel; None: of all kernels. start_time is "
          "kept. A kernel that has ended is removed.");
}

// Reading a thread's clock takes about half a microsecond, more than telemetry may cost: the first kExact
// steps are measured, then every kEach-th as an estimate. kEach is prime, since programs have periods of
// powers of two and ten.
constexpr uint64_t kExact = 16, kEach = 31;

double ThreadSeconds() noexcept {
  timespec at{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
  return static_cast<double>(at.tv_sec) + static_cast<double>(at.tv_nsec) * 1e-9;
}

// Awaitable around a coroutine, which it owns. Used by the event loop's thread.
class Metered {
 public:
  Metered(nb::object work, const KernelRecorder& recorder) : work_(std::move(work)), recorder_(recorder) {}

  // Returns the result of `go`; null: the coroutine raised, or returned, which sets StopIteration.
  template <class Go>
  PyObject* Step(const Go& go) noexcept {
    ++steps_;
    const uint64_t weight = steps_ <= kExact ? 1 : steps_ % kEach == 0 ? kEach : 0;
    if (weight == 0) return go(work_.ptr());
    const double begun = ThreadSeconds();
    PyObject* const result = go(work_.ptr());
    recorder_.AddCpu((ThreadSeconds() - begun) * static_cast<double>(weight));
    return result;
  }

 private:
  const nb::object work_;
  const KernelRecorder recorder_;
  uint64_t steps_ = 0;
};

PyObject* Resume(PyObject* work) noexcept {
#if PY_VERSION_HEX >= 0x030A0000
  PyObject* result = nullptr;
  if (PyIter_Send(work, Py_None, &result) != PYGEN_RETURN) return result;
  if (PyObject* const end = PyObject_CallFunctionObjArgs(PyExc_StopIteration, result, nullptr)) {
    PyErr_SetObject(PyExc_StopIteration, end);
    Py_DECREF(end);
  }
  Py_DECREF(result);
  return nullptr;
#else
  static PyObject* const send = PyUnicode_InternFromString("send");
  return PyObject_CallMethodObjArgs(work, send, Py_None, nullptr);
#endif
}

PyObject* Next(PyObject* self) noexcept { return nb::inst_ptr<Metered>(self)->Step(&Resume); }

PyObject* Self(PyObject* self) noexcept {
  Py_INCREF(self);
  return self;
}

nb::object Throw(Metered& self, nb::args what) {
  PyObject* const result = self.Step([&what](PyObject* work) -> PyObject* {
    PyObject* const method = PyObject_GetAttrString(work, "throw");
    if (!method) return nullptr;
    PyObject* const thrown = PyObject_CallObject(method, what.ptr());
    Py_DECREF(method);
    return thrown;
  });
  if (!result) throw nb::python_error();
  return nb::steal(result);
}

}  // namespace

void BindRing(nb::module_& m) {
  BindTelemetry(m);
  BindRecorder(m);
  BindCollector(m);
}

void BindMetered(nb::module_& m) {
  static PyType_Slot slots[] = {{Py_tp_iternext, reinterpret_cast<void*>(&Next)},
                                {Py_tp_iter, reinterpret_cast<void*>(&Self)},
                                {Py_am_await, reinterpret_cast<void*>(&Self)},
                                {0, nullptr}};
  nb::class_<Metered> metered(
      m, "Metered", nb::type_slots(slots),
      "Awaits a coroutine and adds to a KernelRecorder the processor time of its steps on the event loop's "
      "thread, not of the code between them: exact for the first 16 steps, then an estimate from every "
      "31st.");
  RefusesPickle(metered, "a coroutine runs in one process");
  metered
      .def(nb::init<nb::object, const KernelRecorder&>(), "work"_a, "recorder"_a,
           nb::sig("def __init__(self, work: collections.abc.Coroutine, recorder: KernelRecorder) -> None"))
      .def("throw", &Throw, nb::sig("def throw(self, *what: typing.Any) -> typing.Any"));
}

}  // namespace gpulens::python

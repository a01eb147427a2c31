// gpulens.ring: what kernels of Python record, and how it is told. The runtime itself is Python's.
#include <gpulens/kernel_telemetry.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <nanobind/stl/optional.h>

#include "src/bind.h"

namespace gpulens::python {
namespace {

nb::object StateOf(KernelState state) {
  return nb::module_::import_("gpulens.ring.states").attr("KernelState")(ToPython(KernelStateName(state)));
}

KernelState StateNamed(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(KernelState::kFailed); ++i) {
    if (KernelStateName(static_cast<KernelState>(i)) == name) return static_cast<KernelState>(i);
  }
  Raise({Code::kInvalidArgument, "\"" + std::string(name) + "\" is no state of a kernel"});
}

DropReason ReasonNamed(std::string_view name) {
  std::string known;
  for (size_t i = 0; i < kDropReasons; ++i) {
    const auto reason = static_cast<DropReason>(i);
    if (DropReasonName(reason) == name) return reason;
    known += (i == 0 ? "" : ", ") + std::string(DropReasonName(reason));
  }
  Raise({Code::kInvalidArgument,
         "\"" + std::string(name) + "\" is no reason to drop a message; " + known + " are"});
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

double Seconds(Duration span) noexcept { return std::chrono::duration<double>(span).count(); }

void BindTelemetry(nb::module_& m) {
  nb::class_<KernelTelemetry>(
      m, "KernelTelemetry",
      "One kernel's numbers at one instant, which never contradict each other. Counts, latencies "
      "and throughput begin at the start or at the last reset. Throughput is of processed "
      "messages, per second.")
      .def_ro("kernel_id", &KernelTelemetry::kernel_id)
      .def_prop_ro(
          "state", [](const KernelTelemetry& self) { return StateOf(self.state); },
          nb::sig("def state(self) -> gpulens.ring.states.KernelState"), "A gpulens.ring.KernelState.")
      .def_ro("messages_received", &KernelTelemetry::messages_received, "That the queue took.")
      .def_ro("messages_sent", &KernelTelemetry::messages_sent, "Replies that were sent.")
      .def_ro("messages_processed", &KernelTelemetry::messages_processed,
              "Whose handler came back without an exception.")
      .def_ro("errors", &KernelTelemetry::errors, "Exceptions while a message was worked on.")
      .def_ro("dropped", &KernelTelemetry::dropped,
              "Messages that never reached the handler, and lost replies.")
      .def_prop_ro("dropped_by", &DroppedBy, nb::sig("def dropped_by(self) -> dict[str, int]"),
                   "The same by reason: rejected, timeout, oldest, newest, terminated, reply.")
      .def_prop_ro(
          "last_error",
          [](const KernelTelemetry& self) -> std::optional<std::string> {
            if (self.last_error.empty()) return std::nullopt;
            return self.last_error;
          },
          "At most 255 bytes of it; None: there was none since the last reset.")
      .def_prop_ro(
          "start_time", [](const KernelTelemetry& self) { return UnixSeconds(self.start_time); },
          "As time.time(); None: never activated.")
      .def_prop_ro(
          "last_message_time",
          [](const KernelTelemetry& self) { return UnixSeconds(self.last_message_time); },
          "As time.time(): a message was taken in, answered or failed; None: never.")
      .def_prop_ro(
          "uptime", [](const KernelTelemetry& self) { return Seconds(self.uptime); },
          "Seconds since the start, whatever was reset; stands still at the end.")
      .def_ro("throughput", &KernelTelemetry::throughput, "Over the uptime since the last reset.")
      .def_ro("throughput_1s", &KernelTelemetry::throughput_1s, "Over the last second.")
      .def_ro("throughput_10s", &KernelTelemetry::throughput_10s)
      .def_ro("throughput_60s", &KernelTelemetry::throughput_60s)
      .def_ro("error_rate", &KernelTelemetry::error_rate,
              "Errors for each message processed, a ratio; 1.0 when there are errors alone.")
      .def_ro("wait_seconds", &KernelTelemetry::wait_seconds, "In the queue, until the handler began.")
      .def_ro("service_seconds", &KernelTelemetry::service_seconds,
              "The handler's time, exceptions included.")
      .def_ro("queue_depth", &KernelTelemetry::queue_depth, "Messages in the queue.")
      .def_ro("queue_high_water", &KernelTelemetry::queue_high_water,
              "The most of them since the last reset.")
      .def_ro("queue_limit", &KernelTelemetry::queue_limit, "0: not known.")
      .def_ro("cpu_seconds", &KernelTelemetry::cpu_seconds, "Processor time; NaN: not measured.")
      .def_ro("cpu_ratio", &KernelTelemetry::cpu_ratio, "Of one processor, since the last reset.")
      .def("__repr__", &Print);
}

// The three calls of each message are plain C functions of the type, as those of src/hot.h.
const KernelRecorder* RecorderOf(PyObject* self, Py_ssize_t given, Py_ssize_t wanted) noexcept {
  if (given == wanted && nb::inst_ready(self)) [[likely]]
    return nb::inst_ptr<KernelRecorder>(self);
  PyErr_Format(PyExc_TypeError, "%zd arguments, not %zd", wanted, given);
  return nullptr;
}

PyObject* HotReceive(PyObject* self, PyObject* const* given, Py_ssize_t count) noexcept {
  const KernelRecorder* const to = RecorderOf(self, count, 1);
  if (!to) return nullptr;
  const uint64_t depth = PyLong_AsUnsignedLongLong(given[0]);
  if (depth == UINT64_MAX && PyErr_Occurred()) return nullptr;
  return PyFloat_FromDouble(Seconds(to->Receive(depth).time_since_epoch()));
}

PyObject* HotBegin(PyObject* self, PyObject* const* given, Py_ssize_t count) noexcept {
  const KernelRecorder* const to = RecorderOf(self, count, 2);
  if (!to) return nullptr;
  const uint64_t depth = PyLong_AsUnsignedLongLong(given[0]);
  if (depth == UINT64_MAX && PyErr_Occurred()) return nullptr;
  const double received = PyFloat_AsDouble(given[1]);
  if (received == -1 && PyErr_Occurred()) return nullptr;
  if (!(std::abs(received) < 9e9)) {
    PyErr_SetString(PyExc_TypeError, "received is what receive() gave");
    return nullptr;
  }
  to->Begin(depth, TimePoint(std::chrono::nanoseconds(std::llround(received * 1e9))));
  Py_RETURN_NONE;
}

PyObject* HotDone(PyObject* self, PyObject* const* given, Py_ssize_t count) noexcept {
  const KernelRecorder* const to = RecorderOf(self, count, 1);
  if (!to) return nullptr;
  const int sent = PyObject_IsTrue(given[0]);
  if (sent < 0) return nullptr;
  to->Done(sent != 0);
  Py_RETURN_NONE;
}

using HotCall = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t) noexcept;
PyMethodDef HotMethod(const char* name, HotCall call, const char* doc) noexcept {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call)), METH_FASTCALL, doc};
}

void BindRecorder(nb::module_& m) {
  static PyMethodDef methods[] = {
      HotMethod("receive", &HotReceive,
                "receive($self, depth, /)\n--\n\nThe queue took a message and has `depth` of them now. When "
                "that was, for "
                "begin(). Starts a kernel that has no state yet."),
      HotMethod("begin", &HotBegin,
                "begin($self, depth, received, /)\n--\n\nThe handler begins with the message that was "
                "received then; the "
                "queue has `depth` left. For a kernel that works on one at a time."),
      HotMethod(
          "done", &HotDone,
          "done($self, sent, /)\n--\n\nThe handler is done with it; `sent`: a reply was sent, too. Without a "
          "message that was begun: only that."),
      {}};
  static PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, nullptr}};
  nb::class_<KernelRecorder>(
      m, "KernelRecorder", nb::type_slots(slots),
      "Records for one kernel of a TelemetryCollector, without looking it up. Any thread; counts are "
      "exact under any number of them. Of a collector that is off: records nothing, and is false.")
      .def("__bool__", [](const KernelRecorder& self) { return static_cast<bool>(self); })
      .def(
          "set_state",
          [](const KernelRecorder& self, std::string_view state) { self.SetState(StateNamed(state)); },
          "state"_a, "A KernelState or its value. The first \"active\" is the kernel's start.")
      .def("set_queue_limit", &KernelRecorder::SetQueueLimit, "limit"_a)
      .def("set_queue_depth", &KernelRecorder::SetQueueDepth, "depth"_a,
           "When messages left the queue in another way than by `take`.")
      .def("take", &KernelRecorder::Take, "depth"_a, "wait_seconds"_a,
           "A message left the queue for its handler. NaN: the wait is not known.")
      .def("processed", &KernelRecorder::Processed, "service_seconds"_a = kNotMeasured, "sent"_a = false,
           "A handler came back; `sent`: with a reply that was sent.")
      .def("send", &KernelRecorder::Send,
           "A reply was sent. Until `done` or `processed` was called, the first one after a `receive` counts "
           "as its "
           "message "
           "processed.")
      .def("error", &KernelRecorder::Error, "what"_a = "", "service_seconds"_a = kNotMeasured)
      .def(
          "drop",
          [](const KernelRecorder& self, std::string_view reason, uint64_t count) {
            self.Drop(ReasonNamed(reason), count);
          },
          "reason"_a, "count"_a = 1, "rejected, timeout, oldest, newest, terminated or reply.")
      .def("add_cpu", &KernelRecorder::AddCpu, "seconds"_a)
      .def("telemetry", &KernelRecorder::Telemetry,
           "A KernelTelemetry, also after the collector has forgotten the kernel. None: the collector is "
           "off.");
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
    row["uptime"] = nb::float_(Seconds(one.uptime));
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
  nb::class_<TelemetryCollector>(
      m, "TelemetryCollector",
      "Telemetry of kernels by their ids. Any thread. A registry tells it as ring_kernel.*, by "
      "ring_kernel.id: these counts never fall, whatever is reset.\n\nenabled: False records "
      "nothing.\nregistry: that of the process unless given.")
      .def(
          "__init__",
          [](TelemetryCollector* self, bool enabled, Registry* registry) {
            new (self) TelemetryCollector(enabled, registry ? registry : &Registry::Process());
          },
          "enabled"_a = true, nb::kw_only(), "registry"_a.none() = nb::none(), nb::keep_alive<1, 3>())
      .def_prop_ro("enabled", &TelemetryCollector::enabled)
      .def("kernel", &TelemetryCollector::Kernel, "kernel_id"_a,
           "The KernelRecorder of a kernel, which becomes known by it.")
      .def("find", &TelemetryCollector::Find, "kernel_id"_a,
           "The KernelRecorder of a kernel that is known, also of one that has ended. Else an empty one.")
      .def("record_receive", &TelemetryCollector::RecordReceive, "kernel_id"_a,
           "The kernel's queue took a message. Starts a kernel that has no state yet.")
      .def("record_send", &TelemetryCollector::RecordSend, "kernel_id"_a,
           "The kernel sent a reply. Until record_processed() was called for it, the first reply after a "
           "message "
           "counts that as processed.")
      .def("record_processed", &TelemetryCollector::RecordProcessed, "kernel_id"_a,
           "service_seconds"_a = kNotMeasured,
           "The kernel is done with a message; NaN: how long it took is not known.")
      .def(
          "record_error",
          [](TelemetryCollector& self, std::string_view id, const nb::object& error) {
            self.RecordError(id, TextOf(error));
          },
          "kernel_id"_a, "error"_a.none() = nb::none(),
          nb::sig("def record_error(self, kernel_id: str, error: BaseException | str | None = None) -> None"),
          "An exception, or a text, while the kernel worked on a message; the last one is told.")
      .def("get_telemetry", &TelemetryCollector::Telemetry, "kernel_id"_a,
           "A KernelTelemetry; None: no such kernel.")
      .def(
          "get_all_telemetry", [](const TelemetryCollector& self) { return ById(self.AllTelemetry()); },
          nb::sig("def get_all_telemetry(self) -> dict[str, KernelTelemetry]"), "By id.")
      .def("get_summary", &SummaryOf, nb::sig("def get_summary(self) -> dict[str, typing.Any]"),
           "kernel_count, without those that have ended; total_messages (processed), total_errors, "
           "total_dropped, "
           "aggregate_throughput; per_kernel: a dict by id. Calculated when it is asked for.")
      .def(
          "reset",
          [](TelemetryCollector& self, std::optional<std::string_view> id) {
            if (!id) return self.Reset();
            if (!id->empty()) self.Reset(*id);
          },
          "kernel_id"_a.none() = nb::none(),
          "Begins counts, latencies and throughput of a kernel anew; None: of all. start_time stays. A "
          "kernel that has "
          "ended is forgotten.");
}

}  // namespace

void BindRing(nb::module_& m) {
  BindTelemetry(m);
  BindRecorder(m);
  BindCollector(m);
}

}  // namespace gpulens::python

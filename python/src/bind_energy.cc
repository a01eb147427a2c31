// gpulens.energy: windows over the sampler of C++. Calls that may wait release the GIL.
#include <gpulens/energy.h>

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "src/bind.h"
#include "src/mailbox.h"

namespace gpulens::python {
namespace {

double Seconds(Duration span) { return std::chrono::duration<double>(span).count(); }

// A time of time.monotonic(), which is the same clock.
TimePoint At(double seconds) {
  if (!(std::abs(seconds) < 9e9))
    Raise(
        {Code::kInvalidArgument, "a time must be in seconds of time.monotonic(); got " + FloatText(seconds)});
  return TimePoint(std::chrono::nanoseconds(std::llround(seconds * 1e9)));
}

Share ShareOf(std::string_view name) {
  if (name == "time") return Share::kByTime;
  if (name == "tokens") return Share::kByTokens;
  Raise({Code::kInvalidArgument, "share must be \"time\" or \"tokens\"; got \"" + std::string(name) + "\""});
}

EnergyVendor VendorOf(const std::optional<std::string>& name) {
  if (!name) return EnergyVendor::kNone;
  for (const auto vendor :
       {EnergyVendor::kNvidia, EnergyVendor::kAmd, EnergyVendor::kApple, EnergyVendor::kCpuRapl}) {
    if (*name == EnergyVendorName(vendor)) return vendor;
  }
  Raise({Code::kInvalidArgument, "vendor must be nvidia, amd, apple or cpu_rapl; got \"" + *name + "\""});
}

// Those of the machine where there are none. Each monitor has threads of its own for them.
std::vector<std::shared_ptr<EnergySource>> SourcesOf(const nb::list& given) {
  std::vector<std::shared_ptr<EnergySource>> out;
  for (nb::handle source : given) {
    const nb::object served = source.attr("_serve")();
    const auto vendor = VendorOf(nb::cast<std::optional<std::string>>(served[1]));
    out.push_back(std::make_shared<MailboxSource>(nb::cast<MailboxHandle&>(served[0]).box,
                                                  nb::cast<std::string>(nb::str(served[2])), vendor));
  }
  return out;
}

std::atomic<bool> in_a_child{false};

// Releases the GIL for the first call after a fork, which waits for readings that may need a Python thread.
// In a process that was not forked, these calls never wait.
template <class Call>
auto Live(Call call) {
  if (!in_a_child.load(std::memory_order_relaxed)) [[likely]]
    return call();
  return WithoutGil(call);
}

// A window in a `with`: its end is the block's.
class WindowBlock {
 public:
  explicit WindowBlock(EnergyWindow window) : window_(std::move(window)) {}
  WindowBlock(WindowBlock&&) = delete;

  void End() { window_.End(); }
  void AddTokens(int64_t tokens) { window_.AddTokens(tokens); }
  void Mark(std::string_view phase) { window_.Mark(phase); }
  EnergyResult Estimate() const { return window_.Estimate(); }
  EnergyResult Phase(std::string_view name) const { return window_.phase(name); }
  EnergyResult Result() {
    return WithoutGil([this] { return window_.result(); });
  }

 private:
  EnergyWindow window_;
};

nb::object Settle(nb::object self) {
  const nb::object loop = nb::module_::import_("asyncio").attr("get_running_loop")();
  return loop.attr("run_in_executor")(
      nb::none(), nb::cpp_function([self] { return nb::cast<WindowBlock&>(self).Result(); }));
}

void BindResult(nb::module_& m) {
  using R = EnergyResult;
  nb::class_<EnergyTicks>(m, "EnergyTicks",
                          "Device readings during a window: power and memory are sums over devices, "
                          "utilization and temperature their means. NaN: not read.")
      .def_ro("count", &EnergyTicks::count, "Number of readings of all devices at once.")
      .def_ro("mean_power_watts", &EnergyTicks::mean_power_watts)
      .def_ro("peak_power_watts", &EnergyTicks::peak_power_watts)
      .def_ro("mean_utilization_ratio", &EnergyTicks::mean_utilization_ratio)
      .def_ro("peak_utilization_ratio", &EnergyTicks::peak_utilization_ratio)
      .def_ro("mean_memory_used_bytes", &EnergyTicks::mean_memory_used_bytes)
      .def_ro("peak_memory_used_bytes", &EnergyTicks::peak_memory_used_bytes)
      .def_ro("mean_temperature_celsius", &EnergyTicks::mean_temperature_celsius)
      .def_ro("peak_temperature_celsius", &EnergyTicks::peak_temperature_celsius);
  nb::class_<R>(m, "EnergyResult",
                "Energy of a window or of a request's share, in joules. Unknown values are NaN, and "
                "`validity` and `reason` explain why. Has no truth value: use `valid`.")
      .def_ro("energy_joules", &R::energy_joules,
              "Energy of the devices for a window, and the request's share for a request, in joules.")
      .def_ro("device_energy_joules", &R::device_energy_joules,
              "Energy of the devices during the window in joules, regardless of what caused it.")
      .def_ro("uncertainty_joules", &R::uncertainty_joules,
              "Half-width of the uncertainty interval in joules: a bound for the counter method; for a power "
              "integral an estimate that holds for 95 of 100 windows.")
      .def_ro("sensor_accuracy_ratio", &R::sensor_accuracy_ratio,
              "Accuracy that the sensor's vendor states, a ratio; not included in uncertainty_joules.")
      .def_ro("gpu_joules", &R::gpu_joules)
      .def_ro("cpu_joules", &R::cpu_joules,
              "Filled in addition to a GPU's energy, and then never included in energy_joules.")
      .def_ro("dram_joules", &R::dram_joules,
              "Filled in addition to a GPU's energy, and then never included in energy_joules.")
      .def_ro("mean_power_watts", &R::mean_power_watts, "energy_joules divided by the duration.")
      .def_prop_ro("duration_seconds", [](const R& self) { return Seconds(self.duration); })
      .def_ro("devices", &R::devices, "Number of devices.")
      .def_prop_ro(
          "vendor", [](const R& self) { return ToPython(EnergyVendorName(self.vendor)); },
          "\"nvidia\", \"amd\", \"apple\", \"cpu_rapl\" or \"none\".")
      .def_prop_ro(
          "method", [](const R& self) { return ToPython(EnergyMethodName(self.method)); },
          "\"counter\", \"power_integral\" or \"none\".")
      .def_prop_ro(
          "validity", [](const R& self) { return ToPython(EnergyValidityName(self.validity)); },
          "\"valid\", \"running\", \"no_device\", \"permission_denied\", \"source_failed\", "
          "\"counter_reset\" or "
          "\"gap\".")
      .def_prop_ro("valid", &R::valid)
      .def_ro("reason", &R::reason,
              "Why the result is not valid and what to do; else additional information.")
      .def_ro("ticks", &R::ticks)
      .def("__bool__",
           [](const R&) -> bool { throw nb::type_error("an EnergyResult has no truth value; use .valid"); })
      .def("__repr__", [](const R& self) { return ToString(self); });
}

void BindReadings(nb::module_& m) {
  using S = EnergySample;
  nb::class_<S>(m, "EnergyReading", "One reading of all devices of a monitor. NaN: not read.")
      .def_prop_ro(
          "at_seconds", [](const S& self) { return Seconds(self.at.time_since_epoch()); },
          "Time of the reading in seconds of time.monotonic().")
      .def_ro("gpu_watts", &S::gpu_watts)
      .def_ro("cpu_watts", &S::cpu_watts)
      .def_ro("dram_watts", &S::dram_watts)
      .def_ro("gpu_joules", &S::gpu_joules, "Counts up from an arbitrary zero.")
      .def_ro("cpu_joules", &S::cpu_joules, "Counts up from an arbitrary zero.")
      .def_ro("dram_joules", &S::dram_joules, "Counts up from an arbitrary zero.")
      .def_ro("utilization_ratio", &S::utilization_ratio)
      .def_ro("memory_used_bytes", &S::memory_used_bytes)
      .def_ro("temperature_celsius", &S::temperature_celsius);
}

void BindWindow(nb::module_& m) {
  nb::class_<WindowBlock>(
      m, "EnergyWindow",
      "A time span, from its creation to the end of its `with` block. For one thread at a "
      "time, except add_tokens(), which is thread-safe. Neither entering nor leaving the block "
      "waits, so it may be used in a coroutine.")
      .def("__enter__", &EnterSelf, nb::sig("def __enter__(self) -> EnergyWindow"))
      .def("__exit__", [](WindowBlock& self, nb::args) { self.End(); })
      .def("end", &WindowBlock::End, "Ends the window; only the first end counts.")
      .def("add_tokens", &WindowBlock::AddTokens, "tokens"_a,
           "Adds tokens: the weight of a request where the monitor shares by tokens.")
      .def("mark", &WindowBlock::Mark, "phase"_a,
           "Begins a phase and ends the previous one; phases of equal name add up. At most 8 names.")
      .def("phase", &WindowBlock::Phase, "name"_a,
           "Returns the energy of a phase; validity \"gap\" where mark() was not called with this name.")
      .def("estimate", &WindowBlock::Estimate, "Returns the energy up to now, without waiting for a reading.")
      .def_prop_ro("result", &WindowBlock::Result,
                   "The energy of the window. Ends the window if it is open, and waits at most 20 ms for a "
                   "closing reading, without holding the GIL.")
      .def("settle", &Settle, nb::sig("def settle(self) -> collections.abc.Awaitable[EnergyResult]"),
           "Returns an awaitable of the result, which does not block the event loop: `await "
           "window.settle()`.");
}

constexpr const char* kMonitorDoc =
    "Reads the GPUs that this process may use, else the processors. All monitors without `sources` share one "
    "thread. Works on a machine without any sensor, too: results are then NaN and contain the reason. "
    "Thread-safe.\n\nshare: how open requests divide the energy, \"time\" or \"tokens\".\ninterval_seconds: "
    "0.001 to 1; the shortest interval of all monitors applies.\nhistory_seconds: how far between() can look "
    "back.\ndevices: IDs of the devices to read; empty: those this process may use.\nprefer: the vendor that "
    "is tried first.\nsources: EnergySource objects that are read instead of this machine's devices, by a "
    "thread of the monitor.\n\nWaits at most 3 s for a first reading.";

}  // namespace

void BindEnergy(nb::module_& m) {
  ::pthread_atfork(nullptr, nullptr, [] { in_a_child.store(true); });
  BindResult(m);
  BindReadings(m);
  BindWindow(m);
  using M = EnergyMonitor;
  const auto construct = [](M* self, std::string_view share, double interval_seconds, double history_seconds,
                            std::vector<std::string> devices, const std::optional<std::string>& prefer,
                            const nb::list& sources) {
    EnergyOptions options;
    options.share = ShareOf(share);
    options.interval = Span(interval_seconds, "interval_seconds");
    options.history = Span(history_seconds, "history_seconds");
    options.devices = std::move(devices);
    options.prefer = VendorOf(prefer);
    options.sources = SourcesOf(sources);
    const nb::gil_scoped_release released;
    new (self) M(std::move(options));
  };
  nb::class_<M>(m, "EnergyMonitor", kMonitorDoc)
      .def("__init__", construct, nb::kw_only(), "share"_a = "time", "interval_seconds"_a = 0.05,
           "history_seconds"_a = 60.0, "devices"_a = std::vector<std::string>(),
           "prefer"_a.none() = nb::none(), "sources"_a = nb::list(),
           nb::sig("def __init__(self, *, share: str = 'time', interval_seconds: float = 0.05, "
                   "history_seconds: float = 60.0, devices: collections.abc.Sequence[str] = [], "
                   "prefer: str | None = None, sources: list = []) -> None"))
      .def(
          "window", [](M& self) { return new WindowBlock(Live([&] { return self.Window(); })); },
          nb::rv_policy::take_ownership,
          "Opens a window that measures all energy of the devices; windows nest and overlap freely.")
      .def(
          "request", [](M& self) { return new WindowBlock(Live([&] { return self.Request(); })); },
          nb::rv_policy::take_ownership,
          "Opens a window that measures a share of the devices' energy; the shares of all open requests add "
          "up to it.")
      .def(
          "between",
          [](const M& self, double from, double to) {
            return Live([&, begin = At(from), end = At(to)] { return self.Between(begin, end); });
          },
          "from_seconds"_a, "to_seconds"_a,
          "Returns the energy between two times of time.monotonic(), as far back as the history reaches.")
      .def(
          "history",
          [](const M& self, double from, double to) {
            return Live([&, begin = At(from), end = At(to)] { return self.History(begin, end); });
          },
          "from_seconds"_a, "to_seconds"_a, "Returns the readings between two times of time.monotonic().")
      .def_prop_ro(
          "vendor",
          [](const M& self) { return ToPython(EnergyVendorName(Live([&] { return self.vendor(); }))); },
          "\"nvidia\", \"amd\", \"cpu_rapl\" or \"none\".")
      .def_prop_ro(
          "available", [](const M& self) { return Live([&] { return self.status().ok(); }); },
          "Whether there is a device to read.")
      .def_prop_ro(
          "reason", [](const M& self) { return Live([&] { return self.status().detail; }); },
          "Why no device can be read; empty where one can.")
      .def_prop_ro("devices", &M::devices, "The devices that are measured.")
      .def_prop_ro(
          "unattributed_joules", &M::unattributed_joules,
          "Energy in joules since the monitor began while no request was open, as far as it is determined.");
}

}  // namespace gpulens::python

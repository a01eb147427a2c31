// gpulens.energy: windows over the sampler of C++. Calls that may wait release the GIL.
#include <gpulens/energy.h>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gpulens/energy_source.h>

#include <nanobind/stl/optional.h>

#include "base/fd.h"
#include "src/values.h"

namespace gpulens::python {

// Connects the thread that reads energy, which never takes the GIL, with a Python thread that serves an
// EnergySource written in Python. Requests go through a pipe, so that Python waits in os.read(). The reading
// thread calls Query, Python's thread the rest; Renew is called in the child of a fork, before both.
class Mailbox {
 public:
  static constexpr int kOpen = -1;  // instead of a device's index
  struct Request {
    uint64_t serial = 0;
    int what = kOpen;
  };
  struct Answer {
    Status status;
    std::vector<EnergyDevice> devices;
    EnergyReading reading;
  };

  Mailbox() { Renew(); }

  // Sends a request and waits for its answer. kUnavailable: the mailbox is closed.
  Answer Query(int what, Duration timeout);
  // Returns the descriptor to read: a byte for each request, end of file when the mailbox is closed.
  int read_end() const noexcept { return state_->read_end.get(); }
  // Returns the waiting request; serial 0: none.
  Request Take();
  // Answers a request; the answer is dropped if it came too late.
  void Give(uint64_t serial, Answer answer);
  void Close();
  // Abandons the state of the parent's threads.
  void Renew();

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable came;
    UniqueFd read_end, write_end;
    uint64_t serial = 0, answered = 0;
    int what = kOpen;
    bool waiting = false, closed = false;
    Answer answer;
  };
  std::unique_ptr<State> state_;
};

// Python's reference. A monitor holds another reference without a Python object, whose release needs no GIL.
struct MailboxHandle {
  std::shared_ptr<Mailbox> box = std::make_shared<Mailbox>();
};

// A monitor's reference: when the last one is released, the Python thread ends.
class MailboxSource final : public EnergySource {
 public:
  MailboxSource(std::shared_ptr<Mailbox> box, std::string name, EnergyVendor vendor)
      : box_(std::move(box)), name_(std::move(name)), vendor_(vendor) {}
  ~MailboxSource() override { box_->Close(); }

  std::string_view name() const noexcept override { return name_; }
  EnergyVendor vendor() const noexcept override { return vendor_; }
  Result<std::vector<EnergyDevice>> Open() override;
  Status Read(size_t device, EnergyReading& out) override;

 private:
  const std::shared_ptr<Mailbox> box_;
  const std::string name_;
  const EnergyVendor vendor_;
};

namespace {

// A time of time.monotonic(), which is the same clock.
TimePoint At(double seconds) {
  if (!(std::abs(seconds) < 9e9))
    Raise(
        {Code::kInvalidArgument, "a time must be in seconds of time.monotonic(); got " + FloatText(seconds)});
  return SteadyTime(seconds);
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

// Connects to Python's sources; empty: the monitor uses those of the machine.
std::vector<std::shared_ptr<EnergySource>> SourcesOf(const nb::iterable& given) {
  std::vector<std::shared_ptr<EnergySource>> out;
  for (nb::handle source : given) {
    const nb::object served = source.attr("_serve")();
    const auto vendor = VendorOf(nb::cast<std::optional<std::string>>(served[1]));
    out.push_back(std::make_shared<MailboxSource>(nb::cast<MailboxHandle&>(served[0]).box,
                                                  nb::cast<std::string>(nb::str(served[2])), vendor));
  }
  return out;
}

// A carbon intensity in g/kWh: a number, or that of a zone; NaN for None.
double CarbonOf(nb::handle given) {
  if (given.is_none()) return kNotMeasured;
  if (nb::isinstance<nb::str>(given)) return Take(CarbonIntensity(nb::cast<std::string>(given)));
  double grams_per_kwh = kNotMeasured;
  if (!nb::try_cast(given, grams_per_kwh) || !(grams_per_kwh >= 0) || std::isinf(grams_per_kwh))
    Raise({Code::kInvalidArgument,
           "a carbon intensity must be a number of grams per kilowatt-hour, at least 0, "
           "or a zone such as \"DE\"; got " +
               std::string(nb::repr(given).c_str())});
  return grams_per_kwh;
}

// Calls Python's function at the edges of a window. An exception becomes a warning, and text for the result's
// reason; a KeyboardInterrupt is raised again by the interpreter's next check for signals.
EnergyMonitor::Sync SyncOf(const nb::object& given) {
  if (given.is_none()) return {};
  // Windows may be destroyed by a thread without the GIL.
  const std::shared_ptr<nb::object> function(
      new nb::object(nb::module_::import_("gpulens.energy").attr("_synchronizer")(given)),
      [](nb::object* object) {
        if (!Py_IsInitialized()) return;
        const nb::gil_scoped_acquire held;
        delete object;
      });
  return [function] {
    const nb::gil_scoped_acquire held;
    std::string text;
    try {
      (*function)();
      return;
    } catch (nb::python_error& error) {
      text = std::string(nb::type_name(error.type()).c_str()) + ": " + nb::str(error.value()).c_str();
      if (error.matches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();
    }
    if (PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "sync of an energy window failed: %s", text.c_str()) < 0)
      PyErr_WriteUnraisable(nullptr);
    throw std::runtime_error(text);
  };
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

EnergyResult ResultOf(EnergyWindow& self) {
  return WithoutGil([&] { return self.result(); });
}

nb::object Settle(nb::object self) {
  const nb::object loop = nb::module_::import_("asyncio").attr("get_running_loop")();
  return loop.attr("run_in_executor")(
      nb::none(), nb::cpp_function([self] { return ResultOf(nb::cast<EnergyWindow&>(self)); }));
}

constexpr std::string_view kPartNames[] = {"gpu", "cpu", "dram"};  // by EnergyPart

nb::dict GpuEnergy(const EnergyResult& self) {
  nb::dict out;
  for (size_t i = 0; i < self.by_device.size(); ++i) {
    if (self.by_device[i].part == EnergyPart::kGpu) out[nb::int_(i)] = self.by_device[i].energy_joules;
  }
  return out;
}

// `async with` waits for the closing reading without blocking the event loop.
nb::object EnterSoon(nb::handle self) {
  return nb::module_::import_("gpulens._blocks").attr("returns")(self);
}
nb::object LeaveSoon(nb::handle self, const nb::args&) {
  nb::cast<EnergyWindow&>(self).End();
  return nb::module_::import_("gpulens._blocks").attr("waits")(self.attr("settle")());
}

void BindResult(nb::module_& m) {
  using R = EnergyResult;
  ValueClass<EnergyTicks>(m, "EnergyTicks",
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
      .def_ro("peak_temperature_celsius", &EnergyTicks::peak_temperature_celsius)
      .prints_all();
  using D = EnergyOfDevice;
  ValueClass<D>(m, "EnergyOfDevice", "One device's part of the energy of a result.")
      .def_ro("id", &D::id, "As in EnergyDevice.")
      .def_prop_ro(
          "part", [](const D& self) { return kPartNames[static_cast<size_t>(self.part)]; },
          nb::sig("def part(self) -> typing.Literal['gpu', 'cpu', 'dram']"), "\"gpu\", \"cpu\" or \"dram\".")
      .def_ro("energy_joules", &D::energy_joules, "Energy in joules; NaN where unknown.")
      .def_prop_ro(
          "validity", [](const D& self) { return ToPython(EnergyValidityName(self.validity)); },
          nb::sig("def validity(self) -> typing.Literal['valid', 'running', 'no_device', "
                  "'permission_denied', 'source_failed', 'counter_reset', 'gap']"),
          "As EnergyResult.validity, of this device.")
      .keeps("part", &D::part)
      .keeps("validity", &D::validity)
      .def("__repr__", [](const D& self) {
        return "EnergyOfDevice(" + self.id + ", " + FloatText(self.energy_joules) + " J, " +
               std::string(EnergyValidityName(self.validity)) + ")";
      });
  ValueClass<R>(m, "EnergyResult",
                "Energy of a window or of a request's share, in joules. Unknown values are NaN, and "
                "`validity` and `reason` explain why. Has no truth value: use `valid`.")
      .def_ro("energy_joules", &R::energy_joules,
              "Energy of the devices for a window, and the request's share for a request, in joules.")
      .def_ro("device_energy_joules", &R::device_energy_joules,
              "Energy of the devices during the window in joules, regardless of what caused it.")
      .def_ro("uncertainty_joules", &R::uncertainty_joules,
              "Half-width of the uncertainty interval in joules: 95 of 100 windows of simulated loads are "
              "within it.")
      .def_ro("sensor_accuracy_ratio", &R::sensor_accuracy_ratio,
              "Accuracy that the sensor's vendor states, a ratio; not included in uncertainty_joules.")
      .def_ro("gpu_joules", &R::gpu_joules)
      .def_ro("cpu_joules", &R::cpu_joules,
              "Filled in addition to a GPU's energy, and then never included in energy_joules.")
      .def_ro("dram_joules", &R::dram_joules,
              "Filled in addition to a GPU's energy, and then never included in energy_joules.")
      .def_ro("mean_power_watts", &R::mean_power_watts, "energy_joules divided by the duration.")
      .def_ro(
          "by_device", &R::by_device,
          "Energy of each device, in the order of EnergyMonitor.devices. The parts of a valid result add up "
          "to energy_joules; one device may be known where the sum is not. A request has the same share of "
          "each device. Empty for a phase.")
      .def_prop_ro(
          "gpu_energy", &GpuEnergy, nb::sig("def gpu_energy(self) -> dict[int, float]"),
          "Energy of each GPU in joules by its index in EnergyMonitor.devices; NaN where unknown, see "
          "by_device. Empty without a GPU, and for a phase.")
      .def_ro("carbon_grams_per_kwh", &R::carbon_grams_per_kwh,
              "Carbon intensity of the electricity, as the monitor has it; NaN: not given.")
      .def(
          "carbon_grams",
          [](const R& self, nb::handle intensity) {
            return intensity.is_none() ? self.carbon_grams() : self.carbon_grams(CarbonOf(intensity));
          },
          "intensity"_a.none() = nb::none(),
          nb::sig("def carbon_grams(self, intensity: float | str | None = None) -> float"),
          "Returns the grams of CO2 equivalents of energy_joules; NaN where the energy or the intensity is "
          "unknown.\n\nintensity: grams per kilowatt-hour, or a zone as for carbon_intensity(); None: that "
          "of "
          "the monitor.\n\nRaises InvalidArgumentError for an unknown zone or a number below 0.")
      .def_prop_ro("duration_seconds", [](const R& self) { return SecondsOf(self.duration); })
      .def_ro("devices", &R::devices, "Number of devices.")
      .def_prop_ro(
          "vendor", [](const R& self) { return ToPython(EnergyVendorName(self.vendor)); },
          nb::sig("def vendor(self) -> typing.Literal['nvidia', 'amd', 'apple', 'cpu_rapl', 'none']"),
          "\"nvidia\", \"amd\", \"apple\", \"cpu_rapl\" or \"none\".")
      .def_prop_ro(
          "method", [](const R& self) { return ToPython(EnergyMethodName(self.method)); },
          nb::sig("def method(self) -> typing.Literal['counter', 'power_integral', 'none']"),
          "\"counter\", \"power_integral\" or \"none\".")
      .def_prop_ro(
          "validity", [](const R& self) { return ToPython(EnergyValidityName(self.validity)); },
          nb::sig("def validity(self) -> typing.Literal['valid', 'running', 'no_device', "
                  "'permission_denied', 'source_failed', 'counter_reset', 'gap']"),
          "\"valid\", \"running\", \"no_device\", \"permission_denied\", \"source_failed\", "
          "\"counter_reset\" or "
          "\"gap\".")
      .def_prop_ro("valid", &R::valid)
      .def_ro("reason", &R::reason,
              "Why the result is not valid and what to do; else additional information.")
      .def_ro("ticks", &R::ticks)
      .keeps("duration_seconds", &R::duration)
      .keeps("vendor", &R::vendor)
      .keeps("method", &R::method)
      .keeps("validity", &R::validity)
      .def("__bool__",
           [](const R&) -> bool { throw nb::type_error("an EnergyResult has no truth value; use .valid"); })
      .def("__repr__", [](const R& self) { return ToString(self); });
}

void BindReadings(nb::module_& m) {
  using S = EnergySample;
  ValueClass<S>(m, "EnergyReading", "One reading of all devices of a monitor. NaN: not read.")
      .def_prop_ro(
          "at_seconds", [](const S& self) { return SecondsOf(self.at.time_since_epoch()); },
          "Time of the reading in seconds of time.monotonic().")
      .keeps("at_seconds", &S::at)
      .def_ro("gpu_watts", &S::gpu_watts)
      .def_ro("cpu_watts", &S::cpu_watts)
      .def_ro("dram_watts", &S::dram_watts)
      .def_ro("gpu_joules", &S::gpu_joules, "Counts up from an arbitrary zero.")
      .def_ro("cpu_joules", &S::cpu_joules, "Counts up from an arbitrary zero.")
      .def_ro("dram_joules", &S::dram_joules, "Counts up from an arbitrary zero.")
      .def_ro("utilization_ratio", &S::utilization_ratio)
      .def_ro("memory_used_bytes", &S::memory_used_bytes)
      .def_ro("temperature_celsius", &S::temperature_celsius)
      .prints_all();
}

void BindWindow(nb::module_& m) {
  nb::class_<EnergyWindow> window(
      m, "EnergyWindow",
      "A time span, from its creation to the end of its `with` block. For one thread at a "
      "time, except add_tokens(), which is thread-safe. Without `sync` neither entering nor "
      "leaving the block waits, so it may be used in a coroutine; `async with` waits for the closing reading "
      "without blocking the event loop.");
  RefusesPickle(window, "a window measures one process; send its result");
  window.def("__enter__", &EnterSelf, nb::sig("def __enter__(self) -> EnergyWindow"))
      .def("__exit__", [](EnergyWindow& self, nb::args) { self.End(); })
      .def("__aenter__", &EnterSoon,
           nb::sig("def __aenter__(self) -> collections.abc.Awaitable[EnergyWindow]"))
      .def("__aexit__", &LeaveSoon,
           nb::sig("def __aexit__(self, *why: typing.Any) -> collections.abc.Awaitable[None]"))
      .def("end", &EnergyWindow::End, "Ends the window, after its `sync`; only the first end counts.")
      .def("__repr__",
           [](const EnergyWindow& self) { return "<EnergyWindow: " + ToString(self.Estimate()) + ">"; })
      .def("add_tokens", &EnergyWindow::AddTokens, "tokens"_a,
           "Adds tokens: the weight of a request where the monitor shares by tokens.")
      .def("mark", &EnergyWindow::Mark, "phase"_a,
           "Begins a phase and ends the previous one; phases of equal name add up. At most 8 names.")
      .def("phase", &EnergyWindow::phase, "name"_a,
           "Returns the energy of a phase; validity \"gap\" where mark() was not called with this name.")
      .def("estimate", &EnergyWindow::Estimate,
           "Returns the energy up to now, without waiting for a reading.")
      .def_prop_ro("result", &ResultOf,
                   "The energy of the window. Ends the window if it is open, and waits at most 20 ms for a "
                   "closing reading, without holding the GIL.")
      .def("settle", &Settle, nb::sig("def settle(self) -> collections.abc.Awaitable[EnergyResult]"),
           "Returns an awaitable of the result, which does not block the event loop: `await "
           "window.settle()`.");
}

#define GPULENS_SYNC \
  "collections.abc.Callable[[], object] | typing.Literal['torch', 'cupy', 'auto'] | bool | None"
#define GPULENS_SYNC_DOC                                                                                    \
  "sync: waits for the work that the program has queued on its devices before the begin and the end are "   \
  "taken; "                                                                                                 \
  "without it a window around asynchronous calls measures their submission. A function without arguments, " \
  "\"torch\" or \"cupy\" (their current device), or \"auto\" or True: of these two, those that are "        \
  "imported. An "                                                                                           \
  "exception in it becomes a RuntimeWarning and a remark in the result's reason; the window goes on.\n\n"   \
  "Raises InvalidArgumentError for another sync, UnavailableError where the module or its device is "       \
  "missing."

constexpr const char* kMonitorDoc =
    "Reads the GPUs that this process may use, else the processors. All monitors without `sources` share one "
    "thread. Works on a machine without any sensor, too: results are then NaN and contain the reason. "
    "Thread-safe.\n\nshare: how open requests divide the energy, \"time\" or \"tokens\".\ninterval_seconds: "
    "0.001 to 1; the shortest interval of all monitors applies.\nhistory_seconds: how far between() can look "
    "back.\ndevices: IDs of the devices to read; empty: those this process may use.\nprefer: the vendor that "
    "is tried first.\nsources: EnergySource objects that are read instead of this machine's devices, by a "
    "thread of the monitor.\ncarbon: grams of CO2 equivalents per kilowatt-hour, or a zone as for "
    "carbon_intensity(); for EnergyResult.carbon_grams().\n\nWaits at most 3 s for a first reading.";

EnergyPart PartOf(std::string_view name) {
  const auto found = std::ranges::find(kPartNames, name);
  if (found == std::end(kPartNames))
    Raise({Code::kInvalidArgument,
           "part must be \"gpu\", \"cpu\" or \"dram\"; got \"" + std::string(name) + "\""});
  return static_cast<EnergyPart>(found - std::begin(kPartNames));
}

void BindDevice(nb::module_& m) {
  const auto construct = [](EnergyDevice* self, std::string id, std::string name, std::string_view part,
                            bool usable, double most_watts, double counter_step_joules,
                            std::optional<double> counter_lag_seconds, double accuracy_ratio) {
    EnergyDevice device{.id = std::move(id), .name = std::move(name), .part = PartOf(part), .usable = usable};
    if (device.id.empty()) Raise({Code::kInvalidArgument, "a device must have an id"});
    device.most_watts = most_watts;
    device.counter_step_joules = counter_step_joules;
    device.counter_lag = std::chrono::nanoseconds(
        counter_lag_seconds ? std::llround(std::clamp(*counter_lag_seconds, 0.0, 1e6) * 1e9) : -1);
    device.accuracy_ratio = accuracy_ratio;
    new (self) EnergyDevice(std::move(device));
  };
  ValueClass<EnergyDevice>(
      m, "EnergyDevice",
      "A device whose energy is read.\n\nid: unique, such as a UUID.\npart: \"gpu\", \"cpu\" or "
      "\"dram\".\nusable: whether this process may use it.\nmost_watts: the most power that it can draw, "
      "which bounds the energy between two readings.\ncounter_step_joules: resolution of the "
      "counter.\ncounter_lag_seconds: maximum age of the counter's value when it is read; None: "
      "unknown.\naccuracy_ratio: accuracy of the sensor as its vendor states it.\n\nRaises "
      "InvalidArgumentError for an empty id or an unknown part.")
      .def("__init__", construct, "id"_a, "name"_a = "", nb::kw_only(), "part"_a = "gpu", "usable"_a = true,
           "most_watts"_a = kNotMeasured, "counter_step_joules"_a = 1e-3,
           "counter_lag_seconds"_a.none() = 0.0, "accuracy_ratio"_a = kNotMeasured,
           nb::sig(
               "def __init__(self, id: str, name: str = '', *, part: typing.Literal['gpu', 'cpu', 'dram'] = "
               "'gpu', usable: bool = True, most_watts: float = float('nan'), counter_step_joules: float = "
               "0.001, counter_lag_seconds: float | None = 0.0, accuracy_ratio: float = float('nan')) -> "
               "None"))
      .def_ro("id", &EnergyDevice::id, "ID of the device: a UUID, or a name such as \"package-0\".")
      .def_ro("name", &EnergyDevice::name)
      .def_prop_ro(
          "part", [](const EnergyDevice& self) { return kPartNames[static_cast<size_t>(self.part)]; },
          nb::sig("def part(self) -> typing.Literal['gpu', 'cpu', 'dram']"), "\"gpu\", \"cpu\" or \"dram\".")
      .def_ro("usable", &EnergyDevice::usable, "Whether this process may use it.")
      .keeps("part", &EnergyDevice::part)
      .keeps("most_watts", &EnergyDevice::most_watts)
      .keeps("counter_step_joules", &EnergyDevice::counter_step_joules)
      .keeps("counter_lag_seconds", &EnergyDevice::counter_lag)
      .keeps("accuracy_ratio", &EnergyDevice::accuracy_ratio)
      .def("__repr__",
           [](const EnergyDevice& self) { return "EnergyDevice(" + self.id + ", " + self.name + ")"; });
}

void BindReading(nb::module_& m) {
  const auto construct = [](EnergyReading* self, double joules, double watts, double utilization_ratio,
                            double memory_used_bytes, double temperature_celsius, double processes) {
    new (self) EnergyReading{.joules = joules,
                             .watts = watts,
                             .utilization_ratio = utilization_ratio,
                             .memory_used_bytes = memory_used_bytes,
                             .temperature_celsius = temperature_celsius,
                             .processes = processes};
  };
  ValueClass<EnergyReading>(m, "SourceReading",
                            "One reading of a device by an EnergySource. joules count up from an arbitrary "
                            "zero; watts are the current power. One of the two is sufficient. NaN: unknown.")
      .def("__init__", construct, nb::kw_only(), "joules"_a = kNotMeasured, "watts"_a = kNotMeasured,
           "utilization_ratio"_a = kNotMeasured, "memory_used_bytes"_a = kNotMeasured,
           "temperature_celsius"_a = kNotMeasured, "processes"_a = kNotMeasured)
      .def_ro("joules", &EnergyReading::joules)
      .def_ro("watts", &EnergyReading::watts)
      .def_ro("utilization_ratio", &EnergyReading::utilization_ratio)
      .def_ro("memory_used_bytes", &EnergyReading::memory_used_bytes)
      .def_ro("temperature_celsius", &EnergyReading::temperature_celsius)
      .def_ro("processes", &EnergyReading::processes)
      .prints_all()
      .keeps("began", &EnergyReading::began)
      .keeps("ended", &EnergyReading::ended);
}

constexpr Duration kOpenTimeout = std::chrono::seconds(3), kReadTimeout = std::chrono::seconds(1);

}  // namespace

void BindEnergy(nb::module_& m) {
  ::pthread_atfork(nullptr, nullptr, [] { in_a_child.store(true); });
  BindResult(m);
  BindReadings(m);
  BindWindow(m);
  m.def(
      "carbon_intensity", [](std::string_view zone) { return Take(CarbonIntensity(zone)); }, "zone"_a,
      "Returns the carbon intensity of a zone's electricity in grams of CO2 equivalents per kilowatt-hour: "
      "the "
      "mean of a year, from a table in the package.\n\nzone: \"WORLD\", a country of two or three letters "
      "(\"DE\", \"DEU\"), a bidding zone (\"SE3\") or a cloud's region (\"aws/eu-central-1\"), in any "
      "case.\n\n"
      "Raises InvalidArgumentError for an unknown zone.");
  using M = EnergyMonitor;
  const auto construct = [](M* self, std::string_view share, double interval_seconds, double history_seconds,
                            std::vector<std::string> devices, const std::optional<std::string>& prefer,
                            const nb::iterable& sources, nb::handle carbon) {
    EnergyOptions options;
    options.share = ShareOf(share);
    options.interval = Span(interval_seconds, "interval_seconds");
    options.history = Span(history_seconds, "history_seconds");
    options.devices = std::move(devices);
    options.prefer = VendorOf(prefer);
    options.carbon_grams_per_kwh = CarbonOf(carbon);
    options.sources = SourcesOf(sources);
    const nb::gil_scoped_release released;
    new (self) M(std::move(options));
  };
  nb::class_<M> monitor(m, "EnergyMonitor", kMonitorDoc);
  RefusesPickle(monitor, "make one in the other process, and send results");
  monitor
      .def("__init__", construct, nb::kw_only(), "share"_a = "time", "interval_seconds"_a = 0.05,
           "history_seconds"_a = 60.0, "devices"_a = std::vector<std::string>(),
           "prefer"_a.none() = nb::none(), "sources"_a = nb::make_tuple(), "carbon"_a.none() = nb::none(),
           nb::sig("def __init__(self, *, share: typing.Literal['time', 'tokens'] = 'time', "
                   "interval_seconds: float = 0.05, "
                   "history_seconds: float = 60.0, devices: collections.abc.Sequence[str] = (), prefer: "
                   "typing.Literal['nvidia', 'amd', 'apple', 'cpu_rapl'] | None = None, sources: "
                   "collections.abc.Iterable[gpulens.energy.EnergySource] = (), "
                   "carbon: float | str | None = None) -> None"))
      .def(
          "window",
          [](M& self, const nb::object& sync) {
            return Live([&, wait = SyncOf(sync)] { return self.Window(wait); });
          },
          "sync"_a.none() = nb::none(),
          nb::sig("def window(self, sync: " GPULENS_SYNC " = None) -> EnergyWindow"),
          "Opens a window that measures all energy of the devices; windows nest and overlap "
          "freely.\n\n" GPULENS_SYNC_DOC)
      .def(
          "request",
          [](M& self, const nb::object& sync) {
            return Live([&, wait = SyncOf(sync)] { return self.Request(wait); });
          },
          "sync"_a.none() = nb::none(),
          nb::sig("def request(self, sync: " GPULENS_SYNC " = None) -> EnergyWindow"),
          "Opens a window that measures a share of the devices' energy; the shares of all open requests add "
          "up to it.\n\n" GPULENS_SYNC_DOC)
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
          nb::sig("def vendor(self) -> typing.Literal['nvidia', 'amd', 'apple', 'cpu_rapl', 'none']"),
          "\"nvidia\", \"amd\", \"cpu_rapl\" or \"none\".")
      .def_prop_ro(
          "available", [](const M& self) { return Live([&] { return self.status().ok(); }); },
          "Whether there is a device to read.")
      .def_prop_ro(
          "reason", [](const M& self) { return Live([&] { return self.status().detail; }); },
          "Why no device can be read; empty where one can.")
      .def_prop_ro("devices", &M::devices, "The devices that are measured.")
      .def("__repr__",
           [](const M& self) {
             return Live([&] {
               const std::string vendor(EnergyVendorName(self.vendor()));
               if (const Status status = self.status(); !status.ok())
                 return "<EnergyMonitor " + vendor + ": " + status.detail + ">";
               const size_t devices = self.devices().size();
               return "<EnergyMonitor " + vendor + ", " + std::to_string(devices) +
                      (devices == 1 ? " device>" : " devices>");
             });
           })
      .def_prop_ro(
          "unattributed_joules", &M::unattributed_joules,
          "Energy in joules since the monitor began while no request was open, as far as it is determined.");
}

void BindEnergySource(nb::module_& m) {
  BindDevice(m);
  BindReading(m);
  using Handle = MailboxHandle;
  nb::class_<Handle> box(m, "SourceMailbox", nb::is_weak_referenceable(), "Internal to gpulens.energy.");
  RefusesPickle(box, "it belongs to a monitor of this process");
  box.def(nb::init<>())
      .def("fileno", [](const Handle& self) { return self.box->read_end(); })
      .def("take",
           [](Handle& self) -> std::optional<std::pair<uint64_t, int>> {
             const Mailbox::Request request = self.box->Take();
             if (request.serial == 0) return std::nullopt;
             return std::pair(request.serial, request.what);
           })
      .def("give_devices",
           [](Handle& self, uint64_t serial, const nb::list& given) {
             std::vector<EnergyDevice> devices;
             for (nb::handle device : given) {
               if (!nb::isinstance<EnergyDevice>(device))
                 throw nb::type_error((std::string("open() must return gpulens.EnergyDevice objects, not ") +
                                       nb::type_name(device.type()).c_str())
                                          .c_str());
               devices.push_back(nb::cast<const EnergyDevice&>(device));
             }
             self.box->Give(serial, {{}, std::move(devices), {}});
           })
      .def("give_reading",
           [](Handle& self, uint64_t serial, nb::handle reading) {
             if (!nb::isinstance<EnergyReading>(reading))
               throw nb::type_error((std::string("read() must return a gpulens.SourceReading, not ") +
                                     nb::type_name(reading.type()).c_str() +
                                     ": SourceReading(joules=…) or SourceReading(watts=…)")
                                        .c_str());
             self.box->Give(serial, {{}, {}, nb::cast<const EnergyReading&>(reading)});
           })
      .def("fail",
           [](Handle& self, uint64_t serial, bool absent, std::string why) {
             self.box->Give(serial, {{absent ? Code::kUnavailable : Code::kIo, std::move(why)}, {}, {}});
           })
      .def("close", [](Handle& self) { self.box->Close(); })
      .def("renew", [](Handle& self) { self.box->Renew(); });
}

void Mailbox::Renew() {
  // The state may be locked by the parent's threads, so its memory is leaked.
  static_cast<void>(state_.release());
  state_ = std::make_unique<State>();
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) state_->closed = true;
  state_->read_end.reset(ends[0]);
  state_->write_end.reset(ends[1]);
}

Mailbox::Answer Mailbox::Query(int what, Duration timeout) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (!state.closed) {
    ++state.serial;
    state.what = what;
    state.waiting = true;
    const char byte = 1;
    // A full pipe wakes Python as well.
    if (::write(state.write_end.get(), &byte, 1) < 0) state.closed = true;
    state.came.wait_for(lock, timeout, [&] { return state.closed || state.answered == state.serial; });
    state.waiting = false;
    if (state.answered == state.serial) return std::exchange(state.answer, {});
  }
  if (state.closed) return {{Code::kUnavailable, "the source is closed"}, {}, {}};
  return {
      {Code::kTimeout, "Python did not answer in time: read() is slow, or other code holds the GIL"}, {}, {}};
}

Mailbox::Request Mailbox::Take() {
  State& state = *state_;
  std::lock_guard lock(state.mutex);
  if (!state.waiting || state.answered == state.serial) return {};
  return {state.serial, state.what};
}

void Mailbox::Give(uint64_t serial, Answer answer) {
  State& state = *state_;
  std::lock_guard lock(state.mutex);
  if (serial != state.serial || !state.waiting) return;
  state.answer = std::move(answer);
  state.answered = serial;
  state.came.notify_all();
}

void Mailbox::Close() {
  State& state = *state_;
  std::lock_guard lock(state.mutex);
  state.closed = true;
  state.write_end.reset();
  state.came.notify_all();
}

Result<std::vector<EnergyDevice>> MailboxSource::Open() {
  Mailbox::Answer answer = box_->Query(Mailbox::kOpen, kOpenTimeout);
  if (!answer.status.ok()) return answer.status;
  return std::move(answer.devices);
}

Status MailboxSource::Read(size_t device, EnergyReading& out) {
  Mailbox::Answer answer = box_->Query(static_cast<int>(device), kReadTimeout);
  out = answer.reading;
  return answer.status;
}

}  // namespace gpulens::python

// gpulens.energy: windows over the sampler of C++. Whatever may wait lets go of the GIL.
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

Duration Span(double seconds, const char* name) {
  if (!(seconds > 0 && seconds < 1e9))
    Raise({Code::kInvalidArgument,
           std::string(name) + " is a positive number of seconds; got " + Spell(seconds)});
  return std::chrono::nanoseconds(std::llround(seconds * 1e9));
}

// Of time.monotonic(): the same clock.
TimePoint At(double seconds) {
  if (!(std::abs(seconds) < 9e9))
    Raise({Code::kInvalidArgument, "a time is of time.monotonic(); got " + Spell(seconds)});
  return TimePoint(std::chrono::nanoseconds(std::llround(seconds * 1e9)));
}

Share ShareOf(std::string_view name) {
  if (name == "time") return Share::kByTime;
  if (name == "tokens") return Share::kByTokens;
  Raise({Code::kInvalidArgument, "share is \"time\" or \"tokens\"; got \"" + std::string(name) + "\""});
}

EnergyVendor VendorOf(const std::optional<std::string>& name) {
  if (!name) return EnergyVendor::kNone;
  for (const auto vendor :
       {EnergyVendor::kNvidia, EnergyVendor::kAmd, EnergyVendor::kApple, EnergyVendor::kCpuRapl}) {
    if (*name == EnergyVendorName(vendor)) return vendor;
  }
  Raise({Code::kInvalidArgument, "prefer is nvidia, amd, apple or cpu_rapl; got \"" + *name + "\""});
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

// The first call after a fork waits for readings, which may be a Python thread's: then the GIL is let go of.
// In the process that nobody forked none of these waits, and none lets go.
template <class Call>
auto Live(Call call) {
  if (!in_a_child.load(std::memory_order_relaxed)) [[likely]]
    return call();
  const nb::gil_scoped_release released;
  return call();
}

// A window in a `with`: its end is the block's.
class Block {
 public:
  explicit Block(EnergyWindow window) : window_(std::move(window)) {}
  Block(Block&&) = delete;

  void End() { window_.End(); }
  void AddTokens(int64_t tokens) { window_.AddTokens(tokens); }
  void Mark(std::string_view phase) { window_.Mark(phase); }
  EnergyResult Estimate() const { return window_.Estimate(); }
  EnergyResult Phase(std::string_view name) const { return window_.phase(name); }
  EnergyResult Result() {
    const nb::gil_scoped_release released;
    return window_.result();
  }

 private:
  EnergyWindow window_;
};

nb::object Settle(nb::object self) {
  const nb::object loop = nb::module_::import_("asyncio").attr("get_running_loop")();
  return loop.attr("run_in_executor")(nb::none(),
                                      nb::cpp_function([self] { return nb::cast<Block&>(self).Result(); }));
}

void BindResult(nb::module_& m) {
  using R = EnergyResult;
  nb::class_<EnergyTicks>(
      m, "EnergyTicks",
      "What was read meanwhile: power and memory summed over devices, utilization and temperature their "
      "mean. NaN: not read.")
      .def_ro("count", &EnergyTicks::count, "How many readings of all devices at once.")
      .def_ro("mean_power_watts", &EnergyTicks::mean_power_watts)
      .def_ro("peak_power_watts", &EnergyTicks::peak_power_watts)
      .def_ro("mean_utilization_ratio", &EnergyTicks::mean_utilization_ratio)
      .def_ro("peak_utilization_ratio", &EnergyTicks::peak_utilization_ratio)
      .def_ro("mean_memory_used_bytes", &EnergyTicks::mean_memory_used_bytes)
      .def_ro("peak_memory_used_bytes", &EnergyTicks::peak_memory_used_bytes)
      .def_ro("mean_temperature_celsius", &EnergyTicks::mean_temperature_celsius)
      .def_ro("peak_temperature_celsius", &EnergyTicks::peak_temperature_celsius);
  nb::class_<R>(m, "EnergyResult",
                "Joules of a window or of a request's share. NaN: not known, and `validity` and `reason` say "
                "why. It has no truth "
                "value: ask for `valid`.")
      .def_ro("energy_joules", &R::energy_joules,
              "Of a window what its devices drew, of a request its share.")
      .def_ro("device_energy_joules", &R::device_energy_joules,
              "What the devices drew meanwhile, whoever caused it.")
      .def_ro("uncertainty_joules", &R::uncertainty_joules,
              "Half-width: a bound with a counter; of an integral an estimate that 95 of 100 windows keep.")
      .def_ro("sensor_accuracy_ratio", &R::sensor_accuracy_ratio,
              "As the sensor's vendor states; apart from the above.")
      .def_ro("gpu_joules", &R::gpu_joules)
      .def_ro("cpu_joules", &R::cpu_joules, "Told beside a GPU, never added to energy_joules there.")
      .def_ro("dram_joules", &R::dram_joules, "Told beside a GPU, never added to energy_joules there.")
      .def_ro("mean_power_watts", &R::mean_power_watts, "energy_joules over the duration.")
      .def_prop_ro("duration_seconds", [](const R& self) { return Seconds(self.duration); })
      .def_ro("devices", &R::devices, "How many.")
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
      .def_ro("reason", &R::reason, "Why it is not valid and what to do, or what else to know.")
      .def_ro("ticks", &R::ticks)
      .def("__bool__",
           [](const R&) -> bool {
             throw nb::type_error("an EnergyResult has no truth value; ask for .valid");
           })
      .def("__repr__", [](const R& self) { return ToString(self); });
}

void BindReadings(nb::module_& m) {
  using S = EnergySample;
  nb::class_<S>(m, "EnergyReading", "All devices of a monitor at one reading. NaN: not read.")
      .def_prop_ro(
          "at_seconds", [](const S& self) { return Seconds(self.at.time_since_epoch()); },
          "Of time.monotonic().")
      .def_ro("gpu_watts", &S::gpu_watts)
      .def_ro("cpu_watts", &S::cpu_watts)
      .def_ro("dram_watts", &S::dram_watts)
      .def_ro("gpu_joules", &S::gpu_joules, "Since any zero.")
      .def_ro("cpu_joules", &S::cpu_joules, "Since any zero.")
      .def_ro("dram_joules", &S::dram_joules, "Since any zero.")
      .def_ro("utilization_ratio", &S::utilization_ratio)
      .def_ro("memory_used_bytes", &S::memory_used_bytes)
      .def_ro("temperature_celsius", &S::temperature_celsius);
}

void BindWindow(nb::module_& m) {
  nb::class_<Block>(m, "EnergyWindow",
                    "A stretch of time, from its making to the end of its `with`. Used by one thread at a "
                    "time, but add_tokens "
                    "by any. Neither entering nor leaving waits, so it is right in a coroutine.")
      .def(
          "__enter__", [](nb::object self) { return self; }, nb::sig("def __enter__(self) -> EnergyWindow"))
      .def("__exit__", [](Block& self, nb::args) { self.End(); })
      .def("end", &Block::End, "Takes the time; the first end counts.")
      .def("add_tokens", &Block::AddTokens, "tokens"_a,
           "The weight of a request where the monitor shares by tokens.")
      .def("mark", &Block::Mark, "phase"_a,
           "Begins a phase and ends the one before; equal names add up. At most 8 names.")
      .def("phase", &Block::Phase, "name"_a,
           "The energy of a phase; validity \"gap\" when there was no such mark.")
      .def("estimate", &Block::Estimate, "Up to now, without waiting for a reading.")
      .def_prop_ro(
          "result", &Block::Result,
          "Ends it, if nothing has, and waits for a closing reading, at most 20 ms, without holding the GIL.")
      .def("settle", &Settle, nb::sig("def settle(self) -> collections.abc.Awaitable[EnergyResult]"),
           "await window.settle(): the result, without holding up the event loop.");
}

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
  nb::class_<M>(m, "EnergyMonitor",
                "Reads the GPUs that this process may use, else the processors. All monitors share one "
                "thread. On a machine with "
                "nothing to read it works all the same: results are NaN and say why.\n\nshare: by what "
                "requests that are open at "
                "one time divide the energy, \"time\" or \"tokens\".\ninterval_seconds: 0.001 to 1; of all "
                "monitors the "
                "shortest counts.\nhistory_seconds: how far between() can look back.\ndevices: ids; none: "
                "those this process may "
                "use.\nprefer: a vendor that is tried first.\n\nWaits for a first reading, at most 3 s.")
      .def("__init__", construct, nb::kw_only(), "share"_a = "time", "interval_seconds"_a = 0.05,
           "history_seconds"_a = 60.0, "devices"_a = std::vector<std::string>(),
           "prefer"_a.none() = nb::none(), "sources"_a = nb::list(),
           nb::sig("def __init__(self, *, share: str = 'time', interval_seconds: float = 0.05, "
                   "history_seconds: float = 60.0, devices: collections.abc.Sequence[str] = [], "
                   "prefer: str | None = None, sources: list = []) -> None"))
      .def(
          "window", [](M& self) { return new Block(Live([&] { return self.Window(); })); },
          nb::rv_policy::take_ownership, "All that the devices draw; windows nest and overlap freely.")
      .def(
          "request", [](M& self) { return new Block(Live([&] { return self.Request(); })); },
          nb::rv_policy::take_ownership,
          "A share of what they draw: the shares of all requests that are open add up to it.")
      .def(
          "between",
          [](const M& self, double from, double to) {
            return Live([&, begin = At(from), end = At(to)] { return self.Between(begin, end); });
          },
          "from_seconds"_a, "to_seconds"_a,
          "Of two times of time.monotonic(), as far back as the history goes.")
      .def(
          "history",
          [](const M& self, double from, double to) {
            return Live([&, begin = At(from), end = At(to)] { return self.History(begin, end); });
          },
          "from_seconds"_a, "to_seconds"_a, "The readings between two times of time.monotonic().")
      .def_prop_ro(
          "vendor",
          [](const M& self) { return ToPython(EnergyVendorName(Live([&] { return self.vendor(); }))); },
          "\"nvidia\", \"amd\", \"cpu_rapl\" or \"none\".")
      .def_prop_ro(
          "available", [](const M& self) { return Live([&] { return self.status().ok(); }); },
          "Whether there is anything to read.")
      .def_prop_ro(
          "reason", [](const M& self) { return Live([&] { return self.status().detail; }); }, "Why not.")
      .def_prop_ro("devices", &M::devices, "Whose energy it tells.")
      .def_prop_ro("unattributed_joules", &M::unattributed_joules,
                   "Drawn since the monitor began while no request was open, as far as it is settled.");
}

}  // namespace gpulens::python

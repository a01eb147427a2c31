// The native side of gpulens.energy.EnergySource: see src/mailbox.h. Python's thread is started by Python.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "src/bind.h"
#include "src/mailbox.h"

namespace gpulens::python {
namespace {

EnergyPart PartOf(std::string_view name) {
  if (name == "gpu") return EnergyPart::kGpu;
  if (name == "cpu") return EnergyPart::kCpu;
  if (name == "dram") return EnergyPart::kDram;
  Raise({Code::kInvalidArgument,
         "part must be \"gpu\", \"cpu\" or \"dram\"; got \"" + std::string(name) + "\""});
}

const char* PartName(EnergyPart part) {
  switch (part) {
    case EnergyPart::kGpu: return "gpu";
    case EnergyPart::kCpu: return "cpu";
    case EnergyPart::kDram: return "dram";
  }
  return "";
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
  nb::class_<EnergyDevice>(
      m, "EnergyDevice",
      "A device whose energy is read.\n\nid: unique, such as a UUID.\npart: \"gpu\", \"cpu\" or "
      "\"dram\".\nusable: whether this process may use it.\nmost_watts: the most power that it can draw, "
      "which bounds the energy between two readings.\ncounter_step_joules: resolution of the "
      "counter.\ncounter_lag_seconds: maximum age of the counter's value when it is read; None: "
      "unknown.\naccuracy_ratio: accuracy of the sensor as its vendor states it.\n\nRaises "
      "InvalidArgumentError for an empty id or an unknown part.")
      .def("__init__", construct, "id"_a, "name"_a = "", nb::kw_only(), "part"_a = "gpu", "usable"_a = true,
           "most_watts"_a = kNotMeasured, "counter_step_joules"_a = 1e-3,
           "counter_lag_seconds"_a.none() = 0.0, "accuracy_ratio"_a = kNotMeasured)
      .def_ro("id", &EnergyDevice::id, "ID of the device: a UUID, or a name such as \"package-0\".")
      .def_ro("name", &EnergyDevice::name)
      .def_prop_ro(
          "part", [](const EnergyDevice& self) { return PartName(self.part); },
          "\"gpu\", \"cpu\" or \"dram\".")
      .def_ro("usable", &EnergyDevice::usable, "Whether this process may use it.")
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
  nb::class_<EnergyReading>(m, "SourceReading",
                            "One reading of a device by an EnergySource. joules count up from an arbitrary "
                            "zero; watts are the current power. One of the two is sufficient. NaN: unknown.")
      .def("__init__", construct, nb::kw_only(), "joules"_a = kNotMeasured, "watts"_a = kNotMeasured,
           "utilization_ratio"_a = kNotMeasured, "memory_used_bytes"_a = kNotMeasured,
           "temperature_celsius"_a = kNotMeasured, "processes"_a = kNotMeasured)
      .def_ro("joules", &EnergyReading::joules)
      .def_ro("watts", &EnergyReading::watts);
}

}  // namespace

void BindEnergySource(nb::module_& m) {
  BindDevice(m);
  BindReading(m);
  using Handle = MailboxHandle;
  nb::class_<Handle>(m, "SourceMailbox", nb::is_weak_referenceable(), "Internal to gpulens.energy.")
      .def(nb::init<>())
      .def("fileno", [](const Handle& self) { return self.box->read_end(); })
      .def("take",
           [](Handle& self) -> std::optional<std::pair<uint64_t, int>> {
             const Mailbox::Request request = self.box->Take();
             if (request.serial == 0) return std::nullopt;
             return std::pair(request.serial, request.what);
           })
      .def("give_devices",
           [](Handle& self, uint64_t serial, std::vector<EnergyDevice> devices) {
             self.box->Give(serial, {{}, std::move(devices), {}});
           })
      .def("give_reading", [](Handle& self, uint64_t serial,
                              const EnergyReading& reading) { self.box->Give(serial, {{}, {}, reading}); })
      .def("fail",
           [](Handle& self, uint64_t serial, bool absent, std::string why) {
             self.box->Give(serial, {{absent ? Code::kUnavailable : Code::kIo, std::move(why)}, {}, {}});
           })
      .def("close", [](Handle& self) { self.box->Close(); })
      .def("renew", [](Handle& self) { self.box->Renew(); });
}

}  // namespace gpulens::python

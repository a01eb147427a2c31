// gpulens.efficiency.
#include <gpulens/efficiency.h>

#include <optional>

#include <nanobind/stl/optional.h>

#include "src/values.h"

namespace gpulens::python {
namespace {

constexpr Precision kPrecisions[] = {Precision::kFp64, Precision::kFp32, Precision::kTf32, Precision::kBf16,
                                     Precision::kFp16, Precision::kFp8,  Precision::kInt8, Precision::kFp4};

Precision Parsed(std::string_view name) {
  if (const auto precision = ParsePrecision(name)) return *precision;
  std::string known;
  for (Precision precision : kPrecisions) known += " " + std::string(PrecisionName(precision));
  Raise({Code::kInvalidArgument, "unknown precision \"" + std::string(name) + "\"; use one of:" + known});
}

void NeedCount(int gpu_count) {
  if (gpu_count < 1)
    Raise({Code::kInvalidArgument, "gpu_count must be at least 1; got " + std::to_string(gpu_count)});
}

// Raises TypeError unless exactly one of the two is given.
template <class A, class B>
void NeedOne(const std::optional<A>& a, const std::optional<B>& b, const char* names) {
  if (a.has_value() == b.has_value()) throw nb::type_error((std::string("give either ") + names).c_str());
}

double MbuOf(double bytes_per_step, double steps_per_second, const std::optional<GpuHardwareSpec>& spec,
             std::optional<double> bandwidth, int gpu_count) {
  NeedOne(spec, bandwidth, "spec, from find_gpu_spec(), or bandwidth_bytes_per_second");
  NeedCount(gpu_count);
  return Mbu(bytes_per_step, steps_per_second, spec ? spec->memory_bandwidth_bytes_per_second : *bandwidth,
             gpu_count);
}

}  // namespace

void BindEfficiency(nb::module_& m) {
  using Spec = GpuHardwareSpec;
  ValueClass<Spec>(m, "GpuHardwareSpec",
                   "Hardware specification of a GPU as its vendor publishes it, with dense peaks: half of "
                   "the figures that count zeros as work. NaN: not published, or sources disagree.")
      .def_prop_ro(
          "product", [](const Spec& self) { return ToPython(self.product); },
          "Product name as the driver reports it.")
      .keeps("product", &Spec::product)
      .def_prop_ro(
          "source", [](const Spec& self) { return ToPython(self.source); }, "Source of the figures.")
      .keeps("source", &Spec::source)
      .def_prop_ro(
          "as_of", [](const Spec& self) { return ToPython(self.as_of); }, "Newest date of the source.")
      .keeps("as_of", &Spec::as_of)
      .keeps("peaks", &Spec::peaks)
      .def_ro("memory_bytes", &Spec::memory_bytes)
      .def_ro("memory_bandwidth_bytes_per_second", &Spec::memory_bandwidth_bytes_per_second)
      .def_ro("tdp_watts", &Spec::tdp_watts)
      .def(
          "peak_flops",
          [](const Spec& self, std::string_view precision) { return self.PeakFlops(Parsed(precision)); },
          "precision"_a,
          nb::sig("def peak_flops(self, precision: typing.Literal['fp64', 'fp32', 'tf32', 'bf16', 'fp16', "
                  "'fp8', 'int8', 'fp4']) -> float"),
          "Returns the peak in operations per second in \"fp64\", \"fp32\", \"tf32\", \"bf16\", \"fp16\", "
          "\"fp8\", \"int8\" or \"fp4\", with matrix units where there are any. Raises InvalidArgumentError "
          "for another name.")
      .def("__repr__", [](const Spec& self) { return "GpuHardwareSpec(" + std::string(self.product) + ")"; });
  m.def("find_gpu_spec", &FindGpuSpec, "product_or_pci_id"_a,
        "Returns the specification by the full product name (\"NVIDIA H100 80GB HBM3\", in any case) or by "
        "PCI vendor:device (\"10de:2330\"). None where nothing matches exactly; nothing is guessed.");
  const auto mfu = [](double flops, double seconds, const std::optional<Spec>& spec,
                      std::string_view precision, std::optional<double> peak_flops, int gpu_count) {
    NeedOne(spec, peak_flops, "spec, from find_gpu_spec(), or peak_flops");
    NeedCount(gpu_count);
    return Mfu(flops, seconds, spec ? spec->PeakFlops(Parsed(precision)) : *peak_flops, gpu_count);
  };
  m.def("mfu", mfu, "flops"_a, "seconds"_a, "spec"_a.none() = nb::none(), "precision"_a = "bf16",
        nb::kw_only(), "peak_flops"_a.none() = nb::none(), "gpu_count"_a = 1,
        nb::sig("def mfu(flops: float, seconds: float, spec: GpuHardwareSpec | None = None, precision: "
                "typing.Literal['fp64', 'fp32', 'tf32', 'bf16', 'fp16', 'fp8', 'int8', 'fp4'] = 'bf16', *, "
                "peak_flops: float | None = None, gpu_count: int = 1) -> float"),
        "Returns the model FLOPs utilisation, a ratio: flops / (seconds * peak * gpu_count). With the FLOPs "
        "that were executed, including recomputed ones, it is the HFU. NaN where a number is unknown, "
        "negative or "
        "infinite, and where seconds or the peak is 0. Raises TypeError unless exactly one of spec and "
        "peak_flops "
        "is given, and InvalidArgumentError for an unknown precision and a gpu_count below 1.");
  m.def(
      "mbu", &MbuOf, "bytes_per_step"_a, "steps_per_second"_a, "spec"_a.none() = nb::none(), nb::kw_only(),
      "bandwidth_bytes_per_second"_a.none() = nb::none(), "gpu_count"_a = 1,
      "Returns the memory bandwidth utilisation, a ratio: the bytes that each step must read (the weights "
      "once, whatever the batch size) times the steps per second, divided by the available bandwidth. NaN "
      "where a number is unknown, negative or infinite, and where the bandwidth is 0. Raises TypeError "
      "unless "
      "exactly one of spec and bandwidth_bytes_per_second is given, and InvalidArgumentError for a gpu_count "
      "below 1.");
  m.def("forward_flops", &ForwardFlops, "active_params"_a, "tokens"_a,
        "Returns the operations of a forward pass: 2 for each active parameter and token. NaN where a number "
        "is "
        "unknown, negative or infinite.");
  m.def("training_flops", &TrainingFlops, "active_params"_a, "tokens"_a,
        "Returns the operations of a forward and a backward pass: 6 for each active parameter and token. NaN "
        "where a number is unknown, negative or infinite.");
}

}  // namespace gpulens::python

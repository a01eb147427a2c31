// What a GPU could do, and how much of it was used: MFU, HFU, MBU.
//
// Ratios, 0 to 1 where the numbers given are true; NaN (kNotMeasured) where anything is not known. Nothing is
// guessed: a board is found by its exact name or its PCI id, or not at all. Immutable tables; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens {

enum class Precision : uint8_t { kFp64, kFp32, kTf32, kBf16, kFp16, kFp8, kInt8, kFp4 };

// "bf16", "tf32" … Static storage.
std::string_view PrecisionName(Precision precision) noexcept;
std::optional<Precision> ParsePrecision(std::string_view name) noexcept;  // of any case

// As its vendor publishes it, dense: half of the figures that count zeros as work.
struct GpuHardwareSpec {
  std::string_view product;        // as the driver names it
  std::string_view source, as_of;  // where the numbers stand, and the newest date of that
  double memory_bytes = kNotMeasured;
  double memory_bandwidth_bytes_per_second = kNotMeasured;
  double tdp_watts = kNotMeasured;
  // Operations a second; with matrix units where there are any for this precision. NaN: not published, or
  // sources disagree.
  double PeakFlops(Precision precision) const noexcept;

  double peaks[8] = {kNotMeasured, kNotMeasured, kNotMeasured, kNotMeasured,
                     kNotMeasured, kNotMeasured, kNotMeasured, kNotMeasured};  // by Precision
};

// By the product's whole name ("NVIDIA H100 80GB HBM3", in any case) or by "vendor:device" of PCI
// ("10de:2330"). A PCI id that several products share finds nothing.
std::optional<GpuHardwareSpec> FindGpuSpec(std::string_view product_or_pci_id) noexcept;

// Model FLOPs of a forward pass over `tokens`: 2 for each parameter that is active (Kaplan et al., 2020,
// arXiv 2001.08361, without attention). Of training, forward and backward: 6 (Chowdhery et al., 2022, PaLM,
// appendix B).
double ForwardFlops(double active_params, double tokens) noexcept;
double TrainingFlops(double active_params, double tokens) noexcept;

// Model FLOPs utilisation (PaLM, appendix B): flops / (seconds * peak * gpu_count). With the FLOPs that were
// executed, recomputed ones included, it is the HFU. NaN when seconds or gpu_count are not positive.
double Mfu(double flops, double seconds, double peak_flops, int gpu_count = 1) noexcept;
double Mfu(double flops, double seconds, const GpuHardwareSpec& spec, Precision precision,
           int gpu_count = 1) noexcept;

// Memory bandwidth utilisation: the bytes that each step must read (weights once a step, however many
// requests are in its batch) times the steps a second, by the bandwidth there is.
double Mbu(double bytes_per_step, double steps_per_second, double bandwidth_bytes_per_second,
           int gpu_count = 1) noexcept;
double Mbu(double bytes_per_step, double steps_per_second, const GpuHardwareSpec& spec,
           int gpu_count = 1) noexcept;

}  // namespace gpulens

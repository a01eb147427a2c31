// Peak performance of GPUs, and how much of it a program used: MFU, HFU, MBU.
//
// Results are NaN (kNotMeasured) where an input is unknown: NaN, negative or infinite; for a utilization also
// where the time, the peak or the bandwidth is 0. Utilizations are ratios from 0 to 1 for correct inputs.
// Boards are found by exact name or PCI id only. Immutable tables; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens {

enum class Precision : uint8_t { kFp64, kFp32, kTf32, kBf16, kFp16, kFp8, kInt8, kFp4 };

// "bf16", "tf32" … Static storage.
std::string_view PrecisionName(Precision precision) noexcept;
std::optional<Precision> ParsePrecision(std::string_view name) noexcept;  // ignores case

// A board's figures as its vendor publishes them, without sparsity: half of the figures that count zeros as
// work.
struct GpuHardwareSpec {
  std::string_view product;        // as the driver names it
  std::string_view source, as_of;  // the document with the figures, and its newest date
  double memory_bytes = kNotMeasured;
  double memory_bandwidth_bytes_per_second = kNotMeasured;
  double tdp_watts = kNotMeasured;
  // Operations a second, of the matrix units where they support this precision. NaN when it is unpublished or
  // sources disagree.
  double PeakFlops(Precision precision) const noexcept;

  double peaks[8] = {kNotMeasured, kNotMeasured, kNotMeasured, kNotMeasured,
                     kNotMeasured, kNotMeasured, kNotMeasured, kNotMeasured};  // by Precision
};

// Finds a board by the product's full name ("NVIDIA H100 80GB HBM3", ignoring case) or by the PCI id
// "vendor:device" ("10de:2330"). Returns nothing for a PCI id that several products share.
std::optional<GpuHardwareSpec> FindGpuSpec(std::string_view product_or_pci_id) noexcept;

// Model FLOPs of a forward pass over `tokens`: 2 for each active parameter (Kaplan et al., 2020, arXiv
// 2001.08361, without attention). Of training, forward and backward: 6 (Chowdhery et al., 2022, PaLM,
// appendix B).
double ForwardFlops(double active_params, double tokens) noexcept;
double TrainingFlops(double active_params, double tokens) noexcept;

// Model FLOPs utilization (PaLM, appendix B): flops / (seconds * peak * gpu_count). Given the executed FLOPs,
// with recomputation, it is the HFU. NaN also unless gpu_count is positive.
double Mfu(double flops, double seconds, double peak_flops, int gpu_count = 1) noexcept;
double Mfu(double flops, double seconds, const GpuHardwareSpec& spec, Precision precision,
           int gpu_count = 1) noexcept;

// Memory bandwidth utilization: the bytes that each step must read (weights once a step, whatever its batch
// size) times the steps a second, divided by the peak bandwidth.
double Mbu(double bytes_per_step, double steps_per_second, double bandwidth_bytes_per_second,
           int gpu_count = 1) noexcept;
double Mbu(double bytes_per_step, double steps_per_second, const GpuHardwareSpec& spec,
           int gpu_count = 1) noexcept;

}  // namespace gpulens

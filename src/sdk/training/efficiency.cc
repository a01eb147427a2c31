#include <gpulens/efficiency.h>

#include <cmath>

#include "base/parse.h"

namespace gpulens {
namespace {

// A row of gpu_specs.tsv, in the units of the table.
struct SpecRow {
  struct Numbers {
    double fp64, fp64_matrix, fp32, tf32, bf16, fp16, fp8, int8, fp4, memory_gb, bandwidth_gb_s, tdp_w;
  };
  std::string_view product, pci_ids;
  Numbers numbers;
  std::string_view source, as_of;
};

#include "sdk/training/gpu_specs.inc"

constexpr std::string_view kPrecisionNames[] = {"fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4"};
constexpr double kTera = 1e12, kGiga = 1e9;

GpuHardwareSpec SpecOf(const SpecRow& row) noexcept {
  const SpecRow::Numbers& n = row.numbers;
  GpuHardwareSpec spec{.product = row.product,
                       .source = row.source,
                       .as_of = row.as_of,
                       .memory_bytes = n.memory_gb * kGiga,
                       .memory_bandwidth_bytes_per_second = n.bandwidth_gb_s * kGiga,
                       .tdp_watts = n.tdp_w};
  const double fp64 = std::isnan(n.fp64_matrix) ? n.fp64 : n.fp64_matrix;
  const double peaks[] = {fp64, n.fp32, n.tf32, n.bf16, n.fp16, n.fp8, n.int8, n.fp4};
  for (size_t i = 0; i < std::size(peaks); ++i) spec.peaks[i] = peaks[i] * kTera;
  return spec;
}

bool HasWord(std::string_view words, std::string_view wanted) noexcept {
  while (!words.empty()) {
    if (EqualsIgnoringCase(TakeUntil(words, ' '), wanted)) return true;
  }
  return false;
}

bool IsPositive(double value) noexcept { return value > 0 && std::isfinite(value); }
// Quantities: what is negative or infinite was not measured.
bool IsQuantity(double value) noexcept { return value >= 0 && std::isfinite(value); }

double FlopsOf(double per_token, double active_params, double tokens) noexcept {
  if (!IsQuantity(active_params) || !IsQuantity(tokens)) return kNotMeasured;
  return per_token * active_params * tokens;
}

}  // namespace

std::string_view PrecisionName(Precision precision) noexcept {
  const auto number = static_cast<size_t>(precision);
  return number < std::size(kPrecisionNames) ? kPrecisionNames[number] : "unknown";
}

std::optional<Precision> ParsePrecision(std::string_view name) noexcept {
  for (size_t i = 0; i < std::size(kPrecisionNames); ++i) {
    if (EqualsIgnoringCase(name, kPrecisionNames[i])) return static_cast<Precision>(i);
  }
  return std::nullopt;
}

double GpuHardwareSpec::PeakFlops(Precision precision) const noexcept {
  const auto number = static_cast<size_t>(precision);
  return number < std::size(peaks) ? peaks[number] : kNotMeasured;
}

std::optional<GpuHardwareSpec> FindGpuSpec(std::string_view product_or_pci_id) noexcept {
  const std::string_view wanted = Trim(product_or_pci_id);
  if (wanted.empty()) return std::nullopt;
  for (const SpecRow& row : kRows) {
    if (EqualsIgnoringCase(row.product, wanted) || HasWord(row.pci_ids, wanted)) return SpecOf(row);
  }
  return std::nullopt;
}

double ForwardFlops(double active_params, double tokens) noexcept {
  return FlopsOf(2, active_params, tokens);
}
double TrainingFlops(double active_params, double tokens) noexcept {
  return FlopsOf(6, active_params, tokens);
}

double Mfu(double flops, double seconds, double peak_flops, int gpu_count) noexcept {
  if (!IsQuantity(flops) || !IsPositive(seconds) || !IsPositive(peak_flops) || gpu_count <= 0)
    return kNotMeasured;
  return flops / (seconds * peak_flops * gpu_count);
}

double Mfu(double flops, double seconds, const GpuHardwareSpec& spec, Precision precision,
           int gpu_count) noexcept {
  return Mfu(flops, seconds, spec.PeakFlops(precision), gpu_count);
}

double Mbu(double bytes_per_step, double steps_per_second, double bandwidth_bytes_per_second,
           int gpu_count) noexcept {
  if (!IsQuantity(bytes_per_step) || !IsQuantity(steps_per_second) ||
      !IsPositive(bandwidth_bytes_per_second) || gpu_count <= 0)
    return kNotMeasured;
  return bytes_per_step * steps_per_second / (bandwidth_bytes_per_second * gpu_count);
}

double Mbu(double bytes_per_step, double steps_per_second, const GpuHardwareSpec& spec,
           int gpu_count) noexcept {
  return Mbu(bytes_per_step, steps_per_second, spec.memory_bandwidth_bytes_per_second, gpu_count);
}

}  // namespace gpulens

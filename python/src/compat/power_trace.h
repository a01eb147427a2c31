// The last readings of a machine's power, and the energy of any span of them. Pure; not thread-safe.
//
// Unlike EnergyCurve it keeps every reading as it was, for those who want to see them, and knows no counter.
// A span's edges are interpolated, so what lies between two readings counts, too; before the first and after
// the last nothing is known, and nothing is added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpulens::energy {

// NaN: not read.
struct PowerSample {
  int64_t at_ns = 0;
  double gpu_watts = 0, cpu_watts = 0;
  double gpu_joules = 0, cpu_joules = 0;
  double utilization_percent = 0, temperature_celsius = 0, memory_gib = 0;
};

class PowerTrace {
 public:
  struct Pair {
    double gpu = 0, cpu = 0;
  };

  // Keeps the last `capacity` samples, at least 1. Memory grows with them.
  explicit PowerTrace(size_t capacity);

  // One that is earlier than the last is ignored.
  void Add(const PowerSample& sample);
  void Clear() noexcept;
  size_t size() const noexcept { return samples_.size(); }

  // From begin_ns to end_ns, both included, in their order.
  std::vector<PowerSample> Within(int64_t begin_ns, int64_t end_ns) const;
  // Joules, by trapezoids over what of the span lies between the first and the last sample. 0 where that is
  // nothing; a stretch between samples of which one has no power adds nothing.
  Pair EnergyJoules(int64_t begin_ns, int64_t end_ns) const;
  // Watts: the mean of the samples in the span that have one; 0 without any.
  Pair MeanWatts(int64_t begin_ns, int64_t end_ns) const;

 private:
  const PowerSample& At(size_t i) const noexcept { return samples_[(begin_ + i) % samples_.size()]; }
  size_t FirstFrom(int64_t at_ns) const noexcept;  // size() when all are earlier

  const size_t capacity_;
  std::vector<PowerSample> samples_;  // a ring once it is full
  size_t begin_ = 0;
};

}  // namespace gpulens::energy

// The last readings of a machine's power, and the energy of spans of them. Thread-safe.
//
// Unlike EnergyCurve it keeps every reading and uses no counter. The edges of a span are interpolated between
// readings; time before the first and after the last reading adds nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace gpulens::energy {

// A reading of power; NaN: not read.
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

  // Ignores samples earlier than the last one.
  void Add(const PowerSample& sample);
  void Clear();
  size_t size() const;

  // Returns the samples from begin_ns to end_ns, both included, in order.
  std::vector<PowerSample> Within(int64_t begin_ns, int64_t end_ns) const;
  // Returns joules by the trapezoidal rule over the part of the span between the first and the last sample.
  // An interval between samples adds nothing if one of them has no power.
  Pair EnergyJoules(int64_t begin_ns, int64_t end_ns) const;
  // Returns watts: the mean of the samples in the span with a power; 0 without any.
  Pair MeanWatts(int64_t begin_ns, int64_t end_ns) const;

 private:
  const PowerSample& At(size_t i) const noexcept { return samples_[(begin_ + i) % samples_.size()]; }
  size_t FirstFrom(int64_t at_ns) const noexcept;  // size() when all are earlier

  const size_t capacity_;
  mutable std::mutex mutex_;          // guards what follows
  std::vector<PowerSample> samples_;  // a ring once it is full
  size_t begin_ = 0;
};

}  // namespace gpulens::energy

// Quantiles of any number of values in bounded memory: counts of exponential buckets, which can be added
// exactly. After DDSketch (Masson, Rim, Lee, VLDB 2019), with the buckets of our instruments at scale 6.
//
// A quantile is within 0.55 % (kRelativeError) of the true one for values of one sign. Each sign has 2,048
// buckets (32 doublings: a microsecond to an hour and more); beyond, the buckets nearest zero are merged, so
// only small values become inexact. A value type; used by one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens {

class QuantileSketch {
 public:
  static constexpr int kScale = 6;                    // 64 buckets for each doubling
  static constexpr double kRelativeError = 0.005416;  // (g - 1) / (g + 1), g = 2^(1/64)
  static constexpr int32_t kMostBuckets = 2048;       // of each sign

  // Returns false and ignores NaN and the infinities.
  bool Add(double value);
  void Merge(const QuantileSketch& other);

  uint64_t count() const noexcept { return zeros_ + positive_.total + negative_.total; }
  // `fraction` 0 to 1, linear between ranks as Percentile (gpulens/stats.h). NaN: no values, or no fraction.
  double Quantile(double fraction) const noexcept;

  // Independent of the order of merges, and equal sketches have equal bytes, on any machine: a version, then
  // varints.
  void AppendBytes(std::string& out) const;
  // Adds the sketch of AppendBytes. kDataLoss for other bytes, which change nothing. Memory is bounded by
  // their number.
  Status MergeBytes(std::string_view bytes);

  friend bool operator==(const QuantileSketch&, const QuantileSketch&) = default;

 private:
  // Buckets of one sign, by the logarithm of the magnitude. `counts` begins and ends with one that is not 0.
  struct Side {
    int32_t low = 0;
    std::vector<uint64_t> counts;
    uint64_t total = 0;

    int32_t high() const noexcept { return low + static_cast<int32_t>(counts.size()) - 1; }
    void Add(int32_t index, uint64_t n);
    void Cover(int32_t from, int32_t to);
    // Counted from the smallest magnitude on.
    double At(uint64_t rank) const noexcept;
    friend bool operator==(const Side&, const Side&) = default;
  };

  double At(uint64_t rank) const noexcept;
  static void AppendSide(std::string& out, const Side& side);
  template <class Take>
  static bool ReadSide(std::string_view& rest, Take take);
  template <class Take>
  static bool Read(std::string_view bytes, Take take);

  uint64_t zeros_ = 0;
  Side positive_, negative_;
};

}  // namespace gpulens

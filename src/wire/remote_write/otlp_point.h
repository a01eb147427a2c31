// One data point of OTLP of any kind, read from its bytes. Inside src/wire/remote_write only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wire/otlp/otlp_schema.h"

namespace gpulens::remote_write {

// Not thread-safe; keeps its memory. Views into the message.
struct OtlpPoint {
  // With as many of the resource, fewer labels than receivers take (1024).
  static constexpr size_t kMostAttributes = 500;
  static constexpr size_t kMostBuckets = 16'384;

  struct Buckets {
    int32_t offset = 0;  // of the first: bucket i is (base^i, base^(i+1)]
    std::vector<uint64_t> counts;
  };
  struct Quantile {
    double quantile = 0, value = 0;
  };

  uint64_t start_ns = 0, ns = 0;  // of the Unix epoch; 0: not set
  bool ended = false;             // no recorded value
  bool has_value = false;         // of a gauge or a sum
  double value = 0;
  uint64_t count = 0;  // of histograms and summaries
  bool has_sum = false;
  double sum = 0;
  std::vector<uint64_t> counts;  // by explicit bounds
  std::vector<double> bounds;
  int32_t scale = 0;
  uint64_t zero_count = 0;
  double zero_threshold = 0;
  Buckets positive, negative;
  std::vector<Quantile> quantiles;
  std::vector<std::string_view> attributes, exemplars;  // messages
  std::string_view native;                              // of remote_write::kNativeField
  bool too_many = false;                                // attributes, or buckets; they are not all here

  // `data` is the field of the metric that holds the point (otlp::kGauge, …). The message passed
  // otlp::CheckMessage.
  void Read(uint32_t data, std::string_view message);

 private:
  void Clear();
  void ReadNumber(uint32_t number, std::string_view bytes);
};

// The milliseconds of a time in OTLP; false when it is not set or after the year 2261.
bool MsOfTime(uint64_t ns, int64_t& ms) noexcept;

// Whether a message can be used; `readable` is false when it is no message at all.
bool IsGood(OtlpMessage shape, std::string_view message, bool& readable) noexcept;

}  // namespace gpulens::remote_write

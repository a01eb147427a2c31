// Data points of OTLP read from their bytes, and native histograms of remote write: read and checked as OTLP
// has them, and written from OTLP.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wire/otlp/otlp_schema.h"
#include "wire/remote_write/remote_write_fields.h"
#include "wire/remote_write/remote_write_request.h"

namespace gpulens::remote_write {

// One data point of OTLP of any kind. Views into the message. Inside src/wire/remote_write only. Not
// thread-safe; keeps its memory.
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

namespace gpulens {

// Not thread-safe; its memory is used again.
class NativeHistogram {
 public:
  static constexpr size_t kMostBuckets = remote_write::OtlpPoint::kMostBuckets;

  struct Buckets {
    int32_t offset = 0;  // of the first, as OTLP counts: bucket 0 is (1, base]
    std::vector<uint64_t> counts;
  };

  // Accepts histograms for which lossy() is true, too.
  void AcceptAll(bool all) noexcept { accept_all_ = all; }

  // Reads a message; false for invalid bytes. With a `fault`, the histogram cannot be passed on and only ms()
  // is valid. A histogram that ended has no fault and no buckets.
  bool Read(std::string_view message, RemoteWriteFault& fault);

  int64_t ms() const noexcept { return ms_; }
  int64_t start_ms() const noexcept { return start_ms_; }
  bool ended() const noexcept { return ended_; }
  // Bounds are listed, as in a classic histogram, and counts() has one bucket more than these.
  bool custom() const noexcept { return custom_; }
  // OTLP cannot represent it: its counts are of floating point (they are not kept here), or it is a gauge.
  bool lossy() const noexcept { return floats_ || is_gauge(); }
  // Whether it states that its counter was reset or not, or that it is no counter.
  bool hinted() const noexcept { return hint_ != 0; }
  uint64_t count() const noexcept { return count_; }
  double sum() const noexcept { return sum_; }
  int32_t schema() const noexcept { return schema_; }
  uint64_t zero_count() const noexcept { return zero_count_; }
  double zero_threshold() const noexcept { return zero_threshold_; }
  const Buckets& positive() const noexcept { return positive_; }
  const Buckets& negative() const noexcept { return negative_; }
  const std::vector<double>& bounds() const noexcept { return bounds_; }
  const std::vector<uint64_t>& counts() const noexcept { return positive_.counts; }

 private:
  bool is_gauge() const noexcept;
  struct Span {
    int32_t offset = 0;
    uint32_t length = 0;
  };
  struct Side {
    std::vector<Span> spans;
    std::vector<int64_t> deltas;
    std::vector<double> counts;  // instead of deltas, of a histogram of floating point
  };

  void Clear() noexcept;
  bool ReadFields(std::string_view message);
  bool ReadSpan(std::string_view message, Side& side);
  RemoteWriteFault Validate();
  RemoteWriteFault Spread(const Side& side, Buckets& out) const;
  RemoteWriteFault SpreadCustom();
  RemoteWriteFault ValidateFloats() const;
  bool AddsUp() const noexcept;

  int64_t ms_ = 0, start_ms_ = 0;
  uint64_t count_ = 0, zero_count_ = 0, hint_ = 0;
  double sum_ = 0, zero_threshold_ = 0;
  int32_t schema_ = 0;
  double float_count_ = 0, float_zero_count_ = 0;
  bool ended_ = false, custom_ = false, floats_ = false, too_wide_ = false, accept_all_ = false;
  Side above_, below_;
  Buckets positive_, negative_;
  std::vector<double> bounds_;
};

}  // namespace gpulens

namespace gpulens::remote_write {

// Writes histograms of OTLP as native histograms of remote write.
//
// Not thread-safe; keeps its memory.
class NativeWriter {
 public:
  NativeWriter() { carried_.AcceptAll(true); }

  struct Times {
    int64_t ms = 0, start_ms = 0;  // 0: no start
  };
  // Appends a field of histograms of a TimeSeries. What a receiver would refuse is refused here, since it may
  // refuse the whole request for it. A point that ended becomes the stale marker.
  RemoteWriteOutFault AppendExponential(std::string& out, const OtlpPoint& point, Times times,
                                        double zero_threshold);
  RemoteWriteOutFault AppendCustom(std::string& out, const OtlpPoint& point, Times times);
  // The same of the bytes that RemoteWriteIn carried, in the order of their fields.
  RemoteWriteOutFault AppendCarried(std::string& out, std::string_view message);

  void SetVersion(RemoteWriteVersion version) noexcept { version_ = version; }

 private:
  void Begin(const OtlpPoint& point, int32_t schema);
  void AppendSide(uint32_t spans, uint32_t deltas, int64_t place, const std::vector<uint64_t>& counts);
  bool Downscale(const OtlpPoint::Buckets& from, int by, OtlpPoint::Buckets& to) const;
  void Finish(std::string& out, Times times);

  RemoteWriteVersion version_ = RemoteWriteVersion::k1;
  NativeHistogram carried_;
  std::string message_;
  std::vector<int64_t> deltas_;
  std::vector<uint64_t> all_;  // the one bucket of a point without buckets
  OtlpPoint::Buckets positive_, negative_;
};

}  // namespace gpulens::remote_write

// Histograms of OTLP as native histograms of remote write. Inside src/wire/remote_write only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wire/remote_write/otlp_point.h"
#include "wire/remote_write/remote_write_out_fault.h"
#include "wire/remote_write/remote_write_request.h"

namespace gpulens::remote_write_out {

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

}  // namespace gpulens::remote_write_out

// Writer of requests, which opens the messages around a point and closes a full request, and the frame that
// is being exported. Shared by the sources of OtlpMetrics.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "wire/otlp/otlp_fields.h"
#include "wire/otlp/otlp_layout.h"
#include "wire/otlp/otlp_metrics.h"

namespace gpulens {

// One Encode. Not thread-safe.
class OtlpMetrics::Writer {
 public:
  Writer(std::string& request, std::string_view resource, const Options& options, const Take& take)
      : request_(request), resource_(resource), options_(options), take_(take), nesting_(request) {
    request_.clear();
  }

  // The InstrumentationScope of what follows, a whole field; it outlives this writer.
  void BeginScope(std::string_view scope) noexcept;
  void BeginFamily(const OtlpFamily& family) noexcept;

  // Returns the number of points of `bytes` each that still fit into this request; at least one if it is
  // empty.
  size_t Room(size_t bytes) const noexcept;
  // Opens the messages around points. The bytes of points may be appended to the result.
  std::string& Open();
  void Count(uint32_t points) noexcept { points_ += points; }
  // Hands the request on; what is opened then begins another one, in the same scope and family.
  // The bytes stay in `request` until then.
  Status Flush();
  uint32_t points() const noexcept { return points_; }  // of this request
  uint64_t total() const noexcept { return total_ + points_; }

 private:
  void CloseFamily() noexcept;
  void CloseScope() noexcept;

  std::string& request_;
  const std::string_view resource_;
  const Options& options_;
  const Take& take_;
  otlp::Nesting nesting_;
  std::string_view scope_;
  const OtlpFamily* family_ = nullptr;
  // Places of their lengths; 0: not open.
  size_t resource_at_ = 0, scope_at_ = 0, metric_at_ = 0, data_at_ = 0;
  uint32_t points_ = 0;
  uint64_t total_ = 0;
};

// A frame that is being exported.
struct OtlpMetrics::Reporting {
  const Frame& frame;
  const OtlpLayout& text;
  const Planned& planned;
  Source& source;
  uint32_t number = 0;                                             // of the frame in its snapshot
  int64_t reported_unix_ns = std::numeric_limits<int64_t>::min();  // the frame that the receiver has
};

inline constexpr int64_t kNsOfMs = 1'000'000;

inline int64_t ReadUnixNs(const Frame& frame, uint32_t slot) noexcept {
  return frame.read_at.unix_ns - int64_t{frame.AgeMs(slot)} * kNsOfMs;
}

}  // namespace gpulens

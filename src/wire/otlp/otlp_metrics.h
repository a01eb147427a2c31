// Snapshots as OTLP metrics: ExportMetricsServiceRequest in protobuf, some for each snapshot.
//
// A point carries the time at which its source read it. What was told before is not told again: a collector
// that did not run since, a stale value. A series that ends, or has no value any more, is told once without
// one (FLAG_NO_RECORDED_VALUE), so that receivers do not show its last one for minutes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "core/frame.h"
#include "core/histogram.h"
#include "core/spelled_series.h"
#include "wire/otlp/otlp_layout.h"
#include "wire/per_layout.h"

namespace gpulens {

// For one receiver, which gets what Encode makes in its order. Not thread-safe. Does not allocate while
// layouts and resource stay and points stay as many.
class OtlpMetrics {
 public:
  struct Options {
    size_t max_points = 10'000;      // in one request
    size_t max_bytes = 4u << 20;     // of one request, unless a single point has more
    std::string_view scope_version;  // static storage
  };
  // Takes one request; its bytes live until it returns. Not ok ends Encode.
  using Take = std::function<Status(std::string_view request, uint32_t points)>;

  OtlpMetrics(Speller speller, const Options& options);

  // Makes the requests for what is new in the snapshot. The Status is that of `take`. What was told counts as
  // told from Commit on; without it the next Encode tells it again.
  Status Encode(const Snapshot& snapshot, const Take& take);
  void Commit();

  // Of the last Encode.
  uint64_t points() const noexcept { return points_; }
  // Points left out since an equal series of a stronger source is in the same snapshot.
  uint64_t duplicates() const noexcept { return duplicates_; }

 private:
  class Writer;
  // What a receiver knows of one source.
  struct Told {
    Ref<const Layout> layout;
    int64_t read_unix_ns = 0;    // of the frame
    std::vector<uint8_t> shown;  // by slot: it has a value there
  };
  struct Source {
    std::string scope;  // its InstrumentationScope, a whole field
    Told now, next;
    bool touched = false;
  };
  // A frame of the plan: its texts, and which of its points another frame tells.
  struct Planned {
    uint64_t layout = 0;
    const OtlpLayout* text = nullptr;
    std::vector<uint8_t> dropped;  // by point; empty: none
  };

  void Plan(const Snapshot& snapshot);
  bool PlanFits(const Snapshot& snapshot) const noexcept;
  void DropDuplicates(const Snapshot& snapshot);
  const OtlpLayout& TextOf(const Ref<const Layout>& layout);
  Source& SourceOf(std::string_view name);
  Status Tell(const SnapshotEntry& entry, const Planned& planned, Source& source, Writer& writer);
  Status TellEnded(const Told& told, const Frame* frame, Writer& writer);
  Status Flag(const OtlpLayout& text, const std::vector<uint8_t>& slots, Writer& writer);
  void PutNumbers(const OtlpFamily& family, const OtlpPoint& point, const Frame& frame, char* end);
  void PutHistogram(const OtlpFamily& family, const OtlpPoint& point, const Frame& frame, char* end);
  void PutSummary(const OtlpFamily& family, const OtlpPoint& point, const Frame& frame, char* end);

  const Speller speller_;
  const Options options_;
  PerLayout<OtlpLayout> texts_;
  std::vector<Planned> plan_;
  AttributeSet resource_;
  std::string resource_bytes_;  // a whole field; empty: nothing was planned yet
  int64_t tick_unix_ns_ = 0;    // of the snapshot at hand
  std::map<std::string, Source, std::less<>> sources_;
  std::string request_;
  std::vector<double> numbers_;
  std::vector<uint8_t> ended_;
  std::string flagged_;
  Buckets buckets_;
  uint64_t points_ = 0, duplicates_ = 0;
};

}  // namespace gpulens

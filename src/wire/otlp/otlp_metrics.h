// Snapshots as OTLP metrics: ExportMetricsServiceRequest in protobuf, some for each snapshot.
//
// A point carries the time at which its source read it. Readings that were exported before are not
// exported again (a collector that did not run since, a stale value). A series that ends, or has no value any
// more, is exported once without a value (FLAG_NO_RECORDED_VALUE), so that receivers do not show its last one
// for minutes.
//
// Deltas are relative to the last export. A new series is exported only if its source reports a start after
// this object's first snapshot: an earlier agent may have exported what it counted before. Otherwise its
// number becomes the base. A counter that fell was reset. What a receiver refuses is part of the next delta.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "core/frame.h"
#include "core/histogram.h"
#include "core/named_series.h"
#include "wire/otlp/otlp_layout.h"
#include "wire/per_layout.h"

namespace gpulens {

// For one receiver, which gets what Encode makes in its order. Not thread-safe. Does not allocate while
// layouts and resource stay and points stay as many.
class OtlpMetrics {
 public:
  struct Options {
    size_t max_points = 10'000;           // in one request
    size_t max_bytes = 4u << 20;          // of one request, unless a single point has more
    std::string_view scope_version = {};  // static storage
    OtlpStyle style = {};
    bool keep_request = true;  // to put only numbers in place where the next tick has the same points
  };
  // Takes one request; its bytes live until it returns. Not ok ends Encode.
  using Take = std::function<Status(std::string_view request, uint32_t points)>;

  OtlpMetrics(SeriesNamer namer, const Options& options);

  // Makes the requests for what is new in the snapshot. The Status is that of `take`. What was exported
  // counts from Commit on; without it the next Encode exports it again. Deltas count with their request.
  Status Encode(const Snapshot& snapshot, const Take& take);
  void Commit();

  // Of the last Encode.
  uint64_t points() const noexcept { return points_; }
  // Points left out since an equal series of a stronger source is in the same snapshot.
  uint64_t duplicates() const noexcept { return duplicates_; }

 private:
  class Writer;
  // State of one source as the receiver has it.
  struct Reported {
    Ref<const Layout> layout;
    int64_t read_unix_ns = 0;      // of the frame
    std::vector<uint8_t> shown;    // by slot: it has a value there
    std::vector<uint32_t> age_ms;  // as in the frame
    int64_t ReadingUnixNs(uint64_t layout_id, uint32_t slot) const noexcept;
  };
  // Bases of deltas, by OtlpLayout::bases of the layout.
  struct Bases {
    Ref<const Layout> layout;
    uint64_t naming = 0;  // of its texts
    std::vector<Cell> cells;
    std::vector<int64_t> reported_unix_ns;  // at the first cell of each; 0: none is known
  };
  // A point's base, once its request is taken.
  struct Pending {
    Bases* bases;
    const Cell* cells;
    uint32_t base, count;
    int64_t unix_ns;
  };
  // Base of a delta: a time, and cells to subtract; null: none.
  struct Since {
    int64_t unix_ns = 0;
    const Cell* cells = nullptr;
  };
  struct Counts {
    std::vector<uint64_t> upto;  // by bound
    uint64_t count = 0;
    double sum = 0;
  };
  // Map of the last tick's request, which was the only one of its tick.
  struct Image {
    struct Patch {
      uint32_t end = 0, point = 0, cell = 0;  // of a point: its end in the request, and of its layout
    };
    struct Run {
      uint32_t frame = 0, family = 0, first = 0, count = 0;
    };
    bool recording = false, made = false;
    bool kept = false;  // the request is in request_, and was taken
    std::vector<Patch> patches;
    std::vector<Run> runs;
    std::vector<std::vector<Quality>> qualities;  // by frame
  };
  // A frame that is being exported.
  struct Reporting;
  struct Source {
    std::string scope;  // fields of its ScopeMetrics: its InstrumentationScope and schema
    Reported now, next;
    std::vector<Reported> owed;  // series of uncommitted requests, which are ended when they are gone
    Bases bases;
    bool touched = false;
  };
  // A frame of the plan: its texts, and which of its points another frame exports.
  struct Planned {
    const OtlpLayout* text = nullptr;
    std::vector<uint8_t> dropped;  // by point; empty: none
  };

  Status EncodeNew(const Snapshot& snapshot, const Take& take);
  void Plan(const Snapshot& snapshot);
  void DropDuplicates(const Snapshot& snapshot);
  const OtlpLayout& TextOf(const Ref<const Layout>& layout);
  Source& SourceOf(std::string_view name);
  bool ImageFits(const Snapshot& snapshot) const noexcept;
  Status ReportImage(const Snapshot& snapshot, const Take& take);
  void Record(const Reporting& reporting, const OtlpFamily& family, uint32_t p, size_t end);
  static void Remember(const Frame& frame, const Planned& planned, const OtlpLayout& text, Reported& next);
  Status Report(const Snapshot& snapshot, uint32_t number, Source& source, Writer& writer);
  Status ReportFamily(const Reporting& reporting, const OtlpFamily& family, Writer& writer);
  Status ReportWithExemplars(const Reporting& reporting, const OtlpFamily& family, uint32_t p,
                             Writer& writer);
  static bool HasExemplar(const Reporting& reporting, uint32_t p) noexcept;
  Status Flush(Writer& writer);
  void Owe();
  Status ReportEnds(const Snapshot& snapshot, const Source& source, const Frame* frame, Writer& writer);
  Status ReportEnded(const Snapshot& snapshot, const Reported& former, const Frame* frame, Writer& writer);
  void SpareReportedElsewhere(const Snapshot& snapshot, const Frame* own, const OtlpLayout& text);
  Status Flag(const OtlpLayout& text, const std::vector<uint8_t>& slots, Writer& writer);
  void PutNumbers(const Reporting& reporting, const OtlpFamily& family, uint32_t p, char* end);
  void PutHistogram(const Reporting& reporting, const OtlpFamily& family, const OtlpPoint& point,
                    const Cell* since, char* end);
  void PutSummary(const OtlpFamily& family, const OtlpPoint& point, const Frame& frame, char* end);
  void ReadCounts(const Shape& shape, std::span<const Cell> cells, bool int_cells, Counts& out);
  void SubtractBase(const Shape& shape, const OtlpFamily& family, const Cell* cells);
  void FollowLayouts(const Snapshot& snapshot);
  void Follow(Bases& bases, const Ref<const Layout>& layout);
  bool BeginsDelta(const Reporting& reporting, uint32_t p);
  Since SinceOf(const Reporting& reporting, uint32_t p) const;

  const SeriesNamer namer_;
  const Options options_;
  PerLayout<OtlpLayout> texts_, former_;  // former_: under the names before the last change
  uint64_t naming_ = 1;
  std::vector<Planned> plan_;
  PlannedFrames planned_;
  std::string resource_bytes_;  // a whole field
  int64_t tick_unix_ns_ = 0;    // of the snapshot at hand
  int64_t begun_unix_ns_ = 0;   // of the first one
  std::map<std::string, Source, std::less<>> sources_;
  std::string request_;
  std::vector<double> numbers_;
  std::vector<uint8_t> ended_;
  std::string point_, exemplar_;
  Buckets buckets_;
  Counts counts_, before_;
  std::vector<uint64_t> reported_, spread_;
  std::vector<Pending> pending_;
  Image image_;
  uint64_t requests_ = 0;     // of the last tick
  bool uncommitted_ = false;  // some of them were taken, and it was not committed
  uint64_t points_ = 0, duplicates_ = 0;
};

}  // namespace gpulens

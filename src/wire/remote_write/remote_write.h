// Snapshots as Prometheus remote write: requests of version 1.0 or 2.0, some for each snapshot, not yet
// compressed.
//
// A sample carries the time at which its source read it. Readings that were sent before are not sent
// again (a collector that did not run since, a stale value). A series that ends, or has no value any more,
// gets the stale marker once, so that receivers do not show its last value for minutes. Samples of one series
// are in the order of their reading, which receivers require. An exemplar goes with the sample of its series,
// once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <gpulens/status.h>

#include "core/frame.h"
#include "core/histogram.h"
#include "core/named_series.h"
#include "wire/per_layout.h"
#include "wire/remote_write/remote_write_layout.h"
#include "wire/remote_write/remote_write_request.h"

namespace gpulens {

// For one receiver, which gets what Encode makes in its order. Not thread-safe. Does not allocate while
// layouts and resource stay and samples stay as many.
class RemoteWrite {
 public:
  struct Options {
    RemoteWriteVersion version = RemoteWriteVersion::k1;
    // Of 2.0: a histogram is one series whose buckets have custom bounds, not a series for each bucket.
    bool native_histograms = false;
    size_t max_samples = 2000;    // in one request
    size_t max_bytes = 1u << 20;  // of one request; its last series may go over it
    // Interval at which 1.0 repeats types, units and help; 2.0 sends them with each sample.
    Duration metadata_interval = std::chrono::minutes(1);
    // The labels of each series that has none of that name. May be empty.
    std::function<RemoteWriteLabels(const AttributeSet& resource)> labels = {};
    // The row of the flag whether the target of its frame answered. Where it is 0, series that were
    // not read end at once, but for those whose source dates its readings. Null: they end by their age.
    const MetricDesc* target_up = nullptr;
  };
  // Takes one request; its bytes live until it returns. Not ok ends Encode.
  using Take = std::function<Status(std::string_view request, uint32_t samples)>;

  RemoteWrite(SeriesNamer namer, Options options);

  // Makes the requests for what is new in the snapshot. The Status is that of `take`. What was sent
  // counts from Commit on; without it the next Encode sends it again: a receiver may have it or not.
  Status Encode(const Snapshot& snapshot, const Take& take);
  // Ends every series that has a value.
  Status EncodeEnd(Instant now, const Take& take);
  void Commit();
  // Takes effect with the next Encode.
  void SetVersion(RemoteWriteVersion version);
  RemoteWriteVersion version() const noexcept { return options_.version; }

  // Of the last Encode: samples, stale markers among them.
  uint64_t samples() const noexcept { return samples_; }
  // Series left out since an equal one of a stronger source is in the same snapshot.
  uint64_t duplicates() const noexcept { return duplicates_; }

 private:
  using Layouts = std::shared_ptr<RemoteWriteLayout>;
  // The last sample of one series that a receiver has.
  struct Mark {
    int64_t boot_ms = INT64_MIN;  // when the last sample was read
    int64_t unix_ms = INT64_MIN;
    bool shown = false;  // it was a value, not an end
    bool dated = false;  // its source gave it a time
  };
  struct Reported {
    Layouts text;
    uint64_t plan = 0, run = 0;
    int64_t read_boot_ns = 0;  // of the frame
    bool doubtful = false;     // more may have arrived than `lines` has, but nothing after their unix_ms
    std::vector<Mark> lines;   // of text
    std::vector<SentExemplar> exemplars;  // by line of text; empty: none was sent
  };
  struct Source {
    Reported now, next;
    std::vector<Mark> base;  // of the lines of `next`, before it was sent
    bool touched = false;    // it is in the snapshot
    bool resent = false;     // `next` and `base` are of this Encode
  };
  // A series whose end may have to be sent: it is in no text any more, or another frame has it now.
  struct Owed {
    Layouts text;
    uint32_t line = 0;
    Mark mark;
  };
  // A frame of the plan: its texts, and which of its lines another frame sends.
  struct Planned {
    Layouts text;
    std::vector<uint8_t> dropped;  // by line; empty: none

    bool IsDropped(size_t line) const noexcept { return !dropped.empty() && dropped[line] != 0; }
  };
  static constexpr int64_t kNotNow = INT64_MIN;

  void Plan(const Snapshot& snapshot);
  void DropDuplicates(const Snapshot& snapshot);
  void PlanMetadata();
  const Layouts& TextOf(const Ref<const Layout>& layout);
  std::string KeyOf(const RemoteWriteLayout& text, const RemoteWriteLine& line) const;
  bool ReportedElsewhere(const std::string& key);
  void Begin(const Take& take);
  void Doubt();
  Status ReportOwed(Owed& end, Instant now);
  Status SettleHanded(const Snapshot& snapshot);
  void Remember(const RemoteWriteLayout& text, const RemoteWriteLine& line, const Mark& mark);
  bool Recall(const RemoteWriteLayout& text, const RemoteWriteLine& line, Mark& mark) const;
  void ForgetFormer(Instant now);
  void FindLeaving(const Snapshot& snapshot);
  Status Report(const SnapshotEntry& entry, const Planned& planned, Source& source);
  Status Carry(const Reported& from, const Layouts& to, Source& source, Instant now);
  Status ReportEnded(Reported& reported, Instant now);
  Status PutEnd(const RemoteWriteLayout& text, const RemoteWriteLine& line, Mark& mark, Instant now);
  void FindFresh(const Frame& frame, const Planned& planned, bool doubtful, Reported& next);
  void FindExemplars(const Frame& frame, Reported& next);
  bool HasExemplar(uint32_t line) const noexcept;
  void AppendExemplars(uint32_t line);
  Status PutFresh1(const Frame& frame, const RemoteWriteLayout& text);
  Status PutFresh2(const Frame& frame, const RemoteWriteLayout& text);
  void PutHistogram(const Frame& frame, const RemoteWriteLayout& text, uint32_t line);
  bool Fits() const noexcept;  // one series more
  Status Hand();
  Status ReportMetadata(Instant now);

  const SeriesNamer namer_;
  Options options_;
  PerLayout<Layouts> texts_;
  std::vector<Planned> plan_;
  uint64_t plan_number_ = 0, leaving_plan_ = 0;
  PlannedFrames planned_;
  RemoteWriteLabels labels_;
  std::map<std::string, Source, std::less<>> sources_;
  RemoteWriteSymbols symbols_;
  RemoteWriteRequest request_{symbols_};
  const Take* take_ = nullptr;
  bool open_ = false;         // the last Encode was not committed
  std::vector<Owed> owed_;    // until Commit
  std::vector<Owed> handed_;  // within one Encode
  // The last sample of series that no frame has now, by name and labels, for some minutes.
  std::unordered_map<std::string, Mark> former_;
  std::unordered_map<std::string, Mark> leaving_;  // the same of those that change hands in this Encode
  std::vector<int64_t> fresh_;                     // by line: the time of its sample, or kNotNow
  std::vector<uint32_t> ended_;                    // lines that have lost their value
  std::vector<NewExemplar> exemplars_;             // of fresh lines, in their order
  size_t next_exemplar_ = 0;                       // the first that is not in a request
  std::unordered_set<std::string> reported_keys_;  // of the lines of the plan; filled at the first use
  bool reported_keys_known_ = false;
  std::string metadata_;  // fields of a request of 1.0
  std::vector<size_t> metadata_ends_;
  std::optional<int64_t> metadata_boot_ns_;  // when it was sent; none: this one never was
  std::string data_, span_;
  std::vector<int64_t> deltas_;
  std::vector<double> numbers_;
  Buckets buckets_;
  uint64_t samples_ = 0, duplicates_ = 0;
};

}  // namespace gpulens

// Engines of a collector's instance, by model: feeds, and the native series made of them.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/frame_writer.h"
#include "plugins/analyzers/inference/feed.h"

namespace gpulens::windows {

// One model (and version) of an engine. Used inside the analyzer's run. Read and Write do not allocate while
// layouts stay, except for the first value of a series.
class EngineGroup {
 public:
  struct Identity {
    EntityRef engine;
    std::string model, version;  // empty: unknown
  };

  enum class Past : uint8_t {
    kNone,   // the engine was not read before: the first reading is a base
    kKnown,  // it was: new label sets count from 0
    kLost,   // it was, and its label sets were dropped: new ones are a base, now and later
  };
  // `natives`: the series to make.
  EngineGroup(Identity identity, std::span<const NativeMetric> natives, Past past);

  const Identity& identity() const noexcept { return identity_; }

  // For a new layout: BeginPlan, Add for each series of an engine metric, EndPlan.
  void BeginPlan() noexcept;
  // `since_ns`: when the engine was read last; 0: new series are a base.
  void Add(const SeriesInfo& info, uint32_t slot, int64_t since_ns);
  // Returns false when the layout has no series for it.
  bool EndPlan();

  void Read(const FeedReading& reading, FeedScratch& scratch);
  // Writes the last reading. Series without a value are cleared.
  void Write(FrameWriter& out);
  // Ends the series when the engine or the model is gone.
  void Retire(SeriesTable& table);

  size_t memory_bytes() const noexcept;

 private:
  static constexpr size_t kNoFeed = SIZE_MAX;
  struct Source {
    const MetricPick* pick;
    FeedUse use;
    std::unique_ptr<Feed> feed;  // null: no series of the metric was seen
  };
  struct Value {
    FeedResult result = FeedResult::kNone;
    double value = 0;
  };
  struct Output {
    const NativeMetric* native = nullptr;
    const WindowQuantile* quantile = nullptr;                 // null: none
    size_t of = kNoFeed, over = kNoFeed, fallback = kNoFeed;  // indexes in sources_
    Value value;
    Series series;
    bool refused = false;  // by the table, since the last reading
  };

  size_t SourceOf(const MetricPick& pick, FeedUse use);
  const Feed* FeedOf(size_t source) const noexcept;
  Value Evaluate(const Output& output) const;
  Value Level(size_t source) const noexcept;
  Value Total(const Output& output) const noexcept;
  Value Rate(const Feed& feed) const noexcept;
  Value Ratio(const Output& output) const noexcept;
  Series Declare(const Output& output, SeriesTable& table) const;

  const Identity identity_;
  Past past_;
  std::vector<Source> sources_;
  std::vector<Output> outputs_;
};

// The engines of one instance of a collector: follows its layout and readings, with a group for each model of
// each engine. Used inside the analyzer's run. Update does not allocate while the layout stays.
class EngineSource {
 public:
  explicit EngineSource(std::string_view name) : name_(name) {}

  const std::string& name() const noexcept { return name_; }
  void Update(const SnapshotEntry& entry, Duration window, FeedScratch& scratch, FrameWriter& out);
  // Ends its series, when it is no longer in the tick.
  void End(SeriesTable& table);

  size_t groups() const noexcept { return groups_.size(); }
  size_t memory_bytes() const noexcept;

 private:
  using Groups = std::unordered_map<std::string, std::unique_ptr<EngineGroup>>;

  void Plan(const Frame& frame, SeriesTable& table, bool& follows);
  EngineGroup& GroupOf(const SeriesInfo& info, const std::string& model,
                       std::span<const NativeMetric> natives);
  EngineGroup* OnlyNamedGroup(const EntityRef& engine) const noexcept;

  const std::string name_;
  uint64_t layout_id_ = 0;  // 0: none was seen
  uint64_t run_ = 0;
  Instant read_at_;
  bool lost_groups_ = false;       // a new group may be one that was there before
  std::vector<uint64_t> engines_;  // hashes of the attributes of those in the last layout
  Groups groups_;
  std::vector<EngineGroup*> in_order_;
};

}  // namespace gpulens::windows

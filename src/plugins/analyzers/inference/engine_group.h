// One model (and version) of one engine: its feeds, and the native series made of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/frame_writer.h"
#include "plugins/analyzers/inference/feed.h"

namespace gpulens::windows {

// Used inside the analyzer's run. Read and Write do not allocate while layouts stay, but for the first value
// of a series.
class EngineGroup {
 public:
  struct Identity {
    EntityRef engine;
    std::string model, version;  // empty: not told
  };

  enum class Past : uint8_t {
    kNone,   // the engine was not read before: the first reading is a base
    kKnown,  // it was: what is new counts from 0
    kLost,   // it was, and what it showed is forgotten: whatever is new is a base, now and later
  };
  // `natives`: what the engine's role series are made into.
  EngineGroup(Identity identity, std::span<const Native> natives, Past past);

  const Identity& identity() const noexcept { return identity_; }

  // A new layout: BeginPlan, Add for each series of a role, EndPlan.
  void BeginPlan() noexcept;
  // `since_ns`: when the engine was read last; 0: what is new to it is a base.
  void Add(const SeriesInfo& info, uint32_t slot, int64_t since_ns);
  // False: the layout has nothing for it.
  bool EndPlan();

  void Read(const Reading& reading, Scratch& scratch);
  // What the last reading gave. Series that have nothing to say are cleared, not kept.
  void Write(FrameWriter& out);
  // The engine or the model has gone.
  void Retire(SeriesTable& table);

  size_t memory_bytes() const noexcept;

 private:
  static constexpr size_t kNoFeed = SIZE_MAX;
  struct Want {
    const Pick* pick;
    Use use;
    std::unique_ptr<Feed> feed;  // null: no series of the role was seen
  };
  struct Value {
    Known known = Known::kNothing;
    double value = 0;
  };
  struct Output {
    const Native* native = nullptr;
    const WindowQuantile* quantile = nullptr;                 // null: none
    size_t of = kNoFeed, over = kNoFeed, fallback = kNoFeed;  // places in wants_
    Value value;
    Series series;
    bool refused = false;  // by the table, since the last reading
  };

  size_t WantOf(const Pick& pick, Use use);
  const Feed* FeedOf(size_t want) const noexcept;
  Value Evaluate(const Output& output) const;
  Value Level(size_t want) const noexcept;
  Value Total(const Output& output) const noexcept;
  Value Rate(const Feed& feed) const noexcept;
  Value Ratio(const Output& output) const noexcept;
  Series Declare(const Output& output, SeriesTable& table) const;

  const Identity identity_;
  Past past_;
  std::vector<Want> wants_;
  std::vector<Output> outputs_;
};

}  // namespace gpulens::windows

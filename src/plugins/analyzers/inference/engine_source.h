// What one instance of a collector tells of engines: follows its layout and its readings, and keeps a group
// for each model of each engine in it.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "plugins/analyzers/inference/engine_group.h"

namespace gpulens::windows {

// Used inside the analyzer's run. Update does not allocate while the layout stays.
class EngineSource {
 public:
  explicit EngineSource(std::string_view name) : name_(name) {}

  const std::string& name() const noexcept { return name_; }
  void Update(const SnapshotEntry& entry, Duration window, Scratch& scratch, FrameWriter& out);
  // It is not in the tick any more: its series end.
  void End(SeriesTable& table);

  size_t groups() const noexcept { return groups_.size(); }
  size_t memory_bytes() const noexcept;

 private:
  using Groups = std::unordered_map<std::string, std::unique_ptr<EngineGroup>>;

  void Plan(const Frame& frame, SeriesTable& table, bool& follows);
  EngineGroup& GroupOf(const SeriesInfo& info, const std::string& model, std::span<const Native> natives);
  EngineGroup* OnlyNamedGroup(const EntityRef& engine) const noexcept;

  const std::string name_;
  uint64_t layout_id_ = 0;  // 0: none was seen
  uint64_t run_ = 0;
  Instant read_at_;
  bool lost_groups_ = false;       // a group that is new may be one that was there before
  std::vector<uint64_t> engines_;  // hashes of the attributes of those in the last layout
  Groups groups_;
  std::vector<EngineGroup*> in_order_;
};

}  // namespace gpulens::windows

#include "plugins/analyzers/inference/engine_source.h"

#include <algorithm>

namespace gpulens::windows {
namespace {

constexpr std::string_view kEngineType = "engine";

// Empty: nothing is made of this series.
std::span<const Native> NativesFor(const SeriesInfo& info) {
  if (!info.desc || !info.entity || info.entity->type != kEngineType) return {};
  std::span<const Native> natives = NativesOf(info.attributes.Text("inference.engine"));
  bool used = std::any_of(natives.begin(), natives.end(), [&](const Native& native) {
    return native.of.role == info.desc || native.over.role == info.desc || native.fallback.role == info.desc;
  });
  return used ? natives : std::span<const Native>();
}

}  // namespace

EngineGroup& EngineSource::GroupOf(const SeriesInfo& info, const std::string& model,
                                   std::span<const Native> natives) {
  uint64_t engine = info.entity->attributes.hash();
  std::string version = info.attributes.Text("model.version");
  std::string key(reinterpret_cast<const char*>(&engine), sizeof engine);
  key.append(model).append(1, '\0').append(version);
  std::unique_ptr<EngineGroup>& group = groups_[key];
  if (!group) {
    using enum EngineGroup::Past;
    bool known = std::find(engines_.begin(), engines_.end(), engine) != engines_.end();
    group = std::make_unique<EngineGroup>(EngineGroup::Identity{info.entity, model, version}, natives,
                                          lost_groups_ ? kLost
                                          : known      ? kKnown
                                                       : kNone);
    in_order_.push_back(group.get());
  }
  return *group;
}

EngineGroup* EngineSource::OnlyNamedGroup(const EntityRef& engine) const noexcept {
  EngineGroup* only = nullptr;
  for (EngineGroup* group : in_order_) {
    const EngineGroup::Identity& identity = group->identity();
    if (identity.model.empty() || identity.engine->attributes != engine->attributes) continue;
    if (only) return nullptr;
    only = group;
  }
  return only;
}

// A series that does not say its model is of the engine's only one.
void EngineSource::Plan(const Frame& frame, SeriesTable& table, bool& follows) {
  const int64_t since_ns = follows ? read_at_.boot_ns : 0;
  for (EngineGroup* group : in_order_) group->BeginPlan();
  std::vector<uint32_t> unnamed;
  std::vector<uint64_t> engines;
  for (uint32_t slot = 0; slot < frame.layout->slots(); ++slot) {
    const SeriesInfo& info = (*frame.layout)[slot];
    std::span<const Native> natives = NativesFor(info);
    if (natives.empty()) continue;
    uint64_t engine = info.entity->attributes.hash();
    if (std::find(engines.begin(), engines.end(), engine) == engines.end()) engines.push_back(engine);
    std::string model = info.attributes.Text("model.name");
    if (model.empty()) unnamed.push_back(slot);
    else GroupOf(info, model, natives).Add(info, slot, since_ns);
  }
  for (uint32_t slot : unnamed) {
    const SeriesInfo& info = (*frame.layout)[slot];
    EngineGroup* group = OnlyNamedGroup(info.entity);
    if (!group) group = &GroupOf(info, "", NativesFor(info));
    group->Add(info, slot, since_ns);
  }
  size_t before = groups_.size();
  std::erase_if(groups_, [&](auto& item) {
    if (item.second->EndPlan()) return false;
    item.second->Retire(table);
    std::erase(in_order_, item.second.get());
    return true;
  });
  // What went may have come back under another name: then nothing that is new counts from 0.
  if (groups_.size() != before) {
    lost_groups_ = true;
    follows = false;
  }
  engines_ = std::move(engines);
}

void EngineSource::Update(const SnapshotEntry& entry, Duration window, Scratch& scratch, FrameWriter& out) {
  const Frame& frame = *entry.frame;
  const bool first = layout_id_ == 0;
  const bool moved = first || frame.run != run_ || frame.read_at != read_at_;
  // Runs of a new instance begin anew: it may show what the former one did not.
  bool follows = !first && frame.run > run_;
  if (frame.layout->id() != layout_id_) Plan(frame, out.table(), follows);
  if (moved) {
    Reading reading{
        .frame = frame, .last_unix_ns = first ? 0 : read_at_.unix_ns, .follows = follows, .window = window};
    for (EngineGroup* group : in_order_) group->Read(reading, scratch);
  }
  layout_id_ = frame.layout->id();
  run_ = frame.run;
  read_at_ = frame.read_at;
  // An overdue frame says nothing of now: the series grow old with it.
  if (entry.overdue) return;
  for (EngineGroup* group : in_order_) group->Write(out);
}

void EngineSource::End(SeriesTable& table) {
  for (EngineGroup* group : in_order_) group->Retire(table);
}

size_t EngineSource::memory_bytes() const noexcept {
  size_t bytes = sizeof *this;
  for (const EngineGroup* group : in_order_) bytes += group->memory_bytes();
  return bytes;
}

}  // namespace gpulens::windows

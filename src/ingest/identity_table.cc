#include "ingest/identity_table.h"

#include <string>

namespace gpulens {

AttributeSet IdentityTable::Describe(std::string_view type, AttributeSet known_by) const {
  if (!describer_.describe) return {};
  return describer_.describe(*MakeRef<Entity>(std::string(type), std::move(known_by)));
}

AttributeSet IdentityTable::OfPod(std::string_view uid) const {
  return Describe("k8s.pod", AttributeSet({{"k8s.pod.uid", uid}}));
}

AttributeSet IdentityTable::OfContainer(std::string_view id) const {
  return Describe("container", AttributeSet({{"container.id", id}}));
}

AttributeSet IdentityTable::OfPeer(const Endpoint& peer) const {
  if (peer.family == Endpoint::Family::kUnix || peer.IsLoopback()) return {};
  const std::string ip = peer.Host();
  return Describe("k8s.pod", AttributeSet({{"k8s.pod.ip", std::string_view(ip)}}));
}

EntityRef IdentityTable::FindGpu(std::string_view uuid, int64_t index) const {
  const Ref<const Snapshot> snapshot = latest_ ? latest_->latest() : Ref<const Snapshot>();
  if (!snapshot) return {};
  const Entity* last = nullptr;
  for (const SnapshotEntry& entry : snapshot->frames) {
    const Layout& layout = *entry.frame->layout;
    for (uint32_t slot = 0; slot < layout.slots(); ++slot) {
      const SeriesInfo& series = layout[slot];
      if (!series.desc || !series.entity || series.entity.get() == last) continue;
      last = series.entity.get();
      if (last->type != "gpu") continue;
      const bool same = uuid.empty() ? last->attributes.Text("gpu.index") == std::to_string(index)
                                     : last->attributes.Text("gpu.uuid") == uuid;
      if (same) return series.entity;
    }
  }
  return {};
}

AttributeSet IdentityTable::OfGpu(std::string_view uuid, int64_t index) const {
  if (!describer_.describe) return {};
  if (const EntityRef found = FindGpu(uuid, index)) return describer_.describe(*found);
  if (!uuid.empty()) return Describe("gpu", AttributeSet({{"gpu.uuid", uuid}}));
  return Describe("gpu", AttributeSet({{"gpu.index", index}}));
}

}  // namespace gpulens

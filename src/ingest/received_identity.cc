#include "ingest/received_identity.h"

namespace gpulens {
namespace {

// Maximum age of cached answers: a GPU may have been found meanwhile.
constexpr int64_t kForgetEvery = 1'000'000'000;
constexpr size_t kMostKnown = 10'000;

void Append(std::string& key, std::string_view part) {
  key += part;
  key += '\0';
}

}  // namespace

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

ReceivedIdentity::ReceivedIdentity(Options options, const IdentityTable& table, const Clock& clock)
    : options_(std::move(options)), table_(table), clock_(clock) {}

void ReceivedIdentity::Begin(const Endpoint& peer, bool relayed) {
  relayed_ = relayed;
  const uint64_t generation = table_.generation();
  const int64_t now = clock_.Now().boot_ns;
  if (generation != generation_ || now - forgotten_ns_ >= kForgetEvery || known_.size() > kMostKnown) {
    known_.clear();
    generation_ = generation;
    forgotten_ns_ = now;
    peer_ = {};
  }
  if (peer == peer_ && !peer_text_.empty()) return;
  peer_ = peer;
  peer_text_ = peer.Host();
  of_peer_ = table_.OfPeer(peer);
}

ReceivedIdentity::Place ReceivedIdentity::PlaceOf(const OtlpIdentity& resource) const {
  // In a pod the host has the name of the pod.
  if (!resource.host_name.empty() && resource.host_name == of_peer_.Text("k8s.pod.name")) return Place::kHere;
  Place place = Place::kUnknown;
  const auto validate = [&place](std::string_view received, std::string_view ours) {
    if (received.empty() || ours.empty()) return;
    if (received != ours) place = Place::kElsewhere;
    else if (place == Place::kUnknown) place = Place::kHere;
  };
  validate(resource.host_name, options_.host_name);
  validate(resource.host_id, options_.host_id);
  // A node is mostly called as its host is, but need not be: the name of another one settles nothing.
  if (place == Place::kUnknown && !resource.k8s_node_name.empty() &&
      resource.k8s_node_name == options_.host_name)
    place = Place::kHere;
  return place;
}

bool ReceivedIdentity::IsHere(const OtlpIdentity& resource) {
  switch (PlaceOf(resource)) {
    case Place::kHere: return true;
    case Place::kElsewhere: return false;
    case Place::kUnknown: break;
  }
  if (relayed_) return false;
  // Data without a host is of the sender's.
  const bool local = peer_.family == Endpoint::Family::kUnix || peer_.IsLoopback() || !of_peer_.empty();
  return local && (resource.k8s_node_name.empty() || resource.k8s_node_name == options_.host_name);
}

AttributeSet ReceivedIdentity::Known(const OtlpIdentity& who, bool here) const {
  AttributeSet found;
  if (!who.pod_uid.empty()) found = table_.OfPod(who.pod_uid);
  if (found.empty() && !who.container_id.empty()) found = table_.OfContainer(who.container_id);
  if (found.empty() && !who.gpu_uuid.empty()) found = table_.OfGpu(who.gpu_uuid, -1);
  if (found.empty() && here && who.gpu_uuid.empty() && who.gpu_index >= 0)
    found = table_.OfGpu({}, who.gpu_index);
  return found;
}

const OtlpAddition* ReceivedIdentity::Remember(std::string_view kind, const OtlpIdentity& who, bool here) {
  key_.clear();
  Append(key_, kind);
  Append(key_, who.pod_uid);
  Append(key_, who.container_id);
  Append(key_, who.gpu_uuid);
  const bool of_resource = kind == "resource";
  if (here) Append(key_, std::to_string(who.gpu_index));
  if (of_resource) Append(key_, here ? peer_text_ : "");
  auto [at, fresh] = known_.try_emplace(key_);
  if (fresh) {
    AttributeSet found = Known(who, here);
    // The sender's own pod, for data that names neither a pod nor a GPU.
    if (of_resource && found.empty() && here && !who.has_pod() && !who.has_gpu()) found = of_peer_;
    auto addition = std::make_unique<OtlpAddition>(found);
    if (of_resource) {
      addition->Add(options_.mark, true);
      addition->Add(options_.stated);
    }
    at->second = std::move(addition);
  }
  return at->second.get();
}

const OtlpAddition* ReceivedIdentity::OfResource(const OtlpIdentity& resource) {
  return Remember("resource", resource, IsHere(resource));
}

const OtlpAddition* ReceivedIdentity::OfItem(const OtlpIdentity& resource, const OtlpIdentity& item) {
  return Remember("item", item, IsHere(resource));
}

}  // namespace gpulens

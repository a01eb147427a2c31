// Asks the enrichers what a thing is that somebody else speaks of: a pod, a container, a GPU, the other end
// of a connection.
#pragma once

#include <cstdint>
#include <string_view>

#include "net/message/address.h"
#include "plugins/latest_snapshot.h"
#include "plugins/receiver.h"

namespace gpulens {

// Thread-safe. Answers are empty when nobody knows the thing. `latest` may be null, and outlives this.
class IdentityTable {
 public:
  IdentityTable(EntityDescriber describer, const LatestSnapshot* latest)
      : describer_(std::move(describer)), latest_(latest) {}

  // Moves when an answer may have changed.
  uint64_t generation() const { return describer_.generation ? describer_.generation() : 0; }

  AttributeSet OfPod(std::string_view uid) const;       // an entity "k8s.pod" with k8s.pod.uid
  AttributeSet OfContainer(std::string_view id) const;  // an entity "container" with container.id
  AttributeSet OfPeer(const Endpoint& peer) const;      // an entity "k8s.pod" with k8s.pod.ip
  // The GPU of this machine with that UUID, or, when it is empty, with that index (negative: not said). One
  // that no collector has found is described by what is said of it.
  AttributeSet OfGpu(std::string_view uuid, int64_t index) const;

 private:
  AttributeSet Describe(std::string_view type, AttributeSet known_by) const;
  EntityRef FindGpu(std::string_view uuid, int64_t index) const;

  const EntityDescriber describer_;
  const LatestSnapshot* const latest_;
};

}  // namespace gpulens

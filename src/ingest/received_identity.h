// Adds attributes to received data: the configured ones, and those of its pod, container or GPU by the
// enrichers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "net/message/address.h"
#include "plugins/latest_snapshot.h"
#include "plugins/receiver.h"
#include "wire/otlp/otlp_batch.h"

namespace gpulens {

// Looks up the entities of received data. Unknown ones are empty. Thread-safe. `latest` may be null; it
// outlives the table.
class IdentityTable {
 public:
  IdentityTable(EntityDescriber describer, const LatestSnapshot* latest)
      : describer_(std::move(describer)), latest_(latest) {}

  // Changes when a result may have changed.
  uint64_t generation() const { return describer_.generation ? describer_.generation() : 0; }

  AttributeSet OfPod(std::string_view uid) const;       // an entity "k8s.pod" with k8s.pod.uid
  AttributeSet OfContainer(std::string_view id) const;  // an entity "container" with container.id
  AttributeSet OfPeer(const Endpoint& peer) const;      // an entity "k8s.pod" with k8s.pod.ip
  // The GPU of this machine with that UUID, or, if it is empty, with that index (negative: unknown). A GPU
  // that no collector has found is described by these alone.
  AttributeSet OfGpu(std::string_view uuid, int64_t index) const;

 private:
  AttributeSet Describe(std::string_view type, AttributeSet known_by) const;
  EntityRef FindGpu(std::string_view uuid, int64_t index) const;

  const EntityDescriber describer_;
  const LatestSnapshot* const latest_;
};

// Enriches received OTLP. Globally unique names (pod UID, container id, GPU UUID) are looked up for all data;
// GPU indexes and addresses only for data of this machine. Used by one thread.
class ReceivedIdentity final : public OtlpEnricher {
 public:
  struct Options {
    AttributeSet stated;
    std::string host_name, host_id;  // of this machine; empty: unknown
    // Marks received data; replaces the sender's attributes of the same keys.
    AttributeSet mark = {};
  };
  // `table` and `clock` outlive it.
  ReceivedIdentity(Options options, const IdentityTable& table, const Clock& clock);

  // Call before each request; invalidates earlier results. `relayed`: the sender relays data of others, as
  // Prometheus does; data without a host then belongs to none.
  void Begin(const Endpoint& peer, bool relayed = false);

  const OtlpAddition* OfResource(const OtlpIdentity& resource) override;
  const OtlpAddition* OfItem(const OtlpIdentity& resource, const OtlpIdentity& item) override;

 private:
  enum class Place : uint8_t { kHere, kElsewhere, kUnknown };
  Place PlaceOf(const OtlpIdentity& resource) const;
  bool IsHere(const OtlpIdentity& resource);
  AttributeSet Known(const OtlpIdentity& who, bool here) const;
  const OtlpAddition* Remember(std::string_view kind, const OtlpIdentity& who, bool here);

  const Options options_;
  const IdentityTable& table_;
  const Clock& clock_;
  Endpoint peer_;
  bool relayed_ = false;
  std::string peer_text_;
  AttributeSet of_peer_;
  uint64_t generation_ = 0;
  int64_t forgotten_ns_ = 0;
  std::unordered_map<std::string, std::unique_ptr<const OtlpAddition>> known_;
  std::string key_;
};

}  // namespace gpulens

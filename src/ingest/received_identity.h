// Which attributes received data gets: what the configuration states, and the pod of whatever the data says
// it is of.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "ingest/identity_table.h"
#include "wire/otlp/otlp_batch.h"

namespace gpulens {

// Things known everywhere by their name (pod UID, container id, GPU UUID) are looked up whoever speaks of
// them. An index of a GPU and an address mean something on this machine alone: data of another host never
// gets this one's pods by them. Called by one thread.
class ReceivedIdentity final : public OtlpEnricher {
 public:
  struct Options {
    AttributeSet stated;
    std::string host_name, host_id;  // of this machine; empty: not known
    // Tells what was received from what the agent measured, whatever the sender calls itself: it replaces
    // what the sender says under the same key.
    AttributeSet mark = {};
  };
  // `book` and `clock` outlive it.
  ReceivedIdentity(Options options, const IdentityTable& table, const Clock& clock);

  // Before each request. What was handed out before is no longer valid. `relayed`: the sender tells what
  // others measured, as Prometheus does; then data that does not say its host is of none.
  void Begin(const Endpoint& peer, bool relayed = false);

  const OtlpAddition* OfResource(const OtlpIdentity& resource) override;
  const OtlpAddition* OfItem(const OtlpIdentity& resource, const OtlpIdentity& item) override;

 private:
  enum class Place : uint8_t { kHere, kElsewhere, kUnsaid };
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

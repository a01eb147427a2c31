// What a received Resource or item says of where it comes from: a few attributes, found by name. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpulens {

// Views into the request; empty: not said.
struct OtlpIdentity {
  std::string_view pod_uid{}, container_id{};                // k8s.pod.uid, container.id
  std::string_view host_name{}, host_id{}, k8s_node_name{};  // host.name, host.id, k8s.node.name
  std::string_view gpu_uuid{};                               // gpu.uuid, UUID
  int64_t gpu_index = -1;  // gpu.index, gpu_id: a number, or a text that is one

  bool has_pod() const noexcept { return !pod_uid.empty() || !container_id.empty(); }
  bool has_gpu() const noexcept { return !gpu_uuid.empty() || gpu_index >= 0; }
  friend bool operator==(const OtlpIdentity&, const OtlpIdentity&) = default;
};

// Whether an item with such an attribute is of a thing of its own. Keys of items may have underscores for
// dots.
bool IsIdentityKey(std::string_view key) noexcept;

// The key of a KeyValue; empty when it has none.
std::string_view KeyOf(std::string_view key_value) noexcept;

// Takes what one KeyValue says. A later one wins, as in a map.
void TakeIdentity(std::string_view key_value, OtlpIdentity& out) noexcept;

}  // namespace gpulens

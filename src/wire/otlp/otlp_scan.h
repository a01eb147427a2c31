// One pass over a received OTLP request: whether it can be read, its items, and the items that must not be
// passed on. Pure, zero-copy: the scan holds offsets into the request.
//
// Three kinds of trouble:
// - the request cannot be read (cut off, wrong wire types): it is refused whole;
// - an item (point, record, span), or a message above items, cannot be passed on although the rest can:
//   text that is no UTF-8, ids of a wrong length, buckets that do not fit their bounds, a metric without a
//   name, values that nest too deeply. Those items are rejected, counted, and reported to the sender;
// - the name of a metric is filtered: its points are left out and counted.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "core/received_otlp.h"

namespace gpulens {

// Matches names against patterns: "go_*", "*_created", "a*b*c", "plain". A star matches any text, also
// none. Immutable; thread-safe.
class NameFilter {
 public:
  NameFilter() = default;
  explicit NameFilter(std::span<const std::string> patterns);

  bool empty() const noexcept { return exact_.empty() && starred_.empty(); }
  bool Matches(std::string_view name) const noexcept;

 private:
  std::vector<std::string> exact_;  // sorted
  std::vector<std::string> starred_;
};

// Attributes by which a received Resource or item names its origin. Views into the request; empty: absent.
struct OtlpIdentity {
  std::string_view pod_uid{}, container_id{};                // k8s.pod.uid, container.id
  std::string_view host_name{}, host_id{}, k8s_node_name{};  // host.name, host.id, k8s.node.name
  std::string_view gpu_uuid{};                               // gpu.uuid, UUID
  int64_t gpu_index = -1;  // gpu.index, gpu_id: a number, or a text that is one

  bool has_pod() const noexcept { return !pod_uid.empty() || !container_id.empty(); }
  bool has_gpu() const noexcept { return !gpu_uuid.empty() || gpu_index >= 0; }
  friend bool operator==(const OtlpIdentity&, const OtlpIdentity&) = default;
};

// Whether an item with such an attribute has an identity of its own. Keys of items may have underscores for
// dots.
bool IsIdentityKey(std::string_view key) noexcept;

// The key of a KeyValue; empty when it has none.
std::string_view KeyOf(std::string_view key_value) noexcept;

// Takes the value of one KeyValue. A later one wins, as in a map.
void TakeIdentity(std::string_view key_value, OtlpIdentity& out) noexcept;

struct OtlpScan {
  // One ResourceMetrics, ResourceLogs or ResourceSpans.
  struct Resource {
    uint32_t items = 0;    // that stay
    bool whole = true;     // nothing below it is left out
    bool own = false;      // some item has an identity of its own (IsIdentityKey)
    bool removed = false;  // nothing of it stays
  };

  OtlpSignal signal = OtlpSignal::kMetrics;
  std::string_view request;
  std::vector<Resource> resources;  // in the order of the request
  // Offsets of messages, with their tags, that are left out: scopes, metrics, items. Ascending.
  std::vector<uint32_t> removed;
  uint64_t items = 0;     // that stay
  uint64_t rejected = 0;  // items that cannot be passed on
  uint64_t filtered = 0;  // items that are not wanted
  std::string_view why;   // of the first rejected one; static storage
};

// More than this of one request is refused: the scan's memory is bounded.
inline constexpr size_t kMostOtlpResources = 100'000, kMostOtlpRemovals = 100'000;

// Fills `out`, whose memory is used again; it refers to `request`. `unwanted` may be null. kInvalidArgument
// when the request cannot be read, kExhausted when it has more resources or bad items than are looked at.
Status ScanOtlp(OtlpSignal signal, std::string_view request, const NameFilter* unwanted, OtlpScan& out);

}  // namespace gpulens

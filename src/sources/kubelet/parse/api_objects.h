// What the API server tells of pods, nodes and resource slices, read for the few facts that we need. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens::kubelet {

struct PodContainer {
  std::string name, id;  // id: 64 digits; empty before it first runs
  std::optional<uint64_t> restarts;
  std::optional<bool> ready;
  friend bool operator==(const PodContainer&, const PodContainer&) = default;
};

struct Pod {
  std::string name, name_space, uid, node;
  std::string phase;                   // "Pending", "Running", "Succeeded", "Failed", "Unknown"
  std::string owner_kind, owner_name;  // of the controlling owner; empty: none
  std::map<std::string, std::string> labels;
  std::vector<PodContainer> containers;                // init containers, too
  int64_t created_unix_ns = 0, scheduled_unix_ns = 0;  // 0: not told; not scheduled yet

  bool ended() const noexcept { return phase == "Succeeded" || phase == "Failed"; }
  // Of a pod that a Deployment's ReplicaSet owns: the ReplicaSet is named after the Deployment and the
  // pod-template-hash that the pod carries as a label. Empty for all others, those of Argo Rollouts, too.
  std::string_view deployment() const noexcept;
  friend bool operator==(const Pod&, const Pod&) = default;
};

struct PodList {
  std::vector<Pod> pods;
  std::string resource_version;
  std::string next;  // the `continue` of a list that came in parts; empty: this was the last
};

inline constexpr size_t kMostPods = 100'000, kMostLabels = 256;

// A PodList of the API server or of the kubelet's /pods. kDataLoss: no such list.
Result<PodList> ParsePodList(std::string_view json);

// A line of a watch.
struct PodEvent {
  enum class Type : uint8_t {
    kStands,    // added or changed: this is how it is now
    kGone,      // deleted
    kBookmark,  // only the version has moved
    kExpired,   // 410: that version is too old, list again
    kError,     // the server gives up for another reason: `why`
  };
  Type type = Type::kError;
  Pod pod;
  std::string resource_version, why;
};
// kDataLoss: no such line. An event of an unknown type is a bookmark.
Result<PodEvent> ParsePodEvent(std::string_view line);

struct Node {
  std::string name, zone, region, provider_id;
};
Result<Node> ParseNode(std::string_view json);

// A device of a DRA driver with the attributes that tell which one it is.
struct SliceDevice {
  std::string driver, pool, device;
  std::string uuid, parent_uuid, pci;  // empty: not told
};
struct SliceList {
  std::vector<SliceDevice> devices;
  std::string next;
};
// A ResourceSliceList of resource.k8s.io v1 or v1beta1/2. Devices that tell neither UUID nor address are left
// out.
Result<SliceList> ParseResourceSlices(std::string_view json);

}  // namespace gpulens::kubelet

// The answer of the kubelet's PodResources service (v1, List): which containers hold which devices. Pure.
//
// It has no pod uid, and a device may stand in several entries of one container (one for each NUMA node).
// Kubelets before 1.34 also list pods that have ended and are not deleted yet.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens::kubelet {

struct HeldDevices {
  std::string resource;          // "nvidia.com/gpu"
  std::vector<std::string> ids;  // as the device plugin calls them
  friend bool operator==(const HeldDevices&, const HeldDevices&) = default;
};
// A device that a claim (DRA) has brought.
struct ClaimedDevice {
  std::string driver, pool, device;
  friend bool operator==(const ClaimedDevice&, const ClaimedDevice&) = default;
};
struct HolderContainer {
  std::string name;
  std::vector<HeldDevices> devices;
  std::vector<ClaimedDevice> claimed;
};
struct HolderPod {
  std::string name, name_space;
  std::string uid;                          // not in the answer: for whoever finds it out
  std::vector<HolderContainer> containers;  // those with devices only
};

inline constexpr std::string_view kPodResourcesList = "/v1.PodResourcesLister/List";
inline constexpr std::string_view kPodResourcesSocket = "/var/lib/kubelet/pod-resources/kubelet.sock";
inline constexpr size_t kMostPodResourcesBytes = 16u << 20;  // the kubelet's own limit of an answer

// Pods without devices are left out. kDataLoss: not such a message; kExhausted: more pods, containers or
// devices than a node can have.
Result<std::vector<HolderPod>> ParsePodResources(std::string_view message);

}  // namespace gpulens::kubelet

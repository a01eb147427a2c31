// Parsers of the kubelet's PodResources answer (v1, List), which containers hold which devices, and of the
// ids that device plugins give to devices. Pure.
//
// The answer has no pod uid, and a device may occur in several entries of one container (one for each NUMA
// node). Kubelets before 1.34 also list pods that have ended and are not deleted yet.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/pci_address.h"

namespace gpulens::kubelet {

// kAny: unknown from the id.
enum class DeviceVendor : uint8_t { kNvidia, kAmd, kGaudi, kIntel, kAny };

// The kind determines which members are set.
struct DeviceId {
  enum class Kind : uint8_t {
    kGpu,        // uuid: "GPU-…"
    kMig,        // uuid: "MIG-…"
    kMigPlace,   // uuid of the GPU, gpu_instance, compute_instance: "MIG-GPU-…/7/0" of old drivers
    kMinor,      // number: /dev/nvidia<number>, as GKE names them
    kMinorMig,   // number and gpu_instance: "nvidia0/gi5"
    kIndex,      // number: as the vendor's library counts
    kPci,        // address
    kPartition,  // number: amdgpu_xcp_<number>
    kSerial,     // uuid: some text that names the board
  };
  Kind kind = Kind::kGpu;
  DeviceVendor vendor = DeviceVendor::kNvidia;
  std::string uuid;
  uint32_t number = 0, gpu_instance = 0, compute_instance = 0;
  PciAddress address;
  bool replica = false;  // one of several shares of it

  // The same for all replicas of one device, different for any two devices: "nvidia:gpu:GPU-…".
  std::string Key() const;
  friend bool operator==(const DeviceId&, const DeviceId&) = default;
};

// The vendor of the GPUs that a resource counts; none for other resources.
std::optional<DeviceVendor> GpuVendorOf(std::string_view resource) noexcept;
// None when the id has no known form.
std::optional<DeviceId> ParseDeviceId(DeviceVendor vendor, std::string_view id);

// The same for a resource whose domain is no GPU vendor's, as clusters rename them ("example.com/gpu"): the
// forms that only GPUs have, and a PCI address (kPci of kAny), which may be a network card's as well.
std::optional<DeviceId> ParseRenamedId(std::string_view id);
// Whether the name contains "gpu", so that each of its devices must be one: "example.com/a100-GPU.shared".
bool NamesGpu(std::string_view resource) noexcept;

// The vendor of the GPUs of a DRA driver: "gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com",
// "gaudi.intel.com".
std::optional<DeviceVendor> GpuVendorOfDriver(std::string_view driver) noexcept;

struct HeldDevices {
  std::string resource;          // "nvidia.com/gpu"
  std::vector<std::string> ids;  // as the device plugin calls them
  friend bool operator==(const HeldDevices&, const HeldDevices&) = default;
};
// A device of a claim (DRA).
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
  std::string uid;                          // not in the answer: set by the caller
  std::vector<HolderContainer> containers;  // those with devices only
};

inline constexpr std::string_view kPodResourcesList = "/v1.PodResourcesLister/List";
inline constexpr std::string_view kPodResourcesSocket = "/var/lib/kubelet/pod-resources/kubelet.sock";
inline constexpr size_t kMostPodResourcesBytes = 16u << 20;  // the kubelet's own limit of an answer

// Pods without devices are left out. kDataLoss: not such a message; kExhausted: more pods, containers or
// devices than a node can have.
Result<std::vector<HolderPod>> ParsePodResources(std::string_view message);

}  // namespace gpulens::kubelet

// What the ids that device plugins give their devices mean: which GPU, or which part of one. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/pci_address.h"

namespace gpulens::kubelet {

// kAny: the id does not tell it.
enum class Vendor : uint8_t { kNvidia, kAmd, kGaudi, kIntel, kAny };

// Which members hold is told by the kind.
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
  Vendor vendor = Vendor::kNvidia;
  std::string uuid;
  uint32_t number = 0, gpu_instance = 0, compute_instance = 0;
  PciAddress address;
  bool replica = false;  // one of several shares of it

  // The same for all replicas of one device, different for any two devices: "nvidia:gpu:GPU-…".
  std::string Key() const;
  friend bool operator==(const DeviceId&, const DeviceId&) = default;
};

// Whose GPUs a resource counts; nothing for resources that are no GPUs.
std::optional<Vendor> GpuVendorOf(std::string_view resource) noexcept;
// Nothing when the id is in no form that we know.
std::optional<DeviceId> ParseDeviceId(Vendor vendor, std::string_view id);

// The same for a resource whose domain is no GPU vendor's, as clusters rename them ("example.com/gpu"): the
// forms that only GPUs have, and a PCI address (kPci of kAny), which may be a network card's as well.
std::optional<DeviceId> ParseRenamedId(std::string_view id);
// Whether the name says GPU, so that each of its devices must be one: "example.com/a100-GPU.shared".
bool SaysGpu(std::string_view resource) noexcept;

// Whose GPUs a DRA driver gives out: "gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com", "gaudi.intel.com".
std::optional<Vendor> GpuVendorOfDriver(std::string_view driver) noexcept;

}  // namespace gpulens::kubelet

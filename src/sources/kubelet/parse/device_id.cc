#include "sources/kubelet/parse/device_id.h"

#include <algorithm>

#include "base/parse.h"

namespace gpulens::kubelet {
namespace {

using Kind = DeviceId::Kind;

constexpr size_t kMostId = 128, kUuidSize = 36;

bool IsUuidByte(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' ||
         c == '.';
}
bool IsUuid(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsUuidByte);
}

// Cuts "::3" or "/vgpu3" off the end. False: what stands there is no number.
bool CutReplica(std::string_view& id, DeviceId& out) noexcept {
  for (std::string_view mark : {std::string_view("::"), std::string_view("/vgpu")}) {
    size_t at = id.find(mark);
    if (at == std::string_view::npos) continue;
    if (!ParseInt<uint32_t>(id.substr(at + mark.size()))) return false;
    id = id.substr(0, at);
    out.replica = true;
    return true;
  }
  return true;
}

bool IsHexDigit(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// 8-4-4-4-12 hexadecimal digits.
bool IsPlainUuid(std::string_view text) noexcept {
  for (size_t i = 0; i < text.size(); ++i) {
    bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : !IsHexDigit(text[i])) return false;
  }
  return text.size() == kUuidSize;
}

// HAMi numbers the shares of a GPU behind its UUID: "GPU-<uuid>-3", "GPU-<uuid>-3-…". Cuts that off. False:
// what stands behind the UUID is something else.
bool CutShare(std::string_view& id, DeviceId& out) noexcept {
  constexpr size_t kWhole = 4 + kUuidSize;
  if (id.size() <= kWhole || !IsPlainUuid(id.substr(4, kUuidSize))) return true;
  std::string_view rest = id.substr(kWhole);
  if (rest[0] != '-') return false;
  rest.remove_prefix(1);
  if (!ParseInt<uint32_t>(TakeUntil(rest, '-'))) return false;
  id = id.substr(0, kWhole);
  out.replica = true;
  return true;
}

// "GPU-…/7/0" after "MIG-".
bool ReadMigPlace(std::string_view id, DeviceId& out) {
  std::string_view uuid = TakeUntil(id, '/');
  auto gpu_instance = ParseInt<uint32_t>(TakeUntil(id, '/'));
  auto compute_instance = ParseInt<uint32_t>(id);
  if (!IsUuid(uuid) || !gpu_instance || !compute_instance) return false;
  out.kind = Kind::kMigPlace;
  out.uuid = uuid;
  out.gpu_instance = *gpu_instance;
  out.compute_instance = *compute_instance;
  return true;
}

// "nvidia3", "nvidia0/gi5".
bool ReadMinor(std::string_view id, DeviceId& out) {
  if (!id.starts_with("nvidia")) return false;
  id.remove_prefix(6);
  auto number = ParseInt<uint32_t>(TakeUntil(id, '/'));
  if (!number) return false;
  out.kind = Kind::kMinor;
  out.number = *number;
  if (id.empty()) return true;
  if (!id.starts_with("gi")) return false;
  auto instance = ParseInt<uint32_t>(id.substr(2));
  out.kind = Kind::kMinorMig;
  out.gpu_instance = instance.value_or(0);
  return instance.has_value();
}

bool ReadNvidia(std::string_view id, DeviceId& out) {
  if (id.starts_with("MIG-GPU-") && id.find('/') != std::string_view::npos)
    return ReadMigPlace(id.substr(4), out);
  bool gpu = id.starts_with("GPU-"), mig = id.starts_with("MIG-");
  if (gpu || mig) {
    if (!IsUuid(id) || !CutShare(id, out)) return false;
    out.kind = gpu ? Kind::kGpu : Kind::kMig;
    out.uuid = id;
    return id.size() > 4;
  }
  return ReadMinor(id, out);
}

bool ReadIndex(std::string_view id, DeviceId& out) noexcept {
  auto number = ParseInt<uint32_t>(id);
  out.kind = Kind::kIndex;
  out.number = number.value_or(0);
  return number.has_value();
}

bool ReadPci(std::string_view id, DeviceId& out) noexcept {
  auto address = ParsePciAddress(id);
  // The short form would take any "a:b".
  if (!address || std::count(id.begin(), id.end(), ':') != 2) return false;
  out.kind = Kind::kPci;
  out.address = *address;
  return true;
}

bool ReadPartition(std::string_view id, DeviceId& out) noexcept {
  constexpr std::string_view kStart = "amdgpu_xcp_";
  if (!id.starts_with(kStart)) return false;
  auto number = ParseInt<uint32_t>(id.substr(kStart.size()));
  out.kind = Kind::kPartition;
  out.number = number.value_or(0);
  return number.has_value();
}

bool ReadSerial(std::string_view id, DeviceId& out) {
  out.kind = Kind::kSerial;
  out.uuid = id;
  return IsUuid(id);
}

std::string_view VendorName(Vendor vendor) noexcept {
  constexpr std::string_view kNames[] = {"nvidia", "amd", "gaudi", "intel", "any"};
  return kNames[static_cast<size_t>(vendor)];
}

}  // namespace

std::string DeviceId::Key() const {
  std::string key(VendorName(vendor));
  auto number_of = [](uint32_t value) { return std::to_string(value); };
  switch (kind) {
    case Kind::kGpu: return key + ":gpu:" + uuid;
    case Kind::kMig: return key + ":mig:" + uuid;
    case Kind::kMigPlace:
      return key + ":place:" + uuid + "/" + number_of(gpu_instance) + "/" + number_of(compute_instance);
    case Kind::kMinor: return key + ":minor:" + number_of(number);
    case Kind::kMinorMig: return key + ":minor:" + number_of(number) + "/" + number_of(gpu_instance);
    case Kind::kIndex: return key + ":index:" + number_of(number);
    case Kind::kPci: return key + ":pci:" + address.ToString();
    case Kind::kPartition: return key + ":partition:" + number_of(number);
    case Kind::kSerial: break;
  }
  return key + ":serial:" + uuid;
}

std::optional<Vendor> GpuVendorOf(std::string_view resource) noexcept {
  std::string_view domain = TakeUntil(resource, '/');
  // What a resource of NVIDIA's is called is up to the cluster; the ids tell that it counts GPUs.
  if (domain == "nvidia.com" && !resource.empty()) return Vendor::kNvidia;
  if (domain == "amd.com" && !resource.empty()) return Vendor::kAmd;
  if (domain == "habana.ai" && !resource.empty()) return Vendor::kGaudi;
  bool monitors = resource.ends_with("_monitoring");
  if (domain == "gpu.intel.com" && !resource.empty() && !monitors) return Vendor::kIntel;
  return std::nullopt;
}

std::optional<Vendor> GpuVendorOfDriver(std::string_view driver) noexcept {
  if (driver == "gpu.nvidia.com") return Vendor::kNvidia;
  if (driver == "gpu.amd.com") return Vendor::kAmd;
  if (driver == "gpu.intel.com") return Vendor::kIntel;
  if (driver == "gaudi.intel.com") return Vendor::kGaudi;
  return std::nullopt;
}

std::optional<DeviceId> ParseDeviceId(Vendor vendor, std::string_view id) {
  if (id.empty() || id.size() > kMostId) return std::nullopt;
  DeviceId out;
  out.vendor = vendor;
  if (!CutReplica(id, out)) return std::nullopt;
  bool read = false;
  switch (vendor) {
    case Vendor::kNvidia: read = ReadNvidia(id, out) || ReadIndex(id, out); break;
    case Vendor::kAmd: read = ReadPci(id, out) || ReadPartition(id, out) || ReadSerial(id, out); break;
    case Vendor::kGaudi: read = ReadPci(id, out) || ReadIndex(id, out) || ReadSerial(id, out); break;
    case Vendor::kIntel:  // "card0-0" numbers what another node numbers otherwise
    case Vendor::kAny: read = ReadPci(id, out); break;
  }
  if (!read) return std::nullopt;
  return out;
}

std::optional<DeviceId> ParseRenamedId(std::string_view id) {
  for (Vendor vendor : {Vendor::kNvidia, Vendor::kAmd, Vendor::kAny}) {
    auto device = ParseDeviceId(vendor, id);
    if (!device) continue;
    // A number or a serial may count anything; an address is of whichever device has it.
    bool plain = device->kind == Kind::kIndex || device->kind == Kind::kSerial;
    if (plain || (vendor != Vendor::kAny && device->kind == Kind::kPci)) continue;
    return device;
  }
  return std::nullopt;
}

bool SaysGpu(std::string_view resource) noexcept {
  auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  constexpr std::string_view kGpu = "gpu";
  return std::search(resource.begin(), resource.end(), kGpu.begin(), kGpu.end(),
                     [&](char a, char b) { return lower(a) == b; }) != resource.end();
}

}  // namespace gpulens::kubelet

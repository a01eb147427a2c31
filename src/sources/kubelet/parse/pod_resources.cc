#include "sources/kubelet/parse/pod_resources.h"

#include <algorithm>

#include "base/parse.h"
#include "base/text.h"

#include <protozero/pbf_reader.hpp>

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

// Cuts "::3" or "/vgpu3" off the end. False when the suffix is not a number.
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

// 8-4-4-4-12 hexadecimal digits.
bool IsPlainUuid(std::string_view text) noexcept {
  for (size_t i = 0; i < text.size(); ++i) {
    bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : HexDigit(text[i]) < 0) return false;
  }
  return text.size() == kUuidSize;
}

// HAMi numbers the shares of a GPU behind its UUID: "GPU-<uuid>-3", "GPU-<uuid>-3-…". Cuts that off. False
// when other text follows the UUID.
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

// A number behind `start`.
bool ReadNumber(std::string_view id, std::string_view start, Kind kind, DeviceId& out) noexcept {
  auto number = id.starts_with(start) ? ParseInt<uint32_t>(id.substr(start.size())) : std::nullopt;
  out.kind = kind;
  out.number = number.value_or(0);
  return number.has_value();
}

bool ReadIndex(std::string_view id, DeviceId& out) noexcept { return ReadNumber(id, "", Kind::kIndex, out); }

bool ReadPci(std::string_view id, DeviceId& out) noexcept {
  auto address = ParsePciAddress(id);
  // The short form would take any "a:b".
  if (!address || std::count(id.begin(), id.end(), ':') != 2) return false;
  out.kind = Kind::kPci;
  out.address = *address;
  return true;
}

bool ReadSerial(std::string_view id, DeviceId& out) {
  out.kind = Kind::kSerial;
  out.uuid = id;
  return IsUuid(id);
}

// By Vendor.
struct VendorRow {
  std::string_view name, resource_domain, dra_driver;
};
constexpr VendorRow kVendors[] = {{"nvidia", "nvidia.com", "gpu.nvidia.com"},
                                  {"amd", "amd.com", "gpu.amd.com"},
                                  {"gaudi", "habana.ai", "gaudi.intel.com"},
                                  {"intel", "gpu.intel.com", "gpu.intel.com"},
                                  {"any", {}, {}}};

std::optional<DeviceVendor> FindVendor(std::string_view text, std::string_view VendorRow::* member) noexcept {
  auto row = std::ranges::find(kVendors, text, member);
  if (text.empty() || row == std::end(kVendors)) return std::nullopt;
  return static_cast<DeviceVendor>(row - std::begin(kVendors));
}

using protozero::pbf_reader;

constexpr size_t kMostText = 1024, kMostThings = 65'536;

// What makes the whole of it useless. Never leaves this file.
struct Refused {
  Code code;
  const char* why;
};

class ListReader {
 public:
  std::vector<HolderPod> Read(pbf_reader message) {
    std::vector<HolderPod> pods;
    while (message.next(1, protozero::pbf_wire_type::length_delimited)) {
      Count();
      HolderPod pod = ReadPod(message.get_message());
      if (!pod.containers.empty()) pods.push_back(std::move(pod));
    }
    return pods;
  }

 private:
  void Count() {
    if (++things_ > kMostThings) throw Refused{Code::kExhausted, "more than a node can have"};
  }

  std::string Text(pbf_reader& message) {
    std::string text = message.get_string();
    if (text.size() > kMostText) throw Refused{Code::kExhausted, "a name of more than 1024 bytes"};
    if (!IsUtf8(text)) throw Refused{Code::kDataLoss, "a name that is not UTF-8"};
    return text;
  }

  // `field(number)` takes what it knows; everything that is no text or message is passed over.
  template <class Field>
  void Fields(pbf_reader message, Field field) {
    while (message.next()) {
      bool known = message.wire_type() == protozero::pbf_wire_type::length_delimited && field(message);
      if (!known) message.skip();
    }
  }

  HolderPod ReadPod(pbf_reader message) {
    HolderPod pod;
    Fields(message, [&](pbf_reader& at) {
      switch (at.tag()) {
        case 1: pod.name = Text(at); return true;
        case 2: pod.name_space = Text(at); return true;
        case 3: break;
        default: return false;
      }
      Count();
      HolderContainer container = ReadContainer(at.get_message());
      if (!container.devices.empty() || !container.claimed.empty())
        pod.containers.push_back(std::move(container));
      return true;
    });
    return pod;
  }

  HolderContainer ReadContainer(pbf_reader message) {
    HolderContainer container;
    Fields(message, [&](pbf_reader& at) {
      switch (at.tag()) {
        case 1: container.name = Text(at); return true;
        case 2: ReadDevices(at.get_message(), container); return true;
        case 5: ReadClaim(at.get_message(), container); return true;
        default: return false;
      }
    });
    return container;
  }

  void ReadDevices(pbf_reader message, HolderContainer& container) {
    HeldDevices devices;
    Fields(message, [&](pbf_reader& at) {
      if (at.tag() == 1) return devices.resource = Text(at), true;
      if (at.tag() != 2) return false;
      Count();
      devices.ids.push_back(Text(at));
      return true;
    });
    if (!devices.ids.empty()) container.devices.push_back(std::move(devices));
  }

  void ReadClaim(pbf_reader message, HolderContainer& container) {
    Fields(message, [&](pbf_reader& claim) {
      if (claim.tag() != 4) return false;
      Count();
      ClaimedDevice device;
      Fields(claim.get_message(), [&](pbf_reader& at) {
        switch (at.tag()) {
          case 2: device.driver = Text(at); return true;
          case 3: device.pool = Text(at); return true;
          case 4: device.device = Text(at); return true;
          default: return false;
        }
      });
      if (!device.driver.empty() && !device.device.empty()) container.claimed.push_back(std::move(device));
      return true;
    });
  }

  size_t things_ = 0;
};

}  // namespace

std::string DeviceId::Key() const {
  std::string key(kVendors[static_cast<size_t>(vendor)].name);
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

std::optional<DeviceVendor> GpuVendorOf(std::string_view resource) noexcept {
  std::string_view domain = TakeUntil(resource, '/');
  if (resource.empty() || (domain == "gpu.intel.com" && resource.ends_with("_monitoring")))
    return std::nullopt;
  // The name of a resource of these vendors is up to the cluster; its ids identify GPUs.
  return FindVendor(domain, &VendorRow::resource_domain);
}

std::optional<DeviceVendor> GpuVendorOfDriver(std::string_view driver) noexcept {
  return FindVendor(driver, &VendorRow::dra_driver);
}

std::optional<DeviceId> ParseDeviceId(DeviceVendor vendor, std::string_view id) {
  if (id.empty() || id.size() > kMostId) return std::nullopt;
  DeviceId out;
  out.vendor = vendor;
  if (!CutReplica(id, out)) return std::nullopt;
  bool read = false;
  switch (vendor) {
    case DeviceVendor::kNvidia: read = ReadNvidia(id, out) || ReadIndex(id, out); break;
    case DeviceVendor::kAmd:
      read = ReadPci(id, out) || ReadNumber(id, "amdgpu_xcp_", Kind::kPartition, out) || ReadSerial(id, out);
      break;
    case DeviceVendor::kGaudi: read = ReadPci(id, out) || ReadIndex(id, out) || ReadSerial(id, out); break;
    case DeviceVendor::kIntel:  // "card0-0" numbers what another node numbers otherwise
    case DeviceVendor::kAny: read = ReadPci(id, out); break;
  }
  if (!read) return std::nullopt;
  return out;
}

std::optional<DeviceId> ParseRenamedId(std::string_view id) {
  for (DeviceVendor vendor : {DeviceVendor::kNvidia, DeviceVendor::kAmd, DeviceVendor::kAny}) {
    auto device = ParseDeviceId(vendor, id);
    if (!device) continue;
    // A number or a serial may count anything; an address is of whichever device has it.
    bool plain = device->kind == Kind::kIndex || device->kind == Kind::kSerial;
    if (plain || (vendor != DeviceVendor::kAny && device->kind == Kind::kPci)) continue;
    return device;
  }
  return std::nullopt;
}

bool NamesGpu(std::string_view resource) noexcept {
  auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  constexpr std::string_view kGpu = "gpu";
  return std::search(resource.begin(), resource.end(), kGpu.begin(), kGpu.end(),
                     [&](char a, char b) { return lower(a) == b; }) != resource.end();
}

Result<std::vector<HolderPod>> ParsePodResources(std::string_view message) {
  if (message.size() > kMostPodResourcesBytes) return Status{Code::kExhausted, "PodResources: too large"};
  try {
    return ListReader().Read(pbf_reader(message.data(), message.size()));
  } catch (const Refused& refused) {
    return Status{refused.code, std::string("PodResources: ") + refused.why};
  } catch (const protozero::exception& broken) {
    return Status{Code::kDataLoss, std::string("PodResources: ") + broken.what()};
  }
}

}  // namespace gpulens::kubelet

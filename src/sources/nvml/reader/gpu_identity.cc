#include "sources/nvml/reader/gpu_identity.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/parse.h"
#include "base/pci_address.h"

namespace gpulens::nvml {
namespace {

using Facts = std::vector<std::pair<std::string, std::string>>;

std::string_view ArchitectureName(unsigned number) noexcept {
  switch (number) {
    case 2: return "kepler";
    case 3: return "maxwell";
    case 4: return "pascal";
    case 5: return "volta";
    case 6: return "turing";
    case 7: return "ampere";
    case 8: return "ada-lovelace";
    case 9: return "hopper";
    case 10: return "blackwell";
    case 13: return "rubin";
    default: return {};
  }
}

void AddFact(GpuIdentity& out, const char* key, std::string value) {
  if (!value.empty()) out.facts.emplace_back(key, std::move(value));
}

template <class Function>
void AddNumber(NvmlCaller& caller, GpuIdentity& out, const char* key, const Function& function) {
  unsigned number = 0;
  if (caller.Do(function, out.device, &number) == kSuccess)
    out.facts.emplace_back(key, std::to_string(number));
}

std::string Hex(unsigned number) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", number);
  return text;
}

void AddPci(NvmlCaller& caller, Device device, Facts& facts) {
  PciInfo info{};
  if (int code = caller.Do(caller.fn().PciInfo, device, &info); code == kFunctionNotFound) {
    PciInfoV2 old{};
    if (caller.Do(caller.fn().PciInfoV2, device, &old) != kSuccess) return;
    info.domain = old.domain, info.bus = old.bus, info.device = old.device;
    info.device_id = old.device_id, info.subsystem_id = old.subsystem_id;
    std::copy(std::begin(old.bus_id), std::end(old.bus_id), info.bus_id);
  } else if (code != kSuccess) {
    return;
  }
  facts.emplace_back("pci_bus_id", BusIdOf(info));
  facts.emplace_back("pci_device_id", Hex(info.device_id));
  facts.emplace_back("pci_subsystem_id", Hex(info.subsystem_id));
}

void AddArchitecture(NvmlCaller& caller, Device device, Facts& facts) {
  unsigned number = 0;
  if (caller.Do(caller.fn().Architecture, device, &number) == kSuccess) {
    if (std::string_view name = ArchitectureName(number); !name.empty())
      facts.emplace_back("architecture", name);
  }
  int major = 0, minor = 0;
  if (caller.Do(caller.fn().ComputeCapability, device, &major, &minor) == kSuccess) {
    facts.emplace_back("compute_capability", std::to_string(major) + "." + std::to_string(minor));
  }
}

void AddAddressing(NvmlCaller& caller, GpuIdentity& out) {
  AddressingMode mode{.version = kAddressingModeV1, .value = 0};
  if (caller.Do(caller.fn().AddressingMode, out.device, &mode) == kSuccess) {
    constexpr std::string_view kNames[] = {"none", "hmm", "ats"};
    if (mode.value < std::size(kNames)) out.facts.emplace_back("addressing_mode", kNames[mode.value]);
    out.coherent_memory = mode.value == kAddressingAts;
  }
  unsigned node = 0;
  if (caller.Do(caller.fn().NumaNodeId, out.device, &node) == kSuccess && node < 4096) {
    out.numa_node = static_cast<int>(node);
    out.facts.emplace_back("numa_node", std::to_string(node));
  }
}

void AddLinks(NvmlCaller& caller, GpuIdentity& out) {
  std::array<FieldValue, 2> values{};
  values[0].field_id = kFiNvlinkCount;
  values[1].field_id = kFiC2cCount;
  int code = caller.Do(caller.fn().FieldValues, out.device, static_cast<int>(values.size()), values.data());
  if (code != kSuccess) return;
  if (values[1].code == kSuccess) out.c2c_count = std::min(values[1].value.uint_value, kMaxC2cLinks);
  if (values[0].code != kSuccess) return;
  out.nvlink_count = std::min(values[0].value.uint_value, kMaxLinks);
  out.facts.emplace_back("nvlink_links", std::to_string(out.nvlink_count));
}

// By their names: "NVIDIA GB10", "Orin (nvgpu)", "NVIDIA Thor".
bool IsIntegrated(const Facts& facts) {
  for (const auto& [key, value] : facts) {
    if (key != "name") continue;
    std::string_view rest = value;
    while (!rest.empty()) {
      std::string_view word = TakeUntil(rest, ' ');
      for (std::string_view name : {"GB10", "Orin", "Thor", "Xavier", "(nvgpu)"}) {
        if (word == name) return true;
      }
    }
  }
  return false;
}

constexpr size_t kWordBits = 8 * sizeof(unsigned long);

// "0-31,64-95"
template <size_t kWords>
std::string RangesOf(const std::array<unsigned long, kWords>& set) {
  std::string out;
  auto has = [&](size_t i) {
    return i < kWords * kWordBits && (set[i / kWordBits] >> i % kWordBits & 1) != 0;
  };
  for (size_t i = 0; i < kWords * kWordBits; ++i) {
    if (!has(i)) continue;
    size_t last = i;
    while (has(last + 1)) ++last;
    if (!out.empty()) out += ',';
    out += std::to_string(i);
    if (last > i) out += '-' + std::to_string(last);
    i = last;
  }
  return out;
}

void AddAffinity(NvmlCaller& caller, GpuIdentity& out) {
  std::array<unsigned long, 16> cpus{};  // 1,024 CPUs
  if (caller.Do(caller.fn().CpuAffinity, out.device, unsigned{cpus.size()}, cpus.data()) == kSuccess) {
    AddFact(out, "cpu_affinity", RangesOf(cpus));
  }
  std::array<unsigned long, 4> nodes{};
  constexpr unsigned kNearestNode = 0;
  if (caller.Do(caller.fn().MemoryAffinity, out.device, unsigned{nodes.size()}, nodes.data(),
                unsigned{kNearestNode}) == kSuccess) {
    AddFact(out, "memory_affinity", RangesOf(nodes));
  }
}

void AddPlatform(NvmlCaller& caller, GpuIdentity& out) {
  PlatformInfo info{};
  info.version = StructVersion(sizeof info, 2);
  const NvmlSymbols& fn = caller.fn();
  int code = caller.Do(fn.PlatformInfo, out.device, &info);
  bool second = code == kSuccess;
  if (code == kArgumentVersionMismatch || code == kInvalidArgument) {
    info = PlatformInfo{};
    info.version = StructVersion(sizeof info, 1);
    code = caller.Do(fn.PlatformInfo, out.device, &info);
  }
  if (code != kSuccess) return;
  const auto* serial = reinterpret_cast<const char*>(info.chassis_serial);
  size_t length = ::strnlen(serial, sizeof info.chassis_serial);
  bool printable = std::all_of(serial, serial + length, [](char c) { return c > ' ' && c < 0x7F; });
  if (second && printable) AddFact(out, "platform_chassis_serial", std::string(serial, length));
  AddFact(out, "platform_slot", std::to_string(info.slot));
  AddFact(out, "platform_tray", std::to_string(info.tray));
  AddFact(out, "platform_host", std::to_string(info.host));
  AddFact(out, "platform_module", std::to_string(info.module));
}

void AddFirmware(NvmlCaller& caller, GpuIdentity& out) {
  // Twice what the library needs: it does not know how much room there is.
  std::array<char, 2 * kGspVersionBytes> version{};
  if (caller.Do(caller.fn().GspFirmwareVersion, out.device, version.data()) != kSuccess) {
    return;
  }
  AddFact(out, "gsp_firmware", std::string(version.data(), ::strnlen(version.data(), kGspVersionBytes)));
}

char PathTo(NvmlCaller& caller, Device device, Device peer) {
  const NvmlSymbols& fn = caller.fn();
  unsigned status = 1, level = 0;
  if (caller.Do(fn.P2pStatus, device, peer, unsigned{kP2pNvlink}, &status) == kSuccess && status == 0) {
    return 'n';
  }
  if (caller.Do(fn.TopologyAncestor, device, peer, &level) != kSuccess) return '-';
  switch (level) {
    case 0: return 'i';
    case 10: return 's';
    case 20: return 'm';
    case 30: return 'b';
    case 40: return 'u';
    case 50: return 'y';
    default: return '-';
  }
}

void AddTopology(NvmlCaller& caller, unsigned index, GpuIdentity& out) {
  const NvmlSymbols& fn = caller.fn();
  unsigned count = 0;
  int code = caller.DoEither(fn.DeviceCount, fn.DeviceCountV1, &count);
  if (code != kSuccess || count < 2) return;
  std::string paths(std::min(count, kMaxGpus), '-');
  for (unsigned i = 0; i < paths.size(); ++i) {
    Device peer = nullptr;
    if (i == index) continue;
    code = caller.DoEither(fn.HandleByIndex, fn.HandleByIndexV1, i, &peer);
    if (code == kSuccess) paths[i] = PathTo(caller, out.device, peer);
  }
  AddFact(out, "topology", std::move(paths));
}

}  // namespace

std::string BusIdOf(const PciInfo& info) {
  PciAddress out{info.domain, static_cast<uint8_t>(info.bus), static_cast<uint8_t>(info.device), 0};
  auto reported = ParsePciAddress(std::string_view(info.bus_id, ::strnlen(info.bus_id, sizeof info.bus_id)));
  if (reported && reported->SameSlot(out)) out.function = reported->function;
  return out.ToString();
}

int ReadIdentity(NvmlCaller& caller, unsigned index, GpuIdentity& out) {
  const NvmlSymbols& fn = caller.fn();
  out = GpuIdentity{};
  out.facts.emplace_back("index", std::to_string(index));
  Device device = nullptr;
  int code = caller.DoEither(fn.HandleByIndex, fn.HandleByIndexV1, index, &device);
  if (code != kSuccess) return code;
  out.device = device;
  Facts& facts = out.facts;
  AddFact(out, "uuid", QueryText(caller, fn.Uuid, device));
  AddFact(out, "name", QueryText(caller, fn.Name, device));
  AddFact(out, "serial", QueryText(caller, fn.Serial, device));
  AddPci(caller, device, facts);
  AddNumber(caller, out, "minor", fn.MinorNumber);
  AddFact(out, "vbios", QueryText(caller, fn.Vbios, device));
  AddFact(out, "inforom", QueryText(caller, fn.Inforom, device));
  AddArchitecture(caller, device, facts);
  AddNumber(caller, out, "memory_bus_width", fn.MemoryBusWidth);
  AddAddressing(caller, out);
  out.integrated = IsIntegrated(facts);
  unsigned current = 0, pending = 0;
  if (caller.Do(fn.MigMode, device, &current, &pending) == kSuccess) {
    facts.emplace_back("mig_mode", current ? "enabled" : "disabled");
  }
  AddNumber(caller, out, "fans", fn.NumFans);
  AddLinks(caller, out);
  return kSuccess;
}

void AddBoardFacts(NvmlCaller& caller, unsigned index, uint32_t details, GpuIdentity& identity) {
  AddFirmware(caller, identity);
  AddPlatform(caller, identity);
  AddAffinity(caller, identity);
  if (details & kDetailTopology) AddTopology(caller, index, identity);
}

}  // namespace gpulens::nvml

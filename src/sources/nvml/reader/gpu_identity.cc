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

template <class Function>
void AddText(Caller& caller, GpuIdentity& out, const char* key, Call call, Function function) {
  std::array<char, 96> text{};
  if (caller.Do(call, function, out.device, text.data(), static_cast<unsigned>(text.size())) != kSuccess)
    return;
  size_t length = ::strnlen(text.data(), text.size());
  if (length) out.facts.emplace_back(key, std::string(text.data(), length));
}

void AddNumber(Caller& caller, GpuIdentity& out, const char* key, Call call,
               int (*function)(Device, unsigned*)) {
  unsigned number = 0;
  if (caller.Do(call, function, out.device, &number) == kSuccess)
    out.facts.emplace_back(key, std::to_string(number));
}

std::string Hex(unsigned number) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", number);
  return text;
}

void AddPci(Caller& caller, Device device, Facts& facts) {
  PciInfo info{};
  if (int code = caller.Do(Call::kPciInfo, caller.fn().PciInfo, device, &info); code == kFunctionNotFound) {
    PciInfoV2 old{};
    if (caller.Do(Call::kPciInfoV2, caller.fn().PciInfoV2, device, &old) != kSuccess) return;
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

void AddArchitecture(Caller& caller, Device device, Facts& facts) {
  unsigned number = 0;
  if (caller.Do(Call::kArchitecture, caller.fn().Architecture, device, &number) == kSuccess) {
    if (std::string_view name = ArchitectureName(number); !name.empty())
      facts.emplace_back("architecture", name);
  }
  int major = 0, minor = 0;
  if (caller.Do(Call::kComputeCapability, caller.fn().ComputeCapability, device, &major, &minor) ==
      kSuccess) {
    facts.emplace_back("compute_capability", std::to_string(major) + "." + std::to_string(minor));
  }
}

void AddAddressing(Caller& caller, GpuIdentity& out) {
  AddressingMode mode{.version = kAddressingModeV1, .value = 0};
  if (caller.Do(Call::kAddressingMode, caller.fn().AddressingMode, out.device, &mode) == kSuccess) {
    constexpr std::string_view kNames[] = {"none", "hmm", "ats"};
    if (mode.value < std::size(kNames)) out.facts.emplace_back("addressing_mode", kNames[mode.value]);
    out.coherent_memory = mode.value == kAddressingAts;
  }
  unsigned node = 0;
  if (caller.Do(Call::kNumaNodeId, caller.fn().NumaNodeId, out.device, &node) == kSuccess && node < 4096) {
    out.numa_node = static_cast<int>(node);
    out.facts.emplace_back("numa_node", std::to_string(node));
  }
}

void AddLinks(Caller& caller, GpuIdentity& out) {
  std::array<FieldValue, 2> values{};
  values[0].field_id = kFiNvlinkCount;
  values[1].field_id = kFiC2cCount;
  int code = caller.Do(Call::kFieldValues, caller.fn().FieldValues, out.device,
                       static_cast<int>(values.size()), values.data());
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

}  // namespace

std::string BusIdOf(const PciInfo& info) {
  PciAddress out{info.domain, static_cast<uint8_t>(info.bus), static_cast<uint8_t>(info.device), 0};
  auto told = ParsePciAddress(std::string_view(info.bus_id, ::strnlen(info.bus_id, sizeof info.bus_id)));
  if (told && told->SameSlot(out)) out.function = told->function;
  return out.ToString();
}

int ReadIdentity(Caller& caller, unsigned index, GpuIdentity& out) {
  const Symbols& fn = caller.fn();
  out = GpuIdentity{};
  out.facts.emplace_back("index", std::to_string(index));
  Device device = nullptr;
  int code = fn.HandleByIndex ? caller.Do(Call::kHandleByIndex, fn.HandleByIndex, index, &device)
                              : caller.Do(Call::kHandleByIndexV1, fn.HandleByIndexV1, index, &device);
  if (code != kSuccess) return code;
  out.device = device;
  Facts& facts = out.facts;
  AddText(caller, out, "uuid", Call::kUuid, fn.Uuid);
  AddText(caller, out, "name", Call::kName, fn.Name);
  AddText(caller, out, "serial", Call::kSerial, fn.Serial);
  AddPci(caller, device, facts);
  AddNumber(caller, out, "minor", Call::kMinorNumber, fn.MinorNumber);
  AddText(caller, out, "vbios", Call::kVbios, fn.Vbios);
  AddText(caller, out, "inforom", Call::kInforom, fn.Inforom);
  AddArchitecture(caller, device, facts);
  AddNumber(caller, out, "memory_bus_width", Call::kMemoryBusWidth, fn.MemoryBusWidth);
  AddAddressing(caller, out);
  out.integrated = IsIntegrated(facts);
  unsigned current = 0, pending = 0;
  if (caller.Do(Call::kMigMode, fn.MigMode, device, &current, &pending) == kSuccess) {
    facts.emplace_back("mig_mode", current ? "enabled" : "disabled");
  }
  AddNumber(caller, out, "fans", Call::kNumFans, fn.NumFans);
  AddLinks(caller, out);
  return kSuccess;
}

}  // namespace gpulens::nvml

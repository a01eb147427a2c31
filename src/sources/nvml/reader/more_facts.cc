#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "sources/nvml/reader/items.h"

namespace gpulens::nvml {
namespace {

constexpr size_t kWordBits = 8 * sizeof(unsigned long);

void AddFact(GpuIdentity& out, const char* key, std::string value) {
  if (!value.empty()) out.facts.emplace_back(key, std::move(value));
}

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

void AddAffinity(Caller& caller, GpuIdentity& out) {
  std::array<unsigned long, 16> cpus{};  // 1,024 CPUs
  if (caller.Do(Call::kCpuAffinity, caller.fn().CpuAffinity, out.device, unsigned{cpus.size()},
                cpus.data()) == kSuccess) {
    AddFact(out, "cpu_affinity", RangesOf(cpus));
  }
  std::array<unsigned long, 4> nodes{};
  constexpr unsigned kNearestNode = 0;
  if (caller.Do(Call::kMemoryAffinity, caller.fn().MemoryAffinity, out.device, unsigned{nodes.size()},
                nodes.data(), unsigned{kNearestNode}) == kSuccess) {
    AddFact(out, "memory_affinity", RangesOf(nodes));
  }
}

void AddPlatform(Caller& caller, GpuIdentity& out) {
  PlatformInfo info{};
  info.version = StructVersion(sizeof info, 2);
  const Symbols& fn = caller.fn();
  int code = caller.Do(Call::kPlatformInfo, fn.PlatformInfo, out.device, &info);
  bool second = code == kSuccess;
  if (code == kArgumentVersionMismatch || code == kInvalidArgument) {
    info = PlatformInfo{};
    info.version = StructVersion(sizeof info, 1);
    code = caller.Do(Call::kPlatformInfo, fn.PlatformInfo, out.device, &info);
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

void AddFirmware(Caller& caller, GpuIdentity& out) {
  // Twice what the library asks for: it is not told how much room there is.
  std::array<char, 2 * kGspVersionBytes> version{};
  if (caller.Do(Call::kGspFirmwareVersion, caller.fn().GspFirmwareVersion, out.device, version.data()) !=
      kSuccess) {
    return;
  }
  AddFact(out, "gsp_firmware", std::string(version.data(), ::strnlen(version.data(), kGspVersionBytes)));
}

char PathTo(Caller& caller, Device device, Device peer) {
  const Symbols& fn = caller.fn();
  unsigned status = 1, level = 0;
  if (caller.Do(Call::kP2pStatus, fn.P2pStatus, device, peer, unsigned{kP2pNvlink}, &status) == kSuccess &&
      status == 0) {
    return 'n';
  }
  if (caller.Do(Call::kTopologyAncestor, fn.TopologyAncestor, device, peer, &level) != kSuccess) return '-';
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

void AddTopology(Caller& caller, unsigned index, GpuIdentity& out) {
  const Symbols& fn = caller.fn();
  unsigned count = 0;
  int code = fn.DeviceCount ? caller.Do(Call::kDeviceCount, fn.DeviceCount, &count)
                            : caller.Do(Call::kDeviceCountV1, fn.DeviceCountV1, &count);
  if (code != kSuccess || count < 2) return;
  std::string paths(std::min(count, kMaxGpus), '-');
  for (unsigned i = 0; i < paths.size(); ++i) {
    Device peer = nullptr;
    if (i == index) continue;
    code = fn.HandleByIndex ? caller.Do(Call::kHandleByIndex, fn.HandleByIndex, i, &peer)
                            : caller.Do(Call::kHandleByIndexV1, fn.HandleByIndexV1, i, &peer);
    if (code == kSuccess) paths[i] = PathTo(caller, out.device, peer);
  }
  AddFact(out, "topology", std::move(paths));
}

}  // namespace

void AddMoreFacts(Caller& caller, unsigned index, uint32_t details, GpuIdentity& identity) {
  AddFirmware(caller, identity);
  AddPlatform(caller, identity);
  AddAffinity(caller, identity);
  if (details & kDetailTopology) AddTopology(caller, index, identity);
}

}  // namespace gpulens::nvml

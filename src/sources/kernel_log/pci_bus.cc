#include "sources/kernel_log/pci_bus.h"

#include <unistd.h>

#include <array>

#include "base/files.h"
#include "base/parse.h"

namespace gpulens::kernel_log {
namespace {

constexpr size_t kMaxDevices = 4096;
constexpr uint32_t kNvidia = 0x10de;

// "0x10de\n".
uint32_t HexFile(const std::string& path) {
  auto text = ReadFile(path, 64);
  if (!text) return 0;
  std::string_view digits = Trim(*text);
  if (!digits.starts_with("0x")) return 0;
  return ParseInt<uint32_t>(digits.substr(2), 16).value_or(0);
}

// The link of a device goes through the bridges above it: …/pci0000:00/0000:00:01.0/0000:01:00.0.
std::vector<PciAddress> PortsOf(const std::string& link) {
  std::array<char, 4096> target{};
  ssize_t size = ::readlink(link.c_str(), target.data(), target.size());
  std::vector<PciAddress> ports;
  if (size <= 0) return ports;
  std::string_view rest(target.data(), static_cast<size_t>(size));
  while (!rest.empty()) {
    std::string_view part = TakeUntil(rest, '/');
    if (rest.empty()) break;  // the device itself
    if (part.starts_with("pci")) continue;
    if (auto address = ParsePciAddress(part)) ports.push_back(*address);
  }
  return ports;
}

}  // namespace

bool PciDevice::IsGpu() const noexcept {
  uint32_t base = klass >> 16;
  return base == 0x03 || base == 0x12;
}

bool PciDevice::IsNvswitch() const noexcept { return vendor == kNvidia && klass >> 8 == 0x0680; }

std::vector<PciDevice> ReadPciBus(const std::string& root) {
  std::vector<PciDevice> devices;
  std::string folder = (root.empty() || root == "/" ? "" : root) + "/sys/bus/pci/devices";
  static_cast<void>(ForEachName(folder, [&](std::string_view name) {
    auto address = ParsePciAddress(name);
    if (!address) return true;
    std::string path = folder + "/" + std::string(name);
    PciDevice device{*address, HexFile(path + "/vendor"), HexFile(path + "/class"), {}};
    if (device.IsGpu()) device.ports = PortsOf(path);
    devices.push_back(std::move(device));
    return devices.size() < kMaxDevices;
  }));
  return devices;
}

}  // namespace gpulens::kernel_log

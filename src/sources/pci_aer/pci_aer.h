// The kernel's counts of PCIe advanced error reports, by device: /sys/bus/pci/devices/*/aer_dev_*. They are
// there where the device, its port and the firmware let the kernel handle such reports, and need no driver.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpulens::pci_aer {

enum class AerSeverity : uint8_t { kCorrectable, kNonFatal, kFatal };
inline constexpr size_t kSeverities = 3;
// "correctable", "nonfatal", "fatal". Static storage.
std::string_view SeverityName(AerSeverity severity) noexcept;

// The total of one file, which lists one count a line; nothing when it has none. Pure.
std::optional<uint64_t> ParseTotal(std::string_view text, AerSeverity severity) noexcept;

// Reads one device again and again. Not thread-safe; does not allocate after the first reading.
class AerDevice {
 public:
  // `root` is the prefix of /sys; `address` is "0000:4d:00.0".
  AerDevice(const std::string& root, const std::string& address);

  // Totals by severity; nullopt where the kernel has none. A file that is missing at first is not tried
  // again.
  std::array<std::optional<uint64_t>, kSeverities> Read();

 private:
  std::array<std::string, kSeverities> paths_;
  std::string text_;
};

}  // namespace gpulens::pci_aer

// PCI address of a device, in the notations of kernel, drivers and tools.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "base/parse.h"

namespace gpulens {

// Functions of one slot are different devices, such as the virtual functions of SR-IOV.
struct PciAddress {
  uint32_t domain = 0;
  uint8_t bus = 0, device = 0, function = 0;

  friend bool operator==(const PciAddress&, const PciAddress&) noexcept = default;
  // Whether at most the function differs: a GPU and the audio device of its board.
  bool SameSlot(const PciAddress& other) const noexcept {
    return domain == other.domain && bus == other.bus && device == other.device;
  }
  // "0000:3b:00.0", the kernel's notation.
  std::string ToString() const {
    char text[32];
    int size = std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", domain, unsigned{bus}, unsigned{device},
                             unsigned{function});
    return std::string(text, static_cast<size_t>(size));
  }
};

// Parses "0000:3b:00.0", "00000000:3B:00.0", "PCI:0000:3b:00", "3b:00.0", and "0003:00" of old drivers; a
// missing function is 0.
inline std::optional<PciAddress> ParsePciAddress(std::string_view text) noexcept {
  if (text.starts_with("PCI:")) text.remove_prefix(4);
  if (text.size() > 16) return std::nullopt;
  PciAddress address;
  if (size_t dot = text.find('.'); dot != std::string_view::npos) {
    auto function = ParseInt<uint8_t>(text.substr(dot + 1), 16);
    if (!function || *function > 7) return std::nullopt;
    address.function = *function;
    text = text.substr(0, dot);
  }
  size_t last = text.rfind(':');
  if (last == std::string_view::npos) return std::nullopt;
  auto device = ParseInt<uint8_t>(text.substr(last + 1), 16);
  text = text.substr(0, last);
  size_t colon = text.rfind(':');
  std::string_view bus_text = colon == std::string_view::npos ? text : text.substr(colon + 1);
  auto bus = ParseInt<uint8_t>(bus_text, 16);
  if (!device || *device > 31 || !bus) return std::nullopt;
  if (colon != std::string_view::npos) {
    auto domain = ParseInt<uint32_t>(text.substr(0, colon), 16);
    if (!domain) return std::nullopt;
    address.domain = *domain;
  }
  address.bus = *bus;
  address.device = *device;
  return address;
}

}  // namespace gpulens

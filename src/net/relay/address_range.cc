#include "net/relay/address_range.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/parse.h"
#include "base/result.h"

namespace gpulens {
namespace {

struct Wrapping {
  std::array<uint8_t, 12> prefix;
  size_t bytes;  // of the prefix; the IPv4 address is behind them
};
constexpr Wrapping kMapped = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 12};
// By which a network with translators reaches IPv4: NAT64, 6to4, and the compatible form of old.
constexpr Wrapping kTranslated[] = {{{0, 0x64, 0xff, 0x9b}, 12}, {{0x20, 0x02}, 2}, {{}, 12}};

// The address, and an IPv4 one where IPv6 only wraps it.
Endpoint Unwrapped(const Endpoint& address, const Wrapping& by = kMapped) noexcept {
  if (address.family != Endpoint::Family::kIpv6 ||
      !std::equal(by.prefix.begin(), by.prefix.begin() + by.bytes, address.ip.begin()))
    return address;
  Endpoint inner;
  inner.family = Endpoint::Family::kIpv4;
  std::copy_n(address.ip.begin() + by.bytes, 4, inner.ip.begin());
  return inner;
}

}  // namespace

bool AddressRange::Contains(const Endpoint& address) const noexcept {
  const Endpoint inner = Unwrapped(address);
  if (inner.family != base.family) return false;
  for (int bit = 0; bit < bits; bit += 8) {
    const auto at = static_cast<size_t>(bit / 8);
    const int mask = bits - bit >= 8 ? 0xff : 0xff << (8 - (bits - bit)) & 0xff;
    if (((inner.ip[at] ^ base.ip[at]) & mask) != 0) return false;
  }
  return true;
}

Result<AddressRange> ParseAddressRange(std::string_view text) {
  const size_t slash = text.find('/');
  ASSIGN_OR_RETURN(const Endpoint base, ParseIp(text.substr(0, slash)));
  const bool four = base.family == Endpoint::Family::kIpv4;
  const int most = four ? 32 : 128;
  const auto bits =
      slash == std::string_view::npos ? most : ParseInt<int>(text.substr(slash + 1)).value_or(-1);
  if (bits < 0 || bits > most) {
    return Status{Code::kInvalidArgument, std::string(text) + ": the bits behind the slash are 0 to " +
                                              std::to_string(most) + ", as in 10.0.0.0/8"};
  }
  return AddressRange{base, bits};
}

bool IsMetadataAddress(const Endpoint& address) noexcept {
  static const std::array<AddressRange, 8> kRanges = {
      *ParseAddressRange("169.254.0.0/16"),  *ParseAddressRange("fe80::/10"),
      *ParseAddressRange("fd00:ec2::254"),    // Amazon
      *ParseAddressRange("fd00:ec2::23"),     // Amazon, of a pod
      *ParseAddressRange("fd20:ce::254"),     // Google
      *ParseAddressRange("100.100.100.200"),  // Alibaba
      *ParseAddressRange("192.0.0.192"),      // Oracle
      *ParseAddressRange("168.63.129.16"),    // Azure
  };
  const auto is_one = [](const Endpoint& one) {
    return std::any_of(kRanges.begin(), kRanges.end(),
                       [&](const AddressRange& range) { return range.Contains(one); });
  };
  return is_one(address) || std::any_of(std::begin(kTranslated), std::end(kTranslated),
                                        [&](const Wrapping& by) { return is_one(Unwrapped(address, by)); });
}

}  // namespace gpulens

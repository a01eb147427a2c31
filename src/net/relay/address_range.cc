#include "net/relay/address_range.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/parse.h"
#include "base/result.h"

namespace gpulens {
namespace {

// The address, and an IPv4 one where IPv6 only wraps it.
Endpoint Unwrapped(const Endpoint& address) noexcept {
  constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (address.family != Endpoint::Family::kIpv6 ||
      !std::equal(kMapped.begin(), kMapped.end(), address.ip.begin()))
    return address;
  Endpoint inner;
  inner.family = Endpoint::Family::kIpv4;
  std::copy(address.ip.begin() + 12, address.ip.end(), inner.ip.begin());
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
  static const std::array<AddressRange, 3> kRanges = {*ParseAddressRange("169.254.0.0/16"),
                                                      *ParseAddressRange("fe80::/10"),
                                                      *ParseAddressRange("fd00:ec2::254")};
  return std::any_of(kRanges.begin(), kRanges.end(),
                     [&](const AddressRange& range) { return range.Contains(address); });
}

}  // namespace gpulens

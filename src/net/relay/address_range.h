// Ranges of IP addresses, and the addresses that a relay connects to only by name of its configuration.
#pragma once

#include <string_view>

#include <gpulens/status.h>

#include "net/message/address.h"

namespace gpulens {

struct AddressRange {
  Endpoint base;  // its port is ignored
  int bits = 0;   // of the address that must be equal

  // IPv4 addresses written as IPv6 (::ffff:10.0.0.1) are IPv4.
  bool Contains(const Endpoint& address) const noexcept;
};

// "10.0.0.0/8", "fd00::/8", or one address. kInvalidArgument when it is neither.
Result<AddressRange> ParseAddressRange(std::string_view text);

// Whether an address is one at which a cloud gives out credentials (169.254.0.0/16, 100.100.100.200,
// fd00:ec2::254 …), also in IPv6 forms that reach it (64:ff9b::a9fe:a9fe), or is link-local (fe80::/10). A
// name that resolves to one is an attempt to read them.
bool IsMetadataAddress(const Endpoint& address) noexcept;

}  // namespace gpulens

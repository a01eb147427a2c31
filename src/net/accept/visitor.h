// Which requests a web page may have sent: by the Host that they ask for and the Origin that they come from.
//
// A page elsewhere can make its reader's browser send requests to this machine, and by a name of its own that
// leads to 127.0.0.1 (DNS rebinding) it can read the answers, too. A browser always says the name that it
// asked for and, where a page sends anything but a plain GET, where that page is from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/address.h"

namespace gpulens {

enum class Visitor : uint8_t { kWelcome, kForeignHost, kForeignOrigin };
// Where a connection arrived.
enum class Arrival : uint8_t { kUnix, kLoopback, kNetwork };
Arrival ArrivalAt(const Endpoint& local) noexcept;

struct VisitorRule {
  Arrival arrival = Arrival::kNetwork;
  bool open = false;  // nobody has to prove who it is, and there is no TLS
  // Names by which this machine may be asked for, besides those that HostAllowed knows; "*" is any.
  const std::vector<std::string>* hosts = nullptr;
  // Origins of pages that may come, as a browser writes them ("https://grafana.example.org"); "*" is any.
  const std::vector<std::string>* origins = nullptr;
};

// What a request says of itself: its Host field, and its Origin where it has one.
struct VisitorSays {
  std::string_view host;
  std::optional<std::string_view> origin;
};
template <class Request>
VisitorSays SaysOf(const Request& request) {
  VisitorSays says{request.Header("Host"), std::nullopt};
  if (request.HasHeader("Origin")) says.origin = request.Header("Origin");
  return says;
}

// An open listener of the loopback refuses a foreign Host, every listener a foreign Origin. Not those of Unix
// sockets: no browser speaks to them.
Visitor CheckVisitor(const VisitorSays& says, const VisitorRule& rule);

// The sentence for a visitor that is not welcome.
std::string_view WhyNotWelcome(Visitor visitor) noexcept;

// Whether no page elsewhere can have made its name lead here: no Host at all, an address, localhost, a name
// without a dot (which the public DNS has not), or one of `allowed`.
bool HostAllowed(std::string_view host, const std::vector<std::string>& allowed);

// An Origin of this machine is let in, as is one in `allowed`, as is one with the host name that was asked
// for, unless that name leads to a loopback address: a page elsewhere can point its own name there. Then it
// has to be an address or one of `hosts`. Ports do not matter.
bool OriginAllowed(std::string_view origin, std::string_view host, bool local_is_loopback,
                   const std::vector<std::string>& allowed, const std::vector<std::string>& hosts);

}  // namespace gpulens

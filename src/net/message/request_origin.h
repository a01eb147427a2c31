// Protection from web pages: refuses requests that a page of another site made a browser send.
//
// A page can direct a browser to this machine, and by a name of its own that resolves to 127.0.0.1 (DNS
// rebinding) read the responses. Browsers send the requested name in Host and, except in a plain GET, the
// page's Origin.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/message/address.h"

namespace gpulens {

enum class OriginCheck : uint8_t { kAllowed, kForeignHost, kForeignOrigin };
// Listener at which a connection arrived.
enum class Arrival : uint8_t { kUnix, kLoopback, kNetwork };
Arrival ArrivalAt(const Endpoint& local) noexcept;

struct OriginPolicy {
  Arrival arrival = Arrival::kNetwork;
  bool open = false;  // neither authentication nor TLS
  // Names of this machine besides those that HostAllowed accepts; "*" is any.
  const std::vector<std::string>* hosts = nullptr;
  // Allowed origins, as a browser writes them ("https://grafana.example.org"); "*" is any.
  const std::vector<std::string>* origins = nullptr;
};

// The Host field of a request, and its Origin if it has one.
struct RequestOrigin {
  std::string_view host;
  std::optional<std::string_view> origin;
};
template <class Request>
RequestOrigin OriginOf(const Request& request) {
  RequestOrigin out{request.Header("Host"), std::nullopt};
  if (request.HasHeader("Origin")) out.origin = request.Header("Origin");
  return out;
}

// Refuses a foreign Host at an open loopback listener, and a foreign Origin at every listener except those of
// Unix sockets, which browsers cannot reach.
OriginCheck CheckOrigin(const RequestOrigin& from, const OriginPolicy& policy);

// The sentence for a client that is refused.
std::string_view OriginRefusal(OriginCheck check) noexcept;

// Whether another site cannot own the name: no Host at all, an address, localhost, a name without a dot
// (which public DNS has not), or one of `allowed`.
bool HostAllowed(std::string_view host, const std::vector<std::string>& allowed);

// Allows origins of this machine, those in `allowed`, and those whose name is the Host's, unless that
// resolves to loopback, where the name must be an address or one of `hosts`. Ports are ignored.
bool OriginAllowed(std::string_view origin, std::string_view host, bool local_is_loopback,
                   const std::vector<std::string>& allowed, const std::vector<std::string>& hosts);

}  // namespace gpulens

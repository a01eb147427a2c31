// Socket addresses and HTTP URLs as plain values, and parsers of their text. IoLoop::Resolve looks up names.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens {

// An IPv4, IPv6 or Unix socket address.
struct Endpoint {
  enum class Family : uint8_t { kNone, kIpv4, kIpv6, kUnix };

  Family family = Family::kNone;
  uint16_t port = 0;
  // True for ":PORT": IPv6 any that also takes IPv4, and IPv4 alone where the machine has no IPv6.
  bool any_family = false;
  std::array<uint8_t, 16> ip{};  // the first four bytes for IPv4
  uint32_t scope = 0;            // IPv6 interface number
  std::string path;              // Unix only

  // "127.0.0.1:9091", "[::1]:9091", "unix:/run/x.sock".
  std::string ToString() const;
  // "127.0.0.1", "::1"; the path for a Unix socket.
  std::string Host() const;
  // True when only this machine can reach it: 127.0.0.0/8, ::1 (also mapped), a Unix socket.
  bool IsLoopback() const noexcept;

  // Fills `out` and returns its length; 0 for kNone or a path that does not fit.
  socklen_t ToSockaddr(sockaddr_storage& out) const noexcept;
  // kNone for families that are none of the three.
  static Endpoint FromSockaddr(const sockaddr_storage& address, socklen_t length);

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// An IP address without a port: "127.0.0.1", "::1", "[::1]". kInvalidArgument when it is none.
Result<Endpoint> ParseIp(std::string_view text, uint16_t port = 0);

// The value of a `listen` key or flag: "127.0.0.1:9091", "[::1]:9091", "localhost:9091" (127.0.0.1),
// ":9091" (every interface), "unix:/path". kInvalidArgument with the text, what is wrong and an example.
Result<Endpoint> ParseListenAddress(std::string_view text);

// "localhost", any name under it, and every loopback IP, with or without brackets.
bool IsLoopbackHost(std::string_view host);

// The parts of an http:// or https:// URL.
struct HttpUrl {
  bool tls = false;
  std::string host;  // without brackets
  uint16_t port = 0;
  std::string target;          // path and query as written; "/" when there is none
  bool has_path = false;       // a path was written
  std::string user, password;  // decoded; empty when there are none

  // The value of a Host field: "example.org:9100", without the scheme's default port, IPv6 in brackets.
  std::string Authority() const;
  // The URL without user and password. Its query, and the path of a webhook, may hold a key.
  std::string ToString() const;
  // The URL for messages: a query, which may be secret, is "?…".
  std::string Shown() const;
  // "https://example.org:9100": for messages where the path is secret, too.
  std::string Origin() const;
};

// kInvalidArgument with what is wrong. Drops a fragment.
Result<HttpUrl> ParseHttpUrl(std::string_view text);

}  // namespace gpulens

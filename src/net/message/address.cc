#include "net/message/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";

Status BadAddress(std::string_view text, std::string_view why) {
  return {Code::kInvalidArgument,
          "listen address \"" + Printable(text.substr(0, 256)) + "\": " + std::string(why)};
}

bool IsMappedIpv4(const Endpoint& e) noexcept {
  static constexpr uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return e.family == Endpoint::Family::kIpv6 && std::equal(kPrefix, kPrefix + 12, e.ip.begin());
}

Result<Endpoint> ParseUnix(std::string_view text) {
  Endpoint endpoint;
  endpoint.family = Endpoint::Family::kUnix;
  endpoint.path = text.substr(kUnixPrefix.size());
  if (endpoint.path.empty() || endpoint.path[0] != '/' || endpoint.path.find('\0') != std::string::npos) {
    return BadAddress(text, "a Unix socket needs an absolute path, as in unix:/run/gpulens/gpulens.sock");
  }
  if (endpoint.path.size() >= sizeof(sockaddr_un::sun_path)) {
    return BadAddress(text, "the path is longer than the 107 bytes that a Unix socket allows");
  }
  return endpoint;
}

}  // namespace

std::string Endpoint::Host() const {
  char text[INET6_ADDRSTRLEN] = {};
  switch (family) {
    case Family::kNone: return {};
    case Family::kUnix: return path;
    case Family::kIpv4: ::inet_ntop(AF_INET, ip.data(), text, sizeof(text)); return text;
    case Family::kIpv6: ::inet_ntop(AF_INET6, ip.data(), text, sizeof(text)); return text;
  }
  return {};
}

std::string Endpoint::ToString() const {
  switch (family) {
    case Family::kNone: return "(none)";
    case Family::kUnix: return std::string(kUnixPrefix) + path;
    case Family::kIpv4: return Host() + ":" + std::to_string(port);
    case Family::kIpv6: return "[" + Host() + "]:" + std::to_string(port);
  }
  return {};
}

bool Endpoint::IsLoopback() const noexcept {
  switch (family) {
    case Family::kNone: return false;
    case Family::kUnix: return true;
    case Family::kIpv4: return ip[0] == 127;
    case Family::kIpv6: {
      if (IsMappedIpv4(*this)) return ip[12] == 127;
      static constexpr std::array<uint8_t, 16> kOne = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
      return ip == kOne;
    }
  }
  return false;
}

socklen_t Endpoint::ToSockaddr(sockaddr_storage& out) const noexcept {
  out = {};
  if (family == Family::kIpv4) {
    auto& in = reinterpret_cast<sockaddr_in&>(out);
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&in.sin_addr, ip.data(), 4);
    return sizeof(in);
  }
  if (family == Family::kIpv6) {
    auto& in = reinterpret_cast<sockaddr_in6&>(out);
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(port);
    in.sin6_scope_id = scope;
    std::memcpy(&in.sin6_addr, ip.data(), 16);
    return sizeof(in);
  }
  if (family == Family::kUnix && path.size() < sizeof(sockaddr_un::sun_path)) {
    auto& un = reinterpret_cast<sockaddr_un&>(out);
    un.sun_family = AF_UNIX;
    std::memcpy(un.sun_path, path.data(), path.size());
    return sizeof(un);
  }
  return 0;
}

Endpoint Endpoint::FromSockaddr(const sockaddr_storage& address, socklen_t length) {
  Endpoint endpoint;
  if (address.ss_family == AF_INET && length >= sizeof(sockaddr_in)) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(address);
    endpoint.family = Family::kIpv4;
    endpoint.port = ntohs(in.sin_port);
    std::memcpy(endpoint.ip.data(), &in.sin_addr, 4);
  } else if (address.ss_family == AF_INET6 && length >= sizeof(sockaddr_in6)) {
    const auto& in = reinterpret_cast<const sockaddr_in6&>(address);
    endpoint.family = Family::kIpv6;
    endpoint.port = ntohs(in.sin6_port);
    endpoint.scope = in.sin6_scope_id;
    std::memcpy(endpoint.ip.data(), &in.sin6_addr, 16);
  } else if (address.ss_family == AF_UNIX) {
    const auto& un = reinterpret_cast<const sockaddr_un&>(address);
    endpoint.family = Family::kUnix;
    size_t limit = length > offsetof(sockaddr_un, sun_path) ? length - offsetof(sockaddr_un, sun_path) : 0;
    endpoint.path.assign(un.sun_path, ::strnlen(un.sun_path, std::min(limit, sizeof(un.sun_path))));
  }
  return endpoint;
}

Result<Endpoint> ParseIp(std::string_view text, uint16_t port) {
  std::string host(text);
  bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  Endpoint endpoint;
  endpoint.port = port;
  if (host.find('\0') == std::string::npos && host.size() < INET6_ADDRSTRLEN) {
    if (!brackets && ::inet_pton(AF_INET, host.c_str(), endpoint.ip.data()) == 1) {
      endpoint.family = Endpoint::Family::kIpv4;
      return endpoint;
    }
    if (::inet_pton(AF_INET6, host.c_str(), endpoint.ip.data()) == 1) {
      endpoint.family = Endpoint::Family::kIpv6;
      return endpoint;
    }
  }
  return Status{Code::kInvalidArgument, "\"" + Printable(text.substr(0, 256)) + "\" is not an IP address"};
}

Result<Endpoint> ParseListenAddress(std::string_view text) {
  if (text.starts_with(kUnixPrefix)) return ParseUnix(text);
  size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return BadAddress(text, "the port is missing; write HOST:PORT, as in 127.0.0.1:9091");
  }
  std::string_view host = text.substr(0, colon), port_text = text.substr(colon + 1);
  auto port = ParseInt<uint16_t>(port_text);
  if (!port) return BadAddress(text, "the port is not a number from 0 to 65535");
  Endpoint endpoint;
  if (host.empty()) {
    endpoint.family = Endpoint::Family::kIpv6;
    endpoint.any_family = true;
    endpoint.port = *port;
    return endpoint;
  }
  if (host == "localhost") host = "127.0.0.1";
  bool bare_ipv6 = host.front() != '[' && host.find(':') != std::string_view::npos;
  if (bare_ipv6) return BadAddress(text, "an IPv6 address needs brackets, as in [::1]:9091");
  auto parsed = ParseIp(host, *port);
  if (!parsed) {
    return BadAddress(
        text, parsed.error().detail + "; write 127.0.0.1, [::1], localhost or nothing for every interface");
  }
  return parsed;
}

bool IsLoopbackHost(std::string_view host) {
  std::string lower(host);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (lower == "localhost" || lower.ends_with(".localhost")) return true;
  auto ip = ParseIp(lower);
  return ip && ip->IsLoopback();
}

namespace {

constexpr size_t kLongestUrl = 8192;

Status Wrong(std::string why) { return {Code::kInvalidArgument, "the URL " + std::move(why)}; }

// "host", "host:port", "[::1]:port".
Status ParseAuthority(std::string_view text, HttpUrl& url) {
  std::string_view port;
  if (text.starts_with('[')) {
    size_t close = text.find(']');
    if (close == std::string_view::npos) return Wrong("has no \"]\"");
    url.host = text.substr(1, close - 1);
    auto ip = ParseIp(url.host);
    if (!ip || ip->family != Endpoint::Family::kIpv6) return Wrong("has no IPv6 address in its brackets");
    port = text.substr(close + 1);
  } else {
    size_t colon = std::min(text.find(':'), text.size());
    url.host = text.substr(0, colon);
    port = text.substr(colon);
  }
  if (url.host.empty()) return Wrong("has no host");
  url.port = url.tls ? 443 : 80;
  if (port.empty()) return Ok();
  auto number = port.front() == ':' ? ParseInt<uint16_t>(port.substr(1)) : std::nullopt;
  if (!number || *number == 0) return Wrong("has no port from 1 to 65535 behind its host");
  url.port = *number;
  return Ok();
}

}  // namespace

std::string HttpUrl::Authority() const {
  std::string out = host.find(':') == std::string::npos ? host : "[" + host + "]";
  if (port != (tls ? 443 : 80)) out += ":" + std::to_string(port);
  return out;
}

std::string HttpUrl::Origin() const { return (tls ? "https://" : "http://") + Authority(); }

std::string HttpUrl::ToString() const { return Origin() + (has_path || target.size() > 1 ? target : ""); }

std::string HttpUrl::Shown() const {
  std::string all = ToString();
  const size_t query = all.find('?');
  if (query != std::string::npos && query + 1 < all.size()) all.replace(query + 1, std::string::npos, "…");
  return all;
}

Result<HttpUrl> ParseHttpUrl(std::string_view text) {
  HttpUrl url;
  if (text.size() > kLongestUrl) return Wrong("is too long");
  if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c <= ' ' || c == 0x7F; })) {
    return Wrong("has a blank or a control byte");
  }
  if (text.starts_with("https://")) url.tls = true;
  else if (!text.starts_with("http://")) return Wrong("does not begin with http:// or https://");
  text.remove_prefix(url.tls ? 8 : 7);
  text = text.substr(0, text.find('#'));
  size_t end = std::min(text.find_first_of("/?"), text.size());
  std::string_view authority = text.substr(0, end), rest = text.substr(end);
  if (size_t at = authority.rfind('@'); at != std::string_view::npos) {
    std::string_view password = authority.substr(0, at);
    std::string_view user = TakeUntil(password, ':');
    url.user = PercentDecoded(user);
    url.password = PercentDecoded(password);
    authority.remove_prefix(at + 1);
  }
  RETURN_IF_ERROR(ParseAuthority(authority, url));
  url.has_path = rest.starts_with('/');
  url.target = url.has_path ? std::string(rest) : "/" + std::string(rest);
  return url;
}

}  // namespace gpulens

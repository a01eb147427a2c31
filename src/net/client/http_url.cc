#include "net/client/http_url.h"

#include <algorithm>
#include <optional>

#include "base/hex.h"
#include "base/parse.h"
#include "base/result.h"
#include "net/address.h"

namespace gpulens {
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

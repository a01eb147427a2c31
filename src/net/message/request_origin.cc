#include "net/message/request_origin.h"

#include <algorithm>

#include "base/parse.h"

namespace gpulens {
namespace {

const std::vector<std::string> kNone;

// "host" of "host:port" and "[::1]:port".
std::string_view HostOnly(std::string_view text) {
  if (text.starts_with('[')) return text.substr(0, std::min(text.find(']') + 1, text.size()));
  return text.substr(0, text.find(':'));
}

bool Listed(std::string_view name, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& each) { return each == "*" || EqualsIgnoringCase(each, name); });
}

}  // namespace

bool HostAllowed(std::string_view host, const std::vector<std::string>& allowed) {
  if (host.empty() || Listed(host, allowed)) return true;
  std::string_view name = HostOnly(host);
  if (name.ends_with('.')) name.remove_suffix(1);
  if (name.empty()) return false;
  if (name.find('.') == std::string_view::npos && name.find('[') == std::string_view::npos) return true;
  return IsLoopbackHost(name) || Listed(name, allowed) || ParseIp(name).ok();
}

bool OriginAllowed(std::string_view origin, std::string_view host, bool local_is_loopback,
                   const std::vector<std::string>& allowed, const std::vector<std::string>& hosts) {
  if (Listed(origin, allowed)) return true;
  size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos) return false;  // "null": a sandboxed or local page
  std::string_view name = HostOnly(origin.substr(scheme + 3));
  if (name.empty()) return false;
  if (IsLoopbackHost(name)) return true;
  if (!EqualsIgnoringCase(name, HostOnly(host))) return false;
  return !local_is_loopback || ParseIp(name).ok() || Listed(name, hosts);
}

Arrival ArrivalAt(const Endpoint& local) noexcept {
  if (local.family == Endpoint::Family::kUnix) return Arrival::kUnix;
  return local.IsLoopback() ? Arrival::kLoopback : Arrival::kNetwork;
}

OriginCheck CheckOrigin(const RequestOrigin& from, const OriginPolicy& policy) {
  if (policy.arrival == Arrival::kUnix) return OriginCheck::kAllowed;
  const std::vector<std::string>& hosts = policy.hosts ? *policy.hosts : kNone;
  const bool loopback = policy.arrival == Arrival::kLoopback;
  if (policy.open && loopback && !HostAllowed(from.host, hosts)) return OriginCheck::kForeignHost;
  if (!from.origin) return OriginCheck::kAllowed;
  const std::vector<std::string>& origins = policy.origins ? *policy.origins : kNone;
  return OriginAllowed(*from.origin, from.host, loopback, origins, hosts) ? OriginCheck::kAllowed
                                                                          : OriginCheck::kForeignOrigin;
}

std::string_view OriginRefusal(OriginCheck check) noexcept {
  return check == OriginCheck::kForeignHost ? "The host name is not allowed; see http.allowed_hosts."
                                            : "Requests from this origin are not allowed; see "
                                              "http.allowed_hosts and websocket.allowed_origins.";
}

}  // namespace gpulens

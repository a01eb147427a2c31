#include "agent/targets/own_pages.h"

#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>

#include "config/validate.h"
#include "plugins/remote_access.h"

namespace gpulens {
namespace {

std::vector<Endpoint> Interfaces() {
  std::vector<Endpoint> out;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return out;
  for (const ifaddrs* one = all; one; one = one->ifa_next) {
    if (!one->ifa_addr) continue;
    socklen_t length = one->ifa_addr->sa_family == AF_INET    ? sizeof(sockaddr_in)
                       : one->ifa_addr->sa_family == AF_INET6 ? sizeof(sockaddr_in6)
                                                              : 0;
    if (length == 0) continue;
    sockaddr_storage address{};
    std::copy_n(reinterpret_cast<const char*>(one->ifa_addr), length, reinterpret_cast<char*>(&address));
    out.push_back(Endpoint::FromSockaddr(address, length));
  }
  ::freeifaddrs(all);
  return out;
}

bool SameIp(const Endpoint& a, const Endpoint& b) noexcept { return a.family == b.family && a.ip == b.ip; }
bool IsAny(const Endpoint& at) noexcept {
  return std::ranges::all_of(at.ip, [](uint8_t byte) { return byte == 0; });
}

// Whether the client uses a Unix socket, where none of our network listeners answers.
bool ThroughSocketFile(const Config& client) {
  return client.Has(kTransportKey) && !client.Group(kTransportKey).Text("unix_socket").empty();
}

void AddListening(const Config& group, std::vector<Endpoint>& out) {
  for (const std::string& text : group.Texts("listen"))
    if (auto endpoint = ParseListenAddress(text)) out.push_back(*endpoint);
}

}  // namespace

OwnPages OwnPages::Of(const Config& config) {
  std::vector<Endpoint> listening;
  for (std::string_view group : {"http", "websocket"})
    if (config.Has(group)) AddListening(config.Group(group), listening);
  return {std::move(listening), Interfaces()};
}

const Endpoint* OwnPages::Find(const Endpoint& at) const {
  // Any address of a loopback net, and "any" as a destination, are this machine.
  bool loopback = at.IsLoopback() || IsAny(at);
  bool ours =
      loopback || std::ranges::any_of(interfaces_, [&](const Endpoint& own) { return SameIp(own, at); });
  for (const Endpoint& listener : listening_) {
    if (listener.family == Endpoint::Family::kUnix || listener.port != at.port) continue;
    bool any = listener.any_family || IsAny(listener);
    // Another program may have the port for a family that the listener does not serve.
    bool family = listener.any_family || listener.family == at.family;
    if ((any && ours && family) || SameIp(listener, at) || (IsAny(at) && family && listener.IsLoopback())) {
      return &listener;
    }
  }
  return nullptr;
}

const Endpoint* OwnPages::Find(const HttpUrl& url) const {
  if (url.host == "localhost" || url.host.ends_with(".localhost")) {
    for (std::string_view host : {"127.0.0.1", "::1"}) {
      const Endpoint* found = Find(*ParseIp(host, url.port));
      if (found) return found;
    }
    return nullptr;
  }
  auto ip = ParseIp(url.host, url.port);
  return ip ? Find(*ip) : nullptr;
}

Status RefuseOwnReceivers(const Config& config) {
  if (!config.Has("receivers")) return Ok();
  std::vector<Endpoint> listening;
  ForEachPluginListen(config,
                      [&](const std::string&, const Config& group) { AddListening(group, listening); });
  const OwnPages own(std::move(listening), Interfaces());
  for (const Config::Entry& sink : config.Group("sinks").entries()) {
    const auto& options = std::get<Config>(sink.value);
    if (!options.Bool("enabled") || ThroughSocketFile(options)) continue;
    for (const Config::Entry& option : options.entries()) {
      const auto* text = std::get_if<std::string>(&option.value);
      if (!text) continue;
      std::string place = *text;
      // The default endpoints of OTLP.
      if (option.key == "endpoint" && place.empty())
        place = options.Text("protocol") == "grpc" ? "http://127.0.0.1:4317" : "http://127.0.0.1:4318";
      if (!place.starts_with("http")) continue;
      auto url = ParseHttpUrl(place);
      const Endpoint* listener = url ? own.Find(*url) : nullptr;
      if (!listener) continue;
      return {Code::kInvalidArgument,
              options.Where(option.key) + ": sinks." + sink.key + "." + option.key + ": " + url->Shown() +
                  " is this agent's own receiver (it listens at " + listener->ToString() +
                  "): sent data would come back forever; set the address of the other program, or change "
                  "receivers"};
    }
  }
  return Ok();
}

Status RefuseOwnPages(const Config& config) {
  const OwnPages own = OwnPages::Of(config);
  if (!config.Has("targets")) return RefuseOwnReceivers(config);
  for (const Config& target : config.Groups("targets")) {
    if (ThroughSocketFile(target)) continue;
    auto url = ParseHttpUrl(target.Text("url"));
    const Endpoint* listener = url ? own.Find(*url) : nullptr;
    if (!listener) continue;
    return {Code::kInvalidArgument, target.Where("url") + ": targets: " + url->Shown() +
                                        " is this agent's own page (it listens at " + listener->ToString() +
                                        "): the agent would scrape its own metrics; set the port of the "
                                        "other program, or change http.listen"};
  }
  return RefuseOwnReceivers(config);
}

}  // namespace gpulens

// Host and Origin of any request, and addresses as a configuration has them: which sites are kept out, and
// that what is an address is one when it is written again. Input: Host, Origin, an allowed host, an allowed
// origin, each in a line.
// Fuzz inputs: 6'000
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/parse.h"
#include "net/message/request_origin.h"

namespace {

using namespace gpulens;

void CheckAddresses(std::string_view text) {
  if (auto ip = ParseIp(text, 9)) {
    CHECK(ip->port == 9 && (ip->family == Endpoint::Family::kIpv4 || ip->family == Endpoint::Family::kIpv6));
    auto again = ParseIp(ip->Host(), 9);
    CHECK(again && *again == *ip);
    sockaddr_storage raw{};
    const socklen_t size = ip->ToSockaddr(raw);
    CHECK(size > 0 && Endpoint::FromSockaddr(raw, size) == *ip);
    // What only this machine reaches is so by either name.
    if (ip->IsLoopback()) CHECK(IsLoopbackHost(text));
  }
  auto listen = ParseListenAddress(text);
  if (!listen) {
    CHECK(listen.error().code == Code::kInvalidArgument && listen.error().detail.size() < 4096);
    for (char c : listen.error().detail) CHECK(static_cast<unsigned char>(c) >= 0x20);
    return;
  }
  auto again =
      ParseListenAddress(listen->any_family ? ":" + std::to_string(listen->port) : listen->ToString());
  CHECK(again && *again == *listen);
  sockaddr_storage raw{};
  CHECK(listen->ToSockaddr(raw) > 0);
  // Only what is written as loopback or as a path is reached by this machine alone.
  if (text.starts_with(':') || text.starts_with("0.0.0.0") || text.starts_with("[::]"))
    CHECK(!listen->IsLoopback());
}

void CheckUrl(std::string_view text) {
  auto url = ParseHttpUrl(text);
  if (!url) return;
  auto again = ParseHttpUrl(url->ToString());
  CHECK(again && again->host == url->host && again->port == url->port && again->target == url->target);
  CHECK(again->user.empty() && again->password.empty());
  CHECK(url->Shown().find('\n') == std::string::npos && url->target.starts_with('/'));
  const size_t query = url->target.find('?');
  if (query != std::string::npos && query + 1 < url->target.size())
    CHECK(url->Shown().ends_with("?…"));  // it may be a secret
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const std::string_view host = TakeUntil(rest, '\n'), origin = TakeUntil(rest, '\n');
  const std::vector<std::string> hosts = {std::string(TakeUntil(rest, '\n'))}, origins = {std::string(rest)},
                                 none;
  CheckAddresses(host);
  CheckUrl(origin);

  const auto check = [](const RequestOrigin& from, const OriginPolicy& policy) {
    return CheckOrigin(from, policy);
  };
  const RequestOrigin with{host, origin}, without{host, std::nullopt};
  // A browser cannot reach a Unix socket.
  CHECK(check(with, {.arrival = Arrival::kUnix, .open = true}) == OriginCheck::kAllowed);
  for (Arrival arrival : {Arrival::kLoopback, Arrival::kNetwork}) {
    const bool loopback = arrival == Arrival::kLoopback;
    // A site cannot own a name without a dot, nor an address: else nothing but a list lets it in.
    const auto open = check(without, {.arrival = arrival, .open = true});
    CHECK((open == OriginCheck::kForeignHost) == (loopback && !HostAllowed(host, none)));
    if (loopback && open == OriginCheck::kAllowed) {
      const bool plain = host.find('.') == std::string_view::npos;
      // The port is no part of the name, and a name may end with the dot of the root.
      std::string_view name =
          host.starts_with('[') ? host.substr(0, host.find(']') + 1) : host.substr(0, host.find(':'));
      if (name.ends_with('.')) name.remove_suffix(1);
      const bool dotless = name.find('.') == std::string_view::npos;
      CHECK(plain || dotless || IsLoopbackHost(name) || ParseIp(name).ok());
    }
    // More allowed names refuse nothing that fewer allow.
    const auto few = check(with, {.arrival = arrival, .open = true, .hosts = &none, .origins = &none});
    const auto more = check(with, {.arrival = arrival, .open = true, .hosts = &hosts, .origins = &origins});
    CHECK(few != OriginCheck::kAllowed || more == OriginCheck::kAllowed);
    // A password lets no foreign page in, either.
    const auto closed = check(with, {.arrival = arrival, .open = false, .hosts = &none, .origins = &none});
    CHECK((closed == OriginCheck::kForeignOrigin) == !OriginAllowed(origin, host, loopback, none, none));
    // A page without a site (a file, a sandbox) belongs to no site.
    if (origin.find("://") == std::string_view::npos) CHECK(closed == OriginCheck::kForeignOrigin);
    const std::vector<std::string> any = {"*"};
    CHECK(check(with, {.arrival = arrival, .open = true, .hosts = &any, .origins = &any}) ==
          OriginCheck::kAllowed);
    CHECK(!OriginRefusal(few).empty());
  }
  return 0;
}

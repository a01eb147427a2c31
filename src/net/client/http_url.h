// The parts of an http:// or https:// address. Plain values; pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens {

struct HttpUrl {
  bool tls = false;
  std::string host;  // without brackets
  uint16_t port = 0;
  std::string target;          // path and query as written; "/" when there is none
  bool has_path = false;       // a path was written
  std::string user, password;  // decoded; empty when there are none

  // "example.org:9100", with brackets around IPv6 and without the port that the scheme implies: what
  // the Host field carries.
  std::string Authority() const;
  // The whole address without user and password. Its query, and the path of a webhook, may hold a key.
  std::string ToString() const;
  // The address for people, without what may be secret: its query is "?…".
  std::string Shown() const;
  // "https://example.org:9100": where its path is secret, too.
  std::string Origin() const;
};

// kInvalidArgument with the place that is wrong. A fragment is dropped.
Result<HttpUrl> ParseHttpUrl(std::string_view text);

}  // namespace gpulens

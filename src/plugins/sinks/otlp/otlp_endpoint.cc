#include "plugins/sinks/otlp/otlp_endpoint.h"

#include <algorithm>
#include <string>

#include "base/result.h"

namespace gpulens {

Result<HttpUrl> OtlpUrl(std::string_view endpoint, std::string_view own, std::string_view signal) {
  if (!own.empty()) return ParseHttpUrl(own);
  ASSIGN_OR_RETURN(HttpUrl url, ParseHttpUrl(endpoint));
  std::string_view path = url.target;
  if (path.find('?') != path.npos)
    return Status{
        Code::kInvalidArgument,
        "an endpoint with a query cannot be made a signal's: set metrics_endpoint and logs_endpoint"};
  auto cut_slashes = [&] {
    while (path.ends_with('/')) path.remove_suffix(1);
  };
  cut_slashes();
  for (std::string_view known : {"/v1/metrics", "/v1/logs", "/v1/traces", "/v1"}) {
    if (!path.ends_with(known)) continue;
    path.remove_suffix(known.size());
    break;
  }
  cut_slashes();
  url.target = std::string(path) + "/v1/" + std::string(signal);
  url.has_path = true;
  return url;
}

std::array<bool, 3> OtlpWanted(std::string_view endpoint,
                               const std::array<std::string_view, 3>& own) noexcept {
  const bool all = !endpoint.empty() || std::ranges::all_of(own, &std::string_view::empty);
  std::array<bool, 3> wanted{};
  for (size_t i = 0; i < own.size(); ++i) wanted[i] = all || !own[i].empty();
  return wanted;
}

}  // namespace gpulens

// The pages below /api: JSON for the page, `gpulens top`, `why`, `trace` and `mcp`. One object answers HTTP
// requests, the control socket, and commands that read by themselves without an agent.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

namespace gpulens {

struct ApiRequest {
  std::string path;                                             // "/api/history"
  std::vector<std::pair<std::string, std::string>> parameters;  // decoded, in their order

  // Parses the path and the query of a request target. kInvalidArgument for a wrong escape, text that is not
  // UTF-8, or more than 64 parameters.
  static Result<ApiRequest> Parse(std::string_view target);

  // The last parameter of this name; null: there is none.
  const std::string* Find(std::string_view name) const noexcept;
  std::vector<std::string_view> All(std::string_view name) const;
};

// Filled before it is used; then thread-safe.
class Api {
 public:
  // Returns JSON in UTF-8. Called on a worker, by several at a time; may block for milliseconds.
  // kInvalidArgument becomes status 400, kUnavailable 404, kExhausted 413 with `detail` as {"error":…}.
  using Page = std::function<Result<std::string>(const ApiRequest&)>;

  void Add(std::string path, Page page);
  bool Has(std::string_view path) const;
  // kUnavailable: there is no such page.
  Result<std::string> Get(std::string_view target) const;
  Result<std::string> Get(const ApiRequest& request) const;

 private:
  std::map<std::string, Page, std::less<>> pages_;
};

}  // namespace gpulens

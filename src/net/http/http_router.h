// Finds the handler of a path: exact paths, the methods each one takes, and the answers 404 and 405.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "net/http/http_server.h"

namespace gpulens {

// Filled before the server starts, read-only afterwards. HEAD goes to the handler of GET: the server
// leaves the body out.
class HttpRouter final : public HttpHandler {
 public:
  using Function = std::function<void(const HttpRequest&, HttpResponder)>;

  // `methods` as they stand in an Allow header: "GET", "GET, POST". HEAD and OPTIONS are added.
  void Add(std::string path, std::string methods, Function function);
  void Handle(const HttpRequest& request, HttpResponder responder) override;

 private:
  struct Route {
    std::string path;
    std::vector<std::string> methods;
    std::string allow;
    Function function;
  };
  std::vector<Route> routes_;
};

}  // namespace gpulens

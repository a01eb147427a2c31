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
  // As HttpHandler::Refuse.
  using Refusing = std::function<void(const HttpRequest&, HttpResponse&)>;

  // `methods` as they stand in an Allow header: "GET", "GET, POST". HEAD and OPTIONS are added. `refuse`,
  // when there is one, puts what is refused at this path in its words, a 405 too.
  void Add(std::string path, std::string methods, Function function, Refusing refuse = nullptr);
  void Handle(const HttpRequest& request, HttpResponder responder) override;
  void Refuse(const HttpRequest& request, HttpResponse& refusal) override;

 private:
  struct Route {
    std::string path;
    std::vector<std::string> methods;
    std::string allow;
    Function function;
    Refusing refuse;
  };
  const Route* Find(const HttpRequest& request) const;

  std::vector<Route> routes_;
};

}  // namespace gpulens

#include "net/http/http_router.h"

#include <algorithm>

#include "base/parse.h"

namespace gpulens {

void HttpRouter::Add(std::string path, std::string methods, Function function) {
  Route route{std::move(path), {}, {}, std::move(function)};
  for (std::string_view rest = methods; !rest.empty();) {
    route.methods.emplace_back(Trim(TakeUntil(rest, ',')));
    if (route.methods.back() == "GET") route.methods.push_back("HEAD");
  }
  for (const std::string& method : route.methods) route.allow += method + ", ";
  route.allow += "OPTIONS";
  routes_.push_back(std::move(route));
}

void HttpRouter::Handle(const HttpRequest& request, HttpResponder responder) {
  auto found =
      std::find_if(routes_.begin(), routes_.end(), [&](const Route& r) { return r.path == request.path(); });
  if (found == routes_.end()) return responder.Send(HttpResponse::Text(404, "not found"));
  const auto& methods = found->methods;
  if (std::find(methods.begin(), methods.end(), request.method()) != methods.end()) {
    return found->function(request, std::move(responder));
  }
  bool asks = request.method() == "OPTIONS";
  HttpResponse response =
      asks ? HttpResponse{.status = 204, .content_type = {}, .headers = {}, .body = {}, .close = false}
           : HttpResponse::Text(405, std::string(request.path()) + " takes " + found->allow);
  response.AddHeader("Allow", found->allow);
  responder.Send(std::move(response));
}

}  // namespace gpulens

#include "net/http/http_router.h"

#include <algorithm>

#include "base/parse.h"

namespace gpulens {

void HttpRouter::Add(std::string path, std::string methods, Function function, Refusing refuse) {
  Route route{std::move(path), {}, {}, std::move(function), std::move(refuse)};
  for (std::string_view rest = methods; !rest.empty();) {
    route.methods.emplace_back(Trim(TakeUntil(rest, ',')));
    if (route.methods.back() == "GET") route.methods.push_back("HEAD");
  }
  for (const std::string& method : route.methods) route.allow += method + ", ";
  route.allow += "OPTIONS";
  routes_.push_back(std::move(route));
}

const HttpRouter::Route* HttpRouter::Find(const HttpRequest& request) const {
  auto found =
      std::find_if(routes_.begin(), routes_.end(), [&](const Route& r) { return r.path == request.path(); });
  return found == routes_.end() ? nullptr : &*found;
}

void HttpRouter::Refuse(const HttpRequest& request, HttpResponse& refusal) {
  const Route* found = Find(request);
  if (found && found->refuse) found->refuse(request, refusal);
}

void HttpRouter::Handle(const HttpRequest& request, HttpResponder responder) {
  const Route* found = Find(request);
  if (!found) return responder.Send(HttpResponse::Text(404, "not found"));
  const auto& methods = found->methods;
  if (std::find(methods.begin(), methods.end(), request.method()) != methods.end()) {
    return found->function(request, std::move(responder));
  }
  bool queries = request.method() == "OPTIONS";
  HttpResponse response =
      queries ? HttpResponse{.status = 204, .content_type = {}, .headers = {}, .body = {}, .close = false}
              : HttpResponse::Text(405, std::string(request.path()) + " allows " + found->allow);
  response.AddHeader("Allow", found->allow);
  if (!queries && found->refuse) found->refuse(request, response);
  responder.Send(std::move(response));
}

}  // namespace gpulens

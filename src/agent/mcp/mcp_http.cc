#include "agent/mcp/mcp_http.h"

#include <memory>
#include <utility>

#include "base/parse.h"

namespace gpulens {
namespace {

McpHeaders HeadersOf(const HttpRequest& request) {
  McpHeaders headers;
  for (auto [name, value] :
       {std::pair("MCP-Protocol-Version", &headers.version), std::pair("Mcp-Method", &headers.method),
        std::pair("Mcp-Name", &headers.name)}) {
    *value = std::string(request.Header(name));
    headers.repeated |= request.CountHeader(name) > 1;
  }
  return headers;
}

bool TakesJson(const HttpRequest& request) {
  const std::string accept = request.JoinedHeader("Accept");
  if (accept.empty()) return true;
  for (std::string_view type : {"application/json", "application/*", "*/*"}) {
    if (accept.find(type) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

McpEndpoint::McpEndpoint(ApiServer& api)
    : api_(api), server_([&api](const std::string& target) { return api.api().Get(target); }) {}

void McpEndpoint::Handle(const HttpRequest& request, HttpResponder responder) {
  std::string_view type = request.Header("Content-Type");
  if (Trim(TakeUntil(type, ';')) != "application/json")
    return responder.Send(HttpResponse::Text(415, "the Content-Type must be application/json"));
  if (!TakesJson(request)) return responder.Send(HttpResponse::Text(406, "answers are application/json"));
  auto answer = std::make_shared<HttpResponder>(std::move(responder));
  const bool posted = api_.Post([this, answer, headers = HeadersOf(request), body = request.TakeBody()] {
    if (!answer->wanted()) return;
    McpAnswer made = server_.Answer(body, &headers);
    HttpResponse response;
    response.status = made.status;
    response.content_type = made.text.empty() ? "" : "application/json";
    response.AddHeader("Cache-Control", "no-store");
    response.body = SharedBytes(std::move(made.text));
    answer->Send(std::move(response));
  });
  if (posted) return;
  HttpResponse busy = HttpResponse::Text(503, "too many requests wait; try again");
  busy.AddHeader("Retry-After", "1");
  answer->Send(std::move(busy));
}

}  // namespace gpulens

// The Model Context Protocol over HTTP: POST /mcp ("streamable HTTP"), without sessions and streams.
#pragma once

#include "agent/api/api_server.h"
#include "agent/mcp/mcp.h"
#include "net/http/http_server.h"

namespace gpulens {

// Thread-safe. The server checks password, Host and Origin before, as for each of its pages.
class McpEndpoint {
 public:
  // Answers run among the requests for pages of `api`, which outlives it.
  explicit McpEndpoint(ApiServer& api);

  // A request has an answer as JSON, a notification status 202.
  void Handle(const HttpRequest& request, HttpResponder responder);

 private:
  ApiServer& api_;
  McpServer server_;
};

}  // namespace gpulens

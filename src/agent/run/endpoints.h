// The agent's HTTP server: its addresses, and the pages that belong to no sink: health, readiness, reload,
// status, the landing page, and below /page/ the files of the app that replaces it where there is JavaScript.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "agent/api/api_server.h"
#include "agent/api/live.h"
#include "agent/mcp/mcp_http.h"
#include "agent/page/page_files.h"
#include "core/frame.h"
#include "net/http/http_server.h"
#include "pipeline/pipeline.h"
#include "plugins/page_registry.h"

namespace gpulens {

// Makes an HTML table of the GPUs of a tick, by model and index; empty without GPUs. Unknown values are "–",
// stale ones begin with "~". Thread-safe.
std::string MakeGpuTable(const Snapshot& snapshot);

// Appends a text, escaped for HTML.
void AppendHtml(std::string& out, std::string_view text);

// `host`: name and port of this machine in the request, which a scraper can use, too. Thread-safe.
std::string MakeLandingPage(const Env& env, const Pipeline& pipeline, std::string_view host);

// Serves the pages. Used on the loop's thread. Its arguments outlive it.
class Endpoints final : public HttpHandler {
 public:
  // Re-reads the configuration; called on a worker.
  using Reload = std::function<Status()>;

  // Returns the agent's status as JSON; called on a worker.
  using StatusPage = std::function<std::string()>;

  Endpoints(const Env& env, const Pipeline& pipeline, PageFiles files, ApiServer& api, HttpUpgrader* live,
            Reload reload, StatusPage page);
  void Handle(const HttpRequest& request, HttpResponder responder) override;
  // Health and readiness need no password: probes of a kubelet have none, and the pages reveal nothing else.
  bool IsForAll(const HttpRequest& request) const override;
  HttpUpgrader* UpgraderOf(const HttpRequest& request) override;

 private:
  void Health(HttpResponder responder) const;
  void Ready(HttpResponder responder) const;
  void ReportStatus(HttpResponder responder) const;
  void Landing(const HttpRequest& request, HttpResponder responder) const;
  void ServeFile(const HttpRequest& request, HttpResponder responder) const;

  const Env& env_;
  const Pipeline& pipeline_;
  const PageFiles files_;
  ApiServer& api_;
  HttpUpgrader* const live_;
  McpEndpoint mcp_;
  const Reload reload_;
  const StatusPage status_;
  HttpRouter router_;
};

// The limits and the authentication of the server, from the group `http`.
HttpServer::Options HttpOptions(const Config& http, Authenticator* authenticator);

// Host names accepted by all of the agent's listeners: OriginPolicy::hosts.
std::vector<std::string> AllowedHosts(const Config& config);

// The addresses of http.listen. Used by one thread at a time; the server outlives it.
class ListenAddresses {
 public:
  explicit ListenAddresses(HttpServer& server) : server_(server) {}
  // Listens at the addresses of `config` only. New addresses are bound before old ones are closed, so that a
  // reload has no gap; when one cannot be bound, nothing changes. kInvalidArgument: an address of the service
  // manager would be left without a listener, where clients would wait for ever.
  Status Follow(const Config& config);

 private:
  struct Present {
    Endpoint configured, bound;
  };

  HttpServer& server_;
  std::vector<Present> present_;
};

}  // namespace gpulens

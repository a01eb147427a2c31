#include "agent/run/endpoints.h"

#include <algorithm>

#include "agent/pages/landing_page.h"
#include "base/result.h"
#include "base/workers.h"

namespace gpulens {

Endpoints::Endpoints(const Env& env, const Pipeline& pipeline, Reload reload, StatusPage page)
    : env_(env), pipeline_(pipeline), reload_(std::move(reload)), status_(std::move(page)) {
  auto health = [this](const HttpRequest&, HttpResponder responder) { Health(std::move(responder)); };
  router_.Add("/health", "GET", health);
  router_.Add("/-/healthy", "GET", health);
  router_.Add("/-/ready", "GET",
              [this](const HttpRequest&, HttpResponder responder) { Ready(std::move(responder)); });
  router_.Add("/-/status", "GET",
              [this](const HttpRequest&, HttpResponder responder) { ReportStatus(std::move(responder)); });
  router_.Add("/", "GET", [this](const HttpRequest& request, HttpResponder responder) {
    Landing(request, std::move(responder));
  });
  router_.Add("/-/reload", "POST, PUT", [this](const HttpRequest&, HttpResponder responder) {
    auto answer = std::make_shared<HttpResponder>(std::move(responder));
    bool posted = env_.workers->Post([this, answer] {
      Status status = reload_();
      answer->Send(status ? HttpResponse::Text(200, "reloaded") : HttpResponse::Text(500, status.detail));
    });
    if (!posted) answer->Send(HttpResponse::Text(503, "the work queue is full"));
  });
}

void Endpoints::Handle(const HttpRequest& request, HttpResponder responder) {
  std::shared_ptr<HttpHandler> page = env_.pages->Find(request.path());
  if (!page) return router_.Handle(request, std::move(responder));
  if (request.method() == "GET" || request.method() == "HEAD")
    return page->Handle(request, std::move(responder));
  HttpResponse response = HttpResponse::Text(405, "this page allows GET and HEAD only");
  response.AddHeader("Allow", "GET, HEAD");
  responder.Send(std::move(response));
}

bool Endpoints::IsForAll(const HttpRequest& request) const {
  const std::string_view path = request.path(), method = request.method();
  return (method == "GET" || method == "HEAD") &&
         (path == "/health" || path == "/-/healthy" || path == "/-/ready");
}

// The body is exactly "ok", without a newline: that is what probes compare with.
void Endpoints::Health(HttpResponder responder) const {
  if (pipeline_.Stuck(env_.clock->Now())) {
    return responder.Send(HttpResponse::Text(503, "stuck: no tick has been closed for three intervals"));
  }
  HttpResponse response;
  response.body = SharedBytes("ok");
  responder.Send(std::move(response));
}

void Endpoints::Ready(HttpResponder responder) const {
  if (pipeline_.ticks() == 0) return responder.Send(HttpResponse::Text(503, "no tick has been closed yet"));
  responder.Send(HttpResponse::Text(200, "ready"));
}

void Endpoints::ReportStatus(HttpResponder responder) const {
  auto answer = std::make_shared<HttpResponder>(std::move(responder));
  bool posted = env_.workers->Post([this, answer] {
    HttpResponse response;
    response.content_type = "application/json";
    response.body = SharedBytes(status_() + "\n");
    answer->Send(std::move(response));
  });
  if (!posted) answer->Send(HttpResponse::Text(503, "the work queue is full"));
}

void Endpoints::Landing(const HttpRequest& request, HttpResponder responder) const {
  auto answer = std::make_shared<HttpResponder>(std::move(responder));
  bool posted = env_.workers->Post([this, answer, host = std::string(request.Header("Host"))] {
    HttpResponse response;
    response.content_type = "text/html; charset=utf-8";
    response.AddHeader("Content-Security-Policy",
                       "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'");
    response.body = SharedBytes(MakeLandingPage(env_, pipeline_, host));
    answer->Send(std::move(response));
  });
  if (!posted) answer->Send(HttpResponse::Text(503, "the work queue is full"));
}

HttpServer::Options HttpOptions(const Config& http, Authenticator* authenticator) {
  HttpServer::Options options;
  options.limits.connections = static_cast<size_t>(http.Int("max_connections"));
  options.limits.header_bytes = http.Size("max_header");
  options.limits.body_bytes = http.Size("max_body");
  options.limits.idle_timeout = http.Time("idle_timeout");
  options.authenticator = authenticator;
  return options;
}

std::vector<std::string> AllowedHosts(const Config& config) {
  return config.Group("http").Texts("allowed_hosts");
}

Status ListenAddresses::Follow(const Config& config) {
  const Config& http = config.Group("http");
  std::vector<Endpoint> wanted, bound;
  for (const std::string& text : http.Texts("listen")) {
    ASSIGN_OR_RETURN(Endpoint endpoint, ParseListenAddress(text));
    wanted.push_back(endpoint);
  }
  for (const Endpoint& endpoint : wanted) {
    if (std::ranges::find(present_, endpoint) != present_.end()) continue;
    Result<Endpoint> listening = server_.Listen(endpoint);
    // A machine without IPv6 is served by the other addresses.
    const bool optional =
        endpoint.family == Endpoint::Family::kIpv6 && http.origin("listen").where == Origin::kDefault;
    if (!listening && optional && listening.error().code == Code::kUnavailable) continue;
    if (!listening) {
      for (const Endpoint& undo : bound) server_.StopListening(undo);
      return listening.error();
    }
    bound.push_back(endpoint);
  }
  for (const Endpoint& old : present_) {
    if (std::ranges::find(wanted, old) == wanted.end()) server_.StopListening(old);
  }
  present_ = std::move(wanted);
  return Ok();
}

}  // namespace gpulens

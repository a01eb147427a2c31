#include "agent/run/endpoints.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <tuple>

#include "base/result.h"
#include "base/threads.h"
#include "base/version.h"
#include "catalog/gpu.h"
#include "core/series_finder.h"
#include "net/blocking/inherited_sockets.h"
#include "plugins/latest_snapshot.h"

namespace gpulens {
namespace {

struct Reading {
  double value = 0;
  bool stale = false;
};

struct Gpu {
  std::string index, model, health, state;
  std::optional<Reading> busy, used, total, power, temperature;
};

// GPUs of several vendors count from 0 each.
using Gpus = std::map<std::tuple<std::string, int64_t, std::string>, Gpu>;

Gpu& GpuOf(Gpus& gpus, const AttributeSet& attributes) {
  std::string index = attributes.Text("gpu.index");
  auto number = attributes.Find("gpu.index", int64_t{-1});
  const int64_t* order = std::get_if<int64_t>(&number);
  std::string model = attributes.Text("gpu.model");
  Gpu& gpu = gpus[{model, order ? *order : -1, attributes.Text("gpu.uuid")}];
  gpu.index = std::move(index);
  gpu.model = std::move(model);
  return gpu;
}

// Readings of the whole GPU: of parts of it, only the named one.
void Collect(const Snapshot& snapshot, const MetricDesc& desc, std::optional<Reading> Gpu::* member,
             Gpus& gpus, std::string_view key = {}, std::string_view wanted = {}) {
  SeriesFinder(desc).ForEach(snapshot,
                             [&](const SeriesInfo& info, double value, const Frame& frame, uint32_t slot) {
                               const AttributeSet& attributes = info.attributes;
                               if (!attributes.Has("gpu.index") || attributes.Has("gpu.mig.instance_id"))
                                 return;
                               if (!key.empty() && attributes.Text(key) != wanted) return;
                               std::optional<Reading>& place = GpuOf(gpus, attributes).*member;
                               if (!place) place = Reading{value, frame.quality[slot] == Quality::kStale};
                             });
}

// A stale word is not shown.
void CollectWord(const Snapshot& snapshot, const MetricDesc& desc, std::string Gpu::* member, Gpus& gpus) {
  SeriesFinder(desc).ForEach(
      snapshot, [&](const SeriesInfo& info, double value, const Frame& frame, uint32_t slot) {
        bool whole = info.attributes.Has("gpu.index") && !info.attributes.Has("gpu.mig.instance_id");
        if (whole && value == 1 && frame.quality[slot] == Quality::kOk)
          GpuOf(gpus, info.attributes).*member = info.attributes.Text(desc.name);
      });
}

// The word of the analyzer; without one, the state, unless that is "ok": an answer alone is not health.
std::string HealthOf(const Gpu& gpu) {
  if (!gpu.health.empty()) return gpu.health;
  return gpu.state.empty() || gpu.state == "ok" ? "–" : gpu.state;
}

void AppendCell(std::string& out, const std::optional<Reading>& reading, double scale, const char* unit) {
  out += "<td class=n>";
  if (reading) {
    char text[48];
    std::snprintf(text, sizeof text, "%s%.0f %s", reading->stale ? "~" : "", reading->value * scale, unit);
    out += text;
  } else {
    out += "–";
  }
  out += "</td>";
}

void AppendMemory(std::string& out, const Gpu& gpu) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  if (!gpu.used || !gpu.total) return AppendCell(out, gpu.used, 1 / kGiB, "GiB");
  char text[64];
  std::snprintf(text, sizeof text, "<td class=n>%s%.1f of %.1f GiB</td>", gpu.used->stale ? "~" : "",
                gpu.used->value / kGiB, gpu.total->value / kGiB);
  out += text;
}

}  // namespace

void AppendHtml(std::string& out, std::string_view text) {
  for (char c : text) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
}

std::string MakeGpuTable(const Snapshot& snapshot) {
  Gpus gpus;
  Collect(snapshot, kGpuUtilization, &Gpu::busy, gpus, "gpu.task.type", "compute");
  Collect(snapshot, kGpuMemoryUsed, &Gpu::used, gpus);
  Collect(snapshot, kGpuMemoryTotal, &Gpu::total, gpus);
  Collect(snapshot, kGpuPowerDraw, &Gpu::power, gpus);
  Collect(snapshot, kGpuTemperature, &Gpu::temperature, gpus, "gpu.temperature.sensor", "edge");
  CollectWord(snapshot, kGpuHealthState, &Gpu::health, gpus);
  CollectWord(snapshot, kGpuState, &Gpu::state, gpus);
  if (gpus.empty()) return {};
  std::string out =
      "<table><tr><th class=n>gpu</th><th>model</th><th class=n>busy</th><th class=n>memory</th>"
      "<th class=n>power</th><th class=n>temperature</th><th>health</th></tr>\n";
  for (const auto& [place, gpu] : gpus) {
    out += "<tr><td class=n>";
    AppendHtml(out, gpu.index);
    out += "</td><td>";
    AppendHtml(out, gpu.model);
    out += "</td>";
    AppendCell(out, gpu.busy, 100, "%");
    AppendMemory(out, gpu);
    AppendCell(out, gpu.power, 1, "W");
    AppendCell(out, gpu.temperature, 1, "°C");
    out += "<td>";
    AppendHtml(out, HealthOf(gpu));
    out += "</td></tr>\n";
  }
  return out + "</table>\n";
}

namespace {

constexpr std::string_view kPageFolder = "/page/";

constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>gpulens</title><link rel="icon" href="page/icon.svg"><link rel="stylesheet" href="page/app.css">
<script type="module" src="page/app.js"></script></head><body>
)";

std::string Age(const InstanceStats& stats, Instant now) {
  if (stats.last_success_unix_ns == 0) return "–";
  int64_t tenths = (now.unix_ns - stats.last_success_unix_ns) / 100'000'000;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

void AppendSource(std::string& out, const Pipeline::InstanceView& view, Instant now) {
  out += "<tr><td>";
  AppendHtml(out, view.name);
  out += "</td><td>";
  if (view.stats.up) out += "● found";
  else if (view.answered) out += view.stats.last.code == Code::kUnavailable ? "absent" : "▲ not read";
  else out += "waiting";
  out += "</td><td class=n>" + (view.stats.up ? std::to_string(view.stats.series) : std::string("–"));
  out += "</td><td class=n>" + Age(view.stats, now) + "</td><td>";
  if (!view.stats.up) AppendHtml(out, view.stats.last.detail);
  out += "</td></tr>\n";
}

}  // namespace

std::string MakeLandingPage(const Env& env, const Pipeline& pipeline, std::string_view host) {
  Instant now = env.clock->Now();
  std::string out(kHead);
  out += "<h1>gpulens " + std::string(Version()) + "</h1>\n";
  if (env.demo) out += "<p><strong>SIMULATED GPUs:</strong> no GPU is read. Host series are real.</p>\n";
  if (Ref<const Snapshot> snapshot = env.latest->latest()) {
    if (std::string gpus = MakeGpuTable(*snapshot); !gpus.empty()) out += "<h2>GPUs</h2>\n" + gpus;
  }
  out += R"(<h2>Read it</h2>
<p><a href="/metrics">/metrics</a> · <a href="/json">/json</a> · <a href="/health">/health</a> ·
<a href="/-/ready">/-/ready</a>. Every name is explained by <code>gpulens metrics</code>.</p>
<h2>Sources</h2>
<table><tr><th>source</th><th>state</th><th class=n>series</th><th class=n>read</th><th>why</th></tr>
)";
  for (const Pipeline::InstanceView& view : pipeline.instances()) AppendSource(out, view, now);
  out += R"(</table>
<h2>Scrape it</h2>
<pre>scrape_configs:
  - job_name: gpulens
    static_configs: [{targets: [")";
  AppendHtml(out, host);
  out += R"("]}]</pre>
<p>What is not found and what to do: <code>gpulens doctor</code>.</p>
</body></html>
)";
  return out;
}

Endpoints::Endpoints(const Env& env, const Pipeline& pipeline, PageFiles files, ApiServer& api,
                     HttpUpgrader* live, Reload reload, StatusPage page)
    : env_(env),
      pipeline_(pipeline),
      files_(std::move(files)),
      api_(api),
      live_(live),
      mcp_(api),
      reload_(std::move(reload)),
      status_(std::move(page)) {
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
  router_.Add("/mcp", "POST", [this](const HttpRequest& request, HttpResponder responder) {
    mcp_.Handle(request, std::move(responder));
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
  const bool file = request.path().starts_with(kPageFolder), api = ApiServer::Serves(request.path());
  if (!page && !file && !api) return router_.Handle(request, std::move(responder));
  if (request.method() == "GET" || request.method() == "HEAD") {
    if (page) return page->Handle(request, std::move(responder));
    if (request.path() == LiveServer::kPath) {
      HttpResponse response = HttpResponse::Text(426, "this page is a WebSocket; /api/now has the same once");
      response.AddHeader("Upgrade", "websocket");
      return responder.Send(std::move(response));
    }
    return api ? api_.Handle(request, std::move(responder)) : ServeFile(request, std::move(responder));
  }
  HttpResponse response = HttpResponse::Text(405, "this page allows GET and HEAD only");
  response.AddHeader("Allow", "GET, HEAD");
  responder.Send(std::move(response));
}

HttpUpgrader* Endpoints::UpgraderOf(const HttpRequest& request) {
  return request.path() == LiveServer::kPath ? live_ : nullptr;
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
    response.AddHeader("Content-Security-Policy", kPagePolicy);
    response.AddHeader("Referrer-Policy", "no-referrer");
    response.AddHeader("Cache-Control", "no-cache");
    response.body = SharedBytes(MakeLandingPage(env_, pipeline_, host));
    answer->Send(std::move(response));
  });
  if (!posted) answer->Send(HttpResponse::Text(503, "the work queue is full"));
}

void Endpoints::ServeFile(const HttpRequest& request, HttpResponder responder) const {
  auto answer = std::make_shared<HttpResponder>(std::move(responder));
  bool posted = env_.workers->Post(
      [this, answer, name = std::string(request.path().substr(kPageFolder.size())),
       accepts = request.JoinedHeader("Accept-Encoding"),
       tags = request.JoinedHeader("If-None-Match")] { answer->Send(files_.Get(name, accepts, tags)); });
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
  std::vector<Endpoint> wanted;
  for (const std::string& text : http.Texts("listen")) {
    ASSIGN_OR_RETURN(Endpoint endpoint, ParseListenAddress(text));
    wanted.push_back(endpoint);
  }
  auto stays = [&](const Present& old) { return std::ranges::find(wanted, old.configured) != wanted.end(); };
  for (const Present& old : present_) {
    if (!stays(old) && IsInherited(old.configured))
      return {Code::kInvalidArgument,
              "http.listen: " + old.configured.ToString() +
                  " is a socket of the service manager: change gpulens.socket, too, and "
                  "restart both"};
  }
  std::vector<Present> bound;
  for (const Endpoint& endpoint : wanted) {
    auto same = [&](const Present& old) { return old.configured == endpoint; };
    if (std::ranges::any_of(present_, same)) continue;
    Result<Endpoint> listening = server_.Listen(endpoint);
    // A machine without IPv6 is served by the other addresses.
    const bool optional =
        endpoint.family == Endpoint::Family::kIpv6 && http.origin("listen").where == Origin::kDefault;
    if (!listening && optional && listening.error().code == Code::kUnavailable) continue;
    if (!listening) {
      for (const Present& undo : bound) server_.StopListening(undo.bound);
      return listening.error();
    }
    bound.push_back({endpoint, *listening});
  }
  for (const Present& old : present_) {
    if (stays(old)) bound.push_back(old);
    else server_.StopListening(old.bound);
  }
  present_ = std::move(bound);
  return Ok();
}

}  // namespace gpulens

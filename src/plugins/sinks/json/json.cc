// Sink for the page /json: the latest snapshot as one JSON object, with the families and the keys of the
// zernel API's page of that name.
//
// The page is made at most once per tick and coding, on a worker; requests in between share its bytes.

#include <cmath>

#include "base/threads.h"
#include "catalog/gpu.h"
#include "catalog/phases.h"
#include "export/sink_names.h"
#include "net/http/http_server.h"
#include "plugins/latest_snapshot.h"
#include "plugins/page_registry.h"
#include "plugins/plugin.h"
#include "wire/exposition/tick_page.h"
#include "wire/json/json_snapshot.h"
#include "wire/json/json_text.h"

namespace gpulens {
namespace {

constexpr std::string_view kPath = "/json";

// Renders the page: the families of the snapshot and the members of the zernel API.
class JsonPageText {
 public:
  explicit JsonPageText(const SinkNames& names)
      : page_(names.namer(NameForm::kPrometheus), names.attribute_filter()) {
    page_.AlwaysShow(names.always_shown());
  }

  void Render(const Snapshot& snapshot, std::string& out) {
    page_.Render(snapshot, ZernelMembers(snapshot), out);
  }

 private:
  // As `"4242":{"count":7,"sum_ns":…,"p50_ns":…,"p99_ns":…}`. Quantiles are of the last minute; without an
  // observation in it they are left out.
  static void AppendSummaries(std::string_view name, SummaryByKey& summaries, const Snapshot& snapshot,
                              std::string& out) {
    out.append(",\n\"").append(name).append("\":{");
    const char* before = "";
    for (const auto& [key, numbers] : summaries.Of(snapshot)) {
      out += before;
      before = ",";
      AppendJsonKey(out, key);
      out += "{\"count\":";
      AppendJsonInt(out, static_cast<int64_t>(numbers.count));
      auto member = [&](const char* of, double seconds) {
        if (!std::isfinite(seconds)) return;
        out.append(",\"").append(of).append("\":");
        AppendJsonInt(out, std::llround(seconds * 1e9));
      };
      member("sum_ns", numbers.sum);
      member("p50_ns", numbers.p50);
      member("p99_ns", numbers.p99);
      out += '}';
    }
    out += '}';
  }

  // Maps that no collector feeds are empty.
  std::string ZernelMembers(const Snapshot& snapshot) {
    std::string out = "\"gpu_memory\":{";
    const char* before = "";
    for (const auto& [key, bytes] : memory_.Of(snapshot)) {
      out += before;
      before = ",";
      out += '"' + key + "\":{";
      if (bytes.current) out += "\"current_bytes\":", AppendJsonInt(out, *bytes.current);
      if (bytes.current && bytes.peak) out += ',';
      if (bytes.peak) out += "\"peak_bytes\":", AppendJsonInt(out, *bytes.peak);
      out += '}';
    }
    out += '}';
    AppendSummaries("cuda_latency", launches_, snapshot, out);
    AppendSummaries("nccl_duration", collectives_, snapshot, out);
    AppendSummaries("dataloader_wait", waits_, snapshot, out);
    return out + ",\"dist_sync\":{}";
  }

  JsonSnapshot page_;
  MemoryByProcess memory_{kGpuProcessMemoryUsed, kGpuProcessMemoryPeak};
  SummaryByKey launches_{kRecentLaunches, "process.pid"}, waits_{kRecentDataWaits, "process.pid"},
      collectives_{kRecentCollectives, "nccl.collective.type"};
};

class JsonPage final : public HttpHandler, public std::enable_shared_from_this<JsonPage> {
 public:
  JsonPage(const SinkNames& names, Env& env) : env_(env), text_(names) {}

  void Handle(const HttpRequest& request, HttpResponder responder) override {
    Ref<const Snapshot> snapshot = env_.latest->latest();
    if (!snapshot) return responder.Send(HttpResponse::Text(503, "no tick has been closed yet"));
    bool gzip = AcceptsGzip(request.JoinedHeader("Accept-Encoding"));
    TickPage::Bytes ready = page_.Ready(*snapshot, gzip);
    if (ready) return responder.Send(Answer(gzip, std::move(ready)));

    auto waiting = std::make_shared<HttpResponder>(std::move(responder));
    bool posted = env_.workers->Post([self = shared_from_this(), snapshot, gzip, waiting] {
      if (waiting->wanted()) waiting->Send(Answer(gzip, self->page_.Make(*snapshot, gzip)));
    });
    if (!posted) waiting->Send(HttpResponse::Text(503, "the work queue is full"));
  }

 private:
  static HttpResponse Answer(bool gzip, TickPage::Bytes body) {
    HttpResponse response;
    response.content_type = "application/json";
    if (gzip) response.AddHeader("Content-Encoding", "gzip");
    response.AddHeader("Vary", "Accept-Encoding");
    response.body = std::move(body);
    return response;
  }

  Env& env_;
  JsonPageText text_;  // used by page_ only
  TickPage page_{[this](const Snapshot& snapshot, std::string& out) { text_.Render(snapshot, out); }};
};

class JsonSink final : public Sink {
 public:
  JsonSink(const SinkNames& names, Env& env)
      : page_(std::make_shared<JsonPage>(names, env)), pages_(*env.pages) {
    pages_.Put(kPath, page_);
  }
  ~JsonSink() override { pages_.TakeDown(kPath, page_.get()); }
  Status Write(const Snapshot&) override { return Ok(); }  // Requests take the latest themselves.

 private:
  const std::shared_ptr<JsonPage> page_;
  PageRegistry& pages_;
};

Result<std::unique_ptr<Sink>> Create(const Config& config, Env& env) {
  if (!env.pages || !env.latest || !env.workers)
    return Status{Code::kInvalidArgument, "the json sink needs the agent's server"};
  return std::unique_ptr<Sink>(std::make_unique<JsonSink>(SinkNames(config), env));
}

constexpr auto kOptions = NameOptions("[native, zernel]");

}  // namespace

extern const SinkSpec json_sink;
const SinkSpec json_sink{.name = "json",
                         .help = "Everything as one JSON object at /json.",
                         .on_by_default = true,
                         .options = kOptions,
                         .create = &Create};

}  // namespace gpulens

// Sink for the page /metrics: the latest snapshot in the format that the scraper requests. With
// ?metrics=LEVEL the page has the native metrics of that level, regardless of the sink's names and level, for
// programs that need the same ones everywhere.
//
// A page is made at most once per tick, format, escaping of names and coding, on a worker; scrapes in between
// share its bytes. No device is queried, and nothing here waits.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>

#include "base/parse.h"
#include "base/threads.h"
#include "export/sink_names.h"
#include "net/http/http_server.h"
#include "plugins/agent_stats.h"
#include "plugins/latest_snapshot.h"
#include "plugins/page_registry.h"
#include "plugins/plugin.h"
#include "wire/exposition/exposition_format.h"
#include "wire/exposition/text_page.h"
#include "wire/exposition/tick_page.h"

namespace gpulens {
namespace {

constexpr size_t kForms = 3 * kNameEscapings;
constexpr size_t kPageSets = 1 + std::size(kMetricLevels);
// A form of the page that was not requested for this long is released.
constexpr Duration kFormatKept = std::chrono::minutes(10);

// The answer to a request: the first of the worker's page and the timeout.
class OneAnswer {
 public:
  explicit OneAnswer(HttpResponder responder) : responder_(std::move(responder)) {}
  void Send(HttpResponse response) {
    if (!sent_.exchange(true)) responder_.Send(std::move(response));
  }

 private:
  HttpResponder responder_;
  std::atomic<bool> sent_ = false;
};

struct PageRequest : Negotiated {
  bool gzip = false;
};

// The page in one form, with the names of the sink.
struct FormPage {
  FormPage(PageForm form, const SinkNames& names)
      : text(form, names.namer(NameForm::kPrometheus)),
        bytes([this](const Snapshot& snapshot, std::string& out) {
          text.Render(snapshot, out);
          const TextPage::Losses& lost = text.losses();
          losses[0] = lost.type_conflicts;
          losses[1] = lost.duplicates;
          losses[2] = lost.name_clashes;
        }) {
    text.AlwaysShow(names.always_shown());
  }
  TextPage text;  // used by `bytes` only
  TickPage bytes;
  std::array<std::atomic<uint64_t>, kPageDropReasons> losses{};  // of the last page made
  Instant requested;                                             // last
};

class MetricsPage final : public HttpHandler, public std::enable_shared_from_this<MetricsPage> {
 public:
  MetricsPage(SinkNames names, Env& env) : names_(std::move(names)), env_(env) {}

  void Handle(const HttpRequest& request, HttpResponder responder) override {
    Ref<const Snapshot> snapshot = env_.latest->latest();
    if (!snapshot) return responder.Send(HttpResponse::Text(503, "no tick has been closed yet"));
    const PageRequest page_request{Negotiate(request.JoinedHeader("Accept")),
                                   AcceptsGzip(request.JoinedHeader("Accept-Encoding"))};
    std::optional<MetricLevel> level;
    if (const auto name = request.Parameter(kMetricsKey)) {
      level = FindMetricLevel(*name);
      if (!level)
        return responder.Send(HttpResponse::Text(400, "metrics= must be essential, standard or all"));
    }
    const std::shared_ptr<FormPage> page = PageOf(page_request.form, level);
    TickPage::Bytes ready = page->bytes.Ready(*snapshot, page_request.gzip);
    if (ready) return responder.Send(Answer(page_request, std::move(ready)));

    auto answer = std::make_shared<OneAnswer>(std::move(responder));
    GuardTimeout(request, answer);
    bool posted = env_.workers->Post([self = shared_from_this(), snapshot, page_request, page, answer] {
      answer->Send(Answer(page_request, page->bytes.Make(*snapshot, page_request.gzip)));
      self->CountLosses();
    });
    if (!posted) answer->Send(HttpResponse::Text(503, "the work queue is full"));
  }

 private:
  static HttpResponse Answer(const PageRequest& page_request, TickPage::Bytes body) {
    HttpResponse response;
    response.content_type = page_request.content_type;
    if (page_request.gzip) response.AddHeader("Content-Encoding", "gzip");
    response.AddHeader("Vary", "Accept, Accept-Encoding");
    response.body = std::move(body);
    return response;
  }

  // Answers an error at the scraper's timeout: Prometheus discards later pages.
  void GuardTimeout(const HttpRequest& request, const std::shared_ptr<OneAnswer>& answer) {
    auto seconds = ParseDouble(request.Header("X-Prometheus-Scrape-Timeout-Seconds"));
    if (!seconds || !(*seconds > 0) || *seconds > 3600) return;
    env_.io->After(Duration(static_cast<int64_t>(*seconds * 0.95e9)), [answer] {
      answer->Send(HttpResponse::Text(503, "the page was not ready within the scrape timeout"));
    });
  }

  // Returns the page of a form, and of a level if one is requested; releases pages that are no longer read.
  std::shared_ptr<FormPage> PageOf(PageForm form, std::optional<MetricLevel> level) {
    const Instant now = env_.clock->Now();
    std::lock_guard lock(mutex_);
    for (auto& page : pages_) {
      if (page && now - page->requested > kFormatKept) page = nullptr;
    }
    const size_t set = level ? 1 + static_cast<size_t>(*level) : 0;
    auto& page = pages_[set * kForms + static_cast<size_t>(form.format) * kNameEscapings +
                        static_cast<size_t>(form.escaping)];
    if (!page) page = std::make_shared<FormPage>(form, level ? SinkNames(*level) : names_);
    page->requested = now;
    return page;
  }

  // Reports the maximum over the requested forms, as they drop the same series.
  void CountLosses() {
    if (!env_.stats) return;
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < kPageDropReasons; ++i) {
      uint64_t most = 0;
      for (const auto& page : pages_) {
        if (page) most = std::max<uint64_t>(most, page->losses[i]);
      }
      env_.stats->page_losses[i] = most;
    }
  }

  const SinkNames names_;
  Env& env_;
  std::mutex mutex_;
  // By requested level (first: none), format and escaping.
  std::array<std::shared_ptr<FormPage>, kPageSets * kForms> pages_;
};

class PrometheusSink final : public Sink {
 public:
  PrometheusSink(std::string path, std::shared_ptr<MetricsPage> page, PageRegistry& pages)
      : path_(std::move(path)), page_(std::move(page)), pages_(pages) {
    pages_.Put(path_, page_);
  }
  ~PrometheusSink() override { pages_.TakeDown(path_, page_.get()); }
  Status Write(const Snapshot&) override { return Ok(); }  // Scrapes take the latest themselves.

 private:
  const std::string path_;
  const std::shared_ptr<MetricsPage> page_;
  PageRegistry& pages_;
};

Result<std::unique_ptr<Sink>> Create(const Config& config, Env& env) {
  if (!env.pages || !env.latest)
    return Status{Code::kInvalidArgument, "the prometheus sink needs the agent's server"};
  auto page = std::make_shared<MetricsPage>(SinkNames(config), env);
  return std::unique_ptr<Sink>(std::make_unique<PrometheusSink>("/metrics", std::move(page), *env.pages));
}

constexpr auto kOptions = NameOptions("[native, zernel]");

}  // namespace

extern const SinkSpec prometheus_sink;
const SinkSpec prometheus_sink{.name = "prometheus",
                               .help = "A page to scrape at /metrics, in three text formats.",
                               .on_by_default = true,
                               .options = kOptions,
                               .create = &Create};

}  // namespace gpulens

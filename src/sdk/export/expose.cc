// A page to scrape, of the program itself.
#include <gpulens/export.h>

#include <mutex>

#include "base/result.h"
#include "net/blocking/blocking_server.h"
#include "sdk/export/exporter_seat.h"
#include "sdk/export/metrics_page.h"
#include "sdk/export/otlp_plan.h"
#include "sdk/export/resource.h"
#include "wire/exposition/exposition_format.h"

namespace gpulens {
namespace {

using namespace sdk;

class PageJob final : public ExportJob {
 public:
  explicit PageJob(Registry& registry) : registry_(registry), resource_(ProcessResource()) {}

  Status Open(const Endpoint& at) {
    ASSIGN_OR_RETURN(server_,
                     BlockingServer::Open(at, [this](const HttpRequest& request) { return Page(request); }));
    return Ok();
  }

  void Run() override { server_->Serve(); }
  void Finish(Duration) override { Cut(); }
  void Cut() override {
    server_->Stop();
    std::lock_guard lock(mutex_);
    cut_ = true;
  }
  Status status() const override { return Ok(); }
  Status Flush(Duration) override { return Ok(); }
  std::string address() const override { return "http://" + server_->address().ToString() + "/metrics"; }
  void LeaveBehind() noexcept override { server_->LeaveBehind(); }

 private:
  HttpResponse Page(const HttpRequest& request) {
    if (request.path() != "/metrics") return HttpResponse::Text(404, "The page is /metrics.");
    const Negotiated wanted = Negotiate(request.JoinedHeader("Accept"));
    std::vector<Sample> samples;
    {
      std::lock_guard lock(mutex_);
      if (cut_) return HttpResponse::Text(503, "The program ends.");
      samples = registry_.Snapshot();
    }
    std::string page;
    WriteMetricsPage(samples, resource_, wanted.form, RealClock().Now(), page);
    HttpResponse response;
    response.content_type = wanted.content_type;
    response.AddHeader("Vary", "Accept");
    response.body = std::move(page);
    return response;
  }

  Registry& registry_;
  const AttributeSet resource_;
  std::unique_ptr<BlockingServer> server_;
  std::mutex mutex_;  // guards what follows
  bool cut_ = false;
};

}  // namespace

Result<Exporter> Expose(const ExposeOptions& options, Registry& registry) {
  if (Disabled(&ProcessEnvironment))
    return Exporter(ExporterSeat::Empty({Code::kUnavailable, "OTEL_SDK_DISABLED switches it off"}));
  ASSIGN_OR_RETURN(const Endpoint at, ParseListenAddress(options.listen));
  if (!at.IsLoopback() && !options.insecure)
    return Status{
        Code::kInvalidArgument,
        options.listen +
            " serves other machines, and the page has neither TLS nor passwords: export to the agent, "
            "whose page has both, or set `insecure`"};
  auto job = std::make_shared<PageJob>(registry);
  RETURN_IF_ERROR(job->Open(at));
  // Given out once: the port is the parent's.
  return Exporter(ExporterSeat::Take([job = std::move(job)]() mutable -> std::shared_ptr<ExportJob> {
    return std::exchange(job, nullptr);
  }));
}

std::string ToPrometheus(const Registry& registry) {
  std::string page;
  WriteMetricsPage(registry.Snapshot(), {}, ExpositionFormat::kText004, RealClock().Now(), page);
  return page;
}

}  // namespace gpulens

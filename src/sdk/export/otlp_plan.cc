#include "sdk/export/otlp_plan.h"

#include <algorithm>
#include <atomic>

#include "base/parse.h"
#include "base/result.h"
#include "net/client/http_client.h"
#include "sdk/export/push_job.h"
#include "sdk/export/resource.h"
#include "sdk/export/transport.h"

namespace gpulens::sdk {

// Null when not linked. Weak, since GPULENS_EXPORT may need it during static initialization.
[[gnu::weak]] Result<std::unique_ptr<Transport>> MakeSecureTransport(const OtlpPlan& plan);

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::string_view kMetricsPath = "v1/metrics";

std::atomic<SecureMaker> secure_maker{nullptr};

// Value of the variable for metrics, else of that for all signals; `name` is the one that is set.
std::string FromEnvironment(const Environment& environment, std::string_view what, std::string& name) {
  for (std::string_view signal : {"METRICS_", ""}) {
    name = "OTEL_EXPORTER_OTLP_" + std::string(signal) + std::string(what);
    if (std::string value = environment(name.c_str()); !value.empty()) return value;
  }
  return {};
}

Status In(const std::string& name, const Status& why) {
  return {Code::kInvalidArgument, name.empty() ? why.detail : name + ": " + why.detail};
}

// An endpoint for metrics is used with its path as it is.
void AddPath(HttpUrl& url, bool whole) {
  if (whole) return;
  std::string& path = url.target;
  if (path.ends_with(kMetricsPath)) return;
  if (!path.ends_with('/')) path += '/';
  path += kMetricsPath;
}

Status AddHeaders(const OtlpOptions& options, const Environment& environment, OtlpPlan& plan) {
  for (const auto& [key, value] : options.headers) RETURN_IF_ERROR(AddRequestField(plan.headers, key, value));
  std::string name;
  const std::string stated =
      options.headers.empty() ? FromEnvironment(environment, "HEADERS", name) : std::string();
  auto listed = ParseKeyValues(stated);
  if (!listed) return In(name, listed.error());
  for (const auto& [key, value] : *listed) {
    if (Status added = AddRequestField(plan.headers, key, value); !added) return In(name, added);
  }
  if (!plan.url.user.empty()) AddBasicAuth(plan.headers, plan.url.user, plan.url.password);
  return Ok();
}

// Checked here, since a server would report it much later and less clearly.
Status AddClientCertificate(const OtlpOptions& options, const Environment& environment, OtlpPlan& plan) {
  std::string name;
  plan.client_certificate_file = options.client_certificate_file;
  plan.client_key_file = options.client_key_file;
  if (plan.client_certificate_file.empty() && plan.client_key_file.empty()) {
    plan.client_key_file = FromEnvironment(environment, "CLIENT_KEY", name);
    plan.client_certificate_file = FromEnvironment(environment, "CLIENT_CERTIFICATE", name);
  }
  if (plan.client_certificate_file.empty() == plan.client_key_file.empty()) return Ok();
  return {Code::kInvalidArgument, "the client certificate and its key must be set together"};
}

}  // namespace

Duration TimeIn(const Environment& environment, const char* name, Duration fallback) {
  const auto ms = ParseInt<uint32_t>(environment(name));
  return ms && *ms > 0 ? Duration(milliseconds(*ms)) : fallback;
}

bool Disabled(const Environment& environment) {
  return EqualsIgnoringCase(Trim(environment("OTEL_SDK_DISABLED")), "true");
}

Result<OtlpPlan> PlanOtlp(const OtlpOptions& options, const Environment& environment) {
  OtlpPlan plan;
  std::string name;
  std::string protocol =
      options.protocol.empty() ? FromEnvironment(environment, "PROTOCOL", name) : options.protocol;
  if (!protocol.empty() && protocol != "grpc" && protocol != "http/protobuf")
    return In(name, {Code::kInvalidArgument, "the protocol must be http/protobuf or grpc"});
  plan.grpc = protocol == "grpc";
  std::string endpoint = options.endpoint;
  name.clear();
  if (endpoint.empty()) endpoint = FromEnvironment(environment, "ENDPOINT", name);
  if (endpoint.empty()) {
    name.clear();
    endpoint = plan.grpc ? "http://localhost:4317" : "http://localhost:4318";
  }
  // Only the port decides where nothing else does: 4317 is that of gRPC everywhere.
  auto url = ParseHttpUrl(endpoint);
  if (!url) return In(name, url.error());
  plan.url = *std::move(url);
  if (protocol.empty() && plan.url.port == 4317) plan.grpc = true;
  if (!plan.grpc) AddPath(plan.url, name == "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT");
  plan.ca_file =
      options.ca_file.empty() ? FromEnvironment(environment, "CERTIFICATE", name) : options.ca_file;
  RETURN_IF_ERROR(AddClientCertificate(options, environment, plan));
  plan.service_name = options.service_name;
  RETURN_IF_ERROR(AddHeaders(options, environment, plan));
  plan.interval = options.interval > Duration(0)
                      ? options.interval
                      : TimeIn(environment, "OTEL_METRIC_EXPORT_INTERVAL", seconds(30));
  const Duration general = TimeIn(environment, "OTEL_EXPORTER_OTLP_TIMEOUT", seconds(10));
  plan.timeout = options.timeout > Duration(0)
                     ? options.timeout
                     : TimeIn(environment, "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", general);
  return plan;
}

void SetSecureTransport(SecureMaker maker) noexcept { secure_maker = maker; }

Result<Exporter> StartOtlp(const OtlpOptions& options, Registry& registry) {
  if (Disabled(&ProcessEnvironment))
    return Exporter(ExporterSeat::Empty({Code::kUnavailable, "OTEL_SDK_DISABLED switches it off"}));
  ASSIGN_OR_RETURN(const OtlpPlan plan, PlanOtlp(options, &ProcessEnvironment));
  const bool secure = plan.url.tls || plan.grpc;
  const SecureMaker set = secure_maker;
  const SecureMaker maker = set ? set : &MakeSecureTransport;
  if (secure && !maker)
    return Status{
        Code::kUnavailable,
        "this program has neither TLS nor gRPC linked: it must call ExportOtlp, in C gpulens_export_otlp"};
  // Errors are found here; the child of a fork makes a context of its own.
  if (secure) RETURN_IF_ERROR(maker(plan).status());
  return Exporter(ExporterSeat::Take([plan, secure, maker, &registry]() -> std::shared_ptr<ExportJob> {
    std::unique_ptr<Transport> transport;
    if (secure) transport = maker(plan).value_or(nullptr);
    else transport = std::make_unique<PlainTransport>(plan.url, plan.headers);
    if (!transport) return nullptr;
    PushJob::Options push{.registry = &registry,
                          .interval = plan.interval,
                          .timeout = plan.timeout,
                          .resource = ProcessResource(plan.service_name),
                          .peer = plan.url.Shown()};
    return std::make_shared<PushJob>(std::move(push), std::move(transport));
  }));
}

}  // namespace gpulens::sdk

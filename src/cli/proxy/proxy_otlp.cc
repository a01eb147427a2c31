#include "cli/proxy/proxy_otlp.h"

#include <algorithm>
#include <array>
#include <utility>

#include "agent/run/plan.h"
#include "base/result.h"
#include "base/version.h"
#include "core/received_otlp.h"
#include "pipeline/delivery/send_setup.h"
#include "plugins/remote_access.h"
#include "plugins/sinks/otlp/otlp.h"

namespace gpulens {
namespace {

AttributeSet ResourceOf(const Config& group, const std::string& instance) {
  const std::string host = HostName();
  std::vector<AttributeSet::Attribute> attributes = {
      {"service.name", std::string_view(group.Text("service_name"))},
      {"service.instance.id", std::string_view(instance)},
      {"service.version", std::string_view(Version())}};
  if (!host.empty()) attributes.push_back({"host.name", std::string_view(host)});
  for (const auto& [key, value] : group.TextMap("attributes"))
    attributes.push_back({key, std::string_view(value)});
  return AttributeSet(std::span<const AttributeSet::Attribute>(attributes));
}

bool Has(const Config& group, std::string_view key, std::string_view value) {
  const std::vector<std::string>& texts = group.Texts(key);
  return std::ranges::find(texts, value) != texts.end();
}

Result<std::shared_ptr<const SendSetup>> SetupOf(const Config& group) {
  SendPlan plan;
  plan.name = "otlp";
  plan.signals = {"metrics", "logs", "traces"};
  plan.routes = OtlpRoutes();
  plan.validate = [](const HttpReply& reply, size_t) { return ValidateOtlp(reply); };
  std::vector<HttpUrl>& urls = plan.urls.emplace_back();
  for (std::string_view signal : plan.signals) {
    ASSIGN_OR_RETURN(HttpUrl url, OtlpUrl(group.Text("endpoint"), {}, signal));
    urls.push_back(std::move(url));
  }
  if (group.Text("protocol") == "grpc") MakeOtlpCalls(plan);
  plan.format = group.Text("protocol");
  // What an agent's sink has besides, and a proxy has not: one receiver, one request at a time.
  Config whole = group;
  whole.Set("balance", std::string("failover"), Origin());
  whole.Set("in_flight", int64_t{1}, Origin());
  return MakeSendSetup(std::move(plan), whole);
}

}  // namespace

proxy::GenaiOptions MakeGenaiOptions(const Config& group, const std::string& instance,
                                     std::vector<std::string>& errors) {
  proxy::GenaiOptions out;
  if (group.Text("endpoint").empty()) return out;
  const auto add = [&](const Config& of, std::string_view key, std::string_view path,
                       std::string_view problem) {
    errors.push_back((of.Where(key) + ": ").append(path).append(key).append(": ").append(problem));
  };
  const auto packing = std::ranges::find(kOtlpPackings, group.Text("compression"));
  out.packing = static_cast<size_t>(packing - kOtlpPackings.begin());
  if (group.Text("protocol") == "grpc" && *packing == "zstd")
    add(group, "compression", "otlp.", "with protocol grpc it is gzip or none");
  out.metrics = Has(group, "signals", "metrics");
  out.spans = Has(group, "signals", "traces");
  out.versions = {Has(group, "names", "otel_genai"), Has(group, "names", "otel_genai_2026")};
  if (group.Texts("names").empty()) add(group, "names", "otlp.", "there is none");
  out.sample = group.Double("sample");
  out.interval = group.Time("interval");
  out.max_series = static_cast<size_t>(group.Int("max_series"));
  out.queue_bytes = group.Size("queue_bytes");
  out.resource = ResourceOf(group, instance);
  Result<std::shared_ptr<const SendSetup>> setup = SetupOf(group);
  if (setup) out.send = *std::move(setup);
  else add(group, "endpoint", "otlp.", setup.error().detail);
  return out;
}

std::vector<std::string> ProxyOtlpFiles(const Config& group) {
  std::vector<std::string> out;
  const Config& transport = group.Group(kTransportKey);
  const Config& tls = transport.Group("tls");
  for (const auto& [of, key] :
       {std::pair(&transport, "password_file"), std::pair(&transport, "bearer_token_file"),
        std::pair(&tls, "ca_file"), std::pair(&tls, "cert_file"), std::pair(&tls, "key_file")}) {
    if (!of->Text(key).empty()) out.push_back(of->Text(key));
  }
  return out;
}

}  // namespace gpulens

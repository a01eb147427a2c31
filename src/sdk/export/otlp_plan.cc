#include "sdk/export/otlp_plan.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>

#include "base/check.h"
#include "base/files.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "base/version.h"
#include "instruments/cells.h"
#include "net/client/http_client.h"
#include "sdk/export/exporter_seat.h"

namespace gpulens::sdk {
namespace {

constexpr const char* kServiceName = "OTEL_SERVICE_NAME";

// RFC 9562, version 4.
std::string RandomUuid() {
  uint8_t bytes[16];
  CHECK(::getrandom(bytes, sizeof bytes, 0) == sizeof bytes);
  bytes[6] = static_cast<uint8_t>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<uint8_t>((bytes[8] & 0x3f) | 0x80);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < sizeof bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += kDigits[bytes[i] >> 4];
    out += kDigits[bytes[i] & 15];
  }
  return out;
}

// Returns the file name of the program.
std::string ProgramName() {
  Result<std::string> line = ReadFile("/proc/self/cmdline");
  if (!line) return {};
  std::string_view words = *line;
  std::string_view first = words.substr(0, words.find('\0'));
  return std::string(first.substr(first.rfind('/') + 1));
}

constexpr size_t kMost = 128;

Status Wrong(std::string_view element, std::string_view why) {
  std::string detail = "\"";
  AppendPrintable(detail, element.substr(0, 80));
  detail += "\" ";
  detail += why;
  return {Code::kInvalidArgument, std::move(detail)};
}

Result<std::string> Decode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    char byte = text[i];
    if (byte == '%') {
      const auto code = ParseInt<uint8_t>(text.substr(i + 1, 2), 16);
      if (text.size() < i + 3 || !code) return Wrong(text, "has a % without two digits after it");
      byte = static_cast<char>(*code);
      i += 2;
    }
    const auto code = static_cast<unsigned char>(byte);
    if (code < 0x20 || code == 0x7f) return Wrong(text, "has a control byte");
    out += byte;
  }
  return out;
}

}  // namespace

// Null when not linked. Weak, since GPULENS_EXPORT may need it during static initialization.
[[gnu::weak]] Result<std::unique_ptr<OtlpTransport>> MakeSecureTransport(const OtlpPlan& plan);

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::string_view kMetricsPath = "v1/metrics";

std::atomic<SecureMaker> secure_maker{nullptr};

// Returns the value of the variable for metrics, otherwise of that for all signals; sets `name` to the
// variable.
std::string FromEnvironment(const EnvironmentLookup& environment, std::string_view what, std::string& name) {
  for (std::string_view signal : {"METRICS_", ""}) {
    name = "OTEL_EXPORTER_OTLP_" + std::string(signal) + std::string(what);
    if (std::string value = environment(name.c_str()); !value.empty()) return value;
  }
  return {};
}

Status In(const std::string& name, const Status& why) {
  return {Code::kInvalidArgument, name.empty() ? why.detail : name + ": " + why.detail};
}

// Appends the path of metrics. `whole`: the URL is an endpoint for metrics and is used as it is.
void AddPath(HttpUrl& url, bool whole) {
  if (whole) return;
  std::string& path = url.target;
  if (path.ends_with(kMetricsPath)) return;
  if (!path.ends_with('/')) path += '/';
  path += kMetricsPath;
}

Status AddHeaders(const OtlpOptions& options, const EnvironmentLookup& environment, OtlpPlan& plan) {
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
Status AddClientCertificate(const OtlpOptions& options, const EnvironmentLookup& environment,
                            OtlpPlan& plan) {
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

Duration TimeIn(const EnvironmentLookup& environment, const char* name, Duration fallback) {
  const auto ms = ParseInt<uint32_t>(environment(name));
  return ms && *ms > 0 ? Duration(milliseconds(*ms)) : fallback;
}

bool Disabled(const EnvironmentLookup& environment) {
  return EqualsIgnoringCase(Trim(environment("OTEL_SDK_DISABLED")), "true");
}

Result<OtlpPlan> PlanOtlp(const OtlpOptions& options, const EnvironmentLookup& environment) {
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
  // Without a protocol the port decides: 4317 is always gRPC.
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
  // Finds errors now; the transport is created when the job starts, also in the child of a fork.
  if (secure) RETURN_IF_ERROR(maker(plan).status());
  return Exporter(ExporterSeat::Take([plan, secure, maker, &registry]() -> std::shared_ptr<ExportJob> {
    std::unique_ptr<OtlpTransport> transport;
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

std::string ProcessEnvironment(const char* name) {
  const char* value = ::getenv(name);
  return value ? value : "";
}

AttributeSet ResourceOf(const EnvironmentLookup& environment, std::string_view program, int64_t pid,
                        std::string_view instance_id) {
  std::map<std::string, std::string, std::less<>> stated;
  if (auto listed = ParseKeyValues(environment("OTEL_RESOURCE_ATTRIBUTES"))) {
    for (auto& [key, value] : *listed) stated[key] = std::move(value);
  } else {
    Log(LogLevel::kWarn, "sdk", "resource_attributes",
        "OTEL_RESOURCE_ATTRIBUTES is left out: " + listed.error().detail);
  }
  const std::string name = environment(kServiceName);
  if (!name.empty()) stated["service.name"] = name;
  else if (!stated.contains("service.name"))
    stated["service.name"] = program.empty() ? "unknown_service" : program;
  const std::string_view version = Version();
  std::vector<AttributeSet::Attribute> all = {{"service.instance.id", instance_id}};
  for (const auto& [key, value] : stated) all.push_back({key, std::string_view(value)});
  // The last of equal keys wins.
  all.push_back({"process.pid", pid});
  all.push_back({"telemetry.sdk.name", std::string_view("gpulens")});
  all.push_back({"telemetry.sdk.language", std::string_view("cpp")});
  all.push_back({"telemetry.sdk.version", version});
  return AttributeSet(std::span<const AttributeSet::Attribute>(all));
}

AttributeSet ProcessResource(std::string_view service_name) {
  const auto environment = [service_name](const char* name) {
    const bool queried = !service_name.empty() && std::string_view(name) == kServiceName;
    return queried ? std::string(service_name) : ProcessEnvironment(name);
  };
  return ResourceOf(environment, ProgramName(), ::getpid(), InstanceId());
}

std::string InstanceId() {
  static std::mutex* const mutex = new std::mutex;
  static std::string* const id = new std::string;
  static uint32_t of_fork = 0;
  const uint32_t forks = instruments::CellStore::Instance().forks();
  std::lock_guard lock(*mutex);
  if (id->empty() || of_fork != forks) {
    *id = RandomUuid();
    of_fork = forks;
  }
  return *id;
}

Result<KeyValues> ParseKeyValues(std::string_view text) {
  KeyValues out;
  text = Trim(text);
  while (!text.empty()) {
    const std::string_view element = Trim(TakeUntil(text, ','));
    if (element.empty()) continue;
    const size_t equals = element.find('=');
    if (equals == element.npos) return Wrong(element, "has no '='");
    ASSIGN_OR_RETURN(std::string key, Decode(Trim(element.substr(0, equals))));
    ASSIGN_OR_RETURN(std::string value, Decode(Trim(element.substr(equals + 1))));
    if (key.empty()) return Wrong(element, "has no key");
    if (out.size() == kMost) return Wrong(element, "is one too many: at most 128");
    out.emplace_back(std::move(key), std::move(value));
  }
  return out;
}

}  // namespace gpulens::sdk

namespace gpulens {
namespace {

using namespace sdk;

constexpr std::string_view kAgentSocket = "otlp.sock";

// HTTP/1.1 requires a Host header.
HttpUrl AgentUrl() {
  return {.host = "localhost", .port = 80, .target = "/v1/metrics", .user = {}, .password = {}};
}

class AgentTransport final : public PlainTransport {
 public:
  explicit AgentTransport(std::string socket)
      : PlainTransport(AgentUrl(), "User-Agent: gpulens-sdk\r\n"), socket_(std::move(socket)) {}

  OtlpDelivery Send(std::shared_ptr<const std::string> request, Duration timeout) override {
    return SendTo(socket_.empty() ? FindAgentSocket(kAgentSocket) : socket_, *request, timeout);
  }
  std::string address() const override {
    return "unix:" + (socket_.empty() ? FindAgentSocket(kAgentSocket) : socket_);
  }

 private:
  const std::string socket_;  // empty: found at each attempt
};

}  // namespace

Exporter ExportToAgent(const AgentOptions& options, Registry& registry) {
  if (Disabled(&ProcessEnvironment))
    return Exporter(ExporterSeat::Empty({Code::kUnavailable, "OTEL_SDK_DISABLED switches it off"}));
  const Duration interval = options.interval > Duration(0)
                                ? options.interval
                                : TimeIn(&ProcessEnvironment, "OTEL_METRIC_EXPORT_INTERVAL", seconds(10));
  std::string socket = options.socket.empty() ? ProcessEnvironment("GPULENS_SOCKET") : options.socket;
  if (socket.starts_with("unix:")) socket.erase(0, 5);
  return Exporter(ExporterSeat::Take([socket, interval, &registry]() -> std::shared_ptr<ExportJob> {
    PushJob::Options push{.registry = &registry,
                          .interval = interval,
                          .timeout = seconds(5),
                          .resource = ProcessResource(),
                          .peer = "agent at " + (socket.empty() ? FindAgentSocket(kAgentSocket) : socket)};
    return std::make_shared<PushJob>(std::move(push), std::make_unique<AgentTransport>(socket));
  }));
}

}  // namespace gpulens

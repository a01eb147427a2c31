// Options of OTLP exporters: the program's, then the environment's, then OpenTelemetry's defaults; the
// resource attributes of the program; and the transport over TLS and gRPC, which needs OpenSSL and nghttp2. A
// program that references LinkSecureTransport links these; others send OTLP as protobuf over plain HTTP.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/export.h>
#include <gpulens/status.h>

#include "base/clock.h"
#include "core/attribute_set.h"
#include "net/message/address.h"
#include "sdk/export/push_job.h"

namespace gpulens::sdk {

// Lists in environment variables of OpenTelemetry: OTEL_RESOURCE_ATTRIBUTES, OTEL_EXPORTER_OTLP_HEADERS.
// Pure.
using KeyValues = std::vector<std::pair<std::string, std::string>>;

// Parses "a=1, b=x%20y", the format of W3C baggage: decodes %XX and ignores blanks around keys and values.
// Empty text gives an empty list. kInvalidArgument for an element without '=', an empty key, a broken escape,
// control bytes, and more than 128 elements; OpenTelemetry then requires to ignore the whole list.
Result<KeyValues> ParseKeyValues(std::string_view text);

// Returns the value of an environment variable, "" if it is unset. Tests pass their own.
using EnvironmentLookup = std::function<std::string(const char* name)>;
std::string ProcessEnvironment(const char* name);

// Returns service.name ($OTEL_SERVICE_NAME, else that of $OTEL_RESOURCE_ATTRIBUTES, else the program's file
// name), service.instance.id, process.pid, telemetry.sdk.*, and the rest of $OTEL_RESOURCE_ATTRIBUTES.
// Invalid entries are dropped and logged once.
AttributeSet ResourceOf(const EnvironmentLookup& environment, std::string_view program, int64_t pid,
                        std::string_view instance_id);

// Returns the resource of this process; `service_name` takes precedence over the environment.
AttributeSet ProcessResource(std::string_view service_name = {});

// Returns a random UUID, constant in one process and different in its forks. Thread-safe.
std::string InstanceId();

// Destination and options of an exporter. A plain value.
struct OtlpPlan {
  HttpUrl url;
  bool grpc = false;
  std::string ca_file, client_certificate_file, client_key_file;
  std::string service_name;  // empty: from the environment
  std::string headers;       // whole lines
  Duration interval{}, timeout{};
};

// Returns the plan. Pure. kInvalidArgument: the detail names the option or variable.
Result<OtlpPlan> PlanOtlp(const OtlpOptions& options, const EnvironmentLookup& environment);

// Returns a time in milliseconds of an OpenTelemetry variable; `fallback` if it is unset or invalid.
Duration TimeIn(const EnvironmentLookup& environment, const char* name, Duration fallback);

// Whether OTEL_SDK_DISABLED is set.
bool Disabled(const EnvironmentLookup& environment);

// Creates a transport over TLS or gRPC. kUnavailable, kPermissionDenied, kInvalidArgument: errors of a TLS
// file.
Result<std::unique_ptr<OtlpTransport>> MakeSecureTransport(const OtlpPlan& plan);
// Makes StartOtlp use it.
void LinkSecureTransport() noexcept;

// Sets how transports for TLS and gRPC are created; null: not linked.
using SecureMaker = Result<std::unique_ptr<OtlpTransport>> (*)(const OtlpPlan& plan);
void SetSecureTransport(SecureMaker maker) noexcept;

// ExportOtlp with the transports that this program links.
Result<Exporter> StartOtlp(const OtlpOptions& options, Registry& registry);

}  // namespace gpulens::sdk

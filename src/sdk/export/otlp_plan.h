// Resolves the destination and options of OTLP: the program's options, then the environment, then
// OpenTelemetry's defaults.
#pragma once

#include <memory>
#include <string>

#include <gpulens/export.h>
#include <gpulens/status.h>

#include "base/clock.h"
#include "net/message/address.h"
#include "sdk/export/resource.h"
#include "sdk/export/transport.h"

namespace gpulens::sdk {

// A plain value.
struct OtlpPlan {
  HttpUrl url;
  bool grpc = false;
  std::string ca_file, client_certificate_file, client_key_file;
  std::string service_name;  // empty: from the environment
  std::string headers;       // whole lines
  Duration interval{}, timeout{};
};

// Pure. kInvalidArgument names the error and its place.
Result<OtlpPlan> PlanOtlp(const OtlpOptions& options, const Environment& environment);

// A time of OpenTelemetry, in milliseconds; `fallback` when it is not set or is none.
Duration TimeIn(const Environment& environment, const char* name, Duration fallback);

// OTEL_SDK_DISABLED.
bool Disabled(const Environment& environment);

// Makes transports for TLS and gRPC; null: not linked.
using SecureMaker = Result<std::unique_ptr<Transport>> (*)(const OtlpPlan& plan);
void SetSecureTransport(SecureMaker maker) noexcept;

// ExportOtlp, with what this program has linked.
Result<Exporter> StartOtlp(const OtlpOptions& options, Registry& registry);

}  // namespace gpulens::sdk

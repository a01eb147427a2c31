// OTLP over TLS, and OTLP/gRPC: what needs OpenSSL and nghttp2. A program links them when it names
// LinkSecureTransport; without it OTLP goes in the clear, as protobuf over HTTP.
#pragma once

#include <memory>

#include <gpulens/status.h>

#include "sdk/export/otlp_plan.h"
#include "sdk/export/transport.h"

namespace gpulens::sdk {

// kUnavailable, kPermissionDenied, kInvalidArgument: one of the files for TLS.
Result<std::unique_ptr<Transport>> MakeSecureTransport(const OtlpPlan& plan);

// From here on StartOtlp has it.
void LinkSecureTransport() noexcept;

}  // namespace gpulens::sdk

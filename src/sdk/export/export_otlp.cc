// OTLP anywhere, with TLS and gRPC: apart, so that a program without it does not link these.
#include <gpulens/export.h>

#include "sdk/export/otlp_plan.h"
#include "sdk/export/secure_transport.h"

namespace gpulens {

Result<Exporter> ExportOtlp(const OtlpOptions& options, Registry& registry) {
  sdk::LinkSecureTransport();
  return sdk::StartOtlp(options, registry);
}

}  // namespace gpulens

// The OTLP exporter of gpulens/c.h: a file of its own, since it links TLS and gRPC.
#include <gpulens/c.h>
#include <gpulens/export.h>

#include "sdk/c/c_state.h"

int gpulens_export_otlp(const char* endpoint) {
  gpulens::OtlpOptions options;
  if (endpoint) options.endpoint = endpoint;
  return gpulens::sdk::Keep("otlp " + options.endpoint, [&] { return gpulens::ExportOtlp(options); });
}

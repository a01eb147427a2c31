#include "sources/nvml/nvml_source.h"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

namespace gpulens::nvml {
namespace {

std::string Hex(const char* key, uint64_t mask) {
  char text[20];
  std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(mask));
  return std::string(key) + "=" + text;
}

driver::SourceOptions WithArguments(const SourceOptions& options) {
  driver::SourceOptions out = options;
  out.arguments.push_back(Hex("--details", options.details));
  if (options.event_types != kUsualEvents) out.arguments.push_back(Hex("--events", options.event_types));
  return out;
}

}  // namespace

NvmlSource::NvmlSource(const SourceOptions& options, GpuVendorState* vendor_state)
    : DriverSource(NvmlVendor(), WithArguments(options), std::unique_ptr<GpuVendorState>(vendor_state)),
      vendor_state_(*vendor_state) {}

}  // namespace gpulens::nvml

// Messages of KEDA's externalscaler.ExternalScaler: requests in, responses out. Pure, with limits.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens {

// Methods of the service, as paths of gRPC.
inline constexpr std::string_view kScalerIsActive = "/externalscaler.ExternalScaler/IsActive",
                                  kScalerStreamIsActive = "/externalscaler.ExternalScaler/StreamIsActive",
                                  kScalerGetMetricSpec = "/externalscaler.ExternalScaler/GetMetricSpec",
                                  kScalerGetMetrics = "/externalscaler.ExternalScaler/GetMetrics";

inline constexpr size_t kScalerRequestBytes = 64u << 10, kScalerMetadataEntries = 64, kScalerTextBytes = 4096;

// A ScaledObject or ScaledJob, and the metadata of one of its triggers. A plain value.
struct ScaledObjectRef {
  std::string name, name_space;
  std::map<std::string, std::string, std::less<>> metadata;
};

struct ScalerMetricsRequest {
  ScaledObjectRef object;
  std::string metric;  // as in the response to GetMetricSpec
};

// kDataLoss: not this message; kExhausted: above a limit. Unknown fields are skipped; texts are UTF-8.
Result<ScaledObjectRef> ReadScaledObjectRef(std::string_view message);
Result<ScalerMetricsRequest> ReadScalerMetricsRequest(std::string_view message);

std::string WriteIsActive(bool active);
// `target` and `value` are written as a double, and rounded up for KEDA before 2.17, which reads integers.
std::string WriteMetricSpec(std::string_view metric, double target);
std::string WriteMetricValue(std::string_view metric, double value);

}  // namespace gpulens

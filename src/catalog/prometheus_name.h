// Translates native names, units and attribute keys for the Prometheus formats exactly as OpenTelemetry's
// translator does, so that a name is the same from the agent or through a Collector. Pure functions;
// thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "core/metric_desc.h"
#include "core/prometheus_words.h"

namespace gpulens {

// Appends the name of the metric's family, with the suffixes of its unit and kind:
// "gpu_power_draw_watts", "gpu_energy_consumption_joules_total", "gpu_info". Scraped names
// (Naming::kVerbatim) stay. Histograms and summaries get no suffix of a sample.
void AppendPrometheusName(std::string& out, const MetricDesc& metric);

}  // namespace gpulens

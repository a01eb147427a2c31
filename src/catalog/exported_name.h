// Names in the Prometheus formats, translated from native names, units and attribute keys exactly as
// OpenTelemetry's translator does, so that a name is the same from the agent or through a Collector; and
// names of metrics that programs and scraped targets bring. A name that the agent's own metrics may have is
// reserved and gets a prefix: "gpu.power.draw" becomes "exported.gpu.power.draw", on pages
// "exported_gpu_power_draw_watts". Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "core/metric_desc.h"
#include "core/prometheus_words.h"

namespace gpulens {

// Appends the name of the metric's family, with the suffixes of its unit and kind:
// "gpu_power_draw_watts", "gpu_energy_consumption_joules_total", "gpu_info". Scraped names
// (Naming::kVerbatim) stay. Histograms and summaries get no suffix of a sample.
void AppendPrometheusName(std::string& out, const MetricDesc& metric);

enum class NameOwner : uint8_t {
  kProgram,  // of any user
  kTarget,   // from the configuration or a discovery
};

// Reserved names: gpulens…; names that on a page equal those of a row of the catalogue (whatever the kind, or
// as one of its samples); and up, scrape_… and ALERTS of Prometheus. For programs also gpu.…, DCGM_FI_… and
// hw.…, while pages of configured exporters keep their gpu_… families. process.…, training.… and target.info
// are free.
bool IsReservedName(const MetricDesc& brought, NameOwner owner);

// Returns the name under which `brought` is exported.
std::string ExportedName(const MetricDesc& brought, NameOwner owner);

}  // namespace gpulens

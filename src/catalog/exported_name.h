// Under which names the metrics of others are told.
//
// Programs of this machine and scraped targets bring metrics under names of their own choice. What the agent
// measures itself has names that people sum, alert on and bill by; nobody else's number may stand under one
// of them. So a reserved name is marked: "gpu.power.draw" becomes "exported.gpu.power.draw", on pages
// "exported_gpu_power_draw_watts". Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "core/metric_desc.h"

namespace gpulens {

enum class NameOwner : uint8_t {
  kProgram,  // any user's
  kTarget,   // what the configuration or a discovery named
};

// Reserved is what begins with gpulens, what an exposition page spells as it spells a row of the catalogue
// (also where the kinds differ, or as one of its samples), and what Prometheus and its alerts write
// themselves: up, scrape_…, ALERTS. For programs also gpu.…, DCGM_FI_… and hw.…: rows to come, and names
// under which dialects tell GPUs. An exporter's page that somebody has named keeps its own gpu_… families.
// Free is what everybody tells of itself: process.…, target.info.
bool IsReservedName(const MetricDesc& brought, NameOwner owner);

// The name to tell `brought` by.
std::string ExportedName(const MetricDesc& brought, NameOwner owner);

}  // namespace gpulens
